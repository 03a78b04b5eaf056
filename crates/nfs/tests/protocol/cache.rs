//! A thread's cached names and handles are never older than the directory.

use crate::names::lookup;
use crate::support::object::{name, new_inode};
use crate::support::{ALICE, BOB, Object, World, decode, trusting};
use nfs::handle::cache::HandleCache;
use nfs_wire::v3::{
    CreateArgs, CreateHow, GetattrArgs, LookupFail, LookupOk, LookupReply, Procedure, RemoveArgs, RenameArgs,
    Reply, Sattr, Status,
};
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, ExportRule};
use vfs_testing::UncheckedNode;
use xdr::Encode;

/// A world whose thread caches names, with a directory that was not changed for a while.
fn caching_world() -> (World, Object) {
    let mut w = World::new();
    w.cache = Some(HandleCache::new(64, 64, 16));
    w.blocking = Blocking::Never;
    let dir = w.dir(&w.root(), "dir", 0o777);
    (w, dir)
}

fn assert_found(w: &mut World, dir: &Object, name: &[u8], object: &Object) {
    let ok = LookupOk { object: object.fh(), obj_attributes: object.post(), dir_attributes: dir.post() };
    let reply = lookup(w, BOB, dir, name);
    assert_eq!(decode::<LookupReply<'_>>(&reply), Reply::Ok(ok), "{}", name.escape_ascii());
}

fn assert_absent(w: &mut World, dir: &Object, name: &[u8]) {
    let reply = lookup(w, BOB, dir, name);
    let fail = LookupFail { dir_attributes: dir.post() };
    assert_eq!(decode::<LookupReply<'_>>(&reply), Reply::Err(Status::NOENT, fail), "{}", name.escape_ascii());
}

/// Makes a call on another connection, whose thread shares no cache with this one.
fn elsewhere(w: &mut World, procedure: Procedure, args: &impl Encode) {
    let cache = w.cache.take();
    w.blocking = Blocking::Allowed;
    assert_eq!(w.ask(ALICE, procedure, args)[..4], Status::OK.to_bytes());
    w.cache = cache;
    w.blocking = Blocking::Never;
}

/// Whether `name` is answered from the cache: the backend refuses to look it up.
fn is_cached(w: &mut World, dir: &Object, text: &[u8]) -> bool {
    let handle = dir.bytes().to_vec();
    let cache = w.cache.as_mut().unwrap();
    let opened = cache.handle(&handle).expect("the directory was used");
    cache.name(&opened, &dir.attrs(), text).is_some()
}

#[test]
fn names_are_cached_while_the_directory_is_unchanged() {
    let (mut w, dir) = caching_world();
    let file = w.file(&dir, "file", 0o644, b"");
    assert_found(&mut w, &dir, b"file", &file);
    assert_absent(&mut w, &dir, b"none");
    assert!(is_cached(&mut w, &dir, b"file") && is_cached(&mut w, &dir, b"none"));
    file.node.write(0, b"new size", KEEP_SET_ID).unwrap();
    assert_found(&mut w, &dir, b"file", &file);
    w.cache = Some(HandleCache::new(64, 64, 16));
    assert_found(&mut w, &dir, b"file", &file);
}

#[test]
fn dots_are_never_cached() {
    let (mut w, dir) = caching_world();
    let [a, b] = ["a", "b"].map(|name| w.dir(&dir, name, 0o777));
    let inner = w.dir(&a, "inner", 0o777);
    w.blocking = Blocking::Allowed;
    assert_found(&mut w, &inner, b"..", &a);
    w.clock.advance_ms(1000);
    a.node.rename_unchecked(name("inner"), &b.node, name("inner")).unwrap();
    assert_found(&mut w, &inner, b"..", &b);
}

#[test]
fn a_change_by_another_connection_invalidates_the_cache() {
    let (mut w, dir) = caching_world();
    let file = w.file(&dir, "file", 0o644, b"");
    for settled in [true, false] {
        assert_found(&mut w, &dir, b"file", &file);
        assert_absent(&mut w, &dir, b"other");
        assert_eq!(is_cached(&mut w, &dir, b"other"), settled, "a directory that just changed");
        elsewhere(&mut w, Procedure::RENAME, &RenameArgs { from: dir.at(b"file"), to: dir.at(b"other") });
        assert_absent(&mut w, &dir, b"file");
        assert_found(&mut w, &dir, b"other", &file);
        elsewhere(&mut w, Procedure::RENAME, &RenameArgs { from: dir.at(b"other"), to: dir.at(b"file") });
    }
    let how = CreateHow::Guarded(Sattr::default());
    elsewhere(&mut w, Procedure::CREATE, &CreateArgs { place: dir.at(b"other"), how });
    let other = w.find(&dir, "other");
    assert_found(&mut w, &dir, b"other", &other);
    elsewhere(&mut w, Procedure::RENAME, &RenameArgs { from: dir.at(b"other"), to: dir.at(b"file") });
    assert_found(&mut w, &dir, b"file", &other);
    elsewhere(&mut w, Procedure::REMOVE, &RemoveArgs { object: dir.at(b"file") });
    assert_absent(&mut w, &dir, b"file");
}

#[test]
fn a_change_outside_the_service_invalidates_the_cache() {
    let (mut w, dir) = caching_world();
    let mut file = w.file(&dir, "file", 0o644, b"");
    // Milliseconds since the change: from an unchanged clock to one far ahead.
    for pause in [0, 1, 9, 19, 20, 21, 500] {
        assert_found(&mut w, &dir, b"file", &file);
        assert_absent(&mut w, &dir, b"gone");
        dir.node.rename_unchecked(name("file"), &dir.node, name("gone")).unwrap();
        w.clock.advance_ms(pause);
        assert_absent(&mut w, &dir, b"file");
        assert_found(&mut w, &dir, b"gone", &file);
        dir.node.remove_unchecked(name("gone")).unwrap();
        let made = dir.node.create_unchecked(name("file"), &new_inode(0o644)).unwrap();
        file = w.object(made.found.node);
        assert_found(&mut w, &dir, b"file", &file);
        assert_absent(&mut w, &dir, b"gone");
        w.clock.advance_ms(pause);
    }
}

/// File systems stamp with a timer's granularity, so two changes can have the same stamp. Nothing may be cached until a
/// later change is certain to have a later stamp.
#[test]
fn a_directory_is_cached_only_with_an_old_enough_stamp() {
    let (mut w, dir) = caching_world();
    for (pause, trusted) in [(0, false), (1, false), (19, false), (20, true), (1000, true)] {
        dir.node.create_unchecked(name(&format!("{pause}")), &new_inode(0o644)).unwrap();
        w.clock.advance_ms(pause);
        assert_absent(&mut w, &dir, b"none");
        assert_eq!(is_cached(&mut w, &dir, b"none"), trusted, "after {pause} ms");
    }
}

#[test]
fn a_name_is_looked_up_with_the_rights_of_the_caller() {
    let (mut w, dir) = caching_world();
    let file = w.file(&dir, "file", 0o644, b"");
    assert_found(&mut w, &dir, b"file", &file);
    let set = vfs::SetAttrs { mode: Some(0o700), ..Default::default() };
    dir.node.set_attrs(&set).unwrap();
    w.clock.advance_ms(1000);
    let ok = LookupOk { object: file.fh(), obj_attributes: file.post(), dir_attributes: dir.post() };
    let reply = lookup(&mut w, ALICE, &dir, b"file");
    assert_eq!(decode::<LookupReply<'_>>(&reply), Reply::Ok(ok));
    assert!(is_cached(&mut w, &dir, b"file"));
    let fail = LookupFail { dir_attributes: dir.post() };
    for name in [&b"file"[..], b"none"] {
        let reply = lookup(&mut w, BOB, &dir, name);
        assert_eq!(decode::<LookupReply<'_>>(&reply), Reply::Err(Status::ACCES, fail));
    }
}

/// The file can be removed between the checks of the directory and of the file. LOOKUP must not return STALE then: that
/// means that the *directory* was removed.
#[test]
fn a_cached_file_that_was_just_removed_is_absent() {
    let (mut w, dir) = caching_world();
    let file = w.file(&dir, "file", 0o644, b"");
    assert_found(&mut w, &dir, b"file", &file);
    assert!(is_cached(&mut w, &dir, b"file"));
    // A stamp set back simulates a change between the two checks.
    let stamp = dir.attrs();
    dir.node.remove_unchecked(name("file")).unwrap();
    let cache = w.cache.as_mut().unwrap();
    let opened = cache.handle(dir.bytes()).unwrap();
    let gone = cache.handle(file.bytes()).unwrap();
    let now = dir.attrs();
    assert_ne!(stamp.changed, now.changed);
    cache.add_name(&opened, &now, b"file", Some(&gone), vfs::Time { seconds: i64::MAX / 2, nanos: 0 });
    assert_absent(&mut w, &dir, b"file");
}

#[test]
fn a_cached_handle_obeys_the_rules_of_its_client() {
    let mut w = World::with_rule(ExportRule { clients: vec!["192.0.2.7".parse().unwrap()], ..trusting() });
    w.cache = Some(HandleCache::new(64, 64, 16));
    let root = w.root();
    let args = GetattrArgs { object: root.fh() };
    assert_eq!(w.ask(BOB, Procedure::GETATTR, &args)[..4], Status::OK.to_bytes());
    w.peer = "192.0.2.8:700".parse().unwrap();
    assert_eq!(w.ask(BOB, Procedure::GETATTR, &args), Status::ACCES.to_bytes());
}

#[test]
fn a_change_of_another_export_leaves_the_cache_valid() {
    let (mut w, dir) = caching_world();
    let file = w.file(&dir, "file", 0o644, b"");
    assert_found(&mut w, &dir, b"file", &file);
    let handle = file.bytes().to_vec();
    let remembers = |w: &mut World| {
        let cache = w.cache.as_mut().unwrap();
        (cache.handle(&handle).is_some(), cache.handle(dir.bytes()).is_some())
    };
    let exports = w.namespace.exports().to_vec();
    assert_eq!(exports.len(), 2);
    let renewed = |export: &vfs::Export, rules| {
        vfs::Export::new(export.path.clone(), std::sync::Arc::clone(&export.volume), rules)
    };
    // The other export is changed, removed, and restored.
    for others in [Some(vec![]), None, Some(vec![trusting()])] {
        let other = others.map(|rules| std::sync::Arc::new(renewed(&exports[1], rules)));
        let new = vfs::Namespace::new(std::iter::once(std::sync::Arc::clone(&exports[0])).chain(other));
        w.cache.as_mut().unwrap().change(&w.namespace, &new);
        w.namespace = std::sync::Arc::new(new);
        assert_eq!(remembers(&mut w), (true, true));
        assert!(is_cached(&mut w, &dir, b"file"));
    }
    // The export itself is changed.
    let rules = vec![ExportRule { read_only: true, ..trusting() }];
    let new = vfs::Namespace::new([renewed(&exports[0], rules)]);
    w.cache.as_mut().unwrap().change(&w.namespace, &new);
    assert_eq!(remembers(&mut w), (false, false));
}
