//! The backend conformance suite on each file system and in each mode.
//!
//! The modes without privileges run for real: this test program starts again without capabilities or under other ids,
//! and runs the hidden test `inner` on a directory named in its environment.

mod fixture;

use fixture::{AS_NOBODY, DIR, GROUNDS, Ground, MODE, NOBODY, Tree, run_again, set_acl};
use posix::{Options, Store};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use vfs::Backend;
use vfs_testing::conformance::{Fixture, Lack, run};

fn lacks_of(path: &Path) -> &'static [(Lack, &'static str)] {
    let magic = rustix::fs::statfs(path).expect("a file system").f_type;
    match u32::try_from(magic).expect("a magic number") {
        0x0102_1994 => TMPFS,
        0xef53 => EXT4,
        0x5846_5342 => XFS,
        0x9123_683e => BTRFS,
        _ => &[],
    }
}

fn run_in(path: &Path, options: &Options, lacks: &[(Lack, &'static str)]) {
    let next = AtomicU32::new(0);
    let lacks = [lacks_of(path), lacks].concat();
    run(&|| {
        let dir = path.join(format!("fixture-{}", next.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir(&dir).expect("a directory");
        let open = {
            let (options, dir) = (options.clone(), dir.clone());
            move || Store::open(&dir, options.clone()).expect("a store") as Arc<dyn Backend>
        };
        let fixture = Fixture::new(open()).reopened_by(Box::new(open));
        let fixture = fixture.with_acls_set_by(Box::new(move |path, kind, acl| {
            set_acl(&dir.join(path), kind, acl);
        }));
        lacks.iter().fold(fixture, |fixture, &(lack, reason)| fixture.without(lack, reason))
    });
}

const TMPFS: &[(Lack, &str)] = &[(Lack::Clones, "tmpfs shares no blocks")];
const EXT4: &[(Lack, &str)] = &[
    (Lack::Clones, "ext4 shares no blocks"),
    (Lack::LargeXattrs, "ext4 keeps the attributes of a file in its inode and one block"),
];
const BTRFS: &[(Lack, &str)] = &[
    (Lack::DirectoryLinks, "a directory of btrfs has one link"),
    (Lack::LargeXattrs, "btrfs keeps an attribute in one node of its tree"),
];
const XFS: &[(Lack, &str)] = &[
    (Lack::LargeDevices, "XFS refuses them with EINVAL"),
    (Lack::LongTargets, "XFS keeps 1,023 bytes (XFS_SYMLINK_MAXLEN)"),
];
const WITHOUT_ATTRIBUTE: &[(Lack, &str)] =
    &[(Lack::SpecialOwners, "only regular files and directories carry the extended attribute")];
const WITHOUT_ROOT: &[(Lack, &str)] = &[
    (Lack::Devices, "mknod(2) of a device needs CAP_MKNOD"),
    (Lack::SpecialOwners, "only regular files and directories carry the extended attribute"),
];

#[test]
fn suite_by_handle() {
    for ground in GROUNDS.into_iter().chain([Ground::Btrfs]) {
        let Some(tree) = Tree::new(ground) else { continue };
        eprintln!("by handle on {ground:?}");
        let store = tree.open();
        assert!(!store.uses_index() && !store.uses_owner_attribute());
        run_in(&tree.path, &Options::default(), &[]);
    }
}

#[test]
fn suite_by_index() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        eprintln!("by index on {ground:?}");
        run_in(&tree.path, &Options { index: true, ..Options::default() }, &[]);
    }
}

#[test]
fn suite_with_owner_attribute() {
    for ground in GROUNDS.into_iter().chain([Ground::Btrfs]) {
        let Some(tree) = Tree::new(ground) else { continue };
        eprintln!("with the owner attribute on {ground:?}");
        run_in(&tree.path, &Options { owner_attribute: true, ..Options::default() }, WITHOUT_ATTRIBUTE);
    }
}

#[test]
fn suite_without_open_by_handle() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        run_again(&tree, "no-handle", &["--bounding-set", "-dac_read_search"]);
    }
}

#[test]
fn suite_without_acting_as_others() {
    let Some(tree) = Tree::new(Ground::Disk) else { return };
    run_again(&tree, "no-acting", &["--bounding-set", "-setpcap"]);
}

#[test]
fn suite_as_ordinary_user() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        tree.give_to(NOBODY);
        run_again(&tree, "ordinary", &AS_NOBODY);
    }
}

#[test]
fn suite_on_old_kernel() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        run_again(&tree, "old-kernel", &["--no-new-privs"]);
    }
}

/// Hides the system calls of Linux 5.6 to 6.6 from this thread and its children, as an old kernel or a sandbox would.
fn forget_new_calls() {
    const OPENAT2: i64 = 437;
    const CACHESTAT: i64 = 451;
    const FCHMODAT2: i64 = 452;
    let unknown = SeccompAction::Errno(rustix::io::Errno::NOSYS.raw_os_error().unsigned_abs());
    let calls = [OPENAT2, CACHESTAT, FCHMODAT2].map(|call| (call, Vec::new())).into();
    let arch = std::env::consts::ARCH.try_into().expect("an architecture with seccomp");
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, unknown, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    seccompiler::apply_filter(&program).expect("seccomp");
    let refused = rustix::fs::openat2(
        rustix::fs::CWD,
        ".",
        rustix::fs::OFlags::PATH,
        rustix::fs::Mode::empty(),
        rustix::fs::ResolveFlags::empty(),
    );
    assert_eq!(refused.err(), Some(rustix::io::Errno::NOSYS));
}

#[test]
#[ignore = "run by the tests above in a restricted process"]
fn inner() {
    let dir = std::env::var_os(DIR).expect("started by another test");
    let path = Path::new(&dir);
    let mode = std::env::var(MODE);
    if mode.as_deref() == Ok("old-kernel") {
        forget_new_calls();
    }
    let store = Store::open(path, Options::default()).expect("a store");
    let found = (store.uses_index(), store.uses_owner_attribute());
    let (expected, lacks): (_, &[_]) = match mode.as_deref() {
        Ok("no-handle") => ((true, false), &[]),
        Ok("no-acting" | "old-kernel") => ((false, false), &[]),
        Ok("ordinary") => ((true, true), WITHOUT_ROOT),
        other => panic!("no such mode: {other:?}"),
    };
    assert_eq!(found, expected);
    run_in(path, &Options::default(), lacks);
}
