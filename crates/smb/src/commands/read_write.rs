//! READ, WRITE, FLUSH and CLOSE (MS-SMB2 §3.3.5.10 to §3.3.5.13).

use crate::limits::{IO_BYTES_MAX, SPLICE_BYTES_MIN};
use crate::pipes;
use crate::request::context::{Done, Ops, Stop};
use smb_wire::file::{
    CloseFlags, CloseRequest, CloseResponse, FlushRequest, READ_HEAD_SIZE, ReadFlags, ReadRequest,
    ReadResponse, WriteFlags, WriteRequest, WriteResponse,
};
use smb_wire::session::Empty;
use smb_wire::types::AccessMask;
use smb_wire::{Elsewhere, Encode, NtStatus, Writer};
use transport::{ReadData, ReadRange, Splice, read_data};
use vfs::claims::{IoKind, Span};
use vfs::qos::{Kind, Transferred};
use vfs::{Access, Blocking, FsError, OpenFile, Stability, Wait};

/// Where in a READ's reply, behind its header, the length of the data is: behind the structure's size, the data's offset and a
/// reserved byte.
const READ_LENGTH_AT: usize = smb_wire::header::HEADER_SIZE + 4;

/// MS-SMB2 §3.3.5.12.
pub(crate) fn read(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let args: ReadRequest<'_> = Ops::decode(request)?;
    if let Some(pipe) = ops.pipe(args.file_id)? {
        return pipes::read(ops, &pipe, &args, w);
    }
    let open = ops.open(args.file_id)?;
    if args.length > IO_BYTES_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    check_range(args.offset, args.length)?;
    ops.compresses |=
        args.flags.contains(ReadFlags::REQUEST_COMPRESSED) && ops.connection.compression().is_some();
    let opened = open.data(Access::READ)?;
    let length = usize::try_from(args.length).unwrap_or(usize::MAX);
    let data = Elsewhere { offset: READ_HEAD_SIZE, length: 0 };
    ReadResponse { data, data_remaining: 0, flags: 0 }.encode(w);
    w.truncate(READ_HEAD_SIZE);
    let start = w.position();
    let range = range(ops, opened, args.offset, length);
    ops.count(Kind::Read, Transferred::default());
    let read = read_data(opened, &range, ops.blocking, &mut ops.stats.read_from, w.buffer_mut());
    if let Err(FsError::Wait(Wait::Recall)) = read {
        return Err(ops.wait_for_io(&open, IoKind::Read, Span::clamped(args.offset, u64::from(args.length))));
    }
    let ReadData { bytes: read, pages, .. } = read?;
    debug_assert!(pages.is_some() || w.position() - start == read, "what is read is appended");
    let minimum = usize::try_from(args.minimum_count).unwrap_or(usize::MAX);
    if read < minimum || read == 0 && length > 0 {
        ops.stats.read_from = None;
        return Err(NtStatus::END_OF_FILE.into());
    }
    w.patch::<u8>(READ_LENGTH_AT - 2, READ_HEAD_SIZE);
    w.patch::<u32>(READ_LENGTH_AT, read);
    if read == 0 {
        // A structure of odd size has one byte of its buffer at least.
        w.zeros(1);
    }
    if let Some(pages) = &pages {
        ops.service.counts.count_spliced(pages.held());
    }
    ops.pages = pages;
    open.set_position(args.offset + read as u64);
    ops.count(Kind::Read, Transferred::read(read));
    Ok(NtStatus::SUCCESS)
}

/// The range of a READ. Pages may only end a reply that is not compressed, and only up to the end of the file.
fn range(ops: &Ops<'_>, opened: &OpenFile<'_>, offset: u64, length: usize) -> ReadRange {
    let copied = ReadRange { offset, len: length, splice: Splice::Never };
    if !ops.takes_pages || ops.compresses || length < SPLICE_BYTES_MIN {
        return copied;
    }
    let Ok(size) = opened.size(ops.blocking) else { return copied };
    let len = length.min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
    if len < SPLICE_BYTES_MIN { copied } else { ReadRange { offset, len, splice: Splice::Whole } }
}

/// Files end before what a signed number can say (MS-FSA §2.1.5.3, §2.1.5.4).
fn check_range(offset: u64, length: u32) -> Result<(), NtStatus> {
    let end = offset.checked_add(u64::from(length)).and_then(|end| i64::try_from(end).ok());
    end.map(|_| ()).ok_or(NtStatus::INVALID_PARAMETER)
}

