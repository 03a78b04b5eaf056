//! Medians, ratios, and the causes of doubt about them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Serialize;

use super::contender::Contender;
use super::rows::Row;
use super::sample::Sample;

/// More cores used by other processes make a figure doubtful.
const OTHERS_MAX: f64 = 0.1;
/// Spread above which a figure is doubtful.
const SPREAD_MAX: f64 = 0.1;
/// The largest ratio of a server with a burden (idle connections, exports, files) to one without.
const BURDEN_MAX: f64 = 1.15;
/// The largest ratio of a row's CPU time to that of the build that `--against` names.
pub(super) const AGAINST_MAX: f64 = 1.02;
/// The largest ratio of a row's instructions to those of that build.
const INSTRUCTIONS_MAX: f64 = 1.01;
/// Rounds below which an aim is not judged: single samples are up to 20 % off.
pub(super) const AIM_ROUNDS_MIN: usize = 9;

/// The first contender is the judged one.
#[derive(Debug, Serialize)]
pub(super) struct RowReport {
    pub(super) key: String,
    pub(super) title: String,
    pub(super) contenders: Vec<ContenderReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct ContenderReport {
    pub(super) name: String,
    pub(super) ops_per_s: f64,
    pub(super) cpu_us_per_op: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// CPU time, divided by the first contender's in the same round.
    pub(super) ratio: Spread,
    pub(super) bound: Option<Bound>,
    pub(super) rounds: Vec<Sample>,
}

/// A row's user-space instructions per operation; the first build is the judged one.
#[derive(Debug, Serialize)]
pub(super) struct InstructionReport {
    pub(super) key: String,
    pub(super) title: String,
    pub(super) per_op: Vec<Spread>,
    /// `None` without another build.
    pub(super) bound: Option<Bound>,
}

#[derive(Debug, Serialize)]
pub(super) struct Results {
    pub(super) rows: Vec<RowReport>,
    pub(super) instructions: Vec<InstructionReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// A ratio of CPU times, by its median over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Bound {
    pub(super) kind: BoundKind,
    pub(super) found: f64,
    pub(super) max: f64,
}

pub(super) struct Peer<'a> {
    pub(super) name: &'a str,
    pub(super) kind: BoundKind,
    pub(super) ratio_max: f64,
}

/// The two sides of a [`Bound`]'s ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BoundKind {
    Floor,
    Against,
    /// This server with a burden to the same without it.
    Burden,
    /// This server over NFSv4.1 to the same over NFSv3.
    V3,
    /// This server over NFSv4.1 to NFS-Ganesha over NFSv4.1.
    Ganesha,
    Samba,
    /// This server over SMB to the same over NFSv3.
    OwnNfs,
    /// Instructions of this build to those of the other one.
    Instructions,
}

impl Bound {
    /// NaN exceeds every bound.
    pub(super) fn is_met(&self) -> bool {
        self.found <= self.max
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met() { "kept" } else { "MISSED" };
        let whose = match self.kind {
            BoundKind::Burden | BoundKind::V3 => "",
            BoundKind::Ganesha => "ours 4.1 ",
            BoundKind::Floor
            | BoundKind::Against
            | BoundKind::Samba
            | BoundKind::OwnNfs
            | BoundKind::Instructions => "ours ",
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

    /// The distance of the extremes, divided by the median.
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
        let taking_part = contenders.iter().zip(samples).filter(|(contender, _)| contender.is_in(row));
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

    /// Compares a row with one peer.
    pub(super) fn compared_with(key: &str, title: &str, samples: Vec<Vec<Sample>>, peer: &Peer<'_>) -> Self {
        let mut samples = samples.into_iter();
        let mut next = || samples.next().unwrap_or_default();
        let (ours, theirs) = (next(), next());
        let pairs = || ours.iter().zip(&theirs).map(|(our, their)| (our.cpu_us_per_op, their.cpu_us_per_op));
        let found = Spread::of(pairs().map(|(our, their)| our / their).collect()).median;
        let to_ours = Spread::of(pairs().map(|(our, their)| their / our).collect());
        let bound = Bound { kind: peer.kind, found, max: peer.ratio_max };
        let own = Spread { median: 1.0, min: 1.0, max: 1.0 };
        let contenders = vec![
            ContenderReport::new("plimsoll".to_owned(), ours, own, None),
            ContenderReport::new(peer.name.to_owned(), theirs, to_ours, Some(bound)),
        ];
        Self { key: key.to_owned(), title: title.to_owned(), contenders }
    }

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
                "{}: wide spread of CPU time relative to the median: {}",
                self.title,
                wide.join(", ")
            ));
        }
        let doubts: BTreeSet<&String> = all().flat_map(|sample| &sample.warnings).collect();
        warnings.extend(doubts.into_iter().map(|doubt| format!("{}: {doubt}", self.title)));
        warnings
    }
}

