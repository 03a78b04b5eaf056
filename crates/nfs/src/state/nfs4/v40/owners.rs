//! The open owners of a client of 4.0 (RFC 7530 §9.1.5, §9.1.11): their sequences, and whether they are confirmed.

use super::sequence::{Sequence, SequenceVerdict};
use crate::limits::CLIENT_OPEN_OWNERS_MAX;
use nfs_wire::v4::{Stateid, Status};
use std::collections::HashMap;
use vfs::bounds::Slot;

#[derive(Default)]
pub(crate) struct OpenOwners {
    owners: HashMap<Box<[u8]>, OpenOwner>,
    /// The owner of the last closed state, by the constant part of its stateid: a CLOSE may be repeated.
    closed: HashMap<[u8; 12], Box<[u8]>>,
}

struct OpenOwner {
    sequence: Sequence,
    /// The open of one that is not confirmed; `None` once it is, or before there is one.
    unconfirmed: Option<Stateid>,
    is_confirmed: bool,
    opens: u32,
    /// The second of its last request.
    last_seen: u64,
    /// The state that it has ended last.
    closed: Option<[u8; 12]>,
    _slot: Slot,
}

pub(crate) struct OpenStart {
    pub(crate) verdict: SequenceVerdict,
    /// An unconfirmed open that ends now.
    pub(crate) ended: Option<Stateid>,
}

impl OpenOwners {
    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Whether an OPEN of this owner needs room for it. Where there may be no more of the client's, those without a use are forgotten.
    pub(crate) fn is_new(&mut self, name: &[u8]) -> bool {
        if self.owners.contains_key(name) {
            return false;
        }
        if self.owners.len() >= CLIENT_OPEN_OWNERS_MAX {
            self.forget_idle();
        }
        true
    }

    /// Drops owners without opens.
    pub(crate) fn forget_idle(&mut self) {
        self.remove(OpenOwner::is_idle);
    }

    /// Begins an OPEN of an owner, which is made in `room` if it is not known: then any number is the first.
    pub(crate) fn begin_open(
        &mut self,
        name: &[u8],
        number: u32,
        fingerprint: u64,
        now: u64,
        room: Option<Slot>,
    ) -> Result<OpenStart, Status> {
        let mut ended = None;
        if !self.owners.contains_key(name) {
            self.add(name, number, room.ok_or(Status::DELAY)?)?;
        }
        let owner = self.owners.get_mut(name).ok_or(Status::SERVERFAULT)?;
        owner.last_seen = now;
        let is_busy = owner.sequence.is_busy();
        let mut verdict = owner.sequence.begin(number, fingerprint);
        // An owner that never confirmed may start with any sequence number (RFC 7530 §16.18.5).
        if !is_busy
            && matches!(verdict, SequenceVerdict::New | SequenceVerdict::Refused(Status::BAD_SEQID))
            && let Some(unconfirmed) = owner.unconfirmed.take()
        {
            ended = Some(unconfirmed);
            owner.sequence = Sequence::starting_at(number);
            owner.opens = 0;
            verdict = owner.sequence.begin(number, fingerprint);
        }
        Ok(OpenStart { verdict, ended })
    }

    fn add(&mut self, name: &[u8], number: u32, slot: Slot) -> Result<(), Status> {
        if self.owners.len() >= CLIENT_OPEN_OWNERS_MAX {
            return Err(Status::DELAY);
        }
        let owner = OpenOwner {
            sequence: Sequence::starting_at(number),
            unconfirmed: None,
            is_confirmed: false,
            opens: 0,
            last_seen: 0,
            closed: None,
            _slot: slot,
        };
        self.owners.insert(name.into(), owner);
        Ok(())
    }

    /// Begins another request of an owner that has something open, or had.
    pub(crate) fn begin(&mut self, name: &[u8], number: u32, fingerprint: u64, now: u64) -> SequenceVerdict {
        let Some(owner) = self.owners.get_mut(name) else {
            return SequenceVerdict::Refused(Status::BAD_STATEID);
        };
        owner.last_seen = now;
        owner.sequence.begin(number, fingerprint)
    }