/// MS-SMB2 §3.3.5.13.
pub(crate) fn write(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let args: WriteRequest<&[u8]> = Ops::decode(request)?;
    if let Some(pipe) = ops.pipe(args.file_id)? {
        return pipes::write(ops, &pipe, &args, w);
    }
    let open = ops.open(args.file_id)?;
    let length = u32::try_from(args.data.len()).unwrap_or(u32::MAX);
    if length > IO_BYTES_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let opened = open.data(Access::WRITE)?;
    let is_durable = open.writes_through() || args.flags.contains(WriteFlags::WRITE_THROUGH);
    let stability = if is_durable { Stability::Data } else { Stability::Unstable };
    let offset = args.offset;
    check_range(offset, length)?;
    if !open.granted.contains(AccessMask::WRITE_DATA) && offset < opened.size(Blocking::Allowed)? {
        // It may append alone. Windows looks at that only where files are opened on the server itself.
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    ops.count(Kind::Write, Transferred::default());
    if length > 0 {
        let change = match opened.write(offset, args.data, stability, ops.pending) {
            Err(FsError::Wait(Wait::Recall)) => {
                return Err(ops.wait_for_io(&open, IoKind::Write, Span::clamped(offset, u64::from(length))));
            }
            change => change?,
        };
        open.keep_written(&change, ops.pending)?;
        open.tell_written(&change);
    }
    open.set_position(offset + u64::from(length));
    ops.count(Kind::Write, Transferred::written(args.data.len()));
    ops.reply(w, &WriteResponse { count: length, remaining: 0 })
}

/// MS-SMB2 §3.3.5.11.
pub(crate) fn flush(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let args: FlushRequest = Ops::decode(request)?;
    if ops.pipe(args.file_id)?.is_some() {
        // What is written is answered at once.
        return ops.reply(w, &Empty);
    }
    let open = ops.open(args.file_id)?;
    open.check(AccessMask::WRITE_DATA | AccessMask::APPEND_DATA)?;
    if let Some(opened) = open.opened() {
        opened.schedule_sync(Stability::File, ops.pending);
    }
    ops.reply(w, &Empty)
}

/// MS-SMB2 §3.3.5.10.
pub(crate) fn close(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let args: CloseRequest = Ops::decode(request)?;
    if let Some(pipe) = ops.pipe(args.file_id)? {
        let removed = ops.session()?.remove_pipe(&ops.service.counts, pipe.id);
        removed.ok_or(Stop::Status(NtStatus::FILE_CLOSED))?;
        return ops.reply(w, &CloseResponse::default());
    }
    let open = ops.open(args.file_id)?;
    ops.session()?.remove_open(&ops.service.counts, open.id).ok_or(Stop::Status(NtStatus::FILE_CLOSED))?;
    let shown = match args.flags.contains(CloseFlags::POSTQUERY_ATTRIB) {
        true => open.file.attrs(Blocking::Allowed).and_then(|attrs| open.shown(&attrs)).ok(),
        false => None,
    };
    if open.listing.is_some() || open.deletes() {
        // A client takes no break of a listing that it has not heard the change of.
        ops.unanswered.push(open.disk.claimant.breaks.pause());
    }
    ops.service.let_go(&open);
    open.disk.delete_closed_file(&open.file);
    let response = shown.map_or(CloseResponse::default(), |shown| CloseResponse {
        flags: CloseFlags::POSTQUERY_ATTRIB,
        creation_time: shown.created,
        last_access_time: shown.accessed,
        last_write_time: shown.written,
        change_time: shown.changed,
        allocation_size: shown.allocation,
        end_of_file: shown.size,
        file_attributes: shown.attributes,
    });
    ops.reply(w, &response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_within_a_signed_number() {
        let last = i64::MAX.unsigned_abs();
        assert_eq!(check_range(last, 0), Ok(()));
        assert_eq!(check_range(last - 8, 8), Ok(()));
        for (offset, length) in [(last, 1), (last + 1, 0), (u64::MAX, 1), (u64::MAX, u32::MAX)] {
            assert_eq!(check_range(offset, length), Err(NtStatus::INVALID_PARAMETER), "{offset} {length}");
        }
    }
}
