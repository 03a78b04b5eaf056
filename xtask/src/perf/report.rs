//! Medians, ratios and what makes them doubtful.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::bail;
use serde::Serialize;

use super::contender::Contender;
use super::rows::Row;
use super::sample::Sample;

/// Cores used by others above which a figure is doubtful.
const OTHERS_MAX: f64 = 0.1;
/// Spread above which a figure is doubtful.
const SPREAD_MAX: f64 = 0.1;
/// How much a burden (idle connections, exports, files) may cost.
const BURDEN_MAX: f64 = 1.15;
/// How much a row may cost beside what it cost in the build that `--against` names.
const AGAINST_MAX: f64 = 1.02;

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
    /// What the comparison with it must show.
    pub(super) bound: Option<Bound>,
    pub(super) rounds: Vec<Sample>,
}

/// A median and its extremes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// The most that a ratio of CPU times may be, by its median over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Bound {
    pub(super) kind: BoundKind,
    pub(super) found: f64,
    pub(super) max: f64,
}

/// Which ratio a [`Bound`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BoundKind {
    /// Ours by the floor's.
    Floor,
    /// Ours by the other build's.
    Against,
    /// Ours with a burden by ours without it.
    Burden,
    /// Ours over NFSv4.1 by ours over NFSv3.
    V3,
    /// Ours over NFSv4.1 by NFS-Ganesha over NFSv4.1.
    Ganesha,
    /// Ours over SMB by Samba's.
    Samba,
    /// Ours over SMB by ours over NFSv3.
    OwnNfs,
}

impl Bound {
    /// A ratio that could not be had keeps no bound.
    pub(super) fn is_kept(&self) -> bool {
        self.found <= self.max
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_kept() { "kept" } else { "MISSED" };
        let whose = match self.kind {
            BoundKind::Burden | BoundKind::V3 => "",
            BoundKind::Ganesha => "ours 4.1 ",
            BoundKind::Floor | BoundKind::Against | BoundKind::Samba | BoundKind::OwnNfs => "ours ",
        };
        write!(f, "{verdict}: {whose}{:.3} ×, at most {:.2} ×", self.found, self.max)
    }
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

impl ContenderReport {
    fn new(name: String, rounds: Vec<Sample>, ratio: Spread, bound: Option<Bound>) -> Self {
        let median = |value: fn(&Sample) -> f64| Spread::of(rounds.iter().map(value).collect()).median;
        Self {
            name,
            ops_per_s: median(|sample| sample.ops_per_s),
            cpu_us_per_op: median(|sample| sample.cpu_us_per_op),
            p50_ms: median(|sample| sample.p50_ms),
            p99_ms: median(|sample| sample.p99_ms),
            ratio,
            bound,
            rounds,
        }
    }
}

impl RowReport {
    /// `samples` holds one list for each contender, in the order of the rounds.
    pub(super) fn new(row: &Row, contenders: &[Contender], samples: Vec<Vec<Sample>>) -> Self {
        let cpu = |index: usize| samples[index].iter().map(|sample: &Sample| sample.cpu_us_per_op).collect();
        let base: Vec<f64> = cpu(0);
        let over_v41 = contenders.iter().position(|contender| contender.bound == Some(BoundKind::V3));
        let base_v41: Option<Vec<f64>> = over_v41.map(cpu);
        let taking_part = contenders.iter().zip(samples).filter(|(contender, _)| contender.takes_part(row));
        let reports = taking_part.map(|(contender, rounds)| {
            let pairs = || rounds.iter().map(|sample| sample.cpu_us_per_op).zip(&base);
            let ratio = Spread::of(pairs().map(|(theirs, ours)| theirs / ours).collect());
            let judged = base_v41.as_ref().filter(|_| contender.bound == Some(BoundKind::Ganesha));
            let judged = rounds.iter().map(|sample| sample.cpu_us_per_op).zip(judged.unwrap_or(&base));
            let ours_to_theirs = Spread::of(judged.map(|(theirs, ours)| ours / theirs).collect());
            let bound = bound(row, contender, ratio.median, ours_to_theirs.median);
            ContenderReport::new(contender.name_in(row), rounds, ratio, bound)
        });
        Self { key: row.key.to_owned(), title: row.title.to_owned(), contenders: reports.collect() }
    }

