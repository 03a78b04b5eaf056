//! Drives `xtask/guest/prove.sh`: the same scenarios by fio on the kernel's client in the guest and by the built-in client
//! here, on the same limited volumes, must find the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS};
use super::require_success;
use crate::managed::Managed;
use crate::process;

const SCRIPT: &str = include_str!("../../guest/prove.sh");
const CONNECTIONS: u64 = 4;
const SIZE: &str = "256MiB";
/// Of each measurement.
const SECONDS: u64 = 8;
/// As the published pages write it, with sizes and times for an emulated machine.
const COMMAND: &str = "fio --name=8krandomreads --rw=randread --direct=1 --ioengine=libaio --bs=8k --numjobs=4 \
    --iodepth=16 --size=4M --runtime=6 --time_based --group_reporting";
/// How far the guest's figures may be from those of the built-in client.
const AGREEMENT: f64 = 0.1;
/// How far calls on the wire may be from operations: of what is in flight at the window's edges.
const CALLS: f64 = 0.03;

/// A volume, with a limit that an emulated machine reaches easily, and what is measured on it.
struct Limited {
    name: &'static str,
    limit: &'static str,
    scenario: &'static str,
}

const VOLUMES: [Limited; 2] = [
    Limited {
        name: "operations",
        limit: "iops=200",
        scenario: include_str!("../../guest/prove-operations.toml"),
    },
    Limited {
        name: "throughput",
        limit: "throughput=4MiB/s",
        scenario: include_str!("../../guest/prove-throughput.toml"),
    },
];

/// `guest prove`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program, both server and benchmark; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The machine is killed after so many seconds.
    #[arg(long, default_value_t = 300)]
    timeout_s: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let image = Image::build()?;
    let work = process::target_dir().join("guest").join("prove");
    if work.exists() {
        std::fs::remove_dir_all(&work)?;
    }
    std::fs::create_dir_all(&work)?;
    let binary = args.binary.clone().unwrap_or_else(|| process::target_dir().join("release/plimsoll"));
    let service = Managed::start(&binary, &work, &[])?;
    make_volumes(&service)?;
    let mut guest = Guest::new(&image)
        .file("plimsoll", &binary)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", service.port)
        .set("CONNECTIONS", CONNECTIONS)
        .set("VOLUMES", VOLUMES.map(|volume| volume.name).join(" "))
        .set("SECONDS_EACH", SECONDS)
        .set("COMMAND", COMMAND);
    for volume in &VOLUMES {
        let scenario = scenario_path(&work, volume);
        std::fs::write(&scenario, volume.scenario)?;
        guest = guest.file(&format!("{}.toml", volume.name), &scenario);
    }
    let mut running = guest.start(SCRIPT, Duration::from_secs(args.timeout_s))?;
    running.wait_mark("clients")?;
    let connections = service.connections()?;
    ensure!(connections == CONNECTIONS, "the server counts {connections} connections, not {CONNECTIONS}");
    require_success(&running.finish()?)?;
    check_command_line(&work)?;
    for volume in &VOLUMES {
        compare(&service, &work, volume)?;
    }
    service.stop()
}

fn scenario_path(work: &Path, volume: &Limited) -> PathBuf {
    work.join(format!("{}.toml", volume.name))
}

fn make_volumes(service: &Managed) -> anyhow::Result<()> {
    service.manage("pool create prove --level plimsoll/custom --size 1GiB")?;
    for Limited { name, limit, .. } in &VOLUMES {
        service.manage(&format!(
            "volume create {name} --pool prove --size {SIZE} --limit {limit} --allow 127.0.0.1 --squash none \
             --durability relaxed"
        ))?;
    }
    Ok(())
}

/// What the guest wrote into a volume under this name, which no two volumes have.
fn written(work: &Path, name: &str) -> anyhow::Result<Value> {
    let volumes = std::fs::read_dir(work.join("data/volumes"))?;
    let paths = volumes.map(|volume| Ok(volume?.path().join(name))).collect::<std::io::Result<Vec<_>>>()?;
    let path = paths.iter().find(|path| path.exists());
    read(path.with_context(|| format!("the guest wrote no {name}"))?)
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("understand {}", path.display()))
}

