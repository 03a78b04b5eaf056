//! New names of streams: FileRenameInformation through an open of one (MS-FSA §2.1.5.15.11).

use super::rename::{self, Taken};
use crate::commands::create::{find_stream, lock_stream};
use crate::metadata::names::{self, Part};
use crate::request::context::{Ops, Stop};
use crate::state::open::Open;
use smb_wire::NtStatus;
use smb_wire::classes::file::RenameInformation;
use std::sync::Arc;
use vfs::claims::{self, IoKind, Requester, Rights, Span};
use vfs::volume::change_notify::ChangeMask;
use vfs::{File, FsError, Wait};

/// A stream stays with its file: the new name is ":name", with or without the type.
pub(super) fn rename(ops: &mut Ops<'_>, open: &Arc<Open>, args: &RenameInformation<'_>) -> Result<(), Stop> {
    if args.root_directory != 0 {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let wire: Vec<u16> = args.file_name.units().collect();
    let colon = u16::from(b':');
    let name = match wire.strip_prefix(&[colon]) {
        Some(name) => name,
        // The path of a stream: its file is open, and Windows says that.
        None if wire.contains(&colon) => return Err(NtStatus::SHARING_VIOLATION.into()),
        None => return Err(NtStatus::INVALID_PARAMETER.into()),
    };
    let Part::Stream(to) = names::part(name)? else { return Err(NtStatus::INVALID_PARAMETER.into()) };
    let file = open.file.of_stream();
    let from = open.place().stream.clone().ok_or(NtStatus::INVALID_PARAMETER)?;
    let lock = lock_stream(ops.service, &file, &to);
    let (to, taken) = match find_stream(&file, &to) {
        Ok((_, other)) if other.stream() == open.file.stream() => (to, None),
        Ok((stored, other)) if args.replace_if_exists => (stored, Some(take_over(open, &other)?)),
        Ok(_) => return Err(NtStatus::OBJECT_NAME_COLLISION.into()),
        Err(FsError::NotFound) => (to, None),
        Err(error) => return Err(error.into()),
    };
    // Its own leases stand in nobody's way.
    let caller = &mut open.disk.caller.clone();
    caller.by = Requester::Open(open.claim());
    let renamed = file.rename_stream(caller, &from, &to, args.replace_if_exists, ops.pending);
    drop((taken, lock));
    renamed.map_err(|error| match error {
        FsError::Wait(Wait::Recall) => ops.wait_for_io(open, IoKind::Replace, Span::ALL),
        error => error.into(),
    })?;
    open.tell_modified(ChangeMask::MODIFIED);
    follow(ops, open, &to);
    Ok(())
}

/// A stream is replaced: nobody has it open, and nobody opens it meanwhile.
fn take_over(open: &Open, replaced: &File) -> Result<Taken, Stop> {
    let all = Rights::READ | Rights::WRITE | Rights::DELETE;
    let access = claims::Access { rights: Rights::DELETE, deny: all };
    rename::take(open, replaced, access, NtStatus::ACCESS_DENIED)
}

/// Tells all opens of the stream what it is called now.
fn follow(ops: &Ops<'_>, open: &Arc<Open>, to: &[u8]) {
    let is_of = |other: &Open| {
        Arc::ptr_eq(&other.disk.export.volume, &open.disk.export.volume)
            && other.file.key() == open.file.key()
            && other.file.stream() == open.file.stream()
    };
    for other in ops.service.opens_where(is_of) {
        other.place().stream = Some(to.to_vec());
    }
}
