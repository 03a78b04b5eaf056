//! `cargo xtask prove`: limits and curves, measured by the benchmark as a user would.
//!
//! Limiter and benchmark are independent; here each must confirm the other. Every cell of a quick `gcnv-scale-out` must
//! be at a volume's limit, and volumes that follow published curves must reproduce these curves' five mixes.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::managed::{Managed, smb_password};
use crate::process;
use crate::samba::USER;

/// The largest difference of a cell from the volume's limit, in percent.
const LIMIT_MAX: f64 = 2.0;
/// The largest difference of a mix from the published point, in percent.
const SHAPE_MAX: f64 = 3.0;
/// Repetitions of cells after one was off.
const RETRIES_MAX: u32 = 3;
/// The limit of the load curve's volume: about fifteen job sets, whose files are created in seconds.
const CURVE_OPS: u32 = 5000;
/// The limit of `anf/ultra` for 256 GiB, in MiB/s: low enough for two processors at 4 KiB, even while other processes
/// use some of them.
const LIMIT_MIB_PER_S: f64 = 32.0;
/// Series of the scenario, with each one's published curve and a scale that a small machine sustains.
const SHAPES: [(&str, &str, f64); 4] = [
    ("64 KiB sequential", "gcnv-extreme-nfs3-64k-seq", 0.03),
    ("256 KiB sequential", "gcnv-extreme-nfs3-256k-seq", 0.03),
    ("4 KiB random", "gcnv-extreme-nfs3-4k-rand", 0.04),
    ("8 KiB random", "gcnv-extreme-nfs3-8k-rand", 0.04),
];
/// Each curve's totals at 100, 75, 50, 25 and 0 % reads: MiB/s for the sequential ones, IOPS for the others.
const PUBLISHED: [[f64; 5]; 4] = [
    [5237.0, 3048.0, 2831.0, 2445.0, 2172.0],
    [4928.0, 3361.0, 3278.0, 2713.0, 2440.0],
    [380_000.0, 229_300.0, 159_600.0, 128_200.0, 118_000.0],
    [265_000.0, 176_100.0, 133_800.0, 120_700.0, 104_000.0],
];

/// Mixes of the sequential tables of `gcnv-smb`, and one in random places; two calls in flight per job.
const SMB_SCENARIO: &str = r#"
name = "over-smb"
title = "Tables of page 000 over SMB"

[[series]]
name = "64 KiB sequential, SMB"
blocks = ["64k"]
pattern = "sequential"
reads = [100, 50, 0]
clients = [6]
jobs = 8
connections = [16]
depths = [2]
protocols = ["smb"]

[[series]]
name = "256 KiB sequential, SMB"
blocks = ["256k"]
pattern = "sequential"
reads = [50]
clients = [6]
jobs = 8
connections = [16]
depths = [2]
protocols = ["smb"]

[[series]]
name = "8 KiB random, SMB"
blocks = ["8k"]
reads = [100]
clients = [6]
jobs = 8
connections = [16]
depths = [2]
protocols = ["smb"]
"#;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server and the benchmark; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Run the short form: one table at the limit over NFS and the tables over SMB, one published curve, no load curve.
    #[arg(long)]
    brief: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let work = process::target_dir().join("prove");
    process::empty_dir(&work)?;
    let binary = process::binary(args.binary.as_deref());
    let service = Managed::start_with_smb(&binary, &work, &[])?;
    let mut faults = at_the_limit(&service, &work, args.brief)?;
    faults.extend(over_smb(&service, &work)?);
    let shapes = if args.brief { 1 } else { SHAPES.len() };
    for ((series, shape, scale), published) in SHAPES.into_iter().zip(PUBLISHED).take(shapes) {
        faults.extend(measure_curve_volume(&service, &work, series, shape, scale, &published)?);
    }
    if !args.brief {
        curve(&service, &work)?;
    }
    service.stop()?;
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// Measures all thirty cells at one limit, or the five of one table.
fn at_the_limit(service: &Managed, work: &Path, is_brief: bool) -> anyhow::Result<Vec<String>> {
    let (series, count) = if is_brief { (SHAPES[3].0, 5) } else { ("", 30) };
    service.manage("pool create limited --level anf/ultra --size 1TiB")?;
    service.manage("volume create limited --pool limited --size 256GiB --allow 127.0.0.1 --squash none")?;
    measure_twice_if_off(|repetitions| {
        let cells = measure_series(service, work, "limited", series, repetitions)?;
        ensure!(cells.len() == count, "{} cells instead of {count}", cells.len());
        let off = |cell: &Cell| cell.compare("limit", cell.mib_per_s, LIMIT_MIB_PER_S, LIMIT_MAX);
        Ok(cells.iter().map(off).collect())
    })
}

