//! Output of nfsiostat from nfs-utils: for each mount, once or in intervals, rates of reads and writes.

use envelope::Access;

use super::mountstats::{ONE_CLIENT, place};
use super::observed::{Observed, Pick};
use super::traffic::{Interval, observed};
use crate::mountstats::unescaped;

/// Columns of `read:` and `write:` in every version. Newer versions have more.
const COLUMNS: usize = 6;

const VALUE_MAX: f64 = 1e15;

struct Report {
    at: String,
    interval: Interval,
    all: f64,
    has: Has,
}

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
    // The first report covers the whole time since the mount.
    let (first, rest) = of_mount.split_first().ok_or("it has no report")?;
    let mut notes = vec![if rest.is_empty() {
        "It is the average since the file system was mounted, and no peak: `nfsiostat 10 60` tells of intervals.".to_owned()
    } else {
        "The first report is left out: it covers the whole time since the mount.".to_owned()
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
        // With several connections nfsiostat counts only the operations of the last.
        Ok(Interval { others: (self.all - reads - writes).max(0.0), ..self.interval })
    }
}

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
    fn add(&mut self, heading: &str, line: &str) -> Result<(), String> {
        // Percentages in parentheses belong to the count before them.
        let words = line.split_ascii_whitespace().filter(|word| !word.starts_with('('));
        let values: Option<Vec<f64>> =
            words.map(|word| word.parse().ok().filter(|value: &f64| value.abs() < VALUE_MAX)).collect();
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

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use envelope::{Bytes, BytesPerSecond, Stream};

    /// A report as nfs-utils 2.6 prints it. Reads and writes are (operations, kB, milliseconds).
    fn report(at: &str, all: f64, reads: (f64, f64, f64), writes: (f64, f64, f64)) -> String {
        let line = |name: &str, (ops, kilobytes, ms): (f64, f64, f64)| {
            let each = if ops > 0.0 { kilobytes / ops } else { 0.0 };
            format!(
                "{name:<16}   ops/s            kB/s           kB/op         retrans    avg RTT (ms)    avg exe (ms)  \
                 avg queue (ms)          errors\n\
                 {ops:>24.3}{kilobytes:>16.3}{each:>16.3}        0 (0.0%){:>16.3}{ms:>16.3}{:>16.3}        0 (0.0%)\n",
                ms / 2.0,
                ms / 2.0
            )
        };
        format!(
            "\n10.0.0.7:/data mounted on {at}:\n\n           ops/s       rpc bklog\n{all:>16.3}           0.000\n\n{}{}",
            line("read:", reads),
            line("write:", writes)
        )
    }

    const IDLE: (f64, f64, f64) = (0.0, 0.0, 0.0);

    fn refused(text: &str, pick: &Pick) -> String {
        read("it", text, pick).unwrap_err().to_string()
    }

    fn stream(access: Access, block: u64, read_thousandths: u32, rate: u64) -> Stream {
        Stream { access, block: Bytes(block), read_thousandths, rate: BytesPerSecond(rate) }
    }

    #[test]
    fn peak_of_several_intervals_counts_and_not_the_first_report() {
        let text = [
            report("/mnt", 99_999.0, (9999.0, 9_999_999.0, 1.0), IDLE),
            report("/mnt", 150.0, (100.0, 800.0, 1.0), (50.0, 400.0, 4.0)),
            report("/mnt", 1300.0, (200.0, 1600.0, 1.0), (100.0, 800.0, 4.0)),
            report("/mnt", 0.0, IDLE, IDLE),
        ]
        .concat();
        let found = read("it", &text, &Pick::default()).unwrap();
        assert_eq!(found.streams, [stream(Access::Random, 8192, 667, 2400 << 10)]);
        assert_eq!((found.average_percent, found.latency_us), (Some(50), Some(2000)));
        assert_eq!((found.clients, found.connections, found.protocol), (Some(1), None, None));
        assert_eq!(found.source, "nfsiostat of /mnt, 3 intervals");
        let notes = found.notes.join("\n");
        for part in ["first report is left out", "most data of 3 intervals", "1,000 operations/s are neither"]
        {
            assert!(notes.contains(part), "{notes}");
        }
        let eda = Pick { pattern: Some(Access::Eda), ..Pick::default() };
        let found = read("it", &text, &eda).unwrap();
        assert_eq!(found.streams, [Stream::eda(envelope::Iops(1300))]);
        assert!(found.average_percent == Some(38) && found.notes.join("\n").contains("nconnect"));
    }

    #[test]
    fn single_report_is_an_average() {
        let found = read("it", &report("/mnt", 10.0, (10.0, 10_240.0, 3.0), IDLE), &Pick::default()).unwrap();
        assert_eq!(found.streams, [stream(Access::Sequential, 1 << 20, 1000, 10 << 20)]);
        assert!(found.average_percent.is_none() && found.notes[0].contains("no peak"), "{:?}", found.notes);
    }

    #[test]
    fn older_and_larger_columns_are_read() {
        let old = "10.0.0.7:/data mounted on /a\\040b:\n\n   op/s\t\trpc bklog\n   9.00 \t   0.00\n\
            read:             ops/s\t\t   kB/s\t\t  kB/op\t\tretrans\t\tavg RTT (ms)\tavg exe (ms)\n\
            \t\t  4.000 \t 16.000 \t  4.000 \t       0 (0.0%) \t  2.055 \t  2.500\n\
            write:            ops/s\t\t   kB/s\t\t  kB/op\t\tretrans\t\tavg RTT (ms)\tavg exe (ms)\n\
            \t\t  0.000 \t  0.000 \t  0.000 \t       0 (0.0%) \t  0.000 \t  0.000\nCaught ^C... exiting\n";
        let found = read("it", old, &Pick { mount: Some("/a b".to_owned()), ..Pick::default() }).unwrap();
        assert_eq!(found.streams, [stream(Access::Random, 4096, 1000, 16_384)]);
        assert_eq!(found.latency_us, Some(2500));
        let large = read("it", &old.replace("kB/", "MB/"), &Pick::default()).unwrap();
        assert_eq!(large.streams, [stream(Access::Sequential, 4 << 20, 1000, 16 << 20)]);
    }

    #[test]
    fn mount_is_picked_and_its_reports_must_be_whole() {
        let load = (100.0, 800.0, 1.0);
        let text = report("/a", 100.0, load, IDLE) + &report("/b", 100.0, IDLE, load);
        assert!(refused(&text, &Pick::default()).ends_with("say which with --mount: /a, /b"));
        let picked = read("it", &text, &Pick { mount: Some("/b/".to_owned()), ..Pick::default() }).unwrap();
        assert_eq!(picked.streams, [stream(Access::Random, 8192, 0, 800 << 10)]);
        let cut = |end: &str| refused(&text[..text.find(end).unwrap()], &Pick::default());
        assert!(cut("write:").contains("read: and write: of /a are missing"), "{}", cut("write:"));
        assert!(cut("         800.000").contains("is cut off"), "{}", cut("         800.000"));
        assert!(refused(&text.replace("800.000", "8oo"), &Pick::default()).contains("no numbers"));
        assert!(refused(&text.replace("800.000", "1e300"), &Pick::default()).contains("no numbers"));
    }

    #[test]
    fn intervals_that_decrease_or_are_empty_are_refused() {
        let load = (100.0, 800.0, 1.0);
        let first = report("/a", 100.0, load, IDLE);
        let anew = first.clone() + &first + &report("/a", -90.0, (-99.0, -790.0, 1.0), IDLE);
        assert!(refused(&anew, &Pick::default()).contains("is negative"));
        let idle = first + &report("/a", 3.0, IDLE, IDLE);
        assert!(refused(&idle, &Pick::default()).contains("nothing was read or written, and its 3 other"));
    }
}
