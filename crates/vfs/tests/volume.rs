//! Permissions and semantics of the operations on a volume in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use vfs::acl::Rights;
use vfs::acl::access::Access;
use vfs::model::caller::INVALID_ID;
use vfs::{
    Attrs, Backend, Blocking, Caller, Change, Created, Device, Disposition, Durability, ExclusiveKey, Export,
    File, FileType, FsError, FsResult, Name, PendingSync, SetAttrs, SetTime, Special, Stability, SyncScope,
    Time, Volume, VolumeId,
};
use vfs_testing::{Faulty, MemFs};

struct World {
    fs: MemFs,
    export: Arc<Export>,
    pending: PendingSync,
}

fn root() -> Caller {
    Caller::new(0, 0, [])
}

fn alice() -> Caller {
    Caller::new(1000, 100, [200])
}

fn bob() -> Caller {
    Caller::new(1001, 101, [100])
}

fn carol() -> Caller {
    Caller::new(1002, 102, [])
}

fn read_only(mut caller: Caller) -> Caller {
    caller.read_only = true;
    caller
}

fn world() -> World {
    let seconds = AtomicI64::new(1_000);
    // Every look at the clock is a second later.
    let clock = move || Time { seconds: seconds.fetch_add(1, Ordering::SeqCst), nanos: 0 };
    let fs = MemFs::new(Arc::new(clock));
    let export = export(Arc::new(fs.clone()), Durability::Sync);
    World { fs, export, pending: PendingSync::default() }
}

fn export(backend: Arc<dyn Backend>, durability: Durability) -> Arc<Export> {
    let volume = Volume::new(VolumeId(1), "vol", backend, durability, 7);
    Arc::new(Export::new("/vol", Arc::new(volume), Vec::new()))
}

fn find(dir: &File, name: &[u8]) -> FsResult<File> {
    let found = dir.open_dir(&root(), Blocking::Allowed)?.lookup(name, Blocking::Allowed)?;
    Ok(found.file)
}

fn set_behind(file: &File, set: &SetAttrs) {
    file.set_attrs(&root(), set, None, &mut PendingSync::default()).unwrap();
}

impl World {
    /// A directory of Alice's.
    fn dir(&mut self, name: &str, mode: u32) -> File {
        let root_dir = self.export.root();
        let set = SetAttrs { mode: Some(mode), uid: Some(1000), gid: Some(100), ..SetAttrs::default() };
        root_dir.make_dir(&root(), name.as_bytes(), &set, &mut self.pending).unwrap().file
    }

    fn create(&mut self, caller: Caller, dir: &File, name: &str, mode: u32) -> FsResult<Created> {
        let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
        dir.create(&caller, name.as_bytes(), Disposition::CreateNew, &set, &mut self.pending)
    }

    fn file(&mut self, caller: Caller, dir: &File, name: &str, mode: u32) -> File {
        self.create(caller, dir, name, mode).unwrap().file
    }

    fn set(&mut self, caller: Caller, file: &File, set: SetAttrs) -> FsResult<Change> {
        file.set_attrs(&caller, &set, None, &mut self.pending)
    }

    fn remove(&mut self, caller: Caller, dir: &File, name: &str) -> FsResult<Change> {
        dir.remove(&caller, name.as_bytes(), &mut self.pending)
    }

    fn rename(&mut self, caller: Caller, from: (&File, &str), to: (&File, &str)) -> FsResult<()> {
        let (old, new) = (from.1.as_bytes(), to.1.as_bytes());
        from.0.rename(&caller, old, to.0, new, &mut self.pending).map(|_| ())
    }

    fn write(&mut self, caller: Caller, file: &File, data: &[u8]) -> FsResult<Change> {
        file.authorize_write(&caller)?.write(0, data, Stability::Unstable, &mut self.pending)
    }
}

fn attrs(file: &File) -> Attrs {
    file.attrs(Blocking::Allowed).unwrap()
}

fn mode(mode: u32) -> SetAttrs {
    SetAttrs { mode: Some(mode), ..SetAttrs::default() }
}

fn owner(uid: Option<u32>, gid: Option<u32>) -> SetAttrs {
    SetAttrs { uid, gid, ..SetAttrs::default() }
}

