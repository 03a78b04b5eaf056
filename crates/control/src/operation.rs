//! Records of changes: actor, object, time, outcome.

use crate::job::{JobProgress, JobSpec};
use crate::kind::Kind;
use crate::words::words;
use std::fmt;

/// Retained finished operations; older ones are deleted.
pub const OPERATIONS_KEPT: u64 = 100_000;

/// The detail of an operation that changed nothing.
pub(crate) const UNCHANGED: &str = "nothing to change";

/// The author of a change: the name of an API token, an operator at the command line, or the service itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(String);

/// The actor and the conditions of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeContext {
    pub actor: Actor,
    /// The expected version (`If-Match`); `None` permits any. A new object has no version.
    pub version: Option<u64>,
    /// Carries out a change that [`crate::Error::may_be_forced`].
    pub force: bool,
}

/// Later operations have greater ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
    Delete,
    /// Replaces the files of a volume with those of its snapshot.
    Revert,
    /// Restores files from a snapshot or a backup.
    Restore,
    Verify,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Running,
    Succeeded,
    /// The reason of the failure.
    Failed(String),
    /// A job that was ended on request.
    Cancelled,
}

/// The record of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub id: OperationId,
    pub actor: Actor,
    pub verb: Verb,
    /// The kind of the object.
    pub kind: Kind,
    pub name: String,
    /// The change in words: `size 1 TiB → 2 TiB`. Empty where the verb says everything.
    pub detail: String,
    /// Start time, in milliseconds since 1970.
    pub started_ms: u64,
    pub ended_ms: Option<u64>,
    pub outcome: Outcome,
    /// The work, if it is a job.
    pub(crate) spec: Option<JobSpec>,
    /// The progress of a job that has begun.
    pub progress: Option<JobProgress>,
    /// Whether somebody asked to cancel it.
    pub is_cancelled: bool,
}

/// The object after a change, and the change's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeResult<T> {
    pub value: T,
    pub operation: Operation,
}

impl Actor {
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Operation {
    /// Whether it can be cancelled.
    pub fn can_be_cancelled(&self) -> bool {
        self.spec.is_some() && self.outcome == Outcome::Running && !self.is_cancelled
    }

    /// Whether the change had an effect: a repeated request changes nothing.
    pub fn has_changed(&self) -> bool {
        self.detail != UNCHANGED
    }
}

impl ChangeContext {
    /// Any version, without force.
    pub fn by(actor: Actor) -> Self {
        Self { actor, version: None, force: false }
    }

    /// Requires this version.
    pub fn at(self, version: u64) -> Self {
        Self { version: Some(version), ..self }
    }

    pub fn forced(self) -> Self {
        Self { force: true, ..self }
    }
}

words!(Verb: Create = "create", Update = "update", Delete = "delete", Revert = "revert", Restore = "restore", Verify = "verify");

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for OperationId {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, crate::Error> {
        let bad = |_| crate::Error::invalid(format!("the operation {text:?}"), "a number");
        text.parse().map(Self).map_err(bad)
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
