//! Lists directories.
//!
//! The engine orders entries by a hash of 24 bits of their names; among equal hashes it counts them, so its own
//! positions move when an entry goes, and that after the last entry is none. A cookie here is that hash and another one of
//! the name: it stays while the entry exists. A listing goes on at the first entry of the hash, and skips those that were
//! listed.

use super::Node;
use crate::error::refused;
use crate::ffi::{Dir, Entry, Statx, Wanted};
use crate::stat::{VersionedStat, key_of};
use std::hash::Hasher;
use vfs::{Attrs, EntrySink, FileKey, FsError, FsResult, KeyHasher, NameFilter};

/// Cookies of `.` and `..`.
pub(crate) const DOT: u64 = 1;
pub(crate) const DOT_DOT: u64 = 2;
/// Set in the cookies of all other entries, so that they come later.
const NAMED: u64 = 1 << 56;
/// Bits of a cookie below the engine's hash.
const NAME_BITS: u32 = 32;
/// Position of the engine: bits of the count below the hash, and the mark of a hash.
const COUNT_BITS: u32 = 28;
const HASH_BITS: u32 = 24;
const HASH_MARK: i64 = 0xff << (COUNT_BITS + HASH_BITS);
/// The count of the first entry with a hash.
const FIRST: i64 = 2;
/// The position of the engine at the end.
const END: i64 = 1 << (COUNT_BITS + 32);

pub(crate) struct Listed {
    pub(crate) cookie: u64,
    pub(crate) entry: Entry,
}

impl Listed {
    /// The engine's hash of the name.
    pub(crate) fn hash(&self) -> u32 {
        hash_in(self.cookie)
    }
}

fn hash_in(cookie: u64) -> u32 {
    u32::try_from((cookie ^ NAMED) >> NAME_BITS & ((1 << HASH_BITS) - 1)).unwrap_or(0)
}

