//! The suite can fail: backends with one known defect each, and the cases that must notice.

#[path = "capabilities.rs"]
mod capabilities;
#[path = "snapshots.rs"]
mod snapshots;

use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use vfs::backend::KEEP_SET_ID;
use vfs::model::caller::INVALID_ID;
use vfs::sync::Mutex;
use vfs::{
    Acls, Attrs, AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr,
    AuthorizeWrite, Backend, Blocking, Capabilities, Change, CreatedEntry, Entry, EntryRef, EntrySink,
    FileKey, FsError, FsLimits, FsResult, FsStat, Lookup, Name, NewInode, Node, NodeRef, PosixAcl, Ranges,
    SetAttrs, Snapshots, Special, Time, Xattrs,
};
use vfs_testing::conformance::{AclKind, Case, Fixture, cases, run};
use vfs_testing::{MemFs, UncheckedNode, delegate_node};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    /// None: the wrapper itself conforms.
    None,
    /// The change time moves with the contents only.
    ForgetsChangeTime,
    /// Two neighbors in a listing share a cookie.
    DuplicateCookies,
    ReusesKeys,
    /// Attributes before and after are taken while others may change the directory.
    TornChanges,
    /// A read returns at most a page.
    ShortReads,
    /// Some cookies point past the next entry.
    SkippingCookies,
    /// A file grows by garbage instead of zeros.
    GrowsByGarbage,
    /// A rename onto another link of the same file takes the old name away.
    RenameDropsLink,
    /// A removed file continues to answer.
    NeverStale,
    /// Sizes are of whole pages.
    RoundsSizes,
    /// The last unlink deletes a file in spite of pins.
    ForgetsPins,
    /// A file without a name stays after its last unpin.
    KeepsForEver,
    DropsSetId,
    /// An invalid id leaves the object with its owner, or with root.
    TakesInvalidIds,
    /// New files are empty, whatever size they were given.
    ForgetsSize,
    /// A decision is requested before other changes are locked out.
    DecidesEarly,
    /// A change is made, and then refused.
    RefusesLate,
    /// Several states share a change number.
    RepeatsNumbers,
    /// Reading attributes changes the change number.
    NumbersLooks,
    /// The time of birth moves with the contents.
    BornAgain,
    /// Extended attributes and clones work, but are not among the capabilities.
    HidesCapabilities,
    /// A file of the wrong type is refused with another reason.
    BlursTypes,
    /// Values lose their last byte.
    CutsXattrs,
    /// Setting an attribute ignores whether it exists.
    OverwritesXattrs,
    KeepsRemovedXattrs,
    /// Upper and lower case are one.
    FoldsXattrNames,
    /// A listing continues by position, even after names have moved.
    ListsXattrsByPosition,
    /// Too large values are cut.
    TakesLargeXattrs,
    /// Setting an attribute moves the modification time.
    XattrsAreContents,
    /// A file of two names has no attributes.
    XattrsOfNames,
    /// Data is found behind its beginning.
    SeeksTooFar,
    /// A seek past the end reports no data instead of an invalid offset.
    SeeksPastTheEnd,
    /// An allocation is a new size.
    AllocatesNothing,
    /// An allocation does not grow the file.
    AllocatesWithinTheFile,
    /// A hole reaches to the next pages.
    PunchesWholePages,
    /// A range without bytes moves the times.
    TouchesForNothing,
    /// High bits of an offset are lost.
    WrapsOffsets,
    /// Set-id bits stay on a changed range.
    ForgetsToClear,
    /// No file reports another one in the same file system.
    SharesWithNone,
    /// Every file reports every other one in the same file system.
    SharesWithAll,
    /// The last byte of a copy is counted, but not copied.
    CopiesTooLittle,
    /// A copy goes on until it is done, however long.
    CopiesEndlessly,
    /// A range is copied over itself.
    CopiesOverlaps,
    /// A change of a clone shows in the other file.
    ClonesAreOneFile,
    /// A clone falls back to a copy.
    ClonesAnything,
    /// A POSIX ACL is cached and never refreshed.
    RemembersLists,
    /// The group's entry is the mask.
    ListsAreModes,
    /// No directory has a default ACL.
    HandsNoListOn,
    /// A snapshot shows the live files.
    SnapshotsFollow,
    /// The deletion of a snapshot takes the one before it along.
    DeletesTwoSnapshots,
    /// A new snapshot replaces the one of its number.
    ReusesViews,
    MissesChanges,
}

