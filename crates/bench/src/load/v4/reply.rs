//! Judging replies to compounds: the operations of each kind of call.

use nfs_wire::v4::{
    AccessOk, CommitOk, GetfhOk, Op, OpenOk, ReadOkHead, ReaddirOk, RemoveOk, RenameOk, Stateid, WriteOk,
};
use xdr::{Encode, Reader, Writer};

use super::super::plan::{Kind, Plan};
use super::super::reply::{Good, Slot, Transferred, refused, written};
use super::Place;
use crate::driver::compound::{Refusal, Results, fatal};
use crate::driver::fault::ended;
use crate::error::Error;

/// Judges the results of the call in `slot`; `missing` bytes of a READ's data were dropped unread.
#[inline]
pub(in crate::load) fn judge(
    plan: &Plan,
    slot: &Slot,
    place: &mut Place,
    results: Reader<'_>,
    missing: usize,
) -> Result<Good, Refusal> {
    if slot.kind == Kind::Null {
        ended(&results)?;
        return Ok(Good::default());
    }
    let refused = |status| refused(&format!("{status:?}"), slot);
    let r = &mut Results::new(results, &mut place.slot, &refused)?;
    r.passed(Op::PUTFH)?;
    let mut good = Good::default();
    match slot.kind {
        Kind::Null => {}
        Kind::Read => return read(plan, slot, r, missing),
        Kind::Write => good = write(plan, slot, r)?,
        Kind::Readdirplus => good = listing(r)?,
        Kind::Getattr => r.attributes()?,
        Kind::Access => {
            r.succeeded::<AccessOk>(Op::ACCESS)?;
            r.attributes()?;
        }
        Kind::Lookup => {
            r.passed(Op::LOOKUP)?;
            r.succeeded::<GetfhOk<'_>>(Op::GETFH)?;
            r.attributes()?;
        }
        Kind::Open | Kind::Create => opened(r, slot.kind, place)?,
        Kind::Close => {
            r.attributes()?;
            r.succeeded::<Stateid>(Op::CLOSE)?;
            place.opened = None;
        }
        Kind::Remove => _ = r.succeeded::<RemoveOk>(Op::REMOVE)?,
        Kind::Rename => {
            r.passed(Op::SAVEFH)?;
            r.passed(Op::PUTFH)?;
            r.succeeded::<RenameOk>(Op::RENAME)?;
        }
        Kind::Commit => good.verf = Some(r.succeeded::<CommitOk>(Op::COMMIT)?.writeverf),
    }
    r.ended()?;
    Ok(good)
}

/// READ: its data may not be there.
#[inline]
fn read(plan: &Plan, slot: &Slot, r: &mut Results<'_, '_>, missing: usize) -> Result<Good, Refusal> {
    let ok = r.succeeded::<ReadOkHead>(Op::READ)?;
    let data = r.rest();
    let (count, length) = (ok.data_length, ok.data_length);
    let padded = (length as usize).next_multiple_of(4);
    let read = Transferred { count, length, eof: ok.eof, data, padded, missing };
    Ok(read.judge(plan, slot)?)
}

#[inline]
fn write(plan: &Plan, slot: &Slot, r: &mut Results<'_, '_>) -> Result<Good, Refusal> {
    let ok = r.succeeded::<WriteOk>(Op::WRITE)?;
    r.attributes()?;
    written(plan, slot, ok.count, ok.committed as u32)?;
    Ok(Good { bytes: u64::from(ok.count), verf: Some(ok.writeverf), ..Good::default() })
}

fn listing(r: &mut Results<'_, '_>) -> Result<Good, Refusal> {
    let ok = r.succeeded::<ReaddirOk<'_>>(Op::READDIR)?;
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
fn opened(r: &mut Results<'_, '_>, kind: Kind, place: &mut Place) -> Result<(), Refusal> {
    place.opened = Some(r.succeeded::<OpenOk<'_>>(Op::OPEN)?.stateid);
    if kind == Kind::Create {
        let object = r.succeeded::<GetfhOk<'_>>(Op::GETFH)?.object;
        place.file.clear();
        object.encode(&mut Writer::new(&mut place.file));
    }
    r.succeeded::<AccessOk>(Op::ACCESS)?;
    r.attributes()
}
