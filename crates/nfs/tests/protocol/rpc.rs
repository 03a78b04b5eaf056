//! The replies of RPC itself, RFC 5531 §9, as bytes.

use crate::support::{ALICE, Auth, PROGRAMS, World, call};
use nfs::programs::Programs;
use nfs::records::reply::Records;
use nfs::server::dispatch::route;
use nfs_wire::v3::{GetattrArgs, LookupArgs, Procedure, Status};
use transport::Outbox;
use xdr::Encode;

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const PORTMAP: u32 = 100_000;
const NSM: u32 = 100_024;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A call with AUTH_NONE and these arguments.
fn plain(program: u32, version: u32, procedure: u32, args: &[u32]) -> Vec<u8> {
    [words(&[7, 0, 2, program, version, procedure, 0, 0, 0, 0]), words(args)].concat()
}

/// A NULL call of NFS with this credential.
fn with_credential(flavor: u32, body: &[u32]) -> Vec<u8> {
    let length = u32::try_from(body.len() * 4).unwrap();
    [words(&[7, 0, 2, NFS, 3, 0, flavor, length]), words(body), words(&[0, 0])].concat()
}

/// `authsys_parms` with `count` groups, as words: stamp, name "a", uid, gid, groups.
fn auth_sys(count: u32) -> Vec<u32> {
    let mut body = vec![1, 1, u32::from_be_bytes(*b"a\0\0\0"), 1000, 100, count];
    body.extend(0..count);
    body
}

/// After the xid: REPLY, MSG_ACCEPTED, AUTH_NONE, no body, and the status.
fn accepted(rest: &[u32]) -> Vec<u8> {
    [words(&[7, 1, 0, 0, 0]), words(rest)].concat()
}

/// After the xid: REPLY, MSG_DENIED.
fn denied(rest: &[u32]) -> Vec<u8> {
    [words(&[7, 1, 1]), words(rest)].concat()
}

fn assert_answer(record: &[u8], expected: &[u8]) {
    assert_eq!(World::new().perform(record).as_deref(), Some(expected));
}

#[test]
fn another_rpc_version_is_a_mismatch() {
    for version in [0, 1, 3, u32::MAX] {
        // Nothing after the version can be decoded, so none of it has to be present.
        assert_answer(&words(&[7, 0, version]), &denied(&[0, 2, 2]));
        assert_answer(&words(&[7, 0, version, 1, 2, 3]), &denied(&[0, 2, 2]));
    }
}

#[test]
fn unknown_programs_versions_and_procedures_are_unavailable() {
    for program in [0, 1, 100_001, 100_002, 100_020, 100_227, u32::MAX] {
        assert_answer(&plain(program, 3, 0, &[]), &accepted(&[1]));
    }
    for version in [0, 1, 2, 5, u32::MAX] {
        assert_answer(&plain(NFS, version, 0, &[]), &accepted(&[2, 3, 4]));
    }
    assert_answer(&plain(NFS, 4, 0, &[]), &accepted(&[0]));
    assert_answer(&plain(NFS, 4, 2, &[]), &accepted(&[3]));
    for version in [0, 4, u32::MAX] {
        assert_answer(&plain(MOUNT, version, 0, &[]), &accepted(&[2, 1, 3]));
    }
    for version in [0, 1, 5] {
        assert_answer(&plain(PORTMAP, version, 0, &[]), &accepted(&[2, 2, 4]));
    }
    for version in [0, 2, u32::MAX] {
        assert_answer(&plain(NSM, version, 0, &[]), &accepted(&[2, 1, 1]));
    }
    for procedure in [22, 23, u32::MAX] {
        assert_answer(&plain(NFS, 3, procedure, &[1, 2, 3]), &accepted(&[3]));
    }
}

#[test]
fn a_listener_serves_its_programs_only() {
    let nfs_only = Programs { nfs: true, ..Programs::default() };
    for (programs, program, version) in
        [(nfs_only, MOUNT, 3), (nfs_only, PORTMAP, 2), (Programs { nfs: false, ..PROGRAMS }, NFS, 3)]
    {
        let mut out = Outbox::default();
        let record = plain(program, version, 0, &[]);
        assert!(route(programs, &record, None, &mut out).unwrap().is_none());
        let start = Outbox::default().start();
        assert_eq!(out.record(start), Some(&accepted(&[1])[..]), "program {program} unavailable");
    }
}

