//! [`RecordLog`]: a file of records of one size.

use crate::check::{CHECK_BYTES, checksum};
use crate::replica::{header_key, record_key, send};
use crate::{ReplicaBatch, ReplicaChange, StableDir, files};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A file with a header of `HEADER` bytes and records of `RECORD` bytes. The first 12 bytes of the header are a magic
/// number and a version; the last 4 bytes of a record are its checksum.
#[derive(Debug)]
pub struct RecordLog<const HEADER: usize, const RECORD: usize> {
    dir: Arc<StableDir>,
    name: &'static str,
    /// `None` if the file could not be written at the start: its content is from an earlier run.
    file: Option<File>,
    records: usize,
    /// Records in the file that the replica does not have yet, by place. Empty without a replica.
    unsent: BTreeMap<usize, [u8; RECORD]>,
    /// The content of the file as the replica has it. `None` without a replica, and before the first write: then the file
    /// has it.
    sent: Option<Vec<u8>>,
}

/// The content of a file: its header and its records; `None` for an incomplete record.
pub type Contents<const HEADER: usize, const RECORD: usize> = ([u8; HEADER], Vec<Option<[u8; RECORD]>>);

/// Reads a file whose first 12 bytes are `kind`; `None` if there is no file. [`ErrorKind::InvalidData`] if it begins
/// otherwise.
pub fn read<const HEADER: usize, const RECORD: usize>(
    path: &Path,
    kind: &[u8; 12],
) -> io::Result<Option<Contents<HEADER, RECORD>>> {
    match files::read_trusted(path) {
        Ok(bytes) => parse(&bytes, kind).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parses the bytes of a file, like [`read`].
pub fn parse<const HEADER: usize, const RECORD: usize>(
    bytes: &[u8],
    kind: &[u8; 12],
) -> io::Result<Contents<HEADER, RECORD>> {
    let Some((header, records)) =
        bytes.split_first_chunk::<HEADER>().filter(|(header, _)| header.starts_with(kind))
    else {
        let why = "it has another kind or version";
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    };
    let is_whole = |record: &[u8; RECORD]| {
        let (content, sum) = record.split_at(RECORD - CHECK_BYTES);
        checksum(content) == sum
    };
    let whole = |record: &[u8; RECORD]| is_whole(record).then_some(*record);
    Ok((*header, records.as_chunks::<RECORD>().0.iter().map(whole).collect()))
}

impl<const HEADER: usize, const RECORD: usize> RecordLog<HEADER, RECORD> {
    /// Writes a new file and replaces the old one: a crash leaves either of them.
    pub fn create(
        dir: &Arc<StableDir>,
        name: &'static str,
        header: &[u8; HEADER],
        records: impl IntoIterator<Item = [u8; RECORD]>,
    ) -> io::Result<Self> {
        let mut log = Self::unwritable(dir, name);
        log.rewrite(header, records)?;
        Ok(log)
    }

    /// A log whose file cannot be written now.
    pub fn unwritable(dir: &Arc<StableDir>, name: &'static str) -> Self {
        Self { dir: Arc::clone(dir), name, file: None, records: 0, unsent: BTreeMap::new(), sent: None }
    }

    /// Opens an existing file with `records` records and replaces its header. This needs no space on the disk.
    pub fn with_header(
        dir: &Arc<StableDir>,
        name: &'static str,
        header: &[u8; HEADER],
        records: usize,
    ) -> io::Result<Self> {
        let mut log = Self::unwritable(dir, name);
        log.load_sent()?;
        (log.file, log.records) = (Some(files::open_for_update(&dir.file(name))?), records);
        log.set_header(header)?;
        Ok(log)
    }

    pub fn is_writable(&self) -> bool {
        self.file.is_some()
    }

    pub fn records(&self) -> usize {
        self.records
    }

    /// Replaces the whole file durably: a crash leaves the old or the new one.
    pub fn rewrite(
        &mut self,
        header: &[u8; HEADER],
        records: impl IntoIterator<Item = [u8; RECORD]>,
    ) -> io::Result<()> {
        let path = self.dir.file(self.name);
        let mut bytes = header.to_vec();
        records.into_iter().for_each(|record| bytes.extend(record));
        self.load_sent()?;
        self.dir.replace(&path, &path.with_extension("new"), &[&bytes])?;
        // The file of before has no name any more.
        (self.file, self.records) = (None, 0);
        let records = (bytes.len() - HEADER) / RECORD;
        if let Some(replica) = self.dir.replica() {
            self.differences(&bytes).apply(replica)?;
            self.unsent.clear();
            self.sent = Some(bytes);
        }
        self.file = Some(files::open_for_update(&path)?);
        self.records = records;
        Ok(())
    }

    /// Reads what the replica has, while the file is an exact copy.
    fn load_sent(&mut self) -> io::Result<()> {
        if self.dir.replica().is_none() || self.sent.is_some() {
            return Ok(());
        }
        self.sent = match files::read_trusted(&self.dir.file(self.name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Some(Vec::new()),
            read => Some(read?),
        };
        Ok(())
    }

    /// The changes from the content of the replica to `wanted`.
    fn differences<'a>(&self, wanted: &'a [u8]) -> ReplicaBatch<'a> {
        let sent = self.sent.as_deref().unwrap_or_default();
        let (old_header, old_records) = sent.split_at_checked(HEADER).unwrap_or_default();
        let (header, records) = wanted.split_at_checked(HEADER).unwrap_or_default();
        let (old_records, records) = (old_records.as_chunks::<RECORD>().0, records.as_chunks::<RECORD>().0);
        let mut batch = ReplicaBatch::default();
        if header != old_header {
            batch.set(header_key(self.name), header);
        }
        for (place, record) in records.iter().enumerate() {
            if old_records.get(place) != Some(record) {
                batch.set(record_key(self.name, place), record);
            }
        }
        (records.len()..old_records.len()).for_each(|place| batch.remove(record_key(self.name, place)));
        batch
    }

    /// Appends a record, completely or not at all. It is durable after [`RecordLog::sync`].
    pub fn append(&mut self, record: &[u8; RECORD]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let end = (HEADER + self.records * RECORD) as u64;
        if let Err(error) = file.write_all_at(record, end) {
            file.set_len(end)?;
            return Err(error);
        }
        self.note(self.records, record);
        self.records += 1;
        Ok(())
    }

    /// Replaces the record at `place`, or appends one after the last. It is durable after [`RecordLog::sync`].
    pub fn replace(&mut self, place: usize, record: &[u8; RECORD]) -> io::Result<()> {
        match &self.file {
            _ if place == self.records => return self.append(record),
            Some(file) => file.write_all_at(record, (HEADER + place * RECORD) as u64)?,
            None => return Ok(()),
        }
        self.note(place, record);
        Ok(())
    }

    fn note(&mut self, place: usize, record: &[u8; RECORD]) {
        if self.dir.replica().is_some() {
            self.unsent.insert(place, *record);
        }
    }

    /// Makes all records durable.
    pub fn sync(&mut self) -> io::Result<()> {
        let Some(replica) = self.dir.replica() else {
            return self.file.as_ref().map_or(Ok(()), File::sync_data);
        };
        let mut batch = ReplicaBatch::default();
        self.unsent.iter().for_each(|(&place, record)| batch.set(record_key(self.name, place), record));
        batch.apply(replica)?;
        let unsent = std::mem::take(&mut self.unsent);
        unsent.iter().for_each(|(place, record)| self.note_sent(HEADER + place * RECORD, record));
        Ok(())
    }

    fn note_sent(&mut self, at: usize, bytes: &[u8]) {
        let Some(sent) = &mut self.sent else { return };
        let end = at + bytes.len();
        sent.resize(sent.len().max(end), 0);
        sent[at..end].copy_from_slice(bytes);
    }

    /// Replaces the header in place, durably.
    pub fn set_header(&mut self, header: &[u8; HEADER]) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(header, 0)?;
        let Some(replica) = self.dir.replica() else { return file.sync_data() };
        send(replica, &[ReplicaChange::Set { key: &header_key(self.name), value: header }])?;
        self.note_sent(0, header);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, MemoryReplica, TestDir, restore, seal};
    use std::fs;

    const KIND: &[u8; 12] = b"PLMTESTS\0\0\0\x01";
    type Log = RecordLog<12, 8>;

    #[test]
    fn a_torn_record_is_none_and_other_kinds_are_refused() {
        let dir = TestDir::new();
        let path = dir.path().join("log");
        assert!(read::<12, 8>(&path, KIND).unwrap().is_none());
        let mut log = Log::create(&dir.open(), "log", KIND, [seal(*b"one.----")]).unwrap();
        log.append(&seal(*b"two.----")).unwrap();
        log.append(&seal(*b"end.----")).unwrap();
        let whole = fs::read(&path).unwrap();
        let records = |bytes: &[u8]| {
            let (_, records) = parse::<12, 8>(bytes, KIND).unwrap();
            records.iter().map(Option::is_some).collect::<Vec<_>>()
        };
        assert_eq!(records(&whole), [true, true, true]);
        for cut in 1..=8 {
            assert_eq!(records(&whole[..whole.len() - cut]), [true, true], "{cut}");
        }
        for byte in 20..28 {
            let mut torn = whole.clone();
            torn[byte] ^= 1;
            assert_eq!(records(&torn), [true, false, true], "{byte}");
        }
        for wrong in [&b""[..], b"PLMTESTS", b"PLMTESTS\0\0\0\x02", b"something else"] {
            fs::write(&path, wrong).unwrap();
            assert_eq!(read::<12, 8>(&path, KIND).unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_header_is_replaced_in_place() {
        let dir = TestDir::new();
        let (path, dir) = (dir.path().join("log"), dir.open());
        drop(Log::create(&dir, "log", KIND, [seal(*b"one.----")]).unwrap());
        let mut log = Log::with_header(&dir, "log", KIND, 1).unwrap();
        log.append(&seal(*b"two.----")).unwrap();
        log.replace(0, &seal(*b"new.----")).unwrap();
        log.replace(2, &seal(*b"end.----")).unwrap();
        let (header, records) = read::<12, 8>(&path, KIND).unwrap().unwrap();
        let records: Vec<_> = records.iter().flatten().map(|record| &record[..4]).collect();
        assert_eq!((&header, records), (KIND, vec![&b"new."[..], b"two.", b"end."]));
        assert!(!Log::unwritable(&dir, "log").is_writable());
    }

    /// A directory restored from a replica, as another machine would have it.
    fn moved(replica: &MemoryReplica) -> TestDir {
        let dir = TestDir::new();
        restore(dir.path(), &replica.pairs()).unwrap();
        dir
    }

    #[test]
    fn replica_has_what_was_acknowledged_and_no_surplus_records() {
        let (dir, replica) = (TestDir::new(), Arc::new(MemoryReplica::default()));
        let stable = dir.open_with(&replica);
        let records = [*b"one.----", *b"two.----", *b"end.----"].map(seal);
        let mut log = Log::create(&stable, "log", KIND, records).unwrap();
        let same = |dir: &TestDir| {
            let of = |dir: &TestDir| fs::read(dir.path().join("log")).unwrap();
            of(&moved(&replica)) == of(dir)
        };
        assert!(same(&dir));
        log.append(&seal(*b"add.----")).unwrap();
        log.replace(0, &seal(*b"new.----")).unwrap();
        assert!(!same(&dir), "nothing is sent before it is synchronized");
        let before = replica.steps();
        log.sync().unwrap();
        assert!(same(&dir) && replica.steps() == before + 1, "one step for both");
        log.append(&seal(*b"lost----")).unwrap();
        // The record that was not sent has the place and the content of one that stays.
        let rewritten = [*b"new.----", *b"1111----", *b"2222----", *b"3333----", *b"lost----"].map(seal);
        log.rewrite(KIND, rewritten).unwrap();
        assert!(same(&dir));
        log.rewrite(KIND, [seal(*b"new.----")]).unwrap();
        assert!(same(&dir) && replica.steps() == before + 3);
        assert_eq!(replica.pairs().len(), 2, "surplus records are removed");
        drop((log, stable));
        let dir = moved(&replica);
        let mut log = Log::with_header(&dir.open_with(&replica), "log", b"PLMTESTS\0\0\0\x02", 1).unwrap();
        assert!(same(&dir));
        log.append(&seal(*b"two.----")).unwrap();
        log.rewrite(KIND, [seal(*b"two.----")]).unwrap();
        assert!(same(&dir));
    }

    #[test]
    fn failed_replica_fails_every_change() {
        let (dir, replica) = (TestDir::new(), Arc::new(MemoryReplica::default()));
        let stable = dir.open_with(&replica);
        let mut log = Log::create(&stable, "log", KIND, [seal(*b"one.----")]).unwrap();
        let sent = replica.pairs();
        replica.fail_at(1, Failure::Lost);
        log.append(&seal(*b"two.----")).unwrap();
        assert!(log.sync().is_err());
        assert!(log.set_header(KIND).is_err());
        assert!(log.rewrite(KIND, [seal(*b"two.----")]).is_err() && !log.is_writable());
        assert!(Log::create(&stable, "other", KIND, []).is_err());
        assert_eq!(replica.pairs(), sent);
    }
}
