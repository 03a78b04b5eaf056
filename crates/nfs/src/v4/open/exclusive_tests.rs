//! Exclusive opens of existing files.

use super::*;
use crate::testing::v4::{Client, at, put};
use crate::testing::{NOW, TestEnv, rule};
use nfs_wire::v4::{Argument, OpReply, ReclaimCompleteArgs, Reply, StableHow, WriteArgs};
use vfs::{
    Caller, Durability, Export, ExportRule, MemFs, Namespace, PendingSync, SecurityStyle, Volume, VolumeId,
};

const ALICE: (u32, u32) = (1000, 100);
const BOB: (u32, u32) = (1001, 100);
const READ: u32 = 1;
const WRITE: u32 = 2;
const VERIFIER: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 2];

/// A client of a volume whose root is Alice's.
struct Rig {
    volume: Arc<Volume>,
    client: Client,
}

impl Rig {
    fn new(style: SecurityStyle) -> Self {
        let backend = Arc::new(MemFs::new(Arc::new(|| NOW)));
        let volume = Volume::new(VolumeId(1), "e", backend, Durability::Sync, 1);
        let volume = Arc::new(volume.with_security_style(style).unwrap());
        let export = Export::new("/e", Arc::clone(&volume), vec![rule(&[])]);
        let root = Arc::new(export).root();
        let hers = SetAttrs { uid: Some(ALICE.0), gid: Some(ALICE.1), ..SetAttrs::default() };
        root.set_attrs(&Caller::new(0, 0, []), &hers, None, &mut PendingSync::default()).unwrap();
        let client = Client::new(TestEnv::new([], vec![]), 1);
        let mut rig = Self { volume, client };
        rig.serve(false);
        let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        assert_eq!(rig.client.status(&[complete]), Status::OK);
        rig
    }

    fn serve(&mut self, read_only: bool) {
        let rule = ExportRule { read_only, ..rule(&[]) };
        let export = Export::new("/e", Arc::clone(&self.volume), vec![rule]);
        self.client.env.service.namespace.store(Arc::new(Namespace::new([export])));
    }

    /// OPEN of `/e/f` by a user: stateid and handle.
    fn open(&mut self, user: (u32, u32), access: u32) -> Result<(Stateid, Vec<u8>), Status> {
        self.client.env.user = user;
        let open = Argument::Open(OpenArgs {
            seqid: 0,
            share_access: ShareAccess(access),
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: 0, owner: &user.0.to_be_bytes() },
            openhow: OpenFlag::Create(CreateHow::Exclusive(VERIFIER)),
            claim: OpenClaim::Null(b"f"),
        });
        let results = self.client.ask(&at(&[b"e"], [open, Argument::Getfh]));
        match &*results.all() {
            [.., OpReply::Open(Reply::Ok(open)), OpReply::Getfh(Reply::Ok(handle))] => {
                Ok((open.stateid, handle.object.0.to_vec()))
            }
            _ => Err(results.status()),
        }
    }

    fn write(&self, opened: &(Stateid, Vec<u8>)) -> Status {
        let (stateid, handle) = opened;
        let write = WriteArgs { stateid: *stateid, offset: 0, stable: StableHow::FileSync, data: b"x" };
        self.client.status(&[put(handle), Argument::Write(write)])
    }
}

#[test]
fn exclusive_open_of_existing_file_checks_mode_and_acl() {
    for style in [SecurityStyle::Unix, SecurityStyle::Ntfs] {
        let mut rig = Rig::new(style);
        rig.open(ALICE, READ | WRITE).unwrap();
        assert_eq!(rig.open(BOB, READ | WRITE), Err(Status::ACCESS), "{style:?}");
        assert_eq!(rig.open(BOB, WRITE), Err(Status::ACCESS), "{style:?}");
        // The creator repeats the call.
        let again = rig.open(ALICE, READ | WRITE).unwrap();
        assert_eq!(rig.write(&again), Status::OK);
    }
}

#[test]
fn repeated_creation_does_not_open_read_only_file_for_writing() {
    for style in [SecurityStyle::Unix, SecurityStyle::Ntfs] {
        let mut rig = Rig::new(style);
        rig.open(ALICE, READ | WRITE).unwrap();
        rig.serve(true);
        assert_eq!(rig.open(ALICE, READ | WRITE), Err(Status::ROFS), "{style:?}");
        rig.open(ALICE, READ).unwrap();
    }
}
