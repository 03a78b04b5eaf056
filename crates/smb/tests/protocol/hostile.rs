//! Malformed and malicious requests.

use crate::notify::wait_for;
use crate::rig::{Offer, Opening, Rig, message, wait_until, write};
use smb_wire::FileId;
use smb_wire::classes::FileClass;
use smb_wire::create::CreateOptions;
use smb_wire::header::{Command, Header};
use smb_wire::session::Empty;
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, NtStatus};

#[test]
fn message_id_is_used_once() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let request = client.signed(Command::ECHO, &Empty);
    client.send(&request);
    client.reply();
    client.send(&request);
    client.assert_ended();
}

#[test]
fn long_message_id_is_used_once() {
    let rig = Rig::new();
    for seals in [false, true] {
        let mut client = rig.alice();
        client.seals = seals;
        let file = client.open("file", Opening::default());
        let data = vec![1; 500_000];
        let header = client.header(Command::WRITE, 8);
        let request = message(&header, &write(file, 0, &data));
        client.send_protected(request.clone());
        assert_eq!(client.reply().status(), NtStatus::SUCCESS);
        client.send_protected(request);
        client.assert_ended();
    }
}

#[test]
fn ungranted_message_id_ends_the_connection() {
    let rig = Rig::new();
    let beyond = |client: &crate::rig::Client| client.next_id + u64::try_from(client.credits).unwrap();
    for (at, charge) in [(0, 1), (-1, 2), (1000, 1), (i64::MAX, u16::MAX)] {
        let mut client = rig.alice();
        let message_id = beyond(&client).wrapping_add_signed(at);
        let header = Header { message_id, credit_charge: charge, ..client.header(Command::ECHO, 1) };
        client.send_protected(message(&header, &Empty));
        client.assert_ended();
    }
    // The last granted id is not among them.
    let mut client = rig.alice();
    let last = beyond(&client) - 1;
    let header = Header { message_id: last, ..client.header(Command::ECHO, 1) };
    client.send_protected(message(&header, &Empty));
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
}

#[test]
fn credits_are_limited() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for _ in 0..140 {
        client.call(Command::ECHO, &Empty);
        assert!(client.credits <= i64::from(smb::limits::CREDITS_MAX));
    }
    assert_eq!(client.credits, i64::from(smb::limits::CREDITS_MAX));
}

#[test]
fn invalid_message_length_ends_the_connection() {
    let rig = Rig::new();
    let most = u32::try_from(smb::limits::MESSAGE_BYTES_MAX).unwrap();
    for length in [0, most + 1, 0x00ff_ffff, 0x0100_0040, u32::MAX, 0x8100_0044] {
        let mut client = rig.connect();
        client.send_raw(&length.to_be_bytes());
        client.assert_ended();
    }
}

#[test]
fn malformed_message_ends_the_connection() {
    let rig = Rig::new();
    let mut short = Header::request(Command::ECHO, 0, 0, 0);
    short.credit_charge = 0;
    let short = message(&short, &Empty);
    let texts: [&[u8]; 6] =
        [b"GET / HTTP/1.1\r\n\r\n", b"\xfeSMB", b"\xfdSMB", b"\xfcSMBxxxxxxxxxxxxxxxxxx", b"x", &short[..63]];
    for text in texts {
        let mut client = rig.connect();
        client.send(text);
        client.assert_ended();
    }
}

#[test]
fn encrypted_message_without_session_ends_the_connection() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let sealed = client.sealed(Command::ECHO, &Empty);
    let mut other = rig.connect();
    other.send(&sealed);
    other.assert_ended();
    client.send(&sealed);
    client.seals = true;
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
}

/// The server buffers no long message for unauthenticated clients.
#[test]
fn long_message_needs_login() {
    let rig = Rig::new();
    let head = message(&Header::request(Command::WRITE, 1, 0, 0), &write(FileId::default(), 0, &[]));
    let mut sealed_head = vec![0xfd, b'S', b'M', b'B'];
    sealed_head.resize(36, 7);
    sealed_head.extend([0xff, 0xff, 0, 0, 0, 0, 1, 0]);
    for head in [head, sealed_head] {
        let mut client = rig.connect();
        client.negotiate(&Offer::default());
        let length = u32::try_from(smb::limits::MESSAGE_BYTES_MAX).unwrap();
        client.send_raw(&[&length.to_be_bytes()[..], &head, &[0; 200]].concat());
        client.assert_ended();
    }
}

