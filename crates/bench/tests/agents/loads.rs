//! Loads on agents: beginning, window, counts, end.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use bench::agent::wall_clock;
use bench::engine::{Caller, Control, Engine};
use report::result::Part;

use crate::engine::{BYTES, OPS_PER_MS};
use crate::{Fixture, job, soon, wait_until};

/// One correct, one ahead, one behind.
const CLOCKS: [fn() -> u64; 3] =
    [wall_clock, || wall_clock() + 3_000_000_000, || wall_clock() - 7_777_000_000];

/// Runs a load that begins at `begin`, evaluated after preparation. The window covers the second after the
/// first one, and is set after `told_ms`.
fn run(fixture: &Fixture, target: &str, begin: fn() -> u64, told_ms: u64) -> Result<Part, String> {
    let mut remote = fixture.remote(target);
    remote.prepare(&job(), &mut |_| Ok(())).map_err(|wrong| wrong.to_string())?;
    let control = Control::new(begin());
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(told_ms));
            control.set_window(1, 1);
        });
        remote.run(&control).map_err(|wrong| wrong.to_string())
    })
}

#[test]
fn three_agents_begin_and_end_within_a_millisecond() {
    let fixtures = CLOCKS.map(Fixture::with_clock);
    let mut remotes = fixtures.each_ref().map(|fixture| fixture.remote("steady"));
    remotes.iter_mut().for_each(|remote| remote.prepare(&job(), &mut |_| Ok(())).unwrap());
    // A busy machine may be late; the agents say so then. It is not late every time.
    let mut late = Vec::new();
    for _ in 0..8 {
        let control = Control::new(soon());
        let parts = thread::scope(|scope| {
            let running = remotes.each_mut().map(|remote| scope.spawn(|| remote.run(&control).unwrap()));
            thread::sleep(Duration::from_millis(2000));
            control.set_window(3, 1);
            running.map(|running| running.join().unwrap())
        });
        for part in &parts {
            let planned = (control.begin + 3_000_000_000) as f64 / 1e9;
            // In the coordinator's time, whatever the agent's clock says.
            assert!((part.started - planned).abs() < 0.005, "{} {planned}", part.started);
            assert_eq!((part.seconds, part.operations[0].ops), (1.0, 1000 * OPS_PER_MS));
        }
        let counted = control.second(3);
        assert_eq!(
            counted,
            (3000 * OPS_PER_MS, 3000 * OPS_PER_MS * BYTES),
            "all three, in the coordinator's count"
        );
        let doubts: Vec<_> = parts.into_iter().flat_map(|part| part.caveats).collect();
        if doubts.is_empty() {
            return;
        }
        late.push(doubts);
    }
    panic!("never within a millisecond: {late:?}");
}

#[test]
fn late_agent_reports_it() {
    let fixture = Fixture::start();
    let part = run(&fixture, "late", soon, 500).unwrap();
    let texts: Vec<_> = part.caveats.iter().map(|doubt| doubt.text.as_str()).collect();
    assert!(
        texts.iter().any(|text| text.contains(&fixture.address) && text.contains(" began ")),
        "{texts:?}"
    );
}

#[test]
fn window_that_comes_late_is_an_error() {
    let fixture = Fixture::start();
    let said = run(&fixture, "steady", soon, 2700).unwrap_err();
    assert!(said.contains(&fixture.address) && said.contains("the window came"), "{said}");
    assert_eq!(fixture.seen.running.load(Ordering::SeqCst), 0);
}

#[test]
fn window_may_have_to_be_known_before() {
    let fixture = Fixture::start();
    let said = run(&fixture, "early", soon, 2500).unwrap_err();
    assert!(said.contains("must know its window before"), "{said}");
    let mut remote = fixture.next_remote("early");
    assert!(!remote.accepts_late_window());
    let [start, length] = [250, 500].map(Duration::from_millis);
    let control = Control::with_window(soon(), start, length);
    let part = remote.run(&control).unwrap();
    assert_eq!((part.seconds, part.operations[0].ops), (0.5, 500 * OPS_PER_MS));
}

#[test]
fn beginning_that_has_passed_is_an_error() {
    let fixture = Fixture::start();
    let said = run(&fixture, "steady", || wall_clock() - 1_000_000, 0).unwrap_err();
    assert!(said.contains("before the agent heard of it"), "{said}");
}

#[test]
fn agent_error_is_returned_verbatim() {
    for (target, wanted) in [
        ("fail", "CREATE f: the server answered NOSPC"),
        ("panic", "the engine panicked"),
        ("huge", "it may have 64 MiB"),
    ] {
        let fixture = Fixture::start();
        let said = run(&fixture, target, soon, 0).unwrap_err();
        assert!(said.contains(wanted) && said.contains(&fixture.address), "{said}");
    }
    let fixture = Fixture::start();
    let mut remote = fixture.remote("steady");
    assert!(
        remote.open("none", &Caller::default()).unwrap_err().to_string().contains("\"none\" is not a target")
    );
}

#[test]
fn coordinator_stops_its_load() {
    let fixture = Fixture::start();
    let mut remote = fixture.remote("steady");
    remote.prepare(&job(), &mut |_| Ok(())).unwrap();
    let control = Control::new(soon());
    thread::scope(|scope| {
        let running = scope.spawn(|| remote.run(&control));
        wait_until("counts come while it runs", || control.second(0).0 > 0);
        assert_eq!(fixture.seen.running.load(Ordering::SeqCst), 1);
        control.stop();
        assert!(matches!(running.join().unwrap(), Err(bench::Error::Stopped)));
    });
    assert_eq!(fixture.seen.running.load(Ordering::SeqCst), 0);
    assert_eq!(remote.facts().unwrap().generator, "fake", "it is there for the next one");
}
