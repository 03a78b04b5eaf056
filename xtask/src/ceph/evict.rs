//! A service whose session the cluster ends: it connects again by itself, and clients send unstable data again.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::cluster::Cluster;
use super::service;
use crate::ledger::client::{Client, Failure, How, Stable};
use crate::process;
use crate::server::{Endpoint, PLIMSOLL_EXPORT};

/// `NFS3ERR_JUKEBOX`: ask again.
const JUKEBOX: u32 = 10_008;
/// Only a service that does not connect again takes this long.
const RECONNECT_MAX: Duration = Duration::from_secs(120);

pub(super) fn run(binary: &Path, cluster: &Cluster, work: &Path, rounds: u32) -> anyhow::Result<()> {
    let work = work.join("evict");
    process::empty_dir(&work)?;
    let service = service::start(binary, cluster, &work)?;
    let endpoint = Endpoint::loopback(service.port, PLIMSOLL_EXPORT);
    endpoint.wait_until_ready(Duration::from_secs(60))?;
    let mounted = Client::mount(&endpoint)?;
    let (mut client, root) = (mounted.client, mounted.root);
    let stable = client.create(&root, "stable", How::Guarded(0o644))?;
    client.write(&stable, 0, b"stable", Stable::FileSync)?;
    let unstable = client.create(&root, "unstable", How::Guarded(0o644))?;
    for round in 0..rounds {
        let data = format!("round {round}");
        let before = client.write(&unstable, 0, data.as_bytes(), Stable::Unstable)?.verifier;
        let (after, stalled) = std::thread::scope(|scope| {
            let evicting = scope.spawn(|| evict_all(cluster));
            let changed = wait_for_other_verifier(&mut client, &unstable, before);
            evicting.join().map_err(|_| anyhow::anyhow!("the eviction panicked"))??;
            changed
        })?;
        patiently(|| client.write(&unstable, 0, data.as_bytes(), Stable::Unstable))?;
        ensure!(client.commit(&unstable)? == after, "the verifier changed twice");
        ensure!(
            client.read(&unstable, 0, 100)?.0 == data.as_bytes(),
            "data that was sent again is not there"
        );
        ensure!(client.read(&stable, 0, 100)?.0 == b"stable", "stable data is not there");
        client.create(&root, &data, How::Guarded(0o644))?;
        eprintln!("ceph: eviction {round}: clients waited {} ms", stalled.as_millis());
    }
    let names = client.list(&root)?;
    ensure!(names.len() == usize::try_from(rounds)? + 2, "the directory has {names:?}");
    service.stop()
}

/// Commits a file until the verifier differs from `before`. Returns it, and the time since the last commit that was
/// answered with the earlier one.
fn wait_for_other_verifier(client: &mut Client, file: &[u8], before: u64) -> anyhow::Result<(u64, Duration)> {
    let (begun, mut answered) = (Instant::now(), Instant::now());
    while begun.elapsed() < RECONNECT_MAX {
        let verifier = patiently(|| client.commit(file))?;
        if verifier != before {
            return Ok((verifier, answered.elapsed()));
        }
        answered = Instant::now();
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("the write verifier is the same after the loss of a session")
}

/// Ends the sessions of all clients.
fn evict_all(cluster: &Cluster) -> anyhow::Result<()> {
    let sessions: Value = serde_json::from_str(&cluster.ceph(&["tell", "mds.a", "session", "ls"])?)?;
    for session in sessions.as_array().context("no list of sessions")? {
        let id = session["id"].as_u64().context("a session without an id")?;
        cluster.ceph(&["tell", "mds.a", "session", "evict", &format!("id={id}")])?;
    }
    Ok(())
}

/// Asks until the answer is another one than to ask again.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, Failure>) -> anyhow::Result<T> {
    let deadline = Instant::now() + RECONNECT_MAX;
    loop {
        match ask() {
            Err(Failure::Status(JUKEBOX)) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => bail!("a call after the end of the session: {error}"),
            Ok(answer) => return Ok(answer),
        }
    }
}
