//! Judging replies of NFSv3: does it answer the call that was made, and is it good?

use nfs_wire::v3::{
    AccessFail, AccessOk, CommitFail, CommitOk, CreateFail, CreateOk, GetattrOk, LookupFail, LookupOk,
    PostOpAttr, ReaddirFail, ReaddirplusOk, RemoveFail, RemoveOk, RenameFail, RenameOk, Reply, Status,
    WriteFail, WriteOk, WriteVerf,
};
use xdr::{Decode, Reader};

use super::plan::{Kind, Plan, stable_how};
use crate::driver::fault::{Fault, counted, ended};
use crate::error::Error;
use crate::pattern::{self, FileOffset};

/// A call in flight, and what its reply must match.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Whose operation it is part of.
    pub(super) worker: u32,
    pub(super) kind: Kind,
    pub(super) position: FileOffset,
    /// The write that a READ must find, or that a WRITE makes; zero if any will do.
    pub(super) generation: u32,
}

/// What a good reply brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Good {
    pub(super) bytes: u64,
    /// Names listed.
    pub(super) entries: u64,
    pub(super) verf: Option<WriteVerf>,
    /// Where a listing goes on: cookie, verifier, and whether it ended.
    pub(super) listing: Option<(u64, [u8; 8], bool)>,
}

/// Judges the results of the call in `slot`; `missing` bytes of a READ's data were dropped unread.
#[inline]
pub(super) fn judge(
    plan: &Plan,
    slot: &Slot,
    mut results: Reader<'_>,
    missing: usize,
) -> Result<Good, Fault> {
    let r = &mut results;
    let good = match slot.kind {
        Kind::Read => return read(plan, slot, r, missing),
        Kind::Write => return write(plan, slot, r),
        Kind::Readdirplus => return listing(r),
        Kind::Null => Good::default(),
        Kind::Getattr => succeeded::<GetattrOk, ()>(r, slot).map(|_| Good::default())?,
        Kind::Lookup => succeeded::<LookupOk<'_>, LookupFail>(r, slot).map(|_| Good::default())?,
        Kind::Access => succeeded::<AccessOk, AccessFail>(r, slot).map(|_| Good::default())?,
        Kind::Create => succeeded::<CreateOk<'_>, CreateFail>(r, slot).map(|_| Good::default())?,
        Kind::Remove => succeeded::<RemoveOk, RemoveFail>(r, slot).map(|_| Good::default())?,
        Kind::Rename => succeeded::<RenameOk, RenameFail>(r, slot).map(|_| Good::default())?,
        Kind::Open | Kind::Close => return Err(counted("of NFSv4".to_owned(), slot.kind.to_string())),
        Kind::Commit => {
            let ok = succeeded::<CommitOk, CommitFail>(r, slot)?;
            Good { verf: Some(ok.verf), ..Good::default() }
        }
    };
    ended(r)?;
    Ok(good)
}

/// What a READ brought.
pub(super) struct Transferred<'a> {
    pub(super) count: u32,
    /// That of the data, as its own length says.
    pub(super) length: u32,
    pub(super) eof: bool,
    /// The data, with the padding that it has on the wire.
    pub(super) data: &'a [u8],
    /// How long that should be, with what was dropped.
    pub(super) padded: usize,
    /// Bytes of it that were dropped unread.
    pub(super) missing: usize,
}

impl Transferred<'_> {
    /// Whether it is what the call in `slot` asked for.
    #[inline]
    pub(super) fn judge(self, plan: &Plan, slot: &Slot) -> Result<Good, Fault> {
        let Self { count, length, eof, data, padded, missing } = self;
        let sent = data.len() + missing;
        if sent != padded || length != count || u64::from(count) > plan.transfer() {
            let wrong = format!(
                "READ of {} bytes: count {count}, data length {length}, {sent} bytes sent",
                plan.transfer()
            );
            return Err(Fault::Fatal(Error::Protocol(wrong)));
        }
        let end = slot.position.offset + u64::from(count);
        if u64::from(count) != plan.transfer() || eof && end < plan.size {
            let detail =
                format!("{count} of {} bytes at {:?}, end of file: {eof}", plan.transfer(), slot.position);
            return Err(counted("short".to_owned(), detail));
        }
        if plan.verify {
            let generation = Some(slot.generation).filter(|&generation| generation != 0);
            pattern::verify(&data[..length as usize], plan.unit(), slot.position, generation)
                .map_err(|wrong| Fault::Fatal(Error::Mismatch(wrong)))?;
        }
        Ok(Good { bytes: u64::from(count), ..Good::default() })
    }
}

