//! Reparse points: links and special files, read and created by clients.

use super::new_file;
use crate::cross_protocol::find;
use crate::rig::{Client, Opening, Rig, lease, message, output};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{AttributeTagInformation, DispositionInformation};
use smb_wire::create::{CreateAction, CreateDisposition, CreateOptions};
use smb_wire::error::{ReparseTag, SymlinkFlags};
use smb_wire::file::CloseRequest;
use smb_wire::header::{Command, Flags, Header};
use smb_wire::info::InfoType;
use smb_wire::ioctl::CtlCode;
use smb_wire::reparse::{NfsFile, ReparseData, SymbolicLink};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, Encode, FileId, NtStatus, Utf16};
use vfs::{Blocking, Caller, FileType, PendingSync, SetAttrs, Special};

/// The open with which Linux creates a link.
fn new(disposition: CreateDisposition) -> Opening {
    let access = AccessMask::READ_ATTRIBUTES | AccessMask::WRITE_ATTRIBUTES | AccessMask::DELETE;
    Opening { access, options: CreateOptions::OPEN_REPARSE_POINT, ..Opening::by(disposition) }
}

/// The reparse data of a relative link.
pub(crate) fn link(target: &str) -> Vec<u8> {
    let wire = crate::rig::name(target);
    let name = Utf16::new(&wire).unwrap();
    let link = SymbolicLink { substitute_name: name, print_name: name, flags: SymlinkFlags::RELATIVE };
    ReparseData::SymbolicLink(link).to_bytes()
}

pub(crate) fn set(client: &mut Client, file: FileId, data: &[u8]) -> NtStatus {
    client.ioctl(file, CtlCode::SET_REPARSE_POINT, data, 0).status()
}

#[test]
fn symbolic_link_returns_its_target() {
    let rig = Rig::new();
    let (mut client, file) = new_file(&rig);
    let root = rig.namespace.load().exports()[0].root();
    for (name, target) in [("near", "dir/x"), ("far", "/a")] {
        let (caller, mut pending) = (Caller::new(1000, 100, []), PendingSync::default());
        let link = Special::Symlink(target.as_bytes());
        root.make_special(&caller, name.as_bytes(), link, &SetAttrs::default(), &mut pending).unwrap();
    }
    let options = CreateOptions::OPEN_REPARSE_POINT;
    let link = Opening { options, access: AccessMask::READ_ATTRIBUTES, ..Opening::default() };
    for (name, target, flags) in
        [("near", "dir\\x", SymlinkFlags::RELATIVE), ("far", "\\a", SymlinkFlags::empty())]
    {
        let open = client.open(name, link);
        let reply = client.ioctl(open, CtlCode::GET_REPARSE_POINT, &[], 4096);
        let target = crate::rig::name(target);
        let target = Utf16::new(&target).unwrap();
        let link = SymbolicLink { substitute_name: target, print_name: target, flags };
        assert_eq!(ReparseData::from_bytes(output(&reply)), Ok(ReparseData::SymbolicLink(link)));
        let cut = client.ioctl(open, CtlCode::GET_REPARSE_POINT, &[], 9);
        assert_eq!((cut.status(), output(&cut).len()), (NtStatus::BUFFER_OVERFLOW, 9));
        client.ioctl(open, CtlCode::GET_REPARSE_POINT, &[], 7).assert_refused(NtStatus::BUFFER_TOO_SMALL);
    }
    let none = client.ioctl(file, CtlCode::GET_REPARSE_POINT, &[], 4096);
    none.assert_refused(NtStatus::NOT_A_REPARSE_POINT);
}

