//! Persistent opens (MS-SMB2 §3.3.5.9.10, §3.3.5.9.12).

use crate::durable::{Context, again, create, has, id, leased, lock, lock_request, lose};
use crate::file_information::{dispose, rename};
use crate::rename::link;
use crate::rig::{
    ALICE, BOB, Client, Disks, OTHER, Offer, Opening, Reply, Rig, SHARE, lease, lease_v2, state, wait_until,
};
use crate::settings::{DEFAULT, set};
use smb::limits::{LOCKS_MAX, PERSISTENT_RANGES_MAX};
use smb_wire::create::{CreateAction, CreateDisposition, CreateOptions, CreateResponse, OplockLevel};
use smb_wire::durable::{DurableFlags, DurableReconnectV2, DurableRequestV2, DurableResponseV2};
use smb_wire::header::Command;
use smb_wire::lease::Lease;
use smb_wire::lock::{LockElement, LockFlags, LockRequest, LockSequence};
use smb_wire::negotiate::{Capabilities, NegotiateResponse};
use smb_wire::session::Empty;
use smb_wire::tree::{ShareCapabilities, TreeConnectResponse};
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, FileId, Guid, NtStatus};
use stable::{StableDir, TestDir};
use std::fs;
use std::path::PathBuf;
use vfs::{Caller, PendingSync, ShareSettings};

/// Storage and state directory, which survive server restarts.
pub(crate) struct Machine {
    pub(crate) disks: Disks,
    dir: TestDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { disks: Disks::default(), dir: TestDir::new() }
    }

    /// Starts a server; the previous one must have ended.
    pub(crate) fn start(&self) -> Rig {
        self.start_with(true)
    }

    fn start_with(&self, continuously_available: bool) -> Rig {
        // Remaining threads of the previous server still own the directory.
        wait_until(|| StableDir::open(self.dir.path()).is_ok());
        Rig::restarted(&self.disks, &self.dir.open(), continuously_available)
    }

    pub(crate) fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path().join("persistent-opens")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Copies the state as if power failed now: later writes of the old server are lost.
    fn crashed(self) -> Self {
        let dir = TestDir::new();
        let to = dir.path().join("persistent-opens");
        fs::create_dir(&to).unwrap();
        for record in self.records() {
            fs::copy(&record, to.join(record.file_name().unwrap())).unwrap();
        }
        Self { disks: self.disks, dir }
    }
}

/// The context of a persistent open.
pub(crate) fn asks(guid: u8) -> Context {
    let create_guid = Guid([guid; 16]);
    let request = DurableRequestV2 { timeout: 0, flags: DurableFlags::PERSISTENT, create_guid };
    (DurableRequestV2::NAME, request.to_bytes())
}

/// The context of a persistent reconnect.
fn wants(file_id: FileId, guid: u8) -> Context {
    let create_guid = Guid([guid; 16]);
    let request = DurableReconnectV2 { file_id, create_guid, flags: DurableFlags::PERSISTENT };
    (DurableReconnectV2::NAME, request.to_bytes())
}

/// Alice with a client that supports persistent handles.
pub(crate) fn alice(rig: &Rig, machine: u8) -> Client {
    let capabilities = Capabilities::PERSISTENT_HANDLES | Offer::default().capabilities;
    rig.alice_with(&Offer { capabilities, client_guid: Guid([machine; 16]), ..Offer::default() })
}

/// Opens a persistent file without an oplock, with the default timeout.
fn open(client: &mut Client, path: &str, opening: Opening, guid: u8) -> FileId {
    let reply = create(client, path, opening, OplockLevel::NONE, &[asks(guid)]);
    assert_eq!(granted(&reply), Some((120_000, DurableFlags::PERSISTENT)));
    id(&reply)
}

