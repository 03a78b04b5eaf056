//! Extended attributes.

use crate::rig::{Client, Opening, Reply, Rig, name, query};
use crate::security;
use smb_wire::classes::FileClass;
use smb_wire::classes::file::EaInformation;
use smb_wire::contexts::SD_BUFFER;
use smb_wire::create::{CreateContext, CreateContexts, CreateDisposition, CreateRequest, CreateResponse};
use smb_wire::dir::OutputResponse;
use smb_wire::ea::{EA_BUFFER, EaFlags, EaWriter, FullEa, full_eas};
use smb_wire::header::Command;
use smb_wire::info::{InfoType, QueryInfoFlags, SetInfoRequest};
use smb_wire::security::{Ace, AceFlags, Sid};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, FileId, NtStatus, Writer};
use vfs::{Blocking, Caller, PendingSync, SetXattr};

const OPEN: CreateDisposition = CreateDisposition::OPEN;
const RESTART: QueryInfoFlags = QueryInfoFlags::RESTART_SCAN;

fn list(all: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    let mut writer = EaWriter::new(&w, usize::MAX);
    for (name, value) in all {
        assert!(writer.push(&FullEa { flags: EaFlags::empty(), name, value }, &mut w));
    }
    bytes
}

fn set_bytes(client: &mut Client, file_id: FileId, buffer: &[u8]) -> NtStatus {
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileClass::FULL_EA.0,
        buffer,
        additional_information: smb_wire::info::SecurityInformation::empty(),
        file_id,
    };
    let charge = u16::try_from(buffer.len().div_ceil(1 << 16).max(1)).unwrap();
    client.call_charged(Command::SET_INFO, &request, charge).status()
}

pub(crate) fn set(client: &mut Client, file: FileId, all: &[(&[u8], &[u8])]) -> NtStatus {
    set_bytes(client, file, &list(all))
}

fn ask(client: &mut Client, file: FileId, flags: QueryInfoFlags, room: u32, input: &[u8]) -> Reply {
    let mut request = query(InfoType::FILE, file, FileClass::FULL_EA.0, room);
    (request.flags, request.input) = (flags, input);
    client.call(Command::QUERY_INFO, &request)
}

fn told(reply: &Reply) -> Vec<(Vec<u8>, Vec<u8>)> {
    let output = reply.body::<OutputResponse<&[u8]>>().output;
    let mut all: Vec<_> =
        full_eas(output).map(|ea| ea.unwrap()).map(|ea| (ea.name.to_vec(), ea.value.to_vec())).collect();
    all.sort();
    all
}

fn all(client: &mut Client, file: FileId) -> Vec<(Vec<u8>, Vec<u8>)> {
    told(&ask(client, file, RESTART, 1 << 16, b""))
}

fn pair(name: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (name.to_vec(), value.to_vec())
}

#[test]
fn attributes_round_trip_and_show_in_other_protocols() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    ask(&mut client, file, RESTART, 4096, b"").assert_refused(NtStatus::NO_EAS_ON_FILE);
    assert_eq!(set(&mut client, file, &[(b"One", b"1"), (b"two", b"22")]), NtStatus::SUCCESS);
    assert_eq!(all(&mut client, file), [pair(b"One", b"1"), pair(b"two", b"22")]);
    assert_eq!(set(&mut client, file, &[(b"ONE", b"new"), (b"TWO", b""), (b"none", b"")]), NtStatus::SUCCESS);
    assert_eq!(all(&mut client, file), [pair(b"One", b"new")]);
    let root = rig.namespace.load().exports()[0].root();
    let user = Caller::new(0, 0, []);
    let found =
        root.open_dir(&user, Blocking::Allowed).unwrap().lookup(b"file", Blocking::Allowed).unwrap().file;
    assert_eq!(found.get_xattr(&user, b"One").unwrap(), b"new");
    let other = (b"theirs".as_slice(), b"value".as_slice());
    found.set_xattr(&user, other.0, other.1, SetXattr::Either, &mut PendingSync::default()).unwrap();
    assert_eq!(all(&mut client, file), [pair(b"One", b"new"), pair(other.0, other.1)]);
    let size = EaInformation::from_bytes(&client.info(file, FileClass::EA)).unwrap().ea_size;
    let listed = ask(&mut client, file, RESTART, 4096, b"");
    let listed = listed.body::<OutputResponse<&[u8]>>().output.len();
    assert!(usize::try_from(size).unwrap() >= listed, "{size} of {listed} bytes");
    // Directories have attributes too.
    let dir = client.open("dir", Opening::dir());
    assert_eq!(set(&mut client, dir, &[(b"name", b"value")]), NtStatus::SUCCESS);
    assert_eq!(all(&mut client, dir), [pair(b"name", b"value")]);
}

