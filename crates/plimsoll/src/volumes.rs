//! What is done to all volumes that are served, over whatever protocol.

use crate::nfs_frontend::TICK;
use crate::periodic::Task;
use vfs::{Namespace, SharedNamespace};

/// What ends claims on files when their time is over.
pub(crate) fn expire_claims(namespace: SharedNamespace) -> Task {
    let expire = move || {
        for export in namespace.load().exports() {
            let volume = &export.volume;
            if let Err(error) = volume.expire_claims(volume.now()) {
                let volume = volume.name();
                tracing::error!(volume, %error, "cannot remove a file that goes with its last open");
            }
        }
    };
    Task::new("claims", TICK, expire)
}

/// What removes streams whose files have gone without this process, once after each start.
pub(crate) fn sweep_streams(namespace: SharedNamespace) -> Task {
    let sweep = move || {
        for export in namespace.load().exports() {
            if let Err(error) = export.volume.sweep_streams() {
                tracing::debug!(volume = export.volume.name(), %error, "streams without files are not looked for");
            }
        }
    };
    Task::new("streams", TICK, sweep)
}

/// Has everything on disk.
pub(crate) fn sync_all(namespace: &Namespace) {
    for export in namespace.exports() {
        if let Err(error) = export.volume.sync() {
            tracing::error!(volume = export.volume.name(), %error, "the last flush failed");
        }
    }
}
