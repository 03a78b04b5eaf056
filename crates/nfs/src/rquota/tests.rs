use super::*;
use crate::testing::{NOW, TestEnv, export, rule};
use nfs_wire::rpc::{Accepted, Versions};
use nfs_wire::rquota::{PROGRAM, SetLimits, VERSION_2};
use vfs::{
    Backend, Disposition, Durability, PendingSync, ProtocolSet, QuotaBinding, QuotaLimits, QuotaRule,
    QuotaTarget, SetAttrs, Snapshot, SnapshotDirectory, SoftExcess, Squash, Stability, Time, Usage, ViewId,
    Volume, VolumeId,
};
use vfs_testing::MemFs;

const ALICE: (u32, u32) = (1000, 100);
const BOB: (u32, u32) = (1001, 101);
const PERM: QuotaReply = QuotaReply::Err(Status::PERM);
const NOQUOTA: QuotaReply = QuotaReply::Err(Status::NOQUOTA);

/// `/e` with rules for users and groups, and without for others; `/free` without rules of quotas; `/lan` for some
/// clients; `/latest` over NFSv4.2 alone; `/squashed` for nobody's root.
fn env() -> TestEnv {
    let latest = ProtocolSet::from_bits(1 << v4::protocol(2).0);
    let exports = [
        export("/e", 1, vec![rule(&[])]),
        export("/free", 2, vec![rule(&[])]),
        export("/lan", 3, vec![rule(&["192.168.1.7"])]),
        export("/latest", 4, vec![ExportRule { protocols: latest, ..rule(&[]) }]),
        export("/squashed", 5, vec![ExportRule::everybody()]),
        export("/all", 6, vec![ExportRule { squash: Squash::All, ..ExportRule::everybody() }]),
    ];
    let env = TestEnv::new(exports, vec![]);
    for place in [0, 2, 3, 4, 5] {
        limit(&volume(&env, place));
    }
    put(&env, 0);
    env
}

fn volume(env: &TestEnv, place: usize) -> Arc<Volume> {
    Arc::clone(&env.service.namespace.load().exports()[place].volume)
}

/// A limit of 100 KiB for each user, of 1 MiB and 5 files for group 100, with soft limits.
fn limit(volume: &Volume) {
    let rule = |kind, id, limits| QuotaRule { target: QuotaTarget { kind, id }, limits };
    let user = QuotaLimits { bytes: Some(100 << 10), ..QuotaLimits::default() };
    let group = QuotaLimits {
        bytes: Some(1 << 20),
        files: Some(5),
        soft_bytes: Some(4096),
        soft_files: Some(4),
        grace_s: Some(3600),
    };
    let rules = [rule(QuotaKind::User, None, user), rule(QuotaKind::Group, Some(100), group)];
    volume.quotas().unwrap().set_rules(&rules).unwrap();
}

