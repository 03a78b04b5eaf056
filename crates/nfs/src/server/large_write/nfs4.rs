//! A compound with a WRITE longer than a receive buffer.
//!
//! The operations before the WRITE run when its data begins to arrive. The data is written part by part.
//! The remaining operations run at the end.
//! A client that dies in the middle leaves the first parts written, as in version 3.
//! Space for all data is reserved before the first part.

use crate::call::Call;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::server::dispatch::RpcCall;
use crate::state::nfs4::binding::Binding;
use crate::status::nfs4;
use crate::v4::compound::{self, CompoundArgs, Suspended};
use crate::v4::file::{open_for_io, stability};
use nfs_wire::v4::{Argument, CompoundHead, Op, Status, WriteHead, WriteOk};
use std::sync::Arc;
use transport::{Body, PartData};
use vfs::qos::Transferred;
use vfs::{Access, FsError, FsResult, OpenFile, Stability, WriteReservation};
use xdr::{Decode, Malformed, Reader};

pub(crate) struct LargeWrite {
    call: RpcCall,
    args: Vec<u8>,
    /// Number of operations from the WRITE on.
    operations_left: u32,
    write: WriteHead,
    refusal: Option<FsError>,
    /// The compound at the WRITE, after the earlier operations ran.
    at: Option<Box<Suspended>>,
    /// The open file of the WRITE's stateid, and the space reserved for the data.
    opened: Option<Arc<OpenFile<'static>>>,
    reservation: Option<WriteReservation>,
    /// The status that refuses the WRITE.
    failure: Option<Status>,
    verifier: u64,
    stats_before_write: (u32, Transferred),
}

impl LargeWrite {
    /// Decodes the arguments of a compound up to the data of its first WRITE, from the start of a record of
    /// `record_bytes`. A `refusal` becomes its reply. An error means that the head contains no WRITE.
    pub(crate) fn begin(
        call: RpcCall,
        head: &[u8],
        record_bytes: usize,
        refusal: Option<FsError>,
    ) -> Result<(Self, Body), BufferedCompound> {
        match Self::find_write(&call, head, record_bytes) {
            Ok((end, operations_left, write, body)) => {
                let args = call.args(head)[..end].to_vec();
                let (at, opened, reservation, failure) = (None, None, None, None);
                let (verifier, stats_before_write) = (0, (0, Transferred::default()));
                let large = Self {
                    call,
                    args,
                    operations_left,
                    write,
                    refusal,
                    at,
                    opened,
                    reservation,
                    failure,
                    verifier,
                    stats_before_write,
                };
                Ok((large, body))
            }
            Err(_) => Err(BufferedCompound { call, refusal }),
        }
    }

    /// Finds the first WRITE: the offset of its arguments, the number of operations from it on, its head, and its data.
    fn find_write(
        call: &RpcCall,
        head: &[u8],
        record_bytes: usize,
    ) -> Result<(usize, u32, WriteHead, Body), Malformed> {
        let args = call.args(head);
        let mut r = Reader::new(args);
        let operations = CompoundHead::decode(&mut r)?.operations;
        for before in 0..operations {
            let end = r.position();
            let op = Op::decode(&mut r)?;
            if op != Op::WRITE {
                // An operation before the WRITE that does not fit the head is an error, and the compound is buffered.
                Argument::decode_body(op, &mut r)?;
                continue;
            }
            let write = WriteHead::decode(&mut r)?;
            let start = head.len() - r.remaining();
            let padded = write.data_length.checked_next_multiple_of(4).ok_or(Malformed("data too long"))?;
            if write.data_length > TRANSFER_BYTES_MAX || start + padded as usize > record_bytes {
                return Err(Malformed("data length"));
            }
            return Ok((end, operations - before, write, Body { start, len: write.data_length as usize }));
        }
        Err(Malformed("a long compound without a WRITE"))
    }

    pub(crate) fn call(&self) -> &RpcCall {
        &self.call
    }

    /// Writes the part at offset `at` of the data, unless an earlier step failed. Returns the bytes written.
    pub(crate) fn write_part(
        &mut self,
        call: &mut Call<'_>,
        binding: &Binding,
        at: usize,
        data: PartData<'_>,
    ) -> usize {
        if self.refusal.is_some() {
            return 0;
        }
        self.run_before(call, binding);
        if self.failure.is_some() || self.at.as_ref().is_none_or(|at| !at.is_running()) {
            return 0;
        }
        let len = data.len();
        match self.try_write(call, at, data) {
            Ok(()) => len,
            Err(error) => {
                self.failure = Some(nfs4::status(error));
                0
            }
        }
    }

