//! Lost agents and coordinators.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::Error;
use bench::agent::Remote;
use bench::engine::{Caller, Control, Engine};

use crate::{Fixture, job, soon, token, wait_until};

const PASSES: u8 = 0;
const IS_LOST: u8 = 1;
const WAITS: u8 = 2;

/// A connection between coordinator and agent that a test can cut.
struct Way {
    address: String,
    /// Whether bytes are forwarded, dropped, or delayed.
    fate: Arc<AtomicU8>,
    streams: [TcpStream; 2],
}

impl Way {
    fn connect(agent: &str) -> (Self, Remote) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let far = TcpStream::connect(agent).unwrap();
        let fate = Arc::<AtomicU8>::default();
        let connecting = {
            let address = address.clone();
            thread::spawn(move || Remote::connect(&address, &token()).unwrap())
        };
        let near = listener.accept().unwrap().0;
        for (from, to) in [(&near, &far), (&far, &near)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let fate = Arc::clone(&fate);
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    while fate.load(Ordering::SeqCst) == WAITS {
                        thread::sleep(Duration::from_millis(5));
                    }
                    if fate.load(Ordering::SeqCst) == PASSES && to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
            });
        }
        (Self { address, fate, streams: [near, far] }, connecting.join().unwrap())
    }

    fn delay(&self, time: Duration) {
        self.fate.store(WAITS, Ordering::SeqCst);
        thread::sleep(time);
        self.fate.store(PASSES, Ordering::SeqCst);
    }

    fn reset(&self) {
        self.streams.iter().for_each(|stream| stream.shutdown(Shutdown::Both).unwrap());
    }
}

