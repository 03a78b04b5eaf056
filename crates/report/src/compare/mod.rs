//! Compares two runs, cell by cell: is the second run better, worse, or the same?
//!
//! A figure changed if three conditions hold. The ratio of its medians is beyond the tolerance. The ratio is
//! beyond the *noise floor*, which chance would not reach in any of the figures together. Welch's 95 %
//! interval over the repetitions does not contain one. Figures of different setups are not compared.

mod pairs;
mod statistics;

use serde::Serialize;

use crate::document::table::{Table, Value};
use crate::result::{Measurement, Run};

use pairs::Pair;
use statistics::Spread;

/// The result of comparing two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub a: String,
    pub b: String,
    /// Changes up to this share count as none.
    pub tolerance: f64,
    pub method: &'static str,
    pub notes: Vec<String>,
    /// The figures, in the order of the first run's cells.
    pub rows: Vec<Row>,
    /// The verdict over all rows.
    pub verdict: Verdict,
}

/// One figure of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub series: String,
    pub point: String,
    pub figure: Figure,
    /// The first run's median over the repetitions.
    pub a: Option<f64>,
    /// The second run's median.
    pub b: Option<f64>,
    /// The second median over the first.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio.
    pub interval: Option<[f64; 2]>,
    /// Chance could cause a change up to this share.
    pub noise_floor: Option<f64>,
    pub verdict: Verdict,
    /// The reason why it cannot be compared.
    pub why: Option<String>,
}

/// A compared figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Operations a second: more is better.
    Iops,
    /// The 99th percentile in milliseconds: less is better.
    P99Ms,
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No change beyond chance and the tolerance.
    Same,
    Better,
    Worse,
    /// No verdict is possible.
    NotComparable,
}

/// Noise above which "same" has no meaning, because any change could be noise.
const NOISE_MAX: f64 = 0.25;

const METHOD: &str = "ratio of medians over the repetitions; 95 % interval by Welch's t on logarithms; noise floor from the \
                      repetitions of all cells, and from the A/A pair if there is one, so that of all figures together none \
                      passes it by chance with a probability of 95 %";

/// `noise` is another run of the setup of `a`: its differences from `a` are chance. Changes up to the share
/// `tolerance` count as none.
pub fn compare(a: &Run, b: &Run, noise: Option<&Run>, tolerance: f64) -> Comparison {
    let pairs = pairs::of(a, b);
    let mut notes = pairs::notes(a, b, &pairs);
    let aa_pairs = noise.map(|noise| pairs::of(a, noise));
    if aa_pairs.as_ref().is_some_and(|pairs| pairs.iter().all(|pair| pair.obstacle.is_some())) {
        notes.push("the A/A run has no cell that can be compared with one of A; it is not used".to_owned());
    }
    let of_figure = |figure| FigureComparer::new(figure, &pairs, aa_pairs.as_deref(), tolerance);
    let comparers = [Figure::Iops, Figure::P99Ms].map(of_figure);
    let rows: Vec<Row> =
        pairs.iter().flat_map(|pair| comparers.iter().filter_map(|comparer| comparer.row(pair))).collect();
    let verdict = overall_verdict(&rows);
    let name = |run: &Run| format!("{} ({})", run.target.target, crate::document::words::time(run.started));
    Comparison { a: name(a), b: name(b), tolerance, method: METHOD, notes, rows, verdict }
}

/// Worse if any row is worse; else not comparable if any rate is not. Latencies do not count: they may be too
/// noisy for a verdict.
fn overall_verdict(rows: &[Row]) -> Verdict {
    let any = |verdict| rows.iter().any(|row| row.verdict == verdict);
    let mute = |row: &Row| row.figure == Figure::Iops && row.verdict == Verdict::NotComparable;
    if any(Verdict::Worse) {
        Verdict::Worse
    } else if rows.is_empty() || rows.iter().any(mute) {
        Verdict::NotComparable
    } else if any(Verdict::Better) {
        Verdict::Better
    } else {
        Verdict::Same
    }
}

struct FigureComparer {
    figure: Figure,
    tolerance: f64,
    spread: Spread,
    aa_ratios: Vec<f64>,
    figures: usize,
}

impl FigureComparer {
    fn new(figure: Figure, pairs: &[Pair<'_>], aa_pairs: Option<&[Pair<'_>]>, tolerance: f64) -> Self {
        let mut spread = Spread::default();
        let comparable = |pairs: &[Pair<'_>]| -> Vec<(Vec<f64>, Vec<f64>)> {
            let both = pairs.iter().filter(|pair| pair.obstacle.is_none());
            both.map(|pair| (figure.values(&pair.a), figure.values(&pair.b))).collect()
        };
        let all = comparable(pairs);
        for (a, b) in &all {
            spread.add(a);
            spread.add(b);
        }
        let ratios = aa_pairs.map(comparable).unwrap_or_default();
        let ratios = ratios.iter().filter_map(|(a, b)| Some(statistics::ratio(a, b)?.ratio)).collect();
        // Each pair has two figures, and chance must not reach the floor in either.
        Self { figure, tolerance, spread, aa_ratios: ratios, figures: 2 * all.len() }
    }