#[test]
fn in_a_sticky_directory_names_belong_to_owners() {
    let mut w = world();
    let sticky = w.dir("sticky", 0o1777);
    let plain = w.dir("plain", 0o777);
    for who in [root(), alice(), bob()] {
        w.file(bob(), &sticky, "bobs", 0o666);
        let refused = w.remove(carol(), &sticky, "bobs");
        assert_eq!(refused, Err(FsError::Access));
        assert_eq!(w.rename(carol(), (&sticky, "bobs"), (&plain, "taken")), Err(FsError::Access));
        assert!(w.remove(who, &sticky, "bobs").is_ok(), "root, the directory's owner, the file's owner");
    }
    w.file(bob(), &sticky, "bobs", 0o666);
    w.file(carol(), &plain, "carols", 0o666);
    let over = w.rename(carol(), (&plain, "carols"), (&sticky, "bobs"));
    assert_eq!(over, Err(FsError::Access), "replacing takes the name as well");
    assert_eq!(w.rename(carol(), (&plain, "carols"), (&sticky, "new")), Ok(()));
    let made = sticky.make_dir(&bob(), b"sub", &mode(0o777), &mut w.pending);
    assert!(made.is_ok());
    let refused = sticky.remove_dir(&carol(), b"sub", &mut w.pending);
    assert_eq!(refused, Err(FsError::Access));
}

#[test]
fn a_directory_moves_only_if_it_may_be_written() {
    let mut w = world();
    let [a, b] = ["a", "b"].map(|name| w.dir(name, 0o777));
    a.make_dir(&alice(), b"hers", &mode(0o755), &mut w.pending).unwrap();
    assert_eq!(w.rename(carol(), (&a, "hers"), (&b, "hers")), Err(FsError::Access), "its .. would change");
    assert_eq!(w.rename(carol(), (&a, "hers"), (&a, "renamed")), Ok(()), "its .. stays");
    assert_eq!(w.rename(alice(), (&a, "renamed"), (&b, "moved")), Ok(()));
}

#[test]
fn new_objects_get_their_group_from_a_set_group_id_directory() {
    let mut w = world();
    let dir = w.dir("dir", 0o2777);
    let plain = w.dir("plain", 0o777);
    for (place, gid) in [(&dir, 100), (&plain, 102)] {
        let file = w.file(carol(), place, "file", 0o644);
        assert_eq!((attrs(&file).uid, attrs(&file).gid), (1002, gid));
        let sub = place.make_dir(&carol(), b"sub", &mode(0o750), &mut w.pending).unwrap();
        let inherits = if gid == 100 { 0o2000 } else { 0 };
        assert_eq!((sub.attrs.gid, sub.attrs.mode), (gid, 0o750 | inherits));
        let special = place.make_special(&carol(), b"fifo", Special::Fifo, &mode(0o600), &mut w.pending);
        assert_eq!(special.unwrap().attrs.gid, gid);
    }
    let foreign = w.file(carol(), &dir, "foreign", 0o2755);
    assert_eq!(attrs(&foreign).mode, 0o755, "no set-group-id for a group that is not hers");
    let own = w.file(bob(), &dir, "own", 0o6755);
    assert_eq!(attrs(&own).mode, 0o6755, "a supplementary group of his");
}

#[test]
fn an_object_is_created_with_the_owner_that_its_maker_may_give() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    let set = SetAttrs { mode: Some(0o6755), uid: Some(5), gid: Some(6), ..SetAttrs::default() };
    let mut make = |caller: Caller, name: &str| {
        let made = dir.create(&caller, name.as_bytes(), Disposition::CreateNew, &set, &mut w.pending);
        let Attrs { uid, gid, mode, .. } = made.unwrap().attrs;
        (uid, gid, mode)
    };
    assert_eq!(make(root(), "roots"), (5, 6, 0o6755));
    assert_eq!(make(carol(), "carols"), (1002, 102, 0o6755), "what she may not give is left");
    let set = owner(None, Some(100));
    let made = dir.make_dir(&bob(), b"bobs", &set, &mut w.pending).unwrap().attrs;
    assert_eq!((made.uid, made.gid), (1001, 100));
}

