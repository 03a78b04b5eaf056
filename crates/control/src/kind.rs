//! Kinds of objects, and states of volumes.

use crate::words::words;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Pool,
    Volume,
    Snapshot,
    Policy,
    User,
    Group,
    Token,
    Operation,
    Quota,
    Replication,
    Vault,
    Backup,
    Peer,
}

/// The progress of a volume's last change.
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
    /// The storage replaces the files with those of a snapshot. Clients wait.
    Reverting,
}

words!(Kind: Pool = "pool", Volume = "volume", Snapshot = "snapshot", Policy = "policy", User = "user", Group = "group", Token = "token", Operation = "operation", Quota = "quota", Replication = "replication", Vault = "vault", Backup = "backup", Peer = "peer");
words!(State: Creating = "creating", Ready = "ready", Updating = "updating", Deleting = "deleting", Reverting = "reverting");
