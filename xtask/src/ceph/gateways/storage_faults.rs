//! Faults of Ceph while several gateways serve: ended sessions, excluded clients, a full OSD, a dead metadata server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::patient::Patient;
use super::probe::Probe;
use super::setup::{ENDPOINTS, GATEWAYS, Setup};

/// The time before and after a fault in which clients work.
const LOAD: Duration = Duration::from_secs(2);
/// The time for which the OSD is full.
const FULL: Duration = Duration::from_secs(15);

/// Ends the CephFS session of an endpoint: its clients wait, and see no error.
pub(super) fn evict(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    let gateway = setup.place_together()?;
    let process = setup.gateways[gateway].endpoint(ENDPOINTS[0])?;
    let sessions = sessions(setup)?;
    let pid = process.to_string();
    let is_own = |session: &&Value| session["client_metadata"]["pid"] == *pid;
    let session = sessions.iter().find(is_own);
    let session = session.with_context(|| format!("process {process} has no session in {sessions:?}"))?;
    let id = format!("id={}", session["id"]);
    let other = Probe::start(setup.endpoint(1).address)?;
    bear(setup, "the session of an endpoint was evicted", "evicted", |setup| {
        setup.ceph.ceph(&["tell", "mds.0", "session", "evict", &id]).map(drop)
    })?;
    eprintln!("ceph: clients of the other endpoint waited {} ms", other.finish()?.as_millis());
    setup.settle()
}

/// Excludes all clients of an endpoint's process, and then those of a gateway's main process: clients of the endpoint
/// wait, and see no error.
pub(super) fn blocklist(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    // Commands run at the first gateway, and would leave their clients there.
    let gateway = GATEWAYS.len() - 1;
    setup.settle()?;
    for number in 0..ENDPOINTS.len() {
        setup.place(number, 1)?;
    }
    let of_main = setup.client_addresses(gateway)?;
    setup.place(0, gateway)?;
    let of_endpoint: BTreeSet<_> = setup.client_addresses(gateway)?.difference(&of_main).cloned().collect();
    ensure!(
        !of_main.is_empty() && of_endpoint.len() > 1,
        "{of_main:?} and {of_endpoint:?} are not all clients"
    );
    let other = Probe::start(setup.endpoint(1).address)?;
    bear(setup, "all clients of an endpoint's process were blocklisted", "blocklisted", |setup| {
        setup.exclude(&of_endpoint)
    })?;
    setup.place(0, gateway)?;
    bear(setup, "the client of a gateway's main process was blocklisted", "blocklisted-main", |setup| {
        setup.exclude(&of_main)
    })?;
    let ready = setup.wait_until_ready(gateway, Instant::now())?;
    eprintln!(
        "ceph: {} is ready again {} ms later; clients of the other endpoint waited {} ms",
        GATEWAYS[gateway],
        ready.as_millis(),
        other.finish()?.as_millis()
    );
    setup.place(0, gateway)
}

/// Fills the OSD, or so it believes, and kills a gateway meanwhile.
pub(super) fn full(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    setup.settle()?;
    let endpoint = setup.endpoint(0);
    let patient = Patient::start(&endpoint, "full", true)?;
    let probe = Probe::start(endpoint.address)?;
    std::thread::sleep(LOAD);
    let before = [setup.serving(ENDPOINTS[0])?, setup.serving(ENDPOINTS[1])?];
    set_full_ratios(setup, ["0.0001", "0.0001", "0.0001"])?;
    let since = Instant::now();
    while !setup.ceph.ceph(&["health", "detail"])?.contains("OSD_FULL") {
        ensure!(since.elapsed() < Duration::from_secs(60), "the OSD is not full");
    }
    std::thread::sleep(FULL);
    let outcome = while_full(setup, before);
    set_full_ratios(setup, ["0.85", "0.90", "0.95"])?;
    let there = Instant::now();
    outcome?;
    let answered = probe.wait_for_answer_after(there)?;
    std::thread::sleep(LOAD);
    let (work, stall) = (patient.finish()?, probe.finish()?);
    eprintln!(
        "ceph: the OSD was full, NFS answered at most {} ms late and {} ms after there was space; calls waited {} ms, {} were \
         refused; {} files checked",
        stall.as_millis(),
        (answered - there).as_millis(),
        work.longest.as_millis(),
        work.refused,
        work.verify(&endpoint)?
    );
    setup.settle()
}