#[test]
fn owners_change_as_posix_allows() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    let file = w.file(alice(), &dir, "file", 0o644);
    for (who, set) in [
        (alice(), owner(Some(1001), None)),
        (alice(), owner(None, Some(102))),
        (bob(), owner(None, Some(100))),
        (bob(), owner(Some(1000), None)),
        (carol(), owner(Some(1002), Some(102))),
        (carol(), mode(0o777)),
        (bob(), mode(0o644)),
    ] {
        assert_eq!(w.set(who.clone(), &file, set), Err(FsError::NotOwner), "{who:?} {set:?}");
    }
    for (who, set, uid, gid) in [
        (alice(), owner(Some(1000), Some(200)), 1000, 200),
        (alice(), owner(None, Some(100)), 1000, 100),
        (root(), owner(Some(1002), Some(300)), 1002, 300),
        (carol(), owner(None, Some(300)), 1002, 300),
    ] {
        assert!(w.set(who.clone(), &file, set).is_ok(), "{who:?} {set:?}");
        assert_eq!((attrs(&file).uid, attrs(&file).gid), (uid, gid));
    }
    let sets_group_id = w.set(carol(), &file, mode(0o2755));
    assert_eq!(sets_group_id.map(|change| change.after.mode), Ok(0o755), "her file, but not her group");
    w.set(root(), &dir, owner(Some(1002), Some(300))).unwrap();
    let sets_group_id = w.set(carol(), &dir, mode(0o2777));
    assert_eq!(
        sets_group_id.map(|change| change.after.mode),
        Ok(0o777),
        "what is made there would get the group"
    );
    let sets_both = SetAttrs { gid: Some(300), ..mode(0o2777) };
    assert_eq!(w.set(carol(), &dir, sets_both).map(|change| change.after.mode), Ok(0o777));
    assert_eq!(w.set(root(), &dir, mode(0o2777)).map(|change| change.after.mode), Ok(0o2777));
}

#[test]
fn ids_that_mean_unchanged_are_refused() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    let file = w.file(alice(), &dir, "file", 0o644);
    let before = (attrs(&dir), attrs(&file));
    for who in [root(), alice()] {
        for set in [owner(Some(INVALID_ID), None), owner(None, Some(INVALID_ID))] {
            let set = SetAttrs { mode: Some(0o2755), ..set };
            assert_eq!(w.set(who.clone(), &file, set), Err(FsError::Invalid), "{who:?} {set:?}");
            let pending = &mut w.pending;
            for how in [Disposition::OpenOrCreate, Disposition::CreateNew] {
                for name in [&b"new"[..], b"file"] {
                    let made = dir.create(&who, name, how, &set, pending);
                    assert_eq!(made.err(), Some(FsError::Invalid), "{who:?} {how:?}");
                }
            }
            let made = dir.make_dir(&who, b"new", &set, pending);
            assert_eq!(made.err(), Some(FsError::Invalid), "{who:?} {set:?}");
            let made = dir.make_special(&who, b"new", Special::Symlink(b"to"), &set, pending);
            assert_eq!(made.err(), Some(FsError::Invalid), "{who:?} {set:?}");
        }
    }
    assert_eq!((attrs(&dir), attrs(&file)), before);
}

#[test]
fn set_id_bits_do_not_outlive_what_they_were_given_for() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    let file = w.file(alice(), &dir, "file", 0o6777);
    let left = |w: &mut World, act: &dyn Fn(&mut World, &File) -> FsResult<Change>| {
        w.set(alice(), &file, mode(0o6777)).unwrap();
        act(w, &file).unwrap();
        attrs(&file).mode
    };
    assert_eq!(left(&mut w, &|w, file| w.write(bob(), file, b"x")), 0o777);
    assert_eq!(left(&mut w, &|w, file| w.write(alice(), file, b"x")), 0o777);
    assert_eq!(left(&mut w, &|w, file| w.write(root(), file, b"x")), 0o6777);
    let cut = SetAttrs { size: Some(0), ..SetAttrs::default() };
    assert_eq!(left(&mut w, &|w, file| w.set(bob(), file, cut)), 0o777);
    assert_eq!(left(&mut w, &|w, file| w.set(alice(), file, owner(None, Some(200)))), 0o777);
    assert_eq!(left(&mut w, &|w, file| w.set(root(), file, owner(Some(1000), None))), 0o777);
    let before = attrs(&dir);
    let chowned = w.set(root(), &dir, SetAttrs { gid: Some(5), mode: Some(0o2777), ..SetAttrs::default() });
    assert_eq!(chowned.map(|change| (change.before, change.after.mode)), Ok((before, 0o2777)));
    let chowned = w.set(root(), &dir, owner(Some(1000), Some(6)));
    assert_eq!(chowned.map(|change| change.after.mode), Ok(0o2777), "a directory keeps the bit");
}