#[test]
fn credentials_are_accepted_or_denied_by_flavor() {
    let success = accepted(&[0]);
    assert_answer(&with_credential(0, &[]), &success);
    assert_answer(&with_credential(0, &[1, 2, 3]), &success);
    for count in 0..=16 {
        assert_answer(&with_credential(1, &auth_sys(count)), &success);
    }
    let [bad, rejected] = [1, 2].map(|stat| denied(&[1, stat]));
    assert_answer(&with_credential(1, &auth_sys(17)), &bad);
    assert_answer(&with_credential(1, &[]), &bad);
    assert_answer(&with_credential(1, &auth_sys(3)[..7]), &bad);
    assert_answer(&with_credential(1, &[1, 256]), &bad);
    assert_answer(&with_credential(1, &[1, 1, 0, 0, 0, u32::MAX]), &bad);
    // AUTH_SHORT, AUTH_DH, RPCSEC_GSS (a first INIT), and an undefined flavor.
    for flavor in [2, 3, 6, 390_003, u32::MAX] {
        assert_answer(&with_credential(flavor, &[1, 1, 0, 1, 0]), &rejected);
    }
}

#[test]
fn the_groups_of_a_credential_grant_access() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o640, b"x");
    let args = nfs_wire::v3::ReadArgs { file: file.fh(), offset: 0, count: 1 };
    let outsider = Auth::Sys(9, 9, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    let member = Auth::Sys(9, 9, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 100]);
    assert_eq!(w.ask(outsider, Procedure::READ, &args)[..4], Status::ACCES.to_bytes());
    assert_eq!(w.ask(member, Procedure::READ, &args)[..4], Status::OK.to_bytes(), "the sixteenth group");
}

#[test]
fn arguments_that_do_not_decode_are_garbage() {
    let mut w = World::new();
    let root = w.root();
    let getattr = call(7, ALICE, Procedure::GETATTR, &GetattrArgs { object: root.fh() });
    let whole = getattr.len();
    let head = whole - GetattrArgs { object: root.fh() }.to_bytes().len();
    for length in head..whole {
        assert_eq!(w.perform(&getattr[..length]), Some(accepted(&[4])), "{length} bytes");
    }
    // A handle above 64 bytes; a name above any bound; a boolean of 2; a closed enum's unknown value.
    assert_answer(&plain(NFS, 3, 1, &[[65].as_slice(), &[0; 17]].concat()), &accepted(&[4]));
    assert_answer(&plain(NFS, 3, 3, &[4, 0, 4097]), &accepted(&[4]));
    assert_answer(&plain(NFS, 3, 2, &[4, 0, 2]), &accepted(&[4]));
    assert_answer(&plain(NFS, 3, 7, &[4, 0, 0, 0, 0, 3, 0]), &accepted(&[4]));
    assert_answer(&plain(NFS, 3, 8, &[4, 0, 1, 0, 3]), &accepted(&[4]));
    assert_answer(&plain(NFS, 3, 7, &[4, 0, 0, 0, 4, 0, u32::MAX, 0]), &accepted(&[4]));
    for procedure in 1..=21 {
        assert_answer(&plain(NFS, 3, procedure, &[]), &accepted(&[4]));
    }
}

#[test]
fn bytes_after_the_arguments_are_ignored() {
    let mut w = World::new();
    let root = w.root();
    let record = call(7, ALICE, Procedure::LOOKUP, &LookupArgs { what: root.at(b".") });
    let expected = w.perform(&record).unwrap();
    for extra in [&[0][..], &[1, 2, 3, 4], &[0xff; 100]] {
        assert_eq!(w.perform(&[&record[..], extra].concat()).as_ref(), Some(&expected));
    }
    assert_answer(&plain(NFS, 3, 0, &[1, 2, 3]), &accepted(&[0]));
}

#[test]
fn datagrams_that_are_not_calls_get_no_reply() {
    let whole = with_credential(1, &auth_sys(16));
    let mut out = Outbox::default();
    for length in 0..whole.len() {
        assert!(route(PROGRAMS, &whole[..length], None, &mut out).is_err(), "{length} bytes");
    }
    assert!(route(PROGRAMS, &words(&[7, 1, 0, 0, 0, 0]), None, &mut out).is_err(), "a reply");
    assert!(route(PROGRAMS, &words(&[7, 2, 2, NFS, 3, 0, 0, 0, 0, 0]), None, &mut out).is_err());
    let long_credential = [words(&[7, 0, 2, NFS, 3, 0, 1, 404]), vec![0; 404], words(&[0, 0])].concat();
    assert!(route(PROGRAMS, &long_credential, None, &mut out).is_err());
    assert!(out.is_empty());
}