/// A directory `dir`, one that only Alice can search, and a file of Alice with two blocks.
fn put(env: &TestEnv, place: usize) {
    let export = Arc::clone(&env.service.namespace.load().exports()[place]);
    let (root, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let owned =
        |mode| SetAttrs { mode: Some(mode), uid: Some(ALICE.0), gid: Some(ALICE.1), ..SetAttrs::default() };
    for (name, mode) in [(&b"dir"[..], 0o755), (b"closed", 0o700)] {
        let made = export.root().make_dir(&root, name, &owned(mode), &mut pending).unwrap();
        made.file.make_dir(&root, b"in", &owned(0o755), &mut pending).unwrap();
    }
    let made =
        export.root().create(&root, b"f", Disposition::CreateNew, &owned(0o644), &mut pending).unwrap();
    let opened = made.file.authorize_write(&root).unwrap();
    opened.write(0, &[1; 8192], Stability::Unstable, &mut pending).unwrap();
}

fn decoded(reply: Result<Vec<u8>, Accepted>) -> QuotaReply {
    let reply = reply.unwrap();
    let mut r = Reader::new(&reply);
    let decoded = QuotaReply::decode(&mut r).unwrap();
    assert_eq!(r.remaining(), 0);
    decoded
}

fn of_user(env: &TestEnv, path: &str, uid: u32) -> QuotaReply {
    let args = GetArgs { path: path.as_bytes(), uid };
    let first = decoded(env.ask(PROGRAM, VERSION_1, Procedure::GETQUOTA.0, &args));
    let args = ExtGetArgs { path: path.as_bytes(), kind: TYPE_USER, id: uid };
    for procedure in [Procedure::GETQUOTA, Procedure::GETACTIVEQUOTA] {
        assert_eq!(decoded(env.ask(PROGRAM, VERSION_2, procedure.0, &args)), first, "{path} {procedure:?}");
    }
    first
}

fn of_group(env: &TestEnv, path: &str, id: u32) -> QuotaReply {
    let args = ExtGetArgs { path: path.as_bytes(), kind: TYPE_GROUP, id };
    decoded(env.ask(PROGRAM, VERSION_2, Procedure::GETQUOTA.0, &args))
}

fn alice() -> Quota {
    Quota { block_bytes: 1024, active: true, block_hard: 100, blocks: 8, files: 1, ..Quota::default() }
}

#[test]
fn caller_sees_its_own_limits_and_usage() {
    let mut env = env();
    env.user = ALICE;
    for path in ["/e", "/e/", "e", "e/dir", "/e/dir/in", "//e/./dir/.."] {
        assert_eq!(of_user(&env, path, ALICE.0), QuotaReply::Ok(alice()), "{path}");
    }
    let QuotaReply::Ok(group) = of_group(&env, "/e", ALICE.1) else { panic!("group 100 has a rule") };
    assert_eq!((group.block_hard, group.block_soft, group.blocks), (1024, 4, 8));
    assert_eq!((group.file_hard, group.file_soft, group.files), (5, 4, 1));
    assert_eq!(group.file_seconds_left, 0, "below the soft limit");
    env.user = BOB;
    let (blocks, files) = (0, 0);
    assert_eq!(of_user(&env, "/e", BOB.0), QuotaReply::Ok(Quota { blocks, files, ..alice() }));
    let QuotaReply::Ok(unlimited) = of_group(&env, "/e", BOB.1) else { panic!("counted, without a rule") };
    assert_eq!(unlimited, Quota { block_bytes: 1024, active: true, ..Quota::default() });
    assert_eq!(of_user(&env, "/free", BOB.0), NOQUOTA, "no rules");
    assert_eq!(of_user(&env, "/latest", BOB.0), QuotaReply::Ok(Quota { blocks, files, ..alice() }));
}

#[test]
fn only_root_sees_others() {
    let mut env = env();
    assert_eq!(of_user(&env, "/e", ALICE.0), QuotaReply::Ok(alice()));
    assert!(matches!(of_group(&env, "/e", ALICE.1), QuotaReply::Ok(_)));
    for path in ["/squashed", "/all"] {
        assert_eq!(of_user(&env, path, ALICE.0), PERM, "{path}: root is squashed");
        assert_eq!(of_user(&env, path, 0), PERM, "{path}");
    }
    env.user = BOB;
    assert_eq!(of_user(&env, "/e", ALICE.0), PERM);
    assert_eq!(of_user(&env, "/e", 0), PERM);
    assert_eq!(of_user(&env, "/e", u32::MAX), PERM);
    assert_eq!(of_group(&env, "/e", ALICE.1), PERM);
    assert_eq!(of_user(&env, "/all", BOB.0), PERM, "its files belong to nobody");
    let args = ExtGetArgs { path: b"/e", kind: 2, id: BOB.0 };
    assert_eq!(decoded(env.ask(PROGRAM, VERSION_2, Procedure::GETQUOTA.0, &args)), NOQUOTA, "a project");
}

#[test]
fn client_that_may_not_mount_learns_nothing() {
    let mut env = env();
    for path in ["/lan", "/lan/absent", "/absent", "/", "", "/lan/../absent", "/e\0", "/lan\u{ff}"] {
        for id in [0, ALICE.0, BOB.0] {
            assert_eq!(of_user(&env, path, id), PERM, "{path:?}");
        }
    }
    env.peer = "192.168.1.7:700".parse().unwrap();
    assert!(matches!(of_user(&env, "/lan", 0), QuotaReply::Ok(_)));
    assert_eq!(of_user(&env, "/lan/absent", 0), NOQUOTA);
    env.user = BOB;
    assert_eq!(of_user(&env, "/e/closed", BOB.0), of_user(&env, "/e", BOB.0), "as MNT");
    for closed in ["/e/closed/in", "/e/closed/absent"] {
        assert_eq!(of_user(&env, closed, BOB.0), PERM, "{closed}");
    }
    for missing in ["/e/absent", "/e/f", "/e/dir/f"] {
        assert_eq!(of_user(&env, missing, BOB.0), NOQUOTA, "{missing}");
    }
    env.endpoint = Some("10.1.0.2");
    assert_eq!(of_user(&env, "/e", BOB.0), PERM, "an endpoint that does not have it");
}

#[test]
fn rule_that_requires_encryption_refuses_a_call_in_clear() {
    let encrypted = ExportRule { protection: vfs::Protection::Encrypted, ..rule(&[]) };
    let mut env = TestEnv::new([export("/e", 1, vec![encrypted])], vec![]);
    limit(&volume(&env, 0));
    assert_eq!(of_user(&env, "/e", 0), PERM);
    env.protection = vfs::Protection::Encrypted;
    assert!(matches!(of_user(&env, "/e", 0), QuotaReply::Ok(_)));
}

#[test]
fn path_may_be_in_a_snapshot() {
    let fs = MemFs::new(Arc::new(|| NOW));
    let volume = Arc::new(Volume::new(VolumeId(1), "v", Arc::new(fs.clone()), Durability::Sync, 1));
    let mut env = TestEnv::new([Export::new("/e", Arc::clone(&volume), vec![rule(&[])])], vec![]);
    put(&env, 0);
    limit(&volume);
    fs.snapshots().unwrap().create(ViewId(1)).unwrap();
    let created = Time { seconds: NOW.seconds + 1, nanos: 0 };
    volume.set_snapshots(vec![Snapshot { view: ViewId(1), name: "one".to_owned(), created }]);
    env.user = ALICE;
    for path in ["/e/.snapshot", "/e/.snapshot/one", "/e/.snapshot/one/dir", "e/dir/.snapshot/one"] {
        assert_eq!(of_user(&env, path, ALICE.0), QuotaReply::Ok(alice()), "{path}");
    }
    assert_eq!(of_user(&env, "/e/.snapshot/two", ALICE.0), NOQUOTA);
    env.user = BOB;
    assert_eq!(of_user(&env, "/e/closed/.snapshot/one", BOB.0), PERM);
    volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    assert_eq!(of_user(&env, "/e/.snapshot/one", BOB.0), NOQUOTA);
}

#[test]
fn nothing_can_be_set() {
    let env = env();
    let limits = SetLimits { block_hard: 1, ..SetLimits::default() };
    for procedure in [Procedure::SETQUOTA, Procedure::SETACTIVEQUOTA] {
        let args = SetArgs { command: 0, path: b"/e", uid: ALICE.0, limits };
        assert_eq!(decoded(env.ask(PROGRAM, VERSION_1, procedure.0, &args)), PERM);
        let args = ExtSetArgs { command: 0, path: b"/e", id: ALICE.0, kind: TYPE_USER, limits };
        assert_eq!(decoded(env.ask(PROGRAM, VERSION_2, procedure.0, &args)), PERM);
    }
    assert_eq!(of_user(&env, "/e", ALICE.0), QuotaReply::Ok(alice()));
}

#[test]
fn other_calls_are_refused() {
    let env = env();
    for version in [VERSION_1, VERSION_2] {
        assert_eq!(env.ask(PROGRAM, version, 0, &()), Ok(vec![]));
        assert_eq!(env.ask(PROGRAM, version, 5, &()), Err(Accepted::ProcUnavail));
        for procedure in 1..5 {
            assert_eq!(env.ask(PROGRAM, version, procedure, &7_u32), Err(Accepted::GarbageArgs));
        }
    }
    let long = [b'x'; nfs_wire::rquota::PATH_MAX as usize + 1];
    let args = GetArgs { path: &long, uid: 0 };
    assert_eq!(env.ask(PROGRAM, VERSION_1, 1, &args), Err(Accepted::GarbageArgs));
    assert_eq!(of_user(&env, &"x/".repeat(512), 0), PERM, "the longest path");
    let versions = Versions { low: VERSION_1, high: VERSION_2 };
    assert_eq!(env.ask(PROGRAM, 3, 0, &()), Err(Accepted::ProgMismatch(versions)));
}

fn usage(bytes: u64, files: u64, limits: QuotaLimits, excess: SoftExcess) -> QuotaUse {
    let binding = Some(QuotaBinding { limits, is_derived: false });
    QuotaUse { owner: QuotaOwner::user(7), used: Usage { bytes, files }, binding, excess }
}

#[test]
fn large_numbers_have_large_blocks() {
    let none = SoftExcess::default();
    let of = |used, max| {
        let limits = QuotaLimits { bytes: Some(max), ..QuotaLimits::default() };
        let Quota { block_bytes, block_hard, blocks, .. } = quota(&usage(used, 1, limits, none), 0);
        (block_bytes, block_hard, blocks)
    };
    assert_eq!(of(1, 1), (1024, 1, 1), "a limit is never none, and a byte is a block");
    assert_eq!(of(0, 0), (1024, 1, 0));
    assert_eq!(of(4096, (u64::from(u32::MAX)) << 10), (1024, u32::MAX, 4));
    assert_eq!(of(4096, (1 << 42) + 1), (2048, 1 << 31, 2));
    assert_eq!(of((1 << 42) + 1, 4096), (2048, 2, (1 << 31) + 1));
    assert_eq!(of(0, 100 << 50), (1 << 25, 100 << 25, 0), "100 PiB");
    assert_eq!(of(u64::MAX, u64::MAX), (1 << 30, u32::MAX, u32::MAX));
    let limits = QuotaLimits { files: Some(1 << 40), soft_files: Some(0), ..QuotaLimits::default() };
    let Quota { file_hard, file_soft, files, .. } = quota(&usage(0, 1 << 33, limits, none), 0);
    assert_eq!((file_hard, file_soft, files), (u32::MAX, 1, u32::MAX));
}

#[test]
fn grace_is_what_is_left_of_it() {
    let limits = QuotaLimits { soft_bytes: Some(1), grace_s: Some(100), ..QuotaLimits::default() };
    let excess = SoftExcess { bytes_since: Some(1000), files_since: None };
    let left = |now| quota(&usage(5, 1, limits, excess), now).block_seconds_left;
    assert_eq!([1000, 1001, 1099, 1100, 5000].map(left), [100, 99, 1, 0, 0]);
    let forever = QuotaLimits { grace_s: None, ..limits };
    assert_eq!(quota(&usage(5, 1, forever, excess), 1001).block_seconds_left, 0);
    let within = SoftExcess::default();
    assert_eq!(quota(&usage(1, 1, limits, within), 1001).block_seconds_left, 0);
}
