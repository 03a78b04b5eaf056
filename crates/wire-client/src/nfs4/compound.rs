//! Compounds of NFSv4.1 and 4.2 as Linux makes them: the requested attributes, and the results one operation
//! after another.

use nfs_wire::v4::{
    Access, Bitmap, CompoundReplyHead, GetattrOk, Op, SequenceOk, SequenceStatus, Status, attr,
};
use xdr::{Decode, Reader};

use super::session::{SessionSlot, lost_state};
use crate::call::{self, Rejection};
use crate::error::Error;

/// The attributes that Linux requests for a file.
pub const FILE_ATTRIBUTES: Bitmap = Bitmap::of(&[
    attr::TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::FSID,
    attr::FILEID,
    attr::MODE,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::RAWDEV,
    attr::SPACE_USED,
    attr::TIME_ACCESS,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
    attr::MOUNTED_ON_FILEID,
]);
/// The attributes that Linux requests after a WRITE and before a CLOSE.
pub const CACHE_CONSISTENCY: Bitmap =
    Bitmap::of(&[attr::CHANGE, attr::SIZE, attr::SPACE_USED, attr::TIME_METADATA, attr::TIME_MODIFY]);
pub const RIGHTS: Access = Access(
    Access::READ.0
        | Access::LOOKUP.0
        | Access::MODIFY.0
        | Access::EXTEND.0
        | Access::DELETE.0
        | Access::EXECUTE.0,
);
/// Delay before a call is repeated after NFS4ERR_DELAY: Linux' first retry, `NFS4_POLL_RETRY_MIN`.
pub const RETRY_NS: u64 = 100_000_000;

/// Reads the results after SEQUENCE, one operation after another.
pub(super) struct Results<'a> {
    reader: Reader<'a>,
}

impl<'a> Results<'a> {
    /// Fails if SEQUENCE answers for another call or reports lost state.
    #[inline]
    pub(super) fn new(mut reader: Reader<'a>, slot: &mut SessionSlot) -> Result<Self, Rejection> {
        let r = &mut reader;
        let status = CompoundReplyHead::decode(r)?.status;
        let sequence_status = match Op::decode(r) {
            Ok(Op::SEQUENCE) => Status::decode(r)?,
            // A compound that is refused as a whole has no results.
            _ => status,
        };
        if sequence_status != Status::OK {
            return Err(not_sequenced(sequence_status, slot));
        }
        let ok = SequenceOk::decode(r)?;
        if ok.slotid != slot.slot || ok.sequenceid.wrapping_add(1) != slot.sequence {
            let (slot, sequence) = (slot.slot, slot.sequence.wrapping_sub(1));
            let (of_slot, other) = (ok.slotid, ok.sequenceid);
            return Err(Rejection::Fatal(Error::Protocol(format!(
                "SEQUENCE of slot {slot}, call {sequence}: answered for slot {of_slot}, call {other}"
            ))));
        }
        match lost_state(status, ok.status_flags) {
            Some(lost) => Err(Rejection::Fatal(lost)),
            None => Ok(Self { reader }),
        }
    }

    #[inline]
    pub(super) fn status(&mut self, op: Op) -> Result<(), Rejection> {
        let answered = Op::decode(&mut self.reader)?;
        let status = Status::decode(&mut self.reader)?;
        if answered != op {
            let wrong = format!("a result of {answered:?}, where one of {op:?} was requested");
            return Err(Rejection::Fatal(Error::Protocol(wrong)));
        }
        match status {
            Status::OK => Ok(()),
            Status::DELAY | Status::GRACE => Err(Rejection::Later),
            status => Err(failed(status)),
        }
    }

    #[inline]
    pub(super) fn result<O: Decode<'a>>(&mut self, op: Op) -> Result<O, Rejection> {
        self.status(op)?;
        Ok(O::decode(&mut self.reader)?)
    }

    /// Checks GETATTR without decoding the values: no call uses them.
    #[inline]
    pub(super) fn attributes(&mut self) -> Result<(), Rejection> {
        self.result::<GetattrOk<'_>>(Op::GETATTR).map(drop)
    }

    #[inline]
    pub(super) fn rest(&mut self) -> &'a [u8] {
        self.reader.rest()
    }

    #[inline]
    pub(super) fn ended(&self) -> Result<(), Rejection> {
        Ok(call::ended(&self.reader)?)
    }
}

#[cold]
fn failed(status: Status) -> Rejection {
    match lost_state(status, SequenceStatus(0)) {
        Some(lost) => Rejection::Fatal(lost),
        None => Rejection::refused(status),
    }
}

#[cold]
fn not_sequenced(status: Status, slot: &mut SessionSlot) -> Rejection {
    slot.undo_advance();
    match status {
        Status::DELAY => Rejection::Later,
        _ => Rejection::Fatal(lost_state(status, SequenceStatus(0)).unwrap_or_else(|| Error::Refused {
            doing: "SEQUENCE".to_owned(),
            status: format!("{status:?}"),
        })),
    }
}
