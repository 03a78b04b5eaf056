//! Reads of the pairs of an object.

use super::{Rados, object_name};
use crate::ffi::rados::PairReader;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;

/// Attempts to read pages between two changes of other clients.
const ATTEMPTS_MAX: u32 = 50;

type RawPairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The reason why an attempt to read all pages failed.
enum Failure {
    /// The object was changed between two pages.
    Changed,
    Refused(Errno),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::RANGE | Errno::OVERFLOW => Self::Changed,
            errno => Self::Refused(errno),
        }
    }
}

impl Rados {
    /// All pairs of an object in one of its states; `None` if the object does not exist.
    ///
    /// More than about 1,000 pairs take several round trips, and begin again after a change by another client:
    /// `ResourceBusy` if it changes all the time.
    pub fn load(&self, object: &str) -> io::Result<Option<BTreeMap<String, Vec<u8>>>> {
        self.load_prefix(object, "")
    }

    /// The pairs whose keys begin with a prefix; otherwise as [`Rados::load`].
    pub fn load_prefix(&self, object: &str, prefix: &str) -> io::Result<Option<BTreeMap<String, Vec<u8>>>> {
        if !prefix.is_empty() {
            super::change::check_key(prefix)?;
        }
        let (name, start) = (object_name(object)?, CString::new(prefix)?);
        for _attempt in 0..ATTEMPTS_MAX {
            let read = match self.read_pages(&name, &start) {
                Err(Failure::Changed) => continue,
                Err(Failure::Refused(errno)) => Err(errno),
                Ok(pairs) => Ok(pairs),
            };
            let Some(pairs) = self.unless_missing("read", object, read)? else { return Ok(None) };
            let pairs = pairs.into_iter().map(|(key, value)| Ok((text(object, key)?, value)));
            return pairs.collect::<io::Result<_>>().map(Some);
        }
        let what = format!("the object {object} of the pool {} changes all the time", self.options.pool);
        Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
    }

    fn read_pages(&self, name: &CStr, prefix: &CStr) -> Result<RawPairs, Failure> {
        let mut reader = PairReader::new(&self.pool)?;
        let (mut pairs, mut version) = (RawPairs::new(), None);
        let mut after = CString::default();
        loop {
            let page = reader.page(name, &after, prefix, version)?;
            version = Some(reader.version());
            if let Some((last, _)) = page.pairs.last() {
                after = CString::new(last.clone()).map_err(|_| Errno::ILSEQ)?;
            }
            let is_last = !page.has_more || page.pairs.is_empty();
            pairs.extend(page.pairs);
            if is_last {
                return Ok(pairs);
            }
        }
    }
}

fn text(object: &str, key: Vec<u8>) -> io::Result<String> {
    let foreign =
        |_| io::Error::new(io::ErrorKind::InvalidData, format!("{object} has a key that is not UTF-8"));
    String::from_utf8(key).map_err(foreign)
}
