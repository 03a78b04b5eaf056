//! One step of a table on one file: its inputs and its effects.

use super::{
    Effect, Granted, HolderId, HolderUsers, LeaseKey, OpenId, Outcome, RevokedClaim, Ticket, Verdict,
};
use crate::FileKey;
use crate::qos::Nanos;
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To acknowledge a break (MS-SMB2 3.3.2.1: 35 seconds).
    pub acknowledged: Nanos,
    /// To return a delegation.
    pub returned: Nanos,
}

pub(super) struct Step<'a> {
    pub now: Nanos,
    pub file: FileKey,
    pub lapsed: &'a HashSet<HolderId>,
    pub users: &'a HolderUsers,
    pub timeouts: Timeouts,
    pub next_id: &'a mut u64,
    pub id_step: u64,
    /// Holders that may have a first claim on this file.
    pub touched: Vec<HolderId>,
    pub effects: Vec<Effect>,
}

/// The requester, as leases and ranges see it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Actor {
    pub holder: Option<HolderId>,
    pub open: Option<OpenId>,
    pub key: Option<LeaseKey>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { acknowledged: Nanos(35_000_000_000), returned: Nanos(45_000_000_000) }
    }
}

impl Step<'_> {
    pub(super) fn id(&mut self) -> u64 {
        let id = *self.next_id;
        *self.next_id += self.id_step;
        id
    }

    pub(super) fn revoked(&mut self, holder: HolderId, what: RevokedClaim) {
        self.effects.push(Effect::Revoked { holder, file: self.file, what });
    }

    pub(super) fn resume(&mut self, holder: HolderId, ticket: Ticket, outcome: Outcome) {
        self.effects.push(Effect::Resume { holder, file: self.file, ticket, outcome });
    }
}

pub(super) fn granted() -> Verdict {
    Verdict::Granted(Granted::default())
}
