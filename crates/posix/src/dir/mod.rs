//! Listing a directory: pages of entries, read once and kept while the directory does not change.
//!
//! With a name its file's attributes are kept, for a moment: what changes through this process voids them at once, and
//! what another process does to the file is seen a second later at most.

mod create;
mod entries;

use crate::error::refused;
use crate::listing::{Listing, Object, Page, PageEntry};
use crate::node::changes;
use crate::node::counter::{self, VersionedStat};
use crate::node::owner::carries;
use crate::node::{Directory, Node, Rights, Unflushed};
use rustix::fs::{AtFlags, fsync, statat, syncfs};
use std::sync::Arc;
use std::time::Instant;
use vfs::{Attrs, Entry, EntrySink, FileKey, FileType, FsError, FsResult, NameFilter};

/// New children remembered for the next flush, which keeps their nodes; past that the whole file system is flushed.
const CHILDREN_MAX: usize = 16;

impl Directory {
    /// Remembers a new child that the next flush of the directory must cover.
    pub(crate) fn add_unflushed(&self, child: &Arc<Node>) {
        let mut unflushed = self.unflushed.lock();
        if unflushed.has_overflowed {
            return;
        }
        if unflushed.children.len() < CHILDREN_MAX {
            unflushed.children.push(Arc::clone(child));
        } else {
            // What is gone by now need not be flushed, and nothing is held any longer.
            *unflushed = Unflushed { children: Vec::new(), has_overflowed: true };
        }
    }
}

impl Node {
    /// Lists as [`vfs::Node::read_dir`] and [`vfs::Node::read_dir_of`] say.
    pub(crate) fn list(
        &self,
        cookie: u64,
        plus: bool,
        wanted: Option<NameFilter<'_>>,
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
                // A look at each file of a large directory takes seconds: there is none at those that nobody asks for.
                if wanted.is_some_and(|wanted| !wanted(name)) {
                    cookie = entry.cookie;
                    continue;
                }
                let known = if plus { *entry.object() } else { None };
                let seen;
                let object = match &known {
                    Some(known) if known.is_fresh(now, self.changes_of(entry)) => Some(known),
                    known if plus => {
                        seen = self.stat_entry(entry, name, now, known.as_ref());
                        seen.as_ref()
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

    /// Makes the children durable that were made here since the last flush and whose attributes were set after that.
    pub(crate) fn flush_children(&self) -> FsResult<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let unflushed = || dir.unflushed.lock();
        let Unflushed { children, has_overflowed: more } = std::mem::take(&mut *unflushed());
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
            unflushed().has_overflowed = true;
        }
        result
    }

    /// The page with what comes after `cookie`, and where in it.
    fn page(&self, listing: &Arc<Listing>, cookie: u64) -> FsResult<(Arc<Page>, usize)> {
        let changed = self.attrs_now()?.changed;
        let (page, kept_at) = listing.page(self.fd(), changed, cookie)?;
        if kept_at.is_none() {
            self.mount.budget.listings.add(listing, &page);
        }
        Ok((page, kept_at.unwrap_or(0)))
    }

    /// The count of changes of an entry's file.
    fn changes_of(&self, entry: &PageEntry) -> u32 {
        changes::count(self.mount.root_id.0, entry.inode)
    }

    /// Looks at the file of an entry, of which this was known; `None` if it is mounted on, or went away meanwhile.
    fn stat_entry(
        &self,
        entry: &PageEntry,
        name: &[u8],
        now: Instant,
        known: Option<&Object>,
    ) -> Option<Object> {
        match name {
            b"." => return Some(Object { key: self.key, attrs: self.attrs_now().ok()?, read_at: None }),
            b".." => return None,
            _ => {}
        }
        let changes = self.changes_of(entry);
        // A new key is taken before the state: if the name goes to another file in between, the numbers differ.
        let key_now = || {
            let key = self.mount.key_at(self.fd(), name).ok()?;
            self.mount.record(&key, &self.key, name);
            Some(key)
        };
        let sight = |key: &FileKey| {
            let ahead = self.mount.counter_offset(key);
            let stat = statat(self.fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            self.mount.contains(&stat).then(|| VersionedStat::new(stat, ahead))
        };
        let mut key = known.map_or_else(&key_now, |known| Some(known.key))?;
        let mut stat = sight(&key)?;
        let is_same = stat.st_ino == entry.inode;
        if !is_same && known.is_some() {
            key = key_now()?;
            stat = sight(&key)?;
        }
        let first = || counter::birth_time(self.fd(), name);
        let born = known.filter(|known| known.key == key).map_or_else(first, |known| known.attrs.born);
        let attrs = Attrs { born, ..self.mount.attrs(&stat, self.fd(), Some(name)).ok()? };
        // What has other names may change by them, and that is counted with their directories only.
        let has_one_name = attrs.links == 1 || attrs.file_type == FileType::Directory;
        let object = Object { key, attrs, read_at: has_one_name.then_some((now, changes)) };
        if is_same {
            *entry.object() = Some(object);
        }
        Some(object)
    }
}
