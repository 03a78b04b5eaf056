//! Quotas of users and groups.

use super::rig::{BLOCK_BYTES, Case, End, Fixture, ID, MIB};
use crate::UncheckedNode;
use crate::conformance::expect::{attrs, eq, holds, list, refused, untouched};
use crate::conformance::oracle::Random;
use crate::conformance::rig::{Failure, Outcome, name};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfs::backend::KEEP_SET_ID;
use vfs::backend::quotas::charge;
use vfs::{
    Backend, Blocking, Capacity, FileType, FsError, FsResult, Name, NewInode, NodeRef, QuotaKind,
    QuotaLimits, QuotaOwner, QuotaRule, QuotaTarget, Quotas, SetAttrs, Special, Usage, ViewId, VolumeId,
    unpaced,
};

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        pub(super) const CASES: &[Case] =
            &[$(Case { name: concat!("quotas/", stringify!($case)), run: $case }),*];
    };
}
cases![
    verbs_charge_the_owners,
    open_file_without_name_is_charged,
    reservation_is_charged_to_the_owners,
    limit_refuses_growth_alone,
    refusals_come_in_order_and_change_nothing,
    chown_moves_the_charge_or_is_refused,
    defaults_bind_present_owners,
    root_is_only_counted,
    soft_limit_binds_after_grace,
    writers_meet_exactly_at_the_limit,
    rules_that_come_later_count_all_files,
    rules_and_usage_outlive_an_end,
    reverts_and_clones_count_the_owners,
    traces_agree_with_a_walk,
];

const ALICE: u32 = 2001;
const BOB: u32 = 2002;
const STAFF: u32 = 3001;
const GUESTS: u32 = 3002;

struct Volume {
    backend: Arc<dyn Backend>,
    root: NodeRef,
}

fn rule(kind: QuotaKind, id: Option<u32>, bytes: Option<u64>, files: Option<u64>) -> QuotaRule {
    let limits = QuotaLimits { bytes, files, ..QuotaLimits::default() };
    QuotaRule { target: QuotaTarget { kind, id }, limits }
}

fn user(id: u32, bytes: u64) -> QuotaRule {
    rule(QuotaKind::User, Some(id), Some(bytes), None)
}

fn group(id: u32, bytes: u64) -> QuotaRule {
    rule(QuotaKind::Group, Some(id), Some(bytes), None)
}

fn owned(uid: u32, gid: u32) -> NewInode {
    NewInode { mode: 0o644, uid, gid, times: None, size: 0 }
}

fn used(blocks: u64, files: u64) -> Usage {
    Usage { bytes: blocks * BLOCK_BYTES, files }
}

impl Volume {
    fn new(fixture: &Fixture, rules: &[QuotaRule]) -> Outcome<Self> {
        let volume = Self::of(fixture.volume(64 * MIB, 1000)?);
        volume.set_rules(rules)?;
        Ok(volume)
    }

    fn of(backend: Arc<dyn Backend>) -> Self {
        Self { root: backend.root(), backend }
    }

    fn quotas(&self) -> Outcome<&dyn Quotas> {
        self.backend.quotas().ok_or_else(|| Failure::new("the backend has no quotas"))
    }

    /// Sets the rules, and waits until the files are counted by owner.
    fn set_rules(&self, rules: &[QuotaRule]) -> Outcome {
        self.quotas()?.set_rules(rules)?;
        self.counted()
    }