    /// Runs the operations before the WRITE, once, and opens the file of its stateid.
    fn run_before(&mut self, call: &mut Call<'_>, binding: &Binding) {
        if self.at.is_some() {
            return;
        }
        let paid = self.call.paid;
        let ran = compound::run_before(
            call,
            binding,
            CompoundArgs { bytes: &self.args, paid },
            self.operations_left,
            &self.write,
        );
        // The head was decoded before.
        let Ok((at, opened)) = ran else { return };
        match opened {
            Ok(opened) => self.opened = opened,
            Err(status) => self.failure = Some(status),
        }
        self.at = Some(Box::new(at));
        self.stats_before_write = (call.stats.bytes, call.stats.transferred);
    }

    fn try_write(&mut self, call: &mut Call<'_>, at: usize, data: PartData<'_>) -> FsResult<()> {
        let handle = self.at.as_ref().and_then(|at| at.current()).ok_or(FsError::BadHandle)?;
        let file = call.file(handle)?;
        let opened = open_for_io(&file, self.opened.as_deref(), Access::WRITE, call.blocking)?;
        if self.reservation.is_none() {
            self.verifier = file.volume().write_verifier();
            self.reservation = Some(opened.reserve(self.write.offset, self.write.data_length as usize)?);
        }
        let offset = self.write.offset.checked_add(at as u64).ok_or(FsError::FileTooBig)?;
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

    /// Ends the upload. Returns the arguments without the WRITE, the refusal if there is one,
    /// and the compound to resume.
    pub(crate) fn finish(
        mut self,
        call: &mut Call<'_>,
        binding: &Binding,
        tail: &[u8],
    ) -> (Vec<u8>, Option<FsError>, Option<Box<Suspended>>) {
        if self.refusal.is_none() {
            self.run_before(call, binding);
        }
        (call.stats.bytes, call.stats.transferred) = self.stats_before_write;
        // Released before the reply: the client may query the free space next.
        self.reservation = None;
        let padding = self.write.data_length.next_multiple_of(4) - self.write.data_length;
        self.args.extend_from_slice(tail.get(padding as usize..).unwrap_or_default());
        let Some(mut at) = self.at.take() else { return (self.args, self.refusal, None) };
        if at.is_running() {
            let flushes = call.pending.added();
            let written = self.failure.map_or_else(|| self.schedule_sync(call, &at), Err);
            at.add_write(written, call.pending.added() > flushes);
        }
        (self.args, self.refusal, Some(at))
    }

    fn schedule_sync(&self, call: &mut Call<'_>, at: &Suspended) -> Result<WriteOk, Status> {
        let handle = at.current().ok_or(Status::NOFILEHANDLE)?;
        let file = call.file(handle).map_err(nfs4::status)?;
        let opened = open_for_io(&file, self.opened.as_deref(), Access::WRITE, call.blocking);
        opened.map_err(nfs4::status)?.schedule_sync(stability(self.write.stable), call.pending);
        // The limits counted the bytes as they arrived.
        call.stats.bytes = call.stats.bytes.saturating_add(self.write.data_length);
        Ok(WriteOk {
            count: self.write.data_length,
            committed: self.write.stable,
            writeverf: self.verifier.to_be_bytes(),
        })
    }
}

/// A long compound that is buffered whole, then run like a short one.
pub(crate) struct BufferedCompound {
    pub(crate) call: RpcCall,
    pub(crate) refusal: Option<FsError>,
}

/// Maximum bytes before the data in the record of a compound: two opaque authenticators, the head with its tag,
/// and space for SEQUENCE, PUTFH and the WRITE with a few other operations.
pub(crate) const HEAD_BYTES_MAX: usize = 24 + 2 * (8 + 400) + 12 + 1024 + 512;
const _: () = assert!(HEAD_BYTES_MAX >= super::nfs3::HEAD_BYTES_MAX);
const _: () = assert!(HEAD_BYTES_MAX < transport::limits::WHOLE_MESSAGE_BYTES_MAX);
