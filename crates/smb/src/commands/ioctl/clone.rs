//! Clones: DUPLICATE_EXTENTS_TO_FILE (MS-FSCC §2.3, MS-FSA §2.1.5.10). If the storage cannot share extents, the request
//! fails; it never copies.

use super::answer::FsctlReply;
use super::copy::{source, wait_for_copy};
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use smb_wire::copy::{DuplicateExtents, DuplicateExtentsEx};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, NtStatus};
use std::sync::Arc;
use vfs::file::CopyAdmission;
use vfs::{Access, Blocking, FsError, Span, Stability, Wait};

/// FSCTL_DUPLICATE_EXTENTS_TO_FILE_EX. Its only flag asks for atomicity, which every clone has.
pub(super) fn duplicate_ex(
    cx: &mut RequestContext<'_, '_>,
    target: &Arc<Open>,
    input: &[u8],
) -> Result<FsctlReply, CommandError> {
    clone(cx, target, &DuplicateExtentsEx::from_bytes(input)?.extents)
}

pub(super) fn duplicate(
    cx: &mut RequestContext<'_, '_>,
    target: &Arc<Open>,
    input: &[u8],
) -> Result<FsctlReply, CommandError> {
    clone(cx, target, &DuplicateExtents::from_bytes(input)?)
}

fn clone(
    cx: &mut RequestContext<'_, '_>,
    target: &Arc<Open>,
    request: &DuplicateExtents,
) -> Result<FsctlReply, CommandError> {
    let volume = target.file.volume();
    let block = volume.capabilities().ranges.and_then(|ranges| ranges.clone_bytes);
    let block = block.ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
    let source = source(cx, request.source_file_id)?.ok_or(NtStatus::INVALID_HANDLE)?;
    let (from, to) = (source.data(Access::READ)?, target.data(Access::WRITE)?);
    target.check(AccessMask::WRITE_DATA)?;
    let span = span(request)?;
    if [span.source, span.target].iter().any(|at| !at.is_multiple_of(block)) {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let sides = CopyAdmission::new(from, to, cx.message.client_address);
    if sides.is_between_volumes() && sides.is_limited() {
        // A clone moves no bytes, so it could not be charged to the limit of either volume.
        return Err(NtStatus::NOT_SAME_DEVICE.into());
    }
    if span.len == 0 {
        return Ok(FsctlReply::NOTHING);
    }
    let stream_of = |open: &Open| (open.file.key(), open.file.stream());
    let is_one = !sides.is_between_volumes() && stream_of(&source) == stream_of(target);
    let (source_size, target_size) = (from.size(Blocking::Allowed)?, to.size(Blocking::Allowed)?);
    let is_inside = span.source + span.len <= source_size && span.target + span.len <= target_size;
    if !is_inside || is_one && span.overlaps() {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    let stability = if target.writes_through() { Stability::Data } else { Stability::Unstable };
    match from.clone_to(to, &span, stability, cx.message.pending) {
        Ok(change) => {
            target.restore_modified(&change, cx.message.pending)?;
            target.notify_written(&change);
            Ok(FsctlReply::NOTHING)
        }
        Err(FsError::Wait(Wait::Recall)) => Err(wait_for_copy(cx, &source, target, &span)),
        Err(FsError::NotSupported) => Err(NtStatus::INVALID_DEVICE_REQUEST.into()),
        Err(error) => Err(error.into()),
    }
}

/// Converts signed offsets. The ends of the range cannot overflow.
fn span(request: &DuplicateExtents) -> Result<Span, NtStatus> {
    let number = |value: i64| u64::try_from(value).map_err(|_| NtStatus::INVALID_PARAMETER);
    Ok(Span {
        source: number(request.source_file_offset)?,
        target: number(request.target_file_offset)?,
        len: number(request.byte_count)?,
    })
}
