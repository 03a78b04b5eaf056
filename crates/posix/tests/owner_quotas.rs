//! Quotas on real file systems: exact after kills and with writers while the count begins, and over an orderly end.
//!
//! The suite of `vfs-testing` tests the verbs and the limits (`tests/capacity.rs`).

mod fixture;

use fixture::{DIR, Ground, MODE, Tree, is_long, name, new_inode};
use posix::{Options, Volumes};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Backend, Blocking, Capacity, FsError, FsResult, NewInode, NodeRef, Provisioner, QuotaCheck, QuotaKind,
    QuotaLimits, QuotaOwner, QuotaRule, QuotaTarget, Quotas, Root, SetAttrs, Usage, VolumeId,
};
use vfs_testing::UncheckedNode;
use vfs_testing::conformance::oracle::Random;

const ID: VolumeId = VolumeId(0xfeed_f00d_dead_beef);
/// Only a hang takes this long.
const WAIT_MAX: Duration = Duration::from_secs(600);
const USERS: [u32; 4] = [0, 2001, 2002, 2003];
const GROUPS: [u32; 2] = [3001, 3002];
fn open(data: &Path) -> Arc<Volumes> {
    Volumes::open(data, Options::default()).expect("volumes")
}

fn volume(volumes: &Volumes) -> Arc<dyn Backend> {
    let own = new_inode(0o755);
    let root = Root { mode: own.mode, uid: own.uid, gid: own.gid };
    volumes.make(ID, &root, Capacity { bytes: 256 << 20, files: 100_000 }).unwrap();
    volumes.open(ID).unwrap()
}

fn dir(data: &Path) -> PathBuf {
    data.join(format!("volumes/{:016x}", ID.0))
}

fn saved(data: &Path, suffix: &str) -> PathBuf {
    data.join(format!("quotas/{:016x}{suffix}", ID.0))
}

fn rules() -> Vec<QuotaRule> {
    let rule = |kind, id, bytes| {
        let limits = QuotaLimits { bytes: Some(bytes), files: Some(60), ..QuotaLimits::default() };
        QuotaRule { target: QuotaTarget { kind, id }, limits }
    };
    vec![
        rule(QuotaKind::User, None, 600 << 10),
        rule(QuotaKind::User, Some(2003), 100 << 10),
        rule(QuotaKind::Group, Some(3001), 1000 << 10),
    ]
}

fn quotas(volume: &Arc<dyn Backend>) -> &dyn Quotas {
    volume.quotas().expect("quotas")
}

