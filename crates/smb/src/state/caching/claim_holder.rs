//! The holder of a tree connect's claims in the table of claims.

use super::breaks::{Break, Breaks, Client};
use crate::state::pending::{Cancel, Waker};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use vfs::File;
use vfs::claims::{Effect, Holder, Outcome, Request, Ticket, Verdict};
use vfs::sync::Mutex;

/// The holder of a tree connect's claims, with its waits for claims of others.
pub(crate) struct ClaimHolder {
    pub(crate) breaks: Arc<Breaks>,
    tickets: Mutex<Tickets>,
}

#[derive(Default)]
struct Tickets {
    wakers: HashMap<Ticket, Waker>,
    /// Outcomes that came before [`ClaimHolder::wait`].
    early_outcomes: HashMap<Ticket, Outcome>,
}

impl Holder for ClaimHolder {
    fn deliver(&self, effect: Effect) {
        match effect {
            Effect::Resume { ticket, outcome, .. } => self.resume(ticket, outcome),
            Effect::Recall { key, from, to, epoch, acknowledge, .. } => {
                self.breaks.notify(key, Break { from, to, epoch, acknowledge });
            }
            // A client that loses a cache because it missed the deadline is not notified (MS-SMB2 §3.3.6.1).
            Effect::Revoked { .. } | Effect::Notify { .. } | Effect::Remove { .. } => {}
        }
    }
}

impl ClaimHolder {
    pub(crate) fn new(client: Weak<dyn Client>) -> Self {
        Self { breaks: Breaks::new(client), tickets: Mutex::default() }
    }

    /// Wakes a request when its ticket of a claim on `file` is decided. Each ticket is passed here once.
    pub(crate) fn wait(self: &Arc<Self>, file: &File, ticket: Ticket, waker: &Waker) -> Cancel {
        let mut tickets = self.tickets.lock();
        match tickets.early_outcomes.remove(&ticket) {
            Some(outcome) => {
                drop(tickets);
                waker.wake(outcome);
            }
            None => {
                tickets.wakers.insert(ticket, waker.clone());
            }
        }
        let (holder, file) = (Arc::downgrade(self), file.clone());
        Box::new(move || {
            let is_canceled = matches!(file.claim(&Request::Cancel(ticket)), Verdict::Granted(_));
            if is_canceled && let Some(holder) = holder.upgrade() {
                holder.tickets.lock().wakers.remove(&ticket);
            }
            is_canceled
        })
    }

    fn resume(&self, ticket: Ticket, outcome: Outcome) {
        let mut tickets = self.tickets.lock();
        match tickets.wakers.remove(&ticket) {
            Some(waker) => {
                drop(tickets);
                waker.wake(outcome);
            }
            None => {
                tickets.early_outcomes.insert(ticket, outcome);
            }
        }
    }
}
