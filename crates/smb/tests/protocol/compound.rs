//! Compounds.

use crate::rig::{Client, Offer, Opening, Rig, chained, message, name, query, read, write};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{RenameInformation, StandardInformation};
use smb_wire::create::{CreateDisposition, CreateResponse};
use smb_wire::dir::OutputResponse;
use smb_wire::file::{CloseFlags, CloseRequest, ReadResponse, WriteResponse};
use smb_wire::header::{Command, Flags, Header, NEXT_COMMAND_OFFSET, SIGNATURE_OFFSET};
use smb_wire::info::{InfoType, SecurityInformation, SetInfoRequest};
use smb_wire::session::{Empty, SessionSetupFlags};
use smb_wire::types::{AccessMask, Dialect};
use smb_wire::{Decode, Encode, FileId, NtStatus, Utf16};

const CLOSE: CloseRequest = CloseRequest { flags: CloseFlags(0), file_id: FileId::PREVIOUS };

/// A related command, with the file id of the previous one.
fn related(client: &mut Client, command: Command, body: &impl Encode, charge: u16) -> Vec<u8> {
    let header = client.header(command, charge);
    let (flags, session_id) = (Flags::RELATED_OPERATIONS, u64::MAX);
    message(&Header { flags, session_id, ..header }, body)
}

fn statuses(replies: &[crate::rig::Reply]) -> Vec<NtStatus> {
    replies.iter().map(crate::rig::Reply::status).collect()
}

#[test]
fn related_commands_use_the_previous_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for seals in [false, true] {
        client.seals = seals;
        let create = client.request(Command::CREATE, &Opening::default().request(&name("file")));
        let put = related(&mut client, Command::WRITE, &write(FileId::PREVIOUS, 0, b"odd"), 1);
        let get = related(&mut client, Command::READ, &read(FileId::PREVIOUS, 1, 100), 1);
        let close = related(&mut client, Command::CLOSE, &CLOSE, 1);
        let replies = client.chain(vec![create, put, get, close]);
        assert_eq!(statuses(&replies), [NtStatus::SUCCESS; 4]);
        assert_eq!(replies[1].body::<WriteResponse>().count, 3);
        assert_eq!(replies[2].body::<ReadResponse<&[u8]>>().data, b"dd");
        for reply in &replies[..3] {
            let length = u32::try_from(reply.bytes.len()).unwrap();
            assert_eq!(reply.header.next_command, length, "the next one begins where this one ends");
            assert_eq!(length % 8, 0);
        }
        for reply in &replies[1..] {
            assert!(reply.header.flags.contains(Flags::RELATED_OPERATIONS | Flags::SERVER_TO_REDIR));
            assert_eq!(
                (reply.header.session_id, reply.header.tree_id()),
                (client.session_id, client.tree_id)
            );
        }
        assert_eq!(replies[3].header.next_command, 0);
        let file = replies[0].body::<CreateResponse<'_>>().file_id;
        client.close(file).assert_refused(NtStatus::FILE_CLOSED);
    }
}

#[test]
fn related_command_after_failure_fails_alike() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let wire = name("none");
    let create = client.request(Command::CREATE, &Opening::by(CreateDisposition::OPEN).request(&wire));
    let get = related(&mut client, Command::READ, &read(FileId::PREVIOUS, 0, 1), 1);
    let close = related(&mut client, Command::CLOSE, &CLOSE, 1);
    let replies = client.chain(vec![create, get, close]);
    assert_eq!(statuses(&replies), [NtStatus::OBJECT_NAME_NOT_FOUND; 3]);
}

#[test]
fn failure_after_open_keeps_the_file_for_the_rest() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let create = client.request(Command::CREATE, &Opening::default().request(&name("empty")));
    let get = related(&mut client, Command::READ, &read(FileId::PREVIOUS, 0, 1), 1);
    let close = related(&mut client, Command::CLOSE, &CLOSE, 1);
    let replies = client.chain(vec![create, get, close]);
    assert_eq!(statuses(&replies), [NtStatus::SUCCESS, NtStatus::END_OF_FILE, NtStatus::SUCCESS]);
}

