//! A mounted path that other users can write: planted links do not redirect writes.
//!
//! Runs as root, the target of such an attack, with links and files of another user.

#[path = "support/job.rs"]
mod job;

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bench::engine::{self, Control, Engine, Job};
use bench::fio::{Jobs, run_in};
use report::scenario::Work;

const MALLORY: u32 = 4711;
const SECRET: &[u8] = b"what must stay as it is";

fn job() -> Job {
    Job { read_percent: 0, depth: 4, file_size: 2 << 20, seed: 7, ..job::job(Work::Transfers) }
}

/// A directory of another user, beside a directory of root with files of the benchmark's names.
struct Fixture {
    _dir: tempfile::TempDir,
    shared: PathBuf,
    victim: PathBuf,
}

const NAMES: [&str; 4] = ["client0.0.0", "client0.1.0", "direct", "kept"];

impl Fixture {
    fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "only root can own what another user plants");
        let dir = tempfile::tempdir().unwrap();
        let (shared, victim) = (dir.path().join("shared"), dir.path().join("victim"));
        for path in [&shared, &victim] {
            fs::create_dir(path).unwrap();
        }
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        chown(&shared, Some(MALLORY), Some(MALLORY)).unwrap();
        let fixture = Self { _dir: dir, shared, victim };
        NAMES.iter().for_each(|name| fs::write(fixture.victim.join(name), SECRET).unwrap());
        fixture
    }

    fn files(&self) -> PathBuf {
        self.shared.join("plimsoll-bench")
    }

    fn make_files(&self, owner: u32, mode: u32) -> PathBuf {
        let files = self.files();
        fs::DirBuilder::new().mode(0o700).create(&files).unwrap();
        chown(&files, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&files, fs::Permissions::from_mode(mode)).unwrap();
        files
    }

    fn refusal(&self) -> String {
        let mut engine = engine::Path::open(&self.shared).unwrap();
        let refused = engine.prepare(&job(), &mut |_| Ok(())).err();
        let said = refused.expect("it goes where others lead").to_string();
        assert!(engine.facts().is_err() || !said.contains("plimsoll-bench "), "{said}");
        // May refuse as well; what it must not do is shown below.
        let _ = engine.clear();
        self.assert_untouched(&said);
        said
    }

    #[track_caller]
    fn assert_untouched(&self, context: &str) {
        for name in NAMES {
            let found = fs::read(self.victim.join(name)).unwrap_or_default();
            assert_eq!(found, SECRET, "{name} of another directory: {context}");
        }
    }
}

fn plant_link(target: &Path, link: &Path) {
    symlink(target, link).unwrap();
    lchown(link, Some(MALLORY), Some(MALLORY)).unwrap();
}

fn measure(engine: &mut engine::Path) {
    let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_millis(100);
    let control = Control::new(u64::try_from(begin.as_nanos()).unwrap());
    control.set_window(0, 1);
    let part = engine.run(&control).unwrap();
    assert_eq!(part.errors.values().sum::<u64>(), 0, "{:?}", part.error_details);
}

#[test]
fn link_as_directory_is_refused() {
    let fixture = Fixture::new();
    plant_link(&fixture.victim, &fixture.files());
    let said = fixture.refusal();
    assert!(said.contains("plimsoll-bench is a link") && said.contains("remove it"), "{said}");
}

#[test]
fn directory_of_another_user_is_refused() {
    let fixture = Fixture::new();
    let files = fixture.make_files(MALLORY, 0o777);
    plant_link(&fixture.victim.join("direct"), &files.join("direct"));
    plant_link(&fixture.victim.join("client0.0.0"), &files.join("client0.0.0"));
    let said = fixture.refusal();
    assert!(said.contains("belongs to user 4711") && said.contains("remove it"), "{said}");
}

#[test]
fn directory_that_others_can_write_is_refused() {
    for mode in [0o770, 0o707, 0o1777] {
        let fixture = Fixture::new();
        let files = fixture.make_files(0, mode);
        plant_link(&fixture.victim.join("direct"), &files.join("direct"));
        let said = fixture.refusal();
        assert!(said.contains("others can write") && said.contains("chmod go-w"), "{mode:o}: {said}");
    }
}

#[test]
fn files_that_are_not_plain_and_ours_are_refused() {
    type Plant = fn(&Fixture, &Path);
    let plants: [(&str, Plant); 5] = [
        ("is a link", |fixture, file| plant_link(&fixture.victim.join("client0.0.0"), file)),
        ("has 2 names", |fixture, file| fs::hard_link(fixture.victim.join("client0.0.0"), file).unwrap()),
        ("is no regular file", |_, file| {
            let made = std::process::Command::new("mkfifo").arg(file).status().unwrap();
            assert!(made.success());
        }),
        ("is no regular file", |_, file| fs::create_dir(file).unwrap()),
        ("belongs to user 4711", |_, file| {
            fs::write(file, vec![1; 2 << 20]).unwrap();
            chown(file, Some(MALLORY), Some(MALLORY)).unwrap();
        }),
    ];
    for (reason, plant) in plants {
        let fixture = Fixture::new();
        let file = fixture.make_files(0, 0o700).join("client0.0.0");
        plant(&fixture, &file);
        let said = fixture.refusal();
        assert!(said.contains("plimsoll-bench/client0.0.0 ") && said.contains(reason), "{reason}: {said}");
    }
}

