//! Medians, ratios and what makes them doubtful.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::contender::{Contender, Program};
use super::rows::Row;
use super::sample::Sample;

/// Cores used by others above which a figure is doubtful.
const OTHERS_MAX: f64 = 0.1;
/// Spread above which a figure is doubtful.
const SPREAD_MAX: f64 = 0.1;
/// How much a burden (idle connections, exports, files) may cost.
const BURDEN_MAX: f64 = 1.15;

/// A row with the samples of every contender; the first is the one that is judged.
#[derive(Debug, Serialize)]
pub(super) struct RowReport {
    pub(super) key: String,
    pub(super) title: String,
    pub(super) contenders: Vec<ContenderReport>,
}

/// One contender in one row.
#[derive(Debug, Serialize)]
pub(super) struct ContenderReport {
    pub(super) name: String,
    pub(super) ops_per_s: f64,
    pub(super) cpu_us_per_op: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Its CPU time by the first contender's in the same round.
    pub(super) ratio: Spread,
    /// What is promised, and whether it was kept.
    pub(super) promise: Option<Promise>,
    pub(super) rounds: Vec<Sample>,
}

/// A median and its extremes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// A limit on a ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Promise {
    pub(super) text: String,
    pub(super) kept: bool,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let (middle, odd) = (values.len() / 2, values.len() % 2 == 1);
        let median = if odd { at(middle) } else { f64::midpoint(at(middle.wrapping_sub(1)), at(middle)) };
        Self { median, min: at(0), max: at(values.len().wrapping_sub(1)) }
    }

    /// The extremes' distance in medians.
    fn relative(&self) -> f64 {
        (self.max - self.min) / self.median
    }
}

impl RowReport {
    /// `samples` holds one list for each contender, in the order of the rounds.
    pub(super) fn new(row: &Row, contenders: &[Contender], samples: Vec<Vec<Sample>>) -> Self {
        let base: Vec<f64> = samples[0].iter().map(|sample| sample.cpu_us_per_op).collect();
        let reports = contenders.iter().zip(samples).map(|(contender, rounds)| {
            let median = |value: fn(&Sample) -> f64| Spread::of(rounds.iter().map(value).collect()).median;
            let ratio = Spread::of(
                rounds.iter().zip(&base).map(|(sample, base)| sample.cpu_us_per_op / base).collect(),
            );
            ContenderReport {
                name: contender.name.clone(),
                ops_per_s: median(|sample| sample.ops_per_s),
                cpu_us_per_op: median(|sample| sample.cpu_us_per_op),
                p50_ms: median(|sample| sample.p50_ms),
                p99_ms: median(|sample| sample.p99_ms),
                ratio,
                promise: promise(row, contender, ratio.median),
                rounds,
            }
        });
        Self { key: row.key.to_owned(), title: row.title.to_owned(), contenders: reports.collect() }
    }

    /// What makes the row doubtful.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let all = || self.contenders.iter().flat_map(|contender| &contender.rounds);
        let others = all().map(|sample| sample.other_cores).fold(0.0, f64::max);
        if others > OTHERS_MAX {
            warnings.push(format!("{}: others used up to {others:.2} cores", self.title));
        }
        let wide = self.contenders.iter().filter_map(|contender| {
            let spread =
                Spread::of(contender.rounds.iter().map(|sample| sample.cpu_us_per_op).collect()).relative();
            (spread > SPREAD_MAX).then(|| format!("{} {:.0} %", contender.name, spread * 100.0))
        });
        let wide: Vec<String> = wide.collect();
        if !wide.is_empty() {
            warnings.push(format!(
                "{}: CPU time spreads over so much of its median: {}",
                self.title,
                wide.join(", ")
            ));
        }
        let doubts: BTreeSet<&String> = all().flat_map(|sample| &sample.warnings).collect();
        warnings.extend(doubts.into_iter().map(|doubt| format!("{}: {doubt}", self.title)));
        warnings
    }
}

