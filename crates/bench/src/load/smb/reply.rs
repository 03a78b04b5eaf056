//! Judging responses of SMB: the requests of each kind of call.

use smb_wire::compound::{self, Message};
use smb_wire::create::CreateResponse;
use smb_wire::dir::OutputResponse;
use smb_wire::file::{ReadResponse, WriteResponse};
use smb_wire::header::Command;
use smb_wire::{ExternalBuffer, FileId, NtStatus, chain};

use super::command;
use crate::driver::compound::{Refusal, fatal};
use crate::driver::generator::Reply;
use crate::driver::responses::{body, message};
use crate::error::Error;
use crate::load::plan::{Kind, Plan, stable_how};
use crate::load::reply::{Good, Slot, Transferred, refused, written};

/// Judges the response to the call in `slot`, which has opened what `opened` says.
#[inline]
pub(in crate::load) fn judge(
    plan: &Plan,
    slot: &Slot,
    opened: &mut Option<FileId>,
    reply: &Reply<'_>,
) -> Result<Good, Refusal> {
    let mut all = compound::messages(reply.bytes);
    let mut next = |wanted: Command| message(all.next(), wanted);
    match slot.kind {
        Kind::Lookup | Kind::Remove | Kind::Rename => {
            let chain: &[Command] = match slot.kind {
                Kind::Lookup => &[Command::CREATE, Command::QUERY_INFO, Command::CLOSE],
                Kind::Rename => &[Command::CREATE, Command::SET_INFO, Command::CLOSE],
                _ => &[Command::CREATE, Command::CLOSE],
            };
            chain.iter().try_for_each(|&wanted| succeeded(&next(wanted)?, slot))?;
            return Ok(Good::default());
        }
        _ => {}
    }
    let message = next(command(slot.kind))?;
    if slot.kind == Kind::Readdirplus && message.header.status == NtStatus::NO_MORE_FILES {
        return Ok(Good { listing: Some((0, [0; 8], true)), ..Good::default() });
    }
    succeeded(&message, slot)?;
    match slot.kind {
        Kind::Read => return read(plan, slot, &message, reply.missing),
        Kind::Write => return write(plan, slot, &message),
        Kind::Readdirplus => return listing(&message),
        Kind::Create | Kind::Open => *opened = Some(body::<CreateResponse<'_>>(&message)?.file_id),
        Kind::Close => *opened = None,
        _ => {}
    }
    Ok(Good::default())
}

#[inline]
fn succeeded(message: &Message<'_>, slot: &Slot) -> Result<(), Refusal> {
    match message.header.status {
        NtStatus::SUCCESS => Ok(()),
        status => Err(refused(&format!("{status:?}"), slot).into()),
    }
}

/// READ: its data may not be there.
#[inline]
fn read(plan: &Plan, slot: &Slot, message: &Message<'_>, missing: usize) -> Result<Good, Refusal> {
    let ExternalBuffer { offset, length } = body::<ReadResponse<ExternalBuffer>>(message)?.data;
    let data = message.bytes.get(offset..).unwrap_or_default();
    let count = u32::try_from(length).unwrap_or(u32::MAX);
    let read = Transferred { count, length: count, eof: false, data, padded: length, missing };
    read.judge(plan, slot).map_err(Refusal::from)
}

#[inline]
fn write(plan: &Plan, slot: &Slot, message: &Message<'_>) -> Result<Good, Refusal> {
    let count = body::<WriteResponse>(message)?.count;
    // A server that does not write through says so with a status.
    written(plan, slot, count, stable_how(plan.stability) as u32)?;
    Ok(Good { bytes: u64::from(count), ..Good::default() })
}

fn listing(message: &Message<'_>) -> Result<Good, Refusal> {
    let output = body::<OutputResponse<&[u8]>>(message)?.output;
    let mut entries = 0;
    for entry in chain::entries(8, output) {
        let entry = entry.map_err(|malformed| fatal(malformed.into()))?;
        entries += u64::from(!is_dot(entry).ok_or_else(|| fatal(cut_short()))?);
    }
    if entries == 0 && output.is_empty() {
        return Err(fatal(Error::Protocol("QUERY_DIRECTORY without entries and not at the end".to_owned())));
    }
    Ok(Good { entries, listing: Some((1, [0; 8], false)), ..Good::default() })
}

#[cold]
fn cut_short() -> Error {
    Error::Protocol("an entry of a listing that ends before its name".to_owned())
}

/// Whether an entry of `FileIdBothDirectoryInformation`, MS-FSCC §2.4.17, is the directory itself or the one above; `None`: it
/// is too short.
fn is_dot(entry: &[u8]) -> Option<bool> {
    const LENGTH_AT: usize = 60;
    const NAME_AT: usize = 104;
    let length = u32::from_le_bytes(*entry.get(LENGTH_AT..)?.first_chunk()?) as usize;
    let name = entry.get(NAME_AT..)?.get(..length)?;
    Some(matches!(name, b".\0" | b".\0.\0"))
}
