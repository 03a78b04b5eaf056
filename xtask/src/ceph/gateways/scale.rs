//! Four volumes at each gateway: the throughput of one, two and three gateways, and the CPU time of an operation.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::gateway::Gateway;
use super::setup::{ENDPOINTS, GATEWAYS, NFS_PORT, RECOVERY_MAX, Setup, address};
use crate::ceph::cluster::Cluster;
use crate::ceph::network::CLIENTS;
use crate::process;
use crate::server::Endpoint;

/// An endpoint for each gateway.
const PLACES: [&str; GATEWAYS.len()] = [ENDPOINTS[0], ENDPOINTS[1], "green"];
const VOLUMES_OF_ENDPOINT: usize = 4;
/// The limit of each limited volume, far below what one gateway can do.
const LIMIT_MIB: u64 = 4;
const BLOCK: &str = "64k";
const TIME: &str = "8s";
const IDLE: Duration = Duration::from_secs(5);
/// The part by which the sum of limited volumes may miss the sum of their limits.
const MISS_MAX: f64 = 0.03;
/// `USER_HZ`, which Linux never changes: times in `/proc/PID/stat` are in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// A measurement with some of the gateways.
struct Row {
    gateways: usize,
    is_limited: bool,
    mib_per_s: f64,
    ops_per_s: f64,
    /// Microseconds of CPU time for each operation, of each gateway.
    cpu_us: Vec<f64>,
}

/// A result of one volume.
struct Done {
    mib_per_s: f64,
    ops_per_s: f64,
    ops: f64,
}

/// Measures four volumes on each of one, two and three gateways, with limits and without, and writes a table to `work`.
pub(in crate::ceph) fn run(binary: &Path, ceph: &mut Cluster, work: &Path) -> anyhow::Result<()> {
    let setup = Setup::start(binary, ceph, &work.join("scale"), "")?;
    make_volumes(&setup)?;
    // The first run writes the files.
    for is_limited in [true, false] {
        load(&setup, GATEWAYS.len(), is_limited, "1s")?;
    }
    let idle_ms = idle_ms_per_s(&setup)?;
    let mut rows = Vec::new();
    for is_limited in [true, false] {
        for gateways in 1..=GATEWAYS.len() {
            rows.push(measure(&setup, gateways, is_limited)?);
        }
    }
    let table = table(&rows, idle_ms);
    let file = work.join("scale.md");
    fs::write(&file, &table)?;
    eprintln!("ceph: {}\n{table}", file.display());
    for row in rows.iter().filter(|row| row.is_limited) {
        let wanted = (row.volumes() as u64 * LIMIT_MIB) as f64;
        let miss = (row.mib_per_s - wanted).abs() / wanted;
        ensure!(
            miss <= MISS_MAX,
            "{} volumes with {LIMIT_MIB} MiB/s each had {:.2} MiB/s together",
            row.volumes(),
            row.mib_per_s
        );
    }
    setup.stop()
}

/// Has an endpoint at each gateway, with volumes of both kinds.
fn make_volumes(setup: &Setup<'_>) -> anyhow::Result<()> {
    let place = format!("{}/24", address(2));
    setup.command(None, &["endpoint", "create", PLACES[2], "--address", &place])?;
    for (name, gateway) in PLACES.into_iter().zip(GATEWAYS) {
        setup.command(None, &["endpoint", "move", name, gateway])?;
    }
    for (number, name) in PLACES.into_iter().enumerate() {
        while setup.serving(name)? != number {
            std::thread::sleep(Duration::from_millis(100));
        }
        let manage = |line: String| setup.manage(name, &line.split(' ').collect::<Vec<_>>());
        manage("pool create limited --level plimsoll/custom --size 10GiB".to_owned())?;
        manage("pool create free --level plimsoll/unlimited --size 10GiB".to_owned())?;
        for volume in 0..VOLUMES_OF_ENDPOINT {
            let rest = format!("--size 1GiB --allow {CLIENTS} --squash none --protocols nfsv3");
            let limit = format!("--limit throughput={LIMIT_MIB}MiB/s");
            manage(format!("volume create limited{volume} --pool limited {limit} {rest}"))?;
            manage(format!("volume create free{volume} --pool free {rest}"))?;
        }
        let export = format!("/free{}", VOLUMES_OF_ENDPOINT - 1);
        let endpoint = Endpoint { export, ..setup.endpoint(number) };
        endpoint.wait_until_ready(RECOVERY_MAX)?;
    }
    Ok(())
}