#[test]
fn times_are_set_by_owners_and_touched_by_writers() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    let file = w.file(alice(), &dir, "file", 0o664);
    let moment = SetTime::To(Time { seconds: 5, nanos: 6 });
    let to = |time| SetAttrs { accessed: Some(time), modified: Some(time), ..SetAttrs::default() };
    assert_eq!(w.set(bob(), &file, to(moment)), Err(FsError::NotOwner));
    assert_eq!(w.set(carol(), &file, to(SetTime::Now)), Err(FsError::Access));
    let touched = w.set(bob(), &file, to(SetTime::Now)).unwrap().after;
    assert_eq!((touched.accessed, touched.modified), (touched.changed, touched.changed));
    let set = w.set(alice(), &file, to(moment)).unwrap().after;
    assert_eq!((set.accessed, set.modified), (Time { seconds: 5, nanos: 6 }, Time { seconds: 5, nanos: 6 }));
    assert!(set.changed > touched.changed, "the change time cannot be set");
}

#[test]
fn an_open_that_may_change_attributes_sets_times_and_nothing_else_of_an_owners() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    let file = w.file(alice(), &dir, "file", 0o664);
    let moment = Time { seconds: 5, nanos: 6 };
    let times = SetAttrs { modified: Some(SetTime::To(moment)), ..SetAttrs::default() };
    let mut set = |caller: &Caller, held, set: &SetAttrs| {
        file.set_attrs_by_claim(caller, held, set, &mut w.pending).map(|change| change.after.modified)
    };
    assert_eq!(set(&bob(), Rights::ALL.without(Rights::WRITE_ATTRS), &times), Err(FsError::NotOwner));
    assert_eq!(set(&bob(), Rights::WRITE_ATTRS, &times), Ok(moment));
    for others in [mode(0o777), owner(Some(1001), None), SetAttrs { mode: Some(0o777), ..times }] {
        assert_eq!(set(&bob(), Rights::ALL, &others), Err(FsError::NotOwner), "{others:?}");
    }
    assert_eq!(set(&read_only(bob()), Rights::ALL, &times), Err(FsError::ReadOnly));
}

#[test]
fn a_guard_is_the_change_time() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    let file = w.file(alice(), &dir, "file", 0o644);
    let guard = attrs(&file).changed;
    let mut set = |guard| file.set_attrs(&alice(), &mode(0o600), Some(guard), &mut w.pending);
    let wrong = Time { seconds: guard.seconds - 1, ..guard };
    assert_eq!(set(wrong), Err(FsError::GuardMismatch));
    assert!(set(guard).is_ok());
    assert_eq!(set(guard), Err(FsError::GuardMismatch), "the first one changed it");
}

#[test]
fn exclusive_creation_is_repeated_after_a_restart_and_by_nobody_else() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    w.pending.sync_all().unwrap();
    for verifier in [[0; 8], [0xff; 8], *b"\x80\x00\x00\x01\x7f\xff\xff\xfe"] {
        let name = format!("{verifier:?}");
        let private = mode(0o600);
        let once = |key| Disposition::CreateOnce(ExclusiveKey::new(key));
        let made = dir.create(&carol(), name.as_bytes(), once(verifier), &private, &mut w.pending).unwrap();
        assert_eq!((made.attrs.uid, made.attrs.mode), (1002, 0o600));
        w.pending.sync_all().unwrap();

        let after = w.fs.crash();
        let export = export(Arc::new(after), Durability::Sync);
        let dir = find(&export.root(), b"dir").unwrap();
        let again = |key| {
            let mut pending = PendingSync::default();
            let found = dir.create(&carol(), name.as_bytes(), once(key), &private, &mut pending);
            (found.map(|made| made.file.key()), pending.added())
        };
        assert_eq!(again(verifier), (Ok(made.file.key()), 1), "and its directory is flushed again");
        for bit in [0, 31, 32, 63] {
            let other = (u64::from_be_bytes(verifier) ^ 1 << bit).to_be_bytes();
            assert_eq!(again(other), (Err(FsError::Exists), 0));
        }
        let found = find(&dir, name.as_bytes()).unwrap();
        set_behind(&found, &SetAttrs { modified: Some(SetTime::Now), ..SetAttrs::default() });
        assert_eq!(again(verifier), (Err(FsError::Exists), 0), "the verifier is gone with the times");
    }
}