/// The timeout and flags in the reply.
pub(crate) fn granted(reply: &Reply) -> Option<(u32, DurableFlags)> {
    let body = reply.body::<CreateResponse<'_>>();
    let response = DurableResponseV2::from_bytes(body.contexts.find(DurableRequestV2::NAME)?).unwrap();
    Some((response.timeout, response.flags))
}

fn lease_of(reply: &Reply) -> Lease {
    let body = reply.body::<CreateResponse<'_>>();
    Lease::from_bytes(body.contexts.find(Lease::NAME).unwrap()).unwrap()
}

#[test]
fn persistent_open_survives_restart_with_locks() {
    for crashes in [false, true] {
        let machine = Machine::new();
        let rig = machine.start();
        let mut client = alice(&rig, 1);
        let old = open(&mut client, "file", Opening::alone(), 1);
        client.write(old, 0, b"mine");
        assert_eq!(lock(&mut client, old, LockFlags::EXCLUSIVE_LOCK), NtStatus::SUCCESS);
        let machine = if crashes { machine.crashed() } else { machine };
        drop((client, rig));
        let rig = machine.start();
        let mut other = alice(&rig, 2);
        other.create("file", Opening::default()).assert_refused(NtStatus::FILE_NOT_AVAILABLE);
        let mut client = alice(&rig, 1);
        let reply = again(&mut client, "file", &[wants(old, 1)]);
        let new = id(&reply);
        assert_eq!(new.persistent, old.persistent);
        assert_eq!(client.data(new, 0, 4), b"mine");
        other.create("file", Opening::default()).assert_refused(NtStatus::SHARING_VIOLATION);
        assert_eq!(lock(&mut client, new, LockFlags::UNLOCK), NtStatus::SUCCESS, "its range is there");
        assert_eq!(lock(&mut client, new, LockFlags::UNLOCK), NtStatus::RANGE_NOT_LOCKED);
        assert_eq!(machine.records().len(), 1);
        assert_eq!(client.close(new).status(), NtStatus::SUCCESS);
        assert!(machine.records().is_empty(), "closed opens have no record");
        other.open("file", Opening::alone());
        // The open is gone after the next restart as well.
        drop((client, other, rig));
        let rig = machine.start();
        again(&mut alice(&rig, 1), "file", &[wants(old, 1)]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
}

#[test]
fn persistent_open_survives_lost_connection() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let old = open(&mut client, "file", Opening::alone(), 1);
    assert_eq!(lock(&mut client, old, LockFlags::EXCLUSIVE_LOCK), NtStatus::SUCCESS);
    lose(&rig, client);
    // A durable open would yield.
    alice(&rig, 2).create("file", Opening::default()).assert_refused(NtStatus::FILE_NOT_AVAILABLE);
    let mut client = alice(&rig, 1);
    let new = id(&again(&mut client, "file", &[wants(old, 1)]));
    assert_eq!(lock(&mut client, new, LockFlags::UNLOCK), NtStatus::SUCCESS);
}

#[test]
fn persistence_needs_capable_client_and_share() {
    let machine = Machine::new();
    let rig = machine.start();
    let told = |offer: &Offer, share: &str| {
        let mut client = rig.connect();
        let reply = client.negotiate(offer);
        let capabilities = reply.body::<NegotiateResponse<'_>>().capabilities;
        client.log_on(ALICE);
        let reply = client.tree_connect(share);
        let of_share = reply.body::<TreeConnectResponse>().capabilities;
        client.mount(share);
        let reply = create(&mut client, "file", Opening::default(), OplockLevel::NONE, &[asks(1)]);
        let is_granted = has(&reply, DurableRequestV2::NAME);
        client.close(id(&reply));
        let says = capabilities.contains(Capabilities::PERSISTENT_HANDLES);
        (says, of_share == ShareCapabilities::CONTINUOUS_AVAILABILITY, is_granted)
    };
    let knows =
        |offer: Offer| Offer { capabilities: Capabilities::PERSISTENT_HANDLES | offer.capabilities, ..offer };
    for dialect in [Dialect::SMB300, Dialect::SMB302, Dialect::SMB311] {
        assert_eq!(told(&knows(Offer::of(dialect)), SHARE), (true, true, true), "{dialect:?}");
    }
    assert_eq!(told(&knows(Offer::default()), OTHER), (true, false, false));
    assert_eq!(told(&Offer::default(), SHARE), (false, false, false));
    assert_eq!(told(&knows(Offer::of(Dialect::SMB210)), SHARE), (false, false, false));
    // A server without a state directory grants none either.
    let rig = Rig::new();
    let mut client = rig.connect();
    let reply = client.negotiate(&knows(Offer::default()));
    let capabilities = reply.body::<NegotiateResponse<'_>>().capabilities;
    assert!(!capabilities.contains(Capabilities::PERSISTENT_HANDLES));
}

#[test]
fn directories_and_streams_are_not_persistent() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    for (path, opening) in [("dir", Opening::dir()), ("file:stream", Opening::default())] {
        let reply = create(&mut client, path, opening, OplockLevel::NONE, &[asks(1)]);
        assert_eq!(granted(&reply), None, "{path}");
        client.close(id(&reply));
    }
    // A stream can still be durable.
    let reply = create(&mut client, "file:stream", Opening::alone(), OplockLevel::BATCH, &[asks(1)]);
    assert_eq!(granted(&reply), Some((60_000, DurableFlags::empty())));
    assert!(machine.records().is_empty());
}