    /// Pairs that cannot be compared get a single row.
    fn row(&self, pair: &Pair<'_>) -> Option<Row> {
        let row = Row {
            series: pair.series.clone(),
            point: pair.point.clone(),
            figure: self.figure,
            a: None,
            b: None,
            ratio: None,
            interval: None,
            noise_floor: None,
            verdict: Verdict::NotComparable,
            why: pair.obstacle.clone(),
        };
        match (&pair.obstacle, self.figure) {
            (None, _) => Some(self.with_verdict(row, pair)),
            (Some(_), Figure::Iops) => Some(row),
            (Some(_), Figure::P99Ms) => None,
        }
    }

    fn with_verdict(&self, row: Row, pair: &Pair<'_>) -> Row {
        let (a, b) = (self.figure.values(&pair.a), self.figure.values(&pair.b));
        let Some(ratio) = statistics::ratio(&a, &b) else {
            return Row { why: Some("nothing was done".to_owned()), ..row };
        };
        let by_chance = statistics::floor_of_pairs(&self.aa_ratios, self.figures);
        let floor = self.spread.floor(a.len(), b.len(), self.figures).max(by_chance);
        let row = Row {
            a: Some(statistics::median(&a)),
            b: Some(statistics::median(&b)),
            ratio: Some(ratio.ratio),
            interval: ratio.interval,
            noise_floor: Some(floor),
            ..row
        };
        let obstacle = match (self.figure, &pair.depths) {
            (Figure::P99Ms, Some((of_a, of_b))) => {
                Some(format!("latencies at {of_a} and at {of_b} calls in flight of each job"))
            }
            _ if ratio.interval.is_none() && by_chance == 0.0 => {
                Some("one repetition does not show the noise; repeat, or give an A/A pair".to_owned())
            }
            _ if floor > NOISE_MAX => Some(format!("chance alone could make {} %", Value::percent(floor))),
            _ => None,
        };
        let verdict = match obstacle {
            Some(_) => Verdict::NotComparable,
            None => self.verdict(ratio, floor),
        };
        Row { verdict, why: obstacle, ..row }
    }

    fn verdict(&self, ratio: statistics::Ratio, floor: f64) -> Verdict {
        let change = ratio.ratio.max(1.0 / ratio.ratio) - 1.0;
        // A drop to 97 % is a loss of 3 %, although a gain of 3.1 % would be needed to undo it.
        let beyond =
            if ratio.ratio < 1.0 { 1.0 - ratio.ratio > self.tolerance } else { change > self.tolerance };
        let holds_one = ratio.interval.is_some_and(|[low, high]| low <= 1.0 && 1.0 <= high);
        if !beyond || change <= floor || holds_one {
            return Verdict::Same;
        }
        let more_is_better = self.figure == Figure::Iops;
        if (ratio.ratio > 1.0) == more_is_better { Verdict::Better } else { Verdict::Worse }
    }
}

impl Figure {
    fn values(self, repetitions: &[&Measurement]) -> Vec<f64> {
        let value = |one: &&Measurement| match self {
            Self::Iops => one.ops(None) as f64 / one.seconds,
            Self::P99Ms => one.response().latency().p99_ms,
        };
        repetitions.iter().map(value).collect()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::P99Ms => "p99 ms",
        }
    }
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::NotComparable => "not comparable",
        }
    }
}

impl Comparison {
    pub fn table(&self) -> Table {
        const HEAD: [&str; 7] = ["Point", "Figure", "A", "B", "B over A", "95 %", "Noise floor %"];
        let mut table = Table::new("", &HEAD);
        table.head.push("Verdict".to_owned());
        for row in &self.rows {
            let figure = |value: Option<f64>| value.map_or(Value::Nothing, Value::figure);
            let interval = row.interval.map(|[low, high]| format!("{low:.3} – {high:.3}"));
            let verdict = row.why.as_ref().map_or_else(
                || row.verdict.name().to_owned(),
                |why| format!("{}: {why}", row.verdict.name()),
            );
            let label = if row.point.is_empty() {
                row.series.clone()
            } else {
                format!("{}: {}", row.series, row.point)
            };
            let cells = vec![
                row.figure.name().into(),
                figure(row.a),
                figure(row.b),
                row.ratio.map_or(Value::Nothing, |ratio| Value::Number(ratio, 3)),
                interval.map_or(Value::Nothing, Value::Text),
                row.noise_floor.map_or(Value::Nothing, Value::percent),
                verdict.into(),
            ];
            table.row(label, cells);
        }
        table
    }

    /// Everything but the table, as lines, and the verdict.
    pub fn lines(&self) -> (Vec<String>, String) {
        let mut first = vec![format!("A: {}", self.a), format!("B: {}", self.b)];
        first.extend(self.notes.iter().map(|note| format!("Note: {note}.")));
        let count = |verdict| self.rows.iter().filter(|row| row.verdict == verdict).count();
        let last = format!(
            "Verdict: {}. {} better, {} worse, {} the same, {} not comparable; tolerance {} %.",
            self.verdict.name(),
            count(Verdict::Better),
            count(Verdict::Worse),
            count(Verdict::Same),
            count(Verdict::NotComparable),
            Value::percent(self.tolerance)
        );
        (first, last)
    }

    pub fn markdown(&self) -> String {
        let (first, last) = self.lines();
        let first: String = first.iter().map(|line| format!("- {line}\n")).collect();
        let table = crate::document::markdown_table(&self.table());
        format!("{first}\n{table}\n{last}\n\nMethod: {}.\n", self.method)
    }
}

#[cfg(test)]
mod tests;