#[test]
fn new_file_becomes_a_link() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let open = client.open("link", new(CreateDisposition::CREATE));
    assert_eq!(set(&mut client, open, &link("..\\dir\\x")), NtStatus::SUCCESS);
    // The open now refers to the link.
    let info = client.info(open, FileClass::ATTRIBUTE_TAG);
    let info = AttributeTagInformation::from_bytes(&info).unwrap();
    assert_eq!(
        (info.file_attributes, info.reparse_tag),
        (FileAttributes::REPARSE_POINT, ReparseTag::SYMLINK)
    );
    let told = client.ioctl(open, CtlCode::GET_REPARSE_POINT, &[], 4096);
    assert_eq!(output(&told), link("..\\dir\\x"));
    let (attrs, target) = find(&rig, b"link").read_link().unwrap();
    assert_eq!((attrs.uid, &target[..]), (1000, &b"../dir/x"[..]));
    // Its target can be replaced, but not by another type.
    assert_eq!(set(&mut client, open, &link("other")), NtStatus::SUCCESS);
    assert_eq!(find(&rig, b"link").read_link().unwrap().1, b"other");
    let fifo = ReparseData::Nfs(NfsFile::Fifo).to_bytes();
    assert_eq!(set(&mut client, open, &fifo), NtStatus::IO_REPARSE_TAG_MISMATCH);
    assert_eq!(client.close(open).status(), NtStatus::SUCCESS);
    client
        .create("link", Opening::by(CreateDisposition::OPEN))
        .assert_refused(NtStatus::IO_REPARSE_TAG_NOT_HANDLED);
    // After deletion the name is free.
    let open = client.open("link", new(CreateDisposition::OPEN));
    assert_eq!(
        client.set(open, FileClass::DISPOSITION, &DispositionInformation { delete_pending: true }),
        NtStatus::SUCCESS
    );
    client.close(open);
    assert_eq!(client.action("link", Opening::default()), Ok(CreateAction::CREATED));
}

#[test]
fn shared_file_cannot_become_a_link() {
    let rig = Rig::new();
    let (mut owner, mut other) = (rig.alice_at(1), rig.alice_at(2));
    let held = owner.open("file", Opening::alone());
    // Share modes ignore opens for attributes alone.
    let access = AccessMask::READ_ATTRIBUTES | AccessMask::WRITE_ATTRIBUTES;
    let open = other.open("file", Opening { access, ..new(CreateDisposition::OPEN) });
    assert_eq!(set(&mut other, open, &link("x")), NtStatus::SHARING_VIOLATION);
    assert_eq!(owner.write(held, 0, b"data").status(), NtStatus::SUCCESS);
    owner.close(held);
    assert_eq!(owner.get("file"), b"data");
}

/// A client's cached data belonged to the replaced file.
#[test]
fn set_reparse_ends_caching() {
    let rig = Rig::new();
    let mut client = rig.alice_at(1);
    let open = client.open_lease("link", new(CreateDisposition::CREATE), lease(1, "RWH"));
    open.assert_state("RWH");
    let data = link("x");
    let request = crate::rig::ioctl(open.file_id, CtlCode::SET_REPARSE_POINT, &data, 0);
    let request = client.request(Command::IOCTL, &request);
    client.send_protected(request);
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    client.assert_lease_break(1, "RWH", "", false);
    assert_eq!(client.close(open.file_id).status(), NtStatus::SUCCESS);
    // The lease key is free for another file.
    client.open_lease("other", Opening::default(), lease(1, "R")).assert_state("R");
}

#[test]
fn set_reparse_works_in_a_compound() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let wire = crate::rig::name("link");
    let create = client.request(Command::CREATE, &new(CreateDisposition::CREATE).request(&wire));
    let data = link("x");
    let related = |client: &mut Client, command, body: &dyn Fn(&Header) -> Vec<u8>| {
        let header = client.header(command, 1);
        body(&Header { flags: Flags::RELATED_OPERATIONS, ..header })
    };
    let ioctl = crate::rig::ioctl(FileId::PREVIOUS, CtlCode::SET_REPARSE_POINT, &data, 0);
    let ioctl = related(&mut client, Command::IOCTL, &|header| message(header, &ioctl));
    let query = crate::rig::query(InfoType::FILE, FileId::PREVIOUS, FileClass::ATTRIBUTE_TAG.0, 8);
    let query = related(&mut client, Command::QUERY_INFO, &|header| message(header, &query));
    let close = CloseRequest { flags: Default::default(), file_id: FileId::PREVIOUS };
    let close = related(&mut client, Command::CLOSE, &|header| message(header, &close));
    let replies = client.chain(vec![create, ioctl, query, close]);
    assert_eq!(replies.iter().map(crate::rig::Reply::status).collect::<Vec<_>>(), [NtStatus::SUCCESS; 4]);
    assert_eq!(find(&rig, b"link").read_link().unwrap().1, b"x");
}

