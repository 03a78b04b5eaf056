//! The data of files: READ, WRITE, COMMIT, RFC 8881 §18.22, §18.32, §18.3.

use super::open::{check_file, file_id};
use super::ops::{Done, Kept, Ops, Stop, reply};
use crate::call::{Call, File};
use crate::limits::TRANSFER_BYTES_MAX;
use crate::records::reply::Records;
use crate::state::call_rates;
use nfs_wire::v4::{CommitArgs, CommitOk, ReadArgs, StableHow, Stateid, Status, WriteArgs, WriteOk};
use std::sync::Arc;
use transport::{Outbox, ReadRange, Splice, read_data};
use vfs::qos::Transferred;
use vfs::{Access, FsResult, OpenFile, Stability};
use xdr::{Encode, Writer};

/// RFC 8881 §18.22.
pub(super) fn read(ops: &mut Ops<'_, '_>, args: &ReadArgs, out: &mut Outbox) -> Done {
    let file = ops.file()?;
    let kept = ops.opened(&file, &args.stateid, Access::READ)?;
    let authorized;
    let (opened, size) = match &kept {
        Some(opened) => (&**opened, opened.size(ops.call.blocking)?),
        None => {
            let (found, attrs) = file.authorize_read(&file.caller, ops.call.blocking)?;
            authorized = found;
            (&authorized, attrs.size)
        }
    };
    let left = usize::try_from(size.saturating_sub(args.offset)).unwrap_or(usize::MAX);
    let want = (args.count.min(TRANSFER_BYTES_MAX) as usize).min(left);
    let eof = out.bytes().len();
    false.encode(&mut out.writer());
    let (bytes, is_cut) = read_counted(ops.call, opened, args.offset, want, ops.is_last, out)?;
    // No bytes and not the end would be an error to clients.
    let is_end = is_cut || args.offset.saturating_add(bytes as u64) >= size;
    out.writer().patch_u32(eof, u32::from(is_end));
    ops.count_data(Transferred::read(bytes));
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
pub(super) fn write(ops: &mut Ops<'_, '_>, args: &WriteArgs<'_>, w: &mut Writer<'_>) -> Done {
    let file = ops.file()?;
    let kept = ops.opened(&file, &args.stateid, Access::WRITE)?;
    // Before the write: if a flush fails meanwhile, the client must see that its data may be lost.
    let writeverf = file.volume().write_verifier().to_be_bytes();
    let authorized;
    let opened = match &kept {
        Some(opened) => &**opened,
        None => {
            authorized = file.authorize_write(&file.caller)?;
            &authorized
        }
    };
    let count = u32::try_from(args.data.len()).unwrap_or(u32::MAX);
    let change = opened.write(args.offset, args.data, stability(args.stable), ops.call.pending)?;
    ops.written = Some(change.after);
    ops.count_data(Transferred::written(args.data.len()));
    reply(w, &WriteOk { count, committed: args.stable, writeverf })
}

pub(crate) fn stability(how: StableHow) -> Stability {
    match how {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::Data,
        StableHow::FileSync => Stability::File,
    }
}

/// RFC 8881 §18.3. Whoever has the file open for writing may commit, and whoever may write it. Each COMMIT pays by itself, as a
/// compound may have many: a client that commits too often is put off, and then told to come later.
pub(super) fn commit(ops: &mut Ops<'_, '_>, _args: &CommitArgs, w: &mut Writer<'_>) -> Done {
    let file = ops.file()?;
    let opened = file.authorize_write(&file.caller)?;
    let toll = call_rates::toll(&ops.call.service.rates.commits, ops.call.payer);
    let _paid = toll.try_acquire().map_err(|_| Stop::Held)?;
    let (_, verifier) = opened.commit()?;
    reply(w, &CommitOk { writeverf: verifier.to_be_bytes() })
}

impl Ops<'_, '_> {
    /// What a stateid of the current file allows, if it allows `access`; `None` for the special stateids, which leave it to the
    /// file's mode (RFC 8881 §8.2.3).
    pub(super) fn opened(&self, file: &File, stateid: &Stateid, access: Access) -> Result<Kept, Stop> {
        if matches!(*stateid, Stateid::ANONYMOUS | Stateid::READ_BYPASS) {
            // Who has the file open is not known yet (RFC 8881 §8.4.2.1).
            let may_conflict = *stateid == Stateid::ANONYMOUS && self.call.service.v4.grace.is_active();
            return if may_conflict { Err(Stop::Status(Status::GRACE)) } else { Ok(None) };
        }
        let client = self.client_of(stateid)?;
        let held = client.held();
        let index = held.find(&self.stateid(stateid)?)?;
        if let Ok(delegation) = held.delegation(index) {
            // A delegation stands for the open that it came with; what the caller may do is looked at here.
            check_file(&delegation.file, file)?;
            let allows = delegation.writing.is_some() || !access.has(Access::WRITE);
            return if allows { Ok(None) } else { Err(Stop::Status(Status::OPENMODE)) };
        }
        let open = held.open_of(index)?;
        if open.file != file_id(file) {
            return Err(Stop::Status(Status::BAD_STATEID));
        }
        // The export's rule may have changed since.
        if access.has(Access::WRITE) && file.caller.read_only {
            return Err(Stop::Status(Status::ROFS));
        }
        if !open.opened.allows(access) {
            return Err(Stop::Status(Status::OPENMODE));
        }
        let opened = Arc::clone(&open.opened);
        drop(held);
        // Another user of the client's may do what its own mode bits say.
        if !opened.is_by(&file.caller) {
            file.authorize_data(&file.caller, access, self.call.blocking)?;
        }
        Ok(Some(opened))
    }
}