/// What a comparison with this contender must show.
fn promise(row: &Row, contender: &Contender, ratio: f64) -> Option<Promise> {
    let (text, kept) = match contender.program {
        Program::Ganesha => (format!("at least {} × ours", row.ganesha_min), ratio >= row.ganesha_min),
        Program::Floor(_) => (
            format!("ours at most {} ×, is {:.2} ×", row.floor_max, 1.0 / ratio),
            1.0 / ratio <= row.floor_max,
        ),
        Program::Plimsoll(_) if contender.is_burdened() => {
            (format!("at most {BURDEN_MAX} ×"), ratio <= BURDEN_MAX)
        }
        Program::Plimsoll(_) => return None,
    };
    Some(Promise { text, kept })
}

impl fmt::Display for RowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["ops/s", "CPU µs/op", "p50 ms", "p99 ms"];
        write!(f, "{:<34}", self.title)?;
        header.iter().try_for_each(|name| write!(f, "{name:>11}"))?;
        writeln!(f, "   × ours (min–max)")?;
        for (index, contender) in self.contenders.iter().enumerate() {
            let ContenderReport { name, ops_per_s, cpu_us_per_op, p50_ms, p99_ms, ratio, promise, .. } =
                contender;
            write!(f, "  {name:<32}{ops_per_s:>11.0}{cpu_us_per_op:>11.2}{p50_ms:>11.3}{p99_ms:>11.3}")?;
            if index > 0 {
                write!(f, "   {:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max)?;
            }
            if let Some(Promise { text, kept }) = promise {
                write!(f, "  {}: {text}", if *kept { "kept" } else { "MISSED" })?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::rows::ROWS;

    fn contender(name: &str, program: Program) -> Contender {
        let idle = if name.ends_with("idle") { 9 } else { 0 };
        Contender { name: name.to_owned(), program, directory: "/nowhere".into(), idle, exports: 1, files: 0 }
    }

    fn sample(cpu_us_per_op: f64, other_cores: f64) -> Sample {
        let warnings = Vec::new();
        Sample {
            ops_per_s: 1.0,
            cpu_us_per_op,
            p50_ms: 1.0,
            p99_ms: 1.0,
            generator_cpu_us_per_op: 1.0,
            other_cores,
            warnings,
        }
    }

    fn report(ganesha: [f64; 3], floor: f64, burdened: f64) -> RowReport {
        let ours = || Program::Plimsoll("x".into());
        let contenders = [
            contender("plimsoll", ours()),
            contender("before", ours()),
            contender("ganesha", Program::Ganesha),
            contender("floor", Program::Floor("y".into())),
            contender("plimsoll + 9 idle", ours()),
        ];
        let thrice = |cpu: f64| vec![sample(cpu, 0.0); 3];
        let ganesha = ganesha.map(|cpu| sample(cpu, 0.2)).into();
        let samples = vec![thrice(2.0), thrice(3.0), ganesha, thrice(floor), thrice(burdened)];
        RowReport::new(&ROWS[0], &contenders, samples)
    }

    #[test]
    fn medians_and_extremes() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(vec![4.0, 1.0]).median, 2.5);
        assert!(Spread::of(Vec::new()).median.is_nan());
    }

    #[test]
    fn promises_are_kept_or_missed() {
        let kept = |report: &RowReport| {
            report
                .contenders
                .iter()
                .map(|one| one.promise.as_ref().map(|promise| promise.kept))
                .collect::<Vec<_>>()
        };
        let good = report([13.0, 14.0, 20.0], 1.5, 2.2);
        assert_eq!(kept(&good), [None, None, Some(true), Some(true), Some(true)]);
        assert_eq!(good.contenders[1].ratio.median, 1.5);
        let bad = report([13.0, 13.9, 20.0], 1.4, 2.4);
        assert_eq!(kept(&bad), [None, None, Some(false), Some(false), Some(false)]);
        assert_eq!(bad.to_string().matches("MISSED").count(), 3);
    }

    #[test]
    fn noise_is_reported() {
        let warnings = report([13.0, 14.0, 20.0], 1.5, 2.2).warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("others used up to 0.20 cores"), "{warnings:?}");
        assert!(warnings[1].contains("median: ganesha 50 %"), "{warnings:?}");
    }
}
