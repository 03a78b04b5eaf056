//! The undo store: what snapshots still need of files that have changed since.
//!
//! A volume has one live tree. The first change of a file, of a block or of a name after a snapshot preserves the earlier
//! state under the number of that snapshot, its *label*, before it changes anything. So a snapshot is the live tree with
//! the records of its label and of later ones in front: the first record from its label on has the attributes, and for
//! each block the first record that has the block. docs/formats/undo-store.md draws the tree.
//!
//! A label is read under the lock of what changes. A new snapshot publishes its label, then waits until every lock that
//! was held has been free once ([`crate::node::Node`]'s table). So each change is before the snapshot or after it, in all
//! its parts.

mod blocks;
mod data;
mod names;
mod record;
mod retained;
mod state;
mod sweep;
mod whole;

pub(crate) use blocks::PreservedBlocks;
pub(crate) use data::{data_from, hole_from};
pub(crate) use names::{NameRecord, NamedObject};
pub(crate) use record::{Record, RecordMeta};
pub(crate) use state::Label;
pub(crate) use sweep::count;
pub(crate) use whole::BlockSet;

use crate::capacity::project::{self, Project};
use crate::error::refused;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, fsync, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use state::{State, StateFile};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vfs::sync::Mutex;
use vfs::volume::streams::key_of;
use vfs::{FileKey, FsError, FsResult, Time, ViewId};

pub(crate) const RECORDS: &str = "records";
/// The end of the name of a file that says what a record has with its holes.
const WHOLE: &str = ".whole";
/// Removed files on their way into their records.
const PENDING: &str = "pending";
/// Objects that wait for their place during a revert.
const WAITING: &str = "waiting";
/// Directories of records, so that none has too many entries.
const SHARDS: u64 = 256;
/// The smallest block that is preserved.
const UNIT_BYTES_MIN: u64 = 4096;
const SWEEP_COUNTS: usize = 64;
/// Buffer size of one `getdents` call.
const READ_BYTES: usize = 8 * 1024;

/// The way in which blocks are preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// The record shares them. The file system's log is in order, so no flush is needed.
    Share,
    /// The record has a copy, which is flushed before the change.
    Copy,
}

pub(crate) struct Undo {
    dir: OwnedFd,
    records: OwnedFd,
    pending: OwnedFd,
    method: Method,
    /// The project of the records, where the kernel counts them or did.
    project: Option<u32>,
    /// The kernel counts them, by their blocks.
    counts_blocks: bool,
    /// A block of zeros to share, in place of holes.
    zeros: Option<OwnedFd>,
    /// Size of the blocks that are preserved.
    unit: u64,
    /// The number of the latest snapshot; 0 without any.
    label: AtomicU32,
    state: StateFile,
    sweeping: Mutex<()>,
    /// Counts the beginnings and ends of changes of records, by shards of files.
    sweep_counts: Vec<AtomicU64>,
}

/// The place of a volume's undo store.
pub(crate) struct UndoPlace {
    /// The directory of the undo stores of all volumes.
    pub(crate) stores: OwnedFd,
    pub(crate) name: String,
    pub(crate) method: Method,
    pub(crate) unit: u64,
    /// The kernel counts the volume: its records become a project, with a number derived from this.
    pub(crate) project_seed: Option<u64>,
}

impl UndoPlace {
    /// Opens the store, if there is one.
    pub(crate) fn find(&self) -> FsResult<Option<Undo>> {
        match open_dir(self.stores.as_fd(), &self.name) {
            Ok(dir) => self.open(dir).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    pub(crate) fn make(&self) -> FsResult<Undo> {
        let dir = make_dir(self.stores.as_fd(), &self.name).map_err(refused)?;
        fsync(&self.stores).map_err(refused)?;
        self.open(dir)
    }

    fn open(&self, dir: OwnedFd) -> FsResult<Undo> {
        if let Some(seed) = self.project_seed {
            let records = make_dir(dir.as_fd(), RECORDS).map_err(refused)?;
            if project::number_at(records.as_fd()).is_none() {
                Project::assign(records.as_fd(), seed)?;
            }
        }
        let undo = Undo::open(dir, self.method, self.unit)?;
        Ok(Undo { counts_blocks: self.project_seed.is_some(), ..undo })
    }
}

impl Undo {
    /// Opens the store in `dir`, or makes an empty one.
    pub(crate) fn open(dir: OwnedFd, method: Method, unit: u64) -> FsResult<Self> {
        let [records, pending] = [RECORDS, PENDING].map(|name| make_dir(dir.as_fd(), name));
        let (records, pending) = (records.map_err(refused)?, pending.map_err(refused)?);
        let state = State::read(dir.as_fd())?;
        let zeros = match method {
            Method::Share => Some(data::make_zeros(dir.as_fd(), unit)?),
            Method::Copy => None,
        };
        let label = state.latest().map_or(0, |latest| latest.view.0);
        let undo = Self {
            project: project::number_at(records.as_fd()),
            counts_blocks: false,
            dir,
            records,
            pending,
            method,
            zeros,
            unit,
            label: AtomicU32::new(label),
            state: StateFile::new(state),
            sweeping: Mutex::default(),
            sweep_counts: (0..SWEEP_COUNTS).map(|_| AtomicU64::new(0)).collect(),
        };
        undo.finish_pending()?;
        Ok(undo)
    }

    /// The latest snapshot; `None` without any. Call it under the lock of what changes.
    #[inline]
    pub(crate) fn label(&self) -> Option<Label> {
        match self.label.load(Ordering::Relaxed) {
            0 => None,
            number => self.label_of(ViewId(number)),
        }
    }

    #[cold]
    fn label_of(&self, view: ViewId) -> Option<Label> {
        self.state.lock().label_of(view)
    }

    /// Whether any record may exist.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.label.load(Ordering::Relaxed) == 0
    }

    fn sweep_count(&self, path: &str) -> &AtomicU64 {
        // The shard: the first two digits.
        let shard = path.get(..2).and_then(|digits| usize::from_str_radix(digits, 16).ok()).unwrap_or(0);
        &self.sweep_counts[shard % SWEEP_COUNTS]
    }

    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }

    pub(crate) fn views(&self) -> Vec<ViewId> {
        self.state.lock().ready()
    }

    /// The time of a snapshot, as [`Label::born_until`]; `None` if there is no such snapshot.
    pub(crate) fn find(&self, view: ViewId) -> Option<Label> {
        self.state.lock().find(view)
    }

    fn change_state(&self, change: impl FnOnce(&mut State)) -> FsResult<()> {
        self.state.change(self.dir.as_fd(), change)
    }

    /// Notes, durably, that a snapshot is being made.
    pub(crate) fn begin(&self, view: ViewId) -> FsResult<()> {
        self.state.try_change(self.dir.as_fd(), |state| state.begin(view))
    }

    /// Publishes the label of a snapshot that is being made, for all changes that begin from now on. [`Undo::commit`] must
    /// follow when all others have ended, or [`Undo::mark_deleted`].
    pub(crate) fn publish(&self, view: ViewId) {
        self.label.store(view.0, Ordering::SeqCst);
    }

    /// The birth of the youngest file that a new snapshot can have, `now`, after the changes under way have ended.
    pub(crate) fn youngest(&self, now: Time) -> Time {
        self.state.lock().youngest(now)
    }

    /// Makes the new snapshot complete, durably. No file that it has was born after `born_until`.
    pub(crate) fn commit(&self, view: ViewId, born_until: Time) -> FsResult<()> {
        self.change_state(|state| state.commit(view, born_until))
    }

    /// Deletes a snapshot, durably. Its records stay until they are swept.
    pub(crate) fn mark_deleted(&self, view: ViewId) -> FsResult<()> {
        self.change_state(|state| state.mark_deleted(view))?;
        let state = self.state.lock();
        self.label.store(state.latest().map_or(0, |latest| latest.view.0), Ordering::SeqCst);
        Ok(())
    }

    /// Notes, durably, that the files are being brought back to a snapshot.
    pub(crate) fn begin_revert(&self, view: ViewId) -> FsResult<()> {
        self.change_state(|state| state.set_reverting(Some(view)))
    }

    pub(crate) fn end_revert(&self) -> FsResult<()> {
        self.change_state(|state| state.set_reverting(None))
    }

    /// The directory of objects that wait for their place, made if missing.
    pub(crate) fn open_waiting(&self) -> FsResult<OwnedFd> {
        make_dir(self.dir.as_fd(), WAITING).map_err(refused)
    }

    pub(crate) fn remove_waiting(&self) -> FsResult<()> {
        remove(self.dir.as_fd(), WAITING, AtFlags::REMOVEDIR)
    }

    /// Writes what the next process needs to know.
    pub(crate) fn seal(&self) -> FsResult<()> {
        self.change_state(|state| state.seal())
    }

    /// Notes the birth of a file, so that the next snapshot knows that it is older.
    pub(crate) fn note_birth(&self, born: Option<Time>) -> FsResult<()> {
        let Some(born) = born else { return Ok(()) };
        let is_past_bound = self.state.lock().note_birth(born);
        if is_past_bound { self.change_state(|state| state.raise_bound(born)) } else { Ok(()) }
    }