struct Shared {
    bug: Bug,
    fs: MemFs,
    /// With [`Bug::ReusesKeys`]: the file of each key ever given out.
    slots: Mutex<Vec<NodeRef>>,
    /// With [`Bug::NumbersLooks`]: how many there were.
    looks: AtomicU64,
    /// With [`Bug::RemembersLists`]: the first list of each file.
    lists: Mutex<HashMap<FileKey, Option<Arc<PosixAcl>>>>,
}

#[derive(Clone)]
struct Mutant(Arc<Shared>);

struct MutantNode {
    inner: NodeRef,
    last: Mutex<Option<Attrs>>,
    shared: Arc<Shared>,
}

fn mutant(bug: Bug) -> Mutant {
    let ticks = AtomicI64::new(1_600_000_000_000);
    let clock = move || {
        let millis = ticks.fetch_add(1, Ordering::Relaxed);
        Time { seconds: millis / 1000, nanos: u32::try_from(millis % 1000).unwrap() * 1_000_000 }
    };
    Mutant(Arc::new(Shared {
        bug,
        fs: MemFs::new(Arc::new(clock)),
        slots: Mutex::default(),
        looks: AtomicU64::new(0),
        lists: Mutex::default(),
    }))
}

fn fixture(bug: Bug) -> Fixture {
    let mutant = mutant(bug);
    let fs = mutant.0.fs.clone();
    Fixture::new(Arc::new(mutant)).with_acls_set_by(Box::new(move |path, kind, acl| match kind {
        AclKind::Access => fs.set_access_acl(path, acl).unwrap(),
        AclKind::Default => fs.set_default_acl(path, acl).unwrap(),
    }))
}

impl Shared {
    fn wrap(self: &Arc<Self>, inner: NodeRef) -> NodeRef {
        let last = Mutex::new(inner.attrs(Blocking::Allowed).ok());
        Arc::new(MutantNode { inner, last, shared: self.clone() })
    }

    fn lie(&self, attrs: Attrs) -> Attrs {
        let changed = if self.bug == Bug::ForgetsChangeTime { attrs.modified } else { attrs.changed };
        let change = match self.bug {
            Bug::RepeatsNumbers => attrs.change / 4,
            Bug::NumbersLooks => attrs.change + self.looks.fetch_add(1, Ordering::Relaxed),
            _ => attrs.change,
        };
        let born = if self.bug == Bug::BornAgain { Some(attrs.modified) } else { attrs.born };
        Attrs { changed, change, born, ..attrs }
    }

    fn lie_twice(&self, change: Change) -> Change {
        Change { before: self.lie(change.before), after: self.lie(change.after) }
    }

    /// The key of a file: with [`Bug::ReusesKeys`] the first slot that is its own, dead or new.
    fn key(&self, node: &NodeRef) -> FileKey {
        if self.bug != Bug::ReusesKeys {
            return node.key();
        }
        let mut slots = self.slots.lock();
        let own = slots.iter().position(|slot| slot.key() == node.key());
        let dead = || slots.iter().position(|slot| slot.attrs(Blocking::Allowed).is_err());
        let at = own.or_else(dead).unwrap_or(slots.len());
        if at == slots.len() {
            slots.push(node.clone());
        } else {
            slots[at] = node.clone();
        }
        FileKey::new(&(at as u64).to_be_bytes()).unwrap()
    }

    fn find(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        if self.bug != Bug::ReusesKeys {
            return self.fs.node(key, blocking);
        }
        let at = key.bytes().try_into().map(u64::from_be_bytes).map_err(|_| FsError::BadHandle)?;
        let slots = self.slots.lock();
        let node = usize::try_from(at).ok().and_then(|at| slots.get(at)).ok_or(FsError::Stale)?;
        node.attrs(blocking).map(|_| node.clone())
    }
}

