//! Compounds of NFSv4.1 and 4.2 as Linux' client makes them: what loads ask for in them, and the results, one
//! operation after another.

use nfs_wire::v4::{
    Access, Bitmap, CompoundReplyHead, GetattrOk, Op, SequenceOk, SequenceStatus, Status, attr,
};
use xdr::{Decode, Reader};

use super::fault::{self, Fault};
use crate::client::session::{SessionSlot, lost};
use crate::error::Error;

/// What Linux asks of a file.
pub(crate) const OF_A_FILE: Bitmap = Bitmap::of(&[
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
/// What it asks of a file after a WRITE, and before a CLOSE.
pub(crate) const CONSISTENCY: Bitmap =
    Bitmap::of(&[attr::CHANGE, attr::SIZE, attr::SPACE_USED, attr::TIME_METADATA, attr::TIME_MODIFY]);
/// The rights that it asks for.
pub(crate) const RIGHTS: Access = Access(
    Access::READ.0
        | Access::LOOKUP.0
        | Access::MODIFY.0
        | Access::EXTEND.0
        | Access::DELETE.0
        | Access::EXECUTE.0,
);
/// When a call is made again that the server wants to be asked later, as Linux' first retry (its
/// `NFS4_POLL_RETRY_MIN`).
pub(crate) const AGAIN_NS: u64 = 100_000_000;

/// Why a reply is not good.
pub(crate) enum Refusal {
    /// The server wants to be asked again later.
    Later,
    /// It is wrong.
    Fault(Fault),
}

impl<F: Into<Fault>> From<F> for Refusal {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

/// What ends the load.
pub(crate) fn fatal(wrong: Error) -> Refusal {
    Fault::Fatal(wrong).into()
}

/// The results of a compound behind SEQUENCE.
pub(crate) struct Results<'r, 'a> {
    reader: Reader<'a>,
    /// What is told of an operation that the server refuses.
    refused: &'r dyn Fn(Status) -> Fault,
}

impl<'r, 'a> Results<'r, 'a> {
    /// Of the call in `slot`, where SEQUENCE says that they are, and that nothing is lost.
    #[inline]
    pub(crate) fn new(
        mut reader: Reader<'a>,
        slot: &mut SessionSlot,
        refused: &'r dyn Fn(Status) -> Fault,
    ) -> Result<Self, Refusal> {
        let r = &mut reader;
        let status = CompoundReplyHead::decode(r)?.status;
        let own = match Op::decode(r) {
            Ok(Op::SEQUENCE) => Status::decode(r)?,
            // A compound that is refused as a whole has no results.
            _ => status,
        };
        if own != Status::OK {
            return Err(not_sequenced(own, slot));
        }
        let ok = SequenceOk::decode(r)?;
        if ok.slotid != slot.slot || ok.sequenceid.wrapping_add(1) != slot.sequence {
            let (slot, sequence) = (slot.slot, slot.sequence.wrapping_sub(1));
            let (of_slot, other) = (ok.slotid, ok.sequenceid);
            return Err(fatal(Error::Protocol(format!(
                "SEQUENCE of slot {slot}, call {sequence}: answered for slot {of_slot}, call {other}"
            ))));
        }
        match lost(status, ok.status_flags) {
            Some(lost) => Err(fatal(lost)),
            None => Ok(Self { reader, refused }),
        }
    }

    /// An operation that has only a status was done.
    #[inline]
    pub(crate) fn passed(&mut self, op: Op) -> Result<(), Refusal> {
        let answered = Op::decode(&mut self.reader)?;
        let status = Status::decode(&mut self.reader)?;
        if answered != op {
            let wrong = format!("a result of {answered:?}, where one of {op:?} was asked for");
            return Err(fatal(Error::Protocol(wrong)));
        }
        match status {
            Status::OK => Ok(()),
            Status::DELAY | Status::GRACE => Err(Refusal::Later),
            status => Err(self.failed(status)),
        }
    }

    /// The result of an operation that has more than a status.
    #[inline]
    pub(crate) fn succeeded<O: Decode<'a>>(&mut self, op: Op) -> Result<O, Refusal> {
        self.passed(op)?;
        Ok(O::decode(&mut self.reader)?)
    }

    /// GETATTR was done.
    #[inline]
    pub(crate) fn attributes(&mut self) -> Result<(), Refusal> {
        self.succeeded::<GetattrOk<'_>>(Op::GETATTR).map(drop)
    }

    /// All bytes that are left.
    #[inline]
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.reader.rest()
    }

    /// Nothing follows.
    #[inline]
    pub(crate) fn ended(&self) -> Result<(), Refusal> {
        Ok(fault::ended(&self.reader)?)
    }

    #[cold]
    fn failed(&self, status: Status) -> Refusal {
        match lost(status, SequenceStatus(0)) {
            Some(lost) => fatal(lost),
            None => (self.refused)(status).into(),
        }
    }
}

#[cold]
fn not_sequenced(status: Status, slot: &mut SessionSlot) -> Refusal {
    slot.take_back();
    match status {
        Status::DELAY => Refusal::Later,
        _ => fatal(lost(status, SequenceStatus(0)).unwrap_or_else(|| Error::Refused {
            doing: "SEQUENCE".to_owned(),
            status: format!("{status:?}"),
        })),
    }
}

#[cfg(test)]
pub(crate) mod replies {
    //! Replies for tests, of the third slot of a session.

    use nfs_wire::v4::{OpReply, Reply};
    use xdr::Encode;

    use super::*;

    pub(crate) const SESSION: [u8; 16] = [7; 16];
    const SLOT: u32 = 2;
    const HIGHEST: u32 = 8;

    /// The slot, whose next call has this number.
    pub(crate) fn slot(sequence: u32) -> SessionSlot {
        SessionSlot { session: SESSION, slot: SLOT, highest: HIGHEST, sequence }
    }

    /// A reply: SEQUENCE and PUTFH, then these results.
    pub(crate) fn compound(status: Status, sequenceid: u32, results: &[OpReply<'_>]) -> Vec<u8> {
        let sequence = SequenceOk {
            sessionid: SESSION,
            sequenceid,
            slotid: SLOT,
            highest_slotid: HIGHEST,
            target_highest_slotid: HIGHEST,
            status_flags: SequenceStatus(0),
        };
        let first = [OpReply::Sequence(Reply::Ok(sequence)), OpReply::Putfh(Status::OK)];
        let operations = u32::try_from(results.len() + 2).unwrap();
        let mut bytes = CompoundReplyHead { status, tag: b"", operations }.to_bytes();
        first.iter().chain(results).for_each(|result| bytes.extend(result.to_bytes()));
        bytes
    }
}

#[cfg(test)]
pub(crate) mod requests {
    //! Calls that were made, as tests look at them.

    use nfs_wire::rpc::{CallHeader, RecordMark};
    use nfs_wire::v4::{Argument, CompoundHead, PROGRAM, Procedure, VERSION};

    use super::*;

    /// The operations of each call in these records, which are COMPOUNDs of a minor version.
    pub(crate) fn operations(mut records: &[u8], minor: u32) -> Vec<Vec<Argument<'_>>> {
        let mut calls = Vec::new();
        while let Some((word, behind)) = records.split_first_chunk() {
            let mark = RecordMark::from_word(u32::from_be_bytes(*word));
            assert!(mark.last);
            let (record, rest) = behind.split_at(mark.length as usize);
            let mut r = Reader::new(record);
            let header = CallHeader::decode(&mut r).unwrap();
            assert_eq!((header.prog, header.vers, header.proc), (PROGRAM, VERSION, Procedure::COMPOUND.0));
            let head = CompoundHead::decode(&mut r).unwrap();
            assert_eq!((head.tag, head.minorversion), (&b""[..], minor));
            calls.push((0..head.operations).map(|_| Argument::decode(&mut r).unwrap()).collect());
            assert_eq!(r.remaining(), 0);
            records = rest;
        }
        assert!(records.is_empty(), "part of a record");
        calls
    }

    /// Those of the only call.
    pub(crate) fn only_call(record: &[u8], minor: u32) -> Vec<Argument<'_>> {
        let mut calls = operations(record, minor);
        assert_eq!(calls.len(), 1);
        calls.remove(0)
    }
}
