//! Replayed LOCK requests (MS-SMB2 §3.3.5.14): a client that loses a connection repeats unanswered requests.
use smb_wire::lock::LockSequence;
use vfs::sync::Mutex;

/// The number of LOCK requests that a client may have in progress per open.
pub(crate) const ENTRIES: usize = 64;

/// The byte of an empty entry; sequence numbers have 4 bits.
const NONE: u8 = u8::MAX;

/// `Open.LockSequenceArray`: the last completed request of each index. Empty for clients that send no sequences.
#[derive(Default)]
pub(crate) struct LockSequences(Mutex<Option<Box<[Option<u32>; ENTRIES]>>>);

impl LockSequences {
    /// Whether this request was completed before. If not, the entry of its index is cleared.
    pub(crate) fn was_done(&self, sequence: LockSequence) -> bool {
        let Some(at) = index_of(sequence) else { return false };
        let mut last = self.0.lock();
        let Some(entry) = last.as_mut().map(|last| &mut last[at]) else { return false };
        let was_done = *entry == Some(sequence.number());
        if !was_done {
            *entry = None;
        }
        was_done
    }

    pub(crate) fn clear(&self, sequence: LockSequence) {
        if let (Some(at), Some(last)) = (index_of(sequence), self.0.lock().as_mut()) {
            last[at] = None;
        }
    }

    /// The number of the last completed request of each index, or [`NONE`].
    pub(crate) fn to_bytes(&self) -> [u8; ENTRIES] {
        let byte = |number: Option<u32>| number.and_then(|number| u8::try_from(number).ok()).unwrap_or(NONE);
        self.0.lock().as_ref().map_or([NONE; ENTRIES], |last| last.map(byte))
    }

    pub(crate) fn from_bytes(bytes: &[u8; ENTRIES]) -> Self {
        let number = |byte| (byte != NONE).then_some(u32::from(byte));
        let last = bytes.map(number);
        Self(Mutex::new(last.iter().any(Option::is_some).then(|| Box::new(last))))
    }

    pub(crate) fn record_done(&self, sequence: LockSequence) {
        if let Some(at) = index_of(sequence) {
            self.0.lock().get_or_insert_with(|| Box::new([None; ENTRIES]))[at] = Some(sequence.number());
        }
    }
}

/// The entry of a request. Indices count from 1; higher ones have no entry.
fn index_of(sequence: LockSequence) -> Option<usize> {
    let at = usize::try_from(sequence.index()).ok()?.checked_sub(1)?;
    (at < ENTRIES).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lock_request_of_an_index_counts_as_done() {
        let sequences = LockSequences::default();
        let of = |index: u32, number: u32| LockSequence(index << 4 | number);
        for index in [1, 64] {
            assert!(!sequences.was_done(of(index, 1)));
            sequences.record_done(of(index, 1));
            assert!(sequences.was_done(of(index, 1)));
        }
        assert!(!sequences.was_done(of(1, 2)), "another one");
        assert!(!sequences.was_done(of(1, 1)), "which may have undone it");
        assert!(sequences.was_done(of(64, 1)));
        let again = LockSequences::from_bytes(&sequences.to_bytes());
        assert!(again.was_done(of(64, 1)) && !again.was_done(of(1, 1)));
        again.clear(of(64, 1));
        assert!(!again.was_done(of(64, 1)));
        for index in [0, 65, u32::MAX >> 4] {
            sequences.record_done(of(index, 1));
            assert!(!sequences.was_done(of(index, 1)), "{index}");
        }
    }
}
