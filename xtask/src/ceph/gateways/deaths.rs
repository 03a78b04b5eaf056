//! Gateways and their processes that die, and a gateway that is drained.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::ensure;

use super::gateway::signal;
use super::probe::Probe;
use super::setup::{ENDPOINTS, GATEWAYS, RECOVERY_MAX, SMB_PORT, Setup, UNDISTURBED_MAX};
use crate::ledger::client::{Client, How};
use crate::ledger::{Ledger, Report, Share};
use crate::packages::LIBFAKETIME;
use crate::random::{Random, seed_from_clock};
use crate::server::Endpoint;

const WORKERS: u32 = 8;
/// A process of an endpoint that dies earlier is taken for one that cannot start.
const STARTED: Duration = Duration::from_secs(11);

/// Kills the gateway of an endpoint under load, again and again: no acknowledged operation is lost.
pub(super) fn kill_under_load(setup: &mut Setup<'_>, rounds: u32) -> anyhow::Result<()> {
    let seed = seed_from_clock();
    eprintln!("ceph: {rounds} failures of gateways, seed {seed}");
    let mut random = Random::new(seed);
    let (endpoint, work, binary) = (setup.endpoint(0), setup.work.clone(), setup.binary);
    let share = Share::at((endpoint.address.ip(), SMB_PORT).into(), work.join("smb.log"))?;
    let (mut ledgers, mut report) = (Vec::new(), Report::default());
    for round in 0..rounds {
        let log = work.join(format!("ledger-{round}.log"));
        let load = Ledger::start(&endpoint, Some(&share), round, WORKERS, random.next(), &log)?;
        load.run_for(Duration::from_millis(500 + random.below(1500) as u64), &report.missing(Some(&share)))?;
        let failed = setup.serving(ENDPOINTS[0])?;
        let stall = setup.stall_while(0, |setup| setup.gateways[failed].kill())?;
        ledgers.push(load.finish()?);
        let found = Ledger::verify_all(&ledgers, &endpoint)?;
        eprintln!("ceph: {} killed, clients waited {} ms: {found}", GATEWAYS[failed], stall.as_millis());
        report.merge(found);
        report.require_clean(&work)?;
        setup.gateways[failed].start(binary)?;
    }
    Ok(())
}

/// Drains the gateway of an endpoint.
pub(super) fn drain(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    let from = setup.serving(ENDPOINTS[0])?;
    let stall = setup.stall_while(0, |setup| {
        setup.command(None, &["drain", GATEWAYS[from]])?;
        let deadline = Instant::now() + RECOVERY_MAX;
        while setup.serving(ENDPOINTS[0])? == from {
            ensure!(Instant::now() < deadline, "a drained gateway still serves");
        }
        Ok(())
    })?;
    setup.command(None, &["resume", GATEWAYS[from]])?;
    eprintln!("ceph: a gateway was drained, clients waited {} ms", stall.as_millis());
    Ok(())
}

/// Kills the gateway of an endpoint while the administrator's choice of the next one changes: one gateway takes it, and
/// clients of the endpoint at another gateway notice nothing.
pub(super) fn kill_beside_another(setup: &mut Setup<'_>, rounds: u32) -> anyhow::Result<()> {
    for round in 0..rounds {
        let [failed, beside] = setup.place_apart()?;
        let third = GATEWAYS.len() - failed - beside;
        let other = Probe::start(setup.endpoint(1).address)?;
        let probe = Probe::start(setup.endpoint(0).address)?;
        setup.gateways[failed].kill()?;
        let died = Instant::now();
        // Each change falls between two looks of one of the takers, which then see different choices.
        let mut choices = [third, beside].into_iter().cycle();
        let answered = loop {
            let chosen = GATEWAYS[choices.next().unwrap_or(third)];
            setup.command(Some(failed), &["endpoint", "move", ENDPOINTS[0], chosen])?;
            require_one_address(setup, failed)?;
            if died.elapsed() > Duration::from_secs(3) {
                setup.command(Some(failed), &["endpoint", "move", ENDPOINTS[0], "any"])?;
                break probe.wait_for_answer_after(died)?;
            }
        };
        let taker = setup.serving_except(ENDPOINTS[0], Some(failed))?;
        probe.wait_for_answer_after(Instant::now())?;
        probe.finish()?;
        let found = setup.gateways_with_address(0)?;
        ensure!(found == [taker], "gateways {found:?} have the address of {}, {taker} serves", ENDPOINTS[0]);
        let stall = other.finish()?;
        eprintln!(
            "ceph: {} killed ({round}), {} answers after {} ms, clients of {} waited {} ms",
            GATEWAYS[failed],
            GATEWAYS[taker],
            (answered - died).as_millis(),
            ENDPOINTS[1],
            stall.as_millis()
        );
        ensure!(
            setup.is_in_time(stall, UNDISTURBED_MAX),
            "clients of another endpoint waited {} ms",
            stall.as_millis()
        );
        let binary = setup.binary;
        setup.gateways[failed].start(binary)?;
    }
    Ok(())
}

