//! Volumes: what clients mount.

use crate::kind::State;
use crate::name::{Labels, PoolName, ShareName, VolumeName};
use crate::protocol::Protocols;
use crate::rule::{Access, ExportRule};
use crate::smb::SmbSettings;
use envelope::{Bytes, Level, VolumeSettings};
use std::net::IpAddr;
use vfs::{Durability, Root, SecurityStyle, VolumeId};

#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Part of every file handle.
    pub id: VolumeId,
    pub name: VolumeName,
    /// The path that clients mount, without the `/`.
    pub share: ShareName,
    /// The pool whose capacity it takes.
    pub pool: PoolName,
    pub(crate) pool_row: i64,
    /// Service level, if its pool leaves the level to it.
    pub level: Option<Level>,
    /// Capacity.
    pub size: Bytes,
    /// The least that it ever could hold: large volumes of ANF grow from there.
    pub(crate) size_lowest: Bytes,
    /// Settings that its level permits: throughput, a shape, whether it is large.
    pub settings: VolumeSettings,
    /// Over which protocols it is served.
    pub protocols: Protocols,
    /// Settings as an SMB share.
    pub smb: SmbSettings,
    /// Mode and owner its root directory was given; clients may have changed them since.
    pub root: Root,
    /// Whether the root directory is still to be given them.
    pub(crate) root_due: bool,
    /// Durability of acknowledged changes.
    pub durability: Durability,
    /// The permissions that decide about access to its files.
    pub security_style: SecurityStyle,
    /// Export rules; the first rule that matches decides.
    pub rules: Vec<ExportRule>,
    /// Addresses at which it is served besides the service's own.
    pub endpoints: Vec<IpAddr>,
    /// Text attached to it.
    pub labels: Labels,
    /// Whether it is there.
    pub state: State,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it was last changed.
    pub changed_ms: u64,
}

/// A volume to create. `None` leaves a property open: the default for a new volume, any value
/// it is for one that is there already.
#[derive(Clone, Debug, PartialEq)]
pub struct NewVolume {
    pub name: VolumeName,
    /// The pool whose capacity it takes.
    pub pool: PoolName,
    /// Capacity.
    pub size: Bytes,
    /// The path that clients mount, without the `/`; by default its name.
    pub share: Option<ShareName>,
    /// Service level, in pools that leave the level to their volumes.
    pub level: Option<Level>,
    /// Settings that its level permits.
    pub settings: VolumeSettings,
    /// Over which protocols it is served; by default NFSv3.
    pub protocols: Option<Protocols>,
    /// Settings as an SMB share; by default [`SmbSettings::default`].
    pub smb: Option<SmbSettings>,
    /// Mode and owner of its root directory; by default [`crate::default_root`].
    pub root: Option<Root>,
    /// Durability of acknowledged changes; by default [`Durability::Sync`]. It never changes.
    pub durability: Option<Durability>,
    /// The permissions that decide about access to its files; by default mode bits. It never changes.
    pub security_style: Option<SecurityStyle>,
    /// Export rules; by default the provider's default policy.
    pub rules: Option<Vec<ExportRule>>,
    /// Addresses at which it is served besides the service's own; by default none.
    pub endpoints: Option<Vec<IpAddr>>,
    /// Text attached to it.
    pub labels: Labels,
}

/// Changes of a volume; `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeChange {
    /// Another pool, perhaps of another level.
    pub pool: Option<PoolName>,
    /// Another size.
    pub size: Option<Bytes>,
    /// Another path.
    pub share: Option<ShareName>,
    /// Another level of its own; `Some(None)` for that of its pool.
    pub level: Option<Option<Level>>,
    /// Other settings, all of them.
    pub settings: Option<VolumeSettings>,
    /// Other protocols, all of them.
    pub protocols: Option<Protocols>,
    /// Other settings as a share, all of them.
    pub smb: Option<SmbSettings>,
    /// Another mode and owner of the root directory.
    pub root: Option<Root>,
    /// Other rules, all of them.
    pub rules: Option<Vec<ExportRule>>,
    /// Other endpoints, all of them.
    pub endpoints: Option<Vec<IpAddr>>,
    /// Other labels, all of them.
    pub labels: Option<Labels>,
}

impl Volume {
    /// The protocols over which it can be mounted: its own as far as they are `served` and any of its rules allows them.
    /// Without rules nobody may mount it yet, and they are those that rules to come may allow.
    pub fn mountable(&self, served: Protocols) -> Protocols {
        let lets_in = |rule: &&ExportRule| rule.access != Access::NoAccess;
        let allowed = self.rules.iter().filter(lets_in).flat_map(|rule| rule.protocols.iter()).collect();
        let allowed = if self.rules.is_empty() { Protocols::ALL } else { allowed };
        self.protocols.and(served).and(allowed)
    }
}