#[test]
fn persistent_open_belongs_to_its_client() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let old = open(&mut client, "file", Opening::alone(), 1);
    drop((client, rig));
    let rig = machine.start();
    let unknown = NtStatus::OBJECT_NAME_NOT_FOUND;
    let mut bob = rig.connect();
    bob.negotiate(&Offer { client_guid: Guid([1; 16]), ..Offer::default() });
    bob.log_on(BOB);
    bob.mount(SHARE);
    assert!(again(&mut bob, "file", &[wants(old, 1)]).status().is_error());
    let mut client = alice(&rig, 1);
    again(&mut client, "file", &[wants(old, 2)]).assert_refused(unknown);
    let wrong = FileId { persistent: old.persistent ^ 1, ..old };
    again(&mut client, "file", &[wants(wrong, 2)]).assert_refused(unknown);
    // A reconnect without the persistent flag means a durable open.
    let plain = DurableReconnectV2 { file_id: old, create_guid: Guid([1; 16]), flags: DurableFlags::empty() };
    let plain = (DurableReconnectV2::NAME, plain.to_bytes());
    again(&mut client, "file", &[plain]).assert_refused(unknown);
    client.mount(OTHER);
    again(&mut client, "file", &[wants(old, 1)]).assert_refused(unknown);
    client.mount(SHARE);
    // The create GUID alone suffices for its owner.
    let new = id(&again(&mut client, "file", &[wants(FileId::default(), 1)]));
    assert_eq!(new.persistent, old.persistent);
}

