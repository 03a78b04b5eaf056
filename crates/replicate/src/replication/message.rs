//! Messages between the two sides of a replication.

use crate::format::CHUNK_BYTES;
use crate::format::bytes::{Reader, Writer};
use std::fmt;
use vfs::{FileKey, Time};

pub(super) const VERSION: u8 = 1;
/// Points that a side names, at most.
pub(super) const POINTS_MAX: usize = 16;
/// The greatest number of a point: more than one each nanosecond of a century.
pub const POINT_NUMBER_MAX: u64 = 1 << 62;
/// Bytes of the name of a volume.
const VOLUME_BYTES_MAX: usize = 255;

/// A replication: random bytes that both sides know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelationId(pub [u8; 8]);

impl fmt::Display for RelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The request of a destination: its replication, and the volume of the source, whose name matters the first time alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub relation: RelationId,
    pub volume: String,
}

/// A point of a replication. Later points have larger numbers, whatever the clocks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub number: u64,
    /// The time of the snapshot, by the clock that stamps the files of the source.
    pub taken: Time,
}

/// The place at which a transfer that was cut goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resume {
    pub(super) number: u64,
    pub(super) base: Option<u64>,
    /// The sort key of the last record that is safe, and the offset in its data up to which they are.
    pub(super) key: Vec<u8>,
    pub(super) offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The destination's first message: the points that it has, in ascending order.
    Hello {
        request: Request,
        points: Vec<u64>,
        unfinished: Option<Resume>,
    },
    /// The source will send the changes from `base`, or everything, up to `point`.
    Begin {
        point: Point,
        base: Option<u64>,
        root: FileKey,
        is_resumed: bool,
    },
    /// The source has nothing to send: the reason in words.
    Refused {
        has_no_common_point: bool,
        reason: String,
    },
    /// The source is still at work.
    Alive,
    Totals {
        files: u64,
        bytes: u64,
    },
    /// A record of an index: what it was and what it is now. Empty: it was not, or is no longer there.
    Record {
        key: Vec<u8>,
        old: Vec<u8>,
        new: Vec<u8>,
    },
    /// Data of the file or stream of the last record.
    Data {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// A range of zeros in it.
    Zero {
        offset: u64,
        len: u64,
    },
    End,
    /// The destination has the point, durably.
    Done {
        number: u64,
    },
    /// Asks a source for its points.
    Ask {
        request: Request,
    },
    /// The points of the source, in ascending order.
    Points {
        points: Vec<u64>,
    },
    /// The source will follow its destination: it asks for the maps of all points. `next` is the number that its own next point
    /// would have.
    Turn {
        request: Request,
        next: u64,
    },
    /// A part of the map of a point, in the form of the file.
    Map {
        point: u64,
        records: Vec<u8>,
    },
}

