//! The bound on all cached listings of the stores that share it: the oldest page goes first.

use super::{Listing, Page};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;

/// All cached pages, oldest first.
pub(crate) struct ListingCache {
    bytes_max: usize,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    bytes: usize,
    /// Pages may be gone already because their directory changed: that is noticed when their turn comes.
    pages: VecDeque<(Weak<Listing>, Weak<Page>, usize)>,
}

impl ListingCache {
    /// A cache of at most `bytes_max` bytes of pages.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, pages: Mutex::default() }
    }

    /// Adds a page that `listing` keeps and takes the oldest ones away until there is room. Must not be called with a
    /// listing's lock held.
    pub(crate) fn add(&self, listing: &Arc<Listing>, page: &Arc<Page>) {
        let bytes = page.bytes();
        let mut cached = self.pages.lock();
        cached.bytes += bytes;
        cached.pages.push_back((Arc::downgrade(listing), Arc::downgrade(page), bytes));
        let mut surplus = Vec::new();
        while cached.bytes > self.bytes_max {
            let Some((listing, page, bytes)) = cached.pages.pop_front() else { break };
            cached.bytes -= bytes;
            surplus.push((listing, page));
        }
        drop(cached);
        for (listing, page) in surplus {
            if let (Some(listing), Some(page)) = (listing.upgrade(), page.upgrade()) {
                listing.drop_page(&page);
            }
        }
    }
}
