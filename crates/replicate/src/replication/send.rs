//! The source of a replication.

use super::Means;
use super::difference::{self, Sides, Sink};
use super::frame::{Frames, Link};
use super::message::{Message, Point, RelationId, Resume};
use crate::error::{Error, Result};
use crate::job::Progress;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::{Backend, ViewId};

/// A side that waits for the other sends a sign of life this often.
const ALIVE: Duration = Duration::from_secs(5);

/// The points of a source.
pub trait Origin {
    /// The points that exist, in ascending order.
    fn points(&self) -> Result<Vec<Point>>;

    /// Makes the next point, of the present state of the volume.
    fn make(&self) -> Result<Point>;

    fn open(&self, point: u64) -> Result<Arc<dyn Backend>>;

    /// The last point of the destination; `None`: it has none. Points before the one before it are no longer needed, nor are
    /// later ones.
    fn confirm(&self, point: Option<u64>) -> Result<()>;
}

/// Answers a destination: sends it the changes up to a new point, or the rest of those to an earlier one. Returns the
/// point, which the destination has now, and the bytes that were sent.
pub fn serve<'o>(
    link: &mut dyn Link,
    find: &dyn Fn(RelationId) -> Result<Box<dyn Origin + 'o>>,
    means: &mut Means<'_>,
) -> Result<(Point, u64)> {
    let mut frames = Frames::new(link);
    let Some(Message::Hello { relation, points, unfinished }) = Message::decode(&frames.read()?) else {
        return Err(Error::Peer("it does not begin with a greeting of this version"));
    };
    let offer = find(relation).and_then(|origin| {
        let offer = choose(&*origin, &points, unfinished)?;
        Ok((origin, offer))
    });
    let (origin, Offer { point, base, after }) = match offer {
        Ok(offer) => offer,
        Err(error) => {
            let has_no_common_point = matches!(error, Error::NoCommonPoint(_));
            let reason = match &error {
                Error::NoCommonPoint(reason) => reason.clone(),
                error => error.to_string(),
            };
            frames.write(&Message::Refused { has_no_common_point, reason }.encode())?;
            frames.flush()?;
            return Err(error);
        }
    };
    let new = origin.open(point.number)?;
    let old = base.map(|base| Ok::<_, Error>((origin.open(base.number)?, base.taken))).transpose()?;
    let root = new.root().key().in_view(ViewId::LIVE);
    let base = base.map(|base| base.number);
    frames.write(&Message::Begin { point, base, root, is_resumed: after.is_some() }.encode())?;
    frames.flush()?;
    let sides = Sides { new: &*new, old: old.as_ref().map(|(old, taken)| (&**old, *taken)), changes: None };
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
