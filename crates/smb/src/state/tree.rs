//! Shares and tree connects (MS-SMB2 §3.3.1.6, §3.3.1.9): a share is an export, and its name what NFS mounts.

use super::caching::breaks::Client;
use super::caching::claim_holder::Claimant;
use super::counters::Counted;
use smb_wire::NtStatus;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use vfs::claims::{HolderId, Requester};
use vfs::{Caller, Export, File, FsResult, Namespace, Origin, Protection, ProtocolId, Volume};

/// SMB in the rules of exports.
pub const PROTOCOL: ProtocolId = ProtocolId(3);

/// `TreeConnect`: a share as one session uses it.
pub(crate) struct Tree {
    pub(crate) id: u32,
    pub(crate) share: Share,
    /// What it counts as.
    /// Among those of its user, and of all.
    pub(crate) _counted: [Counted; 2],
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
    /// Who it was connected by; nobody where its opens wait for their client after a restart.
    origin: Option<Origin>,
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

/// Where calls of a client at this address come from. A share that wants encryption is connected to without it: what follows is
/// refused.
pub(crate) fn origin_at(client: IpAddr) -> Origin {
    let protection = Protection::Encrypted;
    Origin { client: client.to_canonical(), endpoint: None, protocol: PROTOCOL, protection }
}

impl Disk {
    /// What `user` reaches who has logged in, as the `caller` that the export makes of it.
    pub(crate) fn new(
        client: Weak<dyn Client>,
        export: &Arc<Export>,
        mut caller: Caller,
        (user, must_seal): (u32, bool),
        origin: Option<Origin>,
    ) -> Self {
        let claimant = Arc::new(Claimant::new(client));
        let holder = export.volume.claims().attach_for(Arc::clone(&claimant) as _, user);
        caller.by = Requester::Holder(holder);
        Self { export: Arc::clone(export), caller, holder, claimant, must_seal, origin }
    }

    /// `STATUS_MEDIA_WRITE_PROTECTED` where the export refuses the user every change: nothing asks again when a file goes with its last
    /// open.
    pub(crate) fn check_writable(&self) -> Result<(), NtStatus> {
        if self.caller.read_only { Err(NtStatus::MEDIA_WRITE_PROTECTED) } else { Ok(()) }
    }

    /// A number that clients tell volumes apart by.
    pub(crate) fn serial_number(&self) -> u32 {
        let [a, b, c, d, ..] = self.export.volume.id().0.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// Deletes what was to go with its last open, if that was closed.
    pub(crate) fn delete_closed(&self) {
        let volume = &self.export.volume;
        self.log_left(volume.expire_claims(volume.now()));
    }

    /// The same, after which `file` is gone if it was to go.
    pub(crate) fn delete_closed_file(&self, file: &File) {
        self.log_left(self.export.volume.remove_closed(&file.key()));
    }

    fn log_left(&self, deleted: FsResult<()>) {
        if let Err(error) = deleted {
            let volume = self.export.volume.name();
            tracing::error!(volume, %error, "a file that was to be deleted is still there");
        }
    }

    /// Whether the share is still what it was when it was connected to: the same volume by the same name, whose rules let in
    /// who comes from `origin`, by whatever channel, as they let in who connected, and that asks for no more protection of messages.
    pub(crate) fn is_served(&self, namespace: &Namespace, origin: Origin) -> bool {
        let (then, connected) = (&*self.export, self.origin);
        let Some(now) = namespace.export(then.id) else { return false };
        if std::ptr::eq(&**now, then) && connected == Some(origin) {
            return true;
        }
        let was = connected.and_then(|connected| then.rule(connected));
        Arc::ptr_eq(&now.volume, &then.volume)
            && now.path == then.path
            && now.share.is_met_by(&then.share)
            && matches!((now.rule(origin), was), (Some(now), Some(was)) if now.treats_like(was))
    }

    /// Whether an open that waits for its client keeps others from something that its client has no right to any longer.
    pub(crate) fn is_withdrawn(&self, namespace: &Namespace) -> bool {
        let Some(export) = namespace.export(self.export.id) else { return true };
        let Some(origin) = self.origin else { return false };
        export.rule(origin).is_none_or(|rule| rule.read_only && !self.caller.read_only)
    }

    /// Whether the share is gone over all connections that a session has, which are from these addresses.
    pub(crate) fn is_gone(&self, namespace: &Namespace, clients: &[IpAddr]) -> bool {
        // A session that has none is being ended.
        !clients.is_empty() && !clients.iter().any(|&client| self.is_served(namespace, origin_at(client)))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What waits is answered.
        self.export.volume.claims().end_holder(self.export.volume.now(), self.holder);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::pending::tests::request;
    use crate::state::session::Session;
    use vfs::claims::{LockOwner, LockRequest, Outcome, Queueing, Request, Span, Stream, Verdict};
    use vfs::memfs::MemFs;
    use vfs::qos::Nanos;
    use vfs::{Durability, ExportRule, VolumeId};

    fn volume() -> Arc<Volume> {
        let fs = Arc::new(MemFs::new(Arc::new(vfs::Time::default)));
        Arc::new(Volume::new(VolumeId(1), "one", fs, Durability::Sync, 1))
    }

    #[test]
    fn what_waits_is_told_when_its_tree_connect_goes() {
        let export = Arc::new(Export::new("/one", volume(), vec![ExportRule::everybody()]));
        let connect = || Disk::new(Weak::<Session>::new(), &export, Caller::new(0, 0, []), (0, false), None);
        let (one, two) = (connect(), connect());
        let lock = |disk: &Disk| {
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
        // Its client is being told that it waits.
        let cancel = two.claimant.wait(&export.root(), ticket, &waker);
        drop(two);
        assert_eq!((waker.take_woken(), cancel()), (Some(Outcome::Canceled), false));
    }

    #[test]
    fn a_channel_from_elsewhere_is_let_in_by_the_same_terms() {
        let rule = |network: &str, read_only| ExportRule {
            clients: vec![network.parse().unwrap()],
            read_only,
            ..ExportRule::everybody()
        };
        let rules = vec![rule("10.0.0.0/24", false), rule("10.0.1.0/24", false), rule("10.0.2.0/24", true)];
        let export = Arc::new(Export::new("/one", volume(), rules));
        let caller = Caller::new(1, 1, []);
        let origin = Some(origin_at([10, 0, 0, 1].into()));
        let disk = Disk::new(Weak::<Session>::new(), &export, caller, (1, false), origin);
        let namespace = Namespace::new([Arc::clone(&export)]);
        let is_served = |client: [u8; 4]| disk.is_served(&namespace, origin_at(client.into()));
        assert!(is_served([10, 0, 0, 1]) && is_served([10, 0, 0, 2]) && is_served([10, 0, 1, 1]));
        assert!(!is_served([10, 0, 2, 1]), "it may only read from there");
        assert!(!is_served([10, 0, 3, 1]), "nobody is let in from there");
        let is_gone = |clients: &[[u8; 4]]| {
            let clients: Vec<IpAddr> = clients.iter().map(|&client| client.into()).collect();
            disk.is_gone(&namespace, &clients)
        };
        assert!(!is_gone(&[[10, 0, 3, 1], [10, 0, 1, 1]]), "one is let in");
        assert!(is_gone(&[[10, 0, 3, 1], [10, 0, 2, 1]]));
        assert!(!is_gone(&[]), "nobody knows");
    }
}
