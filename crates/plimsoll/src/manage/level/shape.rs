//! `plimsoll level shape`: a published curve as a table with bars, or as a picture.

use api_client::model::ShapeName;
use clap::Args;
use envelope::{Metric, Pattern, Shape, Shaping};
use report::document::plot::{Axis, Chart, Line, Lines, Mark, Plot};
use report::document::table::separated;
use serde::Serialize;

use crate::form::{Form, TEXT};
use crate::manage::table::Facts;
use crate::manage::{Table, words};

/// The arguments of `level shape`.
#[derive(Debug, Args)]
pub(crate) struct ShapeArgs {
    /// The shape: "plimsoll level shapes" lists them
    #[arg(value_parser = words::shape(), hide_possible_values = true)]
    name: ShapeName,
    /// Factor that scales the curve, like 0.25
    #[arg(long, value_name = "FACTOR", value_parser = words::scale, default_value = "1")]
    scale: u32,
    #[command(flatten)]
    form: Form,
}

/// The step of the table between the published mixes, in thousandths of reads.
const STEP: usize = 100;
/// The step of the picture, in thousandths of reads.
const STEP_DRAWN: usize = 10;
/// The longest bar, in columns.
const BAR: u128 = 32;

#[derive(Serialize)]
struct Curve {
    name: &'static str,
    title: &'static str,
    protocol: &'static str,
    block_bytes: u64,
    pattern: Pattern,
    scale_thousandths: u32,
    mean_error_thousandths: u32,
    worst_error_thousandths: u32,
    source: String,
    points: Vec<PointOf>,
}

/// The point of the curve at one mix.
#[derive(Serialize)]
struct PointOf {
    read_percent: f64,
    bytes_per_second: u64,
    iops: u64,
    is_published: bool,
}

/// Shows the curve.
pub(super) fn run(args: &ShapeArgs) -> anyhow::Result<()> {
    let (shape, form) = (args.name.0, &args.form);
    let shaping = Shaping { shape, scale_thousandths: args.scale };
    if form.ends_in("svg") && !form.is_json() {
        return form.open()?.print(&picture(shaping).picture());
    }
    form.check_extension(TEXT, ", .svg for the picture")?;
    let band = shape.error_band();
    let curve = Curve {
        name: shape.name(),
        title: shape.title(),
        protocol: shape.protocol().name(),
        block_bytes: shape.block().0,
        pattern: shape.pattern(),
        scale_thousandths: args.scale,
        mean_error_thousandths: band.mean_thousandths,
        worst_error_thousandths: band.worst_thousandths,
        source: format!("{:#}", shape.source()),
        points: points(shaping, STEP),
    };
    form.show(&curve, |curve| Ok(text(curve, shaping, form.columns())))
}

/// From pure reads to pure writes, in steps and at the published mixes.
fn points(shaping: Shaping, step: usize) -> Vec<PointOf> {
    let published: Vec<u32> = shaping.shape.knots().map(|(reads, _)| reads).collect();
    let mut all: Vec<u32> = (0..=1000).step_by(step).chain(published.iter().copied()).collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all.dedup();
    let point = |reads: u32| {
        let point = shaping.ceiling(reads);
        PointOf {
            read_percent: f64::from(reads) / 10.0,
            bytes_per_second: point.bandwidth.0,
            iops: point.iops.0,
            is_published: published.contains(&reads),
        }
    };
    all.into_iter().map(point).collect()
}

/// A point in the unit of its page.
fn in_unit(point: &PointOf, metric: Metric) -> f64 {
    match metric {
        Metric::Iops => point.iops as f64,
        Metric::MibPerSecond => mib(point),
    }
}

fn mib(point: &PointOf) -> f64 {
    point.bytes_per_second as f64 / f64::from(1 << 20)
}