#[test]
fn restored_leases_respect_other_opens() {
    let machine = Machine::new();
    let rig = machine.start();
    let ask = |client: &mut Client, guid: u8, key: u8| {
        let asks = [asks(guid), leased(lease_v2(key, "RWH", 4, None))];
        create(client, "shared", Opening::default(), OplockLevel::LEASE, &asks)
    };
    let mut first = alice(&rig, 1);
    let of_first = ask(&mut first, 1, 7);
    assert_eq!(lease_of(&of_first).lease_state(), state("RWH"));
    let mut second = alice(&rig, 2);
    second.ask("shared", Opening::default(), OplockLevel::NONE, None);
    first.assert_lease_break(7, "RWH", "RH", true);
    assert_eq!(second.reply().status(), NtStatus::PENDING);
    first.acknowledge_lease(7, "RH");
    let plain = crate::rig::granted(&second.reply()).file_id;
    second.close(plain);
    let of_second = ask(&mut second, 2, 8);
    assert_eq!(lease_of(&of_second).lease_state(), state("RH"));
    drop((first, second, rig));
    let rig = machine.start();
    // Each client wanted exclusive write caching, but both have the file open.
    let back = |machine: u8, opened: &Reply, guid: u8, key: u8| {
        let mut client = alice(&rig, machine);
        let wanted = [wants(id(opened), guid), leased(lease_v2(key, "RH", 6, None))];
        let reply = again(&mut client, "shared", &wanted);
        assert_eq!(lease_of(&reply).lease_state(), state("RH"));
        (client, id(&reply))
    };
    let (mut first, _) = back(1, &of_first, 1, 7);
    let (mut second, _) = back(2, &of_second, 2, 8);
    // Breaks reach the restored opens.
    alice(&rig, 3).ask("shared", Opening::by(CreateDisposition::OVERWRITE), OplockLevel::NONE, None);
    first.assert_lease_break(7, "RH", "", true);
    second.assert_lease_break(8, "RH", "", true);
}

#[test]
fn exclusive_writer_is_restored() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let asked = [asks(1), leased(lease(7, "RWH"))];
    let opened = create(&mut client, "own", Opening::default(), OplockLevel::LEASE, &asked);
    let batch = create(&mut client, "batch", Opening::default(), OplockLevel::BATCH, &[asks(2)]);
    drop((client, rig));
    let rig = machine.start();
    // An open waits until the owner returns and acknowledges.
    let mut other = alice(&rig, 2);
    other.ask("own", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(other.reply().status(), NtStatus::PENDING);
    let mut client = alice(&rig, 1);
    let back = again(&mut client, "own", &[wants(id(&opened), 1), leased(lease(7, "RWH"))]);
    assert_eq!(lease_of(&back).lease_state(), state("RWH"));
    client.assert_lease_break(7, "RWH", "RH", true);
    client.acknowledge_lease(7, "RH");
    crate::rig::granted(&other.reply());
    let back = again(&mut client, "batch", &[wants(id(&batch), 2)]);
    assert_eq!(back.body::<CreateResponse<'_>>().oplock_level, OplockLevel::BATCH);
}

#[test]
fn delete_on_close_survives_restart() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let on_close = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() };
    let first = open(&mut client, "on close", on_close, 1);
    let second = open(&mut client, "decided", Opening::default(), 2);
    assert_eq!(dispose(&mut client, second, true), NtStatus::SUCCESS);
    let third = open(&mut client, "stays", Opening::default(), 3);
    assert_eq!(dispose(&mut client, third, true), NtStatus::SUCCESS);
    assert_eq!(dispose(&mut client, third, false), NtStatus::SUCCESS);
    drop((client, rig));
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    client.create("decided", Opening::default()).assert_refused(NtStatus::DELETE_PENDING);
    for (path, old, guid) in [("on close", first, 1), ("decided", second, 2), ("stays", third, 3)] {
        let new = id(&again(&mut client, path, &[wants(old, guid)]));
        assert_eq!(client.close(new).status(), NtStatus::SUCCESS);
    }
    let made = |client: &mut Client, path| client.action(path, Opening::default());
    assert_eq!(made(&mut client, "on close"), Ok(CreateAction::CREATED));
    assert_eq!(made(&mut client, "decided"), Ok(CreateAction::CREATED));
    assert_eq!(made(&mut client, "stays"), Ok(CreateAction::OPENED));
}

/// Another connected client with the file open for deletion.
fn beside(rig: &Rig, path: &str) -> (Client, FileId) {
    let mut other = alice(rig, 2);
    let file = other.open(path, Opening::default());
    (other, file)
}