const HELLO: u8 = 1;
const BEGIN: u8 = 2;
const REFUSED: u8 = 3;
const ALIVE: u8 = 4;
const TOTALS: u8 = 5;
const RECORD: u8 = 6;
const DATA: u8 = 7;
const ZERO: u8 = 8;
const END: u8 = 9;
const DONE: u8 = 10;
const ASK: u8 = 11;
const POINTS: u8 = 12;
const TURN: u8 = 13;
const MAP: u8 = 14;

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Hello { .. } | Self::Ask { .. } | Self::Turn { .. } => self.encode_first(&mut writer),
            Self::Begin { point, base, root, is_resumed } => {
                writer.u8(BEGIN);
                writer.int(point.number);
                writer.time(point.taken);
                write_base(&mut writer, *base);
                writer.bytes(root.bytes());
                writer.u8((*is_resumed).into());
            }
            Self::Refused { has_no_common_point, reason } => {
                writer.raw(&[REFUSED, (*has_no_common_point).into()]);
                writer.bytes(reason.as_bytes());
            }
            Self::Alive => writer.u8(ALIVE),
            Self::Totals { files, bytes } => {
                writer.u8(TOTALS);
                writer.int(*files);
                writer.int(*bytes);
            }
            Self::Record { key, old, new } => {
                writer.u8(RECORD);
                writer.bytes(key);
                writer.bytes(old);
                writer.bytes(new);
            }
            Self::Data { offset, bytes } => {
                writer.u8(DATA);
                writer.int(*offset);
                // Level 1: the line is rarely slower than that.
                let packed = zstd::bulk::compress(bytes, 1).ok().filter(|packed| packed.len() < bytes.len());
                writer.u8(packed.is_some().into());
                writer.raw(packed.as_ref().unwrap_or(bytes));
            }
            Self::Zero { offset, len } => {
                writer.u8(ZERO);
                writer.int(*offset);
                writer.int(*len);
            }
            Self::End => writer.u8(END),
            Self::Done { number } => {
                writer.u8(DONE);
                writer.int(*number);
            }
            Self::Points { points } => {
                writer.u8(POINTS);
                write_points(&mut writer, points);
            }
            Self::Map { point, records } => {
                writer.u8(MAP);
                writer.int(*point);
                writer.bytes(records);
            }
        }
        writer.0
    }

    /// Encodes the messages that begin a connection.
    fn encode_first(&self, writer: &mut Writer) {
        match self {
            Self::Hello { request, points, unfinished } => {
                writer.raw(&[HELLO, VERSION]);
                write_request(writer, request);
                write_points(writer, points);
                writer.u8(unfinished.is_some().into());
                if let Some(Resume { number, base, key, offset }) = unfinished {
                    writer.int(*number);
                    write_base(writer, *base);
                    writer.bytes(key);
                    writer.int(*offset);
                }
            }
            Self::Ask { request } => {
                writer.raw(&[ASK, VERSION]);
                write_request(writer, request);
            }
            Self::Turn { request, next } => {
                writer.raw(&[TURN, VERSION]);
                write_request(writer, request);
                writer.int(*next);
            }
            _ => {}
        }
    }

    /// `None` if no service sends these bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let message = match reader.u8()? {
            HELLO => {
                (reader.u8()? == VERSION).then_some(())?;
                let (request, points) = (read_request(&mut reader)?, read_points(&mut reader)?);
                let unfinished = if read_flag(&mut reader)? { Some(read_resume(&mut reader)?) } else { None };
                Self::Hello { request, points, unfinished }
            }
            BEGIN => Self::Begin {
                point: Point { number: reader.int()?, taken: reader.time()? },
                base: read_base(&mut reader)?,
                root: FileKey::new(reader.bytes()?).ok()?,
                is_resumed: read_flag(&mut reader)?,
            },
            REFUSED => Self::Refused { has_no_common_point: read_flag(&mut reader)?, reason: reader.text()? },
            ALIVE => Self::Alive,
            TOTALS => Self::Totals { files: reader.int()?, bytes: reader.int()? },
            RECORD => Self::Record {
                key: reader.bytes()?.to_vec(),
                old: reader.bytes()?.to_vec(),
                new: reader.bytes()?.to_vec(),
            },
            DATA => {
                let (offset, is_packed) = (reader.int()?, read_flag(&mut reader)?);
                let rest = reader.raw(reader.0.len())?;
                let bytes = match is_packed {
                    true => zstd::bulk::decompress(rest, usize::try_from(CHUNK_BYTES).ok()?).ok()?,
                    false => rest.to_vec(),
                };
                (bytes.len() as u64 <= CHUNK_BYTES).then_some(())?;
                offset.checked_add(bytes.len() as u64)?;
                Self::Data { offset, bytes }
            }
            ZERO => {
                let (offset, len) = (reader.int()?, reader.int()?);
                offset.checked_add(len)?;
                Self::Zero { offset, len }
            }
            END => Self::End,
            DONE => Self::Done { number: reader.int()? },
            ASK => {
                (reader.u8()? == VERSION).then_some(())?;
                Self::Ask { request: read_request(&mut reader)? }
            }
            POINTS => Self::Points { points: read_points(&mut reader)? },
            TURN => {
                (reader.u8()? == VERSION).then_some(())?;
                Self::Turn { request: read_request(&mut reader)?, next: reader.int()? }
            }
            MAP => Self::Map { point: reader.int()?, records: reader.bytes()?.to_vec() },
            _ => return None,
        };
        reader.end(message)
    }
}

/// The version of the protocol in a first message that this version cannot read; `None`: it is no first message.
pub(super) fn other_version(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [HELLO | ASK | TURN, version, ..] if *version != VERSION => Some(*version),
        _ => None,
    }
}

fn write_request(writer: &mut Writer, request: &Request) {
    writer.raw(&request.relation.0);
    writer.bytes(request.volume.as_bytes());
}

