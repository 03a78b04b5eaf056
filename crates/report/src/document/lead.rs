//! The first lines of a report: the result, the limit that was reached, and one plot.

use super::content::{Lead, Section};
use super::details::{LimitUse, Used};
use super::{highlights, words};
use crate::result::{Cell, Limits, Run, VolumeFacts};

/// From this share on, a limit counts as reached: it admits in steps, and a window cuts them.
pub const LIMIT_REACHED: f64 = 0.95;

/// `sections` are those of the series, in order.
pub(super) fn of_run(run: &Run, sections: &[Section]) -> Lead {
    let cells = |index: usize| run.cells_of(index).collect::<Vec<&Cell>>();
    let measured: Vec<usize> = (0..run.scenario.series.len()).filter(|&at| !cells(at).is_empty()).collect();
    let uses = |&index: &usize| (index, highlights::limit_uses(run, &cells(index)));
    let closest = measured.iter().map(uses).filter(|(_, uses)| !uses.is_empty());
    // Of equals, the first one.
    let is_closer = |one: &[LimitUse], other: &[LimitUse]| other[0].share > one[0].share + 0.01;
    let closest = closest.reduce(|one, other| if is_closer(&one.1, &other.1) { other } else { one });
    let Some(index) = closest.as_ref().map(|(index, _)| *index).or(measured.first().copied()) else {
        let result = format!("{}: nothing was measured.", run.target.target);
        return Lead { result, ..Lead::default() };
    };
    let series = &run.scenario.series[index];
    let level = run.target.volume.as_ref().map_or(String::new(), |volume| format!(" ({})", volume.level));
    let reached = highlights::reached(series, &cells(index));
    Lead {
        result: format!("{} on {}{level}: {reached}.", series.name, run.target.target),
        limit: limit(run, &closest.map_or_else(Vec::new, |(_, uses)| uses)),
        plot: sections.get(index).and_then(|section| section.plots.first().cloned()),
    }
}

fn limit(run: &Run, uses: &[LimitUse]) -> String {
    let Some(volume) = &run.target.volume else {
        return "Limit: unknown, because no Plimsoll service was asked about this target.".to_owned();
    };
    let mut sides = run.cells.iter().flat_map(|cell| &cell.measurements).filter_map(|one| one.server);
    if uses.is_empty() && sides.any(|side| side.limits_before.is_some()) {
        return "Limit: no share is given, because the limits changed in each measurement.".to_owned();
    }
    limit_in_words(volume, uses, highlights::COUNTED)
}

/// The side that counted the rates of a load. A server may count several operations for one of the generator, like OPEN
/// and CLOSE for a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedBy {
    Service,
    Generator,
}

/// The limits that a load of these rates reached on a volume.
pub fn limit_reached(volume: &VolumeFacts, used: Used, by: CountedBy) -> String {
    let counted = match by {
        CountedBy::Service => ", by the service's count",
        CountedBy::Generator => ", by the generator's count",
    };
    limit_in_words(volume, &used.uses(Some(volume), &volume.limits), counted)
}

/// The limits at two moments or more, in their order. No share is given: no limit applied to all of the time.
pub fn limits_changed(limits: &[Limits]) -> String {
    let all: Vec<String> = limits.iter().map(words::limits_line).collect();
    let ends =
        all.first().zip(all.last()).map_or_else(String::new, |(from, to)| format!(" from {from} to {to}"));
    let between = match all.len() {
        0..=2 => String::new(),
        3 => ", with 1 other between them".to_owned(),
        several => format!(", with {} others between them", several - 2),
    };
    format!("the limits changed while it was measured{ends}{between}: no share of them is given")
}

fn limit_in_words(volume: &VolumeFacts, uses: &[LimitUse], counted: &str) -> String {
    let reached = uses.iter().filter(|one| one.share >= LIMIT_REACHED);
    let reached: Vec<String> = reached.map(|one| one.in_words()).collect();
    match (reached.as_slice(), uses.first()) {
        ([one], _) => format!("Limit reached: {one}{counted}."),
        ([_, _, ..], _) => format!("Limits reached: {}{counted}.", reached.join(", and ")),
        ([], Some(closest)) => {
            format!("No limit of the volume was reached. Closest: {}{counted}.", closest.in_words())
        }
        ([], None) if volume.limits == Limits::default() && volume.shape.is_none() => {
            format!("Limit: none, volume {} has no limits.", volume.name)
        }
        ([], None) => {
            format!("Limit: not known to be reached; the service counted nothing for {}.", volume.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reached_limit_is_named_in_its_own_unit() {
        let limits = Limits { bytes_per_s: Some(128 << 20), iops: Some(500), ..Limits::default() };
        let volume = VolumeFacts { name: "v1".to_owned(), limits, ..VolumeFacts::default() };
        let at = |mib, iops| {
            let used = Used { read_mib_per_s: mib, read_iops: iops, iops, ..Used::default() };
            limit_reached(&volume, used, CountedBy::Service)
        };
        assert_eq!(
            at(127.0, 127.0),
            "Limit reached: 99\u{a0}% of the limit on reads and writes 128 MiB/s (127 MiB/s), by the service's count."
        );
        assert_eq!(
            at(4.0, 485.0),
            "Limit reached: 97\u{a0}% of the limit on all operations 500 IOPS (485 IOPS), by the service's count."
        );
        assert_eq!(
            at(127.0, 485.0),
            "Limits reached: 99\u{a0}% of the limit on reads and writes 128 MiB/s (127 MiB/s), \
             and 97\u{a0}% of the limit on all operations 500 IOPS (485 IOPS), by the service's count."
        );
        assert_eq!(
            at(64.0, 100.0),
            "No limit of the volume was reached. Closest: 50\u{a0}% of the limit on reads and writes \
             128 MiB/s (64.0 MiB/s), by the service's count."
        );
        let unlimited = VolumeFacts { limits: Limits::default(), ..volume.clone() };
        assert_eq!(
            limit_reached(&unlimited, Used::default(), CountedBy::Service),
            "Limit: none, volume v1 has no limits."
        );
        let used = Used { iops: 300.0, write_iops: 100.0, ..Used::default() };
        let heavy = VolumeFacts { write_cost_thousandths: Some(3000), ..volume.clone() };
        assert_eq!(
            limit_reached(&heavy, used, CountedBy::Generator),
            "Limit reached: 100\u{a0}% of the limit on all operations 500 IOPS with each write as 3.00 (500 IOPS), by the generator's count."
        );
    }

    #[test]
    fn changed_limits_have_no_share() {
        let of = |mib: u64| Limits { bytes_per_s: Some(mib << 20), ..Limits::default() };
        assert_eq!(
            limits_changed(&[of(128), of(256)]),
            "the limits changed while it was measured from reads and writes 128 MiB/s to reads and writes 256 MiB/s: \
             no share of them is given"
        );
        assert!(limits_changed(&[of(1), of(2), of(3)]).contains(", with 1 other between them"));
        let mut run = crate::document::sample::gcnv();
        for one in run.cells.iter_mut().flat_map(|cell| &mut cell.measurements) {
            one.server.iter_mut().for_each(|side| side.limits_before = Some(of(1)));
        }
        let lead = crate::document::Report::of(&run).lead;
        assert!(lead.limit.starts_with("Limit: no share is given"), "{lead:?}");
    }
}