    pub(crate) fn sequence(&mut self, name: &[u8]) -> Option<&mut Sequence> {
        self.owners.get_mut(name).map(|owner| &mut owner.sequence)
    }

    pub(crate) fn is_confirmed(&self, name: &[u8]) -> bool {
        self.owners.get(name).is_some_and(|owner| owner.is_confirmed)
    }

    /// An owner confirms its open: false if it has done so before.
    pub(crate) fn confirm(&mut self, name: &[u8]) -> bool {
        let Some(owner) = self.owners.get_mut(name) else { return false };
        owner.unconfirmed = None;
        !std::mem::replace(&mut owner.is_confirmed, true)
    }

    /// An owner has a file open that it had not.
    pub(crate) fn add_open(&mut self, name: &[u8], stateid: Stateid) {
        if let Some(owner) = self.owners.get_mut(name) {
            owner.opens += 1;
            owner.unconfirmed = (!owner.is_confirmed).then_some(stateid);
        }
    }

    /// An OPEN has failed: an owner of which nothing else is known is forgotten.
    pub(crate) fn fail_open(&mut self, name: &[u8]) {
        if self.owners.get(name).is_some_and(|owner| !owner.is_confirmed && owner.opens == 0) {
            self.forget(name);
        }
    }

    /// Notes the CLOSE of an owner.
    pub(crate) fn close(&mut self, name: &[u8], stateid: &Stateid) {
        let Some(owner) = self.owners.get_mut(name) else { return };
        owner.opens = owner.opens.saturating_sub(1);
        if let Some(before) = owner.closed.replace(stateid.other) {
            self.closed.remove(&before);
        }
        self.closed.insert(stateid.other, name.into());
    }

    pub(crate) fn closed_by(&self, stateid: &Stateid) -> Option<Box<[u8]>> {
        self.closed.get(&stateid.other).cloned()
    }

    /// Drops owners without a request for a lease that have no open, or only an unconfirmed one. Returns those opens.
    pub(crate) fn sweep(&mut self, now: u64, lease_s: u64) -> Vec<Stateid> {
        let is_over = |owner: &OpenOwner| now.saturating_sub(owner.last_seen) > lease_s;
        let over = self.owners.values().filter(|owner| is_over(owner));
        let unconfirmed = over.filter_map(|owner| owner.unconfirmed).collect();
        self.remove(|owner| is_over(owner) && (owner.is_idle() || owner.unconfirmed.is_some()));
        unconfirmed
    }

    pub(crate) fn clear(&mut self) {
        self.remove(|_| true);
    }

    fn remove(&mut self, is_over: impl Fn(&OpenOwner) -> bool) {
        let over = self.owners.iter().filter(|(_, owner)| is_over(owner));
        let names: Vec<Box<[u8]>> = over.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.forget(name));
    }

    fn forget(&mut self, name: &[u8]) {
        if let Some(OpenOwner { closed: Some(closed), .. }) = self.owners.remove(name) {
            self.closed.remove(&closed);
        }
    }
}