    /// The directory of a file's records; `None` if it has none.
    fn key_dir(&self, key: &FileKey) -> FsResult<Option<OwnedFd>> {
        match open_dir(self.records.as_fd(), &path_of(key)) {
            Ok(dir) => Ok(Some(dir)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// Makes something in the directory of a file's records. A sweep may remove an empty directory meanwhile.
    fn in_key_dir<T>(&self, key: &FileKey, make: impl Fn(&OwnedFd) -> Result<T, Errno>) -> FsResult<T> {
        loop {
            match make(&self.make_key_dir(key)?) {
                Err(Errno::NOENT) => {}
                made => return made.map_err(refused),
            }
        }
    }

    fn make_key_dir(&self, key: &FileKey) -> FsResult<OwnedFd> {
        let path = path_of(key);
        loop {
            match open_dir(self.records.as_fd(), &path) {
                Err(Errno::NOENT) => {}
                opened => return opened.map_err(refused),
            }
            match mkdirat(&self.records, &*path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => match mkdirat(&self.records, shard_of(&path), Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(refused(errno)),
                },
                Err(errno) => return Err(refused(errno)),
            }
        }
    }

    /// The first record of a file from `view` on, which has its attributes at that time.
    pub(crate) fn first_record(&self, key: &FileKey, view: ViewId) -> FsResult<Option<Record>> {
        self.settled(&path_of(key), || {
            let Some(dir) = self.key_dir(key)? else { return Ok(None) };
            match labels_in(&dir)?.into_iter().filter(|label| *label >= view).min() {
                Some(first) => Record::open(dir.as_fd(), first),
                None => Ok(None),
            }
        })
    }

    /// The labels of a file's records from `view` on, in ascending order, each with its record.
    pub(crate) fn records_from(&self, key: &FileKey, view: ViewId) -> FsResult<BTreeMap<ViewId, Record>> {
        self.settled(&path_of(key), || {
            let Some(dir) = self.key_dir(key)? else { return Ok(BTreeMap::new()) };
            let mut records = BTreeMap::new();
            for label in labels_in(&dir)?.into_iter().filter(|label| *label >= view) {
                if let Some(record) = Record::open(dir.as_fd(), label)? {
                    records.insert(label, record);
                }
            }
            Ok(records)
        })
    }
}

/// The snapshot to which an undo store's volume was being brought back when the last process ended.
pub(crate) fn interrupted_revert(stores: BorrowedFd<'_>, name: &str) -> FsResult<Option<ViewId>> {
    match open_dir(stores, name) {
        Ok(dir) => Ok(State::read(dir.as_fd())?.reverting()),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(refused(errno)),
    }
}

/// Size of the blocks that are preserved in a file system.
pub(crate) fn unit_of(file: BorrowedFd<'_>) -> FsResult<u64> {
    let state = rustix::fs::fstatfs(file).map_err(refused)?;
    Ok(u64::try_from(state.f_bsize).unwrap_or(0).max(UNIT_BYTES_MIN))
}

/// The labels of the records in a file's directory.
fn labels_in(dir: &OwnedFd) -> FsResult<Vec<ViewId>> {
    labels_with(dir, "")
}

/// The labels of the entries in a file's directory whose names have this after the label.
fn labels_with(dir: &OwnedFd, suffix: &str) -> FsResult<Vec<ViewId>> {
    let mut buffer = [const { MaybeUninit::uninit() }; READ_BYTES];
    // The position of a directory is that of its open file, so each look has its own.
    let dir = open_dir(dir.as_fd(), ".").map_err(refused)?;
    let mut raw = RawDir::new(&dir, &mut buffer);
    let mut labels = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name().to_str().ok();
        labels.extend(name.and_then(|name| name.strip_suffix(suffix)).and_then(label_of));
    }
    Ok(labels)
}

/// The file with the ranges that a record has with their holes.
fn whole_name(label: ViewId) -> String {
    record_name(label) + WHOLE
}

/// The name of a record: its label in eight hexadecimal digits.
fn record_name(label: ViewId) -> String {
    format!("{:08x}", label.0)
}

fn label_of(name: &str) -> Option<ViewId> {
    let label = u32::from_str_radix(name, 16).ok().map(ViewId)?;
    (record_name(label) == name).then_some(label)
}

/// The path of a file's directory of records: a shard, and the key in hexadecimal digits.
fn path_of(key: &FileKey) -> String {
    let hash = key
        .bytes()
        .iter()
        .fold(0_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mut path = format!("{:02x}/", (hash ^ hash >> 32) % SHARDS);
    key.bytes().iter().for_each(|byte| {
        let _ = write!(path, "{byte:02x}");
    });
    path
}

fn shard_of(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

fn open_dir(dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

fn make_dir(dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match mkdirat(dir, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open_dir(dir, name),
        Err(errno) => Err(errno),
    }
}

/// Removes `name` in `dir`, if it exists.
fn remove(dir: BorrowedFd<'_>, name: &str, flags: AtFlags) -> FsResult<()> {
    match unlinkat(dir, name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(refused(errno)),
    }
}

/// [`FsError::Io`] for a record that this version cannot read.
fn damaged() -> FsError {
    FsError::Io
}