#[test]
fn cancelled_deletion_stays_cancelled_after_restart() {
    for is_lost in [false, true] {
        let machine = Machine::new();
        let rig = machine.start();
        let mut client = alice(&rig, 1);
        let mine = open(&mut client, "file", Opening::default(), 1);
        let (mut other, theirs) = beside(&rig, "file");
        assert_eq!(dispose(&mut client, mine, true), NtStatus::SUCCESS);
        if is_lost {
            lose(&rig, client);
        }
        assert_eq!(dispose(&mut other, theirs, false), NtStatus::SUCCESS);
        let machine = machine.crashed();
        drop((other, rig));
        let rig = machine.start();
        let mut other = alice(&rig, 2);
        other.open("file", Opening::default());
        let mut client = alice(&rig, 1);
        let mine = id(&again(&mut client, "file", &[wants(mine, 1)]));
        // A later update of the record does not mark the deletion either.
        assert_eq!(lock(&mut client, mine, LockFlags::EXCLUSIVE_LOCK), NtStatus::SUCCESS);
        let machine = machine.crashed();
        drop((client, other, rig));
        let rig = machine.start();
        let mut client = alice(&rig, 1);
        let mine = id(&again(&mut client, "file", &[wants(mine, 1)]));
        assert_eq!(client.close(mine).status(), NtStatus::SUCCESS);
        assert_eq!(client.action("file", Opening::default()), Ok(CreateAction::OPENED), "{is_lost}");
    }
}

#[test]
fn deletion_by_another_open_survives_restart() {
    let on_close = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() };
    for theirs in [Opening::default(), on_close] {
        let machine = Machine::new();
        let rig = machine.start();
        let mut client = alice(&rig, 1);
        let mine = open(&mut client, "file", Opening::default(), 1);
        let mut other = alice(&rig, 2);
        let their_file = other.open("file", theirs);
        if theirs.options.is_empty() {
            assert_eq!(dispose(&mut other, their_file, true), NtStatus::SUCCESS);
        }
        assert_eq!(other.close(their_file).status(), NtStatus::SUCCESS);
        let machine = machine.crashed();
        drop((client, other, rig));
        let rig = machine.start();
        let mut client = alice(&rig, 1);
        client.create("file", Opening::default()).assert_refused(NtStatus::DELETE_PENDING);
        let mine = id(&again(&mut client, "file", &[wants(mine, 1)]));
        assert_eq!(client.close(mine).status(), NtStatus::SUCCESS);
        assert_eq!(client.action("file", Opening::default()), Ok(CreateAction::CREATED));
    }
}

#[test]
fn deletion_at_session_end_survives_restart() {
    let on_close = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() };
    for ending in [Command::TREE_DISCONNECT, Command::LOGOFF] {
        let machine = Machine::new();
        let rig = machine.start();
        let mut client = alice(&rig, 1);
        let mine = open(&mut client, "file", Opening::default(), 1);
        let mut other = alice(&rig, 2);
        other.open("file", on_close);
        assert_eq!(other.call(ending, &Empty).status(), NtStatus::SUCCESS);
        let machine = machine.crashed();
        drop((client, other, rig));
        let rig = machine.start();
        let mut client = alice(&rig, 1);
        let mine = id(&again(&mut client, "file", &[wants(mine, 1)]));
        assert_eq!(client.close(mine).status(), NtStatus::SUCCESS);
        assert_eq!(client.action("file", Opening::default()), Ok(CreateAction::CREATED), "{ending:?}");
    }
}

