//! The data of files: READ, WRITE, COMMIT, RFC 8881 §18.22, §18.32, §18.3.

use super::compound_state::{CompoundState, OpError, OpResult, reply};
use super::open::{check_file, file_id};
use crate::call::{Call, File};
use crate::limits::TRANSFER_BYTES_MAX;
use crate::records::reply::Records;
use crate::state::call_rates;
use nfs_wire::v4::{CommitArgs, CommitOk, ReadArgs, StableHow, Stateid, Status, WriteArgs, WriteOk};
use std::borrow::Cow;
use std::os::fd::AsFd;
use std::sync::Arc;
use transport::{Outbox, Pipe};
use vfs::qos::Transferred;
use vfs::volume::traffic::ReadSource;
use vfs::{Access, Blocking, FsError, FsResult, OpenFile, Stability, Wait};
use xdr::{Encode, Writer};

/// RFC 8881 §18.22.
pub(super) fn read(cx: &mut CompoundState<'_, '_>, args: &ReadArgs, out: &mut Outbox) -> OpResult {
    let file = cx.file()?;
    let opened_by_stateid = cx.opened(&file, &args.stateid, Access::READ)?;
    let (opened, size) = match &opened_by_stateid {
        Some(opened) => (Cow::Borrowed(&**opened), opened.size(cx.call.blocking)?),
        None => {
            let (opened, attrs) = file.authorize_read(&file.caller, cx.call.blocking)?;
            (Cow::Owned(opened), attrs.size)
        }
    };
    let left = usize::try_from(size.saturating_sub(args.offset)).unwrap_or(usize::MAX);
    let want = (args.count.min(TRANSFER_BYTES_MAX) as usize).min(left);
    let eof = out.bytes().len();
    false.encode(&mut out.writer());
    let got = read_data(cx.call, &opened, args.offset, want, cx.is_last(), out)?;
    out.writer().patch_u32(eof, u32::from(got.is_end(args.offset, size)));
    cx.count_data(Transferred::read(got.bytes));
    Ok(())
}

/// The data that a READ put into its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadResult {
    pub(super) bytes: usize,
    /// The file has been cut meanwhile: there is no more.
    pub(super) is_cut: bool,
}

impl ReadResult {
    /// Whether the file ends with it. No bytes and not the end would be an error to clients.
    fn is_end(self, offset: u64, size: u64) -> bool {
        self.is_cut || offset.saturating_add(self.bytes as u64) >= size
    }
}

/// Reads into a reply, as a length and bytes: from memory if possible. Only the last operation may move `pages` of the
/// file: earlier results must be in memory while the compound may be suspended.
pub(super) fn read_data(
    call: &mut Call<'_>,
    open_by_stateid: &OpenFile<'_>,
    offset: u64,
    want: usize,
    pages: bool,
    out: &mut Outbox,
) -> FsResult<ReadResult> {
    let splices = pages && call.splices(want);
    let mut done = Err(FsError::Wait(Wait::Storage));
    if call.stats.read_from != Some(ReadSource::Storage) {
        done = read_range(open_by_stateid, (offset, want), splices, Blocking::Never, out);
        let is_missing = done == Err(FsError::Wait(Wait::Storage));
        call.stats.read_from = Some(if is_missing { ReadSource::Storage } else { ReadSource::Memory });
    }
    if done == Err(FsError::Wait(Wait::Storage)) && call.blocking == Blocking::Allowed {
        done = read_range(open_by_stateid, (offset, want), splices, Blocking::Allowed, out);
    }
    done
}

