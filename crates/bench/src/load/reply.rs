//! Checks of results against the plan.

use nfs_wire::v3::{StableHow, WriteVerf};
use wire_client::call::{CallResult, ListedPage, ReadHead};

use super::plan::{Kind, Plan, stable_how};
use crate::driver::fault::{Fault, counted};
use crate::error::Error;
use crate::pattern::{self, FileOffset};

/// A call in flight, and the values that its reply must match.
#[derive(Clone, Debug)]
pub(super) struct CallSlot {
    pub(super) worker: u32,
    pub(super) kind: Kind,
    pub(super) position: FileOffset,
    /// The write that a READ must find, or that a WRITE makes. Zero accepts any.
    pub(super) generation: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallOutcome {
    pub(super) bytes: u64,
    pub(super) verf: Option<WriteVerf>,
    pub(super) listing: Option<ListedPage>,
}

/// Checks any result but that of a READ.
#[inline]
pub(super) fn check(plan: &Plan, slot: &CallSlot, result: CallResult<'_>) -> Result<CallOutcome, Fault> {
    Ok(match result {
        CallResult::Written { count, committed, verf } => {
            check_write(plan, slot, count, committed)?;
            CallOutcome { bytes: u64::from(count), verf: Some(verf), ..CallOutcome::default() }
        }
        CallResult::Committed(verf) => CallOutcome { verf: Some(verf), ..CallOutcome::default() },
        CallResult::Listed(page) => CallOutcome { listing: Some(page), ..CallOutcome::default() },
        CallResult::Done | CallResult::Found(_) | CallResult::Opened(..) | CallResult::Read { .. } => {
            CallOutcome::default()
        }
    })
}

pub(super) struct ReadResult<'a> {
    pub(super) head: ReadHead,
    /// With the padding of the wire.
    pub(super) data: &'a [u8],
    /// The expected length, including dropped bytes.
    pub(super) padded: usize,
    pub(super) missing: usize,
}

impl ReadResult<'_> {
    #[inline]
    pub(super) fn judge(self, plan: &Plan, slot: &CallSlot) -> Result<CallOutcome, Fault> {
        let Self { head: ReadHead { count, length, eof }, data, padded, missing } = self;
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
        Ok(CallOutcome { bytes: u64::from(count), ..CallOutcome::default() })
    }
}

/// The WRITE must be complete, and as stable as requested.
#[inline]
fn check_write(plan: &Plan, slot: &CallSlot, count: u32, committed: StableHow) -> Result<(), Fault> {
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
    if committed < stable_how(plan.stability) {
        let detail = format!("stable_how {} for {:?}", committed as u32, plan.stability);
        return Err(counted("too weak".to_owned(), detail));
    }
    Ok(())
}

#[cold]
pub(super) fn refused(status: &str, slot: &CallSlot) -> Fault {
    let detail = match slot.kind {
        Kind::Read | Kind::Write => {
            format!("{status}, file {}, offset {}", slot.position.file, slot.position.offset)
        }
        Kind::Readdirplus => "listing".to_owned(),
        _ => status.to_owned(),
    };
    counted(status.to_owned(), detail)
}
