//! The destination of a replication.

use super::apply::{self, Applier, Files};
use super::frame::{Frames, Link};
use super::key_map::{self, Draft, KeyMap};
use super::log::{Found, Log, Start};
use super::message::{Message, POINT_NUMBER_MAX, POINTS_MAX, Point, Request};
use super::{ALIVE, Means};
use crate::error::{Error, Result, at};
use crate::format::sort_key;
use crate::job::Progress;
use crate::restore::{is_empty, is_empty_but};
use crate::sorter::Sorter;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use vfs::{Backend, Blocking, FileKey, FileType, FsError, FsResult, Name, NodeRef};

/// Bytes of records that every transfer may have, and for each file that the volume can have.
const LOG_BYTES: u64 = 1 << 30;
const LOG_BYTES_OF_FILE: u64 = 1 << 10;

/// The volume that a replication writes.
pub trait Target {
    /// The live files. No client reaches them, and nothing else changes them.
    fn backend(&self) -> Result<Arc<dyn Backend>>;

    /// Makes the present state of the live files the last point of the destination, durably. After a crash it may be called
    /// again for the same point.
    fn commit(&self, point: Point) -> Result<()>;
}

/// A directory of a destination for what it has to know of its replication.
#[derive(Clone)]
pub struct WorkDir {
    path: PathBuf,
    safe_bytes: u64,
    log_bytes: Option<u64>,
}

impl WorkDir {
    /// Opens a directory, or makes it.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            stable::files::make_dirs(path, 0o700).map_err(Error::Scratch)?;
        }
        Ok(Self { path: path.to_owned(), safe_bytes: apply::SAFE_BYTES, log_bytes: None })
    }

    /// Makes the place of a transfer safe after so many bytes of data.
    #[must_use]
    pub fn safe_after(self, safe_bytes: u64) -> Self {
        Self { safe_bytes, ..self }
    }

    /// Takes at most so many bytes of records in a transfer. By default this follows from the size of the volume.
    #[must_use]
    pub fn log_at_most(self, bytes: u64) -> Self {
        Self { log_bytes: Some(bytes), ..self }
    }

    /// The bytes that the log of a transfer to this volume may have.
    fn log_bytes_max(&self, target: &dyn Backend) -> Result<u64> {
        if let Some(bytes) = self.log_bytes {
            return Ok(bytes);
        }
        let stat = target.stat().map_err(at(|| "the destination".to_owned()))?;
        // Names and attributes of each file; extended attributes, which count as its data.
        let files = stat.files_total.saturating_mul(LOG_BYTES_OF_FILE);
        Ok(LOG_BYTES.saturating_add(files).saturating_add(stat.bytes_total))
    }

    fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    fn map(&self, point: u64) -> PathBuf {
        self.path.join(format!("map-{point}"))
    }

    pub(super) fn map_of(&self, point: Option<u64>) -> Result<KeyMap> {
        point.map_or_else(|| Ok(KeyMap::empty()), |point| KeyMap::open(&self.map(point)))
    }

    /// Whether the live files are no longer those of the last of these points, because a transfer has begun or may have
    /// begun.
    pub fn is_partial(&self, points: &[u64]) -> Result<bool> {
        Ok(self.is_invalid() || self.is_lost(points) || self.unfinished(points)?.is_some())
    }

    /// Whether the directory is a new one although there are points: the service has moved to another machine without it.
    fn is_lost(&self, points: &[u64]) -> bool {
        points.last().is_some_and(|&last| !self.map(last).exists())
    }

    /// Declares the live files to be none of the points, durably, until [`WorkDir::discard`]: they are about to be reverted,
    /// or clients have changed them.
    pub fn invalidate(&self) -> Result<()> {
        let made = stable::files::create_or_truncate(&self.mark(), 0o600).and_then(|mark| mark.sync_all());
        made.and_then(|()| stable::files::sync_dir(&self.path)).map_err(Error::Scratch)
    }

    /// Whether the live files are declared to be none of the points: [`receive`] demands to go back first.
    pub fn is_invalid(&self) -> bool {
        self.mark().exists()
    }

    fn mark(&self) -> PathBuf {
        self.path.join("invalid")
    }

    /// The log of a transfer that has not ended.
    fn unfinished(&self, points: &[u64]) -> Result<Option<Found>> {
        let found = Found::read(&self.log())?;
        Ok(found.filter(|found| Some(&found.start.point.number) > points.last()))
    }

    /// Prepares the directory of the other side: the maps of these points, from the destination's files to the source's.
    pub fn reverse(&self, other: &Self, points: &[u64], scratch: &Path) -> Result<()> {
        other.discard(&[])?;
        other.invalidate()?;
        for &point in points {
            let map = KeyMap::open(&self.map(point))?;
            let mut sorter = Sorter::new(scratch);
            for place in 0..map.len() {
                let (source, target) = map.at(place)?;
                sorter.push(sort_key::of_file(&target), source.bytes().to_vec())?;
            }
            let mut sorted = sorter.finish()?;
            let mut pairs = std::iter::from_fn(|| match sorted.next() {
                Ok(pair) => pair.map(|(target, source)| read_pair(&target, &source)),
                Err(error) => Some(Err(error)),
            });
            key_map::write(&other.map(point), &mut pairs)?;
        }
        Ok(())
    }

    /// Forgets an unfinished transfer: the live files are those of the last of these points again.
    pub fn discard(&self, points: &[u64]) -> Result<()> {
        remove(&self.log())?;
        remove(&self.mark())?;
        self.sweep(points)
    }

    /// Removes the maps of other points.
    fn sweep(&self, points: &[u64]) -> Result<()> {
        for entry in std::fs::read_dir(&self.path).map_err(Error::Scratch)? {
            let name = entry.map_err(Error::Scratch)?.file_name();
            let point = name.to_str().and_then(|name| name.strip_prefix("map-")?.parse::<u64>().ok());
            if point.is_some_and(|point| !points.contains(&point)) {
                remove(&self.path.join(name))?;
            }
        }
        Ok(())
    }
}

