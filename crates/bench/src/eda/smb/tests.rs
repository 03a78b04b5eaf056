//! Each call as requests, and what responses to them mean.

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

use super::super::call::{OpenHead, WriteHead};
use super::*;
use crate::driver::fault::Fault;
use crate::pattern::Payload;
use crate::smb::Channel;

const OPEN: FileId = FileId { persistent: 7, volatile: 8 };
const FILE: FileHandle<'_> = FileHandle(b"top\\d01\\f02");
const NAME: DirOpArgs<'_> = DirOpArgs { dir: FileHandle(b"top\\new"), name: b"n03" };

/// The messages of a call, made where this file is open, and its place.
fn sent(call: &Call<'_>, under: Option<FileId>) -> (Vec<u8>, Place) {
    let mut calls = Calls::new(4, 4).of_channel(Channel::with_credits(10));
    calls.add_slot();
    calls.payloads.push(Payload::new(4096, 4096, 1));
    let payload = if let Call::Write(head) = call { Some((0, head.count)) } else { None };
    let mut place = Place::default();
    push(call, under, &mut place, (0, payload), &mut calls);
    (calls.unsent()[4..].to_vec(), place)
}

/// The requests of a message.
fn requests_of(sent: &[u8]) -> Vec<(Command, u16)> {
    let head = |message: compound::Message<'_>| (message.header.command, message.header.credit_charge);
    compound::messages(sent).map(|message| head(message.unwrap())).collect()
}

/// What the first request of a message says.
fn first<'a, T: Decode<'a>>(sent: &'a [u8]) -> T {
    T::decode(&mut compound::messages(sent).next().unwrap().unwrap().body()).unwrap()
}

fn set(attributes: Sattr) -> Call<'static> {
    Call::Setattr(SetattrArgs { object: FILE, new_attributes: attributes, guard: None })
}

/// Each call on a name or a file that is not open, what it opens how, and its requests.
#[test]
fn what_is_not_open_is_opened_and_closed_in_one_message() {
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
            Opening::ATTRIBUTES,
            &[C::CREATE, C::QUERY_INFO, C::CLOSE][..],
        ),
        (set(mode), file, Opening::SETTING, &[C::CREATE, C::SET_INFO, C::CLOSE]),
        (
            Call::Access(AccessArgs { object: FILE, access: Access::READ }),
            file,
            Opening::WHATEVER,
            &[C::CREATE, C::CLOSE],
        ),
        (Call::Lookup(LookupArgs { what: NAME }), name, Opening::ATTRIBUTES, &[C::CREATE, C::CLOSE]),
        (
            Call::Mkdir(MkdirArgs { place: NAME, attributes }),
            name,
            Opening::NEW_DIRECTORY,
            &[C::CREATE, C::CLOSE],
        ),
        (Call::Remove(RemoveArgs { object: NAME }), name, Opening::REMOVAL, &[C::CREATE, C::CLOSE]),
        (Call::Rmdir(RemoveArgs { object: NAME }), name, Opening::REMOVAL, &[C::CREATE, C::CLOSE]),
        (Call::Create(CreateArgs { place: NAME, how }), name, Opening::FILE, &[C::CREATE]),
        (open(ShareAccess::READ), file, Opening::READING, &[C::CREATE]),
        (open(ShareAccess::WRITE), file, Opening::WRITING, &[C::CREATE]),
    ] {
        let (sent, _) = sent(&call, None);
        let path = utf16(path);
        assert_eq!(first::<CreateRequest<'_>>(&sent), opening.request(Utf16::new(&path).unwrap()));
        let charged: Vec<_> = commands.iter().map(|&command| (command, 1)).collect();
        assert_eq!(requests_of(&sent), charged, "{call:?}");
        assert_eq!(usize::from(charge(&call)), commands.len(), "{call:?}");
        assert!(commands.contains(&command(&call)));
    }
    let removal = Opening::REMOVAL.request(Utf16::default());
    assert_eq!(removal.create_options, CreateOptions::DELETE_ON_CLOSE);
    let made = Opening::FILE.request(Utf16::default());
    assert_eq!(made.create_disposition, CreateDisposition::OPEN_IF);
}

