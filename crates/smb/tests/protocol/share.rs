//! Export rules and rate limits of shares.

use crate::ioctl::copy::{copy, key_of};
use crate::lock::{ALONE, lock};
use crate::rig::{
    ALICE, Client, OTHER, Offer, Opening, Reply, Rig, SHARE, chained, ioctl, lease, message, output, read,
    wait_until, write,
};
use smb::limits::{COPY_CHUNK_BYTES_MAX, CREDITS_PRESSED_MAX};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::DispositionInformation;
use smb_wire::copy::{CopyChunk, CopyChunkCopy, ResumeKeyResponse};
use smb_wire::create::{CreateDisposition, CreateOptions};
use smb_wire::dir::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use smb_wire::file::FlushRequest;
use smb_wire::header::{Command, Flags, Header, Routing};
use smb_wire::ioctl::CtlCode;
use smb_wire::ranges::{FileLevelTrim, TrimRange};
use smb_wire::session::Empty;
use smb_wire::tree::{ShareFlags, TreeConnectResponse};
use smb_wire::types::{AccessMask, Dialect};
use smb_wire::{Decode, Encode, FileId, NtStatus};
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use vfs::qos::{Arbiter, Demand, Gate, Kind, Limits, Pacer, QueueResult, VolumeLimits, Waiter};
use vfs::{Blocking, Caller, Export, ExportId, ExportRule, Namespace, Protection, ProtocolSet};

fn logged_on(rig: &Rig, offer: &Offer) -> crate::rig::Client {
    let mut client = rig.connect();
    client.negotiate(offer);
    client.log_on(ALICE);
    client
}

#[test]
fn rule_without_smb_refuses_clients() {
    let protocols = ProtocolSet::from_bits(!(1 << smb::PROTOCOL.0));
    let rig = Rig::with_rule(ExportRule { protocols, ..ExportRule::everybody() });
    let mut client = logged_on(&rig, &Offer::default());
    client.tree_connect(SHARE).assert_refused(NtStatus::ACCESS_DENIED);
    assert_eq!(client.tree_connect("spare").status(), NtStatus::SUCCESS);
    let rig = Rig::with_rule(ExportRule { no_access: true, ..ExportRule::everybody() });
    let mut client = logged_on(&rig, &Offer::default());
    client.tree_connect(SHARE).assert_refused(NtStatus::ACCESS_DENIED);
    let clients = vec!["192.0.2.0/24".parse().unwrap()];
    let rig = Rig::with_rule(ExportRule { clients, ..ExportRule::everybody() });
    let mut client = logged_on(&rig, &Offer::default());
    client.tree_connect(SHARE).assert_refused(NtStatus::ACCESS_DENIED);
}

