//! Modes of files created under a umask of zero, as a service has. The umask applies to the whole process, so this test
//! has its own.

use rustix::fs::Mode;
use stable::files::{self, PRIVATE, PRIVATE_DIR, PUBLIC, PUBLIC_DIR};
use stable::{Entries, RecordLog, TestDir};
use std::fs;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_file_created_with_umask_zero_has_its_explicit_mode() {
    rustix::process::umask(Mode::empty());
    let dir = TestDir::new();
    let at = |name: &str| dir.path().join(name);
    files::create_new(&at("private"), PRIVATE).unwrap();
    files::create_or_truncate(&at("public"), PUBLIC).unwrap();
    files::replace(&at("replaced"), &at("replaced.new"), PRIVATE, &[b"a", b"b"]).unwrap();
    files::make_dir(&at("dir"), PRIVATE_DIR).unwrap();
    files::make_dirs(&at("above/below"), PUBLIC_DIR).unwrap();
    let stable = dir.open();
    drop(RecordLog::<12, 8>::create(&stable, "log", b"PLMTESTS\0\0\0\x01", []).unwrap());
    Entries::open(&stable, "entries", b"PLMTESTS\0\0\0\x01").unwrap().store(1, b"one").unwrap();
    let mode = |name: &str| fs::symlink_metadata(at(name)).unwrap().mode() & 0o777;
    for (name, wanted) in [
        ("private", 0o600),
        ("public", 0o644),
        ("replaced", 0o600),
        ("dir", 0o700),
        ("above", 0o755),
        ("above/below", 0o755),
        ("log", 0o600),
        ("entries", 0o700),
        ("entries/0000000000000001", 0o600),
        (".", 0o700),
    ] {
        assert_eq!(mode(name), wanted, "{name}: {:o}", mode(name));
    }
    assert_eq!(fs::read(at("replaced")).unwrap(), b"ab");
    assert!(!at("replaced.new").exists());
}