#[test]
fn what_is_open_is_worked_on_by_one_request() {
    let (read, _) = sent(&Call::Read(ReadArgs { file: FILE, offset: 4096, count: 65_537 }), Some(OPEN));
    assert_eq!(requests_of(&read), [(Command::READ, 2)]);
    let read: ReadRequest<'_> = first(&read);
    assert_eq!((read.file_id, read.offset, read.length), (OPEN, 4096, 65_537));
    for (stable, flags) in [
        (StableHow::Unstable, WriteFlags::empty()),
        (StableHow::DataSync, WriteFlags::WRITE_THROUGH),
        (StableHow::FileSync, WriteFlags::WRITE_THROUGH),
    ] {
        let head = WriteHead { file: FILE, offset: 8192, count: 512, stable };
        let (sent, _) = sent(&Call::Write(head), Some(OPEN));
        let write: WriteRequest<ExternalBuffer> = first(&sent);
        assert_eq!((write.file_id, write.offset, write.flags), (OPEN, 8192, flags));
        assert_eq!(sent.len(), write.data.offset + 512);
    }
    let (truncated, _) = sent(&set(Sattr { size: Some(0), ..Sattr::default() }), Some(OPEN));
    assert_eq!(requests_of(&truncated), [(Command::SET_INFO, 1)]);
    let truncated: SetInfoRequest<'_> = first(&truncated);
    assert_eq!(truncated.file_id, OPEN);
    assert_eq!((truncated.file_info_class, truncated.buffer), (FileClass::END_OF_FILE.0, &[0; 8][..]));
    let commit = Call::Commit(CommitArgs { file: FILE, offset: 0, count: 0 });
    assert_eq!(requests_of(&sent(&commit, Some(OPEN)).0), [(Command::FLUSH, 1)]);
    let (closed, _) = sent(&Call::Close(FILE), Some(OPEN));
    assert_eq!(
        (requests_of(&closed), first::<CloseRequest>(&closed).file_id),
        (vec![(Command::CLOSE, 1)], OPEN)
    );
}

/// Responses to these commands with these statuses and bodies.
fn answered(parts: &[(Command, NtStatus, &dyn Encode)]) -> Vec<u8> {
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

/// What responses mean, or in words what is wrong with them.
fn judged(call: &Call<'_>, under: Option<FileId>, all: &[u8], is: impl FnOnce(Result<Answer<'_>, String>)) {
    let (_, place) = sent(call, under);
    is(judge(call, &place, all).map_err(|refusal| match refusal {
        Refusal::Later => "later".to_owned(),
        Refusal::Fault(Fault::Counted { what, .. }) => what,
        Refusal::Fault(Fault::Fatal(wrong)) => wrong.to_string(),
    }));
}

#[test]
fn responses_bring_what_was_asked_for() {
    let ok = NtStatus::SUCCESS;
    let create = Call::Create(CreateArgs { place: NAME, how: CreateHow::Unchecked(Sattr::default()) });
    let all = answered(&[(Command::CREATE, ok, &opened())]);
    let made = FileHandle(b"top\\new\\n03");
    judged(&create, None, &all, |is| assert_eq!(is, Ok(Answer::Opened(OpenId::Smb(OPEN), Some(made)))));
    let open = Call::Open(OpenHead { file: FILE, access: ShareAccess::READ, owner: 0 });
    judged(&open, None, &all, |is| assert_eq!(is, Ok(Answer::Opened(OpenId::Smb(OPEN), None))));
    let read = Call::Read(ReadArgs { file: FILE, offset: 0, count: 4 });
    let all =
        answered(&[(Command::READ, ok, &ReadResponse { data: &b"data"[..], data_remaining: 0, flags: 0 })]);
    let data = Answer::Read { count: 4, data: b"data", eof: false };
    judged(&read, Some(OPEN), &all, |is| assert_eq!(is, Ok(data)));
    let write = WriteHead { file: FILE, offset: 0, count: 512, stable: StableHow::FileSync };
    let all = answered(&[(Command::WRITE, ok, &WriteResponse { count: 512, remaining: 0 })]);
    judged(&Call::Write(write), Some(OPEN), &all, |is| {
        let written =
            Answer::Written { count: 512, committed: StableHow::FileSync, verf: WriteVerf::default() };
        assert_eq!(is, Ok(written));
    });
}

#[test]
fn what_is_refused_is_counted_and_what_no_server_may_send_ends_the_load() {
    let getattr = Call::Getattr(GetattrArgs { object: FILE });
    let (ok, refused) = (NtStatus::SUCCESS, NtStatus::ACCESS_DENIED);
    let parts = |query, close| -> Vec<u8> {
        answered(&[
            (Command::CREATE, ok, &opened()),
            (Command::QUERY_INFO, query, &Empty),
            (Command::CLOSE, close, &Empty),
        ])
    };
    judged(&getattr, None, &parts(ok, ok), |is| assert_eq!(is, Ok(Answer::Done)));
    judged(&getattr, None, &parts(refused, ok), |is| assert_eq!(is, Err("ACCESS_DENIED".to_owned())));
    judged(&getattr, None, &parts(ok, refused), |is| assert_eq!(is, Err("ACCESS_DENIED".to_owned())));
    let short = answered(&[(Command::CREATE, ok, &opened()), (Command::QUERY_INFO, ok, &Empty)]);
    judged(&getattr, None, &short, |is| assert!(is.unwrap_err().contains("answered without CLOSE")));
    let other = answered(&[(Command::ECHO, ok, &Empty)]);
    judged(&getattr, None, &other, |is| {
        assert!(is.unwrap_err().contains("a response to ECHO in place of CREATE"));
    });
    let open = Call::Open(OpenHead { file: FILE, access: ShareAccess::READ, owner: 0 });
    let bare = answered(&[(Command::CREATE, ok, &Empty)]);
    judged(&open, None, &bare, |is| assert!(is.is_err(), "no file is open"));
}
