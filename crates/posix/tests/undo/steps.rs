//! A process is killed at each step of a verb of snapshots, and of a change that preserves something.
//!
//! A step is a system call that changes files or flushes them. A first run lists the calls; then each is the last one of
//! a process, which `strace` kills when it comes to it.

use crate::fixture::trees::{Seen, anew, assert_same, tree};
use crate::fixture::{DIR, Ground, MODE, Tree, is_long, name, new_inode, skip};
use crate::rig::{ALLOWED, ANY, CAPACITY, CLONE, ID, Rig, WAIT_MAX, check_count, check_space};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use vfs::backend::KEEP_SET_ID;
use vfs::{
    FsResult, NodeRef, Provisioner, Root, SetAttrs, SetXattr, Special, Time, ViewId, XattrName, unpaced,
};
use vfs_testing::UncheckedNode;

const CALLS: &str = "write,pwrite64,pwritev,copy_file_range,ftruncate,fallocate,ioctl,mkdirat,mknodat,linkat,\
    symlinkat,renameat,renameat2,unlinkat,setxattr,fsetxattr,removexattr,fremovexattr,fchmod,fchmodat,fchown,fchownat,\
    utimensat,fsync,fdatasync,syncfs";
/// A call that changes nothing, before and after the verb.
const MARK: &str = "getppid";
/// The short form takes each third step.
const STRIDE: usize = 3;
const BLOCK: u64 = 4096;

type Files = BTreeMap<String, Seen>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Create,
    Overwrite,
    /// More blocks than are preserved one by one, with holes.
    Punch,
    Shorten,
    SetXattr,
    Make,
    /// To the last name of another file.
    Rename,
    RenameDir,
    Remove,
    /// One of two names.
    RemoveName,
    DeleteFirst,
    /// The records of the second one become those of the first one.
    DeleteSecond,
    DeleteLatest,
    Revert,
    Clone,
}

impl Verb {
    const ALL: [Self; 15] = [
        Self::Create,
        Self::Overwrite,
        Self::Punch,
        Self::Shorten,
        Self::SetXattr,
        Self::Make,
        Self::Rename,
        Self::RenameDir,
        Self::Remove,
        Self::RemoveName,
        Self::DeleteFirst,
        Self::DeleteSecond,
        Self::DeleteLatest,
        Self::Revert,
        Self::Clone,
    ];

    fn of(word: &str) -> Self {
        Self::ALL.into_iter().find(|verb| format!("{verb:?}") == word).expect("a verb")
    }

    /// The snapshot that it deletes.
    fn deletes(self) -> Option<u32> {
        match self {
            Self::DeleteFirst => Some(1),
            Self::DeleteSecond => Some(2),
            Self::DeleteLatest => Some(3),
            _ => None,
        }
    }

