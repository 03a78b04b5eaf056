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
use std::os::fd::AsFd;
use transport::Outbox;
use transport::Pipe;
use vfs::qos::Transferred;
use vfs::volume::traffic::ReadSource;
use vfs::{Attrs, Blocking, FsError, FsResult, OpenFile, Wait};
use xdr::{Encode, Writer};

/// RFC 1813 §3.3.6.
#[inline]
pub(super) fn read(call: &mut Call<'_>, args: ReadArgs<'_>, out: &mut Outbox) -> CallResult {
    let file = match call.file(args.file.0) {
        Ok(file) => file,
        Err(error) => return refuse(&mut out.writer(), error, ReadFail::default()),
    };
    let done = read_file(call, &file, &args, out);
    if done != Err(FsError::Wait(Wait::Storage)) {
        if done.is_err() {
            call.stats.read_from = None;
        }
        let got = done.unwrap_or(0);
        call.stats.count_data(Transferred::read(got));
    }
    match done {
        Ok(_) => Ok(()),
        Err(error) => {
            let file_attributes = post_attrs(call, &file);
            refuse(&mut out.writer(), error, ReadFail { file_attributes })
        }
    }
}

/// Reads into a reply. Returns the number of bytes. Memory is tried once, even if the call may block: a call may be on
/// a blocking thread for another reason, and a hit must not count as a read from storage.
fn read_file(call: &mut Call<'_>, file: &File, args: &ReadArgs<'_>, out: &mut Outbox) -> FsResult<usize> {
    let count = args.count.min(TRANSFER_BYTES_MAX) as usize;
    let (opened, attrs) = file.authorize_read(&file.caller, call.blocking)?;
    // A read past the end has nothing to wait for. The length is cut at the end, so that no page is prepared in vain.
    let left = usize::try_from(attrs.size.saturating_sub(args.offset)).unwrap_or(usize::MAX);
    let want = count.min(left);
    let range = Range { offset: args.offset, want, splices: call.splices(want) };
    if call.stats.read_from != Some(ReadSource::Storage) {
        let done = read_range(&opened, &range, &attrs, Blocking::Never, out);
        let is_missing = done == Err(FsError::Wait(Wait::Storage));
        call.stats.read_from = Some(if is_missing { ReadSource::Storage } else { ReadSource::Memory });
        if !is_missing || call.blocking == Blocking::Never {
            return done;
        }
    }
    read_range(&opened, &range, &attrs, Blocking::Allowed, out)
}

struct Range {
    offset: u64,
    want: usize,
    /// Whether pages move without a copy.
    splices: bool,
}

/// Reads into a reply, waiting for storage where that is allowed.
#[inline]
fn read_range(
    opened: &OpenFile<'_>,
    range: &Range,
    attrs: &Attrs,
    blocking: Blocking,
    out: &mut Outbox,
) -> FsResult<usize> {
    let Range { offset, want, splices } = *range;
    if splices && let Some(got) = read_pages(opened, range, attrs, blocking, out) {
        return Ok(got);
    }
    let start = out.bytes().len();
    head(opened, attrs, offset, 0).encode_ok(out);
    let data = out.bytes().len();
    match opened.read(offset, want, out.bytes(), blocking) {
        Ok(got) => {
            let mut w = out.writer();
            w.pad(got);
            let mut last = head(opened, attrs, offset, got);
            // The file was truncated after the attributes were read. Clients treat no bytes without EOF as an I/O
            // error.
            last.0.eof |= got < want;
            last.patch(&mut w, data);
            Ok(got)
        }
        Err(error) => {
            out.bytes().truncate(start);
            Err(error)
        }
    }
}

/// Answers with the file's own pages, if they can be had now (or the call may wait for them).
fn read_pages(
    opened: &OpenFile<'_>,
    range: &Range,
    attrs: &Attrs,
    blocking: Blocking,
    out: &mut Outbox,
) -> Option<usize> {
    let Range { offset, want, .. } = *range;
    let descriptor = opened.pages(offset, want, blocking)?;
    let mut pipe = Pipe::take().ok()?;
    match pipe.fill(descriptor.as_fd(), offset, want) {
        Ok(got) if got > 0 => {
            head(opened, attrs, offset, got).encode_ok(out);
            out.push_pipe(pipe);
            out.writer().pad(got);
            Some(got)
        }
        // Truncated meanwhile, or a file system without splice: an ordinary read decides.
        Ok(_) | Err(_) => None,
    }
}

/// The head of READ results.
struct Head(ReadOkHead);

fn head(opened: &OpenFile<'_>, attrs: &Attrs, offset: u64, got: usize) -> Head {
    let count = u32::try_from(got).unwrap_or(u32::MAX);
    Head(ReadOkHead {
        file_attributes: Some(convert::fattr(opened.file().volume().id(), attrs)),
        count,
        eof: offset.saturating_add(u64::from(count)) >= attrs.size,
        data_length: count,
    })
}

impl Head {
    fn encode_ok(&self, out: &mut Outbox) {
        let w = &mut out.writer();
        Status::OK.encode(w);
        self.0.encode(w);
    }

    /// Writes count, eof and length, which are known only once the data is there, into the three words before `data`.
    fn patch(&self, w: &mut Writer<'_>, data: usize) {
        w.patch_u32(data - 12, self.0.count);
        w.patch_u32(data - 8, u32::from(self.0.eof));
        w.patch_u32(data - 4, self.0.data_length);
    }
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
            call.stats.count_listed(Transferred::read(target.len()));
            let symlink_attributes = Some(convert::fattr(file.volume_id(), &attrs));
            accept(w, &ReadlinkOk { symlink_attributes, data: &target })
        }
        Err(error) => refuse(w, error, ReadlinkFail { symlink_attributes: post_attrs(call, &file) }),
    }
}
