//! An observed load, and the selection among several.

use envelope::{Access, Bytes, BytesPerSecond, Protocol, Stream};

/// A load as a source recorded it. The user supplies values that the source lacks (`None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub source: String,
    pub streams: Vec<Stream>,
    /// The average in percent of the peak, by data. Needs several intervals.
    pub average_percent: Option<u32>,
    pub clients: Option<u32>,
    pub connections: Option<u32>,
    /// The mean time of an operation in the source, in microseconds. Not a requirement.
    pub latency_us: Option<u64>,
    pub protocol: Option<Protocol>,
    pub working_set: Option<Bytes>,
    /// Guesses and omissions, one sentence each.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// A run's cell or fio's group, from 1.
    pub cell: Option<usize>,
    pub mount: Option<String>,
    /// Earlier counters of the same mount, as text of `/proc/self/mountstats`. The load is the difference.
    pub since: Option<String>,
    /// For sources without a pattern.
    pub pattern: Option<Access>,
}

/// A load with its name, or the reason why the load is unusable.
pub(super) struct Candidate<T> {
    pub(super) label: String,
    pub(super) load: Result<T, String>,
}

/// Candidate `number`, from 1, or the only usable one. Also returns its name. `what` names the candidates in
/// the plural.
pub(super) fn select<T>(
    what: &str,
    candidates: Vec<Candidate<T>>,
    number: Option<usize>,
) -> Result<(String, T), String> {
    let numbered = || (1..).zip(&candidates).filter(|(_, one)| one.load.is_ok());
    let list: Vec<String> = numbered().map(|(number, one)| format!("\n  {number}: {}", one.label)).collect();
    let index = match (number, numbered().next(), list.len()) {
        (Some(number), ..) => number.checked_sub(1),
        (None, None, _) => {
            let why = candidates.iter().find_map(|one| Some((&one.label, one.load.as_ref().err()?)));
            let why = why.map_or("it is empty".to_owned(), |(label, wrong)| format!("{label}: {wrong}"));
            return Err(format!("none of its {what} can be sized; {why}"));
        }
        (None, Some((only, _)), 1) => Some(only - 1),
        (None, ..) => {
            return Err(format!("it has {} {what}; say which with --cell N:{}", list.len(), list.concat()));
        }
    };
    match index.and_then(|index| candidates.into_iter().nth(index)) {
        Some(Candidate { label, load: Ok(load) }) => Ok((label, load)),
        Some(Candidate { label, load: Err(wrong) }) => Err(format!("{label}: {wrong}")),
        None => Err(format!("it has no such load; allowed for --cell:{}", list.concat())),
    }
}

/// Reads and writes in operations of one size. `None` if both are zero.
pub(super) fn stream(access: Access, block: u64, read: f64, written: f64) -> Option<Stream> {
    let rate = whole(read + written);
    let thousandths = u32::try_from(whole(1e3 * read / (read + written))).unwrap_or(1000);
    (rate > 0 && block > 0).then_some(Stream {
        access,
        block: Bytes(block),
        read_thousandths: thousandths,
        rate: BytesPerSecond(rate),
    })
}

pub(super) fn rates(bytes_per_s: f64, ops_per_s: f64) -> String {
    use report::document::table::separated;
    let mib = bytes_per_s / f64::from(1 << 20);
    format!("{} MiB/s, {} operations/s", separated(mib, usize::from(mib < 100.0)), separated(ops_per_s, 0))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates and times, which end at the ends of the type"
)]
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}
