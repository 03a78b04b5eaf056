//! SET_INFO (MS-SMB2 §3.3.5.21, MS-FSA §2.1.5.15).

mod others;
mod rename;
mod security;
mod streams;

use super::create::check_room;
use super::extended_attributes;
use crate::metadata::file_info::{STORED, WRITE_BITS, stored_flags};
use crate::metadata::names::Naming;
use crate::request::context::RequestContext;
use crate::request::outcome::{CommandError, CommandResult};
use crate::request::payload;
use crate::state::open::Open;
use smb_wire::classes::file::{
    BasicInformation, DispositionFlags, DispositionInformation, DispositionInformationEx, Mode,
    ModeInformation, PositionInformation, RenameFlags, RenameInformation, RenameInformationEx,
    SizeInformation,
};
use smb_wire::classes::{FileClass, FileSystemClass};
use smb_wire::info::{InfoType, SetInfoRequest, SetInfoResponse};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, FileTime, NtStatus, Writer};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::claims::{Conflict, Io, IoKind, Request, Requester, Span, Verdict};
use vfs::qos::Transferred;
use vfs::volume::change_notify::ChangeMask;
use vfs::{
    Attrs, Blocking, ExtraAttrs, File, FileType, FsError, FsResult, SetAttrs, SetTime, Stability, Time, Wait,
};

/// The owner may write a file that is not read-only.
const OWNER_WRITE: u32 = 0o200;

