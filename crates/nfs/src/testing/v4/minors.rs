//! A client of any minor version that opens files.

use super::{Client, at};
use crate::testing::{NOW, TestEnv, rule};
use nfs_wire::v4::{
    Argument, Bitmap, CbClient, NetAddr, NfsClientId, OpReply, OpenArgs, OpenClaim, OpenFlag,
    ReclaimCompleteArgs, Reply, SetclientidArgs, SetclientidConfirmArgs, SetclientidReply, ShareAccess,
    ShareDeny, StateOwner, Stateid, Status,
};
use std::cell::Cell;
use std::sync::Arc;
use vfs::{
    Caller, Disposition, Durability, Export, ExportId, ExportRule, Namespace, PendingSync, SetAttrs, Volume,
    VolumeId,
};
use vfs_testing::MemFs;

pub(crate) const MINORS: [u32; 3] = [0, 1, 2];
/// A volume by two exports, `/w` and `/r`, with a file `f` of root's that all may read.
pub(crate) struct Rig {
    pub(crate) client: Client,
    pub(crate) minor: u32,
    pub(crate) id: u64,
    pub(crate) volume: Arc<Volume>,
    fs: Arc<MemFs>,
    owners: Cell<u32>,
}

impl Rig {
    pub(crate) fn new(minor: u32) -> Self {
        Self::over(minor, MemFs::new(Arc::new(|| NOW)))
    }

    pub(crate) fn over(minor: u32, fs: MemFs) -> Self {
        let fs = Arc::new(fs);
        let volume = Arc::new(Volume::new(VolumeId(1), "v", Arc::clone(&fs) as _, Durability::Sync, 1));
        let root = Arc::new(Export::new("/w", Arc::clone(&volume), vec![])).root();
        let (set, mut pending) =
            (SetAttrs { mode: Some(0o644), ..SetAttrs::default() }, PendingSync::default());
        root.create(&Caller::new(0, 0, []), b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
        let client = Client::new(TestEnv::new([], vec![]), minor);
        let mut rig = Self { client, minor, id: 0, volume, fs, owners: Cell::new(0) };
        if minor == 0 {
            rig.id = rig.introduce();
        } else {
            let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
            assert_eq!(rig.client.status(&[complete]), Status::OK);
        }
        rig.serve(Some(rule(&[])));
        rig
    }

    /// Serves `/w` by this rule, if by any, and `/r` to be read.
    pub(crate) fn serve(&self, writes: Option<ExportRule>) {
        let volume = || Arc::clone(&self.volume);
        let reads = ExportRule { read_only: true, ..rule(&[]) };
        let reads = Export { id: ExportId(2), ..Export::new("/r", volume(), vec![reads]) };
        let writes = writes.map(|rule| Export::new("/w", volume(), vec![rule]));
        let namespace = Namespace::new(writes.into_iter().chain([reads]));
        self.client.env.service.namespace.store(Arc::new(namespace));
    }

    /// The storage of the volume, opened once more.
    pub(crate) fn reopened(&self) -> Volume {
        Volume::new(VolumeId(1), "v", Arc::clone(&self.fs) as _, Durability::Sync, 1)
    }

    fn introduce(&self) -> u64 {
        let ask = Argument::Setclientid(SetclientidArgs {
            client: NfsClientId { verifier: [1; 8], id: b"host" },
            callback: CbClient { cb_program: 0, cb_location: NetAddr::default() },
            callback_ident: 0,
        });
        let results = self.client.ask(&[ask]);
        let [OpReply::Setclientid(SetclientidReply::Ok(ok))] = &*results.all() else { panic!() };
        let (clientid, setclientid_confirm) = (ok.clientid, ok.setclientid_confirm);
        let confirm = SetclientidConfirmArgs { clientid, setclientid_confirm };
        assert_eq!(self.client.status(&[Argument::SetclientidConfirm(confirm)]), Status::OK);
        clientid
    }

    /// OPEN of `f` by an owner of its own.
    pub(crate) fn open(
        &self,
        export: &[u8],
        access: ShareAccess,
        share_deny: ShareDeny,
    ) -> Result<Stateid, Status> {
        self.open_as((export, b"f"), access, share_deny, OpenFlag::NoCreate).map(|(stateid, _)| stateid)
    }

    /// OPEN of a name: the stateid, and the attributes that were set.
    pub(crate) fn open_as(
        &self,
        path: (&[u8], &[u8]),
        share_access: ShareAccess,
        share_deny: ShareDeny,
        openhow: OpenFlag<'_>,
    ) -> Result<(Stateid, Bitmap), Status> {
        let (export, name) = path;
        self.owners.set(self.owners.get() + 1);
        let owner = self.owners.get().to_be_bytes();
        let args = OpenArgs {
            seqid: 1,
            share_access,
            share_deny,
            owner: StateOwner { clientid: self.id, owner: &owner },
            openhow,
            claim: OpenClaim::Null(name),
        };
        let results = self.client.ask(&at(&[export], [Argument::Open(args)]));
        let (open_stateid, set) = match results.all().last() {
            Some(OpReply::Open(Reply::Ok(ok))) => (ok.stateid, ok.attrset),
            _ => return Err(results.status()),
        };
        if self.minor > 0 {
            return Ok((open_stateid, set));
        }
        self.client.confirm_open(&[export, name], open_stateid, 2).map(|stateid| (stateid, set))
    }
}
