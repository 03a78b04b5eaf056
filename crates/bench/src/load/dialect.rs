//! The protocol of a connection: its calls, and their results.

use std::sync::Arc;

use wire_client::Version;
use wire_client::call::{CallKind, CallResult, OpenId, ReadHead, Rejection};
use wire_client::nfs3;
use wire_client::nfs4;
use wire_client::smb::call as smb_call;

use super::call::Call;
use super::plan::{Kind, Plan};
use super::reply::{self, CallOutcome, CallSlot, ReadResult};
use super::v4::SlotState;
use super::{smb, v3, v4};
use crate::driver::calls::Calls;
use crate::driver::fault::{Fault, ReplyError};
use crate::driver::generator::Reply;

#[derive(Debug)]
pub(super) enum Dialect {
    V3(Arc<v3::Templates>),
    V4(Arc<v4::Templates>, Vec<SlotState>),
    Smb(Box<smb::Opens>),
}

pub(super) fn number(kind: Kind, version: Version) -> u32 {
    match version {
        Version::V3 => nfs3::call::procedure(kind.into()).0,
        Version::V41 | Version::V42 => nfs4::call::operation(kind.into()).0,
        Version::Smb(_) => smb::command(kind).0.into(),
    }
}

impl From<Kind> for CallKind {
    #[inline]
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Null => Self::Null,
            Kind::Getattr => Self::Getattr,
            Kind::Lookup => Self::Lookup,
            Kind::Access => Self::Access,
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
            Kind::Create => Self::Create,
            Kind::Remove => Self::Remove,
            Kind::Rename => Self::Rename,
            Kind::Readdirplus => Self::Readdirplus,
            Kind::Commit => Self::Commit,
            Kind::Open => Self::Open,
            Kind::Close => Self::Close,
        }
    }
}

impl Dialect {
    /// Only SMB has credits.
    #[inline]
    pub(super) fn affords(&self, kind: Kind, transfer: u32, calls: &Calls) -> bool {
        match self {
            Self::V3(_) | Self::V4(..) => true,
            Self::Smb(_) => {
                calls.channel().is_none_or(|channel| channel.affords(smb::charge(kind, transfer)))
            }
        }
    }

    #[inline]
    pub(super) fn push(&mut self, call: &Call<'_>, calls: &mut Calls) {
        match self {
            Self::V3(templates) => templates.push(call, calls),
            Self::V4(templates, places) => templates.push(call, &mut places[call.slot], calls),
            Self::Smb(opens) => opens.push(call, calls),
        }
    }

    /// Checks the reply in slot `index`, and notes opened and closed files.
    #[inline]
    pub(super) fn check(
        &mut self,
        plan: &Plan,
        slot: &CallSlot,
        index: usize,
        reply: &Reply<'_>,
    ) -> Result<CallOutcome, ReplyError> {
        let refused = |rejection| ReplyError::new(rejection, |status| reply::refused(&status, slot));
        if slot.kind == Kind::Read {
            let (head, data) = self.read_head(index, reply)?.map_err(refused)?;
            let padded = match self {
                // XDR pads opaque data to 4 bytes.
                Self::V3(_) | Self::V4(..) => (head.length as usize).next_multiple_of(4),
                Self::Smb(_) => head.length as usize,
            };
            return Ok(ReadResult { head, data, padded, missing: reply.missing }.judge(plan, slot)?);
        }
        let result = match self {
            Self::V3(_) => nfs3::call::decode(slot.kind.into(), reply.results()?),
            Self::V4(_, places) => {
                nfs4::call::decode(slot.kind.into(), &mut places[index].slot, reply.results()?)
            }
            Self::Smb(_) => smb_call::decode(slot.kind.into(), smb::requests(slot.kind), reply.bytes),
        };
        let result = result.map_err(refused)?;
        match (&mut *self, result) {
            (Self::V4(_, places), CallResult::Opened(OpenId::Nfs4(stateid), file)) => {
                places[index].set_open(stateid, file);
            }
            (Self::Smb(opens), CallResult::Opened(OpenId::Smb(file_id), _)) => {
                *opens.opened_mut(index) = Some(file_id);
            }
            (Self::V4(_, places), _) if slot.kind == Kind::Close => places[index].set_closed(),
            (Self::Smb(opens), _) if slot.kind == Kind::Close => *opens.opened_mut(index) = None,
            _ => {}
        }
        Ok(reply::check(plan, slot, result)?)
    }

    /// The results of a READ up to its data, and the received data.
    #[inline]
    fn read_head<'a>(
        &mut self,
        index: usize,
        reply: &Reply<'a>,
    ) -> Result<Result<(ReadHead, &'a [u8]), Rejection>, Fault> {
        Ok(match self {
            Self::V3(_) => {
                let mut results = reply.results()?;
                nfs3::call::decode_read_head(&mut results).map(|head| (head, results.rest()))
            }
            Self::V4(_, places) => nfs4::call::decode_read_head(&mut places[index].slot, reply.results()?),
            Self::Smb(_) => smb_call::decode_read_head(reply.bytes),
        })
    }

    #[inline]
    pub(super) fn has_open(&self, index: usize) -> bool {
        match self {
            Self::V3(_) => false,
            Self::V4(_, places) => places.get(index).is_some_and(SlotState::is_open),
            Self::Smb(opens) => opens.has_open(index),
        }
    }
}
