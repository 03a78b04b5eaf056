//! Kills a real process (SIGKILL) repeatedly while it creates, resizes and removes volumes, and makes and deletes snapshots.
//! At each start store and disk agree, and acknowledged changes are present.

use control::{
    Actor, ChangeContext, Dependencies, Kind, Listeners, NewPool, NewSnapshot, NewVolume, Outcome, Resolver,
    Service, SnapshotName, SnapshotState, State, Verb, VolumeChange, VolumeClients, VolumeName,
};
use envelope::{Bytes, Level};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::qos::Pacer;
use vfs::{
    Backend, Blocking, Capacity, ChangedRanges, FileKey, FsError, FsLimits, FsResult, FsStat, NodeRef, Pace,
    Progress, Provisioner, Root, SharedNamespace, SnapshotUsage, Snapshots, Time, Usage, ViewId, VolumeId,
};
use vfs_testing::MemFs;

/// The child's directory; without it, the test does nothing.
const DIR: &str = "PLIMSOLL_TEST_KILL_DIR";
/// The number of the child's next step.
const STEP: &str = "PLIMSOLL_TEST_KILL_STEP";
const ROUNDS: u64 = 24;

/// Volumes as directories with a word for their size.
struct Dirs(PathBuf);

impl Dirs {
    fn dir(&self, id: VolumeId) -> PathBuf {
        self.0.join(format!("{:016x}", id.0))
    }

    fn capacity(&self, id: VolumeId) -> Option<u64> {
        fs::read_to_string(self.dir(id).join("capacity")).ok()?.parse().ok()
    }
}

fn io<T>(result: std::io::Result<T>) -> FsResult<T> {
    result.map_err(|_| FsError::Io)
}

/// A volume in memory. Its snapshots are files, which outlive the process.
struct DirBackend {
    files: MemFs,
    dir: PathBuf,
}

/// The mark of a snapshot whose deletion has begun.
const DELETING: &str = "deleting";

impl DirBackend {
    fn path(&self, view: ViewId) -> PathBuf {
        self.dir.join(view.0.to_string())
    }
}

impl Backend for DirBackend {
    fn root(&self) -> NodeRef {
        self.files.root()
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        self.files.node(key, blocking)
    }

    fn stat(&self) -> FsResult<FsStat> {
        self.files.stat()
    }

    fn limits(&self) -> FsLimits {
        self.files.limits()
    }

    fn sync(&self) -> FsResult<()> {
        self.files.sync()
    }

    fn flush_failures(&self) -> u64 {
        self.files.flush_failures()
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }
}

impl Snapshots for DirBackend {
    fn create(&self, view: ViewId) -> FsResult<()> {
        io(fs::create_dir_all(&self.dir))?;
        io(fs::write(self.path(view), "whole"))
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => io(entries)?,
        };
        let mut views: Vec<ViewId> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(ViewId))
            .collect();
        views.sort();
        Ok(views)
    }

    fn open(&self, _: ViewId) -> FsResult<Arc<dyn Backend>> {
        Err(FsError::NotSupported)
    }

    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let marked = self.path(view).with_extension(DELETING);
        if self.path(view).exists() {
            io(fs::rename(self.path(view), &marked))?;
        }
        for done in 0..3 {
            if pace(Progress { done, total: Some(3) }).is_break() {
                return Ok(false);
            }
        }
        if marked.exists() {
            io(fs::remove_file(marked))?;
        }
        Ok(true)
    }

    fn usage(&self, _: ViewId) -> FsResult<SnapshotUsage> {
        Ok(SnapshotUsage::default())
    }

    fn changes(&self, _: ViewId, _: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>> {
        Ok(None)
    }
}

impl Provisioner for Dirs {
    fn make(&self, id: VolumeId, _: &Root, capacity: Capacity) -> FsResult<()> {
        io(fs::create_dir_all(self.dir(id)))?;
        self.set_capacity(id, capacity)
    }

    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>> {
        self.capacity(id).ok_or(FsError::NotFound)?;
        let files = MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 }));
        Ok(Arc::new(DirBackend { files, dir: self.dir(id).join("snapshots") }))
    }

    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()> {
        let draft = self.dir(id).join("draft");
        io(fs::write(&draft, capacity.bytes.to_string()))?;
        io(fs::rename(draft, self.dir(id).join("capacity")))
    }

    fn set_snapshot_reserve(&self, _: VolumeId, _: u64) -> FsResult<()> {
        Ok(())
    }

    fn set_root(&self, _: VolumeId, _: &Root) -> FsResult<()> {
        Ok(())
    }

    fn usage(&self, _: VolumeId) -> FsResult<Usage> {
        Ok(Usage::default())
    }

    fn remove(&self, id: VolumeId) -> FsResult<()> {
        if self.dir(id).exists() { io(fs::remove_dir_all(self.dir(id))) } else { Ok(()) }
    }

    fn list(&self) -> FsResult<Vec<VolumeId>> {
        let entries = io(fs::read_dir(&self.0))?;
        let id =
            |entry: fs::DirEntry| u64::from_str_radix(entry.file_name().to_str()?, 16).ok().map(VolumeId);
        Ok(entries.flatten().filter_map(id).collect())
    }

    fn room(&self) -> FsResult<FsStat> {
        Ok(Capacity { bytes: 1 << 50, files: 1 << 30 }.stat(Usage::default()))
    }
}