impl Backend for Mutant {
    fn flush_failures(&self) -> u64 {
        self.0.fs.flush_failures()
    }

    fn root(&self) -> NodeRef {
        self.0.wrap(self.0.fs.root())
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        Ok(self.0.wrap(self.0.find(key, blocking)?))
    }

    fn stat(&self) -> FsResult<FsStat> {
        self.0.fs.stat()
    }

    fn limits(&self) -> FsLimits {
        self.0.fs.limits()
    }

    fn capabilities(&self) -> Capabilities {
        if self.0.bug == Bug::HidesCapabilities { Capabilities::default() } else { self.0.fs.capabilities() }
    }

    fn sync(&self) -> FsResult<()> {
        self.0.fs.sync()
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }
}

impl MutantNode {
    fn has(&self, bug: Bug) -> bool {
        self.shared.bug == bug
    }

    fn wrap_found(&self, found: Lookup) -> Lookup {
        let node = self.shared.wrap(found.node);
        Lookup { node, attrs: self.shared.lie(found.attrs) }
    }

    fn made(&self, act: impl FnOnce(&NodeRef, &Asking) -> FsResult<CreatedEntry>) -> FsResult<CreatedEntry> {
        let before = self.inner.attrs(Blocking::Allowed)?;
        let mut made = self.asking(before, act)?;
        self.tear(&mut made.dir, before)?;
        let CreatedEntry { found, dir } = made;
        Ok(CreatedEntry { found: self.wrap_found(found), dir: self.shared.lie_twice(dir) })
    }

    fn changed(&self, act: impl FnOnce(&NodeRef, &Asking) -> FsResult<Change>) -> FsResult<Change> {
        let before = self.inner.attrs(Blocking::Allowed)?;
        let mut change = self.asking(before, act)?;
        self.tear(&mut change, before)?;
        Ok(self.shared.lie_twice(change))
    }

    /// Acts, with the decision requested at the time that the bug chooses.
    fn asking<T>(&self, before: Attrs, act: impl FnOnce(&NodeRef, &Asking) -> FsResult<T>) -> FsResult<T> {
        let asking = Asking {
            early: self.has(Bug::DecidesEarly).then_some(before),
            late: self.has(Bug::RefusesLate),
            refusal: Cell::default(),
        };
        if asking.early.is_some() {
            std::thread::yield_now();
        }
        let done = act(&self.inner, &asking)?;
        asking.refusal.take().map_or(Ok(done), Err)
    }

    fn tear(&self, change: &mut Change, before: Attrs) -> FsResult<()> {
        if self.has(Bug::TornChanges) {
            std::thread::yield_now();
            *change = Change { before, after: self.inner.attrs(Blocking::Allowed)? };
        }
        Ok(())
    }

    fn new_inode(&self, new_inode: &NewInode) -> NewInode {
        let kept = if self.has(Bug::DropsSetId) { 0o1777 } else { 0o7777 };
        let known = |id| if self.has(Bug::TakesInvalidIds) && id == INVALID_ID { 0 } else { id };
        let size = if self.has(Bug::ForgetsSize) { 0 } else { new_inode.size };
        NewInode {
            mode: new_inode.mode & kept,
            uid: known(new_inode.uid),
            gid: known(new_inode.gid),
            size,
            ..*new_inode
        }
    }

    fn bare(node: &NodeRef) -> &NodeRef {
        let any: &dyn Any = &**node;
        &any.downcast_ref::<Self>().expect("a node of this backend").inner
    }
}

/// The time at which a decision is requested.
struct Asking {
    early: Option<Attrs>,
    late: bool,
    refusal: Cell<Option<FsError>>,
}

impl Asking {
    fn ask<T>(&self, attrs: &Attrs, authorize: impl FnOnce(&Attrs) -> FsResult<T>, yes: T) -> FsResult<T> {
        match authorize(self.early.as_ref().unwrap_or(attrs)) {
            Err(refusal) if self.late => {
                self.refusal.set(Some(refusal));
                Ok(yes)
            }
            answer => answer,
        }
    }

    fn authorize_create(&self, attrs: &Attrs, authorize: AuthorizeCreate<'_>) -> FsResult<NewInode> {
        self.ask(attrs, authorize, NewInode { mode: 0o644, uid: 0, gid: 0, times: None, size: 0 })
    }