impl NewVolume {
    /// A volume with nothing set but what it must have.
    pub fn new(name: VolumeName, pool: PoolName, size: Bytes) -> Self {
        Self {
            name,
            pool,
            size,
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

    /// The properties in which `volume` is another. What is left open is not compared.
    pub(crate) fn differs_from(&self, volume: &Volume) -> Vec<&'static str> {
        fn other<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_some_and(|wanted| wanted != found)
        }
        those([
            ("pool", self.pool != volume.pool),
            ("size", self.size != volume.size),
            ("share", other(self.share.as_ref(), &volume.share)),
            ("level", self.level != volume.level),
            ("settings", self.settings != volume.settings),
            ("protocols", other(self.protocols.as_ref(), &volume.protocols)),
            ("smb", other(self.smb.as_ref(), &volume.smb)),
            ("root", other(self.root.as_ref(), &volume.root)),
            ("durability", other(self.durability.as_ref(), &volume.durability)),
            ("security style", other(self.security_style.as_ref(), &volume.security_style)),
            ("rules", other(self.rules.as_ref(), &volume.rules)),
            ("endpoints", other(self.endpoints.as_ref(), &volume.endpoints)),
            ("labels", self.labels != volume.labels),
        ])
    }
}

/// Addresses in words.
fn listed(addresses: &[IpAddr]) -> String {
    if addresses.is_empty() {
        return "none".to_owned();
    }
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The names of what is so.
pub(crate) fn those<const N: usize>(named: [(&'static str, bool); N]) -> Vec<&'static str> {
    named.into_iter().filter(|(_, is_so)| *is_so).map(|(name, _)| name).collect()
}

impl Volume {
    /// Returns the form that the catalog of levels knows.
    pub(crate) fn declared(&self) -> envelope::Volume {
        envelope::Volume { size: self.size, settings: self.settings.clone() }
    }

    /// The path that clients mount.
    pub fn path(&self) -> String {
        format!("/{}", self.share)
    }

    /// Returns the volume after `change`, except for its pool, and the changed properties in words.
    pub(crate) fn changed(&self, change: &VolumeChange) -> (Self, Vec<String>) {
        fn new<T: Clone>(wanted: Option<&T>, now: &T) -> T {
            wanted.unwrap_or(now).clone()
        }
        let volume = Self {
            size: new(change.size.as_ref(), &self.size),
            size_lowest: change.size.map_or(self.size_lowest, |size| size.min(self.size_lowest)),
            share: new(change.share.as_ref(), &self.share),
            level: new(change.level.as_ref(), &self.level),
            settings: new(change.settings.as_ref(), &self.settings),
            protocols: new(change.protocols.as_ref(), &self.protocols),
            smb: new(change.smb.as_ref(), &self.smb),
            root: new(change.root.as_ref(), &self.root),
            // A wish for the mode it was given is a wish too: clients may have changed it since.
            root_due: change.root.is_some(),
            rules: new(change.rules.as_ref(), &self.rules),
            endpoints: new(change.endpoints.as_ref(), &self.endpoints),
            labels: new(change.labels.as_ref(), &self.labels),
            ..self.clone()
        };
        let mut changes = Vec::new();
        if let Some(pool) = change.pool.as_ref().filter(|&pool| *pool != self.pool) {
            changes.push(format!("pool {} → {pool}", self.pool));
        }
        if volume.size != self.size {
            changes.push(format!("size {} → {}", self.size, volume.size));
        }
        if volume.share != self.share {
            changes.push(format!("share {} → {}", self.share, volume.share));
        }
        if volume.protocols != self.protocols {
            changes.push(format!("protocols {} → {}", self.protocols, volume.protocols));
        }
        if volume.smb != self.smb {
            let words = |of: SmbSettings| {
                if of == SmbSettings::default() { "default".to_owned() } else { of.to_string() }
            };
            changes.push(format!("smb {} → {}", words(self.smb), words(volume.smb)));
        }
        if volume.root_due {
            changes.push(format!("root {:o} {}:{}", volume.root.mode, volume.root.uid, volume.root.gid));
        }
        if volume.endpoints != self.endpoints {
            changes.push(format!("endpoints {} → {}", listed(&self.endpoints), listed(&volume.endpoints)));
        }
        let others = those([
            ("level", volume.level != self.level),
            ("settings", volume.settings != self.settings),
            ("rules", volume.rules != self.rules),
            ("labels", volume.labels != self.labels),
        ]);
        changes.extend(others.into_iter().map(str::to_owned));
        (volume, changes)
    }
}