/// READ3res (RFC 1813 §3.3.6) piece by piece, since its data may not be there.
#[inline]
fn read(plan: &Plan, slot: &Slot, r: &mut Reader<'_>, missing: usize) -> Result<Good, Fault> {
    let status = Status::decode(r)?;
    if status != Status::OK {
        return Err(refused(&format!("{status:?}"), slot));
    }
    PostOpAttr::decode(r)?;
    let (count, eof, length) = (r.u32()?, r.bool()?, r.u32()?);
    let padded = (length as usize).next_multiple_of(4);
    Transferred { count, length, eof, data: r.rest(), padded, missing }.judge(plan, slot)
}

#[inline]
fn write(plan: &Plan, slot: &Slot, r: &mut Reader<'_>) -> Result<Good, Fault> {
    let ok = succeeded::<WriteOk, WriteFail>(r, slot)?;
    ended(r)?;
    written(plan, slot, ok.count, ok.committed as u32)?;
    Ok(Good { bytes: u64::from(ok.count), verf: Some(ok.verf), ..Good::default() })
}

/// Whether a WRITE took all, as safe as it was asked for; `committed` as the wire says it.
#[inline]
pub(super) fn written(plan: &Plan, slot: &Slot, count: u32, committed: u32) -> Result<(), Fault> {
    if u64::from(count) > plan.transfer() {
        return Err(Fault::Fatal(Error::Protocol(format!(
            "WRITE of {} bytes: count {count}",
            plan.transfer()
        ))));
    }
    if u64::from(count) != plan.transfer() {
        return Err(counted(
            "short".to_owned(),
            format!("{count} of {} bytes at {:?}", plan.transfer(), slot.position),
        ));
    }
    if committed < stable_how(plan.stability) as u32 {
        let detail = format!("stable_how {committed} for {:?}", plan.stability);
        return Err(counted("too weak".to_owned(), detail));
    }
    Ok(())
}

fn listing(r: &mut Reader<'_>) -> Result<Good, Fault> {
    let ok = match Reply::<ReaddirplusOk<'_>, ReaddirFail>::decode(r)? {
        Reply::Ok(ok) => ok,
        Reply::Err(status, _) => return Err(counted(format!("{status:?}"), "listing".to_owned())),
    };
    ended(r)?;
    let (mut entries, mut cookie) = (0, None);
    for entry in ok.entries.iter() {
        cookie = Some(entry.cookie);
        entries += u64::from(entry.name != b"." && entry.name != b"..");
    }
    match cookie {
        None if !ok.eof => {
            Err(Fault::Fatal(Error::Protocol("READDIRPLUS without entries and not at the end".to_owned())))
        }
        cookie => Ok(Good {
            entries,
            listing: Some((cookie.unwrap_or(0), ok.cookieverf, ok.eof)),
            ..Good::default()
        }),
    }
}

#[inline]
fn succeeded<'a, O: Decode<'a>, F: Decode<'a>>(r: &mut Reader<'a>, slot: &Slot) -> Result<O, Fault> {
    match Reply::<O, F>::decode(r)? {
        Reply::Ok(ok) => Ok(ok),
        Reply::Err(status, _) => Err(refused(&format!("{status:?}"), slot)),
    }
}

#[cold]
pub(super) fn refused(status: &str, slot: &Slot) -> Fault {
    let detail = match slot.kind {
        Kind::Read | Kind::Write => {
            format!("{status}, file {}, offset {}", slot.position.file, slot.position.offset)
        }
        _ => status.to_owned(),
    };
    counted(status.to_owned(), detail)
}
