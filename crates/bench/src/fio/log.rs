//! fio's logs, and the operations in each second.

use std::fs;
use std::path::Path;

use report::result::Second;

use crate::error::Error;

/// Milliseconds between lines of the logs (`log_avg_msec`).
pub(crate) const LOG_MS: u64 = 1000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    ops: Vec<Track>,
    bytes: Vec<Track>,
}

/// One job in one direction. Each rate has its end time, in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
struct Track {
    is_write: bool,
    rates: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
}

impl Rates {
    /// Reads the logs with this prefix (`write_iops_log`, `write_bw_log`).
    ///
    /// # Errors
    /// The logs cannot be read.
    pub(crate) fn read(directory: &Path, prefix: &str) -> Result<Self, Error> {
        let mut rates = Self::default();
        let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        for entry in entries.map_err(Error::io("list fio's logs"))? {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(rest) = name.strip_prefix(prefix) else { continue };
            let text = || fs::read_to_string(entry.path()).map_err(Error::io("read fio's logs"));
            if rest.starts_with("_iops.") {
                rates.ops.extend(tracks(&text()?, 1));
            } else if rest.starts_with("_bw.") {
                rates.bytes.extend(tracks(&text()?, 1024));
            }
        }
        Ok(rates)
    }

    /// In milliseconds since 1970.
    pub(crate) fn start_ms(&self) -> Option<u64> {
        let first = self.ops.iter().filter_map(|track| track.rates.first());
        first.map(|(until, _)| until.saturating_sub(LOG_MS)).min()
    }

    /// Scales the seconds of a window so that their sums are `totals`: the logs contain rates at steps of
    /// about a second.
    pub(crate) fn seconds(&self, start_ms: u64, length_s: f64, totals: Totals) -> Vec<Second> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a window's seconds")]
        let count = (length_s.round() as usize).max(1);
        let share = |tracks: &[Track], is_write: bool, total: u64| {
            let tracks: Vec<&Track> = tracks.iter().filter(|track| track.is_write == is_write).collect();
            split_total(count, total, |second| {
                let until = start_ms + u64::try_from(second).unwrap_or(0) * 1000;
                tracks.iter().map(|track| track.done(start_ms, until)).sum()
            })
        };
        let (reads, writes) = (share(&self.ops, false, totals.reads), share(&self.ops, true, totals.writes));
        let read_bytes = share(&self.bytes, false, totals.read_bytes);
        let write_bytes = share(&self.bytes, true, totals.write_bytes);
        let second = |at: usize| Second {
            reads: reads[at],
            read_bytes: read_bytes[at],
            writes: writes[at],
            write_bytes: write_bytes[at],
            others: 0,
        };
        (0..count).map(second).collect()
    }
}

impl Track {
    /// The count from the start until `until_ms`. The last rate continues.
    fn done(&self, start_ms: u64, until_ms: u64) -> f64 {
        let (mut from, mut done) = (start_ms, 0.0);
        for (at, (until, rate)) in self.rates.iter().enumerate() {
            let is_last = at + 1 == self.rates.len();
            let until = if is_last { until_ms } else { (*until).min(until_ms) };
            done += until.saturating_sub(from) as f64 / 1000.0 * *rate as f64;
            from = from.max(until);
        }
        done
    }
}

/// The sums of the first parts follow `done`. The last part gets the rest.
fn split_total(parts: usize, total: u64, done: impl Fn(usize) -> f64) -> Vec<u64> {
    let mut before = 0;
    let mut part = |number: usize| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let reached =
            if number == parts { total } else { (done(number).round() as u64).clamp(before, total) };
        reached - std::mem::replace(&mut before, reached)
    };
    (1..=parts).map(&mut part).collect()
}

/// Parses lines `time, value, direction, block size, …`. Values are in `unit`.
fn tracks(text: &str, unit: u64) -> Vec<Track> {
    let mut both = [Track::default(), Track { is_write: true, ..Track::default() }];
    for line in text.lines() {
        let mut numbers = line.split(',').map_while(|number| number.trim().parse::<u64>().ok());
        if let (Some(until), Some(rate), Some(direction @ (0 | 1))) =
            (numbers.next(), numbers.next(), numbers.next())
        {
            both[usize::from(direction == 1)].rates.push((until, rate * unit));
        }
    }
    both.into_iter().filter(|track| !track.rates.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_those_of_the_window_and_add_up() {
        let ops =
            tracks("11000, 100, 0, 0, 0\n11000, 10, 1, 0, 0\n12100, 200, 0, 0, 0\n12100, 20, 1, 0, 0\n", 1);
        let bytes = tracks("11000, 4, 0, 0, 0, 7\n12100, 8, 0, 0, 0, 7\n", 1024);
        let rates = Rates { ops, bytes };
        assert_eq!(rates.start_ms(), Some(10_000));
        let totals = Totals { reads: 333, read_bytes: 13_000, writes: 31, write_bytes: 500 };
        let seconds = rates.seconds(10_000, 2.1, totals);
        let sums = [100, 233, 10, 21, 4096, 8904];
        let found = [
            seconds[0].reads,
            seconds[1].reads,
            seconds[0].writes,
            seconds[1].writes,
            seconds[0].read_bytes,
            seconds[1].read_bytes,
        ];
        assert_eq!((found, seconds.len(), seconds[1].write_bytes), (sums, 2, 500));
    }

    #[test]
    fn without_lines_the_last_second_has_all() {
        let totals = Totals { reads: 7, ..Totals::default() };
        let seconds = Rates::default().seconds(0, 0.2, totals);
        assert_eq!(seconds, [Second { reads: 7, ..Second::default() }]);
        // The parts never exceed the total.
        assert_eq!(split_total(3, 10, |_| 99.0), [10, 0, 0]);
    }
}