    fn run(self, rig: Rig) -> (Rig, FsResult<()>) {
        let root = rig.volume.root();
        let found = |path: &str| {
            path.split('/').try_fold(NodeRef::clone(&root), |dir, part| {
                dir.lookup(name(part), ALLOWED).map(|found| found.node)
            })
        };
        let done = match self {
            Self::Create => rig.snapshots().create(ViewId(4)),
            Self::Overwrite => {
                found("fresh").and_then(|file| file.write(3 * BLOCK + 100, &[9; 8000], KEEP_SET_ID).map(drop))
            }
            Self::Punch => found("sparse")
                .and_then(|file| file.ranges().unwrap().punch(0, 3 << 20, KEEP_SET_ID).map(drop)),
            Self::Shorten => found("fresh").and_then(|file| {
                file.set_attrs(&SetAttrs { size: Some(5000), ..SetAttrs::default() }).map(drop)
            }),
            Self::SetXattr => found("fresh").and_then(|file| {
                let value = XattrName::new(b"x1")?;
                file.xattrs().unwrap().set(value, b"new", SetXattr::Either, &|_| Ok(())).map(drop)
            }),
            Self::Make => found("old-dir")
                .and_then(|dir| dir.create_unchecked(name("made"), &new_inode(0o644)).map(drop)),
            Self::Rename => found("old-dir")
                .and_then(|dir| root.rename(name("fresh"), &dir, name("victim"), &|_, _| Ok(())).map(drop)),
            Self::RenameDir => found("old-dir")
                .and_then(|dir| root.rename(name("dir"), &dir, name("moved-dir"), &|_, _| Ok(())).map(drop)),
            Self::Remove => root.remove(name("fresh"), ANY).map(drop),
            Self::RemoveName => {
                found("old-dir").and_then(|dir| dir.remove(name("second-name"), ANY).map(drop))
            }
            Self::DeleteFirst | Self::DeleteSecond | Self::DeleteLatest => {
                let view = self.deletes().unwrap();
                rig.snapshots().delete(ViewId(view), &mut |_| ControlFlow::Continue(())).map(drop)
            }
            Self::Revert => {
                drop(root);
                return (rig.reverted(1), Ok(()));
            }
            Self::Clone => {
                let root = Root { mode: 0o755, ..rig.root };
                rig.volumes.clone_volume(ID, ViewId(1), CLONE, &root, CAPACITY, &mut unpaced).map(drop)
            }
        };
        (rig, done)
    }
}

/// Run in a process of its own.
pub(crate) fn take(data: &Path, verb: &str) {
    let rig = Rig::new(data);
    assert!(rig.volumes.wait_for_counts(WAIT_MAX));
    let _mark = rustix::process::getppid();
    let (rig, done) = Verb::of(verb).run(rig);
    let _mark = rustix::process::getppid();
    assert_eq!(done, Ok(()), "{verb}");
    rig.volumes.close();
}

/// A volume with three snapshots, and records of each.
struct Prepared {
    copies: BTreeMap<u32, Files>,
    live: Files,
}

impl Prepared {
    fn new(data: &Path) -> Self {
        let rig = Rig::new(data);
        let root = rig.volume.root();
        let dir = |text: &str| root.make_dir_unchecked(name(text), &new_inode(0o755)).unwrap().found.node;
        let file = |dir: &NodeRef, text: &str, len: usize| {
            let file = dir.create_unchecked(name(text), &new_inode(0o644)).unwrap().found.node;
            file.write(0, &text.as_bytes()[..1].repeat(len), KEEP_SET_ID).unwrap();
            file
        };
        let (changing, old) = (dir("dir"), dir("old-dir"));
        let [fresh, often, lost] = ["fresh", "often", "lost"].map(|name| file(&root, name, 60_000));
        let inner = file(&changing, "inner", 10_000);
        let [_, holes] = ["sparse", "holes"].map(|name| {
            let sparse = file(&root, name, 70_000);
            sparse.write(2 << 20, &[5; 40_000], KEEP_SET_ID).unwrap();
            sparse.write(4 << 20, &[6; 10_000], KEEP_SET_ID).unwrap();
            sparse
        });
        let victim = file(&old, "victim", 20_000);
        old.link(name("second-name"), &lost, &|_| Ok(())).unwrap();
        let xattr = |file: &NodeRef, value: &[u8]| {
            let name = XattrName::new(b"x1").unwrap();
            file.xattrs().unwrap().set(name, value, SetXattr::Either, &|_| Ok(())).unwrap();
        };
        xattr(&fresh, b"old");
        let new = new_inode(0o644);
        root.make_special(name("link"), Special::Symlink(b"target"), &|_| Ok(new)).unwrap();
        rig.snapshots().create(ViewId(1)).unwrap();
        let first = tree(&root);

        often.write(BLOCK, &[1; 9000], KEEP_SET_ID).unwrap();
        holes.write(0, &[1; 100], KEEP_SET_ID).unwrap();
        xattr(&often, b"second");
        root.remove(name("lost"), ANY).unwrap();
        root.remove(name("link"), ANY).unwrap();
        changing.rename(name("inner"), &root, name("outer"), &|_, _| Ok(())).unwrap();
        let born = file(&changing, "born", 30_000);
        rig.snapshots().create(ViewId(2)).unwrap();
        let second = tree(&root);

        often.write(2 * BLOCK, &[2; 20_000], KEEP_SET_ID).unwrap();
        // A record of the second one alone.
        victim.write(0, &[2; 5000], KEEP_SET_ID).unwrap();
        holes.ranges().unwrap().punch(0, 3 << 20, KEEP_SET_ID).unwrap();
        inner.write(0, &[3; 5000], KEEP_SET_ID).unwrap();
        root.remove(name("outer"), ANY).unwrap();
        born.set_attrs(&SetAttrs { size: Some(100), ..SetAttrs::default() }).unwrap();
        changing.rename(name("born"), &root, name("link"), &|_, _| Ok(())).unwrap();
        rig.snapshots().create(ViewId(3)).unwrap();
        let third = tree(&root);

        often.write(BLOCK, &[3; 30_000], KEEP_SET_ID).unwrap();
        root.remove(name("link"), ANY).unwrap();
        file(&changing, "latest", 5000);
        let live = tree(&root);
        rig.volumes.close();
        Self { copies: [(1, first), (2, second), (3, third)].into(), live }
    }
}

