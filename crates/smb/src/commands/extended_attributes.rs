//! Extended attributes (MS-FSCC §2.4.16). The storage shares them with every protocol; their names are case-sensitive
//! there.

use crate::limits::EAS_MAX;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use crate::status::from_fs_error;
use smb_wire::ea::{EaFlags, EaWriter, FullEa, full_eas, requested_names};
use smb_wire::info::{QueryInfoFlags, QueryInfoRequest};
use smb_wire::types::AccessMask;
use smb_wire::{NtStatus, Writer};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use vfs::volume::change_notify::ChangeMask;
use vfs::{Attrs, Blocking, Caller, File, FsError, FsResult, PendingSync, SetXattr, Wait, XattrName};
use vfs::{XATTR_OVERHEAD_BYTES, XATTRS_BYTES_MAX};

/// The maximum overhead of an attribute in a list, besides name and value.
const ENTRY_BYTES: usize = 12;

pub(crate) struct EaList {
    pub(crate) bytes: Vec<u8>,
    /// Whether some attributes did not fit.
    pub(crate) is_cut: bool,
}

/// Parses a client's attributes. Refuses invalid names and more bytes than a file can have.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<FullEa<'_>>, NtStatus> {
    let all: Vec<_> = full_eas(bytes)
        .take(EAS_MAX + 1)
        .collect::<Result<_, _>>()
        .map_err(|_| NtStatus::EA_LIST_INCONSISTENT)?;
    if all.len() > EAS_MAX {
        return Err(NtStatus::EA_TOO_LARGE);
    }
    for ea in &all {
        match XattrName::new(ea.name) {
            Err(FsError::Access) => return Err(NtStatus::ACCESS_DENIED),
            Ok(_) if !ea.name.iter().any(u8::is_ascii_control) => {}
            _ => return Err(NtStatus::INVALID_EA_NAME),
        }
    }
    let bytes = all.iter().map(|ea| ea.name.len() + ea.value.len() + XATTR_OVERHEAD_BYTES);
    if bytes.sum::<usize>() > XATTRS_BYTES_MAX { Err(NtStatus::EA_TOO_LARGE) } else { Ok(all) }
}

