//! Differences between a target and the setup of the page whose figures stand beside its own.

use envelope::{Direction, Published, Unit};
use report::document::table::separated;
use report::result::{Caveat, CaveatKind, Durability, Limits, Run, TargetFacts, VolumeFacts};
use report::scenario::{self, Series, Stability, Work};
use report::units::show_size;

/// A limit below this share of a published figure counts as a difference.
const CLOSE: f64 = 0.995;

/// Adds one caveat for each difference from the pages, with the affected series.
pub(super) fn check_setup(run: &mut Run) {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    let measured = |index: usize| run.cells.iter().any(|cell| cell.series == index);
    for (index, series) in run.scenario.series.iter().enumerate().filter(|(index, _)| measured(*index)) {
        let of_volume = run.target.volume.iter().flat_map(|volume| volume_differences(volume, series));
        let of_load = load_differences(run, index, series);
        for text in of_volume.chain(transfer_difference(&run.target, series)).chain(of_load) {
            match found.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(&series.name),
                None => found.push((text, vec![&series.name])),
            }
        }
    }
    let all = run.scenario.series.len();
    let caveat = |(text, names): (String, Vec<&str>)| {
        let text = if names.len() == all { text } else { format!("{text} ({})", names.join("; ")) };
        Caveat::new(CaveatKind::UnlikePage, text)
    };
    let caveats: Vec<Caveat> = found.into_iter().map(caveat).collect();
    run.caveats.extend(caveats);
}

/// Differences of the clients and files from those of the scenario, which has the page's.
fn load_differences(run: &Run, index: usize, series: &Series) -> Vec<String> {
    if series.published.is_empty() {
        return Vec::new();
    }
    let known = scenario::by_name(&run.scenario.name);
    let of_page = known.iter().flat_map(|known| &known.series).find(|one| one.name == series.name);
    let clients = of_page.map(|page| &page.clients).filter(|clients| **clients != series.clients);
    let list = |counts: &[usize]| counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let clients =
        clients.map(|page| format!("{} clients, the page has {}", list(&series.clients), list(page)));
    let used = run.working_sets.get(index).copied().unwrap_or(0);
    let is_smaller = series.work == Work::Transfers && (1..series.working_set).contains(&used);
    let files = is_smaller
        .then(|| format!("files of {}, the page has {}", show_size(used), show_size(series.working_set)));
    clients.into_iter().chain(files).collect()
}

fn volume_differences(volume: &VolumeFacts, series: &Series) -> Vec<String> {
    let published: Vec<Published> = series.published.iter().filter_map(|name| name.parse().ok()).collect();
    let all = [durability(volume, series), level(volume, &published), shape(volume, &published)];
    all.into_iter().flatten().chain(limits(volume, &published)).collect()
}

/// Volumes of the clouds lose no acknowledged write in a power cut; relaxed durability does.
fn durability(volume: &VolumeFacts, series: &Series) -> Option<String> {
    let writes = series.work == Work::EdaBlend
        || (series.work == Work::Transfers && series.reads.iter().any(|percent| *percent < 100));
    let is_relaxed = volume.durability == Some(Durability::Relaxed);
    let what = match series.stability {
        Stability::Unstable => "COMMITs are",
        Stability::DataSync | Stability::FileSync => "synchronous writes are",
    };
    (writes && is_relaxed)
        .then(|| format!("the volume's durability is relaxed: {what} answered before the data is on disk"))
}

fn level(volume: &VolumeFacts, published: &[Published]) -> Option<String> {
    let follows = |one: &Published| volume.shape.as_deref() == Some(one.name());
    let mut levels: Vec<&str> =
        published.iter().flat_map(|one| one.levels()).map(|level| level.name()).collect();
    levels.sort_unstable();
    levels.dedup();
    let is_other = !levels.is_empty() && !levels.contains(&volume.level.as_str());
    (is_other && !published.iter().any(follows)).then(|| {
        format!("the volume is at {}, the published figures are of {}", volume.level, levels.join(" and "))
    })
}

fn shape(volume: &VolumeFacts, published: &[Published]) -> Option<String> {
    let name = volume.shape.as_deref()?;
    if let Some(own) = published.iter().find(|one| one.name() == name) {
        let scale = volume.shape_scale_thousandths.unwrap_or(1000);
        let percent = f64::from(scale) / 10.0;
        return (scale != 1000).then(|| format!("the volume is held to {percent} % of {}", own.title()));
    }
    let of = name.parse::<Published>().map_or_else(|_| name.to_owned(), |shape| shape.title().to_owned());
    (!published.is_empty()).then(|| format!("the volume follows another curve: {of}"))
}

