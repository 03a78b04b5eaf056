//! Slots of a session: each request runs once, and its reply is cached for repetitions (RFC 8881 §2.10.6). Pure.

use nfs_wire::v4::Status;
use vfs::bounds;

#[derive(Debug, Default)]
pub(crate) struct Slot {
    sequence: u32,
    state: SlotState,
}

#[derive(Debug, Default)]
enum SlotState {
    /// No request yet.
    #[default]
    Fresh,
    /// A running request.
    Busy(RequestFingerprint),
    Done(RequestFingerprint, Option<Box<CachedReply>>),
}

/// A reply that is kept, or is to be, counted among all that are.
#[derive(Debug)]
pub(crate) struct CachedReply {
    reply: Box<[u8]>,
    room: bounds::Slot,
}

impl CachedReply {
    pub(crate) fn in_room(room: bounds::Slot) -> Box<Self> {
        Box::new(Self { reply: Box::default(), room })
    }

    /// Makes room for another reply of at most `most` bytes.
    pub(crate) fn reserve(&mut self, most: usize) -> Result<(), bounds::Full> {
        self.reply = Box::default();
        self.room.grow(most.saturating_sub(self.room.weight()))
    }

    /// Keeps a reply, in no more room than it takes.
    pub(crate) fn store(&mut self, reply: &[u8]) {
        self.room.set(reply.len());
        self.reply = reply.into();
    }
}

/// Distinguishes requests with the same sequence number: the user, and a checksum of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestFingerprint {
    pub(crate) uid: u32,
    pub(crate) checksum: u64,
}

#[derive(Debug)]
pub(crate) enum SlotVerdict {
    /// A new request: do it, then [`Slot::complete`] it. The client wants its reply kept if there is room here.
    New(Option<Box<CachedReply>>),
    Replay(Box<[u8]>),
    Refused(Status),
}

impl Slot {
    /// Begins the request with this sequence number, RFC 8881 §2.10.6.1 and §18.46.3. `reserve` makes room for its
    /// reply, and may reuse that of the previous reply. Without room the request does not run, since its reply could
    /// not be repeated.
    pub(crate) fn begin(
        &mut self,
        sequence: u32,
        fingerprint: RequestFingerprint,
        reserve: impl FnOnce(Option<Box<CachedReply>>) -> Result<Option<Box<CachedReply>>, Status>,
    ) -> SlotVerdict {
        if sequence == self.sequence.wrapping_add(1) {
            if matches!(self.state, SlotState::Busy(_)) {
                return SlotVerdict::Refused(Status::SEQ_MISORDERED);
            }
            // The client sent the next request, so it has the previous reply, whose room is free.
            let before = match &mut self.state {
                SlotState::Done(_, cached) => cached.take(),
                SlotState::Fresh | SlotState::Busy(_) => None,
            };
            let room = match reserve(before) {
                Ok(room) => room,
                Err(status) => return SlotVerdict::Refused(status),
            };
            self.sequence = sequence;
            self.state = SlotState::Busy(fingerprint);
            return SlotVerdict::New(room);
        }
        if sequence != self.sequence {
            return SlotVerdict::Refused(Status::SEQ_MISORDERED);
        }
        match &self.state {
            SlotState::Fresh => SlotVerdict::Refused(Status::SEQ_MISORDERED),
            SlotState::Busy(first) | SlotState::Done(first, _) if *first != fingerprint => {
                SlotVerdict::Refused(Status::SEQ_FALSE_RETRY)
            }
            SlotState::Busy(_) => SlotVerdict::Refused(Status::DELAY),
            SlotState::Done(_, Some(cached)) => SlotVerdict::Replay(cached.reply.clone()),
            SlotState::Done(_, None) => SlotVerdict::Refused(Status::RETRY_UNCACHED_REP),
        }
    }

    /// The request that was begun is done; its reply is kept if there is one.
    pub(crate) fn complete(&mut self, reply: Option<Box<CachedReply>>) {
        if let SlotState::Busy(fingerprint) = self.state {
            self.state = SlotState::Done(fingerprint, reply);
        }
    }