#[test]
fn read_only_export_refuses_changes() {
    let rig = Rig::with_rule(ExportRule { read_only: true, ..ExportRule::everybody() });
    let mut client = logged_on(&rig, &Offer::default());
    let reply = client.tree_connect(SHARE);
    let rights = reply.body::<TreeConnectResponse>().maximal_access;
    let changing =
        AccessMask::WRITE_DATA | AccessMask::APPEND_DATA | AccessMask::DELETE | AccessMask::WRITE_DAC;
    assert!(!rights.intersects(changing) && rights.contains(AccessMask::READ_DATA), "{rights:?}");
    client.tree_id = reply.header.tree_id();
    client.create("new", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
    client.create("dir", Opening::dir()).assert_refused(NtStatus::ACCESS_DENIED);
    let open = |access| Opening { access, ..Opening::by(CreateDisposition::OPEN) };
    for access in [AccessMask::WRITE_DATA, AccessMask::GENERIC_WRITE, AccessMask::DELETE] {
        let options = CreateOptions::DIRECTORY_FILE;
        let root = Opening { options, ..open(access) };
        client.create("", root).assert_refused(NtStatus::ACCESS_DENIED);
    }
    let root = client.open("", open(AccessMask::MAXIMUM_ALLOWED));
    let disposition = DispositionInformation { delete_pending: true };
    let status = client.set(root, FileClass::DISPOSITION, &disposition);
    assert_eq!(status, NtStatus::ACCESS_DENIED);
}

#[test]
fn read_only_rule_share_mode_does_not_block_writers() {
    let rig = Rig::new();
    rig.alice().put("file", b"0123456789");
    let reads = ExportRule { read_only: true, ..ExportRule::everybody() };
    let reads = Export { id: ExportId(77), ..Export::new("/reads", Arc::clone(&rig.volume), vec![reads]) };
    let writes = Arc::clone(&rig.namespace.load().exports()[0]);
    rig.namespace.store(Arc::new(Namespace::new([writes, Arc::new(reads)])));
    let mut reader = logged_on(&rig, &Offer::default());
    reader.mount("reads");
    let access = AccessMask::READ_DATA;
    let alone = Opening { access, ..Opening { disposition: CreateDisposition::OPEN, ..Opening::alone() } };
    let file = reader.open("file", alone);
    assert_eq!(lock(&mut reader, file, &[(0, 10, ALONE)]), NtStatus::ACCESS_DENIED);
    let mut writer = rig.alice();
    let opened = writer.open("file", Opening::default());
    assert_eq!(writer.write(opened, 0, b"x").status(), NtStatus::SUCCESS);
    // A writer still blocks the reader.
    reader.close(file);
    writer.close(opened);
    let opened = writer.open("file", Opening { disposition: CreateDisposition::OPEN, ..Opening::alone() });
    reader.create("file", alone).assert_refused(NtStatus::SHARING_VIOLATION);
    writer.close(opened);
}

#[test]
fn encrypted_share_refuses_plain_requests() {
    let rig = Rig::with_rule(ExportRule { protection: Protection::Encrypted, ..ExportRule::everybody() });
    let mut client = logged_on(&rig, &Offer::default());
    let reply = client.tree_connect(SHARE);
    let expected = ShareFlags::NO_CACHING | ShareFlags::ENCRYPT_DATA;
    assert_eq!(reply.body::<TreeConnectResponse>().share_flags, expected);
    client.tree_id = reply.header.tree_id();
    client.create("file", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
    client.seals = true;
    client.put("file", b"sealed");
    assert_eq!(client.get("file"), b"sealed");
    let mut old = logged_on(&rig, &Offer::of(Dialect::SMB210));
    old.tree_connect(SHARE).assert_refused(NtStatus::ACCESS_DENIED);
}

#[test]
fn rule_changes_for_others_keep_the_tree() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let serve = |path: &str, rules: Vec<ExportRule>| {
        let export = Export::new(path, Arc::clone(&rig.volume), rules);
        rig.namespace.store(Arc::new(Namespace::new([export])));
    };
    let of = |clients: &str, read_only| {
        let clients = vec![clients.parse().unwrap()];
        ExportRule { clients, read_only, ..ExportRule::everybody() }
    };
    serve("/docs", vec![of("192.0.2.0/24", true), of("127.0.0.0/8", false)]);
    assert_eq!(client.write(file, 0, b"x").status(), NtStatus::SUCCESS);
    for (path, rule) in [("/docs", of("192.0.2.0/24", false)), ("/other", of("127.0.0.0/8", false))] {
        let file = client.open("file", Opening::by(CreateDisposition::OPEN));
        serve(path, vec![rule]);
        client.write(file, 0, b"x").assert_refused(NtStatus::NETWORK_NAME_DELETED);
        // The tree connect has ended, although the new rule would admit the client.
        serve("/docs", vec![of("127.0.0.0/8", false)]);
        client.write(file, 0, b"x").assert_refused(NtStatus::NETWORK_NAME_DELETED);
        client.mount(SHARE);
        client.write(file, 0, b"x").assert_refused(NtStatus::FILE_CLOSED);
    }
}

#[test]
fn changed_share_ends_the_tree() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let changed = ExportRule { read_only: true, ..ExportRule::everybody() };
    let export = Export::new("/docs", Arc::clone(&rig.volume), vec![changed]);
    rig.namespace.store(Arc::new(Namespace::new([export])));
    client.write(file, 0, b"x").assert_refused(NtStatus::NETWORK_NAME_DELETED);
    client.create("other", Opening::default()).assert_refused(NtStatus::NETWORK_NAME_DELETED);
    client.call(Command::TREE_DISCONNECT, &Empty).assert_refused(NtStatus::NETWORK_NAME_DELETED);
    client.tree_connect("spare").assert_refused(NtStatus::BAD_NETWORK_NAME);
    client.mount(SHARE);
    client.create("new", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
}

/// A rig whose first volume can be limited.
pub(crate) fn limited() -> (Rig, Arc<Gate>, Arc<Pacer>) {
    let pacer = Pacer::start().unwrap();
    let gate: Arc<Gate> = Arbiter::new(&Limits::NONE.into(), &pacer).gate(VolumeLimits::default());
    let rig = Rig::with(ExportRule::everybody(), |volume| volume.with_gate(Arc::clone(&gate)));
    (rig, gate, pacer)
}

/// Limits to `bytes` per second; 0: unlimited.
pub(crate) fn limit(gate: &Gate, bytes: u64) {
    let all = Limits { bytes: NonZeroU64::new(bytes), ..Limits::NONE };
    gate.set_limits(VolumeLimits { all, ..VolumeLimits::default() });
}

/// Requests beyond the limit wait and complete once it is lifted. So do messages that arrive in parts.
#[test]
fn volume_limits_apply() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    for (seals, length) in [(false, 1000), (true, 1000), (false, 600_000)] {
        client.seals = seals;
        limit(&gate, 1);
        let data = vec![7; length];
        // The first request passes without a wait.
        client.write(file, 0, &data);
        let charge = u16::try_from(length.div_ceil(1 << 16)).unwrap();
        let header = client.header(Command::WRITE, charge);
        let request = message(&header, &write(file, 0, &data));
        client.send_protected(request.clone());
        // Other volumes are unaffected, and so are commands without data.
        rig.alice().call(Command::ECHO, &Empty);
        wait_until(|| gate.throttled().1 > 0);
        limit(&gate, 0);
        assert_eq!(client.reply().status(), NtStatus::SUCCESS);
        // Its message id is used, although it waited.
        if length > 1000 {
            client.send_protected(request);
            client.assert_ended();
        }
    }
}

