//! One check, and its outcome.

use std::fmt;

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    /// Steps that must pass first, because this one uses their results.
    pub(super) needs: Vec<&'static str>,
    pub(super) argv: Vec<String>,
    pub(super) minutes_max: u64,
    pub(super) load: Load,
    pub(super) retry: Retry,
}

/// The share of the machine that a step takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    Core,
    /// Almost nothing, since it mostly waits: it runs beside the others.
    Little,
    /// The whole machine: it measures time.
    Machine,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Retry {
    Never,
    /// The step, or each failed part, runs once more, alone, at the end.
    Once,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    RunsAgain(String),
    Flaky,
    Failed(String),
    /// Not run, because the named step did not pass.
    NotRun(&'static str),
}

impl Step {
    pub(super) fn new(name: &'static str, argv: Vec<String>, minutes_max: u64) -> Self {
        Self { name, needs: Vec::new(), argv, minutes_max, load: Load::Core, retry: Retry::Once }
    }

    pub(super) fn after(mut self, needs: &[&'static str]) -> Self {
        self.needs.extend(needs);
        self
    }

    pub(super) fn takes(self, load: Load) -> Self {
        Self { load, ..self }
    }

    pub(super) fn never_again(self) -> Self {
        Self { retry: Retry::Never, ..self }
    }

    pub(super) fn file_stem(&self) -> String {
        self.name.replace(' ', "-")
    }
}

impl Outcome {
    pub(super) fn passed(&self) -> bool {
        matches!(self, Self::Passed | Self::Flaky)
    }

    pub(super) fn failed(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::NotRun(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::RunsAgain(why) => write!(f, "failed, runs again: {why}"),
            Self::Flaky => f.write_str("passed when it ran again"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::NotRun(needed) => write!(f, "FAILED: not run without \"{needed}\""),
        }
    }
}
