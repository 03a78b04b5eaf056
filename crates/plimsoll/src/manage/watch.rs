//! `plimsoll volume watch`: the load of a volume, one line each interval.

use super::connection::Session;
use super::names;
use crate::exit::usage;
use crate::form::json_line;
use crate::number::whole;
use crate::terminal::{Tone, printable_lines};
use api_client::model::{Ceilings, Counted, Interval, Owner, Stats};
use clap::Args;
use envelope::parse_duration;
use std::time::{Duration, Instant};

/// The arguments of `volume watch`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatchArgs {
    /// The volume
    #[arg(add = names::volumes())]
    name: String,
    /// The time between lines
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    interval: Duration,
    /// Number of lines to print [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    count: Option<u64>,
}

/// Lines between two heads on a terminal.
const LINES: u64 = 20;
/// The shortest interval: with shorter ones, the command's own requests would dominate.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The columns: head, width, and whether narrow terminals show the column.
const COLUMNS: [(&str, usize, bool); 12] = [
    ("TIME", 8, true),
    ("READ/S", 7, true),
    ("WRITE/S", 7, true),
    ("OTHER/S", 7, false),
    ("MiB/s", 8, true),
    ("LIMIT", 13, true),
    ("USED", 5, true),
    ("WAITED", 7, true),
    ("WAIT ms", 8, false),
    ("NOW", 4, false),
    ("MEAN ms", 8, true),
    ("P99 ms", 8, true),
];
/// The index of USED.
const USED: usize = 6;
/// The least width of a terminal that shows all columns.
const ALL_COLUMNS: usize = 101;

pub(crate) fn run(session: &Session, args: &WatchArgs) -> anyhow::Result<()> {
    if args.interval < INTERVAL_MIN {
        return Err(usage(format!("--interval is {} ms; allowed: 100ms or more", args.interval.as_millis())));
    }
    let read = || session.ask(|client| client.stats(&args.name)).map(|stats| (Instant::now(), stats));
    let columns = session.columns();
    let is_narrow = columns.is_some_and(|columns| columns < ALL_COLUMNS);
    let mut out = session.form().open()?;
    let mut before = read()?;
    let mut next = before.0 + args.interval;
    let mut number = 0;
    while args.count.is_none_or(|count| number < count) {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        // After a late line the next ones keep the interval: no burst to catch up.
        next = (next + args.interval).max(Instant::now());
        let now = read()?;
        let passed = now.0.duration_since(before.0).as_secs_f64();
        if session.form().is_json() {
            out.print(&json_line(&now.1)?)?;
        } else {
            if number == 0 || (columns.is_some() && number % LINES == 0) {
                out.print(&line(&COLUMNS.map(|(head, ..)| head.to_owned()), is_narrow, Tone::Head))?;
            }
            let (cells, is_at_limit) = cells(&before.1, &now.1, passed);
            let tone = if is_at_limit { Tone::Warning } else { Tone::Plain };
            out.print(&printable_lines(&line(&cells, is_narrow, tone)))?;
        }
        before = now;
        number += 1;
    }
    Ok(())
}

/// A line of the table. Of a line of figures only the used share of the limit is painted, of the heads all cells.
fn line(cells: &[String; 12], is_narrow: bool, tone: Tone) -> String {
    let shown = COLUMNS
        .iter()
        .zip(cells)
        .enumerate()
        .filter(|(_, ((.., is_narrow_too), _))| !is_narrow || *is_narrow_too);
    let cell = |(at, ((_, width, _), cell)): (usize, (&(&str, usize, bool), &String))| {
        let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
        let painted = if tone == Tone::Head || at == USED { tone.paint(cell) } else { cell.clone() };
        if at == 0 { painted + &blanks } else { blanks + &painted }
    };
    shown.map(cell).collect::<Vec<_>>().join(" ") + "\n"
}

