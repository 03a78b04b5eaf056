//! Claims that were taken from a client, until it is heard.

use super::delegations::VolumeFile;
use std::sync::{Mutex, PoisonError};
use vfs::claims::Lost;

/// What was taken from a client since it was heard last.
#[derive(Default)]
pub(crate) struct LostClaims {
    lost: Mutex<Vec<(VolumeFile, Lost)>>,
}

impl LostClaims {
    /// A claim on a file was taken away.
    pub(super) fn add(&self, file: VolumeFile, what: Lost) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push((file, what));
    }

    /// Whether nothing was.
    pub(super) fn is_empty(&self) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// What was taken from it since this was asked last.
    pub(super) fn take(&self) -> Vec<(VolumeFile, Lost)> {
        std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
