//! Rules about the time and the offsets of a job.

use report::units::show_size;

use super::finding::Severity::{Doubtful, Note, Wrong};
use super::finding::{Case, Verdict};

/// A rate of published volumes with small blocks, for estimates of time.
const OPS_PER_S: f64 = 200_000.0;
/// A rate of published volumes with large blocks: 4.5 GiB/s.
const BYTES_PER_S: f64 = 4.5 * 1024.0 * 1024.0 * 1024.0;

pub(super) fn time(case: &Case) -> Verdict {
    let job = case.job;
    if job.time_based && job.runtime_s.is_some() {
        return None;
    }
    if job.time_based {
        let text = "time_based without runtime has no effect: the job ends when its size is done".to_owned();
        return Some(("time-based-without-runtime", Wrong, text, "runtime=60".to_owned()));
    }
    let ends = job.moved().map_or("the job ends when its size is done".to_owned(), |moved| {
        let block = job.block();
        let fastest = (OPS_PER_S * block as f64).min(BYTES_PER_S);
        format!(
            "{} end when {} are done: after {} at {:.0} × {} a second",
            case.sizes(),
            show_size(moved),
            duration(moved as f64 / fastest),
            fastest / block as f64,
            show_size(block)
        )
    });
    Some(match job.runtime_s {
        Some(runtime) => (
            "runtime-without-time-based",
            Wrong,
            format!("runtime={runtime} is only an upper bound without time_based. {ends}"),
            "time_based together with runtime".to_owned(),
        ),
        None => (
            "ends-by-size",
            Doubtful,
            format!("{ends}; a faster volume is measured for a shorter time, and jobs end one by one"),
            "time_based with runtime=60 or more".to_owned(),
        ),
    })
}

pub(super) fn warm_up(case: &Case) -> Verdict {
    let text = "without ramp_time the first seconds count, in which caches fill, bursts are spent and connections start";
    let better = "ramp_time=30, and a look at whether the rate is steady by then";
    (case.job.ramp_time_s <= 0.0).then(|| ("no-warm-up", Doubtful, text.to_owned(), better.to_owned()))
}

pub(super) fn loops(case: &Case) -> Verdict {
    let loops = case.job.loops;
    let text =
        format!("the result is of all {loops} passes together: from the second on, any cache has the files");
    (loops > 1)
        .then(|| ("loops", Doubtful, text, "one pass for each state of the caches, told apart".to_owned()))
}

pub(super) fn repeated_places(case: &Case) -> Verdict {
    let job = case.job;
    let repeats = job.is_random && job.randseed.is_none() && job.randrepeat.unwrap_or(true);
    let reason =
        if job.randrepeat.is_some() { "randrepeat=1" } else { "randrepeat is 1 if not told otherwise" };
    repeats.then(|| {
        let text = format!(
            "{reason}: every run and every pass takes the same places in the same order, so a server that remembers them \
             answers from memory"
        );
        let better = "randrepeat=0 or another randseed for each run, if the server's memory shall not help";
        ("same-places", Doubtful, text, better.to_owned())
    })
}

pub(super) fn repeatable_is_no_cache_switch(case: &Case) -> Verdict {
    let job = case.job;
    let text = if job.is_random {
        "randrepeat=0 only draws other random places in each run; the client's cache stays as it is"
    } else {
        "randrepeat=0 has no effect on sequential work, and does not control caches"
    };
    let better =
        "direct=1 against the client's cache, a working set larger than its memory against the server's";
    (job.randrepeat == Some(false))
        .then(|| ("randrepeat-is-no-cache-switch", Note, text.to_owned(), better.to_owned()))
}

pub(super) fn places_without_memory(case: &Case) -> Verdict {
    let text = "norandommap draws each place anew: until a pass is through, about 63 % of the blocks are touched, some of \
        them several times";
    let better = "without norandommap each block comes once before any comes again";
    (case.job.is_random && case.job.norandommap)
        .then(|| ("places-drawn-anew", Note, text.to_owned(), better.to_owned()))
}

fn duration(seconds: f64) -> String {
    match seconds {
        ..1.0 => "less than a second".to_owned(),
        ..120.0 => format!("about {seconds:.0} s"),
        _ => format!("about {:.0} min", seconds / 60.0),
    }
}
