//! Sweeps the records of deleted snapshots: each moves to the next earlier snapshot that needs it, or goes.
//!
//! A file's records change under a count that is odd meanwhile, so that readers see them before or after
//! ([`Undo::settled`]). Every step can be repeated after a crash.

use super::{
    Record, Undo, WHOLE, data, key_of, labels_in, names, open_dir, record_name, remove, whole, whole_name,
};
use crate::error::refused;
use crate::sys::STAT_BLOCK_BYTES;
use rustix::fs::{AtFlags, RawDir, Stat, fstat, linkat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use storage::{Ledger, PendingChange};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, blocks};
use vfs::{FileKey, FsError, FsResult, Pace, Progress, ViewId};

const READ_BYTES: usize = 32 * 1024;
/// Ranges that are moved between two calls of the pace.
const RANGES_STEP: usize = 256;

/// The snapshots at the time of a sweep, in ascending order.
struct Plan {
    ready: Vec<ViewId>,
    /// The label of changes, which goes on even if its snapshot is deleted.
    latest: Option<ViewId>,
}

impl Plan {
    /// Whether records of a label go.
    fn is_swept(&self, label: ViewId) -> bool {
        self.latest != Some(label) && !self.ready.contains(&label)
    }

    /// The newest snapshot before `label` that needs records, if it is after `earlier`.
    fn heir(&self, label: ViewId, earlier: Option<ViewId>) -> Option<ViewId> {
        let heir = self.ready.iter().rev().find(|ready| **ready < label).copied();
        heir.filter(|heir| earlier.is_none_or(|earlier| earlier < *heir))
    }
}

impl Undo {
    /// Reads something of a file's records that a sweep may be changing.
    pub(super) fn settled<T>(&self, key_path: &str, read: impl Fn() -> FsResult<T>) -> FsResult<T> {
        let count = self.sweep_count(key_path);
        loop {
            let before = count.load(Ordering::SeqCst);
            if before.is_multiple_of(2) {
                let answer = read();
                if count.load(Ordering::SeqCst) == before {
                    return answer;
                }
            }
            std::thread::yield_now();
        }
    }

    /// Sweeps the records of all deleted snapshots. Returns whether it is done; false if `pace` ended it.
    pub(crate) fn sweep(&self, ledger: Option<&Ledger>, pace: &mut Pace<'_>) -> FsResult<bool> {
        let _one = self.sweeping.lock();
        let (plan, swept) = {
            let state = self.state.lock();
            let plan = Plan { ready: state.ready(), latest: state.latest().map(|latest| latest.view) };
            let mut swept = state.deleted();
            swept.retain(|view| plan.is_swept(*view));
            (plan, swept)
        };
        if swept.is_empty() {
            return Ok(true);
        }
        let shards = names(&self.records)?;
        for (done, shard) in shards.iter().enumerate() {
            let progress = Progress { done: done as u64, total: Some(shards.len() as u64) };
            let dir = open_dir(self.records.as_fd(), shard).map_err(refused)?;
            for key in names(&dir)? {
                if pace(progress).is_break() {
                    return Ok(false);
                }
                let path = format!("{shard}/{key}");
                if !self.sweep_key(&dir, &key, &path, &plan, ledger, &mut |()| pace(progress))? {
                    return Ok(false);
                }
            }
            // It has blocks while it has names. A change may be making a record there right now.
            remove_empty(&self.records, shard)?;
        }
        self.change_state(|state| state.forget(&swept))?;
        Ok(true)
    }

    fn sweep_key(
        &self,
        shard: &OwnedFd,
        key: &str,
        path: &str,
        plan: &Plan,
        ledger: Option<&Ledger>,
        pace: &mut dyn FnMut(()) -> ControlFlow<()>,
    ) -> FsResult<bool> {
        let dir = open_dir(shard.as_fd(), key).map_err(refused)?;
        let mut labels = labels_in(&dir)?;
        labels.sort_unstable();
        let mut earlier = None;
        for label in labels {
            if !plan.is_swept(label) {
                earlier = Some(label);
                continue;
            }
            let heir = plan.heir(label, earlier);
            // An earlier record that no snapshot needs was dropped before this one.
            match (heir, earlier) {
                (Some(heir), _) => {
                    self.changing(path, || move_record(&dir, label, heir))?;
                    earlier = Some(heir);
                }
                (None, Some(earlier)) => {
                    if !self.merge_blocks(&dir, label, earlier, ledger, pace)? {
                        return Ok(false);
                    }
                    self.changing(path, || {
                        merge_names(&dir, label, earlier, ledger)?;
                        self.drop_record(&dir, label, ledger)
                    })?;
                }
                (None, None) => self.changing(path, || self.drop_record(&dir, label, ledger))?,
            }
        }
        if labels_in(&dir)?.is_empty() {
            self.changing(path, || self.drop_retained(&dir, ledger))?;
            // What an interrupted move has left.
            for left in names(&dir)?.iter().filter(|name| name.ends_with(WHOLE)) {
                remove(dir.as_fd(), left, AtFlags::empty())?;
            }
            // A change may be making a record there right now.
            remove_empty(shard, key)?;
        }
        Ok(true)
    }

