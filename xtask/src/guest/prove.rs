//! Drives `xtask/guest/prove.sh`: fio on the kernel's client in the guest and the built-in client here run the same
//! scenarios on the same limited volumes, and must agree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::disagreement::{Disagreement, repeat_until_agreement};
use super::form::Form;
use super::image::Image;
use super::json::{list, number, read};
use super::machine::{Guest, HOST_ADDRESS};
use super::shared::Machine;
use crate::debian::Suite;
use crate::managed::Managed;
use crate::process;

const SCRIPT: &str = include_str!("../../guest/prove.sh");
const CONNECTIONS: u64 = 4;
const SIZE: &str = "256MiB";
/// Repetitions of each scenario. If the two disagree, all of it is measured again, three times, and the median counts,
/// so that a pause of the host does no harm.
const REPETITIONS: [u32; 3] = [1, 3, 3];
/// The command of the published pages, with a size for an emulated machine.
const COMMAND: &str = "fio --name=8krandomreads --rw=randread --direct=1 --ioengine=libaio --bs=8k --numjobs=4 \
    --iodepth=16 --size=1M --runtime=600 --group_reporting";
const COMMAND_READS: f64 = 512.0;
const DIFFERENCE_MAX: f64 = 0.1;
/// The largest relative difference between calls on the wire and operations: those in flight at the window's edges.
const CALLS_DIFFERENCE_MAX: f64 = 0.05;

/// Checks of a run beside one for each volume. A run that stops half-way but reports success would pass with fewer.
const CHECKS_BESIDE_VOLUMES: usize = 2;

/// The limit is low enough for an emulated machine.
struct LimitedVolume {
    name: &'static str,
    limit: &'static str,
    scenario: &'static str,
}

const VOLUMES: [LimitedVolume; 2] = [
    LimitedVolume {
        name: "operations",
        limit: "iops=100",
        scenario: include_str!("../../guest/prove-operations.toml"),
    },
    LimitedVolume {
        name: "throughput",
        limit: "throughput=4MiB/s",
        scenario: include_str!("../../guest/prove-throughput.toml"),
    },
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Program to test, both server and benchmark; by default this tree's, built by `cargo build --release`
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 900)]
    timeout_s: u64,
}

pub(super) fn run(args: &Args, machine: &mut Machine<'_>, form: Form) -> anyhow::Result<()> {
    let volumes = &VOLUMES[..form.choose(VOLUMES.len(), 1)];
    repeat_until_agreement(REPETITIONS, |repetitions| measured(args, machine, volumes, repetitions))
}

fn measured(
    args: &Args,
    machine: &mut Machine<'_>,
    volumes: &[LimitedVolume],
    repetitions: u32,
) -> anyhow::Result<()> {
    let image = Image::build(Suite::Bookworm)?;
    let work = process::target_dir().join("guest").join("prove");
    process::empty_dir(&work)?;
    let binary = process::binary(args.binary.as_deref());
    let service = Managed::start(&binary, &work, &[])?;
    let how = format!("--preset quick --repetitions {repetitions} --time 4");
    make_volumes(&service, volumes)?;
    let mut guest = Guest::new(&image)
        .file("plimsoll", &binary)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", service.port)
        .set("CONNECTIONS", CONNECTIONS)
        .set("VOLUMES", volumes.iter().map(|volume| volume.name).collect::<Vec<_>>().join(" "))
        .set("HOW", &how)
        .set("COMMAND", COMMAND);
    for volume in volumes {
        let scenario = scenario_path(&work, volume);
        std::fs::write(&scenario, volume.scenario)?;
        guest = guest.file(&format!("{}.toml", volume.name), &scenario);
    }
    let mut running = machine.start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?;
    running.wait_mark("clients")?;
    let connections = service.connections()?;
    ensure!(connections == CONNECTIONS, "the server has {connections} connections; expected {CONNECTIONS}");
    running.finish()?.require_checks(volumes.len() + CHECKS_BESIDE_VOLUMES)?;
    check_command_line(&service)?;
    for volume in volumes {
        compare(&service, &work, volume, &how)?;
    }
    service.stop()
}

fn scenario_path(work: &Path, volume: &LimitedVolume) -> PathBuf {
    work.join(format!("{}.toml", volume.name))
}

fn make_volumes(service: &Managed, volumes: &[LimitedVolume]) -> anyhow::Result<()> {
    service.manage("pool create prove --level plimsoll/custom --size 1GiB")?;
    for LimitedVolume { name, limit, .. } in volumes {
        service.manage(&format!(
            "volume create {name} --pool prove --size {SIZE} --limit {limit} --allow 127.0.0.1 --squash none \
             --durability relaxed"
        ))?;
    }
    Ok(())
}

/// Asserts that `bench fio` and fio itself do the same reads for the same command line, with as many in flight. Calls
/// in flight are their rate times their duration, regardless of the machine's speed.
fn check_command_line(service: &Managed) -> anyhow::Result<()> {
    let [ours, plain] = ["fio.json", "plain.json"].map(|name| read(&service.written(name)?));
    let (ours, plain) = (ours?, plain?);
    let (operation, seconds) = (&ours["measured"][0]["operations"][0], &ours["measured"][0]["seconds"]);
    let ours =
        [number(&operation["ops"])?, number(&operation["service"]["sum_ns"])? / 1e9 / number(seconds)?];
    let read = &plain["jobs"][0]["read"];
    let [reads, runtime] = [number(&read["total_ios"])?, number(&read["runtime"])? / 1e3];
    let plain = [reads, reads * number(&read["clat_ns"]["mean"])? / 1e9 / runtime];
    println!("\n{COMMAND}\n");
    println!("{:<34}{:>10}{:>10}{:>8}", "", "bench fio", "fio", "ratio");
    print_and_check([("reads", ours[0], plain[0]), ("in flight", ours[1], plain[1])])?;
    ensure!(
        ours[0] == COMMAND_READS && plain[0] == COMMAND_READS,
        "expected {COMMAND_READS} reads, found {} and {}",
        ours[0],
        plain[0]
    );
    Ok(())
}

