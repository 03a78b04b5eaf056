//! Ranges of files: sparse, zeroing, allocation, TRIM (MS-FSA §2.1.5.10).

use super::answer::{FsctlReply, output_room};
use crate::limits::TRIM_RANGES_MAX;
use crate::metadata::file_info::stored_flags;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use smb_wire::ioctl::{CtlCode, IoctlRequest};
use smb_wire::ranges::{
    AllocatedRange, FileLevelTrim, FileRegion, FileRegions, RegionRequest, RegionUsage, SetSparse, ZeroData,
};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, Encode, NtStatus};
use vfs::claims::{IoKind, Span};
use vfs::qos::Demand;
use vfs::volume::change_notify::ChangeMask;
use vfs::{Access, Blocking, Change, ExtraAttrs, FsError, FsResult, OpenFile, Seek, Stability, Wait};

const RANGE_BYTES: usize = 16;

/// Only regular files have ranges.
fn data(open: &Open, right: AccessMask, access: Access) -> Result<&OpenFile<'static>, NtStatus> {
    if open.opened().is_none() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    open.check(right)?;
    open.data(access)
}

/// Converts signed offset and length to start and end.
fn range(offset: i64, length: i64) -> Result<(u64, u64), NtStatus> {
    let end = offset.checked_add(length).filter(|_| length >= 0).ok_or(NtStatus::INVALID_PARAMETER)?;
    let number = |value: i64| u64::try_from(value).map_err(|_| NtStatus::INVALID_PARAMETER);
    Ok((number(offset)?, number(end)?))
}

/// File sizes fit in signed numbers.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Whether zeroed storage may be freed: the sparse attribute.
fn is_sparse(open: &Open) -> FsResult<bool> {
    let attrs = open.file.attrs(Blocking::Allowed)?;
    let extra = open.file.extra_attrs(&attrs, Blocking::Allowed)?;
    Ok(stored_flags(open.file_type, open.base_type, &extra).contains(FileAttributes::SPARSE_FILE))
}

/// FSCTL_SET_SPARSE. Clearing it does not allocate storage; later writes do.
pub(super) fn set_sparse(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    input: &[u8],
) -> Result<FsctlReply, CommandError> {
    if open.opened().is_none() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    open.check(AccessMask::WRITE_DATA | AccessMask::APPEND_DATA | AccessMask::WRITE_ATTRIBUTES)?;
    let SetSparse(is_sparse_wanted) = SetSparse::decode(&mut smb_wire::Reader::new(input))?;
    if is_sparse(open)? != is_sparse_wanted {
        let set = |extra: &mut ExtraAttrs| {
            let others =
                stored_flags(open.file_type, open.base_type, extra).without(FileAttributes::SPARSE_FILE);
            let sparse = if is_sparse_wanted { FileAttributes::SPARSE_FILE } else { FileAttributes::empty() };
            extra.flags = Some((others | sparse).0);
        };
        match open.file.update_extra_attrs(&open.disk.caller, set, cx.message.pending) {
            Err(FsError::NotSupported) => return Err(NtStatus::INVALID_DEVICE_REQUEST.into()),
            extra => _ = extra?,
        }
        open.notify_modified(ChangeMask::ATTRIBUTES);
    }
    Ok(FsctlReply::NOTHING)
}

/// Reports a change of a range, or waits for conflicting holders.
fn report_change(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    offset: u64,
    length: u64,
    change: FsResult<Change>,
) -> Result<(), CommandError> {
    if let Err(FsError::Wait(Wait::Recall)) = change {
        return Err(cx.wait_for_io(open, IoKind::Write, Span::clamped(offset, length)));
    }
    let change = change?;
    open.restore_modified(&change, cx.message.pending)?;
    open.notify_written(&change);
    Ok(())
}

/// FSCTL_SET_ZERO_DATA: zeroes the range up to the end of the file.
pub(super) fn zero(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    input: &[u8],
) -> Result<FsctlReply, CommandError> {
    let opened = data(open, AccessMask::WRITE_DATA, Access::WRITE)?;
    let ZeroData { file_offset, beyond_final_zero } = ZeroData::from_bytes(input)?;
    let length = beyond_final_zero.checked_sub(file_offset).ok_or(NtStatus::INVALID_PARAMETER)?;
    let (start, end) = range(file_offset, length)?;
    if start < end {
        let stability = if open.writes_through() { Stability::Data } else { Stability::Unstable };
        let length = end - start;
        let change = match is_sparse(open)? {
            true => opened.deallocate(start, length, stability, cx.message.pending),
            false => opened.zero(start, length, stability, cx.message.pending),
        };
        report_change(cx, open, start, length, change)?;
    }
    Ok(FsctlReply::NOTHING)
}