    /// The keys of all objects with a record of `view` or a later one.
    pub(crate) fn keys_since(&self, view: ViewId) -> FsResult<Vec<FileKey>> {
        let mut keys = Vec::new();
        for shard in names(&self.records)? {
            let Some(shard) = open_present(self.records.as_fd(), &shard)? else { continue };
            for name in names(&shard)? {
                let labels = labels_in(&open_dir(shard.as_fd(), &name).map_err(refused)?)?;
                if labels.iter().any(|label| *label >= view) {
                    keys.extend(key_of(name.as_bytes()));
                }
            }
        }
        Ok(keys)
    }

    /// The bytes that deleting a snapshot would free. Looks at all records.
    pub(crate) fn freed_by(&self, view: ViewId) -> FsResult<u64> {
        let plan = {
            let state = self.state.lock();
            let mut ready = state.ready();
            ready.retain(|other| *other != view);
            // Changes go on under the label of the latest snapshot while an earlier one needs them.
            let latest = state.latest().map(|latest| latest.view).filter(|_| !ready.is_empty());
            Plan { ready, latest }
        };
        if !plan.is_swept(view) {
            return Ok(0);
        }
        let mut bytes = 0;
        for shard in names(&self.records)? {
            let Some(dir) = open_present(self.records.as_fd(), &shard)? else { continue };
            for key in names(&dir)? {
                bytes += self.settled(&shard, || self.freed_of_key(&dir, &key, view, &plan))?;
            }
        }
        Ok(bytes)
    }

    fn freed_of_key(&self, shard: &OwnedFd, key: &str, view: ViewId, plan: &Plan) -> FsResult<u64> {
        let Some(dir) = open_present(shard.as_fd(), key)? else { return Ok(0) };
        let labels = labels_in(&dir)?;
        let earlier = labels.iter().copied().filter(|label| *label < view).max();
        if !labels.contains(&view) || plan.heir(view, earlier).is_some() {
            return Ok(0);
        }
        let Some(earlier) = earlier else {
            let retained = if labels.len() == 1 { self.retained_space(&dir)? } else { 0 };
            return Ok(record_bytes(&dir, view, self.unit)? + retained);
        };
        self.common_bytes(&dir, view, earlier)
    }

    /// The bytes of a removed file that snapshots keep, as they are counted; 0 without one.
    fn retained_space(&self, dir: &OwnedFd) -> FsResult<u64> {
        if self.counts_blocks { retained_blocks(dir) } else { retained_bytes(dir) }
    }

    /// The charge of what two records both have, and of one of them.
    fn common_bytes(&self, dir: &OwnedFd, label: ViewId, earlier: ViewId) -> FsResult<u64> {
        let (Some(from), Some(to)) = (Record::open(dir.as_fd(), label)?, Record::open(dir.as_fd(), earlier)?)
        else {
            return Ok(0);
        };
        let size = fstat(&from.fd).map_err(refused)?.st_size.cast_unsigned();
        let mut bytes = INODE_BYTES;
        let end = to.blocks_max(self.unit)?;
        for range in self.preserved_blocks(&from, 0..size.div_ceil(self.unit))? {
            // What the earlier one lacks stays, if it needs it.
            let needed = range.start..range.end.min(end).max(range.start);
            let stays = data::count(&to.missing(&needed, self.unit)?);
            bytes += (range.end - range.start - stays) * self.unit;
        }
        let names_of = |label| match open_dir(dir.as_fd(), &names::dir_name(label)) {
            Ok(recorded) => raw_names(&recorded),
            Err(Errno::NOENT) => Ok(Vec::new()),
            Err(errno) => Err(refused(errno)),
        };
        let (names, others) = (names_of(label)?, names_of(earlier)?);
        let common = names.iter().filter(|name| others.contains(name)).count() as u64;
        Ok(bytes + common * NAME_BYTES)
    }

