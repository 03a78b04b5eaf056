//! Kinds of objects, and states of volumes.

use crate::words::words;

/// The kind of object that a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A [`crate::Pool`].
    Pool,
    /// A [`crate::Volume`].
    Volume,
    /// A [`crate::User`].
    User,
    /// A [`crate::Group`].
    Group,
    /// A [`crate::Token`].
    Token,
    /// A [`crate::Operation`].
    Operation,
}

/// The state of a volume's last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Storage is under construction.
    Creating,
    /// The volume exists as described.
    Ready,
    /// The volume exists; its storage changes.
    Updating,
    /// Storage is under removal.
    Deleting,
}

words!(Kind: Pool = "pool", Volume = "volume", User = "user", Group = "group", Token = "token", Operation = "operation");
words!(State: Creating = "creating", Ready = "ready", Updating = "updating", Deleting = "deleting");