    fn authorize_remove(&self, entry: &EntryRef<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<()> {
        self.ask(entry.dir, |dir| authorize(&EntryRef { dir, ..*entry }), ())
    }
}

impl Node for MutantNode {
    delegate_node!(self => self.inner; descriptor, reserve, release, sync, read_link);
    delegate_node!(self => self.inner, wrap; lookup, parent);

    fn key(&self) -> FileKey {
        self.shared.key(&self.inner)
    }

    fn attrs(&self, blocking: Blocking) -> FsResult<Attrs> {
        let mut last = self.last.lock();
        match self.inner.attrs(blocking) {
            Err(FsError::Stale) if self.has(Bug::NeverStale) => last.ok_or(FsError::Stale),
            Err(error) => Err(error),
            Ok(attrs) => Ok(*last.insert(self.shared.lie(attrs))),
        }
    }

    fn change_attrs(&self, authorize: AuthorizeSetattr<'_>) -> FsResult<Change> {
        let known = |id: Option<u32>| id.filter(|&id| !self.has(Bug::TakesInvalidIds) || id != INVALID_ID);
        let authorize = |attrs: &Attrs| {
            let set = authorize(attrs)?;
            Ok(SetAttrs { uid: known(set.uid), gid: known(set.gid), ..set })
        };
        let change = self.inner.change_attrs(&authorize)?;
        if self.has(Bug::GrowsByGarbage) && change.after.size > change.before.size {
            self.inner.write(change.after.size - 1, b"?", KEEP_SET_ID)?;
        }
        Ok(self.shared.lie_twice(change))
    }

    fn size(&self, blocking: Blocking) -> FsResult<u64> {
        let size = self.inner.size(blocking)?;
        Ok(if self.has(Bug::RoundsSizes) { size.next_multiple_of(4096) } else { size })
    }

    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        let len = if self.has(Bug::ShortReads) { len.min(4096) } else { len };
        self.inner.read(offset, len, into, blocking)
    }

    fn write(&self, offset: u64, data: &[u8], authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.changed(|node, asking| node.write(offset, data, &|file| asking.ask(file, authorize, false)))
    }

    fn pin(&self) {
        if !self.has(Bug::ForgetsPins) {
            self.inner.pin();
        }
    }

    fn unpin(&self) {
        if !self.has(Bug::ForgetsPins) && !self.has(Bug::KeepsForEver) {
            self.inner.unpin();
        }
    }

    fn read_dir(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        self.inner.read_dir(cookie, plus, &mut |entry| {
            let skip = u64::from(self.has(Bug::SkippingCookies) && entry.cookie % 50 == 49);
            let shared = self.has(Bug::DuplicateCookies) && entry.cookie > 10 && entry.cookie % 2 == 1;
            let object = entry.object.map(|(key, attrs)| {
                let node = self.shared.fs.node(key, Blocking::Allowed);
                (node.map_or(*key, |node| self.shared.key(&node)), self.shared.lie(*attrs))
            });
            let object = object.as_ref().map(|(key, attrs)| (key, attrs));
            sink(&Entry { cookie: entry.cookie + skip - u64::from(shared), object, ..*entry })
        })
    }

    fn create(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        self.made(|node, asking| {
            node.create(name, &|dir| Ok(self.new_inode(&asking.authorize_create(dir, authorize)?)))
        })
    }

    fn make_dir(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        self.made(|node, asking| {
            node.make_dir(name, &|dir| Ok(self.new_inode(&asking.authorize_create(dir, authorize)?)))
        })
    }

