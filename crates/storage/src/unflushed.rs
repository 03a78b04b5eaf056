//! New children of a directory whose attributes were set after their creation: a flush of the directory does not cover
//! those.

use std::sync::Arc;

/// Number of children to track, each with its node. Beyond it, the whole file system is flushed.
const CHILDREN_MAX: usize = 16;

pub struct Unflushed<N> {
    pub children: Vec<Arc<N>>,
    /// There were too many to track.
    pub has_overflowed: bool,
}

impl<N> Default for Unflushed<N> {
    fn default() -> Self {
        Self { children: Vec::new(), has_overflowed: false }
    }
}

impl<N> Unflushed<N> {
    pub fn add(&mut self, child: &Arc<N>) {
        if self.has_overflowed {
            return;
        }
        if self.children.len() < CHILDREN_MAX {
            self.children.push(Arc::clone(child));
        } else {
            // The whole file system will be flushed, so no node needs to be kept.
            *self = Self { children: Vec::new(), has_overflowed: true };
        }
    }
}
