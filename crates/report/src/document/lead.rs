//! The first lines of a report: the result, the limit that was reached, and one plot.

use super::content::{Lead, Section};
use super::details::Used;
use super::highlights;
use crate::result::{Cell, Limits, Run, VolumeFacts};

/// From this share on, a limit counts as reached: it admits in steps, and a window cuts them.
const REACHED: f64 = 0.95;

/// `sections` are those of the series, in order.
pub(super) fn of_run(run: &Run, sections: &[Section]) -> Lead {
    let cells = |index: usize| run.cells_of(index).collect::<Vec<&Cell>>();
    let share = |index: usize| highlights::closest_limit(run, &cells(index));
    let measured: Vec<usize> = (0..run.scenario.series.len()).filter(|&at| !cells(at).is_empty()).collect();
    let closest = measured.iter().filter_map(|&index| Some((index, share(index)?)));
    // Of equals, the first one.
    let closest = closest.reduce(|one, other| if other.1.1 > one.1.1 + 0.01 { other } else { one });
    let Some(index) = closest.as_ref().map(|(index, _)| *index).or(measured.first().copied()) else {
        let result = format!("{}: nothing was measured.", run.target.target);
        return Lead { result, ..Lead::default() };
    };
    let series = &run.scenario.series[index];
    let level = run.target.volume.as_ref().map_or(String::new(), |volume| format!(" ({})", volume.level));
    let reached = highlights::reached(series, &cells(index));
    Lead {
        result: format!("{} on {}{level}: {reached}.", series.name, run.target.target),
        limit: limit(run, closest.map(|(_, found)| found)),
        plot: sections.get(index).and_then(|section| section.plots.first().cloned()),
    }
}

fn limit(run: &Run, closest: Option<(String, f64)>) -> String {
    let Some(volume) = &run.target.volume else {
        return "Limit: unknown, because no Plimsoll service was asked about this target.".to_owned();
    };
    limit_in_words(volume, closest)
}

/// The limit that a load of these rates reached on a volume.
pub fn limit_reached(volume: &VolumeFacts, used: Used) -> String {
    let closest = used.shares(&volume.limits).max_by(|a, b| a.1.total_cmp(&b.1));
    limit_in_words(volume, closest.map(|(name, share)| (highlights::use_of(&name, share), share)))
}

fn limit_in_words(volume: &VolumeFacts, closest: Option<(String, f64)>) -> String {
    match closest {
        Some((text, share)) if share >= REACHED => format!("Limit reached: {text}."),
        Some((text, _)) => format!("No limit of the volume was reached. Closest: {text}."),
        None if volume.limits == Limits::default() && volume.shape.is_none() => {
            format!("Limit: none, volume {} has no limits.", volume.name)
        }
        None => format!("Limit: not known to be reached; the service counted nothing for {}.", volume.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_reached_from_95_percent() {
        let limits = Limits { bytes_per_s: Some(128 << 20), ..Limits::default() };
        let volume = VolumeFacts { name: "v1".to_owned(), limits, ..VolumeFacts::default() };
        let at = |mib| limit_reached(&volume, Used { read_mib_per_s: mib, ..Used::default() });
        assert_eq!(at(127.0), "Limit reached: 99\u{a0}% of the limit on reads and writes 128 MiB/s.");
        assert!(at(64.0).starts_with("No limit of the volume was reached. Closest: 50\u{a0}%"));
        let unlimited = VolumeFacts { limits: Limits::default(), ..volume.clone() };
        assert_eq!(limit_reached(&unlimited, Used::default()), "Limit: none, volume v1 has no limits.");
    }
}