fn read_pair(target: &[u8], source: &[u8]) -> Result<(FileKey, FileKey)> {
    let pair = target.split_first().map(|(_, target)| (FileKey::new(target), FileKey::new(source)));
    match pair {
        Some((Ok(target), Ok(source))) => Ok((target, source)),
        _ => Err(Error::WorkDir("a key in a map of files is malformed")),
    }
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::Scratch(error)),
        _ => Ok(()),
    }
}

/// Takes over the next point from the source, or the rest of one. `points` are those that the destination has, in ascending
/// order; its live files are those of the last one, or on their way to the next. Returns the point, and the bytes received.
///
/// [`Error::GoBack`] asks the caller to revert the live files to a point, to forget later points, and to call again after
/// [`WorkDir::discard`].
pub fn receive(
    link: &mut dyn Link,
    request: &Request,
    work: &WorkDir,
    points: &[u64],
    target: &dyn Target,
    means: &mut Means<'_>,
) -> Result<(Point, u64)> {
    let last = points.last().copied();
    if work.is_lost(points) {
        return Err(Error::WorkDir(
            "the list of the files of the last point is gone; delete the replication and its volume, and create both again",
        ));
    }
    let unfinished = work.unfinished(points)?;
    if work.is_invalid() || unfinished.as_ref().is_some_and(|found| found.start.base != last) {
        return Err(Error::GoBack(last));
    }
    if let Some(found) = unfinished.as_ref().filter(|found| found.is_complete) {
        let files = Files::open(target.backend()?, found.start.root, work.map_of(last)?)?;
        finish(work, points, found.start.point, &files, target, means)?;
        return Ok((found.start.point, 0));
    }
    let mut frames = Frames::new(link);
    let resume = unfinished.as_ref().map(Found::resume);
    let (request, points_here) = (request.clone(), points.to_vec());
    frames.write(&Message::Hello { request, points: points_here, unfinished: resume }.encode())?;
    frames.flush()?;
    let (start, is_resumed) = begin(&mut frames)?;
    let log = match unfinished {
        Some(found) if is_resumed && found.start == start => found.reopen(&work.log())?,
        Some(_) if !is_resumed => return Err(Error::GoBack(last)),
        None if !is_resumed => {
            check_start(&start, points, &target.backend()?)?;
            Log::create(&work.log(), &start)?
        }
        _ => return Err(Error::Peer("it goes on with another transfer")),
    };
    let files = Files::open(target.backend()?, start.root, work.map_of(last)?)?;
    let log = log.at_most(work.log_bytes_max(&*files.target)?);
    take(&mut frames, Applier::new(&files, log, work.safe_bytes), means)?;
    finish_alive(&mut frames, work, points, start.point, &files, target, means)?;
    let done = Message::Done { number: start.point.number };
    // If it does not arrive, the next greeting says the same.
    _ = frames.write(&done.encode()).and_then(|()| frames.flush());
    Ok((start.point, frames.bytes))
}

