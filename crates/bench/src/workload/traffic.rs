//! Loads whose operations and bytes are known. The access pattern is a guess.

use envelope::{Access, Bytes, BytesPerSecond, Iops, Stream};
use report::document::table::separated;

use super::observed::{Observed, rates, stream, whole};

/// Larger operations count as sequential, in bytes.
const SEQUENTIAL_MIN: f64 = 65_536.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Interval {
    pub(super) seconds: f64,
    pub(super) reads: f64,
    pub(super) read_bytes: f64,
    pub(super) writes: f64,
    pub(super) written_bytes: f64,
    pub(super) others: f64,
    /// Microseconds of reads and writes together, if known.
    pub(super) us: Option<f64>,
}

impl Interval {
    fn bytes_per_s(&self) -> f64 {
        (self.read_bytes + self.written_bytes) / self.seconds
    }

    fn data_per_s(&self) -> f64 {
        (self.reads + self.writes) / self.seconds
    }

    fn all_per_s(&self) -> f64 {
        self.data_per_s() + self.others / self.seconds
    }

    /// Access, size and bytes per second. `None` if no data moved.
    fn kind(&self, ops: f64, bytes: f64, pattern: Option<Access>) -> Option<(Access, f64, f64)> {
        let guess = if bytes >= SEQUENTIAL_MIN * ops { Access::Sequential } else { Access::Random };
        (ops > 0.0 && bytes > 0.0).then(|| (pattern.unwrap_or(guess), bytes / ops, bytes / self.seconds))
    }

    fn streams(&self, pattern: Option<Access>) -> Vec<Stream> {
        if pattern == Some(Access::Eda) {
            let stream = Stream::eda(Iops(whole(self.all_per_s())));
            return if stream.rate == BytesPerSecond(0) { Vec::new() } else { vec![stream] };
        }
        let read = self.kind(self.reads, self.read_bytes, pattern);
        let written = self.kind(self.writes, self.written_bytes, pattern);
        let alike = read.zip(written).filter(|(read, written)| {
            let power = |size: f64| whole(size.log2());
            read.0 == written.0 && power(read.1) == power(written.1)
        });
        if let Some(((access, _, read), (_, _, written))) = alike {
            let size = (self.read_bytes + self.written_bytes) / (self.reads + self.writes);
            return stream(access, whole(size), read, written).into_iter().collect();
        }
        let read = read.and_then(|(access, size, rate)| stream(access, whole(size), rate, 0.0));
        let written = written.and_then(|(access, size, rate)| stream(access, whole(size), 0.0, rate));
        read.into_iter().chain(written).collect()
    }
}

/// The interval with the most data, or with the most operations for the EDA mix.
pub(super) fn observed(
    source: String,
    intervals: &[Interval],
    pattern: Option<Access>,
) -> Result<Observed, String> {
    let is_eda = pattern == Some(Access::Eda);
    let rate = |one: &Interval| if is_eda { one.all_per_s() } else { one.bytes_per_s() };
    let peak = intervals.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let peak = peak.ok_or("it has no interval; allowed: one or more")?;
    let streams = peak.streams(pattern);
    if streams.is_empty() {
        let others = separated(peak.all_per_s(), 0);
        return Err(format!(
            "nothing was read or written, and its {others} other operations/s are not sized; allowed: a time with data"
        ));
    }
    let mut notes = notes(peak, &streams, pattern);
    let average_percent = (intervals.len() > 1).then(|| {
        let seconds: f64 = intervals.iter().map(|one| one.seconds).sum();
        let mean = intervals.iter().map(|one| rate(one) * one.seconds).sum::<f64>() / seconds;
        let (by, count) = (if is_eda { "operations" } else { "data" }, intervals.len());
        let rates = rates(peak.bytes_per_s(), peak.all_per_s());
        notes.push(format!("The peak is the one with the most {by} of {count} intervals: {rates}."));
        u32::try_from(whole((100.0 * mean / rate(peak)).ceil())).unwrap_or(100).clamp(1, 100)
    });
    Ok(Observed {
        source,
        streams,
        average_percent,
        clients: None,
        connections: None,
        latency_us: peak.us.map(|us| whole(us / (peak.reads + peak.writes))).filter(|us| *us > 0),
        protocol: None,
        working_set: None,
        notes,
    })
}

fn notes(peak: &Interval, streams: &[Stream], pattern: Option<Access>) -> Vec<String> {
    let mut notes = Vec::new();
    if pattern.is_none() {
        let names: Vec<String> = streams
            .iter()
            .map(|stream| {
                let what = match stream.read_thousandths {
                    1000 => "reads",
                    0 => "writes",
                    _ => "reads and writes",
                };
                format!("{} {what} of {}", stream.access.name(), size(stream.block))
            })
            .collect();
        notes.push(format!(
            "By the mean size of a call (64 KiB and more is sequential) it is guessed that there are {}; clients join small \
             operations to larger calls, and --pattern says what it is.",
            names.join(" and ")
        ));
    }
    let (others, data) = (peak.others / peak.seconds, peak.data_per_s());
    if pattern != Some(Access::Eda) && others > data {
        notes.push(format!(
            "{} operations/s are neither reads nor writes, more than the {} that are; they are not sized.",
            separated(others, 0),
            separated(data, 0)
        ));
    }
    notes
}

fn size(bytes: Bytes) -> String {
    let kib = bytes.0 as f64 / 1024.0;
    format!("{} KiB", separated(kib, usize::from(kib < 100.0)))
}
