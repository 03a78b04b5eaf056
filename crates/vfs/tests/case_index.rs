//! Names by another spelling: found whatever has changed them, and without listing a directory for each.

use std::sync::Arc;
use vfs::claims::{Access, Link, OpenRequest, Request, Rights, Stream, Verdict};
use vfs::{
    Caller, Disposition, Durability, Export, ExportRule, File, PendingSync, SetAttrs, Time, Volume, VolumeId,
};
use vfs_testing::{Faulty, MemFs};

fn lower(name: &[u8]) -> Option<Vec<u8>> {
    Some(name.to_ascii_lowercase())
}

fn root() -> Caller {
    Caller::new(0, 0, [])
}

fn volume() -> (Faulty, Arc<Volume>) {
    let faulty = Faulty::new(Arc::new(MemFs::new(Arc::new(Time::default))));
    let volume = Volume::new(VolumeId(1), "v", Arc::new(faulty.clone()), Durability::Relaxed, 1);
    (faulty, Arc::new(volume))
}

fn export(volume: &Arc<Volume>) -> File {
    Arc::new(Export::new("/v", Arc::clone(volume), vec![ExportRule::everybody()])).root()
}

fn make(dir: &File, name: &str) -> File {
    let (set, mut pending) = (SetAttrs::default(), PendingSync::default());
    dir.create(&root(), name.as_bytes(), Disposition::CreateNew, &set, &mut pending).unwrap().file
}

fn find(dir: &File, name: &str) -> Option<String> {
    let found = dir.find_ignoring_case(&root(), name.as_bytes(), lower).unwrap();
    found.map(|name| String::from_utf8(name).unwrap())
}

#[test]
fn a_name_is_found_by_any_spelling_after_every_change() {
    let (_, volume) = volume();
    let (top, mut pending) = (export(&volume), PendingSync::default());
    assert_eq!(find(&top, "FILE"), None);
    let file = make(&top, "File");
    assert_eq!(find(&top, "fILE").as_deref(), Some("File"));
    let dir = top.make_dir(&root(), b"Dir", &SetAttrs::default(), &mut pending).unwrap().file;
    assert_eq!(find(&top, "DIR").as_deref(), Some("Dir"));
    top.link(&root(), &file, b"Link", &mut pending).unwrap();
    assert_eq!(find(&top, "LINK").as_deref(), Some("Link"));
    assert_eq!(find(&dir, "FILE"), None);
    top.rename(&root(), b"File", &dir, b"Moved", &mut pending).unwrap();
    assert_eq!((find(&top, "FILE"), find(&dir, "moved").as_deref()), (None, Some("Moved")));
    dir.rename(&root(), b"Moved", &dir, b"MOVED", &mut pending).unwrap();
    assert_eq!(find(&dir, "moved").as_deref(), Some("MOVED"));
    dir.remove(&root(), b"MOVED", &mut pending).unwrap();
    assert_eq!(find(&dir, "moved"), None);
    top.remove_dir(&root(), b"Dir", &mut pending).unwrap();
    assert_eq!(find(&top, "dir"), None);
}

#[test]
fn two_names_of_one_file_are_both_found_after_one_was_to_become_the_other() {
    let (_, volume) = volume();
    let (top, mut pending) = (export(&volume), PendingSync::default());
    let file = make(&top, "One");
    let dir = top.make_dir(&root(), b"Dir", &SetAttrs::default(), &mut pending).unwrap().file;
    top.link(&root(), &file, b"Two", &mut pending).unwrap();
    dir.link(&root(), &file, b"Three", &mut pending).unwrap();
    assert_eq!((find(&top, "none"), find(&dir, "none")), (None, None));
    top.rename(&root(), b"One", &top, b"Two", &mut pending).unwrap();
    top.rename(&root(), b"One", &dir, b"Three", &mut pending).unwrap();
    assert_eq!(find(&top, "ONE").as_deref(), Some("One"));
    assert_eq!(find(&top, "TWO").as_deref(), Some("Two"));
    assert_eq!(find(&dir, "THREE").as_deref(), Some("Three"));
}

#[test]
fn a_file_that_goes_with_its_last_open_is_found_no_more() {
    let (_, volume) = volume();
    let top = export(&volume);
    let file = make(&top, "Gone");
    assert_eq!(find(&top, "GONE").as_deref(), Some("Gone"));
    let holder = volume.claims().attach(Arc::new(Nobody));
    let access = Access { rights: Rights::DELETE, deny: Rights::NONE };
    let link = Link { parent: top.key(), name: b"Gone"[..].into(), listing: None };
    let request = OpenRequest {
        holder,
        stream: Stream::default(),
        access,
        truncates: false,
        is_mandatory: true,
        is_advisory: false,
        lease: None,
        reclaims: false,
        waits: false,
    };
    let Verdict::Granted(granted) = file.claim(&Request::Open(request)) else { panic!("it is nobody's") };
    let open = granted.open.unwrap();
    file.claim(&Request::DeleteOnClose { open, link });
    file.claim(&Request::Close(open));
    volume.expire_claims(volume.now()).unwrap();
    assert_eq!(find(&top, "GONE"), None);
}

struct Nobody;

impl vfs::claims::Holder for Nobody {
    fn deliver(&self, _: vfs::claims::Effect) {}
}

#[test]
fn change_by_another_process_is_seen() {
    let (_, volume) = volume();
    let top = export(&volume);
    make(&top, "Old");
    assert_eq!(find(&top, "NEW"), None);
    // Another volume over the same storage tells this one nothing.
    let (backend, other) = volume_pair();
    let (first, second) = (export(&backend), export(&other));
    assert_eq!(find(&first, "NEW"), None);
    make(&second, "New");
    assert_eq!(find(&first, "NEW").as_deref(), Some("New"));
}

fn volume_pair() -> (Arc<Volume>, Arc<Volume>) {
    let backend = Arc::new(MemFs::new(Arc::new(Time::default)));
    let of = |id| Volume::new(VolumeId(id), "v", Arc::clone(&backend) as _, Durability::Relaxed, 1);
    (Arc::new(of(1)), Arc::new(of(2)))
}

#[test]
fn a_directory_that_is_filled_is_listed_once() {
    let (faulty, volume) = volume();
    let top = export(&volume);
    let step = |name: &str| {
        let before = faulty.calls();
        assert_eq!(find(&top, name), None);
        make(&top, name);
        faulty.calls() - before
    };
    let first = step("File 0");
    let others: Vec<u64> = (1..100).map(|n| step(&format!("File {n}"))).collect();
    assert!(others.iter().all(|&calls| calls < first), "{first} calls, then {others:?}");
}

#[test]
fn caller_without_list_right_finds_exact_names_only() {
    let (_, volume) = volume();
    let (top, mut pending) = (export(&volume), PendingSync::default());
    let set = SetAttrs { mode: Some(0o711), ..SetAttrs::default() };
    let dir = top.make_dir(&root(), b"dir", &set, &mut pending).unwrap().file;
    make(&dir, "Secret");
    assert_eq!(find(&dir, "SECRET").as_deref(), Some("Secret"));
    let stranger = Caller::new(1000, 1000, []);
    assert_eq!(dir.find_ignoring_case(&stranger, b"SECRET", lower).unwrap(), None);
}
