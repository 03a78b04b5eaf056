//! Rules about writes.

use super::finding::Severity::{Doubtful, Note, Wrong};
use super::finding::{Case, Verdict};
use crate::fio::job::Sync;

pub(super) fn flush(case: &Case) -> Verdict {
    let job = case.job;
    let is_flushed =
        job.sync != Sync::None || job.fsync > 0 || job.fdatasync > 0 || job.end_fsync || job.fsync_on_close;
    if !job.writes() || is_flushed {
        return None;
    }
    Some(if job.direct {
        let text = "direct=1 without sync or fsync: past the client's cache, but a local file system or a disk may still \
            hold the data in memory when a write returns. Linux' NFS client makes direct writes stable by itself";
        (
            "writes-not-flushed",
            Note,
            text.to_owned(),
            "end_fsync=1; sync=dsync if each write shall be stable".to_owned(),
        )
    } else {
        let text = "nothing is flushed: when the job ends, what it wrote may still be in the client's memory, and was \
            never measured";
        ("writes-not-flushed", Wrong, text.to_owned(), "direct=1, or end_fsync=1".to_owned())
    })
}

pub(super) fn allocation(case: &Case) -> Verdict {
    let job = case.job;
    // A job that also reads has its files laid out; a given file may hold anything.
    (job.writes() && !job.reads() && !job.overwrite).then(|| {
        let effect = if job.is_random { "and random places leave holes that are filled later" } else { "and grow the files" };
        let text = format!(
            "overwrite=0: where the files are not there yet, writes take space, {effect}: the first pass measures allocation, \
             later ones do not"
        );
        ("allocation", Doubtful, text, "overwrite=1, or a run that lays out the files before".to_owned())
    })
}

pub(super) fn zeros(case: &Case) -> Verdict {
    let job = case.job;
    if !job.writes() || !(job.zero_buffers || job.compress_percent > 0) {
        return None;
    }
    let what = if job.zero_buffers {
        "zeros".to_owned()
    } else {
        format!("data that shrink by {} %", job.compress_percent)
    };
    let text = format!(
        "{what} are written: a server that compresses or leaves out zeros stores less than is counted"
    );
    Some(("compressible-data", Wrong, text, "refill_buffers=1 without zero_buffers".to_owned()))
}

pub(super) fn same_data(case: &Case) -> Verdict {
    let job = case.job;
    let repeats = job.writes() && !job.refill_buffers && !job.zero_buffers && job.compress_percent == 0;
    let text = "fio fills its buffers once and changes only a little of them for each write: a server that deduplicates \
        or compresses may find more than in real data";
    repeats.then(|| ("repeated-data", Note, text.to_owned(), "refill_buffers=1".to_owned()))
}

pub(super) fn options_on_reads(case: &Case) -> Verdict {
    let job = case.job;
    if job.writes() {
        return None;
    }
    let options = [
        ("sync", job.sync != Sync::None),
        ("fsync", job.fsync > 0),
        ("fdatasync", job.fdatasync > 0),
        ("end_fsync", job.end_fsync),
        ("fsync_on_close", job.fsync_on_close),
    ];
    let options: Vec<&str> =
        options.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect();
    (!options.is_empty()).then(|| {
        let text = format!("the job only reads, so {} has no effect on what is measured", options.join(", "));
        ("no-effect-on-reads", Note, text, "leave it out".to_owned())
    })
}