    fn counted(&self) -> Outcome {
        let patience = Instant::now() + Duration::from_secs(60);
        while self.quotas()?.report()?.is_counting {
            holds("a count ends", Instant::now() < patience)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn file(&self, text: &str, uid: u32, gid: u32) -> FsResult<NodeRef> {
        Ok(self.root.create_unchecked(name(text), &owned(uid, gid))?.found.node)
    }

    /// A file of so many blocks.
    fn filled(&self, text: &str, uid: u32, gid: u32, blocks: u64) -> FsResult<NodeRef> {
        let file = self.file(text, uid, gid)?;
        append(&file, blocks)?;
        Ok(file)
    }

    fn child(&self, text: &str) -> FsResult<NodeRef> {
        Ok(self.root.lookup(name(text), Blocking::Allowed)?.node)
    }

    fn used(&self, owner: QuotaOwner) -> Outcome<Usage> {
        Ok(self.quotas()?.usage(owner)?.used)
    }

    #[track_caller]
    fn check(&self, what: &str, alice: Usage, staff: Usage) -> Outcome {
        let now = (self.used(QuotaOwner::user(ALICE))?, self.used(QuotaOwner::group(STAFF))?);
        eq(what, now, (alice, staff))
    }

    fn check_drift(&self) -> Outcome {
        let checked = self.quotas()?.check()?;
        eq("drifts", checked.drifts, Vec::new())?;
        eq("unsettled", checked.unsettled, Vec::new())
    }
}

fn append(file: &NodeRef, blocks: u64) -> FsResult<()> {
    let size = file.attrs(Blocking::Allowed)?.size;
    (0..blocks).try_for_each(|n| file.write(size + n * BLOCK_BYTES, &[7; 4096], KEEP_SET_ID).map(drop))
}

fn resize(file: &NodeRef, size: u64) -> FsResult<()> {
    file.set_attrs(&SetAttrs { size: Some(size), ..SetAttrs::default() }).map(drop)
}

fn chown(file: &NodeRef, uid: Option<u32>, gid: Option<u32>) -> FsResult<()> {
    file.set_attrs(&SetAttrs { uid, gid, ..SetAttrs::default() }).map(drop)
}

fn verbs_charge_the_owners(fixture: Fixture) -> Outcome {
    let volume = Volume::new(&fixture, &[user(ALICE, 32 * MIB)])?;
    let root = &volume.root;
    let none = used(0, 0);
    let dir = root.make_dir_unchecked(name("dir"), &NewInode { mode: 0o755, ..owned(ALICE, STAFF) })?;
    let dir = dir.found.node;
    volume.check("a directory", none, none)?;
    let file = volume.file("file", ALICE, STAFF)?;
    volume.check("an empty file", used(0, 1), used(0, 1))?;
    file.write(0, &[1; 5000], KEEP_SET_ID)?;
    volume.check("a write", used(2, 1), used(2, 1))?;
    file.write(100, &[2; 4096], KEEP_SET_ID)?;
    volume.check("a write over it", used(2, 1), used(2, 1))?;
    resize(&file, 1 << 20)?;
    volume.check("a sparse file", used(256, 1), used(256, 1))?;
    resize(&file, 4097)?;
    volume.check("a shorter file", used(2, 1), used(2, 1))?;
    dir.link_unchecked(name("link"), &file)?;
    volume.check("a second name", used(2, 1), used(2, 1))?;
    chown(&file, None, Some(GUESTS))?;
    volume.check("another group", used(2, 1), none)?;
    chown(&file, Some(BOB), Some(STAFF))?;
    volume.check("another user", none, used(2, 1))?;
    root.remove_unchecked(name("file"))?;
    volume.check("a removed name", none, used(2, 1))?;
    volume.filled("other", ALICE, GUESTS, 3)?;
    volume.check("another file", used(3, 1), used(2, 1))?;
    root.rename_unchecked(name("other"), &dir, name("link"))?;
    volume.check("a replaced file", used(3, 1), none)?;
    let sized = NewInode { size: 10_000, ..owned(ALICE, STAFF) };
    root.create_unchecked(name("sized"), &sized)?;
    volume.check("a file made with a size", used(6, 2), used(3, 1))?;
    let (uid, gid) = fixture.ids;
    let before = volume.used(QuotaOwner::user(uid))?;
    root.make_special_unchecked(name("symlink"), Special::Symlink(&[b'x'; 200]), &owned(uid, gid))?;
    let after = volume.used(QuotaOwner::user(uid))?;
    eq("a symbolic link", after, Usage { files: before.files + 1, ..before })?;
    refused("a taken name", volume.file("sized", ALICE, STAFF), &[FsError::Exists])?;
    dir.remove_unchecked(name("link"))?;
    root.remove_unchecked(name("sized"))?;
    volume.check("nothing left", none, none)?;
    volume.check_drift()
}

fn open_file_without_name_is_charged(fixture: Fixture) -> Outcome {
    let volume = Volume::new(&fixture, &[user(ALICE, 32 * MIB)])?;
    let file = volume.filled("file", ALICE, STAFF, 4)?;
    file.pin();
    volume.root.remove_unchecked(name("file"))?;
    volume.check("without a name", used(4, 1), used(4, 1))?;
    append(&file, 1)?;
    volume.check("a write to it", used(5, 1), used(5, 1))?;
    chown(&file, Some(BOB), None)?;
    volume.check("a new owner", used(0, 0), used(5, 1))?;
    volume.check_drift()?;
    file.unpin();
    drop(file);
    fixture.settle(&|| Ok(volume.used(QuotaOwner::group(STAFF))? == used(0, 0)))?;
    eq("nobody has it", volume.used(QuotaOwner::user(BOB))?, used(0, 0))?;
    volume.check_drift()
}

fn reservation_is_charged_to_the_owners(fixture: Fixture) -> Outcome {
    let volume = Volume::new(&fixture, &[user(ALICE, 10 * BLOCK_BYTES)])?;
    let file = volume.filled("file", ALICE, STAFF, 1)?;
    let eight = 8 * 4096;
    file.reserve(BLOCK_BYTES, eight, KEEP_SET_ID)?;
    volume.check("reserved", used(9, 1), used(9, 1))?;
    refused("another file", volume.filled("other", ALICE, STAFF, 2), &[FsError::Quota])?;
    refused("more", file.reserve(8 * BLOCK_BYTES, eight, KEEP_SET_ID), &[FsError::Quota])?;
    append(&file, 3)?;
    volume.check("a part is written", used(10, 2), used(10, 2))?;
    file.release(BLOCK_BYTES, eight);
    volume.check("released", used(5, 2), used(5, 2))?;
    volume.check_drift()
}

fn limit_refuses_growth_alone(fixture: Fixture) -> Outcome {
    let files = rule(QuotaKind::User, Some(BOB), None, Some(2));
    let volume = Volume::new(&fixture, &[user(ALICE, 8 * BLOCK_BYTES), files])?;
    let file = volume.filled("file", ALICE, STAFF, 8)?;
    let before = attrs(&file)?;
    let whole = fixture.usage()?;
    refused("a block more", append(&file, 1), &[FsError::Quota])?;
    refused("a larger size", resize(&file, 1 << 20), &[FsError::Quota])?;
    refused("a byte in a new block", file.write(32_767, &[1; 2], KEEP_SET_ID), &[FsError::Quota])?;
    untouched("the file", &file, &before)?;
    if fixture.is_exact() {
        eq("the volume's count", fixture.usage()?, whole)?;
    }
    file.write(0, &[9; 32_768], KEEP_SET_ID)?;
    volume.filled("of bob", BOB, STAFF, 9)?;
    volume.file("empty", ALICE, STAFF)?;
    volume.file("second", BOB, STAFF)?;
    refused("a third file", volume.file("third", BOB, STAFF), &[FsError::Quota])?;
    refused("a taken name", volume.file("second", BOB, STAFF), &[FsError::Exists])?;
    volume.set_rules(&[user(ALICE, 2 * BLOCK_BYTES)])?;
    refused("growth above the limit", append(&file, 1), &[FsError::Quota])?;
    resize(&file, 5 * BLOCK_BYTES)?;
    file.write(0, &[9; 4096], KEEP_SET_ID)?;
    refused("growth above it still", append(&file, 1), &[FsError::Quota])?;
    resize(&file, BLOCK_BYTES)?;
    append(&file, 1)?;
    volume.check("at the limit", used(2, 2), used(11, 4))?;
    volume.check_drift()
}

fn refusals_come_in_order_and_change_nothing(fixture: Fixture) -> Outcome {
    let volume = Volume::of(fixture.volume(MIB, 100)?);
    volume.set_rules(&[user(ALICE, 8 * MIB), group(STAFF, 4 * BLOCK_BYTES)])?;
    let file = volume.filled("file", ALICE, STAFF, 2)?;
    let large = vec![1; 2 << 20];
    refused("more than the volume", file.write(0, &large, KEEP_SET_ID), &[FsError::NoSpace])?;
    refused("more than the group", append(&file, 3), &[FsError::Quota])?;
    volume.check("what fitted", used(4, 1), used(4, 1))?;
    let whole = fixture.usage()?;
    refused("more", append(&file, 1), &[FsError::Quota])?;
    volume.check("no user is charged for what the group lacks", used(4, 1), used(4, 1))?;
    if fixture.is_exact() {
        eq("nor is the volume", fixture.usage()?, whole)?;
    }
    volume.set_rules(&[])?;
    append(&file, 4)?;
    volume.check("without rules", used(8, 1), used(8, 1))
}

fn chown_moves_the_charge_or_is_refused(fixture: Fixture) -> Outcome {
    let rules = [user(BOB, 3 * BLOCK_BYTES), group(GUESTS, 4 * BLOCK_BYTES)];
    let volume = Volume::new(&fixture, &rules)?;
    let file = volume.filled("file", ALICE, STAFF, 4)?;
    let before = attrs(&file)?;
    refused("to a user", chown(&file, Some(BOB), None), &[FsError::Quota])?;
    refused("to a user and a group", chown(&file, Some(BOB), Some(GUESTS)), &[FsError::Quota])?;
    let both = SetAttrs { uid: Some(BOB), size: Some(5 * BLOCK_BYTES), ..SetAttrs::default() };
    refused("with a new size", file.set_attrs(&both), &[FsError::Quota])?;
    untouched("the file", &file, &before)?;
    volume.check("nothing moved", used(4, 1), used(4, 1))?;
    eq("nor to bob", volume.used(QuotaOwner::user(BOB))?, used(0, 0))?;
    chown(&file, None, Some(GUESTS))?;
    refused("growth in the full group", append(&file, 1), &[FsError::Quota])?;
    volume.check("the group changed", used(4, 1), used(0, 0))?;
    resize(&file, 2 * BLOCK_BYTES)?;
    chown(&file, Some(BOB), Some(STAFF))?;
    volume.check("both changed", used(0, 0), used(2, 1))?;
    eq("to bob", volume.used(QuotaOwner::user(BOB))?, used(2, 1))?;
    append(&file, 1)?;
    refused("growth past bob's", append(&file, 1), &[FsError::Quota])?;
    chown(&file, Some(0), Some(0))?;
    append(&file, 9)?;
    eq("to root, from bob", volume.used(QuotaOwner::user(BOB))?, used(0, 0))?;
    volume.check_drift()
}

fn defaults_bind_present_owners(fixture: Fixture) -> Outcome {
    let volume = Volume::of(fixture.volume(64 * MIB, 1000)?);
    let file = volume.filled("file", ALICE, STAFF, 6)?;
    let default = rule(QuotaKind::User, None, Some(4 * BLOCK_BYTES), None);
    volume.set_rules(&[default, user(BOB, 5 * BLOCK_BYTES)])?;
    refused("a present owner", append(&file, 1), &[FsError::Quota])?;
    refused("a new one", volume.filled("new", 2003, STAFF, 5), &[FsError::Quota])?;
    refused("one with a rule", volume.filled("bob", BOB, STAFF, 6), &[FsError::Quota])?;
    eq("the individual rule's", volume.used(QuotaOwner::user(BOB))?, used(5, 1))?;
    let report = volume.quotas()?.report()?;
    let of = |owner| report.uses.iter().find(|of| of.owner == owner).and_then(|of| of.binding);
    let seen = |id| of(QuotaOwner::user(id)).map(|found| (found.limits.bytes, found.is_derived));
    eq("a derived rule", seen(ALICE), Some((Some(4 * BLOCK_BYTES), true)))?;
    eq("an individual rule", seen(BOB), Some((Some(5 * BLOCK_BYTES), false)))?;
    eq("no rule for groups", of(QuotaOwner::group(STAFF)), None)?;
    let room = volume.quotas()?.room(BOB, STAFF)?;
    eq("room", (room.bytes_max, room.bytes), (Some(5 * BLOCK_BYTES), Some(0)))?;
    eq("rules", volume.quotas()?.rules(), vec![default, user(BOB, 5 * BLOCK_BYTES)])?;
    let twice = volume.quotas()?.set_rules(&[default, default]);
    refused("two rules for one", twice, &[FsError::Invalid])?;
    eq("rules after a refusal", volume.quotas()?.rules().len(), 2)
}

fn root_is_only_counted(fixture: Fixture) -> Outcome {
    let tiny = |kind, id| rule(kind, id, Some(0), Some(0));
    let rules = [QuotaKind::User, QuotaKind::Group].map(|kind| [tiny(kind, None), tiny(kind, Some(0))]);
    let volume = Volume::new(&fixture, &rules.concat())?;
    volume.filled("file", 0, 0, 3)?;
    holds("user 0", volume.used(QuotaOwner::user(0))?.bytes >= 3 * BLOCK_BYTES)?;
    holds("group 0", volume.used(QuotaOwner::group(0))?.bytes >= 3 * BLOCK_BYTES)?;
    refused("another", volume.file("other", ALICE, 0), &[FsError::Quota])?;
    refused("another group", volume.file("other", 0, STAFF), &[FsError::Quota])
}

fn soft_limit_binds_after_grace(fixture: Fixture) -> Outcome {
    let soft = |grace_s| {
        let limits = QuotaLimits {
            bytes: Some(8 * BLOCK_BYTES),
            soft_bytes: Some(2 * BLOCK_BYTES),
            grace_s,
            ..QuotaLimits::default()
        };
        QuotaRule { target: QuotaTarget { kind: QuotaKind::User, id: Some(ALICE) }, limits }
    };
    let volume = Volume::new(&fixture, &[soft(None)])?;
    let file = volume.filled("file", ALICE, STAFF, 2)?;
    let since = || Ok::<_, Failure>(volume.quotas()?.usage(QuotaOwner::user(ALICE))?.excess.bytes_since);
    eq("at the soft limit", since()?, None)?;
    append(&file, 2)?;
    let first = since()?;
    holds("above it", first.is_some())?;
    append(&file, 1)?;
    eq("later", since()?, first)?;
    volume.set_rules(&[soft(Some(0))])?;
    refused("after the grace period", append(&file, 1), &[FsError::Quota])?;
    eq("no room", volume.quotas()?.room(ALICE, STAFF)?.bytes, Some(0))?;
    resize(&file, 2 * BLOCK_BYTES)?;
    eq("below it again", since()?, None)?;
    append(&file, 1)
        .and_then(|()| volume.file("other", ALICE, STAFF).map(drop))
        .map_err(|error| Failure::from(error).during("a new excess"))
}

/// 64 writers of 8 users in one group.
fn writers_meet_exactly_at_the_limit(fixture: Fixture) -> Outcome {
    const USERS: u32 = 8;
    const WRITERS: u32 = 64;
    const OF_USER: u64 = 64 * BLOCK_BYTES;
    const OF_GROUP: u64 = 6 * OF_USER;
    let default = rule(QuotaKind::User, None, Some(OF_USER), None);
    let volume = Volume::new(&fixture, &[default, group(STAFF, OF_GROUP)])?;
    let files: Vec<NodeRef> = (0..WRITERS)
        .map(|n| volume.file(&n.to_string(), ALICE + n % USERS, STAFF))
        .collect::<Result<_, _>>()?;
    let is_done = AtomicBool::new(false);
    let fill = |file: &NodeRef| loop {
        match append(file, 1) {
            Ok(()) => {}
            Err(FsError::Quota) => return Ok(()),
            Err(error) => return Err(error),
        }
    };
    let watch = || {
        let mut is_within = true;
        while !is_done.load(Ordering::Relaxed) {
            for of in volume.quotas()?.report()?.uses {
                is_within &= of.binding.is_none_or(|rule| Some(of.used.bytes) <= rule.limits.bytes);
            }
        }
        holds("never a byte over", is_within)
    };
    std::thread::scope(|scope| {
        let watching = scope.spawn(watch);
        let threads: Vec<_> = files.iter().map(|file| scope.spawn(move || fill(file))).collect();
        let ended: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        is_done.store(true, Ordering::Relaxed);
        ended.into_iter().collect::<FsResult<Vec<()>>>()?;
        watching.join().map_err(|_| Failure::new("the watcher panicked"))?
    })?;
    eq("the group's bytes", volume.used(QuotaOwner::group(STAFF))?.bytes, OF_GROUP)?;
    let of_users = (0..USERS).map(|n| Ok(volume.used(QuotaOwner::user(ALICE + n))?.bytes));
    eq("the users' bytes", of_users.sum::<Outcome<u64>>()?, OF_GROUP)?;
    volume.check_drift()
}

fn rules_that_come_later_count_all_files(fixture: Fixture) -> Outcome {
    let volume = Volume::of(fixture.volume(64 * MIB, 1000)?);
    let file = volume.filled("file", ALICE, STAFF, 3)?;
    volume.root.link_unchecked(name("link"), &file)?;
    let open = volume.filled("open", ALICE, STAFF, 4)?;
    open.pin();
    volume.root.remove_unchecked(name("open"))?;
    volume.set_rules(&[user(ALICE, MIB)])?;
    volume.check("all files, with the one that is open", used(7, 2), used(7, 2))?;
    open.unpin();
    drop(open);
    fixture.settle(&|| Ok(volume.used(QuotaOwner::user(ALICE))? == used(3, 1)))?;
    append(&file, 1)?;
    volume.check("the rest", used(4, 1), used(4, 1))?;
    volume.check_drift()
}

fn rules_and_usage_outlive_an_end(fixture: Fixture) -> Outcome {
    let rules = [user(ALICE, 8 * BLOCK_BYTES), group(STAFF, MIB)];
    let mut fixture = fixture;
    let volume = Volume::new(&fixture, &rules)?;
    volume.filled("file", ALICE, STAFF, 5)?;
    let mut backend = volume.backend;
    drop(volume.root);
    for (round, end) in (6..).zip([End::Orderly, End::Killed, End::Killed]) {
        backend.sync()?;
        fixture = fixture.after(backend, end);
        let volume = Volume::of(fixture.provisioner.open(ID)?);
        fixture.counted()?;
        volume.counted()?;
        eq("rules", volume.quotas()?.rules(), rules.to_vec())?;
        volume.check("usage", used(round - 1, 1), used(round - 1, 1))?;
        let file = volume.root.lookup(name("file"), Blocking::Allowed)?.node;
        append(&file, 1)?;
        drop(file);
        volume.check_drift()?;
        backend = volume.backend;
    }
    let volume = Volume::of(backend);
    let file = volume.root.lookup(name("file"), Blocking::Allowed)?.node;
    refused("past the limit", append(&file, 1), &[FsError::Quota])
}

fn reverts_and_clones_count_the_owners(fixture: Fixture) -> Outcome {
    const CLONE: VolumeId = VolumeId(77);
    let mut fixture = fixture;
    let volume = Volume::new(&fixture, &[user(ALICE, MIB)])?;
    let Some(snapshots) = volume.backend.snapshots() else { return Ok(()) };
    volume.filled("kept", ALICE, STAFF, 3)?;
    volume.filled("given", ALICE, STAFF, 2)?;
    volume.filled("gone", BOB, STAFF, 1)?;
    snapshots.create(ViewId(1))?;
    // A revert leaves the rules.
    let rules = [user(ALICE, 6 * BLOCK_BYTES), group(STAFF, MIB)];
    volume.set_rules(&rules)?;
    let mut backend = volume.backend;
    drop(volume.root);
    for end in [End::Orderly, End::Killed] {
        let volume = Volume::of(backend);
        chown(&volume.child("given")?, Some(BOB), Some(GUESTS))?;
        volume.root.remove_unchecked(name("gone"))?;
        append(&volume.child("kept")?, 1)?;
        volume.filled("new", ALICE, STAFF, 2)?;
        volume.check("changed", used(6, 2), used(6, 2))?;
        drop(volume.root);
        volume.backend.sync()?;
        fixture.counted()?;
        // The saved count is one of the changed files.
        fixture = fixture.after(volume.backend, end);
        fixture.provisioner.revert(ID, ViewId(1), &mut unpaced)?;
        let volume = Volume::of(fixture.provisioner.open(ID)?);
        fixture.counted()?;
        volume.counted()?;
        eq("rules", volume.quotas()?.rules(), rules.to_vec())?;
        volume.check("after a revert", used(5, 2), used(6, 3))?;
        let others = (volume.used(QuotaOwner::user(BOB))?, volume.used(QuotaOwner::group(GUESTS))?);
        eq("others after a revert", others, (used(1, 1), Usage::default()))?;
        volume.check_drift()?;
        refused("past the limit", resize(&volume.child("kept")?, 5 * BLOCK_BYTES), &[FsError::Quota])?;
        backend = volume.backend;
    }
    let (root, capacity) = (fixture.root(), Capacity { bytes: 64 * MIB, files: 1000 });
    fixture.provisioner.clone_volume(ID, ViewId(1), CLONE, &root, capacity, &mut unpaced)?;
    let clone = Volume::of(fixture.provisioner.open(CLONE)?);
    clone.set_rules(&rules)?;
    clone.check("a clone", used(5, 2), used(6, 3))?;
    resize(&clone.child("kept")?, 4 * BLOCK_BYTES)?;
    refused("past the limit", resize(&clone.child("kept")?, 5 * BLOCK_BYTES), &[FsError::Quota])?;
    clone.check_drift()?;
    let source = Volume::of(backend);
    source.check("the source", used(5, 2), used(6, 3))?;
    source.check_drift()
}

/// Returns the usage of all owners by a walk with the backend's own operations.
fn walked(root: &NodeRef) -> Outcome<BTreeMap<QuotaOwner, Usage>> {
    let (mut usage, mut seen) = (BTreeMap::<_, Usage>::new(), HashSet::new());
    let mut waiting = vec![Arc::clone(root)];
    while let Some(dir) = waiting.pop() {
        for listed in list(&dir, 0, false, 1000)? {
            let Ok(child) = Name::new(&listed.name) else { continue };
            let found = dir.lookup(child, Blocking::Allowed)?;
            if found.attrs.file_type == FileType::Directory {
                waiting.push(found.node);
                continue;
            }
            if !seen.insert(found.attrs.file_id) {
                continue;
            }
            let charged = charge(found.attrs.file_type, found.attrs.size);
            for owner in [QuotaOwner::user(found.attrs.uid), QuotaOwner::group(found.attrs.gid)] {
                let used = usage.entry(owner).or_default();
                used.bytes += charged.bytes;
                used.files += charged.files;
            }
        }
    }
    Ok(usage)
}

fn traces_agree_with_a_walk(fixture: Fixture) -> Outcome {
    let default = |kind| rule(kind, None, Some(40 * BLOCK_BYTES), Some(8));
    let rules = [default(QuotaKind::User), default(QuotaKind::Group), user(BOB, 20 * BLOCK_BYTES)];
    let volume = Volume::new(&fixture, &rules)?;
    let dir = volume.root.make_dir_unchecked(name("dir"), &NewInode { mode: 0o755, ..owned(0, 0) })?;
    let dirs = [Arc::clone(&volume.root), dir.found.node];
    let mut random = Random::new(38);
    let mut refusals = 0;
    for step in 0..600 {
        let mut pick = |n: usize| random.below(n);
        let (from, to) = (&dirs[pick(2)], &dirs[pick(2)]);
        let (uid, gid) = ([0, ALICE, BOB][pick(3)], [STAFF, GUESTS][pick(2)]);
        let (one, other) = (format!("f{}", pick(12)), format!("f{}", pick(12)));
        let (offset, blocks) = (pick(40_000) as u64, pick(5) as u64);
        let verb = pick(8);
        let file = || Ok::<_, FsError>(from.lookup(name(&one), Blocking::Allowed)?.node);
        let done = match verb {
            0 => from.create_unchecked(name(&one), &owned(uid, gid)).map(drop),
            1 => from.create_unchecked(name(&one), &NewInode { size: offset, ..owned(uid, gid) }).map(drop),
            2 => file().and_then(|file| append(&file, blocks)),
            3 => file().and_then(|file| resize(&file, offset)),
            4 => file().and_then(|file| chown(&file, Some(uid), Some(gid))),
            5 => from.remove_unchecked(name(&one)).map(drop),
            6 => from.rename_unchecked(name(&one), to, name(&other)).map(drop),
            _ => file().and_then(|file| to.link_unchecked(name(&other), &file).map(drop)),
        };
        match done {
            Ok(()) | Err(FsError::NotFound | FsError::Exists) => {}
            Err(FsError::Quota) => refusals += 1,
            Err(error) => return Err(Failure::from(error).during(format!("step {step}"))),
        }
        let want = walked(&volume.root)?;
        for of in volume.quotas()?.report()?.uses {
            let walked = want.get(&of.owner).copied().unwrap_or_default();
            eq(format!("{:?} after step {step}", of.owner), of.used, walked)?;
        }
    }
    holds("limits were met", refusals > 10)?;
    volume.check_drift()
}
