//! The data of files: READ, WRITE, COMMIT, RFC 8881 §18.22, §18.32, §18.3.

use super::compound_state::{CompoundState, OpError, OpResult, reply};
use super::open::{check_file, file_id};
use crate::call::{Call, File};
use crate::limits::TRANSFER_BYTES_MAX;
use crate::records::reply::Records;
use crate::state::call_rates;
use nfs_wire::v4::{CommitArgs, CommitOk, ReadArgs, StableHow, Stateid, Status, WriteArgs, WriteOk};
use std::borrow::Cow;
use std::sync::Arc;
use transport::{Outbox, ReadRange, Splice, read_data};
use vfs::qos::Transferred;
use vfs::{Access, Blocking, FsResult, OpenFile, Stability, Wait};
use xdr::{Encode, Writer};

/// RFC 8881 §18.22.
pub(super) fn read(cx: &mut CompoundState<'_, '_>, args: &ReadArgs, out: &mut Outbox) -> OpResult {
    let file = cx.file()?;
    let opened_by_stateid = cx.open_by_stateid(&file, &args.stateid, Access::READ)?;
    let (opened, size) = match &opened_by_stateid {
        Some(opened) => (Cow::Borrowed(&**opened), opened.size(cx.call.blocking)?),
        None => {
            let (opened, attrs) = file.authorize_read(&file.caller, cx.call.blocking)?;
            (Cow::Owned(opened), attrs.size)
        }
    };
    let remaining = usize::try_from(size.saturating_sub(args.offset)).unwrap_or(usize::MAX);
    let want = (args.count.min(TRANSFER_BYTES_MAX) as usize).min(remaining);
    let eof = out.bytes().len();
    false.encode(&mut out.writer());
    let (bytes, is_cut) = read_counted(cx.call, &opened, args.offset, want, cx.is_last(), out)?;
    // No bytes and not the end would be an error to clients.
    let is_end = is_cut || args.offset.saturating_add(bytes as u64) >= size;
    out.writer().patch_u32(eof, u32::from(is_end));
    cx.count_data(Transferred::read(bytes));
    Ok(())
}

/// Reads into a reply, as a length and bytes. Returns the number of bytes, and whether the file ended before the range did.
///
/// Only the last operation of a compound may send `pages` of the file: the results of those before it must stay in memory as
/// long as the compound may be suspended.
pub(super) fn read_counted(
    call: &mut Call<'_>,
    opened: &OpenFile<'_>,
    offset: u64,
    len: usize,
    pages: bool,
    out: &mut Outbox,
) -> FsResult<(usize, bool)> {
    let splice = if pages { call.splice(len) } else { Splice::Never };
    let start = out.bytes().len();
    out.writer().u32(0);
    let range = ReadRange { offset, len, splice };
    let read = read_data(opened, &range, call.blocking, &mut call.stats.read_from, out.bytes())
        .inspect_err(|_| out.bytes().truncate(start))?;
    out.writer().patch_u32(start, u32::try_from(read.bytes).unwrap_or(u32::MAX));
    if let Some(pages) = read.pages {
        out.push_pipe(pages);
    }
    out.writer().pad(read.bytes);
    Ok((read.bytes, read.is_cut))
}

/// RFC 8881 §18.32.
pub(super) fn write(cx: &mut CompoundState<'_, '_>, args: &WriteArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    let file = cx.file()?;
    let opened_by_stateid = cx.open_by_stateid(&file, &args.stateid, Access::WRITE)?;
    // Before the write: after a failed flush meanwhile, the verifier must differ, so that the client writes again.
    let writeverf = file.volume().write_verifier().to_be_bytes();
    let opened = open_for_io(&file, opened_by_stateid.as_deref(), Access::WRITE, cx.call.blocking)?;
    let count = u32::try_from(args.data.len()).unwrap_or(u32::MAX);
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
    pub(super) fn open_by_stateid(
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