#[test]
fn creation_takes_a_file_that_is_there_only_as_asked() {
    let mut w = world();
    let dir = w.dir("dir", 0o755);
    let file = w.file(alice(), &dir, "file", 0o646);
    w.write(alice(), &file, b"hello").unwrap();
    w.dir("other", 0o777);
    let cut = SetAttrs { size: Some(0), mode: Some(0o777), ..SetAttrs::default() };
    let mut create = |caller: Caller, name: &[u8], how, set: &SetAttrs| {
        dir.create(&caller, name, how, set, &mut w.pending).map(|made| made.dir)
    };
    assert_eq!(
        create(carol(), b"new", Disposition::OpenOrCreate, &cut),
        Err(FsError::Access),
        "she may add no name"
    );
    assert_eq!(create(carol(), b"file", Disposition::CreateNew, &cut), Err(FsError::Exists));
    assert_eq!(
        create(bob(), b"file", Disposition::OpenOrCreate, &cut),
        Err(FsError::Access),
        "his group may not write"
    );
    assert_eq!(create(read_only(carol()), b"file", Disposition::OpenOrCreate, &cut), Err(FsError::ReadOnly));
    assert_eq!(create(read_only(carol()), b"new", Disposition::OpenOrCreate, &cut), Err(FsError::ReadOnly));
    assert_eq!(attrs(&file).size, 5);
    let change = create(carol(), b"file", Disposition::OpenOrCreate, &cut).unwrap();
    assert_eq!(change.before, change.after, "the directory did not change");
    assert_eq!((attrs(&file).size, attrs(&file).mode), (0, 0o646), "only the size counts");
    for name in [&b"."[..], b".."] {
        assert_eq!(create(alice(), name, Disposition::OpenOrCreate, &cut), Err(FsError::Exists));
    }
    let huge = SetAttrs { size: Some(u64::MAX), ..SetAttrs::default() };
    assert_eq!(create(alice(), b"huge", Disposition::CreateNew, &huge), Err(FsError::FileTooBig));
    assert_eq!(find(&dir, b"huge").err(), Some(FsError::NotFound));
}

#[test]
fn a_read_only_caller_changes_nothing() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    let file = w.file(alice(), &dir, "file", 0o666);
    let who = read_only(root());
    let before = (attrs(&dir), attrs(&file));
    let (pending, set) = (&mut w.pending, mode(0o644));
    let once = Disposition::CreateOnce(ExclusiveKey::new([0; 8]));
    let refusals = [
        dir.create(&who, b"x", Disposition::CreateNew, &set, pending).err(),
        dir.create(&who, b"x", once, &set, pending).err(),
        dir.make_dir(&who, b"x", &set, pending).err(),
        dir.make_special(&who, b"x", Special::Symlink(b"y"), &set, pending).err(),
        dir.make_special(&who, b"x", Special::Block(Device::default()), &set, pending).err(),
        dir.link(&who, &file, b"x", pending).err(),
        dir.remove(&who, b"file", pending).err(),
        dir.remove_dir(&who, b"file", pending).err(),
        dir.rename(&who, b"file", &dir, b"x", pending).err(),
        file.set_attrs(&who, &set, None, pending).err(),
        file.set_attrs(&who, &SetAttrs::default(), None, pending).err(),
        file.authorize_write(&who).err(),
        file.open(&who, Access::WRITE, Blocking::Allowed).err(),
    ];
    assert_eq!(refusals, [Some(FsError::ReadOnly); 13]);
    assert_eq!((attrs(&dir), attrs(&file)), before);
    let access = file.access(&who, Blocking::Allowed).unwrap();
    assert!(access.read && !access.modify && !access.extend && !access.delete);
}

#[test]
fn devices_are_for_root() {
    let mut w = world();
    let dir = w.dir("dir", 0o777);
    let device = Device { major: 1, minor: 3 };
    for (special, file_type) in
        [(Special::Block(device), FileType::Block), (Special::Character(device), FileType::Character)]
    {
        let refused = dir.make_special(&alice(), b"d", special, &mode(0o666), &mut w.pending).err();
        assert_eq!(refused, Some(FsError::NotOwner));
        let made = dir.make_special(&root(), b"d", special, &mode(0o666), &mut w.pending).unwrap();
        assert_eq!((made.attrs.file_type, made.attrs.device), (file_type, device));
        w.remove(root(), &dir, "d").unwrap();
    }
}

