//! The source of a replication.

use super::difference::{self, Sides, Sink};
use super::frame::{Frames, Link};
use super::key_map;
use super::message::{self, Message, Point, Request, Resume};
use super::receive::WorkDir;
use super::{ALIVE, Means};
use crate::error::{Error, Result};
use crate::job::Progress;
use std::sync::Arc;
use std::time::Instant;
use vfs::{Backend, ChangedRanges, ViewId};

/// The points of a source.
pub trait Origin {
    /// The points that exist, in ascending order.
    fn points(&self) -> Result<Vec<Point>>;

    /// Makes the next point, of the present state of the volume.
    fn make(&self) -> Result<Point>;

    fn open(&self, point: u64) -> Result<Arc<dyn Backend>>;

    /// The changes between two points; `None` if the storage does not know it.
    fn changes(&self, from: u64, to: u64) -> Result<Option<Arc<dyn ChangedRanges>>>;

    /// The state of the replication in which this side was the destination.
    fn maps(&self) -> Result<WorkDir> {
        Err(Error::Refused("this side was not the destination".to_owned()))
    }

    /// The last point of the destination; `None`: it has none. Points before the one before it are no longer needed, nor are
    /// later ones.
    fn confirm(&self, point: Option<u64>) -> Result<()>;
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Transfer,
    /// A question for the points.
    Points,
    /// The other side was the source so far, and will follow. Its next point would have this number.
    Turn(u64),
}

/// Finds the volume that a destination asks for, if it may have it.
pub type Find<'o> = dyn Fn(&Request, Purpose) -> Result<Box<dyn Origin + 'o>> + 'o;

/// Answers a destination: sends it the changes up to a new point, or the rest of those to an earlier one. Returns the
/// point, which the destination has now, and the bytes that were sent; `None`: it only asked for the points.
pub fn serve(link: &mut dyn Link, find: &Find<'_>, means: &mut Means<'_>) -> Result<Option<(Point, u64)>> {
    let mut frames = Frames::new(link);
    let first = frames.read()?;
    let (request, points, unfinished) = match Message::decode(&first) {
        Some(Message::Hello { request, points, unfinished }) => (request, points, unfinished),
        Some(Message::Ask { request }) => {
            return answer(frames, find(&request, Purpose::Points)).map(|()| None);
        }
        Some(Message::Turn { request, next }) => {
            return send_maps(frames, find(&request, Purpose::Turn(next)), means).map(|()| None);
        }
        _ => return Err(refuse(&mut frames, not_understood(&first))),
    };
    let offer = find(&request, Purpose::Transfer).and_then(|origin| {
        let offer = choose(&*origin, &points, unfinished)?;
        Ok((origin, offer))
    });
    match offer {
        Ok((origin, offer)) => send(frames, &*origin, offer, means).map(Some),
        Err(error) => Err(refuse(&mut frames, error)),
    }
}

fn not_understood(first: &[u8]) -> Error {
    match message::other_version(first) {
        None => Error::Peer("it does not begin with a greeting"),
        Some(theirs) => Error::Refused(format!(
            "the source speaks version {} of the replication protocol, and the destination version {theirs}: update the older \
             service",
            message::VERSION
        )),
    }
}

/// Tells the destination why it gets nothing.
fn refuse(frames: &mut Frames<'_>, error: Error) -> Error {
    let has_no_common_point = matches!(error, Error::NoCommonPoint(_));
    let reason = match &error {
        Error::NoCommonPoint(reason) => reason.clone(),
        error => error.to_string(),
    };
    let refused = Message::Refused { has_no_common_point, reason };
    match frames.write(&refused.encode()).and_then(|()| frames.flush()) {
        Ok(()) => error,
        Err(failed) => failed,
    }
}

fn answer(mut frames: Frames<'_>, origin: Result<Box<dyn Origin + '_>>) -> Result<()> {
    match origin.and_then(|origin| origin.points()) {
        Err(error) => Err(refuse(&mut frames, error)),
        Ok(points) => {
            let last = points.len().saturating_sub(message::POINTS_MAX);
            let points = points[last..].iter().map(|point| point.number).collect();
            frames.write(&Message::Points { points }.encode())?;
            frames.flush()
        }
    }
}

/// Sends the maps of all points to the former source.
fn send_maps(
    mut frames: Frames<'_>,
    origin: Result<Box<dyn Origin + '_>>,
    means: &mut Means<'_>,
) -> Result<()> {
    let found = origin.and_then(|origin| Ok((origin.points()?, origin.maps()?)));
    let (points, work) = match found {
        Ok(found) => found,
        Err(error) => return Err(refuse(&mut frames, error)),
    };
    for Point { number: point, .. } in points {
        let map = work.map_of(Some(point))?;
        let mut place = 0;
        loop {
            let records = map.part(place)?;
            place += key_map::PART_RECORDS;
            let is_end = place >= map.len();
            if (means.pace)(records.len() as u64).is_break() {
                return Err(Error::Stopped);
            }
            frames.write(&Message::Map { point, records }.encode())?;
            if is_end {
                break;
            }
        }
    }
    frames.write(&Message::End.encode())?;
    frames.flush()
}

