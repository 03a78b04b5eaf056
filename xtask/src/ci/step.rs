//! One check, and how it ends.

use std::fmt;

/// One check: a command.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    /// Steps that must have passed, since this one uses what they make.
    pub(super) needs: Vec<&'static str>,
    pub(super) argv: Vec<String>,
    /// It is killed after so many minutes.
    pub(super) minutes_max: u64,
    pub(super) load: Load,
}

/// What a step takes of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    /// A lane.
    Lane,
    /// So little that it runs beside the lanes: it mostly waits.
    Little,
    /// Everything: it measures time.
    Machine,
}

/// How a step ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Passed,
    Failed(String),
    /// The step that would have made what it needs.
    NotRun(&'static str),
}

impl Step {
    pub(super) fn new(name: &'static str, argv: Vec<String>, minutes_max: u64) -> Self {
        Self { name, needs: Vec::new(), argv, minutes_max, load: Load::Lane }
    }

    /// Needs these, too.
    pub(super) fn after(mut self, needs: &[&'static str]) -> Self {
        self.needs.extend(needs);
        self
    }

    pub(super) fn takes(self, load: Load) -> Self {
        Self { load, ..self }
    }
}

impl Outcome {
    pub(super) fn passed(&self) -> bool {
        matches!(self, Self::Passed)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::NotRun(needed) => write!(f, "FAILED: not run without \"{needed}\""),
        }
    }
}
