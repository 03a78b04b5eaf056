//! Claims that were taken from a client, until it is heard.

use super::delegations::VolumeFile;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::claims::RevokedClaim;
use vfs::sync::Mutex;

/// What was taken from a client since it was heard last.
#[derive(Default)]
pub(crate) struct RevokedClaims {
    claims: Mutex<Vec<(VolumeFile, RevokedClaim)>>,
    /// There is something: every request looks, and hardly ever is there.
    is_any: AtomicBool,
}

impl RevokedClaims {
    /// A claim on a file was taken away.
    pub(super) fn add(&self, file: VolumeFile, what: RevokedClaim) {
        let mut claims = self.lock();
        claims.push((file, what));
        self.is_any.store(true, Ordering::Release);
    }

    /// Whether nothing was.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_any.load(Ordering::Acquire)
    }

    /// What was taken from it since this was asked last.
    pub(super) fn take(&self) -> Vec<(VolumeFile, RevokedClaim)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut claims = self.lock();
        self.is_any.store(false, Ordering::Release);
        std::mem::take(&mut *claims)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(VolumeFile, RevokedClaim)>> {
        self.claims.lock()
    }
}
