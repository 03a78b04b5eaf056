//! The files of a load on the server. Their content is known.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nfs_wire::v3::{StableHow, Status};
use report::units;

use super::identity;
use super::parallel::{go_on, in_shares};
use super::plan::{Kind, Plan};
use crate::error::Error;
use crate::job::LayoutProgress;
use crate::pattern::{self, FileOffset, Payload, Random};
use wire_client::Version;
use wire_client::{Client, Handle};

/// A directory of the export; it holds everything.
const DIRECTORY: &str = "plimsoll-bench";
/// The directory with many empty files, or the prefix of several.
const MANY: &str = "many";
const SCRATCH: &str = "scratch";
/// Bounds READ and WRITE of the setup, in bytes.
const TRANSFER_MAX: u64 = 256 << 10;
/// Between two reports about the entries of directories.
const PROGRESS: Duration = Duration::from_millis(20);
/// Units that the check of each file reads.
const SAMPLES: u64 = 32;

/// Data files that were checked before, by number, size, unit, and version of their handles.
pub(crate) type LaidOut = HashMap<(u32, u64, usize, Version), Handle>;

#[derive(Debug)]
pub(crate) struct FileSet {
    pub(super) files: Vec<Handle>,
    /// Name `i` is in directory `i` modulo their number.
    pub(super) many: Vec<Handle>,
    pub(super) scratch: Vec<Handle>,
    transfer: u64,
}