impl Node {
    pub(super) fn list(
        &self,
        mut cookie: u64,
        plus: bool,
        filter: Option<NameFilter<'_>>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<bool> {
        self.as_dir()?;
        let now = self.stat()?;
        for (dot, name) in [(DOT, &b"."[..]), (DOT_DOT, b"..")] {
            if cookie >= dot {
                continue;
            }
            cookie = dot;
            if filter.is_some_and(|filter| !filter(name)) {
                continue;
            }
            let own = now.attrs()?;
            let is_parent = dot == DOT_DOT && !self.tree.is_root(&self.key);
            let file_id = if is_parent { vfs::Node::parent(self)?.attrs.file_id } else { own.file_id };
            let object = (plus && dot == DOT).then_some((&self.key, &own));
            if sink(&vfs::Entry { name, file_id, cookie, object }).is_break() {
                return Ok(false);
            }
        }
        let mut groups = Groups::begin(self.inode()?.open_dir().map_err(refused)?, cookie, plus);
        while let Some(group) = groups.next()? {
            for Listed { cookie: at, entry } in group {
                if at <= cookie || filter.is_some_and(|filter| !filter(&entry.name)) {
                    continue;
                }
                let object = if plus { self.object(&entry.stat) } else { None };
                let object = object.as_ref().map(|(key, attrs)| (key, attrs));
                let listed = vfs::Entry { name: &entry.name, file_id: entry.number, cookie: at, object };
                if sink(&listed).is_break() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Key and attributes of an entry; `None` if it was removed meanwhile.
    fn object(&self, stat: &Statx) -> Option<(FileKey, Attrs)> {
        let key = key_of(stat).ok()?;
        // A node in use may have changed since the state was read.
        let attrs = match self.tree.table.find(&key) {
            Some(node) => node.attrs_now().ok()?,
            None => VersionedStat { stat: *stat, offset: storage::offset_of(&key) }.attrs().ok()?,
        };
        Some((key, attrs))
    }
}

/// The entries of a directory, in groups of equal hashes.
pub(crate) struct Groups {
    dir: Dir,
    wanted: Wanted,
    /// The first entry of the next group.
    ahead: Option<Listed>,
    is_done: bool,
}

impl Groups {
    /// Begins at the group of a cookie.
    pub(crate) fn begin(dir: Dir, cookie: u64, plus: bool) -> Self {
        let wanted = if plus { Wanted::Attrs } else { Wanted::Nothing };
        let mut groups = Self { dir, wanted, ahead: None, is_done: false };
        if cookie >= NAMED {
            groups.seek(hash_in(cookie));
        }
        groups
    }

    /// Begins at the hash of a name, with names and numbers alone.
    pub(crate) fn at_hash(dir: Dir, hash: u32) -> Self {
        let mut groups = Self { dir, wanted: Wanted::Nothing, ahead: None, is_done: false };
        groups.seek(hash & ((1 << HASH_BITS) - 1));
        groups
    }

    fn seek(&mut self, hash: u32) {
        self.dir.seek(HASH_MARK | i64::from(hash) << COUNT_BITS | FIRST);
    }

    pub(crate) fn next(&mut self) -> FsResult<Option<Vec<Listed>>> {
        let mut group: Vec<Listed> = self.ahead.take().into_iter().collect();
        while !self.is_done {
            let Some(entry) = self.dir.next(self.wanted).map_err(refused)? else {
                self.is_done = true;
                break;
            };
            if matches!(&entry.name[..], b"." | b"..") {
                continue;
            }
            let listed = Listed { cookie: cookie_of(&entry)?, entry };
            let is_other =
                group.last().is_some_and(|last| last.cookie >> NAME_BITS != listed.cookie >> NAME_BITS);
            if is_other {
                self.ahead = Some(listed);
                break;
            }
            group.push(listed);
        }
        group.sort_unstable_by_key(|listed| listed.cookie);
        Ok((!group.is_empty()).then_some(group))
    }
}

fn cookie_of(entry: &Entry) -> FsResult<u64> {
    let hash = u64::from(name_hash(&entry.name)) & ((1 << HASH_BITS) - 1);
    let is_marked = entry.position & HASH_MARK == HASH_MARK && entry.position != END;
    let engine = (entry.position >> COUNT_BITS).cast_unsigned() & ((1 << HASH_BITS) - 1);
    if is_marked && engine != hash {
        tracing::error!(
            "a directory of CephFS is ordered by another hash than rjenkins: it cannot be listed"
        );
        return Err(FsError::NotSupported);
    }
    let mut hasher = KeyHasher::default();
    hasher.write(&entry.name);
    let name = hasher.finish() >> (u64::BITS - NAME_BITS);
    Ok(NAMED | hash << NAME_BITS | name)
}

/// The hash by which CephFS orders names: that of Robert Jenkins from 1996, over words in little-endian order.
pub(crate) fn name_hash(name: &[u8]) -> u32 {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    let (blocks, rest) = name.as_chunks::<12>();
    let mut state = [0x9e37_79b9, 0x9e37_79b9, 0u32];
    for block in blocks {
        for (sum, bytes) in state.iter_mut().zip(block.chunks(4)) {
            *sum = sum.wrapping_add(word(bytes));
        }
        mix(&mut state);
    }
    let (first, others) = rest.split_at(rest.len().min(4));
    let (second, third) = others.split_at(others.len().min(4));
    let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
    // The lowest byte of the last word is the length.
    let last = [word(first), word(second), len.wrapping_add(word(third) << 8)];
    for (sum, word) in state.iter_mut().zip(last) {
        *sum = sum.wrapping_add(word);
    }
    mix(&mut state);
    state[2]
}

/// Mixes three words reversibly.
fn mix([a, b, c]: &mut [u32; 3]) {
    for (down, up, last) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        *a = a.wrapping_sub(*b).wrapping_sub(*c) ^ *c >> down;
        *b = b.wrapping_sub(*c).wrapping_sub(*a) ^ *a << up;
        *c = c.wrapping_sub(*a).wrapping_sub(*b) ^ *b >> last;
    }
}
