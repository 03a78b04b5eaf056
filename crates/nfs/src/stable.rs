//! What is kept over a restart: [`StableDir`], the directory it is in, and [`RecordLog`], a file of records there.

use siphasher::sip::SipHasher24;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::Hasher;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of the checksum that ends a record.
const CHECK_BYTES: usize = 4;

/// The directory of the files that are kept, locked: another process keeps its own elsewhere.
#[derive(Debug)]
pub struct StableDir {
    path: PathBuf,
    _locked: File,
}

impl StableDir {
    /// Locks a directory. [`ErrorKind::WouldBlock`] if another process has it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let locked = File::open(path)?;
        locked.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })?;
        Ok(Self { path: path.to_owned(), _locked: locked })
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// A file with a header of `HEADER` bytes and records of `RECORD` bytes. The first 12 bytes of the header are a magic number and a
/// version; the last 4 bytes of a record are its checksum.
#[derive(Debug)]
pub(crate) struct RecordLog<const HEADER: usize, const RECORD: usize> {
    path: PathBuf,
    /// `None` if it could not be written at the start: what it says is of an earlier run.
    file: Option<File>,
    records: usize,
}

/// What a file says: its header, and the record in each place; `None` where one is not whole.
type Contents<const HEADER: usize, const RECORD: usize> = ([u8; HEADER], Vec<Option<[u8; RECORD]>>);

/// Reads a file that begins with the first 12 bytes of `kind`; `None` if there is none. A file that begins otherwise is an error.
pub(crate) fn read<const HEADER: usize, const RECORD: usize>(
    path: &Path,
    kind: &[u8; 12],
) -> io::Result<Option<Contents<HEADER, RECORD>>> {
    match fs::read(path) {
        Ok(bytes) => parse(&bytes, kind).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same of its bytes.
pub(crate) fn parse<const HEADER: usize, const RECORD: usize>(
    bytes: &[u8],
    kind: &[u8; 12],
) -> io::Result<Contents<HEADER, RECORD>> {
    let Some((header, records)) =
        bytes.split_first_chunk::<HEADER>().filter(|(header, _)| header.starts_with(kind))
    else {
        let why = "it is not of this kind and version";
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    };
    let is_whole = |record: &[u8; RECORD]| {
        let (content, sum) = record.split_at(RECORD - CHECK_BYTES);
        check(content) == sum
    };
    let whole = |record: &[u8; RECORD]| is_whole(record).then_some(*record);
    Ok((*header, records.as_chunks::<RECORD>().0.iter().map(whole).collect()))
}

/// Puts the checksum at the end of a record.
pub(crate) fn seal<const RECORD: usize>(mut record: [u8; RECORD]) -> [u8; RECORD] {
    let (content, sum) = record.split_at_mut(RECORD - CHECK_BYTES);
    sum.copy_from_slice(&check(content));
    record
}

/// The low half of SipHash-2-4 with a key of zeros.
pub(crate) fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    let [.., a, b, c, d] = hasher.finish().to_be_bytes();
    [a, b, c, d]
}

/// Whether something cannot be written now that can be once somebody makes room: a service comes up all the same.
pub(crate) fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
}

impl<const HEADER: usize, const RECORD: usize> RecordLog<HEADER, RECORD> {
    /// Writes the file under another name and puts it in the place of the old one: a crash leaves one of both.
    pub(crate) fn write_anew(
        path: &Path,
        header: &[u8; HEADER],
        records: impl IntoIterator<Item = [u8; RECORD]>,
    ) -> io::Result<Self> {
        let draft = path.with_extension("new");
        let mut bytes = header.to_vec();
        records.into_iter().for_each(|record| bytes.extend(record));
        let records = (bytes.len() - HEADER) / RECORD;
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&draft)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&draft, path)?;
        if let Some(dir) = path.parent() {
            File::open(dir)?.sync_all()?;
        }
        let file = OpenOptions::new().write(true).open(path)?;
        Ok(Self { path: path.to_owned(), file: Some(file), records })
    }

    /// A file that cannot be written now.
    pub(crate) fn unwritable(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, records: 0 }
    }

    /// The file as it is, with `records` records and another header, which takes no further room on the disk.
    pub(crate) fn with_header(path: &Path, header: &[u8; HEADER], records: usize) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(path)?;
        let log = Self { path: path.to_owned(), file: Some(file), records };
        log.set_header(header)?;
        Ok(log)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it can be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.file.is_some()
    }

    /// How many records it has.
    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// Adds a record, whole or not at all. It is durable after [`RecordLog::sync`].
    pub(crate) fn append(&mut self, record: &[u8; RECORD]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let end = (HEADER + self.records * RECORD) as u64;
        if let Err(error) = file.write_all_at(record, end) {
            file.set_len(end)?;
            return Err(error);
        }
        self.records += 1;
        Ok(())
    }

    /// Replaces a record in its place, or adds one behind the last. It is durable after [`RecordLog::sync`].
    pub(crate) fn replace(&mut self, place: usize, record: &[u8; RECORD]) -> io::Result<()> {
        match &self.file {
            _ if place == self.records => self.append(record),
            Some(file) => file.write_all_at(record, (HEADER + place * RECORD) as u64),
            None => Ok(()),
        }
    }

    /// Has everything on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Replaces the header in its place, durably.
    pub(crate) fn set_header(&self, header: &[u8; HEADER]) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(header, 0)?;
        file.sync_data()
    }
}

/// A directory of its own for a test, gone with this value.
#[cfg(test)]
pub(crate) struct TestDir(PathBuf);

#[cfg(test)]
impl TestDir {
    pub(crate) fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("plimsoll-stable-{}-{number}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn open(&self) -> std::sync::Arc<StableDir> {
        std::sync::Arc::new(StableDir::open(&self.0).unwrap())
    }
}

#[cfg(test)]
impl Drop for TestDir {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &[u8; 12] = b"PLMTESTS\0\0\0\x01";
    type Log = RecordLog<12, 8>;

    #[test]
    fn a_torn_record_is_none_and_other_files_are_left_alone() {
        let dir = TestDir::new();
        let path = dir.path().join("log");
        assert!(read::<12, 8>(&path, KIND).unwrap().is_none());
        let mut log = Log::write_anew(&path, KIND, [seal(*b"one.----")]).unwrap();
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
    fn one_process_has_a_directory() {
        let dir = TestDir::new();
        let first = dir.open();
        assert_eq!(StableDir::open(dir.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(first);
        assert!(StableDir::open(dir.path()).is_ok());
    }

    #[test]
    fn a_header_changes_in_its_place() {
        let dir = TestDir::new();
        let path = dir.path().join("log");
        drop(Log::write_anew(&path, KIND, [seal(*b"one.----")]).unwrap());
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
