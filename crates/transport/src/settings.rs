//! The settings of a server.

use crate::limits::{
    CACHED_FILES_MAX, CACHED_FILES_MIN, CLIENT_CONNECTIONS_MAX, CONNECTIONS_MAX, CONNECTIONS_MIN, IDLE_S,
    OTHER_DESCRIPTORS_MAX, PIPES_MAX, STALLED_S, STORAGE_THREADS_MAX, UNPROVEN_S,
};
use crate::reply_deadline::ReplyDeadline;
use vfs::bounds::Networks;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Event loops.
    pub threads: usize,
    pub connections_max: usize,
    /// Open files in the caches of each event loop.
    pub cached_files: usize,
    /// The most connections from one address ([`CLIENT_CONNECTIONS_MAX`]).
    pub client_connections_max: usize,
    /// Seconds in which an unfinished message or unread replies must make progress ([`STALLED_S`]).
    pub stalled_s: u32,
    /// Seconds without a call after which a connection ends ([`IDLE_S`]).
    pub idle_s: u32,
    /// Seconds after which an unproven connection ends ([`UNPROVEN_S`]).
    pub unproven_s: u32,
    /// The prefixes that group client addresses into networks.
    pub networks: Networks,
    /// The time after which no reply leaves.
    pub deadline: ReplyDeadline,
    /// Whether connections stay open at the end of the server until the process ends: their address goes to another machine
    /// first, and clients connect again there.
    pub keeps_connections: bool,
}

/// The shares of a process's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Open files. There may be more while connections do not need the descriptors.
    pub files: usize,
    /// Descriptors of pipes between files and sockets, two for each pipe.
    pub pipes: usize,
    /// Listeners, event loops, records, and evicted connections.
    pub others: usize,
    /// Connections of all protocols.
    pub connections: usize,
}

impl Descriptors {
    /// Splits a number of descriptors: a third for files, at most an eighth for pipes and a sixteenth for others, the
    /// rest for connections.
    pub fn split(descriptors: usize) -> Self {
        let files = descriptors / 3;
        let pipes = (descriptors / 16).min(PIPES_MAX) * 2;
        let others = (descriptors / 16).min(OTHER_DESCRIPTORS_MAX);
        let remaining = descriptors - files - pipes - others;
        Self { files, pipes, others, connections: remaining.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX) }
    }
}

impl Settings {
    /// Open files in a storage thread's cache for a leased connection: all storage threads together have as many as the
    /// event loops. A power of two.
    pub(crate) fn lease_files(&self) -> usize {
        let each = self.cached_files * self.threads / STORAGE_THREADS_MAX;
        1 << each.max(1).ilog2()
    }

    /// The settings for a process with this limit of descriptors.
    pub fn for_descriptors(threads: usize, descriptors: usize) -> Self {
        let Descriptors { files, connections, .. } = Descriptors::split(descriptors);
        // A power of two (the size of a table), and at most half of the files: the other half is opened on demand.
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
            deadline: ReplyDeadline::default(),
            keeps_connections: false,
        }
    }

    /// Reduces the connections to `parts` of `of` shares; other servers have the rest.
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
    fn descriptors_are_split_into_shares_with_most_for_connections() {
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
    fn servers_get_their_share_of_the_connections() {
        let all = Settings::for_descriptors(1, 4096);
        let [large, small] = [3, 1].map(|parts| all.with_connection_share(parts, 4).connections_max);
        assert_eq!((large, small), (1472, 490));
        assert_eq!(Settings { connections_max: 64, ..all }.with_connection_share(1, 4).connections_max, 32);
    }
}
