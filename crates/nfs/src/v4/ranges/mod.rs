//! Ranges of files: SEEK, ALLOCATE, DEALLOCATE, CLONE, COPY (RFC 7862 §15).

use super::compound_state::{CompoundState, OpError, OpResult};
use super::price::{copy_demand, may_go_on_alone};
use crate::call::File;
use crate::limits::COPY_PAID_BYTES_MAX;
use crate::state::nfs4::copier::BackgroundCopy;
use crate::state::nfs4::tables::Table;
use nfs_wire::v4::{
    AllocateArgs, CloneArgs, CopyArgs, CopyOk, CopyRequirements, DataContent, DeallocateArgs,
    OffloadCancelArgs, OffloadStatusArgs, OffloadStatusOk, SeekArgs, SeekOk, StableHow, Stateid, Status,
    Verifier, WriteResponse,
};
use std::sync::Arc;
use std::time::Instant;
use vfs::acl::access::Access;
use vfs::file::CopyAdmission;
use vfs::{Blocking, FsError, OpenFile, PendingSync, Seek, Span, Stability, Wait};
use xdr::{Encode, Writer};

/// Bytes that one COPY copies before its reply. The client requests the rest.
const COPY_BYTES_MAX: u64 = 64 << 20;
/// RFC 7862 §15.11.
pub(super) fn seek(cx: &mut CompoundState<'_, '_>, args: &SeekArgs, w: &mut Writer<'_>) -> OpResult {
    cx.may_wait()?;
    let file = cx.file()?;
    let what = match args.what {
        what if what == DataContent::Data as u32 => Seek::Data,
        what if what == DataContent::Hole as u32 => Seek::Hole,
        _ => return Err(OpError::Status(Status::UNION_NOTSUPP)),
    };
    let opened = readable(cx, &file, &args.stateid)?;
    let found = opened.seek(args.offset, what)?;
    let size = cx.call.attrs(&file)?.size;
    // Every file has a hole at its end.
    let offset = found.unwrap_or(size);
    SeekOk { eof: offset >= size, offset }.encode(w);
    Ok(())
}

/// RFC 7862 §15.1.
pub(super) fn allocate(cx: &mut CompoundState<'_, '_>, args: &AllocateArgs) -> OpResult {
    change(cx, args, |opened, pending| opened.allocate(args.offset, args.length, Stability::File, pending))
}

/// RFC 7862 §15.4.
pub(super) fn deallocate(cx: &mut CompoundState<'_, '_>, args: &DeallocateArgs) -> OpResult {
    change(cx, args, |opened, pending| opened.deallocate(args.offset, args.length, Stability::File, pending))
}

/// RFC 7862 §15.13: from the saved file to the current one. A clone moves no bytes, so it cannot be charged: between
/// volumes with limits it is refused, and the client copies.
pub(super) fn clone(cx: &mut CompoundState<'_, '_>, args: &CloneArgs) -> OpResult {
    cx.may_wait()?;
    let (to, from) = (cx.file()?, cx.saved_file()?);
    let source = readable(cx, &from, &args.src_stateid)?;
    let target = writable(cx, &to, &args.dst_stateid)?;
    let copy_admission = CopyAdmission::new(&source, &target, cx.call.payer);
    if copy_admission.is_between_volumes() && copy_admission.is_limited() {
        return Err(OpError::Status(Status::XDEV));
    }
    let len = length(cx, &from, args.src_offset, args.count)?;
    let span = Span { source: args.src_offset, target: args.dst_offset, len };
    source.clone_to(&target, &span, Stability::File, cx.call.pending)?;
    Ok(())
}