/// All commands of a compound are charged, and completed ones stay charged.
#[test]
fn compound_commands_are_charged_together() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    client.write(file, 0, &[7; 60_000]);
    limit(&gate, 6000);
    let get = |client: &mut Client, length| {
        let header = client.header(Command::READ, 1);
        message(&header, &read(file, 0, length))
    };
    // Five seconds' worth in two commands, and almost nothing at the end.
    let commands: Vec<_> = [29_000, 29_000, 1].iter().map(|&length| get(&mut client, length)).collect();
    assert!(client.chain(commands).iter().all(|reply| reply.status() == NtStatus::SUCCESS));
    let waiting = gate.throttled().1;
    let next = get(&mut client, 60_000);
    client.send_protected(next);
    wait_until(|| gate.throttled().1 > waiting);
    limit(&gate, 0);
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
}

/// A compound's reads stay charged while its rest waits for another reason.
#[test]
fn work_before_a_wait_is_charged() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let root = client.open("", Opening { access: AccessMask::GENERIC_READ, ..Opening::dir() });
    client.write(file, 0, &[7; 60_000]);
    limit(&gate, 6000);
    let wait = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::empty(),
        output_buffer_length: 1000,
        file_id: root,
        completion_filter: CompletionFilter(3),
    };
    let commands = vec![
        client.request(Command::READ, &read(file, 0, 60_000)),
        client.request(Command::CHANGE_NOTIFY, &wait),
    ];
    client.send_protected(chained(commands));
    let replies = client.replies();
    assert_eq!(replies[0].status(), NtStatus::SUCCESS);
    let waiting = replies.get(1).map_or_else(|| client.reply().header, |reply| reply.header);
    assert_eq!(waiting.status, NtStatus::PENDING);
    let other = [192, 0, 2, 1].into();
    assert!(!gate.admit(other, Demand::read(1)), "ten seconds' worth was read");
    let cancel =
        Header { routing: waiting.routing, ..Header::request(Command::CANCEL, 0, client.session_id, 0) };
    client.send_protected(message(&cancel, &Empty));
    assert_eq!(client.reply().status(), NtStatus::CANCELLED);
    assert!(!gate.admit(other, Demand::read(1)), "and is not given back");
}

