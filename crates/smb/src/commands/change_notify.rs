//! CHANGE_NOTIFY (MS-SMB2 §3.3.5.19, §3.3.4.4, MS-FSA §2.1.5.11).
//!
//! The first request of an open sets the filter for the lifetime of the open. Further requests wait in order of
//! arrival.

use crate::limits::{NOTIFY_BYTES_MAX, TRANSACT_BYTES_MAX};
use crate::metadata::names::{Naming, to_wire};
use crate::request::context::RequestContext;
use crate::request::outcome::{CommandError, CommandResult};
use crate::state::open::Open;
use crate::state::open::watch::DirectoryWatch;
use crate::state::pending::Interim;
use smb_wire::dir::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter, OutputResponse};
use smb_wire::notify::{NotifyAction, NotifyInformation, NotifyWriter};
use smb_wire::types::AccessMask;
use smb_wire::{NtStatus, Utf16, Writer};
use std::sync::Arc;
use vfs::volume::change_notify::{Action, ChangeMask, ChangeRecord, WatchEvents, WatchFilter};
use vfs::{FsError, Wait};

fn watch_filter(open: &Open, user: u32, args: &ChangeNotifyRequest) -> WatchFilter {
    let room = usize::try_from(args.output_buffer_length).unwrap_or(usize::MAX);
    WatchFilter {
        caller: open.disk.caller.clone(),
        user,
        what: what(args.completion_filter),
        is_tree: args.flags.contains(ChangeNotifyFlags::WATCH_TREE),
        bytes_max: room.min(NOTIFY_BYTES_MAX),
    }
}

pub(crate) fn change_notify(
    cx: &mut RequestContext<'_, '_>,
    request: &[u8],
    w: &mut Writer<'_>,
) -> CommandResult {
    let args: ChangeNotifyRequest = RequestContext::decode(request)?;
    let open = cx.open(args.file_id)?;
    if !open.is_dir() || args.output_buffer_length > TRANSACT_BYTES_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    open.check(AccessMask::LIST_DIRECTORY)?;
    if !cx.share_settings(&open.disk).change_notify {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    if let Some(news) = open.watched().and_then(DirectoryWatch::take) {
        return write_reply(cx, &news, args.output_buffer_length, w);
    }
    // A request that may not wait starts no watch.
    let waker = cx.waker(Some(open.id), NtStatus::NOTIFY_CLEANUP, Interim::OfLast)?;
    let identity = cx.session()?.identity().ok_or(NtStatus::ACCESS_DENIED)?;
    let watching = open.watch(|| watch_filter(&open, identity.credential.uid, &args));
    let watching = watching.map_err(|error| match error {
        FsError::Wait(Wait::Recall) => NtStatus::INSUFFICIENT_RESOURCES.into(),
        error => CommandError::from(error),
    })?;
    watching.wait(&waker);
    let (async_id, watching) = (waker.request().async_id, Arc::downgrade(&watching));
    Err(cx.suspend(Box::new(move || {
        if let Some(watching) = watching.upgrade() {
            watching.forget(async_id);
        }
        true
    })))
}

fn write_reply(
    cx: &RequestContext<'_, '_>,
    news: &WatchEvents,
    room: u32,
    w: &mut Writer<'_>,
) -> CommandResult {
    let bytes = match news {
        WatchEvents::DirectoryRemoved => return Err(NtStatus::DELETE_PENDING.into()),
        WatchEvents::Overflow => None,
        WatchEvents::Changes(changes) => encode_changes(changes, usize::try_from(room).unwrap_or(usize::MAX)),
    };
    let output = bytes.as_deref().unwrap_or_default();
    cx.respond(w, &OutputResponse { output })?;
    Ok(if bytes.is_some() { NtStatus::SUCCESS } else { NtStatus::NOTIFY_ENUM_DIR })
}

/// Encodes changes. `None` if not all of them fit, or if no name can be encoded.
fn encode_changes(changes: &[ChangeRecord], room: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    let mut writer = NotifyWriter::new(&w, room);
    for change in changes {
        let Some(path) = path(&change.path) else { continue };
        let (action, file_name) = (action(change.action), Utf16::new(&path).ok()?);
        if !writer.push(&NotifyInformation { action, file_name }, &mut w) {
            return None;
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

fn path(stored: &[u8]) -> Option<Vec<u8>> {
    let names = stored
        .split(|&byte| byte == b'/')
        .map(|name| to_wire(name, Naming::Windows))
        .collect::<Option<Vec<_>>>()?;
    Some(names.join(&u16::from(b'\\')).into_iter().flat_map(u16::to_le_bytes).collect())
}

fn action(action: Action) -> NotifyAction {
    match action {
        Action::Added => NotifyAction::ADDED,
        Action::Removed => NotifyAction::REMOVED,
        Action::Modified => NotifyAction::MODIFIED,
        Action::OldName => NotifyAction::RENAMED_OLD_NAME,
        Action::NewName => NotifyAction::RENAMED_NEW_NAME,
    }
}

fn what(filter: CompletionFilter) -> ChangeMask {
    let kinds = [
        (CompletionFilter::FILE_NAME, ChangeMask::FILE_NAMES),
        (CompletionFilter::DIR_NAME, ChangeMask::DIR_NAMES),
        (CompletionFilter::ATTRIBUTES, ChangeMask::ATTRIBUTES),
        (CompletionFilter::SIZE, ChangeMask::SIZE),
        (CompletionFilter::LAST_WRITE, ChangeMask::MODIFIED),
        (CompletionFilter::LAST_ACCESS, ChangeMask::ACCESSED),
        (CompletionFilter::CREATION, ChangeMask::CREATED),
        (CompletionFilter::EA, ChangeMask::XATTRS),
        (CompletionFilter::SECURITY, ChangeMask::SECURITY),
    ];
    kinds
        .into_iter()
        .filter(|(bit, _)| filter.contains(*bit))
        .fold(ChangeMask::NONE, |all, (_, kind)| all | kind)
}
