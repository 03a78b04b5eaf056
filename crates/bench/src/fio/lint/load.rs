//! Rules about operations in flight, and their count.

use super::finding::Severity::{Doubtful, Note, Wrong};
use super::finding::{Case, Severity, Verdict};
use crate::fio::job::{Job, Sync};
use crate::fio::options;

pub(super) fn depth(case: &Case) -> Verdict {
    let job = case.job;
    let capped = job.iodepth > 1 && job.depth() == Some(1);
    let why = if job.ioengine == "libaio" {
        "libaio is asynchronous only with direct=1: through the page cache each submission waits"
    } else {
        "this engine does one operation after the other"
    };
    capped.then(|| {
        let text = format!("iodepth={} has no effect with ioengine={}: {why}", job.iodepth, job.ioengine);
        ("depth-without-effect", Wrong, text, "ioengine=libaio with direct=1, or more jobs".to_owned())
    })
}

pub(super) fn one_at_a_time(case: &Case) -> Verdict {
    let job = case.job;
    let is_one =
        job.iodepth == 1 && job.depth() == Some(1) && job.direct | (job.sync != Sync::None) | job.reads();
    is_one.then(|| {
        let text = format!(
            "ioengine={} has one operation in flight in each of {} processes: the rate is at most {} divided by the latency",
            job.ioengine, job.numjobs, job.numjobs
        );
        let better = "ioengine=libaio, direct=1 and iodepth, raised until the rate does not grow any more";
        ("one-at-a-time", Note, text, better.to_owned())
    })
}

pub(super) fn sync_and_submission(case: &Case) -> Verdict {
    let job = case.job;
    (job.writes() && job.sync != Sync::None && job.ioengine == "libaio" && job.direct).then(|| {
        let text = "sync with libaio: where the file system flushes within the submission, writes go out one after the \
            other, and the time is in slat, which clat leaves out";
        ("sync-with-libaio", Doubtful, text.to_owned(), "look at lat, not clat; or ioengine=psync and more jobs".to_owned())
    })
}

pub(super) fn one_file(case: &Case) -> Verdict {
    let job = case.job;
    let file = job.filename.as_ref().filter(|_| job.numjobs > 1)?;
    let text = format!(
        "all {} processes use {file}: they share its lock and its cached pages, and the working set is one file",
        job.numjobs
    );
    Some((
        "one-file-for-all",
        Doubtful,
        text,
        "directory= instead of filename=: a file for each process".to_owned(),
    ))
}

pub(super) fn grouping(case: &Case) -> Verdict {
    let job = case.job;
    (job.numjobs > 1 && !job.group_reporting).then(|| {
        let text = format!(
            "without group_reporting there are {} results; rates may be added, percentiles may not be averaged",
            job.numjobs
        );
        ("no-group-reporting", Note, text, "group_reporting".to_owned())
    })
}

pub(super) fn rate(case: &Case) -> Verdict {
    let job = case.job;
    (job.rate_iops.is_some() || job.rate.is_some()).then(|| {
        let text = "under a rate fio takes an operation's time after it has waited for its turn: how long operations \
            queue while the server is too slow does not show in latencies";
        let better = "compare the rate reached with the one wanted; measure from the intended start";
        ("latency-under-rate", Doubtful, text.to_owned(), better.to_owned())
    })
}

/// Covers options that fio ignores, or reads differently from their text.
pub(super) fn options(job: &Job) -> impl Iterator<Item = (&'static str, Severity, String, String)> {
    let unknown = job.unknown.iter().map(|option| {
        let name = option.split('=').next().unwrap_or(option);
        let (text, better) = if options::find(name).is_some() {
            ("is not known here: the findings and the equivalent ignore it", "see fio's manual")
        } else {
            (
                "is not an option of fio 3.33, which refuses the job; the findings and the equivalent ignore it",
                "another spelling; or a newer fio, if it has this option",
            )
        };
        ("unknown-option", Doubtful, format!("{option} {text}"), better.to_owned())
    });
    let surprises = job.surprises.iter().map(|surprise| {
        let better = "a number with a unit that fio knows, or without one";
        ("not-as-written", Wrong, surprise.clone(), better.to_owned())
    });
    let foreign = job.of_other_engines.iter().map(|option| {
        let name = option.split('=').next().unwrap_or(option);
        let engines = options::find(name).map(|known| known.engines.join(", ")).unwrap_or_default();
        let text =
            format!("{option} is an option of {engines}: with ioengine={} fio refuses the job", job.ioengine);
        ("option-of-another-engine", Wrong, text, "leave it out, or another ioengine".to_owned())
    });
    surprises.chain(foreign).chain(unknown)
}
