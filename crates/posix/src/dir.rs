//! Listing a directory: pages of entries, read once and kept while the directory does not change.
//!
//! With a name its file's attributes are kept, for a moment: what changes through this process voids them at once, and
//! what another process does to the file is seen [`ATTRS_GOOD`] later at most.

use crate::changes;
use crate::counter::{self, Sight};
use crate::error::refused;
use crate::node::{Node, Rights};
use crate::owner::carries;
use rustix::fs::{AtFlags, RawDir, SeekFrom, fsync, seek, statat, syncfs};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vfs::{Attrs, Entry, EntrySink, FileKey, FileType, FsError, FsResult, Time};

/// Bytes of entries taken from the kernel at once.
const READ_BYTES: usize = 32 * 1024;
/// A directory that changed less than this before it was read may change again without its time showing it.
const RACY_NANOS: i128 = 20_000_000;
/// How long a page read then may be gone on with: as if the reader had been so slow.
const RACY_GOOD: Duration = Duration::from_secs(1);
/// How long attributes are listed that were taken before. NFS clients themselves keep attributes for 3 s and more.
const ATTRS_GOOD: Duration = Duration::from_secs(1);
/// New children remembered for the next flush, which keeps their nodes; past that the whole file system is flushed.
const CHILDREN_MAX: usize = 16;

/// What a directory's node has besides a file's.
#[derive(Default)]
pub(crate) struct Listing {
    reading: Mutex<Reading>,
    /// Counts the changes through this store, which the directory's time may be too coarse to show.
    version: AtomicU64,
    unflushed: Mutex<Unflushed>,
}

#[derive(Default)]
struct Reading {
    /// Where the descriptor stands.
    position: u64,
    /// The change time and the version of the directory that the pages belong to.
    stamp: (Time, u64),
    pages: Vec<Arc<Page>>,
}

/// New children whose attributes were set after their creation: the flush of a directory does not cover that.
#[derive(Default)]
struct Unflushed {
    children: Vec<Arc<Node>>,
    more: bool,
}

/// The entries that one call to the kernel gave.
pub(crate) struct Page {
    /// The cookie it was read from.
    start: u64,
    entries: Vec<PageEntry>,
    names: Vec<u8>,
    /// Nothing comes after it.
    last: bool,
    /// Read so soon after a change that another one may not show: good until then, and only to go on with a listing.
    racy_until: Option<Instant>,
}

struct PageEntry {
    cookie: u64,
    inode: u64,
    name_start: u32,
    name_len: u16,
    object: Mutex<Option<Object>>,
}

/// The file of an entry, once asked for.
#[derive(Clone, Copy)]
struct Object {
    key: FileKey,
    attrs: Attrs,
    /// When the attributes were taken, and the count of changes then; `None` if they must not be used again.
    taken: Option<(Instant, u32)>,
}

impl Listing {
    /// Notes a change of the directory through this store.
    pub(crate) fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Keeps a page no longer.
    pub(crate) fn drop_page(&self, page: &Arc<Page>) {
        self.reading().pages.retain(|kept| !Arc::ptr_eq(kept, page));
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a new child that the next flush of the directory must cover.
    pub(crate) fn remember(&self, child: &Arc<Node>) {
        let mut unflushed = self.unflushed.lock().unwrap_or_else(PoisonError::into_inner);
        if unflushed.more {
            return;
        }
        if unflushed.children.len() < CHILDREN_MAX {
            unflushed.children.push(Arc::clone(child));
        } else {
            // What is gone by now need not be flushed, and nothing is held any longer.
            *unflushed = Unflushed { children: Vec::new(), more: true };
        }
    }
}

impl Node {
    /// Lists as [`vfs::Node::read_dir`] says.
    pub(crate) fn list(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        let listing = self.as_dir()?;
        self.open(Rights::Read)?;
        let now = Instant::now();
        let mut cookie = cookie;
        loop {
            let (page, first) = self.page(listing, cookie)?;
            for entry in &page.entries[first..] {
                let name = page.name(entry);
                let object = if plus { self.object(entry, name, now) } else { None };
                let is_root_parent = name == b".." && self.key == self.mount.root_key;
                let file_id = if is_root_parent { self.mount.root_id.1 } else { entry.inode };
                if sink(&Entry { name, file_id, cookie: entry.cookie, object }).is_break() {
                    return Ok(false);
                }
                cookie = entry.cookie;
            }
            if page.last {
                return Ok(true);
            }
        }
    }

    /// Makes the children durable that were made here since the last flush and whose attributes were set after that.
    pub(crate) fn flush_children(&self) -> FsResult<()> {
        let Some(listing) = &self.listing else { return Ok(()) };
        let unflushed = || listing.unflushed.lock().unwrap_or_else(PoisonError::into_inner);
        let Unflushed { children, more } = std::mem::take(&mut *unflushed());
        // Only these can be flushed alone.
        let whole = more || children.iter().any(|child| !carries(child.kind));
        let flush_one = |child: &Arc<Node>| match child.stat() {
            Err(FsError::Stale) => Ok(()),
            _ => fsync(child.open(Rights::Read)?).map_err(refused),
        };
        let result = if whole {
            syncfs(&self.mount.root).map_err(refused)
        } else {
            children.iter().try_for_each(flush_one)
        };
        if result.is_err() {
            unflushed().more = true;
        }
        result
    }