/// FSCTL_QUERY_ALLOCATED_RANGES: lists the ranges that may be nonzero. A file without the sparse attribute is wholly
/// allocated.
pub(super) fn allocated(open: &Open, args: &IoctlRequest<'_>) -> Result<FsctlReply, CommandError> {
    let opened = data(open, AccessMask::READ_DATA, Access::READ)?;
    let mut input = smb_wire::Reader::new(args.input);
    let AllocatedRange { file_offset, length } = AllocatedRange::decode(&mut input)?;
    let (mut at, end) = range(file_offset, length)?;
    let end = end.min(opened.size(Blocking::Allowed)?);
    let (mut output, ranges_max) = (Vec::new(), output_room(args) / RANGE_BYTES);
    let is_sparse = is_sparse(open)?;
    while at < end {
        let start = if is_sparse { seek(opened, at, Seek::Data)? } else { Some(at) };
        let Some(start) = start.filter(|start| *start < end) else { break };
        if output.len() == ranges_max * RANGE_BYTES {
            // A short buffer gets the ranges that fit, if any.
            let cut = FsctlReply { status: NtStatus::BUFFER_OVERFLOW, output };
            return if ranges_max == 0 { Err(NtStatus::BUFFER_TOO_SMALL.into()) } else { Ok(cut) };
        }
        let hole = if is_sparse { seek(opened, start, Seek::Hole)? } else { None };
        at = hole.unwrap_or(end).min(end);
        let found = AllocatedRange { file_offset: signed(start), length: signed(at - start) };
        output.extend(found.to_bytes());
    }
    Ok(FsctlReply { status: NtStatus::SUCCESS, output })
}

/// Returns `None` past the end of a file. Storage without holes has no hole.
fn seek(opened: &OpenFile<'_>, offset: u64, what: Seek) -> Result<Option<u64>, CommandError> {
    match (opened.seek(offset, what), what) {
        (Ok(found), _) => Ok(found),
        (Err(FsError::NoDevice), _) | (Err(FsError::NotSupported), Seek::Hole) => Ok(None),
        (Err(FsError::NotSupported), Seek::Data) => Ok(Some(offset)),
        (Err(error), _) => Err(error.into()),
    }
}

/// FSCTL_QUERY_FILE_REGIONS: all data up to the end are valid.
pub(super) fn regions(open: &Open, args: &IoctlRequest<'_>) -> Result<FsctlReply, CommandError> {
    let opened = data(open, AccessMask::READ_DATA, Access::READ)?;
    let size = opened.size(Blocking::Allowed)?;
    let (start, end) = match args.input {
        [] => (0, size),
        input => {
            let RegionRequest { file_offset, length, desired_usage } = RegionRequest::from_bytes(input)?;
            if !desired_usage.contains(RegionUsage::VALID_CACHED_DATA) {
                return Err(NtStatus::INVALID_PARAMETER.into());
            }
            let (start, end) = range(file_offset, length)?;
            (start.min(size), end.min(size))
        }
    };
    let region = FileRegion {
        file_offset: signed(start),
        length: signed(end - start),
        usage: RegionUsage::VALID_CACHED_DATA,
    };
    let regions = if start < end { vec![region] } else { Vec::new() };
    FsctlReply::encode_whole(args, &FileRegions { regions }, NtStatus::BUFFER_TOO_SMALL)
}

/// FSCTL_FILE_LEVEL_TRIM: makes ranges read as zeros and frees their storage.
pub(super) fn trim(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    args: &IoctlRequest<'_>,
) -> Result<FsctlReply, CommandError> {
    let opened = data(open, AccessMask::WRITE_DATA, Access::WRITE)?;
    let trim = FileLevelTrim::from_bytes(args.input)?;
    if output_room(args) > 0 && output_room(args) < size_of::<u32>() {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    let mut processed: u32 = 0;
    for range in trim.ranges.iter().take(TRIM_RANGES_MAX) {
        if range.offset.checked_add(range.length).is_none() {
            return Err(NtStatus::INVALID_PARAMETER.into());
        }
        if range.length > 0 {
            let unstable = Stability::Unstable;
            let change = opened.deallocate(range.offset, range.length, unstable, cx.message.pending);
            if processed > 0 && matches!(change, Err(FsError::Wait(_))) {
                // A retry would trim the ranges before this one again, with the data that others wrote there meanwhile.
                break;
            }
            report_change(cx, open, range.offset, range.length, change)?;
        }
        processed += 1;
    }
    let output = if output_room(args) == 0 { Vec::new() } else { processed.to_bytes() };
    Ok(FsctlReply { status: NtStatus::SUCCESS, output })
}

/// The demand of a TRIM for the limits of volumes; `None` if the request trims nothing. No bytes are moved, and each
/// range is an operation.
pub(super) fn trim_demand(args: &IoctlRequest<'_>) -> Option<Demand> {
    if args.ctl_code != CtlCode::FILE_LEVEL_TRIM {
        return None;
    }
    let ranges = FileLevelTrim::from_bytes(args.input).ok()?.ranges.len();
    let operations = u32::try_from(ranges.min(TRIM_RANGES_MAX)).ok().filter(|count| *count > 0)?;
    Some(Demand { writes: operations, ..Demand::NOTHING })
}