#[test]
fn leftover_of_unfinished_layout_redirects_nothing() {
    let fixture = Fixture::new();
    let files = fixture.make_files(0, 0o700);
    plant_link(&fixture.victim, &files.join("unfinished"));
    assert!(fixture.refusal().contains("unfinished is a link"));

    // A leftover probe is replaced.
    let fixture = Fixture::new();
    let files = fixture.make_files(0, 0o700);
    plant_link(&fixture.victim.join("direct"), &files.join("plimsoll-direct"));
    fs::create_dir(files.join("unfinished")).unwrap();
    plant_link(&fixture.victim.join("client0.1.0"), &files.join("unfinished/client0.0.0"));
    let mut engine = engine::Path::open(&fixture.shared).unwrap();
    engine.prepare(&job(), &mut |_| Ok(())).unwrap();
    assert!(fs::symlink_metadata(files.join("plimsoll-direct")).is_err());
    assert!(!files.join("unfinished").exists());
    fixture.assert_untouched("left of a layout");
}

#[test]
fn directory_that_is_swapped_is_not_followed() {
    let fixture = Fixture::new();
    let mut engine = engine::Path::open(&fixture.shared).unwrap();
    engine.prepare(&job(), &mut |_| Ok(())).unwrap();
    let made = fs::metadata(fixture.files()).unwrap();
    assert_eq!((made.uid(), made.mode() & 0o777), (0, 0o700));
    // The owner of the parent directory can always do this.
    fs::rename(fixture.files(), fixture.shared.join("aside")).unwrap();
    plant_link(&fixture.victim, &fixture.files());
    measure(&mut engine);
    fixture.assert_untouched("swapped after the layout");
    let written = fs::metadata(fixture.shared.join("aside/client0.0.0")).unwrap();
    assert!(written.len() >= 2 << 20);
    assert!(engine.clear().unwrap_err().to_string().contains("is a link"));
    fixture.assert_untouched("swapped before the end");
}

#[test]
fn only_own_files_are_removed() {
    let fixture = Fixture::new();
    // A directory of root's that Mallory, who owns the one above, has given this name.
    let files = fixture.make_files(0, 0o755);
    for name in ["kept", "direct"] {
        fs::write(files.join(name), SECRET).unwrap();
    }
    fs::create_dir(files.join("sub")).unwrap();
    fs::write(files.join("sub/kept"), SECRET).unwrap();
    let mut engine = engine::Path::open(&fixture.shared).unwrap();
    engine.prepare(&job(), &mut |_| Ok(())).unwrap();
    assert!(files.join("client0.0.0").exists());
    engine.clear().unwrap();
    assert!(!files.join("client0.0.0").exists());
    for kept in ["kept", "direct", "sub/kept"] {
        assert_eq!(fs::read(files.join(kept)).unwrap_or_default(), SECRET, "{kept}");
    }
}

#[test]
fn files_of_same_user_are_reused() {
    let fixture = Fixture::new();
    let inode = |fixture: &Fixture| fs::metadata(fixture.files().join("client0.0.0")).unwrap().ino();
    let mut first = engine::Path::open(&fixture.shared).unwrap();
    first.prepare(&job(), &mut |_| Ok(())).unwrap();
    let made = inode(&fixture);
    let mut second = engine::Path::open(&fixture.shared).unwrap();
    second.prepare(&job(), &mut |_| Ok(())).unwrap();
    assert_eq!(inode(&fixture), made);
    measure(&mut second);
    second.clear().unwrap();
    assert!(!fixture.files().exists());
    second.clear().unwrap();
}

#[test]
fn given_jobs_run_only_where_nobody_else_can_write() {
    let fixture = Fixture::new();
    plant_link(&fixture.victim.join("kept"), &fixture.shared.join("there"));
    let jobs =
        Jobs::from_command("fio --name=a --rw=write --bs=64k --size=1m --filename=/nowhere/there").unwrap();
    let said =
        run_in(&jobs, &fixture.shared, &mut |_| ()).err().map(|wrong| wrong.to_string()).unwrap_or_default();
    fixture.assert_untouched("given jobs");
    assert!(said.contains("belongs to user 4711") && said.contains("a directory of your own"), "{said}");
}
