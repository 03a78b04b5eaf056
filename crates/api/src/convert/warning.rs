//! Warnings.

use super::ToBody;
use api_client::model::Warning;

impl ToBody for control::Warning {
    type Body = Warning;

    fn to_body(&self) -> Warning {
        let (kind, pool, volume) = match self {
            Self::DiskFull => ("disk-full", None, None),
            Self::OverDisk { .. } => ("over-disk", None, None),
            Self::OverPool { pool, .. } => ("over-pool", Some(pool), None),
            Self::OrphanedStorage { .. } => ("stray", None, None),
            Self::NotOpened { volume, .. } => ("not-opened", None, Some(volume)),
            Self::NotCounted { volume, .. } => ("not-counted", None, Some(volume)),
            Self::StraySnapshot { volume, .. } => ("stray-snapshot", None, Some(volume)),
            Self::LostSnapshot { volume, .. } => ("lost-snapshot", None, Some(volume)),
            Self::SnapshotsNotRead { volume, .. } => ("snapshots-not-read", None, Some(volume)),
            Self::Unfinished { volume, .. } => ("unfinished", None, Some(volume)),
            Self::NoRules { volume } => ("no-rules", None, Some(volume)),
            Self::NotServed { volume, .. } => ("not-served", None, Some(volume)),
            Self::Unprotected { volume, .. } => ("unprotected", None, Some(volume)),
            Self::HiddenRule { volume, .. } => ("hidden-rule", None, Some(volume)),
            Self::VolumeFull { volume } => ("volume-full", None, Some(volume)),
            Self::Defects { .. } => ("defects", None, None),
            Self::EndpointDown { volume, .. } => ("endpoint-down", None, Some(volume)),
            Self::UnreadablePasswords { .. } => ("locked-out", None, None),
            Self::UnknownHost { volume, .. } => ("unknown-host", None, Some(volume)),
        };
        Warning {
            kind: kind.to_owned(),
            text: self.to_string(),
            pool: pool.map(ToString::to_string),
            volume: volume.map(ToString::to_string),
        }
    }
}
