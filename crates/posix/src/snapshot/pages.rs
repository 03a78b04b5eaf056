//! Pages of directories of a snapshot.

use std::sync::Arc;
use vfs::FileKey;
use vfs::sync::Mutex;

const PAGES_KEPT: usize = 4;

/// Pages that were read last.
#[derive(Default)]
pub(super) struct Pages(Mutex<Vec<(FileKey, Arc<Page>)>>);

pub(super) struct Page {
    /// The page has all names with hashes in this range.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) entries: Vec<(u64, Box<[u8]>, u64)>,
}

impl Pages {
    pub(super) fn find(&self, key: &FileKey, hash: u64) -> Option<Arc<Page>> {
        let pages = self.0.lock();
        let found = pages.iter().find(|(of, page)| of == key && (page.first..=page.last).contains(&hash));
        found.map(|(_, page)| Arc::clone(page))
    }

    pub(super) fn add(&self, key: FileKey, page: &Arc<Page>) {
        let mut pages = self.0.lock();
        if pages.len() == PAGES_KEPT {
            pages.remove(0);
        }
        pages.push((key, Arc::clone(page)));
    }
}
