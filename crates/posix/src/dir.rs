//! Listing a directory: pages of entries, read once and kept while the directory does not change.

use crate::attr;
use crate::error::refused;
use crate::node::{Node, Rights};
use rustix::fs::{AtFlags, RawDir, SeekFrom, fsync, seek, statat, syncfs};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::{Attrs, Entry, EntrySink, FileKey, FileType, FsError, FsResult, Time};

/// Bytes of entries taken from the kernel at once.
const READ_BYTES: usize = 32 * 1024;
/// A directory that changed less than this before it was read may change again without its time showing it.
const RACY_NANOS: i128 = 20_000_000;
/// New children remembered for the next flush; past that the whole file system is flushed.
const CHILDREN_MAX: usize = 256;

/// What a directory's node has besides a file's.
#[derive(Default)]
pub(crate) struct Listing {
    reading: Mutex<Reading>,
    unflushed: Mutex<Unflushed>,
}

#[derive(Default)]
struct Reading {
    /// Where the descriptor stands.
    position: u64,
    /// The change time of the directory that the pages belong to.
    stamp: Time,
    pages: Vec<Arc<Page>>,
}

/// New children whose attributes were set after their birth: the flush of a directory does not cover that.
#[derive(Default)]
struct Unflushed {
    children: Vec<Arc<Node>>,
    more: bool,
}

/// The entries that one call to the kernel gave.
struct Page {
    /// The cookie it was read from.
    start: u64,
    entries: Vec<PageEntry>,
    names: Vec<u8>,
    /// Nothing comes after it.
    last: bool,
}

struct PageEntry {
    cookie: u64,
    inode: u64,
    name_start: u32,
    name_len: u16,
    /// The key, once asked for.
    key: OnceLock<FileKey>,
}

impl Listing {
    /// Remembers a new child that the next flush of the directory must cover.
    pub(crate) fn remember(&self, child: &Arc<Node>) {
        let mut unflushed = self.unflushed.lock().unwrap_or_else(PoisonError::into_inner);
        if unflushed.children.len() < CHILDREN_MAX {
            unflushed.children.push(Arc::clone(child));
        } else {
            unflushed.more = true;
        }
    }
}

impl Node {
    /// Lists as [`vfs::Node::read_dir`] says.
    pub(crate) fn list(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        let listing = self.as_dir()?;
        self.open(Rights::Read)?;
        let mut cookie = cookie;
        loop {
            let (page, first) = self.page(listing, cookie)?;
            for entry in &page.entries[first..] {
                let name = page.name(entry);
                let object = if plus { self.object(entry, name) } else { None };
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
        let Unflushed { children, more } =
            std::mem::take(&mut *listing.unflushed.lock().unwrap_or_else(PoisonError::into_inner));
        let whole = |child: &Arc<Node>| !matches!(child.kind, FileType::Regular | FileType::Directory);
        if more || children.iter().any(whole) {
            return syncfs(&self.mount.root).map_err(refused);
        }
        for child in &children {
            fsync(child.open(Rights::Read)?).map_err(refused)?;
        }
        Ok(())
    }

    /// The page with what comes after `cookie`, and where in it.
    fn page(&self, listing: &Listing, cookie: u64) -> FsResult<(Arc<Page>, usize)> {
        let changed = self.attrs_now()?.changed;
        let mut reading = listing.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if reading.stamp != changed {
            reading.pages.clear();
            reading.stamp = changed;
        }
        if let Some(found) = reading.pages.iter().rev().find_map(|p| Some((p, p.after(cookie)?))) {
            return Ok((Arc::clone(found.0), found.1));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let age = i128::try_from(now).unwrap_or(0) - changed.as_nanos();
        let page = Arc::new(read_page(self.fd(), &mut reading.position, cookie)?);
        if age > RACY_NANOS {
            reading.pages.push(Arc::clone(&page));
        }
        Ok((page, 0))
    }

    /// Key and attributes of an entry; `None` if it is mounted on, or went away meanwhile.
    fn object(&self, entry: &PageEntry, name: &[u8]) -> Option<(FileKey, Attrs)> {
        match name {
            b"." => return Some((self.key, self.attrs_now().ok()?)),
            b".." => return None,
            _ => {}
        }
        let state =
            || statat(self.fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok().filter(|s| self.mount.holds(s));
        if let Some(key) = entry.key.get()
            && let Some(stat) = state()
            && stat.st_ino == entry.inode
        {
            return Some((*key, attr::attrs(&stat).ok()?));
        }
        let key = self.mount.key_at(self.fd(), name).ok()?;
        let stat = state()?;
        if stat.st_ino == entry.inode {
            entry.key.get_or_init(|| key);
        }
        Some((key, attr::attrs(&stat).ok()?))
    }
}

impl Page {
    fn name(&self, entry: &PageEntry) -> &[u8] {
        let start = entry.name_start as usize;
        &self.names[start..start + usize::from(entry.name_len)]
    }

    /// The index of what comes after `cookie`, if that is in this page.
    fn after(&self, cookie: u64) -> Option<usize> {
        if self.start == cookie {
            return Some(0);
        }
        let index = self.entries.iter().position(|entry| entry.cookie == cookie)? + 1;
        (index < self.entries.len() || self.last).then_some(index)
    }
}

/// Takes one buffer of entries after `cookie` from the kernel; an empty page only at the end.
fn read_page(dir: BorrowedFd<'_>, position: &mut u64, cookie: u64) -> FsResult<Page> {
    if *position != cookie {
        *position = u64::MAX;
        if i64::try_from(cookie).is_err() {
            return Err(FsError::Invalid);
        }
        seek(dir, SeekFrom::Start(cookie)).map_err(refused)?;
    }
    let mut buffer = [const { MaybeUninit::uninit() }; READ_BYTES];
    let mut raw = RawDir::new(dir, &mut buffer);
    let mut page = Page { start: cookie, entries: Vec::new(), names: Vec::new(), last: false };
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
            key: OnceLock::new(),
        });
        page.names.extend_from_slice(name);
        if raw.is_buffer_empty() {
            break;
        }
    }
    page.entries.shrink_to_fit();
    *position = page.entries.last().map_or(cookie, |entry| entry.cookie);
    Ok(page)
}
