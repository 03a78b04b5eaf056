//! A service with its volumes on CephFS that is killed under load: no acknowledged operation is lost.

use std::path::Path;
use std::time::Duration;

use super::cluster::Cluster;
use super::service;
use crate::ledger::{Ledger, Report, Share};
use crate::process;
use crate::random::{Random, seed_from_clock};
use crate::server::{Endpoint, PLIMSOLL_EXPORT};

const WORKERS: u32 = 8;

pub(super) fn run(binary: &Path, cluster: &Cluster, work: &Path, rounds: u32) -> anyhow::Result<()> {
    let seed = seed_from_clock();
    eprintln!("ceph: {rounds} kills, seed {seed}");
    let mut random = Random::new(seed);
    let work = work.join("kill");
    process::empty_dir(&work)?;
    let mut service = service::start(binary, cluster, &work)?;
    let endpoint = Endpoint::loopback(service.port, PLIMSOLL_EXPORT);
    endpoint.wait_until_ready(Duration::from_secs(60))?;
    let share = Share::new(service.smb_port, work.join("smb.log"))?;
    let (mut ledgers, mut report) = (Vec::new(), Report::default());
    for round in 0..rounds {
        let log = work.join(format!("ledger-{round}.log"));
        let load = Ledger::start(&endpoint, Some(&share), round, WORKERS, random.next(), &log)?;
        let load_ms = 500 + u64::try_from(random.below(2000))?;
        load.run_for(Duration::from_millis(load_ms), &report.missing(Some(&share)))?;
        service.crash(Duration::ZERO)?;
        ledgers.push(load.finish()?);
        let found = Ledger::verify_all(&ledgers, &endpoint)?;
        eprintln!("ceph: kill {round}: {found}");
        report.merge(found);
        report.require_clean(&work)?;
    }
    service.stop()?;
    eprintln!("ceph: no acknowledged operation was lost; {report}");
    report.require_every_kind(Some(&share))
}
