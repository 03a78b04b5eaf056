//! A process changes a volume with snapshots, and is killed at any moment.

use crate::fixture::random_change::{Random, RandomChange};
use crate::fixture::trees::{Seen, anew, assert_same, tree};
use crate::fixture::{DIR, Ground, MODE, Tree, is_long};
use crate::rig::{CAPACITY, CLONE, GROUNDS, ID, Rig, WAIT_MAX, check_count};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use vfs::{Attrs, NodeRef, Provisioner, ViewId, unpaced};

/// A line for each path of a tree, to compare with what another process has seen.
fn lines(tree: &BTreeMap<String, Seen>) -> String {
    let line = |(path, seen): (&String, &Seen)| {
        let Seen { attrs, key, content, xattrs } = seen;
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        // The number of an unchanged file may be another one in another process.
        let attrs = Attrs { change: 0, ..*attrs };
        format!("{path:?} {key:?} {attrs:?} {xattrs:?} {:x}\n", hasher.finish())
    };
    tree.iter().map(line).collect()
}

/// The file that names the snapshot to which a volume goes back.
pub(crate) const BACK: &str = "back";

/// The file that names the snapshot of which a clone is made.
const CLONED: &str = "cloned";

/// The file that has the number of the next snapshot.
pub(crate) const NEXT: &str = "next";

fn some_view(rig: &Rig, random: &mut Random) -> Option<ViewId> {
    let views = rig.snapshots().list().unwrap();
    let place = random.below(views.len().max(1) as u64);
    views.get(usize::try_from(place).unwrap()).copied()
}

/// A clone has the files of its snapshot. One that an interrupted process has made is whole.
fn check_clone(rig: &Rig, view: u32) {
    if !rig.volumes.list().unwrap().contains(&CLONE) {
        rig.volumes.clone_volume(ID, ViewId(view), CLONE, &rig.root, CAPACITY, &mut unpaced).unwrap();
    }
    let clone = rig.volumes.open(CLONE).unwrap();
    let [got, want] = [&clone, &rig.view(view)].map(|volume| anew(&tree(&volume.root()), false));
    assert_same(&format!("clone of {view}"), &got, &want);
    drop(clone);
    rig.volumes.remove(CLONE).unwrap();
}

/// Changes a volume for ever, with snapshots, reverts and clones, and writes down what each shows. `more` changes it between, and is
/// called without it before each revert.
pub(crate) fn change_for_ever(data: &Path, copies: &Path, seed: u64, more: &mut dyn FnMut(Option<&NodeRef>)) {
    let mut rig = Rig::new(data);
    assert!(rig.volumes.wait_for_counts(WAIT_MAX));
    let write = |name: &str, text: &str| {
        std::fs::write(copies.join("draft"), text).unwrap();
        std::fs::rename(copies.join("draft"), copies.join(name)).unwrap();
    };
    let mut random = Random(seed);
    // No number is used again, even of a snapshot that was never ready.
    let mut next = std::fs::read_to_string(copies.join(NEXT)).map_or(1, |next| next.parse().unwrap());
    loop {
        let _refused = RandomChange::new(&rig.volume.root(), &mut random).run();
        more(Some(&rig.volume.root()));
        match random.below(60) {
            0 => {
                write(NEXT, &(next + 1).to_string());
                rig.snapshots().create(ViewId(next)).unwrap();
                let copy = tree(&rig.volume.root());
                write(&format!("anew-{next}"), &lines(&anew(&copy, true)));
                write(&next.to_string(), &lines(&copy));
                next += 1;
            }
            1 if rig.snapshots().list().unwrap().len() > 3 => {
                let view = some_view(&rig, &mut random).unwrap();
                let _may_have_none = std::fs::remove_file(copies.join(view.0.to_string()));
                rig.snapshots().delete(view, &mut |_| ControlFlow::Continue(())).unwrap();
            }
            2 => {
                let view = some_view(&rig, &mut random);
                if let Some(view) = view.filter(|view| copies.join(view.0.to_string()).exists()) {
                    more(None);
                    write(BACK, &view.0.to_string());
                    rig = rig.reverted(view.0);
                    std::fs::remove_file(copies.join(BACK)).unwrap();
                }
            }
            3 => {
                if let Some(view) = some_view(&rig, &mut random) {
                    write(CLONED, &view.0.to_string());
                    check_clone(&rig, view.0);
                    std::fs::remove_file(copies.join(CLONED)).unwrap();
                }
            }
            _ => {}
        }
    }
}

#[test]
fn snapshots_survive_kills_at_any_moment() {
    let rounds = if is_long() { 100 } else { 6 };
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        let copies = tree.path.join("copies");
        std::fs::create_dir(&copies).unwrap();
        for round in 1..=rounds {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["inner", "--exact", "--ignored"])
                .env(DIR, &tree.path)
                .env(MODE, format!("kills {round}"))
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // Until it has made something, and some time more.
            while std::fs::read_dir(&copies).unwrap().next().is_none() {
                assert_eq!(child.try_wait().unwrap(), None, "{ground:?}");
                thread::sleep(Duration::from_millis(10));
            }
            thread::sleep(Duration::from_millis(500 + round * 77 % 400));
            child.kill().unwrap();
            child.wait().unwrap();
            check_after_kill(ground, &tree.path, &copies);
        }
    }
}

pub(crate) fn check_after_kill(ground: Ground, data: &Path, copies: &Path) {
    let mut rig = Rig::new(data);
    assert!(rig.volumes.wait_for_counts(WAIT_MAX));
    if let Ok(view) = std::fs::read_to_string(copies.join(BACK)) {
        eprintln!("{ground:?}: killed on the way back to {view}");
        // The caller does not know how far it came.
        rig = rig.reverted(view.parse().unwrap());
        let want = std::fs::read_to_string(copies.join(format!("anew-{view}"))).unwrap();
        let got = lines(&anew(&tree(&rig.volume.root()), true));
        let differs = want.lines().zip(got.lines()).find(|(want, got)| want != got);
        assert!(want == got, "{ground:?}: back at {view}: {differs:#?}");
        std::fs::remove_file(copies.join(BACK)).unwrap();
    }
    let listed = rig.snapshots().list().unwrap();
    for entry in std::fs::read_dir(copies).unwrap() {
        let path = entry.unwrap().path();
        let Ok(view) = path.file_name().unwrap().to_str().unwrap().parse() else { continue };
        assert!(listed.contains(&ViewId(view)), "{ground:?}: snapshot {view} is lost");
        let (want, got) = (std::fs::read_to_string(&path).unwrap(), lines(&tree(&rig.view(view).root())));
        let differs = want.lines().zip(got.lines()).find(|(want, got)| want != got);
        assert!(want == got, "{ground:?}: snapshot {view}: {differs:#?}");
    }
    if let Ok(view) = std::fs::read_to_string(copies.join(CLONED)) {
        eprintln!("{ground:?}: killed with a clone of {view}");
        check_clone(&rig, view.parse().unwrap());
        std::fs::remove_file(copies.join(CLONED)).unwrap();
    }
    check_count(&rig);
    let _refused = RandomChange::new(&rig.volume.root(), &mut Random(5)).run();
}
