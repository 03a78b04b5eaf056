//! Strangers: a second process with the name of a gateway, and clients with handles of another endpoint.

use std::fs;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use super::probe::Probe;
use super::setup::{ENDPOINTS, RECOVERY_MAX, Setup, UNDISTURBED_MAX};
use crate::ledger::client::{Client, Failure};

/// `NFS3ERR_STALE` and `NFS3ERR_BADHANDLE`.
const REFUSALS: [u32; 2] = [70, 10_001];
/// The last byte of the address of a machine that no gateway has.
const OTHER_MACHINE: u8 = 21;

/// A copy of a gateway on another machine ends by itself, and no endpoint opens the handles of another one.
pub(super) fn refuse(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    setup.settle()?;
    refuse_copy(setup)?;
    let mut mounts = Vec::new();
    for number in 0..ENDPOINTS.len() {
        mounts.push(Client::mount(&setup.endpoint(number))?);
    }
    let handles: Vec<_> = mounts.iter().map(|mounted| mounted.root.clone()).collect();
    for (number, mounted) in mounts.iter_mut().enumerate() {
        mounted.client.attributes(&handles[number])?;
        match mounted.client.attributes(&handles[1 - number]) {
            Err(Failure::Status(status)) if REFUSALS.contains(&status) => {}
            Err(error) => return Err(error).context("a handle of another endpoint"),
            Ok(_) => bail!("{} opens a handle of another endpoint", ENDPOINTS[number]),
        }
    }
    eprintln!("ceph: a copy of a gateway has ended, and endpoints refuse the handles of others");
    Ok(())
}

fn refuse_copy(setup: &Setup<'_>) -> anyhow::Result<()> {
    let serving = setup.serving(ENDPOINTS[0])?;
    let probe = Probe::start(setup.endpoint(0).address)?;
    let mut copy = setup.gateways[serving].copy(OTHER_MACHINE)?;
    copy.start(setup.binary)?;
    let mut process = copy.process.take().context("it was started")?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait()? {
            break status;
        }
        ensure!(begun.elapsed() < RECOVERY_MAX, "a second process runs as the gateway {}", copy.name);
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let log = fs::read_to_string(copy.dir.join("plimsoll.log"))?;
    let says_why = log.contains(&format!("another process runs as the gateway {}", copy.name));
    ensure!(!status.success() && says_why, "a copy of the gateway {} ended with {status}: {log}", copy.name);
    probe.wait_for_answer_after(Instant::now())?;
    let stall = probe.finish()?;
    ensure!(setup.serving(ENDPOINTS[0])? == serving, "the copy of a gateway moved an endpoint");
    ensure!(setup.is_in_time(stall, UNDISTURBED_MAX), "clients waited {} ms for a copy", stall.as_millis());
    fs::remove_dir_all(&copy.dir)?;
    Ok(())
}