    /// Runs a change of a file's records that readers see whole.
    fn changing(&self, path: &str, change: impl FnOnce() -> FsResult<()>) -> FsResult<()> {
        let count = self.sweep_count(path);
        count.fetch_add(1, Ordering::SeqCst);
        let done = change();
        count.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// Adds the blocks of one record to an earlier one that lacks them.
    fn merge_blocks(
        &self,
        dir: &OwnedFd,
        label: ViewId,
        earlier: ViewId,
        ledger: Option<&Ledger>,
        pace: &mut dyn FnMut(()) -> ControlFlow<()>,
    ) -> FsResult<bool> {
        let (Some(from), Some(to)) = (Record::open(dir.as_fd(), label)?, Record::open(dir.as_fd(), earlier)?)
        else {
            return Ok(true);
        };
        let size = fstat(&from.fd).map_err(refused)?.st_size.cast_unsigned();
        let mut missing = Vec::new();
        let end = size.div_ceil(self.unit).min(to.blocks_max(self.unit)?);
        for range in self.preserved_blocks(&from, 0..end)? {
            missing.extend(to.missing(&range, self.unit)?);
        }
        for step in missing.chunks(RANGES_STEP) {
            if pace(()).is_break() {
                return Ok(false);
            }
            let _pending = begin(ledger);
            self.preserve_blocks(&to, from.fd.as_fd(), size, step)?;
            // Both have them, until the later one is dropped.
            hold(ledger, data::count(step) * self.unit)?;
        }
        // Only now: a hole of both is a hole of the file.
        if !from.whole.is_empty() {
            whole::append(dir.as_fd(), &whole_name(earlier), from.whole.ranges())?;
        }
        Ok(true)
    }

    fn drop_record(&self, dir: &OwnedFd, label: ViewId, ledger: Option<&Ledger>) -> FsResult<()> {
        let _pending = begin(ledger);
        let freed = record_bytes(dir, label, self.unit)?;
        let names_name = names::dir_name(label);
        match open_dir(dir.as_fd(), &names_name) {
            Ok(recorded) => {
                for name in raw_names(&recorded)? {
                    unlinkat(&recorded, &*name, AtFlags::empty()).map_err(refused)?;
                }
                remove(dir.as_fd(), &names_name, AtFlags::REMOVEDIR)?;
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(refused(errno)),
        }
        remove(dir.as_fd(), &whole_name(label), AtFlags::empty())?;
        remove(dir.as_fd(), &record_name(label), AtFlags::empty())?;
        free(freed, ledger);
        Ok(())
    }

    /// Deletes a removed file that no snapshot needs.
    fn drop_retained(&self, dir: &OwnedFd, ledger: Option<&Ledger>) -> FsResult<()> {
        let _pending = begin(ledger);
        let freed = retained_bytes(dir)?;
        remove(dir.as_fd(), super::retained::FILE, AtFlags::empty())?;
        free(freed, ledger);
        Ok(())
    }
}

/// Begins a change of records: from its first step on, a crash requires a recount.
fn begin(ledger: Option<&Ledger>) -> Option<PendingChange<'_>> {
    let ledger = ledger?;
    let pending = ledger.begin_refund();
    ledger.mark_best_effort();
    Some(pending)
}

fn free(bytes: u64, ledger: Option<&Ledger>) {
    if let Some(ledger) = ledger {
        ledger.release_held(bytes);
    }
}

/// The charge of a record with its names.
fn record_bytes(dir: &OwnedFd, label: ViewId, unit: u64) -> FsResult<u64> {
    let names = match open_dir(dir.as_fd(), &names::dir_name(label)) {
        Ok(recorded) => raw_names(&recorded)?.len() as u64,
        Err(Errno::NOENT) => 0,
        Err(errno) => return Err(refused(errno)),
    };
    let Some(record) = Record::open(dir.as_fd(), label)? else { return Ok(names * NAME_BYTES) };
    let size = fstat(&record.fd).map_err(refused)?.st_size.cast_unsigned();
    let ranges = super::data::preserved(&record, 0..size.div_ceil(unit), unit)?;
    Ok(INODE_BYTES + names * NAME_BYTES + data::count(&ranges) * unit)
}

/// The charge of a removed file that snapshots keep; 0 without one.
fn retained_bytes(dir: &OwnedFd) -> FsResult<u64> {
    Ok(retained_stat(dir)?.map_or(0, |stat| blocks(stat.st_size.cast_unsigned())))
}

/// The bytes of the blocks of a removed file that snapshots keep; 0 without one.
fn retained_blocks(dir: &OwnedFd) -> FsResult<u64> {
    Ok(retained_stat(dir)?.map_or(0, |stat| stat.st_blocks.cast_unsigned().saturating_mul(STAT_BLOCK_BYTES)))
}

fn retained_stat(dir: &OwnedFd) -> FsResult<Option<Stat>> {
    match statat(dir, super::retained::FILE, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(refused(errno)),
    }
}

/// Counts the charges of the undo store `name` in `stores`; 0 if there is none.
pub(crate) fn count(stores: BorrowedFd<'_>, name: &str) -> FsResult<u64> {
    let records = match open_dir(stores, &format!("{name}/{}", super::RECORDS)) {
        Ok(records) => records,
        Err(Errno::NOENT) => return Ok(0),
        Err(errno) => return Err(refused(errno)),
    };
    let unit = super::unit_of(records.as_fd())?;
    let mut bytes = 0;
    for shard in names(&records)? {
        let Some(shard) = open_present(records.as_fd(), &shard)? else { continue };
        for key in names(&shard)? {
            let Some(dir) = open_present(shard.as_fd(), &key)? else { continue };
            for label in labels_in(&dir)? {
                bytes += record_bytes(&dir, label, unit)?;
            }
            bytes += retained_bytes(&dir)?;
        }
    }
    Ok(bytes)
}

/// Opens a directory; `None` if it is not there any more.
fn open_present(dir: BorrowedFd<'_>, name: &str) -> FsResult<Option<OwnedFd>> {
    match open_dir(dir, name) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(refused(errno)),
    }
}