/// A tree without keys and times.
fn shape(tree: &Files) -> Files {
    let mut shape = anew(tree, false);
    for seen in shape.values_mut() {
        seen.attrs.modified = Time::default();
    }
    shape
}

/// The steps of a verb: each with its call, and the number of that call in its thread.
fn steps(log: &str) -> Vec<(String, usize)> {
    let calls = log.lines().filter_map(|line| {
        let (thread, call) = line.split_once(' ')?;
        let call = call.trim_start().split_once('(')?.0;
        call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some((thread, call))
    });
    let mark = calls.clone().find(|(_, call)| *call == MARK);
    let (thread, _) = mark.expect("the verb begins");
    let (mut counts, mut marks) = (HashMap::<_, usize>::new(), 0);
    let mut steps = Vec::new();
    for (_, call) in calls.filter(|(other, _)| *other == thread) {
        let count = counts.entry(call).or_default();
        *count += 1;
        if call == MARK {
            marks += 1;
        } else if marks == 1 {
            steps.push((call.to_owned(), *count));
        }
    }
    assert_eq!(marks, 2, "the verb ends");
    steps
}

fn run_traced(data: &Path, verb: Verb, log: &Path, more: &[&str]) -> Output {
    Command::new("strace")
        .args(["-f", "-qq", "-e", &format!("trace={CALLS},{MARK}")])
        .args(more)
        .arg("-o")
        .arg(log)
        .arg(std::env::current_exe().unwrap())
        .args(["inner", "--exact", "--ignored", "--nocapture"])
        .env(DIR, data)
        .env(MODE, format!("step {verb:?}"))
        .stdout(Stdio::null())
        .output()
        .expect("strace")
}

struct Killed<'k> {
    verb: Verb,
    /// The shape of the live tree after the verb.
    after: &'k Files,
    what: String,
}