fn text(curve: &Curve, shaping: Shaping, columns: Option<usize>) -> String {
    let metric = shaping.shape.metric();
    let mut facts = Facts::default();
    facts.add("Shape", format!("{}, {}", curve.name, curve.title));
    facts.maybe("Scale", (curve.scale_thousandths != 1000).then(|| shaping.to_string()));
    let percent = |thousandths: u32| f64::from(thousandths) / 10.0;
    let (mean, worst) = (percent(curve.mean_error_thousandths), percent(curve.worst_error_thousandths));
    facts.add("Between", format!("1/T is interpolated, off by {mean} % on average and {worst} % at worst"));
    facts.add("Source", &curve.source);

    let bar_head = format!("TOTAL {}", metric.symbol());
    let heads = [">READS", ">MiB/s", ">IOPS", bar_head.as_str(), ""];
    let mut table = Table::new(&heads);
    let most = curve.points.iter().map(|point| point.bytes_per_second).max().unwrap_or(0);
    for point in &curve.points {
        let is_published = if point.is_published { "published" } else { "" };
        table.row([
            format!("{} %", point.read_percent),
            // Rounded down: never more than the curve has.
            separated(mib(point).floor(), 0),
            separated(point.iops as f64, 0),
            bar(point.bytes_per_second, most),
            is_published.to_owned(),
        ]);
    }
    format!("{}\n{}", facts.fit(columns), table.fit(columns))
}

/// A bar as long as its part of the longest, to an eighth of a character.
fn bar(part: u64, most: u64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(part) * (BAR * 8) / u128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or_default();
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

fn picture(shaping: Shaping) -> Plot {
    let shape: Shape = shaping.shape;
    let metric = shape.metric();
    let place = |point: &PointOf| (point.read_percent, in_unit(point, metric));
    let mut points = points(shaping, STEP_DRAWN);
    points.reverse();
    let line = Line {
        name: format!("{shaping}"),
        color: 0,
        ideal: false,
        points: points.iter().map(place).collect(),
    };
    let mark = |point: &PointOf| Mark {
        name: "published".to_owned(),
        color: 2,
        hollow: false,
        at: place(point),
        up_to: None,
    };
    let ticks = (0..=100).step_by(25).map(|percent| (f64::from(percent), format!("{percent} %"))).collect();
    let chart = Lines {
        x: Axis { ticks, ..Axis::new("reads") },
        y: Axis::new(metric.symbol()),
        lines: vec![line],
        marks: points.iter().filter(|point| point.is_published).map(mark).collect(),
        smooth: true,
        ..Lines::default()
    };
    Plot { title: shape.title().to_owned(), note: String::new(), chart: Chart::Lines(chart) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaping(name: &str, scale_thousandths: u32) -> Shaping {
        Shaping { shape: name.parse().unwrap(), scale_thousandths }
    }

    #[test]
    fn a_curve_has_its_published_mixes_and_steps_between_them() {
        let points = points(shaping("gcnv-extreme-nfs3-8k-rand", 1000), STEP);
        assert_eq!(points.len(), 11 + 2, "steps of 10 %, and 75 and 25 %");
        let published: Vec<(f64, u64)> = points
            .iter()
            .filter(|point| point.is_published)
            .map(|point| (point.read_percent, point.iops))
            .collect();
        let page = [(100.0, 265_000), (75.0, 176_100), (50.0, 133_800), (25.0, 120_700), (0.0, 104_000)];
        assert_eq!(published, page);
        let quarter = super::points(shaping("gcnv-extreme-nfs3-8k-rand", 250), STEP);
        assert_eq!(quarter[0].iops, 66_250);
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(7, 7), "█".repeat(32));
        assert_eq!((bar(0, 7), bar(1, 2), bar(0, 0)), (String::new(), "█".repeat(16), String::new()));
        assert_eq!(bar(1, 32 * 8), "▏");
    }

    #[test]
    fn the_picture_stands_by_itself() {
        let picture = picture(shaping("gcnv-extreme-nfs3-8k-rand", 1000)).picture();
        assert!(
            picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"840\" viewBox="),
            "{picture}"
        );
        assert!(picture.contains("<style>") && picture.contains(">published</text>"), "{picture}");
        assert_eq!(picture.matches("<svg").count(), 1);
    }
}
