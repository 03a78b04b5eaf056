//! CHANGE_NOTIFY: contents, recipients, and limits of queued changes.

use crate::rig::{BOB, Client, Offer, Opening, Reply, Rig, SHARE};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{DispositionInformation, RenameInformation};
use smb_wire::create::{CreateDisposition, CreateOptions};
use smb_wire::dir::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter, OutputResponse};
use smb_wire::header::{Command, Header};
use smb_wire::notify::{NotifyAction, changes};
use smb_wire::session::Empty;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus, Utf16};
use vfs::volume::change_notify::{ChangeMask, WATCHES_MAX, Watch, WatchFilter};
use vfs::{Caller, Disposition, PendingSync, SetAttrs};

const NAMES: CompletionFilter = CompletionFilter(0x3);

pub(crate) fn request(
    file_id: FileId,
    filter: CompletionFilter,
    is_tree: bool,
    room: u32,
) -> ChangeNotifyRequest {
    let flags = if is_tree { ChangeNotifyFlags::WATCH_TREE } else { ChangeNotifyFlags::empty() };
    ChangeNotifyRequest { flags, output_buffer_length: room, file_id, completion_filter: filter }
}

/// Sends CHANGE_NOTIFY for names, and returns the interim reply.
#[track_caller]
pub(crate) fn wait_for(client: &mut Client, file_id: FileId, is_tree: bool) -> Header {
    let message = client.request(Command::CHANGE_NOTIFY, &request(file_id, NAMES, is_tree, 1000));
    client.send_protected(message);
    let interim = client.reply();
    assert_eq!(interim.status(), NtStatus::PENDING);
    interim.header
}

/// The changes of a reply, a line each.
#[track_caller]
pub(crate) fn told(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status(), NtStatus::SUCCESS);
    let output = reply.body::<OutputResponse<&[u8]>>().output;
    let line = |change: smb_wire::notify::NotifyInformation<'_>| {
        let name: Vec<u16> = change.file_name.units().collect();
        let action = match change.action {
            NotifyAction::ADDED => "+",
            NotifyAction::REMOVED => "-",
            NotifyAction::MODIFIED => "*",
            NotifyAction::RENAMED_OLD_NAME => "<",
            NotifyAction::RENAMED_NEW_NAME => ">",
            _ => "?",
        };
        format!("{action}{}", String::from_utf16(&name).unwrap())
    };
    changes(output).map(|change| line(change.unwrap())).collect()
}

fn cancel(client: &mut Client, interim: &Header) {
    let header = Header::request(Command::CANCEL, interim.message_id, client.session_id, 0);
    client.send_protected(crate::rig::message(&Header { routing: interim.routing, ..header }, &Empty));
    assert_eq!(client.reply().status(), NtStatus::CANCELLED);
}

fn root(client: &mut Client) -> FileId {
    let (access, options) = (AccessMask::LIST_DIRECTORY, CreateOptions::DIRECTORY_FILE);
    client.open("", Opening { access, options, ..Opening::by(CreateDisposition::OPEN) })
}

#[test]
fn name_change_reaches_pending_and_later_requests() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let dir = root(&mut one);
    let interim = wait_for(&mut one, dir, false);
    two.put("a", b"1");
    let reply = one.reply();
    assert_eq!(reply.header.message_id, interim.message_id);
    assert_eq!(told(&reply), ["+a"]);
    let sub = two.open("sub", Opening::dir());
    let name = crate::rig::name("b");
    let file = two.open("a", Opening { access: AccessMask::DELETE, ..Opening::by(CreateDisposition::OPEN) });
    let file_name = Utf16::new(&name).unwrap();
    let rename = RenameInformation { replace_if_exists: false, root_directory: 0, file_name };
    assert_eq!(two.set(file, FileClass::RENAME, &rename), NtStatus::SUCCESS);
    two.close(sub);
    let later = one.call(Command::CHANGE_NOTIFY, &request(dir, NAMES, false, 1000));
    assert_eq!(told(&later), ["+sub", "<a", ">b"]);
    let interim = wait_for(&mut one, dir, false);
    cancel(&mut one, &interim);
}

#[test]
fn foreign_change_is_reported_with_path() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let sub = client.open("Sub", Opening::dir());
    client.close(sub);
    let dir = root(&mut client);
    wait_for(&mut client, dir, true);
    let export = rig.namespace.load().exports()[0].clone();
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let root = export.root();
    let opened = root.open_dir(&caller, vfs::Blocking::Allowed).unwrap();
    let sub = opened.lookup(b"Sub", vfs::Blocking::Allowed).unwrap().file;
    let set = SetAttrs::default();
    sub.create(&caller, b"what?", Disposition::CreateNew, &set, &mut pending).unwrap();
    assert_eq!(told(&client.reply()), ["+Sub\\what\u{f025}"]);
}

#[test]
fn change_completes_the_oldest_request() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let dir = root(&mut one);
    let first = wait_for(&mut one, dir, false);
    let second = wait_for(&mut one, dir, false);
    let third = wait_for(&mut one, dir, false);
    for (name, interim) in [("a", &first), ("b", &second)] {
        two.put(name, b"");
        let reply = one.reply();
        assert_eq!((reply.header.message_id, told(&reply)), (interim.message_id, vec![format!("+{name}")]));
    }
    cancel(&mut one, &third);
    two.put("c", b"");
    let kept = one.call(Command::CHANGE_NOTIFY, &request(dir, NAMES, false, 1000));
    assert_eq!(told(&kept), ["+c"]);
}