#[test]
fn ea_listing_resumes_after_full_buffer() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let names: Vec<Vec<u8>> = (0..20).map(|number| format!("name{number:02}").into_bytes()).collect();
    let many: Vec<(&[u8], &[u8])> = names.iter().map(|name| (&name[..], &b"12345678"[..])).collect();
    assert_eq!(set(&mut client, file, &many), NtStatus::SUCCESS);
    let (mut found, mut flags) = (Vec::new(), RESTART);
    loop {
        let reply = ask(&mut client, file, flags, 100, b"");
        flags = QueryInfoFlags::empty();
        match reply.status() {
            NtStatus::SUCCESS | NtStatus::BUFFER_OVERFLOW => found.extend(told(&reply)),
            status => {
                assert_eq!(status, NtStatus::NO_MORE_EAS);
                break;
            }
        }
    }
    found.sort();
    assert_eq!(found, many.iter().map(|(name, value)| pair(name, value)).collect::<Vec<_>>());
    ask(&mut client, file, RESTART, 10, b"").assert_refused(NtStatus::BUFFER_TOO_SMALL);
    let single = QueryInfoFlags(RESTART.0 | QueryInfoFlags::RETURN_SINGLE_ENTRY.0);
    assert_eq!(told(&ask(&mut client, file, single, 4096, b"")).len(), 1);
    // Attributes requested by name; a missing one has an empty value.
    let input = *b"\x10\0\0\0\x06NAME07\0\0\0\0\0\0\0\0\0\x04none\0";
    let reply = ask(&mut client, file, QueryInfoFlags::empty(), 4096, &input);
    assert_eq!(told(&reply), [pair(b"NAME07", b"12345678"), pair(b"none", b"")]);
    for bad in [&input[..5], b"\x01\0\0\0\x06NAME07\0"] {
        ask(&mut client, file, RESTART, 4096, bad).assert_refused(NtStatus::EA_LIST_INCONSISTENT);
    }
}

#[test]
fn invalid_attributes_are_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    for name in [&b""[..], b"a\x01b", b"\x7f"] {
        assert_eq!(set(&mut client, file, &[(name, b"value")]), NtStatus::INVALID_EA_NAME);
    }
    // The service's own attributes are hidden and cannot be changed.
    for value in [&b"planted"[..], b""] {
        assert_eq!(set(&mut client, file, &[(b"plimsoll.kept", value)]), NtStatus::ACCESS_DENIED);
    }
    let good = list(&[(b"name", b"value"), (b"other", b"value")]);
    for length in (1..good.len()).filter(|&length| length != 20) {
        assert_eq!(set_bytes(&mut client, file, &good[..length]), NtStatus::EA_LIST_INCONSISTENT, "{length}");
    }
    ask(&mut client, file, RESTART, 4096, b"").assert_refused(NtStatus::NO_EAS_ON_FILE);
    // Beyond the limits of a file, by number and by size.
    let names: Vec<Vec<u8>> = (0..1025).map(|number| format!("{number}").into_bytes()).collect();
    let many: Vec<(&[u8], &[u8])> = names.iter().map(|name| (&name[..], &b"x"[..])).collect();
    assert_eq!(set(&mut client, file, &many), NtStatus::EA_TOO_LARGE);
    assert_eq!(set(&mut client, file, &many[..1024]), NtStatus::EA_TOO_LARGE);
    let large = vec![7; 65_535];
    let other = client.open("other", Opening::default());
    assert_eq!(set(&mut client, other, &[(b"large", &large)]), NtStatus::SUCCESS);
    assert_eq!(set(&mut client, other, &[(b"second", &large)]), NtStatus::EA_TOO_LARGE);
    ask(&mut client, other, RESTART, 1 << 16, b"").assert_refused(NtStatus::BUFFER_TOO_SMALL);
    let reply = ask(&mut client, other, RESTART, 4096, b"\0\0\0\0\x06second\0");
    assert_eq!(told(&reply), [pair(b"second", b"")]);
}

