//! The counters of the kernel's NFS client for a mount.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::error::Error;
use crate::mountstats::{Mount, Moved};

const STATISTICS: &str = "/proc/self/mountstats";
const EVERY: Duration = Duration::from_millis(50);

/// The counters of a mount while a load runs. The start of fio's window is known only at the end, since fio
/// takes time to start.
#[derive(Debug)]
pub(super) struct History {
    at: String,
    /// Nanoseconds since 1970, with the counters at that time; ascending.
    samples: Vec<(u64, Counters)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    calls: BTreeMap<String, u64>,
    read: u64,
    server_read: u64,
}

impl History {
    pub(super) fn new(at: &str) -> Self {
        Self { at: at.to_owned(), samples: Vec::new() }
    }

    pub(super) fn sample_if_due(&mut self, now: u64) -> Result<(), Error> {
        let last = self.samples.last().map(|(at, _)| Duration::from_nanos(now.saturating_sub(*at)));
        if last.is_none_or(|since| since >= EVERY) {
            self.samples.push((now, Counters::sample(&self.at)?));
        }
        Ok(())
    }

    /// The samples nearest to the start and the end of a window.
    pub(super) fn window(&self, start: u64, end: u64) -> Option<(&Counters, &Counters)> {
        let nearest = |wanted: u64| {
            let nearest = self.samples.iter().min_by_key(|(at, _)| at.abs_diff(wanted));
            nearest.map(|(_, counters)| counters)
        };
        nearest(start).zip(nearest(end))
    }
}

impl Counters {
    fn sample(at: &str) -> Result<Self, Error> {
        let text = fs::read_to_string(STATISTICS).map_err(Error::io(format!("read {STATISTICS}")))?;
        Self::find(&text, at)
            .ok_or_else(|| Error::Plan(format!("{STATISTICS} has no counters of the NFS mount at {at}")))
    }

    fn find(text: &str, at: &str) -> Option<Self> {
        let mount = Mount::find(text, at)?;
        let made = mount.calls.into_iter().filter(|(_, calls)| calls.count > 0);
        let Moved { read, from_server, .. } = mount.bytes.unwrap_or_default();
        Some(Self {
            calls: made.map(|(name, calls)| (name, calls.count)).collect(),
            read,
            server_read: from_server,
        })
    }

    pub(super) fn calls_since(&self, before: &Self) -> BTreeMap<String, u64> {
        let since = |(name, calls): (&String, &u64)| {
            let more = calls.saturating_sub(before.calls.get(name).copied().unwrap_or(0));
            (more > 0).then(|| (name.clone(), more))
        };
        self.calls.iter().filter_map(since).collect()
    }

    /// The share of bytes read since `before` that did not come from the server. `None` if nothing was read.
    pub(super) fn client_hits_since(&self, before: &Self) -> Option<f64> {
        let read = self.read.saturating_sub(before.read);
        let server = self.server_read.saturating_sub(before.server_read);
        (read > 0).then(|| (1.0 - server as f64 / read as f64).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(reads: u64, direct: u64, server: u64) -> String {
        format!(
            "device proc mounted on /proc with fstype proc\n\
             device 10.0.0.7:/data mounted on /mnt/x with fstype nfs statvers=1.1\n\
             \topts:\trw,vers=3\n\
             \tage:\t12\n\
             \tbytes:\t1000 2000 {direct} 4000 {server} 6000 7 8\n\
             \tRPC iostats version: 1.1  p/v: 100003/3 (nfs)\n\
             \txprt:\ttcp 0 1 2 0 0 100 100 0 100 0 2 0 0\n\
             \tper-op statistics\n\
             \t        NULL: 1 1 0 44 24 0 0 0\n\
             \t        READ: {reads} {reads} 0 100 100 1 2 3 0\n\
             device 10.0.0.8:/other mounted on /mnt/y with fstype nfs4 statvers=1.1\n\
             \tbytes:\t0 0 0 0 0 0 0 0\n\
             \t        READ: 77 77 0 1 1 1 1 1\n"
        )
    }

    #[test]
    fn differences_are_those_of_one_mount() {
        let before = Counters::find(&text(5, 0, 1000), "/mnt/x").unwrap();
        let after = Counters::find(&text(25, 100_000, 96_000), "/mnt/x").unwrap();
        assert_eq!(after.calls_since(&before), BTreeMap::from([("READ".to_owned(), 20)]));
        assert_eq!(after.client_hits_since(&before), Some(0.050_000_000_000_000_044));
        assert_eq!(before.client_hits_since(&before), None);
        assert_eq!(Counters::find(&text(1, 0, 0), "/mnt/y").unwrap().calls["READ"], 77);
        assert_eq!(Counters::find(&text(1, 0, 0), "/mnt"), None);
    }

    #[test]
    fn window_has_the_counters_next_to_its_edges() {
        let at = |at, reads| (at, Counters { read: reads, ..Counters::default() });
        let mut history = History::new("/nowhere");
        assert_eq!(history.window(0, 1), None);
        history.samples.extend([at(100, 1), at(150, 2), at(200, 3), at(250, 4)]);
        let (start, end) = history.window(160, 240).unwrap();
        assert_eq!((start.read, end.read), (2, 4));
        assert!(history.sample_if_due(260).is_ok() && history.samples.len() == 4, "it was not time again");
        assert!(history.sample_if_due(u64::MAX).unwrap_err().to_string().contains("/nowhere"));
    }
}
