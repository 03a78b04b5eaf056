//! Requests for byte ranges that come twice (MS-SMB2 §3.3.5.14): who lost a connection sends again what was not answered.

use crate::counts::lock;
use smb_wire::lock::LockSequence;
use std::sync::Mutex;

/// How many requests of an open a client may have on their way.
const ENTRIES: usize = 64;

/// `Open.LockSequenceArray`: the last request that was done of each index. There is none for the opens of clients that say nothing.
#[derive(Default)]
pub(crate) struct LockSequences(Mutex<Option<Box<[Option<u32>; ENTRIES]>>>);

impl LockSequences {
    /// Whether this request was done before. If not, what was done by its index before is forgotten.
    pub(crate) fn was_done(&self, sequence: LockSequence) -> bool {
        let Some(at) = place(sequence) else { return false };
        let mut last = lock(&self.0);
        let Some(entry) = last.as_mut().map(|last| &mut last[at]) else { return false };
        let was_done = *entry == Some(sequence.number());
        if !was_done {
            *entry = None;
        }
        was_done
    }

    /// Notes that this request was done.
    pub(crate) fn note_done(&self, sequence: LockSequence) {
        if let Some(at) = place(sequence) {
            lock(&self.0).get_or_insert_with(|| Box::new([None; ENTRIES]))[at] = Some(sequence.number());
        }
    }
}

/// Where a request is noted: indices count from 1, and those beyond are none.
fn place(sequence: LockSequence) -> Option<usize> {
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
            sequences.note_done(of(index, 1));
            assert!(sequences.was_done(of(index, 1)));
        }
        assert!(!sequences.was_done(of(1, 2)), "another one");
        assert!(!sequences.was_done(of(1, 1)), "which may have undone it");
        assert!(sequences.was_done(of(64, 1)));
        for index in [0, 65, u32::MAX >> 4] {
            sequences.note_done(of(index, 1));
            assert!(!sequences.was_done(of(index, 1)), "{index}");
        }
    }
}