/// The activity between two readings, and whether it reached a limit.
fn cells(before: &Stats, now: &Stats, seconds: f64) -> ([String; 12], bool) {
    let kinds = [(&before.read, &now.read), (&before.write, &now.write), (&before.other, &now.other)];
    let done = kinds.map(|(before, now)| since(before, now));
    let [read, write, other] = done.each_ref().map(|done| done.operations as f64 / seconds);
    let all = done.into_iter().fold(Counted::default(), |sum, done| sum_of(&sum, &done));
    let bytes = [since(&before.read, &now.read).bytes, since(&before.write, &now.write).bytes];
    let load = Load { bytes: bytes.map(|bytes| bytes as f64 / seconds), operations: [read, write, other] };
    // Neither the limit before nor the one now applied to all of the interval.
    let is_changed = [(&before.limits, &now.limits), (&before.pool_limits, &now.pool_limits)]
        .iter()
        .any(|(before, now)| before.total != now.total);
    let (limit, used) = match nearest(now, &load) {
        _ if is_changed => ("changed".to_owned(), None),
        Some((limit, used)) => (limit, Some(used)),
        None => ("-".to_owned(), None),
    };
    let mean = |sum_ns: u64, count: u64| match count {
        0 => "-".to_owned(),
        count => format!("{:.2}", sum_ns as f64 / count as f64 / 1e6),
    };
    let rate = bytes.iter().sum::<u64>() as f64 / seconds / f64::from(1 << 20);
    let p99 = percentile(&all.intervals, 0.99);
    let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let cells = [
        now.at.0.get(11..19).unwrap_or("").to_owned(),
        format!("{read:.0}"),
        format!("{write:.0}"),
        format!("{other:.0}"),
        format!("{rate:.1}"),
        limit,
        cell(used.map(|used| format!("{:.0} %", used * 100.0))),
        share(all.throttled_calls, all.operations),
        mean(all.throttled_ns, all.throttled_calls),
        now.waiting_calls.to_string(),
        mean(all.time_ns, all.operations),
        cell(p99.map(|us| format!("{:.2}", us / 1e3))),
    ];
    (cells, used.is_some_and(|used| used >= AT_LIMIT))
}

/// The share from which a limit counts as reached: limits are enforced within a few percent.
const AT_LIMIT: f64 = 0.97;

/// The difference of two counters. A volume that was reopened counts from zero again, hence the saturation.
fn since(before: &Counted, now: &Counted) -> Counted {
    let count = |intervals: &[Interval], up_to_us: Option<u64>| {
        intervals
            .iter()
            .find(|interval| interval.up_to_us == up_to_us)
            .map_or(0, |interval| interval.operations)
    };
    let interval = |interval: &Interval| Interval {
        operations: interval.operations.saturating_sub(count(&before.intervals, interval.up_to_us)),
        ..*interval
    };
    Counted {
        operations: now.operations.saturating_sub(before.operations),
        bytes: now.bytes.saturating_sub(before.bytes),
        time_ns: now.time_ns.saturating_sub(before.time_ns),
        intervals: now.intervals.iter().map(interval).collect(),
        throttled_calls: now.throttled_calls.saturating_sub(before.throttled_calls),
        throttled_ns: now.throttled_ns.saturating_sub(before.throttled_ns),
    }
}

fn sum_of(a: &Counted, b: &Counted) -> Counted {
    Counted {
        operations: a.operations + b.operations,
        bytes: a.bytes + b.bytes,
        time_ns: a.time_ns.saturating_add(b.time_ns),
        intervals: a.intervals.iter().chain(&b.intervals).copied().collect(),
        throttled_calls: a.throttled_calls + b.throttled_calls,
        throttled_ns: a.throttled_ns.saturating_add(b.throttled_ns),
    }
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        // A call that waited may be answered in the next interval, so the share could exceed 100 %.
        whole => format!("{:.0} %", (100.0 * part as f64 / whole as f64).min(100.0)),
    }
}

/// Rates of reads, writes, and, of operations, others.
struct Load {
    bytes: [f64; 2],
    operations: [f64; 3],
}