#[test]
fn partial_message_does_not_block_others() {
    let rig = Rig::new();
    let mut halves = Vec::new();
    for sent in [1, 4, 5, 70, 300] {
        let mut client = rig.alice();
        let file = client.open("half", Opening::default());
        let header = client.header(Command::WRITE, 16);
        let request = message(&header, &write(file, 0, &[9; 1 << 20]));
        let length = u32::try_from(request.len()).unwrap();
        let whole = [&length.to_be_bytes()[..], &request].concat();
        client.send_raw(&whole[..sent]);
        halves.push(client);
    }
    let mut client = rig.alice();
    client.put("whole", b"done");
    assert_eq!(client.get("whole"), b"done");
    let file = client.open("half", Opening::default());
    client.read(file, 0, 1).assert_refused(NtStatus::END_OF_FILE);
    drop(halves);
    wait_until(|| rig.connections() == 1);
}

#[test]
fn broken_connection_closes_its_files() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let alone = Opening { share: smb_wire::create::ShareAccess::empty(), ..Opening::default() };
    client.open("mine", alone);
    let mut other = rig.alice();
    other.create("mine", Opening::default()).assert_refused(NtStatus::SHARING_VIOLATION);
    drop(client);
    wait_until(|| other.action("mine", Opening::default()).is_ok());
}

#[test]
fn truncated_structure_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let commands = [
        Command::TREE_CONNECT,
        Command::CREATE,
        Command::CLOSE,
        Command::FLUSH,
        Command::READ,
        Command::WRITE,
        Command::LOCK,
        Command::IOCTL,
        Command::QUERY_DIRECTORY,
        Command::CHANGE_NOTIFY,
        Command::QUERY_INFO,
        Command::SET_INFO,
        Command::OPLOCK_BREAK,
        Command(0x0014),
        Command(0xffff),
    ];
    for command in commands {
        // The structure has the wrong size for every command.
        client.call(command, &Empty).assert_refused(NtStatus::INVALID_PARAMETER);
    }
    let header = client.header(Command::ECHO, 1);
    client.send_protected(message(&header, &0_u16));
    client.reply().assert_refused(NtStatus::INVALID_PARAMETER);
}

#[test]
fn buffer_outside_of_message_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    // DataOffset and Length of a WRITE.
    for (offset, length) in [(112, 6), (112, u32::MAX), (111, 5), (0, 5), (u16::MAX, 1), (117, 1)] {
        let mut request = client.request(Command::WRITE, &write(file, 0, b"12345"));
        request[66..68].copy_from_slice(&u16::to_le_bytes(offset));
        request[68..72].copy_from_slice(&u32::to_le_bytes(length));
        client.send_protected(request);
        client.reply().assert_refused(NtStatus::INVALID_PARAMETER);
    }
    client.read(file, 0, 1).assert_refused(NtStatus::END_OF_FILE);
}

#[test]
fn long_command_other_than_write_is_answered() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let long = vec![0_u8; 300_000];
    let request = smb_wire::info::SetInfoRequest {
        info_type: smb_wire::info::InfoType::FILE,
        file_info_class: FileClass::END_OF_FILE.0,
        buffer: &long,
        additional_information: smb_wire::info::SecurityInformation::empty(),
        file_id: file,
    };
    assert_eq!(client.call_charged(Command::SET_INFO, &request, 5).status(), NtStatus::SUCCESS);
    client.call_charged(Command::SET_INFO, &request, 4).assert_refused(NtStatus::INVALID_PARAMETER);
    assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
}

#[test]
fn opens_are_limited() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"data");
    let looking = Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::dir() };
    let (most, at_once) = (smb::limits::SESSION_OPENS_MAX, smb::limits::COMPOUND_COMMANDS_MAX);
    let names: Vec<Vec<u8>> = (0..at_once).map(|i| crate::rig::name(&format!("dir{i}"))).collect();
    for _ in 0..most / at_once {
        let creates = names.iter().map(|name| client.request(Command::CREATE, &looking.request(name)));
        let creates = creates.collect();
        assert!(client.chain(creates).iter().all(|reply| reply.status() == NtStatus::SUCCESS));
    }
    let mut watching = rig.alice();
    let dir = watching.open("dir0", Opening { access: AccessMask::LIST_DIRECTORY, ..Opening::dir() });
    wait_for(&mut watching, dir, false);
    client.create("", looking).assert_refused(NtStatus::INSUFFICIENT_RESOURCES);
    let deleting = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() };
    client.create("file", deleting).assert_refused(NtStatus::INSUFFICIENT_RESOURCES);
    let options = CreateOptions::DELETE_ON_CLOSE | CreateOptions::DIRECTORY_FILE;
    client.create("dir0", Opening { options, ..deleting }).assert_refused(NtStatus::INSUFFICIENT_RESOURCES);
    // The refused request opened nothing.
    let mut other = rig.alice();
    other.create("", looking);
    assert_eq!(other.get("file"), b"data");
    wait_for(&mut watching, dir, false);
}

