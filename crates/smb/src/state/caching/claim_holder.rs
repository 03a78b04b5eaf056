//! A tree connect as the table of claims reaches it.

use super::breaks::{Break, Breaks, Client};
use crate::state::pending::{Cancel, Waker};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use vfs::File;
use vfs::claims::{Effect, Holder, Outcome, Request, Ticket, Verdict};
use vfs::sync::Mutex;

/// Whoever holds the claims of a tree connect, and waits for those of others.
pub(crate) struct ClaimHolder {
    /// What its client is told of its caches.
    pub(crate) breaks: Arc<Breaks>,
    tickets: Mutex<Tickets>,
}

#[derive(Default)]
struct Tickets {
    wakers: HashMap<Ticket, Waker>,
    /// Those that were over before anybody was told that they wait.
    over: HashMap<Ticket, Outcome>,
}

impl Holder for ClaimHolder {
    fn deliver(&self, effect: Effect) {
        match effect {
            Effect::Resume { ticket, outcome, .. } => self.resume(ticket, outcome),
            Effect::Recall { key, from, to, epoch, acknowledge, .. } => {
                self.breaks.notify(key, Break { from, to, epoch, acknowledge });
            }
            // Who loses a cache for want of an answer is not told (MS-SMB2 §3.3.6.1).
            Effect::Revoked { .. } | Effect::Notify { .. } | Effect::Remove { .. } => {}
        }
    }
}

impl ClaimHolder {
    pub(crate) fn new(client: Weak<dyn Client>) -> Self {
        Self { breaks: Breaks::new(client), tickets: Mutex::default() }
    }

    /// Has a request woken when the ticket of a claim on `file` is over. Every ticket that a tree connect is given comes here once.
    pub(crate) fn wait(self: &Arc<Self>, file: &File, ticket: Ticket, waker: &Waker) -> Cancel {
        let mut tickets = self.tickets.lock();
        match tickets.over.remove(&ticket) {
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
                tickets.over.insert(ticket, outcome);
            }
        }
    }
}
