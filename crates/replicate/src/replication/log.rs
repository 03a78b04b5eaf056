//! The log of a transfer at the destination: everything that the names and attributes need after the data, and the place at
//! which a transfer that was cut goes on.

use super::message::{Point, Resume};
use crate::error::{Error, Result};
use crate::format::bytes::{Reader, Writer};
use stable::checksum;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use vfs::FileKey;

const MODE: u32 = 0o600;
/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;
const ENTRY_BYTES_MAX: usize = 2 * crate::format::RECORD_BYTES_MAX;
/// Length and checksum.
const HEAD_BYTES: usize = 8;

/// The beginning of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) point: Point,
    pub(super) base: Option<u64>,
    /// The root of the source.
    pub(super) root: FileKey,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Start(Start),
    /// A record, and the file of the destination where it is a new one.
    Record {
        key: Vec<u8>,
        old: Vec<u8>,
        new: Vec<u8>,
        made: Option<FileKey>,
    },
    /// Everything up to this record, and this offset in its data, is durable.
    Safe {
        key: Vec<u8>,
        offset: u64,
    },
    /// All data has come and is durable.
    End,
}

const START: u8 = 1;
const RECORD: u8 = 2;
const SAFE: u8 = 3;
const END: u8 = 4;

impl Entry {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Start(Start { point, base, root }) => {
                writer.u8(START);
                writer.int(point.number);
                writer.time(point.taken);
                writer.int(base.unwrap_or(0));
                writer.bytes(root.bytes());
            }
            Self::Record { key, old, new, made } => {
                writer.u8(RECORD);
                writer.bytes(key);
                writer.bytes(old);
                writer.bytes(new);
                writer.bytes(made.as_ref().map_or(&[], FileKey::bytes));
            }
            Self::Safe { key, offset } => {
                writer.u8(SAFE);
                writer.bytes(key);
                writer.int(*offset);
            }
            Self::End => writer.u8(END),
        }
        writer.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let entry = match reader.u8()? {
            START => Self::Start(Start {
                point: Point { number: reader.int()?, taken: reader.time()? },
                base: reader.int().map(|base| Some(base).filter(|&base| base > 0))?,
                root: FileKey::new(reader.bytes()?).ok()?,
            }),
            RECORD => Self::Record {
                key: reader.bytes()?.to_vec(),
                old: reader.bytes()?.to_vec(),
                new: reader.bytes()?.to_vec(),
                made: match reader.bytes()? {
                    [] => None,
                    key => Some(FileKey::new(key).ok()?),
                },
            },
            SAFE => Self::Safe { key: reader.bytes()?.to_vec(), offset: reader.int()? },
            END => Self::End,
            _ => return None,
        };
        reader.end(entry)
    }
}

/// A log that is being written.
pub(super) struct Log {
    file: File,
    unwritten: Vec<u8>,
    len: u64,
    /// A source that sends more than this is not honest.
    len_max: u64,
}

impl Log {
    pub(super) fn create(path: &Path, start: &Start) -> Result<Self> {
        let file = stable::files::create_or_truncate(path, MODE).map_err(Error::Scratch)?;
        let mut log = Self { file, unwritten: Vec::new(), len: 0, len_max: u64::MAX };
        log.push(&Entry::Start(start.clone()))?;
        log.sync()?;
        path.parent().map_or(Ok(()), stable::files::sync_dir).map_err(Error::Scratch)?;
        Ok(log)
    }

    #[must_use]
    pub(super) fn at_most(self, len_max: u64) -> Self {
        Self { len_max, ..self }
    }

    pub(super) fn push(&mut self, entry: &Entry) -> Result<()> {
        let payload = entry.encode();
        self.len += payload.len() as u64;
        if self.len > self.len_max {
            return Err(Error::Peer("its records are more than the destination can have"));
        }
        let len = u32::try_from(payload.len()).map_err(|_| Error::Peer("a record is too long"))?;
        self.unwritten.extend_from_slice(&len.to_be_bytes());
        self.unwritten.extend_from_slice(&checksum(&payload));
        self.unwritten.extend_from_slice(&payload);
        if self.unwritten.len() >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.file.write_all(&self.unwritten).map_err(Error::Scratch)?;
        self.unwritten.clear();
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        self.write()?;
        self.file.sync_data().map_err(Error::Scratch)
    }
}

