//! Slots of a session: each request is done once, and its reply is there for whoever asks again (RFC 8881 §2.10.6). Pure.

use nfs_wire::v4::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One slot.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    sequence: u32,
    state: SlotState,
}

#[derive(Debug, Default)]
enum SlotState {
    /// Nothing was ever asked.
    #[default]
    Fresh,
    /// A request with this print is being done.
    Busy(Print),
    /// It was done, and this was the reply if it was to be kept.
    Done(Print, Option<Kept>),
}

/// A reply that is kept, counted among all that are.
#[derive(Debug)]
pub(crate) struct Kept {
    reply: Box<[u8]>,
    total: Arc<AtomicUsize>,
}

/// Bytes of replies that all sessions keep at most. Beyond, a repetition is told that its reply is gone.
const KEPT_BYTES_MAX: usize = 64 << 20;

impl Kept {
    /// Keeps a reply, if there is room for it.
    pub(crate) fn new(reply: &[u8], total: &Arc<AtomicUsize>) -> Option<Self> {
        let before = total.fetch_add(reply.len(), Ordering::Relaxed);
        let kept = Self { reply: reply.into(), total: Arc::clone(total) };
        (before + reply.len() <= KEPT_BYTES_MAX).then_some(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.total.fetch_sub(self.reply.len(), Ordering::Relaxed);
    }
}

/// What tells two requests apart that claim to be the same: who asks, and a checksum of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Print {
    pub(crate) uid: u32,
    pub(crate) checksum: u64,
}

/// What a slot makes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is new: do it, then [`Slot::complete`] it.
    New,
    /// It was done: this was the reply.
    Replay(Box<[u8]>),
    /// It cannot be done.
    Refused(Status),
}

impl Slot {
    /// Begins the request with this sequence number, RFC 8881 §2.10.6.1 and §18.46.3.
    pub(crate) fn begin(&mut self, sequence: u32, print: Print) -> Turn {
        if sequence == self.sequence.wrapping_add(1) {
            if matches!(self.state, SlotState::Busy(_)) {
                return Turn::Refused(Status::SEQ_MISORDERED);
            }
            self.sequence = sequence;
            self.state = SlotState::Busy(print);
            return Turn::New;
        }
        if sequence != self.sequence {
            return Turn::Refused(Status::SEQ_MISORDERED);
        }
        match &self.state {
            SlotState::Fresh => Turn::Refused(Status::SEQ_MISORDERED),
            SlotState::Busy(first) | SlotState::Done(first, _) if *first != print => {
                Turn::Refused(Status::SEQ_FALSE_RETRY)
            }
            SlotState::Busy(_) => Turn::Refused(Status::DELAY),
            SlotState::Done(_, Some(kept)) => Turn::Replay(kept.reply.clone()),
            SlotState::Done(_, None) => Turn::Refused(Status::RETRY_UNCACHED_REP),
        }
    }

    /// The request that was begun is done; its reply is kept if there is one.
    pub(crate) fn complete(&mut self, reply: Option<Kept>) {
        if let SlotState::Busy(print) = self.state {
            self.state = SlotState::Done(print, reply);
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

    const PRINT: Print = Print { uid: 7, checksum: 1 };

    #[test]
    fn a_request_is_done_once() {
        let mut slot = Slot::default();
        assert_eq!(slot.begin(0, PRINT), Turn::Refused(Status::SEQ_MISORDERED), "nothing to repeat");
        assert_eq!(slot.begin(1, PRINT), Turn::New);
        assert_eq!(slot.begin(1, PRINT), Turn::Refused(Status::DELAY), "it is being done");
        assert_eq!(slot.begin(2, PRINT), Turn::Refused(Status::SEQ_MISORDERED), "one at a time");
        slot.complete(Kept::new(b"reply", &Arc::default()));
        assert_eq!(slot.begin(1, PRINT), Turn::Replay(Box::from(&b"reply"[..])));
        assert_eq!(slot.begin(3, PRINT), Turn::Refused(Status::SEQ_MISORDERED), "one is missing");
        assert_eq!(slot.begin(2, PRINT), Turn::New);
        slot.complete(None);
        assert_eq!(slot.begin(2, PRINT), Turn::Refused(Status::RETRY_UNCACHED_REP));
    }

    #[test]
    fn another_request_is_no_repetition() {
        let mut slot = Slot::default();
        slot.begin(1, PRINT);
        slot.complete(Kept::new(b"secret", &Arc::default()));
        for other in [Print { uid: 8, ..PRINT }, Print { checksum: 2, ..PRINT }] {
            assert_eq!(slot.begin(1, other), Turn::Refused(Status::SEQ_FALSE_RETRY));
        }
    }

    #[test]
    fn what_had_no_reply_may_come_again_and_numbers_wrap() {
        let mut slot = Slot { sequence: u32::MAX, state: SlotState::Done(PRINT, None) };
        assert_eq!(slot.begin(0, PRINT), Turn::New);
        slot.abandon();
        assert_eq!(slot.begin(0, PRINT), Turn::New);
    }

    #[test]
    fn kept_replies_are_bounded() {
        let total = Arc::new(AtomicUsize::new(KEPT_BYTES_MAX - 5));
        let first = Kept::new(b"12345", &total);
        assert!(first.is_some() && Kept::new(b"6", &total).is_none());
        drop(first);
        assert_eq!(total.load(Ordering::Relaxed), KEPT_BYTES_MAX - 5);
    }
}