#[test]
fn special_files_are_created() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let of_linux = |reparse_tag| ReparseData::Other { reparse_tag, data: &[] }.to_bytes();
    let target = crate::rig::name("/x:y");
    for (name, data, file_type) in [
        ("fifo", ReparseData::Nfs(NfsFile::Fifo).to_bytes(), FileType::Fifo),
        ("socket", ReparseData::Nfs(NfsFile::Socket).to_bytes(), FileType::Socket),
        ("fifo of wsl", of_linux(ReparseTag::LX_FIFO), FileType::Fifo),
        ("socket of wsl", of_linux(ReparseTag::AF_UNIX), FileType::Socket),
        ("link", ReparseData::Nfs(NfsFile::Link(Utf16::new(&target).unwrap())).to_bytes(), FileType::Symlink),
    ] {
        let open = client.open(name, new(CreateDisposition::CREATE));
        assert_eq!(set(&mut client, open, &data), NtStatus::SUCCESS, "{name}");
        let told = client.ioctl(open, CtlCode::GET_REPARSE_POINT, &[], 4096);
        let kind = match file_type {
            FileType::Fifo => ReparseTag::LX_FIFO,
            FileType::Socket => ReparseTag::AF_UNIX,
            _ => ReparseTag::SYMLINK,
        };
        assert_eq!(ReparseData::from_bytes(output(&told)).unwrap().reparse_tag(), kind, "{name}");
        client.close(open);
        assert_eq!(
            find(&rig, name.as_bytes()).attrs(Blocking::Allowed).unwrap().file_type,
            file_type,
            "{name}"
        );
    }
    assert_eq!(find(&rig, b"link").read_link().unwrap().1, b"/x:y");
    let dir = client.open("dir", Opening::dir());
    assert_eq!(set(&mut client, dir, &link("there")), NtStatus::SUCCESS);
    assert_eq!(find(&rig, b"dir").read_link().unwrap().1, b"there");
}

#[test]
fn set_reparse_refuses_files_in_use() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let refused = |client: &mut Client, open, status| {
        assert_eq!(set(client, open, &link("x")), status);
        client.close(open);
    };
    client.put("data", b"data");
    let open = client.open("data", Opening::default());
    refused(&mut client, open, NtStatus::NOT_SUPPORTED);
    assert_eq!(client.get("data"), b"data");
    // A file with two names; one open by another client, in any share mode; a delete-pending one.
    let open = client.open("one", Opening::default());
    let (root, caller) = (rig.namespace.load().exports()[0].root(), Caller::new(1000, 100, []));
    root.link(&caller, &find(&rig, b"one"), b"two", &mut PendingSync::default()).unwrap();
    refused(&mut client, open, NtStatus::NOT_SUPPORTED);
    let open = client.open("shared", Opening::default());
    let mut other = rig.alice();
    let theirs = other.open("shared", Opening::default());
    refused(&mut client, open, NtStatus::SHARING_VIOLATION);
    other.write(theirs, 0, b"mine");
    assert_eq!(other.get("shared"), b"mine");
    let open =
        client.open("going", Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() });
    refused(&mut client, open, NtStatus::DELETE_PENDING);
    // A directory that is not empty, and the root.
    let dir = client.open("dir", Opening::dir());
    client.put("dir\\file", b"");
    refused(&mut client, dir, NtStatus::DIRECTORY_NOT_EMPTY);
    let (access, disposition) = (AccessMask::WRITE_ATTRIBUTES, CreateDisposition::OPEN);
    let top = client.open("", Opening { access, disposition, ..Opening::dir() });
    refused(&mut client, top, NtStatus::ACCESS_DENIED);
    // Streams cannot become links.
    let stream = client.open("data:stream", Opening::default());
    refused(&mut client, stream, NtStatus::ACCESS_DENIED);
    for (file, opening) in [("empty", Opening::default()), ("with stream", Opening::dir())] {
        let open = client.open(file, opening);
        client.put(&format!("{file}:stream"), b"kept");
        refused(&mut client, open, NtStatus::NOT_SUPPORTED);
        assert_eq!(client.get(&format!("{file}:stream")), b"kept");
    }
    // An open without write access.
    let reads = client.open("new", Opening::default());
    client.close(reads);
    let reads = client.open("new", Opening { access: AccessMask::READ_DATA, ..Opening::default() });
    refused(&mut client, reads, NtStatus::ACCESS_DENIED);
}

