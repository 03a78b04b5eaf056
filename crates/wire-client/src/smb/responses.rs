//! Responses of SMB to the requests of a call, in order.

use smb_wire::compound::Message;
use smb_wire::dir::OutputResponse;
use smb_wire::header::Command;
use smb_wire::{Decode, Malformed, chain};

use crate::call::{ListedPage, Rejection};
use crate::error::Error;

/// Fails if the next response is not to `wanted`.
pub(super) fn message<'a>(
    next: Option<Result<Message<'a>, Malformed>>,
    wanted: Command,
) -> Result<Message<'a>, Rejection> {
    match next {
        Some(Ok(message)) if message.header.command == wanted => Ok(message),
        Some(Ok(message)) => {
            let command = message.header.command;
            Err(Error::Protocol(format!("a response to {command:?} in place of {wanted:?}")).into())
        }
        Some(Err(malformed)) => Err(malformed.into()),
        None => Err(Error::Protocol(format!("a compound is answered without {wanted:?}")).into()),
    }
}

#[inline]
pub(super) fn body<'a, T: Decode<'a>>(message: &Message<'a>) -> Result<T, Rejection> {
    T::decode(&mut message.body()).map_err(Rejection::from)
}

/// Parses entries of `FileIdBothDirectoryInformation`.
pub(super) fn listed(message: &Message<'_>) -> Result<ListedPage, Rejection> {
    let output = body::<OutputResponse<&[u8]>>(message)?.output;
    let mut entries = 0;
    for entry in chain::entries(8, output) {
        let is_dot = is_dot(entry?)
            .ok_or_else(|| Error::Protocol("an entry of a listing that ends before its name".to_owned()))?;
        entries += u64::from(!is_dot);
    }
    if entries == 0 && output.is_empty() {
        return Err(Error::Protocol("QUERY_DIRECTORY without entries and not at the end".to_owned()).into());
    }
    // The server keeps the position; any cookie but 0 continues.
    Ok(ListedPage { entries, cookie: 1, cookieverf: [0; 8], eof: false })
}

/// Whether an entry of `FileIdBothDirectoryInformation`, MS-FSCC §2.4.17, is `.` or `..`. `None` if the entry
/// is too short.
fn is_dot(entry: &[u8]) -> Option<bool> {
    const LENGTH_AT: usize = 60;
    const NAME_AT: usize = 104;
    let length = u32::from_le_bytes(*entry.get(LENGTH_AT..)?.first_chunk()?) as usize;
    let name = entry.get(NAME_AT..)?.get(..length)?;
    Some(matches!(name, b".\0" | b".\0.\0"))
}