pub(crate) fn set(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: SetInfoRequest<'_> = RequestContext::decode(request)?;
    let open = cx.open(args.file_id)?;
    match args.info_type {
        InfoType::FILE => set_file(cx, &open, FileClass(args.file_info_class), args.buffer)?,
        InfoType::SECURITY => security::set(cx, &open, args.additional_information, args.buffer)?,
        // Rules of quotas are set by the management alone, as for a caller who is no administrator.
        InfoType::QUOTA if open.file.volume().ruling_quotas().is_some() => {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        InfoType::FILESYSTEM
            if FileSystemClass(args.file_info_class) == FileSystemClass::CONTROL
                && open.file.volume().ruling_quotas().is_some() =>
        {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        InfoType::FILESYSTEM | InfoType::QUOTA => return Err(NtStatus::NOT_SUPPORTED.into()),
        _ => return Err(NtStatus::INVALID_PARAMETER.into()),
    }
    if payload::is_user_data(args.info_type, args.file_info_class) {
        cx.message.stats.count_metadata(Transferred::written(args.buffer.len()));
    }
    cx.respond(w, &SetInfoResponse)
}

fn set_file(
    cx: &mut RequestContext<'_, '_>,
    open: &Arc<Open>,
    class: FileClass,
    bytes: &[u8],
) -> Result<(), CommandError> {
    match class {
        FileClass::BASIC => set_basic(cx, open, &decode(bytes)?),
        FileClass::END_OF_FILE => set_size(cx, open, size(bytes)?),
        FileClass::ALLOCATION => set_allocation(cx, open, size(bytes)?),
        FileClass::DISPOSITION => {
            let disposition: DispositionInformation = decode(bytes)?;
            set_disposition(cx, open, disposition.delete_pending, false)
        }
        FileClass::DISPOSITION_EX => {
            let flags = decode::<DispositionInformationEx>(bytes)?.flags;
            let ignores_read_only = flags.contains(DispositionFlags::IGNORE_READONLY_ATTRIBUTE);
            set_disposition(cx, open, flags.contains(DispositionFlags::DELETE), ignores_read_only)
        }
        FileClass::RENAME => rename::rename(cx, open, &decode(bytes)?, false),
        FileClass::RENAME_EX => {
            let ex: RenameInformationEx<'_> = decode(bytes)?;
            let rename = RenameInformation {
                replace_if_exists: ex.flags.contains(RenameFlags::REPLACE_IF_EXISTS),
                root_directory: ex.root_directory,
                file_name: ex.file_name,
            };
            let ignores_read_only = ex.flags.contains(RenameFlags::IGNORE_READONLY_ATTRIBUTE);
            rename::rename(cx, open, &rename, ignores_read_only)
        }
        FileClass::LINK => rename::link(cx, open, &decode(bytes)?),
        FileClass::POSITION => {
            let PositionInformation { current_byte_offset } = decode(bytes)?;
            i64::try_from(current_byte_offset).map_err(|_| NtStatus::INVALID_PARAMETER)?;
            open.set_position(current_byte_offset);
            Ok(())
        }
        FileClass::MODE => set_mode(open, decode::<ModeInformation>(bytes)?.mode),
        FileClass::FULL_EA => extended_attributes::set(cx, open, bytes),
        // Setting the valid data length would expose unwritten storage; Windows requires a privilege.
        FileClass::VALID_DATA_LENGTH => Err(NtStatus::PRIVILEGE_NOT_HELD.into()),
        _ => Err(NtStatus::INVALID_INFO_CLASS.into()),
    }
}

/// The I/O mode may change, except for synchronous and unbuffered access.
fn set_mode(open: &Open, mode: Mode) -> Result<(), CommandError> {
    let synchronous = Mode::SYNCHRONOUS_IO_ALERT | Mode::SYNCHRONOUS_IO_NONALERT;
    let settable = Mode::WRITE_THROUGH | Mode::SEQUENTIAL_ONLY | synchronous;
    let (old_flags, wants) = (open.mode().and(synchronous), mode.and(synchronous));
    let stays = old_flags.is_empty() == wants.is_empty() && wants != synchronous;
    if !mode.without(settable).is_empty() || !stays {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    open.set_mode(open.mode().without(settable) | mode);
    Ok(())
}

/// A truncated structure has its own error; other defects are reported as they are.
fn decode<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, NtStatus> {
    T::from_bytes(bytes).map_err(|_| NtStatus::INFO_LENGTH_MISMATCH)
}

fn size(bytes: &[u8]) -> Result<u64, NtStatus> {
    u64::try_from(decode::<SizeInformation>(bytes)?.size).map_err(|_| NtStatus::INVALID_PARAMETER)
}

/// Recalls caches of data past `size`, like a write there.
fn recall_caches_past(cx: &mut RequestContext<'_, '_>, open: &Open, size: u64) -> Result<(), CommandError> {
    let (by, stream, span) = (Requester::Open(open.claim()), open.file.stream(), Span::to_end(size));
    let io = Io { by, stream, kind: IoKind::Write, span, waits: false };
    match open.file.claim(&Request::Io(io)) {
        Verdict::Granted(_) => Ok(()),
        Verdict::Refused(Conflict::Recalling) => Err(cx.wait_for_io(open, IoKind::Write, span)),
        Verdict::Refused(conflict) => Err(conflict.into()),
        Verdict::Wait(_) => Err(CommandError::Wait(Wait::Recall)),
    }
}

/// An allocation below the file size truncates the file (MS-FSA §2.1.5.15.1).
fn set_allocation(cx: &mut RequestContext<'_, '_>, open: &Open, allocation: u64) -> Result<(), CommandError> {
    open.check(AccessMask::WRITE_DATA)?;
    // Directories and special files have no allocation.
    let opened = open.opened().ok_or(NtStatus::INVALID_PARAMETER)?;
    open.check_writable()?;
    let Attrs { size, used, .. } = open.file.attrs(Blocking::Allowed)?;
    if allocation < size {
        return set_size(cx, open, allocation);
    }
    check_room(&open.file, allocation.saturating_sub(used))?;
    match opened.preallocate(allocation, Stability::Unstable, cx.message.pending) {
        Err(FsError::Wait(Wait::Recall)) => Err(cx.wait_for_io(open, IoKind::Write, Span::to_end(size))),
        // Storage without preallocation allocates on write.
        Err(FsError::NotSupported) => recall_caches_past(cx, open, size),
        change => {
            open.restore_modified(&change?, cx.message.pending)?;
            open.notify_modified(ChangeMask::SIZE);
            Ok(())
        }
    }
}

fn set_size(cx: &mut RequestContext<'_, '_>, open: &Open, size: u64) -> Result<(), CommandError> {
    open.check(AccessMask::WRITE_DATA)?;
    let opened = open.opened().ok_or(NtStatus::INVALID_PARAMETER)?;
    open.check_writable()?;
    let set = SetAttrs { size: Some(size), ..SetAttrs::default() };
    match opened.set_attrs(&open.disk.caller, &set, cx.message.pending) {
        Err(FsError::Wait(Wait::Recall)) => Err(cx.wait_for_io(open, IoKind::Write, Span::to_end(size))),
        change => {
            open.restore_modified(&change?, cx.message.pending)?;
            open.notify_modified(ChangeMask::SIZE | ChangeMask::MODIFIED);
            Ok(())
        }
    }
}

/// MS-FSA §2.1.5.15.2.
fn set_basic(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    basic: &BasicInformation,
) -> Result<(), CommandError> {
    open.check(AccessMask::WRITE_ATTRIBUTES)?;
    let attributes = basic.file_attributes;
    let is_of_dir = open.base_type == FileType::Directory;
    let contradicts = attributes.contains(FileAttributes::TEMPORARY) && is_of_dir
        || attributes.contains(FileAttributes::DIRECTORY) && !open.is_dir();
    let times = [basic.creation_time, basic.last_access_time, basic.last_write_time, basic.change_time];
    let is_none = |time: &FileTime| {
        i64::try_from(time.0).is_err() && ![FileTime::FREEZE, FileTime::THAW].contains(time)
    };
    if contradicts || times.iter().any(is_none) {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let caller = &open.disk.caller;
    let attrs = open.file.attrs(Blocking::Allowed)?;
    let extra = open.file.extra_attrs(&attrs, Blocking::Allowed)?;
    // Clearing the read-only attribute must make the file writable again.
    let frees = !attributes.is_empty() && !attributes.contains(FileAttributes::READONLY);
    let frees =
        frees && open.base_type == FileType::Regular && attrs.mode & WRITE_BITS == 0 && !extra.is_listed;
    let set = SetAttrs {
        mode: frees.then_some(attrs.mode | OWNER_WRITE),
        accessed: settable_time(basic.last_access_time).map(SetTime::To),
        modified: settable_time(basic.last_write_time).map(SetTime::To),
        ..SetAttrs::default()
    };
    if !set.is_empty() {
        open.set_times(&set, cx.message.pending)?;
    }
    let flags = new_flags(open.base_type, &extra, attributes);
    let born = settable_time(basic.creation_time).or(extra.born);
    set_time_sticky(&open.times.modified, basic.last_write_time);
    set_time_sticky(&open.times.changed, basic.change_time);
    let sets = !set.is_empty() || (flags, born) != (extra.flags, extra.born);
    let stays = (sets && open.times.changed.load(Ordering::Relaxed)).then(|| extra.changed(&attrs));
    let changed = settable_time(basic.change_time).or(stays);
    if (flags, born) != (extra.flags, extra.born) || changed.is_some() {
        let new =
            |extra: &mut ExtraAttrs| (extra.flags, extra.born, extra.set_changed) = (flags, born, changed);
        match open.file.update_extra_attrs(caller, new, cx.message.pending) {
            // Without support for extra attributes the others are set.
            Err(FsError::NotSupported) => {}
            result => _ = result?,
        }
    }
    open.notify_modified(change_mask(basic));
    Ok(())
}

fn change_mask(basic: &BasicInformation) -> ChangeMask {
    let kinds = [
        (!basic.file_attributes.is_empty(), ChangeMask::ATTRIBUTES),
        (settable_time(basic.creation_time).is_some(), ChangeMask::CREATED),
        (settable_time(basic.last_access_time).is_some(), ChangeMask::ACCESSED),
        (settable_time(basic.last_write_time).is_some(), ChangeMask::MODIFIED),
    ];
    kinds.into_iter().filter(|(is_set, _)| *is_set).fold(ChangeMask::NONE, |all, (_, kind)| all | kind)
}

/// Setting or freezing a time stops automatic updates through this open (MS-FSA §2.1.5.15.2).
fn set_time_sticky(keeps: &AtomicBool, time: FileTime) {
    match time {
        FileTime::NONE => {}
        FileTime::THAW => keeps.store(false, Ordering::Relaxed),
        _ => keeps.store(true, Ordering::Relaxed),
    }
}

/// The flags to store for a client's attributes; `None` if it sets none. Flags set by FSCTLs stay.
fn new_flags(base: FileType, extra: &ExtraAttrs, attributes: FileAttributes) -> Option<u32> {
    if attributes.is_empty() {
        return extra.flags;
    }
    let old_flags = stored_flags(FileType::Regular, base, extra);
    let flags = old_flags.without(STORED) | (attributes & STORED);
    if flags == old_flags { extra.flags } else { Some(flags.0) }
}

/// The time to set. The values that freeze and resume updates set none (MS-FSCC §2.4.7).
fn settable_time(time: FileTime) -> Option<Time> {
    if [FileTime::NONE, FileTime::FREEZE, FileTime::THAW].contains(&time) {
        return None;
    }
    let (seconds, nanos) = time.to_unix();
    Some(Time { seconds, nanos })
}

/// Marks the file for deletion with its last open, or clears the mark (MS-FSA §2.1.5.15.3).
fn set_disposition(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    deletes: bool,
    ignores_read_only: bool,
) -> Result<(), CommandError> {
    open.check(AccessMask::DELETE)?;
    if deletes {
        open.check_writable()?;
        if open.entry_path().deletion(&open.file, None).is_none() {
            return Err(NtStatus::CANNOT_DELETE.into());
        }
        check_name(open)?;
        let attrs = open.file.attrs(Blocking::Allowed)?;
        let is_read_only = open.file_info(&attrs)?.attributes.contains(FileAttributes::READONLY);
        if is_read_only && !ignores_read_only && open.naming == Naming::Windows {
            return Err(NtStatus::CANNOT_DELETE.into());
        }
        if open.is_dir() && !is_empty(&open.file, open)? {
            return Err(NtStatus::DIRECTORY_NOT_EMPTY.into());
        }
    }
    let verdict = match &cx.message.service.persistent {
        // Streams have no records.
        Some(opens) if !open.file.is_stream() => opens.set_deletion(open, deletes)?,
        _ => open.set_delete(deletes),
    };
    match verdict {
        Verdict::Granted(_) => Ok(()),
        Verdict::Refused(Conflict::Recalling) => Err(cx.wait_for_name(open, &open.file)),
        Verdict::Refused(conflict) => Err(conflict.into()),
        Verdict::Wait(_) => Err(CommandError::Wait(Wait::Recall)),
    }
}

/// Checks that the open's name still leads to its file, since another client may have renamed either.
fn check_name(open: &Open) -> Result<(), NtStatus> {
    let entry_path = open.entry_path().clone();
    let Some((dir, name)) = entry_path.entry.filter(|_| entry_path.stream.is_none()) else { return Ok(()) };
    let dir = dir.open_dir(&open.disk.caller, Blocking::Allowed);
    match dir.and_then(|dir| dir.lookup(&name, Blocking::Allowed)) {
        Ok(found) if found.file.key() != open.file.key() => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
        Err(FsError::NotFound) => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
        // Without permission to look, the name is presumed correct.
        _ => Ok(()),
    }
}

pub(crate) fn is_empty(dir: &File, open: &Open) -> FsResult<bool> {
    let mut is_empty = true;
    dir.read_dir(&open.disk.caller, 0, false, &mut |entry| {
        is_empty = matches!(entry.name, b"." | b"..");
        if is_empty { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(is_empty)
}