/// Asks a source for its points.
pub fn ask(link: &mut dyn Link, request: &Request) -> Result<Vec<u64>> {
    let mut frames = Frames::new(link);
    frames.write(&Message::Ask { request: request.clone() }.encode())?;
    frames.flush()?;
    loop {
        return match Message::decode(&frames.read()?) {
            Some(Message::Alive) => continue,
            Some(Message::Points { points }) => Ok(points),
            Some(Message::Refused { reason, .. }) => Err(Error::Refused(reason)),
            _ => Err(Error::Peer("it does not answer the question for its points")),
        };
    }
}

/// Asks a former destination for the maps of its points, which go to `work`. Returns the points. `next` is the number that
/// the next point here would have.
pub fn fetch_maps(
    link: &mut dyn Link,
    request: &Request,
    next: u64,
    work: &WorkDir,
    means: &mut Means<'_>,
) -> Result<Vec<u64>> {
    work.discard(&[])?;
    let mut frames = Frames::new(link);
    frames.write(&Message::Turn { request: request.clone(), next }.encode())?;
    frames.flush()?;
    let (mut points, mut draft): (Vec<u64>, Option<Draft>) = (Vec::new(), None);
    loop {
        match Message::decode(&frames.read()?) {
            Some(Message::Alive) => {}
            Some(Message::Refused { reason, .. }) if points.is_empty() => return Err(Error::Refused(reason)),
            Some(Message::Map { point, records }) => {
                if points.last() != Some(&point) {
                    if points.last() > Some(&point) || points.len() == POINTS_MAX || point == 0 {
                        return Err(Error::Peer("its points are out of order"));
                    }
                    draft.take().map_or(Ok(()), Draft::finish)?;
                    draft = Some(Draft::new(&work.map(point))?);
                    points.push(point);
                }
                let malformed = Error::Peer("a map is malformed");
                draft.as_mut().map_or(Ok(None), |draft| draft.push_checked(&records))?.ok_or(malformed)?;
            }
            Some(Message::End) => {
                draft.take().map_or(Ok(()), Draft::finish)?;
                return Ok(points);
            }
            _ => return Err(Error::Peer("it does not answer the question for its maps")),
        }
        let progress = Progress { bytes_sent: frames.bytes, ..Progress::default() };
        if (means.progress)(&progress).is_break() {
            return Err(Error::Stopped);
        }
    }
}

fn begin(frames: &mut Frames<'_>) -> Result<(Start, bool)> {
    loop {
        return match Message::decode(&frames.read()?) {
            Some(Message::Alive) => continue,
            Some(Message::Begin { point, base, root, is_resumed }) => {
                Ok((Start { point, base, root }, is_resumed))
            }
            Some(Message::Refused { has_no_common_point: true, reason }) => Err(Error::NoCommonPoint(reason)),
            Some(Message::Refused { reason, .. }) => Err(Error::Refused(reason)),
            _ => Err(Error::Peer("it does not answer the greeting")),
        };
    }
}

/// Checks that a transfer begins with the live files.
fn check_start(start: &Start, points: &[u64], target: &Arc<dyn Backend>) -> Result<()> {
    let last = points.last().copied();
    if start.point.number == 0 || Some(start.point.number) <= last {
        return Err(Error::Peer("its point does not follow the last one"));
    }
    if start.point.number > POINT_NUMBER_MAX {
        return Err(Error::Peer("the number of its point is too large"));
    }
    match start.base {
        None if last.is_some() => Err(Error::Peer("it sends everything although there are points in common")),
        None => match is_empty(&target.root()).map_err(at(|| "the destination".to_owned()))? {
            true => Ok(()),
            false => Err(Error::GoBack(None)),
        },
        base if base == last => Ok(()),
        Some(base) if points.contains(&base) => Err(Error::GoBack(Some(base))),
        Some(_) => Err(Error::Peer("it begins at a point that the destination does not have")),
    }
}