/// A request that waited for a break is charged when it runs.
#[test]
fn work_after_a_wait_is_charged() {
    let (rig, gate, _pacer) = limited();
    let (mut client, mut keeper) = (rig.alice_at(1), rig.alice_at(2));
    client.put("file", &[7; 60_000]);
    let file = client.open("file", Opening::default());
    let kept = keeper.open_lease("file", Opening::default(), lease(1, "RH"));
    limit(&gate, 6000);
    let write = client.request(Command::WRITE, &write(file, 0, &[8; 60_000]));
    client.send_protected(write);
    keeper.assert_lease_break(1, "RH", "", true);
    assert_eq!(keeper.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    let other = [192, 0, 2, 1].into();
    assert!(!gate.admit(other, Demand::read(1)), "ten seconds' worth was written");
    keeper.close(kept.file_id);
}

/// A long encrypted message cannot be inspected before it is complete. It still waits for its turn.
#[test]
fn long_encrypted_writes_wait_for_their_turn() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    client.seals = true;
    let data = vec![7; 600_000];
    limit(&gate, 1);
    // The first request passes without a wait.
    client.write(file, 0, &data).status();
    let count: usize = 6;
    for at in 0..count {
        let header = client.header(Command::WRITE, 10);
        client.send_protected(message(&header, &write(file, at as u64 * 600_000, &data)));
        wait_until(|| gate.throttled().1 > at);
    }
    limit(&gate, 0);
    assert!((0..count).all(|_| client.reply().status() == NtStatus::SUCCESS));
    assert_eq!(gate.throttled().0.calls[Kind::Write.index()], count as u64);
}

/// Also for a long message whose first command waits for a flush: the others are not refused because the flush is
/// answered first.
#[test]
fn commands_after_flush_in_long_message_wait() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    limit(&gate, 1);
    // The first request passes without a wait.
    client.write(file, 0, &[7; 1000]);
    // An encrypted message is inspected once it is complete.
    client.seals = true;
    let flush = client.request(Command::FLUSH, &FlushRequest { reserved1: 0, file_id: file });
    let (header, data) = (client.header(Command::WRITE, 10), vec![7; 600_000]);
    client.send_protected(chained(vec![flush, message(&header, &write(file, 0, &data))]));
    wait_until(|| gate.throttled().1 > 0);
    limit(&gate, 0);
    let statuses: Vec<_> = client.replies().iter().map(Reply::status).collect();
    assert_eq!(statuses, [NtStatus::SUCCESS; 2]);
}

/// Limits to a few operations per second.
pub(crate) fn limit_operations(gate: &Gate) {
    let ops = Limits { ops: NonZeroU64::new(5), ..Limits::NONE };
    gate.set_limits(VolumeLimits { all: ops, ..VolumeLimits::default() });
}

/// Whether the debt exceeds a single operation, which lasts a fifth of a second; 60 operations take twelve seconds.
pub(crate) fn owes_much(gate: &Gate) -> bool {
    std::thread::sleep(Duration::from_millis(500));
    !gate.admit([192, 0, 2, 1].into(), Demand::read(1))
}

