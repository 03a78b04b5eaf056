//! How the calls of a load are made on one connection, and what replies to them mean.

use std::sync::Arc;

use super::call::Call;
use super::plan::{Kind, Plan};
use super::reply::{self, Good, Slot};
use super::v4::Place;
use super::{smb, v3, v4};
use crate::driver::calls::Calls;
use crate::driver::compound::Refusal;
use crate::driver::generator::Reply;
use crate::target::Version;

/// What is spoken on a connection, with the calls of its client prepared.
#[derive(Debug)]
pub(super) enum Dialect {
    V3(Arc<v3::Templates>),
    /// With a place for each call slot.
    V4(Arc<v4::Templates>, Vec<Place>),
    Smb(Box<smb::Opens>),
}

/// The number by which calls of a kind are counted.
pub(super) fn number(kind: Kind, version: Version) -> u32 {
    match version {
        Version::V3 => v3::procedure(kind).map_or(0, |procedure| procedure.0),
        Version::V41 | Version::V42 => v4::operation(kind).0,
        Version::Smb(_) => smb::command(kind).0.into(),
    }
}

impl Dialect {
    /// Whether a call can be made now: over SMB it takes credits.
    #[inline]
    pub(super) fn affords(&self, kind: Kind, transfer: u32, calls: &Calls) -> bool {
        match self {
            Self::V3(_) | Self::V4(..) => true,
            Self::Smb(_) => {
                calls.channel().is_none_or(|channel| channel.affords(smb::charge(kind, transfer)))
            }
        }
    }

    /// Puts a call into the outbox.
    #[inline]
    pub(super) fn push(&mut self, call: &Call<'_>, calls: &mut Calls) {
        match self {
            Self::V3(templates) => templates.push(call, calls),
            Self::V4(templates, places) => templates.push(call, &mut places[call.slot], calls),
            Self::Smb(opens) => opens.push(call, calls),
        }
    }

    /// Judges the reply to the call in slot `index`.
    #[inline]
    pub(super) fn judge(
        &mut self,
        plan: &Plan,
        slot: &Slot,
        index: usize,
        reply: &Reply<'_>,
    ) -> Result<Good, Refusal> {
        let missing = reply.missing;
        match self {
            Self::V3(_) => Ok(reply::judge(plan, slot, reply.results()?, missing)?),
            Self::V4(_, places) => {
                v4::reply::judge(plan, slot, &mut places[index], reply.results()?, missing)
            }
            Self::Smb(opens) => smb::reply::judge(plan, slot, opens.opened_mut(index), reply),
        }
    }

    /// Whether a slot has a file open.
    #[inline]
    pub(super) fn has_open(&self, index: usize) -> bool {
        match self {
            Self::V3(_) => false,
            Self::V4(_, places) => places.get(index).is_some_and(Place::is_open),
            Self::Smb(opens) => opens.has_open(index),
        }
    }
}
