//! How a server runs.

use crate::limits::{
    CACHED_FILES_MAX, CACHED_FILES_MIN, CLIENT_CONNECTIONS_MAX, CONNECTIONS_MAX, CONNECTIONS_MIN, IDLE_S,
    OTHER_DESCRIPTORS_MAX, PIPES_MAX, STALLED_S, STORAGE_THREADS_MAX, UNPROVEN_S,
};
use vfs::bounds::Networks;

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
    /// Seconds after which a connection is ended that has proven nothing ([`UNPROVEN_S`]).
    pub unproven_s: u32,
    /// The networks that clients are in.
    pub networks: Networks,
}

/// The shares of the descriptors that a process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Files, always; they may have more while connections do not need it.
    pub files: usize,
    /// Pipes between files and sockets, two for each.
    pub pipes: usize,
    /// Listeners, event loops, records, and evicted connections.
    pub others: usize,
    /// Connections of all protocols.
    pub connections: usize,
}

impl Descriptors {
    /// A third for files, at most an eighth for pipes and a sixteenth for others, and all that is left for connections.
    pub fn split(descriptors: usize) -> Self {
        let files = descriptors / 3;
        let pipes = (descriptors / 16).min(PIPES_MAX) * 2;
        let others = (descriptors / 16).min(OTHER_DESCRIPTORS_MAX);
        let left = descriptors - files - pipes - others;
        Self { files, pipes, others, connections: left.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX) }
    }
}

impl Settings {
    /// Files that a storage thread may hold open between the calls of a leased connection: all of them as many as the event loops. A
    /// power of two.
    pub(crate) fn lease_files(&self) -> usize {
        let each = self.cached_files * self.threads / STORAGE_THREADS_MAX;
        1 << each.max(1).ilog2()
    }

    /// For a process that may have so many descriptors open.
    pub fn for_descriptors(threads: usize, descriptors: usize) -> Self {
        let Descriptors { files, connections, .. } = Descriptors::split(descriptors);
        // A power of two (the size of a table), and at most half of the files: the others come and go.
        let cached = (files / 2 / threads.max(1)).max(1).ilog2();
        let cached_files = 1 << cached.min(usize::BITS - 2);
        Self {
            threads,
            cached_files: cached_files.clamp(CACHED_FILES_MIN, CACHED_FILES_MAX),
            connections_max: connections,
            client_connections_max: CLIENT_CONNECTIONS_MAX,
            stalled_s: STALLED_S,
            idle_s: IDLE_S,
            unproven_s: UNPROVEN_S,
            networks: Networks::default(),
        }
    }

    /// The same with so many parts of the connections, of all the parts there are: the others are other servers'.
    #[must_use]
    pub fn with_connection_share(self, parts: usize, of: usize) -> Self {
        let share = self.connections_max * parts / of.max(1);
        Self { connections_max: share.max(CONNECTIONS_MIN / 2), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_shared_out_and_few_of_them_leave_most_to_connections() {
        let of = |files, pipes, others, connections| Descriptors { files, pipes, others, connections };
        assert_eq!(Descriptors::split(1024), of(341, 128, 64, 491));
        assert_eq!(Descriptors::split(4096), of(1365, 512, 256, 1963));
        assert_eq!(Descriptors::split(20_000), of(6666, 2048, 256, 11_030));
        assert_eq!(Descriptors::split(1 << 20).connections, CONNECTIONS_MAX);
        for descriptors in 256..10_000 {
            let Descriptors { files, pipes, others, connections } = Descriptors::split(descriptors);
            assert!(files + pipes + others + connections <= descriptors, "{descriptors}");
        }
    }

    #[test]
    fn servers_share_the_connections() {
        let all = Settings::for_descriptors(1, 4096);
        let [large, small] = [3, 1].map(|parts| all.with_connection_share(parts, 4).connections_max);
        assert_eq!((large, small), (1472, 490));
        assert_eq!(Settings { connections_max: 64, ..all }.with_connection_share(1, 4).connections_max, 32);
    }
}
