//! Each call as requests, and its result.

use nfs_wire::v3::{
    Access, AccessArgs, CommitArgs, CreateArgs, CreateHow, DirOpArgs, GetattrArgs, LookupArgs, MkdirArgs,
    ReadArgs, RemoveArgs, Sattr, SetattrArgs,
};
use smb_wire::create::{CreateAction, CreateContexts, CreateDisposition, CreateOptions, CreateRequest};
use smb_wire::file::{CloseRequest, ReadRequest, WriteRequest};
use smb_wire::header::Header;
use smb_wire::info::SetInfoRequest;
use smb_wire::session::Empty;
use smb_wire::types::FileTime;
use smb_wire::{Decode, ExternalBuffer};

use super::*;
use crate::call::{OpenHead, WriteHead};
use crate::smb::channel::Channel;

const OPEN: FileId = FileId { persistent: 7, volatile: 8 };
const FILE: FileHandle<'_> = FileHandle(b"top\\d01\\f02");
const NAME: DirOpArgs<'_> = DirOpArgs { dir: FileHandle(b"top\\new"), name: b"n03" };

fn encoded(call: &Call<'_>, open: Option<FileId>) -> (Vec<u8>, InFlight) {
    let (mut channel, mut out, mut in_flight) = (Channel::with_credits(10), Vec::new(), InFlight::default());
    with_requests(call, open, &mut in_flight, |requests| {
        let data = if let Call::Write(head) = call { vec![7; head.count as usize] } else { Vec::new() };
        channel.push(requests, Some(&data), 0, &mut out).unwrap();
        out.extend(data);
    });
    (out[4..].to_vec(), in_flight)
}

fn charges(sent: &[u8]) -> Vec<(Command, u16)> {
    let head = |message: compound::Message<'_>| (message.header.command, message.header.credit_charge);
    compound::messages(sent).map(|message| head(message.unwrap())).collect()
}

fn first<'a, T: Decode<'a>>(sent: &'a [u8]) -> T {
    T::decode(&mut compound::messages(sent).next().unwrap().unwrap().body()).unwrap()
}

fn set(attributes: Sattr) -> Call<'static> {
    Call::Setattr(SetattrArgs { object: FILE, new_attributes: attributes, guard: None })
}