struct Nobody;

impl VolumeClients for Nobody {
    fn clients_of(&self, _: VolumeId) -> usize {
        0
    }
}

impl Listeners for Nobody {
    fn listen_at(&self, _: BTreeSet<IpAddr>) {}

    fn failures(&self) -> BTreeMap<IpAddr, String> {
        BTreeMap::new()
    }
}

impl Resolver for Nobody {
    fn addresses(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

fn open(dir: &Path) -> (Service, Dirs) {
    let dirs = || Dirs(dir.join("volumes"));
    fs::create_dir_all(dirs().0).unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let service = Service::open(Dependencies {
        dir: dir.to_owned(),
        provisioner: Arc::new(dirs()),
        namespace: SharedNamespace::default(),
        pacer: Pacer::still(),
        grace: Default::default(),
        mounts: Arc::new(Nobody),
        listeners: Arc::new(Nobody),
        resolver: Arc::new(Nobody),
        dialer: Arc::new(control::TlsDialer),
        host: "files".to_owned(),
        clock: Box::new(move || u64::try_from(now() / 1_000_000).unwrap()),
        // No secret, but never the same twice.
        entropy: Box::new(move |bytes| {
            let low = now().to_be_bytes();
            bytes.copy_from_slice(&low[low.len() - bytes.len()..]);
        }),
        served: control::Protocols::NFS,
        protection: vfs::Protection::Verified,
        instance: 1,
        store_log: None,
    });
    (service.unwrap(), dirs())
}

/// The volume that keeps its snapshots.
const BASE: &str = "base";

#[derive(Clone, Debug, Default, PartialEq)]
struct Served {
    /// Sizes in GiB by name.
    volumes: BTreeMap<String, u64>,
    /// The snapshots of [`BASE`].
    snapshots: BTreeSet<String>,
}

fn found(service: &Service) -> Served {
    let volumes = service.volumes(None, 100).unwrap().items;
    let volumes = volumes.into_iter().map(|volume| (volume.name.to_string(), volume.size.0 >> 30)).collect();
    let snapshots = service.snapshots(&BASE.parse().unwrap(), None, 100).unwrap().items;
    Served { volumes, snapshots: snapshots.into_iter().map(|one| one.name.to_string()).collect() }
}

/// The snapshot of a step; the other steps are about volumes.
fn snapshot_of(step: u64) -> Option<String> {
    step.is_multiple_of(2).then(|| format!("s{}", step / 2 % 3))
}

/// Returns what is served after step number `step`.
fn next(before: &Served, step: u64) -> Served {
    let mut after = before.clone();
    let name = format!("v{}", step % 5);
    if let Some(snapshot) = snapshot_of(step) {
        if !after.snapshots.remove(&snapshot) {
            after.snapshots.insert(snapshot);
        }
    } else if after.volumes.contains_key(&name) && step.is_multiple_of(3) {
        after.volumes.remove(&name);
    } else {
        after.volumes.insert(name, 1 + step * 7 % 50);
    }
    after
}

fn take(service: &Service, step: u64, before: &Served) -> Served {
    let context = ChangeContext::by(Actor::new("child"));
    let after = next(before, step);
    if let Some(snapshot) = snapshot_of(step) {
        let (base, name): (VolumeName, SnapshotName) = (BASE.parse().unwrap(), snapshot.parse().unwrap());
        if after.snapshots.contains(&snapshot) {
            let new = NewSnapshot { name: Some(name), ..NewSnapshot::default() };
            service.create_snapshot(&context, &base, &new).unwrap();
        } else {
            service.delete_snapshot(&context, &base, &name).unwrap();
            service.run_waiting_jobs();
        }
        return after;
    }
    let text = format!("v{}", step % 5);
    let name: VolumeName = text.parse().unwrap();
    match (before.volumes.contains_key(&text), after.volumes.get(&text)) {
        (_, None) => drop(service.delete_volume(&context, &name).unwrap()),
        (true, Some(&gib)) => {
            let change = VolumeChange { size: Some(Bytes::gib(gib)), ..VolumeChange::default() };
            service.update_volume(&context, &name, &change).unwrap();
        }
        (false, Some(&gib)) => {
            let new = NewVolume::new(name, "p".parse().unwrap(), Bytes::gib(gib));
            service.create_volume(&context, &new).unwrap();
        }
    }
    after
}

#[test]
#[ignore = "the process that is killed"]
fn child() {
    let (Some(dir), Ok(step)) = (std::env::var_os(DIR), std::env::var(STEP)) else { return };
    let (service, _) = open(Path::new(&dir));
    service.run_waiting_jobs();
    let mut served = found(&service);
    let mut out = std::io::stdout();
    for step in step.parse::<u64>().unwrap().. {
        served = take(&service, step, &served);
        // In one write, so that a line is whole or not there.
        out.write_all(format!("\ndone {step}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

/// Runs the child for about `patience`, kills it, and returns the last acknowledged step.
fn run_and_kill(dir: &Path, step: u64, patience: Duration) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .env(STEP, step.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let done = |line: String| line.strip_prefix("done ").and_then(|step| step.parse::<u64>().ok());
    // The clock starts with the first step, however long the start took.
    let first = lines.find_map(done);
    std::thread::sleep(patience);
    child.kill().unwrap();
    child.wait().unwrap();
    lines.filter_map(done).last().or(first)
}

fn check_agreement(service: &Service, dirs: &Dirs) {
    let rows = service.volumes(None, 100).unwrap().items;
    let mut ids: Vec<_> = rows.iter().map(|volume| volume.id).collect();
    let mut stored = dirs.list().unwrap();
    ids.sort();
    stored.sort();
    assert_eq!(stored, ids);
    for volume in rows {
        assert_eq!(
            (volume.state, dirs.capacity(volume.id)),
            (State::Ready, Some(volume.size.0)),
            "{volume:?}"
        );
    }
    let base = service.volume(&BASE.parse().unwrap()).unwrap();
    let snapshots = service.snapshots(&base.name, None, 100).unwrap().items;
    let mut views: Vec<ViewId> = snapshots.iter().map(|one| one.view).collect();
    views.sort();
    let stored = dirs.open(base.id).unwrap();
    assert_eq!(stored.snapshots().unwrap().list().unwrap(), views);
    assert!(snapshots.iter().all(|one| one.state == SnapshotState::Ready), "{snapshots:?}");
    let marked = fs::read_dir(dirs.dir(base.id).join("snapshots")).map_or(0, |all| {
        all.flatten().filter(|one| one.path().extension().is_some_and(|mark| mark == DELETING)).count()
    });
    assert_eq!(marked, 0, "deletions that were not finished");
    let operations = service.operations(None, 50).unwrap().items;
    // A snapshot that the storage had not made is dropped.
    let is_dropped = |one: &control::Operation| {
        (one.kind, one.verb) == (Kind::Snapshot, Verb::Create)
            && matches!(&one.outcome, Outcome::Failed(reason) if reason.contains("before the storage had made"))
    };
    let is_odd = |one: &&control::Operation| one.outcome != Outcome::Succeeded && !is_dropped(one);
    let odd: Vec<_> = operations.iter().filter(is_odd).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn a_killed_process_leaves_nothing_half_done() {
    let dir = tempfile::tempdir().unwrap();
    let (service, _) = open(dir.path());
    let pool = NewPool::new("p".parse().unwrap(), Level::Unlimited, Bytes::tib(1));
    let context = ChangeContext::by(Actor::new("test"));
    service.create_pool(&context, &pool).unwrap();
    let base = NewVolume::new(BASE.parse().unwrap(), pool.name, Bytes::gib(10));
    service.create_volume(&context, &base).unwrap();
    let (mut step, mut served, mut finished) = (1, found(&service), 0);
    drop(service);
    for round in 0..ROUNDS {
        let patience = Duration::from_micros(round * 977);
        let last = run_and_kill(dir.path(), step, patience).expect("the child did not take a step");
        for step in step..=last {
            served = next(&served, step);
        }
        let (service, dirs) = open(dir.path());
        service.run_waiting_jobs();
        check_agreement(&service, &dirs);
        let now = found(&service);
        let later = next(&served, last + 1);
        assert!(now == served || now == later, "after step {last}: {now:?}");
        finished += u64::from(now == later);
        (step, served) = (last + 1 + u64::from(now == later), now);
    }
    assert!(step > ROUNDS, "{step} steps");
    eprintln!("{step} steps, {finished} of {ROUNDS} cut short and finished at the next start");
}
