//! Copies by the server: SRV_REQUEST_RESUME_KEY and SRV_COPYCHUNK (MS-SMB2 §3.3.5.15.5, §3.3.5.15.6).

use super::answer::{Answer, room};
use crate::limits::{COPY_BYTES_MAX, COPY_CHUNK_BYTES_MAX, COPY_CHUNKS_MAX, COPY_PAID_BYTES_MAX};
use crate::request::context::{Ops, Stop};
use crate::request::copying::Copying;
use crate::request::export_access::origin;
use crate::state::open::Open;
use crate::status::of_fs_error;
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

/// What a request is told that asks for more than there is in one (MS-SMB2 §3.3.5.15.6.2).
const LIMITS: CopyChunkResponse = CopyChunkResponse {
    chunks_written: COPY_CHUNKS_MAX,
    chunk_bytes_written: COPY_CHUNK_BYTES_MAX,
    total_bytes_written: COPY_BYTES_MAX,
};
/// Bytes of a [`CopyChunkResponse`].
const RESPONSE_BYTES: usize = 12;

/// The key that stands for an open: its number. It is looked for among the opens of the session that gives it, so it is worth
/// nothing to anybody else, and nothing once the file is closed.
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

/// Another file that the session has open, in a share that is still served, by a message that has the protection that share asks for.
pub(super) fn source(ops: &Ops<'_>, id: FileId) -> Result<Option<Arc<Open>>, Stop> {
    let open = ops.session()?.open(id);
    let Some(open) = open.filter(|open| open.disk.is_served(ops.namespace, origin(ops))) else {
        return Ok(None);
    };
    ops.check_sealed(&open.disk)?;
    Ok(Some(open))
}

/// MS-SMB2 §3.3.5.15.5.
pub(super) fn resume_key(_: &Ops<'_>, open: &Open, args: &IoctlRequest<'_>) -> Result<Answer, Stop> {
    let response = ResumeKeyResponse { resume_key: key_of(open.id) };
    Answer::whole(args, &response, NtStatus::INVALID_PARAMETER)
}