impl OpenOwner {
    fn is_idle(&self) -> bool {
        self.opens == 0 && !self.sequence.is_busy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::nfs4::v40::sequence::Reply;
    use std::sync::Arc;
    use vfs::bounds::{Bounds, Networks, Party};

    const STATEID: Stateid = Stateid { seqid: 1, other: [7; 12] };

    fn owners() -> OpenOwners {
        OpenOwners::default()
    }

    fn room(bounds: &Arc<Bounds>) -> Option<Slot> {
        bounds.take(&Party::of(Networks::default().of([10, 1, 0, 9].into())), 1).ok()
    }

    fn complete(owners: &mut OpenOwners, name: &[u8]) {
        let reply = Reply { status: Status::OK, body: Box::default(), handle: None };
        owners.sequence(name).unwrap().complete(reply);
    }

    fn open(owners: &mut OpenOwners, name: &[u8], number: u32) -> OpenStart {
        let begun = owners.begin_open(name, number, 1, 0, room(&Bounds::new(1, 0))).unwrap();
        if begun.verdict == SequenceVerdict::New {
            complete(owners, name);
            owners.add_open(name, STATEID);
        }
        begun
    }

    #[test]
    fn an_owner_that_is_not_confirmed_begins_anew() {
        let mut owners = owners();
        assert_eq!(open(&mut owners, b"a", 50).verdict, SequenceVerdict::New, "any number is the first");
        assert!(matches!(open(&mut owners, b"a", 50).verdict, SequenceVerdict::Replay(_)), "the same again");
        let again = open(&mut owners, b"a", 3);
        assert_eq!((again.verdict, again.ended), (SequenceVerdict::New, Some(STATEID)));
        assert!(!owners.is_confirmed(b"a"));
        assert_eq!(owners.begin(b"a", 4, 2, 0), SequenceVerdict::New);
        assert!(owners.confirm(b"a") && !owners.confirm(b"a"), "once");
        complete(&mut owners, b"a");
        let later = open(&mut owners, b"a", 9);
        assert_eq!((later.verdict, later.ended), (SequenceVerdict::Refused(Status::BAD_SEQID), None));
    }

    #[test]
    fn a_failed_open_leaves_no_owner() {
        let (mut owners, bounds) = (owners(), Bounds::new(10, 0));
        owners.begin_open(b"a", 1, 1, 0, room(&bounds)).unwrap();
        owners.fail_open(b"a");
        assert!(owners.is_empty() && bounds.used() == 0);
        open(&mut owners, b"a", 1);
        owners.fail_open(b"a");
        assert!(!owners.is_empty(), "it has something open");
    }

    #[test]
    fn the_last_close_of_each_owner_is_known() {
        let mut owners = owners();
        let second = Stateid { seqid: 1, other: [8; 12] };
        open(&mut owners, b"a", 1);
        owners.close(b"a", &STATEID);
        assert_eq!(owners.closed_by(&STATEID), Some(Box::from(&b"a"[..])));
        owners.close(b"a", &second);
        assert_eq!(owners.closed_by(&STATEID), None);
        assert_eq!(owners.closed.len(), 1);
    }

    #[test]
    fn owners_without_opens_are_forgotten_after_a_lease() {
        let mut owners = owners();
        open(&mut owners, b"unconfirmed", 1);
        open(&mut owners, b"open", 1);
        open(&mut owners, b"idle", 1);
        for name in [&b"open"[..], b"idle"] {
            owners.confirm(name);
        }
        owners.close(b"idle", &STATEID);
        assert_eq!(owners.sweep(30, 30), []);
        assert_eq!(owners.sweep(31, 30), [STATEID]);
        assert_eq!(owners.owners.keys().map(|name| &**name).collect::<Vec<_>>(), [b"open"]);
        assert_eq!((owners.closed.len(), owners.owners.len()), (0, 1));
    }

    #[test]
    fn owners_are_bounded_and_idle_ones_give_way() {
        let (mut owners, bounds) = (owners(), Bounds::new(4 * CLIENT_OPEN_OWNERS_MAX, 0));
        for number in 0..CLIENT_OPEN_OWNERS_MAX {
            open(&mut owners, &number.to_be_bytes(), 1);
        }
        assert!(owners.is_new(b"more"));
        let full = owners.begin_open(b"more", 1, 1, 0, room(&bounds));
        assert_eq!((full.err(), bounds.used()), (Some(Status::DELAY), 0));
        owners.confirm(&7usize.to_be_bytes());
        owners.close(&7usize.to_be_bytes(), &STATEID);
        assert!(owners.is_new(b"more"));
        assert_eq!(open(&mut owners, b"more", 1).verdict, SequenceVerdict::New);
        assert!(!owners.is_new(b"more"));
        assert_eq!(owners.begin_open(b"another", 1, 1, 0, None).err(), Some(Status::DELAY), "without room");
    }
}
