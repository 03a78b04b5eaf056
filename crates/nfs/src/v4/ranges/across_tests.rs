//! Copies and clones from one volume to another.

use super::*;
use crate::testing::v4::{Client, Results, copying, opening, put};
use crate::testing::{TestEnv, rule};
use nfs_wire::v4::{
    Argument, CloneArgs, CopyReply, OpReply, OpenArgs, OpenClaim, ReclaimCompleteArgs, Reply, ShareAccess,
    ShareDeny,
};
use std::num::NonZeroU64;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use vfs::qos::{Arbiter, Gate, Kind, Limits, Pacer, VolumeLimits};
use vfs::{
    Backend, Caller, Disposition, Durability, Export, ExportRule, Namespace, SetAttrs, Snapshot, Squash,
    Time, ViewId, Volume, VolumeId,
};
use vfs_testing::MemFs;

/// More than a COPY copies at once where a limit is.
const SIZE: usize = 1 << 20;
const KIB_64: u64 = 64 << 10;

/// `/from` with `f`, which has data, and `/to` with `g`: two volumes of one file system. `/far` with `h` lies in another one.
struct World {
    client: Client,
    from: Arc<Volume>,
    to: Arc<Volume>,
    near: Arc<MemFs>,
    handles: [Vec<u8>; 3],
    _calls: Receiver<Vec<u8>>,
}

fn gate(bytes: u64) -> Arc<Gate> {
    let all = Limits { bytes: NonZeroU64::new(bytes), ..Limits::NONE };
    Arbiter::new(&Limits::NONE.into(), &Pacer::start().unwrap())
        .gate(VolumeLimits { all, ..Default::default() })
}

fn fs() -> Arc<MemFs> {
    Arc::new(MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 })))
}

