//! Operations on all served volumes, over every protocol.

use vfs::Namespace;

/// Has everything on disk.
pub(crate) fn sync_all(namespace: &Namespace) {
    for export in namespace.exports() {
        if let Err(error) = export.volume.sync() {
            tracing::error!(volume = export.volume.name(), %error, "the last flush failed");
        }
    }
}