#[test]
fn unrelated_commands_are_independent() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let wire = name("none");
    let missing = client.request(Command::CREATE, &Opening::by(CreateDisposition::OPEN).request(&wire));
    let made = client.request(Command::CREATE, &Opening::default().request(&wire));
    let close = client.request(Command::CLOSE, &CLOSE);
    let echo = client.request(Command::ECHO, &Empty);
    let replies = client.chain(vec![missing, made, close, echo]);
    let expected =
        [NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::SUCCESS, NtStatus::FILE_CLOSED, NtStatus::SUCCESS];
    assert_eq!(statuses(&replies), expected);
}

#[test]
fn first_command_cannot_be_related() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let close = related(&mut client, Command::CLOSE, &CLOSE, 1);
    let echo = client.request(Command::ECHO, &Empty);
    let replies = client.chain(vec![close, echo]);
    assert_eq!(replies[0].status(), NtStatus::INVALID_PARAMETER);
    assert_eq!(replies[1].status(), NtStatus::SUCCESS);
}

#[test]
fn related_command_without_session_fails() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let header = Header { session_id: 77, ..client.header(Command::ECHO, 1) };
    let commands = [
        related(&mut client, Command::CLOSE, &CLOSE, 1),
        related(&mut client, Command::CLOSE, &CLOSE, 1),
        message(&Header { command: Command::CLOSE, ..header }, &CLOSE),
        related(&mut client, Command::CLOSE, &CLOSE, 1),
    ];
    let replies = client.chain(commands.to_vec());
    let wrong = NtStatus::INVALID_PARAMETER;
    assert_eq!(statuses(&replies), [wrong, wrong, NtStatus::USER_SESSION_DELETED, wrong]);
}

#[test]
fn related_command_ignores_its_file_id() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let other = client.open("other", Opening::default());
    let create = client.request(Command::CREATE, &Opening::default().request(&name("file")));
    let put = related(&mut client, Command::WRITE, &write(other, 0, b"data"), 1);
    let unknown = FileId { persistent: u64::MAX, volatile: 0 };
    let close = related(&mut client, Command::CLOSE, &CloseRequest { file_id: unknown, ..CLOSE }, 1);
    let replies = client.chain(vec![create, put, close]);
    assert_eq!(statuses(&replies), [NtStatus::SUCCESS; 3]);
    assert_eq!(client.get("file"), b"data");
    client.read(other, 0, 4).assert_refused(NtStatus::END_OF_FILE);
}

#[test]
fn last_reply_of_compound_is_padded() {
    let rig = Rig::new();
    // Signed with AES-GMAC, and with AES-CMAC, where signing is batched with other replies.
    for offer in [Offer::default(), Offer::of(Dialect::SMB300)] {
        let mut client = rig.alice_with(&offer);
        client.put("file", b"odd");
        let file = client.open("file", Opening::default());
        for seals in [false, true] {
            client.seals = seals;
            let reads = [
                client.request(Command::READ, &read(file, 0, 3)),
                client.request(Command::READ, &read(file, 0, 3)),
            ];
            let replies = client.chain(reads.to_vec());
            let lengths: Vec<usize> = replies.iter().map(|reply| reply.bytes.len()).collect();
            assert_eq!(lengths, [88, 88], "{offer:?}, encrypted: {seals}");
            assert_eq!(client.read(file, 0, 3).bytes.len(), 64 + 16 + 3, "alone, it ends with its data");
        }
    }
}

#[test]
fn negotiate_and_session_setup_in_compound_are_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let setup = client.setup_request(&[1; 20], 0, SessionSetupFlags::empty());
    let echo = client.request(Command::ECHO, &Empty);
    let replies = client.chain(vec![setup, echo]);
    assert_eq!(statuses(&replies), [NtStatus::INVALID_PARAMETER, NtStatus::SUCCESS]);
}

