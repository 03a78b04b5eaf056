//! The data of files: READ, WRITE, COMMIT, and READLINK.

use super::attr::{post_attrs, wcc_after};
use super::convert;
use super::reply::{accept, refuse};
use crate::call::{Call, CallResult, File};
use crate::limits::TRANSFER_BYTES_MAX;
use crate::records::reply::Records;
use nfs_wire::v3::{
    CommitArgs, CommitFail, CommitOk, ReadArgs, ReadFail, ReadOkHead, ReadlinkArgs, ReadlinkFail, ReadlinkOk,
    Status, WriteArgs, WriteFail, WriteOk,
};
use transport::{Outbox, ReadRange, read_data};
use vfs::qos::Transferred;
use vfs::{FsError, FsResult};
use xdr::{Encode, Writer};

/// RFC 1813 §3.3.6.
#[inline]
pub(super) fn read(call: &mut Call<'_>, args: ReadArgs<'_>, out: &mut Outbox) -> CallResult {
    let file = match call.file(args.file.0) {
        Ok(file) => file,
        Err(error) => return refuse(&mut out.writer(), error, ReadFail::default()),
    };
    let start = out.bytes().len();
    match read_file(call, &file, &args, out) {
        Ok(bytes) => {
            call.stats.count_data(Transferred::read(bytes));
            Ok(())
        }
        Err(error) => {
            out.bytes().truncate(start);
            let file_attributes = post_attrs(call, &file);
            refuse(&mut out.writer(), error, ReadFail { file_attributes })
        }
    }
}

/// Reads into a reply and returns the number of bytes.
fn read_file(call: &mut Call<'_>, file: &File, args: &ReadArgs<'_>, out: &mut Outbox) -> FsResult<usize> {
    let (opened, attrs) = file.authorize_read(&file.caller, call.blocking)?;
    // A read past the end has nothing to wait for. The length is cut at the end, so that no page is prepared in vain.
    let remaining = usize::try_from(attrs.size.saturating_sub(args.offset)).unwrap_or(usize::MAX);
    let len = (args.count.min(TRANSFER_BYTES_MAX) as usize).min(remaining);
    let file_attributes = Some(convert::fattr(opened.file(), &attrs));
    Status::OK.encode(&mut out.writer());
    ReadOkHead { file_attributes, count: 0, eof: false, data_length: 0 }.encode(&mut out.writer());
    let data = out.bytes().len();
    let range = ReadRange { offset: args.offset, len, splice: call.splice(len) };
    let read = read_data(&opened, &range, call.blocking, &mut call.stats.read_from, out.bytes())?;
    let count = u32::try_from(read.bytes).unwrap_or(u32::MAX);
    // The file may have been truncated after its attributes were read. Clients treat no bytes without EOF as an I/O error.
    let eof = read.is_cut || args.offset.saturating_add(u64::from(count)) >= attrs.size;
    let mut w = out.writer();
    w.patch_u32(data - 12, count);
    w.patch_u32(data - 8, u32::from(eof));
    w.patch_u32(data - 4, count);
    if let Some(pages) = read.pages {
        out.push_pipe(pages);
    }
    out.writer().pad(read.bytes);
    Ok(read.bytes)
}

/// RFC 1813 §3.3.7.
pub(super) fn write(call: &mut Call<'_>, args: WriteArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let file = match call.file(args.file.0) {
        Ok(file) => file,
        Err(error) => return refuse(w, error, WriteFail::default()),
    };
    match write_file(call, &file, &args) {
        Ok(ok) => accept(w, &ok),
        Err(error) => refuse(w, error, WriteFail { file_wcc: wcc_after(call, &file) }),
    }
}

fn write_file(call: &mut Call<'_>, file: &File, args: &WriteArgs<'_>) -> FsResult<WriteOk> {
    if args.data.len() != args.count as usize {
        return Err(FsError::Invalid);
    }
    // Before the write: after a failed flush meanwhile, the verifier must differ, so that the client writes again.
    let verf = file.volume().write_verifier().to_be_bytes();
    let stability = convert::stability(args.stable);
    let opened = file.authorize_write(&file.caller)?;
    let change = opened.write(args.offset, args.data, stability, call.pending)?;
    call.stats.count_data(Transferred::written(args.data.len()));
    Ok(WriteOk {
        file_wcc: convert::wcc(file.volume_id(), &change),
        count: args.count,
        committed: args.stable,
        verf,
    })
}

/// RFC 1813 §3.3.21.
pub(super) fn commit(call: &mut Call<'_>, args: CommitArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let file = match call.file(args.file.0) {
        Ok(file) => file,
        Err(error) => return refuse(w, error, CommitFail::default()),
    };
    match file.authorize_write(&file.caller).and_then(|opened| opened.commit()) {
        Ok((change, verifier)) => accept(
            w,
            &CommitOk { file_wcc: convert::wcc(file.volume_id(), &change), verf: verifier.to_be_bytes() },
        ),
        Err(error) => refuse(w, error, CommitFail { file_wcc: wcc_after(call, &file) }),
    }
}

/// RFC 1813 §3.3.5.
pub(super) fn readlink(call: &mut Call<'_>, args: ReadlinkArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let file = match call.file(args.symlink.0) {
        Ok(file) => file,
        Err(error) => return refuse(w, error, ReadlinkFail::default()),
    };
    match file.read_link() {
        Ok((attrs, target)) => {
            call.stats.count_metadata(Transferred::read(target.len()));
            let symlink_attributes = Some(convert::fattr(&file, &attrs));
            accept(w, &ReadlinkOk { symlink_attributes, data: &target })
        }
        Err(error) => refuse(w, error, ReadlinkFail { symlink_attributes: post_attrs(call, &file) }),
    }
}
