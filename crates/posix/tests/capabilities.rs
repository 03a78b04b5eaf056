//! Extended attributes and ranges that behave differently on some kernels: hidden attributes, and missing calls.
//!
//! Missing calls are simulated: this test program starts again with the calls forbidden. See the test `inner`.

mod fixture;

use fixture::{DIR, Ground, MODE, Tree, name, new_inode, run_again};
use posix::{Options, Store};
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::ops::ControlFlow;
use std::path::Path;
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, Blocking, FsError, NodeRef, Seek, SetXattr, Span, XattrName, Xattrs};
use vfs_testing::UncheckedNode;

fn xattrs(node: &NodeRef) -> &dyn Xattrs {
    node.xattrs().expect("extended attributes")
}

fn names(node: &NodeRef) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let end = xattrs(node).list(0, &mut |name, _| {
        names.push(name.bytes().to_vec());
        ControlFlow::Continue(())
    });
    assert_eq!(end, Ok(true));
    names.sort();
    names
}

#[test]
fn only_client_xattrs_are_listed_and_set() {
    for ground in [Ground::Tmpfs, Ground::Disk, Ground::Xfs, Ground::Btrfs] {
        let Some(tree) = Tree::new(ground) else { continue };
        let store = tree.open_with(Options { owner_attribute: true, ..Options::default() });
        let root = store.root();
        let file = store.file(&root, "file");
        let path = tree.path.join("file");
        let own = getxattr(&path, "user.plimsoll.owner", &mut [0; 100][..]).expect("our own attribute");
        setxattr(&path, "trusted.other", b"x", XattrFlags::empty()).expect("root sets it");
        setxattr(&path, "security.other", b"x", XattrFlags::empty()).expect("root sets it");
        assert_eq!(names(&file), [[0; 0]; 0], "{ground:?}");
        for text in ["owner", "user.plimsoll.owner", "trusted.other", "security.other", "other"] {
            let key = XattrName::new(text.as_bytes()).unwrap();
            assert_eq!(xattrs(&file).get(key), Err(FsError::NotFound), "{text} on {ground:?}");
            assert_eq!(
                xattrs(&file).remove(key, &|_| Ok(())),
                Err(FsError::NotFound),
                "{text} on {ground:?}"
            );
            xattrs(&file).set(key, b"mine", SetXattr::Create, &|_| Ok(())).unwrap();
        }
        assert_eq!(names(&file).len(), 5);
        let again = getxattr(&path, "user.plimsoll.owner", &mut [0; 100][..]);
        assert_eq!(again, Ok(own), "our own attribute stays on {ground:?}");
        assert_eq!(getxattr(&path, "trusted.other", &mut [0; 100][..]), Ok(1));
        assert_eq!(getxattr(&path, "user.trusted.other", &mut [0; 100][..]), Ok(4));
        let mut all = [0; 4096];
        let len = listxattr(&path, &mut all[..]).expect("a list");
        let all = all[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
        assert!(all.clone().any(|name| name == b"user.user.plimsoll.owner"));
        // An attribute set by another program belongs to clients too.
        setxattr(&path, "user.theirs", b"x", XattrFlags::empty()).expect("root sets it");
        assert!(names(&file).contains(&b"theirs".to_vec()));
    }
}

#[test]
fn copy_between_two_stores_of_one_tree_detects_overlap() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let [one, two] = [tree.open(), tree.open()];
    let file = one.file(&one.root(), "file");
    file.write(0, &[7; 10_000], KEEP_SET_ID).unwrap();
    let same = two.root().lookup(name("file"), Blocking::Allowed).unwrap().node;
    assert!(file.ranges().unwrap().shares_storage(&same));
    let span = |target| Span { source: 0, target, len: 8192 };
    let copy = |target| file.ranges().unwrap().copy_to(&same, &span(target), KEEP_SET_ID);
    assert_eq!(copy(4096).map(|(copied, _)| copied), Err(FsError::Invalid));
    assert_eq!(copy(10_000).map(|(copied, _)| copied), Ok(8192));
}