#[test]
fn logoff_in_compound_ends_session_for_the_rest() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let logoff = client.request(Command::LOGOFF, &Empty);
    let wire = name("file");
    let create = related(&mut client, Command::CREATE, &Opening::default().request(&wire), 1);
    let replies = client.chain(vec![logoff, create]);
    assert_eq!(statuses(&replies), [NtStatus::SUCCESS, NtStatus::USER_SESSION_DELETED]);
}

#[test]
fn invalid_next_command_ends_the_connection() {
    let rig = Rig::new();
    for next in [8_u32, 56, 65, 100, 4096, u32::MAX, u32::MAX - 7] {
        let mut client = rig.alice();
        let mut first = client.signed(Command::ECHO, &Empty);
        first.resize(72, 0);
        first[NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&next.to_le_bytes());
        let second = client.signed(Command::ECHO, &Empty);
        client.send(&[first, second].concat());
        client.assert_ended();
    }
}

#[test]
fn compound_commands_are_limited() {
    let rig = Rig::new();
    let most = smb::limits::COMPOUND_COMMANDS_MAX;
    let mut client = rig.alice();
    let echoes = (0..most).map(|_| client.request(Command::ECHO, &Empty)).collect();
    assert_eq!(client.chain(echoes).len(), most);
    let echoes = (0..=most).map(|_| client.request(Command::ECHO, &Empty)).collect();
    client.send_protected(chained(echoes));
    client.assert_ended();
}

#[test]
fn compound_reply_size_is_limited() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let length = smb::limits::IO_BYTES_MAX;
    let file = client.open("file", Opening::default());
    client.write(file, 0, &vec![1; 1 << 20]);
    let reads = (0..5)
        .map(|_| {
            let header = client.header(Command::READ, 16);
            message(&header, &read(file, 0, length))
        })
        .collect();
    let found = statuses(&client.chain(reads));
    assert_eq!(found[..3], [NtStatus::SUCCESS; 3]);
    assert_eq!(found[3..], [NtStatus::INSUFFICIENT_RESOURCES; 2]);
}

/// A message of more than 192 KiB is received in parts.
#[test]
fn long_compound_equals_short_one() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let data: Vec<u8> = (0..900_000_u32).map(|i| u8::try_from(i % 253).unwrap()).collect();
    for seals in [false, true] {
        client.seals = seals;
        // The first part of the long message ends in the second command, or in the third.
        for echoes in [0, 1] {
            let mut commands = Vec::new();
            for _ in 0..echoes {
                commands.push(client.request(Command::ECHO, &Empty));
            }
            commands.push(client.request(Command::CREATE, &Opening::default().request(&name("long"))));
            let body = write(FileId::PREVIOUS, 0, &data);
            commands.push(related(&mut client, Command::WRITE, &body, 16));
            commands.push(related(&mut client, Command::CLOSE, &CLOSE, 1));
            let replies = client.chain(commands);
            assert_eq!(statuses(&replies), vec![NtStatus::SUCCESS; 3 + echoes]);
            let file = client.open("long", Opening::default());
            assert!(client.data(file, 0, 900_000) == data);
        }
    }
}

/// A related command uses the file of the previous command (MS-SMB2 §3.3.5.2.7.2). If that opened none, the related
/// command has none, whatever it names or was open before.
#[test]
fn related_command_after_failed_create_has_no_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("kept", b"kept");
    let other = client.open("kept", Opening::default());
    let missing = NtStatus::OBJECT_NAME_NOT_FOUND;
    let none = name("none");
    let none = Opening::by(CreateDisposition::OPEN).request(&none);
    for named in [FileId::PREVIOUS, other] {
        let first = client.request(Command::CREATE, &Opening::default().request(&name("kept")));
        let commands = [
            first,
            related(&mut client, Command::CREATE, &none, 1),
            related(&mut client, Command::WRITE, &write(named, 0, b"lost"), 1),
            related(&mut client, Command::READ, &read(named, 0, 4), 1),
            related(&mut client, Command::CLOSE, &CloseRequest { file_id: named, ..CLOSE }, 1),
        ];
        let replies = client.chain(commands.to_vec());
        assert_eq!(statuses(&replies), [NtStatus::SUCCESS, missing, missing, missing, missing]);
        assert_eq!(client.data(other, 0, 4), b"kept");
        // The first command's file is still open.
        let file = replies[0].body::<CreateResponse<'_>>().file_id;
        assert_eq!(client.close(file).status(), NtStatus::SUCCESS);
    }
    // A CREATE among them replaces the file for the rest.
    let commands = [
        client.request(Command::CREATE, &none),
        related(&mut client, Command::CREATE, &Opening::default().request(&name("new")), 1),
        related(&mut client, Command::WRITE, &write(FileId::PREVIOUS, 0, b"new"), 1),
    ];
    let replies = client.chain(commands.to_vec());
    assert_eq!(statuses(&replies), [missing, NtStatus::SUCCESS, NtStatus::SUCCESS]);
    assert_eq!((client.get("kept"), client.get("new")), (b"kept".to_vec(), b"new".to_vec()));
}

