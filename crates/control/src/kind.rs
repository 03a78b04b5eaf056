//! What errors tell of: kinds of things, and what is being done to a volume.

use crate::words::words;

/// What kind of thing a name names.
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

/// How far a volume's last change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its storage is being made.
    Creating,
    /// It is there, and as described.
    Ready,
    /// It is there; its storage is being changed.
    Updating,
    /// Its storage is being removed.
    Deleting,
}

words!(Kind: Pool = "pool", Volume = "volume", User = "user", Group = "group", Token = "token", Operation = "operation");
words!(State: Creating = "creating", Ready = "ready", Updating = "updating", Deleting = "deleting");
