//! Users and groups as attributes: by number, or by name in a domain (RFC 8881 §5.9).

use super::super::compound_state::OpError;
use crate::id_map::{IdKind, IdNames};
use crate::state::nfs4::ServiceState;
use nfs_wire::v4::Status;
use std::sync::Arc;
use vfs::{Blocking, FsResult};
use xdr::{Encode, Writer};

#[derive(Clone, Copy)]
pub(in crate::v4) struct Naming<'n> {
    /// `None` where they are numbers.
    names: Option<&'n IdNames>,
    /// The second at which it is asked.
    now: u64,
    blocking: Blocking,
}

/// A user or group as it is sent.
pub(super) enum Owner {
    Number(u32),
    Name(Arc<str>),
}

impl<'n> Naming<'n> {
    #[inline]
    pub(in crate::v4) fn of(state: &'n ServiceState, blocking: Blocking) -> Self {
        let names = state.names.as_ref();
        Self { names, now: if names.is_some() { state.second() } else { 0 }, blocking }
    }

    /// The owner with this number: its name, or the number itself.
    #[inline]
    pub(super) fn owner(&self, kind: IdKind, id: u32) -> FsResult<Owner> {
        let Some(names) = self.names else { return Ok(Owner::Number(id)) };
        let name = names.name(kind, id, self.now, self.blocking)?;
        Ok(name.map_or(Owner::Number(id), Owner::Name))
    }

    /// The number of a user or group: in digits, with any domain, or by a name in ours.
    pub(super) fn id(&self, kind: IdKind, text: &[u8]) -> Result<u32, OpError> {
        let text = std::str::from_utf8(text).map_err(|_| OpError::Status(Status::INVAL))?;
        if text.is_empty() {
            return Err(OpError::Status(Status::INVAL));
        }
        let number = text.split_once('@').map_or(text, |(number, _domain)| number);
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && let Ok(number) = number.parse() {
            return Ok(number);
        }
        let named = match self.names {
            Some(names) => names.id(kind, text, self.now, self.blocking)?,
            None => None,
        };
        named.ok_or(OpError::Status(Status::BADOWNER))
    }
}

impl Encode for Owner {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Number(id) => encode_number(*id, w),
            Self::Name(name) => w.opaque(name.as_bytes()),
        }
    }
}

/// Encodes a number in decimal digits.
#[inline]
fn encode_number(id: u32, w: &mut Writer<'_>) {
    // Least significant digit first: it ends up in the highest byte.
    let (mut digits, mut length, mut rest) = (0u128, 0, id);
    loop {
        digits = digits << 8 | u128::from(b'0' + (rest % 10).to_le_bytes()[0]);
        length += 1;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    w.length(length);
    let start = w.len();
    // Twelve bytes in one store, then truncated.
    w.fixed(&digits.to_le_bytes()[..DIGITS_MAX.next_multiple_of(4)]);
    w.truncate(start + length.next_multiple_of(4));
}

const DIGITS_MAX: usize = 10;