/// Measures cells of the tables over SMB at the same limit; each client has a session of sixteen connections.
fn over_smb(service: &Managed, work: &Path) -> anyhow::Result<Vec<String>> {
    let password = smb_password(work)?;
    let (name, id) = (USER.name, USER.id.to_string());
    service.manage_with(&["user", "create", name, "--uid", &id, "--password-file", &password])?;
    service.manage(&format!(
        "volume create shared --pool limited --size 256GiB --allow 127.0.0.1 --protocols smb --owner {id}:{id}"
    ))?;
    let scenario = work.join("smb.toml");
    std::fs::write(&scenario, SMB_SCENARIO)?;
    let target = format!("smb://{name}@127.0.0.1:{}/shared?channels=16", service.smb_port);
    measure_twice_if_off(|repetitions| {
        let scenario = scenario.to_str().context("path is not UTF-8")?;
        let more = ["--password-file", &password];
        let cells =
            measure_scenario(service, &work.join("shared.json"), scenario, &target, repetitions, &more)?;
        ensure!(cells.len() == 5, "{} cells instead of 5", cells.len());
        let off = |cell: &Cell| cell.compare("limit over SMB", cell.mib_per_s, LIMIT_MIB_PER_S, LIMIT_MAX);
        Ok(cells.iter().map(off).collect())
    })
}

fn measure_curve_volume(
    service: &Managed,
    work: &Path,
    series: &str,
    shape: &str,
    scale: f64,
    published: &[f64; 5],
) -> anyhow::Result<Vec<String>> {
    let name = shape.rsplit_once("nfs3-").map_or(shape, |(_, name)| name);
    service.manage(&format!("pool create {name} --level plimsoll/unlimited --size 10GiB"))?;
    service.manage(&format!(
        "volume create {name} --pool {name} --size 10GiB --allow 127.0.0.1 --squash none --shape {shape} --scale {scale}"
    ))?;
    measure_twice_if_off(|repetitions| {
        let cells = measure_series(service, work, name, series, repetitions)?;
        ensure!(cells.len() == published.len(), "{} cells instead of {}", cells.len(), published.len());
        let off = |(cell, total): (&Cell, &f64)| {
            let found = if shape.ends_with("seq") { cell.mib_per_s } else { cell.iops };
            cell.compare(shape, found, total * scale, SHAPE_MAX)
        };
        Ok(cells.iter().zip(published).map(off).collect())
    })
}

/// Measures once. If a cell is off, measures again by the medians of three repetitions, which one disturbance does not
/// move. `measure` returns the error of each cell; an error that occurs every time is a fault.
fn measure_twice_if_off(
    measure: impl Fn(u32) -> anyhow::Result<Vec<Option<String>>>,
) -> anyhow::Result<Vec<String>> {
    let mut off = measure(1)?;
    for _ in 0..RETRIES_MAX {
        let count = off.iter().flatten().count();
        if count == 0 {
            break;
        }
        println!("off: {count} cells; three repetitions:");
        off = off.into_iter().zip(measure(3)?).map(|(before, now)| before.and(now)).collect();
    }
    Ok(off.into_iter().flatten().collect())
}

/// Measures a load curve of job sets up to the volume's limit: ten points, or the reason for fewer.
fn curve(service: &Managed, work: &Path) -> anyhow::Result<()> {
    service.manage("pool create curve --level plimsoll/custom --size 20GiB")?;
    service.manage(&format!(
        "volume create curve --pool curve --size 20GiB --allow 127.0.0.1 --squash none --durability relaxed \
         --limit iops={CURVE_OPS}"
    ))?;
    let file = work.join("curve.json");
    let target = format!("nfs://127.0.0.1:{}/curve", service.port);
    let output = file.to_str().context("path is not UTF-8")?;
    let how = ["--preset", "quick", "--time", "2", "--cleanup", "--target", &target, "--output", output];
    service.manage_with(&[&["bench", "run", "eda-blend"], &how[..]].concat())?;
    let run: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let cells = run["cells"].as_array().context("no cells")?;
    let points = cells.iter().map(|cell| Cell::new(&run, cell)).collect::<anyhow::Result<Vec<_>>>()?;
    points.iter().for_each(|point| println!("{:<32} {:>10.1} operations a second", point.label, point.iops));
    let valid = points.iter().filter(|point| point.void.is_none()).count();
    let doubts = run["doubts"].to_string();
    println!("{valid} points{}", if valid < 10 { format!(": {doubts}") } else { String::new() });
    ensure!(
        valid >= 10 || doubts.contains("valid points instead of"),
        "{valid} points, and nobody says why: {doubts}"
    );
    Ok(())
}

