//! A source and a destination in memory, and a connection between them that can be cut.

use crate::tree::describe;
use crate::volume::{Volume, seconds};
use replicate::replication::{
    Link, Means, Origin, Point, Purpose, RelationId, Request, Target, WorkDir, clear, receive, serve,
};
use replicate::{Error, Result};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::backend::provisioner::{Capacity, Root};
use vfs::sync::Mutex;
use vfs::{Backend, ChangedRanges, Pace, Provisioner, Snapshots, ViewId, VolumeId, unpaced};
use vfs_testing::MemProvisioner;

const RELATION: RelationId = RelationId([7; 8]);
const TARGET: VolumeId = VolumeId(1);
const ROOM: Capacity = Capacity { bytes: 1 << 41, files: 1 << 20 };

pub(crate) fn request() -> Request {
    Request { relation: RELATION, volume: "v".to_owned() }
}

pub(crate) struct Source {
    pub(crate) volume: Volume,
    pub(crate) points: Mutex<Vec<Point>>,
    next: AtomicU64,
}

impl Source {
    pub(crate) fn new() -> Self {
        Self { volume: Volume::new(), points: Mutex::default(), next: AtomicU64::new(1) }
    }

    pub(crate) fn snapshots(&self) -> &dyn Snapshots {
        self.volume.fs.snapshots().unwrap()
    }

    pub(crate) fn describe(&self, point: u64) -> BTreeMap<String, String> {
        describe(&*self.snapshots().open(view(point)).unwrap())
    }

    /// Loses a point, as nothing but a defect or an operator of the storage can.
    pub(crate) fn lose(&self, point: u64) {
        self.points.lock().retain(|found| found.number != point);
        delete(self.snapshots(), view(point));
    }
}

fn view(point: u64) -> ViewId {
    ViewId(u32::try_from(point).unwrap())
}

fn delete(snapshots: &dyn Snapshots, view: ViewId) {
    let pace: &mut Pace<'_> = &mut |_| ControlFlow::Continue(());
    assert!(snapshots.delete(view, pace).unwrap());
}

impl Origin for &Source {
    fn points(&self) -> Result<Vec<Point>> {
        Ok(self.points.lock().clone())
    }

    fn make(&self) -> Result<Point> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let point = Point { number, taken: seconds(self.volume.now()) };
        self.snapshots().create(view(number)).unwrap();
        self.points.lock().push(point);
        Ok(point)
    }

    fn open(&self, point: u64) -> Result<Arc<dyn Backend>> {
        Ok(self.snapshots().open(view(point)).unwrap())
    }

    fn changes(&self, from: u64, to: u64) -> Result<Option<Arc<dyn ChangedRanges>>> {
        Ok(self.snapshots().changes(view(from), view(to)).unwrap())
    }

    fn confirm(&self, point: Option<u64>) -> Result<()> {
        let mut points = self.points.lock();
        let before = points.iter().rev().map(|found| Some(found.number)).find(|&number| number < point);
        let stays = |number: u64| Some(number) == point || Some(Some(number)) == before;
        let gone = points.extract_if(.., |found| !stays(found.number));
        gone.for_each(|found| delete(self.snapshots(), view(found.number)));
        Ok(())
    }
}

/// A destination, with its state that survives a kill.
pub(crate) struct Destination {
    pub(crate) provisioner: MemProvisioner,
    pub(crate) points: Arc<Mutex<Vec<u64>>>,
    dir: tempfile::TempDir,
    scratch: tempfile::TempDir,
    safe_bytes: u64,
    pub(crate) log_bytes: Option<u64>,
}

impl Destination {
    pub(crate) fn new() -> Self {
        Self::with_room(ROOM)
    }

    fn with_room(room: Capacity) -> Self {
        let provisioner = MemProvisioner::new(Arc::new(|| seconds(90_000)), ROOM);
        provisioner.make(TARGET, &Root { mode: 0o700, uid: 5, gid: 5 }, room).unwrap();
        let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Self { provisioner, points: Arc::default(), dir, scratch, safe_bytes: 1 << 20, log_bytes: None }
    }