pub(super) fn entry_name(index: u64) -> [u8; 7] {
    let mut name = *b"f000000";
    let mut rest = index;
    for digit in name[1..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    name
}

/// The index of a name that [`entry_name`] gives; other spellings of the same number are other files.
fn entry_index(name: &[u8]) -> Option<usize> {
    let digits = str::from_utf8(name).ok()?.strip_prefix('f')?;
    let index = digits.parse::<usize>().ok()?;
    (entry_name(index as u64)[..] == *name).then_some(index)
}

/// Counts data files while several connections make them.
#[derive(Debug, Default)]
struct Done {
    /// Files of earlier runs that are right.
    reused: AtomicU64,
    made: AtomicU64,
    /// In bytes.
    written: AtomicU64,
}

impl Done {
    fn progress(&self, files: u64, size: u64) -> LayoutProgress {
        let [reused, made, written] =
            [&self.reused, &self.made, &self.written].map(|count| count.load(Ordering::Relaxed));
        let bytes = (reused * size + written) as f64;
        let done = if files > 0 { bytes / (size as f64 * files as f64) } else { 1.0 };
        LayoutProgress { done, whole: reused + made, files, written }
    }
}

impl FileSet {
    /// `None` if the kind has no object, or another call's reply supplies it.
    pub(super) fn handles(&self, kind: Kind) -> Option<&[Handle]> {
        match kind {
            Kind::Null | Kind::Close => None,
            Kind::Lookup | Kind::Readdirplus => Some(&self.many),
            Kind::Create | Kind::Remove | Kind::Rename => Some(&self.scratch),
            Kind::Getattr | Kind::Access | Kind::Read | Kind::Write | Kind::Commit | Kind::Open => {
                Some(&self.files)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn with_handles(files: Vec<Handle>, many: Vec<Handle>, scratch: Vec<Handle>) -> Self {
        Self { files, many, scratch, transfer: TRANSFER_MAX }
    }

    pub(super) fn lay_out(
        plan: &Plan,
        client: &mut Client,
        laid_out: &mut LaidOut,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let limits = client.limits()?;
        let max = if plan.op.writes() { limits.write_max.min(limits.read_max) } else { limits.read_max };
        if plan.op.transfers() && plan.block > u64::from(max) {
            let (block, max) = (units::show_size(plan.block), units::show_size(u64::from(max)));
            return Err(Error::Plan(format!("--block is {block}; this server transfers at most {max}")));
        }
        let root = client.root();
        let top = client.make_dir(&root, DIRECTORY, 0o755)?;
        let many = directories(client, &top, MANY, plan.directories)?;
        let scratch = directories(client, &top, SCRATCH, plan.directories)?;
        let unit = plan.unit() as u64;
        let transfer =
            (TRANSFER_MAX.min(u64::from(limits.write_max.min(limits.read_max))) / unit * unit).max(unit);
        let mut set = Self { files: Vec::new(), many, scratch, transfer };
        if plan.op.needs_files() {
            check_room(plan, client, laid_out)?;
            set.files = set.data_files(plan, &top, laid_out, progress)?;
        }
        if plan.op.needs_entries() {
            set.fill(plan, client, progress)?;
        }
        Ok(set)
    }

    pub(crate) fn bytes(client: &mut Client) -> Result<u64, Error> {
        let top = match client.walk(DIRECTORY) {
            Err(refused) if refused.is(Status::NOENT) => return Ok(0),
            found => found?,
        };
        let listed = client.list(&top)?;
        Ok(listed.iter().filter_map(|listed| listed.attributes).map(|attributes| attributes.used).sum())
    }

    pub(super) fn clear(client: &mut Client) -> Result<(), Error> {
        let top = match client.walk(DIRECTORY) {
            // Another engine of the same export has cleared it.
            Err(refused) if refused.is(Status::NOENT) => return Ok(()),
            found => found?,
        };
        for listed in client.list(&top)? {
            let name = String::from_utf8_lossy(&listed.name);
            if name.starts_with(MANY) || name.starts_with(SCRATCH) {
                let directory = client.lookup(&top, &name)?;
                empty(client, &directory)?;
                client.remove_dir(&top, &name)?;
            } else {
                client.remove(&top, &name)?;
            }
        }
        let root = client.root();
        Ok(client.remove_dir(&root, DIRECTORY)?)
    }

    /// Reads back and verifies every file. `generations` contains the last known write of each block in this
    /// run, or zero.
    pub(super) fn read_back(
        &self,
        plan: &Plan,
        client: &mut Client,
        generations: &[u32],
        watch: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut block = 0;
        for (index, file) in (plan.first_file..).zip(&self.files) {
            let mut offset = 0;
            while offset < plan.size {
                let generation = generations.get(block).copied().filter(|&written| written != 0);
                let end = offset + plan.block;
                while offset < end {
                    watch()?;
                    let count = (end - offset).min(self.transfer);
                    check(client, file, plan.unit(), FileOffset { file: index, offset }, count, generation)?;
                    offset += count;
                }
                block += 1;
            }
        }
        Ok(())
    }

    /// Reads every file once, over several connections.
    pub(super) fn warm(
        &self,
        plan: &Plan,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let count = u32::try_from(self.transfer).unwrap_or(u32::MAX);
        let (done, stop) = (Done::default(), AtomicBool::new(false));
        let read = |files: &[Handle]| {
            let mut client = identity::setup_client(plan)?;
            for file in files {
                for offset in (0..plan.size).step_by(usize::try_from(self.transfer).unwrap_or(usize::MAX)) {
                    go_on(&stop)?;
                    client.read(file, offset, count)?;
                }
                done.reused.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Vec::<()>::new())
        };
        let mut tell = || progress(done.progress(self.files.len() as u64, plan.size));
        in_shares(&self.files, &stop, read, &mut tell).map(drop)
    }

    /// Returns known data files unchecked. Checks the others, and creates them if needed.
    fn data_files(
        &self,
        plan: &Plan,
        top: &Handle,
        laid_out: &mut LaidOut,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<Vec<Handle>, Error> {
        let numbers: Vec<u32> = (plan.first_file..).take(plan.files).collect();
        let key = |number: u32| (number, plan.size, plan.unit(), plan.target.version);
        let unknown = numbers.iter().copied().filter(|&number| !laid_out.contains_key(&key(number)));
        let unknown: Vec<u32> = unknown.collect();
        let made = self.make_files(plan, top, &unknown, progress)?;
        // A file has one size at a time: its entries of other sizes and versions are obsolete.
        laid_out.retain(|(number, ..), _| !unknown.contains(number));
        laid_out.extend(unknown.into_iter().map(key).zip(made));
        Ok(numbers.into_iter().filter_map(|number| laid_out.get(&key(number)).cloned()).collect())
    }

    fn make_files(
        &self,
        plan: &Plan,
        top: &Handle,
        numbers: &[u32],
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<Vec<Handle>, Error> {
        let (done, stop) = (Done::default(), AtomicBool::new(false));
        let make = |numbers: &[u32]| {
            let mut client = identity::setup_client(plan)?;
            let file = |number: &u32| self.data_file(plan, &mut client, top, *number, &done, &stop);
            numbers.iter().map(file).collect()
        };
        let mut tell = || progress(done.progress(numbers.len() as u64, plan.size));
        in_shares(numbers, &stop, make, &mut tell)
    }

    /// Rewrites the file unless a sample of its content is right.
    fn data_file(
        &self,
        plan: &Plan,
        client: &mut Client,
        top: &Handle,
        number: u32,
        done: &Done,
        stop: &AtomicBool,
    ) -> Result<Handle, Error> {
        go_on(stop)?;
        let name = format!("data-{number:06}");
        let file = match client.lookup(top, &name) {
            Ok(file) if is_usable(plan, client, &file, number, stop)? => {
                done.reused.fetch_add(1, Ordering::Relaxed);
                return Ok(file);
            }
            Ok(_) => {
                client.remove(top, &name)?;
                client.create(top, &name, 0o644)?
            }
            Err(refused) if refused.is(Status::NOENT) => client.create(top, &name, 0o644)?,
            Err(other) => return Err(other.into()),
        };
        match self.fill_file(plan, client, &file, number, done, stop) {
            Ok(()) => {
                done.made.fetch_add(1, Ordering::Relaxed);
                Ok(file)
            }
            Err(Error::Stopped) => {
                // The next run must not find a part of a file. Its size would give it away if this fails.
                let _ = client.remove(top, &name);
                Err(Error::Stopped)
            }
            Err(wrong) => Err(wrong),
        }
    }

    fn fill_file(
        &self,
        plan: &Plan,
        client: &mut Client,
        file: &Handle,
        number: u32,
        done: &Done,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let transfer =
            usize::try_from(self.transfer).map_err(|_| Error::Plan("transfers are too large".to_owned()))?;
        let mut payload = Payload::new(transfer, plan.unit(), plan.seed ^ u64::from(number) << 32);
        let (mut offset, mut verf) = (0, None);
        while offset < plan.size {
            go_on(stop)?;
            payload.stamp(FileOffset { file: number, offset }, 0);
            let wanted = usize::try_from(plan.size - offset).map_or(transfer, |rest| rest.min(transfer));
            let written = write_all(client, file, offset, &payload.bytes()[..wanted])?;
            // A changed verifier means that the server may have lost unstable data (RFC 1813 §3.3.7).
            if *verf.get_or_insert(written) != written {
                return Err(Error::Protocol(format!("the server restarted while file {number} was written")));
            }
            offset += wanted as u64;
            done.written.fetch_add(wanted as u64, Ordering::Relaxed);
        }
        if verf != Some(client.commit(file)?) {
            return Err(Error::Protocol(format!("the server restarted before file {number} was committed")));
        }
        Ok(())
    }

    fn fill(
        &self,
        plan: &Plan,
        client: &mut Client,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let count = self.many.len();
        let mut missing = vec![true; plan.entries];
        for (number, directory) in self.many.iter().enumerate() {
            for listed in client.list(directory)? {
                let index = entry_index(&listed.name).filter(|index| index % count == number);
                match index.and_then(|index| missing.get_mut(index)) {
                    Some(missing) => *missing = false,
                    None => client.remove(directory, &String::from_utf8_lossy(&listed.name))?,
                }
            }
        }
        let mut told: Option<Instant> = None;
        for (index, _) in missing.iter().enumerate().filter(|(_, missing)| **missing) {
            let name = entry_name(index as u64);
            client.create(&self.many[index % count], &String::from_utf8_lossy(&name), 0o644)?;
            if told.is_none_or(|told| told.elapsed() >= PROGRESS) {
                told = Some(Instant::now());
                let (whole, files) = (index as u64, plan.entries as u64);
                progress(LayoutProgress { done: whole as f64 / files as f64, whole, files, written: 0 })?;
            }
        }
        Ok(())
    }
}

/// Refuses files for which the target has no room. The files of earlier runs are used again, or make room.
fn check_room(plan: &Plan, client: &mut Client, laid_out: &LaidOut) -> Result<(), Error> {
    let is_known =
        |number: u32| laid_out.contains_key(&(number, plan.size, plan.unit(), plan.target.version));
    if (plan.first_file..).take(plan.files).all(is_known) {
        return Ok(());
    }
    let room = client.free_bytes()? + FileSet::bytes(client)?;
    let files = plan.files as u64;
    if plan.size.saturating_mul(files) <= room {
        return Ok(());
    }
    let most = room / files / plan.block * plan.block;
    let in_mib = |bytes: u64| if bytes < 1 << 20 { bytes } else { bytes >> 20 << 20 };
    let [size, room, most] = [plan.size, in_mib(room), in_mib(most)].map(units::show_size);
    Err(Error::Plan(format!(
        "--files × --size is {files} × {size}; {} has room for {room}: allowed are files of up to {most}, or fewer of them",
        plan.target
    )))
}

/// A single directory gets the plain name.
fn directories(client: &mut Client, top: &Handle, name: &str, count: usize) -> Result<Vec<Handle>, Error> {
    if count == 1 {
        return Ok(vec![client.make_dir(top, name, 0o755)?]);
    }
    (0..count).map(|index| Ok(client.make_dir(top, &format!("{name}-{count}-{index}"), 0o755)?)).collect()
}

/// Checks the size, and a sample of the content.
fn is_usable(
    plan: &Plan,
    client: &mut Client,
    file: &Handle,
    index: u32,
    stop: &AtomicBool,
) -> Result<bool, Error> {
    if client.attributes(file)?.size != plan.size {
        return Ok(false);
    }
    let (unit, mut random) = (plan.unit() as u64, Random::new(plan.seed));
    let last = plan.size / unit - 1;
    for sample in 0..SAMPLES {
        go_on(stop)?;
        let at = match sample {
            0 => 0,
            1 => last,
            _ => random.below(last + 1),
        };
        match check(client, file, plan.unit(), FileOffset { file: index, offset: at * unit }, unit, None) {
            Ok(()) => {}
            Err(Error::Mismatch(_)) => return Ok(false),
            Err(other) => return Err(other),
        }
    }
    Ok(true)
}

fn check(
    client: &mut Client,
    file: &Handle,
    unit: usize,
    position: FileOffset,
    count: u64,
    generation: Option<u32>,
) -> Result<(), Error> {
    let mut data = Vec::new();
    while (data.len() as u64) < count {
        let rest = u32::try_from(count - data.len() as u64).unwrap_or(u32::MAX);
        let chunk = client.read(file, position.offset + data.len() as u64, rest)?;
        if chunk.data.is_empty() {
            let end = position.offset + data.len() as u64;
            return Err(Error::Mismatch(format!("file {} ends at {end}, before its end", position.file)));
        }
        data.extend_from_slice(chunk.data);
    }
    pattern::verify(&data, unit, position, generation).map_err(Error::Mismatch)
}

/// Makes several calls if the server accepts less. Returns the last verifier.
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
        assert_eq!(entry_index(b"f000042"), Some(42));
        for other in [&b"f7"[..], b"f0000042", b"f+00042", b"f1000000", b"g000042", b"f", b"\xff"] {
            assert_eq!(entry_index(other), None, "{other:?}");
        }
    }

    #[test]
    fn progress_counts_files_that_are_made_and_reused() {
        let done = Done::default();
        assert_eq!(done.progress(4, 8), LayoutProgress { files: 4, ..LayoutProgress::default() });
        done.reused.store(1, Ordering::Relaxed);
        done.made.store(1, Ordering::Relaxed);
        done.written.store(12, Ordering::Relaxed);
        assert_eq!(done.progress(4, 8), LayoutProgress { done: 0.625, whole: 2, files: 4, written: 12 });
    }
}
