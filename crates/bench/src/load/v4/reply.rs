//! Judging replies to compounds: SEQUENCE and PUTFH, then the operations of each kind of call.

use nfs_wire::v4::{
    AccessOk, CommitOk, CompoundReplyHead, GetattrOk, GetfhOk, Op, OpenOk, ReadOkHead, ReaddirOk, RemoveOk,
    RenameOk, SequenceOk, SequenceStatus, Stateid, Status, WriteOk,
};
use xdr::{Decode, Encode, Reader, Writer};

use super::super::plan::{Kind, Plan};
use super::super::reply::{Good, Slot, Transferred, refused, written};
use super::Place;
use crate::client::session::lost;
use crate::driver::fault::{Fault, ended};
use crate::error::Error;

/// Why a reply is not good.
pub(in crate::load) enum Refusal {
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

fn fatal(wrong: Error) -> Refusal {
    Fault::Fatal(wrong).into()
}

/// Judges the results of the call in `slot`; `missing` bytes of a READ's data were dropped unread.
#[inline]
pub(in crate::load) fn judge(
    plan: &Plan,
    slot: &Slot,
    place: &mut Place,
    mut results: Reader<'_>,
    missing: usize,
) -> Result<Good, Refusal> {
    let r = &mut results;
    if slot.kind == Kind::Null {
        ended(r)?;
        return Ok(Good::default());
    }
    let head = CompoundReplyHead::decode(r)?;
    sequenced(r, place, head.status)?;
    passed(r, Op::PUTFH, slot)?;
    let mut good = Good::default();
    match slot.kind {
        Kind::Null => {}
        Kind::Read => return read(plan, slot, r, missing),
        Kind::Write => good = write(plan, slot, r)?,
        Kind::Readdirplus => good = listing(r, slot)?,
        Kind::Getattr => attributes(r, slot)?,
        Kind::Access => {
            succeeded::<AccessOk>(r, Op::ACCESS, slot)?;
            attributes(r, slot)?;
        }
        Kind::Lookup => {
            passed(r, Op::LOOKUP, slot)?;
            succeeded::<GetfhOk<'_>>(r, Op::GETFH, slot)?;
            attributes(r, slot)?;
        }
        Kind::Open | Kind::Create => opened(r, slot, place)?,
        Kind::Close => {
            attributes(r, slot)?;
            succeeded::<Stateid>(r, Op::CLOSE, slot)?;
            place.opened = None;
        }
        Kind::Remove => _ = succeeded::<RemoveOk>(r, Op::REMOVE, slot)?,
        Kind::Rename => {
            passed(r, Op::SAVEFH, slot)?;
            passed(r, Op::PUTFH, slot)?;
            succeeded::<RenameOk>(r, Op::RENAME, slot)?;
        }
        Kind::Commit => good.verf = Some(succeeded::<CommitOk>(r, Op::COMMIT, slot)?.writeverf),
    }
    ended(r)?;
    Ok(good)
}

/// SEQUENCE: the slot is the call's, and nothing is lost. `status` is the compound's.
#[inline]
fn sequenced(r: &mut Reader<'_>, place: &mut Place, status: Status) -> Result<(), Refusal> {
    let own = match Op::decode(r) {
        Ok(Op::SEQUENCE) => Status::decode(r)?,
        // A compound that is refused as a whole has no results.
        _ => status,
    };
    if own != Status::OK {
        return Err(not_sequenced(own, place));
    }
    let ok = SequenceOk::decode(r)?;
    if ok.slotid != place.slot.slot || ok.sequenceid.wrapping_add(1) != place.slot.sequence {
        let (slot, sequence) = (place.slot.slot, place.slot.sequence.wrapping_sub(1));
        let (of_slot, other) = (ok.slotid, ok.sequenceid);
        return Err(fatal(Error::Protocol(format!(
            "SEQUENCE of slot {slot}, call {sequence}: answered for slot {of_slot}, call {other}"
        ))));
    }
    match lost(status, ok.status_flags) {
        Some(lost) => Err(fatal(lost)),
        None => Ok(()),
    }
}

#[cold]
fn not_sequenced(status: Status, place: &mut Place) -> Refusal {
    place.take_back();
    match status {
        Status::DELAY => Refusal::Later,
        _ => fatal(lost(status, SequenceStatus(0)).unwrap_or_else(|| Error::Refused {
            doing: "SEQUENCE".to_owned(),
            status: format!("{status:?}"),
        })),
    }
}

/// READ: its data may not be there.
#[inline]
fn read(plan: &Plan, slot: &Slot, r: &mut Reader<'_>, missing: usize) -> Result<Good, Refusal> {
    let ok = succeeded::<ReadOkHead>(r, Op::READ, slot)?;
    let data = r.rest();
    let read = Transferred { count: ok.data_length, length: ok.data_length, eof: ok.eof, data, missing };
    Ok(read.judge(plan, slot)?)
}

#[inline]
fn write(plan: &Plan, slot: &Slot, r: &mut Reader<'_>) -> Result<Good, Refusal> {
    let ok = succeeded::<WriteOk>(r, Op::WRITE, slot)?;
    attributes(r, slot)?;
    written(plan, slot, ok.count, ok.committed as u32)?;
    Ok(Good { bytes: u64::from(ok.count), verf: Some(ok.writeverf), ..Good::default() })
}

fn listing(r: &mut Reader<'_>, slot: &Slot) -> Result<Good, Refusal> {
    let ok = succeeded::<ReaddirOk<'_>>(r, Op::READDIR, slot)?;
    let (mut entries, mut cookie) = (0, None);
    for entry in ok.entries.iter() {
        cookie = Some(entry.cookie);
        entries += 1;
    }
    if cookie.is_none() && !ok.eof {
        return Err(fatal(Error::Protocol("READDIR without entries and not at the end".to_owned())));
    }
    let listing = Some((cookie.unwrap_or(0), ok.cookieverf, ok.eof));
    Ok(Good { entries, listing, ..Good::default() })
}

/// OPEN, of a file or by a name that it makes.
fn opened(r: &mut Reader<'_>, slot: &Slot, place: &mut Place) -> Result<(), Refusal> {
    place.opened = Some(succeeded::<OpenOk<'_>>(r, Op::OPEN, slot)?.stateid);
    if slot.kind == Kind::Create {
        let object = succeeded::<GetfhOk<'_>>(r, Op::GETFH, slot)?.object;
        place.file.clear();
        object.encode(&mut Writer::new(&mut place.file));
    }
    succeeded::<AccessOk>(r, Op::ACCESS, slot)?;
    attributes(r, slot)
}

#[inline]
fn attributes(r: &mut Reader<'_>, slot: &Slot) -> Result<(), Refusal> {
    succeeded::<GetattrOk<'_>>(r, Op::GETATTR, slot).map(drop)
}

/// The result of an operation that has more than a status.
#[inline]
fn succeeded<'a, O: Decode<'a>>(r: &mut Reader<'a>, op: Op, slot: &Slot) -> Result<O, Refusal> {
    passed(r, op, slot)?;
    Ok(O::decode(r)?)
}

/// The status of an operation.
#[inline]
fn passed(r: &mut Reader<'_>, op: Op, slot: &Slot) -> Result<(), Refusal> {
    let answered = Op::decode(r)?;
    let status = Status::decode(r)?;
    if answered != op {
        let wrong = format!("a result of {answered:?}, where one of {op:?} was asked for");
        return Err(fatal(Error::Protocol(wrong)));
    }
    match status {
        Status::OK => Ok(()),
        Status::DELAY | Status::GRACE => Err(Refusal::Later),
        status => Err(failed(status, slot)),
    }
}

#[cold]
fn failed(status: Status, slot: &Slot) -> Refusal {
    match lost(status, SequenceStatus(0)) {
        Some(lost) => fatal(lost),
        None => refused(&format!("{status:?}"), slot).into(),
    }
}
