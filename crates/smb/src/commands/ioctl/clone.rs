//! Clones: DUPLICATE_EXTENTS_TO_FILE (MS-FSCC §2.3, MS-FSA §2.1.5.10). What storage cannot share is refused, never copied.

use super::answer::Answer;
use super::copy::{source, wait_for_sides};
use crate::request::context::{Ops, Stop};
use crate::state::open::Open;
use smb_wire::copy::{DuplicateExtents, DuplicateExtentsEx};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, NtStatus};
use std::sync::Arc;
use vfs::file::CopyAdmission;
use vfs::{Access, Blocking, FsError, Span, Stability, Wait};

/// FSCTL_DUPLICATE_EXTENTS_TO_FILE_EX. All or nothing, as is asked for by its only flag, is what every clone is.
pub(super) fn duplicate_ex(ops: &mut Ops<'_>, target: &Arc<Open>, input: &[u8]) -> Result<Answer, Stop> {
    clone(ops, target, &DuplicateExtentsEx::from_bytes(input)?.extents)
}

/// FSCTL_DUPLICATE_EXTENTS_TO_FILE.
pub(super) fn duplicate(ops: &mut Ops<'_>, target: &Arc<Open>, input: &[u8]) -> Result<Answer, Stop> {
    clone(ops, target, &DuplicateExtents::from_bytes(input)?)
}

fn clone(ops: &mut Ops<'_>, target: &Arc<Open>, asked: &DuplicateExtents) -> Result<Answer, Stop> {
    let volume = target.file.volume();
    let block = volume.capabilities().ranges.and_then(|ranges| ranges.clone_bytes);
    let block = block.ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
    let source = source(ops, asked.source_file_id)?.ok_or(NtStatus::INVALID_HANDLE)?;
    let (from, to) = (source.data(Access::READ)?, target.data(Access::WRITE)?);
    target.check(AccessMask::WRITE_DATA)?;
    let span = span(asked)?;
    if [span.source, span.target].iter().any(|at| !at.is_multiple_of(block)) {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let sides = CopyAdmission::new(from, to, ops.payer);
    if sides.is_between_volumes() && sides.is_limited() {
        // What is shared is not read and not written, so that nothing could be paid for it.
        return Err(NtStatus::NOT_SAME_DEVICE.into());
    }
    if span.len == 0 {
        return Ok(Answer::NOTHING);
    }
    let stream_of = |open: &Open| (open.file.key(), open.file.stream());
    let is_one = !sides.is_between_volumes() && stream_of(&source) == stream_of(target);
    let (source_size, target_size) = (from.size(Blocking::Allowed)?, to.size(Blocking::Allowed)?);
    let is_inside = span.source + span.len <= source_size && span.target + span.len <= target_size;
    if !is_inside || is_one && span.overlaps() {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    let stability = if target.writes_through() { Stability::Data } else { Stability::Unstable };
    match from.clone_to(to, &span, stability, ops.pending) {
        Ok(change) => {
            target.keep_written(&change, ops.pending)?;
            target.tell_written(&change);
            Ok(Answer::NOTHING)
        }
        Err(FsError::Wait(Wait::Recall)) => Err(wait_for_sides(ops, &source, target, &span)),
        Err(FsError::NotSupported) => Err(NtStatus::INVALID_DEVICE_REQUEST.into()),
        Err(error) => Err(error.into()),
    }
}

/// The range, of numbers that are signed on the wire; its ends are far from overflowing.
fn span(asked: &DuplicateExtents) -> Result<Span, NtStatus> {
    let number = |value: i64| u64::try_from(value).map_err(|_| NtStatus::INVALID_PARAMETER);
    Ok(Span {
        source: number(asked.source_file_offset)?,
        target: number(asked.target_file_offset)?,
        len: number(asked.byte_count)?,
    })
}