/// Names the published figure that is furthest above the limit of its kind.
fn limits(volume: &VolumeFacts, published: &[Published]) -> Option<String> {
    let figures = published.iter().flat_map(|one| one.figures());
    let above = figures.filter_map(|figure| {
        let value = figure.hundredths as f64 / 100.0;
        let (limit, unit, value) = match figure.unit {
            Unit::Iops => (iops(&volume.limits, figure.direction)?, "IOPS", value),
            Unit::MibPerSecond => (mib(&volume.limits, figure.direction)?, "MiB/s", value),
            Unit::MbPerSecond => {
                (mib(&volume.limits, figure.direction)?, "MiB/s", value * 1e6 / f64::from(1 << 20))
            }
            Unit::Times | Unit::JobSets | Unit::Milliseconds => return None,
        };
        (limit < CLOSE * value).then_some((limit, unit, value))
    });
    let (limit, unit, value) = above.max_by(|a, b| (a.2 / a.0).total_cmp(&(b.2 / b.0)))?;
    let [limit, value] = [limit, value].map(|rate| separated(rate, 0));
    Some(format!("the volume is limited to {limit} {unit}, the published figures go up to {value} {unit}"))
}

fn iops(limits: &Limits, direction: Direction) -> Option<f64> {
    let own = match direction {
        Direction::Read => limits.read_iops,
        Direction::Write => limits.write_iops,
        Direction::Total => None,
    };
    own.into_iter().chain(limits.iops).min().map(|limit| limit as f64)
}

fn mib(limits: &Limits, direction: Direction) -> Option<f64> {
    let own = match direction {
        Direction::Read => limits.read_bytes_per_s,
        Direction::Write => limits.write_bytes_per_s,
        Direction::Total => None,
    };
    own.into_iter().chain(limits.bytes_per_s).min().map(|limit| limit as f64 / f64::from(1 << 20))
}

/// Present if the server accepts only shorter calls than the series uses.
fn transfer_difference(target: &TargetFacts, series: &Series) -> Option<String> {
    let wanted = series.transfers.iter().max().or(series.blocks.iter().max()).copied()?;
    let most = target.read_max.into_iter().chain(target.write_max).min()?;
    (series.work == Work::Transfers && most < wanted)
        .then(|| format!("the server takes at most {} a call, not {}", show_size(most), show_size(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> VolumeFacts {
        VolumeFacts { level: "gcnv/extreme".to_owned(), ..VolumeFacts::default() }
    }

    fn series() -> Series {
        let published = vec!["gcnv-extreme-nfs3-64k-seq".to_owned()];
        Series { name: "a".to_owned(), blocks: vec![64 << 10], published, ..Series::default() }
    }

    #[test]
    fn matching_setup_has_no_caveat() {
        assert!(volume_differences(&volume(), &series()).is_empty());
        let limits = Limits { bytes_per_s: Some(5_237 << 20), ..Limits::default() };
        assert!(volume_differences(&VolumeFacts { limits, ..volume() }, &series()).is_empty());
        let own = Series { published: Vec::new(), ..series() };
        assert!(
            volume_differences(&VolumeFacts { level: "anf/ultra".to_owned(), ..volume() }, &own).is_empty()
        );
    }

    #[test]
    fn relaxed_durability_differs_from_the_pages() {
        let relaxed = VolumeFacts { durability: Some(Durability::Relaxed), ..volume() };
        assert!(volume_differences(&relaxed, &series()).is_empty(), "reads alone");
        let writes = Series { reads: vec![0], stability: Stability::FileSync, ..series() };
        assert!(
            volume_differences(&relaxed, &writes)[0]
                .contains("relaxed: synchronous writes are answered before")
        );
        assert!(
            volume_differences(&VolumeFacts { durability: Some(Durability::Sync), ..volume() }, &writes)
                .is_empty()
        );
        assert!(volume_differences(&volume(), &writes).is_empty(), "not known");
    }

    #[test]
    fn other_levels_curves_and_limits_are_named() {
        let differences = |volume: VolumeFacts| volume_differences(&volume, &series()).join("; ");
        let other = differences(VolumeFacts { level: "anf/ultra".to_owned(), ..volume() });
        assert_eq!(other, "the volume is at anf/ultra, the published figures are of gcnv/extreme");
        let quarter = VolumeFacts {
            level: "plimsoll/unlimited".to_owned(),
            shape: Some("gcnv-extreme-nfs3-64k-seq".to_owned()),
            shape_scale_thousandths: Some(250),
            ..volume()
        };
        assert!(differences(quarter.clone()).starts_with("the volume is held to 25 % of GCNV Extreme"));
        let shape = Some("gcnv-extreme-nfs3-8k-rand".to_owned());
        assert!(
            differences(VolumeFacts { shape, ..quarter }).contains("follows another curve: GCNV Extreme")
        );
        let limits = Limits { bytes_per_s: Some(128 << 20), ..Limits::default() };
        let limited = differences(VolumeFacts { limits, ..volume() });
        assert_eq!(limited, "the volume is limited to 128 MiB/s, the published figures go up to 5,237 MiB/s");
    }

    #[test]
    fn shorter_calls_of_the_server_are_named() {
        let target =
            |most| TargetFacts { read_max: Some(most), write_max: Some(most), ..TargetFacts::default() };
        assert_eq!(transfer_difference(&target(64 << 10), &series()), None);
        let difference = transfer_difference(&target(32 << 10), &series());
        assert_eq!(difference.as_deref(), Some("the server takes at most 32 KiB a call, not 64 KiB"));
    }
}