/// Many READs in one compound count individually.
#[test]
fn each_read_of_a_compound_counts_as_operation() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    client.write(file, 0, &[7; 1000]);
    limit_operations(&gate);
    let reads: Vec<_> = (0..60).map(|_| client.request(Command::READ, &read(file, 0, 10))).collect();
    assert!(client.chain(reads).iter().all(|reply| reply.status() == NtStatus::SUCCESS));
    assert!(owes_much(&gate));
}

/// Many chunks in one copy count individually, at the source volume and at the target volume.
#[test]
fn each_chunk_of_a_copy_counts_as_operation() {
    for (from, to) in [(SHARE, SHARE), (SHARE, OTHER), (OTHER, SHARE)] {
        let (rig, gate, _pacer) = limited();
        let mut client = rig.alice();
        client.mount(from);
        client.put("from", &[7; 1000]);
        let source = client.open("from", Opening::default());
        let key = key_of(&mut client, source);
        client.mount(to);
        let target = client.open("to", Opening::default());
        limit_operations(&gate);
        let chunks: Vec<_> = (0..60).map(|number| (number * 10, number * 10, 10)).collect();
        assert_eq!(copy(&mut client, key, target, &chunks).status(), NtStatus::SUCCESS);
        assert!(owes_much(&gate), "from {from} to {to}");
    }
}

/// Many ranges in one TRIM count individually.
#[test]
fn each_range_of_a_trim_counts_as_operation() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    client.write(file, 0, &[7; 1000]);
    limit_operations(&gate);
    let ranges = vec![TrimRange { offset: 0, length: 10 }; 60];
    let input = FileLevelTrim { ranges }.to_bytes();
    assert_eq!(client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 4).status(), NtStatus::SUCCESS);
    assert!(owes_much(&gate));
}

/// The copies of a compound do not block the volume for their total time: each is charged when it starts.
#[test]
fn long_copies_of_a_compound_are_charged_one_by_one() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let source = client.open("from", Opening::default());
    client.write(source, (COPY_CHUNK_BYTES_MAX - 1).into(), &[7]);
    let source_key = key_of(&mut client, source);
    let target = client.open("to", Opening::default());
    let chunk = CopyChunk { source_offset: 0, target_offset: 0, length: COPY_CHUNK_BYTES_MAX };
    let asked = CopyChunkCopy { source_key, chunks: vec![chunk; 16] }.to_bytes();
    let copies = (0..3)
        .map(|_| client.request(Command::IOCTL, &ioctl(target, CtlCode::SRV_COPYCHUNK, &asked, 12)))
        .collect();
    limit(&gate, 1);
    client.send_protected(chained(copies));
    // The first request passes without a wait.
    wait_until(|| gate.throttled().1 == 1);
    limit(&gate, 0);
    assert!(client.replies().iter().all(|reply| reply.status() == NtStatus::SUCCESS));
    assert_eq!(gate.throttled().0.calls[Kind::Write.index()], 1);
}

/// A command that ends a wait must not itself wait for the limit.
#[test]
fn commands_that_end_waits_bypass_the_limit() {
    let (rig, gate, _pacer) = limited();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    one.open_lease("file", Opening::default(), lease(1, "RWH")).assert_state("RWH");
    let watched = two.open("dir", Opening::dir());
    let ops = Limits { ops: NonZeroU64::new(1_000_000), ..Limits::NONE };
    gate.set_limits(VolumeLimits { all: ops, ..VolumeLimits::default() });
    let watch = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::empty(),
        output_buffer_length: 1000,
        file_id: watched,
        completion_filter: CompletionFilter::FILE_NAME,
    };
    let header = two.header(Command::CHANGE_NOTIFY, 1);
    two.send_protected(message(&header, &watch));
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    let name = crate::rig::name("file");
    let open = two.request(Command::CREATE, &Opening::by(CreateDisposition::OPEN).request(&name));
    two.send_protected(open);
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    one.assert_lease_break(1, "RWH", "RH", true);
    // A debt of a quarter of an hour.
    let much = Demand { reads: 1_000_000_000, ..Demand::read(1) };
    assert!(gate.admit([192, 0, 2, 1].into(), much));
    two.send_protected(message(&Header { command: Command::CANCEL, ..header }, &Empty));
    assert_eq!(two.reply().status(), NtStatus::CANCELLED);
    assert_eq!(one.acknowledge_lease(1, "RH"), NtStatus::SUCCESS);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
    assert_eq!(gate.throttled().1, 0);
}

