//! The tables of a [`super::MemFs`]: what there is now, and what of it is durable.

use super::Options;
use super::owner_rules::OwnerRules;
use super::pages::{self, Pages};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::acl::access::set_id_bits;
use vfs::backend::NewInode;
use vfs::backend::charge;
use vfs::backend::provisioner::{Capacity, Usage};
use vfs::error::{FsError, FsResult};
use vfs::model::attrs::MODE_BITS;
use vfs::model::attrs::{Attrs, Change, Device, FileType, SetAttrs, SetTime, Time};
use vfs::model::name::Name;

pub(super) const ROOT: u64 = 1;
/// The cookies of `.` and `..`; those of other entries are higher.
pub(super) const DOT: u64 = 1;
pub(super) const DOT_DOT: u64 = 2;

/// A file, independent of its names.
#[derive(Clone)]
pub(super) struct Inode {
    pub(super) attrs: Attrs,
    pub(super) body: Body,
    pub(super) xattrs: BTreeMap<Box<[u8]>, Vec<u8>>,
    counter: ChangeCounter,
    /// Pins, which preserve the file without a name.
    pins: u32,
    /// The charge besides its contents.
    charged: u64,
    /// Set in snapshots: reads leave no mark.
    is_frozen: bool,
}

/// Counts the changes of all files of a volume. It goes on after a crash, so that no number comes back.
type ChangeCounter = Arc<AtomicU64>;

#[derive(Clone)]
pub(super) enum Body {
    Regular(Pages),
    Directory(Entries),
    Symlink(Vec<u8>),
    Special,
}

/// The entries of a directory, by name and in listing order.
#[derive(Clone)]
pub(super) struct Entries {
    pub(super) parent: u64,
    names: BTreeMap<Arc<[u8]>, Slot>,
    pub(super) order: BTreeMap<u64, (Arc<[u8]>, u64)>,
    next_cookie: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    id: u64,
    cookie: u64,
}

/// All files. Numbers and cookies only ever rise, so that neither a key nor a cookie comes back for something else.
#[derive(Clone)]
pub(super) struct Store {
    options: Options,
    pub(super) inodes: HashMap<u64, Inode>,
    /// The files after a power cut, from the root. A new file is here from its creation but not reachable before its
    /// directory is synced. A removed one stays until all is synced.
    durable: HashMap<u64, Inode>,
    next_id: u64,
    counter: ChangeCounter,
    bytes_used: u64,
    /// Bytes that files do not get.
    snapshot_reserve: u64,
    /// The ranges of files that are being written in parts.
    pub(super) reserved: Vec<Range>,
    pub(super) quotas: OwnerRules,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) id: u64,
    pub(super) offset: u64,
    pub(super) len: usize,
}

/// An object that is to be made.
pub(super) struct Object {
    pub(super) file_type: FileType,
    pub(super) device: Device,
    pub(super) body: Body,
}

impl Object {
    pub(super) fn new(file_type: FileType, body: Body) -> Self {
        Self { file_type, device: Device::default(), body }
    }
}

impl Inode {
    fn new(id: u64, counter: &ChangeCounter, object: Object, new_inode: &NewInode, now: Time) -> Self {
        let Object { file_type, device, body } = object;
        let (accessed, modified) = new_inode.times.unwrap_or((now, now));
        let attrs = Attrs {
            file_type,
            mode: if file_type == FileType::Symlink { 0o777 } else { new_inode.mode & MODE_BITS },
            links: if file_type == FileType::Directory { 2 } else { 1 },
            uid: new_inode.uid,
            gid: new_inode.gid,
            size: 0,
            used: 0,
            device,
            file_id: id,
            accessed,
            modified,
            changed: now,
            change: counter.fetch_add(1, Ordering::Relaxed),
            born: Some(now),
            view: vfs::ViewId::LIVE,
        };
        Self {
            attrs,
            body,
            xattrs: BTreeMap::new(),
            counter: Arc::clone(counter),
            pins: 0,
            charged: 0,
            is_frozen: false,
        }
    }

