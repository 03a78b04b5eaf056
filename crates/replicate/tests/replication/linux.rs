//! Replication between real volumes with everything that a volume can have.

use crate::everything::{change_tree, fill_tree_with};
use crate::ground::{Ground, Tree};
use crate::rig::{assert_same, request, with_means};
use crate::tree::describe;
use crate::volume::{name, noise, plain};
use posix::{Options, Volumes};
use replicate::replication::{Origin, Point, Purpose, Request, Target, WorkDir, receive, serve};
use replicate::{Error, Result};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::backend::KEEP_SET_ID;
use vfs::sync::Mutex;
use vfs::{Backend, Capacity, ChangedRanges, Provisioner, Root, Time, ViewId, VolumeId, unpaced};
use vfs_testing::UncheckedNode;

/// An extended attribute of this size fits on every file system.
const XATTR_BYTES: usize = 12_000;

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time { seconds: i64::try_from(since.as_secs()).unwrap(), nanos: since.subsec_nanos() }
}

fn view(point: u64) -> ViewId {
    ViewId(u32::try_from(point).unwrap())
}

/// A volume, and its points.
struct Side<'v> {
    volumes: &'v Volumes,
    id: VolumeId,
    points: Mutex<Vec<Point>>,
}

impl<'v> Side<'v> {
    fn new(volumes: &'v Volumes, id: u64) -> Self {
        let id = VolumeId(id);
        // Files count by their size, and one is of a TiB.
        let capacity = Capacity { bytes: 1 << 44, files: 100_000 };
        volumes.make(id, &Root { mode: 0o755, uid: 7, gid: 8 }, capacity).unwrap();
        Self { volumes, id, points: Mutex::default() }
    }

    fn live(&self) -> Arc<dyn Backend> {
        self.volumes.open(self.id).unwrap()
    }

    fn add(&self, point: Point) {
        self.live().snapshots().unwrap().create(view(point.number)).unwrap();
        self.points.lock().push(point);
    }

    fn numbers(&self) -> Vec<u64> {
        self.points.lock().iter().map(|point| point.number).collect()
    }

    fn describe(&self, point: u64) -> BTreeMap<String, String> {
        describe(&*self.live().snapshots().unwrap().open(view(point)).unwrap())
    }

    /// Deletes all points but the last two up to this one.
    fn prune(&self, last: u64) {
        let mut points = self.points.lock();
        let mut numbers: Vec<u64> =
            points.iter().map(|point| point.number).filter(|&number| number <= last).collect();
        numbers.drain(..numbers.len().saturating_sub(2));
        let live = self.live();
        for gone in points.extract_if(.., |point| !numbers.contains(&point.number)) {
            assert!(live.snapshots().unwrap().delete(view(gone.number), &mut unpaced).unwrap());
        }
    }
}

impl Origin for &Side<'_> {
    fn points(&self) -> Result<Vec<Point>> {
        Ok(self.points.lock().clone())
    }

    fn make(&self) -> Result<Point> {
        let number = self.numbers().last().map_or(1, |last| last + 1);
        let point = Point { number, taken: now() };
        self.add(point);
        // The transfer must not see this.
        let (live, late) = (self.live().root(), format!("late-{number}"));
        let late = live.create_unchecked(name(late.as_bytes()), &plain()).unwrap().found.node;
        late.write(0, &noise(number, 10_000), KEEP_SET_ID).unwrap();
        let linked = live.lookup(name(b"linked"), vfs::Blocking::Allowed).unwrap().node;
        linked.write(20_000, &noise(number, 5_000), KEEP_SET_ID).unwrap();
        Ok(point)
    }

    fn open(&self, point: u64) -> Result<Arc<dyn Backend>> {
        Ok(self.live().snapshots().unwrap().open(view(point)).unwrap())
    }

    fn changes(&self, from: u64, to: u64) -> Result<Option<Arc<dyn ChangedRanges>>> {
        let changes = self.live().snapshots().unwrap().changes(view(from), view(to)).unwrap();
        assert!(changes.is_some());
        Ok(changes)
    }

    fn confirm(&self, point: Option<u64>) -> Result<()> {
        self.prune(point.unwrap_or(0));
        Ok(())
    }
}

impl Target for &Side<'_> {
    fn backend(&self) -> Result<Arc<dyn Backend>> {
        Ok(self.live())
    }

    fn commit(&self, point: Point) -> Result<()> {
        self.add(point);
        self.prune(point.number);
        Ok(())
    }
}

/// Takes the destination to the next point, and compares it with the source's.
fn sync(source: &Side<'_>, target: &Side<'_>, work: &WorkDir) -> u64 {
    let scratch = tempfile::tempdir().unwrap();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let received = std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let find = |_: &Request, _: Purpose| Ok(Box::new(source) as Box<dyn Origin + '_>);
            let served = with_means(&scratch, |means| serve(&mut theirs, &find, means));
            drop(theirs);
            served
        });
        let points = target.numbers();
        let received =
            with_means(&scratch, |means| receive(&mut ours, &request(), work, &points, &target, means));
        drop(ours);
        // A failure of the source is the cause.
        served.join().unwrap().unwrap();
        received
    });
    let point = match received {
        Ok((point, _)) => point.number,
        Err(Error::GoBack(to)) => panic!("back to {to:?}"),
        Err(error) => panic!("{error}"),
    };
    let expected = source.describe(point);
    assert!(expected.len() > 50, "{}", expected.len());
    assert_same(&expected, &target.describe(point));
    assert_same(&expected, &describe(&*target.live()));
    point
}

fn check_ground(ground: Ground) {
    let Some(tree) = Tree::new(ground) else { return };
    let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
    let (source, target) = (Side::new(&volumes, 1), Side::new(&volumes, 2));
    let work = tempfile::tempdir().unwrap();
    let work = WorkDir::open(work.path()).unwrap();
    fill_tree_with(&source.live().root(), XATTR_BYTES, &|| ());
    sync(&source, &target, &work);
    change_tree(&source.live().root(), XATTR_BYTES);
    sync(&source, &target, &work);
    let last = sync(&source, &target, &work);
    // The points on both sides stay as they are.
    assert_eq!((source.numbers(), target.numbers()), (vec![last - 1, last], vec![last - 1, last]));
    assert_same(&source.describe(last - 1), &target.describe(last - 1));
}

#[test]
fn volumes_with_undo_stores_are_replicated_with_everything() {
    check_ground(Ground::Xfs);
}

#[test]
fn volumes_that_are_subvolumes_are_replicated_with_everything() {
    check_ground(Ground::Btrfs);
}