impl Killed<'_> {
    fn check(&self, data: &Path, mut prepared: Prepared) {
        let mut rig = Rig::new(data);
        assert!(rig.volumes.wait_for_counts(WAIT_MAX));
        let live = tree(&rig.volume.root());
        let now = shape(&live);
        if now != shape(&prepared.live) {
            assert_same(&self.what, &now, self.after);
        }
        let listed = rig.snapshots().list().unwrap();
        if self.verb == Verb::Create && listed.contains(&ViewId(4)) {
            prepared.copies.insert(4, live);
        }
        if let Some(view) = self.verb.deletes().filter(|view| !listed.contains(&ViewId(*view))) {
            prepared.copies.remove(&view);
        }
        self.compare(&rig, &prepared.copies);
        check_count(&rig);
        if self.verb == Verb::Create {
            // The number of a snapshot that was never ready is not used again.
            rig.snapshots().create(ViewId(5)).unwrap();
            prepared.copies.insert(5, tree(&rig.volume.root()));
        } else {
            // The change may have been done before the kill.
            let _refused;
            (rig, _refused) = self.verb.run(rig);
        }
        if let Some(view) = self.verb.deletes() {
            prepared.copies.remove(&view);
        }
        assert_same(&self.what, &shape(&tree(&rig.volume.root())), self.after);
        self.compare(&rig, &prepared.copies);
        if self.verb == Verb::Clone {
            let clone = rig.volumes.open(CLONE).unwrap();
            assert_same(&self.what, &anew(&tree(&clone.root()), false), &anew(&prepared.copies[&1], false));
        }
        check_count(&rig);
        check_space(&rig, prepared.copies.into_keys().collect());
    }

    /// All snapshots are there, as they were.
    fn compare(&self, rig: &Rig, copies: &BTreeMap<u32, Files>) {
        let listed: Vec<u32> = rig.snapshots().list().unwrap().into_iter().map(|view| view.0).collect();
        assert_eq!(listed, copies.keys().copied().collect::<Vec<_>>(), "{}", self.what);
        for (view, copy) in copies {
            assert_same(&format!("{}, snapshot {view}", self.what), &tree(&rig.view(*view).root()), copy);
        }
    }
}

fn kill_at_each_step(ground: Ground) {
    if Command::new("strace").arg("-V").output().is_err() {
        skip("strace is not installed");
        return;
    }
    let Some(place) = Tree::new(ground) else { return };
    let (data, log) = (place.path.join("data"), place.path.join("calls"));
    let fresh = || {
        fs::create_dir(&data).unwrap();
        Prepared::new(&data)
    };
    let stride = if is_long() { 1 } else { STRIDE };
    for (number, verb) in Verb::ALL.into_iter().enumerate() {
        fresh();
        let output = run_traced(&data, verb, &log, &[]);
        assert!(output.status.success(), "{verb:?}: {}", String::from_utf8_lossy(&output.stderr));
        let steps = steps(&fs::read_to_string(&log).unwrap());
        assert!(!steps.is_empty(), "{verb:?} on {ground:?} has steps");
        let after = shape(&tree(&Rig::new(&data).volume.root()));
        fs::remove_dir_all(&data).unwrap();
        let mut kills = 0;
        for (call, count) in steps.iter().skip((number % stride).min(steps.len() - 1)).step_by(stride) {
            let what = format!("{ground:?}: {verb:?} killed at {call} {count}");
            eprintln!("{what}");
            let prepared = fresh();
            let at = format!("inject={call}:signal=KILL:when={count}");
            let output = run_traced(&data, verb, &log, &["-e", &at]);
            // A verb may take a step less, such as one that a timer decides.
            if output.status.signal() == Some(libc::SIGKILL) {
                kills += 1;
            } else {
                assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
            }
            Killed { verb, after: &after, what }.check(&data, prepared);
            fs::remove_dir_all(&data).unwrap();
        }
        eprintln!("{ground:?}: {verb:?}: {kills} kills, {} steps", steps.len());
        assert!(kills > 0, "{verb:?} on {ground:?}");
    }
}

#[test]
fn copied_snapshots_survive_a_kill_at_each_step() {
    let grounds = if is_long() { &[Ground::Tmpfs, Ground::Ext4][..] } else { &[Ground::Tmpfs] };
    grounds.iter().for_each(|ground| kill_at_each_step(*ground));
}

#[test]
fn shared_snapshots_survive_a_kill_at_each_step() {
    kill_at_each_step(Ground::Xfs);
}