fn read_request(reader: &mut Reader<'_>) -> Option<Request> {
    let relation = RelationId(reader.array()?);
    Some(Request { relation, volume: reader.text().filter(|volume| volume.len() <= VOLUME_BYTES_MAX)? })
}

fn write_points(writer: &mut Writer, points: &[u64]) {
    writer.len(points.len());
    points.iter().for_each(|&point| writer.int(point));
}

/// Points in ascending order; numbers begin at 1.
fn read_points(reader: &mut Reader<'_>) -> Option<Vec<u64>> {
    let count = reader.len().filter(|&count| count <= POINTS_MAX)?;
    let points: Vec<u64> = (0..count).map(|_| reader.int()).collect::<Option<_>>()?;
    let is_ascending = points.windows(2).all(|pair| pair[0] < pair[1]);
    (is_ascending && points.first() != Some(&0)).then_some(points)
}

/// Numbers of points begin at 1.
fn write_base(writer: &mut Writer, base: Option<u64>) {
    writer.int(base.unwrap_or(0));
}

fn read_base(reader: &mut Reader<'_>) -> Option<Option<u64>> {
    reader.int().map(|base| Some(base).filter(|&base| base > 0))
}

fn read_flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn read_resume(reader: &mut Reader<'_>) -> Option<Resume> {
    Some(Resume {
        number: reader.int()?,
        base: read_base(reader)?,
        key: reader.bytes()?.to_vec(),
        offset: reader.int()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back() {
        let key = FileKey::new(b"key").unwrap();
        let resume = Resume { number: 7, base: Some(6), key: b"k".to_vec(), offset: 1 << 40 };
        let point = Point { number: 7, taken: Time { seconds: -1, nanos: 5 } };
        let request = Request { relation: RelationId([3; 8]), volume: "v".to_owned() };
        for message in [
            Message::Hello { request: request.clone(), points: vec![1, 2], unfinished: Some(resume) },
            Message::Hello { request: request.clone(), points: vec![], unfinished: None },
            Message::Ask { request: request.clone() },
            Message::Points { points: vec![7, u64::MAX] },
            Message::Turn { request, next: 9 },
            Message::Map { point: 7, records: vec![1; 82] },
            Message::Begin { point, base: None, root: key, is_resumed: true },
            Message::Refused { has_no_common_point: true, reason: "why".to_owned() },
            Message::Alive,
            Message::Totals { files: 3, bytes: u64::MAX },
            Message::Record { key: b"k".to_vec(), old: vec![], new: b"n".to_vec() },
            Message::Data { offset: 5, bytes: vec![7; 5000] },
            Message::Data { offset: 5, bytes: b"no gain".to_vec() },
            Message::Zero { offset: 1, len: 2 },
            Message::End,
            Message::Done { number: 7 },
        ] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn messages_beyond_the_bounds_are_refused() {
        let request = |volume: String| Request { relation: RelationId([3; 8]), volume };
        let hello =
            |points: Vec<u64>| Message::Hello { request: request("v".into()), points, unfinished: None };
        for message in [
            hello((1..=17).collect()),
            hello(vec![2, 1]),
            hello(vec![1, 1]),
            hello(vec![0]),
            Message::Ask { request: request("v".repeat(256)) },
            Message::Data { offset: u64::MAX, bytes: vec![1] },
            Message::Zero { offset: u64::MAX, len: 1 },
        ] {
            assert_eq!(Message::decode(&message.encode()), None, "{message:?}");
        }
        let zeros = zstd::bulk::compress(&vec![0; 1 << 27], 1).unwrap();
        assert_eq!(Message::decode(&[&[DATA, 0, 1], &zeros[..]].concat()), None, "a bomb");
        let raw = [&[DATA, 0, 0][..], &vec![7; usize::try_from(CHUNK_BYTES).unwrap() + 1]].concat();
        assert_eq!(Message::decode(&raw), None, "more than a chunk");
        assert!(Message::decode(&raw[..raw.len() - 1]).is_some());
        let mut other = hello(vec![1]).encode();
        other[1] = VERSION + 1;
        assert_eq!((Message::decode(&other), other_version(&other)), (None, Some(VERSION + 1)));
        assert_eq!(other_version(b"GET / HTTP/1.1"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Message::decode(&bytes);
        }
    }
}