    /// The page with what comes after `cookie`, and where in it.
    fn page(&self, listing: &Arc<Listing>, cookie: u64) -> FsResult<(Arc<Page>, usize)> {
        let changed = self.attrs_now()?.changed;
        let stamp = (changed, listing.version.load(Ordering::Acquire));
        let mut reading = listing.reading();
        if reading.stamp != stamp {
            reading.pages.clear();
            reading.stamp = stamp;
        }
        if let Some(found) = reading.pages.iter().rev().find_map(|p| Some((p, p.after(cookie)?))) {
            return Ok((Arc::clone(found.0), found.1));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let age = i128::try_from(now).unwrap_or(0) - changed.as_nanos();
        let mut page = read_page(self.fd(), &mut reading.position, cookie)?;
        page.racy_until = (age <= RACY_NANOS).then(|| Instant::now() + RACY_GOOD);
        let page = Arc::new(page);
        reading.pages.retain(|kept| kept.start != cookie);
        reading.pages.push(Arc::clone(&page));
        drop(reading);
        self.mount.budget.listings.add(listing, &page);
        Ok((page, 0))
    }

    /// Key and attributes of an entry; `None` if it is mounted on, or went away meanwhile.
    fn object(&self, entry: &PageEntry, name: &[u8], now: Instant) -> Option<(FileKey, Attrs)> {
        match name {
            b"." => return Some((self.key, self.attrs_now().ok()?)),
            b".." => return None,
            _ => {}
        }
        let device = self.mount.root_id.0;
        let changes = changes::count(device, entry.inode);
        let known = *entry.object();
        if let Some(Object { key, attrs, taken: Some((taken, count)) }) = known
            && count == changes
            && now.saturating_duration_since(taken) < ATTRS_GOOD
        {
            return Some((key, attrs));
        }
        // A new key is taken before the state: if the name goes to another file in between, the numbers differ.
        let key_now = || {
            let key = self.mount.key_at(self.fd(), name).ok()?;
            self.mount.record(&key, &self.key, name);
            Some(key)
        };
        let sight = |key: &FileKey| {
            let ahead = self.mount.ahead(key);
            let stat = statat(self.fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            self.mount.holds(&stat).then(|| Sight::new(stat, ahead))
        };
        let mut key = known.map_or_else(&key_now, |known| Some(known.key))?;
        let mut stat = sight(&key)?;
        let is_same = stat.st_ino == entry.inode;
        if !is_same && known.is_some() {
            key = key_now()?;
            stat = sight(&key)?;
        }
        let first = || counter::born(self.fd(), name);
        let born = known.filter(|known| known.key == key).map_or_else(first, |known| known.attrs.born);
        let attrs = Attrs { born, ..self.mount.attrs(&stat, self.fd(), Some(name)).ok()? };
        if is_same {
            // What has other names may change by them, and that is counted with their directories only.
            let has_one_name = attrs.links == 1 || attrs.file_type == FileType::Directory;
            *entry.object() = Some(Object { key, attrs, taken: has_one_name.then_some((now, changes)) });
        }
        Some((key, attrs))
    }
}

impl PageEntry {
    fn object(&self) -> MutexGuard<'_, Option<Object>> {
        self.object.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Page {
    /// What it takes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.entries.len() * size_of::<PageEntry>() + self.names.len()
    }

    fn name(&self, entry: &PageEntry) -> &[u8] {
        let start = entry.name_start as usize;
        &self.names[start..start + usize::from(entry.name_len)]
    }

    /// The index of what comes after `cookie`, if that is in this page.
    fn after(&self, cookie: u64) -> Option<usize> {
        if self.racy_until.is_some_and(|until| cookie == 0 || Instant::now() > until) {
            return None;
        }
        if self.start == cookie {
            return Some(0);
        }
        let index = self.entries.iter().position(|entry| entry.cookie == cookie)? + 1;
        (index < self.entries.len() || self.last).then_some(index)
    }
}

/// Takes one buffer of entries after `cookie` from the kernel; an empty page only at the end.
fn read_page(dir: BorrowedFd<'_>, position: &mut u64, cookie: u64) -> FsResult<Page> {
    // From the start always: btrfs shows no entry that is newer than the last rewind.
    if *position != cookie || cookie == 0 {
        *position = u64::MAX;
        if i64::try_from(cookie).is_err() {
            return Err(FsError::Invalid);
        }
        seek(dir, SeekFrom::Start(cookie)).map_err(refused)?;
    }
    let mut buffer = [const { MaybeUninit::uninit() }; READ_BYTES];
    let mut raw = RawDir::new(dir, &mut buffer);
    let mut page =
        Page { start: cookie, entries: Vec::new(), names: Vec::new(), last: false, racy_until: None };
    *position = u64::MAX;
    loop {
        let Some(entry) = raw.next() else {
            page.last = true;
            break;
        };
        let entry = entry.map_err(refused)?;
        let name = entry.file_name().to_bytes();
        page.entries.push(PageEntry {
            cookie: entry.next_entry_cookie(),
            inode: entry.ino(),
            name_start: u32::try_from(page.names.len()).map_err(|_| FsError::Io)?,
            name_len: u16::try_from(name.len()).map_err(|_| FsError::Io)?,
            object: Mutex::default(),
        });
        page.names.extend_from_slice(name);
        if raw.is_buffer_empty() {
            break;
        }
    }
    page.entries.shrink_to_fit();
    page.names.shrink_to_fit();
    *position = page.entries.last().map_or(cookie, |entry| entry.cookie);
    Ok(page)
}