/// A CANCEL of a request that waits for the limit: one reply, and one charge.
#[test]
fn cancelled_limit_wait_is_answered_and_charged_once() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    limit(&gate, 1);
    // The first request passes without a wait.
    client.write(file, 0, &[7; 1000]);
    let header = client.header(Command::WRITE, 1);
    client.send_protected(message(&header, &write(file, 0, &[8; 1000])));
    wait_until(|| gate.throttled().1 > 0);
    let cancel = Header::request(Command::CANCEL, header.message_id, client.session_id, 0);
    client.send_protected(message(&cancel, &Empty));
    assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
    assert_eq!(gate.throttled().1, 1);
    limit(&gate, 0);
    let reply = client.reply();
    assert_eq!((reply.status(), reply.header.message_id), (NtStatus::SUCCESS, header.message_id));
    // No second reply arrives for the cancelled request.
    assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
    assert_eq!(gate.throttled().0.calls[Kind::Write.index()], 1);
}

/// A client with a file in the limited volume and a tree connect to the other; the latter is current.
fn in_both(rig: &Rig) -> (Client, FileId, [u32; 2]) {
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let limited_tree = client.tree_id;
    client.mount(OTHER);
    let other_tree = client.tree_id;
    (client, file, [limited_tree, other_tree])
}

/// A compound that begins in another volume still pays for the limited one.
#[test]
fn commands_are_charged_to_their_volume() {
    let (rig, gate, _pacer) = limited();
    let (mut client, file, [limited_tree, other_tree]) = in_both(&rig);
    let elsewhere = client.open("file", Opening::default());
    limit(&gate, 1);
    for is_first in [true, false] {
        client.tree_id = other_tree;
        let header = client.header(Command::READ, 1);
        let outer = message(&header, &read(elsewhere, 0, 1));
        client.tree_id = limited_tree;
        let header = client.header(Command::WRITE, 1);
        let inner = message(&header, &write(file, 0, &[7; 1000]));
        let chain = crate::rig::chained(vec![outer, inner]);
        client.send_protected(chain);
        if !is_first {
            // The first request has passed; this one waits, but not the others.
            assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
            limit(&gate, 0);
        }
        let statuses: Vec<_> = client.replies().iter().map(crate::rig::Reply::status).collect();
        assert_eq!(statuses, [NtStatus::END_OF_FILE, NtStatus::SUCCESS]);
    }
}

/// A change in another volume is answered once it is durable. The commands behind it then wait for their own volume's
/// limit.
#[test]
fn commands_after_change_in_another_volume_wait_for_their_limit() {
    let (rig, gate, _pacer) = limited();
    let (mut client, file, [limited_tree, other_tree]) = in_both(&rig);
    limit(&gate, 1);
    client.tree_id = limited_tree;
    // The first request passes without a wait.
    client.write(file, 0, &[7; 1000]);
    client.tree_id = other_tree;
    let wire = crate::rig::name("made");
    let make = client.request(Command::CREATE, &Opening::by(CreateDisposition::CREATE).request(&wire));
    client.tree_id = limited_tree;
    let write = client.request(Command::WRITE, &write(file, 0, &[8; 1000]));
    let statuses: Vec<_> = client.chain(vec![make, write]).iter().map(Reply::status).collect();
    assert_eq!(statuses, [NtStatus::SUCCESS], "the change does not wait");
    wait_until(|| gate.throttled().1 == 1);
    limit(&gate, 0);
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    assert_eq!(gate.throttled().0.calls[Kind::Write.index()], 1);
    assert_eq!(client.get("file"), [8; 1000]);
}