/// The CREATE is refused before it runs, because its signature is wrong.
#[test]
fn related_command_after_refused_create_has_no_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("kept", b"kept");
    let wire = name("kept");
    let first = client.request(Command::CREATE, &Opening::default().request(&wire));
    let create = related(&mut client, Command::CREATE, &Opening::default().request(&name("new")), 1);
    let put = related(&mut client, Command::WRITE, &write(FileId::PREVIOUS, 0, b"lost"), 1);
    let second = first.len().next_multiple_of(8);
    let mut chain = chained(vec![first, create, put]);
    client.sign(&mut chain);
    chain[second + SIGNATURE_OFFSET] ^= 1;
    client.send(&chain);
    let denied = NtStatus::ACCESS_DENIED;
    assert_eq!(statuses(&client.replies()), [NtStatus::SUCCESS, denied, denied]);
    assert_eq!(client.get("kept"), b"kept");
}

/// Checks shared by the commands of a compound are repeated after a command changed their input.
#[test]
fn each_command_sees_effects_of_earlier_ones() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let size = |reply: &crate::rig::Reply| {
        StandardInformation::from_bytes(reply.body::<OutputResponse<&[u8]>>().output).unwrap().end_of_file
    };
    let ask = query(InfoType::FILE, FileId::PREVIOUS, FileClass::STANDARD.0, 100);
    let create = client.request(Command::CREATE, &Opening::default().request(&name("file")));
    let mut commands = vec![create];
    for _ in 0..2 {
        commands.push(related(&mut client, Command::QUERY_INFO, &ask, 1));
    }
    commands.push(related(&mut client, Command::WRITE, &write(FileId::PREVIOUS, 0, b"odd"), 1));
    commands.push(related(&mut client, Command::QUERY_INFO, &ask, 1));
    let replies = client.chain(commands);
    assert_eq!([1, 2, 4].map(|at| size(&replies[at])), [0, 0, 3]);
    let access = AccessMask::DELETE | AccessMask::READ_ATTRIBUTES;
    let dir = client.open("dir", Opening { access, ..Opening::dir() });
    client.put("dir\\file", b"data");
    let to = name("moved");
    let file_name = Utf16::new(&to).unwrap();
    let value = RenameInformation { replace_if_exists: false, root_directory: 0, file_name }.to_bytes();
    let rename = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileClass::RENAME.0,
        buffer: &value[..],
        additional_information: SecurityInformation::empty(),
        file_id: dir,
    };
    let (old, new) = (name("dir\\file"), name("moved\\file"));
    let open = Opening::by(CreateDisposition::OPEN);
    let commands = vec![
        client.request(Command::CREATE, &open.request(&old)),
        related(&mut client, Command::CLOSE, &CLOSE, 1),
        client.request(Command::SET_INFO, &rename),
        client.request(Command::CREATE, &open.request(&old)),
        client.request(Command::CREATE, &open.request(&new)),
    ];
    let found = [NtStatus::SUCCESS; 3];
    let expected = [&found[..], &[NtStatus::OBJECT_PATH_NOT_FOUND, NtStatus::SUCCESS]].concat();
    assert_eq!(statuses(&client.chain(commands)), expected);
}
