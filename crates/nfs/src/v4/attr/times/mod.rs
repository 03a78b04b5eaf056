//! Delegated timestamps: times that a client with a write delegation maintains (RFC 9754 §5).

use super::super::compound_state::{CompoundState, OpError, OpResult};
use crate::call::File;
use crate::state::nfs4::write_delegations::valid_time;
use nfs_wire::v4::{Bitmap, Fattr, NfsTime, SetattrArgs, Stateid, Status, attr};
use vfs::Time;
use xdr::{Decode, Encode, Reader, Writer};

/// They are set with a SETATTR of their own, before the delegation is returned.
pub(super) const DELEGATED_TIMES: Bitmap = Bitmap::of(&[attr::TIME_DELEG_ACCESS, attr::TIME_DELEG_MODIFY]);

/// SETATTR of these times, which requires the delegation. Times before the file's own are ignored; future times become
/// now.
pub(super) fn set(cx: &mut CompoundState<'_, '_>, args: &SetattrArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    if !cx.delegates_times() {
        return Err(OpError::Status(Status::ATTRNOTSUPP));
    }
    let attrmask = args.obj_attributes.attrmask;
    if !DELEGATED_TIMES.contains_all(&attrmask) {
        return Err(OpError::Status(Status::INVAL));
    }
    let (accessed, modified) = read(&args.obj_attributes)?;
    let file = cx.file()?;
    check_delegation(cx, &file, &args.stateid)?;
    file.adopt_times(accessed, modified, cx.call.now, Some(&mut *cx.call.pending))?;
    attrmask.encode(w);
    Ok(())
}

fn read(attributes: &Fattr<'_>) -> Result<(Option<Time>, Option<Time>), Status> {
    let mut r = Reader::new(attributes.attr_vals);
    let mut time = |number| {
        if !attributes.attrmask.contains(number) {
            return Ok(None);
        }
        let time = NfsTime::decode(&mut r).map_err(|_| Status::BADXDR)?;
        valid_time(time).map(Some).ok_or(Status::INVAL)
    };
    let times = (time(attr::TIME_DELEG_ACCESS)?, time(attr::TIME_DELEG_MODIFY)?);
    if r.remaining() > 0 { Err(Status::BADXDR) } else { Ok(times) }
}

/// [`Status::BAD_STATEID`] unless the stateid is a delegation of this file with delegated timestamps.
fn check_delegation(cx: &CompoundState<'_, '_>, file: &File, stateid: &Stateid) -> OpResult {
    if file.caller.read_only {
        return Err(OpError::Status(Status::ROFS));
    }
    let client = cx.client_of(stateid)?;
    let states = client.states();
    let delegation = states.delegation(states.find(&cx.stateid(stateid)?)?)?;
    let is_of_file = delegation.file == (file.export_id(), file.key());
    let keeps_times = delegation.writing.as_ref().is_some_and(|writing| writing.writer.keeps_times);
    if is_of_file && keeps_times { Ok(()) } else { Err(OpError::Status(Status::BAD_STATEID)) }
}

#[cfg(test)]
mod tests;
