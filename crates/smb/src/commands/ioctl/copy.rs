//! Server-side copies: SRV_REQUEST_RESUME_KEY and SRV_COPYCHUNK (MS-SMB2 §3.3.5.15.5, §3.3.5.15.6).

use super::answer::{FsctlReply, output_room};
use crate::limits::{COPY_BYTES_MAX, COPY_CHUNK_BYTES_MAX, COPY_CHUNKS_MAX, COPY_PAID_BYTES_MAX};
use crate::request::context::RequestContext;
use crate::request::copying::CopyProgress;
use crate::request::export_access::request_origin;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use crate::status::from_fs_error;
use smb_wire::copy::{CopyChunk, CopyChunkCopy, CopyChunkResponse, ResumeKey, ResumeKeyResponse};
use smb_wire::ioctl::{CtlCode, IoctlRequest};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, FileId, NtStatus};
use std::sync::Arc;
use std::time::Instant;
use vfs::claims::{self, IoKind};
use vfs::file::CopyAdmission;
use vfs::qos::{Demand, Kind, Transferred};
use vfs::{Access, Blocking, Change, FsError, FsResult, OpenFile, PendingSync, Span, Stability, Wait};

/// The response to a request beyond the limits (MS-SMB2 §3.3.5.15.6.2).
const LIMITS: CopyChunkResponse = CopyChunkResponse {
    chunks_written: COPY_CHUNKS_MAX,
    chunk_bytes_written: COPY_CHUNK_BYTES_MAX,
    total_bytes_written: COPY_BYTES_MAX,
};
const RESPONSE_BYTES: usize = 12;

/// The resume key of an open is its id. It is valid only in the session that requested it, while the file is open.
fn key_of(id: FileId) -> ResumeKey {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&id.persistent.to_le_bytes());
    key[8..16].copy_from_slice(&id.volatile.to_le_bytes());
    ResumeKey(key)
}

fn id_of(key: ResumeKey) -> Option<FileId> {
    let (persistent, rest) = key.0.split_first_chunk()?;
    let (volatile, _) = rest.split_first_chunk()?;
    let id = FileId { persistent: u64::from_le_bytes(*persistent), volatile: u64::from_le_bytes(*volatile) };
    (key_of(id) == key).then_some(id)
}

/// Finds the source file: an open of the same session, in a share that is still served. The message must have the
/// protection that the share requires.
pub(super) fn source(cx: &RequestContext<'_, '_>, id: FileId) -> Result<Option<Arc<Open>>, CommandError> {
    let open = cx.session()?.open(id);
    let Some(open) = open.filter(|open| open.disk.is_current(cx.message.namespace, request_origin(cx)))
    else {
        return Ok(None);
    };
    cx.check_sealed(&open.disk)?;
    Ok(Some(open))
}

pub(super) fn resume_key(
    _: &RequestContext<'_, '_>,
    open: &Open,
    args: &IoctlRequest<'_>,
) -> Result<FsctlReply, CommandError> {
    let response = ResumeKeyResponse { resume_key: key_of(open.id) };
    FsctlReply::encode_whole(args, &response, NtStatus::INVALID_PARAMETER)
}