#[test]
fn pending_sync_covers_the_requested_durability() {
    for (durability, stability, added) in [
        (Durability::Sync, Stability::Unstable, 0),
        (Durability::Sync, Stability::Data, 1),
        (Durability::Sync, Stability::File, 1),
        (Durability::Relaxed, Stability::File, 0),
    ] {
        let mut w = world();
        w.export = export(Arc::new(w.fs.clone()), durability);
        let dir = w.dir("dir", 0o777);
        let file = w.file(alice(), &dir, "file", 0o666);
        assert_eq!(w.pending.added(), if durability == Durability::Sync { 2 } else { 0 }, "two new names");
        let mut pending = PendingSync::default();
        let alice = alice();
        let opened = file.authorize_write(&alice).unwrap();
        opened.write(0, b"x", stability, &mut pending).unwrap();
        assert_eq!(pending.added(), added, "{durability:?} {stability:?}");
        let mut pending = PendingSync::default();
        opened.commit().unwrap();
        dir.rename(&alice, b"file", &w.export.root(), b"x", &mut pending).err();
        dir.rename(&alice, b"file", &dir, b"moved", &mut pending).unwrap();
        assert_eq!(
            pending.added(),
            if durability == Durability::Sync { 2 } else { 0 },
            "two directories: a commit flushes by itself"
        );
    }
}

#[test]
fn a_verifier_changes_when_unstable_data_may_be_lost() {
    let mut w = world();
    let faulty = Arc::new(Faulty::new(Arc::new(w.fs.clone())));
    w.export = export(Arc::clone(&faulty) as _, Durability::Sync);
    let volume = &w.export.volume;
    assert_eq!(volume.write_verifier(), 7);
    let mut seen = vec![7];
    for _ in 0..100 {
        faulty.fail_at(1, FsError::Io);
        assert_eq!(faulty.root().sync(SyncScope::Data), Err(FsError::Io));
        assert!(!seen.contains(&volume.write_verifier()));
        seen.push(volume.write_verifier());
    }
}

#[test]
fn listing_and_looking_up_are_two_rights() {
    let mut w = world();
    let dir = w.dir("dir", 0o754);
    w.file(alice(), &dir, "file", 0o644);
    let list = |caller: Caller| {
        let mut objects = Vec::new();
        let listing = dir.read_dir(&caller, 0, true, &mut |entry| {
            objects.push(entry.object.is_some());
            std::ops::ControlFlow::Continue(())
        });
        listing.map(|listing| (listing.at_end, objects))
    };
    assert_eq!(list(bob()), Ok((true, vec![true, false, true])), "r-x: names with attributes, but of ..");
    assert_eq!(list(carol()), Ok((true, vec![false; 3])), "r--: names only");
    assert!(dir.open_dir(&bob(), Blocking::Allowed).is_ok());
    assert_eq!(dir.open_dir(&carol(), Blocking::Allowed).err(), Some(FsError::Access));
    set_behind(&dir, &mode(0o711));
    assert_eq!(list(carol()).err(), Some(FsError::Access), "--x: no names");
    assert!(dir.open_dir(&carol(), Blocking::Allowed).is_ok());
}

/// Tries every change of names by `who` with `name` in `dir`.
fn refusals(w: &mut World, who: Caller, dir: &File, name: &[u8]) -> [Option<FsError>; 8] {
    let file = w.export.root();
    let World { pending, .. } = w;
    let set = SetAttrs::default();
    [
        dir.create(&who, name, Disposition::CreateNew, &set, pending).err(),
        dir.make_dir(&who, name, &set, pending).err(),
        dir.make_special(&who, name, Special::Symlink(b""), &set, pending).err(),
        dir.link(&who, &file, name, pending).err(),
        dir.remove(&who, name, pending).err(),
        dir.remove_dir(&who, name, pending).err(),
        dir.rename(&who, name, dir, b"new", pending).err(),
        dir.rename(&who, b"full", dir, name, pending).err(),
    ]
}