#[test]
fn queued_changes_are_limited() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let dir = root(&mut one);
    let interim = wait_for(&mut one, dir, false);
    cancel(&mut one, &interim);
    let ask =
        |client: &mut Client, room| client.call(Command::CHANGE_NOTIFY, &request(dir, NAMES, false, room));
    for number in 0..100 {
        two.put(&format!("file-{number}"), b"");
    }
    let reply = ask(&mut one, 1000);
    assert_eq!(reply.status(), NtStatus::NOTIFY_ENUM_DIR);
    assert!(reply.read::<OutputResponse<&[u8]>>().output.is_empty());
    two.put("short", b"");
    assert_eq!(ask(&mut one, 8).status(), NtStatus::NOTIFY_ENUM_DIR, "the buffer is too small");
    two.put("next", b"");
    assert_eq!(told(&ask(&mut one, 1000)), ["+next"]);
    ask(&mut one, 2 << 20).assert_refused(NtStatus::INVALID_PARAMETER);
}

#[test]
fn notify_ends_with_directory_or_open() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let closed = one.open("dir", Opening::dir());
    wait_for(&mut one, closed, false);
    let close = one.request(
        Command::CLOSE,
        &smb_wire::file::CloseRequest { flags: smb_wire::file::CloseFlags::empty(), file_id: closed },
    );
    one.send_protected(close);
    assert_eq!(one.reply().status(), NtStatus::NOTIFY_CLEANUP);
    assert_eq!(one.reply().status(), NtStatus::SUCCESS);
    let dir = one.open("dir", Opening { disposition: CreateDisposition::OPEN, ..Opening::dir() });
    wait_for(&mut one, dir, false);
    let access = AccessMask::DELETE;
    let going = two.open("dir", Opening { access, disposition: CreateDisposition::OPEN, ..Opening::dir() });
    let disposition = DispositionInformation { delete_pending: true };
    assert_eq!(two.set(going, FileClass::DISPOSITION, &disposition), NtStatus::SUCCESS);
    assert_eq!(one.reply().status(), NtStatus::DELETE_PENDING);
    one.call(Command::CHANGE_NOTIFY, &request(dir, NAMES, false, 1000))
        .assert_refused(NtStatus::DELETE_PENDING);
}

#[test]
fn notify_needs_list_access() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let ask =
        |client: &mut Client, file| client.call(Command::CHANGE_NOTIFY, &request(file, NAMES, true, 1000));
    ask(&mut client, file).assert_refused(NtStatus::INVALID_PARAMETER);
    let dir = client.open("dir", Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::dir() });
    ask(&mut client, dir).assert_refused(NtStatus::ACCESS_DENIED);
    // Another user's open is invalid.
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    ask(&mut bob, dir).assert_refused(NtStatus::FILE_CLOSED);
}

#[test]
fn write_and_set_are_reported_once() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let file = two.open("file", Opening::default());
    let dir = root(&mut one);
    let sizes = CompletionFilter::SIZE | CompletionFilter::LAST_WRITE;
    let wish = request(dir, sizes, false, 1000);
    let first = one.request(Command::CHANGE_NOTIFY, &wish);
    one.send_protected(first);
    assert_eq!(one.reply().status(), NtStatus::PENDING);
    two.write(file, 0, b"x");
    assert_eq!(told(&one.reply()), ["*file"]);
    two.write(file, 0, b"y");
    two.write(file, 0, b"z");
    two.put("other", b"");
    assert_eq!(told(&one.call(Command::CHANGE_NOTIFY, &wish)), ["*file"]);
}

#[test]
fn refused_notify_starts_no_watch() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let dir = root(&mut client);
    let notify = client.request(Command::CHANGE_NOTIFY, &request(dir, NAMES, true, 1000));
    let echo = client.request(Command::ECHO, &Empty);
    let statuses: Vec<NtStatus> = client.chain(vec![notify, echo]).iter().map(Reply::status).collect();
    assert_eq!(statuses, [NtStatus::INTERNAL_ERROR, NtStatus::SUCCESS]);
    assert!(!rig.volume.is_watched());
    wait_for(&mut client, dir, true);
    assert!(rig.volume.is_watched());
}

#[test]
fn watches_per_user_are_limited() {
    let rig = Rig::new();
    let dir = rig.namespace.load().exports()[0].root();
    let wish = || WatchFilter {
        caller: Caller::new(0, 0, []),
        user: 1000,
        what: ChangeMask::FILE_NAMES,
        is_tree: false,
        bytes_max: 0,
    };
    let watches = std::iter::repeat_with(|| dir.watch(wish(), Box::new(|| {}))).map_while(Result::ok);
    let mut watches: Vec<Watch> = watches.take(WATCHES_MAX).collect();
    let mut alice = rig.alice();
    let hers = root(&mut alice);
    let ask = |client: &mut Client, dir| {
        let ask = client.request(Command::CHANGE_NOTIFY, &request(dir, NAMES, false, 1000));
        client.send_protected(ask);
        client.reply().status()
    };
    assert_eq!(ask(&mut alice, hers), NtStatus::INSUFFICIENT_RESOURCES);
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    let his = root(&mut bob);
    assert_eq!(ask(&mut bob, his), NtStatus::PENDING);
    watches.pop();
    assert_eq!(ask(&mut alice, hers), NtStatus::PENDING);
}
