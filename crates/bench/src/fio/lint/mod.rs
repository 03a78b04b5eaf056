//! What fio's jobs really measure, where that may differ from what they seem to.

mod caches;
mod extent;
mod load;
mod writes;

use std::fmt;

use serde::Serialize;

use super::Jobs;
use super::job::Job;

/// Something about a job that its reader should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stays the same between versions: `runtime-without-time-based`.
    pub code: &'static str,
    /// How much of the figure it takes away.
    pub severity: Severity,
    /// The jobs.
    pub jobs: Vec<String>,
    /// What it does, with the job's own figures.
    pub text: String,
    /// What would be better.
    pub better: String,
}

/// How much of a figure a finding takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something else is measured than the options seem to say.
    Wrong,
    /// The figure depends on what is not told.
    Doubtful,
    /// Good to know when comparing.
    Note,
}

/// What a rule says of a job: code, severity, text, what would be better.
type Said = Option<(&'static str, Severity, String, String)>;

/// What rules look at.
struct Case<'j> {
    job: &'j Job,
    /// Bytes of memory of the machine that runs fio, if known.
    memory: Option<u64>,
}

const RULES: [fn(&Case) -> Said; 22] = [
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

/// What is to be known of these jobs, what matters most first; `memory` is that of the machine that runs fio, in bytes, if
/// known.
pub fn lint(jobs: &Jobs, memory: Option<u64>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for job in &jobs.jobs {
        let case = Case { job, memory };
        for (code, severity, text, better) in
            RULES.iter().filter_map(|rule| rule(&case)).chain(load::unknown(job))
        {
            // What is said of several jobs in the same words is said once.
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
