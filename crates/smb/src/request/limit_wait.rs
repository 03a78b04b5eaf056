//! Waits of a command for a limit beside that of its message: a copy needs a permit of its source volume as well.

use crate::state::pending::Waker;
use std::sync::{Arc, Weak};
use vfs::claims::Outcome;
use vfs::qos::{Admission, Permit, QueueResult, Waiter};
use vfs::sync::Mutex;

/// A place in the queue of a limit. Dropping it leaves the queue and returns a granted permit.
#[derive(Default)]
pub(crate) struct LimitWait(Arc<Mutex<Option<Permit>>>);

impl LimitWait {
    /// Queues at a limit. When the limit admits the command, grants the permit and wakes the command.
    pub(crate) fn queue(&self, admission: &Admission, waker: &Waker) -> QueueResult {
        let (granted, waker) = (Arc::downgrade(&self.0), waker.clone());
        admission.wait(Box::new(QueuedCommand { admission: admission.clone(), granted, waker }))
    }

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