impl InstructionReport {
    /// `counts` contains one list for each build. Of two, the first may take at most 1 % more than the second.
    pub(super) fn new(key: &str, title: &str, counts: Vec<Vec<f64>>) -> Self {
        let per_op: Vec<Spread> = counts.into_iter().map(Spread::of).collect();
        let bound = match per_op[..] {
            [ours, theirs] => {
                let (kind, found) = (BoundKind::Instructions, ours.median / theirs.median);
                Some(Bound { kind, found, max: INSTRUCTIONS_MAX })
            }
            _ => None,
        };
        Self { key: key.to_owned(), title: title.to_owned(), per_op, bound }
    }
}

impl fmt::Display for InstructionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<46}", self.title)?;
        for Spread { median, min, max } in &self.per_op {
            write!(f, "{median:>12.0} ({min:.0}–{max:.0})")?;
        }
        write!(f, " instructions")?;
        self.bound.iter().try_for_each(|bound| write!(f, "  {bound}"))
    }
}

fn bound(row: &Row, contender: &Contender, ratio: f64, ours_to_theirs: f64) -> Option<Bound> {
    let kind = contender.bound?;
    let (found, max) = match kind {
        BoundKind::Floor | BoundKind::Samba | BoundKind::OwnNfs => (ours_to_theirs, row.floor_max),
        BoundKind::Against => (ours_to_theirs, AGAINST_MAX),
        BoundKind::Instructions => (ours_to_theirs, INSTRUCTIONS_MAX),
        BoundKind::Burden => (ratio, BURDEN_MAX),
        BoundKind::V3 => (ratio, row.v41?.v3_max),
        BoundKind::Ganesha => (ours_to_theirs, row.v41?.ganesha_max?),
    };
    Some(Bound { kind, found, max })
}

pub(super) fn bounds(reports: &[RowReport], kind: BoundKind) -> impl Iterator<Item = (&RowReport, Bound)> {
    let all = reports.iter().flat_map(|row| row.contenders.iter().map(move |one| (row, one.bound)));
    all.filter_map(move |(row, bound)| bound.filter(|bound| bound.kind == kind).map(|bound| (row, bound)))
}

/// Without `--against` there is no verdict.
pub(super) fn require_no_row_worse(results: &Results) -> anyhow::Result<()> {
    let times = bounds(&results.rows, BoundKind::Against).map(|(row, bound)| (&row.title, bound));
    let counts = results.instructions.iter().filter_map(|one| one.bound.map(|bound| (&one.title, bound)));
    let verdicts = [
        verdict("CPU time", AGAINST_MAX, times.collect()),
        verdict("instructions", INSTRUCTIONS_MAX, counts.collect()),
    ];
    let worse: Vec<String> = verdicts.into_iter().flatten().collect();
    ensure!(worse.is_empty(), "worse by median: {}", worse.join("; "));
    Ok(())
}

/// Prints that no row exceeds `max`, or returns the rows that do.
fn verdict(measure: &str, max: f64, rows: Vec<(&String, Bound)>) -> Option<String> {
    let percent = ((max - 1.0) * 100.0).round();
    let (kept, worse): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, bound)| bound.is_met());
    if worse.is_empty() {
        if !kept.is_empty() {
            println!("No row is worse than {percent} % by its median of {measure}.");
        }
        return None;
    }
    let worse: Vec<String> =
        worse.into_iter().map(|(title, bound)| format!("{title} ({:.3} ×)", bound.found)).collect();
    Some(format!("more than {percent} % in {measure}: {}", worse.join(", ")))
}

