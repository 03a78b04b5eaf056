//! Volumes.

use super::pool::LabelsPatch;
use super::words::words;
use super::{
    ENDPOINTS_MAX, Labels, LevelName, Merge, NAME, PROTOCOLS_MAX, Protocol, RULES_MAX, Rule,
    SNAP_RESERVE_MAX, SmbSettings, Timestamp, VolumeSettings,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

words! {
    /// The durability of acknowledged changes.
    Durability {
        /// The change survives a power cut.
        Sync = "sync",
        /// The change survives the end of the process; a power cut can lose the last seconds.
        Relaxed = "relaxed",
    }

    /// The permissions that decide about access to the files of a volume.
    SecurityStyle {
        /// Mode bits, owner and group, for every protocol.
        Unix = "unix",
        /// Windows access control lists, for every protocol. NFS shows mode bits and does not change them.
        Ntfs = "ntfs",
    }

    /// The access of clients to the directories of snapshots: `.snapshot` over NFS, `~snapshot` over SMB.
    SnapshotDirectory {
        /// There are none.
        Hidden = "hidden",
        /// Each directory has one, which no listing contains.
        Reachable = "reachable",
        /// Each directory has one. The listing of the root directory contains it.
        Listed = "listed",
    }

    /// The state of a volume's last change.
    State {
        /// The service makes its storage.
        Creating = "creating",
        /// The volume exists as described.
        Ready = "ready",
        /// The volume exists; the service changes its storage.
        Updating = "updating",
        /// The service removes its storage.
        Deleting = "deleting",
        /// The service replaces its files with those of a snapshot. Clients wait.
        Reverting = "reverting",
    }
}

/// A volume: files that clients mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Name.
    pub name: String,
    /// Volume id in hexadecimal: part of every file handle.
    pub id: String,
    /// The pool whose capacity it takes.
    pub pool: String,
    /// Service level, if its pool leaves the level to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelName>,
    /// Capacity.
    pub size_bytes: u64,
    /// The last part of its path.
    pub share: String,
    /// The path that clients mount.
    pub path: String,
    /// Settings that its level permits.
    pub settings: VolumeSettings,
    /// Protocols.
    pub protocols: Vec<Protocol>,
    /// Settings as an SMB share.
    pub smb: SmbSettings,
    /// Mode and owner that its root directory had at first.
    pub root: Root,
    /// The durability of acknowledged changes.
    pub durability: Durability,
    /// The permissions that decide about access to its files.
    pub security_style: SecurityStyle,
    /// The access of clients to the directories of snapshots.
    pub snapshot_directory: SnapshotDirectory,
    /// The policy that makes its backups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_policy: Option<String>,
    /// The policy that makes its snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The part that files leave to snapshots, in percent of the capacity.
    #[serde(default)]
    pub snap_reserve: u8,
    /// The snapshot that it was made from, with the names of then, as in `v1/before-upgrade`. It depends on neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<String>,
    /// Export rules; the first rule that matches decides.
    pub rules: Vec<Rule>,
    /// Addresses that serve it in addition to the service's own address.
    pub endpoints: Vec<String>,
    /// Your own keys and values.
    pub labels: Labels,
    /// The state of its last change.
    pub state: State,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its last change.
    pub changed: Timestamp,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A volume to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Name.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"tools")]
    pub name: String,
    /// The pool whose capacity it takes.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"engineering")]
    pub pool: String,
    /// Capacity.
    #[serde(deserialize_with = "super::positive")]
    #[schemars(range(min = 1), example = 1_099_511_627_776_u64)]
    pub size_bytes: u64,
    /// The last part of the path that clients mount; its name if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub share: Option<String>,
    /// Service level, in pools that leave the level to their volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelName>,
    /// Settings that its level permits.
    #[serde(default)]
    pub settings: VolumeSettings,
    /// Protocols; if left out, NFSv3 and the latest NFSv4 that its level has. The service refuses protocols that it does not serve.
    #[serde(
        default,
        deserialize_with = "super::words::present_protocols",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Vec<Protocol>", length(min = 1, max = PROTOCOLS_MAX), extend("uniqueItems" = true))]
    pub protocols: Option<Vec<Protocol>>,
    /// Settings as an SMB share; the defaults if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SmbSettings")]
    pub smb: Option<SmbSettings>,
    /// Mode and owner of its root directory. By default root owns it, with the provider's mode: 0770 for Azure NetApp Files and
    /// Google Cloud NetApp Volumes, 0755 for Filestore and Plimsoll.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Root")]
    pub root: Option<Root>,
    /// The durability of acknowledged changes: `sync` if left out. It never changes.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Durability")]
    pub durability: Option<Durability>,
    /// The permissions that decide about access to its files: `unix` if left out. `ntfs` needs SMB among its protocols. It never changes.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecurityStyle")]
    pub security_style: Option<SecurityStyle>,
    /// The access of clients to the directories of snapshots: `reachable` if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SnapshotDirectory")]
    pub snapshot_directory: Option<SnapshotDirectory>,
    /// The policy that makes its snapshots; none if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub policy: Option<String>,
    /// The policy that makes its backups; none if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub backup_policy: Option<String>,
    /// The part that files leave to snapshots, in percent of the capacity: 0 if left out. Volumes of Azure NetApp Files and
    /// Filestore have none.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u8", range(max = SNAP_RESERVE_MAX))]
    pub snap_reserve: Option<u8>,
    /// Export rules; the provider's default policy if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Rule>", length(max = RULES_MAX))]
    pub rules: Option<Vec<Rule>>,
    /// Addresses that serve it in addition to the service's own address; none if left out. An address that the machine lacks
    /// causes a warning. It works as soon as the machine has it.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "endpoints_schema")]
    pub endpoints: Option<Vec<String>>,
    /// Your own keys and values.
    #[serde(default)]
    #[schemars(schema_with = "super::labels")]
    pub labels: Labels,
}