/// Removes a directory, unless it has entries.
fn remove_empty(dir: &OwnedFd, name: &str) -> FsResult<()> {
    match unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(errno) => Err(refused(errno)),
    }
}

/// Gives a record and its names to an earlier snapshot.
fn move_record(dir: &OwnedFd, label: ViewId, heir: ViewId) -> FsResult<()> {
    // A second name first, so that each record has its ranges at any moment.
    match linkat(dir, whole_name(label), dir, whole_name(heir), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT | Errno::EXIST) => {}
        Err(errno) => return Err(refused(errno)),
    }
    // The names first: a record is what labels are listed by.
    for (from, to) in
        [(names::dir_name(label), names::dir_name(heir)), (record_name(label), record_name(heir))]
    {
        match renameat(dir, &*from, dir, &*to) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(refused(errno)),
        }
    }
    remove(dir.as_fd(), &whole_name(label), AtFlags::empty())
}

/// Adds the names of one record to an earlier one that lacks them.
fn merge_names(dir: &OwnedFd, label: ViewId, earlier: ViewId, ledger: Option<&Ledger>) -> FsResult<()> {
    let _pending = begin(ledger);
    let from = match open_dir(dir.as_fd(), &names::dir_name(label)) {
        Ok(from) => from,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(refused(errno)),
    };
    let to = match open_dir(dir.as_fd(), &names::dir_name(earlier)) {
        Err(Errno::NOENT) => {
            // All of them.
            return renameat(dir, names::dir_name(label), dir, names::dir_name(earlier)).map_err(refused);
        }
        to => to.map_err(refused)?,
    };
    for name in raw_names(&from)? {
        match linkat(&from, &*name, &to, &*name, AtFlags::empty()) {
            Ok(()) => hold(ledger, NAME_BYTES)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(refused(errno)),
        }
    }
    Ok(())
}

/// Charges what is in two records for a moment, even past the capacity.
fn hold(ledger: Option<&Ledger>, bytes: u64) -> FsResult<()> {
    ledger.map_or(Ok(()), |ledger| ledger.hold(bytes, true))
}

fn raw_names(dir: &OwnedFd) -> FsResult<Vec<Vec<u8>>> {
    // The position of a directory is that of its open file.
    let dir = open_dir(dir.as_fd(), ".").map_err(refused)?;
    let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
    let mut raw = RawDir::new(&dir, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

fn names(dir: &OwnedFd) -> FsResult<Vec<String>> {
    raw_names(dir)?.into_iter().map(|name| String::from_utf8(name).map_err(|_| FsError::Io)).collect()
}
