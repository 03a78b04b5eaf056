//! Renames of streams: FileRenameInformation through an open of one (MS-FSA §2.1.5.15.11).

use super::rename::{self, ClaimGuard};
use crate::commands::create::{find_stream, lock_stream};
use crate::metadata::names::{self, Part};
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use smb_wire::NtStatus;
use smb_wire::classes::file::RenameInformation;
use std::sync::Arc;
use vfs::claims::{self, IoKind, Requester, Rights, Span};
use vfs::volume::change_notify::ChangeMask;
use vfs::{File, FsError, Wait};

/// A stream stays with its file. The new name is ":name", with or without the type.
pub(super) fn rename(
    cx: &mut RequestContext<'_, '_>,
    open: &Arc<Open>,
    args: &RenameInformation<'_>,
) -> Result<(), CommandError> {
    if args.root_directory != 0 {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let wire: Vec<u16> = args.file_name.units().collect();
    let colon = u16::from(b':');
    let name = match wire.strip_prefix(&[colon]) {
        Some(name) => name,
        // The path of another file's stream: Windows returns this status because the file is open.
        None if wire.contains(&colon) => return Err(NtStatus::SHARING_VIOLATION.into()),
        None => return Err(NtStatus::INVALID_PARAMETER.into()),
    };
    let Part::Stream(to) = names::part(name)? else { return Err(NtStatus::INVALID_PARAMETER.into()) };
    let file = open.file.of_stream();
    let from = open.entry_path().stream.clone().ok_or(NtStatus::INVALID_PARAMETER)?;
    let lock = lock_stream(cx.message.service, &file, &to);
    let (to, claimed) = match find_stream(&file, &to) {
        Ok((_, other)) if other.stream() == open.file.stream() => (to, None),
        Ok((stored, other)) if args.replace_if_exists => (stored, Some(claim_replaced(open, &other)?)),
        Ok(_) => return Err(NtStatus::OBJECT_NAME_COLLISION.into()),
        Err(FsError::NotFound) => (to, None),
        Err(error) => return Err(error.into()),
    };
    // The open's own leases do not conflict.
    let caller = &mut open.disk.caller.clone();
    caller.by = Requester::Open(open.claim());
    let renamed = file.rename_stream(caller, &from, &to, args.replace_if_exists, cx.message.pending);
    drop((claimed, lock));
    renamed.map_err(|error| match error {
        FsError::Wait(Wait::Recall) => cx.wait_for_io(open, IoKind::Replace, Span::ALL),
        error => error.into(),
    })?;
    open.notify_modified(ChangeMask::MODIFIED);
    update_opens(cx, open, &to);
    Ok(())
}

/// Claims the stream to replace. Fails if the stream is open, and prevents new opens.
fn claim_replaced(open: &Open, replaced: &File) -> Result<ClaimGuard, CommandError> {
    let all = Rights::READ | Rights::WRITE | Rights::DELETE;
    let access = claims::Access { rights: Rights::DELETE, deny: all };
    rename::claim_file(open, replaced, access, NtStatus::ACCESS_DENIED)
}

fn update_opens(cx: &RequestContext<'_, '_>, open: &Arc<Open>, to: &[u8]) {
    let is_of = |other: &Open| {
        Arc::ptr_eq(&other.disk.export.volume, &open.disk.export.volume)
            && other.file.key() == open.file.key()
            && other.file.stream() == open.file.stream()
    };
    for other in cx.message.service.find_opens(is_of) {
        other.entry_path().stream = Some(to.to_vec());
    }
}
