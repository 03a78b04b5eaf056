//! Limits as text: in a table cell, in a sentence, and with their sources.

use crate::terminal::folded;
use api_client::model::{Ceilings, Limits, Owner, Stats};
use envelope::{Bytes, BytesPerSecond};
use report::document::table::separated;

/// The text for an absent limit.
pub(crate) const UNLIMITED: &str = "unlimited";

/// A size in its exact unit.
pub(crate) fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// Bytes stored, to a tenth of the largest binary unit that they fill. Rounded up: never less than is stored.
pub(crate) fn stored(bytes: u64) -> String {
    tenths(bytes, |tenths, unit| tenths.div_ceil(unit))
}

/// Available space, to a tenth of the largest binary unit that it fills, rounded down.
pub(crate) fn room(bytes: u64) -> String {
    tenths(bytes, |tenths, unit| tenths / unit)
}

fn tenths(bytes: u64, whole: fn(u128, u128) -> u128) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (1..UNITS.len()).rev().find(|unit| bytes >> (10 * unit) > 0).unwrap_or(0);
    if unit == 0 {
        return format!("{bytes} B");
    }
    let tenths = whole(u128::from(bytes) * 10, 1 << (10 * unit));
    let fraction = if tenths.is_multiple_of(10) { String::new() } else { format!(".{}", tenths % 10) };
    format!("{}{fraction} {}", tenths / 10, UNITS[unit])
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
    cell(of.operations_per_second, of.read_operations_per_second, of.write_operations_per_second, number)
}

/// A whole number with commas between thousands.
pub(crate) fn number(of: u64) -> String {
    separated(of as f64, 0)
}

/// A count with its noun, in the plural unless the count is 1.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", number(count), if count == 1 { "" } else { "s" })
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
    let rates = rates.iter().filter_map(|(word, rate)| Some(format!("{word}{:#}", BytesPerSecond((*rate)?))));
    let operations =
        operations.iter().filter_map(|(word, rate)| Some(format!("{word}{} IOPS", number((*rate)?))));
    let all: Vec<String> = rates.chain(operations).collect();
    if all.is_empty() { UNLIMITED.to_owned() } else { all.join(", ") }
}

/// The limits that a volume shares with the other volumes of its pool, if there are any.
pub(crate) fn shared(stats: &Stats) -> Option<&Limits> {
    let pool = &stats.pool_limits;
    let is_limited = pool.total != Ceilings::default() || pool.per_client != Ceilings::default();
    (pool.owner == Owner::Pool && is_limited).then_some(pool)
}

/// The limit of a volume in a cell: that of the volume, else of its pool, else of each client.
pub(crate) fn cell_of_volume(stats: &Stats, show: fn(&Ceilings) -> String) -> String {
    let shared = shared(stats);
    let limits = [
        (Some(&stats.limits.total), ""),
        (shared.map(|pool| &pool.total), " (pool)"),
        (Some(&stats.limits.per_client), " each"),
        (shared.map(|pool| &pool.per_client), " each"),
    ];
    let none = show(&Ceilings::default());
    let mut cells = limits.iter().filter_map(|(limits, scope)| Some((show((*limits)?), scope)));
    cells.find(|(cell, _)| *cell != none).map_or_else(|| none.clone(), |(cell, scope)| cell + scope)
}

