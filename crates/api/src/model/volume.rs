//! Volumes.

use super::pool::{LabelsPatch, relabeled};
use super::words::words;
use super::{
    Labels, LevelName, Merge, NAME, Protocol, Rule, SmbSettings, Timestamp, VolumeSettings, protocols_of,
    to_protocols,
};
use control::{Error, ExportRule, VolumeChange};
use envelope::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

words! {
    /// What an acknowledgement of a change promises.
    Durability for vfs::Durability {
        /// It survives a power cut.
        Sync = "sync",
        /// It survives the end of the process; a power cut may take back the last seconds.
        Relaxed = "relaxed",
    }

    /// What decides who may do what with the files of a volume.
    SecurityStyle for vfs::SecurityStyle {
        /// Mode bits, owner and group, for every protocol.
        Unix = "unix",
        /// Access control lists as Windows has them, for every protocol. NFS shows mode bits, and does not change them.
        Ntfs = "ntfs",
    }

    /// How far a volume's last change is.
    State for control::State {
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
    #[schemars(with = "Vec<Protocol>", length(min = 1, max = control::PROTOCOLS_MAX), extend("uniqueItems" = true))]
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
    #[schemars(with = "Vec<Rule>", length(max = control::RULES_MAX))]
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
    #[schemars(with = "Vec<Protocol>", length(min = 1, max = control::PROTOCOLS_MAX), extend("uniqueItems" = true))]
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
    #[schemars(with = "Vec<Rule>", length(max = control::RULES_MAX))]
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

impl From<&control::Volume> for Volume {
    fn from(of: &control::Volume) -> Self {
        Self {
            name: of.name.to_string(),
            id: format!("{:016x}", of.id.0),
            pool: of.pool.to_string(),
            level: of.level.map(LevelName),
            size_bytes: of.size.0,
            share: of.share.to_string(),
            path: of.path(),
            settings: VolumeSettings::from(&of.settings),
            protocols: protocols_of(of.protocols),
            smb: of.smb.into(),
            root: Root { mode: format!("{:04o}", of.root.mode), uid: of.root.uid, gid: of.root.gid },
            durability: of.durability.into(),
            security_style: of.security_style.into(),
            rules: of.rules.iter().map(Rule::from).collect(),
            endpoints: of.endpoints.iter().map(ToString::to_string).collect(),
            labels: of.labels.clone(),
            state: of.state.into(),
            created: Timestamp::from_ms(of.created_ms),
            changed: Timestamp::from_ms(of.changed_ms),
        }
    }
}

impl TryFrom<&Root> for vfs::Root {
    type Error = Error;

    fn try_from(of: &Root) -> Result<Self, Error> {
        let is_octal =
            (3..=4).contains(&of.mode.len()) && of.mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        let mode = u32::from_str_radix(&of.mode, 8).ok().filter(|_| is_octal);
        let bad = || Error::Invalid {
            what: format!("the mode {:?} of a root directory", of.mode),
            allowed: "three or four octal digits, as in 0755".to_owned(),
        };
        Ok(Self { mode: mode.ok_or_else(bad)?, uid: of.uid, gid: of.gid })
    }
}

/// Rules as management has them.
pub(crate) fn to_rules(rules: &[Rule]) -> Result<Vec<ExportRule>, Error> {
    rules.iter().cloned().map(ExportRule::try_from).collect()
}

/// Endpoints as management has them.
fn to_endpoints(texts: &[String]) -> Result<Vec<IpAddr>, Error> {
    let address = |text: &String| {
        text.parse().map_err(|_| Error::Invalid {
            what: format!("the endpoint {text:?}"),
            allowed: "an address, as in 10.1.0.5 or 2001:db8::5".to_owned(),
        })
    };
    texts.iter().map(address).collect()
}

fn endpoints_schema(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "items": { "type": "string", "pattern": "^[0-9A-Fa-f.:]+$", "maxLength": 45 },
        "maxItems": control::ENDPOINTS_MAX,
        "uniqueItems": true,
        "example": ["10.1.0.5", "10.1.0.6"]
    })
}

impl TryFrom<NewVolume> for control::NewVolume {
    type Error = Error;

    fn try_from(of: NewVolume) -> Result<Self, Error> {
        Ok(Self {
            name: of.name.parse()?,
            pool: of.pool.parse()?,
            size: Bytes(of.size_bytes),
            share: of.share.map(|share| share.parse()).transpose()?,
            level: of.level.map(|level| level.0),
            settings: of.settings.into(),
            protocols: of.protocols.map(|protocols| to_protocols(&protocols)),
            smb: of.smb.map(TryInto::try_into).transpose()?,
            root: of.root.as_ref().map(vfs::Root::try_from).transpose()?,
            durability: of.durability.map(Into::into),
            security_style: of.security_style.map(Into::into),
            rules: of.rules.as_deref().map(to_rules).transpose()?,
            endpoints: of.endpoints.as_deref().map(to_endpoints).transpose()?,
            labels: of.labels,
        })
    }
}

impl VolumePatch {
    /// The change that this is of a volume as it is now.
    pub(crate) fn change(&self, now: &control::Volume) -> Result<VolumeChange, Error> {
        let merge = |patch: &Merge<VolumeSettings>| {
            patch.applied(&VolumeSettings::from(&now.settings)).map(envelope::VolumeSettings::from)
        };
        let shared = |patch: &Merge<SmbSettings>| patch.applied(&now.smb.into())?.try_into();
        Ok(VolumeChange {
            pool: self.pool.as_ref().map(|pool| pool.parse()).transpose()?,
            size: self.size_bytes.map(Bytes),
            share: self.share.as_ref().map(|share| share.parse()).transpose()?,
            level: self.level.map(|level| level.map(|level| level.0)),
            settings: self.settings.as_ref().map(merge).transpose()?,
            protocols: self.protocols.as_deref().map(to_protocols),
            smb: self.smb.as_ref().map(shared).transpose()?,
            root: self.root.as_ref().map(vfs::Root::try_from).transpose()?,
            rules: self.rules.as_deref().map(to_rules).transpose()?,
            endpoints: self.endpoints.as_deref().map(to_endpoints).transpose()?,
            labels: self.labels.as_ref().map(|patch| relabeled(&now.labels, patch)),
        })
    }
}