    fn make_special(
        &self,
        name: Name<'_>,
        special: Special<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry> {
        self.made(|node, asking| {
            node.make_special(name, special, &|dir| {
                Ok(self.new_inode(&asking.authorize_create(dir, authorize)?))
            })
        })
    }

    fn link(&self, name: Name<'_>, target: &NodeRef, authorize: AuthorizeLink<'_>) -> FsResult<CreatedEntry> {
        let target = Self::bare(target);
        self.made(|node, asking| node.link(name, target, &|dir| asking.ask(dir, authorize, ())))
    }

    fn remove(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        self.changed(|node, asking| node.remove(name, &|entry| asking.authorize_remove(entry, authorize)))
    }

    fn remove_dir(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        self.changed(|node, asking| node.remove_dir(name, &|entry| asking.authorize_remove(entry, authorize)))
    }

    fn rename(
        &self,
        from: Name<'_>,
        to_dir: &NodeRef,
        to: Name<'_>,
        authorize: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)> {
        let to_dir = Self::bare(to_dir);
        let (mut change, to_change) = self.inner.rename(from, to_dir, to, authorize)?;
        if self.has(Bug::RenameDropsLink) && change.before == change.after && from != to {
            change = self.inner.remove_unchecked(from)?;
        }
        Ok((self.shared.lie_twice(change), self.shared.lie_twice(to_change)))
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        Some(self)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
    }

    fn acls(&self) -> Option<&dyn Acls> {
        Some(self)
    }
}

/// Each of these cases fails on a backend with `bug`.
#[track_caller]
fn assert_caught(bug: Bug, by: &[&str]) {
    let cases: Vec<Case> = cases().into_iter().filter(|case| by.contains(&case.name)).collect();
    assert_eq!(cases.len(), by.len(), "{by:?} are cases");
    for case in cases {
        let failure = case.failure(&|| fixture(bug));
        assert!(failure.is_some(), "{bug:?} was not noticed by {}", case.name);
    }
}

#[test]
fn the_wrapper_alone_conforms() {
    run(&|| fixture(Bug::None));
}

#[test]
fn wrong_attributes_are_noticed() {
    assert_caught(
        Bug::ForgetsChangeTime,
        &["attrs/mode_is_set", "links/links_are_counted", "rename/both_directories_change"],
    );
    assert_caught(
        Bug::DropsSetId,
        &["create/the_new_inode_is_honored", "oracle/random_operations_agree_with_a_model"],
    );
    assert_caught(
        Bug::TakesInvalidIds,
        &["attrs/invalid_owners_are_refused", "create/nothing_is_created_for_an_invalid_owner"],
    );
    assert_caught(Bug::ForgetsSize, &["create/a_given_size_is_a_hole"]);
    assert_caught(Bug::TornChanges, &["threads/changes_of_a_directory_chain"]);
}

#[test]
fn wrong_listings_are_noticed() {
    assert_caught(Bug::DuplicateCookies, &["listing/five_thousand_entries_once_each"]);
    assert_caught(Bug::SkippingCookies, &["listing/a_listing_goes_on_from_any_cookie"]);
}

#[test]
fn wrong_keys_are_noticed() {
    assert_caught(
        Bug::ReusesKeys,
        &[
            "oracle/random_operations_agree_with_a_model",
            "identity/keys_never_come_back",
            "identity/a_removed_file_is_stale",
        ],
    );
    assert_caught(
        Bug::NeverStale,
        &["identity/a_removed_file_is_stale", "oracle/random_operations_agree_with_a_model"],
    );
    assert_caught(Bug::ForgetsPins, &["identity/a_pinned_file_outlives_its_name"]);
    assert_caught(Bug::KeepsForEver, &["identity/a_pinned_file_outlives_its_name"]);
}

#[test]
fn wrong_contents_are_noticed() {
    assert_caught(
        Bug::ShortReads,
        &["data/a_large_write_is_done_whole", "oracle/random_operations_agree_with_a_model"],
    );
    assert_caught(Bug::RoundsSizes, &["data/a_size_is_that_of_the_attributes"]);
    assert_caught(Bug::GrowsByGarbage, &["data/cutting_and_growing_fills_with_zeros"]);
}

#[test]
fn wrong_renames_are_noticed() {
    assert_caught(
        Bug::RenameDropsLink,
        &["rename/same_file_is_left_alone", "oracle/random_operations_agree_with_a_model"],
    );
}

#[test]
fn wrong_decisions_are_noticed() {
    assert_caught(Bug::DecidesEarly, &["decisions/threads_decide_on_what_they_change"]);
    assert_caught(Bug::RefusesLate, &["decisions/a_refusal_leaves_all_as_it_was"]);
}
