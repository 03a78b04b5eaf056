//! Effects of effects: clients queue thousands, threads have small stacks.

use super::*;
use crate::sync::Mutex;
use std::sync::{Arc, OnceLock, Weak};

const NOW: Nanos = Nanos(SECOND);
const MANY: u64 = 8000;

/// A holder that releases each grant immediately, as for disconnected clients.
#[derive(Default)]
struct GivesBack {
    claims: OnceLock<Weak<Claims>>,
    id: OnceLock<HolderId>,
    owners: Mutex<std::collections::HashMap<Ticket, LockRequest>>,
    granted: Mutex<Vec<Ticket>>,
    /// Nested calls of [`Holder::deliver`] on the stack: current and maximum.
    depth: Mutex<(usize, usize)>,
}

impl Holder for GivesBack {
    fn deliver(&self, effect: Effect) {
        let mut depth = self.depth.lock();
        *depth = (depth.0 + 1, depth.1.max(depth.0 + 1));
        drop(depth);
        if let Effect::Resume { ticket, outcome: Outcome::Granted, .. } = effect {
            self.granted.lock().push(ticket);
            let request = self.owners.lock().remove(&ticket).unwrap();
            let LockRequest { owner, stream, span, is_enforced: enforced, .. } = request;
            let claims = self.claims.get().unwrap().upgrade().unwrap();
            let unlock = Request::Unlock { owner, stream, span, enforced, is_exclusive: None };
            assert!(matches!(claims.request(NOW, &key(1), &unlock), Verdict::Granted(_)));
        }
        self.depth.lock().0 -= 1;
    }
}

/// A holder with many owners that wait for one byte, like those of SMB or those of NFS.
fn crowd(is_enforced: bool) -> (Arc<Claims>, Arc<GivesBack>, Vec<Ticket>) {
    let claims = Arc::new(Claims::new(Timeouts::default(), Grace::default()));
    let holder = Arc::new(GivesBack::default());
    let id = claims.attach(holder.clone());
    assert!(holder.claims.set(Arc::downgrade(&claims)).is_ok() && holder.id.set(id).is_ok());
    let open = opening(1000, read_write());
    let Verdict::Granted(Granted { open: Some(open), .. }) =
        claims.request(NOW, &key(1), &Request::Open(open))
    else {
        panic!("nobody has it open")
    };
    let lock = |holder, owner| LockRequest {
        owner: LockOwner { holder, owner },
        open: is_enforced.then_some(open),
        is_enforced,
        queueing: Queueing::Until(Nanos(u64::MAX)),
        ..locking(0, 5, 1, true)
    };
    let first = claims.request(NOW, &key(1), &Request::Lock(lock(HolderId(1000), 0)));
    assert!(matches!(first, Verdict::Granted(_)));
    let wait = |owner| {
        let request = lock(id, owner);
        let Verdict::Wait(ticket) = claims.request(NOW, &key(1), &Request::Lock(request)) else {
            panic!("it is locked")
        };
        holder.owners.lock().insert(ticket, request);
        ticket
    };
    let tickets = (1..=MANY).map(wait).collect();
    (claims, holder, tickets)
}

/// On a thread with a smaller stack than any that serves.
fn with_little_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(test).unwrap();
    thread.join().unwrap();
}

#[test]
fn thousands_who_give_back_what_they_wait_for_take_no_stack() {
    with_little_stack(|| {
        for is_enforced in [false, true] {
            let (claims, holder, tickets) = crowd(is_enforced);
            let effects = claims.drop_holder(NOW, HolderId(1000));
            claims.dispatch(effects);
            let expected: &[Ticket] = if is_enforced { &tickets[..0] } else { &tickets };
            // Enforced ranges need the open that they end with, which has gone.
            assert_eq!(*holder.granted.lock(), expected);
            assert_eq!(*holder.depth.lock(), (0, 1), "one is delivered at a time");
            claims.drop_holder(NOW, *holder.id.get().unwrap());
            assert!(claims.is_empty() && claims.next_deadline().is_none());
        }
    });
}

#[test]
fn effects_left_by_a_panic_are_delivered_with_the_next_ones() {
    struct Panics;
    impl Holder for Panics {
        fn deliver(&self, _: Effect) {
            panic!("a holder panics, as the test wants");
        }
    }
    let (claims, holder, tickets) = crowd(false);
    let panics = claims.attach(Arc::new(Panics));
    let resume = |holder, ticket| Effect::Resume { holder, file: key(1), ticket, outcome: Outcome::Again };
    let id = *holder.id.get().unwrap();
    let effects = vec![resume(panics, Ticket(1)), resume(id, tickets[0])];
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| claims.dispatch(effects)));
    assert!(caught.is_err() && holder.depth.lock().1 == 0);
    claims.dispatch(vec![resume(id, tickets[1])]);
    assert_eq!(*holder.depth.lock(), (0, 1));
}

#[test]
fn a_holder_that_ends_hears_of_its_own_requests() {
    let (claims, holder, _) = crowd(false);
    claims.end_holder(NOW, *holder.id.get().unwrap());
    assert_eq!(holder.depth.lock().1, 1, "they are canceled");
    assert!(holder.granted.lock().is_empty());
    claims.end_holder(NOW, HolderId(1000));
    assert!(claims.is_empty());
}
