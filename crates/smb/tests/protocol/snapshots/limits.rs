//! Reads of snapshots at the limits of their volume.

use super::{READS, add, at, snapshot};
use crate::durable::create;
use crate::rig::{Disks, Rig, SHARE, output, read, wait_until};
use crate::share::{limit, limit_operations, owes_much};
use smb_wire::create::{CreateResponse, OplockLevel};
use smb_wire::file::ReadResponse;
use smb_wire::header::Command;
use smb_wire::ioctl::CtlCode;
use std::sync::Arc;
use vfs::qos::{Arbiter, Gate, Limits, Pacer, VolumeLimits};
use vfs::{Durability, ExportRule, Volume, VolumeId};

/// A share of limited speed with `doc` and a snapshot of it.
fn limited() -> (Rig, Arc<Gate>, Arc<Pacer>) {
    let disks = Disks::default();
    {
        let rig = Rig::over(&disks);
        rig.alice().put("doc", &[7; 4096]);
        snapshot(&disks, &rig.volume, 1, "one");
    }
    let pacer = Pacer::start().unwrap();
    let gate: Arc<Gate> = Arbiter::new(&Limits::NONE.into(), &pacer).gate(VolumeLimits::default());
    let fs = disks.docs().clone();
    let volume = Volume::new(VolumeId(0x0101), SHARE, Arc::new(fs), Durability::Sync, 7);
    let rig = Rig::with(ExportRule::everybody(), |_| volume.with_gate(Arc::clone(&gate)));
    add(&rig.volume, 1, "one");
    (rig, gate, pacer)
}

#[test]
fn reads_of_snapshots_wait_at_the_limit_of_their_volume() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let reply = create(&mut client, "doc", READS, OplockLevel::NONE, &[at(1)]);
    let old = reply.body::<CreateResponse<'_>>().file_id;
    limit(&gate, 1000);
    assert_eq!(client.data(old, 0, 4096), [7; 4096], "the first passes");
    let next = client.request(Command::READ, &read(old, 0, 4096));
    client.send_protected(next);
    wait_until(|| gate.throttled().1 > 0);
    limit(&gate, 0);
    assert_eq!(client.reply().body::<ReadResponse<&[u8]>>().data, [7; 4096]);
}

#[test]
fn enumeration_counts_as_many_operations() {
    let (rig, gate, _pacer) = limited();
    let mut client = rig.alice();
    let file = client.open("doc", READS);
    limit_operations(&gate);
    let reply = client.ioctl(file, CtlCode::SRV_ENUMERATE_SNAPSHOTS, &[], 16);
    assert_eq!(output(&reply)[0], 1);
    assert!(owes_much(&gate));
}
