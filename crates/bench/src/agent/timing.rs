//! Checks of an agent's timing against the plan.

use report::result::{Caveat, CaveatKind};

use super::clock::Offset;
use super::limits::{CLOCK_ERROR_MAX, SLOW};
use super::link::Pace;
use super::message::Window;

/// This many seconds in a row without an operation cause a caveat.
const QUIET_S: usize = 3;

/// Planned and actual times of a load. Unless noted, times are nanoseconds after the beginning, by the
/// agent's clock.
#[derive(Debug)]
pub(super) struct Timing {
    /// Since 1970, by the coordinator's clock.
    pub(super) begin: u64,
    pub(super) window: Window,
    /// The first and the last operation.
    pub(super) actual: (Option<u64>, Option<u64>),
    /// Start and end of the actual window.
    pub(super) measured: (f64, f64),
    pub(super) clock: (Offset, Offset),
}

impl Timing {
    pub(super) fn caveats(&self, agent: &str) -> Vec<Caveat> {
        let Window { start, end } = self.window;
        let (began, ended) = self.actual;
        let points = [
            ("began", began.map(|began| (began as f64, 0))),
            ("began its window", Some((self.measured.0, start))),
            ("ended its window", Some((self.measured.1, end))),
            ("ended", ended.map(|ended| (ended as f64, end))),
        ];
        let most = CLOCK_ERROR_MAX.as_secs_f64() * 1e3;
        let late = points.into_iter().filter_map(|(what, point)| {
            let (real, planned) = point?;
            let ms = (real - planned as f64 - self.drift(planned)) / 1e6;
            (ms.abs() > most).then(|| format!("agent {agent} {what} {ms:.1} ms after it was planned"))
        });
        let bound = self.bound() as f64 / 1e6;
        let vague = (bound > most).then(|| {
            format!("the clock of agent {agent} is known to {bound:.1} ms only: when it began is not certain")
        });
        late.chain(vague).map(|text| Caveat::new(CaveatKind::Other, text)).collect()
    }

    /// The drift of the agent's clock `after` nanoseconds after the beginning. Counts from the moment when
    /// the beginning was translated.
    fn drift(&self, after: u64) -> f64 {
        let (before, later) = self.clock;
        before.between(&later, self.begin + after) - before.ahead as f64
    }

    fn bound(&self) -> u64 {
        self.clock.0.bound.max(self.clock.1.bound)
    }
}

pub(super) fn pace_caveats(agent: &str, pace: Pace) -> Vec<Caveat> {
    let points = [("was silent for", pace.silence), ("took as long to answer as", pace.round_trip)];
    let slow = points.into_iter().filter(|(_, time)| *time > SLOW);
    slow.map(|(what, time)| {
        let text = format!("agent {agent} {what} {:.1} s: its machine may be overloaded", time.as_secs_f64());
        Caveat::new(CaveatKind::ClientLimited, text)
    })
    .collect()
}

/// `None` unless the agent reported no operation for several seconds.
pub(super) fn silence_caveat(agent: &str, seconds: &[u64], window: Window) -> Option<Caveat> {
    let [start, end] = [window.start.div_ceil(1_000_000_000), window.end / 1_000_000_000]
        .map(|second| usize::try_from(second).unwrap_or(usize::MAX));
    let has_begun = seconds.iter().any(|&ops| ops > 0);
    let of_window = (start..end).map(|second| seconds.get(second).copied().unwrap_or(0));
    let (longest, _) = of_window.fold((0, 0), |(longest, quiet), ops| {
        let quiet = if ops == 0 { quiet + 1 } else { 0 };
        (longest.max(quiet), quiet)
    });
    (has_begun && longest >= QUIET_S).then(|| {
        let text = format!("agent {agent} told of no operation for {longest} s of the window");
        Caveat::new(CaveatKind::Other, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const SECOND: u64 = 1_000_000_000;
    const WINDOW: Window = Window { start: 2 * SECOND, end: 12 * SECOND };

    fn timing() -> Timing {
        let clock = |at| Offset { ahead: 5_000, bound: 100_000, at };
        Timing {
            begin: 1000 * SECOND,
            window: WINDOW,
            actual: (Some(200_000), Some(12 * SECOND + 900_000)),
            measured: (WINDOW.start as f64, WINDOW.end as f64),
            clock: (clock(999 * SECOND), clock(1013 * SECOND)),
        }
    }

    #[track_caller]
    fn assert_caveat(timing: &Timing, wanted: &str) {
        let caveats = timing.caveats("a:1");
        assert!(caveats.len() == 1 && caveats[0].text.contains(wanted), "{caveats:?}");
    }

    #[test]
    fn deviation_above_a_millisecond_is_a_caveat() {
        assert_eq!(timing().caveats("a:1"), []);
        assert_eq!(Timing { actual: (None, None), ..timing() }.caveats("a:1"), []);
        let ended = timing().actual.1;
        assert_caveat(&Timing { actual: (Some(1_600_000), ended), ..timing() }, "a:1 began 1.6 ms after");
        assert_caveat(&Timing { actual: (None, Some(11 * SECOND)), ..timing() }, "ended -1000.0 ms");
        let measured = (2.0e9, 12.0e9 + 3e6);
        assert_caveat(&Timing { measured, ..timing() }, "ended its window 3.0 ms");
    }

    #[test]
    fn clock_that_drifts_or_is_unknown_is_a_caveat() {
        let mut drifting = timing();
        drifting.clock.1.ahead += 14_000_000;
        // The window was where the agent's own clock had it: 3 and 13 ms too early.
        let caveats = drifting.caveats("a:1");
        let [start, end, ended] = caveats.as_slice() else { panic!("{caveats:?}") };
        assert!(start.text.contains("began its window -3.0 ms"), "{start:?}");
        assert!(end.text.contains("ended its window -13.0 ms"), "{end:?}");
        assert!(ended.text.contains("ended -12.1 ms"), "{ended:?}");
        let mut vague = timing();
        vague.clock.0.bound = 1_500_000;
        assert_caveat(&vague, "known to 1.5 ms only");
    }

    #[test]
    fn slow_agents_have_caveats() {
        let seconds = [9, 9, 9, 9, 0, 0, 9, 9, 9, 9, 9, 9, 0, 0];
        assert_eq!(silence_caveat("a:1", &seconds, WINDOW), None);
        assert!(silence_caveat("a:1", &seconds[..9], WINDOW).unwrap().text.contains("no operation for 3 s"));
        assert_eq!(silence_caveat("a:1", &[], WINDOW), None, "one that never tells");
        let pace = |silence, round_trip| {
            let [silence, round_trip] = [silence, round_trip].map(Duration::from_millis);
            Pace { silence, round_trip, heard: Instant::now() }
        };
        assert_eq!(pace_caveats("a:1", pace(1400, 1400)), []);
        let silent = pace_caveats("a:1", pace(1600, 1));
        assert_eq!((silent.len(), silent[0].kind), (1, CaveatKind::ClientLimited));
        assert_eq!(pace_caveats("a:1", pace(1, 2600)).len(), 1);
    }
}
