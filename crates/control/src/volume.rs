//! Volumes: what clients mount.

use crate::difference::{Difference, listed, option, variant};
use crate::kind::State;
use crate::name::{Labels, PolicyName, PoolName, ShareName, SnapshotName, VolumeName};
use crate::property_texts as texts;
use crate::protocol::Protocols;
use crate::rule::{Access, ExportRule};
use crate::smb::SmbSettings;
use crate::snapshot::{directory_word, full_name};
use envelope::{Bytes, Level, VolumeSettings};
use std::net::IpAddr;
use vfs::{Durability, Root, SecurityStyle, SnapshotDirectory, VolumeId};

#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Part of every file handle.
    pub id: VolumeId,
    pub name: VolumeName,
    /// The path that clients mount, without the `/`.
    pub share: ShareName,
    /// The pool that provides the capacity.
    pub pool: PoolName,
    pub(crate) pool_row: i64,
    /// Set only in pools that leave the level to their volumes.
    pub level: Option<Level>,
    pub size: Bytes,
    /// The smallest size since creation: large volumes of ANF grow from it.
    pub(crate) size_lowest: Bytes,
    /// Settings that its level permits: throughput, shape, large volume.
    pub settings: VolumeSettings,
    pub protocols: Protocols,
    pub smb: SmbSettings,
    /// Initial mode and owner of the root directory; clients may have changed them since.
    pub root: Root,
    /// Whether the storage still has to apply `root`.
    pub(crate) root_due: bool,
    pub durability: Durability,
    pub security_style: SecurityStyle,
    /// The access of clients to `.snapshot`.
    pub snapshot_directory: SnapshotDirectory,
    /// The policy that makes its snapshots.
    pub policy: Option<PolicyName>,
    /// The time of the last change of `policy`, in milliseconds since 1970.
    pub(crate) policy_since_ms: u64,
    /// The part that files leave to snapshots, in percent of the size.
    pub snap_reserve: u8,
    /// The snapshot that it was made from, with the names of then, as in `v1/s1`.
    pub clone_of: Option<String>,
    /// The policy that makes its backups.
    pub backup_policy: Option<PolicyName>,
    /// The time of the last change of `backup_policy`, in milliseconds since 1970.
    pub(crate) backup_policy_since_ms: u64,
    /// The first rule that matches decides.
    pub rules: Vec<ExportRule>,
    pub endpoints: Vec<IpAddr>,
    pub labels: Labels,
    pub state: State,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// In milliseconds since 1970.
    pub created_ms: u64,
    /// In milliseconds since 1970.
    pub changed_ms: u64,
}

/// A volume to create. `None` selects the default for a new volume and matches any value of an existing one.
#[derive(Clone, Debug, PartialEq)]
pub struct NewVolume {
    pub name: VolumeName,
    pub pool: PoolName,
    pub size: Bytes,
    /// The volume's name by default.
    pub share: Option<ShareName>,
    /// Only in pools that leave the level to their volumes.
    pub level: Option<Level>,
    pub settings: VolumeSettings,
    /// NFSv3 by default.
    pub protocols: Option<Protocols>,
    /// [`SmbSettings::default`] by default.
    pub smb: Option<SmbSettings>,
    /// [`crate::default_root`] by default.
    pub root: Option<Root>,
    /// [`Durability::Sync`] by default. It never changes.
    pub durability: Option<Durability>,
    /// Mode bits by default. It never changes.
    pub security_style: Option<SecurityStyle>,
    /// [`SnapshotDirectory::Reachable`] by default.
    pub snapshot_directory: Option<SnapshotDirectory>,
    /// None by default.
    pub policy: Option<PolicyName>,
    /// None by default.
    pub backup_policy: Option<PolicyName>,
    /// The part that files leave to snapshots, in percent of the size: 0 by default.
    pub snap_reserve: Option<u8>,
    /// The provider's default policy by default.
    pub rules: Option<Vec<ExportRule>>,
    pub endpoints: Option<Vec<IpAddr>>,
    pub labels: Labels,
}

