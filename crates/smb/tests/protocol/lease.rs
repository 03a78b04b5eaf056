//! Leases: grants, breaks and acknowledgments (MS-SMB2 §3.3.4.7, §3.3.5.9.8, §3.3.5.22.2).

use crate::rig::{ALICE, BOB, Client, Offer, Opening, Rig, SHARE, lease, lease_v2, state};
use smb_wire::create::{CreateAction, CreateDisposition, OplockLevel};
use smb_wire::header::Command;
use smb_wire::lease::{Lease, LeaseFlags};
use smb_wire::negotiate::Capabilities;
use smb_wire::types::{AccessMask, Dialect};
use smb_wire::{Guid, NtStatus};
use std::sync::Arc;
use vfs::{Export, ExportId, ExportRule, Namespace, Protection, Wait};

#[test]
fn only_valid_lease_states_are_granted() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for (wants, gets) in
        [("R", "R"), ("RH", "RH"), ("RW", "RW"), ("RWH", "RWH"), ("H", ""), ("W", ""), ("WH", ""), ("", "")]
    {
        let open = client.open_lease("file", Opening::default(), lease(1, wants));
        open.assert_state(gets);
        assert!(matches!(open.lease, Some(Lease::V1(_))));
        client.close(open.file_id);
    }
}

#[test]
fn lease_needs_context_and_level() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.ask("file", Opening::default(), OplockLevel::LEASE, None);
    let without = crate::rig::granted(&client.reply());
    assert_eq!((without.level, without.lease), (OplockLevel::NONE, None));
    client.ask("file", Opening::default(), OplockLevel::NONE, Some(lease(1, "RWH")));
    let with = crate::rig::granted(&client.reply());
    assert_eq!((with.level, with.lease), (OplockLevel::NONE, None));
    // The second version needs 3.0.
    let mut old = rig.alice_with(&Offer::of(Dialect::SMB210));
    let second = old.open_lease("other", Opening::default(), lease_v2(2, "RWH", 7, None));
    assert_eq!((second.level, second.lease), (OplockLevel::NONE, None));
    old.open_lease("other", Opening::default(), lease(2, "R")).assert_state("R");
}

