//! First overwrites in a file of a million extents.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::times::Times;
use super::volume::make_volume;
use crate::ledger::client::{Change, Client, How, MountResult, Stable};
use crate::managed::Managed;
use crate::random::Random;
use crate::server::Endpoint;

const BLOCK: usize = 4096;
const EXTENTS: usize = 1_000_000;
const WRITES: usize = 4000;
const AIM: Duration = Duration::from_micros(400);

pub(super) fn measure(service: &Managed) -> anyhow::Result<()> {
    make_volume(service, "extents", "own", "10GiB")?;
    let MountResult { mut client, root } = Client::mount(&Endpoint::loopback(service.port, "/extents"))?;
    let file = client.create(&root, "data", How::Unchecked(0o644))?;
    let size = Some((EXTENTS * 2 * BLOCK) as u64);
    client.set_attributes(&file, Change { size, ..Change::default() })?;
    // Every other block: holes between them keep their extents apart. The service counts sizes, so nothing changes for it.
    let on_host = File::options().write(true).open(service.written("data")?)?;
    for number in 0..EXTENTS {
        on_host.write_all_at(&[1; BLOCK], (number * 2 * BLOCK) as u64)?;
    }
    on_host.sync_all()?;
    drop(on_host);
    service.manage("snapshot create extents one")?;
    let (mut random, mut times) = (Random::new(1), Times::default());
    for at in 0..WRITES {
        let place = at * (EXTENTS / WRITES) + random.below(EXTENTS / WRITES);
        let (offset, data) = ((place * 2 * BLOCK) as u64, [2; BLOCK]);
        times.take(|| client.write(&file, offset, &data, Stable::Unstable)).context("WRITE")?;
    }
    ensure!(times.count() == WRITES, "every block is written once");
    println!(
        "  4 KiB first overwritten among a million extents {times} (aim: at most {} µs)",
        AIM.as_micros()
    );
    Ok(())
}