#[test]
fn deletion_record_moves_until_last_open_ends() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let mine: Vec<_> = (1..=5).map(|guid| open(&mut client, "file", Opening::default(), guid)).collect();
    let contents = || machine.records().iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
    let is_new = |before: &[Vec<u8>]| contents().iter().filter(|now| !before.contains(now)).count();
    let before = contents();
    let (mut other, theirs) = beside(&rig, "file");
    for (deletes, changed) in [(true, 1), (false, 0), (true, 1)] {
        assert_eq!(dispose(&mut other, theirs, deletes), NtStatus::SUCCESS);
        assert_eq!(is_new(&before), changed);
    }
    assert_eq!(other.close(theirs).status(), NtStatus::SUCCESS);
    let [first @ .., last] = &mine[..] else { panic!("there are some") };
    for file in first {
        assert_eq!(client.close(*file).status(), NtStatus::SUCCESS);
        assert_eq!(is_new(&before), 1);
    }
    let machine = machine.crashed();
    drop((client, other, rig));
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let last = id(&again(&mut client, "file", &[wants(*last, 5)]));
    assert_eq!(client.close(last).status(), NtStatus::SUCCESS);
    assert_eq!(client.action("file", Opening::default()), Ok(CreateAction::CREATED));
}

#[test]
fn deletion_after_restart_removes_only_its_name() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let mine = open(&mut client, "mine", Opening::default(), 1);
    assert_eq!(link(&mut client, mine, "theirs"), NtStatus::SUCCESS);
    let (mut other, theirs) = beside(&rig, "theirs");
    assert_eq!(dispose(&mut other, theirs, true), NtStatus::SUCCESS);
    let machine = machine.crashed();
    drop((client, other, rig));
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let mine = id(&again(&mut client, "mine", &[wants(mine, 1)]));
    assert_eq!(client.close(mine).status(), NtStatus::SUCCESS);
    assert_eq!(client.action("mine", Opening::default()), Ok(CreateAction::OPENED));
}

#[test]
fn nfs_rename_cancels_deletion_after_restart() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let on_close = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() };
    let decided = open(&mut client, "decided", Opening::default(), 1);
    let closing = open(&mut client, "closing", on_close, 2);
    assert_eq!(dispose(&mut client, decided, true), NtStatus::SUCCESS);
    let (caller, mut pending) = (Caller::new(1000, 100, []), PendingSync::default());
    let root = rig.namespace.load().exports()[0].root();
    for (from, to) in [("decided", "one"), ("closing", "two")] {
        root.rename(&caller, from.as_bytes(), &root, to.as_bytes(), &mut pending).unwrap();
        client.put(from, b"another");
    }
    let machine = machine.crashed();
    drop((client, root, rig));
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    for (path, old, guid) in [("decided", decided, 1), ("closing", closing, 2)] {
        let new = id(&again(&mut client, path, &[wants(old, guid)]));
        assert_eq!(client.close(new).status(), NtStatus::SUCCESS);
        assert_eq!(client.get(path), b"another");
    }
    for path in ["one", "two"] {
        assert_eq!(client.action(path, Opening::default()), Ok(CreateAction::OPENED), "{path}");
    }
}

#[test]
fn failed_deletion_record_keeps_other_deletions() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let mine = open(&mut client, "file", Opening::default(), 1);
    let (mut other, theirs) = beside(&rig, "file");
    assert_eq!(dispose(&mut other, theirs, true), NtStatus::SUCCESS);
    // Blocks the write of this record.
    fs::create_dir(machine.records()[0].with_extension("new")).unwrap();
    assert_eq!(dispose(&mut client, mine, true), NtStatus::IO_DEVICE_ERROR);
    other.create("file", Opening::default()).assert_refused(NtStatus::DELETE_PENDING);
    for (client, file) in [(&mut client, mine), (&mut other, theirs)] {
        assert_eq!(client.close(file).status(), NtStatus::SUCCESS);
    }
    assert_eq!(client.action("file", Opening::default()), Ok(CreateAction::CREATED));
}

#[test]
fn unwritable_cancellation_drops_the_record() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let mine = open(&mut client, "file", Opening::default(), 1);
    let (mut other, theirs) = beside(&rig, "file");
    assert_eq!(dispose(&mut client, mine, true), NtStatus::SUCCESS);
    // Blocks the write of this record.
    fs::create_dir(machine.records()[0].with_extension("new")).unwrap();
    assert_eq!(dispose(&mut other, theirs, false), NtStatus::SUCCESS);
    assert!(machine.records().iter().all(|record| record.is_dir()));
    assert_eq!(other.action("file", Opening::default()), Ok(CreateAction::OPENED));
}

