//! Periodic tasks for served volumes, the same for `serve` and `export` and over every protocol.

use crate::nfs_frontend::{NfsFrontend, TICK};
use crate::periodic::Task;
use crate::smb_frontend::SmbFrontend;
use vfs::SharedNamespace;

/// The periodic tasks for volumes that are served over these protocols.
pub(crate) fn tasks(
    namespace: &SharedNamespace,
    nfs: Option<&NfsFrontend>,
    smb: Option<&SmbFrontend>,
) -> impl Iterator<Item = Task> + use<> {
    let tasks = [expire_claims, sweep_streams, close_snapshots];
    let of_all = tasks.map(|task| task(SharedNamespace::clone(namespace)));
    let of_nfs = nfs.map(NfsFrontend::tasks).into_iter().flatten();
    of_all.into_iter().chain(of_nfs).chain(smb.map(SmbFrontend::end_what_is_gone))
}

/// Ends claims on files when they expire.
fn expire_claims(namespace: SharedNamespace) -> Task {
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

/// Removes streams whose files another program has deleted, once after each start.
fn sweep_streams(namespace: SharedNamespace) -> Task {
    let sweep = move || {
        for export in namespace.load().exports() {
            if let Err(error) = export.volume.sweep_streams() {
                tracing::debug!(volume = export.volume.name(), %error, "streams without files are not looked for");
            }
        }
    };
    Task::new("streams", TICK, sweep)
}

/// Closes the snapshots that no client has used for a while.
fn close_snapshots(namespace: SharedNamespace) -> Task {
    let sweep = move || namespace.load().exports().iter().for_each(|export| export.volume.sweep_snapshots());
    Task::new("snapshots", TICK, sweep)
}
