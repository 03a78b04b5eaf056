//! Lists directories from cached pages of entries, which are valid until the directory changes.
//!
//! Attributes of the entries are cached too. A change through this process invalidates them at once; a change by
//! another process appears after at most a second.

mod create;
mod entries;

use crate::error::refused;
use crate::listing::{Listing, Object, Page, PageEntry};
use crate::node::changes;
use crate::node::counter::{self, VersionedStat};
use crate::node::owner::carries;
use crate::node::{Node, Rights};
use rustix::fs::{AtFlags, fsync, statat, syncfs};
use std::sync::Arc;
use std::time::Instant;
use storage::Unflushed;
use vfs::{Attrs, Entry, EntrySink, FileKey, FileType, FsError, FsResult, NameFilter};

impl Node {
    pub(crate) fn list(
        &self,
        cookie: u64,
        plus: bool,
        filter: Option<NameFilter<'_>>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<bool> {
        let listing = &self.as_dir()?.listing;
        self.open(Rights::Read)?;
        let now = Instant::now();
        let mut cookie = cookie;
        loop {
            let (page, first) = self.page(listing, cookie)?;
            for entry in &page.entries[first..] {
                let name = page.name(entry);
                // A `stat` of each file of a large directory takes seconds, so entries that the filter excludes get
                // none.
                if filter.is_some_and(|filter| !filter(name)) {
                    cookie = entry.cookie;
                    continue;
                }
                let cached = if plus { *entry.object() } else { None };
                let fresh;
                let object = match &cached {
                    Some(cached) if cached.is_fresh(now, self.changes_of(entry)) => Some(cached),
                    cached if plus => {
                        fresh = self.stat_entry(entry, name, now, cached.as_ref());
                        fresh.as_ref()
                    }
                    _ => None,
                };
                let object = object.map(|object| (&object.key, &object.attrs));
                let is_root_parent = name == b".." && self.key == self.mount.root_key;
                let file_id = if is_root_parent { self.mount.root_id.1 } else { entry.inode };
                if sink(&Entry { name, file_id, cookie: entry.cookie, object }).is_break() {
                    return Ok(false);
                }
                cookie = entry.cookie;
            }
            if page.is_last {
                return Ok(true);
            }
        }
    }

    /// Syncs the children created since the last flush whose attributes were set after their creation.
    pub(crate) fn flush_children(&self) -> FsResult<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let unflushed = || dir.unflushed.lock();
        let Unflushed { children, has_overflowed: more } = std::mem::take(&mut *unflushed());
        // Other types cannot be flushed alone.
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
            unflushed().has_overflowed = true;
        }
        result
    }

    fn page(&self, listing: &Arc<Listing>, cookie: u64) -> FsResult<(Arc<Page>, usize)> {
        let changed = self.attrs_now()?.changed;
        let (page, cached_at) = listing.page(self.fd(), changed, cookie)?;
        if cached_at.is_none() {
            self.mount.budget.listings.add(listing, &page);
        }
        Ok((page, cached_at.unwrap_or(0)))
    }

    fn changes_of(&self, entry: &PageEntry) -> u32 {
        changes::count(self.mount.root_id.0, entry.inode)
    }

    /// Reads the key and attributes of an entry's file. `known` is the outdated cached object. `None` for a mount point
    /// and for a file removed meanwhile.
    fn stat_entry(
        &self,
        entry: &PageEntry,
        name: &[u8],
        now: Instant,
        cached: Option<&Object>,
    ) -> Option<Object> {
        match name {
            b"." => return Some(Object { key: self.key, attrs: self.attrs_now().ok()?, read_at: None }),
            b".." => return None,
            _ => {}
        }
        let changes = self.changes_of(entry);
        // A new key is read before the state: if another file takes the name in between, the inode numbers differ.
        let key_now = || {
            let key = self.mount.key_at(self.fd(), name).ok()?;
            self.mount.record(&key, &self.key, name);
            Some(key)
        };
        let read_stat = |key: &FileKey| {
            let ahead = self.mount.counter_offset(key);
            let stat = statat(self.fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            self.mount.contains(&stat).then(|| VersionedStat::new(stat, ahead))
        };
        let mut key = cached.map_or_else(&key_now, |cached| Some(cached.key))?;
        let mut stat = read_stat(&key)?;
        let is_same = stat.st_ino == entry.inode;
        if !is_same && cached.is_some() {
            key = key_now()?;
            stat = read_stat(&key)?;
        }
        let first = || counter::birth_time(self.fd(), name);
        let born = cached.filter(|cached| cached.key == key).map_or_else(first, |cached| cached.attrs.born);
        let attrs = Attrs { born, ..self.mount.attrs(&stat, self.fd(), Some(name)).ok()? };
        // A change through another name is counted for the directory of that name only.
        let has_one_name = attrs.links == 1 || attrs.file_type == FileType::Directory;
        let object = Object { key, attrs, read_at: has_one_name.then_some((now, changes)) };
        if is_same {
            *entry.object() = Some(object);
        }
        Some(object)
    }
}
