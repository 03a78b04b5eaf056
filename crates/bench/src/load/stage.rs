//! What a load finds on the server: a directory of files with known content.

use nfs::v3::wire::{StableHow, Status};

use super::plan::Plan;
use crate::client::{Client, Handle};
use crate::pattern::{self, Payload, Place, Random};
use crate::{Error, units};

/// Everything is below this directory of the export.
const DIRECTORY: &str = "plimsoll-bench";
/// The directory with many empty files.
const MANY: &str = "many";
/// Where CREATE and REMOVE work.
const SCRATCH: &str = "scratch";
/// Largest WRITE and READ of the set-up.
const TRANSFER_MAX: u64 = 256 << 10;
/// Units read of each file to see whether it can be used again.
const SAMPLES: u64 = 32;

/// The objects of a load.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) files: Vec<Handle>,
    pub(super) many: Handle,
    pub(super) scratch: Handle,
    transfer: u64,
}

/// The name of an empty file in the large directory.
pub(super) fn entry_name(index: u64) -> [u8; 7] {
    let mut name = *b"f000000";
    let mut rest = index;
    for digit in name[1..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    name
}

impl Stage {
    /// Makes what the plan needs and is not there yet.
    pub(super) fn set(
        plan: &Plan,
        client: &mut Client,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, Error> {
        let info = client.fs_info()?;
        let max = if plan.op.writes() { info.wtmax.min(info.rtmax) } else { info.rtmax };
        if plan.op.transfers() && plan.block > u64::from(max) {
            let (block, max) = (units::show_size(plan.block), units::show_size(u64::from(max)));
            return Err(Error::Plan(format!("--block is {block}; this server transfers at most {max}")));
        }
        let root = client.root();
        let top = client.make_dir(&root, DIRECTORY, 0o755)?;
        let many = client.make_dir(&top, MANY, 0o755)?;
        let scratch = client.make_dir(&top, SCRATCH, 0o755)?;
        let unit = plan.unit() as u64;
        let transfer = (TRANSFER_MAX.min(u64::from(info.wtmax.min(info.rtmax))) / unit * unit).max(unit);
        let mut stage = Self { files: Vec::new(), many, scratch, transfer };
        if plan.op.needs_files() {
            for index in 0..plan.files {
                let file = stage.data_file(plan, client, &top, index, progress)?;
                stage.files.push(file);
            }
        }
        if plan.op.needs_entries() {
            stage.fill(plan, client, progress)?;
        }
        Ok(stage)
    }

    /// Removes everything again.
    pub(super) fn clear(client: &mut Client) -> Result<(), Error> {
        let top = client.walk(DIRECTORY)?;
        for name in [MANY, SCRATCH] {
            let dir = client.lookup(&top, name)?;
            empty(client, &dir)?;
            client.remove_dir(&top, name)?;
        }
        empty(client, &top)?;
        let root = client.root();
        client.remove_dir(&root, DIRECTORY)
    }

    /// Reads every file back whole. `generations` holds for each block the last write of this run, or zero where none
    /// is known for certain.
    pub(super) fn read_back(
        &self,
        plan: &Plan,
        client: &mut Client,
        generations: &[u32],
    ) -> Result<(), Error> {
        let mut block = 0;
        for (index, file) in (0..).zip(&self.files) {
            let mut offset = 0;
            while offset < plan.size {
                let generation = generations.get(block).copied().filter(|&written| written != 0);
                let end = offset + plan.block;
                while offset < end {
                    let count = (end - offset).min(self.transfer);
                    check(client, file, plan.unit(), Place { file: index, offset }, count, generation)?;
                    offset += count;
                }
                block += 1;
            }
        }
        Ok(())
    }

    /// The data file of this index: as it is where a sample of it is right, else written anew.
    fn data_file(
        &self,
        plan: &Plan,
        client: &mut Client,
        top: &Handle,
        index: usize,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Handle, Error> {
        let name = format!("data-{index:06}");
        let number = u32::try_from(index).map_err(|_| Error::Plan("too many files".to_owned()))?;
        let file = match client.lookup(top, &name) {
            Ok(file) if usable(plan, client, &file, number)? => return Ok(file),
            Ok(_) => {
                client.remove(top, &name)?;
                client.create(top, &name, 0o644)?
            }
            Err(refused) if refused.is(Status::NOENT) => client.create(top, &name, 0o644)?,
            Err(other) => return Err(other),
        };
        let transfer =
            usize::try_from(self.transfer).map_err(|_| Error::Plan("transfers are too large".to_owned()))?;
        let mut payload = Payload::new(transfer, plan.unit(), plan.seed ^ (index as u64) << 32);
        let (mut offset, mut verf) = (0, None);
        while offset < plan.size {
            payload.stamp(Place { file: number, offset }, 0);
            let wanted = usize::try_from(plan.size - offset).map_or(transfer, |rest| rest.min(transfer));
            let written = write_all(client, &file, offset, &payload.bytes()[..wanted])?;
            if *verf.get_or_insert(written) != written {
                return Err(Error::Protocol(format!("the server restarted while {name} was written")));
            }
            offset += wanted as u64;
            progress((index as f64 + offset as f64 / plan.size as f64) / plan.files as f64);
        }
        if verf != Some(client.commit(&file)?) {
            return Err(Error::Protocol(format!("the server restarted before {name} was committed")));
        }
        Ok(file)
    }

    /// Makes the empty files that are missing.
    fn fill(&self, plan: &Plan, client: &mut Client, progress: &mut dyn FnMut(f64)) -> Result<(), Error> {
        let mut missing = vec![true; plan.entries];
        for listed in client.list(&self.many)? {
            let index = str::from_utf8(&listed.name)
                .ok()
                .and_then(|name| name.strip_prefix('f')?.parse::<usize>().ok());
            match index.and_then(|index| missing.get_mut(index)) {
                Some(missing) => *missing = false,
                None => client.remove(&self.many, &String::from_utf8_lossy(&listed.name))?,
            }
        }
        for (index, _) in (0u64..).zip(&missing).filter(|(_, missing)| **missing) {
            client.create(&self.many, &String::from_utf8_lossy(&entry_name(index)), 0o644)?;
            if index % 64 == 0 {
                progress(index as f64 / plan.entries as f64);
            }
        }
        Ok(())
    }
}

/// Whether a file has the right size and, where sampled, the right content.
fn usable(plan: &Plan, client: &mut Client, file: &Handle, index: u32) -> Result<bool, Error> {
    if client.attributes(file)?.size != plan.size {
        return Ok(false);
    }
    let (unit, mut random) = (plan.unit() as u64, Random::new(plan.seed));
    let last = plan.size / unit - 1;
    for sample in 0..SAMPLES {
        let at = match sample {
            0 => 0,
            1 => last,
            _ => random.below(last + 1),
        };
        match check(client, file, plan.unit(), Place { file: index, offset: at * unit }, unit, None) {
            Ok(()) => {}
            Err(Error::Mismatch(_)) => return Ok(false),
            Err(other) => return Err(other),
        }
    }
    Ok(true)
}

/// Reads `count` bytes at `place` and verifies them.
fn check(
    client: &mut Client,
    file: &Handle,
    unit: usize,
    place: Place,
    count: u64,
    generation: Option<u32>,
) -> Result<(), Error> {
    let mut data = Vec::new();
    while (data.len() as u64) < count {
        let rest = u32::try_from(count - data.len() as u64).unwrap_or(u32::MAX);
        let chunk = client.read(file, place.offset + data.len() as u64, rest)?;
        if chunk.data.is_empty() {
            let end = place.offset + data.len() as u64;
            return Err(Error::Mismatch(format!("file {} ends at {end}, before its end", place.file)));
        }
        data.extend_from_slice(chunk.data);
    }
    pattern::verify(&data, unit, place, generation).map_err(Error::Mismatch)
}

/// Writes all of `data`, in several calls where the server takes less at once; gives the verifier of the last.
fn write_all(client: &mut Client, file: &Handle, offset: u64, data: &[u8]) -> Result<[u8; 8], Error> {
    let (mut at, mut verf) = (0, [0; 8]);
    while at < data.len() {
        let written = client.write(file, offset + at as u64, &data[at..], StableHow::Unstable)?;
        at += written.count as usize;
        verf = written.verf;
    }
    Ok(verf)
}

fn empty(client: &mut Client, dir: &Handle) -> Result<(), Error> {
    for listed in client.list(dir)? {
        client.remove(dir, &String::from_utf8_lossy(&listed.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_six_digits() {
        assert_eq!([0, 42, 999_999].map(entry_name), [*b"f000000", *b"f000042", *b"f999999"]);
    }
}