#[test]
fn tree_connects_are_limited() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for _ in 1..smb::limits::SESSION_TREES_MAX {
        assert_eq!(client.tree_connect("docs").status(), NtStatus::SUCCESS);
    }
    client.tree_connect("docs").assert_refused(NtStatus::INSUFFICIENT_RESOURCES);
    assert_eq!(client.call(Command::TREE_DISCONNECT, &Empty).status(), NtStatus::SUCCESS);
    assert_eq!(client.tree_connect("docs").status(), NtStatus::SUCCESS);
}

#[test]
fn cancel_gets_no_reply_and_uses_no_id() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let header = Header { credit_charge: 0, ..Header::request(Command::CANCEL, 0, client.session_id, 0) };
    client.send(&message(&header, &Empty));
    assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
}

/// Buffer offsets and lengths that point before, into or beyond their message, in every command.
#[test]
fn out_of_bounds_offsets_are_refused_in_every_command() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let wire = crate::rig::name("name");
    let path = crate::rig::name("\\\\server\\docs");
    let connect = smb_wire::tree::TreeConnectRequest {
        flags: smb_wire::tree::TreeConnectFlags::empty(),
        path: smb_wire::Utf16::new(&path).unwrap(),
    };
    let info = smb_wire::info::SetInfoRequest {
        info_type: smb_wire::info::InfoType::FILE,
        file_info_class: FileClass::END_OF_FILE.0,
        buffer: &[0; 8],
        additional_information: smb_wire::info::SecurityInformation::empty(),
        file_id: file,
    };
    let asks = crate::rig::ioctl(file, smb_wire::ioctl::CtlCode::SET_SPARSE, &[1], 0);
    // A request with the positions of its offset and its length.
    let requests = [
        (client.request(Command::CREATE, &Opening::default().request(&wire)), 108, 110),
        (client.request(Command::TREE_CONNECT, &connect), 68, 70),
        (client.request(Command::SET_INFO, &info), 72, 68),
        (client.request(Command::IOCTL, &asks), 88, 92),
    ];
    for (request, offset_at, length_at) in requests {
        // (the changed offset, the changed length)
        let places = [
            (Some(0), None),
            (Some(4), None),
            (Some(63), None),
            (Some(0xfff8), None),
            (None, Some(0xfffe)),
            (None, Some(4096)),
            (Some(u16::MAX), Some(u16::MAX - 1)),
        ];
        for (offset, length) in places {
            let header = Header::from_bytes(&request).unwrap();
            let header = Header { message_id: client.header(header.command, 1).message_id, ..header };
            let mut changed = request.clone();
            changed[..64].copy_from_slice(&header.to_bytes());
            if let Some(offset) = offset {
                changed[offset_at..][..2].copy_from_slice(&offset.to_le_bytes());
            }
            if let Some(length) = length {
                changed[length_at..][..2].copy_from_slice(&length.to_le_bytes());
            }
            client.send_protected(changed);
            let reply = client.reply();
            assert_eq!(reply.status(), NtStatus::INVALID_PARAMETER, "{header:?} {offset:?} {length:?}");
        }
    }
    client.read(file, 0, 1).assert_refused(NtStatus::END_OF_FILE);
}

/// NextCommand values that point between or into messages.
#[test]
fn overlapping_commands_end_the_connection() {
    let rig = Rig::new();
    for (first, second) in [(64, 68), (72, 4), (72, 12), (72, 64), (72, u32::MAX - 7), (0x8000_0000, 0)] {
        let mut client = rig.alice();
        let echoes = (0..3).map(|_| client.signed(Command::ECHO, &Empty)).collect();
        let mut chain = crate::rig::chained(echoes);
        chain[20..24].copy_from_slice(&u32::to_le_bytes(first));
        chain[72 + 20..][..4].copy_from_slice(&u32::to_le_bytes(second));
        client.send(&chain);
        client.assert_ended();
    }
}
