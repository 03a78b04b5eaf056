//! `cargo xtask perf --isolation`: the effect of a tenant at its limit on another volume.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::Value;

use super::contender::{GENERATOR_CORE, SERVER_CORE};
use crate::managed::{Managed, smb_password};
use crate::process::{self, Process};
use crate::samba::USER;

const LIMIT_MIB_S: f64 = 50.0;
/// The quiet volume's 99th percentile grows at most by this factor.
const GROWTH_MAX: f64 = 2.0;
const RUN_MAX: Duration = Duration::from_secs(300);
/// The loud tenant's loads: 64 calls in flight each.
const LOADS: [(&str, &str); 4] = [
    ("reads of 64 KiB", "--op read --block 64k"),
    ("writes of 64 KiB", "--op write --block 64k"),
    ("writes of 1 MiB", "--op write --block 1m"),
    ("reads of 4 KiB", "--op read --block 4k"),
];

/// Protocols of the loud tenant and of the quiet volume's client.
const PROTOCOLS: [(&str, Protocol, Protocol); 3] = [
    ("NFS beside NFS", Protocol::Nfs, Protocol::Nfs),
    ("SMB beside NFS", Protocol::Smb, Protocol::Nfs),
    ("NFS beside SMB", Protocol::Nfs, Protocol::Smb),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Nfs,
    /// Signed with AES-128-GMAC.
    Smb,
}

/// A round of the quiet volume's 4 KiB reads, one at a time.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    alone_p50_ms: f64,
    alone_p99_ms: f64,
    beside_p50_ms: f64,
    beside_p99_ms: f64,
    loud_mib_per_s: f64,
}

#[derive(Debug, Serialize)]
struct LoadReport {
    protocols: &'static str,
    load: &'static str,
    rounds: Vec<Round>,
    /// The median of the rounds' growths of the 99th percentile.
    growth: f64,
}

