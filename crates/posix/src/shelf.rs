//! The bound on what all kept listings of the stores that share it take: the pages read first go first.

use crate::dir::{Listing, Page};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// All kept pages, oldest first.
pub(crate) struct Shelf {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    bytes: usize,
    /// Pages may be gone already because their directory changed: that is noticed when their turn comes.
    pages: VecDeque<(Weak<Listing>, Weak<Page>, usize)>,
}

impl Shelf {
    /// A shelf for so many bytes of pages.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    /// Adds a page that `listing` keeps and takes the oldest ones away until there is room. Must not be called with a
    /// listing's lock held.
    pub(crate) fn add(&self, listing: &Arc<Listing>, page: &Arc<Page>) {
        let bytes = page.bytes();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += bytes;
        kept.pages.push_back((Arc::downgrade(listing), Arc::downgrade(page), bytes));
        let mut surplus = Vec::new();
        while kept.bytes > self.bytes_max {
            let Some((listing, page, bytes)) = kept.pages.pop_front() else { break };
            kept.bytes -= bytes;
            surplus.push((listing, page));
        }
        drop(kept);
        for (listing, page) in surplus {
            if let (Some(listing), Some(page)) = (listing.upgrade(), page.upgrade()) {
                listing.drop_page(&page);
            }
        }
    }
}
