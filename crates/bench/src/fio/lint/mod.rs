//! Rules about jobs of fio that measure something else than they seem to.

mod caches;
mod extent;
mod finding;
mod load;
mod writes;

use std::fmt;

use super::jobs::Jobs;

use finding::{Case, Verdict};

pub use finding::{Finding, Severity};

const RULES: [fn(&Case) -> Verdict; 22] = [
    extent::time,
    extent::warm_up,
    extent::loops,
    extent::repeated_places,
    extent::repeatable_is_no_cache_switch,
    extent::places_without_memory,
    caches::buffered_reads,
    caches::buffered_writes,
    caches::client_memory,
    caches::server_memory,
    caches::just_written,
    writes::flush,
    writes::allocation,
    writes::zeros,
    writes::same_data,
    writes::options_on_reads,
    load::depth,
    load::one_at_a_time,
    load::sync_and_submission,
    load::one_file,
    load::grouping,
    load::rate,
];

/// Sorts findings by importance. `memory` is that of the machine that runs fio, in bytes, if known.
pub fn lint(jobs: &Jobs, memory: Option<u64>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for job in &jobs.jobs {
        let case = Case { job, memory };
        for (code, severity, text, better) in
            RULES.iter().filter_map(|rule| rule(&case)).chain(load::options(job))
        {
            // A finding about several jobs is listed once.
            match findings.iter_mut().find(|finding| finding.code == code && finding.text == text) {
                Some(same) => same.jobs.push(job.name.clone()),
                None => findings.push(Finding { code, severity, jobs: vec![job.name.clone()], text, better }),
            }
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wrong => "wrong",
            Self::Doubtful => "doubtful",
            Self::Note => "note",
        })
    }
}

impl Case<'_> {
    /// `4 jobs × 4 GiB`.
    fn sizes(&self) -> String {
        let job = self.job;
        let size = job.size.map_or("the whole file".to_owned(), report::units::show_size);
        let jobs = if job.numjobs == 1 { "1 job".to_owned() } else { format!("{} jobs", job.numjobs) };
        let loops = if job.loops == 1 { String::new() } else { format!(" × {} passes", job.loops) };
        format!("{jobs} × {size}{loops}")
    }
}
