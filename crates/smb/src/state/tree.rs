//! Shares and tree connects (MS-SMB2 §3.3.1.6, §3.3.1.9). A share is an export, under the name that NFS mounts.

use super::caching::breaks::Client;
use super::caching::claim_holder::ClaimHolder;
use super::counters::CountGuard;
use smb_wire::NtStatus;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use vfs::claims::{HolderId, Requester};
use vfs::{Caller, Export, File, FsResult, Namespace, Origin, Protection, ProtocolId, Volume};

/// SMB in the rules of exports.
pub const PROTOCOL: ProtocolId = ProtocolId(3);

/// `TreeConnect`.
pub(crate) struct TreeConnect {
    pub(crate) id: u32,
    pub(crate) share: Share,
    /// Counts the tree connect for its user, and for all.
    pub(crate) _guards: [CountGuard; 2],
}

#[derive(Clone)]
pub(crate) enum Share {
    Disk(Arc<DiskShare>),
    /// IPC$.
    Pipe,
}

/// An export for the user of a session.
pub(crate) struct DiskShare {
    pub(crate) export: Arc<Export>,
    pub(crate) caller: Caller,
    /// The holder of its opens in the table of claims.
    pub(crate) holder: HolderId,
    pub(crate) claim_holder: Arc<ClaimHolder>,
    /// Whether messages must be encrypted.
    pub(crate) must_seal: bool,
    /// The origin of the TREE_CONNECT; none for opens that were restored after a restart.
    origin: Option<Origin>,
}

impl AsRef<Volume> for DiskShare {
    fn as_ref(&self) -> &Volume {
        &self.export.volume
    }
}

pub(crate) fn share_name(export: &Export) -> &str {
    export.path.trim_start_matches('/')
}

/// The origin of calls from this address. It counts as encrypted, because a share that requires encryption accepts an
/// unencrypted TREE_CONNECT and refuses later requests.
pub(crate) fn client_origin(client: IpAddr) -> Origin {
    let protection = Protection::Encrypted;
    Origin { client: client.to_canonical(), endpoint: None, protocol: PROTOCOL, protection }
}

impl DiskShare {
    /// Creates the share for a logged-in `user`; the export grants the user the rights of `caller`.
    pub(crate) fn new(
        client: Weak<dyn Client>,
        export: &Arc<Export>,
        mut caller: Caller,
        user: u32,
        must_seal: bool,
        origin: Option<Origin>,
    ) -> Self {
        let claimant = Arc::new(ClaimHolder::new(client));
        let holder = export.volume.claims().attach_for(Arc::clone(&claimant) as _, user);
        caller.by = Requester::Holder(holder);
        Self { export: Arc::clone(export), caller, holder, claim_holder: claimant, must_seal, origin }
    }

    /// `STATUS_MEDIA_WRITE_PROTECTED` in a read-only export and in a snapshot. Deletions must check this early: no check
    /// follows when a file is deleted with its last open.
    pub(crate) fn check_writable(&self, file: &File) -> Result<(), NtStatus> {
        let is_writable = !self.caller.read_only && file.is_live();
        if is_writable { Ok(()) } else { Err(NtStatus::MEDIA_WRITE_PROTECTED) }
    }

    /// Deletes closed files that are to be deleted.
    pub(crate) fn delete_closed(&self) {
        let volume = &self.export.volume;
        self.log_undeleted(volume.expire_claims(volume.now()));
    }

    /// Deletes closed files, and certainly `file` if that is to be deleted.
    pub(crate) fn delete_closed_file(&self, file: &File) {
        self.log_undeleted(self.export.volume.remove_closed(&file.key()));
    }

    fn log_undeleted(&self, deleted: FsResult<()>) {
        if let Err(error) = deleted {
            let volume = self.export.volume.name();
            tracing::error!(volume, %error, "a file that was to be deleted is still there");
        }
    }

    /// Whether the share is unchanged since it was connected to. It must have the same volume under the same name,
    /// treat `origin` like the origin of the TREE_CONNECT, and require no more protection of messages.
    pub(crate) fn is_current(&self, namespace: &Namespace, origin: Origin) -> bool {
        let (then, connected) = (&*self.export, self.origin);
        let Some(now) = namespace.export(then.id) else { return false };
        if std::ptr::eq(&**now, then) && connected == Some(origin) {
            return true;
        }
        let old_rule = connected.and_then(|connected| then.rule(connected));
        Arc::ptr_eq(&now.volume, &then.volume)
            && now.path == then.path
            && now.share.is_met_by(&then.share)
            && matches!((now.rule(origin), old_rule), (Some(now), Some(old_rule)) if now.treats_like(old_rule))
    }

