//! What a rule is given, and what it says.

use serde::Serialize;

use crate::fio::job::Job;

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
pub(super) type Verdict = Option<(&'static str, Severity, String, String)>;

/// What rules look at.
pub(super) struct Case<'j> {
    pub(super) job: &'j Job,
    /// Bytes of memory of the machine that runs fio, if known.
    pub(super) memory: Option<u64>,
}