/// MS-SMB2 §3.3.5.15.6, to a file from one whose key is given.
pub(super) fn copy_chunks(
    ops: &mut Ops<'_>,
    target: &Arc<Open>,
    args: &IoctlRequest<'_>,
) -> Result<Answer, Stop> {
    let asked = CopyChunkCopy::from_bytes(args.input)?;
    if room(args) < RESPONSE_BYTES {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let id = id_of(asked.source_key).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let source = source(ops, id)?.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    if !are_within_limits(&asked.chunks) {
        return Ok(answer(NtStatus::INVALID_PARAMETER, &LIMITS));
    }
    let from = source.data(Access::READ)?;
    let to = target.data(Access::WRITE)?;
    target.check(AccessMask::WRITE_DATA)?;
    if args.ctl_code == CtlCode::SRV_COPYCHUNK {
        target.check(AccessMask::READ_DATA)?;
    }
    let sides = CopyAdmission::new(from, to, ops.payer);
    let mut copying = ops.copying.take().unwrap_or_else(|| Box::new(Copying::new(sides.is_limited())));
    let copied = copy_parts(ops, &mut copying, (&source, target), (&sides, &asked.chunks));
    let done = copying.done;
    match copied {
        // It goes on where it is.
        Err(Stop::Later | Stop::WouldBlock) => {
            ops.copying = Some(copying);
            return copied.map(|()| Answer::NOTHING);
        }
        // Nothing is done yet: the first chunk waits, and all are copied then.
        Err(Stop::Delayed) if done == CopyChunkResponse::default() => {
            let first = asked.chunks.first().map(span_of).ok_or(Stop::Delayed)?;
            return Err(wait_for_sides(ops, &source, target, &first));
        }
        _ => {}
    }
    if let Some(change) = copying.change {
        to.schedule_sync(
            if target.writes_through() { Stability::Data } else { Stability::Unstable },
            ops.pending,
        );
        target.tell_written(&change);
        target.keep_written(&change, ops.pending)?;
    }
    match copied {
        Ok(()) => Ok(answer(NtStatus::SUCCESS, &done)),
        Err(Stop::Delayed) => Ok(answer(of_fs_error(FsError::Wait(Wait::Recall)), &done)),
        Err(Stop::Status(status)) => Ok(answer(status, &done)),
        Err(stop) => Err(stop),
    }
}

impl Copying {
    /// Pays for a part at both volumes, each of which may have the request wait for its turn.
    fn pay(
        &mut self,
        ops: &mut Ops<'_>,
        open: &Open,
        sides: &CopyAdmission<'_>,
        part: &[CopyChunk],
    ) -> Result<(), Stop> {
        if !self.is_paid_at_target {
            self.target = sides
                .target_admission(total(part), count(part))
                .map(|toll| ops.pay(open, toll))
                .transpose()?;
            self.is_paid_at_target = true;
        }
        if self.source.is_none() {
            self.source = sides
                .source_admission(total(part), count(part))
                .map(|toll| ops.pay(open, toll))
                .transpose()?;
        }
        Ok(())
    }

    /// Settles the payments for a part, of which so many bytes were copied.
    fn settle(&mut self, ops: &mut Ops<'_>, sides: &CopyAdmission<'_>, bytes: u64) {
        if let Some(mut charge) = self.source.take() {
            charge.record(sides.at_source(bytes));
        }
        self.is_paid_at_target = false;
        let moved = sides.at_target(bytes);
        match self.target.take() {
            Some(mut charge) => charge.record(moved),
            None => ops.stats.count_listed(moved),
        }
    }
}

/// Copies the chunks that are not copied yet, part by part. Nothing is flushed before the end: the reply waits for that, and a part in the
/// middle may wait for a limit.
fn copy_parts(
    ops: &mut Ops<'_>,
    copying: &mut Copying,
    (source, target): (&Arc<Open>, &Arc<Open>),
    (sides, chunks): (&CopyAdmission<'_>, &[CopyChunk]),
) -> Result<(), Stop> {
    let (from, to) = (source.data(Access::READ)?, target.data(Access::WRITE)?);
    ops.count(Kind::Write, Transferred::default());
    loop {
        let copied = usize::try_from(copying.done.chunks_written).unwrap_or(usize::MAX);
        let rest = chunks.get(copied..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        let part = if sides.is_limited() { first_part(rest) } else { rest };
        copying.pay(ops, target, sides, part)?;
        let (began, before) = (Instant::now(), copying.done.total_bytes_written);
        let stability = Stability::Unstable;
        let (done, change) = (copying.done, copying.change);
        let mut copier = Copier { from, to, stability, pending: ops.pending, done, change };
        let result = copier.all(part);
        (copying.done, copying.change) = (copier.done, copier.change);
        let bytes = u64::from(copying.done.total_bytes_written - before);
        sides.count_read(bytes, began.elapsed());
        // The request itself is an operation.
        sides.count_written(0, bytes, began.elapsed());
        copying.settle(ops, sides, bytes);
        result?;
    }
}

/// The first chunks, which are paid for and copied together.
fn first_part(chunks: &[CopyChunk]) -> &[CopyChunk] {
    let mut bytes = 0u64;
    let fits = |chunk: &&CopyChunk| {
        bytes += u64::from(chunk.length);
        bytes <= u64::from(COPY_PAID_BYTES_MAX)
    };
    let fitting = chunks.iter().take_while(fits).count();
    &chunks[..fitting.max(1).min(chunks.len())]
}

fn answer(status: NtStatus, response: &CopyChunkResponse) -> Answer {
    Answer { status, output: response.to_bytes() }
}

/// Without chunks, macOS asks for the whole file where it was told that it may; it is not.
fn are_within_limits(chunks: &[CopyChunk]) -> bool {
    (1..=COPY_CHUNKS_MAX).contains(&count(chunks))
        && chunks.iter().all(|chunk| (1..=COPY_CHUNK_BYTES_MAX).contains(&chunk.length))
        && total(chunks) <= u64::from(COPY_BYTES_MAX)
}

fn span_of(chunk: &CopyChunk) -> Span {
    Span { source: chunk.source_offset, target: chunk.target_offset, len: u64::from(chunk.length) }
}

/// Has the request wait until others have given up what stands in the way of a copy: at the source, or else at the target.
pub(super) fn wait_for_sides(ops: &mut Ops<'_>, source: &Open, target: &Open, span: &Span) -> Stop {
    let is_readable =
        |from: &OpenFile<'_>| from.check_read(span.source, span.len) != Err(FsError::Wait(Wait::Recall));
    match source.opened().is_none_or(is_readable) {
        true => ops.wait_for_io(target, IoKind::Write, claims::Span::clamped(span.target, span.len)),
        false => ops.wait_for_io(source, IoKind::Read, claims::Span::clamped(span.source, span.len)),
    }
}

/// Each is an operation.
fn count(chunks: &[CopyChunk]) -> u32 {
    u32::try_from(chunks.len()).unwrap_or(u32::MAX)
}

fn total(chunks: &[CopyChunk]) -> u64 {
    chunks.iter().map(|chunk| u64::from(chunk.length)).sum()
}

/// The demand of the first part of a copy; `None` if the request is refused, or is none of copies. Within a volume bytes are read and
/// written.
pub(crate) fn copied(args: &IoctlRequest<'_>) -> Option<Demand> {
    if !matches!(args.ctl_code, CtlCode::SRV_COPYCHUNK | CtlCode::SRV_COPYCHUNK_WRITE) {
        return None;
    }
    let asked =
        CopyChunkCopy::from_bytes(args.input).ok().filter(|asked| are_within_limits(&asked.chunks))?;
    let part = first_part(&asked.chunks);
    let (bytes, chunks) = (u32::try_from(total(part)).unwrap_or(u32::MAX), count(part));
    Some(Demand { read_bytes: bytes, write_bytes: bytes, reads: chunks, writes: chunks, others: 0 })
}

/// A copy on its way.
struct Copier<'c> {
    from: &'c OpenFile<'static>,
    to: &'c OpenFile<'static>,
    stability: Stability,
    pending: &'c mut PendingSync,
    done: CopyChunkResponse,
    /// What it did to the target so far.
    change: Option<Change>,
}

impl Copier<'_> {
    /// One chunk after the other; what was copied before one that fails stays.
    fn all(&mut self, chunks: &[CopyChunk]) -> Result<(), Stop> {
        for chunk in chunks {
            let size = self.from.size(Blocking::Allowed)?;
            let end = chunk.source_offset.checked_add(u64::from(chunk.length));
            if end.is_none_or(|end| end > size) {
                // It goes past the end of the source (MS-SMB2 §3.3.5.15.6).
                return Err(NtStatus::INVALID_VIEW_SIZE.into());
            }
            self.one(chunk)?;
            self.done.chunks_written += 1;
            self.done.chunk_bytes_written = 0;
        }
        Ok(())
    }

    fn one(&mut self, chunk: &CopyChunk) -> Result<(), Stop> {
        let (mut at, mut left) = (0, u64::from(chunk.length));
        while left > 0 {
            let target = chunk.target_offset.checked_add(at).ok_or(FsError::FileTooBig)?;
            let span = Span { source: chunk.source_offset + at, target, len: left };
            let (copied, change) = self.part(&span)?;
            if copied == 0 {
                // The source was cut off meanwhile.
                return Err(NtStatus::INVALID_VIEW_SIZE.into());
            }
            let before = self.change.map_or(change.before, |all| all.before);
            self.change = Some(Change { before, ..change });
            (at, left) = (at + copied, left - copied);
            let bytes = u32::try_from(copied).unwrap_or(u32::MAX);
            self.done.chunk_bytes_written += bytes;
            self.done.total_bytes_written += bytes;
        }
        Ok(())
    }

    /// A range, perhaps only its beginning, by the storage where it can, and else by reading and writing.
    fn part(&mut self, span: &Span) -> FsResult<(u64, Change)> {
        match self.from.copy_to(self.to, span, self.stability, self.pending) {
            Err(FsError::CrossVolume | FsError::Invalid | FsError::NotSupported) => self.by_memory(span),
            copied => copied,
        }
    }

    /// A chunk at most, so that what overlaps itself is read before it is written.
    fn by_memory(&mut self, span: &Span) -> FsResult<(u64, Change)> {
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
    fn a_key_is_an_opens_or_nothing() {
        let id = FileId { persistent: 7, volatile: u64::MAX - 1 };
        assert_eq!(id_of(key_of(id)), Some(id));
        let mut key = key_of(id);
        key.0[23] = 1;
        assert_eq!(id_of(key), None);
    }

    #[test]
    fn what_is_refused_pays_nothing() {
        let asked = |length| {
            let chunk = CopyChunk { source_offset: 0, target_offset: 0, length };
            CopyChunkCopy { source_key: key_of(FileId::PREVIOUS), chunks: vec![chunk; 3] }.to_bytes()
        };
        let demand = |ctl_code, input: &[u8]| {
            copied(&IoctlRequest {
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
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK, &asked(1000)), three);
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK_WRITE, &asked(1000)), three);
        let one = Demand::read(700 << 10).and(Demand::write(700 << 10));
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK, &asked(700 << 10)), Some(one), "the first part");
        assert_eq!(demand(CtlCode::SET_ZERO_DATA, &asked(1000)), None);
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK, &asked(u32::MAX)), None);
        assert_eq!(demand(CtlCode::SRV_COPYCHUNK, &asked(1000)[..50]), None);
    }

    #[test]
    fn what_a_request_may_ask_is_bounded() {
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