/// Sets attributes in order; an empty value removes one (MS-FSA §2.1.5.15.5).
pub(crate) fn apply(
    file: &File,
    caller: &Caller,
    list: &[FullEa<'_>],
    pending: &mut PendingSync,
) -> Result<(), CommandError> {
    let present = if list.is_empty() { Vec::new() } else { names(file, caller).map_err(ea_error)? };
    for ea in list {
        let same = |name: &&Vec<u8>| name.eq_ignore_ascii_case(ea.name);
        let stored = present.iter().find(same).map_or(ea.name, Vec::as_slice);
        let result = if ea.value.is_empty() {
            file.remove_xattr(caller, stored, pending)
        } else {
            file.set_xattr(caller, stored, ea.value, SetXattr::Either, pending)
        };
        match result {
            Err(FsError::NotFound) => {}
            result => _ = result.map_err(ea_error)?,
        }
    }
    Ok(())
}

/// Removes all attributes of an overwritten file (MS-FSA §2.1.5.1.2.1).
pub(crate) fn clear(
    file: &File,
    caller: &Caller,
    attrs: &Attrs,
    pending: &mut PendingSync,
) -> Result<(), CommandError> {
    if file.xattrs_size(attrs, Blocking::Allowed)?.count == 0 {
        return Ok(());
    }
    for name in names(file, caller).map_err(ea_error)? {
        match file.remove_xattr(caller, &name, pending) {
            Err(FsError::NotFound) => {}
            result => _ = result.map_err(ea_error)?,
        }
    }
    Ok(())
}

/// SET_INFO with `FileFullEaInformation`.
pub(crate) fn set(cx: &mut RequestContext<'_, '_>, open: &Open, bytes: &[u8]) -> Result<(), CommandError> {
    open.check(AccessMask::WRITE_EA)?;
    let list = parse(bytes)?;
    let result = apply(&open.file, &open.disk.caller, &list, cx.message.pending);
    if !list.is_empty() {
        // Attributes before a refused one stay set.
        open.notify_modified(ChangeMask::XATTRS);
    }
    result
}

/// `EaSize`: the maximum size of a list of all attributes.
pub(crate) fn size(cx: &RequestContext<'_, '_>, open: &Open, attrs: &Attrs) -> Result<u32, CommandError> {
    let size = open.file.xattrs_size(attrs, cx.message.blocking)?;
    Ok(u32::try_from(size.bytes + size.count * ENTRY_BYTES).unwrap_or(u32::MAX))
}

/// QUERY_INFO with `FileFullEaInformation` (MS-FSA §2.1.5.12.12). Resumes this open's last query, or returns the
/// attributes requested by name.
pub(crate) fn query(
    cx: &RequestContext<'_, '_>,
    open: &Open,
    args: &QueryInfoRequest<'_>,
) -> Result<EaList, CommandError> {
    open.check(AccessMask::READ_EA)?;
    if cx.message.blocking == Blocking::Never {
        return Err(CommandError::Wait(Wait::Storage));
    }
    let (file, caller) = (&open.file, &open.disk.caller);
    let is_single = args.flags.contains(QueryInfoFlags::RETURN_SINGLE_ENTRY);
    let requested: Vec<&[u8]> = requested_names(args.input)
        .take(EAS_MAX)
        .collect::<Result<_, _>>()
        .map_err(|_| NtStatus::EA_LIST_INCONSISTENT)?;
    let room = EaRoom { bytes: args.output_buffer_length, is_single };
    if !requested.is_empty() {
        let present = names(file, caller).map_err(ea_error)?;
        let entries = requested.into_iter().map(|name| {
            let stored = present.iter().find(|stored| stored.eq_ignore_ascii_case(name));
            let value = stored.map_or(Ok(Vec::new()), |stored| value_of(file, caller, stored))?;
            Ok(EaEntry { name: name.to_vec(), value, cookie: 0 })
        });
        return Ok(fill(room, entries)?.0.ok_or(NtStatus::NO_EAS_ON_FILE)?);
    }
    if args.flags.contains(QueryInfoFlags::RESTART_SCAN) {
        open.cursors.next_ea_entry.store(0, Ordering::Relaxed);
    }
    let from = open.cursors.next_ea_entry.load(Ordering::Relaxed);
    let present = names_after(file, caller, from).map_err(ea_error)?;
    let entries = present.into_iter().map(|(name, cookie)| {
        let value = value_of(file, caller, &name)?;
        Ok(EaEntry { name, value, cookie })
    });
    let (listed, last) = fill(room, entries)?;
    open.cursors.next_ea_entry.store(last.unwrap_or(from), Ordering::Relaxed);
    Ok(listed.ok_or(if from == 0 { NtStatus::NO_EAS_ON_FILE } else { NtStatus::NO_MORE_EAS })?)
}

struct EaEntry {
    name: Vec<u8>,
    value: Vec<u8>,
    cookie: u64,
}

struct EaRoom {
    bytes: u32,
    is_single: bool,
}

/// Fills a list with as many of `entries` as fit. Returns it with the cookie of the last one.
fn fill(
    room: EaRoom,
    entries: impl Iterator<Item = Result<EaEntry, CommandError>>,
) -> Result<(Option<EaList>, Option<u64>), CommandError> {
    let (mut bytes, mut last, mut is_cut) = (Vec::new(), None, false);
    let mut w = Writer::new(&mut bytes);
    let mut writer = EaWriter::new(&w, usize::try_from(room.bytes).unwrap_or(usize::MAX));
    for entry in entries.take(if room.is_single { 1 } else { usize::MAX }) {
        let EaEntry { name, value, cookie } = entry?;
        // NFS can set a value of 64 KiB, one byte more than the length field can express.
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        if !writer.push(&FullEa { flags: EaFlags::empty(), name: &name, value }, &mut w) {
            is_cut = true;
            break;
        }
        last = Some(cookie);
    }
    if is_cut && last.is_none() {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    Ok((last.map(|_| EaList { bytes, is_cut }), last))
}

/// The value of an attribute; empty if it was removed meanwhile.
fn value_of(file: &File, caller: &Caller, name: &[u8]) -> Result<Vec<u8>, CommandError> {
    match file.get_xattr(caller, name) {
        Err(FsError::NotFound) => Ok(Vec::new()),
        value => value.map_err(ea_error),
    }
}

fn names(file: &File, caller: &Caller) -> FsResult<Vec<Vec<u8>>> {
    Ok(names_after(file, caller, 0)?.into_iter().map(|(name, _)| name).collect())
}

/// Lists the names after `cookie`, each with its own cookie.
fn names_after(file: &File, caller: &Caller, cookie: u64) -> FsResult<Vec<(Vec<u8>, u64)>> {
    let mut names = Vec::new();
    file.list_xattrs(caller, cookie, &mut |name, cookie| {
        names.push((name.bytes().to_vec(), cookie));
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

fn ea_error(error: FsError) -> CommandError {
    match error {
        FsError::NotSupported => NtStatus::EAS_NOT_SUPPORTED.into(),
        FsError::NoSpace | FsError::FileTooBig => NtStatus::EA_TOO_LARGE.into(),
        FsError::NameTooLong | FsError::Invalid => NtStatus::INVALID_EA_NAME.into(),
        FsError::Wait(Wait::Recall) => CommandError::Wait(Wait::Recall),
        error => from_fs_error(error).into(),
    }
}