/// A copy is charged to the source volume and the target volume.
#[test]
fn copies_respect_limits_of_both_volumes() {
    for (from, to) in [(SHARE, SHARE), (SHARE, OTHER), (OTHER, SHARE)] {
        let (rig, gate, _pacer) = limited();
        let mut client = rig.alice();
        client.mount(from);
        client.put("from", &[7; 1000]);
        let source = client.open("from", Opening::default());
        let key = client.ioctl(source, CtlCode::SRV_REQUEST_RESUME_KEY, &[], 32);
        let source_key = ResumeKeyResponse::from_bytes(output(&key)).unwrap().resume_key;
        client.mount(to);
        let target = client.open("to", Opening::default());
        let chunk = |target_offset| CopyChunk { source_offset: 0, target_offset, length: 1000 };
        let asked = |offset| CopyChunkCopy { source_key, chunks: vec![chunk(offset)] }.to_bytes();
        limit(&gate, 1);
        // The first request passes without a wait.
        assert_eq!(client.ioctl(target, CtlCode::SRV_COPYCHUNK, &asked(0), 12).status(), NtStatus::SUCCESS);
        let header = client.header(Command::IOCTL, 1);
        client.send_protected(message(&header, &ioctl(target, CtlCode::SRV_COPYCHUNK, &asked(1000), 12)));
        std::thread::sleep(Duration::from_millis(100));
        let root = rig.namespace.load().exports()[usize::from(to == OTHER)].root();
        let reader = Caller::new(1000, 100, []);
        let dir = root.open_dir(&reader, Blocking::Allowed).unwrap();
        let size = || dir.lookup(b"to", Blocking::Allowed).unwrap().attrs.size;
        assert_eq!(size(), 1000, "from {from} to {to}, while it waits");
        limit(&gate, 0);
        assert_eq!(client.reply().status(), NtStatus::SUCCESS);
        assert_eq!(size(), 2000);
    }
}

/// A copy queues at the limit of its source like a READ, until cancelled.
#[test]
fn copy_queues_at_its_source_volume() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    client.put("from", &[7; 1000]);
    let source = client.open("from", Opening::default());
    let source_key = key_of(&mut client, source);
    let limited_tree = client.tree_id;
    client.mount(OTHER);
    let target = client.open("to", Opening::default());
    let chunk = CopyChunk { source_offset: 0, target_offset: 0, length: 1000 };
    let asked = CopyChunkCopy { source_key, chunks: vec![chunk] }.to_bytes();
    let other_tree = std::mem::replace(&mut client.tree_id, limited_tree);
    limit(&gate, 1);
    // The first request passes without a wait.
    client.data(source, 0, 1000);
    let next = client.request(Command::READ, &read(source, 0, 1000));
    client.send_protected(next);
    wait_until(|| gate.throttled().1 == 1);
    client.tree_id = other_tree;
    let copy = |client: &mut Client| {
        let header = client.header(Command::IOCTL, 1);
        client.send_protected(message(&header, &ioctl(target, CtlCode::SRV_COPYCHUNK, &asked, 12)));
        header
    };
    let canceled = copy(&mut client);
    wait_until(|| gate.throttled().1 == 2);
    client.send_protected(message(&Header { command: Command::CANCEL, ..canceled }, &Empty));
    assert_eq!(client.reply().status(), NtStatus::CANCELLED);
    copy(&mut client);
    wait_until(|| gate.throttled().1 == 3);
    limit(&gate, 0);
    let mut replies = [client.reply(), client.reply()];
    replies.sort_by_key(|reply| reply.header.message_id);
    assert_eq!(
        replies.map(|reply| (reply.header.command, reply.status())),
        [(Command::READ, NtStatus::SUCCESS), (Command::IOCTL, NtStatus::SUCCESS)]
    );
}