fn wait_until_counted(volume: &Arc<dyn Backend>) {
    let until = Instant::now() + WAIT_MAX;
    while quotas(volume).report().unwrap().is_counting {
        assert!(Instant::now() < until, "the count does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn used(volume: &Arc<dyn Backend>, owner: QuotaOwner) -> Usage {
    quotas(volume).usage(owner).unwrap().used
}

/// The usage of all owners by `stat`.
fn walked(dir: &Path) -> HashMap<QuotaOwner, Usage> {
    let (mut usage, mut seen) = (HashMap::<_, Usage>::new(), std::collections::HashSet::new());
    let mut waiting = vec![dir.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let (path, stat) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
            if stat.is_dir() {
                waiting.push(path);
            } else if seen.insert(stat.ino()) {
                for owner in [QuotaOwner::user(stat.uid()), QuotaOwner::group(stat.gid())] {
                    let used = usage.entry(owner).or_default();
                    used.bytes += if stat.is_file() { stat.len().div_ceil(4096) * 4096 } else { 0 };
                    used.files += 1;
                }
            }
        }
    }
    usage
}

/// Compares the running count with a recount, and with a walk by `stat`.
fn assert_exact(data: &Path, volume: &Arc<dyn Backend>, when: &str) {
    assert_eq!(quotas(volume).check(), Ok(QuotaCheck::default()), "{when}");
    let walked = walked(&dir(data));
    for of in quotas(volume).report().unwrap().uses {
        assert_eq!(of.used, walked.get(&of.owner).copied().unwrap_or_default(), "{:?} {when}", of.owner);
        if let Some(binding) = of.binding {
            assert!(Some(of.used.bytes) <= binding.limits.bytes, "{:?} {when}", of.owner);
        }
    }
}

/// One random change of a few files that all writers share.
fn change(top: &NodeRef, random: &mut Random) -> FsResult<()> {
    let mut pick = |n: usize| random.below(n);
    let owned = NewInode { uid: USERS[pick(4)], gid: GROUPS[pick(2)], ..new_inode(0o644) };
    let (one, other) = (format!("f{}", pick(40)), format!("f{}", pick(40)));
    let (offset, len) = (pick(60_000) as u64, pick(30_000));
    let file = || Ok::<_, FsError>(top.lookup(name(&one), Blocking::Allowed)?.node);
    let set = |set: SetAttrs| file()?.set_attrs(&set).map(drop);
    match pick(10) {
        0 | 1 => top.create_unchecked(name(&one), &owned).map(drop),
        2 => top.create_unchecked(name(&one), &NewInode { size: offset, ..owned }).map(drop),
        3 | 4 => file()?.write(offset, &vec![1; len], KEEP_SET_ID).map(drop),
        5 => set(SetAttrs { size: Some(offset), ..SetAttrs::default() }),
        6 => set(SetAttrs { uid: Some(owned.uid), gid: Some(owned.gid), ..SetAttrs::default() }),
        7 => {
            let file = file()?;
            file.pin();
            let removed = top.remove_unchecked(name(&one)).map(drop);
            let written = file.write(offset, &vec![2; len], KEEP_SET_ID);
            file.unpin();
            removed.and(written.map(drop))
        }
        8 => {
            let file = file()?;
            file.reserve(offset, len, KEEP_SET_ID)?;
            let half = vec![3; len / 2];
            let written = file.write(offset, &half, KEEP_SET_ID);
            file.release(offset, len);
            written.map(drop)
        }
        _ if len % 2 == 0 => top.rename_unchecked(name(&one), top, name(&other)).map(drop),
        _ => file().and_then(|file| top.link_unchecked(name(&other), &file).map(drop)),
    }
}

/// Changes files on several threads until `is_done`, and sweeps as the process does.
fn change_until(volumes: &Volumes, top: &NodeRef, is_done: &(dyn Fn() -> bool + Sync), seed: u64) -> u64 {
    const THREADS: u64 = 6;
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let refused = &refused;
            scope.spawn(move || {
                let mut random = Random::new(seed * THREADS + thread + 1);
                while !is_done() {
                    match change(top, &mut random) {
                        Ok(()) | Err(FsError::NotFound | FsError::Exists | FsError::Stale) => {}
                        Err(FsError::Quota) => _ = refused.fetch_add(1, Ordering::Relaxed),
                        Err(FsError::Wait(_)) => std::thread::sleep(Duration::from_micros(200)),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        while !is_done() {
            volumes.sweep(1000);
            std::thread::sleep(Duration::from_millis(3));
        }
    });
    volumes.sweep(1000);
    refused.into_inner()
}

#[test]
fn count_begins_exactly_among_writers() {
    for ground in [Ground::Tmpfs, Ground::Xfs, Ground::XfsProjects] {
        let Some(tree) = Tree::new(ground) else { continue };
        for round in 0..6 {
            let data = tree.path.join(format!("data-{round}"));
            fs::create_dir(&data).unwrap();
            let volumes = open(&data);
            let volume = volume(&volumes);
            let is_done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writers = scope.spawn(|| {
                    change_until(&volumes, &volume.root(), &|| is_done.load(Ordering::Relaxed), round)
                });
                std::thread::sleep(Duration::from_millis(30 + 20 * round));
                quotas(&volume).set_rules(&[]).unwrap();
                wait_until_counted(&volume);
                std::thread::sleep(Duration::from_millis(50));
                is_done.store(true, Ordering::Relaxed);
                writers.join().unwrap();
            });
            assert_exact(&data, &volume, &format!("in round {round} on {ground:?}"));
            drop((volume, volumes));
            fs::remove_dir_all(&data).unwrap();
        }
    }
}

#[test]
fn usage_is_exact_after_kills() {
    let kills: u32 = if is_long() { 100 } else { 8 };
    let tree = Tree::new(Ground::Disk).unwrap();
    drop(volume(&open(&tree.path)));
    let mut random = Random::new(kills.into());
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["inner", "--exact", "--ignored"])
            .env(DIR, &tree.path)
            .env(MODE, kill.to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let table = saved(&tree.path, "");
        let is_in_use = || fs::read(&table).is_ok_and(|bytes| bytes.get(1) == Some(&0));
        let until = Instant::now() + WAIT_MAX;
        while !is_in_use() {
            assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "the child does nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20 + random.below(150) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let volumes = open(&tree.path);
        let volume = volumes.open(ID).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        assert_eq!(quotas(&volume).rules(), rules(), "after kill {kill}");
        assert_exact(&tree.path, &volume, &format!("after kill {kill}"));
    }
}

#[test]
#[ignore = "run by another test in a process of its own"]
fn inner() {
    let data = std::env::var_os(DIR).expect("started by another test");
    let seed = std::env::var(MODE).expect("a seed").parse().expect("a number");
    let volumes = open(Path::new(&data));
    let volume = volumes.open(ID).unwrap();
    quotas(&volume).set_rules(&rules()).unwrap();
    change_until(&volumes, &volume.root(), &|| false, seed);
}

#[test]
fn limits_bind_among_writers() {
    let tree = Tree::new(Ground::Tmpfs).unwrap();
    let volumes = open(&tree.path);
    let volume = volume(&volumes);
    quotas(&volume).set_rules(&rules()).unwrap();
    let refusals = AtomicU64::new(0);
    for seed in 0..4 {
        let until = Instant::now() + Duration::from_millis(300);
        let refused = change_until(&volumes, &volume.root(), &|| Instant::now() > until, seed);
        refusals.fetch_add(refused, Ordering::Relaxed);
        assert_exact(&tree.path, &volume, &format!("after seed {seed}"));
        // The volume's own count met the same writers.
        assert_eq!(volumes.usage(ID).unwrap(), Volumes::recount(&dir(&tree.path)).unwrap(), "seed {seed}");
    }
    assert!(refusals.into_inner() > 0, "the limits were met");
}

/// A volume with a file of 3 blocks, and rules, closed in an orderly way.
fn closed_volume(data: &Path) {
    let volumes = open(data);
    let volume = volume(&volumes);
    quotas(&volume).set_rules(&rules()).unwrap();
    wait_until_counted(&volume);
    let owned = NewInode { uid: 2001, gid: 3001, ..new_inode(0o644) };
    let file = volume.root().create_unchecked(name("file"), &owned).unwrap().found.node;
    file.write(0, &[1; 3 * 4096], KEEP_SET_ID).unwrap();
    drop(file);
    volumes.close();
}

/// Adds a file that only a walk finds.
fn add_unseen_file(data: &Path) {
    let path = dir(data).join("unseen");
    fs::write(&path, [7; 4096]).unwrap();
    std::os::unix::fs::chown(&path, Some(2001), Some(3001)).unwrap();
}

#[test]
fn orderly_end_saves_the_table() {
    for ground in [Ground::Tmpfs, Ground::XfsProjects] {
        let Some(tree) = Tree::new(ground) else { continue };
        closed_volume(&tree.path);
        let table = fs::read(saved(&tree.path, "")).unwrap();
        assert_eq!(table[..2], [1, 1], "clean");
        add_unseen_file(&tree.path);
        let volumes = open(&tree.path);
        let volume = volumes.open(ID).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        let owner = QuotaOwner::user(2001);
        assert_eq!(used(&volume, owner), Usage { bytes: 3 * 4096, files: 1 }, "no walk on {ground:?}");
        let drifts = quotas(&volume).check().unwrap().drifts;
        let drift = drifts.iter().find(|drift| drift.owner == owner).expect("a drift");
        assert_eq!(drift.recounted, Usage { bytes: 4 * 4096, files: 2 });
        assert_eq!(used(&volume, owner).files, 1, "a check corrects nothing");
    }
}

#[test]
fn damaged_table_is_counted_anew() {
    for damage in [(1, 0), (30, 0xff)] {
        let tree = Tree::new(Ground::Tmpfs).unwrap();
        closed_volume(&tree.path);
        let mut table = fs::read(saved(&tree.path, "")).unwrap();
        table[damage.0] = damage.1;
        fs::write(saved(&tree.path, ""), table).unwrap();
        add_unseen_file(&tree.path);
        let volumes = open(&tree.path);
        let volume = volumes.open(ID).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        assert_eq!(used(&volume, QuotaOwner::user(2001)), Usage { bytes: 4 * 4096, files: 2 });
        assert_eq!(quotas(&volume).rules(), rules());
        assert_exact(&tree.path, &volume, "after a damage");
    }
}

#[test]
fn damaged_rules_do_not_bind_and_can_be_set_again() {
    let tree = Tree::new(Ground::Tmpfs).unwrap();
    closed_volume(&tree.path);
    fs::write(saved(&tree.path, ".rules"), b"damaged").unwrap();
    let volumes = open(&tree.path);
    let volume = volumes.open(ID).unwrap();
    assert_eq!(quotas(&volume).rules(), []);
    assert_eq!(used(&volume, QuotaOwner::user(2001)), Usage { bytes: 3 * 4096, files: 1 });
    quotas(&volume).set_rules(&rules()).unwrap();
    drop(volume);
    assert_eq!(quotas(&volumes.open(ID).unwrap()).rules(), rules());
}

#[test]
fn soft_excess_outlives_an_end() {
    let tree = Tree::new(Ground::Tmpfs).unwrap();
    closed_volume(&tree.path);
    let limits = QuotaLimits { soft_bytes: Some(4096), grace_s: Some(1 << 30), ..QuotaLimits::default() };
    let rule = QuotaRule { target: QuotaTarget { kind: QuotaKind::User, id: Some(2001) }, limits };
    let since = {
        let volumes = open(&tree.path);
        let volume = volumes.open(ID).unwrap();
        quotas(&volume).set_rules(&[rule]).unwrap();
        let since = quotas(&volume).usage(QuotaOwner::user(2001)).unwrap().excess.bytes_since;
        let file = volume.root().lookup(name("file"), Blocking::Allowed).unwrap().node;
        file.write(0, &[1; 4 * 4096], KEEP_SET_ID).unwrap();
        since
    };
    assert!(since.is_some());
    // The second of the saved times, as if the excess had begun long ago.
    let path = saved(&tree.path, "");
    let table = fs::read(&path).unwrap();
    assert!(table.windows(8).any(|bytes| bytes == since.unwrap().to_be_bytes()));
    for is_clean in [true, false] {
        let mut table = table.clone();
        table[1] = is_clean.into();
        fs::write(&path, table).unwrap();
        std::thread::sleep(Duration::from_millis(1100));
        let volumes = open(&tree.path);
        let volume = volumes.open(ID).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        let now = quotas(&volume).usage(QuotaOwner::user(2001)).unwrap();
        assert_eq!((now.excess.bytes_since, now.used.bytes), (since, 4 * 4096), "clean: {is_clean}");
    }
}

#[test]
fn removed_volume_leaves_no_quotas() {
    let tree = Tree::new(Ground::Tmpfs).unwrap();
    closed_volume(&tree.path);
    let volumes = open(&tree.path);
    let still_open = volumes.open(ID).unwrap();
    volumes.remove(ID).unwrap();
    assert_eq!(quotas(&still_open).set_rules(&rules()), Err(FsError::Stale));
    drop((still_open, volumes));
    assert_eq!(fs::read_dir(tree.path.join("quotas")).unwrap().count(), 0);
    // An interrupted removal may have left them.
    fs::write(saved(&tree.path, ".rules.new"), b"").unwrap();
    fs::write(saved(&tree.path, ""), b"").unwrap();
    drop(open(&tree.path));
    assert_eq!(fs::read_dir(tree.path.join("quotas")).unwrap().count(), 0);
}
