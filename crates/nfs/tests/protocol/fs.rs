//! NULL, FSSTAT, FSINFO, PATHCONF.

use crate::support::{Auth, BOB, World, decode, trusting};
use nfs_wire::v3::{
    FsinfoOk, FsinfoReply, FsstatArgs, FsstatOk, FsstatReply, NfsTime, PathconfArgs, PathconfOk,
    PathconfReply, Procedure, Properties, Reply,
};
use vfs::Durability;
use vfs_testing::memfs;

#[test]
fn null_returns_nothing_to_any_caller() {
    let mut w = World::new();
    assert_eq!(w.ask(BOB, Procedure::NULL, &()), []);
    assert_eq!(w.ask(Auth::None, Procedure::NULL, &()), []);
}

#[test]
fn fsstat_returns_free_space() {
    let options = memfs::Options { bytes_total: 1 << 20, files_total: 50, ..memfs::Options::default() };
    let mut w = World::with(trusting(), Durability::Sync, options);
    let file = w.file(&w.root(), "file", 0o600, &[1; 5000]);
    let reply = w.ask(BOB, Procedure::FSSTAT, &FsstatArgs { fsroot: file.fh() });
    let free = (1 << 20) - 8192 - 1024;
    let ok = FsstatOk {
        obj_attributes: file.post(),
        tbytes: 1 << 20,
        fbytes: free,
        abytes: free,
        tfiles: 50,
        ffiles: 48,
        afiles: 48,
        invarsec: 0,
    };
    assert_eq!(decode::<FsstatReply>(&reply), Reply::Ok(ok));
}

#[test]
fn fsinfo_returns_the_limits() {
    let mut w = World::new();
    let root = w.root();
    let reply = w.ask(BOB, Procedure::FSINFO, &FsstatArgs { fsroot: root.fh() });
    let ok = FsinfoOk {
        obj_attributes: root.post(),
        rtmax: 1 << 20,
        rtpref: 1 << 20,
        rtmult: 4096,
        wtmax: 1 << 20,
        wtpref: 1 << 20,
        wtmult: 4096,
        dtpref: 65536,
        maxfilesize: (1 << 63) - 1,
        time_delta: NfsTime { seconds: 0, nseconds: 1 },
        properties: Properties(0x1b),
    };
    assert_eq!(decode::<FsinfoReply>(&reply), Reply::Ok(ok));
}

#[test]
fn pathconf_returns_the_rules_for_names() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o000, b"");
    let reply = w.ask(BOB, Procedure::PATHCONF, &PathconfArgs { object: file.fh() });
    let ok = PathconfOk {
        obj_attributes: file.post(),
        linkmax: 65_000,
        name_max: 255,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    };
    assert_eq!(decode::<PathconfReply>(&reply), Reply::Ok(ok));
}