/// RFC 7862 §15.2: from the saved file to the current one. A long copy runs in the background if the client allows it;
/// otherwise the client requests the rest.
pub(super) fn copy(cx: &mut CompoundState<'_, '_>, args: &CopyArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    cx.may_wait()?;
    let (to, from) = (cx.file()?, cx.saved_file()?);
    if !args.source_server.is_empty() {
        return Err(OpError::Status(Status::NOTSUPP));
    }
    let source = readable(cx, &from, &args.src_stateid)?;
    let target = writable(cx, &to, &args.dst_stateid)?;
    source.reaches(&target)?;
    let len = length(cx, &from, args.src_offset, args.count)?;
    let whole = Span { source: args.src_offset, target: args.dst_offset, len };
    if whole.overlaps() && (from.export_id(), from.key()) == (to.export_id(), to.key()) {
        return Err(OpError::Status(Status::INVAL));
    }
    // Before the copy: after a failed flush meanwhile, the verifier must differ, so that the client copies again.
    let writeverf = to.volume().write_verifier().to_be_bytes();
    let copy_admission = CopyAdmission::new(&source, &target, cx.call.payer);
    let most = if copy_admission.is_limited() { COPY_PAID_BYTES_MAX } else { COPY_BYTES_MAX };
    if !args.synchronous && len > most {
        let began = begin_copy(cx, Arc::clone(&source), Arc::clone(&target), whole, writeverf)?;
        if let Some(stateid) = began {
            let committed = StableHow::Unstable;
            let response = WriteResponse { callback_id: Some(stateid), count: 0, committed, writeverf };
            let requirements = CopyRequirements { consecutive: true, synchronous: false };
            CopyOk { response, requirements }.encode(w);
            return Ok(());
        }
    }
    // Any other COPY paid at the target with its compound.
    if copy_admission.is_limited() && may_go_on_alone(args) {
        cx.pay_copy(copy_demand(len))?;
    }
    let mut permit = cx.pay_source(copy_admission.source_admission(len.min(most), 1))?;
    let began = Instant::now();
    let count = copy_whole(&source, &target, Span { len: len.min(most), ..whole }, cx.call.pending)?;
    copy_admission.count_read(count, began.elapsed());
    if let Some(permit) = &mut permit {
        permit.record(copy_admission.at_source(count));
    }
    cx.count_data(copy_admission.at_target(count));
    let response = WriteResponse { callback_id: None, count, committed: StableHow::Unstable, writeverf };
    CopyOk { response, requirements: CopyRequirements { consecutive: true, synchronous: true } }.encode(w);
    Ok(())
}

/// Begins a background copy, for a client with a back channel; `None` if there are too many.
fn begin_copy(
    cx: &CompoundState<'_, '_>,
    source: Arc<OpenFile<'static>>,
    target: Arc<OpenFile<'static>>,
    span: Span,
    writeverf: Verifier,
) -> Result<Option<Stateid>, OpError> {
    let (state, client) = (&cx.call.service.v4, cx.client()?);
    if !client.callbacks.is_reachable() {
        return Ok(None);
    }
    let party = client.user(cx.call.credential.uid);
    let Ok(room) = state.tables.copies.take(&party, 1) else { return Ok(None) };
    let Ok(slot) = state.reserve(Table::States, &party, &client) else { return Ok(None) };
    let progress = Arc::default();
    let Ok(stateid) = client.states().insert_copy(&progress, slot) else { return Ok(None) };
    let handle = cx.file()?.handle().bytes().into();
    let (client, origin, namespace) =
        (Arc::downgrade(&client), cx.call.origin(), Arc::clone(&cx.call.service.namespace));
    let copying = BackgroundCopy {
        source,
        target,
        span,
        writeverf,
        handle,
        client,
        stateid,
        origin,
        payer: cx.call.payer,
        namespace,
        progress,
        _room: room,
    };
    state.copier.begin(copying);
    Ok(Some(stateid))
}

/// RFC 7862 §15.9.
pub(super) fn offload_status(
    cx: &mut CompoundState<'_, '_>,
    args: &OffloadStatusArgs,
    w: &mut Writer<'_>,
) -> OpResult {
    let client = cx.client()?;
    let states = client.states();
    let (_, progress) = states.copy(&cx.stateid(&args.stateid)?)?;
    // The status is read first: with a final status, the count is final, too.
    let complete = progress.ended();
    OffloadStatusOk { count: progress.copied(), complete }.encode(w);
    Ok(())
}

