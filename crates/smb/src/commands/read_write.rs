//! READ, WRITE, FLUSH and CLOSE (MS-SMB2 §3.3.5.10 to §3.3.5.13).

use crate::limits::{IO_BYTES_MAX, SPLICE_BYTES_MIN};
use crate::pipes;
use crate::request::context::{OpenObject, RequestContext};
use crate::request::outcome::{CommandError, CommandResult};
use smb_wire::file::{
    CloseFlags, CloseRequest, CloseResponse, FlushRequest, READ_HEADER_SIZE, ReadFlags, ReadRequest,
    ReadResponse, WriteFlags, WriteRequest, WriteResponse,
};
use smb_wire::session::Empty;
use smb_wire::types::AccessMask;
use smb_wire::{Encode, ExternalBuffer, NtStatus, Writer};
use transport::{ReadData, ReadRange, Splice, read_data};
use vfs::claims::{IoKind, Span};
use vfs::qos::{Kind, Transferred};
use vfs::{Access, Blocking, FsError, OpenFile, Stability, Wait};

/// The offset of the data length in a READ reply, after StructureSize, DataOffset and a reserved byte.
const READ_LENGTH_AT: usize = smb_wire::header::HEADER_SIZE + 4;

/// MS-SMB2 §3.3.5.12.
pub(crate) fn read(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: ReadRequest<'_> = RequestContext::decode(request)?;
    let open = match cx.object(args.file_id)? {
        OpenObject::File(open) => open,
        OpenObject::Pipe(pipe) => return pipes::read(cx, &pipe, &args, w),
    };
    if args.length > IO_BYTES_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    check_range(args.offset, args.length)?;
    cx.reply.compresses |=
        args.flags.contains(ReadFlags::REQUEST_COMPRESSED) && cx.message.connection.compression().is_some();
    let opened = open.data(Access::READ)?;
    let length = usize::try_from(args.length).unwrap_or(usize::MAX);
    let data = ExternalBuffer { offset: READ_HEADER_SIZE, length: 0 };
    ReadResponse { data, data_remaining: 0, flags: 0 }.encode(w);
    w.truncate(READ_HEADER_SIZE);
    let start = w.position();
    let range = range(cx, opened, args.offset, length);
    cx.count_transfer(Kind::Read, Transferred::default());
    let message = &mut *cx.message;
    let read = read_data(opened, &range, message.blocking, &mut message.stats.read_from, w.buffer_mut());
    if let Err(FsError::Wait(Wait::Recall)) = read {
        return Err(cx.wait_for_io(&open, IoKind::Read, Span::clamped(args.offset, u64::from(args.length))));
    }
    let ReadData { bytes: read, pages, .. } = read?;
    debug_assert!(pages.is_some() || w.position() - start == read, "read data is appended");
    let minimum = usize::try_from(args.minimum_count).unwrap_or(usize::MAX);
    if read < minimum || read == 0 && length > 0 {
        cx.message.stats.read_from = None;
        return Err(NtStatus::END_OF_FILE.into());
    }
    w.patch::<u8>(READ_LENGTH_AT - 2, READ_HEADER_SIZE);
    w.patch::<u32>(READ_LENGTH_AT, read);
    if read == 0 {
        // An odd StructureSize implies at least one byte of buffer.
        w.zeros(1);
    }
    if let Some(pages) = &pages {
        cx.message.service.counters.count_spliced(pages.len());
    }
    cx.reply.pages = pages;
    open.set_position(args.offset + read as u64);
    cx.count_transfer(Kind::Read, Transferred::read(read));
    Ok(NtStatus::SUCCESS)
}

/// Pages may only end a reply that is not compressed, and only up to the end of the file.
fn range(cx: &RequestContext<'_, '_>, opened: &OpenFile<'_>, offset: u64, length: usize) -> ReadRange {
    let copied = ReadRange { offset, len: length, splice: Splice::Never };
    if !cx.reply.takes_pages || cx.reply.compresses || length < SPLICE_BYTES_MIN {
        return copied;
    }
    let Ok(size) = opened.size(cx.message.blocking) else { return copied };
    let len = length.min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
    if len < SPLICE_BYTES_MIN { copied } else { ReadRange { offset, len, splice: Splice::Whole } }
}