/// Changes of a volume. Omitted properties keep their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumePatch {
    /// New pool, possibly of another level.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub pool: Option<String>,
    /// New size.
    #[serde(default, deserialize_with = "super::present_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub size_bytes: Option<u64>,
    /// New last part of the path. Existing mounts continue to work.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub share: Option<String>,
    /// New level of its own; `null` selects the level of its pool.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LevelName>")]
    pub level: Option<Option<LevelName>>,
    /// New settings; `null` unsets one.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "VolumeSettings")]
    pub settings: Option<Merge<VolumeSettings>>,
    /// New list of protocols.
    #[serde(
        default,
        deserialize_with = "super::words::present_protocols",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Vec<Protocol>", length(min = 1, max = PROTOCOLS_MAX), extend("uniqueItems" = true))]
    pub protocols: Option<Vec<Protocol>>,
    /// New settings as an SMB share; `null` restores a default.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SmbSettings")]
    pub smb: Option<Merge<SmbSettings>>,
    /// New mode and owner of the root directory.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Root")]
    pub root: Option<Root>,
    /// New access of clients to the directories of snapshots.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SnapshotDirectory")]
    pub snapshot_directory: Option<SnapshotDirectory>,
    /// New policy that makes its snapshots; `null` removes it, and its snapshots stay.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(min = 1, max = 255), regex(pattern = NAME))]
    pub policy: Option<Option<String>>,
    /// New policy that makes its backups; `null` removes it, and its backups stay.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(min = 1, max = 255), regex(pattern = NAME))]
    pub backup_policy: Option<Option<String>>,
    /// New part that files leave to snapshots, in percent of the capacity.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u8", range(max = SNAP_RESERVE_MAX))]
    pub snap_reserve: Option<u8>,
    /// New list of rules.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Rule>", length(max = RULES_MAX))]
    pub rules: Option<Vec<Rule>>,
    /// New list of endpoints.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "endpoints_schema")]
    pub endpoints: Option<Vec<String>>,
    /// New labels; `null` removes one.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelsPatch")]
    pub labels: Option<LabelsPatch>,
}

/// Mode and owner of a root directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// Mode bits, in octal.
    #[schemars(regex(pattern = "^[0-7]{3,4}$"), example = &"0755")]
    pub mode: String,
    /// Owner.
    #[schemars(range(max = super::ID_MAX))]
    pub uid: u32,
    /// Group.
    #[schemars(range(max = super::ID_MAX))]
    pub gid: u32,
}

impl NewVolume {
    /// A volume with nothing set but what it must have.
    pub fn new(name: impl Into<String>, pool: impl Into<String>, size_bytes: u64) -> Self {
        Self {
            name: name.into(),
            pool: pool.into(),
            size_bytes,
            share: None,
            level: None,
            settings: VolumeSettings::default(),
            protocols: None,
            smb: None,
            root: None,
            durability: None,
            security_style: None,
            snapshot_directory: None,
            policy: None,
            backup_policy: None,
            snap_reserve: None,
            rules: None,
            endpoints: None,
            labels: Labels::new(),
        }
    }
}

fn endpoints_schema(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "items": { "type": "string", "pattern": "^[0-9A-Fa-f.:]+$", "maxLength": 45 },
        "maxItems": ENDPOINTS_MAX,
        "uniqueItems": true,
        "example": ["10.1.0.5", "10.1.0.6"]
    })
}