fn send(
    mut frames: Frames<'_>,
    origin: &dyn Origin,
    offer: Offer,
    means: &mut Means<'_>,
) -> Result<(Point, u64)> {
    let Offer { point, base, after } = offer;
    let new = origin.open(point.number)?;
    let old = base.map(|base| Ok::<_, Error>((origin.open(base.number)?, base.taken))).transpose()?;
    let root = new.root().key().in_view(ViewId::LIVE);
    let base = base.map(|base| base.number);
    let changes = base.map_or(Ok(None), |base| origin.changes(base, point.number))?;
    frames.write(&Message::Begin { point, base, root, is_resumed: after.is_some() }.encode())?;
    frames.flush()?;
    let old = old.as_ref().map(|(old, taken)| (&**old, *taken));
    let sides = Sides { new: &*new, old, changes: changes.as_deref() };
    let after = after.as_ref().filter(|(key, _)| !key.is_empty());
    let after = after.map(|(key, offset)| (key.as_slice(), *offset));
    let pace = std::cell::RefCell::new(&mut *means.pace);
    let mut sender = Sender { frames, last: Instant::now(), pace: &mut |bytes| (pace.borrow_mut())(bytes) };
    let mut rest = Means {
        scratch: means.scratch,
        pace: &mut |_| std::ops::ControlFlow::Continue(()),
        progress: means.progress,
    };
    difference::find(&sides, after, &mut sender, &mut rest)?;
    let mut frames = sender.frames;
    frames.write(&Message::End.encode())?;
    frames.flush()?;
    let bytes = frames.bytes;
    loop {
        match Message::decode(&frames.read()?) {
            Some(Message::Alive) => {}
            Some(Message::Done { number }) if number == point.number => break,
            _ => return Err(Error::Peer("it does not confirm the point")),
        }
        if (means.progress)(&Progress::default()).is_break() {
            return Err(Error::Stopped);
        }
    }
    origin.confirm(Some(point.number))?;
    Ok((point, bytes))
}

struct Offer {
    point: Point,
    base: Option<Point>,
    /// The place in an unfinished transfer.
    after: Option<(Vec<u8>, u64)>,
}

/// Chooses the point to send. Numbers decide which points are later, never clocks.
fn choose(origin: &dyn Origin, theirs: &[u64], unfinished: Option<Resume>) -> Result<Offer> {
    let ours = origin.points()?;
    let find = |number: u64| ours.iter().find(|point| point.number == number).copied();
    let common = theirs.iter().rev().find_map(|&number| find(number));
    if let (None, Some(last)) = (common, theirs.last()) {
        let reason = format!("the source has neither point {last} of the destination nor an earlier one");
        return Err(Error::NoCommonPoint(reason));
    }
    if let Some(Resume { number, base, key, offset }) = unfinished
        && base == common.map(|common| common.number)
        && let Some(point) = find(number)
    {
        return Ok(Offer { point, base: common, after: Some((key, offset)) });
    }
    if common.map(|common| common.number) == theirs.last().copied() {
        origin.confirm(theirs.last().copied())?;
    }
    let point = origin.make()?;
    if theirs.last().is_some_and(|&last| last >= point.number) {
        let reason = format!(
            "the source's new point {} does not follow point {} of the destination: the source is older",
            point.number,
            theirs.last().copied().unwrap_or_default()
        );
        return Err(Error::Refused(reason));
    }
    Ok(Offer { point, base: common, after: None })
}

struct Sender<'l, 'p> {
    frames: Frames<'l>,
    last: Instant,
    pace: &'p mut dyn FnMut(u64) -> std::ops::ControlFlow<()>,
}

impl Sender<'_, '_> {
    fn send(&mut self, message: &Message) -> Result<()> {
        let payload = message.encode();
        if (self.pace)(payload.len() as u64).is_break() {
            return Err(Error::Stopped);
        }
        self.frames.write(&payload)
    }
}

impl Sink for Sender<'_, '_> {
    fn begin(&mut self, files: u64, bytes: u64) -> Result<()> {
        self.send(&Message::Totals { files, bytes })
    }

    fn alive(&mut self) -> Result<()> {
        if self.last.elapsed() < ALIVE {
            return Ok(());
        }
        self.last = Instant::now();
        self.send(&Message::Alive)?;
        self.frames.flush()
    }

    fn record(&mut self, key: &[u8], old: &[u8], new: &[u8]) -> Result<()> {
        self.send(&Message::Record { key: key.to_vec(), old: old.to_vec(), new: new.to_vec() })
    }

    fn data(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        self.send(&Message::Data { offset, bytes })
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<()> {
        self.send(&Message::Zero { offset, len })
    }
}
