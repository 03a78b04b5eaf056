//! Volumes.

use super::pool::relabeled;
use super::settings::merged;
use super::words::{protocols_of, to_protocols};
use super::{FromBody, ToBody, ToValue, version_text};
use api_client::model::{
    LevelName, Merge, NewVolume, Root, Rule, SmbSettings, Timestamp, Volume, VolumePatch, VolumeSettings,
};
use control::{Error, ExportRule, VolumeChange};
use envelope::Bytes;
use std::net::IpAddr;

impl ToBody for control::Volume {
    type Body = Volume;

    fn to_body(&self) -> Volume {
        Volume {
            name: self.name.to_string(),
            id: format!("{:016x}", self.id.0),
            pool: self.pool.to_string(),
            level: self.level.map(LevelName),
            size_bytes: self.size.0,
            share: self.share.to_string(),
            path: self.path(),
            settings: VolumeSettings::from(&self.settings),
            protocols: protocols_of(self.protocols),
            smb: self.smb.to_body(),
            root: Root { mode: format!("{:04o}", self.root.mode), uid: self.root.uid, gid: self.root.gid },
            durability: self.durability.to_body(),
            security_style: self.security_style.to_body(),
            snapshot_directory: self.snapshot_directory.to_body(),
            policy: self.policy.as_ref().map(ToString::to_string),
            snap_reserve: self.snap_reserve,
            clone_of: self.clone_of.clone(),
            backup_policy: self.backup_policy.as_ref().map(ToString::to_string),
            rules: self.rules.iter().map(ToBody::to_body).collect(),
            endpoints: self.endpoints.iter().map(ToString::to_string).collect(),
            labels: self.labels.clone(),
            state: self.state.to_body(),
            created: Timestamp::from_ms(self.created_ms),
            changed: Timestamp::from_ms(self.changed_ms),
            version: version_text(self.version, self.created_ms),
        }
    }
}

impl FromBody<&Root> for vfs::Root {
    fn from_body(of: &Root) -> Result<Self, Error> {
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

impl FromBody<NewVolume> for control::NewVolume {
    fn from_body(of: NewVolume) -> Result<Self, Error> {
        Ok(Self {
            name: of.name.parse()?,
            pool: of.pool.parse()?,
            size: Bytes(of.size_bytes),
            share: of.share.map(|share| share.parse()).transpose()?,
            level: of.level.map(|level| level.0),
            settings: of.settings.into(),
            protocols: of.protocols.map(|protocols| to_protocols(&protocols)),
            smb: of.smb.map(FromBody::from_body).transpose()?,
            root: of.root.as_ref().map(vfs::Root::from_body).transpose()?,
            durability: of.durability.map(ToValue::to_value),
            security_style: of.security_style.map(ToValue::to_value),
            snapshot_directory: of.snapshot_directory.map(ToValue::to_value),
            policy: of.policy.map(|policy| policy.parse()).transpose()?,
            backup_policy: of.backup_policy.map(|policy| policy.parse()).transpose()?,
            snap_reserve: of.snap_reserve,
            rules: of.rules.as_deref().map(to_rules).transpose()?,
            endpoints: of.endpoints.as_deref().map(to_endpoints).transpose()?,
            labels: of.labels,
        })
    }
}

/// The change that `patch` is of a volume as it is now.
pub(crate) fn volume_change(patch: &VolumePatch, now: &control::Volume) -> Result<VolumeChange, Error> {
    let merge = |settings: &Merge<VolumeSettings>| {
        merged(settings, &VolumeSettings::from(&now.settings)).map(envelope::VolumeSettings::from)
    };
    let shared = |smb: &Merge<SmbSettings>| FromBody::from_body(merged(smb, &now.smb.to_body())?);
    Ok(VolumeChange {
        pool: patch.pool.as_ref().map(|pool| pool.parse()).transpose()?,
        size: patch.size_bytes.map(Bytes),
        share: patch.share.as_ref().map(|share| share.parse()).transpose()?,
        level: patch.level.map(|level| level.map(|level| level.0)),
        settings: patch.settings.as_ref().map(merge).transpose()?,
        protocols: patch.protocols.as_deref().map(to_protocols),
        smb: patch.smb.as_ref().map(shared).transpose()?,
        root: patch.root.as_ref().map(vfs::Root::from_body).transpose()?,
        snapshot_directory: patch.snapshot_directory.map(ToValue::to_value),
        policy: patch
            .policy
            .as_ref()
            .map(|name| name.as_ref().map(|name| name.parse()).transpose())
            .transpose()?,
        backup_policy: patch
            .backup_policy
            .as_ref()
            .map(|name| name.as_ref().map(|name| name.parse()).transpose())
            .transpose()?,
        snap_reserve: patch.snap_reserve,
        rules: patch.rules.as_deref().map(to_rules).transpose()?,
        endpoints: patch.endpoints.as_deref().map(to_endpoints).transpose()?,
        labels: patch.labels.as_ref().map(|labels| relabeled(&now.labels, labels)),
    })
}

/// Rules as management has them.
pub(crate) fn to_rules(rules: &[Rule]) -> Result<Vec<ExportRule>, Error> {
    rules.iter().cloned().map(ExportRule::from_body).collect()
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
