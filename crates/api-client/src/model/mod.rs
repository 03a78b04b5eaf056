//! The bodies of requests and replies: plain nouns, as the server writes and the client reads them.
//!
//! Sizes are whole bytes, rates whole bytes or operations for each second; the unit is the end of a property's name. Requests
//! know every property or are refused; replies may get further ones.

mod backup;
mod client;
mod from_snapshot;
mod level;
mod limits;
mod nfs;
mod operation;
mod page;
mod peer;
mod policy;
mod pool;
mod problem;
mod quota;
mod replication;
mod rule;
mod settings;
mod share;
mod smb;
mod snapshot;
mod stats;
mod time;
mod token;
mod user;
mod vault;
mod version;
mod volume;
mod warning;
mod words;

pub use crate::bounds::*;
pub use backup::{Backup, BackupCheck, BackupFileRestore, BackupState, NewBackup};
pub use client::{ConnectedClient, Nfs4Client, ReachedEndpoint, UsedVolume};
pub use from_snapshot::{NewClone, Restore};
pub use level::{Level, LevelLimits, LevelQuery, Range, Settable};
pub use limits::{Ceilings, Limits, Origin};
pub use nfs::{MountTarget, MountTargets, Nfs, V3Locks};
pub use operation::{Operation, Progress};
pub use page::{Page, PageQuery};
pub use peer::{Authorization, Authorizations, NewAuthorization, NewPeer, Peer, PeerPatch, ServiceKey};
pub use policy::{
    DailySchedule, HourlySchedule, MonthlySchedule, NewPolicy, Policy, PolicyPatch, WeekDay, WeeklySchedule,
};
pub use pool::{LabelsPatch, NewPool, Pool, PoolPatch};
pub use problem::{Problem, VersionMismatch};
pub use quota::{OwnerKind, QuotaCheck, QuotaDrift, QuotaLimits, QuotaReport, QuotaRule, QuotaUse, Quotas};
pub use replication::{NewReplication, Replication, ReplicationPatch, ReplicationSchedule, ReplicationState};
pub use rule::{Access, Protection, Rule, Rules, Squash};
pub use settings::{Declared, Merge, PoolSettings, Shaping, VolumeSettings};
pub use share::SmbSettings;
pub use smb::Smb;
pub use snapshot::{NewSnapshot, Snapshot, SnapshotKind, SnapshotPatch, SnapshotState};
pub use stats::{Counted, EndpointStats, Interval, Stats};
pub use time::Timestamp;
pub use token::{NewToken, Role, Secret, Token};
pub use user::{Group, NewGroup, NewUser, Password, User, UserPatch};
pub use vault::{Bucket, NewVault, Vault, VaultPatch};
pub use version::Version;
pub use volume::{Durability, NewVolume, Root, SecurityStyle, SnapshotDirectory, State, Volume, VolumePatch};
pub use warning::Warning;
pub use words::{LevelName, Owner, PROTOCOLS, ProfileName, Protocol, Provider, Qos, ShapeName};

use std::collections::BTreeMap;

/// Text attached to a pool or volume.
pub type Labels = BTreeMap<String, String>;

/// The labels of a request, described.
pub(crate) fn labels(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": LABELS_MAX,
        "propertyNames": { "minLength": 1, "maxLength": LABEL_KEY_BYTES_MAX, "pattern": r"^[^\x00-\x1f\x7f-\x9f]+$" },
        "additionalProperties": { "type": "string", "maxLength": LABEL_VALUE_BYTES_MAX },
    })
}

/// The pattern of names. In a path of the API they are percent-encoded.
pub const NAME: &str =
    r"^[^/\s\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+$";

/// Reads a property that a change may leave out but not unset: `null` is refused.
pub(crate) fn present<'de, D: serde::Deserializer<'de>, T: serde::Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// For numbers from 1 on.
pub(crate) fn positive<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default + PartialEq,
{
    let number = T::deserialize(from)?;
    if number == T::default() {
        return Err(serde::de::Error::custom("is 0; allowed: a whole number of 1 or more"));
    }
    Ok(number)
}

/// [`present`], of numbers from 1 on.
pub(crate) fn present_positive<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default + PartialEq,
{
    positive(from).map(Some)
}
