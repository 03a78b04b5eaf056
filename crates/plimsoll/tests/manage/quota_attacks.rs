//! Clients that try to pass their quotas by every call that makes, grows, links or gives away something: never one byte
//! over, and the running count equals a walk.

use crate::ground::{Ground, Tree, is_long};
use crate::quota_writers::{Random, furnished};
use crate::rig::{Service, eventually};
use crate::smb::SMB;
use crate::ways::{Call, GROUP, Nfs4, Smb, V3, V40, Way};
use smb_wire::create::OplockLevel;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

/// The users that have limits. Both are in the same group.
const USERS: [u32; 2] = [2001, 2002];
const USER_BYTES: u64 = 256 << 10;
const USER_FILES: u64 = 12;
/// Less than both users together.
const GROUP_BYTES: u64 = 300 << 10;
const GROUP_FILES: u64 = 18;
const BLOCK: u64 = 4096;
/// Ways of root: NFSv3, and three versions of NFSv4.
const ROOT_WAYS: usize = 4;
/// Files under attack, in one directory.
const FILES: u64 = 8;

/// A random attack.
fn random_attack(random: &mut Random) -> Call {
    let (file, from) = (random.below(FILES), random.below(FILES));
    let offset = random.below(USER_BYTES / BLOCK) * BLOCK;
    let len = (random.below(24) + 1) * BLOCK;
    let size = random.below(USER_BYTES + 8 * BLOCK);
    match random.below(20) {
        0 | 1 => Call::Create { file, size: random.below(4) * size / 4 },
        // In the middle of a block, too.
        2..5 => Call::Write {
            file,
            offset: offset + random.below(BLOCK),
            len: len - random.below(BLOCK),
            fill: 7,
        },
        5 | 6 => Call::Resize { file, size },
        7 | 8 => Call::Allocate { file, offset, len },
        9 => Call::Deallocate { file, offset, len },
        10 | 11 => Call::Copy { from, file, offset, len },
        12 => Call::Clone { from, file, offset, len },
        13 => Call::Stream { file, offset: random.below(8) * BLOCK, len: len / 2 },
        14 => Call::SetXattr { file, len: random.below(2000) + 1 },
        15 => Call::Link { from, file },
        16 => match random.below(3) {
            0 => Call::Rename { from, file },
            1 => Call::Remove { file },
            _ => Call::Symlink { file },
        },
        17 => Call::ChangeOwner { file, uid: USERS[usize::from(random.below(2) == 0)] },
        _ => Call::ChangeGroup { file, gid: [GROUP, 0][usize::from(random.below(3) == 0)] },
    }
}

/// Bytes and files of one owner.
type Used = (u64, u64);

/// Files and bytes in a volume, by users and by groups.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    users: BTreeMap<u32, Used>,
    groups: BTreeMap<u32, Used>,
}

impl Counted {
    fn walk(dir: &Path) -> Self {
        let (mut all, mut seen) = (Self::default(), BTreeSet::new());
        all.add(dir, &mut seen);
        all.users.retain(|uid, _| *uid != 0);
        all.groups.retain(|gid, _| *gid != 0);
        all
    }

    fn add(&mut self, dir: &Path, seen: &mut BTreeSet<u64>) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                self.add(&entry.path(), seen);
            } else if seen.insert(metadata.ino()) {
                let file_type = metadata.file_type();
                let is_special = file_type.is_symlink() || file_type.is_fifo();
                let bytes = if is_special { 0 } else { metadata.size().next_multiple_of(BLOCK) };
                for used in [
                    self.users.entry(metadata.uid()).or_default(),
                    self.groups.entry(metadata.gid()).or_default(),
                ] {
                    used.0 += bytes;
                    used.1 += 1;
                }
            }
        }
    }

    /// The report of the service.
    fn reported(service: &Service) -> Self {
        let report = service.json(&["quota", "report", "v1"]);
        let mut all = Self::default();
        for owner in report["owners"].as_array().unwrap() {
            let number = |field: &str| owner[field].as_u64().unwrap();
            let used = (number("used_bytes"), number("used_files"));
            let of = if owner["kind"] == "user" { &mut all.users } else { &mut all.groups };
            if used != (0, 0) && number("id") != 0 {
                of.insert(u32::try_from(number("id")).unwrap(), used);
            }
        }
        all
    }

    #[track_caller]
    fn assert_within(&self, what: &str) {
        for (uid, (bytes, files)) in &self.users {
            assert!(*bytes <= USER_BYTES && *files <= USER_FILES, "{what}: user {uid}: {bytes} in {files}");
        }
        let (bytes, files) = self.groups.get(&GROUP).copied().unwrap_or_default();
        assert!(bytes <= GROUP_BYTES && files <= GROUP_FILES, "{what}: the group: {bytes} in {files}");
    }
}

fn is_quota(status: &str) -> bool {
    ["NFS3ERR_DQUOT", "NFS4ERR_DQUOT", "DISK_FULL"].contains(&status)
}

/// Results of one verb over one way: successes, refusals by quotas, other refusals.
type Tally = BTreeMap<(String, String), [u32; 3]>;