/// The ceiling with the highest use, in its own unit, and the used share. The load of other volumes in the pool is not
/// known here, so a shared ceiling may be nearer than shown.
fn nearest(stats: &Stats, load: &Load) -> Option<(String, f64)> {
    let pool = (stats.pool_limits.owner == Owner::Pool).then_some(&stats.pool_limits.total);
    let ceilings: Vec<&Ceilings> = std::iter::once(&stats.limits.total).chain(pool).collect();
    let least = |ceiling: fn(&Ceilings) -> Option<u64>| ceilings.iter().filter_map(|of| ceiling(of)).min();
    let cost = f64::from(stats.limits.write_cost_thousandths) / 1000.0;
    let ([read_bytes, write_bytes], [reads, writes, others]) = (load.bytes, load.operations);
    let uses = [
        (read_bytes + write_bytes, least(|of| of.bytes_per_second), Unit::Mib),
        (read_bytes, least(|of| of.read_bytes_per_second), Unit::Mib),
        (write_bytes, least(|of| of.write_bytes_per_second), Unit::Mib),
        (reads + writes * cost + others, least(|of| of.operations_per_second), Unit::Iops),
        (reads, least(|of| of.read_operations_per_second), Unit::Iops),
        (writes, least(|of| of.write_operations_per_second), Unit::Iops),
    ];
    let uses =
        uses.into_iter().filter_map(|(used, of, unit)| Some((unit.show(of?), used / of?.max(1) as f64)));
    // Of equals, as of an idle volume, the first one.
    uses.reduce(|nearest, other| if other.1 > nearest.1 { other } else { nearest })
}

#[derive(Clone, Copy)]
enum Unit {
    Mib,
    Iops,
}

impl Unit {
    fn show(self, rate: u64) -> String {
        // Rounded down: never more than is allowed.
        let tenths = (u128::from(rate) * 10) >> 20;
        match self {
            Self::Mib => format!("{}.{} MiB/s", tenths / 10, tenths % 10),
            Self::Iops => format!("{rate} IOPS"),
        }
    }
}

/// Estimates a percentile from intervals that double. Within an interval, times count as evenly spread over its logarithm.
fn percentile(intervals: &[Interval], part: f64) -> Option<f64> {
    let all: u64 = intervals.iter().map(|interval| interval.operations).sum();
    let mut sorted: Vec<(u64, u64)> =
        intervals.iter().map(|one| (one.up_to_us.unwrap_or(u64::MAX), one.operations)).collect();
    sorted.sort_unstable();
    let rank = part * all as f64;
    let mut below = 0.0;
    for (up_to_us, operations) in sorted.into_iter().filter(|(_, operations)| *operations > 0) {
        let operations = operations as f64;
        if below + operations >= rank {
            let end = if up_to_us == u64::MAX { LAST_US } else { up_to_us as f64 };
            return Some(end * ((rank - below) / operations - 1.0).exp2());
        }
        below += operations;
    }
    None
}

/// The assumed end of the last interval, which has none, in µs.
const LAST_US: f64 = (1_u64 << 24) as f64;

#[cfg(test)]
mod tests {
    use super::*;
    use api_client::model::{Limits, Timestamp};

    /// The index of LIMIT.
    const LIMIT: usize = USED - 1;

    fn counted(operations: u64, bytes: u64, up_to_us: u64) -> Counted {
        Counted {
            operations,
            bytes,
            time_ns: operations * 1_500_000,
            intervals: vec![Interval { up_to_us: Some(up_to_us), operations }],
            throttled_calls: operations / 2,
            throttled_ns: operations * 500_000,
        }
    }

