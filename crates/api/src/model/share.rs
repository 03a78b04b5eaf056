//! What holds for a volume as a share of SMB.

use control::{SmbAssignment, SmbSettings as Stored};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vfs::ShareSettings;

/// What holds for a volume as a share of SMB. What is left out is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmbSettings {
    /// Whether messages must be encrypted; by default no. Clients that cannot are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<bool>,
    /// Whether messages must be signed, or encrypted instead; by default yes. Without it, clients that do not ask for
    /// signatures themselves get none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<bool>,
    /// Whether messages are compressed, with clients that can; by default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<bool>,
    /// Whether it is listed among the shares; by default yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browsable: Option<bool>,
    /// Whether listings leave out what a user may not read; by default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_based_enumeration: Option<bool>,
    /// Whether what clients have open survives a restart of the service; by default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuously_available: Option<bool>,
    /// Whether clients may cache files by oplocks and leases; by default yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oplocks: Option<bool>,
    /// Whether clients can be told what changes in a directory; by default yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_notify: Option<bool>,
}

impl FromIterator<SmbAssignment> for SmbSettings {
    /// Those that are assigned; the last one of a name holds.
    fn from_iter<I: IntoIterator<Item = SmbAssignment>>(assigned: I) -> Self {
        let property = |one: SmbAssignment| (one.setting.name.replace('-', "_"), Value::Bool(one.is_on));
        // The properties are named like the settings.
        serde_json::from_value(Value::Object(assigned.into_iter().map(property).collect()))
            .unwrap_or_default()
    }
}

impl From<Stored> for SmbSettings {
    fn from(Stored(of): Stored) -> Self {
        Self {
            encryption: Some(of.encryption),
            signing: Some(of.signing),
            compression: Some(of.compression),
            browsable: Some(of.browsable),
            access_based_enumeration: Some(of.access_based_enumeration),
            continuously_available: Some(of.continuously_available),
            oplocks: Some(of.oplocks),
            change_notify: Some(of.change_notify),
        }
    }
}

impl From<SmbSettings> for Stored {
    fn from(of: SmbSettings) -> Self {
        let default = ShareSettings::default();
        Self(ShareSettings {
            encryption: of.encryption.unwrap_or(default.encryption),
            signing: of.signing.unwrap_or(default.signing),
            compression: of.compression.unwrap_or(default.compression),
            browsable: of.browsable.unwrap_or(default.browsable),
            access_based_enumeration: of.access_based_enumeration.unwrap_or(default.access_based_enumeration),
            continuously_available: of.continuously_available.unwrap_or(default.continuously_available),
            oplocks: of.oplocks.unwrap_or(default.oplocks),
            change_notify: of.change_notify.unwrap_or(default.change_notify),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_a_property() {
        let mut settings = ShareSettings::default();
        let others: Vec<SmbAssignment> = control::SMB_SETTINGS
            .iter()
            .map(|setting| SmbAssignment { setting, is_on: !setting.is_on(settings) })
            .collect();
        others.iter().for_each(|other| other.apply(&mut settings));
        let assigned: SmbSettings = others.into_iter().collect();
        assert_eq!(assigned, Stored(settings).into());
        assert_eq!(Stored::from(assigned), Stored(settings));
        assert_eq!(Stored::from(SmbSettings::default()), Stored::default());
    }
}
