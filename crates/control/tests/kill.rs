//! Kills a real process (SIGKILL) repeatedly while it creates, resizes and removes volumes.
//! At each start store and disk agree, and acknowledged changes are present.

use control::{
    Actor, ChangeContext, Dependencies, Listeners, NewPool, NewVolume, Outcome, Resolver, Service, State,
    VolumeChange, VolumeClients, VolumeName,
};
use envelope::{Bytes, Level};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::qos::Pacer;
use vfs::{
    Backend, Capacity, FsError, FsResult, FsStat, Provisioner, Root, SharedNamespace, Time, Usage, VolumeId,
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

impl Provisioner for Dirs {
    fn make(&self, id: VolumeId, _: &Root, capacity: Capacity) -> FsResult<()> {
        io(fs::create_dir_all(self.dir(id)))?;
        self.set_capacity(id, capacity)
    }

    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>> {
        self.capacity(id).ok_or(FsError::NotFound)?;
        Ok(Arc::new(MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 }))))
    }

    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()> {
        let draft = self.dir(id).join("draft");
        io(fs::write(&draft, capacity.bytes.to_string()))?;
        io(fs::rename(draft, self.dir(id).join("capacity")))
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
    });
    (service.unwrap(), dirs())
}

/// Sizes in GiB by name.
type Volumes = BTreeMap<String, u64>;

fn found(service: &Service) -> Volumes {
    let volumes = service.volumes(None, 100).unwrap().items;
    volumes.into_iter().map(|volume| (volume.name.to_string(), volume.size.0 >> 30)).collect()
}

/// Returns the volumes after step number `step`.
fn next(volumes: &Volumes, step: u64) -> Volumes {
    let mut volumes = volumes.clone();
    let name = format!("v{}", step % 5);
    if volumes.contains_key(&name) && step.is_multiple_of(3) {
        volumes.remove(&name);
    } else {
        volumes.insert(name, 1 + step * 7 % 50);
    }
    volumes
}

fn take(service: &Service, step: u64, volumes: &Volumes) -> Volumes {
    let context = ChangeContext::by(Actor::new("child"));
    let after = next(volumes, step);
    let text = format!("v{}", step % 5);
    let name: VolumeName = text.parse().unwrap();
    match (volumes.contains_key(&text), after.get(&text)) {
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
    let mut volumes = found(&service);
    let mut out = std::io::stdout();
    for step in step.parse::<u64>().unwrap().. {
        volumes = take(&service, step, &volumes);
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
    let operations = service.operations(None, 50).unwrap().items;
    let odd: Vec<_> = operations.iter().filter(|one| one.outcome != Outcome::Succeeded).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn a_killed_process_leaves_nothing_half_done() {
    let dir = tempfile::tempdir().unwrap();
    let (service, _) = open(dir.path());
    let pool = NewPool::new("p".parse().unwrap(), Level::Unlimited, Bytes::tib(1));
    service.create_pool(&ChangeContext::by(Actor::new("test")), &pool).unwrap();
    drop(service);
    let (mut step, mut volumes, mut finished) = (1, Volumes::new(), 0);
    for round in 0..ROUNDS {
        let patience = Duration::from_micros(round * 977);
        let last = run_and_kill(dir.path(), step, patience).expect("the child did not take a step");
        for step in step..=last {
            volumes = next(&volumes, step);
        }
        let (service, dirs) = open(dir.path());
        check_agreement(&service, &dirs);
        let now = found(&service);
        let later = next(&volumes, last + 1);
        assert!(now == volumes || now == later, "after step {last}: {now:?}");
        finished += u64::from(now == later);
        (step, volumes) = (last + 1 + u64::from(now == later), now);
    }
    assert!(step > ROUNDS, "{step} steps");
    eprintln!("{step} steps, {finished} of {ROUNDS} cut short and finished at the next start");
}