    fn stats(read: Counted) -> Stats {
        let pool = envelope::Pool::new(envelope::Level::AnfUltra, envelope::Bytes::tib(4));
        let volume = envelope::Volume::new(envelope::Bytes::tib(1));
        Stats {
            volume: "v1".into(),
            at: Timestamp("2026-01-31T09:05:00.250Z".into()),
            size_bytes: 1 << 40,
            used_bytes: 0,
            live_bytes: Some(0),
            snapshot_bytes: Some(0),
            reserve_bytes: 0,
            available_bytes: 1 << 40,
            used_files: 1,
            snapshots: 0,
            read,
            write: Counted::default(),
            other: Counted::default(),
            endpoints: Vec::new(),
            waiting_calls: 7,
            pool_limits: Limits::from(pool.limits().unwrap()),
            limits: Limits::from(pool.volume_limits(&volume).unwrap()),
        }
    }

    #[test]
    fn line_has_rates_limits_waiting_and_latency() {
        let (before, now) = (stats(counted(100, 100 << 20, 2048)), stats(counted(300, 228 << 20, 2048)));
        let text = |before: &Stats, now: &Stats, seconds: f64, is_narrow: bool| {
            line(&cells(before, now, seconds).0, is_narrow, Tone::Plain)
        };
        let wide = text(&before, &now, 2.0, false);
        let words: Vec<&str> = wide.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "09:05:00", "100", "0", "0", "64.0", "128.0", "MiB/s", "50", "%", "50", "%", "1.00", "7",
                "1.50", "2.03"
            ]
        );
        assert_eq!(wide.trim_end().len(), ALL_COLUMNS);
        let narrow = text(&before, &now, 2.0, true);
        assert!(narrow.trim_end().len() < 80 && !narrow.contains("1.00"), "{narrow}");
        assert!(
            !cells(&before, &now, 2.0).1 && cells(&before, &now, 1.0).1,
            "at twice the rate it is at the limit"
        );
        let idle = text(&now, &now, 1.0, false);
        assert!(idle.contains("0 %") && idle.trim_end().ends_with('-'), "{idle}");
    }

    #[test]
    fn limit_that_acts_is_shown_in_its_unit_and_no_share_of_a_changed_one() {
        let limit = |before: &Stats, now: &Stats| {
            let (cells, is_at_limit) = cells(before, now, 1.0);
            (cells[LIMIT].clone(), cells[USED].clone(), is_at_limit)
        };
        let of = |reads: u64, others: u64, iops: u64| {
            let mut all = stats(counted(reads, reads << 13, 2048));
            all.other.operations = others;
            all.limits.total.operations_per_second = Some(iops);
            all
        };
        let at = |limit: &str, used: &str, is_at_limit| (limit.to_owned(), used.to_owned(), is_at_limit);
        assert_eq!(limit(&of(0, 0, 500), &of(490, 0, 500)), at("500 IOPS", "98 %", true));
        assert_eq!(limit(&of(0, 0, 500), &of(0, 490, 500)), at("500 IOPS", "98 %", true), "names count too");
        assert_eq!(limit(&of(0, 0, 500), &of(0, 0, 500)), at("128.0 MiB/s", "0 %", false));
        assert_eq!(limit(&of(0, 0, 500), &of(490, 0, 1000)), at("changed", "-", false));
    }

    #[test]
    fn percentiles_lie_in_their_interval() {
        let of = |counts: &[(Option<u64>, u64)]| -> Vec<Interval> {
            counts.iter().map(|&(up_to_us, operations)| Interval { up_to_us, operations }).collect()
        };
        let near = |intervals: &[Interval], part, wanted: f64| {
            let found = percentile(intervals, part).unwrap();
            assert!((found - wanted).abs() < 0.01 * wanted, "{found} instead of {wanted}");
        };
        near(&of(&[(Some(4), 50), (Some(8), 50)]), 0.5, 4.0);
        near(&of(&[(Some(8), 50), (Some(4), 50)]), 1.0, 8.0);
        near(&of(&[(Some(4), 1), (None, 99)]), 1.0, LAST_US);
        assert_eq!(percentile(&[], 0.99), None);
        assert_eq!(since(&counted(9, 9, 4), &counted(3, 3, 4)).operations, 0, "counted anew");
    }
}