/// Fails if several gateways that live have the address of the first endpoint.
fn require_one_address(setup: &Setup<'_>, failed: usize) -> anyhow::Result<()> {
    let mut found = setup.gateways_with_address(0)?;
    found.retain(|&gateway| gateway != failed);
    ensure!(found.len() < 2, "gateways {found:?} have the address of {}", ENDPOINTS[0]);
    Ok(())
}

/// Kills the process of one endpoint: its gateway serves it again, and clients of the other endpoint notice nothing.
pub(super) fn kill_process(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    let gateway = setup.place_together()?;
    std::thread::sleep(STARTED);
    let (main, process) = (setup.gateways[gateway].id()?, setup.gateways[gateway].endpoint(ENDPOINTS[0])?);
    let neighbor = setup.gateways[gateway].endpoint(ENDPOINTS[1])?;
    let other = Probe::start(setup.endpoint(1).address)?;
    let stall = setup.stall_while(0, |_| signal("KILL", process))?;
    let others_stall = other.finish()?;
    let (milliseconds, others) = (stall.as_millis(), others_stall.as_millis());
    eprintln!("ceph: a process was killed, its clients waited {milliseconds} ms, the neighbor's {others} ms");
    ensure!(
        setup.serving(ENDPOINTS[0])? == gateway,
        "another gateway took the endpoint of a process that died"
    );
    ensure!(setup.gateways[gateway].id()? == main, "the gateway was replaced");
    let is_undisturbed = setup.gateways[gateway].endpoint(ENDPOINTS[1])? == neighbor;
    ensure!(
        is_undisturbed && setup.is_in_time(others_stall, UNDISTURBED_MAX),
        "the other endpoint was disturbed"
    );
    Ok(())
}

/// Kills all gateways under load and starts them again.
pub(super) fn restart_all(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    setup.settle()?;
    let (endpoint, work, binary) = (setup.endpoint(0), setup.work.clone(), setup.binary);
    let share = Share::at((endpoint.address.ip(), SMB_PORT).into(), work.join("smb.log"))?;
    let log = work.join("ledger-restart.log");
    let load = Ledger::start(&endpoint, Some(&share), 1000, WORKERS, seed_from_clock(), &log)?;
    load.run_for(Duration::from_secs(2), &[])?;
    let stall = setup.stall_while(0, |setup| {
        setup.gateways.iter_mut().try_for_each(|gateway| gateway.kill())?;
        setup.gateways.iter_mut().try_for_each(|gateway| gateway.start(binary))
    })?;
    let ledgers = [load.finish()?];
    let report = Ledger::verify_all(&ledgers, &endpoint)?;
    eprintln!("ceph: all gateways restarted, clients waited {} ms: {report}", stall.as_millis());
    report.require_clean(&work)?;
    setup.settle()
}

/// Sets the clock of a gateway an hour back, and then an hour ahead: it serves, and others take over from it.
pub(super) fn clock_off(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    for (round, offset) in ["-1h", "+1h"].into_iter().enumerate() {
        setup.settle()?;
        let (off, binary) = (setup.serving(ENDPOINTS[0])?, setup.binary);
        setup.gateways[off].kill()?;
        setup.gateways[off].environment = [
            format!("LD_PRELOAD={LIBFAKETIME}"),
            format!("FAKETIME={offset}"),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
        ]
        .into();
        setup.gateways[off].start(binary)?;
        setup.settle()?;
        setup.place(0, off)?;
        let endpoint = setup.endpoint(0);
        require_other_clock(&endpoint, &format!("clock{offset}"))?;
        let log = setup.work.join(format!("ledger-clock{offset}.log"));
        let number = 2000 + u32::try_from(round)?;
        let load = Ledger::start(&endpoint, None, number, WORKERS, seed_from_clock(), &log)?;
        load.run_for(Duration::from_secs(2), &[])?;
        let stall = setup.stall_while(0, |setup| setup.gateways[off].kill())?;
        let report = Ledger::verify_all(&[load.finish()?], &endpoint)?;
        let milliseconds = stall.as_millis();
        eprintln!(
            "ceph: a gateway with its clock at {offset} killed, clients waited {milliseconds} ms: {report}"
        );
        report.require_clean(&setup.work)?;
        setup.gateways[off].environment.clear();
        setup.gateways[off].start(binary)?;
    }
    setup.settle()
}

/// Fails unless a new file shows that the clock of the endpoint is off by about an hour.
fn require_other_clock(endpoint: &Endpoint, name: &str) -> anyhow::Result<()> {
    let mut mounted = Client::mount(endpoint)?;
    let file = mounted.client.create(&mounted.root, name, How::Guarded(0o644))?;
    let made = u64::from(mounted.client.attributes(&file)?.mtime.0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let difference = made.abs_diff(now);
    ensure!((3500..3700).contains(&difference), "the clock of the gateway is off by {difference} s");
    Ok(())
}