/// A volume to make from a snapshot. It has the other properties of the snapshot's volume, but no policy.
#[derive(Clone, Debug, PartialEq)]
pub struct NewClone {
    pub source: VolumeName,
    pub snapshot: SnapshotName,
    pub name: VolumeName,
    /// The pool of the source by default.
    pub pool: Option<PoolName>,
    /// The greater of the source's sizes now and then by default. It cannot be less than that of then.
    pub size: Option<Bytes>,
    /// The volume's name by default.
    pub share: Option<ShareName>,
    pub labels: Labels,
}

/// Changes of a volume; `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeChange {
    pub pool: Option<PoolName>,
    pub size: Option<Bytes>,
    pub share: Option<ShareName>,
    /// `Some(None)` selects the pool's level.
    pub level: Option<Option<Level>>,
    /// Replaces all settings.
    pub settings: Option<VolumeSettings>,
    pub protocols: Option<Protocols>,
    /// Replaces all settings.
    pub smb: Option<SmbSettings>,
    pub root: Option<Root>,
    pub snapshot_directory: Option<SnapshotDirectory>,
    /// `Some(None)` removes it; its snapshots stay.
    pub policy: Option<Option<PolicyName>>,
    /// `Some(None)` removes it; its backups stay.
    pub backup_policy: Option<Option<PolicyName>>,
    /// The part that files leave to snapshots, in percent of the size.
    pub snap_reserve: Option<u8>,
    /// Replaces all rules.
    pub rules: Option<Vec<ExportRule>>,
    /// Replaces all endpoints.
    pub endpoints: Option<Vec<IpAddr>>,
    /// Replaces all labels.
    pub labels: Option<Labels>,
}

impl Volume {
    /// Protocols of the volume that this process serves and that at least one rule admits.
    /// A volume without rules has those that later rules may admit.
    pub fn mountable(&self, served: Protocols) -> Protocols {
        let lets_in = |rule: &&ExportRule| rule.access != Access::NoAccess;
        let allowed = self.rules.iter().filter(lets_in).flat_map(|rule| rule.protocols.iter()).collect();
        let allowed = if self.rules.is_empty() { Protocols::ALL } else { allowed };
        self.protocols.and(served).and(allowed)
    }
}

impl NewVolume {
    /// A volume with its required properties alone.
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
            snapshot_directory: None,
            policy: None,
            backup_policy: None,
            snap_reserve: None,
            rules: None,
            endpoints: None,
            labels: Labels::new(),
        }
    }

    /// Properties that differ from `volume`. Omitted properties are not compared.
    pub(crate) fn differs_from(&self, volume: &Volume) -> Vec<Difference> {
        let size = |size: &Bytes| size.for_people().to_string();
        let level = |level: &Option<Level>| option(level.as_ref());
        let rules = |rules: &Vec<ExportRule>| texts::rules(rules);
        let endpoints = |all: &Vec<IpAddr>| listed(all);
        let policy = |policy: &Option<PolicyName>| option(policy.as_ref());
        let differing = [
            Difference::of("pool", &volume.pool, &self.pool, ToString::to_string),
            Difference::of("size", &volume.size, &self.size, size),
            Difference::if_set("share", &volume.share, self.share.as_ref(), ToString::to_string),
            Difference::of("level", &volume.level, &self.level, level),
            Difference::of("settings", &volume.settings, &self.settings, texts::volume_settings),
            Difference::if_set("protocols", &volume.protocols, self.protocols.as_ref(), ToString::to_string),
            Difference::if_set("smb", &volume.smb, self.smb.as_ref(), ToString::to_string),
            Difference::if_set("root", &volume.root, self.root.as_ref(), texts::root),
            Difference::if_set("durability", &volume.durability, self.durability.as_ref(), variant),
            Difference::if_set(
                "security style",
                &volume.security_style,
                self.security_style.as_ref(),
                variant,
            ),
            Difference::if_set(
                "snapshot directory",
                &volume.snapshot_directory,
                self.snapshot_directory.as_ref(),
                |&directory| directory_word(directory).to_owned(),
            ),
            Difference::if_set("policy", &volume.policy, self.policy.as_ref().map(|_| &self.policy), policy),
            Difference::if_set(
                "backup policy",
                &volume.backup_policy,
                self.backup_policy.as_ref().map(|_| &self.backup_policy),
                policy,
            ),
            Difference::if_set("snap reserve", &volume.snap_reserve, self.snap_reserve.as_ref(), |percent| {
                format!("{percent} %")
            }),
            Difference::if_set("rules", &volume.rules, self.rules.as_ref(), rules),
            Difference::if_set("endpoints", &volume.endpoints, self.endpoints.as_ref(), endpoints),
            Difference::of("labels", &volume.labels, &self.labels, texts::labels),
        ];
        differing.into_iter().flatten().collect()
    }
}

