//! Counters of a running service, read several times.

use envelope::Access;
use report::document::table::separated;

use super::observed::Observed;
use super::traffic::{Interval, observed};
use crate::error::Error;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Since any epoch, equal for all readings.
    pub at_s: f64,
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub others: u64,
    /// Microseconds of all reads and writes, if counted.
    pub us: Option<u64>,
    pub clients: Option<u32>,
    pub connections: Option<u32>,
}

/// The peak load between successive readings; `source` names them.
///
/// # Errors
/// There are fewer than two readings, no time passed between two readings, a counter went backwards, or no
/// data moved.
pub fn sampled(source: &str, samples: &[Counters], pattern: Option<Access>) -> Result<Observed, Error> {
    all(source, samples, pattern).map_err(|wrong| Error::Plan(format!("{source}: {wrong}")))
}

fn all(source: &str, samples: &[Counters], pattern: Option<Access>) -> Result<Observed, String> {
    let [first, .., last] = samples else {
        return Err(format!("its counters were read {} times; allowed: twice or more often", samples.len()));
    };
    let pairs = samples.windows(2);
    let intervals = pairs.map(|pair| pair[1].since(&pair[0])).collect::<Result<Vec<_>, _>>()?;
    let over = separated(last.at_s - first.at_s, 0);
    let mut observed = observed(format!("{source} over {over} s"), &intervals, pattern)?;
    // The maximum over all readings: the peak needed no more.
    observed.clients = samples.iter().filter_map(|sample| sample.clients).max().filter(|count| *count > 0);
    let connections = samples.iter().filter_map(|sample| sample.connections).max().filter(|count| *count > 0);
    observed.connections = connections.zip(observed.clients).map(|(all, clients)| all.div_ceil(clients));
    Ok(observed)
}

impl Counters {
    pub(super) fn since(&self, before: &Self) -> Result<Interval, String> {
        let seconds = self.at_s - before.at_s;
        if seconds.is_nan() || seconds <= 0.0 {
            return Err(format!(
                "{seconds:.0} s passed between two samples; allowed: samples in their order, and no new beginning between \
                 them"
            ));
        }
        let more = |now: u64, before: u64| {
            now.checked_sub(before).map(|more| more as f64).ok_or(
                "its counters went backwards, so they began anew (a restart, a new mount), or the later samples come first; \
                 allowed: samples in their order, and no new beginning between them",
            )
        };
        Ok(Interval {
            seconds,
            reads: more(self.reads, before.reads)?,
            read_bytes: more(self.read_bytes, before.read_bytes)?,
            writes: more(self.writes, before.writes)?,
            written_bytes: more(self.written_bytes, before.written_bytes)?,
            others: more(self.others, before.others)?,
            us: self.us.zip(before.us).map(|(now, before)| more(now, before)).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use envelope::{Bytes, BytesPerSecond, Stream};

    /// Reads of 64 KiB and writes of 4 KiB, 100 µs each.
    fn at(at_s: f64, reads: u64, writes: u64) -> Counters {
        Counters {
            at_s,
            reads,
            read_bytes: reads << 16,
            writes,
            written_bytes: writes << 12,
            us: Some((reads + writes) * 100),
            ..Counters::default()
        }
    }

    fn refused(samples: &[Counters]) -> String {
        sampled("volume v1", samples, None).unwrap_err().to_string()
    }

    #[test]
    fn peak_of_a_row_counts_and_its_average_is_by_time() {
        let mut samples = [at(0.0, 0, 50), at(10.0, 1000, 50), at(40.0, 1000, 50), at(50.0, 1500, 60)];
        samples[1].clients = Some(3);
        samples[1].connections = Some(8);
        samples[3].clients = Some(2);
        let found = sampled("volume v1", &samples, None).unwrap();
        let wanted = Stream {
            access: Access::Sequential,
            block: Bytes(1 << 16),
            read_thousandths: 1000,
            rate: BytesPerSecond(100 << 16),
        };
        assert_eq!(
            (found.streams.as_slice(), found.source.as_str()),
            ([wanted].as_slice(), "volume v1 over 50 s")
        );
        // 1,500 reads in 50 s of 100/s, and a little that was written.
        assert_eq!((found.average_percent, found.latency_us), (Some(31), Some(100)));
        assert_eq!((found.clients, found.connections, found.protocol), (Some(3), Some(3), None));
    }

    #[test]
    fn two_samples_have_no_average_and_kinds_of_their_own() {
        let found = sampled("v", &[at(5.0, 0, 0), at(5.5, 100, 200)], None).unwrap();
        assert_eq!(found.average_percent, None);
        let kinds: Vec<_> = found.streams.iter().map(|one| (one.access, one.iops().0)).collect();
        assert_eq!(kinds, [(Access::Sequential, 200), (Access::Random, 400)]);
        assert!(
            found.notes[0].contains("sequential reads of 64.0 KiB and random writes of 4.0 KiB"),
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn rows_that_cannot_be_are_refused() {
        for (samples, part) in [
            (vec![], "twice or more often"),
            (vec![at(0.0, 1, 1)], "twice or more often"),
            (vec![at(1.0, 1, 1), at(1.0, 2, 2)], "0 s passed"),
            (vec![at(1.0, 5, 1), at(2.0, 4, 1)], "went backwards"),
            (vec![at(1.0, 5, 1), at(2.0, 5, 1)], "nothing was read or written"),
        ] {
            let wrong = refused(&samples);
            assert!(wrong.starts_with("volume v1: ") && wrong.contains(part), "{wrong}");
        }
    }
}
