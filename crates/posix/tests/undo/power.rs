//! Power cuts: a process changes a volume with snapshots, the file system stops, and is mounted again.
//!
//! | | what a cut loses |
//! |---|---|
//! | XFS | what its log has not yet on disk, and data that was not flushed |
//! | ext4 | the same: the journal of metadata is in the image, and records are flushed before a change |
//!
//! So on both, each snapshot that was acknowledged has exactly its files, and so has each file that was flushed. ext4
//! without a journal promises neither, and is not tested.

use crate::fixture::{DIR, Ground, MODE, Tree, is_long, name, new_inode};
use crate::kills::{BACK, change_for_ever, check_after_kill};
use crate::rig::{ALLOWED, Rig, WAIT_MAX};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use vfs::backend::{KEEP_SET_ID, SyncScope};
use vfs::{FsError, NodeRef, ViewId};
use vfs_testing::UncheckedNode;

/// Files that are written in turn, and flushed each time.
const SYNCED: u64 = 4;
const SYNCED_BYTES: usize = 40 << 10;
/// The log of flushes, outside the file system.
const LOG: &str = "flushes";

/// The standard error of the process.
const ERRORS: &str = "errors";

/// Flushed writes, with a line before and after each in a log that the cut does not reach.
struct Flushes {
    log: File,
    next: u64,
}

impl Flushes {
    /// All files are about to change otherwise.
    fn forget(&mut self) {
        (0..SYNCED).for_each(|file| writeln!(self.log, "begin {file}").unwrap());
    }

    fn step(&mut self, root: &NodeRef) {
        let number = self.next;
        self.next += 1;
        let file_name = format!("synced{}", number % SYNCED);
        let file = match root.lookup(name(&file_name), ALLOWED) {
            Ok(found) => found.node,
            Err(FsError::NotFound) => {
                let made = root.create_unchecked(name(&file_name), &new_inode(0o644)).unwrap().found.node;
                root.sync(SyncScope::All).unwrap();
                made
            }
            Err(error) => panic!("{file_name}: {error}"),
        };
        writeln!(self.log, "begin {number}").unwrap();
        file.write(0, &number.to_be_bytes().repeat(SYNCED_BYTES / 8), KEEP_SET_ID).unwrap();
        file.sync(SyncScope::Data).unwrap();
        writeln!(self.log, "end {number}").unwrap();
    }
}

/// Changes a volume until its file system fails. `round` is a seed, and the directory for copies.
pub(crate) fn change_until_cut(data: &Path, round: &str) {
    let (seed, copies) = round.split_once(' ').unwrap();
    let seed: u64 = seed.parse().unwrap();
    let log = File::options().create(true).append(true).open(Path::new(copies).join(LOG)).unwrap();
    let mut flushes = Flushes { log, next: seed * 1_000_000 };
    change_for_ever(data, Path::new(copies), seed, &mut |root| match root {
        Some(root) => flushes.step(root),
        None => flushes.forget(),
    });
}

struct Cuts {
    tree: Tree,
    ground: Ground,
    /// Outside the file system.
    copies: tempfile::TempDir,
}

impl Cuts {
    fn new(ground: Ground) -> Option<Self> {
        let tree = Tree::new(ground)?;
        Some(Self { tree, ground, copies: tempfile::tempdir().unwrap() })
    }

    fn has_snapshots(&self) -> bool {
        let mut copies = fs::read_dir(self.copies.path()).unwrap();
        copies.any(|copy| copy.unwrap().file_name().to_str().unwrap().parse::<u32>().is_ok())
    }

