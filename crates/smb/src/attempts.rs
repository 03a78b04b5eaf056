//! Logins that were refused, by address: whoever guesses passwords has a few tries at once, and then one now and then.

use crate::counts::lock;
use crate::limits::{ADDRESSES_MAX, REFUSED_AT_ONCE_MAX, REFUSED_EVERY};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// When the tries of each address will be forgotten: each refused one moves that on.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<HashMap<IpAddr, Instant>>);

/// Whom those share who come while too many addresses are known.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Attempts {
    /// Whether somebody at this address may try.
    pub(crate) fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let (address, known) = (of_one(address), lock(&self.0));
        let forgotten = known.get(&address).or_else(|| known.get(&OTHERS).filter(|_| is_full(&known)));
        forgotten.is_none_or(|&forgotten| forgotten.saturating_duration_since(now) <= all_but_one())
    }

    /// A try was refused.
    pub(crate) fn note_refused(&self, address: IpAddr, now: Instant) {
        let (address, mut known) = (of_one(address), lock(&self.0));
        if is_full(&known) {
            known.retain(|_, forgotten| *forgotten > now);
        }
        let address = if is_full(&known) && !known.contains_key(&address) { OTHERS } else { address };
        let forgotten = known.entry(address).or_insert(now);
        *forgotten = (*forgotten).max(now) + REFUSED_EVERY;
    }
}

/// What one host has: of IPv6, it has as many addresses as it likes in its network.
pub(crate) fn of_one(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    }
}

fn is_full(known: &HashMap<IpAddr, Instant>) -> bool {
    known.len() >= ADDRESSES_MAX
}

/// How far ahead the end is of whoever has one try left.
fn all_but_one() -> Duration {
    REFUSED_EVERY * (REFUSED_AT_ONCE_MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(number))
    }

    /// Tries until no more are let through.
    fn tries(attempts: &Attempts, address: IpAddr, now: Instant) -> u32 {
        let mut count = 0;
        while attempts.may_try(address, now) {
            attempts.note_refused(address, now);
            count += 1;
        }
        count
    }

    #[test]
    fn a_few_at_once_and_then_one_now_and_then() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        assert_eq!(tries(&attempts, address(7), now), REFUSED_AT_ONCE_MAX);
        assert!(attempts.may_try(address(8), now), "others are others");
        assert_eq!(tries(&attempts, address(7), now + REFUSED_EVERY), 1);
        assert_eq!(tries(&attempts, address(7), now + REFUSED_EVERY * 4), 3);
        let later = now + REFUSED_EVERY * 1000;
        assert_eq!(tries(&attempts, address(7), later), REFUSED_AT_ONCE_MAX);
    }

    #[test]
    fn a_host_has_one_address() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(tries(&attempts, at("2001:db8::1"), now), REFUSED_AT_ONCE_MAX);
        assert!(!attempts.may_try(at("2001:db8::ffff:0:2"), now));
        assert!(attempts.may_try(at("2001:db8:0:1::1"), now));
        assert_eq!(tries(&attempts, at("::ffff:10.0.0.1"), now), REFUSED_AT_ONCE_MAX);
        assert!(!attempts.may_try(at("10.0.0.1"), now));
    }

    #[test]
    fn addresses_are_bounded_and_those_beyond_share_their_tries() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let most = u32::try_from(ADDRESSES_MAX).unwrap();
        (1..=most).for_each(|number| attempts.note_refused(address(number), now));
        let beyond = (most + 1..).map(address);
        let let_in = beyond.take_while(|&one| {
            let may = attempts.may_try(one, now);
            attempts.note_refused(one, now);
            may
        });
        assert_eq!(u32::try_from(let_in.count()).unwrap(), REFUSED_AT_ONCE_MAX);
        assert!(lock(&attempts.0).len() <= ADDRESSES_MAX + 1);
        let later = now + REFUSED_EVERY * 1000;
        attempts.note_refused(address(most + 1), later);
        assert_eq!(lock(&attempts.0).len(), 1, "what is over is forgotten");
    }
}
