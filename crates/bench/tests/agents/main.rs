//! Agents and their coordinator over loopback, with engines that count at a known rate.

mod engine;
mod handshakes;
#[path = "../support/job.rs"]
mod job;
mod loads;
mod losses;

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bench::agent::{Agent, Now, Remote, Token, serve, wall_clock};
use bench::engine::{Caller, Job};
use report::scenario::Work;

use engine::{Fake, Seen};

pub struct Fixture {
    agent: Option<Agent>,
    pub address: String,
    pub seen: Arc<Seen>,
}

pub fn token() -> Token {
    "the token of these tests".parse().unwrap()
}

impl Fixture {
    pub fn start() -> Self {
        Self::with_clock(wall_clock)
    }

    pub fn with_clock(now: Now) -> Self {
        let seen = Arc::<Seen>::default();
        let engines = Arc::clone(&seen);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let make = Box::new(move |target: &str, _: &Caller| Fake::open(target, now, Arc::clone(&engines)));
        let agent = serve(listener, token(), make, now).unwrap();
        Self { address: agent.address().to_string(), agent: Some(agent), seen }
    }

    pub fn remote(&self, target: &str) -> Remote {
        let mut remote = Remote::connect(&self.address, &token()).unwrap();
        remote.open(target, &Caller::default()).unwrap();
        remote
    }

    /// Waits until the agent has noticed the end of the last coordinator.
    pub fn next_remote(&self, target: &str) -> Remote {
        let mut last = None;
        wait_until("the agent takes the next coordinator", || {
            last = Remote::connect(&self.address, &token()).ok();
            last.is_some()
        });
        let mut remote = last.unwrap();
        remote.open(target, &Caller::default()).unwrap();
        remote
    }

    pub fn stop(&mut self) {
        self.agent.take().into_iter().for_each(Agent::stop);
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Leaves time for a machine that stands still for a second.
pub fn soon() -> u64 {
    wall_clock() + 1_500_000_000
}

#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < patience, "not within ten seconds: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

pub fn job() -> Job {
    Job {
        clients_total: 3,
        first_client: 1,
        jobs: 2,
        depth: 4,
        rate: Some(12.5),
        repetition: 2,
        seed: u64::MAX,
        ..job::job(Work::Transfers)
    }
}