impl NewClone {
    /// A clone with its required properties alone.
    pub fn new(source: VolumeName, snapshot: SnapshotName, name: VolumeName) -> Self {
        Self { source, snapshot, name, pool: None, size: None, share: None, labels: Labels::new() }
    }

    /// Properties that differ from `volume`. Omitted properties are not compared.
    pub(crate) fn differs_from(&self, volume: &Volume) -> Vec<Difference> {
        let from = Some(full_name(&self.source, &self.snapshot));
        let size = |size: &Bytes| size.for_people().to_string();
        let differing = [
            Difference::of("clone of", &volume.clone_of, &from, |from| option(from.as_ref())),
            Difference::if_set("pool", &volume.pool, self.pool.as_ref(), ToString::to_string),
            Difference::if_set("size", &volume.size, self.size.as_ref(), size),
            Difference::if_set("share", &volume.share, self.share.as_ref(), ToString::to_string),
            Difference::of("labels", &volume.labels, &self.labels, texts::labels),
        ];
        differing.into_iter().flatten().collect()
    }
}

impl Volume {
    /// Returns the form that the catalog of levels knows.
    pub(crate) fn declared(&self) -> envelope::Volume {
        envelope::Volume { size: self.size, settings: self.settings.clone() }
    }

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
            // Clients may have changed the mode since, so an equal mode is applied again.
            root_due: change.root.is_some(),
            snapshot_directory: new(change.snapshot_directory.as_ref(), &self.snapshot_directory),
            policy: new(change.policy.as_ref(), &self.policy),
            backup_policy: new(change.backup_policy.as_ref(), &self.backup_policy),
            snap_reserve: new(change.snap_reserve.as_ref(), &self.snap_reserve),
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
        if volume.snapshot_directory != self.snapshot_directory {
            let words = [self, &volume].map(|one| directory_word(one.snapshot_directory));
            changes.push(format!("snapshot directory {} → {}", words[0], words[1]));
        }
        if volume.endpoints != self.endpoints {
            changes.push(format!("endpoints {} → {}", listed(&self.endpoints), listed(&volume.endpoints)));
        }
        let policies = [
            ("policy", &self.policy, &volume.policy),
            ("backup policy", &self.backup_policy, &volume.backup_policy),
        ];
        for (what, before, after) in policies.into_iter().filter(|(_, before, after)| before != after) {
            changes.push(format!("{what} {} → {}", option(before.as_ref()), option(after.as_ref())));
        }
        if volume.snap_reserve != self.snap_reserve {
            changes.push(format!("snap reserve {} % → {} %", self.snap_reserve, volume.snap_reserve));
        }
        let others = [
            ("level", volume.level != self.level),
            ("settings", volume.settings != self.settings),
            ("rules", volume.rules != self.rules),
            ("labels", volume.labels != self.labels),
        ];
        let changed = others.into_iter().filter(|(_, is_changed)| *is_changed);
        changes.extend(changed.map(|(property, _)| property.to_owned()));
        (volume, changes)
    }
}
