//! Messages between coordinator and agent. Times are nanoseconds, by default since 1970 by the agent's clock.

use report::result::{Machine, Part, TargetFacts};
use serde::{Deserialize, Serialize};

use crate::job::Caller;
use crate::job::Control;
use crate::job::{Job, LayoutProgress};

/// Messages until both sides are authenticated.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(super) enum Handshake {
    /// Sent by each side, first by the coordinator.
    Hello(Hello),
    Proof {
        mac: String,
    },
    /// The agent's proof, and its machine.
    Welcome {
        mac: String,
        machine: Machine,
    },
    /// Sent by the agent at any point, with the reason.
    Refused {
        why: String,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: String,
    pub(super) version: u32,
    pub(super) program: String,
    pub(super) nonce: String,
}

pub(super) const PROTOCOL: &str = "plimsoll-agent";

/// Messages from the coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(super) enum Request {
    /// Requests an engine for this target and user; answered by `Opened`.
    Open {
        target: String,
        caller: Caller,
    },
    Facts,
    /// Answered by `Progress`, repeatedly, and `Prepared`.
    Prepare {
        job: Box<Job>,
    },
    /// Requests a load that begins at `begin`; answered by `Live`, repeatedly, and `Ran`.
    Run {
        begin: u64,
        window: Option<Window>,
    },
    /// The window of the running load.
    Window(Window),
    /// Ends the running load, or its preparation.
    Stop,
    Clear,
    /// Answered by `Pong` at once. `asked` is a time by the coordinator's clock, for its own use.
    Ping {
        asked: u64,
    },
}

/// The measurement window, relative to the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Messages from the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(super) enum AgentMessage {
    Opened {
        takes_window_late: bool,
    },
    Facts {
        facts: Box<TargetFacts>,
    },
    Progress(LayoutProgress),
    Prepared,
    /// Progress since the last report: second after the beginning, operations, bytes.
    Live {
        seconds: Vec<(usize, u64, u64)>,
    },
    /// The result, and the actual beginning and end if the engine reports them.
    Ran {
        part: Box<Part>,
        began: Option<u64>,
        ended: Option<u64>,
    },
    Cleared,
    /// The error of a request.
    Failed {
        why: String,
    },
    /// The time of the question by the coordinator's clock, and of receipt and answer by the agent's.
    Pong {
        asked: u64,
        heard: u64,
        answered: u64,
    },
    /// The end of the agent, with the reason.
    Bye {
        why: String,
    },
}

impl Window {
    pub(super) fn of(control: &Control) -> Option<Self> {
        let (start, end) = control.window();
        (start != u64::MAX).then_some(Self { start, end })
    }
}