/// File offsets are signed numbers (MS-FSA §2.1.5.3, §2.1.5.4).
fn check_range(offset: u64, length: u32) -> Result<(), NtStatus> {
    let end = offset.checked_add(u64::from(length)).and_then(|end| i64::try_from(end).ok());
    end.map(|_| ()).ok_or(NtStatus::INVALID_PARAMETER)
}

/// MS-SMB2 §3.3.5.13.
pub(crate) fn write(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: WriteRequest<&[u8]> = RequestContext::decode(request)?;
    let open = match cx.object(args.file_id)? {
        OpenObject::File(open) => open,
        OpenObject::Pipe(pipe) => return pipes::write(cx, &pipe, &args, w),
    };
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
        // An open with only FILE_APPEND_DATA. Windows checks the offset only for local opens.
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    cx.count_transfer(Kind::Write, Transferred::default());
    if length > 0 {
        let change = match opened.write(offset, args.data, stability, cx.message.pending) {
            Err(FsError::Wait(Wait::Recall)) => {
                return Err(cx.wait_for_io(&open, IoKind::Write, Span::clamped(offset, u64::from(length))));
            }
            change => change?,
        };
        open.restore_modified(&change, cx.message.pending)?;
        open.notify_written(&change);
    }
    open.set_position(offset + u64::from(length));
    cx.count_transfer(Kind::Write, Transferred::written(args.data.len()));
    cx.respond(w, &WriteResponse { count: length, remaining: 0 })
}

/// MS-SMB2 §3.3.5.11.
pub(crate) fn flush(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: FlushRequest = RequestContext::decode(request)?;
    match cx.object(args.file_id)? {
        OpenObject::File(open) => {
            open.check(AccessMask::WRITE_DATA | AccessMask::APPEND_DATA)?;
            if let Some(opened) = open.opened() {
                opened.schedule_sync(Stability::File, cx.message.pending);
            }
        }
        // A pipe answers each write immediately.
        OpenObject::Pipe(_) => {}
    }
    cx.respond(w, &Empty)
}

/// MS-SMB2 §3.3.5.10.
pub(crate) fn close(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: CloseRequest = RequestContext::decode(request)?;
    let counters = &cx.message.service.counters;
    let open = match cx.object(args.file_id)? {
        OpenObject::File(open) => open,
        OpenObject::Pipe(pipe) => {
            let removed = cx.session()?.remove_pipe(counters, pipe.id);
            removed.ok_or(CommandError::Status(NtStatus::FILE_CLOSED))?;
            return cx.respond(w, &CloseResponse::default());
        }
    };
    let removed = cx.session()?.remove_open(counters, open.id);
    removed.ok_or(CommandError::Status(NtStatus::FILE_CLOSED))?;
    let file_info = match args.flags.contains(CloseFlags::POSTQUERY_ATTRIB) {
        true => open.file.attrs(Blocking::Allowed).and_then(|attrs| open.file_info(&attrs)).ok(),
        false => None,
    };
    if open.parent_lease().is_some() || open.deletes() {
        // A client ignores a listing's break that precedes the reply to its own change.
        cx.reply.guards.push(open.disk.claim_holder.breaks.pause());
    }
    cx.message.service.release_open(&open);
    open.disk.delete_closed_file(&open.file);
    let response = file_info.map_or(CloseResponse::default(), |file_info| CloseResponse {
        flags: CloseFlags::POSTQUERY_ATTRIB,
        creation_time: file_info.created,
        last_access_time: file_info.accessed,
        last_write_time: file_info.written,
        change_time: file_info.changed,
        allocation_size: file_info.allocation,
        end_of_file: file_info.size,
        file_attributes: file_info.attributes,
    });
    cx.respond(w, &response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_past_a_signed_number_is_invalid() {
        let last = i64::MAX.unsigned_abs();
        assert_eq!(check_range(last, 0), Ok(()));
        assert_eq!(check_range(last - 8, 8), Ok(()));
        for (offset, length) in [(last, 1), (last + 1, 0), (u64::MAX, 1), (u64::MAX, u32::MAX)] {
            assert_eq!(check_range(offset, length), Err(NtStatus::INVALID_PARAMETER), "{offset} {length}");
        }
    }
}
