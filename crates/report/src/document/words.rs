//! Caveats, limits and times in words.

use envelope::Shape;

use super::table::Value;
use crate::result::{Caveat, CaveatKind, Cell, Limits, VolumeFacts};
use crate::units::show_size;

pub fn kind(kind: CaveatKind) -> &'static str {
    match kind {
        CaveatKind::Void => "void",
        CaveatKind::ClientLimited => "client-limited",
        CaveatKind::NotSteady => "not steady",
        CaveatKind::Variation => "variation",
        CaveatKind::CacheMixed => "cache mixed",
        CaveatKind::Short => "short",
        CaveatKind::CoLocated => "co-located",
        CaveatKind::UnlikePage => "unlike the page",
        CaveatKind::Other => "see below",
    }
}

/// Includes caveats of single repetitions.
pub fn caveats(cell: &Cell) -> Vec<&Caveat> {
    let mut all: Vec<&Caveat> = Vec::new();
    for caveat in cell.caveats.iter().chain(cell.measurements.iter().flat_map(|one| &one.caveats)) {
        if !all.contains(&caveat) {
            all.push(caveat);
        }
    }
    all
}

/// Leaves out `CoLocated`, which is a caveat of the whole run.
pub(super) fn caveat_kinds(cell: &Cell) -> String {
    let mut kinds: Vec<CaveatKind> = caveats(cell).iter().map(|caveat| caveat.kind).collect();
    kinds.retain(|kind| *kind != CaveatKind::CoLocated);
    kinds.sort_unstable();
    kinds.dedup();
    kinds.into_iter().map(kind).collect::<Vec<_>>().join(", ")
}

pub(super) fn caveat_text(caveat: &Caveat) -> String {
    match caveat.kind {
        CaveatKind::Other => caveat.text.clone(),
        of_kind => format!("{}: {}", kind(of_kind), caveat.text),
    }
}

/// The name, the figure and the unit of each existing limit.
pub(super) fn limits(limits: &Limits) -> Vec<(&'static str, f64, &'static str)> {
    let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let iops = |iops: Option<u64>| iops.map(|iops| iops as f64);
    [
        ("reads and writes", mib(limits.bytes_per_s), "MiB/s"),
        ("reads", mib(limits.read_bytes_per_s), "MiB/s"),
        ("writes", mib(limits.write_bytes_per_s), "MiB/s"),
        ("all operations", iops(limits.iops), "IOPS"),
        ("reads", iops(limits.read_iops), "IOPS"),
        ("writes", iops(limits.write_iops), "IOPS"),
    ]
    .into_iter()
    .filter_map(|(name, value, unit)| Some((name, value?, unit)))
    .collect()
}

pub fn limits_line(all: &Limits) -> String {
    let all: Vec<String> = limits(all)
        .into_iter()
        .map(|(name, value, unit)| format!("{name} {} {unit}", Value::figure(value)))
        .collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

pub fn limits_and_curve(volume: &VolumeFacts) -> String {
    match curve(volume) {
        None => format!("limits: {}", limits_line(&volume.limits)),
        Some(curve) if volume.limits == Limits::default() => format!("follows {curve}"),
        Some(curve) => format!("limits: {}; follows {curve}", limits_line(&volume.limits)),
    }
}

pub(super) fn curve(volume: &VolumeFacts) -> Option<String> {
    let name = volume.shape.as_ref()?;
    let title = name.parse::<Shape>().map_or_else(|_| name.clone(), |shape| shape.title().to_owned());
    let scale = scale(volume).map_or_else(|| "as published".to_owned(), |scale| format!("× {scale}"));
    Some(format!("{title}, {scale} ({name})"))
}

/// `None` for the published scale.
pub(super) fn scale(volume: &VolumeFacts) -> Option<f64> {
    let scale = volume.shape_scale_thousandths.filter(|&scale| scale != 1000)?;
    Some(f64::from(scale) / 1e3)
}

pub(super) fn size(bytes: Option<u64>) -> Option<String> {
    bytes.map(show_size)
}

/// In UTC.
pub fn time(seconds: f64) -> String {
    const DAY: f64 = 86_400.0;
    let days = (seconds / DAY).floor();
    let of_day = seconds - days * DAY;
    // Years begin in March, so that a leap day is the last day. 146,097 days are 400 years, and 1 March of the year 0
    // was 719,468 days before 1970.
    let days = days + 719_468.0;
    let era = (days / 146_097.0).floor();
    let day = days - era * 146_097.0;
    let year = ((day - (day / 1_460.0).floor() + (day / 36_524.0).floor() - (day / 146_096.0).floor())
        / 365.0)
        .floor();
    let day = day - (365.0 * year + (year / 4.0).floor() - (year / 100.0).floor());
    let month = ((5.0 * day + 2.0) / 153.0).floor();
    let day = day - ((153.0 * month + 2.0) / 5.0).floor() + 1.0;
    let (year, month) = if month < 10.0 { (year, month + 3.0) } else { (year + 1.0, month - 9.0) };
    let (hour, rest) = ((of_day / 3600.0).floor(), of_day % 3600.0);
    let (minute, second) = ((rest / 60.0).floor(), (rest % 60.0).floor());
    format!("{:.0}-{month:02.0}-{day:02.0} {hour:02.0}:{minute:02.0}:{second:02.0} UTC", year + era * 400.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_prints_as_date() {
        for (seconds, shown) in [
            (0.0, "1970-01-01 00:00:00 UTC"),
            (951_782_399.0, "2000-02-28 23:59:59 UTC"),
            (951_782_400.0, "2000-02-29 00:00:00 UTC"),
            (951_868_800.5, "2000-03-01 00:00:00 UTC"),
            (1_798_761_599.9, "2026-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(time(seconds), shown);
        }
    }
}
