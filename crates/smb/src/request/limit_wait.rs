//! Turns at a limit that a command waits for by itself: a copy pays at the volume that it comes from as well.

use crate::state::pending::Waker;
use std::sync::{Arc, Weak};
use vfs::claims::Outcome;
use vfs::qos::{Admission, Permit, QueueResult, Waiter};
use vfs::sync::Mutex;

/// The turn of a command that waits. Nobody pays any more when it is dropped, and what was paid comes back.
#[derive(Default)]
pub(crate) struct LimitWait(Arc<Mutex<Option<Permit>>>);

impl LimitWait {
    /// Queues at a limit. When the turn has come, it is paid and the command is woken.
    pub(crate) fn queue(&self, admission: &Admission, waker: &Waker) -> QueueResult {
        let (granted, waker) = (Arc::downgrade(&self.0), waker.clone());
        admission.wait(Box::new(QueuedCommand { admission: admission.clone(), granted, waker }))
    }

    /// What was paid, if the turn has come.
    pub(crate) fn into_permit(self) -> Option<Permit> {
        self.0.lock().take()
    }
}

struct QueuedCommand {
    admission: Admission,
    granted: Weak<Mutex<Option<Permit>>>,
    waker: Waker,
}

impl Waiter for QueuedCommand {
    fn pass(self: Box<Self>) {
        let Self { admission, granted, waker } = *self;
        let permit = admission.into_permit();
        if let Some(granted) = granted.upgrade() {
            *granted.lock() = Some(permit);
            waker.wake(Outcome::Granted);
        }
    }

    fn is_gone(&self) -> bool {
        self.granted.strong_count() == 0
    }
}