    /// Whether a disconnected open has lost its rights: the export is gone, refuses the client, has become read-only, or
    /// its volume was opened again since.
    pub(crate) fn is_withdrawn(&self, namespace: &Namespace) -> bool {
        let served = namespace.export(self.export.id).filter(|_| namespace.serves(&self.export));
        let Some(export) = served else { return true };
        let Some(origin) = self.origin else { return false };
        export.rule(origin).is_none_or(|rule| rule.read_only && !self.caller.read_only)
    }

    /// Whether no connection of a session, from these addresses, reaches the share any longer.
    pub(crate) fn is_unreachable(&self, namespace: &Namespace, clients: &[IpAddr]) -> bool {
        // A session without connections is being ended anyway.
        !clients.is_empty()
            && !clients.iter().any(|&client| self.is_current(namespace, client_origin(client)))
    }
}

impl Drop for DiskShare {
    fn drop(&mut self) {
        // Ends the waits of the holder.
        self.export.volume.claims().end_holder(self.export.volume.now(), self.holder);
    }
}

impl TreeConnect {
    /// None for IPC$.
    pub(crate) fn disk(&self) -> Option<&Arc<DiskShare>> {
        match &self.share {
            Share::Disk(disk) => Some(disk),
            Share::Pipe => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::pending::tests::request;
    use crate::state::session::Session;
    use vfs::claims::{LockOwner, LockRequest, Outcome, Queueing, Request, Span, Stream, Verdict};
    use vfs::qos::Nanos;
    use vfs::{Durability, ExportRule, VolumeId};
    use vfs_testing::memfs::MemFs;

    fn volume() -> Arc<Volume> {
        let fs = Arc::new(MemFs::new(Arc::new(vfs::Time::default)));
        Arc::new(Volume::new(VolumeId(1), "one", fs, Durability::Sync, 1))
    }

    #[test]
    fn waiting_lock_is_canceled_with_its_tree_connect() {
        let export = Arc::new(Export::new("/one", volume(), vec![ExportRule::everybody()]));
        let connect =
            || DiskShare::new(Weak::<Session>::new(), &export, Caller::new(0, 0, []), 0, false, None);
        let (one, two) = (connect(), connect());
        let lock = |disk: &DiskShare| {
            export.root().claim(&Request::Lock(LockRequest {
                owner: LockOwner { holder: disk.holder, owner: 1 },
                open: None,
                stream: Stream::default(),
                span: Span::new(0, 1).unwrap(),
                is_exclusive: true,
                is_enforced: true,
                reclaims: false,
                queueing: Queueing::Until(Nanos(u64::MAX)),
            }))
        };
        assert!(matches!(lock(&one), Verdict::Granted(_)));
        let Verdict::Wait(ticket) = lock(&two) else { panic!("it is locked") };
        let waker = request(&Arc::default());
        // Its interim reply is being sent.
        let cancel = two.claim_holder.wait(&export.root(), ticket, &waker);
        drop(two);
        assert_eq!((waker.take_outcome(), cancel()), (Some(Outcome::Canceled), false));
    }

    #[test]
    fn tree_connect_from_other_address_is_current_under_equal_rules() {
        let rule = |network: &str, read_only| ExportRule {
            clients: vec![network.parse().unwrap()],
            read_only,
            ..ExportRule::everybody()
        };
        let rules = vec![rule("10.0.0.0/24", false), rule("10.0.1.0/24", false), rule("10.0.2.0/24", true)];
        let export = Arc::new(Export::new("/one", volume(), rules));
        let caller = Caller::new(1, 1, []);
        let origin = Some(client_origin([10, 0, 0, 1].into()));
        let disk = DiskShare::new(Weak::<Session>::new(), &export, caller, 1, false, origin);
        let namespace = Namespace::new([Arc::clone(&export)]);
        let is_current = |client: [u8; 4]| disk.is_current(&namespace, client_origin(client.into()));
        assert!(is_current([10, 0, 0, 1]) && is_current([10, 0, 0, 2]) && is_current([10, 0, 1, 1]));
        assert!(!is_current([10, 0, 2, 1]), "it may only read from there");
        assert!(!is_current([10, 0, 3, 1]), "nobody is let in from there");
        let is_gone = |clients: &[[u8; 4]]| {
            let clients: Vec<IpAddr> = clients.iter().map(|&client| client.into()).collect();
            disk.is_unreachable(&namespace, &clients)
        };
        assert!(!is_gone(&[[10, 0, 3, 1], [10, 0, 1, 1]]), "one is let in");
        assert!(is_gone(&[[10, 0, 3, 1], [10, 0, 2, 1]]));
        assert!(!is_gone(&[]), "nobody knows");
    }
}
