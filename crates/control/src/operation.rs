//! Records of changes: actor, object, time, outcome.

use crate::kind::Kind;
use crate::words::words;
use std::fmt;

/// Finished operations that are remembered; older ones are forgotten.
pub const OPERATIONS_KEPT: u64 = 100_000;

/// The detail of an operation that changed nothing.
pub(crate) const UNCHANGED: &str = "nothing to change";

/// The author of a change: an API token's name, an operator at the command line, the service itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(String);

/// On whose behalf a change is made, and on what context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeContext {
    pub actor: Actor,
    /// Change or remove it only if this is still its version (`If-Match`); `None` whatever it is. What is made anew has none.
    pub version: Option<u64>,
    /// Whether an operator insists where that loses no data ([`crate::Error::may_be_forced`]).
    pub force: bool,
}

/// An operation's number: later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Made.
    Create,
    /// Changed.
    Update,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet.
    Running,
    /// Done.
    Succeeded,
    /// Not done, for this reason.
    Failed(String),
}

/// The record of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub id: OperationId,
    pub actor: Actor,
    pub verb: Verb,
    /// To what kind of thing.
    pub kind: Kind,
    /// The thing's name.
    pub name: String,
    /// The change in words: `size 1 TiB → 2 TiB`. Empty where the verb says it all.
    pub detail: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    pub ended_ms: Option<u64>,
    pub outcome: Outcome,
}

/// The result of a change, and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeResult<T> {
    /// The thing after the change.
    pub value: T,
    /// The change's record.
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
    /// Whether anything is different since: a repeated request changes nothing.
    pub fn has_changed(&self) -> bool {
        self.detail != UNCHANGED
    }
}

impl ChangeContext {
    /// No context: whatever the version, without force.
    pub fn by(actor: Actor) -> Self {
        Self { actor, version: None, force: false }
    }

    /// Only if this is still the version.
    pub fn at(self, version: u64) -> Self {
        Self { version: Some(version), ..self }
    }

    pub fn forced(self) -> Self {
        Self { force: true, ..self }
    }
}

words!(Verb: Create = "create", Update = "update", Delete = "delete");

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
