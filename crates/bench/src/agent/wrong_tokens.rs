//! Limits the rate of wrong tokens from an address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// An address waits after this many wrong tokens.
const WRONG_TOKENS_MAX: u32 = 10;
/// One wrong token is forgiven after each period of this length.
const FORGIVEN: Duration = Duration::from_secs(1);
const ADDRESSES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct WrongTokens {
    by: HashMap<IpAddr, (u32, Instant)>,
}

impl WrongTokens {
    pub(super) fn allows(&self, from: IpAddr, now: Instant) -> bool {
        self.by.get(&from).is_none_or(|&(count, since)| unforgiven(count, since, now) < WRONG_TOKENS_MAX)
    }

    pub(super) fn record(&mut self, from: IpAddr, now: Instant) {
        self.by.retain(|_, &mut (count, since)| unforgiven(count, since, now) > 0);
        if self.by.len() >= ADDRESSES_MAX {
            let oldest = self.by.iter().min_by_key(|(_, (_, since))| *since).map(|(from, _)| *from);
            oldest.inspect(|oldest| _ = self.by.remove(oldest));
        }
        let wrong_tokens = self.by.entry(from).or_insert((0, now));
        *wrong_tokens = (unforgiven(wrong_tokens.0, wrong_tokens.1, now) + 1, now);
    }
}

fn unforgiven(count: u32, since: Instant, now: Instant) -> u32 {
    let forgiven = now.saturating_duration_since(since).as_secs() / FORGIVEN.as_secs();
    count.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_guesses_waits() {
        let (mut wrong_tokens, start) = (WrongTokens::default(), Instant::now());
        let [one, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        for _ in 0..WRONG_TOKENS_MAX {
            assert!(wrong_tokens.allows(one, start));
            wrong_tokens.record(one, start);
        }
        assert!(!wrong_tokens.allows(one, start) && wrong_tokens.allows(other, start));
        assert!(wrong_tokens.allows(one, start + FORGIVEN));
        wrong_tokens.record(one, start + FORGIVEN);
        assert!(!wrong_tokens.allows(one, start + FORGIVEN));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut wrong_tokens, start) = (WrongTokens::default(), Instant::now());
        for number in 0..3000u32 {
            wrong_tokens.record(IpAddr::from(number.to_be_bytes()), start);
        }
        assert_eq!(wrong_tokens.by.len(), ADDRESSES_MAX);
        wrong_tokens.record([10, 0, 0, 1].into(), start + 5 * FORGIVEN);
        assert_eq!(wrong_tokens.by.len(), 1);
    }
}