#[test]
fn a_caller_is_refused_before_the_name() {
    let mut w = world();
    let dir = w.dir("dir", 0o755);
    let full = dir.make_dir(&alice(), b"full", &mode(0o777), &mut w.pending).unwrap().file;
    let file = w.file(alice(), &full, "file", 0o666);
    let before = (attrs(&dir), attrs(&full));
    let long = [b'x'; 256];
    for name in [&b"."[..], b"..", b"", b"a/b", &long, b"none"] {
        assert_eq!(refusals(&mut w, carol(), &dir, name), [Some(FsError::Access); 8]);
        assert_eq!(refusals(&mut w, read_only(alice()), &dir, name), [Some(FsError::ReadOnly); 8]);
        assert_eq!(refusals(&mut w, root(), &file, name), [Some(FsError::NotDirectory); 8]);
        let away = dir.rename(&carol(), b"full", &full, name, &mut w.pending);
        assert_eq!(away, Err(FsError::Access));
        let away = full.rename(&carol(), name, &dir, b"new", &mut w.pending);
        let bad_name = Name::new(name).map(drop);
        assert_eq!(away, Err(bad_name.err().unwrap_or(FsError::Access)), "only the second is closed to her");
    }
    assert_eq!((attrs(&dir), attrs(&full)), before);

    use FsError::{Exists, Invalid, IsDirectory, NameTooLong, NotEmpty};
    for (name, making, [remove, remove_dir, from, to]) in [
        (&b"."[..], [Exists; 4], [Invalid; 4]),
        (b"..", [Exists; 4], [Invalid, Exists, Invalid, Invalid]),
        (b"", [Invalid; 4], [Invalid; 4]),
        (b"a/b", [Invalid; 4], [Invalid; 4]),
        (&long, [NameTooLong; 4], [NameTooLong; 4]),
    ] {
        let wanted = [making.as_slice(), &[remove, remove_dir, from, to]].concat();
        assert_eq!(
            refusals(&mut w, alice(), &dir, name)[..],
            wanted.into_iter().map(Some).collect::<Vec<_>>()
        );
    }
    let there = refusals(&mut w, alice(), &dir, b"full");
    let wanted = [Exists, Exists, Invalid, IsDirectory, IsDirectory, NotEmpty].map(Some);
    assert_eq!(there[..6], wanted, "what is asked for comes before what is there");
}

#[test]
fn a_caller_is_checked_as_the_change_is_made() {
    let mut w = world();
    let faulty = Faulty::new(Arc::new(w.fs.clone()));
    w.export = export(Arc::new(faulty.clone()), Durability::Sync);
    w.dir("dir", 0o1755);
    let dir = find(&w.export.root(), b"dir").unwrap();
    let file = w.file(alice(), &dir, "file", 0o644);
    let before = attrs(&dir);
    // Whether anything of the volume has streams is looked up once.
    assert_eq!(dir.remove(&alice(), b"none", &mut w.pending), Err(FsError::NotFound));
    for (who, done) in [(bob(), Err(FsError::Access)), (alice(), Ok(()))] {
        let World { pending, .. } = &mut w;
        let mut in_calls = |calls: u64, act: &mut dyn FnMut(&mut PendingSync) -> FsResult<()>| {
            let first = faulty.calls();
            *pending = PendingSync::default();
            assert_eq!(act(pending), done);
            assert_eq!((faulty.calls() - first, pending.added() > 0), (calls, done.is_ok()));
        };
        let set = SetAttrs::default();
        in_calls(1, &mut |pending| dir.make_dir(&who, b"sub", &set, pending).map(drop));
        in_calls(1, &mut |pending| dir.make_special(&who, b"fifo", Special::Fifo, &set, pending).map(drop));
        in_calls(2, &mut |pending| dir.link(&who, &file, b"link", pending).map(drop));
        in_calls(1, &mut |pending| dir.remove(&who, b"link", pending).map(drop));
        in_calls(1, &mut |pending| dir.rename(&who, b"file", &dir, b"moved", pending).map(drop));
        in_calls(1, &mut |pending| dir.remove_dir(&who, b"sub", pending).map(drop));
        if done.is_err() {
            assert_eq!(attrs(&dir), before, "nothing is left behind");
        }
    }
    let first = faulty.calls();
    let made = w.create(alice(), &dir, "new", 0o600).unwrap();
    assert_eq!((faulty.calls() - first, made.attrs.mode), (1, 0o600));
}
