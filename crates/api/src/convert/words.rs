//! Words from closed lists.

use super::{ToBody, ToValue};
use api_client::model::{
    Access, BackupState, Durability, Protection, Protocol, ReplicationSchedule, ReplicationState, Role,
    SecurityStyle, SnapshotDirectory, SnapshotKind, SnapshotState, Squash, State, WeekDay,
};

macro_rules! mirrors {
    ($($name:ident for $inner:ty { $($variant:ident),* })*) => {$(
        impl ToBody for $inner {
            type Body = $name;

            fn to_body(&self) -> $name {
                match self {
                    $(Self::$variant => $name::$variant),*
                }
            }
        }

        impl ToValue for $name {
            type Value = $inner;

            fn to_value(self) -> $inner {
                match self {
                    $(Self::$variant => <$inner>::$variant),*
                }
            }
        }
    )*};
}

mirrors! {
    Access for control::Access { ReadWrite, ReadOnly, NoAccess }
    Squash for vfs::Squash { Root, All, None }
    Protection for vfs::Protection { Plain, Encrypted, Verified }
    Durability for vfs::Durability { Sync, Relaxed }
    SecurityStyle for vfs::SecurityStyle { Unix, Ntfs }
    SnapshotDirectory for vfs::SnapshotDirectory { Hidden, Reachable, Listed }
    SnapshotKind for control::SnapshotKind { Manual, Hourly, Daily, Weekly, Monthly, Replication, Backup }
    BackupState for control::BackupState { Creating, Ready, Deleting, Error }
    SnapshotState for control::SnapshotState { Creating, Ready, Deleting, Error }
    State for control::State { Creating, Ready, Updating, Deleting, Reverting }
    WeekDay for control::WeekDay { Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday }
    ReplicationSchedule for control::ReplicationSchedule { Every10Minutes, Hourly, Daily }
    ReplicationState for control::MirrorState { PendingPeering, Preparing, BaselineTransferring, Mirrored, Transferring, Stopped, Aborted }
    Role for control::Role { Read, Operate, Admin }
}

pub(crate) fn protocols_of(protocols: control::Protocols) -> Vec<Protocol> {
    protocols.iter().map(Protocol::from).collect()
}

pub(crate) fn to_protocols(protocols: &[Protocol]) -> control::Protocols {
    protocols.iter().map(|&protocol| envelope::Protocol::from(protocol)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api_client::model::PROTOCOLS;

    #[test]
    fn protocols_of_bodies_are_all_protocols() {
        assert_eq!(protocols_of(control::Protocols::ALL), PROTOCOLS);
        assert_eq!(to_protocols(&PROTOCOLS), control::Protocols::ALL);
    }
}