fn compare(service: &Managed, work: &Path, volume: &LimitedVolume, how: &str) -> anyhow::Result<()> {
    let LimitedVolume { name, limit, .. } = volume;
    let guest = read(&service.written(&format!("{name}.json"))?)?;
    check_mount(&guest["target"], name)?;
    let output = work.join(format!("{name}.json"));
    service.manage(&format!(
        "bench run {} --target nfs://127.0.0.1:{}/{name} {how} --output {}",
        scenario_path(work, volume).display(),
        service.port,
        output.display()
    ))?;
    let built_in = read(&output)?;
    let (guest, built_in) = (cells(&guest)?, cells(&built_in)?);
    ensure!(guest.len() == built_in.len(), "{} points and {} points", guest.len(), built_in.len());
    let mut rows = Vec::new();
    for (guest, built_in) in guest.iter().zip(built_in) {
        ensure!(guest["point"] == built_in["point"], "{} is not {}", guest["point"], built_in["point"]);
        check_calls(guest)?;
        let point = label(&guest["point"])?;
        let iops = |cell: &Value| number(&cell["summary"]["iops"]["median"]);
        rows.push((format!("{point}, IOPS"), iops(guest)?, iops(built_in)?));
        rows.push((format!("{point}, mean ms"), mean_ms(guest)?, mean_ms(built_in)?));
    }
    println!("\nvolume with {limit}\n");
    println!("{:<34}{:>10}{:>10}{:>8}", "", "guest", "built-in", "ratio");
    print_and_check(rows.iter().map(|(what, guest, built_in)| (what.as_str(), *guest, *built_in)))
}

fn print_and_check<'a>(rows: impl IntoIterator<Item = (&'a str, f64, f64)>) -> anyhow::Result<()> {
    let mut apart = Vec::new();
    for (what, found, other) in rows {
        let ratio = found / other;
        println!("{what:<34}{found:>10.1}{other:>10.1}{ratio:>8.3}");
        // NaN does not agree either.
        if !(1.0 - DIFFERENCE_MAX..=1.0 + DIFFERENCE_MAX).contains(&ratio) {
            apart.push(what);
        }
    }
    if apart.is_empty() {
        return Ok(());
    }
    Err(Disagreement(format!("more than {:.0} % apart: {}", DIFFERENCE_MAX * 100.0, apart.join("; "))).into())
}

fn check_mount(target: &Value, volume: &str) -> anyhow::Result<()> {
    let mount = &target["mount"];
    let source = format!("{HOST_ADDRESS}:/{volume}");
    ensure!(mount["kind"] == "nfs" && mount["source"] == source.as_str(), "the mount is {mount}");
    let options = mount["options"].as_str().context("no mount options")?;
    let wanted = format!("nconnect={CONNECTIONS}");
    ensure!(options.split(',').any(|option| option == wanted), "the mount has no {wanted}: {options}");
    ensure!(target["co_located"] == false, "the result must not be co-located: {target}");
    Ok(())
}

/// Asserts that every operation of the application was a call on the wire: no data came from the client's cache.
fn check_calls(cell: &Value) -> anyhow::Result<()> {
    let mut found: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for measurement in list(&cell["measurements"])? {
        for doubt in list(&measurement["doubts"])? {
            let (kind, text) = (&doubt["kind"], doubt["text"].to_string());
            // Occasionally fio's random mix is too far off.
            if text.contains("were reads instead of") {
                return Err(Disagreement(text).into());
            }
            ensure!(kind != "cache-mixed" && kind != "void", "{text}");
        }
        for operation in list(&measurement["operations"])? {
            let name = operation["name"].as_str().unwrap_or_default().to_uppercase();
            let [ops, calls] = [number(&operation["ops"])?, number(&measurement["wire"][&name])?];
            let sums = found.entry(name).or_default();
            *sums = [sums[0] + ops, sums[1] + calls];
        }
    }
    for (name, [ops, calls]) in found {
        eprintln!("prove: {ops} operations, {calls} calls of {name}");
        let agrees = (calls / ops - 1.0).abs() <= CALLS_DIFFERENCE_MAX;
        if !agrees {
            return Err(Disagreement(format!("{ops} operations were {calls} calls of {name}")).into());
        }
    }
    Ok(())
}

/// The median over the repetitions.
fn mean_ms(cell: &Value) -> anyhow::Result<f64> {
    let mean = |measurement: &Value| {
        let (mut ops, mut sum_ns) = (0.0, 0.0);
        for operation in list(&measurement["operations"])? {
            ops += number(&operation["ops"])?;
            sum_ns += number(&operation["service"]["sum_ns"])?;
        }
        Ok(sum_ns / ops / 1e6)
    };
    let mut means = list(&cell["measurements"])?.iter().map(mean).collect::<anyhow::Result<Vec<f64>>>()?;
    means.sort_by(f64::total_cmp);
    means.get(means.len() / 2).copied().context("a point without a repetition")
}

fn cells(run: &Value) -> anyhow::Result<&[Value]> {
    list(&run["cells"])
}

fn label(point: &Value) -> anyhow::Result<String> {
    let (block, reads) = (number(&point["block"])? / 1024.0, &point["read_percent"]);
    Ok(format!("{block} KiB, {reads} % reads"))
}
