//! The table in virtual time: rules as data, a model, and random traces.

mod delivery;
mod leases;
mod model;
mod ranges;
mod restore;
mod scenarios;
mod shares;
mod traces;
mod wait_queue;

use super::table::Table;
use super::*;
use crate::FileKey;
use crate::qos::Nanos;

pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) fn key(number: u8) -> FileKey {
    FileKey::new(&[number]).unwrap()
}

pub(super) struct Rig {
    pub table: Table,
    pub now: Nanos,
    pub effects: Vec<Effect>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self { table: Table::new(Timeouts::default(), 1, 1), now: Nanos(SECOND), effects: Vec::new() }
    }

    pub(super) fn apply(&mut self, file: u8, request: &Request) -> Verdict {
        let (verdict, effects) = self.table.apply(self.now, &key(file), request);
        self.effects.extend(effects);
        verdict
    }

    pub(super) fn granted(&mut self, request: &Request) -> Granted {
        match self.apply(1, request) {
            Verdict::Granted(granted) => granted,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    pub(super) fn open(&mut self, request: OpenRequest) -> OpenId {
        self.granted(&Request::Open(request)).open.unwrap()
    }

    pub(super) fn refused(&mut self, request: &Request) -> Conflict {
        match self.apply(1, request) {
            Verdict::Refused(conflict) => conflict,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    pub(super) fn waits(&mut self, request: &Request) -> Ticket {
        match self.apply(1, request) {
            Verdict::Wait(ticket) => ticket,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// Lets time pass and enforces deadlines.
    pub(super) fn pass(&mut self, seconds: u64) {
        self.now.0 += seconds * SECOND;
        let effects = self.table.expire(self.now);
        self.effects.extend(effects);
    }

    pub(super) fn removed(&mut self, stream: u32) {
        let effects = self.table.removed(self.now, &key(1), Stream(stream));
        self.effects.extend(effects);
    }

    /// Whether the last close deletes a stream, and under which name.
    pub(super) fn decided(&self, stream: u32) -> (bool, Option<Link>) {
        let (file, stream) = (key(1), Stream(stream));
        (self.table.is_deleted(&file, stream), self.table.deletion_of(&file, stream))
    }

    pub(super) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The recalls so far: holder, rights before and after, and whether an acknowledgment is expected.
    pub(super) fn recalls(&mut self) -> Vec<(HolderId, Caching, Caching, bool)> {
        let recall = |effect| match effect {
            Effect::Recall { holder, from, to, acknowledge, .. } => Some((holder, from, to, acknowledge)),
            _ => None,
        };
        self.take().into_iter().filter_map(recall).collect()
    }

    pub(super) fn outcomes(&mut self) -> Vec<(Ticket, Outcome)> {
        let outcome = |effect| match effect {
            Effect::Resume { ticket, outcome, .. } => Some((ticket, outcome)),
            _ => None,
        };
        self.take().into_iter().filter_map(outcome).collect()
    }

    pub(super) fn acknowledge(&mut self, key: LeaseKey, keeps: Caching) -> Verdict {
        self.apply(1, &Request::Acknowledge { key, stream: Stream::default(), keeps })
    }
}

pub(super) fn read_write() -> Access {
    Access { rights: Rights::READ | Rights::WRITE, deny: Rights::NONE }
}

pub(super) fn opening(holder: u64, access: Access) -> OpenRequest {
    OpenRequest {
        holder: HolderId(holder),
        stream: Stream::default(),
        access,
        truncates: false,
        is_mandatory: false,
        is_advisory: false,
        lease: None,
        reclaims: false,
        waits: true,
    }
}

pub(super) fn caching(text: &str) -> Caching {
    let bit = |letter, bit| if text.contains(letter) { bit } else { Caching::NONE };
    bit('R', Caching::READ) | bit('W', Caching::WRITE) | bit('H', Caching::HANDLE)
}

pub(super) fn shared(key: u128, want: &str) -> Option<LeaseRequest> {
    Some(LeaseRequest {
        kind: LeaseKind::Shared { client: 1, key },
        want: caching(want),
        answers_within: None,
        epoch: 0,
    })
}

pub(super) fn shared_key(key: u128) -> LeaseKey {
    LeaseKey::Shared { client: 1, key }
}

pub(super) fn locking(holder: u64, start: u64, len: u64, is_exclusive: bool) -> LockRequest {
    LockRequest {
        owner: LockOwner { holder: HolderId(holder), owner: 0 },
        open: None,
        stream: Stream::default(),
        span: Span::clamped(start, len),
        is_exclusive,
        is_enforced: false,
        reclaims: false,
        queueing: Queueing::Never,
    }
}

pub(super) fn io(by: Requester, kind: IoKind) -> Request {
    Request::Io(Io { by, stream: Stream::default(), kind, span: Span::clamped(0, 10), waits: true })
}

pub(super) fn disconnect(open: OpenId, is_persistent: bool) -> Request {
    Request::Disconnect { open, durable: Durable { until: Nanos(60 * SECOND), is_persistent } }
}