/// Milliseconds of CPU time that a gateway without load takes in a second.
fn idle_ms_per_s(setup: &Setup<'_>) -> anyhow::Result<f64> {
    let (before, begun) = (cpu_seconds(&setup.gateways[0])?, Instant::now());
    std::thread::sleep(IDLE);
    Ok((cpu_seconds(&setup.gateways[0])? - before) * 1000.0 / begun.elapsed().as_secs_f64())
}

fn measure(setup: &Setup<'_>, gateways: usize, is_limited: bool) -> anyhow::Result<Row> {
    let cpu = || setup.gateways.iter().map(cpu_seconds).collect::<anyhow::Result<Vec<f64>>>();
    let before = cpu()?;
    let done = load(setup, gateways, is_limited, TIME)?;
    let after = cpu()?;
    let sum = |of: fn(&Done) -> f64| done.iter().map(of).sum::<f64>();
    let ops = done.chunks(VOLUMES_OF_ENDPOINT).map(|own| own.iter().map(|done| done.ops).sum::<f64>());
    let spent = before.iter().zip(after).map(|(before, after)| after - before);
    let cpu_us = spent.zip(ops).map(|(seconds, ops)| seconds * 1e6 / ops).collect();
    let (mib_per_s, ops_per_s) = (sum(|done| done.mib_per_s), sum(|done| done.ops_per_s));
    Ok(Row { gateways, is_limited, mib_per_s, ops_per_s, cpu_us })
}

/// Reads from all volumes of one kind at the first gateways at once. Returns the results in their order.
fn load(setup: &Setup<'_>, gateways: usize, is_limited: bool, time: &str) -> anyhow::Result<Vec<Done>> {
    let kind = if is_limited { "limited" } else { "free" };
    let volumes = (0..gateways).flat_map(|number| {
        (0..VOLUMES_OF_ENDPOINT)
            .map(move |volume| format!("nfs://{}:{NFS_PORT}/{kind}{volume}", address(number)))
    });
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            volumes.map(|target| scope.spawn(move || read_from(setup.binary, &target, time))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<Done>>| {
            thread.join().map_err(|_| anyhow::anyhow!("a load panicked"))?
        };
        threads.into_iter().map(join).collect()
    })
}

fn read_from(binary: &Path, target: &str, time: &str) -> anyhow::Result<Done> {
    let words = ["bench", "load", target, "--op", "read", "--block", BLOCK, "--files", "1", "--size", "4m"];
    let more = ["--connections", "2", "--depth", "4", "--threads", "1", "--warm-up", "0s", "--time", time];
    let text =
        process::output(Path::new("/"), process::text(binary)?, &[&words[..], &more, &["--json"]].concat())?;
    let result: Value = serde_json::from_slice(&text)?;
    let number = |name: &str| result[name].as_f64().with_context(|| format!("no {name} in {result}"));
    Ok(Done { mib_per_s: number("mib_per_s")?, ops_per_s: number("ops_per_s")?, ops: number("ops")? })
}

/// The CPU time of a gateway's main process and of its endpoints so far.
fn cpu_seconds(gateway: &Gateway) -> anyhow::Result<f64> {
    let mut ticks = 0.0;
    for process in gateway.endpoints()?.into_iter().chain([gateway.id()?]) {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let fields = stat.rsplit_once(") ").context("a stat without a name")?.1;
        // utime and stime, the 12th and 13th field after the name (proc(5)).
        for field in fields.split(' ').skip(11).take(2) {
            ticks += field.parse::<f64>()?;
        }
    }
    Ok(ticks / TICKS_PER_SECOND)
}

impl Row {
    fn volumes(&self) -> usize {
        self.gateways * VOLUMES_OF_ENDPOINT
    }
}

fn table(rows: &[Row], idle_ms: f64) -> String {
    let mut text = "| limit of each volume | gateways | volumes | MiB/s | operations/s | CPU µs for an operation, by gateway |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for row in rows {
        let limit = if row.is_limited { format!("{LIMIT_MIB} MiB/s") } else { "none".to_owned() };
        let cpu: Vec<String> = row.cpu_us.iter().map(|us| format!("{us:.0}")).collect();
        let _written = writeln!(
            text,
            "| {limit} | {} | {} | {:.1} | {:.0} | {} |",
            row.gateways,
            row.volumes(),
            row.mib_per_s,
            row.ops_per_s,
            cpu.join(", ")
        );
    }
    let _written = writeln!(text, "\nA gateway without load: {idle_ms:.0} ms of CPU time a second.");
    text
}
