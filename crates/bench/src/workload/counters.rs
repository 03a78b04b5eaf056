//! Counters of a service that runs, read several times.

use envelope::Access;

use super::Observed;
use super::traffic::{Interval, observed};
use crate::Error;
use crate::report::table::separated;

/// What a service has counted for a volume at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Seconds since any beginning, the same for all of a row.
    pub at_s: f64,
    /// Reads.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Operations that are neither.
    pub others: u64,
    /// Microseconds that reads and writes took together, where that is counted.
    pub us: Option<u64>,
    /// Clients now, where they are known.
    pub clients: Option<u32>,
    /// Connections of all of them now, where they are known.
    pub connections: Option<u32>,
}

/// The load between counters that were read one after the other, at its peak; `source` says whose they are.
///
/// # Errors
/// There are fewer than two; no time passed between two of them; counters went backwards; no data was moved.
pub fn sampled(source: &str, samples: &[Counters], pattern: Option<Access>) -> Result<Observed, Error> {
    all(source, samples, pattern).map_err(|wrong| Error::Plan(format!("{source}: {wrong}")))
}

fn all(source: &str, samples: &[Counters], pattern: Option<Access>) -> Result<Observed, String> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Err("its counters were never read; allowed: twice or more often".to_owned());
    };
    let pairs = samples.windows(2);
    let intervals = pairs.map(|pair| pair[1].since(&pair[0])).collect::<Result<Vec<_>, _>>()?;
    let over = separated(last.at_s - first.at_s, 0);
    let mut observed = observed(format!("{source} over {over} s"), &intervals, pattern)?;
    // Who was there at any time counts: what the peak needed was not more.
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
