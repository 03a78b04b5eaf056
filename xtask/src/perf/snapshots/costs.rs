//! The time of single operations in a volume with a snapshot, beside that in a volume without one.

use anyhow::Context;

use super::times::{Times, micros, millis};
use super::volume::make_volume;
use crate::ledger::client::{Client, Handle, How, MountResult, Stable};
use crate::managed::Managed;
use crate::random::Random;
use crate::server::Endpoint;

const BLOCK: usize = 4096;
const FILE_BLOCKS: usize = 1 << 15;
const PIECE_BYTES: usize = 1 << 20;
const ROUNDS: usize = 8;
const WRITES_PER_ROUND: usize = 400;
const REMOVALS_PER_ROUND: usize = 100;

/// A volume with one file of data, and files to remove.
struct Ground {
    client: Client,
    root: Handle,
    data: Handle,
}

impl Ground {
    fn make(service: &Managed, name: &str) -> anyhow::Result<Self> {
        make_volume(service, name, "own", "2GiB")?;
        let MountResult { mut client, root } =
            Client::mount(&Endpoint::loopback(service.port, &format!("/{name}")))?;
        let data = client.create(&root, "data", How::Unchecked(0o644))?;
        let piece = vec![1; PIECE_BYTES];
        for offset in (0..FILE_BLOCKS * BLOCK).step_by(PIECE_BYTES) {
            client.write(&data, offset as u64, &piece, Stable::Unstable)?;
        }
        client.commit(&data)?;
        Ok(Self { client, root, data })
    }

    fn write(&mut self, block: usize, times: &mut Times) -> anyhow::Result<()> {
        let (offset, data) = ((block * BLOCK) as u64, [2; BLOCK]);
        let written = times.take(|| self.client.write(&self.data, offset, &data, Stable::Unstable));
        written.map(drop).context("WRITE")
    }

    fn make_files(&mut self, round: usize) -> anyhow::Result<()> {
        for number in 0..REMOVALS_PER_ROUND {
            let file = self.client.create(&self.root, &format!("{round}-{number}"), How::Unchecked(0o644))?;
            self.client.write(&file, 0, &[3; BLOCK], Stable::Unstable)?;
            self.client.commit(&file)?;
        }
        Ok(())
    }

    fn remove(&mut self, round: usize, number: usize, times: &mut Times) -> anyhow::Result<()> {
        times.take(|| self.client.remove(&self.root, &format!("{round}-{number}"))).context("REMOVE")
    }
}

#[derive(Default)]
struct Costs {
    create: Times,
    delete: Times,
    plain: Times,
    first: Times,
    second: Times,
    plain_removal: Times,
    removal: Times,
}

pub(super) fn measure(service: &Managed) -> anyhow::Result<()> {
    let (mut plain, mut kept) = (Ground::make(service, "plain")?, Ground::make(service, "kept")?);
    let (mut costs, mut random) = (Costs::default(), Random::new(1));
    let mut blocks: Vec<usize> = (0..FILE_BLOCKS).collect();
    for at in (1..blocks.len()).rev() {
        blocks.swap(at, random.below(at + 1));
    }
    for (round, blocks) in blocks.chunks(WRITES_PER_ROUND).take(ROUNDS).enumerate() {
        plain.make_files(round)?;
        kept.make_files(round)?;
        let name = format!("round-{round}");
        costs.create.take(|| service.manage(&format!("snapshot create kept {name}")))?;
        for &block in blocks {
            // The first write of a volume's page after a flush costs more, so each block is written twice there, too.
            plain.write(block, &mut Times::default())?;
            plain.write(block, &mut costs.plain)?;
            kept.write(block, &mut costs.first)?;
            kept.write(block, &mut costs.second)?;
        }
        for number in 0..REMOVALS_PER_ROUND {
            plain.remove(round, number, &mut costs.plain_removal)?;
            kept.remove(round, number, &mut costs.removal)?;
        }
    }
    for round in 0..ROUNDS {
        costs.delete.take(|| service.manage(&format!("snapshot delete kept round-{round} --yes")))?;
    }
    costs.print();
    Ok(())
}

impl Costs {
    fn print(&self) {
        println!("  4 KiB overwritten, no snapshot   {}", self.plain);
        println!("  … for the first time after one   {}", self.first);
        println!("  … for the second time            {}", self.second);
        let ratio = micros(self.second.median()) / micros(self.plain.median());
        println!("  second to none: {ratio:.3} by the medians (aim: at most 1.05)");
        println!("  file removed, no snapshot        {}", self.plain_removal);
        println!("  … that a snapshot has            {}", self.removal);
        println!(
            "  plimsoll snapshot create {:.0} ms, delete {:.0} ms, by the medians",
            millis(self.create.median()),
            millis(self.delete.median())
        );
    }
}
