//! The input and the output of a rule.

use serde::Serialize;

use crate::fio::job::Job;

/// Something about a job that its reader should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stays the same between versions: `runtime-without-time-based`.
    pub code: &'static str,
    pub severity: Severity,
    /// The jobs.
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
    /// Something else is measured than the options seem to say.
    Wrong,
    /// The figure depends on what is not told.
    Doubtful,
    /// Good to know when comparing.
    Note,
}

/// The verdict of a rule on a job: code, severity, text, recommendation.
pub(super) type Verdict = Option<(&'static str, Severity, String, String)>;

/// The input of rules.
pub(super) struct Case<'j> {
    pub(super) job: &'j Job,
    /// Bytes of memory of the machine that runs fio, if known.
    pub(super) memory: Option<u64>,
}
