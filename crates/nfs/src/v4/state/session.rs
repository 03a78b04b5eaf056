//! Sessions: what a client and we have agreed on, and the slots of its requests.

use super::client::Client;
use super::slots::{Kept, Print, Slot, Turn};
use nfs_wire::v4::{ChannelAttrs, SequenceStatus, SessionId, Status};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A session of a client, RFC 8881 §2.10.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) client: Arc<Client>,
    /// What was agreed on for requests of the client.
    pub(crate) fore: ChannelAttrs,
    /// The minor version that it was made with.
    pub(crate) minor: u32,
    /// In blocks that are made when the first of their slots is used: clients agree on more than they mostly use.
    slots: Box<[OnceLock<SlotBlock>]>,
    kept_bytes: Arc<AtomicUsize>,
    has_ended: AtomicBool,
    /// What is to be said of its back channel.
    pub(super) back_status: Arc<AtomicU32>,
}

/// Slots that are made together.
type SlotBlock = Box<[Mutex<Slot>; SLOT_BLOCK]>;
const SLOT_BLOCK: usize = 16;

/// A request that was begun in a slot. If it has no reply when this is dropped, it may be sent again, unless it has changed something.
pub(crate) struct SlotInUse {
    session: Arc<Session>,
    slot: u32,
    /// Whether the client wants the reply kept.
    keeps: bool,
    /// Something was changed: it is not done again, even if there is no reply.
    has_changed: bool,
    is_complete: bool,
}

/// What a session makes of a request.
pub(crate) enum Begun {
    /// It is new.
    New(SlotInUse),
    /// It was done, and this was the reply.
    Replay(Box<[u8]>),
}

impl Session {
    /// A session with as many slots as were agreed on. `kept_bytes` counts the replies that all sessions keep.
    pub(crate) fn new(
        id: SessionId,
        client: Arc<Client>,
        (minor, fore): (u32, ChannelAttrs),
        kept_bytes: &Arc<AtomicUsize>,
    ) -> Self {
        let blocks = (fore.maxrequests as usize).div_ceil(SLOT_BLOCK);
        let slots = (0..blocks).map(|_| OnceLock::new()).collect();
        Self {
            id,
            client,
            fore,
            minor,
            slots,
            kept_bytes: Arc::clone(kept_bytes),
            has_ended: AtomicBool::new(false),
            back_status: Arc::default(),
        }
    }

    /// What SEQUENCE has to say of its back channel.
    pub(crate) fn back_status(&self) -> SequenceStatus {
        SequenceStatus(self.back_status.load(Ordering::Relaxed))
    }

    /// Ends it: whoever still has it begins nothing more in it.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The number of the last slot.
    pub(crate) fn highest_slot(&self) -> u32 {
        self.fore.maxrequests - 1
    }

    /// Begins a request in a slot.
    pub(crate) fn begin(
        self: Arc<Self>,
        slot: u32,
        sequence: u32,
        print: Print,
        keeps: bool,
    ) -> Result<Begun, Status> {
        if slot > self.highest_slot() {
            return Err(Status::BADSLOT);
        }
        let turn = self.slot(slot).begin(sequence, print);
        match turn {
            Turn::New => {
                let session = self;
                Ok(Begun::New(SlotInUse { session, slot, keeps, has_changed: false, is_complete: false }))
            }
            Turn::Replay(reply) => Ok(Begun::Replay(reply)),
            Turn::Refused(status) => Err(status),
        }
    }

    /// One of the slots that were agreed on.
    fn slot(&self, slot: u32) -> MutexGuard<'_, Slot> {
        let (block, index) = (slot as usize / SLOT_BLOCK, slot as usize % SLOT_BLOCK);
        let block = self.slots[block].get_or_init(Default::default);
        block[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotInUse {
    /// The session.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// An operation of the request has changed something.
    pub(crate) fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Whether the client wants the reply kept.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// The request is done, and these are the results in its reply, as far as they are in memory.
    pub(crate) fn complete(mut self, results: Option<&[u8]>) {
        self.is_complete = true;
        let max = self.session.fore.maxresponsesize_cached as usize;
        let kept = results.filter(|results| self.keeps && results.len() <= max);
        let kept = kept.and_then(|results| Kept::new(results, &self.session.kept_bytes));
        self.session.slot(self.slot).complete(kept);
    }
}

impl Drop for SlotInUse {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        let mut slot = self.session.slot(self.slot);
        if self.has_changed { slot.complete(None) } else { slot.abandon() }
    }
}