#[test]
fn closed_file_is_opened_and_closed_in_one_message() {
    use Command as C;
    let how = CreateHow::Unchecked(Sattr::default());
    let attributes = Sattr::default();
    let mode = Sattr { mode: Some(0o600), ..Sattr::default() };
    let open = |access| Call::Open(OpenHead { file: FILE, access, owner: 0 });
    let (file, name) = ("top\\d01\\f02", "top\\new\\n03");
    for (call, path, opening, commands) in [
        (
            Call::Getattr(GetattrArgs { object: FILE }),
            file,
            OpenMode::ATTRIBUTES,
            &[C::CREATE, C::QUERY_INFO, C::CLOSE][..],
        ),
        (set(mode), file, OpenMode::SET_ATTRIBUTES, &[C::CREATE, C::SET_INFO, C::CLOSE]),
        (
            Call::Access(AccessArgs { object: FILE, access: Access::READ }),
            file,
            OpenMode::MAXIMUM,
            &[C::CREATE, C::CLOSE],
        ),
        (Call::Lookup(LookupArgs { what: NAME }), name, OpenMode::ATTRIBUTES, &[C::CREATE, C::CLOSE]),
        (
            Call::Mkdir(MkdirArgs { place: NAME, attributes }),
            name,
            OpenMode::NEW_DIRECTORY,
            &[C::CREATE, C::CLOSE],
        ),
        (Call::Remove(RemoveArgs { object: NAME }), name, OpenMode::DELETE_ON_CLOSE, &[C::CREATE, C::CLOSE]),
        (Call::Rmdir(RemoveArgs { object: NAME }), name, OpenMode::DELETE_ON_CLOSE, &[C::CREATE, C::CLOSE]),
        (Call::Create(CreateArgs { place: NAME, how }), name, OpenMode::OPEN_OR_CREATE, &[C::CREATE]),
        (open(ShareAccess::READ), file, OpenMode::READING, &[C::CREATE]),
        (open(ShareAccess::WRITE), file, OpenMode::WRITING, &[C::CREATE]),
    ] {
        let (sent, _) = encoded(&call, None);
        let path = utf16(path);
        assert_eq!(first::<CreateRequest<'_>>(&sent), opening.request(Utf16::new(&path).unwrap()));
        let charged: Vec<_> = commands.iter().map(|&command| (command, 1)).collect();
        assert_eq!(charges(&sent), charged, "{call:?}");
        assert_eq!(usize::from(charge(&call)), commands.len(), "{call:?}");
        assert!(commands.contains(&command(call.kind())));
    }
    let removal = OpenMode::DELETE_ON_CLOSE.request(Utf16::default());
    assert_eq!(removal.create_options, CreateOptions::DELETE_ON_CLOSE);
    let made = OpenMode::OPEN_OR_CREATE.request(Utf16::default());
    assert_eq!(made.create_disposition, CreateDisposition::OPEN_IF);
}

#[test]
fn open_file_takes_one_request() {
    let (read, _) = encoded(&Call::Read(ReadArgs { file: FILE, offset: 4096, count: 65_537 }), Some(OPEN));
    assert_eq!(charges(&read), [(Command::READ, 2)]);
    let read: ReadRequest<'_> = first(&read);
    assert_eq!((read.file_id, read.offset, read.length), (OPEN, 4096, 65_537));
    for (stable, flags) in [
        (StableHow::Unstable, WriteFlags::empty()),
        (StableHow::DataSync, WriteFlags::WRITE_THROUGH),
        (StableHow::FileSync, WriteFlags::WRITE_THROUGH),
    ] {
        let head = WriteHead { file: FILE, offset: 8192, count: 512, stable };
        let (sent, _) = encoded(&Call::Write(head), Some(OPEN));
        let write: WriteRequest<ExternalBuffer> = first(&sent);
        assert_eq!((write.file_id, write.offset, write.flags), (OPEN, 8192, flags));
        assert_eq!(sent.len(), write.data.offset + 512);
    }
    let (truncated, _) = encoded(&set(Sattr { size: Some(0), ..Sattr::default() }), Some(OPEN));
    assert_eq!(charges(&truncated), [(Command::SET_INFO, 1)]);
    let truncated: SetInfoRequest<'_> = first(&truncated);
    assert_eq!(truncated.file_id, OPEN);
    assert_eq!((truncated.file_info_class, truncated.buffer), (FileClass::END_OF_FILE.0, &[0; 8][..]));
    let commit = Call::Commit(CommitArgs { file: FILE, offset: 0, count: 0 });
    assert_eq!(charges(&encoded(&commit, Some(OPEN)).0), [(Command::FLUSH, 1)]);
    let (closed, _) = encoded(&Call::Close(FILE), Some(OPEN));
    assert_eq!((charges(&closed), first::<CloseRequest>(&closed).file_id), (vec![(Command::CLOSE, 1)], OPEN));
}

/// Builds one response for each command, with this status and body.
fn responses(parts: &[(Command, NtStatus, &dyn Encode)]) -> Vec<u8> {
    let (mut all, mut last) = (Vec::new(), None);
    for (id, (command, status, body)) in (0..).zip(parts) {
        last.into_iter().for_each(|last| compound::link(&mut all, last));
        let header = Header::request(*command, id, 1, 1).response(*status);
        last = Some(compound::push(&mut all, &header, *body));
    }
    all
}

fn opened() -> CreateResponse<'static> {
    CreateResponse {
        oplock_level: smb_wire::create::OplockLevel::NONE,
        flags: smb_wire::create::CreateResponseFlags::empty(),
        create_action: CreateAction::CREATED,
        creation_time: FileTime::default(),
        last_access_time: FileTime::default(),
        last_write_time: FileTime::default(),
        change_time: FileTime::default(),
        allocation_size: 0,
        end_of_file: 0,
        file_attributes: FileAttributes::NORMAL,
        file_id: OPEN,
        contexts: CreateContexts::default(),
    }
}

