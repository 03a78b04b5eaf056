//! Runs given jobs unchanged.

use std::path::Path;
use std::thread;
use std::time::Duration;

use report::result::Operation;
use serde::Serialize;

use super::jobs::Jobs;
use super::output::{JobOutput, operations};
use super::tool::{LiveRates, Tool};
use crate::error::Error;
use crate::private_dir::PrivateDir;

const POLL: Duration = Duration::from_millis(100);

/// The result of one of fio's jobs, all of its processes together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub name: String,
    /// Seconds that the longest process measured.
    pub seconds: f64,
    /// Reads and writes. Times exclude the submission, unless the job sets `lat_percentiles`.
    pub operations: Vec<Operation>,
    pub error: Option<String>,
}

/// Runs the jobs in a directory with the installed fio. Only the location of the files is replaced; `on_rates` receives
/// rates twice a second. Files remain, as fio leaves them. No other user may be able to write the directory.
///
/// # Errors
/// fio is not installed, or refuses the jobs; or others could put links into the directory.
pub fn run_in(
    jobs: &Jobs,
    directory: &Path,
    on_rates: &mut dyn FnMut(LiveRates),
) -> Result<Vec<Measured>, Error> {
    let tool = Tool::find()?;
    let directory = PrivateDir::open(directory)?;
    let scratch = tool.scratch()?;
    let mut running = tool.start(&jobs.in_place(), &directory, scratch)?;
    while !running.is_over()? {
        running.live_rates().for_each(&mut *on_rates);
        thread::sleep(POLL);
    }
    let finished = running.finish()?;
    // An error without a failed job is reported for every job.
    let is_unassigned = finished.output.jobs.iter().all(|job| job.error == 0);
    let measured = |outputs: &[JobOutput]| {
        let longest = outputs.iter().flat_map(|job| [job.read.runtime, job.write.runtime]).max().unwrap_or(0);
        Measured {
            name: outputs[0].jobname.clone(),
            seconds: longest as f64 / 1000.0,
            operations: operations(outputs),
            error: finished.failure().filter(|_| is_unassigned || outputs.iter().any(|job| job.error != 0)),
        }
    };
    // Without `group_reporting` each process has an entry.
    Ok(finished.output.jobs.chunk_by(|one, next| one.jobname == next.jobname).map(measured).collect())
}
