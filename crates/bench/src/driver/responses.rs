//! Responses of SMB to the requests of a call, one after another.

use smb_wire::compound::Message;
use smb_wire::header::Command;
use smb_wire::{Decode, Malformed};

use super::compound::{Refusal, fatal};
use crate::error::Error;

/// The next response, which is to this command.
pub(crate) fn message<'a>(
    next: Option<Result<Message<'a>, Malformed>>,
    wanted: Command,
) -> Result<Message<'a>, Refusal> {
    match next {
        Some(Ok(message)) if message.header.command == wanted => Ok(message),
        Some(Ok(message)) => {
            let command = message.header.command;
            Err(fatal(Error::Protocol(format!("a response to {command:?} in place of {wanted:?}"))))
        }
        Some(Err(malformed)) => Err(fatal(malformed.into())),
        None => Err(fatal(Error::Protocol(format!("a compound is answered without {wanted:?}")))),
    }
}

/// What a response says.
#[inline]
pub(crate) fn body<'a, T: Decode<'a>>(message: &Message<'a>) -> Result<T, Refusal> {
    T::decode(&mut message.body()).map_err(|malformed| fatal(malformed.into()))
}