fn read_range(
    opened: &OpenFile<'_>,
    (offset, want): (u64, usize),
    splices: bool,
    blocking: Blocking,
    out: &mut Outbox,
) -> FsResult<ReadResult> {
    if splices && let Some(bytes) = read_pages(opened, offset, want, blocking, out) {
        return Ok(ReadResult { bytes, is_cut: false });
    }
    let start = out.bytes().len();
    out.writer().u32(0);
    match opened.read(offset, want, out.bytes(), blocking) {
        Ok(bytes) => {
            let mut w = out.writer();
            w.pad(bytes);
            w.patch_u32(start, length(bytes));
            Ok(ReadResult { bytes, is_cut: bytes < want })
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
    offset: u64,
    want: usize,
    blocking: Blocking,
    out: &mut Outbox,
) -> Option<usize> {
    let descriptor = opened.pages(offset, want, blocking)?;
    let mut pipe = Pipe::take().ok()?;
    match pipe.fill(descriptor.as_fd(), offset, want) {
        Ok(got) if got > 0 => {
            out.writer().u32(length(got));
            out.push_pipe(pipe);
            out.writer().pad(got);
            Some(got)
        }
        Ok(_) | Err(_) => None,
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// RFC 8881 §18.32.
pub(super) fn write(cx: &mut CompoundState<'_, '_>, args: &WriteArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    let file = cx.file()?;
    let opened_by_stateid = cx.opened(&file, &args.stateid, Access::WRITE)?;
    // Before the write: after a failed flush meanwhile, the verifier must differ, so that the client writes again.
    let writeverf = file.volume().write_verifier().to_be_bytes();
    let opened = open_for_io(&file, opened_by_stateid.as_deref(), Access::WRITE, cx.call.blocking)?;
    let count = length(args.data.len());
    let change = opened.write(args.offset, args.data, stability(args.stable), cx.call.pending)?;
    cx.written = Some(change.after);
    cx.count_data(Transferred::written(args.data.len()));
    reply(w, &WriteOk { count, committed: args.stable, writeverf })
}

pub(crate) fn stability(how: StableHow) -> Stability {
    match how {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::Data,
        StableHow::FileSync => Stability::File,
    }
}

/// RFC 8881 §18.3. A client that has the file open for writing, or may write it, may commit. Each COMMIT pays on its
/// own, since a compound may have many. A client that commits too often is deferred, then gets NFS4ERR_DELAY.
pub(super) fn commit(cx: &mut CompoundState<'_, '_>, _args: &CommitArgs, w: &mut Writer<'_>) -> OpResult {
    let file = cx.file()?;
    let opened = file.authorize_write(&file.caller)?;
    let admission = call_rates::admission(&cx.call.service.rates.commits, cx.call.payer);
    let _paid = admission.try_acquire().map_err(|_| OpError::Wait(Wait::Recall))?;
    let (_, verifier) = opened.commit()?;
    reply(w, &CommitOk { writeverf: verifier.to_be_bytes() })
}

/// The open file of a stateid, or for a special stateid one that is authorized for this call.
#[inline]
pub(crate) fn open_for_io<'f>(
    file: &'f File,
    opened_by_stateid: Option<&'f OpenFile<'static>>,
    access: Access,
    blocking: Blocking,
) -> FsResult<Cow<'f, OpenFile<'f>>> {
    Ok(match opened_by_stateid {
        Some(opened) => Cow::Borrowed(opened),
        None if access == Access::WRITE => Cow::Owned(file.authorize_write(&file.caller)?),
        None => Cow::Owned(file.authorize_read(&file.caller, blocking)?.0),
    })
}

impl CompoundState<'_, '_> {
    /// The open file of a stateid that allows `access`; `None` for the special stateids, for which the file's mode
    /// decides (RFC 8881 §8.2.3).
    pub(super) fn opened(
        &self,
        file: &File,
        stateid: &Stateid,
        access: Access,
    ) -> Result<Option<Arc<OpenFile<'static>>>, OpError> {
        if matches!(*stateid, Stateid::ANONYMOUS | Stateid::READ_BYPASS) {
            // In the grace period, opens that deny this access are not known yet (RFC 8881 §8.4.2.1).
            let may_conflict = *stateid == Stateid::ANONYMOUS && self.call.service.v4.grace.is_active();
            return if may_conflict { Err(OpError::Status(Status::GRACE)) } else { Ok(None) };
        }
        let client = self.client_of(stateid)?;
        let states = client.states();
        let index = states.find(&self.stateid(stateid)?)?;
        if let Ok(delegation) = states.delegation(index) {
            // A delegation stands for its open, but access is checked here.
            check_file(&delegation.file, file)?;
            let allows = delegation.writing.is_some() || !access.has(Access::WRITE);
            return if allows { Ok(None) } else { Err(OpError::Status(Status::OPENMODE)) };
        }
        let open = states.open_of(index)?;
        if open.file != file_id(file) {
            return Err(OpError::Status(Status::BAD_STATEID));
        }
        // The export's rule may have changed since the open.
        if access.has(Access::WRITE) && file.caller.read_only {
            return Err(OpError::Status(Status::ROFS));
        }
        if !open.opened.allows(access) {
            return Err(OpError::Status(Status::OPENMODE));
        }
        let opened = Arc::clone(&open.opened);
        drop(states);
        // Another user of the client may do only what the mode allows it.
        if !opened.is_by(&file.caller) {
            file.authorize_data(&file.caller, access, self.call.blocking)?;
        }
        Ok(Some(opened))
    }
}