/// Sets the ratios from which an OSD is nearly full, takes no copies of others, and is full. It ignores those that are not in
/// this order.
fn set_full_ratios(setup: &Setup<'_>, ratios: [&str; 3]) -> anyhow::Result<()> {
    for (name, ratio) in ["nearfull", "backfillfull", "full"].iter().zip(ratios) {
        setup.ceph.ceph(&["osd", &format!("set-{name}-ratio"), ratio])?;
    }
    Ok(())
}

/// Fails unless the gateways keep the leases of endpoints on a full OSD, and one takes over another's.
fn while_full(setup: &mut Setup<'_>, before: [usize; 2]) -> anyhow::Result<()> {
    let after = [setup.serving(ENDPOINTS[0])?, setup.serving(ENDPOINTS[1])?];
    ensure!(before == after, "endpoints moved from {before:?} to {after:?} when the OSD became full");
    let failed = before[0];
    let stall = setup.stall_while(0, |setup| setup.gateways[failed].kill())?;
    eprintln!("ceph: {} killed on a full OSD, clients waited {} ms", GATEWAYS[failed], stall.as_millis());
    let binary = setup.binary;
    setup.gateways[failed].start(binary)
}

/// Kills the metadata server. A second one takes over.
pub(super) fn kill_mds(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    setup.settle()?;
    setup.ceph.start_standby()?;
    let before = [setup.serving(ENDPOINTS[0])?, setup.serving(ENDPOINTS[1])?];
    bear(setup, "the metadata server was killed", "mds", |setup| {
        setup.ceph.kill_mds()?;
        let since = Instant::now();
        while !setup.ceph.ceph(&["mds", "stat"])?.contains("=b=up:active") {
            ensure!(
                since.elapsed() < Duration::from_secs(120),
                "the second metadata server does not take over"
            );
        }
        Ok(())
    })?;
    let after = [setup.serving(ENDPOINTS[0])?, setup.serving(ENDPOINTS[1])?];
    ensure!(before == after, "endpoints moved from {before:?} to {after:?} when the metadata server failed");
    setup.settle()
}

/// Lets a fault happen to patient clients of the first endpoint: they see no error, and no acknowledged data is lost.
fn bear(
    setup: &mut Setup<'_>,
    what: &str,
    directory: &str,
    fault: impl FnOnce(&mut Setup<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let endpoint = setup.endpoint(0);
    let patient = Patient::start(&endpoint, directory, false)?;
    std::thread::sleep(LOAD);
    fault(setup)?;
    // Long enough for the fault to be noticed, and for some operations after it.
    std::thread::sleep(5 * LOAD);
    let work = patient.finish()?;
    let files = work.verify(&endpoint)?;
    eprintln!("ceph: {what}, calls waited {} ms, {files} files checked", work.longest.as_millis());
    Ok(())
}

fn sessions(setup: &Setup<'_>) -> anyhow::Result<Vec<Value>> {
    let sessions: Value = serde_json::from_str(&setup.ceph.ceph(&["tell", "mds.0", "session", "ls"])?)?;
    Ok(sessions.as_array().context("no list of sessions")?.clone())
}

impl Setup<'_> {
    /// The addresses of Ceph's clients at a gateway, such as `10.77.0.11:0/123`.
    fn client_addresses(&self, gateway: usize) -> anyhow::Result<BTreeSet<String>> {
        let sessions: Value = serde_json::from_str(&self.ceph.ceph(&["tell", "mon.a", "sessions"])?)?;
        let sessions = sessions.as_array().context("no list of sessions")?;
        let addresses = sessions.iter().filter_map(|session| session["addrs"]["addrvec"].as_array());
        let own = format!("10.77.0.{}:", 11 + gateway);
        Ok(addresses
            .flatten()
            .filter_map(client_address)
            .filter(|address| address.starts_with(&own))
            .collect())
    }

    fn exclude(&self, clients: &BTreeSet<String>) -> anyhow::Result<()> {
        let exclude = |client: &String| self.ceph.ceph(&["osd", "blocklist", "add", client]).map(drop);
        clients.iter().try_for_each(exclude)
    }
}

/// The address of a client with its number, as the command to exclude it expects it.
fn client_address(address: &Value) -> Option<String> {
    Some(format!("{}/{}", address["addr"].as_str()?, address["nonce"].as_u64()?))
}
