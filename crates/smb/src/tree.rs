//! Shares and tree connects (MS-SMB2 §3.3.1.6, §3.3.1.9): a share is an export, and its name what NFS mounts.

use crate::breaks::Client;
use crate::counts::Counted;
use crate::holder::Claimant;
use std::sync::{Arc, Weak};
use vfs::claims::{By, HolderId};
use vfs::{Caller, Export, Namespace, Origin, ProtocolId, Volume};

/// SMB in the rules of exports.
pub const PROTOCOL: ProtocolId = ProtocolId(3);

/// `TreeConnect`: a share as one session uses it.
pub(crate) struct Tree {
    pub(crate) id: u32,
    pub(crate) share: Share,
    /// What it counts as.
    pub(crate) _counted: Counted,
}

/// What is shared.
#[derive(Clone)]
pub(crate) enum Share {
    /// Files.
    Disk(Arc<Disk>),
    /// IPC$: pipes.
    Pipe,
}

/// An export as the user of a session reaches it.
pub(crate) struct Disk {
    pub(crate) export: Arc<Export>,
    pub(crate) caller: Caller,
    /// Whose opens these are to the table of claims.
    pub(crate) holder: HolderId,
    /// What waits for the claims of others.
    pub(crate) claimant: Arc<Claimant>,
    /// Whether messages must be encrypted.
    pub(crate) must_seal: bool,
}

impl AsRef<Volume> for Disk {
    fn as_ref(&self) -> &Volume {
        &self.export.volume
    }
}

/// The name of the share that an export is.
pub(crate) fn share_name(export: &Export) -> &str {
    export.path.trim_start_matches('/')
}

impl Disk {
    pub(crate) fn new(
        client: Weak<dyn Client>,
        export: &Arc<Export>,
        mut caller: Caller,
        must_seal: bool,
    ) -> Self {
        let claimant = Arc::new(Claimant::new(client));
        let holder = export.volume.claims().attach(Arc::clone(&claimant) as _);
        caller.by = By::Holder(holder);
        Self { export: Arc::clone(export), caller, holder, claimant, must_seal }
    }

    /// A number that clients tell volumes apart by.
    pub(crate) fn serial_number(&self) -> u32 {
        let [a, b, c, d, ..] = self.export.volume.id().0.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// Deletes what was to go with its last open, if that was closed.
    pub(crate) fn delete_closed(&self) {
        let volume = &self.export.volume;
        if let Err(error) = volume.expire_claims(volume.now()) {
            tracing::error!(volume = volume.name(), %error, "a file that was to be deleted is still there");
        }
    }

    /// Whether the share is still what it was when it was connected to: the same volume by the same name, whose rules let in
    /// who comes from `origin` as they did, and that asks for no more protection of messages.
    pub(crate) fn is_served(&self, namespace: &Namespace, origin: impl FnOnce() -> Origin) -> bool {
        let then = &*self.export;
        let Some(now) = namespace.export(then.id) else { return false };
        if std::ptr::eq(&**now, then) {
            return true;
        }
        let origin = origin();
        Arc::ptr_eq(&now.volume, &then.volume)
            && now.path == then.path
            && now.share.is_met_by(&then.share)
            && matches!((now.rule(origin), then.rule(origin)), (Some(now), Some(then)) if now.treats_like(then))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let volume = &self.export.volume;
        let claims = volume.claims();
        claims.dispatch(claims.drop_holder(volume.now(), self.holder));
    }
}

impl Tree {
    /// The files of the share; pipes have none.
    pub(crate) fn disk(&self) -> Option<&Arc<Disk>> {
        match &self.share {
            Share::Disk(disk) => Some(disk),
            Share::Pipe => None,
        }
    }
}
