//! The headers of a message's commands: what is known of a message before any of it is done.

use crate::limits::COMPOUND_COMMANDS_MAX;
use crate::state::connection::Connection;
use smb_wire::compound;
use smb_wire::header::{Command, Header};
use transport::Malformed;

/// The headers of a chain of commands, in their order.
#[derive(Default)]
pub(crate) struct RequestHeaders {
    /// Most messages have one.
    first: Option<Header>,
    rest: Vec<Header>,
}

impl RequestHeaders {
    /// Those of a message, which must be a chain of commands, and not of too many.
    pub(crate) fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut headers = Self::default();
        for (count, request) in compound::messages(message).enumerate() {
            let header = request.map_err(|malformed| Malformed(malformed.0))?.header;
            if count == COMPOUND_COMMANDS_MAX {
                return Err(Malformed("a compound of too many commands"));
            }
            match headers.first {
                None => headers.first = Some(header),
                Some(_) => headers.rest.push(header),
            }
        }
        Ok(headers)
    }

    /// The header of a message's only command.
    pub(crate) fn single(&self) -> Option<&Header> {
        self.first.as_ref().filter(|_| self.rest.is_empty())
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Header> {
        self.first.iter().chain(&self.rest)
    }

    /// Uses the message ids of all of them.
    pub(crate) fn consume_ids(&self, connection: &Connection) -> Result<(), Malformed> {
        // A CANCEL names the request that it is about.
        let mut asking = self.iter().filter(|header| header.command != Command::CANCEL);
        asking.try_for_each(|header| connection.take_ids(header.message_id, header.credit_charge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::error::ErrorResponse;

    /// A compound of so many ECHOs.
    fn compound_of(count: u64) -> Vec<u8> {
        let (mut out, mut previous) = (Vec::new(), None);
        for id in 0..count {
            if let Some(previous) = previous {
                compound::link(&mut out, previous);
            }
            let header = Header::request(Command::ECHO, id, 0, 0);
            previous = Some(compound::push(&mut out, &header, &ErrorResponse::default()));
        }
        out
    }

    #[test]
    fn all_commands_of_a_message_are_known_in_their_order() {
        let ids =
            |headers: &RequestHeaders| headers.iter().map(|header| header.message_id).collect::<Vec<_>>();
        let one = RequestHeaders::parse(&compound_of(1)).unwrap();
        assert_eq!((ids(&one), one.single().map(|header| header.message_id)), (vec![0], Some(0)));
        let three = RequestHeaders::parse(&compound_of(3)).unwrap();
        assert_eq!((ids(&three), three.single()), (vec![0, 1, 2], None));
        assert!(RequestHeaders::default().single().is_none());
    }

    #[test]
    fn what_is_no_chain_or_too_long_a_one_is_refused() {
        let most = u64::try_from(COMPOUND_COMMANDS_MAX).unwrap();
        assert!(
            RequestHeaders::parse(&compound_of(most)).is_ok()
                && RequestHeaders::parse(&compound_of(most + 1)).is_err()
        );
        let three = compound_of(3);
        assert!(
            RequestHeaders::parse(&three[..three.len() / 2]).is_err() && RequestHeaders::parse(&[]).is_err()
        );
    }
}