    /// Makes the place of a transfer safe after so many bytes.
    pub(crate) fn safe_after(safe_bytes: u64) -> Self {
        Self { safe_bytes, ..Self::new() }
    }

    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        self.provisioner.open(TARGET).unwrap()
    }

    pub(crate) fn set_room(&self, bytes: u64) {
        self.provisioner.set_capacity(TARGET, Capacity { bytes, ..ROOM }).unwrap();
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.points.lock().last().copied()
    }

    pub(crate) fn describe(&self, point: u64) -> BTreeMap<String, String> {
        describe(&*self.backend().snapshots().unwrap().open(view(point)).unwrap())
    }

    /// Loses everything that is not durable.
    pub(crate) fn crash(self) -> Self {
        Self { provisioner: self.provisioner.crash(), ..self }
    }

    pub(crate) fn go_back(&self, to: Option<u64>) {
        match to {
            Some(point) => {
                assert_eq!(self.provisioner.revert(TARGET, view(point), &mut unpaced), Ok(true));
            }
            None => clear(&*self.backend()).unwrap(),
        }
        let mut points = self.points.lock();
        points.retain(|&point| Some(point) <= to);
        self.work().discard(&points).unwrap();
    }

    fn work(&self) -> WorkDir {
        let work = WorkDir::open(self.dir.path()).unwrap().safe_after(self.safe_bytes);
        self.log_bytes.into_iter().fold(work, WorkDir::log_at_most)
    }

    /// Takes over the next point through `link`.
    pub(crate) fn receive(&self, link: &mut dyn Link) -> Result<(Point, u64)> {
        let points = self.points.lock().clone();
        let request = request();
        with_means(&self.scratch, |means| receive(link, &request, &self.work(), &points, &self, means))
    }
}

impl Target for &Destination {
    fn backend(&self) -> Result<Arc<dyn Backend>> {
        Ok(Destination::backend(self))
    }

    fn commit(&self, point: Point) -> Result<()> {
        let (backend, view) = (Destination::backend(self), view(point.number));
        let snapshots = backend.snapshots().unwrap();
        if snapshots.list().unwrap().contains(&view) {
            delete(snapshots, view);
        }
        snapshots.create(view).unwrap();
        let mut points = self.points.lock();
        points.push(point.number);
        while points.len() > 2 {
            delete(snapshots, crate::rig::view(points.remove(0)));
        }
        Ok(())
    }
}

pub(crate) fn with_means<T>(
    scratch: &tempfile::TempDir,
    work: impl FnOnce(&mut Means<'_>) -> Result<T>,
) -> Result<T> {
    work(&mut Means {
        scratch: scratch.path(),
        pace: &mut |_| ControlFlow::Continue(()),
        progress: &mut |_| ControlFlow::Continue(()),
    })
}

/// A connection that is cut after so many bytes in both directions.
struct Cut {
    stream: UnixStream,
    left: Option<usize>,
    /// Bytes that have passed.
    passed: Arc<AtomicU64>,
}

impl Cut {
    fn take(&mut self, len: usize) -> io::Result<usize> {
        let len = self.left.map_or(len, |left| left.min(len));
        if len == 0 { Err(ErrorKind::ConnectionReset.into()) } else { Ok(len) }
    }

    fn passed(&mut self, len: usize) -> usize {
        self.left = self.left.map(|left| left - len);
        self.passed.fetch_add(len as u64, Ordering::Relaxed);
        len
    }
}

impl Read for Cut {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.take(into.len())?;
        let len = self.stream.read(&mut into[..len])?;
        Ok(self.passed(len))
    }
}

impl Write for Cut {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let len = self.take(from.len())?;
        let len = self.stream.write(&from[..len])?;
        Ok(self.passed(len))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

pub(crate) struct Outcome {
    pub(crate) received: Result<(Point, u64)>,
    pub(crate) served: Result<(Point, u64)>,
    /// Bytes that have passed the connection.
    pub(crate) passed: u64,
}

/// One connection, cut after so many bytes.
pub(crate) fn transfer(source: &Source, destination: &Destination, cut: Option<usize>) -> Outcome {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let passed = Arc::new(AtomicU64::new(0));
    let mut theirs = Cut { stream: theirs, left: cut, passed: passed.clone() };
    let scratch = tempfile::tempdir().unwrap();
    let (received, served) = std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let find = |asked: &Request, _: Purpose| {
                assert_eq!(*asked, request());
                Ok(Box::new(source) as Box<dyn Origin + '_>)
            };
            let served = with_means(&scratch, |means| serve(&mut ours, &find, means));
            drop(ours);
            served.map(|served| served.expect("a transfer was asked for"))
        });
        let received = destination.receive(&mut theirs);
        drop(theirs);
        (received, served.join().unwrap())
    });
    Outcome { received, served, passed: passed.load(Ordering::Relaxed) }
}

/// Connects until a point has arrived, and checks it.
pub(crate) fn sync(source: &Source, destination: &Destination) -> u64 {
    loop {
        match transfer(source, destination, None).received {
            Ok((point, _)) => {
                check(source, destination, point.number);
                return point.number;
            }
            Err(Error::GoBack(to)) => destination.go_back(to),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Compares a point of both sides, and the live files of the destination with it.
pub(crate) fn check(source: &Source, destination: &Destination, point: u64) {
    let expected = source.describe(point);
    assert_same(&expected, &destination.describe(point));
    assert_same(&expected, &describe(&*destination.backend()));
}

pub(crate) fn assert_same(expected: &BTreeMap<String, String>, found: &BTreeMap<String, String>) {
    for (path, text) in expected {
        assert_eq!(Some(text), found.get(path), "{path}");
    }
    assert_eq!(expected.len(), found.len());
}