#[test]
fn replays_after_restart_run_once() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let old = open(&mut client, "file", Opening::by(CreateDisposition::CREATE), 1);
    let locked = |client: &mut Client, file_id: FileId, number: u32| {
        let locks = vec![LockElement {
            offset: 0,
            length: 9,
            flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY,
        }];
        let request = LockRequest { lock_sequence: LockSequence(2 << 4 | number), file_id, locks };
        client.call(Command::LOCK, &request).status()
    };
    assert_eq!(locked(&mut client, old, 5), NtStatus::SUCCESS);
    drop((client, rig));
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    client.replays = true;
    let again = |client: &mut Client| {
        create(client, "file", Opening::by(CreateDisposition::CREATE), OplockLevel::NONE, &[asks(1)])
    };
    let reply = again(&mut client);
    let new = id(&reply);
    let reply = again(&mut client);
    client.replays = false;
    assert_eq!(id(&reply), new, "a replay after the reconnect returns the same open");
    assert_eq!(new.persistent, old.persistent);
    assert_eq!(reply.body::<CreateResponse<'_>>().create_action, CreateAction::CREATED);
    assert_eq!(granted(&reply), Some((120_000, DurableFlags::PERSISTENT)));
    assert_eq!(locked(&mut client, new, 5), NtStatus::SUCCESS, "it was done");
    assert_eq!(locked(&mut client, new, 6), NtStatus::LOCK_NOT_GRANTED);
}

#[test]
fn rename_updates_the_record() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let asked = [asks(1), leased(lease(7, "RH"))];
    let opened = create(&mut client, "old", Opening::default(), OplockLevel::LEASE, &asked);
    assert_eq!(rename(&mut client, id(&opened), "new", false), NtStatus::SUCCESS);
    drop((client, rig));
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let wanted = [wants(id(&opened), 1), leased(lease(7, "RH"))];
    again(&mut client, "old", &wanted).assert_refused(NtStatus::INVALID_PARAMETER);
    id(&again(&mut client, "new", &wanted));
}

#[test]
fn damaged_records_and_removed_files_are_dropped() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let torn = open(&mut client, "torn", Opening::alone(), 1);
    let gone = open(&mut client, "gone", Opening::default(), 2);
    let good = open(&mut client, "good", Opening::alone(), 3);
    let machine = machine.crashed();
    client.action("gone", Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() }).unwrap();
    client.close(gone);
    drop((client, rig));
    let path = machine.dir.path().join(format!("persistent-opens/{:016x}", torn.persistent));
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    again(&mut client, "torn", &[wants(torn, 1)]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    again(&mut client, "gone", &[wants(gone, 2)]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    id(&again(&mut client, "good", &[wants(good, 3)]));
    client.open("torn", Opening::alone());
    assert_eq!(machine.records().len(), 1);
}

#[test]
fn unwritable_record_denies_persistence() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let kept = open(&mut client, "file", Opening::default(), 1);
    let dir = machine.dir.path().join("persistent-opens");
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "").unwrap();
    let reply = create(&mut client, "other", Opening::default(), OplockLevel::NONE, &[asks(2)]);
    assert_eq!(granted(&reply), None);
    let reply = create(&mut client, "third", Opening::default(), OplockLevel::BATCH, &[asks(3)]);
    assert_eq!(granted(&reply), Some((60_000, DurableFlags::empty())), "the open is still durable");
    let status = lock(&mut client, kept, LockFlags::EXCLUSIVE_LOCK);
    assert_eq!(status, NtStatus::IO_DEVICE_ERROR);
    assert_eq!(lock(&mut client, kept, LockFlags::UNLOCK), NtStatus::RANGE_NOT_LOCKED);
    assert_eq!(dispose(&mut client, kept, true), NtStatus::IO_DEVICE_ERROR);
    client.open("file", Opening::default());
}