/// With too many waiting calls, completed commands stay answered and the rest is refused under the right session.
#[test]
fn completed_commands_stay_answered_if_the_rest_is_refused() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    client.write(file, 0, &[7; 1000]);
    limit(&gate, 1);
    client.data(file, 0, 1000);
    let (local, demand) = (Ipv4Addr::LOCALHOST.into(), Demand::read(1));
    while gate.wait(local, demand, Box::new(Nobody)) == QueueResult::Queued {}
    for seals in [false, true] {
        client.seals = seals;
        // It belongs to no volume; the compound is charged at the next command.
        let echo = client.header(Command::ECHO, 1);
        let of_tree = |tree_id| Routing::Sync { process_id: 0, tree_id };
        let bare = message(&Header { routing: of_tree(0), ..echo }, &Empty);
        let header = client.header(Command::READ, 1);
        let anyone = of_tree(u32::MAX);
        let related = Header {
            flags: header.flags | Flags::RELATED_OPERATIONS,
            session_id: u64::MAX,
            routing: anyone,
            message_id: header.message_id + 1,
            ..header
        };
        client.header(Command::READ, 1);
        let commands =
            vec![bare, message(&header, &read(file, 0, 1000)), message(&related, &read(file, 0, 1000))];
        client.send_protected(chained(commands));
        let replies = client.replies();
        let statuses = replies.iter().map(Reply::status).collect::<Vec<_>>();
        let full = NtStatus::INSUFFICIENT_RESOURCES;
        assert_eq!(statuses, [NtStatus::SUCCESS, full, full], "sealed: {seals}");
        assert!(replies.iter().all(|reply| reply.header.session_id == client.session_id));
        // The same for a compound without a completed command.
        let first = client.request(Command::READ, &read(file, 0, 1000));
        let next = client.header(Command::READ, 1);
        let next = Header {
            flags: next.flags | Flags::RELATED_OPERATIONS,
            session_id: u64::MAX,
            routing: anyone,
            ..next
        };
        client.send_protected(chained(vec![first, message(&next, &read(file, 0, 1000))]));
        let replies = client.replies();
        assert!(replies.iter().all(|reply| reply.status() == full));
        assert!(replies.iter().all(|reply| reply.header.session_id == client.session_id));
    }
}

/// A waiter without effect.
struct Nobody;

impl Waiter for Nobody {
    fn pass(self: Box<Self>) {}
}

/// Credits carry back-pressure: a client with many gets none while its calls wait.
#[test]
fn credits_are_withheld_while_calls_wait_for_a_limit() {
    let (rig, gate, _pacer) = limited();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let file = client.open("file", Opening::default());
    let theirs = other.open("file", Opening::default());
    let few = i64::from(CREDITS_PRESSED_MAX);
    let ask = |client: &mut Client| client.query(file, FileClass::STANDARD, 100).header.credits;
    while client.credits < 2 * few {
        assert!(ask(&mut client) > 1);
    }
    let all = Limits { write_bytes: NonZeroU64::new(1), ..Limits::NONE };
    gate.set_limits(VolumeLimits { all, ..VolumeLimits::default() });
    other.write(theirs, 0, &[7; 1000]);
    let header = other.header(Command::WRITE, 1);
    other.send_protected(message(&header, &write(theirs, 0, &[7; 1000])));
    wait_until(|| gate.throttled().1 > 0);
    while client.credits > few {
        assert_eq!(ask(&mut client), 0);
    }
    // A client always keeps at least one credit.
    for _ in 0..10 {
        assert_eq!(ask(&mut client), 1);
    }
    limit(&gate, 0);
    assert_eq!(other.reply().status(), NtStatus::SUCCESS);
    assert!(ask(&mut client) > 1);
}
