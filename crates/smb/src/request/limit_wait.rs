//! Turns at a limit that a command waits for by itself: a copy pays at the volume that it comes from as well.

use crate::state::pending::Waker;
use std::sync::{Arc, Weak};
use vfs::claims::Outcome;
use vfs::qos::{Admission, Permit, QueueResult, Waiter};
use vfs::sync::Mutex;

/// The turn of a command that waits. Nobody pays any more when it is dropped, and what was paid comes back.
#[derive(Default)]
pub(crate) struct Turn(Arc<Mutex<Option<Permit>>>);

impl Turn {
    /// Queues at a limit. When the turn has come, it is paid and the command is woken.
    pub(crate) fn wait(&self, toll: &Admission, waker: &Waker) -> QueueResult {
        let (paid, waker) = (Arc::downgrade(&self.0), waker.clone());
        toll.wait(Box::new(Queued { toll: toll.clone(), paid, waker }))
    }

    /// What was paid, if the turn has come.
    pub(crate) fn into_charge(self) -> Option<Permit> {
        self.0.lock().take()
    }
}

struct Queued {
    toll: Admission,
    paid: Weak<Mutex<Option<Permit>>>,
    waker: Waker,
}

impl Waiter for Queued {
    fn pass(self: Box<Self>) {
        let Self { toll, paid, waker } = *self;
        let charge = toll.into_permit();
        if let Some(paid) = paid.upgrade() {
            *paid.lock() = Some(charge);
            waker.wake(Outcome::Granted);
        }
    }

    fn is_gone(&self) -> bool {
        self.paid.strong_count() == 0
    }
}
