//! Settings of pools and volumes, as far as the level permits them.

use super::{Ceilings, ProfileName, Qos, ShapeName};
use crate::json;
use envelope::{BytesPerSecond, ProvisionedIops};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::marker::PhantomData;

/// Settings of a pool. The service refuses settings that the level does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    /// The source of volumes' throughput; the level's default if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// The throughput bought (ANF Flexible, GCNV Flex with custom performance); the least there is if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_bytes_per_second: Option<u64>,
    /// The operations bought, whatever the capacity (GCNV Flex and Filestore with custom performance).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<u64>,
    /// The operations bought for each TiB of capacity. Not together with `operations_per_second`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_second_per_tib: Option<u64>,
    /// Whether cool access (ANF) or auto-tiering (GCNV) is on; neither can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiering: Option<bool>,
    /// The pool's own limits (`plimsoll/custom`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<Declared>,
    /// A variant of the level's figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
}

/// Settings of a volume. The service refuses settings that the level does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSettings {
    /// The volume's part of the pool's throughput: needed with manual QoS, refused with auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_bytes_per_second: Option<u64>,
    /// Whether it is a large volume, which cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large: Option<bool>,
    /// The volume's own limits (`plimsoll/custom`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<Declared>,
    /// A variant of the level's figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
    /// A published curve that it also follows, at any level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shaping>,
}

/// Custom limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// For all clients together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Ceilings>,
    /// For each client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_client: Option<Ceilings>,
    /// The maximum number of clients. Shown, not enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients_max: Option<u32>,
}

/// A published curve that a volume follows, scaled as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shaping {
    /// The curve.
    pub name: ShapeName,
    /// The scale in thousandths: 1000 as published, 250 a quarter.
    #[serde(default = "as_published", deserialize_with = "super::positive")]
    #[schemars(range(min = 1))]
    pub scale_thousandths: u32,
}

fn as_published() -> u32 {
    1000
}

/// A change of some properties of a `T` (RFC 7396): what is there is set, `null` unsets, what is left out stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Merge<T> {
    patch: Value,
    #[serde(skip)]
    of: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> Merge<T> {
    /// Sets the properties that are set in `to`.
    pub fn set(to: &T) -> Self {
        // What has only names as keys can be written.
        let patch = serde_json::to_value(to).unwrap_or_else(|_| Value::Object(Map::new()));
        Self { patch, of: PhantomData }
    }

    /// And unsets this one.
    #[must_use]
    pub fn unset(mut self, property: &str) -> Self {
        if let Value::Object(map) = &mut self.patch {
            map.insert(property.to_owned(), Value::Null);
        }
        self
    }

    /// Returns `now` after the change.
    pub fn applied(&self, now: &T) -> Result<T, json::Error> {
        let mut merged = serde_json::to_value(now).map_err(serde::de::Error::custom)?;
        merge(&mut merged, &self.patch);
        json::from_value(merged)
    }
}

/// `MergePatch` of RFC 7396 §2.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Merge<T> {
    /// A change that would not be a `T` by itself is none: it would name unknown properties.
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let patch = Value::Object(Map::deserialize(from)?);
        json::from_value::<T>(patch.clone()).map_err(|error| serde::de::Error::custom(error.nested()))?;
        Ok(Self { patch, of: PhantomData })
    }
}

impl From<&envelope::PoolSettings> for PoolSettings {
    fn from(of: &envelope::PoolSettings) -> Self {
        let (fixed, each) = match of.iops {
            None => (None, None),
            Some(ProvisionedIops::Fixed(iops)) => (Some(iops.0), None),
            Some(ProvisionedIops::PerTib(iops)) => (None, Some(iops.0)),
        };
        Self {
            qos: of.qos.map(Into::into),
            throughput_bytes_per_second: of.throughput.map(|rate| rate.0),
            operations_per_second: fixed,
            operations_per_second_per_tib: each,
            tiering: of.tiering.then_some(true),
            declared: Declared::of(&of.declared),
            profile: of.profile.map(ProfileName),
        }
    }
}

impl From<VolumeSettings> for envelope::VolumeSettings {
    fn from(of: VolumeSettings) -> Self {
        Self {
            throughput: of.throughput_bytes_per_second.map(BytesPerSecond),
            large: of.large.unwrap_or_default(),
            declared: of.declared.unwrap_or_default().into(),
            profile: of.profile.map(|name| name.0),
            shape: of.shape.map(Into::into),
        }
    }
}

impl From<&envelope::VolumeSettings> for VolumeSettings {
    fn from(of: &envelope::VolumeSettings) -> Self {
        Self {
            throughput_bytes_per_second: of.throughput.map(|rate| rate.0),
            large: of.large.then_some(true),
            declared: Declared::of(&of.declared),
            profile: of.profile.map(ProfileName),
            shape: of.shape.map(Shaping::from),
        }
    }
}

impl Declared {
    fn of(of: &envelope::Declared) -> Option<Self> {
        let some = |ceilings: envelope::Ceilings| {
            (ceilings != envelope::Ceilings::default()).then(|| Ceilings::from(ceilings))
        };
        (*of != envelope::Declared::default()).then(|| Self {
            total: some(of.total),
            per_client: some(of.per_client),
            clients_max: of.clients_max,
        })
    }
}

impl From<Declared> for envelope::Declared {
    fn from(of: Declared) -> Self {
        Self {
            total: of.total.unwrap_or_default().into(),
            per_client: of.per_client.unwrap_or_default().into(),
            clients_max: of.clients_max,
        }
    }
}

impl From<envelope::Shaping> for Shaping {
    fn from(of: envelope::Shaping) -> Self {
        Self { name: ShapeName(of.shape), scale_thousandths: of.scale_thousandths }
    }
}

impl From<Shaping> for envelope::Shaping {
    fn from(of: Shaping) -> Self {
        Self { shape: of.name.0, scale_thousandths: of.scale_thousandths }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merging_is_that_of_rfc_7396() {
        // Appendix A.
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, &patch);
            assert_eq!(merged, result, "{target} with {patch}");
        }
    }

    #[test]
    fn settings_are_changed_one_by_one() {
        let now =
            VolumeSettings { throughput_bytes_per_second: Some(5), large: Some(true), ..Default::default() };
        let more = VolumeSettings { throughput_bytes_per_second: Some(7), ..VolumeSettings::default() };
        let change = Merge::set(&more).unset("large");
        let changed = change.applied(&now).unwrap();
        assert_eq!(changed, VolumeSettings { throughput_bytes_per_second: Some(7), ..Default::default() });
        assert!(serde_json::from_value::<Merge<VolumeSettings>>(json!({"larger": true})).is_err());
    }
}