/// Passes the result of a call, or its error as a text, to `check`.
fn decoded(
    call: &Call<'_>,
    open: Option<FileId>,
    all: &[u8],
    check: impl FnOnce(Result<CallResult<'_>, String>),
) {
    let (_, in_flight) = encoded(call, open);
    check(decode_in_flight(call.kind(), &in_flight, all).map_err(|rejection| match rejection {
        Rejection::Later => "later".to_owned(),
        Rejection::Refused(status) => status,
        Rejection::Fatal(error) => error.to_string(),
    }));
}

#[test]
fn responses_decode_to_results() {
    let ok = NtStatus::SUCCESS;
    let create = Call::Create(CreateArgs { place: NAME, how: CreateHow::Unchecked(Sattr::default()) });
    let all = responses(&[(Command::CREATE, ok, &opened())]);
    let made = FileHandle(b"top\\new\\n03");
    decoded(&create, None, &all, |is| assert_eq!(is, Ok(CallResult::Opened(OpenId::Smb(OPEN), Some(made)))));
    let open = Call::Open(OpenHead { file: FILE, access: ShareAccess::READ, owner: 0 });
    decoded(&open, None, &all, |is| assert_eq!(is, Ok(CallResult::Opened(OpenId::Smb(OPEN), None))));
    let read = Call::Read(ReadArgs { file: FILE, offset: 0, count: 4 });
    let all =
        responses(&[(Command::READ, ok, &ReadResponse { data: &b"data"[..], data_remaining: 0, flags: 0 })]);
    let data = CallResult::Read { count: 4, data: b"data", eof: false };
    decoded(&read, Some(OPEN), &all, |is| assert_eq!(is, Ok(data)));
    let write = WriteHead { file: FILE, offset: 0, count: 512, stable: StableHow::FileSync };
    let all = responses(&[(Command::WRITE, ok, &WriteResponse { count: 512, remaining: 0 })]);
    decoded(&Call::Write(write), Some(OPEN), &all, |is| {
        let written =
            CallResult::Written { count: 512, committed: StableHow::FileSync, verf: WriteVerf::default() };
        assert_eq!(is, Ok(written));
    });
}

#[test]
fn refusals_and_protocol_errors_are_told_apart() {
    let getattr = Call::Getattr(GetattrArgs { object: FILE });
    let (ok, refused) = (NtStatus::SUCCESS, NtStatus::ACCESS_DENIED);
    let parts = |query, close| -> Vec<u8> {
        responses(&[
            (Command::CREATE, ok, &opened()),
            (Command::QUERY_INFO, query, &Empty),
            (Command::CLOSE, close, &Empty),
        ])
    };
    decoded(&getattr, None, &parts(ok, ok), |is| assert_eq!(is, Ok(CallResult::Done)));
    decoded(&getattr, None, &parts(refused, ok), |is| assert_eq!(is, Err("ACCESS_DENIED".to_owned())));
    decoded(&getattr, None, &parts(ok, refused), |is| assert_eq!(is, Err("ACCESS_DENIED".to_owned())));
    let short = responses(&[(Command::CREATE, ok, &opened()), (Command::QUERY_INFO, ok, &Empty)]);
    decoded(&getattr, None, &short, |is| assert!(is.unwrap_err().contains("answered without CLOSE")));
    let other = responses(&[(Command::ECHO, ok, &Empty)]);
    decoded(&getattr, None, &other, |is| {
        assert!(is.unwrap_err().contains("a response to ECHO in place of CREATE"));
    });
    let open = Call::Open(OpenHead { file: FILE, access: ShareAccess::READ, owner: 0 });
    let bare = responses(&[(Command::CREATE, ok, &Empty)]);
    decoded(&open, None, &bare, |is| assert!(is.is_err(), "no file is open"));
}