/// The rule of `/from` is `rules[0]`, that of `/to` `rules[1]`.
fn world(gates: [Option<Arc<Gate>>; 2], rules: [ExportRule; 2]) -> World {
    let (near, far) = (fs(), fs());
    let volume = |id, fs: &Arc<MemFs>, gate: Option<Arc<Gate>>| {
        let volume = Volume::new(VolumeId(id), "v", fs.clone(), Durability::Sync, 1);
        Arc::new(match gate {
            Some(gate) => volume.with_gate(gate),
            None => volume,
        })
    };
    let [from_gate, to_gate] = gates;
    let volumes = [volume(1, &near, from_gate), volume(2, &near, to_gate), volume(3, &far, None)];
    let [from_rule, to_rule] = rules;
    let rules = [from_rule, to_rule, rule(&[])];
    let exports = ["/from", "/to", "/far"].into_iter().zip(&volumes).zip(rules);
    let exports = exports.map(|((path, volume), rule)| Export::new(path, Arc::clone(volume), vec![rule]));
    let env = TestEnv::new(exports, vec![]);
    let (root, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let namespace = env.service.namespace.load_full();
    let mut handles = [const { Vec::new() }; 3];
    for ((export, name), handle) in namespace.exports().iter().zip([b"f", b"g", b"h"]).zip(&mut handles) {
        let set = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
        let made = export.root().create(&root, name, Disposition::CreateNew, &set, &mut pending).unwrap();
        if name == b"f" {
            let opened = made.file.authorize_write(&root).unwrap();
            opened.write(0, &[7; SIZE], Stability::Unstable, &mut pending).unwrap();
        }
        *handle = env.service.signer.sign(export.id, &made.file.key()).bytes().to_vec();
    }
    let mut client = Client::new(env, 2);
    let calls = client.listen();
    client.be(b"copier");
    let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    assert_eq!(client.status(&[complete]), Status::OK);
    let [from, to, _] = volumes;
    World { client, from, to, near, handles, _calls: calls }
}

fn open_world() -> World {
    world([None, None], [rule(&[]), rule(&[])])
}

impl World {
    fn copy(&self, to: usize, count: u64, synchronous: bool) -> Result<CopyOk, Status> {
        let results = self.between(to, Argument::Copy(copying(count, synchronous)), 2);
        match results.all().get(3) {
            Some(OpReply::Copy(CopyReply::Ok(ok))) => Ok(*ok),
            _ => Err(results.status()),
        }
    }

    /// Begins a background copy, as if the compound had paid at the target.
    fn begin(&self) -> Stateid {
        let results = self.between(1, Argument::Copy(copying(0, false)), 1);
        match results.all().get(3) {
            Some(OpReply::Copy(CopyReply::Ok(ok))) => ok.response.callback_id.expect("it goes on by itself"),
            other => panic!("{other:?}"),
        }
    }

    fn copied(&self, to: usize) -> Result<u64, Status> {
        self.copy(to, 0, true).map(|ok| ok.response.count)
    }

    fn clone(&self, to: usize) -> Status {
        let (src_stateid, dst_stateid) = (Stateid::ANONYMOUS, Stateid::ANONYMOUS);
        let args = CloneArgs { src_stateid, dst_stateid, src_offset: 0, dst_offset: 0, count: 0 };
        self.between(to, Argument::Clone(args), 2).status()
    }

    /// The last handle decides the payment of a whole compound. Here it pays nothing, so an operation on another volume
    /// pays where it runs.
    fn between(&self, to: usize, operation: Argument<'static>, last: usize) -> Results {
        let [from, to, last] = [0, to, last].map(|index| put(&self.handles[index]));
        self.client.ask(&[from, Argument::Savefh, to, operation, last])
    }

    fn progress(&self, stateid: Stateid) -> OffloadStatusOk {
        let results = self.client.ask(&[Argument::OffloadStatus(OffloadStatusArgs { stateid })]);
        match results.all().last() {
            Some(OpReply::OffloadStatus(Reply::Ok(ok))) => *ok,
            other => panic!("{other:?}"),
        }
    }

    fn wait_for_end(&self) {
        let began = Instant::now();
        while self.client.env.service.v4.tables.copies.used() > 0 {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The size of `g`, and a byte of it.
    fn target(&self) -> (u64, u8) {
        let export = Arc::clone(&self.client.env.service.namespace.load().exports()[1]);
        let root = Caller::new(0, 0, []);
        let top = export.root();
        let found = top.open_dir(&root, Blocking::Allowed).unwrap().lookup(b"g", Blocking::Allowed).unwrap();
        let (opened, attrs) = found.file.authorize_read(&root, Blocking::Allowed).unwrap();
        let mut byte = Vec::new();
        opened.read(SIZE as u64 - 1, 1, &mut byte, Blocking::Allowed).unwrap();
        (attrs.size, byte.first().copied().unwrap_or(0))
    }
}

#[test]
fn files_are_copied_and_cloned_to_another_volume_of_the_file_system() {
    let world = open_world();
    assert_eq!(world.copied(1), Ok(SIZE as u64));
    assert_eq!(world.target(), (SIZE as u64, 7));
    assert_eq!(world.from.traffic().operation_counts(Kind::Read).bytes, SIZE as u64);
    let world = open_world();
    assert_eq!(world.clone(1), Status::OK);
    assert_eq!(world.target(), (SIZE as u64, 7));
}

#[test]
fn copy_to_another_file_system_is_refused() {
    let world = open_world();
    assert_eq!((world.copied(2), world.clone(2)), (Err(Status::XDEV), Status::XDEV));
    assert_eq!(world.copy(2, u64::MAX >> 1, false), Err(Status::XDEV), "before it goes on by itself");
}

#[test]
fn each_export_says_what_may_be_done_in_its_volume() {
    let squashed = ExportRule { squash: Squash::Root, ..rule(&[]) };
    let both = |rules| {
        let world = world([None, None], rules);
        (world.copied(1).err(), world.clone(1))
    };
    let refused = |status| (Some(status), status);
    assert_eq!(both([squashed.clone(), rule(&[])]), refused(Status::ACCESS), "who it is for the source");
    assert_eq!(both([rule(&[]), squashed]), refused(Status::ACCESS), "who it is for the target");
    assert_eq!(both([rule(&["192.0.2.7"]), rule(&[])]), refused(Status::ACCESS), "not let in at the source");
    assert_eq!(both([rule(&[]), rule(&["192.0.2.7"])]), refused(Status::ACCESS));
    let read_only = ExportRule { read_only: true, ..rule(&[]) };
    assert_eq!(both([rule(&[]), read_only.clone()]), refused(Status::ROFS));
    assert_eq!(both([read_only, rule(&[])]), (None, Status::OK));
}

#[test]
fn copy_recalls_writers_of_the_source() {
    let mut world = open_world();
    let access = ShareAccess(ShareAccess::READ.0 | ShareAccess::WANT_NO_DELEG.0);
    let args = OpenArgs { share_deny: ShareDeny::READ, ..opening(OpenClaim::Fh, access) };
    assert_eq!(world.client.status(&[put(&world.handles[0]), Argument::Open(args)]), Status::OK);
    world.client.be(b"another");
    assert_eq!((world.copied(1), world.clone(1)), (Err(Status::LOCKED), Status::LOCKED));
    assert_eq!(world.target(), (0, 0));
}

#[test]
fn nobody_reads_past_the_limit_of_a_volume_by_copying_into_another() {
    let world = world([Some(gate(KIB_64)), None], [rule(&[]), rule(&[])]);
    // A burst is free; each COPY moves eight seconds' worth.
    let done = (0..40).filter(|_| match world.copied(1) {
        Ok(_) => true,
        Err(status) => {
            assert_eq!(status, Status::DELAY);
            false
        }
    });
    let done = done.count();
    assert!((1..=4).contains(&done), "{done} of 40");
    assert_eq!(world.from.traffic().operation_counts(Kind::Read).bytes, done as u64 * COPY_PAID_BYTES_MAX);
    assert_eq!(world.clone(1), Status::XDEV, "nor by sharing what is there");
}

#[test]
fn nobody_writes_past_the_limit_of_a_volume_by_copying_from_another() {
    let world = world([None, Some(gate(KIB_64))], [rule(&[]), rule(&[])]);
    let done = (0..40).filter(|_| world.copied(1).is_ok()).count();
    assert!((1..=4).contains(&done), "{done} of 40");
    assert_eq!(world.clone(1), Status::XDEV);
}

#[test]
fn a_copy_that_may_not_go_on_now_waits_by_itself_where_the_client_allows_that() {
    let world = world([Some(gate(KIB_64)), None], [rule(&[]), rule(&[])]);
    while world.copied(1).is_ok() {}
    let stateid = world.begin();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(world.progress(stateid), OffloadStatusOk { count: 0, complete: None }, "it has not paid");
    world.from.gate().set_limits(VolumeLimits::default());
    world.wait_for_end();
    let done = OffloadStatusOk { count: SIZE as u64, complete: Some(Status::OK) };
    assert_eq!(world.progress(stateid), done);
}

#[test]
fn a_copy_pays_at_both_ends_before_it_goes_on() {
    for first in [0, 1] {
        let world = world([Some(gate(KIB_64)), Some(gate(KIB_64))], [rule(&[]), rule(&[])]);
        let counted = || {
            let read = world.from.traffic().operation_counts(Kind::Read).bytes;
            (read, world.to.traffic().operation_counts(Kind::Write).bytes)
        };
        while world.copied(1).is_ok() {}
        let before = counted();
        world.begin();
        let ends = [&world.from, &world.to];
        ends[first].gate().set_limits(VolumeLimits::default());
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(counted(), before, "one end alone is not enough");
        ends[1 - first].gate().set_limits(VolumeLimits::default());
        world.wait_for_end();
        assert_eq!(counted(), (before.0 + SIZE as u64, before.1 + SIZE as u64));
    }
}

#[test]
fn a_copy_ends_when_an_export_does_not_let_its_client_in_any_longer() {
    for shut in [0, 1] {
        let world = world([Some(gate(KIB_64)), None], [rule(&[]), rule(&[])]);
        while world.copied(1).is_ok() {}
        let stateid = world.begin();
        let shared = &world.client.env.service.namespace;
        let exports: Vec<_> = shared
            .load()
            .exports()
            .iter()
            .map(|export| {
                let is_shut = export.id.0 == shut + 1;
                let rule = ExportRule {
                    read_only: is_shut && shut == 1,
                    no_access: is_shut && shut == 0,
                    ..rule(&[])
                };
                Export::new(export.path.clone(), Arc::clone(&export.volume), vec![rule])
            })
            .collect();
        shared.store(Arc::new(Namespace::new(exports)));
        world.from.gate().set_limits(VolumeLimits::default());
        world.wait_for_end();
        let refused = OffloadStatusOk { count: 0, complete: Some(Status::ACCESS) };
        assert_eq!(world.progress(stateid), refused);
    }
}

#[test]
fn a_file_of_a_snapshot_is_copied_in_the_background_until_it_is_deleted() {
    for is_deleted in [false, true] {
        let mut world = world([Some(gate(KIB_64)), None], [rule(&[]), rule(&[])]);
        let view = ViewId(1);
        world.near.snapshots().unwrap().create(view).unwrap();
        let created = Time { seconds: 1, nanos: 0 };
        world.from.set_snapshots(vec![Snapshot { view, name: "one".to_owned(), created }]);
        let signer = &world.client.env.service.signer;
        let (export, key) = signer.verify(&world.handles[0]).unwrap();
        let old = signer.sign(export, &key.in_view(view)).bytes().to_vec();
        // Back to the live file.
        world.handles[1] = std::mem::replace(&mut world.handles[0], old);
        while world.copied(1).is_ok() {}
        let stateid = world.begin();
        if is_deleted {
            world.from.set_snapshots(Vec::new());
        }
        world.from.gate().set_limits(VolumeLimits::default());
        world.wait_for_end();
        let expected = match is_deleted {
            true => OffloadStatusOk { count: 0, complete: Some(Status::STALE) },
            false => OffloadStatusOk { count: SIZE as u64, complete: Some(Status::OK) },
        };
        assert_eq!(world.progress(stateid), expected);
    }
}
