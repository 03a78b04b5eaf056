//! A WRITE that is longer than a receive buffer: its data is written as it comes in, part by part.
//!
//! So a connection never holds more than a buffer or two, however large its writes are, and the data is still in the
//! processor's cache when it is copied to the file. A client that dies in the middle leaves the first parts written, as a
//! server that dies in the middle of a WRITE does; it got no answer and must send the whole again. Room for all of it is
//! taken before the first part is written, so that a full volume refuses it whole.

use super::convert;
use super::{accept, refuse};
use crate::call::{Call, File};
use crate::limits::TRANSFER_BYTES_MAX;
use crate::rpc::admission::Charge;
use crate::rpc::dispatch::{Routed, Target};
use crate::rpc::pipe::Pipe;
use crate::rpc::reply::Replies;
use nfs_wire::v3::{FileHandle, Procedure, StableHow, WccData, WriteFail, WriteOk};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;
use vfs::{Caller, FsError, FsResult, Reserved, Stability};
use xdr::{Decode, Malformed, Reader};

/// A WRITE whose data is on its way.
pub(crate) struct LargeWrite {
    xid: u32,
    claim: Option<Caller>,
    handle: Vec<u8>,
    offset: u64,
    count: u32,
    stable: StableHow,
    /// What all of it needs, once it is taken; `None` before the first part and after the last.
    room: Mutex<Option<Reserved>>,
    /// Bytes of data not yet dealt with.
    left: AtomicUsize,
    /// Parts handed on and not yet written.
    parts: AtomicU32,
    failed: Mutex<Option<FsError>>,
    /// When it began to come.
    began: Instant,
    /// What it has paid for.
    charge: Option<Charge>,
    /// The write verifier from before the first part: if a flush fails meanwhile, the client must see that its data may
    /// be lost.
    verifier: OnceLock<u64>,
}

/// What comes before the data of a WRITE.
pub(crate) struct Beginning {
    /// The call.
    pub(crate) write: LargeWrite,
    /// Where in the record the data begins.
    pub(crate) data_start: usize,
}

/// Where the data of a part lies.
pub(crate) enum PartData<'d> {
    /// In a receive buffer.
    Bytes(&'d [u8]),
    /// In a pipe, never seen by this process.
    Pipe(Pipe),
}

impl PartData<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pipe(pipe) => pipe.held(),
        }
    }
}

impl LargeWrite {
    /// Reads the arguments of a WRITE up to its data, from the beginning of a record that is `record_bytes` long in all. One
    /// that `admission` refuses gets an error, whatever its data is.
    pub(crate) fn begin(
        routed: &Routed<'_>,
        head: &[u8],
        record_bytes: usize,
        admission: Result<Option<Charge>, FsError>,
    ) -> Result<Beginning, Malformed> {
        if routed.target != Target::Nfs(Procedure::WRITE) {
            return Err(Malformed("a long record that is no WRITE"));
        }
        let args = routed.args();
        let mut r = Reader::new(args);
        let file = FileHandle::decode(&mut r)?;
        let (offset, count, stable) = (r.u64()?, r.u32()?, StableHow::decode(&mut r)?);
        let length = r.u32()?;
        let data_start = head.len() - r.remaining();
        let padded = length.checked_next_multiple_of(4).ok_or(Malformed("data too long"))?;
        if length > TRANSFER_BYTES_MAX || data_start + padded as usize != record_bytes {
            return Err(Malformed("data length"));
        }
        let mismatch = (length != count).then_some(FsError::Invalid);
        let (charge, refusal) =
            admission.map_or_else(|refusal| (None, Some(refusal)), |charge| (charge, None));
        let write = Self {
            xid: routed.xid,
            claim: routed.claim,
            handle: file.0.to_vec(),
            offset,
            count,
            stable,
            room: Mutex::default(),
            left: AtomicUsize::new(length as usize),
            parts: AtomicU32::new(0),
            failed: Mutex::new(mismatch.or(refusal)),
            began: Instant::now(),
            charge,
            verifier: OnceLock::new(),
        };
        Ok(Beginning { write, data_start })
    }