fn assert_ends(fixture: &Fixture, within: Duration) {
    let begun = Instant::now();
    while fixture.seen.running.load(Ordering::SeqCst) + fixture.seen.open.load(Ordering::SeqCst) > 0 {
        assert!(begun.elapsed() < within, "the load goes on");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a load, calls `happens`, and returns the coordinator's error.
fn lose(remote: &mut Remote, fixture: &Fixture, happens: impl FnOnce()) -> (String, Duration) {
    remote.open("steady", &Caller::default()).unwrap();
    remote.prepare(&job(), &mut |_| Ok(())).unwrap();
    let control = Control::new(soon());
    thread::scope(|scope| {
        let running = scope.spawn(|| remote.run(&control).unwrap_err().to_string());
        wait_until("the load runs", || control.total().0 > 0);
        assert_eq!(fixture.seen.running.load(Ordering::SeqCst), 1);
        let begun = Instant::now();
        happens();
        (running.join().unwrap(), begun.elapsed())
    })
}

#[test]
fn agent_whose_connection_ends_is_lost_at_once() {
    let fixture = Fixture::start();
    let (way, mut remote) = Way::connect(&fixture.address);
    let (said, took) = lose(&mut remote, &fixture, || way.reset());
    assert!(said.contains(&way.address) && said.contains("lost"), "{said}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_ends(&fixture, Duration::from_secs(3));
}

#[test]
fn silence_is_noticed_by_both_sides() {
    let fixture = Fixture::start();
    let (way, mut remote) = Way::connect(&fixture.address);
    let (said, took) = lose(&mut remote, &fixture, || way.fate.store(IS_LOST, Ordering::SeqCst));
    assert!(said.contains(&way.address) && said.contains("no message for 5 s"), "{said}");
    assert!((Duration::from_secs(4)..Duration::from_secs(20)).contains(&took), "{took:?}");
    // The way is still open: the agent notices the silence by itself.
    assert_ends(&fixture, Duration::from_secs(3));
    assert!(remote.facts().is_err(), "it stays lost");
}

#[test]
fn stopped_agent_reports_it() {
    let mut fixture = Fixture::start();
    let mut remote = Remote::connect(&fixture.address, &token()).unwrap();
    let seen = Arc::clone(&fixture.seen);
    let watched = Fixture { agent: None, address: fixture.address.clone(), seen };
    let (said, took) = lose(&mut remote, &watched, || fixture.stop());
    assert!(said.contains("it was told to end") && said.contains(&fixture.address), "{said}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_ends(&fixture, Duration::ZERO);
}

#[test]
fn load_ends_with_its_coordinator() {
    let fixture = Fixture::start();
    let (way, mut remote) = Way::connect(&fixture.address);
    remote.open("steady", &Caller::default()).unwrap();
    remote.prepare(&job(), &mut |_| Ok(())).unwrap();
    let control = Arc::new(Control::new(soon()));
    let watched = Arc::clone(&control);
    thread::spawn(move || remote.run(&watched));
    wait_until("the load runs", || control.total().0 > 0);
    assert_eq!(fixture.seen.running.load(Ordering::SeqCst), 1);
    way.streams[1].shutdown(Shutdown::Both).unwrap();
    assert_ends(&fixture, Duration::from_secs(3));
    // And the next one has it.
    drop(fixture.next_remote("steady"));
}

#[test]
fn preparation_ends_with_a_stop_or_its_coordinator() {
    let fixture = Fixture::start();
    let mut remote = fixture.remote("fills");
    let prepares = || !fixture.seen.jobs.lock().unwrap().is_empty();
    let mut stop = |_| if prepares() { Err(Error::Stopped) } else { Ok(()) };
    let stopped = remote.prepare(&job(), &mut stop);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    // The agent has ended the preparation, and still serves its coordinator.
    assert_eq!(remote.facts().unwrap().target, "fills");
    drop(remote);
    fixture.seen.jobs.lock().unwrap().clear();
    let (way, mut remote) = Way::connect(&fixture.address);
    remote.open("fills", &Caller::default()).unwrap();
    let preparing = thread::spawn(move || remote.prepare(&job(), &mut |_| Ok(())).unwrap_err().to_string());
    wait_until("the agent prepares", || !fixture.seen.jobs.lock().unwrap().is_empty());
    way.reset();
    assert!(preparing.join().unwrap().contains("lost"));
    drop(fixture.next_remote("steady"));
}

#[test]
fn agent_that_still_stops_a_load_reports_it() {
    let fixture = Fixture::start();
    let (way, mut remote) = Way::connect(&fixture.address);
    remote.open("slow", &Caller::default()).unwrap();
    let preparing = thread::spawn(move || remote.prepare(&job(), &mut |_| Ok(())).unwrap_err().to_string());
    wait_until("the agent prepares", || !fixture.seen.jobs.lock().unwrap().is_empty());
    way.reset();
    assert!(preparing.join().unwrap().contains("lost"));
    // As soon as it has noticed, and until the engine is done.
    wait_until("the agent says what it still ends", || {
        let said = Remote::connect(&fixture.address, &token()).unwrap_err().to_string();
        said.contains("still stops the load of the lost coordinator")
    });
    assert_ends(&fixture, Duration::from_secs(6));
}

#[test]
fn slow_agent_has_a_caveat() {
    let fixture = Fixture::start();
    let (way, mut remote) = Way::connect(&fixture.address);
    remote.open("steady", &Caller::default()).unwrap();
    let control = Control::with_window(soon(), Duration::from_secs(1), Duration::from_secs(3));
    let part = thread::scope(|scope| {
        let running = scope.spawn(|| remote.run(&control));
        thread::sleep(Duration::from_millis(2700));
        way.delay(Duration::from_millis(2500));
        running.join().unwrap().unwrap()
    });
    let texts: Vec<_> = part.caveats.iter().map(|doubt| doubt.text.as_str()).collect();
    let told = |before: &str| {
        let seconds = |text: &&str| text.split_once(before)?.1.split_once(" s:")?.0.parse::<f64>().ok();
        texts.iter().find_map(seconds)
    };
    assert!(told(" was silent for ").is_some_and(|seconds| (2.0..5.0).contains(&seconds)), "{texts:?}");
    // What is asked every second waits that much less.
    let answered = told(" took as long to answer as ");
    assert!(answered.is_some_and(|seconds| (1.5..5.0).contains(&seconds)), "{texts:?}");
    assert_eq!(part.operations[0].ops, 3000 * crate::engine::OPS_PER_MS);
}
