//! Drives `xtask/guest/tune.sh`: `client check` must describe mounts of the kernel's client correctly, its commands
//! must set the recommended values, and `client-tuning` must find their effect.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::disagreement::{Disagreement, repeat_until_agreement};
use super::form::Form;
use super::image::Image;
use super::json::{list, number, read};
use super::machine::{Guest, HOST_ADDRESS, OTHER_ADDRESS};
use super::shared::Machine;
use crate::debian::Suite;
use crate::managed::Managed;
use crate::process;

const SCRIPT: &str = include_str!("../../guest/tune.sh");
const SCENARIO: &str = include_str!("../../guest/tune.toml");
const CONNECTIONS: u64 = 16;
/// Seconds of each measurement: short, because only large differences matter; longer when a pause of the host at a
/// window's edge has caused a difference.
const SECONDS: [u32; 3] = [1, 3, 3];
const CASES: [&str; 5] = ["baseline", "nocto", "sysctl", "nconnect", "all"];
/// Nothing tuned, and everything.
const BRIEF_CASES: [&str; 2] = ["baseline", "all"];
/// A run that stops half-way but reports success would pass with fewer checks.
const CHECKS_MIN: usize = 12;
/// The fraction of opens with a call where attributes are not cached, and where they are: the rest is due to the
/// window's edges.
const CALLS_PER_OPEN_MIN: f64 = 0.9;
const NOT_ASKED_MAX: f64 = 0.1;

/// A statement that `client check` must make of a mount: its subject, its state, and the current value.
type Statement = (&'static str, &'static str, &'static str);

/// The kernel's settings on an untuned machine, and after the commands of the check.
const STOCK: [Statement; 3] = [
    ("net.core.rmem_max", "lacking", "212992"),
    ("net.core.wmem_max", "lacking", "212992"),
    ("sunrpc.tcp_max_slot_table_entries", "ok", "65536"),
];
const TUNED: [Statement; 5] = [
    ("net.core.rmem_max", "ok", "16777216"),
    ("net.core.wmem_max", "ok", "16777216"),
    ("net.ipv4.tcp_rmem", "ok", "16777216"),
    ("net.ipv4.tcp_wmem", "ok", "16777216"),
    ("read-ahead of the mount", "ok", "3840 KiB"),
];

const ADVICE: [(&str, &[Statement]); 5] = [
    (
        "baseline",
        &[
            ("network interface", "unknown", "eth0 does not report its speed"),
            ("hard", "ok", "hard"),
            ("async", "ok", "async"),
            ("timeo", "ok", "600"),
            ("rsize", "lacking", "1048576"),
            ("wsize", "lacking", "1048576"),
            ("nconnect", "lacking", "1"),
            ("attribute cache", "lacking", "neither"),
            ("vers", "ok", "3"),
            ("read-ahead of the mount", "lacking", "128 KiB"),
        ],
    ),
    ("nocto", &[("attribute cache", "ok", "nocto, actimeo=600"), ("nconnect", "lacking", "1")]),
    (
        "nconnect",
        &[("network interface", "unknown", "eth1 does not report its speed"), ("nconnect", "ok", "16")],
    ),
    // It shares the connection of the first mount, whatever it asks for.
    ("late", &[("nconnect", "lacking", "1"), ("hard", "lacking", "soft"), ("rsize", "lacking", "65536")]),
    (
        "tuned",
        &[
            ("rsize", "ok", "262144"),
            ("wsize", "ok", "262144"),
            ("nconnect", "ok", "16"),
            ("attribute cache", "ok", "nocto, actimeo=600"),
        ],
    ),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Program to test, both server and client; by default this tree's, built by `cargo build --release`
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 900)]
    timeout_s: u64,
}

pub(super) fn run(args: &Args, machine: &mut Machine<'_>, form: Form) -> anyhow::Result<()> {
    repeat_until_agreement(SECONDS, |seconds| measured(args, machine, form, seconds))
}