/// The ways of all users. An oplock is for attacks one after another: no client answers its break.
fn ways(service: &Service, oplock: OplockLevel) -> Vec<Box<dyn Way>> {
    let mut ways: Vec<Box<dyn Way>> = Vec::new();
    for uid in USERS.into_iter().chain([0]) {
        ways.push(Box::new(V3::new(service, uid)));
        ways.push(Box::new(V40::new(service, uid)));
        ways.extend([1, 2].map(|minor| Box::new(Nfs4::new(service, uid, minor)) as Box<dyn Way>));
        if uid != 0 {
            ways.push(Box::new(Smb::new(service, uid, oplock)));
        }
    }
    ways
}

/// Attacks over all ways at the same time.
fn attack_at_once(service: &Service, steps: u32) {
    let ways = ways(service, OplockLevel::NONE);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                Counted::reported(service).assert_within("all at once");
            }
        });
        let run = move |mut way: Box<dyn Way>, seed| {
            let mut random = Random(seed);
            (0..steps).for_each(|_| _ = way.run(random_attack(&mut random)));
        };
        let running: Vec<_> =
            (1..).zip(ways).map(|(seed, way)| scope.spawn(move || run(way, seed))).collect();
        let ended: Vec<_> = running.into_iter().map(|thread| thread.join().is_ok()).collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(ended.into_iter().all(|is_ok| is_ok), "a client failed");
    });
}

fn attack(service: &Service, seed: u64, steps: u32) -> Tally {
    let [dir] = &service.volume_dirs()[..] else { panic!("one volume") };
    let mut ways = ways(service, OplockLevel::BATCH);
    let (mut random, mut tally) = (Random(seed), Tally::new());
    for step in 0..steps {
        let attack = random_attack(&mut random);
        // Root has the last ways, and alone changes owners.
        let needs_root = matches!(attack, Call::ChangeOwner { .. } | Call::ChangeGroup { .. });
        let first = if needs_root { ways.len() - ROOT_WAYS } else { 0 };
        let place = first + usize::try_from(random.below((ways.len() - first) as u64)).unwrap();
        let way = &mut ways[place];
        let Some(outcome) = way.run(attack) else { continue };
        let result = match &outcome {
            Ok(()) => 0,
            Err(status) if is_quota(status) => 1,
            Err(_) => 2,
        };
        tally.entry((way.name(), attack.verb())).or_default()[result] += 1;
        let what = format!("seed {seed}, step {step}: {} {attack:?}: {outcome:?}", way.name());
        let walked = Counted::walk(dir);
        walked.assert_within(&what);
        if step % 100 == 0 {
            // A removed file counts until the last client has closed it.
            eventually(&what, || Counted::reported(service) == Counted::walk(dir));
        }
    }
    tally
}

#[test]
fn no_call_of_any_protocol_passes_a_quota() {
    // XFS clones files.
    let Some(tree) = Tree::new(Ground::Xfs) else { return };
    let service = furnished(Service::start_in(&tree.path, &SMB));
    for uid in USERS {
        let limits = ["--bytes", &format!("{USER_BYTES}B"), "--files", &USER_FILES.to_string()];
        service.says(&[&["quota", "set", "v1", "--user", &uid.to_string()][..], &limits].concat());
    }
    let limits = ["--bytes", &format!("{GROUP_BYTES}B"), "--files", &GROUP_FILES.to_string()];
    service.says(&[&["quota", "set", "v1", "--group", &GROUP.to_string()][..], &limits].concat());
    let steps = if is_long() { 20_000 } else { 1000 };
    let tally = attack(&service, 1, steps);
    for ((way, verb), [done, quota, other]) in &tally {
        eprintln!("{way} {verb}: {done} done, {quota} refused by quotas, {other} refused otherwise");
    }
    let refused =
        |verb: &str| tally.iter().filter(|((_, of), _)| of == verb).map(|(_, counts)| counts[1]).sum::<u32>();
    for verb in
        ["Create", "Write", "Resize", "Allocate", "Copy", "Clone", "Stream", "ChangeOwner", "ChangeGroup"]
    {
        assert!(refused(verb) > 0, "no quota refused a {verb}");
    }
    for way in ["v3", "v4.0", "v4.1", "v4.2", "SMB"] {
        let of =
            tally.iter().filter(|((of, _), _)| of.starts_with(way)).map(|(_, counts)| counts[1]).sum::<u32>();
        assert!(of > 0, "no quota refused anything over {way}");
    }
    assert_exact(&service);
    attack_at_once(&service, steps / 10);
    assert_exact(&service);
}

/// Nobody is over a limit, and the running count is that of a walk.
fn assert_exact(service: &Service) {
    let [dir] = &service.volume_dirs()[..] else { panic!("one volume") };
    eventually("the end of removed files", || Counted::walk(dir) == Counted::reported(service));
    Counted::walk(dir).assert_within("at the end");
    assert_eq!(service.says(&["quota", "check", "v1"]), "No differences.\n");
}
