//! Volumes.

use super::pool::LabelsPatch;
use super::words::words;
use super::{
    ENDPOINTS_MAX, Labels, LevelName, Merge, NAME, PROTOCOLS_MAX, Protocol, RULES_MAX, Rule, SmbSettings,
    Timestamp, VolumeSettings,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

words! {
    /// What an acknowledgement of a change promises.
    Durability {
        /// It survives a power cut.
        Sync = "sync",
        /// It survives the end of the process; a power cut may take back the last seconds.
        Relaxed = "relaxed",
    }

    /// What decides who may do what with the files of a volume.
    SecurityStyle {
        /// Mode bits, owner and group, for every protocol.
        Unix = "unix",
        /// Access control lists as Windows has them, for every protocol. NFS shows mode bits, and does not change them.
        Ntfs = "ntfs",
    }

    /// How far a volume's last change is.
    State {
        /// Its storage is being made.
        Creating = "creating",
        /// It is there, and as described.
        Ready = "ready",
        /// It is there; its storage is being changed.
        Updating = "updating",
        /// Its storage is being removed.
        Deleting = "deleting",
    }
}

/// What clients mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its number, in hexadecimal: part of every file handle.
    pub id: String,
    /// The pool whose capacity it takes.
    pub pool: String,
    /// Its service level, if its pool leaves that to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelName>,
    /// What it may hold.
    pub size_bytes: u64,
    /// The last part of its path.
    pub share: String,
    /// The path that clients mount.
    pub path: String,
    /// What is set of what its level lets be set.
    pub settings: VolumeSettings,
    /// Over which protocols it is served.
    pub protocols: Vec<Protocol>,
    /// What holds for it as a share of SMB.
    pub smb: SmbSettings,
    /// Mode and owner that its root directory was given.
    pub root: Root,
    /// What its acknowledgements promise.
    pub durability: Durability,
    /// What decides who may do what with its files.
    pub security_style: SecurityStyle,
    /// Who may mount it; the first rule that matches decides.
    pub rules: Vec<Rule>,
    /// Addresses at which it is served besides the service's own.
    pub endpoints: Vec<String>,
    /// Text attached to it.
    pub labels: Labels,
    /// How far its last change is.
    pub state: State,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last changed.
    pub changed: Timestamp,
}

/// What a new volume shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Its name.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"tools")]
    pub name: String,
    /// The pool whose capacity it takes.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"engineering")]
    pub pool: String,
    /// What it may hold.
    #[serde(deserialize_with = "super::positive")]
    #[schemars(range(min = 1), example = 1_099_511_627_776_u64)]
    pub size_bytes: u64,
    /// The last part of the path that clients mount; its name if left out.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub share: Option<String>,
    /// Its service level, in pools that leave that to their volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelName>,
    /// What is set of what its level lets be set.
    #[serde(default)]
    pub settings: VolumeSettings,
    /// Over which protocols it is served; NFSv3 if left out. One that the service does not serve is refused.
    #[serde(
        default,
        deserialize_with = "super::words::given_protocols",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Vec<Protocol>", length(min = 1, max = PROTOCOLS_MAX), extend("uniqueItems" = true))]
    pub protocols: Option<Vec<Protocol>>,
    /// What holds for it as a share of SMB; the defaults if left out.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SmbSettings")]
    pub smb: Option<SmbSettings>,
    /// Mode and owner of its root directory. If left out, that of root, with its provider's mode: 0770 at the levels of Azure
    /// NetApp Files and Google Cloud NetApp Volumes, 0755 at those of Filestore and of Plimsoll.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Root")]
    pub root: Option<Root>,
    /// What its acknowledgements promise: `sync` if left out. It never changes.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Durability")]
    pub durability: Option<Durability>,
    /// What decides who may do what with its files: `unix` if left out. `ntfs` needs SMB among its protocols. It never changes.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecurityStyle")]
    pub security_style: Option<SecurityStyle>,
    /// Who may mount it; what its provider does without a policy if left out.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Rule>", length(max = RULES_MAX))]
    pub rules: Option<Vec<Rule>>,
    /// Addresses at which it is served besides the service's own, where all volumes are; none if left out. One that this
    /// machine does not have is a warning, and served as soon as it has.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "endpoints_schema")]
    pub endpoints: Option<Vec<String>>,
    /// Text attached to it.
    #[serde(default)]
    #[schemars(schema_with = "super::labels")]
    pub labels: Labels,
}

/// What shall be different in a volume. What is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumePatch {
    /// Another pool, perhaps of another level.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub pool: Option<String>,
    /// Another size.
    #[serde(default, deserialize_with = "super::given_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub size_bytes: Option<u64>,
    /// Another last part of the path. Clients keep what they have mounted.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub share: Option<String>,
    /// Another level of its own; `null` for that of its pool.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LevelName>")]
    pub level: Option<Option<LevelName>>,
    /// Other settings; `null` unsets one.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "VolumeSettings")]
    pub settings: Option<Merge<VolumeSettings>>,
    /// Other protocols, all of them.
    #[serde(
        default,
        deserialize_with = "super::words::given_protocols",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Vec<Protocol>", length(min = 1, max = PROTOCOLS_MAX), extend("uniqueItems" = true))]
    pub protocols: Option<Vec<Protocol>>,
    /// Other settings as a share of SMB; `null` makes one the default.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SmbSettings")]
    pub smb: Option<Merge<SmbSettings>>,
    /// Another mode and owner of the root directory.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Root")]
    pub root: Option<Root>,
    /// Other rules, all of them.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Rule>", length(max = RULES_MAX))]
    pub rules: Option<Vec<Rule>>,
    /// Other endpoints, all of them.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "endpoints_schema")]
    pub endpoints: Option<Vec<String>>,
    /// Other labels; `null` removes one.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
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