fn measured(args: &Args, machine: &mut Machine<'_>, form: Form, seconds: u32) -> anyhow::Result<()> {
    let cases = form.choose(CASES.as_slice(), &BRIEF_CASES);
    let image = Image::build(Suite::Bookworm)?;
    let work = process::target_dir().join("guest").join("tune");
    process::empty_dir(&work)?;
    let binary = process::binary(args.binary.as_deref());
    let service = Managed::start(&binary, &work, &[])?;
    service.manage("pool create tuning --level plimsoll/custom --size 1GiB")?;
    service.manage(
        "volume create tuning --pool tuning --size 256MiB --allow 127.0.0.1 --squash none --durability relaxed",
    )?;
    let scenario = work.join("tune.toml");
    std::fs::write(&scenario, SCENARIO)?;
    let guest = Guest::new(&image)
        .networks(2)
        .file("plimsoll", &binary)
        .file("tune.toml", &scenario)
        .set("HOST", HOST_ADDRESS)
        .set("OTHER", OTHER_ADDRESS)
        .set("PORT", service.port)
        .set("CONNECTIONS", CONNECTIONS)
        .set("CASES", cases.join(" "))
        .set("HOW", format!("--preset quick --repetitions 1 --time {seconds} --working-set 8MiB"));
    let mut running = machine.start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?;
    running.wait_mark("clients")?;
    let connections = service.connections()?;
    let wanted = 1 + CONNECTIONS;
    ensure!(connections == wanted, "the server has {connections} connections; expected {wanted}");
    running.finish()?.require_checks(CHECKS_MIN)?;
    for (name, said) in ADVICE {
        check_advice(&service, name, said)?;
    }
    check_advice(&service, "baseline", &STOCK)?;
    check_advice(&service, "tuned", &TUNED)?;
    check_results(&service, &work, cases)?;
    service.stop()
}

fn check_advice(service: &Managed, name: &str, said: &[Statement]) -> anyhow::Result<()> {
    let advice = read(&service.written(&format!("check-{name}.json"))?)?;
    let checks = list(&advice["checks"])?;
    for (what, state, found) in said {
        let check = checks.iter().find(|check| check["what"] == *what);
        let check = check.with_context(|| format!("{name}: the check has no statement about {what}"))?;
        ensure!(
            check["state"] == *state && check["found"] == *found,
            "{name}: of {what} is said {check}, not that it is {state} with {found}"
        );
    }
    eprintln!("tune: {name}: {} recommendations, {} lacking", checks.len(), advice["lacking"]);
    Ok(())
}

/// Asserts that every case's result names its mount, that cached attributes save calls, and that the report compares
/// all cases.
fn check_results(service: &Managed, work: &Path, cases: &[&str]) -> anyhow::Result<()> {
    for name in ["tuning", "fio"] {
        let mut files = Vec::new();
        for case in cases {
            let file = service.written(&format!("{name}.{case}.json"))?;
            let run = read(&file)?;
            check_mount(&run["target"], case)?;
            if name == "tuning" {
                check_openings(list(&run["cells"])?, case)?;
            }
            files.push(file.display().to_string());
        }
        let (files, page) = (files.join(" "), work.join(format!("{name}.html")));
        service.manage(&format!("bench report {files} --format html --output {}", page.display()))?;
        let html = std::fs::read_to_string(page)?;
        ensure!(
            html.contains(&format!("{} cases side by side", cases.len())) && html.contains("<svg"),
            "{name}: nothing is compared"
        );
        let tables = service.manage(&format!("bench report {files} --format table"))?;
        // The comparison of the cases comes first; each case's own report follows.
        println!("\n{}", tables.split("\n\n\n").next().unwrap_or_default());
    }
    Ok(())
}

fn check_mount(target: &Value, case: &str) -> anyhow::Result<()> {
    ensure!(target["case"] == case && target["co_located"] == false, "{case}: the target is {target}");
    let options = target["mount"]["options"].as_str().context("no mount options")?;
    let has = |wanted: &str| options.split(',').any(|option| option == wanted);
    let has_many = has(&format!("nconnect={CONNECTIONS}"));
    ensure!(has_many == matches!(case, "nconnect" | "all"), "{case}: {options}");
    ensure!([has("nocto"), has("acregmin=600")] == [caches_attributes(case); 2], "{case}: {options}");
    Ok(())
}

fn caches_attributes(case: &str) -> bool {
    matches!(case, "nocto" | "all")
}

/// Asserts that an open makes a call unless attributes are cached.
fn check_openings(cells: &[Value], case: &str) -> anyhow::Result<()> {
    let (mut ops, mut calls, mut most) = (0.0, 0.0, 0.0f64);
    for cell in cells {
        most = most.max(number(&cell["summary"]["iops"]["median"])?);
        for measurement in list(&cell["measurements"])? {
            ops += number(&measurement["operations"][0]["ops"])?;
            let wire = measurement["wire"].as_object().context("no calls on the wire")?;
            calls += wire.values().map(number).sum::<anyhow::Result<f64>>()?;
        }
    }
    let each = calls / ops;
    eprintln!("tune: {case}: {ops} openings, {each:.3} calls each, at most {most:.0} a second");
    let is_as_mounted =
        if caches_attributes(case) { each <= NOT_ASKED_MAX } else { each >= CALLS_PER_OPEN_MIN };
    if is_as_mounted {
        Ok(())
    } else {
        Err(Disagreement(format!("{case}: {ops} openings were {calls} calls")).into())
    }
}