    /// The request that was begun has no reply: it may come again.
    pub(crate) fn abandon(&mut self) {
        if matches!(self.state, SlotState::Busy(_)) {
            self.sequence = self.sequence.wrapping_sub(1);
            self.state = SlotState::Fresh;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use vfs::bounds::{Bounds, Networks, Party};

    const PRINT: RequestFingerprint = RequestFingerprint { uid: 7, checksum: 1 };

    fn room() -> Box<CachedReply> {
        take(&Bounds::new(4096, 0)).unwrap()
    }

    fn take(bounds: &Arc<Bounds>) -> Result<Box<CachedReply>, bounds::Full> {
        bounds.take(&Party::of(Networks::default().of([10, 1, 0, 9].into())), 1000).map(CachedReply::in_room)
    }

    fn cached(reply: &[u8], mut room: Box<CachedReply>) -> Option<Box<CachedReply>> {
        room.store(reply);
        Some(room)
    }

    /// Begins a request: its reply, or its status, which is OK for a new one.
    fn begin(slot: &mut Slot, sequence: u32, fingerprint: RequestFingerprint) -> Result<Box<[u8]>, Status> {
        match slot.begin(sequence, fingerprint, |_| Ok(Some(room()))) {
            SlotVerdict::New(_) => Err(Status::OK),
            SlotVerdict::Replay(reply) => Ok(reply),
            SlotVerdict::Refused(status) => Err(status),
        }
    }

    #[test]
    fn a_request_is_done_once() {
        let mut slot = Slot::default();
        assert_eq!(begin(&mut slot, 0, PRINT), Err(Status::SEQ_MISORDERED), "nothing to repeat");
        assert_eq!(begin(&mut slot, 1, PRINT), Err(Status::OK));
        assert_eq!(begin(&mut slot, 1, PRINT), Err(Status::DELAY), "it is being done");
        assert_eq!(begin(&mut slot, 2, PRINT), Err(Status::SEQ_MISORDERED), "one at a time");
        slot.complete(cached(b"reply", room()));
        assert_eq!(begin(&mut slot, 1, PRINT), Ok(Box::from(&b"reply"[..])));
        assert_eq!(begin(&mut slot, 3, PRINT), Err(Status::SEQ_MISORDERED), "one is missing");
        assert_eq!(begin(&mut slot, 2, PRINT), Err(Status::OK));
        slot.complete(None);
        assert_eq!(begin(&mut slot, 2, PRINT), Err(Status::RETRY_UNCACHED_REP));
    }

    #[test]
    fn another_request_is_no_repetition() {
        let mut slot = Slot::default();
        begin(&mut slot, 1, PRINT).unwrap_err();
        slot.complete(cached(b"secret", room()));
        for other in [RequestFingerprint { uid: 8, ..PRINT }, RequestFingerprint { checksum: 2, ..PRINT }] {
            assert_eq!(begin(&mut slot, 1, other), Err(Status::SEQ_FALSE_RETRY));
        }
    }

    #[test]
    fn request_without_reply_may_repeat_and_numbers_wrap() {
        let mut slot = Slot { sequence: u32::MAX, state: SlotState::Done(PRINT, None) };
        assert_eq!(begin(&mut slot, 0, PRINT), Err(Status::OK));
        slot.abandon();
        assert_eq!(begin(&mut slot, 0, PRINT), Err(Status::OK));
    }

    #[test]
    fn a_request_without_room_for_its_reply_is_not_begun_and_may_come_again() {
        let bounds = Bounds::new(2500, 0);
        let others = take(&bounds).unwrap();
        let mut slot = Slot::default();
        let reserve = |before: Option<Box<CachedReply>>| match before {
            Some(mut room) => room.reserve(1000).map(|()| Some(room)).map_err(|_| Status::DELAY),
            None => take(&bounds).map(Some).map_err(|_| Status::DELAY),
        };
        assert!(matches!(slot.begin(1, PRINT, reserve), SlotVerdict::Refused(Status::DELAY)));
        assert!(
            matches!(slot.begin(1, PRINT, reserve), SlotVerdict::Refused(Status::DELAY)),
            "as if it had not come"
        );
        drop(others);
        let SlotVerdict::New(Some(room)) = slot.begin(1, PRINT, reserve) else { panic!("there is room") };
        slot.complete(cached(b"12345", room));
        assert_eq!(bounds.used(), 5, "what is kept is shorter than what might have been");
        let SlotVerdict::New(Some(room)) = slot.begin(2, PRINT, reserve) else { panic!("there is room") };
        assert_eq!(bounds.used(), 1000, "the reply before is not kept beside the next one");
        slot.complete(cached(b"123", room));
        // Other replies take the room.
        let others = [take(&bounds), take(&bounds)];
        assert!(matches!(slot.begin(3, PRINT, reserve), SlotVerdict::Refused(Status::DELAY)));
        drop(others);
        assert_eq!(bounds.used(), 0);
    }
}