struct Cell {
    label: String,
    iops: f64,
    mib_per_s: f64,
    /// The reason why its result is void.
    void: Option<String>,
}

impl Cell {
    fn new(run: &Value, cell: &Value) -> anyhow::Result<Self> {
        let number = |value: &Value| value.as_f64().context("a number is missing in the result");
        let series = usize::try_from(cell["series"].as_u64().context("no series")?)?;
        let name = run["scenario"]["series"][series]["name"].as_str().context("no name")?;
        let void = cell["doubts"].as_array().context("no doubts")?;
        let void = void.iter().find(|doubt| doubt["kind"] == "void").map(|doubt| doubt["text"].to_string());
        Ok(Self {
            label: match cell["point"]["job_sets"].as_u64() {
                Some(sets) => format!("{name}, {sets} job sets"),
                None => format!("{name}, {} % reads", cell["point"]["read_percent"]),
            },
            iops: number(&cell["summary"]["iops"]["median"])?,
            mib_per_s: number(&cell["summary"]["mib_per_s"]["median"])?,
            void,
        })
    }

    /// Returns an error message if the found value differs by more than `most`.
    fn compare(&self, what: &str, found: f64, wanted: f64, most: f64) -> Option<String> {
        let off = (found / wanted - 1.0) * 100.0;
        let line = format!("{:<32} {found:>10.1} of {wanted:>10.1} {off:>+7.2} %  {what}", self.label);
        println!("{line}");
        let wrong =
            self.void.clone().or_else(|| (off.abs() > most).then(|| format!("more than {most} % off")));
        wrong.map(|wrong| format!("{line}: {wrong}"))
    }
}

/// An empty `series` selects all of the scenario.
fn measure_series(
    service: &Managed,
    work: &Path,
    volume: &str,
    series: &str,
    repetitions: u32,
) -> anyhow::Result<Vec<Cell>> {
    let target = format!("nfs://127.0.0.1:{}/{volume}", service.port);
    let more: &[&str] = if series.is_empty() { &[] } else { &["--series", series] };
    let file = work.join(format!("{volume}.json"));
    measure_scenario(service, &file, "gcnv-scale-out", &target, repetitions, more)
}

fn measure_scenario(
    service: &Managed,
    file: &Path,
    scenario: &str,
    target: &str,
    repetitions: u32,
    more: &[&str],
) -> anyhow::Result<Vec<Cell>> {
    let (repetitions, output) = (repetitions.to_string(), file.to_str().context("path is not UTF-8")?);
    let how = ["--preset", "quick", "--time", "2", "--repetitions", &repetitions, "--working-set", "192m"];
    let what = ["bench", "run", scenario, "--target", target, "--output", output];
    service.manage_with(&[&what[..], &how, more].concat())?;
    let run: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let cells = run["cells"].as_array().context("no cells")?;
    cells.iter().map(|cell| Cell::new(&run, cell)).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Returns the faults, and the number of measurements.
    fn faults(off: &[[bool; 2]]) -> (Vec<String>, usize) {
        let remaining = RefCell::new(off.iter());
        let faults = measure_twice_if_off(|_| {
            let cells = remaining.borrow_mut().next().expect("no further measurement");
            Ok(["a", "b"].into_iter().zip(cells).map(|(name, off)| off.then(|| name.to_owned())).collect())
        });
        (faults.unwrap(), off.len() - remaining.into_inner().len())
    }

    #[test]
    fn a_cell_that_is_off_every_time_is_a_fault() {
        assert_eq!(faults(&[[false, false]]), (vec![], 1));
        assert_eq!(faults(&[[true, false], [false, true]]), (vec![], 2));
        assert_eq!(faults(&[[true, true]; 4]), (vec!["a".to_owned(), "b".to_owned()], 4));
        let mixed = [[true, true], [true, false], [true, true], [true, false]];
        assert_eq!(faults(&mixed), (vec!["a".to_owned()], 4));
    }
}
