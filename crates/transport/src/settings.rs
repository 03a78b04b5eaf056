//! How a server runs.

use crate::limits::{
    CACHED_FILES_MAX, CACHED_FILES_MIN, CLIENT_CONNECTIONS_MAX, CONNECTIONS_MAX, CONNECTIONS_MIN,
    DESCRIPTORS_RESERVED, IDLE_S, STALLED_S,
};

/// How a server runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Event loops.
    pub threads: usize,
    /// The most connections over all listeners.
    pub connections_max: usize,
    /// Files that the memory of each event loop may hold open.
    pub cached_files: usize,
    /// The most connections from one address ([`CLIENT_CONNECTIONS_MAX`]).
    pub client_connections_max: usize,
    /// Seconds in which something must move of what a client has begun ([`STALLED_S`]).
    pub stalled_s: u32,
    /// Seconds without a call after which a connection is ended ([`IDLE_S`]).
    pub idle_s: u32,
}

impl Settings {
    /// For a process that may have so many descriptors open and keeps a third of them for files.
    pub fn for_descriptors(threads: usize, descriptors: usize) -> Self {
        let files = descriptors / 3;
        let left = (descriptors - files).saturating_sub(DESCRIPTORS_RESERVED);
        // A power of two (the size of a table), and at most half of the files: the others come and go.
        let cached = (files / 2 / threads.max(1)).max(1).ilog2();
        let cached_files = 1 << cached.min(usize::BITS - 2);
        Self {
            threads,
            cached_files: cached_files.clamp(CACHED_FILES_MIN, CACHED_FILES_MAX),
            connections_max: left.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX),
            client_connections_max: CLIENT_CONNECTIONS_MAX,
            stalled_s: STALLED_S,
            idle_s: IDLE_S,
        }
    }
}
