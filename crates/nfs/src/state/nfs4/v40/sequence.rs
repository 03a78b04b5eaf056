//! The sequence numbers of an open owner or a lock owner: its requests run in order and once, and the last reply is
//! cached for repetitions (RFC 7530 §9.1.7). Pure.

use nfs_wire::v4::Status;

#[derive(Debug, Default)]
pub(crate) struct Sequence {
    /// The number of the last request that counts.
    last: u32,
    /// The fingerprint and the reply of the last request.
    done: Option<(u64, Reply)>,
    /// The fingerprint of the running request.
    busy: Option<u64>,
    /// The changes of the last one are not durable yet.
    is_unsynced: bool,
}

/// A cached reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: Status,
    /// The result after the status.
    pub(crate) body: Box<[u8]>,
    /// The filehandle that the operation has made the current one.
    pub(crate) handle: Option<Box<[u8]>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SequenceVerdict {
    /// A new request, to [`Sequence::complete`] or [`Sequence::abandon`].
    New,
    Replay(Reply),
    Refused(Status),
}

/// Whether a request with this status used its sequence number. After any other status the client repeats the number
/// (RFC 7530 §9.1.7).
pub(crate) fn advances(status: Status) -> bool {
    !matches!(
        status,
        Status::STALE_CLIENTID
            | Status::STALE_STATEID
            | Status::BAD_STATEID
            | Status::BAD_SEQID
            | Status::BADXDR
            | Status::RESOURCE
            | Status::NOFILEHANDLE
            | Status::MOVED
    )
}

impl Sequence {
    pub(crate) fn starting_at(number: u32) -> Self {
        Self { last: number.wrapping_sub(1), ..Self::default() }
    }

    /// Begins the request with this number. `print` tells it from other requests: only the same one is a repetition.
    pub(crate) fn begin(&mut self, number: u32, fingerprint: u64) -> SequenceVerdict {
        let is_next = number == self.last.wrapping_add(1);
        if let Some(busy) = self.busy {
            let is_same = is_next && busy == fingerprint;
            return SequenceVerdict::Refused(if is_same { Status::DELAY } else { Status::BAD_SEQID });
        }
        if is_next {
            self.busy = Some(fingerprint);
            return SequenceVerdict::New;
        }
        match &self.done {
            Some((fingerprint_before, _)) if number != self.last || *fingerprint_before != fingerprint => {
                SequenceVerdict::Refused(Status::BAD_SEQID)
            }
            Some(_) if self.is_unsynced => SequenceVerdict::Refused(Status::DELAY),
            Some((_, reply)) => SequenceVerdict::Replay(reply.clone()),
            None => SequenceVerdict::Refused(Status::BAD_SEQID),
        }
    }

    /// The request that was begun is done, with this reply. If it used no number, it is as if it had not come.
    pub(crate) fn complete(&mut self, reply: Reply) {
        if let Some(fingerprint) = self.busy.take()
            && advances(reply.status)
        {
            self.last = self.last.wrapping_add(1);
            self.done = Some((fingerprint, reply));
            self.is_unsynced = false;
        }
    }

    /// The request that was begun was not done.
    pub(crate) fn abandon(&mut self) {
        self.busy = None;
    }

    /// A request that belongs to the sequence of another owner, too, which keeps its reply, has used this number.
    pub(crate) fn skip_to(&mut self, number: u32) {
        (self.last, self.done, self.busy) = (number, None, None);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.is_some()
    }

    /// The number of the last request that counts.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// Notes that the last request's changes are not durable: a repetition gets NFS4ERR_DELAY.
    pub(crate) fn mark_unsynced(&mut self) {
        self.is_unsynced = true;
    }

    /// Notes that the changes of the request with this number are durable, or failed with a status.
    pub(crate) fn mark_synced(&mut self, number: u32, failure: Option<Status>) {
        if number != self.last {
            return;
        }
        self.is_unsynced = false;
        if let (Some((_, reply)), Some(status)) = (&mut self.done, failure) {
            *reply = Reply { status, body: Box::default(), handle: None };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: Status) -> Reply {
        Reply { status, body: Box::from(&b"body"[..]), handle: None }
    }

    #[test]
    fn a_request_is_done_once_and_its_reply_is_kept() {
        let mut sequence = Sequence::starting_at(7);
        assert_eq!(sequence.begin(6, 1), SequenceVerdict::Refused(Status::BAD_SEQID), "nothing to repeat");
        assert_eq!(sequence.begin(8, 1), SequenceVerdict::Refused(Status::BAD_SEQID), "one is missing");
        assert_eq!(sequence.begin(7, 1), SequenceVerdict::New);
        assert_eq!(sequence.begin(7, 1), SequenceVerdict::Refused(Status::DELAY), "it is being done");
        assert_eq!(sequence.begin(8, 1), SequenceVerdict::Refused(Status::BAD_SEQID), "one at a time");
        sequence.complete(reply(Status::NOENT));
        assert_eq!(sequence.begin(7, 1), SequenceVerdict::Replay(reply(Status::NOENT)));
        assert_eq!(sequence.begin(7, 2), SequenceVerdict::Refused(Status::BAD_SEQID), "another request");
        assert_eq!(sequence.begin(8, 3), SequenceVerdict::New);
    }

    #[test]
    fn some_failures_use_no_number_and_forget_nothing() {
        let mut sequence = Sequence::starting_at(u32::MAX);
        sequence.begin(u32::MAX, 1);
        sequence.complete(reply(Status::OK));
        for status in [
            Status::STALE_CLIENTID,
            Status::STALE_STATEID,
            Status::BAD_STATEID,
            Status::BAD_SEQID,
            Status::BADXDR,
            Status::RESOURCE,
            Status::NOFILEHANDLE,
            Status::MOVED,
        ] {
            assert_eq!(sequence.begin(0, 2), SequenceVerdict::New, "numbers wrap");
            sequence.complete(reply(status));
            assert_eq!(sequence.begin(u32::MAX, 1), SequenceVerdict::Replay(reply(Status::OK)));
        }
        assert_eq!(sequence.begin(0, 2), SequenceVerdict::New);
        sequence.complete(reply(Status::DELAY));
        assert_eq!(sequence.begin(0, 2), SequenceVerdict::Replay(reply(Status::DELAY)), "others do");
    }

    #[test]
    fn nobody_hears_of_what_is_not_durable() {
        let mut sequence = Sequence::starting_at(1);
        sequence.begin(1, 1);
        sequence.complete(reply(Status::OK));
        sequence.mark_unsynced();
        assert_eq!(sequence.begin(1, 1), SequenceVerdict::Refused(Status::DELAY));
        sequence.mark_synced(1, Some(Status::IO));
        let failed = Reply { status: Status::IO, body: Box::default(), handle: None };
        assert_eq!(sequence.begin(1, 1), SequenceVerdict::Replay(failed));
        sequence.mark_synced(9, None);
        assert_eq!(sequence.last(), 1);
    }
}