/// All limits in a sentence: those of all clients together, those of each client, and the shape.
pub(crate) fn summary(limits: &Limits) -> String {
    let total = Some(limits.total).filter(|total| *total != Ceilings::default());
    let per_client = Some(limits.per_client).filter(|each| *each != Ceilings::default());
    let parts = [
        total.map(|total| sentence(&total)),
        per_client.map(|each| format!("each client {}", sentence(&each))),
        limits.shape.map(|shape| format!("shaped to {}", envelope::Shaping::from(shape))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { sentence(&Ceilings::default()) } else { parts.join(", ") }
}

/// The limits of all clients together. Says explicitly if only other limits apply.
fn total(limits: &Limits) -> String {
    let has_others = limits.per_client != Ceilings::default() || limits.shape.is_some();
    match limits.total == Ceilings::default() {
        true if has_others => "none for all clients together".to_owned(),
        _ => sentence(&limits.total),
    }
}

/// All limits of a pool, one line each, as name and text.
pub(crate) fn of_pool(limits: &Limits) -> Vec<(&'static str, String)> {
    lines(limits, total(limits), limits.owner)
}

/// All limits of a volume, one line each, as name and text. Limits of the pool alone are those of the volume, too.
pub(crate) fn of_volume(limits: &Limits, pool: &Limits) -> Vec<(&'static str, String)> {
    let none = Ceilings::default();
    let has_none = limits.total == none && limits.per_client == none && limits.shape.is_none();
    let is_shared = pool.owner == Owner::Pool && pool.total != none;
    let is_pools = has_none && is_shared || limits.owner == Owner::Pool && limits.total == none;
    let owner = if is_pools { Owner::Pool } else { limits.owner };
    lines(limits, if is_pools { "those of the pool".to_owned() } else { total(limits) }, owner)
}

fn lines(limits: &Limits, total: String, owner: Owner) -> Vec<(&'static str, String)> {
    let mut lines = vec![("Limits", total)];
    if limits.per_client != Ceilings::default() {
        lines.push(("Each client", sentence(&limits.per_client)));
    }
    let clients =
        |most: u32| ("Clients", format!("at most {} (advisory, not enforced)", number(most.into())));
    lines.extend(limits.clients_max.map(clients));
    lines.extend(limits.shape.map(|shape| ("Shape", envelope::Shaping::from(shape).to_string())));
    if limits.write_cost_thousandths != envelope::PLAIN_WRITE_COST_THOUSANDTHS {
        let cost = f64::from(limits.write_cost_thousandths) / 1000.0;
        lines.push(("A write", format!("counts as {cost} operations")));
    }
    let owner = match owner {
        Owner::Pool => "for the pool as a whole: its volumes share them",
        Owner::Volume => "for each volume on its own",
    };
    lines.push(("Enforced", owner.to_owned()));
    lines
}

/// The sources of the figures, two lines each, folded to the terminal's columns.
pub(crate) fn origins(limits: &Limits, columns: Option<usize>) -> String {
    let lines = limits.origin.iter().map(|of| {
        folded("  ", &format!("{}: {}", of.what, of.formula), columns)
            + &folded("      ", &of.source, columns)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes_are_short_and_exact() {
        assert_eq!([mib(128 << 20), mib(6_553_600), mib(1)], ["128", "6.25", "0"]);
        let sizes = [0, 1023, 1536 << 20, 1100 << 30];
        assert_eq!(sizes.map(room), ["0 B", "1023 B", "1.5 GiB", "1 TiB"]);
        assert_eq!(sizes.map(stored), ["0 B", "1023 B", "1.5 GiB", "1.1 TiB"]);
        assert_eq!([room(u64::MAX), stored(u64::MAX)], ["16383.9 PiB", "16384 PiB"]);
        let both = Ceilings {
            read_bytes_per_second: Some(100 << 20),
            write_bytes_per_second: Some(5 << 19),
            ..Ceilings::default()
        };
        assert_eq!(throughput(&both), "r 100 w 2.5");
        assert_eq!((iops(&both), sentence(&Ceilings::default())), ("-".into(), "unlimited".into()));
        assert_eq!(sentence(&both), "reads 100 MiB/s, writes 2.5 MiB/s");
        let many = Ceilings { operations_per_second: Some(1_350_000), ..Ceilings::default() };
        assert_eq!((iops(&many), sentence(&many)), ("1,350,000".into(), "1,350,000 IOPS".into()));
        assert_eq!(
            [counted(0, "file"), counted(1, "file"), counted(2, "file")],
            ["0 files", "1 file", "2 files"]
        );
    }

    #[test]
    fn volume_is_shown_with_the_limits_of_its_pool() {
        let pool = envelope::Pool::new(envelope::Level::GcnvFlex, Bytes::tib(2));
        let pool_limits = Limits::from(pool.limits().unwrap());
        let limits = Limits::from(pool.volume_limits(&envelope::Volume::new(Bytes::tib(1))).unwrap());
        let stats = |pool_limits: &Limits, limits: &Limits| Stats {
            volume: "v1".into(),
            at: api_client::model::Timestamp("2026-01-31T09:05:00.250Z".into()),
            size_bytes: 1 << 40,
            used_bytes: 0,
            live_bytes: Some(0),
            snapshot_bytes: Some(0),
            reserve_bytes: 0,
            available_bytes: 1 << 40,
            used_files: 1,
            snapshots: 0,
            read: Default::default(),
            write: Default::default(),
            other: Default::default(),
            endpoints: Vec::new(),
            waiting_calls: 0,
            pool_limits: pool_limits.clone(),
            limits: limits.clone(),
        };
        let of_pool = stats(&pool_limits, &limits);
        assert_eq!(shared(&of_pool), Some(&pool_limits));
        assert_eq!(
            [throughput, iops].map(|show| cell_of_volume(&of_pool, show)),
            ["32 (pool)", "2,048 (pool)"]
        );
        let each = Ceilings { read_bytes_per_second: Some(10 << 20), ..Ceilings::default() };
        let per_client = Limits { total: Ceilings::default(), per_client: each, ..pool_limits };
        let of_each = stats(&per_client, &limits);
        assert_eq!([throughput, iops].map(|show| cell_of_volume(&of_each, show)), ["r 10 each", "-"]);
        let owner = Owner::Volume;
        let own = stats(&Limits { owner, ..per_client.clone() }, &Limits { owner, ..per_client });
        assert_eq!((shared(&own), cell_of_volume(&own, throughput).as_str()), (None, "r 10 each"));
    }

    #[test]
    fn limits_of_each_client_or_of_a_shape_are_not_unlimited() {
        let pool = envelope::Pool::new(envelope::Level::Unlimited, Bytes::tib(4));
        let unlimited = pool.volume_limits(&envelope::Volume::new(Bytes::tib(1))).unwrap();
        let unlimited = Limits::from(unlimited);
        assert_eq!(
            (summary(&unlimited).as_str(), of_volume(&unlimited, &unlimited)[0].1.as_str()),
            ("unlimited", "unlimited")
        );
        let each = Ceilings { read_bytes_per_second: Some(10 << 20), ..Ceilings::default() };
        let per_client = Limits { per_client: each, ..unlimited.clone() };
        assert_eq!(summary(&per_client), "each client reads 10 MiB/s");
        let text =
            [("Limits", "none for all clients together".into()), ("Each client", "reads 10 MiB/s".into())];
        assert_eq!(
            (&of_volume(&per_client, &unlimited)[..2], &of_pool(&per_client)[..2]),
            (&text[..], &text[..])
        );
        let shape = envelope::Shape::all().next().unwrap();
        let shaping = envelope::Shaping { shape, scale_thousandths: 1000 };
        let shaped = Limits { shape: Some(shaping.into()), ..unlimited.clone() };
        assert!(
            summary(&shaped).starts_with("shaped to ")
                && of_volume(&shaped, &unlimited)[0].1.starts_with("none")
        );
        let pool = Limits { owner: Owner::Pool, total: each, ..unlimited.clone() };
        let shared = of_volume(&unlimited, &pool);
        assert_eq!(shared[0].1, "those of the pool");
        assert!(shared[1].1.starts_with("for the pool as a whole"), "{shared:?}");
    }
}
