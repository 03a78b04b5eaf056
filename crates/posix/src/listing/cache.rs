//! Memory limit of the cached listings of all stores that share it. The oldest page is dropped first.

use super::{Listing, Page};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;

pub(crate) struct ListingCache {
    bytes_max: usize,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    bytes: usize,
    /// A page may have been dropped already because its directory changed; its turn in the queue reveals that.
    pages: VecDeque<(Weak<Listing>, Weak<Page>, usize)>,
}

impl ListingCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, pages: Mutex::default() }
    }

    /// Adds a page of `listing` and drops the oldest pages above the limit. Must not be called with a listing's lock
    /// held.
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
