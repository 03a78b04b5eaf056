//! Lists a directory of a snapshot. Live entries and recorded ones come in one order that nothing changes: that of a hash
//! of their names, which is also the cookie. A page has the names with the lowest hashes after the cookie, so a large
//! directory takes little memory.

use super::node::SnapshotNode;
use super::pages::Page;
use super::view::SnapshotView;
use crate::undo::NamedObject;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::{Blocking, Entry, EntrySink, FileKey, FsError, FsResult, Name, Node};

const DOT: u64 = 1;
const DOT_DOT: u64 = 2;
/// Names with one hash differ in the lowest bits of their cookies.
const PLACES: u64 = 1 << 8;
/// Groups of names with one hash in a page.
const PAGE_GROUPS: usize = 1 << 15;
/// The hash of a name: between [`PLACES`] and 2^63, the lowest bits zero.
fn hash(name: &[u8]) -> u64 {
    // FNV-1a, then a mix, so that similar names are apart.
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 1 & !(PLACES - 1)).max(PLACES)
}

impl SnapshotNode {
    pub(super) fn list(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        self.check_dir()?;
        for (at, name) in [(DOT, &b"."[..]), (DOT_DOT, b"..")] {
            if cookie < at && !self.list_own(at, name, plus, sink)? {
                return Ok(false);
            }
        }
        let mut cookie = cookie.max(DOT_DOT);
        loop {
            let from = cookie & !(PLACES - 1);
            let page = self.page(from)?;
            let first = page.entries.partition_point(|(at, ..)| *at <= cookie);
            for (at, name, file_id) in &page.entries[first..] {
                // The directory of streams has a name that no lookup takes.
                let name_to_look_up = Name::new(name).ok().filter(|_| plus);
                let found = name_to_look_up.and_then(|name| self.lookup(name, Blocking::Allowed).ok());
                let object = found.as_ref().map(|found| (found.node.key(), found.attrs));
                let object = object.as_ref().map(|(key, attrs)| (key, attrs));
                if sink(&Entry { name, file_id: *file_id, cookie: *at, object }).is_break() {
                    return Ok(false);
                }
            }
            if page.last == u64::MAX {
                return Ok(true);
            }
            cookie = page.last | (PLACES - 1);
        }
    }

    /// Lists `.` or `..`; returns whether it fitted.
    fn list_own(&self, cookie: u64, name: &[u8], plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        let attrs = self.attrs(Blocking::Allowed)?;
        let file_id = if cookie == DOT { attrs.file_id } else { self.parent()?.attrs.file_id };
        let object = (plus && cookie == DOT).then_some((&self.key, &attrs));
        Ok(sink(&Entry { name, file_id, cookie, object }).is_continue())
    }

    /// The page with the names whose hashes are `from` or more.
    fn page(&self, from: u64) -> FsResult<Arc<Page>> {
        if let Some(page) = self.view.pages.find(&self.key, from) {
            return Ok(page);
        }
        let page = Arc::new(read_page(&self.view, &self.key, from)?);
        self.view.pages.add(self.key, &page);
        Ok(page)
    }
}

fn read_page(view: &SnapshotView, key: &FileKey, from: u64) -> FsResult<Page> {
    let mut groups: BTreeMap<u64, BTreeMap<Box<[u8]>, u64>> = BTreeMap::new();
    let mut last = u64::MAX;
    let listed = view.mount.node(key, Blocking::Allowed).and_then(|dir| {
        dir.list(0, false, None, &mut |entry| {
            let hash = hash(entry.name);
            if hash >= from && hash <= last && !matches!(entry.name, b"." | b"..") {
                groups.entry(hash).or_default().insert(entry.name.into(), entry.file_id);
                if groups.len() > PAGE_GROUPS {
                    groups.pop_last();
                    last = groups.last_key_value().map_or(u64::MAX, |(hash, _)| *hash);
                }
            }
            ControlFlow::Continue(())
        })
    });
    match listed {
        // A removed directory: all its names are recorded.
        Ok(_) | Err(FsError::Stale) => {}
        Err(error) => return Err(error),
    }
    // After the live names: each change of one was recorded before.
    for (name, record) in view.undo.names_in(key, view.label.view)? {
        let hash = hash(&name);
        if hash < from || hash > last {
            continue;
        }
        let group = groups.entry(hash).or_default();
        match record {
            Some(NamedObject { file_id, .. }) => group.insert(name, file_id),
            None => group.remove(&name),
        };
    }
    let places = |(hash, names): (u64, BTreeMap<Box<[u8]>, u64>)| {
        let numbered = names.into_iter().zip(hash..hash + PLACES);
        numbered.map(|((name, file_id), cookie)| (cookie, name, file_id))
    };
    Ok(Page { first: from, last, entries: groups.into_iter().flat_map(places).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_leave_room_for_own_cookies_and_are_offsets() {
        for name in [&b"a"[..], b"b", b"", &[255; 255]] {
            let hash = hash(name);
            assert!((PLACES..1 << 63).contains(&hash) && hash.is_multiple_of(PLACES), "{hash:x}");
        }
        assert_ne!(hash(b"a"), hash(b"b"));
    }
}