/// The contents of a log that exists.
pub(super) struct Found {
    pub(super) start: Start,
    /// The last safe place.
    pub(super) safe: Option<(Vec<u8>, u64)>,
    pub(super) is_complete: bool,
    /// The length of the log up to that place.
    len: u64,
}

impl Found {
    /// Reads a log; `None` if there is none, or it has no beginning.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let Some(mut entries) = Entries::open(path)? else { return Ok(None) };
        let Some(Entry::Start(start)) = entries.next()? else { return Ok(None) };
        let mut found = Self { start, safe: None, is_complete: false, len: entries.at };
        while let Some(entry) = entries.next()? {
            match entry {
                Entry::Safe { key, offset } => (found.safe, found.len) = (Some((key, offset)), entries.at),
                Entry::End => (found.is_complete, found.len) = (true, entries.at),
                Entry::Start(_) | Entry::Record { .. } => {}
            }
        }
        Ok(Some(found))
    }

    pub(super) fn resume(&self) -> Resume {
        let (key, offset) = self.safe.clone().unwrap_or_default();
        Resume { number: self.start.point.number, base: self.start.base, key, offset }
    }

    /// Goes on with the log after its last safe place.
    pub(super) fn reopen(&self, path: &Path) -> Result<Log> {
        let open = || -> io::Result<File> {
            let mut file = stable::files::open_for_update(path)?;
            file.set_len(self.len)?;
            io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(Error::Scratch)?;
        Ok(Log { file, unwritten: Vec::new(), len: self.len, len_max: u64::MAX })
    }
}

/// The entries of a log, up to the first that is not whole.
pub(super) struct Entries {
    file: BufReader<File>,
    at: u64,
}

impl Entries {
    pub(super) fn open(path: &Path) -> Result<Option<Self>> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self { file: BufReader::new(file), at: 0 })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::Scratch(error)),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        match self.read() {
            Ok(found) => Ok(found),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(Error::Scratch(error)),
        }
    }

    fn read(&mut self) -> io::Result<Option<Entry>> {
        let (mut len, mut sum) = ([0; 4], [0; 4]);
        self.file.read_exact(&mut len)?;
        self.file.read_exact(&mut sum)?;
        let len = usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX);
        if len > ENTRY_BYTES_MAX {
            return Ok(None);
        }
        let mut payload = vec![0; len];
        self.file.read_exact(&mut payload)?;
        if checksum(&payload) != sum {
            return Ok(None);
        }
        self.at += (HEAD_BYTES + len) as u64;
        Ok(Entry::decode(&payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::Time;

    #[test]
    fn log_cut_at_any_byte_goes_on_after_its_last_safe_place() {
        let dir = tempfile::tempdir().unwrap();
        let (path, cut) = (dir.path().join("log"), dir.path().join("cut"));
        let root = FileKey::new(b"root").unwrap();
        let point = Point { number: 7, taken: Time { seconds: 3, nanos: 4 } };
        let start = Start { point, base: Some(6), root };
        let record = |number: u8| {
            let made = (number == 2).then_some(root);
            Entry::Record { key: vec![number], old: vec![], new: vec![number; 9], made }
        };
        let safe = |number: u8| Entry::Safe { key: vec![number], offset: number.into() };
        let entries = [record(1), safe(1), record(2), record(3), safe(3), Entry::End];
        let mut log = Log::create(&path, &start).unwrap();
        entries.iter().for_each(|entry| log.push(entry).unwrap());
        log.sync().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut seen = Vec::new();
        for len in 0..=whole.len() {
            std::fs::write(&cut, &whole[..len]).unwrap();
            let Some(found) = Found::read(&cut).unwrap() else { continue };
            assert_eq!(found.start, start);
            seen.push((found.safe.clone().map(|(_, offset)| offset), found.is_complete));
            found.reopen(&cut).unwrap().push(&Entry::End).unwrap();
            let again = Found::read(&cut).unwrap().unwrap();
            assert_eq!(again.safe, found.safe);
        }
        seen.dedup();
        assert_eq!(seen, [(None, false), (Some(1), false), (Some(3), false), (Some(3), true)]);
    }
}