#[test]
fn lease_is_shared_by_a_clients_connections() {
    let rig = Rig::new();
    let (mut one, mut same, mut other) = (rig.alice_at(1), rig.alice_at(1), rig.alice_at(2));
    one.open_lease("file", Opening::default(), lease(1, "RWH")).assert_state("RWH");
    let again = same.open_lease("file", Opening::default(), lease(1, "R"));
    again.assert_state("RWH");
    same.write(again.file_id, 0, b"mine");
    one.assert_quiet();
    // The same key from another client is another lease.
    other.ask("file", Opening::default(), OplockLevel::LEASE, Some(lease(1, "RWH")));
    one.assert_lease_break(1, "RWH", "RH", true);
    assert_eq!(other.reply().status(), NtStatus::PENDING);
    assert_eq!(same.acknowledge_lease(1, "RH"), NtStatus::SUCCESS, "any connection answers");
    crate::rig::granted(&other.reply()).assert_state("RH");
    // The lease outlives its first connection.
    drop(one);
    let theirs = other.open_lease("file", Opening::default(), lease(1, "RH"));
    let write = other.request(Command::WRITE, &crate::rig::write(theirs.file_id, 0, b"anew"));
    other.send_protected(write);
    same.assert_lease_break(1, "RH", "", true);
    assert_eq!(same.data(again.file_id, 0, 8), b"mine", "nothing was written yet");
    assert_eq!(same.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    assert_eq!(other.reply().status(), NtStatus::SUCCESS);
    assert_eq!(same.data(again.file_id, 0, 8), b"anew");
}

/// A connection may be lost while a break is sent over it by a thread that changes the file. Another thread then closes
/// its opens.
#[test]
fn connection_lost_during_break_blocks_no_client() {
    let lose_some = || {
        let rig = Rig::new();
        let (mut same, mut other) = (rig.alice_at(1), rig.alice_at(2));
        let theirs = other.open_lease("file", Opening::default(), lease(1, "R")).file_id;
        for round in 0..32 {
            let mut one = rig.alice_at(1);
            one.open_lease("file", Opening::default(), lease(1, "RH")).assert_state("RH");
            let mine = same.open_lease("file", Opening::default(), lease(1, "RH")).file_id;
            drop(one);
            let write = other.request(Command::WRITE, &crate::rig::write(theirs, 0, &[round]));
            other.send_protected(write);
            same.assert_lease_break(1, "RH", "", true);
            assert_eq!(same.acknowledge_lease(1, ""), NtStatus::SUCCESS);
            assert_eq!(other.reply().status(), NtStatus::SUCCESS);
            assert_eq!(same.data(mine, 0, 1), [round]);
            same.close(mine);
        }
    };
    // Several threads at once, so that they preempt each other.
    std::thread::scope(|scope| (0..6).for_each(|_| _ = scope.spawn(lose_some)));
}

#[test]
fn lease_key_belongs_to_one_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("there", b"data");
    let mine = client.open_lease("file", Opening::default(), lease(1, "RWH"));
    for path in ["there", "new"] {
        client.ask(path, Opening::default(), OplockLevel::LEASE, Some(lease(1, "R")));
        client.reply().assert_refused(NtStatus::INVALID_PARAMETER);
    }
    client.ask("there", Opening::by(CreateDisposition::OVERWRITE), OplockLevel::LEASE, Some(lease(1, "R")));
    client.reply().assert_refused(NtStatus::INVALID_PARAMETER);
    assert_eq!(client.get("there"), b"data");
    assert_eq!(client.action("new", Opening::by(CreateDisposition::CREATE)), Ok(CreateAction::CREATED));
    client.close(mine.file_id);
    client.open_lease("there", Opening::default(), lease(1, "RWH")).assert_state("RWH");
}

#[test]
fn lease_v2_epoch_continues_from_client() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    let opening = Opening::default();
    let Some(Lease::V2(first)) = one.open_lease("file", opening, lease_v2(1, "RH", 0x7777, Some(5))).lease
    else {
        panic!("a lease of the second version")
    };
    assert_eq!((first.epoch, first.lease_state), (0x7778, state("RH")));
    assert_eq!((first.flags, first.parent_lease_key), (LeaseFlags::PARENT_LEASE_KEY_SET, crate::rig::key(5)));
    let Some(Lease::V2(more)) = one.open_lease("file", opening, lease_v2(1, "RWH", 0, None)).lease else {
        panic!("a lease of the second version")
    };
    assert_eq!((more.epoch, more.lease_state, more.flags), (0x7779, state("RWH"), LeaseFlags::empty()));
    two.ask("file", opening, OplockLevel::NONE, None);
    let told = one.lease_break();
    assert_eq!((told.new_epoch, told.new_lease_state), (0x777a, state("RH")));
    // An open during a break gets BREAK_IN_PROGRESS.
    let Some(Lease::V2(meanwhile)) = one.open_lease("file", opening, lease_v2(1, "R", 0, None)).lease else {
        panic!("a lease of the second version")
    };
    assert_eq!(meanwhile.flags, LeaseFlags::BREAK_IN_PROGRESS);
}

#[test]
fn invalid_acknowledgments_change_nothing() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    one.open_lease("file", Opening::default(), lease(1, "RWH"));
    assert_eq!(one.acknowledge_lease(1, "RH"), NtStatus::UNSUCCESSFUL, "no break is in progress");
    assert_eq!(one.acknowledge_lease(2, "RH"), NtStatus::OBJECT_NAME_NOT_FOUND);
    two.ask("file", Opening::default(), OplockLevel::NONE, None);
    one.assert_lease_break(1, "RWH", "RH", true);
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    // Another client with the same key; another user who knows the client GUID and the key.
    assert_eq!(two.acknowledge_lease(1, ""), NtStatus::OBJECT_NAME_NOT_FOUND);
    let mut bob = rig.connect();
    bob.negotiate(&Offer { client_guid: Guid([1; 16]), ..Offer::default() });
    bob.log_on(BOB);
    bob.mount(SHARE);
    assert_eq!(bob.acknowledge_lease(1, ""), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(one.acknowledge_lease(1, "RWH"), NtStatus::REQUEST_NOT_ACCEPTED, "more than it may keep");
    two.assert_quiet();
    assert_eq!(one.acknowledge_lease(1, "R"), NtStatus::SUCCESS, "less is as well");
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
    assert_eq!(one.acknowledge_lease(1, "R"), NtStatus::UNSUCCESSFUL, "it was answered");
}