/// Copies to a file from the one that the key names (MS-SMB2 §3.3.5.15.6).
pub(super) fn copy_chunks(
    cx: &mut RequestContext<'_, '_>,
    target: &Arc<Open>,
    args: &IoctlRequest<'_>,
) -> Result<FsctlReply, CommandError> {
    let request = CopyChunkCopy::from_bytes(args.input)?;
    if output_room(args) < RESPONSE_BYTES {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let id = id_of(request.source_key).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let source = source(cx, id)?.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    if !are_within_limits(&request.chunks) {
        return Ok(copy_reply(NtStatus::INVALID_PARAMETER, &LIMITS));
    }
    let from = source.data(Access::READ)?;
    let to = target.data(Access::WRITE)?;
    target.check(AccessMask::WRITE_DATA)?;
    // SRV_COPYCHUNK_WRITE differs only in that the target needs no read access.
    if args.ctl_code == CtlCode::SRV_COPYCHUNK {
        target.check(AccessMask::READ_DATA)?;
    }
    let admission = CopyAdmission::new(from, to, cx.message.client_address);
    let mut progress =
        cx.wait.copy_progress.take().unwrap_or_else(|| Box::new(CopyProgress::new(admission.is_limited())));
    let copied = copy_parts(cx, &mut progress, &source, target, &admission, &request.chunks);
    let done = progress.done;
    match copied {
        // The copy resumes where it stopped.
        Err(CommandError::Wait(Wait::Event) | CommandError::Wait(Wait::Storage)) => {
            cx.wait.copy_progress = Some(progress);
            return copied.map(|()| FsctlReply::NOTHING);
        }
        // Nothing is copied yet: the whole request waits.
        Err(CommandError::Wait(Wait::Recall)) if done == CopyChunkResponse::default() => {
            let first = request.chunks.first().map(span_of).ok_or(CommandError::Wait(Wait::Recall))?;
            return Err(wait_for_copy(cx, &source, target, &first));
        }
        _ => {}
    }
    if let Some(change) = progress.change {
        to.schedule_sync(
            if target.writes_through() { Stability::Data } else { Stability::Unstable },
            cx.message.pending,
        );
        target.notify_written(&change);
        target.restore_modified(&change, cx.message.pending)?;
    }
    match copied {
        Ok(()) => Ok(copy_reply(NtStatus::SUCCESS, &done)),
        Err(CommandError::Wait(Wait::Recall)) => {
            Ok(copy_reply(from_fs_error(FsError::Wait(Wait::Recall)), &done))
        }
        Err(CommandError::Status(status)) => Ok(copy_reply(status, &done)),
        Err(stop) => Err(stop),
    }
}

impl CopyProgress {
    /// Acquires permits for a part at both volumes; either may make the request wait.
    fn acquire_permits(
        &mut self,
        cx: &mut RequestContext<'_, '_>,
        open: &Open,
        admission: &CopyAdmission<'_>,
        copy_range: &[CopyChunk],
    ) -> Result<(), CommandError> {
        if !self.is_paid_at_target {
            self.target = admission
                .target_admission(total(copy_range), count(copy_range))
                .map(|admission| cx.acquire_permit(open, admission))
                .transpose()?;
            self.is_paid_at_target = true;
        }
        if self.source.is_none() {
            self.source = admission
                .source_admission(total(copy_range), count(copy_range))
                .map(|admission| cx.acquire_permit(open, admission))
                .transpose()?;
        }
        Ok(())
    }

    fn record_permits(&mut self, cx: &mut RequestContext<'_, '_>, admission: &CopyAdmission<'_>, bytes: u64) {
        if let Some(mut charge) = self.source.take() {
            charge.record(admission.at_source(bytes));
        }
        self.is_paid_at_target = false;
        let moved = admission.at_target(bytes);
        match self.target.take() {
            Some(mut charge) => charge.record(moved),
            None => cx.message.stats.count_metadata(moved),
        }
    }
}

/// Copies the remaining chunks, part by part. Flushes only at the end: the reply waits for the flush, and each part may
/// wait for a limit.
fn copy_parts(
    cx: &mut RequestContext<'_, '_>,
    progress: &mut CopyProgress,
    source: &Arc<Open>,
    target: &Arc<Open>,
    admission: &CopyAdmission<'_>,
    chunks: &[CopyChunk],
) -> Result<(), CommandError> {
    let (from, to) = (source.data(Access::READ)?, target.data(Access::WRITE)?);
    cx.count_transfer(Kind::Write, Transferred::default());
    loop {
        let copied = usize::try_from(progress.done.chunks_written).unwrap_or(usize::MAX);
        let rest = chunks.get(copied..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        let part = if admission.is_limited() { first_part(rest) } else { rest };
        progress.acquire_permits(cx, target, admission, part)?;
        let (began, before) = (Instant::now(), progress.done.total_bytes_written);
        let stability = Stability::Unstable;
        let (done, change) = (progress.done, progress.change);
        let mut copier = Copier { from, to, stability, pending: cx.message.pending, done, change };
        let result = copier.copy_all(part);
        (progress.done, progress.change) = (copier.done, copier.change);
        let bytes = u64::from(progress.done.total_bytes_written - before);
        admission.count_read(bytes, began.elapsed());
        // The request itself counts as an operation.
        admission.count_written(0, bytes, began.elapsed());
        progress.record_permits(cx, admission, bytes);
        result?;
    }
}

/// The first chunks, which are charged and copied together.
fn first_part(chunks: &[CopyChunk]) -> &[CopyChunk] {
    let mut bytes = 0u64;
    let fits = |chunk: &&CopyChunk| {
        bytes += u64::from(chunk.length);
        bytes <= u64::from(COPY_PAID_BYTES_MAX)
    };
    let fitting = chunks.iter().take_while(fits).count();
    &chunks[..fitting.max(1).min(chunks.len())]
}

fn copy_reply(status: NtStatus, response: &CopyChunkResponse) -> FsctlReply {
    FsctlReply { status, output: response.to_bytes() }
}

/// An empty list is the request of macOS to copy a whole file, which the server does not offer.
fn are_within_limits(chunks: &[CopyChunk]) -> bool {
    (1..=COPY_CHUNKS_MAX).contains(&count(chunks))
        && chunks.iter().all(|chunk| (1..=COPY_CHUNK_BYTES_MAX).contains(&chunk.length))
        && total(chunks) <= u64::from(COPY_BYTES_MAX)
}

fn span_of(chunk: &CopyChunk) -> Span {
    Span { source: chunk.source_offset, target: chunk.target_offset, len: u64::from(chunk.length) }
}

/// Waits until conflicting holders release the source, or else the target.
pub(super) fn wait_for_copy(
    cx: &mut RequestContext<'_, '_>,
    source: &Open,
    target: &Open,
    span: &Span,
) -> CommandError {
    let is_readable =
        |from: &OpenFile<'_>| from.check_read(span.source, span.len) != Err(FsError::Wait(Wait::Recall));
    match source.opened().is_none_or(is_readable) {
        true => cx.wait_for_io(target, IoKind::Write, claims::Span::clamped(span.target, span.len)),
        false => cx.wait_for_io(source, IoKind::Read, claims::Span::clamped(span.source, span.len)),
    }
}

/// Each chunk counts as an operation.
fn count(chunks: &[CopyChunk]) -> u32 {
    u32::try_from(chunks.len()).unwrap_or(u32::MAX)
}

fn total(chunks: &[CopyChunk]) -> u64 {
    chunks.iter().map(|chunk| u64::from(chunk.length)).sum()
}

/// The demand of the first part of a copy; `None` if the request is invalid or not a copy. Within a volume bytes are
/// both read and written.
pub(crate) fn copy_demand(args: &IoctlRequest<'_>) -> Option<Demand> {
    if !matches!(args.ctl_code, CtlCode::SRV_COPYCHUNK | CtlCode::SRV_COPYCHUNK_WRITE) {
        return None;
    }
    let request =
        CopyChunkCopy::from_bytes(args.input).ok().filter(|request| are_within_limits(&request.chunks))?;
    let part = first_part(&request.chunks);
    let (bytes, chunks) = (u32::try_from(total(part)).unwrap_or(u32::MAX), count(part));
    Some(Demand { read_bytes: bytes, write_bytes: bytes, reads: chunks, writes: chunks, others: 0 })
}

struct Copier<'c> {
    from: &'c OpenFile<'static>,
    to: &'c OpenFile<'static>,
    stability: Stability,
    pending: &'c mut PendingSync,
    done: CopyChunkResponse,
    change: Option<Change>,
}

impl Copier<'_> {
    /// Copies chunk by chunk; chunks before a failed one stay copied.
    fn copy_all(&mut self, chunks: &[CopyChunk]) -> Result<(), CommandError> {
        for chunk in chunks {
            let size = self.from.size(Blocking::Allowed)?;
            let end = chunk.source_offset.checked_add(u64::from(chunk.length));
            if end.is_none_or(|end| end > size) {
                // The chunk exceeds the source (MS-SMB2 §3.3.5.15.6).
                return Err(NtStatus::INVALID_VIEW_SIZE.into());
            }
            self.copy_chunk(chunk)?;
            self.done.chunks_written += 1;
            self.done.chunk_bytes_written = 0;
        }
        Ok(())
    }

    fn copy_chunk(&mut self, chunk: &CopyChunk) -> Result<(), CommandError> {
        let (mut at, mut remaining) = (0, u64::from(chunk.length));
        while remaining > 0 {
            let target = chunk.target_offset.checked_add(at).ok_or(FsError::FileTooBig)?;
            let span = Span { source: chunk.source_offset + at, target, len: remaining };
            let (copied, change) = self.part(&span)?;
            if copied == 0 {
                // The source was truncated meanwhile.
                return Err(NtStatus::INVALID_VIEW_SIZE.into());
            }
            let before = self.change.map_or(change.before, |all| all.before);
            self.change = Some(Change { before, ..change });
            (at, remaining) = (at + copied, remaining - copied);
            let bytes = u32::try_from(copied).unwrap_or(u32::MAX);
            self.done.chunk_bytes_written += bytes;
            self.done.total_bytes_written += bytes;
        }
        Ok(())
    }

    /// Copies a range, or its beginning: by the storage if possible, else by reading and writing.
    fn part(&mut self, span: &Span) -> FsResult<(u64, Change)> {
        match self.from.copy_to(self.to, span, self.stability, self.pending) {
            Err(FsError::CrossVolume | FsError::Invalid | FsError::NotSupported) => self.copy_by_memory(span),
            copied => copied,
        }
    }

    /// Copies at most a chunk through memory, so that overlapping ranges are read before written.
    fn copy_by_memory(&mut self, span: &Span) -> FsResult<(u64, Change)> {
        let len = usize::try_from(span.len).unwrap_or(usize::MAX);
        let mut data = Vec::new();
        let read = self.from.read(span.source, len, &mut data, Blocking::Allowed)?;
        let change = self.to.write(span.target, &data, self.stability, self.pending)?;
        Ok((read as u64, change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::ioctl::IoctlFlags;

    #[test]
    fn resume_key_with_changed_bytes_is_invalid() {
        let id = FileId { persistent: 7, volatile: u64::MAX - 1 };
        assert_eq!(id_of(key_of(id)), Some(id));
        let mut key = key_of(id);
        key.0[23] = 1;
        assert_eq!(id_of(key), None);
    }

    #[test]
    fn refused_copy_has_no_demand() {
        let request = |length| {
            let chunk = CopyChunk { source_offset: 0, target_offset: 0, length };
            CopyChunkCopy { source_key: key_of(FileId::PREVIOUS), chunks: vec![chunk; 3] }.to_bytes()
        };
        let demand = |ctl_code, input: &[u8]| {
            copy_demand(&IoctlRequest {
                ctl_code,
                file_id: FileId::PREVIOUS,
                input,
                max_input_response: 0,
                output: &[],
                max_output_response: 12,
                flags: IoctlFlags::IS_FSCTL,
            })
        };
        let three = Demand { read_bytes: 3000, write_bytes: 3000, reads: 3, writes: 3, others: 0 };
        let three = Some(three);
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK, &request(1000)), three);
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK_WRITE, &request(1000)), three);
        let one = Demand::read(700 << 10).and(Demand::write(700 << 10));
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK, &request(700 << 10)), Some(one), "the first part");
        assert_eq!(demand(CtlCode::SET_ZERO_DATA, &request(1000)), None);
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK, &request(u32::MAX)), None);
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK, &request(1000)[..50]), None);
    }

    #[test]
    fn copy_request_past_the_limits_is_refused() {
        let chunk = |length| CopyChunk { source_offset: 0, target_offset: 0, length };
        let (most, longest) = (usize::try_from(COPY_CHUNKS_MAX).unwrap(), COPY_CHUNK_BYTES_MAX);
        assert!(are_within_limits(&vec![chunk(1); most]) && !are_within_limits(&vec![chunk(1); most + 1]));
        assert!(are_within_limits(&[chunk(longest); 16]) && !are_within_limits(&[chunk(longest); 17]));
        for wrong in [0, longest + 1, u32::MAX] {
            assert!(!are_within_limits(&[chunk(1), chunk(wrong)]), "{wrong}");
        }
        assert!(!are_within_limits(&[]));
    }
}