fn take(frames: &mut Frames<'_>, mut applier: Applier<'_>, means: &mut Means<'_>) -> Result<()> {
    let (mut files_total, mut bytes_total) = (None, None);
    loop {
        let payload = frames.read()?;
        let malformed = Error::Peer("a message is malformed");
        match Message::decode(&payload).ok_or(malformed)? {
            Message::Alive => {}
            Message::Totals { files, bytes } => (files_total, bytes_total) = (Some(files), Some(bytes)),
            Message::Record { key, old, new } => applier.record(key, old, new)?,
            Message::Data { offset, bytes } => applier.data(offset, &bytes)?,
            Message::Zero { offset, len } => applier.zero(offset, len)?,
            Message::End => return applier.end().map(drop),
            _ => return Err(Error::Peer("a message is out of place")),
        }
        let progress = Progress { files_total, bytes_total, bytes_sent: frames.bytes, ..applier.progress };
        if (means.pace)(payload.len() as u64).is_break() || (means.progress)(&progress).is_break() {
            return Err(Error::Stopped);
        }
    }
}

/// [`finish`], while the source waits.
fn finish_alive(
    frames: &mut Frames<'_>,
    work: &WorkDir,
    points: &[u64],
    point: Point,
    files: &Files,
    target: &dyn Target,
    means: &mut Means<'_>,
) -> Result<()> {
    let mut last = Instant::now();
    let mut alive = |progress: &Progress| {
        if last.elapsed() >= ALIVE {
            last = Instant::now();
            // Without the source the point is complete all the same.
            _ = frames.write(&Message::Alive.encode()).and_then(|()| frames.flush());
        }
        (means.progress)(progress)
    };
    let mut means = Means { scratch: means.scratch, pace: means.pace, progress: &mut alive };
    finish(work, points, point, files, target, &mut means)
}

fn finish(
    work: &WorkDir,
    points: &[u64],
    point: Point,
    files: &Files,
    target: &dyn Target,
    means: &mut Means<'_>,
) -> Result<()> {
    apply::finish(files, &work.log(), &work.map(point.number), means)?;
    target.commit(point)?;
    let keep: Vec<u64> = points.last().copied().into_iter().chain([point.number]).collect();
    work.discard(&keep)
}

/// Whether a volume has no files.
pub fn has_no_files(backend: &dyn Backend) -> Result<bool> {
    let root = backend.root();
    let is_hidden = |name: &[u8]| name == Name::STREAMS.bytes();
    is_empty_but(&root, is_hidden).map_err(at(|| "the volume".to_owned()))
}

/// Removes everything from a destination, for a copy from the beginning.
pub fn clear(target: &dyn Backend) -> Result<()> {
    let shown = || "the destination".to_owned();
    let root = target.root();
    clear_dir(&root, &root).and_then(|()| target.sync()).map_err(at(shown))
}

fn clear_dir(root: &NodeRef, dir: &NodeRef) -> FsResult<()> {
    let mut open = vec![NodeRef::clone(dir)];
    while let Some(dir) = open.last() {
        let dir = NodeRef::clone(dir);
        match clear_files(root, &dir)? {
            Some(below) => open.push(below),
            None => drop(open.pop()),
        }
    }
    Ok(())
}

/// Removes the entries of a directory, up to the first directory that is not empty, which it returns.
fn clear_files(root: &NodeRef, dir: &NodeRef) -> FsResult<Option<NodeRef>> {
    let mut names = Vec::new();
    dir.read_dir(0, false, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        std::ops::ControlFlow::Continue(())
    })?;
    let is_root = dir.key() == root.key();
    for name in &names {
        if is_root && name == b"lost+found" {
            continue;
        }
        let is_hidden = is_root && name == Name::STREAMS.bytes();
        let name = if is_hidden { Name::STREAMS } else { Name::new(name)? };
        let found = match dir.lookup(name, Blocking::Allowed) {
            Err(FsError::NotFound) => continue,
            found => found?,
        };
        if found.attrs.file_type != FileType::Directory {
            dir.remove(name, &|_| Ok(()))?;
            continue;
        }
        match dir.remove_dir(name, &|_| Ok(())) {
            Err(FsError::NotEmpty) => return Ok(Some(found.node)),
            removed => removed.map(drop)?,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_dir_forgets_maps_of_other_points() {
        let dir = tempfile::tempdir().unwrap();
        let work = WorkDir::open(&dir.path().join("a/b")).unwrap();
        for point in 1..5 {
            std::fs::write(work.map(point), b"").unwrap();
        }
        work.discard(&[2, 3]).unwrap();
        let there: Vec<bool> = (1..5).map(|point| work.map(point).exists()).collect();
        assert_eq!(there, [false, true, true, false]);
    }
}