/// `bench fio` and fio itself must find the same for the same command line.
fn check_command_line(work: &Path) -> anyhow::Result<()> {
    let (ours, plain) = (written(work, "fio.json")?, written(work, "plain.json")?);
    let ours = &ours["measured"][0];
    let operation = &ours["operations"][0];
    let ops = number(&operation["ops"])?;
    let ours = [ops / number(&ours["seconds"])?, number(&operation["service"]["sum_ns"])? / ops / 1e6];
    let read = &plain["jobs"][0]["read"];
    let plain = [number(&read["iops"])?, number(&read["clat_ns"]["mean"])? / 1e6];
    println!("\n{COMMAND}\n");
    let heading = format!("{:<34}{:>10}{:>10}{:>8}", "", "bench fio", "fio", "ratio");
    print_and_check(&heading, [("reads/s", ours[0], plain[0]), ("mean ms", ours[1], plain[1])])
}

/// The guest's run of a scenario must say what it was measured on, and agree with the built-in client's.
fn compare(service: &Managed, work: &Path, volume: &Limited) -> anyhow::Result<()> {
    let Limited { name, limit, .. } = volume;
    let guest = written(work, &format!("{name}.json"))?;
    check_mount(&guest["target"], name)?;
    let output = work.join(format!("{name}.json"));
    service.manage(&format!(
        "bench run {} --target nfs://127.0.0.1:{}/{name} --preset quick --repetitions 1 --time {SECONDS} --output {}",
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
        for (what, figure) in [("IOPS", "iops"), ("mean ms", "latency")] {
            let of = |cell: &Value| {
                let figure = &cell["summary"][figure];
                number(if figure["median"].is_null() { &figure["mean_ms"] } else { &figure["median"] })
            };
            rows.push((format!("{point}, {what}"), of(guest)?, of(built_in)?));
        }
    }
    println!("\nvolume with {limit}\n");
    let heading = format!("{:<34}{:>10}{:>10}{:>8}", "", "guest", "built-in", "ratio");
    print_and_check(&heading, rows.iter().map(|(what, guest, built_in)| (what.as_str(), *guest, *built_in)))
}

/// Prints what was found twice, and how it compares; an error tells what does not agree.
fn print_and_check<'a>(
    heading: &str,
    rows: impl IntoIterator<Item = (&'a str, f64, f64)>,
) -> anyhow::Result<()> {
    println!("{heading}");
    let mut apart = Vec::new();
    for (what, found, other) in rows {
        let ratio = found / other;
        println!("{what:<34}{found:>10.1}{other:>10.1}{ratio:>8.3}");
        // What is no number does not agree either.
        if !(1.0 - AGREEMENT..=1.0 + AGREEMENT).contains(&ratio) {
            apart.push(what);
        }
    }
    ensure!(apart.is_empty(), "more than {:.0} % apart: {}", AGREEMENT * 100.0, apart.join("; "));
    Ok(())
}

/// The result names the mount as it was made.
fn check_mount(target: &Value, volume: &str) -> anyhow::Result<()> {
    let mount = &target["mount"];
    let source = format!("{HOST_ADDRESS}:/{volume}");
    ensure!(mount["kind"] == "nfs" && mount["source"] == source.as_str(), "the mount is {mount}");
    let options = mount["options"].as_str().context("no mount options")?;
    let wanted = format!("nconnect={CONNECTIONS}");
    ensure!(options.split(',').any(|option| option == wanted), "the mount has no {wanted}: {options}");
    ensure!(target["co_located"] == false, "the guest is not the host: {target}");
    Ok(())
}

/// Every operation of the application was a call on the wire: nothing came from the client's memory.
fn check_calls(cell: &Value) -> anyhow::Result<()> {
    let [measurement] = list(&cell["measurements"])? else { bail!("not one repetition: {cell}") };
    for doubt in list(&measurement["doubts"])? {
        let kind = &doubt["kind"];
        ensure!(kind != "cache-mixed" && kind != "void", "{}", doubt["text"]);
    }
    for operation in list(&measurement["operations"])? {
        let name = operation["name"].as_str().unwrap_or_default().to_uppercase();
        let (ops, calls) = (number(&operation["ops"])?, number(&measurement["wire"][&name])?);
        ensure!((calls / ops - 1.0).abs() <= CALLS, "{ops} operations were {calls} calls of {name}");
        eprintln!("prove: {ops} operations, {calls} calls of {name}");
    }
    Ok(())
}

fn cells(run: &Value) -> anyhow::Result<&[Value]> {
    list(&run["cells"])
}

fn label(point: &Value) -> anyhow::Result<String> {
    let (block, reads) = (number(&point["block"])? / 1024.0, &point["read_percent"]);
    Ok(format!("{block} KiB, {reads} % reads"))
}

fn list(value: &Value) -> anyhow::Result<&[Value]> {
    value.as_array().map(Vec::as_slice).with_context(|| format!("no list: {value}"))
}

fn number(value: &Value) -> anyhow::Result<f64> {
    value.as_f64().with_context(|| format!("no number: {value}"))
}
