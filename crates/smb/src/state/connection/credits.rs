//! Credits: the message ids that a client may use (MS-SMB2 §3.3.1.1, §3.3.1.2).

use crate::limits::{CREDITS_MAX, CREDITS_PRESSED_MAX, WINDOW_IDS_MAX};
use transport::Malformed;

const WORD_BITS: u64 = 64;
const WORDS: usize = WINDOW_IDS_MAX / 64;
const _: () = assert!(WINDOW_IDS_MAX.is_multiple_of(64) && WINDOW_IDS_MAX as u64 >= 2 * CREDITS_MAX as u64);

/// `Connection.CommandSequenceWindow`: the granted message ids, from the lowest unused one. Ids are granted in order,
/// and each is used once.
#[derive(Debug)]
pub(crate) struct SequenceWindow {
    /// The lowest id that was granted and not used.
    first: u64,
    /// The lowest id that was not granted.
    end: u64,
    /// A bit for each id in between, set if the id is used. The index is the id modulo the window's size. All other
    /// bits are clear.
    used: Box<[u64; WORDS]>,
    /// The number of ids that were granted and not used.
    credits: u32,
}

impl SequenceWindow {
    /// A window with the one credit that NEGOTIATE consumes.
    pub(crate) fn new() -> Self {
        Self { first: 0, end: 1, used: Box::new([0; WORDS]), credits: 1 }
    }

    /// Consumes `charge` ids from `id` on. An id that was not granted, or was used before, ends the connection
    /// (MS-SMB2 §3.3.5.2.3).
    pub(crate) fn consume(&mut self, id: u64, charge: u16) -> Result<(), Malformed> {
        let refusal = Malformed("a message id that was not granted, or was used before");
        let charge = charge.max(1);
        let end = id.checked_add(u64::from(charge)).filter(|&end| end <= self.end).ok_or(refusal)?;
        if id < self.first || (id..end).any(|id| self.is_used(id)) {
            return Err(refusal);
        }
        for id in id..end {
            let (word, bit) = bit_of(id);
            self.used[word] |= bit;
        }
        self.credits = self.credits.saturating_sub(u32::from(charge));
        while self.first < self.end && self.is_used(self.first) {
            let (word, bit) = bit_of(self.first);
            self.used[word] &= !bit;
            self.first += 1;
        }
        Ok(())
    }

    fn is_used(&self, id: u64) -> bool {
        let (word, bit) = bit_of(id);
        self.used[word] & bit != 0
    }

    /// Grants up to `wanted` ids, and at least one to a client without any. Returns their number. While calls wait for
    /// a limit, only clients with few credits are granted more. A client that leaves a low id unused gets at most
    /// [`WINDOW_IDS_MAX`] ids from there.
    pub(crate) fn grant(&mut self, requested: u16, is_pressed: bool) -> u16 {
        let most = if is_pressed { CREDITS_PRESSED_MAX } else { CREDITS_MAX };
        let room = (WINDOW_IDS_MAX as u64).saturating_sub(self.end - self.first);
        let requested = u32::from(requested).max(u32::from(self.credits == 0));
        let granted = requested.min(most.saturating_sub(self.credits)).min(u32::try_from(room).unwrap_or(0));
        self.credits += granted;
        self.end += u64::from(granted);
        u16::try_from(granted).unwrap_or(u16::MAX)
    }
}

fn bit_of(id: u64) -> (usize, u64) {
    let bit = id % WINDOW_IDS_MAX as u64;
    (usize::try_from(bit / WORD_BITS).unwrap_or(0), 1 << (bit % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_id_is_accepted_once() {
        let mut window = SequenceWindow::new();
        window.consume(0, 1).unwrap();
        assert!(window.consume(0, 1).is_err(), "twice");
        assert!(window.consume(1, 1).is_err(), "not granted");
        assert_eq!(window.grant(4, false), 4);
        window.consume(3, 1).unwrap();
        window.consume(1, 2).unwrap();
        assert!(window.consume(3, 1).is_err());
        assert!(window.consume(4, 2).is_err(), "more than were granted");
        assert!(window.consume(u64::MAX, 1).is_err());
        window.consume(4, 1).unwrap();
        assert_eq!(window.first, 5);
    }

    #[test]
    fn credits_stay_between_one_and_the_maximum() {
        let mut window = SequenceWindow::new();
        window.consume(0, 0).unwrap();
        assert_eq!(window.grant(0, false), 1, "it has none");
        assert_eq!(window.grant(0, false), 0);
        assert_eq!(u32::from(window.grant(u16::MAX, false)), CREDITS_MAX - 1);
        assert_eq!(window.grant(1, false), 0);
    }

    #[test]
    fn credits_under_pressure_shrink() {
        let mut window = SequenceWindow::new();
        window.consume(0, 0).unwrap();
        assert_eq!(u32::from(window.grant(u16::MAX, true)), CREDITS_PRESSED_MAX);
        window.grant(u16::MAX, false);
        for id in 1..=u64::from(CREDITS_MAX) {
            window.consume(id, 1).unwrap();
            let has = CREDITS_MAX - u32::try_from(id).unwrap();
            let granted = window.grant(1, true);
            assert_eq!(granted > 0, has < CREDITS_PRESSED_MAX, "it has {has}");
        }
        assert_eq!(window.credits, CREDITS_PRESSED_MAX);
    }

    #[test]
    fn window_with_withheld_id_stays_bounded() {
        let mut window = SequenceWindow::new();
        let (mut next, mut granted) = (1, u64::from(window.grant(u16::MAX, false)));
        while granted > 0 {
            for id in next..next + granted {
                window.consume(id, 1).unwrap();
            }
            next += granted;
            granted = u64::from(window.grant(u16::MAX, false));
        }
        assert_eq!(window.end - window.first, WINDOW_IDS_MAX as u64);
        assert!(window.consume(WINDOW_IDS_MAX as u64, 1).is_err(), "it has the same bit as the first");
        window.consume(0, 1).unwrap();
        assert!(window.used.iter().all(|word| *word == 0) && window.grant(1, false) == 1, "it goes on");
    }

    /// Compares the window with a set of numbers, under random requests.
    #[test]
    fn window_behaves_like_a_set_of_numbers() {
        let (mut window, mut free) = (SequenceWindow::new(), std::collections::BTreeSet::from([0_u64]));
        let (mut random, mut end) = (7_u64, 1);
        for _ in 0..50_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let granted = window.grant(u16::try_from(random >> 58).unwrap(), false);
            free.extend(end..end + u64::from(granted));
            end += u64::from(granted);
            let lowest = free.first().copied().unwrap_or(end);
            let (id, charge) = (lowest + (random >> 20) % 100, 1 + (random >> 40) % 3);
            let may = (id..id + charge).all(|id| free.contains(&id));
            assert_eq!(window.consume(id, u16::try_from(charge).unwrap()).is_ok(), may, "{id} and {charge}");
            if may {
                (id..id + charge).for_each(|id| assert!(free.remove(&id)));
            }
            assert_eq!(window.credits as usize, free.len());
        }
    }
}
