//! [`RecordLog`]: a file of records of one size.

use crate::check::{CHECK_BYTES, checksum};
use crate::files;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file with a header of `HEADER` bytes and records of `RECORD` bytes. The first 12 bytes of the header are a magic
/// number and a version; the last 4 bytes of a record are its checksum.
#[derive(Debug)]
pub struct RecordLog<const HEADER: usize, const RECORD: usize> {
    path: PathBuf,
    /// `None` if the file could not be written at the start: its content is from an earlier run.
    file: Option<File>,
    records: usize,
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
        path: &Path,
        header: &[u8; HEADER],
        records: impl IntoIterator<Item = [u8; RECORD]>,
    ) -> io::Result<Self> {
        let draft = path.with_extension("new");
        let mut bytes = header.to_vec();
        records.into_iter().for_each(|record| bytes.extend(record));
        let records = (bytes.len() - HEADER) / RECORD;
        files::replace(path, &draft, files::PRIVATE, &[&bytes])?;
        let file = files::open_for_update(path)?;
        Ok(Self { path: path.to_owned(), file: Some(file), records })
    }

    /// A log whose file cannot be written now.
    pub fn unwritable(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, records: 0 }
    }

    /// Opens an existing file with `records` records and replaces its header. This needs no space on the disk.
    pub fn with_header(path: &Path, header: &[u8; HEADER], records: usize) -> io::Result<Self> {
        let file = files::open_for_update(path)?;
        let log = Self { path: path.to_owned(), file: Some(file), records };
        log.set_header(header)?;
        Ok(log)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_writable(&self) -> bool {
        self.file.is_some()
    }

    pub fn records(&self) -> usize {
        self.records
    }

    /// Appends a record, completely or not at all. It is durable after [`RecordLog::sync`].
    pub fn append(&mut self, record: &[u8; RECORD]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let end = (HEADER + self.records * RECORD) as u64;
        if let Err(error) = file.write_all_at(record, end) {
            file.set_len(end)?;
            return Err(error);
        }
        self.records += 1;
        Ok(())
    }

    /// Replaces the record at `place`, or appends one after the last. It is durable after [`RecordLog::sync`].
    pub fn replace(&mut self, place: usize, record: &[u8; RECORD]) -> io::Result<()> {
        match &self.file {
            _ if place == self.records => self.append(record),
            Some(file) => file.write_all_at(record, (HEADER + place * RECORD) as u64),
            None => Ok(()),
        }
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Replaces the header in place, durably.
    pub fn set_header(&self, header: &[u8; HEADER]) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(header, 0)?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TestDir, seal};
    use std::fs;

    const KIND: &[u8; 12] = b"PLMTESTS\0\0\0\x01";
    type Log = RecordLog<12, 8>;

    #[test]
    fn a_torn_record_is_none_and_other_kinds_are_refused() {
        let dir = TestDir::new();
        let path = dir.path().join("log");
        assert!(read::<12, 8>(&path, KIND).unwrap().is_none());
        let mut log = Log::create(&path, KIND, [seal(*b"one.----")]).unwrap();
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
        let path = dir.path().join("log");
        drop(Log::create(&path, KIND, [seal(*b"one.----")]).unwrap());
        let mut log = Log::with_header(&path, KIND, 1).unwrap();
        log.append(&seal(*b"two.----")).unwrap();
        log.replace(0, &seal(*b"new.----")).unwrap();
        log.replace(2, &seal(*b"end.----")).unwrap();
        let (header, records) = read::<12, 8>(&path, KIND).unwrap().unwrap();
        let records: Vec<_> = records.iter().flatten().map(|record| &record[..4]).collect();
        assert_eq!((&header, records), (KIND, vec![&b"new."[..], b"two.", b"end."]));
        assert!(!Log::unwritable(&path).is_writable());
    }
}
