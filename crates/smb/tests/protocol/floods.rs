//! Clients with excessive requests that never complete.

use crate::rig::{BOB, Client, Offer, Opening, Rig, SHARE, wait_until, write};
use smb::limits::{CONNECTION_WAITING_BYTES_MAX, WAITING_BYTES_OF_USER_MAX};
use smb_wire::create::{CreateDisposition, CreateOptions};
use smb_wire::dir::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use smb_wire::file::{CloseFlags, CloseRequest, ReadResponse};
use smb_wire::header::{Command, Header};
use smb_wire::lock::{LockElement, LockFlags, LockRequest, LockSequence};
use smb_wire::session::Empty;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus};

const MOST: usize = smb::limits::CONNECTION_WAITING_MAX;

fn cancel(client: &mut Client, message_id: u64) {
    let header = Header::request(Command::CANCEL, message_id, client.session_id, 0);
    client.send_protected(crate::rig::message(&header, &Empty));
}

fn watch(client: &mut Client, file_id: FileId) -> NtStatus {
    let body = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::WATCH_TREE,
        output_buffer_length: 1 << 16,
        file_id,
        completion_filter: CompletionFilter(0xfff),
    };
    let request = client.request(Command::CHANGE_NOTIFY, &body);
    client.send_protected(request);
    client.reply().status()
}

/// Sends a CHANGE_NOTIFY with a needlessly long buffer.
fn watch_padded(client: &mut Client, file_id: FileId) -> NtStatus {
    let body = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::empty(),
        output_buffer_length: 1 << 16,
        file_id,
        completion_filter: CompletionFilter(0xfff),
    };
    let mut request = client.request(Command::CHANGE_NOTIFY, &body);
    request.resize(PADDED_BYTES, 0);
    client.send_protected(request);
    client.reply().status()
}

/// The length of such a request.
const PADDED_BYTES: usize = 128 << 10;

fn root(client: &mut Client) -> FileId {
    let (access, options) = (AccessMask::LIST_DIRECTORY, CreateOptions::DIRECTORY_FILE);
    client.open("", Opening { access, options, ..Opening::by(CreateDisposition::OPEN) })
}

/// Pending requests per connection are limited, whatever number of directories is open. All of them end with the
/// connection; other clients still get their notifications.
#[test]
fn watches_per_connection_are_limited() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let roots: Vec<FileId> = (0..8).map(|_| root(&mut client)).collect();
    for i in 0..MOST {
        assert_eq!(watch(&mut client, roots[i % 8]), NtStatus::PENDING);
    }
    for root in &roots {
        assert_eq!(watch(&mut client, *root), NtStatus::INSUFFICIENT_RESOURCES);
    }
    let mut other = rig.alice();
    let theirs = root(&mut other);
    assert_eq!(watch(&mut other, theirs), NtStatus::PENDING);
    let mut third = rig.alice();
    let new = third.open("new", Opening::by(CreateDisposition::CREATE));
    assert_eq!(other.reply().status(), NtStatus::SUCCESS);
    for _ in &roots {
        assert_eq!(client.reply().status(), NtStatus::SUCCESS, "each directory completes one request");
    }
    // Waits until the others have received all changes up to their wakeup.
    assert_eq!(third.write(new, 0, b"told").status(), NtStatus::SUCCESS);
    assert_eq!(third.close(new).status(), NtStatus::SUCCESS);
    drop(client);
    wait_until(|| rig.connections() == 2);
    assert_eq!(watch(&mut other, theirs), NtStatus::SUCCESS, "further changes of the file");
}

