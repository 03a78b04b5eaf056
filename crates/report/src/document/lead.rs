//! The first lines of a report: the result, the limit that was reached, and one plot.

use super::content::{Lead, Section};
use super::highlights;
use crate::result::{Cell, Limits, Run};

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
    match closest {
        Some((text, share)) if share >= REACHED => format!("Limit reached: {text}."),
        Some((text, _)) => format!("No limit of the volume was reached. Closest: {text}."),
        None if volume.limits == Limits::default() && volume.shape.is_none() => {
            format!("Limit: none, volume {} has no limits.", volume.name)
        }
        None => format!("Limit: not known to be reached; the service counted nothing for {}.", volume.name),
    }
}
