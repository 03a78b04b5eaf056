//! The headers of a message's commands, parsed before any command runs.

use crate::limits::COMPOUND_COMMANDS_MAX;
use crate::state::connection::Connection;
use smb_wire::compound;
use smb_wire::header::{Command, Header};
use transport::Malformed;

/// The headers of a compound, in order.
#[derive(Default)]
pub(crate) struct RequestHeaders {
    /// Avoids an allocation: most messages have one command.
    first: Option<Header>,
    rest: Vec<Header>,
}

impl RequestHeaders {
    /// Parses the headers of a message. Fails if it is not a compound, or has too many commands.
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

    /// The header of a single command.
    pub(crate) fn single(&self) -> Option<&Header> {
        self.first.as_ref().filter(|_| self.rest.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Header> {
        self.first.iter().chain(&self.rest)
    }

    /// Consumes the message ids of all commands.
    pub(crate) fn consume_ids(&self, connection: &Connection) -> Result<(), Malformed> {
        // A CANCEL carries the message id of the request that it cancels.
        let mut asking = self.iter().filter(|header| header.command != Command::CANCEL);
        asking.try_for_each(|header| connection.take_ids(header.message_id, header.credit_charge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::error::ErrorResponse;

    /// A compound of ECHOs.
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
    fn headers_are_parsed_in_order() {
        let ids =
            |headers: &RequestHeaders| headers.iter().map(|header| header.message_id).collect::<Vec<_>>();
        let one = RequestHeaders::parse(&compound_of(1)).unwrap();
        assert_eq!((ids(&one), one.single().map(|header| header.message_id)), (vec![0], Some(0)));
        let three = RequestHeaders::parse(&compound_of(3)).unwrap();
        assert_eq!((ids(&three), three.single()), (vec![0, 1, 2], None));
        assert!(RequestHeaders::default().single().is_none());
    }

    #[test]
    fn malformed_or_oversized_compound_is_refused() {
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
