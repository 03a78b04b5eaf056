//! Cached entries of a directory, in pages of one `getdents` call each.

pub(crate) mod cache;

use crate::error::refused;
use rustix::fs::{RawDir, SeekFrom, seek};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vfs::sync::Mutex;
use vfs::{Attrs, FileKey, FsError, FsResult, Time};

/// Buffer size of one `getdents` call.
const READ_BYTES: usize = 32 * 1024;
/// A directory that changed less than this before it was read may change again without a new change time.
const RACY_NANOS: i128 = 20_000_000;
/// Maximum age of cached attributes in a listing. NFS clients themselves cache attributes for 3 s and more.
const ATTRS_AGE_MAX: Duration = Duration::from_secs(1);
/// Time in which a listing may continue on a racy page, as if the reader had been slow.
const RACY_AGE_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Listing {
    reading: Mutex<Reading>,
    /// Counts the changes through this store, because change times may be too coarse to show them.
    version: AtomicU64,
}

#[derive(Default)]
struct Reading {
    position: u64,
    /// Change time and version of the directory that the pages belong to.
    stamp: (Time, u64),
    pages: Vec<Arc<Page>>,
}

/// The entries of one `getdents` call.
pub(crate) struct Page {
    /// The cookie that the page was read from.
    start: u64,
    pub(crate) entries: Vec<PageEntry>,
    names: Vec<u8>,
    pub(crate) is_last: bool,
    /// Set if the directory changed just before the read: the page is valid until then, and only to continue a listing.
    racy_until: Option<Instant>,
}

pub(crate) struct PageEntry {
    pub(crate) cookie: u64,
    pub(crate) inode: u64,
    name_start: u32,
    name_len: u16,
    object: Mutex<Option<Object>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub(crate) key: FileKey,
    pub(crate) attrs: Attrs,
    /// When the attributes were read, and the change count of the file then; `None` if they must not be reused.
    pub(crate) read_at: Option<(Instant, u32)>,
}

impl Listing {
    /// Invalidates the pages after a change through this store.
    pub(crate) fn note_change(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn drop_page(&self, page: &Arc<Page>) {
        self.reading().pages.retain(|cached| !Arc::ptr_eq(cached, page));
    }

    /// The page with the entries after `cookie` of the directory open as `dir` with the change time `changed`. Also the
    /// index of the first such entry if the page was cached, `None` if it was read just now.
    pub(crate) fn page(
        &self,
        dir: BorrowedFd<'_>,
        changed: Time,
        cookie: u64,
    ) -> FsResult<(Arc<Page>, Option<usize>)> {
        let stamp = (changed, self.version.load(Ordering::Acquire));
        let mut reading = self.reading();
        if reading.stamp != stamp {
            reading.pages.clear();
            reading.stamp = stamp;
        }
        if let Some(found) = reading.pages.iter().rev().find_map(|p| Some((p, p.after(cookie)?))) {
            return Ok((Arc::clone(found.0), Some(found.1)));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let age = i128::try_from(now).unwrap_or(0) - changed.as_nanos();
        let mut page = read_page(dir, &mut reading.position, cookie)?;
        page.racy_until = (age <= RACY_NANOS).then(|| Instant::now() + RACY_AGE_MAX);
        let page = Arc::new(page);
        reading.pages.retain(|cached| cached.start != cookie);
        reading.pages.push(Arc::clone(&page));
        Ok((page, None))
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock()
    }
}

impl Object {
    /// Whether the attributes may be listed at `now`, given the current change count of the file.
    #[inline]
    pub(crate) fn is_fresh(&self, now: Instant, changes: u32) -> bool {
        self.read_at.is_some_and(|(read_at, count)| {
            count == changes && now.saturating_duration_since(read_at) < ATTRS_AGE_MAX
        })
    }
}

impl PageEntry {
    pub(crate) fn object(&self) -> MutexGuard<'_, Option<Object>> {
        self.object.lock()
    }
}

impl Page {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.entries.len() * size_of::<PageEntry>() + self.names.len()
    }

    pub(crate) fn name(&self, entry: &PageEntry) -> &[u8] {
        let start = entry.name_start as usize;
        &self.names[start..start + usize::from(entry.name_len)]
    }

    fn after(&self, cookie: u64) -> Option<usize> {
        if self.racy_until.is_some_and(|until| cookie == 0 || Instant::now() > until) {
            return None;
        }
        if self.start == cookie {
            return Some(0);
        }
        let index = self.entries.iter().position(|entry| entry.cookie == cookie)? + 1;
        (index < self.entries.len() || self.is_last).then_some(index)
    }
}

/// Reads one buffer of entries after `cookie`. The page is empty only at the end of the directory.
fn read_page(dir: BorrowedFd<'_>, position: &mut u64, cookie: u64) -> FsResult<Page> {
    // Always seek at the start: btrfs shows no entry that is newer than the last rewind.
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
        Page { start: cookie, entries: Vec::new(), names: Vec::new(), is_last: false, racy_until: None };
    *position = u64::MAX;
    loop {
        let Some(entry) = raw.next() else {
            page.is_last = true;
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
