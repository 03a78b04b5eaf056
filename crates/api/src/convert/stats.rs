//! Counters of volumes.

use api_client::model::{Counted, Interval};
use vfs::qos::{Kind, Throttled};
use vfs::volume::traffic::{INTERVALS, OperationCounts};

/// The counters of one kind of operation, from a volume's traffic and its gate.
pub(crate) fn counted(kind: Kind, counts: &OperationCounts, throttled: &Throttled) -> Counted {
    let ends = (0..INTERVALS).map(|interval| (interval + 1 < INTERVALS).then(|| 1_u64 << interval));
    let intervals = ends.zip(counts.intervals).filter(|(_, operations)| *operations > 0);
    Counted {
        operations: counts.ops,
        bytes: counts.bytes,
        time_ns: counts.nanos,
        intervals: intervals.map(|(up_to_us, operations)| Interval { up_to_us, operations }).collect(),
        throttled_calls: throttled.calls[kind.index()],
        throttled_ns: throttled.waited[kind.index()].0,
    }
}