#[test]
fn leases_of_users_are_separate_despite_equal_guid_and_key() {
    let rig = Rig::new();
    let mut alice = rig.alice_at(1);
    alice.open_lease("file", Opening::default(), lease(1, "RWH"));
    let mut bob = rig.connect();
    bob.negotiate(&Offer { client_guid: Guid([1; 16]), ..Offer::default() });
    bob.log_on(BOB);
    bob.mount(SHARE);
    let access = smb_wire::types::AccessMask::GENERIC_READ;
    bob.ask("file", Opening { access, ..Opening::default() }, OplockLevel::LEASE, Some(lease(1, "R")));
    alice.assert_lease_break(1, "RWH", "RH", true);
    // Its key may also name another file.
    let mut again = rig.connect();
    again.negotiate(&Offer { client_guid: Guid([3; 16]), ..Offer::default() });
    again.log_on(ALICE);
    again.mount(SHARE);
    again.open_lease("another", Opening::default(), lease(1, "R")).assert_state("R");
}

#[test]
fn break_of_encrypted_request_is_encrypted() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    one.seals = true;
    one.open_lease("file", Opening::default(), lease(1, "RWH"));
    two.ask("file", Opening::default(), OplockLevel::NONE, None);
    one.assert_lease_break(1, "RWH", "RH", true);
}

/// After one encrypted request for a lease, every break of it is encrypted.
#[test]
fn lease_requested_encrypted_once_is_broken_encrypted() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    one.open_lease("file", Opening::default(), lease(1, "RWH"));
    one.seals = true;
    one.open_lease("file", Opening::default(), lease(1, "RWH"));
    two.ask("file", Opening::default(), OplockLevel::NONE, None);
    one.assert_lease_break(1, "RWH", "RH", true);
}

#[test]
fn lease_break_moves_to_another_channel() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    let mut channel = rig.connect();
    channel.negotiate(&Offer { client_guid: Guid([1; 16]), ..Offer::default() });
    channel.bind(&one, ALICE).unwrap();
    one.open_lease("file", Opening::default(), lease(1, "RWH"));
    drop(one);
    crate::rig::wait_until(|| rig.connections() == 2);
    two.ask("file", Opening::default(), OplockLevel::NONE, None);
    channel.assert_lease_break(1, "RWH", "RH", true);
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    assert_eq!(channel.acknowledge_lease(1, "RH"), NtStatus::SUCCESS);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
}

