//! The input and the output of a rule.

use serde::Serialize;

use crate::fio::job::Job;

/// A note about a job for its reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable identifier: `runtime-without-time-based`.
    pub code: &'static str,
    pub severity: Severity,
    pub jobs: Vec<String>,
    /// The effect, with the job's own figures.
    pub text: String,
    /// The recommendation.
    pub better: String,
}

/// The effect of a finding on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The job measures something else than its options suggest.
    Wrong,
    /// The figure depends on unknown facts.
    Doubtful,
    /// A fact that matters in comparisons.
    Note,
}

pub(super) type Verdict = Option<(&'static str, Severity, String, String)>;

pub(super) struct Case<'j> {
    pub(super) job: &'j Job,
    /// Bytes of the machine that runs fio; `None` if unknown.
    pub(super) memory: Option<u64>,
}
