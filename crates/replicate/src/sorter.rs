//! Sorts more records than memory has room for, with runs in temporary files.

use crate::error::{Error, Result};
use crate::format::bytes::Writer;
use crate::format::leaf::Record;
use stable::files::nameless;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Records in memory before a run is written, in bytes.
const RUN_BYTES: usize = 32 << 20;
/// The memory of a record besides its bytes.
const RECORD_OVERHEAD: usize = 64;

pub(crate) struct Sorter {
    scratch: PathBuf,
    run_bytes: usize,
    held: Vec<Record>,
    held_bytes: usize,
    runs: Vec<File>,
}

impl Sorter {
    pub(crate) fn new(scratch: &Path) -> Self {
        let (held, runs) = (Vec::new(), Vec::new());
        Self { scratch: scratch.to_owned(), run_bytes: RUN_BYTES, held, held_bytes: 0, runs }
    }

    pub(crate) fn push(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.held_bytes += key.len() + value.len() + RECORD_OVERHEAD;
        self.held.push((key, value));
        if self.held_bytes >= self.run_bytes {
            self.spill().map_err(Error::Scratch)?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.held.sort();
        let mut file = BufWriter::new(nameless(&self.scratch)?);
        for (key, value) in self.held.drain(..) {
            let mut record = Writer::default();
            record.u32(u32::try_from(key.len()).unwrap_or(u32::MAX));
            record.u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
            record.raw(&key);
            record.raw(&value);
            file.write_all(&record.0)?;
        }
        self.held_bytes = 0;
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        io::Seek::rewind(&mut file)?;
        self.runs.push(file);
        Ok(())
    }

    /// Ends the input and returns the records in order.
    pub(crate) fn finish(mut self) -> Result<Sorted> {
        self.held.sort();
        let mut sources = vec![Source::Memory(std::mem::take(&mut self.held).into_iter())];
        sources.extend(self.runs.into_iter().map(|file| Source::File(BufReader::new(file))));
        let mut sorted = Sorted { sources, heads: BinaryHeap::new(), next: None };
        for source in 0..sorted.sources.len() {
            sorted.refill(source)?;
        }
        sorted.advance()?;
        Ok(sorted)
    }
}

enum Source {
    Memory(std::vec::IntoIter<Record>),
    File(BufReader<File>),
}

/// Records in order.
pub(crate) struct Sorted {
    sources: Vec<Source>,
    heads: BinaryHeap<Reverse<(Record, usize)>>,
    next: Option<Record>,
}

impl Sorted {
    pub(crate) fn peek(&self) -> Option<&Record> {
        self.next.as_ref()
    }

    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        let record = self.next.take();
        self.advance()?;
        Ok(record)
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(Reverse((record, source))) = self.heads.pop() {
            self.next = Some(record);
            self.refill(source)?;
        }
        Ok(())
    }

    fn refill(&mut self, source: usize) -> Result<()> {
        let next = match &mut self.sources[source] {
            Source::Memory(records) => records.next(),
            Source::File(file) => read_record(file).map_err(Error::Scratch)?,
        };
        self.heads.extend(next.map(|record| Reverse((record, source))));
        Ok(())
    }
}

fn read_record(file: &mut BufReader<File>) -> io::Result<Option<Record>> {
    let mut lengths = [0; 8];
    match file.read(&mut lengths[..1])? {
        0 => return Ok(None),
        _ => file.read_exact(&mut lengths[1..])?,
    }
    let [a, b, c, d, e, f, g, h] = lengths;
    let mut part = |len: [u8; 4]| {
        let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(len)).unwrap_or(0)];
        file.read_exact(&mut bytes).map(|()| bytes)
    };
    Ok(Some((part([a, b, c, d])?, part([e, f, g, h])?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_from_memory_and_from_runs() {
        let dir = tempfile::tempdir().unwrap();
        for run_bytes in [1 << 20, 500, 1] {
            let mut sorter = Sorter { run_bytes, ..Sorter::new(dir.path()) };
            for number in 0..200_u8 {
                let key = number.wrapping_mul(77);
                sorter.push(vec![key], vec![key; usize::from(key)]).unwrap();
            }
            let mut sorted = sorter.finish().unwrap();
            let mut keys = Vec::new();
            while let Some((key, value)) = sorted.next().unwrap() {
                assert_eq!(value.len(), usize::from(key[0]));
                keys.extend(key);
            }
            assert!(keys.len() == 200 && keys.is_sorted());
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