    /// A row of ours and one peer, in which ours is to take at most this many times as much.
    pub(super) fn beside(
        key: &str,
        title: &str,
        [ours, theirs]: [Vec<Sample>; 2],
        (peer, kind): (&str, BoundKind),
        max: f64,
    ) -> Self {
        let pairs = || ours.iter().zip(&theirs).map(|(our, their)| (our.cpu_us_per_op, their.cpu_us_per_op));
        let found = Spread::of(pairs().map(|(our, their)| our / their).collect()).median;
        let to_ours = Spread::of(pairs().map(|(our, their)| their / our).collect());
        let bound = Bound { kind, found, max };
        let own = Spread { median: 1.0, min: 1.0, max: 1.0 };
        let contenders = vec![
            ContenderReport::new("plimsoll".to_owned(), ours, own, None),
            ContenderReport::new(peer.to_owned(), theirs, to_ours, Some(bound)),
        ];
        Self { key: key.to_owned(), title: title.to_owned(), contenders }
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

/// What the comparison with this contender must show.
fn bound(row: &Row, contender: &Contender, ratio: f64, ours_to_theirs: f64) -> Option<Bound> {
    let kind = contender.bound?;
    let (found, max) = match kind {
        BoundKind::Floor | BoundKind::Samba | BoundKind::OwnNfs => (ours_to_theirs, row.floor_max),
        BoundKind::Against => (ours_to_theirs, AGAINST_MAX),
        BoundKind::Burden => (ratio, BURDEN_MAX),
        BoundKind::V3 => (ratio, row.v41?.v3_max),
        BoundKind::Ganesha => (ours_to_theirs, row.v41?.ganesha_max?),
    };
    Some(Bound { kind, found, max })
}

/// The bounds of one kind, each with its row.
pub(super) fn bounds(reports: &[RowReport], kind: BoundKind) -> impl Iterator<Item = (&RowReport, Bound)> {
    let all = reports.iter().flat_map(|row| row.contenders.iter().map(move |one| (row, one.bound)));
    all.filter_map(move |(row, bound)| bound.filter(|bound| bound.kind == kind).map(|bound| (row, bound)))
}

/// The verdict on `--against`; without it there is none.
pub(super) fn require_no_row_worse(reports: &[RowReport]) -> anyhow::Result<()> {
    let (rows, worse): (Vec<_>, Vec<_>) =
        bounds(reports, BoundKind::Against).partition(|(_, bound)| bound.is_kept());
    let limit = (AGAINST_MAX - 1.0) * 100.0;
    if worse.is_empty() {
        if !rows.is_empty() {
            println!("No row is worse than {limit:.0} % by median.");
        }
        return Ok(());
    }
    let worse: Vec<String> =
        worse.into_iter().map(|(row, bound)| format!("{} ({:.3} ×)", row.title, bound.found)).collect();
    bail!("worse than {limit:.0} % by median: {}", worse.join(", "))
}

impl fmt::Display for RowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["ops/s", "CPU µs/op", "p50 ms", "p99 ms"];
        write!(f, "{:<34}", self.title)?;
        header.iter().try_for_each(|name| write!(f, "{name:>11}"))?;
        writeln!(f, "   × ours (min–max)")?;
        for (index, contender) in self.contenders.iter().enumerate() {
            let ContenderReport { name, ops_per_s, cpu_us_per_op, p50_ms, p99_ms, ratio, bound, .. } =
                contender;
            write!(f, "  {name:<32}{ops_per_s:>11.0}{cpu_us_per_op:>11.2}{p50_ms:>11.3}{p99_ms:>11.3}")?;
            if index > 0 {
                write!(f, "   {:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max)?;
            }
            if let Some(bound) = bound {
                write!(f, "  {bound}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::contender::Program;
    use crate::perf::rows::ROWS;

    fn contender(name: &str, bound: Option<BoundKind>) -> Contender {
        let (program, directory) = (Program::Plimsoll("x".into()), "/nowhere".into());
        let (speaks_v41, guest_of) = (matches!(bound, Some(BoundKind::V3 | BoundKind::Ganesha)), None);
        let name = name.to_owned();
        Contender { name, program, bound, speaks_v41, guest_of, directory, idle: 0, exports: 1, files: 0 }
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

    /// Ours takes 2.0 in every round.
    fn report(against: f64, ganesha: [f64; 3], floor: f64, burdened: f64) -> RowReport {
        let contenders = [
            contender("plimsoll", None),
            contender("against", Some(BoundKind::Against)),
            contender("ganesha", None),
            contender("floor", Some(BoundKind::Floor)),
            contender("plimsoll + 9 idle", Some(BoundKind::Burden)),
        ];
        let thrice = |cpu: f64| vec![sample(cpu, 0.0); 3];
        let ganesha = ganesha.map(|cpu| sample(cpu, 0.2)).into();
        let samples = vec![thrice(2.0), thrice(against), ganesha, thrice(floor), thrice(burdened)];
        RowReport::new(&ROWS[0], &contenders, samples)
    }

    #[test]
    fn medians_and_extremes() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(vec![4.0, 1.0]).median, 2.5);
        assert!(Spread::of(Vec::new()).median.is_nan());
    }

    #[test]
    fn bounds_are_kept_or_missed() {
        let kept = |report: &RowReport| {
            report.contenders.iter().map(|one| one.bound.map(|bound| bound.is_kept())).collect::<Vec<_>>()
        };
        let good = report(1.97, [13.0, 14.0, 20.0], 1.91, 2.2);
        assert_eq!(kept(&good), [None, Some(true), None, Some(true), Some(true)]);
        assert_eq!(good.contenders[2].ratio.median, 7.0);
        let bad = report(1.95, [1.0, 1.0, 1.0], 1.90, 2.4);
        assert_eq!(kept(&bad), [None, Some(false), None, Some(false), Some(false)]);
        assert_eq!(bad.to_string().matches("MISSED").count(), 3);
        assert!(bad.to_string().contains("MISSED: ours 1.053 ×, at most 1.05 ×"), "{bad}");
    }

    #[test]
    fn versions_are_judged_by_each_other() {
        let report = |row: usize, ours_v41: f64, ganesha_v41: f64| {
            let contenders = [
                contender("plimsoll", None),
                contender("plimsoll 4.1", Some(BoundKind::V3)),
                contender("ganesha", None),
                contender("ganesha 4.1", Some(BoundKind::Ganesha)),
            ];
            let samples = [2.0, ours_v41, 13.0, ganesha_v41].map(|cpu| vec![sample(cpu, 0.0); 3]).into();
            RowReport::new(&ROWS[row], &contenders, samples)
        };
        let kept = |report: &RowReport, name: &str| {
            let found = report.contenders.iter().find(|one| one.name.starts_with(name));
            found.and_then(|one| one.bound).map(|bound| bound.is_kept())
        };
        let good = report(0, 2.08, 12.6);
        assert_eq!((kept(&good, "plimsoll 4.1"), kept(&good, "ganesha 4.1")), (Some(true), Some(true)));
        assert_eq!(kept(&good, "ganesha"), None);
        let bad = report(0, 2.12, 12.6);
        assert_eq!((kept(&bad, "plimsoll 4.1"), kept(&bad, "ganesha 4.1")), (Some(false), Some(false)));
        assert!(bad.to_string().contains("MISSED: 1.060 ×, at most 1.05 ×"), "{bad}");
        assert!(bad.to_string().contains("MISSED: ours 4.1 0.168 ×, at most 0.17 ×"), "{bad}");
        // A row without an aim over NFSv4.1 has nobody there.
        let (without, _) = ROWS.iter().enumerate().find(|(_, row)| row.v41.is_none()).unwrap();
        assert_eq!(report(without, 9.0, 9.0).contenders.len(), 2);
        let (written, _) = ROWS.iter().enumerate().find(|(_, row)| row.key == "write4k").unwrap();
        assert_eq!(report(written, 2.0, 20.0).contenders[1].name, "plimsoll 4.1: WRITE, GETATTR");
    }

    #[test]
    fn a_row_that_got_worse_fails_the_comparison() {
        let verdict = |against: f64| {
            require_no_row_worse(&[report(2.0, [1.0; 3], 0.1, 9.0), report(against, [1.0; 3], 0.1, 9.0)])
        };
        verdict(1.97).unwrap();
        let worse = verdict(1.95).unwrap_err().to_string();
        assert_eq!(worse, "worse than 2 % by median: READ 4K random, 1 × 16 (1.026 ×)");
    }

    #[test]
    fn a_ratio_without_samples_keeps_no_bound() {
        assert!(!Bound { kind: BoundKind::Floor, found: f64::NAN, max: 1.0 }.is_kept());
    }

    #[test]
    fn noise_is_reported() {
        let warnings = report(2.0, [13.0, 14.0, 20.0], 1.5, 2.2).warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("others used up to 0.20 cores"), "{warnings:?}");
        assert!(warnings[1].contains("median: ganesha 50 %"), "{warnings:?}");
    }
}