#[test]
fn persistent_locks_are_limited() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let old = open(&mut client, "file", Opening::default(), 1);
    let lock_all = |client: &mut Client, from: usize, count: usize| {
        let flags = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
        let element = |at| LockElement { offset: at as u64, length: 1, flags };
        let locks = (from..from + count).map(element).collect();
        let request = LockRequest { lock_sequence: LockSequence(0), file_id: old, locks };
        client.call(Command::LOCK, &request).status()
    };
    for from in (0..PERSISTENT_RANGES_MAX).step_by(LOCKS_MAX) {
        assert_eq!(lock_all(&mut client, from, LOCKS_MAX), NtStatus::SUCCESS);
    }
    assert_eq!(lock_all(&mut client, PERSISTENT_RANGES_MAX, 1), NtStatus::INSUFFICIENT_RESOURCES);
    // The refused range is not locked.
    let mut other = alice(&rig, 2);
    let theirs = other.open("file", Opening::default());
    let beyond = PERSISTENT_RANGES_MAX as u64;
    assert_eq!(other.write(theirs, beyond, b"x").status(), NtStatus::SUCCESS);
    other.write(theirs, beyond - 1, b"x").assert_refused(NtStatus::FILE_LOCK_CONFLICT);
}

#[test]
fn removed_share_drops_its_persistent_opens() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    open(&mut client, "file", Opening::alone(), 1);
    drop((client, rig));
    assert_eq!(machine.records().len(), 1);
    // The share is no longer continuously available.
    let rig = machine.start_with(false);
    assert!(machine.records().is_empty());
    rig.alice().open("file", Opening::alone());
}

/// The tree connect of the open has ended.
#[test]
fn persistent_open_of_ended_tree_belongs_to_its_client() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = alice(&rig, 1);
    let old = open(&mut client, "file", Opening::alone(), 1);
    client.write(old, 0, b"mine");
    set(&rig, ShareSettings { encryption: true, continuously_available: true, ..DEFAULT });
    rig.tick();
    assert_eq!(machine.records().len(), 1);
    for client in [&mut alice(&rig, 2), &mut client] {
        client.seals = true;
        client.mount(SHARE);
        client.create("file", Opening::default()).assert_refused(NtStatus::FILE_NOT_AVAILABLE);
    }
    let new = id(&again(&mut client, "file", &[wants(old, 1)]));
    assert_eq!(client.data(new, 0, 4), b"mine");
    client.close(new);
    assert!(machine.records().is_empty());
}

/// A refused request does not get the range that it waited for.
#[test]
fn lock_granted_after_tree_end_is_released() {
    let machine = Machine::new();
    let rig = machine.start();
    let (mut client, mut other) = (alice(&rig, 1), alice(&rig, 2));
    let theirs = other.open("file", Opening::default());
    let old = open(&mut client, "file", Opening::default(), 1);
    assert_eq!(lock(&mut other, theirs, LockFlags::EXCLUSIVE_LOCK), NtStatus::SUCCESS);
    let waits = client.request(Command::LOCK, &lock_request(old, LockFlags::EXCLUSIVE_LOCK));
    client.send_protected(waits);
    assert_eq!(client.reply().status(), NtStatus::PENDING);
    set(&rig, ShareSettings { encryption: true, continuously_available: true, ..DEFAULT });
    drop(other);
    assert_eq!(client.reply().status(), NtStatus::NETWORK_NAME_DELETED);
    client.seals = true;
    client.mount(SHARE);
    let new = id(&again(&mut client, "file", &[wants(old, 1)]));
    assert_eq!(lock(&mut client, new, LockFlags::UNLOCK), NtStatus::RANGE_NOT_LOCKED);
}
