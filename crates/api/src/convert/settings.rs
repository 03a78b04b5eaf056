//! Settings of pools and volumes.

use super::FromBody;
use api_client::model::{Merge, PoolSettings};
use control::Error;
use envelope::{BytesPerSecond, Iops, ProvisionedIops};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The settings after a change of `now`.
pub(super) fn merged<T: Serialize + DeserializeOwned>(patch: &Merge<T>, now: &T) -> Result<T, Error> {
    patch.applied(now).map_err(|error| Error::Invalid {
        what: format!("the settings after the change: {error}"),
        allowed: "consistent settings".to_owned(),
    })
}

impl FromBody<PoolSettings> for envelope::PoolSettings {
    fn from_body(of: PoolSettings) -> Result<Self, Error> {
        let iops = match (of.operations_per_second, of.operations_per_second_per_tib) {
            (None, None) => None,
            (Some(fixed), None) => Some(ProvisionedIops::Fixed(Iops(fixed))),
            (None, Some(each)) => Some(ProvisionedIops::PerTib(Iops(each))),
            (Some(_), Some(_)) => {
                return Err(Error::Invalid {
                    what: "both operations_per_second and operations_per_second_per_tib".to_owned(),
                    allowed: "one of them".to_owned(),
                });
            }
        };
        Ok(Self {
            qos: of.qos.map(Into::into),
            throughput: of.throughput_bytes_per_second.map(BytesPerSecond),
            iops,
            tiering: of.tiering.unwrap_or_default(),
            declared: of.declared.unwrap_or_default().into(),
            profile: of.profile.map(|name| name.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api_client::model::{Declared, Qos};

    #[test]
    fn settings_survive_the_way_there_and_back() {
        let pool = PoolSettings {
            qos: Some(Qos::Manual),
            operations_per_second_per_tib: Some(7),
            declared: Some(Declared { clients_max: Some(3), ..Declared::default() }),
            ..PoolSettings::default()
        };
        let inner = envelope::PoolSettings::from_body(pool.clone()).unwrap();
        assert_eq!(PoolSettings::from(&inner), pool);
        let both = PoolSettings { operations_per_second: Some(1), ..pool };
        assert!(envelope::PoolSettings::from_body(both).is_err());
    }
}