/// Requests of maximum length wait over several connections of one user; other users can still wait.
#[test]
fn pending_requests_per_user_are_limited() {
    let rig = Rig::new();
    let (mut connections, mut waiting_bytes) = (Vec::new(), 0);
    let refused_at = loop {
        let mut client = rig.alice();
        let root = root(&mut client);
        let (mut refused, before) = (0, waiting_bytes);
        // More than one connection may have.
        for _ in 0..2 * CONNECTION_WAITING_BYTES_MAX / PADDED_BYTES {
            match watch_padded(&mut client, root) {
                NtStatus::PENDING => waiting_bytes += PADDED_BYTES,
                status => {
                    assert_eq!(status, NtStatus::INSUFFICIENT_RESOURCES);
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
        connections.push(client);
        if waiting_bytes == before {
            break waiting_bytes;
        }
    };
    assert!(refused_at <= WAITING_BYTES_OF_USER_MAX && refused_at > WAITING_BYTES_OF_USER_MAX / 2);
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    let root = root(&mut bob);
    assert_eq!(watch_padded(&mut bob, root), NtStatus::PENDING);
    // Closed connections free their share.
    drop(connections);
    wait_until(|| rig.connections() == 1);
    let mut alice = rig.alice();
    let root = self::root(&mut alice);
    assert_eq!(watch_padded(&mut alice, root), NtStatus::PENDING);
}

#[test]
fn flood_of_locks_and_cancels_is_answered() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let (mine, theirs) = (one.open("file", Opening::default()), two.open("file", Opening::default()));
    let lock = |file_id, flags| LockRequest {
        lock_sequence: LockSequence(0),
        file_id,
        locks: vec![LockElement { offset: 0, length: 1, flags }],
    };
    let now = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    assert_eq!(one.call(Command::LOCK, &lock(mine, now)).status(), NtStatus::SUCCESS);
    for _ in 0..3 {
        let mut waiting = Vec::new();
        for _ in 0..200 {
            waiting.push(two.next_id);
            let request = two.request(Command::LOCK, &lock(theirs, LockFlags::EXCLUSIVE_LOCK));
            two.send_protected(request);
            assert_eq!(two.reply().status(), NtStatus::PENDING);
        }
        // Cancels each, the last first, and some unknown or completed ids.
        for &message_id in waiting.iter().rev() {
            cancel(&mut two, message_id);
            cancel(&mut two, message_id);
            cancel(&mut two, u64::MAX);
            let reply = two.reply();
            assert_eq!((reply.status(), reply.header.message_id), (NtStatus::CANCELLED, message_id));
        }
    }
    assert_eq!(one.call(Command::LOCK, &lock(mine, LockFlags::UNLOCK)).status(), NtStatus::SUCCESS);
    assert_eq!(two.call(Command::LOCK, &lock(theirs, now)).status(), NtStatus::SUCCESS, "nothing is left");
}

/// The header of an RPC PDU (C706 §12.6.3.1) with a body.
fn unit(kind: u8, flags: u8, length: u16, body: &[u8]) -> Vec<u8> {
    let [low, high] = length.to_le_bytes();
    [&[5, 0, kind, flags, 0x10, 0, 0, 0, low, high, 0, 0, 1, 0, 0, 0][..], body].concat()
}

/// BIND to `srvsvc` with one context.
fn bind() -> Vec<u8> {
    let srvsvc =
        [0xc8, 0x4f, 0x32, 0x4b, 0x70, 0x16, 0xd3, 0x01, 0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88];
    let ndr =
        [0x04, 0x5d, 0x88, 0x8a, 0xeb, 0x1c, 0xc9, 0x11, 0x9f, 0xe8, 0x08, 0x00, 0x2b, 0x10, 0x48, 0x60];
    let head = [0xd0, 0x16, 0xd0, 0x16, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0];
    let body = [&head[..], &srvsvc, &[3, 0, 0, 0], &ndr, &[2, 0, 0, 0]].concat();
    unit(11, 3, 72, &body)
}

fn pipe(rig: &Rig) -> (Client, FileId) {
    let mut client = rig.alice();
    client.mount("IPC$");
    let pipe = client.open("srvsvc", Opening { access: PIPE_ACCESS, ..Opening::by(CreateDisposition::OPEN) });
    (client, pipe)
}

const PIPE_ACCESS: AccessMask = AccessMask(AccessMask::READ_DATA.0 | AccessMask::WRITE_DATA.0);

#[test]
fn split_pdus_are_reassembled() {
    let rig = Rig::new();
    let (mut client, pipe) = pipe(&rig);
    let whole = bind();
    for byte in &whole[..71] {
        assert_eq!(client.call(Command::WRITE, &write(pipe, 0, &[*byte])).status(), NtStatus::SUCCESS);
    }
    let waits = ask_to_read(&mut client, pipe);
    let last = client.request(Command::WRITE, &write(pipe, 0, &whole[71..]));
    client.send_protected(last);
    let done = [client.reply(), client.reply()].map(|reply| (reply.header.message_id, reply.status()));
    assert!(done.contains(&(waits, NtStatus::SUCCESS)), "{done:?}");
}

/// Sends a READ to an empty pipe and returns its message id.
#[track_caller]
fn ask_to_read(client: &mut Client, pipe: FileId) -> u64 {
    let message_id = client.next_id;
    let request = client.request(Command::READ, &crate::rig::read(pipe, 0, 1024));
    client.send_protected(request);
    assert_eq!(client.reply().status(), NtStatus::PENDING);
    message_id
}

/// The oldest pending READ gets the first reply, even if others end meanwhile.
#[test]
fn pipe_reads_complete_in_order() {
    let rig = Rig::new();
    let (mut client, pipe) = pipe(&rig);
    let waiting: Vec<u64> = (0..4).map(|_| ask_to_read(&mut client, pipe)).collect();
    cancel(&mut client, waiting[1]);
    let reply = client.reply();
    assert_eq!((reply.status(), reply.header.message_id), (NtStatus::CANCELLED, waiting[1]));
    // Two calls in one write, each with a call id that the reply repeats.
    let mut second = bind();
    second[12] = 2;
    let write = client.request(Command::WRITE, &write(pipe, 0, &[bind(), second].concat()));
    client.send_protected(write);
    let mut answered: Vec<(u64, u8)> = (0..3)
        .map(|_| client.reply())
        .filter(|reply| reply.header.command == Command::READ)
        .map(|reply| (reply.header.message_id, reply.body::<ReadResponse<&[u8]>>().data[12]))
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, [(waiting[0], 1), (waiting[2], 2)]);
    // The last READ waits until the pipe closes.
    let close = client.request(Command::CLOSE, &CloseRequest { flags: CloseFlags::empty(), file_id: pipe });
    client.send_protected(close);
    let ended = [client.reply(), client.reply()].map(|reply| (reply.header.message_id, reply.status()));
    assert!(ended.contains(&(waiting[3], NtStatus::FILE_CLOSED)), "{ended:?}");
}

#[test]
fn pending_pipe_reads_are_limited() {
    let rig = Rig::new();
    let (mut client, first) = pipe(&rig);
    for _ in 0..MOST {
        ask_to_read(&mut client, first);
    }
    client.read(first, 0, 1024).assert_refused(NtStatus::INSUFFICIENT_RESOURCES);
    let (mut other, theirs) = pipe(&rig);
    ask_to_read(&mut other, theirs);
    drop(client);
    wait_until(|| rig.connections() == 1);
    // Closing a pipe completes its pending READ.
    let write = other.request(Command::WRITE, &write(theirs, 0, &[0xff; 64]));
    other.send_protected(write);
    let ended = [other.reply(), other.reply()].map(|reply| reply.status());
    assert_eq!(ended, [NtStatus::PIPE_DISCONNECTED; 2]);
}

#[test]
fn malformed_pdu_closes_only_its_pipe() {
    let rig = Rig::new();
    let requests = |length: u16| unit(0, 3, length, &[0; 8]);
    let hostile = [
        // A length shorter than the header, and one that ends within the call's own header.
        requests(0),
        requests(15),
        requests(16),
        requests(23),
        // Another version, another byte order, a PDU type that clients do not send.
        [&[4][..], &requests(24)[1..]].concat(),
        [&requests(24)[..4], &[0], &requests(24)[5..]].concat(),
        unit(12, 3, 24, &[0; 8]),
    ];
    for bytes in hostile {
        let (mut client, pipe) = pipe(&rig);
        assert_eq!(client.write(pipe, 0, &bind()).status(), NtStatus::SUCCESS);
        assert_eq!(client.read(pipe, 0, 1024).status(), NtStatus::SUCCESS);
        client.write(pipe, 0, &bytes).assert_refused(NtStatus::PIPE_DISCONNECTED);
        client.read(pipe, 0, 1024).assert_refused(NtStatus::PIPE_DISCONNECTED);
        assert_eq!(client.close(pipe).status(), NtStatus::SUCCESS);
        client.open("srvsvc", Opening::by(CreateDisposition::OPEN));
    }
}

#[test]
fn endless_call_closes_its_pipe() {
    let rig = Rig::new();
    let (mut client, pipe) = pipe(&rig);
    assert_eq!(client.write(pipe, 0, &bind()).status(), NtStatus::SUCCESS);
    assert_eq!(client.read(pipe, 0, 1024).status(), NtStatus::SUCCESS);
    let piece = |flags| unit(0, flags, 32_024, &[0; 32_008]);
    let mut written = 0;
    let mut flags = 1;
    loop {
        let reply = client.write(pipe, 0, &piece(flags));
        if reply.status() == NtStatus::PIPE_DISCONNECTED {
            break;
        }
        assert_eq!(reply.status(), NtStatus::SUCCESS);
        written += 32_000;
        assert!(written <= smb_wire::rpc::REQUEST_MAX, "the limit is never reached");
        flags = 0;
    }
    client.open("srvsvc", Opening::by(CreateDisposition::OPEN));
}

/// Calls with unread replies are accepted up to a limit, and again after the replies are read.
#[test]
fn unread_replies_are_limited() {
    let rig = Rig::new();
    let (mut client, pipe) = pipe(&rig);
    assert_eq!(client.write(pipe, 0, &bind()).status(), NtStatus::SUCCESS);
    // An unknown operation with a fault of 32 bytes, many calls in one message.
    let calls = unit(0, 3, 24, &[0, 0, 0, 0, 0, 0, 0xff, 0xff]).repeat(200);
    let mut writes = 0;
    while client.write(pipe, 0, &calls).status() == NtStatus::SUCCESS {
        writes += 1;
        assert!(writes < 200, "the limit is never reached");
    }
    assert!(client.write(pipe, 0, &calls).status().is_error());
    client.close(pipe);
    // Too many calls in one write close their pipe.
    let pipe = client.open("srvsvc", Opening { access: PIPE_ACCESS, ..Opening::by(CreateDisposition::OPEN) });
    assert_eq!(client.write(pipe, 0, &bind()).status(), NtStatus::SUCCESS);
    client.write(pipe, 0, &calls.repeat(2)).assert_refused(NtStatus::PIPE_DISCONNECTED);
    assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
}
