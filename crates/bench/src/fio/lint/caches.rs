//! Rules about the caches that answer reads.

use report::units::show_size;

use super::finding::Severity::{Doubtful, Note, Wrong};
use super::finding::{Case, Verdict};

/// A working set up to this size may fit into a file server's memory. Published working sets have 1 TiB.
const SERVER_MEMORY: u64 = 512 << 30;
/// A client evicts recently used files that exceed its memory by this factor.
const MEMORIES: u64 = 2;

pub(super) fn buffered_reads(case: &Case) -> Verdict {
    let text = "direct=0: reads pass through the client's page cache, which answers what it has and reads ahead of \
        sequential readers; the rate is that of client and server together";
    (!case.job.direct && case.job.reads())
        .then(|| ("buffered-reads", Wrong, text.to_owned(), "direct=1".to_owned()))
}

pub(super) fn buffered_writes(case: &Case) -> Verdict {
    let job = case.job;
    if job.direct || !job.writes() {
        return None;
    }
    let better = "direct=1, or sync=1 with as many jobs as shall be in flight".to_owned();
    if job.sync != super::super::job::Sync::None || job.fsync == 1 || job.fdatasync == 1 {
        let text = "direct=0 with a flush for each write: each goes to the server before it returns, but the client may split \
            or join transfers by pages"
            .to_owned();
        return Some(("buffered-writes", Note, text, better));
    }
    let text = "direct=0: a write returns when it is copied into the client's page cache, so latencies are those of its \
        memory; the server sees the data when the kernel or an fsync sends them, in sizes of its own"
        .to_owned();
    Some(("buffered-writes", Wrong, text, better))
}

pub(super) fn client_memory(case: &Case) -> Verdict {
    let (set, memory) = (case.job.working_set()?, case.memory?);
    let fits = !case.job.direct && set < memory.saturating_mul(MEMORIES);
    fits.then(|| {
        let text = format!(
            "the working set is {}, and this client has {} GiB of memory: much of it stays in the page cache",
            show_size(set),
            memory >> 30
        );
        let better = format!("direct=1, or at least {} GiB in all", memory.saturating_mul(MEMORIES) >> 30);
        ("fits-in-client-memory", Doubtful, text, better)
    })
}

pub(super) fn server_memory(case: &Case) -> Verdict {
    let set = case.job.working_set()?;
    (case.job.reads() && set <= SERVER_MEMORY).then(|| {
        let text = format!(
            "the working set is {}: servers hold that in memory after the first pass, or after the writing of the files",
            show_size(set)
        );
        let better = "say whether the server's memory is meant to answer; if not, 1 TiB as in the published curves";
        ("fits-in-server-memory", Doubtful, text, better.to_owned())
    })
}

pub(super) fn just_written(case: &Case) -> Verdict {
    let job = case.job;
    // fio lays out files unless the job only writes.
    (job.reads() && job.filename.is_none()).then(|| {
        let cached = if job.direct || job.invalidate {
            "the server's caches"
        } else {
            "the caches of client and server"
        };
        let text =
            format!("fio creates missing files right before it reads them, so that they are in {cached}");
        ("read-after-layout", Note, text, "lay out in a run of its own (create_only=1), and wait".to_owned())
    })
}
