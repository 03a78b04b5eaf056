//! Background copies, by stateid (RFC 7862 §4.5).

use nfs_wire::v4::Status;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

#[derive(Debug, Default)]
pub(crate) struct CopyProgress {
    copied: AtomicU64,
    is_canceled: AtomicBool,
    is_busy: AtomicBool,
    end: OnceLock<Status>,
}

/// A client's reference to a copy. Dropping it cancels the copy.
pub(crate) struct CopyState(pub(crate) Arc<CopyProgress>);

impl Drop for CopyState {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl CopyProgress {
    /// Bytes that were copied so far.
    pub(crate) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Begins a part; `false` if the copy was canceled.
    pub(crate) fn begin_part(&self) -> bool {
        // The order matters: `cancel` stores its flag first and then checks `is_busy`, so one side sees the other.
        self.is_busy.store(true, Ordering::SeqCst);
        let is_wanted = !self.is_canceled();
        if !is_wanted {
            self.end_part(0);
        }
        is_wanted
    }

    pub(crate) fn end_part(&self, bytes: u64) {
        self.copied.fetch_add(bytes, Ordering::Relaxed);
        self.is_busy.store(false, Ordering::SeqCst);
    }

    /// Cancels the copy. Returns whether no part is being written.
    pub(crate) fn cancel(&self) -> bool {
        self.is_canceled.store(true, Ordering::SeqCst);
        !self.is_busy.load(Ordering::SeqCst)
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.is_canceled.load(Ordering::SeqCst)
    }

    /// Sets the final status, once.
    pub(crate) fn end(&self, status: Status) {
        // It ends once.
        let _ = self.end.set(status);
        self.is_busy.store(false, Ordering::SeqCst);
    }

    pub(crate) fn ended(&self) -> Option<Status> {
        self.end.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_once_a_copy_is_canceled() {
        let progress = CopyProgress::default();
        assert!(progress.begin_part());
        assert!(!progress.cancel(), "a part is being copied");
        progress.end_part(7);
        assert!(progress.cancel());
        assert!(!progress.begin_part() && progress.cancel());
        assert_eq!((progress.copied(), progress.ended()), (7, None));
        let broken = CopyProgress::default();
        assert!(broken.begin_part());
        broken.end(Status::SERVERFAULT);
        assert!(broken.cancel(), "a part that was given up is no part");
        broken.end(Status::OK);
        assert_eq!(broken.ended(), Some(Status::SERVERFAULT));
    }
}