#[test]
fn attributes_need_access_rights() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"");
    let looking = Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::by(OPEN) };
    let file = client.open("file", looking);
    assert_eq!(set(&mut client, file, &[(b"name", b"value")]), NtStatus::ACCESS_DENIED);
    ask(&mut client, file, RESTART, 4096, b"").assert_refused(NtStatus::ACCESS_DENIED);
}

#[test]
fn create_context_sets_attributes() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let create = |client: &mut Client, path: &str, opening: Opening, data: &[u8]| {
        let wire = name(path);
        let contexts = CreateContexts(vec![CreateContext { name: EA_BUFFER, data }]);
        client.call(Command::CREATE, &CreateRequest { contexts, ..opening.request(&wire) })
    };
    let made = create(&mut client, "file", Opening::default(), &list(&[(b"name", b"value")]));
    let file = made.body::<CreateResponse<'_>>().file_id;
    assert_eq!(all(&mut client, file), [pair(b"name", b"value")]);
    // An existing file keeps its attributes unless it is overwritten.
    create(&mut client, "file", Opening::default(), &list(&[(b"other", b"value")]));
    assert_eq!(all(&mut client, file), [pair(b"name", b"value")]);
    let over = Opening::by(CreateDisposition::OVERWRITE);
    create(&mut client, "file", over, &list(&[(b"other", b"value")]));
    assert_eq!(all(&mut client, file), [pair(b"other", b"value")]);
    client.create("file", over);
    ask(&mut client, file, RESTART, 4096, b"").assert_refused(NtStatus::NO_EAS_ON_FILE);
    // Attributes that cannot be set prevent the creation.
    let refused = [
        (b"garbage".to_vec(), NtStatus::EA_LIST_INCONSISTENT),
        (list(&[(b"plimsoll.kept", b"planted")]), NtStatus::ACCESS_DENIED),
        (list(&[(b"1", &[7; 65_535]), (b"2", &[7; 65_535])]), NtStatus::EA_TOO_LARGE),
    ];
    for (data, status) in refused {
        let wire = name("new");
        let contexts = CreateContexts(vec![CreateContext { name: EA_BUFFER, data: &data }]);
        let request = CreateRequest { contexts, ..Opening::default().request(&wire) };
        let charge = u16::try_from(data.len().div_ceil(1 << 16) + 1).unwrap();
        client.call_charged(Command::CREATE, &request, charge).assert_refused(status);
        client.create("new", Opening::by(OPEN)).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
}

#[test]
fn create_with_invalid_attributes_makes_no_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let everyone = Sid::new(1, &[0]).unwrap();
    let reading = Ace::allow(AceFlags::empty(), AccessMask::GENERIC_READ, everyone);
    let descriptor = security::list(&[reading]).to_bytes();
    let eas = list(&[(b"name", b"value")]);
    for opening in [Opening::default(), Opening::dir()] {
        let wire = name("new");
        let contexts = [(SD_BUFFER, &descriptor), (EA_BUFFER, &eas)];
        let contexts = contexts.map(|(name, data)| CreateContext { name, data });
        let request = CreateRequest { contexts: CreateContexts(contexts.into()), ..opening.request(&wire) };
        client.call(Command::CREATE, &request).assert_refused(NtStatus::ACCESS_DENIED);
        client.create("new", Opening::by(OPEN)).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
}
