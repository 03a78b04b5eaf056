//! Messages between coordinator and agent. Times are nanoseconds, by default since 1970 by the agent's clock.

use report::result::{Machine, Part, TargetFacts};
use serde::{Deserialize, Serialize};

use crate::job::Caller;
use crate::job::Control;
use crate::job::Job;

/// Messages until both sides are authenticated.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(super) enum Handshake {
    /// From each side, first the coordinator.
    Hello(Hello),
    /// The coordinator knows the token.
    Proof { mac: String },
    /// The agent's proof, and its machine.
    Welcome { mac: String, machine: Machine },
    /// From the agent, at any point: not with you, and why.
    Refused { why: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// [`PROTOCOL`].
    pub(super) protocol: String,
    /// [`super::VERSION`].
    pub(super) version: u32,
    /// The program's version.
    pub(super) program: String,
    /// 32 random bytes in hexadecimal.
    pub(super) nonce: String,
}

/// The protocol's name in a [`Hello`].
pub(super) const PROTOCOL: &str = "plimsoll-agent";

/// From the coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(super) enum Request {
    /// Make an engine for this target that calls as this user; answered by `Opened`.
    Open { target: String, caller: Caller },
    /// Answered by `Facts`.
    Facts,
    /// Answered by `Progress`, again and again, and `Prepared`.
    Prepare { job: Box<Job> },
    /// Begin then; answered by `Live`, again and again, and `Ran`.
    Run { begin: u64, window: Option<Window> },
    /// While it runs: where the window is.
    Window(Window),
    /// While it runs: end it.
    Stop,
    /// Answered by `Cleared`.
    Clear,
    /// At any time; answered by `Pong` at once. `asked` is by the coordinator's clock, for its own use.
    Ping { asked: u64 },
}

/// The measurement window, relative to the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// From the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(super) enum Answer {
    Opened {
        takes_window_late: bool,
    },
    Facts {
        facts: Box<TargetFacts>,
    },
    /// The share done.
    Progress {
        done: f64,
    },
    Prepared,
    /// Progress since the last report: second after the beginning, operations, bytes.
    Live {
        seconds: Vec<(usize, u64, u64)>,
    },
    /// The result; when the load really began and ended after the beginning, as far as the engine tells.
    Ran {
        part: Box<Part>,
        began: Option<u64>,
        ended: Option<u64>,
    },
    Cleared,
    /// In place of any of these.
    Failed {
        why: String,
    },
    /// When the question was asked by the coordinator's clock, heard and answered by the agent's.
    Pong {
        asked: u64,
        heard: u64,
        answered: u64,
    },
    /// The agent ends, and why.
    Bye {
        why: String,
    },
}

impl Window {
    /// The window of a load, if it is known yet.
    pub(super) fn of(control: &Control) -> Option<Self> {
        let (start, end) = control.window();
        (start != u64::MAX).then_some(Self { start, end })
    }
}
