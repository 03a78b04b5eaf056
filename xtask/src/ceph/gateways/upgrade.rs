//! A rolling upgrade: one gateway after the other gets another program, under load, and one goes back meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::patient::Patient;
use super::setup::{ENDPOINTS, GATEWAYS, RECOVERY_MAX, SMB_PORT, Setup};
use crate::ceph::cluster::Cluster;
use crate::ledger::{Ledger, Report, Share};
use crate::random::seed_from_clock;

const WORKERS: u32 = 8;
const LOAD: Duration = Duration::from_millis(700);
/// A gateway that would take an endpoint takes it within this time.
const REFUSED: Duration = Duration::from_secs(3);
/// A planned move takes less, on a busy machine too.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The load of the upgrade and its findings.
struct Upgrade<'u> {
    setup: Setup<'u>,
    share: Share,
    ledgers: Vec<Ledger>,
    report: Report,
}

/// Upgrades three gateways with the program `previous` to `next`.
pub(in crate::ceph) fn run(
    previous: &Path,
    next: &Path,
    ceph: &mut Cluster,
    work: &Path,
) -> anyhow::Result<()> {
    let work = work.join("upgrade");
    let next = &next.canonicalize()?;
    let mut setup = Setup::start(previous, ceph, &work, "")?;
    // Its commands work while all gateways run the version before.
    setup.binary = next;
    let endpoint = setup.endpoint(0);
    let share = Share::at((endpoint.address.ip(), SMB_PORT).into(), work.join("smb.log"))?;
    let patient = Patient::start(&endpoint, "upgrade", false)?;
    let mut upgrade = Upgrade { setup, share, ledgers: Vec::new(), report: Report::default() };
    upgrade.replace(0, next, "upgraded")?;
    upgrade.replace(1, next, "upgraded")?;
    upgrade.replace(1, previous, "back to the version before")?;
    upgrade.replace(1, next, "upgraded")?;
    upgrade.replace(2, next, "upgraded")?;
    let Upgrade { setup, report, share, .. } = upgrade;
    setup.settle()?;
    let work_done = patient.finish()?;
    let files = work_done.verify(&endpoint)?;
    let longest = work_done.longest;
    eprintln!("ceph: upgraded; calls waited {} ms, {files} files checked; {report}", longest.as_millis());
    ensure!(longest <= WAIT_MAX, "a call waited {} ms", longest.as_millis());
    report.require_every_kind(Some(&share))?;
    setup.stop()
}

impl Upgrade<'_> {
    /// Drains a gateway with an endpoint under load, starts another program there, and has it serve again.
    fn replace(&mut self, gateway: usize, program: &Path, what: &str) -> anyhow::Result<()> {
        let setup = &mut self.setup;
        setup.settle()?;
        if setup.serving(ENDPOINTS[0])? != gateway && setup.can_serve(gateway, ENDPOINTS[0])? {
            setup.place(0, gateway)?;
        }
        let endpoint = setup.endpoint(0);
        let round = u32::try_from(self.ledgers.len())?;
        let log = setup.work.join(format!("ledger-{round}.log"));
        let load = Ledger::start(&endpoint, Some(&self.share), round, WORKERS, seed_from_clock(), &log)?;
        load.run_for(LOAD, &self.report.missing(Some(&self.share)))?;
        let stall = setup.stall_while(0, |setup| drain(setup, gateway))?;
        self.ledgers.push(load.finish()?);
        let found = Ledger::verify_all(&self.ledgers, &endpoint)?;
        eprintln!("ceph: {} drained, clients waited {} ms: {found}", GATEWAYS[gateway], stall.as_millis());
        self.report.merge(found);
        self.report.require_clean(&setup.work)?;
        let process = setup.gateways[gateway].process.take().context("the gateway does not run")?;
        let status = process.terminate(RECOVERY_MAX)?;
        ensure!(status.success(), "{} ended with {status} on SIGTERM", GATEWAYS[gateway]);
        setup.gateways[gateway].start(program)?;
        setup.command(Some(gateway), &["resume", GATEWAYS[gateway]])?;
        let ready = setup.wait_until_ready(gateway, Instant::now())?;
        let running = std::fs::read_link(format!("/proc/{}/exe", setup.gateways[gateway].id()?))?;
        ensure!(running == program, "{} runs {}", GATEWAYS[gateway], running.display());
        eprintln!("ceph: {} {what}, ready after {} ms", GATEWAYS[gateway], ready.as_millis());
        if setup.can_serve(gateway, ENDPOINTS[0])? {
            return setup.place(0, gateway);
        }
        // An earlier program does not get what a later one has converted, although the administrator prefers it.
        let serving = setup.serving(ENDPOINTS[0])?;
        setup.command(None, &["endpoint", "move", ENDPOINTS[0], GATEWAYS[gateway]])?;
        std::thread::sleep(REFUSED);
        let still = setup.serving(ENDPOINTS[0])?;
        ensure!(still == serving, "{} took a state that it cannot read", GATEWAYS[gateway]);
        setup.command(None, &["endpoint", "move", ENDPOINTS[0], "any"]).map(drop)
    }
}

/// Drains a gateway, and waits until it serves nothing.
fn drain(setup: &Setup<'_>, gateway: usize) -> anyhow::Result<()> {
    setup.command(None, &["drain", GATEWAYS[gateway]])?;
    for endpoint in ENDPOINTS {
        let deadline = Instant::now() + RECOVERY_MAX;
        while setup.serving(endpoint)? == gateway {
            ensure!(Instant::now() < deadline, "a drained gateway still serves {endpoint}");
        }
    }
    Ok(())
}