/// NFS ignores opens: a file that has taken the name meanwhile survives.
#[test]
fn set_reparse_keeps_a_replaced_name() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let open = client.open("file", Opening::default());
    let (root, caller) = (rig.namespace.load().exports()[0].root(), Caller::new(1000, 100, []));
    client.put("other", b"theirs");
    root.rename(&caller, b"other", &root, b"file", &mut PendingSync::default()).unwrap();
    assert_eq!(set(&mut client, open, &link("x")), NtStatus::NOT_SUPPORTED);
    assert_eq!(client.close(open).status(), NtStatus::SUCCESS);
    assert_eq!(client.get("file"), b"theirs");
    // The file has been renamed meanwhile.
    let open = client.open("moved", Opening::default());
    root.rename(&caller, b"moved", &root, b"away", &mut PendingSync::default()).unwrap();
    root.rename(&caller, b"file", &root, b"moved", &mut PendingSync::default()).unwrap();
    assert_eq!(set(&mut client, open, &link("x")), NtStatus::SHARING_VIOLATION);
    assert_eq!(client.close(open).status(), NtStatus::SUCCESS);
    assert_eq!(client.get("moved"), b"theirs");
    assert_eq!(find(&rig, b"away").attrs(Blocking::Allowed).unwrap().file_type, FileType::Regular);
    // The name has been removed meanwhile.
    let open = client.open("gone", Opening::default());
    root.remove(&caller, b"gone", &mut PendingSync::default()).unwrap();
    assert_eq!(set(&mut client, open, &link("x")), NtStatus::NOT_SUPPORTED);
}

#[test]
fn invalid_reparse_data_is_refused() {
    let rig = Rig::new();
    let (mut client, file) = new_file(&rig);
    let whole = link("x");
    for cut in [0, 7, whole.len() - 1] {
        assert_eq!(set(&mut client, file, &whole[..cut]), NtStatus::IO_REPARSE_DATA_INVALID, "{cut}");
    }
    let unknown = ReparseData::Other { reparse_tag: ReparseTag::MOUNT_POINT, data: &[0; 8] }.to_bytes();
    assert_eq!(set(&mut client, file, &unknown), NtStatus::IO_REPARSE_TAG_INVALID);
    assert_eq!(set(&mut client, file, &link("a:b")), NtStatus::OBJECT_NAME_INVALID);
    assert_eq!(set(&mut client, file, &link("")), NtStatus::INVALID_PARAMETER);
    // Only root may create devices.
    let device = ReparseData::Nfs(NfsFile::Character { major: 1, minor: 3 }).to_bytes();
    assert_eq!(set(&mut client, file, &device), NtStatus::ACCESS_DENIED);
    // The file is unchanged.
    assert_eq!(client.write(file, 0, b"data").status(), NtStatus::SUCCESS);
    assert_eq!(client.get("file"), b"data");
}
