//! Requests for byte ranges that come twice (MS-SMB2 §3.3.5.14): who lost a connection sends again what was not answered.
use smb_wire::lock::LockSequence;
use vfs::sync::Mutex;

/// How many requests of an open a client may have on their way.
pub(crate) const ENTRIES: usize = 64;

/// No request, where there are numbers of 4 bits.
const NONE: u8 = u8::MAX;

/// `Open.LockSequenceArray`: the last request that was done of each index. There is none for the opens of clients that say nothing.
#[derive(Default)]
pub(crate) struct LockSequences(Mutex<Option<Box<[Option<u32>; ENTRIES]>>>);

impl LockSequences {
    /// Whether this request was done before. If not, what was done by its index before is forgotten.
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

    /// Forgets what was noted of a request.
    pub(crate) fn clear(&self, sequence: LockSequence) {
        if let (Some(at), Some(last)) = (index_of(sequence), self.0.lock().as_mut()) {
            last[at] = None;
        }
    }

    /// The number of the last request that was done of each index, or [`NONE`].
    pub(crate) fn to_bytes(&self) -> [u8; ENTRIES] {
        let byte = |number: Option<u32>| number.and_then(|number| u8::try_from(number).ok()).unwrap_or(NONE);
        self.0.lock().as_ref().map_or([NONE; ENTRIES], |last| last.map(byte))
    }

    /// Those of an open that had these.
    pub(crate) fn from_bytes(bytes: &[u8; ENTRIES]) -> Self {
        let number = |byte| (byte != NONE).then_some(u32::from(byte));
        let last = bytes.map(number);
        Self(Mutex::new(last.iter().any(Option::is_some).then(|| Box::new(last))))
    }

    /// Notes that this request was done.
    pub(crate) fn record_done(&self, sequence: LockSequence) {
        if let Some(at) = index_of(sequence) {
            self.0.lock().get_or_insert_with(|| Box::new([None; ENTRIES]))[at] = Some(sequence.number());
        }
    }
}

/// Where a request is noted: indices count from 1, and those beyond are none.
fn index_of(sequence: LockSequence) -> Option<usize> {
    let at = usize::try_from(sequence.index()).ok()?.checked_sub(1)?;
    (at < ENTRIES).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_was_done_if_it_was_the_last_of_its_index() {
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
