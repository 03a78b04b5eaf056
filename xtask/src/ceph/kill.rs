//! A service with its volumes on CephFS that is killed under load: no acknowledged operation is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::cluster::Cluster;
use crate::ledger::{Ledger, Report, Share};
use crate::managed::{self, Managed};
use crate::process;
use crate::random::{Random, seed_from_clock};
use crate::samba::USER;
use crate::server::{Endpoint, PLIMSOLL_EXPORT};

const WORKERS: u32 = 8;

pub(super) fn run(binary: &Path, cluster: &Cluster, work: &Path, rounds: u32) -> anyhow::Result<()> {
    let seed = seed_from_clock();
    eprintln!("ceph: {rounds} kills, seed {seed}");
    let mut random = Random::new(seed);
    let work = work.join("kill");
    process::empty_dir(&work)?;
    let mut service = start(binary, cluster, &work)?;
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

/// Starts a service with a volume that everybody may mount, over NFS and SMB.
fn start(binary: &Path, cluster: &Cluster, work: &Path) -> anyhow::Result<Managed> {
    let config = work.join("plimsoll.toml");
    let conf = cluster.conf();
    let text = format!(
        "storage = \"cephfs\"\n[ceph]\nconf = {:?}\nuser = \"admin\"\ndirectory = \"/kill\"\ngateway = \"one\"\n",
        process::text(&conf)?
    );
    fs::write(&config, text)?;
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
    let options = ["--config", process::text(&config)?];
    let service = Managed::start_with_smb_and(binary, work, &[], &options)?;
    service.manage("pool create p1 --level plimsoll/unlimited --size 100GiB")?;
    let (password, id) = (managed::smb_password(work)?, USER.id.to_string());
    let name = PLIMSOLL_EXPORT.trim_start_matches('/');
    service.manage(&format!(
        "volume create {name} --pool p1 --size 50GiB --allow 127.0.0.1 --squash none --protocols nfsv3,smb --owner {id}:{id}"
    ))?;
    let user = ["user", "create", USER.name, "--uid", &id, "--gid", &id, "--password-file", &password];
    service.manage_with(&user)?;
    Ok(service)
}