    /// Bytes of data in all.
    pub(crate) fn len(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// When it began to come.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Who claims to call.
    pub(crate) fn claim(&self) -> Option<Caller> {
        self.claim
    }

    /// Counts a part that is handed on; how many are on their way now.
    pub(crate) fn hand_on(&self) -> u32 {
        self.parts.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Parts on their way.
    pub(crate) fn parts(&self) -> u32 {
        self.parts.load(Ordering::Acquire)
    }

    /// Writes the part that begins `at` bytes into the data. True if it was the last one to be dealt with.
    pub(crate) fn write_part(&self, call: &mut Call<'_>, at: usize, data: PartData<'_>) -> bool {
        let len = data.len();
        if self.failure().is_none()
            && let Err(error) = self.try_write(call, at, data)
        {
            self.set_failure(error);
        }
        self.parts.fetch_sub(1, Ordering::AcqRel);
        self.left.fetch_sub(len, Ordering::AcqRel) == len
    }

    fn try_write(&self, call: &mut Call<'_>, at: usize, data: PartData<'_>) -> FsResult<()> {
        let file = call.file(&self.handle)?;
        self.verifier.get_or_init(|| file.volume().write_verifier());
        let offset = self.offset.checked_add(at as u64).ok_or(FsError::FileTooBig)?;
        self.take_room(&file)?;
        let (volume, caller, node) = (file.volume(), &file.caller, file.node());
        let len = data.len();
        match data {
            PartData::Bytes(bytes) => {
                volume.write(caller, node, offset, bytes, Stability::Unstable, call.pending)?;
            }
            PartData::Pipe(pipe) => {
                volume.write_from_pipe(caller, node, offset, pipe.reader(), pipe.held())?;
                pipe.emptied();
            }
        }
        if let Some(charge) = &self.charge {
            charge.spend(len);
        }
        Ok(())
    }

    /// Takes what all parts need, if that was not done. Parts that come at the same time wait for it.
    fn take_room(&self, file: &File) -> FsResult<()> {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(refusal) = self.failure() {
            return Err(refusal);
        }
        if room.is_none() {
            let taken = file.volume().reserve(&file.caller, file.node(), self.offset, self.count as usize);
            *room = Some(taken.inspect_err(|&error| self.set_failure(error))?);
        }
        Ok(())
    }

    /// The reply, once all parts are written: its flush is in `call.pending`.
    pub(crate) fn finish(&self, call: &mut Call<'_>, out: &mut Replies) {
        // Before the reply: what the client then looks at shows it.
        drop(self.room.lock().unwrap_or_else(PoisonError::into_inner).take());
        let start = out.begin_success(self.xid);
        let done = match self.failure() {
            Some(error) => Err(error),
            None => self.try_finish(call),
        };
        let answered = match done {
            Ok(ok) => accept(&mut out.writer(), &ok),
            Err(error) => refuse(&mut out.writer(), error, WriteFail::default()),
        };
        match answered {
            Ok(()) => out.finish(start),
            Err(_) => out.abandon(start),
        }
    }

    fn try_finish(&self, call: &mut Call<'_>) -> FsResult<WriteOk> {
        let file: File = call.file(&self.handle)?;
        let verf = self.verifier.get_or_init(|| file.volume().write_verifier()).to_be_bytes();
        call.stats.bytes = self.count;
        file.volume().stabilize(file.node(), convert::stability(self.stable), call.pending);
        let after = call.attrs(&file).ok().map(|attrs| convert::fattr(file.volume_id(), &attrs));
        // Other writes may lie between the parts, so there is no honest "before" (RFC 1813 §2.6, `wcc_data`).
        let file_wcc = WccData { before: None, after };
        Ok(WriteOk { file_wcc, count: self.count, committed: self.stable, verf })
    }

    /// The reply of a write whose flush failed.
    pub(crate) fn fail(&self, error: FsError, out: &mut Replies) {
        let start = out.begin_success(self.xid);
        super::fail(Procedure::WRITE, error, &mut out.writer());
        out.finish(start);
    }

    fn set_failure(&self, error: FsError) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn failure(&self) -> Option<FsError> {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most bytes that lie before the data in the record of a WRITE: two opaque authenticators, the handle, the rest.
pub(crate) const HEAD_BYTES_MAX: usize = 24 + 2 * (8 + 400) + 4 + 64 + 8 + 4 + 4 + 4;
const _: () = assert!(HEAD_BYTES_MAX < crate::limits::BUFFER_BYTES);