#[test]
fn copy_between_file_systems_succeeds() {
    let [here, there] = [Ground::Disk, Ground::Tmpfs].map(|ground| Tree::new(ground).unwrap());
    let [one, two] = [&here, &there].map(Tree::open);
    let (source, target) = (one.file(&one.root(), "file"), two.file(&two.root(), "file"));
    assert!(!source.ranges().unwrap().shares_storage(&target));
    let data: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    source.write(0, &data, KEEP_SET_ID).unwrap();
    let span = Span { source: 1, target: 10, len: u64::MAX };
    let copied = source.ranges().unwrap().copy_to(&target, &span, KEEP_SET_ID).map(|(copied, _)| copied);
    assert_eq!(copied, Ok(299_999));
    let got = target.read_vec(0, 300_010, Blocking::Allowed).unwrap();
    assert!(got[10..] == data[1..]);
    let clone = source.ranges().unwrap().clone_to(&target, &Span { len: 4096, ..span }, KEEP_SET_ID);
    assert!(
        matches!(clone, Err(FsError::CrossVolume | FsError::NotSupported | FsError::Invalid)),
        "{clone:?}"
    );
}

#[test]
fn ranges_without_kernel_support_are_emulated() {
    for ground in [Ground::Tmpfs, Ground::Disk] {
        let tree = Tree::new(ground).unwrap();
        run_again(&tree, "by-hand", &["--no-new-privs"]);
    }
}

fn forget_calls() {
    let unknown = SeccompAction::Errno(rustix::io::Errno::OPNOTSUPP.raw_os_error().unsigned_abs());
    let calls = [libc::SYS_fallocate, libc::SYS_copy_file_range].map(|call| (call, Vec::new())).into();
    let arch = std::env::consts::ARCH.try_into().expect("an architecture with seccomp");
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, unknown, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    seccompiler::apply_filter(&program).expect("seccomp");
}

#[test]
#[ignore = "run by the tests above in a restricted process"]
fn inner() {
    let dir = std::env::var_os(DIR).expect("started by another test");
    assert_eq!(std::env::var(MODE).as_deref(), Ok("by-hand"));
    forget_calls();
    let store = Store::open(Path::new(&dir), Options::default()).expect("a store");
    let file = store.root().create_unchecked(name("file"), &new_inode(0o644)).unwrap().found.node;
    let mut want = vec![7; 400_000];
    file.write(0, &want, KEEP_SET_ID).unwrap();
    let ranges = file.ranges().unwrap();
    ranges.punch(100, 200_000, KEEP_SET_ID).unwrap();
    ranges.zero(399_000, u64::MAX, KEEP_SET_ID).unwrap();
    want[100..200_100].fill(0);
    want[399_000..].fill(0);
    let copy = ranges.copy_to(&file, &Span { source: 200_000, target: 400_000, len: 199_000 }, KEEP_SET_ID);
    assert_eq!(copy.map(|(copied, _)| copied), Ok(199_000));
    want.extend_from_within(200_000..399_000);
    assert!(file.read_vec(0, want.len() + 1, Blocking::Allowed).unwrap() == want);
    assert_eq!(ranges.allocate(0, 10, KEEP_SET_ID), Err(FsError::NotSupported));
    // Clearing the end of a huge hole is fast, because only data is overwritten.
    let huge = vfs::SetAttrs { size: Some(1 << 40), ..vfs::SetAttrs::default() };
    let far = file.set_attrs(&huge).unwrap().after.size;
    ranges.punch(0, u64::MAX, KEEP_SET_ID).unwrap();
    assert_eq!(file.attrs(Blocking::Allowed).unwrap().size, far);
    assert!(matches!(ranges.seek(want.len() as u64 + 100_000, Seek::Data), Ok(None)));
}
