//! What nfsiostat of nfs-utils prints: for each mount, once or in intervals, rates of reads and writes.

use envelope::Access;

use super::mountstats::{ONE_CLIENT, place};
use super::traffic::{Interval, observed};
use super::{Observed, Pick};
use crate::mountstats::unescaped;

/// Columns of `read:` and `write:` in every version; newer ones have more.
const COLUMNS: usize = 6;

/// The rates of one mount in one interval.
struct Report {
    at: String,
    interval: Interval,
    /// Operations of all kinds.
    all: f64,
    has: Has,
}

/// Which lines were there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Has {
    reads: bool,
    writes: bool,
}

pub(super) fn read(text: &str, pick: &Pick) -> Result<Observed, String> {
    let reports = reports(text)?;
    let at = place(reports.iter().map(|report| report.at.as_str()).collect(), pick.mount.as_deref())?;
    let of_mount: Vec<&Report> = reports.iter().filter(|report| report.at == at).collect();
    if of_mount.iter().any(|report| report.has != Has { reads: true, writes: true }) {
        return Err(format!(
            "the lines read: and write: of {at} are missing or cut off; allowed: whole reports, made without --attr and --dir"
        ));
    }
    // The first one is of the whole time since the file system was mounted.
    let (first, rest) = of_mount.split_first().ok_or("it has no report")?;
    let mut notes = vec![if rest.is_empty() {
        "It is the average since the file system was mounted, and no peak: `nfsiostat 10 60` tells of intervals.".to_owned()
    } else {
        "The first report is left out: it is of the whole time since the file system was mounted.".to_owned()
    }];
    let used = if rest.is_empty() { std::slice::from_ref(first) } else { rest };
    let intervals: Vec<Interval> = used.iter().map(|report| report.interval()).collect::<Result<_, _>>()?;
    let source = match intervals.len() {
        1 => format!("nfsiostat of {at}"),
        count => format!("nfsiostat of {at}, {count} intervals"),
    };
    let mut observed = observed(source, &intervals, pick.pattern)?;
    notes.append(&mut observed.notes);
    let counts_few =
        of_mount.iter().any(|report| report.all < report.interval.reads + report.interval.writes);
    if counts_few || pick.pattern == Some(Access::Eda) {
        notes.push(
            "Of operations that are neither reads nor writes nfsiostat counts those of one connection: with nconnect there \
             are more; /proc/self/mountstats has all."
                .to_owned(),
        );
    }
    notes.push("nfsiostat counts whole calls: some 250 B an operation are no data.".to_owned());
    notes.push(ONE_CLIENT.to_owned());
    Ok(Observed { clients: Some(1), notes, ..observed })
}

impl Report {
    fn interval(&self) -> Result<Interval, String> {
        let Interval { reads, read_bytes, writes, written_bytes, us, .. } = self.interval;
        let figures = [reads, read_bytes, writes, written_bytes, us.unwrap_or(0.0), self.all];
        if figures.iter().any(|figure| *figure < 0.0) {
            return Err(format!(
                "a rate of {} is negative: its counters went backwards, so it was mounted anew; allowed: intervals after that",
                self.at
            ));
        }
        // With several connections it counts the operations of the last of them only.
        Ok(Interval { others: (self.all - reads - writes).max(0.0), ..self.interval })
    }
}

/// Every report of every mount.
fn reports(text: &str) -> Result<Vec<Report>, String> {
    let mut reports: Vec<Report> = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some((_, at)) = line.strip_suffix(':').and_then(|line| line.split_once(" mounted on ")) {
            let interval = Interval { seconds: 1.0, us: Some(0.0), ..Interval::default() };
            reports.push(Report { at: unescaped(at), interval, all: 0.0, has: Has::default() });
            continue;
        }
        let Some(report) = reports.last_mut() else { continue };
        if line.starts_with("read:") || line.starts_with("write:") || line.starts_with("op") {
            report.add(line, lines.next().unwrap_or(""))?;
        }
    }
    Ok(reports)
}

impl Report {
    /// Takes the values below a heading.
    fn add(&mut self, heading: &str, line: &str) -> Result<(), String> {
        // Shares in brackets belong to the count before them.
        let words = line.split_ascii_whitespace().filter(|word| !word.starts_with('('));
        let values: Option<Vec<f64>> =
            words.map(|word| word.parse().ok().filter(|value: &f64| value.is_finite())).collect();
        let wanted = if heading.starts_with("op") { 1 } else { COLUMNS };
        let values = values.filter(|values| values.len() >= wanted).ok_or_else(|| {
            format!(
                "\"{line}\" below \"{heading}\" of {} is cut off, or no numbers; allowed: whole reports",
                self.at
            )
        })?;
        let &[ops, kilobytes, _, _, _, exe_ms, ..] = values.as_slice() else {
            self.all = values[0];
            return Ok(());
        };
        let unit = if heading.contains("MB/s") { f64::from(1 << 20) } else { 1024.0 };
        let interval = &mut self.interval;
        if heading.starts_with("read:") {
            (interval.reads, interval.read_bytes, self.has.reads) = (ops, kilobytes * unit, true);
        } else {
            (interval.writes, interval.written_bytes, self.has.writes) = (ops, kilobytes * unit, true);
        }
        interval.us = interval.us.map(|us| us + exe_ms * 1e3 * ops);
        Ok(())
    }
}