pub(super) fn summarize(results: &Results, rounds: usize, json: Option<&Path>) -> anyhow::Result<()> {
    let reports = &results.rows;
    println!(
        "All figures co-located: server and generator share this machine, a core each. CPU is the server's, user + system."
    );
    for warning in reports.iter().flat_map(RowReport::warnings) {
        println!("warning: {warning}");
    }
    for (kind, what) in [
        (BoundKind::Floor, "aims"),
        (BoundKind::V3, "aims of NFSv4.1 beside NFSv3"),
        (BoundKind::Ganesha, "aims of NFSv4.1 beside NFS-Ganesha"),
        (BoundKind::Samba, "aims beside Samba"),
        (BoundKind::OwnNfs, "aims of SMB beside NFSv3"),
        (BoundKind::Burden, "bounds on burdens"),
    ] {
        let (kept, missed): (Vec<_>, Vec<_>) = bounds(reports, kind).partition(|(_, bound)| bound.is_met());
        if !kept.is_empty() || !missed.is_empty() {
            println!(
                "{} {what} kept, {} missed, by the medians of {rounds} rounds",
                kept.len(),
                missed.len()
            );
        }
    }
    let has_aims = [BoundKind::Floor, BoundKind::V3, BoundKind::Ganesha, BoundKind::Samba, BoundKind::OwnNfs]
        .into_iter()
        .any(|kind| bounds(reports, kind).next().is_some());
    if rounds < AIM_ROUNDS_MIN && has_aims {
        println!(
            "warning: {rounds} rounds are too few to judge an aim; at least {AIM_ROUNDS_MIN} are required"
        );
    }
    let Some(path) = json else { return Ok(()) };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, serde_json::to_vec_pretty(results)?)
        .with_context(|| format!("cannot write {}", path.display()))
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
        let speaks_v41 = matches!(bound, Some(BoundKind::V3 | BoundKind::Ganesha));
        let new = Contender::new(name, Program::Plimsoll("x".into()), Path::new("/nowhere"));
        Contender { bound, speaks_v41, ..new }
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

    /// This server takes 2.0 in every round.
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
    fn bounds_are_met_or_missed() {
        let meets = |report: &RowReport| {
            report.contenders.iter().map(|one| one.bound.map(|bound| bound.is_met())).collect::<Vec<_>>()
        };
        let good = report(1.97, [13.0, 14.0, 20.0], 1.91, 2.2);
        assert_eq!(meets(&good), [None, Some(true), None, Some(true), Some(true)]);
        assert_eq!(good.contenders[2].ratio.median, 7.0);
        let bad = report(1.95, [1.0, 1.0, 1.0], 1.90, 2.4);
        assert_eq!(meets(&bad), [None, Some(false), None, Some(false), Some(false)]);
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
        let meets = |report: &RowReport, name: &str| {
            let found = report.contenders.iter().find(|one| one.name.starts_with(name));
            found.and_then(|one| one.bound).map(|bound| bound.is_met())
        };
        let good = report(0, 2.08, 12.6);
        assert_eq!((meets(&good, "plimsoll 4.1"), meets(&good, "ganesha 4.1")), (Some(true), Some(true)));
        assert_eq!(meets(&good, "ganesha"), None);
        let bad = report(0, 2.12, 12.6);
        assert_eq!((meets(&bad, "plimsoll 4.1"), meets(&bad, "ganesha 4.1")), (Some(false), Some(false)));
        assert!(bad.to_string().contains("MISSED: 1.060 ×, at most 1.05 ×"), "{bad}");
        assert!(bad.to_string().contains("MISSED: ours 4.1 0.168 ×, at most 0.17 ×"), "{bad}");
        // A row without an aim over NFSv4.1 has no contender there.
        let (without, _) = ROWS.iter().enumerate().find(|(_, row)| row.v41.is_none()).unwrap();
        assert_eq!(report(without, 9.0, 9.0).contenders.len(), 2);
        let (written, _) = ROWS.iter().enumerate().find(|(_, row)| row.key == "write4k").unwrap();
        assert_eq!(report(written, 2.0, 20.0).contenders[1].name, "plimsoll 4.1: WRITE, GETATTR");
    }

    #[test]
    fn a_worse_row_fails_the_comparison() {
        let verdict = |against: f64, instructions: f64| {
            let counts = vec![vec![1000.0; 3], vec![instructions, 1.0, 9000.0]];
            require_no_row_worse(&Results {
                rows: vec![report(2.0, [1.0; 3], 0.1, 9.0), report(against, [1.0; 3], 0.1, 9.0)],
                instructions: vec![InstructionReport::new("smb.query", "SMB QUERY_INFO", counts)],
            })
        };
        verdict(1.97, 991.0).unwrap();
        let worse = verdict(1.95, 985.0).unwrap_err().to_string();
        assert_eq!(
            worse,
            "worse by median: more than 2 % in CPU time: READ 4K random, 1 × 16 (1.026 ×); \
             more than 1 % in instructions: SMB QUERY_INFO (1.015 ×)"
        );
    }

    #[test]
    fn instructions_of_one_build_are_not_judged() {
        let one = InstructionReport::new("getattr", "GETATTR", vec![vec![3.0, 1.0, 2.0]]);
        assert_eq!((one.per_op[0].median, one.bound), (2.0, None));
    }

    #[test]
    fn a_ratio_without_samples_meets_no_bound() {
        assert!(!Bound { kind: BoundKind::Floor, found: f64::NAN, max: 1.0 }.is_met());
    }

    #[test]
    fn noise_is_reported() {
        let warnings = report(2.0, [13.0, 14.0, 20.0], 1.5, 2.2).warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("others used up to 0.20 cores"), "{warnings:?}");
        assert!(warnings[1].contains("median: ganesha 50 %"), "{warnings:?}");
    }
}