    fn run_until_cut(&mut self, round: u64) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["inner", "--exact", "--ignored", "--nocapture"])
            .env(DIR, &self.tree.path)
            .env(MODE, format!("cuts {round} {}", self.copies.path().display()))
            .stdout(Stdio::null())
            .stderr(File::create(self.copies.path().join(ERRORS)).unwrap())
            .spawn()
            .unwrap();
        self.wait_for_work(&mut child);
        thread::sleep(Duration::from_millis(round * 137 % 600));
        // Both ways by turns.
        self.tree.cut_power(round.is_multiple_of(2));
        child.kill().unwrap();
        child.wait().unwrap();
        self.tree.power_on();
    }

    /// Waits for the first snapshot, and for a flush of this round.
    fn wait_for_work(&self, child: &mut Child) {
        let log: PathBuf = self.copies.path().join(LOG);
        let begun = fs::metadata(&log).map_or(0, |metadata| metadata.len());
        while !self.has_snapshots() || fs::metadata(&log).map_or(0, |metadata| metadata.len()) <= begun + 100
        {
            if let Some(status) = child.try_wait().unwrap() {
                let errors = fs::read_to_string(self.copies.path().join(ERRORS)).unwrap();
                panic!("{:?}: {status} before the cut: {errors}", self.ground);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The files that were flushed have what was written last, unless a write had begun.
    fn check_flushed(&self) {
        let log = fs::read_to_string(self.copies.path().join(LOG)).unwrap();
        let rig = Rig::new(&self.tree.path);
        assert!(rig.volumes.wait_for_counts(WAIT_MAX));
        for file in 0..SYNCED {
            let of_file = |line: &str| {
                let (what, number) = line.split_once(' ')?;
                let number: u64 = number.parse().ok()?;
                (number % SYNCED == file).then_some((what == "end", number))
            };
            let Some((true, number)) = log.lines().filter_map(of_file).next_back() else { continue };
            let found = rig.volume.root().lookup(name(&format!("synced{file}")), ALLOWED).unwrap();
            let data = found.node.read_vec(0, 2 * SYNCED_BYTES, ALLOWED).unwrap();
            let want = number.to_be_bytes().repeat(SYNCED_BYTES / 8);
            let differs = data.iter().zip(&want).position(|(a, b)| a != b);
            assert!(data == want, "{:?}: flush {number} differs at {differs:?}", self.ground);
        }
    }
}

#[test]
fn snapshots_and_flushed_files_survive_power_cuts() {
    if Command::new("xfs_io").arg("-V").output().is_err() {
        crate::fixture::skip("xfs_io is not installed");
        return;
    }
    for ground in [Ground::Xfs, Ground::Ext4] {
        let Some(mut cuts) = Cuts::new(ground) else { continue };
        for round in 1..=if is_long() { 100 } else { 5 } {
            cuts.run_until_cut(round);
            eprintln!("{ground:?}: cut {round}");
            // A revert that was under way is finished first: it changes the live files, and they are not compared.
            let is_reverting = cuts.copies.path().join(BACK).exists();
            if !is_reverting {
                cuts.check_flushed();
            }
            check_after_kill(ground, &cuts.tree.path, cuts.copies.path());
        }
    }
}

/// A power cut can take the end of a file, and leave the blocks that were preserved there: they are flushed earlier.
#[test]
fn file_that_a_power_cut_has_made_shorter_than_its_record_is_preserved() {
    const SIZE: usize = 30_789;
    const BLOCK: u64 = 4096;
    for ground in [Ground::Xfs, Ground::Ext4] {
        let Some(tree) = Tree::new(ground) else { continue };
        let rig = Rig::new(&tree.path);
        let root = rig.volume.root();
        let file = root.create_unchecked(name("file"), &new_inode(0o644)).unwrap().found.node;
        file.write(0, &[1; SIZE], KEEP_SET_ID).unwrap();
        rig.snapshots().create(ViewId(1)).unwrap();
        // The second write preserves blocks of the first one.
        file.write(30 * BLOCK, &[2; 1 << 14], KEEP_SET_ID).unwrap();
        file.write(30 * BLOCK, &[3; 1 << 14], KEEP_SET_ID).unwrap();
        let on_disk = tree.path.join("volumes/0000000000000007/file");
        File::options().write(true).open(on_disk).unwrap().set_len(SIZE as u64).unwrap();
        file.write(5 * BLOCK, &[4; 1 << 14], KEEP_SET_ID).unwrap();
        let old = rig.view(1).root().lookup(name("file"), ALLOWED).unwrap().node;
        assert_eq!(old.read_vec(0, 1 << 20, ALLOWED), Ok(vec![1; SIZE]), "{ground:?}");
    }
}