    /// Returns the charge besides the contents, with these names.
    fn overhead(&self) -> u64 {
        let Attrs { size, links, file_id, .. } = self.attrs();
        let (names, content) = match &self.body {
            Body::Directory(_) => (1, charge::directory(size)),
            Body::Symlink(_) => (links, charge::symlink(size)),
            Body::Regular(_) | Body::Special => (links, 0),
        };
        let mut xattrs = charge::Xattrs::default();
        self.xattrs.iter().for_each(|(name, value)| xattrs.add(name.len(), value.len()));
        let free = if file_id == ROOT { charge::ROOT_BYTES } else { 0 };
        charge::INODE_BYTES + u64::from(names) * charge::NAME_BYTES + content + xattrs.bytes() - free
    }

    pub(super) fn attrs(&self) -> Attrs {
        let (size, used) = match &self.body {
            Body::Regular(pages) => (pages.size(), pages.used()),
            Body::Directory(entries) => (32 * (entries.names.len() as u64 + 2), 0),
            Body::Symlink(target) => (target.len() as u64, 0),
            Body::Special => (0, 0),
        };
        Attrs { size, used, ..self.attrs }
    }

    fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    /// Marks a read as Linux does by default (`relatime`): only if the last read is older than the last change, or than
    /// a day.
    pub(super) fn mark_read(&mut self, now: Time) {
        let attrs = &mut self.attrs;
        let seen = attrs.accessed > attrs.modified && attrs.accessed > attrs.changed;
        if self.is_frozen {
            return;
        }
        if !seen || now.seconds - attrs.accessed.seconds >= 86_400 {
            attrs.accessed = now;
        }
    }

    pub(super) fn mark_modified(&mut self, now: Time) {
        self.attrs.modified = now;
        self.mark_changed(now);
    }

