//! Pools.

use super::settings::merged;
use super::{FromBody, ToBody, version_text};
use api_client::model::{
    Labels, LabelsPatch, LevelName, Merge, NewPool, Pool, PoolPatch, PoolSettings, Timestamp,
};
use control::{Error, PoolChange};
use envelope::Bytes;

impl ToBody for control::Pool {
    type Body = Pool;

    fn to_body(&self) -> Pool {
        Pool {
            name: self.name.to_string(),
            level: LevelName(self.level),
            size_bytes: self.size.0,
            settings: PoolSettings::from(&self.settings),
            labels: self.labels.clone(),
            created: Timestamp::from_ms(self.created_ms),
            changed: Timestamp::from_ms(self.changed_ms),
            version: version_text(self.version, self.created_ms),
        }
    }
}

impl FromBody<NewPool> for control::NewPool {
    fn from_body(of: NewPool) -> Result<Self, Error> {
        Ok(Self {
            name: of.name.parse()?,
            level: of.level.0,
            size: Bytes(of.size_bytes),
            settings: FromBody::from_body(of.settings)?,
            labels: of.labels,
        })
    }
}

/// The change that `patch` is of a pool as it is now.
pub(crate) fn pool_change(patch: &PoolPatch, now: &control::Pool) -> Result<PoolChange, Error> {
    let merge = |settings: &Merge<PoolSettings>| {
        envelope::PoolSettings::from_body(merged(settings, &PoolSettings::from(&now.settings))?)
    };
    Ok(PoolChange {
        level: patch.level.map(|level| level.0),
        size: patch.size_bytes.map(Bytes),
        settings: patch.settings.as_ref().map(merge).transpose()?,
        labels: patch.labels.as_ref().map(|labels| relabeled(&now.labels, labels)),
    })
}

/// The labels after a change.
pub(super) fn relabeled(now: &Labels, patch: &LabelsPatch) -> Labels {
    let mut labels = now.clone();
    for (key, value) in patch {
        match value {
            Some(value) => labels.insert(key.clone(), value.clone()),
            None => labels.remove(key),
        };
    }
    labels
}
