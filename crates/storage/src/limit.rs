//! The capacity of a volume, and the quotas of its users and groups.

use crate::charging::Counts;
use crate::ledger::Ledger;
use crate::owners::OwnerLedger;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;
use vfs::{FsResult, VolumeId};

/// The mechanism that enforces a volume's capacity.
pub trait Space: Send + Sync + 'static {
    /// The count of this process; `None` if the storage counts.
    fn ledger(&self) -> Option<&Ledger>;

    /// Makes all changes of the volume's files durable.
    fn sync_files(&self) -> FsResult<()>;

    /// Notes that the volume was removed.
    fn set_removed(&self);
}

/// A queue of volumes whose files must be counted.
pub trait CountQueue<S: Space>: Send + Sync {
    fn add(&self, id: VolumeId, limit: &Arc<Limit<S>>);
}

/// The capacity of a volume, and the quotas of users and groups. The owners are saved first: the space holds the lock
/// against the next open.
pub struct Limit<S: Space> {
    owners: OwnerLedger,
    space: S,
    id: VolumeId,
    queue: Arc<dyn CountQueue<S>>,
}

impl<S: Space> Limit<S> {
    pub fn new(space: S, owners: OwnerLedger, id: VolumeId, queue: Arc<dyn CountQueue<S>>) -> Self {
        Self { owners, space, id, queue }
    }

    /// The counts that changes of files are charged to.
    #[inline]
    pub fn counts(&self) -> Counts<'_> {
        Counts { ledger: self.space.ledger(), owners: self.owners.if_on() }
    }

    #[inline]
    pub fn owners(&self) -> &OwnerLedger {
        &self.owners
    }

    /// Begins to count by owner, on another thread, if nothing did before.
    pub fn start_owners(self: &Arc<Self>) -> FsResult<()> {
        if self.owners.start()? {
            self.queue.add(self.id, self);
        }
        Ok(())
    }

    pub fn is_uncounted(&self) -> bool {
        self.space.ledger().is_some_and(Ledger::is_uncounted) || self.owners.is_uncounted()
    }

    /// Ends counts that failed.
    pub(crate) fn set_uncountable(&self) {
        let ledger = self.space.ledger().filter(|ledger| ledger.is_uncounted());
        ledger.into_iter().for_each(Ledger::set_uncountable);
        if self.owners.is_uncounted() {
            self.owners.set_uncountable();
        }
    }

    /// Counts again what could not be counted.
    pub fn retry(self: &Arc<Self>) {
        let retries = self.space.ledger().is_some_and(Ledger::retry);
        if self.owners.retry() || retries {
            self.queue.add(self.id, self);
        }
    }

    pub fn checkpoint(&self) {
        self.space.ledger().into_iter().for_each(Ledger::checkpoint);
        self.owners.checkpoint();
    }

    pub fn set_removed(&self) {
        self.space.set_removed();
        self.owners.set_removed();
    }

    /// Ends the counts: no change may begin. Waits until `until` for changes under way.
    pub fn close(&self, until: Instant) {
        self.space.ledger().into_iter().for_each(|ledger| ledger.close(until));
        self.owners.close(until);
    }

    /// Saves the counts. Call after [`Limit::close`].
    pub fn seal(&self) {
        self.space.ledger().into_iter().for_each(Ledger::seal);
        self.owners.seal(|| self.space.sync_files());
    }
}

impl<S: Space> Deref for Limit<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        &self.space
    }
}

impl<S: Space> Drop for Limit<S> {
    /// The last reference is gone, so no change is under way.
    fn drop(&mut self) {
        self.close(Instant::now());
        self.seal();
    }
}