    pub(super) fn mark_changed(&mut self, now: Time) {
        self.attrs.changed = now;
        self.attrs.change = self.counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Entries {
    pub(super) fn new(parent: u64) -> Self {
        Self { parent, names: BTreeMap::new(), order: BTreeMap::new(), next_cookie: DOT_DOT + 1 }
    }

    fn find(&self, name: Name<'_>) -> Option<u64> {
        self.names.get(name.bytes()).map(|slot| slot.id)
    }

    /// Binds `name` to `id`. An existing name keeps its cookie, so that a listing shows it once.
    fn put(&mut self, name: Name<'_>, id: u64) {
        let bytes: Arc<[u8]> = name.bytes().into();
        let next = self.next_cookie;
        let slot = self.names.entry(bytes.clone()).or_insert(Slot { id, cookie: next });
        slot.id = id;
        if slot.cookie == next {
            self.next_cookie += 1;
        }
        self.order.insert(slot.cookie, (bytes, id));
    }

    fn take(&mut self, name: Name<'_>) {
        if let Some(slot) = self.names.remove(name.bytes()) {
            self.order.remove(&slot.cookie);
        }
    }
}

impl Store {
    pub(super) fn new(options: Options, now: Time) -> Self {
        let new_inode = NewInode { mode: 0o755, uid: 0, gid: 0, times: None, size: 0 };
        let body = Body::Directory(Entries::new(ROOT));
        let counter = ChangeCounter::new(AtomicU64::new(1));
        let object = Object::new(FileType::Directory, body);
        let root = Inode::new(ROOT, &counter, object, &new_inode, now);
        let inodes = HashMap::from([(ROOT, root)]);
        Self {
            options,
            durable: inodes.clone(),
            inodes,
            next_id: ROOT + 1,
            counter,
            bytes_used: 0,
            snapshot_reserve: 0,
            reserved: Vec::new(),
            quotas: OwnerRules::default(),
        }
    }

    pub(super) fn inode(&self, id: u64) -> FsResult<&Inode> {
        self.inodes.get(&id).ok_or(FsError::Stale)
    }

    pub(super) fn inode_mut(&mut self, id: u64) -> FsResult<&mut Inode> {
        self.inodes.get_mut(&id).ok_or(FsError::Stale)
    }

    pub(super) fn entries(&self, id: u64) -> FsResult<&Entries> {
        match &self.inode(id)?.body {
            Body::Directory(entries) => Ok(entries),
            Body::Regular(_) | Body::Symlink(_) | Body::Special => Err(FsError::NotDirectory),
        }
    }

    /// The number of what has `name` in `dir`.
    pub(super) fn child(&self, dir: u64, name: Name<'_>) -> FsResult<u64> {
        self.entries(dir)?.find(name).ok_or(FsError::NotFound)
    }

    pub(super) fn child_attrs(&self, dir: u64, name: Name<'_>) -> FsResult<Attrs> {
        Ok(self.inode(self.child(dir, name)?)?.attrs())
    }

    pub(super) fn capacity(&self) -> Capacity {
        Capacity { bytes: self.options.bytes_total, files: self.options.files_total }
    }

    pub(super) fn set_capacity(&mut self, capacity: Capacity) {
        self.options.bytes_total = capacity.bytes;
        self.options.files_total = capacity.files;
    }

    pub(super) fn set_reserve(&mut self, bytes: u64) {
        self.snapshot_reserve = bytes;
    }

    /// Bytes that files do not use and may use.
    pub(super) fn unused(&self) -> u64 {
        self.options.bytes_total.saturating_sub(self.bytes_used).saturating_sub(self.snapshot_reserve)
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { bytes: self.bytes_used, files: self.inodes.len() as u64 }
    }

    /// Updates the charge of an object besides its contents.
    fn update_charge(&mut self, id: u64) -> FsResult<()> {
        let inode = self.inode_mut(id)?;
        let (old, new) = (inode.charged, inode.overhead());
        inode.charged = new;
        self.bytes_used = self.bytes_used - old + new;
        Ok(())
    }

    fn check_room(&self, more: u64) -> FsResult<()> {
        if more <= self.room() { Ok(()) } else { Err(FsError::NoSpace) }
    }

    /// Changes extended attributes with `act`, if the result fits the free space.
    pub(super) fn set_xattrs(
        &mut self,
        id: u64,
        act: impl FnOnce(&mut Inode) -> FsResult<()>,
    ) -> FsResult<()> {
        let inode = self.inode_mut(id)?;
        let (before, charged) = (inode.xattrs.clone(), inode.charged);
        act(inode)?;
        let more = inode.overhead().saturating_sub(charged);
        if let Err(error) = self.check_room(more) {
            self.inode_mut(id)?.xattrs = before;
            return Err(error);
        }
        self.update_charge(id)
    }

    /// Runs `act` with the attributes of `id`; returns its result and the change.
    pub(super) fn changing<T>(
        &mut self,
        id: u64,
        act: impl FnOnce(&mut Self, &Attrs) -> FsResult<T>,
    ) -> FsResult<(T, Change)> {
        let before = self.inode(id)?.attrs();
        let done = act(self, &before)?;
        Ok((done, Change { before, after: self.inode(id)?.attrs() }))
    }

    pub(super) fn set_attrs(&mut self, id: u64, set: &SetAttrs, now: Time) -> FsResult<()> {
        set.check_ids()?;
        let limit = self.options.limits.file_bytes_max;
        let inode = self.inode_mut(id)?;
        if set.mode.is_some() && inode.attrs.file_type == FileType::Symlink {
            return Err(FsError::NotSupported);
        }
        let used = inode.attrs().used;
        if set.size.is_none_or(|size| size <= limit && matches!(inode.body, Body::Regular(_))) {
            self.check_set(id, set, now)?;
        }
        let inode = self.inode_mut(id)?;
        if let Some(size) = set.size {
            let Body::Regular(pages) = &mut inode.body else {
                return Err(if inode.is_directory() { FsError::IsDirectory } else { FsError::Invalid });
            };
            if size > limit {
                return Err(FsError::FileTooBig);
            }
            if size != pages.size() {
                pages.resize(size);
                inode.mark_modified(now);
            }
        }
        let freed = used - inode.attrs().used;
        let attrs = &mut inode.attrs;
        // chown(2) clears the set-id bits of everything but a directory, for every caller.
        if (set.uid.is_some() || set.gid.is_some()) && attrs.file_type != FileType::Directory {
            attrs.mode &= !set_id_bits(attrs.mode);
        }
        attrs.uid = set.uid.unwrap_or(attrs.uid);
        attrs.gid = set.gid.unwrap_or(attrs.gid);
        attrs.mode = set.mode.map_or(attrs.mode, |mode| mode & MODE_BITS);
        let moment = |time, old| match time {
            None => old,
            Some(SetTime::Now) => now,
            Some(SetTime::To(time)) => time,
        };
        attrs.accessed = moment(set.accessed, attrs.accessed);
        attrs.modified = moment(set.modified, attrs.modified);
        if !(SetAttrs { size: None, ..*set }).is_empty() {
            inode.mark_changed(now);
        }
        self.bytes_used -= freed;
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        id: u64,
        offset: u64,
        data: &[u8],
        authorize: impl FnOnce() -> FsResult<bool>,
        now: Time,
    ) -> FsResult<()> {
        let end = offset.checked_add(data.len() as u64);
        let too_big = end.is_none_or(|end| end > self.options.limits.file_bytes_max);
        let range = Range { id, offset, len: data.len() };
        let growth = if too_big { None } else { self.growth(range)? };
        let inode = self.inode_mut(id)?;
        let Body::Regular(pages) = &inode.body else {
            return Err(if inode.is_directory() { FsError::IsDirectory } else { FsError::Invalid });
        };
        let clears = authorize()?;
        if data.is_empty() {
            return Ok(());
        }
        if too_big {
            return Err(FsError::FileTooBig);
        }
        let growth = growth.ok_or(FsError::NoSpace)?;
        let size = pages.size().max(end.unwrap_or(u64::MAX));
        self.check_size(id, size, now)?;
        let inode = self.inode_mut(id)?;
        if let Body::Regular(pages) = &mut inode.body {
            pages.write(offset, data);
        }
        inode.mark_modified(now);
        if clears {
            inode.attrs.mode &= !set_id_bits(inode.attrs.mode);
        }
        self.bytes_used += growth;
        Ok(())
    }

    /// Bytes of storage that are neither used nor reserved.
    pub(super) fn room(&self) -> u64 {
        let promised = self.reserved.iter().filter_map(|range| match &self.inodes.get(&range.id)?.body {
            Body::Regular(pages) => Some(pages.growth(range.offset, range.len)),
            Body::Directory(_) | Body::Symlink(_) | Body::Special => None,
        });
        self.unused().saturating_sub(promised.sum())
    }

    /// Replaces the contents of a regular file, if they fit the free space.
    pub(super) fn replace_contents(
        &mut self,
        id: u64,
        pages: Pages,
        clears: bool,
        now: Time,
    ) -> FsResult<()> {
        let room = self.room();
        let inode = self.inode_mut(id)?;
        let (old, new) = (inode.attrs().used, pages.used());
        if new.saturating_sub(old) > room {
            return Err(FsError::NoSpace);
        }
        self.check_size(id, pages.size(), now)?;
        let inode = self.inode_mut(id)?;
        inode.body = Body::Regular(pages);
        inode.mark_modified(now);
        if clears {
            inode.attrs.mode &= !set_id_bits(inode.attrs.mode);
        }
        self.bytes_used = self.bytes_used - old + new;
        Ok(())
    }

    /// Reserves the space for a write of `range` in parts.
    pub(super) fn reserve(
        &mut self,
        range: Range,
        authorize: impl FnOnce() -> FsResult<bool>,
        now: Time,
    ) -> FsResult<()> {
        let end = range.offset.checked_add(range.len as u64);
        let too_big = end.is_none_or(|end| end > self.options.limits.file_bytes_max);
        let inode = self.inode(range.id)?;
        if !matches!(inode.body, Body::Regular(_)) {
            return Err(if inode.is_directory() { FsError::IsDirectory } else { FsError::Invalid });
        }
        authorize()?;
        if too_big {
            return Err(FsError::FileTooBig);
        }
        self.growth(range)?.ok_or(FsError::NoSpace)?;
        if range.len > 0 {
            let size = self.inode(range.id)?.attrs().size.max(end.unwrap_or(u64::MAX));
            self.check_size(range.id, size, now)?;
        }
        self.reserved.push(range);
        Ok(())
    }

    /// Releases the reservation for a write of `range`.
    pub(super) fn release(&mut self, range: Range) {
        if let Some(at) = self.reserved.iter().position(|&reserved| reserved == range) {
            self.reserved.swap_remove(at);
        }
    }

    /// Returns the growth of the used bytes by a write of `range`; `None` if there is not enough space.
    fn growth(&self, range: Range) -> FsResult<Option<u64>> {
        let Body::Regular(pages) = &self.inode(range.id)?.body else { return Ok(None) };
        let growth = pages.growth(range.offset, range.len);
        let free = self.unused();
        // No reservation takes more than its length and the two pages that it begins and ends in: mostly that says enough.
        let most =
            self.reserved.iter().map(|reserved| reserved.len as u64 + 2 * pages::PAGE_BYTES as u64).sum();
        if growth <= free.saturating_sub(most) {
            return Ok(Some(growth));
        }
        let promised = self.reserved.iter().filter_map(|range| match &self.inodes.get(&range.id)?.body {
            Body::Regular(pages) => Some(pages.growth(range.offset, range.len)),
            Body::Directory(_) | Body::Symlink(_) | Body::Special => None,
        });
        let overlaps =
            self.reserved.iter().filter(|reserved| reserved.id == range.id).filter_map(|reserved| {
                let (offset, len) =
                    pages::overlap((range.offset, range.len), (reserved.offset, reserved.len))?;
                Some(pages.growth(offset, len))
            });
        let fits = growth.saturating_sub(overlaps.sum()) <= free.saturating_sub(promised.sum());
        Ok(fits.then_some(growth))
    }

    /// Makes an object and its name; returns the object's number.
    pub(super) fn make(
        &mut self,
        dir: u64,
        name: Name<'_>,
        mut object: Object,
        new_inode: &NewInode,
        now: Time,
    ) -> FsResult<u64> {
        self.check_free(dir, name)?;
        if new_inode.size > self.options.limits.file_bytes_max {
            return Err(FsError::FileTooBig);
        }
        if let Body::Regular(pages) = &mut object.body {
            pages.resize(new_inode.size);
        }
        if self.usage().files >= self.options.files_total {
            return Err(FsError::NoSpace);
        }
        let id = self.next_id;
        let inode = Inode::new(id, &self.counter, object, new_inode, now);
        self.check_room(inode.overhead())?;
        self.check_new_file(&inode, now)?;
        if inode.is_directory() {
            self.add_parent_link(dir)?;
        }
        self.next_id += 1;
        self.durable.insert(id, inode.clone());
        self.inodes.insert(id, inode);
        self.update_charge(id)?;
        self.put(dir, name, id, now)?;
        Ok(id)
    }

    pub(super) fn link(&mut self, dir: u64, name: Name<'_>, target: u64, now: Time) -> FsResult<()> {
        self.check_free(dir, name)?;
        let links_max = self.options.limits.links_max;
        let inode = self.inode_mut(target)?;
        if inode.is_directory() {
            // EPERM, as link(2) says.
            return Err(FsError::NotOwner);
        }
        if inode.attrs.links == 0 {
            return Err(FsError::Stale);
        }
        if inode.attrs.links >= links_max {
            return Err(FsError::TooManyLinks);
        }
        self.check_room(charge::NAME_BYTES)?;
        let inode = self.inode_mut(target)?;
        inode.attrs.links += 1;
        inode.mark_changed(now);
        self.update_charge(target)?;
        self.put(dir, name, target, now)
    }

    pub(super) fn remove(&mut self, dir: u64, name: Name<'_>, directory: bool, now: Time) -> FsResult<()> {
        let id = self.child(dir, name)?;
        match (self.inode(id)?.is_directory(), directory) {
            (true, false) => return Err(FsError::IsDirectory),
            (false, true) => return Err(FsError::NotDirectory),
            (true, true) => self.check_empty(id)?,
            (false, false) => {}
        }
        self.take(dir, name, now)?;
        self.forget_name(dir, id, now)
    }

    pub(super) fn rename(
        &mut self,
        dir: u64,
        from: Name<'_>,
        to_dir: u64,
        to: Name<'_>,
        now: Time,
    ) -> FsResult<()> {
        let target = self.entries(to_dir)?.find(to);
        let id = self.child(dir, from)?;
        if target == Some(id) {
            // Two names of one file: rename(2) does nothing and says so to nobody.
            return Ok(());
        }
        let directory = self.inode(id)?.is_directory();
        if directory && self.is_within(to_dir, id)? {
            return Err(FsError::Invalid);
        }
        if let Some(target) = target {
            match (directory, self.inode(target)?.is_directory()) {
                (true, false) => return Err(FsError::NotDirectory),
                (false, true) => return Err(FsError::IsDirectory),
                (true, true) => self.check_empty(target)?,
                (false, false) => {}
            }
        }
        if directory && dir != to_dir && target.is_none() {
            self.add_parent_link(to_dir)?;
        }
        self.take(dir, from, now)?;
        self.put(to_dir, to, id, now)?;
        // The moved directory takes over the link of a replaced one, so only its old parent loses one.
        match target {
            Some(target) => self.forget_name(dir, target, now)?,
            None if directory && dir != to_dir => self.inode_mut(dir)?.attrs.links -= 1,
            None => {}
        }
        let inode = self.inode_mut(id)?;
        inode.mark_changed(now);
        if let Body::Directory(entries) = &mut inode.body {
            entries.parent = to_dir;
        }
        Ok(())
    }

    /// Copies a file to the durable image: with `all` its attributes too.
    pub(super) fn sync(&mut self, id: u64, all: bool) -> FsResult<()> {
        let inode = self.inode(id)?.clone();
        match self.durable.get_mut(&id) {
            Some(durable) if !all => durable.body = inode.body,
            _ => drop(self.durable.insert(id, inode)),
        }
        Ok(())
    }

    pub(super) fn sync_all(&mut self) {
        self.durable = self.inodes.clone();
    }

    /// Returns the files after a power cut: the durable files that durable directories reach.
    pub(super) fn after_crash(&self) -> Self {
        let mut inodes: HashMap<u64, Inode> = HashMap::new();
        let mut waiting = vec![(ROOT, ROOT)];
        while let Some((id, parent)) = waiting.pop() {
            let mut inode = self.durable[&id].clone();
            inode.attrs.links = 2;
            if let Body::Directory(entries) = &mut inode.body {
                entries.parent = parent;
                for (name, child) in entries.order.values().cloned().collect::<Vec<_>>() {
                    let Some(found) = self.durable.get(&child) else { continue };
                    if !found.is_directory() {
                        let fresh =
                            || Inode { attrs: Attrs { links: 0, ..found.attrs }, pins: 0, ..found.clone() };
                        inodes.entry(child).or_insert_with(fresh).attrs.links += 1;
                    } else if inodes.contains_key(&child) || waiting.iter().any(|&(id, _)| id == child) {
                        // A move of which only one side is durable: a directory has one name.
                        entries.take(Name::new(&name).expect("names in directories were checked"));
                    } else {
                        inode.attrs.links += 1;
                        waiting.push((child, id));
                    }
                }
            }
            inodes.insert(id, inode);
        }
        inodes.values_mut().for_each(|inode| inode.charged = inode.overhead());
        let bytes_used = inodes.values().map(|inode| inode.attrs().used + inode.charged).sum();
        let (options, next_id, counter) = (self.options, self.next_id, Arc::clone(&self.counter));
        let (durable, reserved, quotas) = (inodes.clone(), Vec::new(), self.quotas.clone());
        Self { options, durable, inodes, next_id, counter, bytes_used, snapshot_reserve: 0, reserved, quotas }
    }

    /// Returns a copy of all files that have names, durable.
    pub(super) fn whole_copy(&self) -> Self {
        let mut copy = self.clone();
        copy.sync_all();
        let mut copy = copy.after_crash();
        copy.inodes.values_mut().for_each(|inode| inode.is_frozen = true);
        copy
    }

    /// Returns the files of a snapshot as live ones, with the numbers of new files and of all changes above those of
    /// `live`, and its quotas.
    pub(super) fn thawed(&self, live: &Self) -> Self {
        let mut copy = self.clone();
        for inode in copy.inodes.values_mut() {
            inode.is_frozen = false;
            inode.attrs.change = self.counter.fetch_add(1, Ordering::Relaxed);
        }
        copy.sync_all();
        let next_id = self.next_id.max(live.next_id);
        Self { options: live.options, next_id, quotas: live.quotas.clone(), ..copy }
    }

    fn check_free(&self, dir: u64, name: Name<'_>) -> FsResult<()> {
        if self.entries(dir)?.find(name).is_some() { Err(FsError::Exists) } else { Ok(()) }
    }

    fn check_empty(&self, id: u64) -> FsResult<()> {
        if self.entries(id)?.names.is_empty() { Ok(()) } else { Err(FsError::NotEmpty) }
    }

    /// Whether directory `id` is `ancestor` or lies below it.
    fn is_within(&self, mut id: u64, ancestor: u64) -> FsResult<bool> {
        while id != ancestor {
            if id == ROOT {
                return Ok(false);
            }
            id = self.entries(id)?.parent;
        }
        Ok(true)
    }

    fn add_parent_link(&mut self, dir: u64) -> FsResult<()> {
        let links_max = self.options.limits.links_max;
        let attrs = &mut self.inode_mut(dir)?.attrs;
        if attrs.links >= links_max {
            return Err(FsError::TooManyLinks);
        }
        attrs.links += 1;
        Ok(())
    }

    fn put(&mut self, dir: u64, name: Name<'_>, id: u64, now: Time) -> FsResult<()> {
        let inode = self.inode_mut(dir)?;
        inode.mark_modified(now);
        if let Body::Directory(entries) = &mut inode.body {
            entries.put(name, id);
        }
        self.update_charge(dir)
    }

    fn take(&mut self, dir: u64, name: Name<'_>, now: Time) -> FsResult<()> {
        let inode = self.inode_mut(dir)?;
        inode.mark_modified(now);
        if let Body::Directory(entries) = &mut inode.body {
            entries.take(name);
        }
        self.update_charge(dir)
    }

    /// Preserves a file without a name. A deleted file stays deleted.
    pub(super) fn pin(&mut self, id: u64) {
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.pins += 1;
        }
    }

    /// Ends a pin. The last unpin deletes a file without a name.
    pub(super) fn unpin(&mut self, id: u64) {
        let Some(inode) = self.inodes.get_mut(&id) else { return };
        inode.pins -= 1;
        if inode.attrs.links == 0 && inode.pins == 0 {
            self.bytes_used -= inode.attrs().used + inode.charged;
            self.inodes.remove(&id);
        }
    }

    /// Removes one name of `id`. The last name deletes a file without pins; a directory also loses its link to `dir`.
    fn forget_name(&mut self, dir: u64, id: u64, now: Time) -> FsResult<()> {
        let inode = self.inode_mut(id)?;
        inode.mark_changed(now);
        inode.attrs.links -= 1;
        let directory = inode.is_directory();
        if directory || inode.attrs.links == 0 && inode.pins == 0 {
            self.bytes_used -= inode.attrs().used + inode.charged;
            self.inodes.remove(&id);
        } else {
            self.update_charge(id)?;
        }
        if directory {
            self.inode_mut(dir)?.attrs.links -= 1;
        }
        Ok(())
    }
}
