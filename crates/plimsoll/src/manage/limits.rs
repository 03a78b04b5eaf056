//! Limits for people: a cell, a sentence, the reasons.

use api::model::{Ceilings, Limits, Owner, Stats};
use envelope::{Bytes, BytesPerSecond};

/// A size in its exact unit.
pub(crate) fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// What is stored, to a tenth of the largest binary unit that it fills.
pub(crate) fn rounded(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (1..UNITS.len()).rev().find(|unit| bytes >> (10 * unit) > 0).unwrap_or(0);
    if unit == 0 {
        return format!("{bytes} B");
    }
    let tenths = (u128::from(bytes) * 10) >> (10 * unit);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A rate in MiB/s, to a thousandth.
pub(crate) fn mib(rate: u64) -> String {
    let thousandths = (u128::from(rate) * 1000) >> 20;
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Ceilings of one kind in a cell: together, of reads (`r`) and of writes (`w`).
fn cell(
    together: Option<u64>,
    read: Option<u64>,
    write: Option<u64>,
    show: impl Fn(u64) -> String,
) -> String {
    let parts = [("", together), ("r ", read), ("w ", write)];
    let shown = parts.iter().filter_map(|(word, rate)| Some(format!("{word}{}", show((*rate)?))));
    let shown = shown.collect::<Vec<_>>().join(" ");
    if shown.is_empty() { "-".to_owned() } else { shown }
}

/// The throughput in MiB/s, in a cell.
pub(crate) fn throughput(of: &Ceilings) -> String {
    cell(of.bytes_per_second, of.read_bytes_per_second, of.write_bytes_per_second, mib)
}

/// The operations for each second, in a cell.
pub(crate) fn iops(of: &Ceilings) -> String {
    let number = |rate: u64| rate.to_string();
    cell(of.operations_per_second, of.read_operations_per_second, of.write_operations_per_second, number)
}

/// Ceilings in a sentence.
pub(crate) fn sentence(of: &Ceilings) -> String {
    let rates = [
        ("", of.bytes_per_second),
        ("reads ", of.read_bytes_per_second),
        ("writes ", of.write_bytes_per_second),
    ];
    let operations = [
        ("", of.operations_per_second),
        ("reads ", of.read_operations_per_second),
        ("writes ", of.write_operations_per_second),
    ];
    let rates = rates.iter().filter_map(|(word, rate)| Some(format!("{word}{}", BytesPerSecond((*rate)?))));
    let operations =
        operations.iter().filter_map(|(word, operations)| Some(format!("{word}{} IOPS", (*operations)?)));
    let all: Vec<String> = rates.chain(operations).collect();
    if all.is_empty() { "unlimited".to_owned() } else { all.join(", ") }
}

/// What a volume may do: its own limits, or those that it shares with the other volumes of its pool; and whether it does.
pub(crate) fn of_volume(stats: &Stats) -> (Ceilings, bool) {
    match stats.limits.owner {
        Owner::Pool => (stats.pool_limits.total, true),
        Owner::Volume => (stats.limits.total, false),
    }
}

/// All limits, a line each, with the words before them.
pub(crate) fn lines(limits: &Limits) -> Vec<(&'static str, String)> {
    let is_pools = limits.owner == Owner::Pool && limits.total == Ceilings::default();
    let total = if is_pools { "those of the pool".to_owned() } else { sentence(&limits.total) };
    let mut lines = vec![("Limits", total)];
    if limits.per_client != Ceilings::default() {
        lines.push(("Each client", sentence(&limits.per_client)));
    }
    lines.extend(limits.clients_max.map(|most| ("Clients", format!("at most {most} (told, not enforced)"))));
    lines.extend(limits.shape.map(|shape| ("Shape", envelope::Shaping::from(shape).to_string())));
    if limits.write_cost_thousandths != envelope::PLAIN_WRITE_COST_THOUSANDTHS {
        let cost = f64::from(limits.write_cost_thousandths) / 1000.0;
        lines.push(("A write", format!("counts as {cost} operations")));
    }
    let held = match limits.owner {
        Owner::Pool => "by the pool, shared by its volumes",
        Owner::Volume => "by each volume for itself",
    };
    lines.push(("Held", held.to_owned()));
    lines
}

/// Where the figures come from, two lines each.
pub(crate) fn origins(limits: &Limits) -> String {
    let lines =
        limits.origin.iter().map(|of| format!("  {}: {}\n      {}\n", of.what, of.formula, of.source));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes_are_short_and_exact() {
        assert_eq!([mib(128 << 20), mib(6_553_600), mib(1)], ["128", "6.25", "0"]);
        assert_eq!([rounded(0), rounded(1023), rounded(1536 << 20)], ["0 B", "1023 B", "1.5 GiB"]);
        assert_eq!(rounded(u64::MAX), "16383.9 PiB");
        let both = Ceilings {
            read_bytes_per_second: Some(100 << 20),
            write_bytes_per_second: Some(5 << 19),
            ..Ceilings::default()
        };
        assert_eq!(throughput(&both), "r 100 w 2.5");
        assert_eq!((iops(&both), sentence(&Ceilings::default())), ("-".into(), "unlimited".into()));
        assert_eq!(sentence(&both), "reads 100 MiB/s, writes 2.5 MiB/s");
    }
}
