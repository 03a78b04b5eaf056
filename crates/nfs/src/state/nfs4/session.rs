//! Sessions: their negotiated channels, and the slots of requests.

use super::client::Client;
use super::slots::{CachedReply, RequestFingerprint, Slot, SlotVerdict};
use nfs_wire::v4::{ChannelAttrs, SequenceStatus, SessionId, Status};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use vfs::bounds::{self, Bounds};
use vfs::sync::Mutex;

/// A session of a client, RFC 8881 §2.10.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) client: Arc<Client>,
    /// The negotiated parameters of the fore channel.
    pub(crate) fore: ChannelAttrs,
    pub(crate) minor: u32,
    /// In blocks that are made when the first of their slots is used: clients agree on more than they mostly use.
    slots: Box<[OnceLock<SlotBlock>]>,
    /// The bytes of replies that all sessions keep.
    cached_replies: Arc<Bounds>,
    _room: bounds::Slot,
    has_ended: AtomicBool,
    pub(super) back_status: Arc<AtomicU32>,
}

/// Slots that are made together.
type SlotBlock = Box<[Mutex<Slot>; SLOT_BLOCK]>;
const SLOT_BLOCK: usize = 16;

/// A request that was begun in a slot. If it has no reply when this is dropped, it may be sent again, unless it has changed something.
pub(crate) struct SlotInUse {
    session: Arc<Session>,
    slot: u32,
    /// The room for the reply, if the client wants it kept. Most do not, and carry little.
    room: Option<Box<CachedReply>>,
    /// Something was changed: it is not done again, even if there is no reply.
    has_changed: bool,
    is_complete: bool,
}

pub(crate) enum SequenceStart {
    New(SlotInUse),
    Replay(Box<[u8]>),
}

impl Session {
    /// A session with as many slots as were agreed on, in the room for it and its replies.
    pub(crate) fn new(
        id: SessionId,
        client: Arc<Client>,
        minor: u32,
        fore: ChannelAttrs,
        room: bounds::Slot,
        cached_replies: &Arc<Bounds>,
    ) -> Self {
        let blocks = (fore.maxrequests as usize).div_ceil(SLOT_BLOCK);
        let slots = (0..blocks).map(|_| OnceLock::new()).collect();
        Self {
            id,
            client,
            fore,
            minor,
            slots,
            cached_replies: Arc::clone(cached_replies),
            _room: room,
            has_ended: AtomicBool::new(false),
            back_status: Arc::default(),
        }
    }

    /// The SEQUENCE flags of its back channel.
    pub(crate) fn back_status(&self) -> SequenceStatus {
        SequenceStatus(self.back_status.load(Ordering::Relaxed))
    }

    /// Ends the session. Holders of a reference begin no further requests.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The number of the last slot.
    pub(crate) fn highest_slot(&self) -> u32 {
        self.fore.maxrequests - 1
    }

    pub(crate) fn begin(
        self: Arc<Self>,
        slot: u32,
        sequence: u32,
        fingerprint: RequestFingerprint,
        caches_reply: bool,
    ) -> Result<SequenceStart, Status> {
        if slot > self.highest_slot() {
            return Err(Status::BADSLOT);
        }
        let verdict =
            self.slot(slot).begin(sequence, fingerprint, |before| self.reserve(caches_reply, before));
        match verdict {
            SlotVerdict::New(room) => {
                let session = self;
                Ok(SequenceStart::New(SlotInUse {
                    session,
                    slot,
                    room,
                    has_changed: false,
                    is_complete: false,
                }))
            }
            SlotVerdict::Replay(reply) => Ok(SequenceStart::Replay(reply)),
            SlotVerdict::Refused(status) => Err(status),
        }
    }

    /// Room for the longest reply that a request may have kept, which may be where the one before was.
    fn reserve(
        &self,
        caches_reply: bool,
        before: Option<Box<CachedReply>>,
    ) -> Result<Option<Box<CachedReply>>, Status> {
        if !caches_reply {
            return Ok(None);
        }
        let most = self.fore.maxresponsesize_cached as usize;
        let room = match before {
            Some(mut room) => room.reserve(most).map(|()| room),
            None => self.cached_replies.take(&self.client.party, most).map(CachedReply::in_room),
        };
        room.map(Some).map_err(|_| Status::DELAY)
    }

    fn slot(&self, slot: u32) -> MutexGuard<'_, Slot> {
        let (block, index) = (slot as usize / SLOT_BLOCK, slot as usize % SLOT_BLOCK);
        // Allocated on first use: clients negotiate more slots than they use.
        let block = self.slots[block].get_or_init(Default::default);
        block[index].lock()
    }
}

impl SlotInUse {
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Notes that an operation changed something: the request must not run again.
    pub(crate) fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Whether the client asked for a cached reply.
    pub(crate) fn keeps(&self) -> bool {
        self.room.is_some()
    }

    /// The request is done, and these are the results in its reply, as far as they are in memory.
    pub(crate) fn complete(mut self, results: Option<&[u8]>) {
        self.is_complete = true;
        let cached = self.room.take().and_then(|mut room| {
            let max = self.session.fore.maxresponsesize_cached as usize;
            room.store(results.filter(|results| results.len() <= max)?);
            Some(room)
        });
        self.session.slot(self.slot).complete(cached);
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