pub(super) fn run(
    binary: &Path,
    work: &Path,
    rounds: usize,
    seconds: f64,
    json: Option<&Path>,
) -> anyhow::Result<()> {
    let service = served(binary, work)?;
    let password = smb_password(work)?;
    let mut all = Vec::new();
    println!(
        "{:<18}{:<18}{:>9}{:>20}{:>20}{:>8}",
        "loud beside quiet", "next door", "MiB/s", "p50 ms alone/beside", "p99 ms alone/beside", "grows"
    );
    for (protocols, loud, quiet) in PROTOCOLS {
        let context =
            RunContext { binary, work, service: &service, password: &password, seconds, loud, quiet };
        for (load, arguments) in LOADS {
            let rounds = (0..rounds).map(|_| context.round(arguments)).collect::<anyhow::Result<Vec<_>>>()?;
            let of = |what: fn(&Round) -> f64| median(rounds.iter().map(what));
            let growth = of(|round| round.beside_p99_ms / round.alone_p99_ms);
            let pair = |alone: f64, beside: f64| format!("{alone:.3}/{beside:.3}");
            println!(
                "{protocols:<18}{load:<18}{:>9.1}{:>20}{:>20}{growth:>7.2}×",
                of(|round| round.loud_mib_per_s),
                pair(of(|round| round.alone_p50_ms), of(|round| round.beside_p50_ms)),
                pair(of(|round| round.alone_p99_ms), of(|round| round.beside_p99_ms)),
            );
            all.push(LoadReport { protocols, load, rounds, growth });
        }
    }
    let within = all.iter().filter(|beside| beside.growth < GROWTH_MAX).count();
    println!(
        "\nThe 99th percentile grows less than {GROWTH_MAX} times beside {within} of {} loads; medians of {rounds} rounds.",
        all.len()
    );
    println!("Co-located: the server has a core, both generators share the other one.");
    service.stop()?;
    let Some(path) = json else { return Ok(()) };
    fs::write(path, serde_json::to_vec_pretty(&all)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

fn served(binary: &Path, work: &Path) -> anyhow::Result<Managed> {
    let service = Managed::start_with_smb(binary, work, &["taskset", "-c", SERVER_CORE])?;
    let rights =
        format!("--allow 127.0.0.1 --squash none --mode 777 --protocols nfsv3,smb --owner {0}:{0}", USER.id);
    for command in [
        "pool create quiet --level plimsoll/unlimited --size 1TiB".to_owned(),
        format!("pool create loud --level plimsoll/custom --size 1TiB --limit throughput={LIMIT_MIB_S}MiB/s"),
        format!("volume create quiet --pool quiet --size 100GiB {rights}"),
        format!("volume create loud --pool quiet --size 100GiB {rights}"),
    ] {
        service.manage(&command)?;
    }
    let password = smb_password(work)?;
    service.manage_with(&[
        "user",
        "create",
        USER.name,
        "--uid",
        &USER.id.to_string(),
        "--password-file",
        &password,
    ])?;
    let laid_out = RunContext {
        binary,
        work,
        service: &service,
        password: &password,
        seconds: 1.0,
        loud: Protocol::Nfs,
        quiet: Protocol::Nfs,
    };
    // Its files are created before it has a limit.
    finish(laid_out.loud(LOADS[2].1)?)?;
    service.manage("volume move loud --pool loud")?;
    Ok(service)
}

struct RunContext<'s> {
    binary: &'s Path,
    work: &'s Path,
    service: &'s Managed,
    password: &'s str,
    seconds: f64,
    loud: Protocol,
    quiet: Protocol,
}

impl RunContext<'_> {
    fn round(&self, loud: &str) -> anyhow::Result<Round> {
        let alone = self.quiet()?;
        let tenant = self.loud(loud)?;
        // The loud tenant begins with a second of warm-up.
        std::thread::sleep(Duration::from_secs(1));
        let beside = self.quiet()?;
        finish(tenant)?;
        let p = |report: &Value, name: &str| number(&report["kinds"][0]["latency"], name);
        Ok(Round {
            alone_p50_ms: p(&alone, "p50_ms")?,
            alone_p99_ms: p(&alone, "p99_ms")?,
            beside_p50_ms: p(&beside, "p50_ms")?,
            beside_p99_ms: p(&beside, "p99_ms")?,
            loud_mib_per_s: number(&self.report("loud")?, "mib_per_s")?,
        })
    }

    /// 4 KiB reads, one at a time.
    fn quiet(&self) -> anyhow::Result<Value> {
        let arguments = format!("--op read --block 4k --connections 1 --depth 1 --time {}", ms(self.seconds));
        finish(self.load(self.quiet, "quiet", &arguments)?)?;
        self.report("quiet")
    }

    /// Runs longer than the measurement beside it.
    fn loud(&self, arguments: &str) -> anyhow::Result<Process> {
        let time = ms(3.0 + 1.5 * self.seconds);
        self.load(self.loud, "loud", &format!("{arguments} --connections 4 --depth 16 --time {time}"))
    }

    fn load(&self, protocol: Protocol, volume: &str, arguments: &str) -> anyhow::Result<Process> {
        let text = |path: &Path| path.to_str().map(String::from).context("path is not UTF-8");
        let target = match protocol {
            Protocol::Nfs => format!("nfs://127.0.0.1:{}/{volume}", self.service.port),
            Protocol::Smb => format!("smb://{}@127.0.0.1:{}/{volume}", USER.name, self.service.smb_port),
        };
        let json = text(&self.work.join(format!("{volume}.json")))?;
        let mut argv =
            vec!["taskset", "-c", GENERATOR_CORE].into_iter().map(String::from).collect::<Vec<_>>();
        argv.extend([text(self.binary)?, "bench".into(), "load".into(), target, "--json".into(), json]);
        argv.extend(
            format!(
                "--files 2 --size 64m --threads 1 --uid {0} --gid {0} --password-file {1}",
                USER.id, self.password
            )
            .split(' ')
            .chain(arguments.split(' '))
            .map(String::from),
        );
        let log = process::append_to(&self.work.join("generator.log"))?;
        Process::start(&argv, log.try_clone()?.into(), log.into())
    }

    fn report(&self, volume: &str) -> anyhow::Result<Value> {
        let path = self.work.join(format!("{volume}.json"));
        let text = fs::read(&path).with_context(|| format!("no result of the load on {volume}"))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

fn finish(mut load: Process) -> anyhow::Result<()> {
    let status = load.wait(RUN_MAX)?;
    ensure!(status.success(), "the generator ended with {status}, see generator.log");
    Ok(())
}

fn ms(seconds: f64) -> String {
    format!("{:.0}ms", seconds * 1000.0)
}

fn number(value: &Value, name: &str) -> anyhow::Result<f64> {
    value[name].as_f64().with_context(|| format!("no {name} in the result"))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
