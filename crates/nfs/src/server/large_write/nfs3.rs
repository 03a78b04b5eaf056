//! A WRITE longer than a receive buffer: the data is written part by part, as it arrives.
//!
//! So a connection buffers little however large its writes are, and the data is still in the processor's cache.
//! A client that dies in the middle leaves the first parts written, like a server that dies during a WRITE.
//! The client got no reply and must send all data again.
//! Space for all data is reserved before the first part, so that a full volume refuses the whole WRITE.

use crate::call::{Call, File};
use crate::limits::TRANSFER_BYTES_MAX;
use crate::records::reply::Records;
use crate::server::dispatch::{RpcCall, Target};
use crate::v3::convert;
use crate::v3::reply::{accept, refuse};
use nfs_wire::v3::{FileHandle, Procedure, StableHow, WccData, WriteFail, WriteOk};
use transport::{Body, Outbox, PartData};
use vfs::{FsError, FsResult, Stability, Wait, WriteReservation};
use xdr::{Decode, Malformed, Reader};

pub(crate) struct LargeWrite {
    call: RpcCall,
    handle: Vec<u8>,
    offset: u64,
    count: u32,
    stable: StableHow,
    /// Space for the whole write, held until the last part.
    reservation: Option<WriteReservation>,
    failure: Option<FsError>,
    /// The write verifier from before the first part.
    /// If a flush fails meanwhile, the client sees that data may be lost.
    verifier: Option<u64>,
}

impl LargeWrite {
    /// Decodes the arguments of a WRITE up to its data, from the start of a record of `record_bytes`.
    /// A `refusal` becomes the reply, whatever the data is.
    pub(crate) fn begin(
        call: RpcCall,
        head: &[u8],
        record_bytes: usize,
        refusal: Option<FsError>,
    ) -> Result<(Self, Body), Malformed> {
        if call.target != Target::Nfs(Procedure::WRITE) {
            return Err(Malformed("a long record that is no WRITE"));
        }
        let mut r = Reader::new(call.args(head));
        let file = FileHandle::decode(&mut r)?;
        let (offset, count, stable) = (r.u64()?, r.u32()?, StableHow::decode(&mut r)?);
        let length = r.u32()?;
        let start = head.len() - r.remaining();
        let padded = length.checked_next_multiple_of(4).ok_or(Malformed("data too long"))?;
        if length > TRANSFER_BYTES_MAX || start + padded as usize != record_bytes {
            return Err(Malformed("data length"));
        }
        let mismatch = (length != count).then_some(FsError::Invalid);
        let write = Self {
            call,
            handle: file.0.to_vec(),
            offset,
            count,
            stable,
            reservation: None,
            failure: mismatch.or(refusal),
            verifier: None,
        };
        Ok((write, Body { start, len: length as usize }))
    }

    pub(crate) fn call(&self) -> &RpcCall {
        &self.call
    }

    /// Writes the part at offset `at` of the data, unless an earlier part failed. Returns the bytes written.
    pub(crate) fn write_part(&mut self, call: &mut Call<'_>, at: usize, data: PartData<'_>) -> usize {
        if self.failure.is_some() {
            return 0;
        }
        let len = data.len();
        match self.try_write(call, at, data) {
            Ok(()) => len,
            Err(error) => {
                self.failure = Some(error);
                0
            }
        }
    }

    fn try_write(&mut self, call: &mut Call<'_>, at: usize, data: PartData<'_>) -> FsResult<()> {
        let file = call.file(&self.handle)?;
        self.verifier.get_or_insert_with(|| file.volume().write_verifier());
        let opened = file.authorize_write(&file.caller)?;
        let offset = self.offset.checked_add(at as u64).ok_or(FsError::FileTooBig)?;
        if self.reservation.is_none() {
            self.reservation = Some(opened.reserve(self.offset, self.count as usize)?);
        }
        match data {
            PartData::Bytes(bytes) => {
                opened.write(offset, bytes, Stability::Unstable, call.pending)?;
            }
            PartData::Pipe(pipe) => {
                opened.write_from_pipe(offset, pipe.reader(), pipe.len())?;
                pipe.mark_emptied();
            }
        }
        Ok(())
    }

    /// Writes the reply after the last part. The flushes that it waits for are in `call.pending`.
    pub(crate) fn finish(mut self, call: &mut Call<'_>, out: &mut Outbox) {
        // Released before the reply: the client may query the free space next.
        self.reservation = None;
        let start = out.begin_success(self.call.xid);
        let finished = self.failure.map_or_else(|| self.try_finish(call), Err);
        let answered = match finished {
            Ok(ok) => accept(&mut out.writer(), &ok),
            Err(error) => refuse(&mut out.writer(), error, WriteFail::default()),
        };
        match answered {
            Ok(()) => out.finish(start),
            // The data is gone, so the call cannot run again.
            Err(_) => {
                out.truncate(start);
                self.call.fail(&[], FsError::Wait(Wait::Recall), out);
            }
        }
    }

    fn try_finish(&self, call: &mut Call<'_>) -> FsResult<WriteOk> {
        let file: File = call.file(&self.handle)?;
        let verf = self.verifier.unwrap_or_else(|| file.volume().write_verifier()).to_be_bytes();
        call.stats.bytes = self.count;
        let opened = file.authorize_write(&file.caller)?;
        opened.schedule_sync(convert::stability(self.stable), call.pending);
        let after = call.attrs(&file).ok().map(|attrs| convert::fattr(&file, &attrs));
        // Other writes may lie between the parts, so there is no honest "before" (RFC 1813 §2.6, `wcc_data`).
        let file_wcc = WccData { before: None, after };
        Ok(WriteOk { file_wcc, count: self.count, committed: self.stable, verf })
    }
}

/// Maximum bytes before the data in the record of a WRITE: two opaque authenticators, the handle, the rest.
pub(crate) const HEAD_BYTES_MAX: usize = 24 + 2 * (8 + 400) + 4 + 64 + 8 + 4 + 4 + 4;
const _: () = assert!(HEAD_BYTES_MAX < transport::limits::WHOLE_MESSAGE_BYTES_MAX);
