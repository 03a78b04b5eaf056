//! Claims revoked from a client since its last request.

use super::delegations::VolumeFile;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::claims::RevokedClaim;
use vfs::sync::Mutex;

/// The claims of a client that were revoked since its last request.
#[derive(Default)]
pub(crate) struct RevokedClaims {
    claims: Mutex<Vec<(VolumeFile, RevokedClaim)>>,
    /// There is something: every request looks, and hardly ever is there.
    is_any: AtomicBool,
}

impl RevokedClaims {
    pub(super) fn add(&self, file: VolumeFile, what: RevokedClaim) {
        let mut claims = self.lock();
        claims.push((file, what));
        self.is_any.store(true, Ordering::Release);
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_any.load(Ordering::Acquire)
    }

    /// Takes the claims revoked since the last call.
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