/// Callers of other protocols without opens.
#[test]
fn other_protocols_wait_for_lease_break() {
    let rig = Rig::new();
    let mut client = rig.alice_at(1);
    let open = client.open_lease("file", Opening::default(), lease(1, "RWH"));
    client.write(open.file_id, 0, b"data");
    let caller = vfs::Caller::new(0, 0, []);
    let file = crate::cross_protocol::find(&rig, b"file");
    let read = || {
        let (opened, _) = file.open(&caller, vfs::Access::READ, vfs::Blocking::Allowed).unwrap();
        let mut data = Vec::new();
        opened.read(0, 16, &mut data, vfs::Blocking::Allowed).map(|_| data)
    };
    let write = || {
        let (opened, _) = file.open(&caller, vfs::Access::WRITE, vfs::Blocking::Allowed).unwrap();
        let mut pending = vfs::PendingSync::default();
        opened.write(0, b"anew", vfs::Stability::File, &mut pending).map(|_| ())
    };
    assert_eq!(read(), Err(vfs::FsError::Wait(Wait::Recall)));
    client.assert_lease_break(1, "RWH", "RH", true);
    client.write(open.file_id, 0, b"late");
    assert_eq!(read(), Err(vfs::FsError::Wait(Wait::Recall)), "it was not answered yet");
    assert_eq!(client.acknowledge_lease(1, "RH"), NtStatus::SUCCESS);
    assert_eq!(read(), Ok(b"late".to_vec()));
    assert_eq!(write(), Err(vfs::FsError::Wait(Wait::Recall)));
    client.assert_lease_break(1, "RH", "", true);
    assert_eq!(client.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    assert_eq!(write(), Ok(()));
    assert_eq!(client.data(open.file_id, 0, 8), b"anew");
}

#[test]
fn directory_lease_breaks_on_foreign_change() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    let dir = one.open_lease("dir", Opening::dir(), lease_v2(1, "RWH", 0, None));
    dir.assert_state("RH");
    // Its own change, identified by the parent key.
    one.open_lease("dir\\mine", Opening::default(), lease_v2(2, "RWH", 0, Some(1)));
    one.assert_quiet();
    // Only keys are compared (MS-FSA 2.1.4.12.2): another client of the user knows this one.
    two.open_lease("dir\\theirs", Opening::default(), lease_v2(2, "RWH", 0, Some(1)));
    one.assert_quiet();
    two.open_lease("dir\\others", Opening::default(), lease_v2(3, "RWH", 0, Some(9)));
    one.assert_lease_break(1, "RH", "", true);
    assert_eq!(one.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    one.close(dir.file_id);
    // A change of a listed attribute, without a parent key.
    one.open_lease("dir", Opening::dir(), lease_v2(1, "RH", 7, None)).assert_state("RH");
    let theirs = two.open("dir\\more", Opening::default());
    one.assert_lease_break(1, "RH", "", true);
    two.close(theirs);
    // The first version has no directory leases.
    two.put("dir\\file", b"data");
    let first = two.open_lease("dir", Opening::dir(), lease(9, "RH"));
    assert_eq!((first.level, first.lease), (OplockLevel::NONE, None));
}

#[test]
fn client_without_directory_leases_has_file_leases() {
    let rig = Rig::new();
    for dialect in [Dialect::SMB300, Dialect::SMB302, Dialect::SMB311] {
        let capabilities = Capabilities::LARGE_MTU | Capabilities::ENCRYPTION;
        let mut client = rig.alice_with(&Offer { capabilities, ..Offer::of(dialect) });
        let file = client.open_lease("file", Opening::default(), lease_v2(1, "RWH", 7, None));
        file.assert_state("RWH");
        assert!(matches!(file.lease, Some(Lease::V2(_))));
        let dir = client.open_lease("dir", Opening::dir(), lease_v2(2, "RH", 7, None));
        assert_eq!((dir.level, dir.lease), (OplockLevel::NONE, None), "{dialect:?}");
        client.close(file.file_id);
        client.close(dir.file_id);
    }
}

/// A directory that is writable by all, and the client with lease 1 of it.
fn listed(rig: &Rig) -> Client {
    let mut client = rig.alice_at(1);
    let dir = client.open("dir", Opening::dir());
    client.close(dir);
    let set = vfs::SetAttrs { mode: Some(0o777), ..vfs::SetAttrs::default() };
    let dir = crate::cross_protocol::find(rig, b"dir");
    dir.set_attrs(&vfs::Caller::new(0, 0, []), &set, None, &mut vfs::PendingSync::default()).unwrap();
    let opening = Opening { access: AccessMask::LIST_DIRECTORY, ..Opening::dir() };
    client.open_lease("dir", opening, lease_v2(1, "RH", 0, None)).assert_state("RH");
    client
}

#[test]
fn parent_key_of_another_user_breaks_directory_lease() {
    let rig = Rig::new();
    let mut alice = listed(&rig);
    let mut bob = rig.connect();
    bob.negotiate(&Offer { client_guid: Guid([1; 16]), ..Offer::default() });
    bob.log_on(BOB);
    bob.mount(SHARE);
    bob.open_lease("dir\\file", Opening::default(), lease_v2(2, "RWH", 0, Some(1)));
    alice.assert_lease_break(1, "RH", "", true);
}

#[test]
fn directory_lease_breaks_when_written_file_closes() {
    let rig = Rig::new();
    let (mut one, mut two) = (listed(&rig), rig.alice_at(2));
    let theirs = two.open_lease("dir\\file", Opening::default(), lease_v2(2, "RWH", 0, Some(1))).file_id;
    let unknown = two.open_lease("dir\\file", Opening::default(), lease_v2(2, "RWH", 0, None)).file_id;
    two.write(theirs, 0, b"data");
    two.close(theirs);
    one.assert_quiet();
    two.write(unknown, 0, b"data");
    one.assert_quiet();
    two.close(unknown);
    one.assert_lease_break(1, "RH", "", true);
}

#[test]
fn own_change_is_answered_before_directory_break() {
    let rig = Rig::new();
    let mut client = listed(&rig);
    let file = client.open_lease("dir\\a", Opening::default(), lease_v2(2, "RWH", 0, Some(1))).file_id;
    client.close(file);
    let file = client.open_lease("dir\\a", Opening::default(), lease_v2(2, "RWH", 0, Some(9))).file_id;
    assert_eq!(crate::file_information::rename(&mut client, file, "dir\\b", false), NtStatus::SUCCESS);
    client.assert_lease_break(1, "RH", "", true);
    // Its own lease of the file does not block a hard link.
    assert_eq!(client.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    assert_eq!(crate::rename::link(&mut client, file, "dir\\c"), NtStatus::SUCCESS);
    client.assert_quiet();
}

#[test]
fn delete_on_close_breaks_listings_by_parent_key() {
    let rig = Rig::new();
    for (closes_last, breaks) in [(1, false), (9, true)] {
        let mut client = listed(&rig);
        let mut open = |key, parent| {
            client.open_lease("dir\\file", Opening::default(), lease_v2(key, "R", 0, Some(parent))).file_id
        };
        let (first, last) = (open(2, 1), open(3, closes_last));
        // The file was created with the right parent key, and opened again with another.
        assert_eq!(crate::file_information::dispose(&mut client, first, true), NtStatus::SUCCESS);
        client.close(first);
        client.assert_quiet();
        assert_eq!(client.close(last).status(), NtStatus::SUCCESS);
        if breaks {
            client.assert_lease_break(1, "RH", "", true);
        }
        client.assert_quiet();
    }
}

#[test]
fn lease_keeps_its_first_version() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    one.open_lease("second", Opening::default(), lease_v2(1, "R", 7, None));
    let again = one.open_lease("second", Opening::default(), lease(1, "RWH"));
    let Some(Lease::V2(second)) = again.lease else { panic!("a lease of the second version") };
    assert_eq!((second.lease_state, second.epoch), (state("RWH"), 9));
    two.ask("second", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(one.lease_break().new_epoch, 10);
    one.open_lease("first", Opening::default(), lease(2, "R"));
    let again = one.open_lease("first", Opening::default(), lease_v2(2, "RWH", 7, None));
    let Some(Lease::V1(first)) = again.lease else { panic!("a lease of the first version") };
    assert_eq!(first.lease_state, state("RWH"));
    two.ask("first", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(one.lease_break().new_epoch, 0);
}

#[test]
fn attribute_and_descriptor_opens_break_no_lease() {
    let rig = Rig::new();
    let breaks = [
        (AccessMask::READ_ATTRIBUTES | AccessMask::WRITE_ATTRIBUTES, false),
        (AccessMask::READ_CONTROL | AccessMask::SYNCHRONIZE, false),
        (AccessMask::READ_EA, true),
        (AccessMask::WRITE_EA, true),
        (AccessMask::WRITE_DAC, true),
        (AccessMask::WRITE_OWNER, true),
        (AccessMask::DELETE, true),
    ];
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    for (number, (access, breaks)) in (1..).zip(breaks) {
        let path = &format!("file{number}");
        let mine = one.open_lease(path, Opening::default(), lease(number, "RWH"));
        two.ask(path, Opening { access, ..Opening::by(CreateDisposition::OPEN) }, OplockLevel::NONE, None);
        if breaks {
            one.assert_lease_break(number, "RWH", "RH", true);
            assert_eq!(two.reply().status(), NtStatus::PENDING);
        }
        one.assert_quiet();
        one.close(mine.file_id);
        assert_eq!(two.reply().status(), NtStatus::SUCCESS);
    }
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let mine = one.open_oplock("oplock", Opening::default(), OplockLevel::BATCH);
    let access = AccessMask::READ_CONTROL;
    two.ask("oplock", Opening { access, ..Opening::by(CreateDisposition::OPEN) }, OplockLevel::NONE, None);
    assert_eq!(one.oplock_break().file_id, mine.file_id, "of oplocks, more goes");
    // Reading the descriptor still needs a sharing check.
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    let opening = |access| Opening { access, ..Opening::default() };
    two.open("other", opening(AccessMask::READ_ATTRIBUTES));
    one.open_lease("other", Opening::default(), lease(1, "RWH")).assert_state("RWH");
    two.open("third", opening(AccessMask::READ_CONTROL));
    one.open_lease("third", Opening::default(), lease(2, "RWH")).assert_state("RH");
}

/// A second share of [`SHARE`]'s volume, with required encryption.
const SECRET: &str = "secret";

fn with_secret_share() -> Rig {
    let rig = Rig::new();
    let mut rule = ExportRule::everybody();
    rule.protection = Protection::Encrypted;
    let docs = Arc::clone(&rig.namespace.load().exports()[0]);
    let secret = Export::new("/secret", Arc::clone(&rig.volume), vec![rule]);
    let secret = Arc::new(Export { id: ExportId(0x0303), ..secret });
    rig.namespace.store(Arc::new(Namespace::new([docs, secret])));
    rig
}

/// Opens a file with a lease, through the encrypted share or the plain one.
fn open_in(client: &mut Client, share: &str) {
    client.seals = false;
    client.mount(share);
    client.seals = share == SECRET;
    client.open_lease("file", Opening::default(), lease(1, "RWH")).assert_state("RWH");
}

/// A lease spans all shares of a volume: a plain break would disclose an encrypted open.
#[test]
fn break_of_lease_shared_with_encrypted_share_is_encrypted() {
    let rig = with_secret_share();
    for shares in [&[SHARE][..], &[SHARE, SECRET], &[SECRET, SHARE], &[SECRET]] {
        for is_one_session in [true, false] {
            let mut one = rig.alice_at(1);
            open_in(&mut one, shares[0]);
            // A second session of the same client has the lease too, or alone, through the other share.
            let mut same = rig.alice_at(1);
            if let Some(second) = shares.get(1) {
                open_in(if is_one_session { &mut one } else { &mut same }, second);
            }
            let mut other = rig.alice_at(2);
            other.ask("file", Opening::default(), OplockLevel::NONE, None);
            one.seals = shares.contains(&SECRET);
            one.assert_lease_break(1, "RWH", "RH", true);
            assert_eq!(other.reply().status(), NtStatus::PENDING);
            same.seals = one.seals;
            same.assert_quiet();
            assert_eq!(one.acknowledge_lease(1, "RH"), NtStatus::SUCCESS, "{shares:?}");
            assert_eq!(other.reply().status(), NtStatus::SUCCESS);
            for client in [&mut one, &mut same, &mut other] {
                let reply = client.call(Command::LOGOFF, &smb_wire::session::Empty);
                assert_eq!(reply.status(), NtStatus::SUCCESS);
            }
        }
    }
}