/// RFC 7862 §15.8.
pub(super) fn offload_cancel(cx: &mut CompoundState<'_, '_>, args: &OffloadCancelArgs) -> OpResult {
    let client = cx.client()?;
    let mut states = client.states();
    let (index, progress) = states.copy(&cx.stateid(&args.stateid)?)?;
    if !progress.cancel() {
        // No byte may be written after the reply, so the running part has to end first.
        return Err(OpError::Wait(Wait::Recall));
    }
    states.remove(index);
    Ok(())
}

/// Copies part by part: how many bytes. An error after the first part only ends the copy.
fn copy_whole(
    source: &OpenFile<'_>,
    target: &OpenFile<'_>,
    whole: Span,
    pending: &mut PendingSync,
) -> Result<u64, FsError> {
    let mut copied = 0;
    while copied < whole.len {
        let rest = Span {
            source: whole.source + copied,
            target: whole.target.checked_add(copied).ok_or(FsError::FileTooBig)?,
            len: whole.len - copied,
        };
        match source.copy_to(target, &rest, Stability::Unstable, pending) {
            Ok((0, _)) => break,
            Ok((part, _)) => copied += part,
            Err(error) if copied == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(copied)
}

/// The length of a range of `file`; a count of 0 means up to the end.
fn length(cx: &mut CompoundState<'_, '_>, file: &File, offset: u64, count: u64) -> Result<u64, OpError> {
    let remaining = cx.call.attrs(file)?.size.checked_sub(offset).ok_or(FsError::Invalid)?;
    Ok(if count == 0 { remaining } else { count })
}

/// The common part of ALLOCATE and DEALLOCATE.
fn change(
    cx: &mut CompoundState<'_, '_>,
    args: &AllocateArgs,
    change: impl FnOnce(&OpenFile<'_>, &mut PendingSync) -> Result<vfs::Change, FsError>,
) -> OpResult {
    cx.may_wait()?;
    let file = cx.file()?;
    if args.length == 0 || args.offset.checked_add(args.length).is_none() {
        return Err(OpError::Status(Status::INVAL));
    }
    let opened = writable(cx, &file, &args.stateid)?;
    change(&opened, cx.call.pending)?;
    Ok(())
}

fn readable(
    cx: &CompoundState<'_, '_>,
    file: &File,
    stateid: &Stateid,
) -> Result<Arc<OpenFile<'static>>, OpError> {
    match cx.open_by_stateid(file, stateid, Access::READ)? {
        Some(opened) => Ok(opened),
        None => Ok(Arc::new(file.authorize_read(&file.caller, Blocking::Allowed)?.0.into_owned())),
    }
}

fn writable(
    cx: &CompoundState<'_, '_>,
    file: &File,
    stateid: &Stateid,
) -> Result<Arc<OpenFile<'static>>, OpError> {
    match cx.open_by_stateid(file, stateid, Access::WRITE)? {
        Some(opened) => Ok(opened),
        None => Ok(Arc::new(file.authorize_write(&file.caller)?.into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::v4::{Client, put};
    use crate::testing::{TestEnv, export, rule};
    use nfs_wire::v4::{Argument, CopyReply, NetAddr, NetLoc, OpReply, Reply};
    use vfs::{Caller, Disposition, SetAttrs};

    const PAGE: u64 = 4096;

    /// `/e` with `from`, which has a page of data, a hole of a page and a page of data, and an empty `to`;
    /// `/x` with `f`.
    struct Files {
        client: Client,
        from: Vec<u8>,
        to: Vec<u8>,
        elsewhere: Vec<u8>,
    }

    fn files() -> Files {
        let env = TestEnv::new([export("/e", 1, vec![rule(&[])]), export("/x", 2, vec![rule(&[])])], vec![]);
        let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
        let namespace = env.service.namespace.load_full();
        for (export, name) in [(0, &b"from"[..]), (0, b"to"), (1, b"f")] {
            let root = namespace.exports()[export].root();
            let set = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
            let made = root.create(&caller, name, Disposition::CreateNew, &set, &mut pending).unwrap();
            if name == b"from" {
                let opened = made.file.authorize_write(&caller).unwrap();
                for offset in [0, 2 * PAGE] {
                    opened.write(offset, &[7; 4096], Stability::Unstable, &mut pending).unwrap();
                }
            }
        }
        let client = Client::new(env, 2);
        let [from, to, elsewhere] =
            [[&b"e"[..], b"from"], [b"e", b"to"], [b"x", b"f"]].map(|path| client.handle(&path));
        Files { client, from, to, elsewhere }
    }

    impl Files {
        fn seek(&self, offset: u64, what: u32) -> Result<(bool, u64), Status> {
            let args = SeekArgs { stateid: Stateid::ANONYMOUS, offset, what };
            match self.client.ask(&[put(&self.from), Argument::Seek(args)]).all().last() {
                Some(OpReply::Seek(Reply::Ok(ok))) => Ok((ok.eof, ok.offset)),
                Some(OpReply::Seek(Reply::Err(status))) => Err(*status),
                other => panic!("{other:?}"),
            }
        }

        fn clone(&self, from: &[u8], to: &[u8], offsets_and_count: (u64, u64, u64)) -> Status {
            let (src_stateid, dst_stateid) = (Stateid::ANONYMOUS, Stateid::ANONYMOUS);
            let (src_offset, dst_offset, count) = offsets_and_count;
            let args = CloneArgs { src_stateid, dst_stateid, src_offset, dst_offset, count };
            self.client.status(&[put(from), Argument::Savefh, put(to), Argument::Clone(args)])
        }

        fn copy(&self, to: &[u8], offsets_and_count: (u64, u64, u64)) -> Result<CopyOk, Status> {
            self.copy_from(vec![], to, offsets_and_count)
        }

        fn copy_from(
            &self,
            source_server: Vec<NetLoc<'_>>,
            to: &[u8],
            offsets_and_count: (u64, u64, u64),
        ) -> Result<CopyOk, Status> {
            let (src_offset, dst_offset, count) = offsets_and_count;
            let args = CopyArgs {
                src_stateid: Stateid::ANONYMOUS,
                dst_stateid: Stateid::ANONYMOUS,
                src_offset,
                dst_offset,
                count,
                consecutive: true,
                synchronous: false,
                source_server,
            };
            let asked = [put(&self.from), Argument::Savefh, put(to), Argument::Copy(args)];
            match self.client.ask(&asked).all().last() {
                Some(OpReply::Copy(CopyReply::Ok(ok))) => Ok(*ok),
                Some(OpReply::Copy(CopyReply::Err(status))) => Err(*status),
                other => panic!("{other:?}"),
            }
        }

        fn change(
            &self,
            of: impl FnOnce(AllocateArgs) -> Argument<'static>,
            offset: u64,
            length: u64,
        ) -> Status {
            let args = AllocateArgs { stateid: Stateid::ANONYMOUS, offset, length };
            self.client.status(&[put(&self.from), of(args)])
        }

        /// The size of a file in `/e`, and whether there are bytes other than zero at `offset`.
        fn byte(&self, name: &[u8], offset: u64) -> (u64, u8) {
            let root = self.client.env.service.namespace.load().exports()[0].root();
            let caller = Caller::new(0, 0, []);
            let dir = root.open_dir(&caller, Blocking::Allowed).unwrap();
            let found = dir.lookup(name, Blocking::Allowed).unwrap();
            let (opened, attrs) = found.file.authorize_read(&caller, Blocking::Allowed).unwrap();
            let mut byte = Vec::new();
            opened.read(offset, 1, &mut byte, Blocking::Allowed).unwrap();
            (attrs.size, byte.first().copied().unwrap_or(0))
        }
    }

    #[test]
    fn seek_finds_data_and_holes() {
        let files = files();
        let (data, hole) = (DataContent::Data as u32, DataContent::Hole as u32);
        assert_eq!(files.seek(0, data), Ok((false, 0)));
        assert_eq!(files.seek(0, hole), Ok((false, PAGE)));
        assert_eq!(files.seek(PAGE, data), Ok((false, 2 * PAGE)));
        assert_eq!(files.seek(2 * PAGE, hole), Ok((true, 3 * PAGE)), "every file ends with a hole");
        assert_eq!(files.seek(3 * PAGE, data), Err(Status::NXIO));
        assert_eq!(files.seek(0, 2), Err(Status::UNION_NOTSUPP));
        assert_eq!(files.change(Argument::Deallocate, 2 * PAGE, PAGE), Status::OK);
        assert_eq!(files.seek(PAGE, data), Ok((true, 3 * PAGE)), "no more data is no error");
    }

    #[test]
    fn allocate_grows_and_deallocate_does_not() {
        let files = files();
        assert_eq!(files.change(Argument::Allocate, 2 * PAGE, 2 * PAGE), Status::OK);
        assert_eq!(files.byte(b"from", 2 * PAGE), (4 * PAGE, 7));
        assert_eq!(files.change(Argument::Deallocate, 2 * PAGE, 9 * PAGE), Status::OK);
        assert_eq!(files.byte(b"from", 2 * PAGE), (4 * PAGE, 0));
        for (offset, length) in [(0, 0), (u64::MAX, 2)] {
            assert_eq!(files.change(Argument::Allocate, offset, length), Status::INVAL);
            assert_eq!(files.change(Argument::Deallocate, offset, length), Status::INVAL);
        }
    }

    #[test]
    fn clone_shares_whole_ranges() {
        let files = files();
        let (from, to) = (&files.from, &files.to);
        assert_eq!(files.clone(from, to, (2 * PAGE, 0, 0)), Status::OK, "no count is all to the end");
        assert_eq!(files.byte(b"to", 0), (PAGE, 7));
        assert_eq!(files.clone(from, to, (0, 4 * PAGE, PAGE)), Status::OK);
        assert_eq!(files.byte(b"to", 4 * PAGE), (5 * PAGE, 7));
        for range in [(1, 0, PAGE), (0, 0, PAGE + 1), (0, 0, 4 * PAGE), (9 * PAGE, 0, 0)] {
            assert_eq!(files.clone(from, to, range), Status::INVAL, "{range:?}");
        }
        assert_eq!(files.clone(from, &files.elsewhere, (0, 0, 0)), Status::XDEV);
    }

    #[test]
    fn copy_answers_when_it_is_done() {
        let files = files();
        let ok = files.copy(&files.to, (0, 10, 0)).unwrap();
        assert_eq!((ok.response.count, ok.response.callback_id), (3 * PAGE, None));
        assert!(ok.requirements.synchronous && ok.requirements.consecutive);
        assert_eq!(files.byte(b"to", 10), (3 * PAGE + 10, 7));
        assert_eq!(
            files.copy(&files.to, (2 * PAGE, 0, 9 * PAGE)).unwrap().response.count,
            PAGE,
            "as far as there is"
        );
        assert_eq!(files.copy(&files.from, (0, PAGE, 2 * PAGE)), Err(Status::INVAL), "it overlaps itself");
        assert_eq!(files.copy(&files.from, (0, 3 * PAGE, PAGE)).map(|ok| ok.response.count), Ok(PAGE));
        assert_eq!(files.copy(&files.to, (9 * PAGE, 0, 1)), Err(Status::INVAL));
        assert_eq!(files.copy(&files.elsewhere, (0, 0, 1)), Err(Status::XDEV));
        let other_server = NetLoc::NetAddr(NetAddr { r_netid: b"tcp", r_addr: b"192.0.2.1.8.1" });
        assert_eq!(files.copy_from(vec![other_server], &files.to, (0, 0, 1)), Err(Status::NOTSUPP));
    }

    #[test]
    fn mode_bits_are_asked_where_nothing_is_open() {
        let mut files = files();
        files.client.env.user = (7, 7);
        assert_eq!(files.seek(0, 0), Err(Status::ACCESS));
        assert_eq!(files.change(Argument::Allocate, 0, 1), Status::ACCESS);
        assert_eq!(files.copy(&files.to, (0, 0, 1)), Err(Status::ACCESS));
    }
}

#[cfg(test)]
mod across_tests;
#[cfg(test)]
mod offload_tests;
