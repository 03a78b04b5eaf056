//! What holds for a volume as a share of SMB.

use control::{CREATE_MODE, DIRECTORY_MODE, Error, SmbAssignment, SmbSettings as Stored, SmbValue};
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
    /// Permissions of a new file whose client says none, as Windows: three or four octal digits with all of 0600 and nothing
    /// beyond 0777; by default 0644. With 0660, members of a file's group write it. Lists decide instead on volumes of the
    /// security style ntfs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^0?[0-7]{3}$"))]
    pub create_mode: Option<String>,
    /// Permissions of a new directory whose client says none: three or four octal digits with all of 0700 and nothing beyond
    /// 3777; by default 0755. With 2770, what is made below gets the group of the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-3]?[0-7]{3}$"))]
    pub directory_mode: Option<String>,
}

impl FromIterator<SmbAssignment> for SmbSettings {
    /// Those that are assigned; the last one of a name holds.
    fn from_iter<I: IntoIterator<Item = SmbAssignment>>(assigned: I) -> Self {
        let value = |value| match value {
            SmbValue::Switch(is_on) => Value::Bool(is_on),
            SmbValue::Mode(mode) => Value::String(octal(mode)),
        };
        let property = |one: SmbAssignment| (one.name().replace('-', "_"), value(one.value()));
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
            create_mode: Some(octal(of.create_mode)),
            directory_mode: Some(octal(of.directory_mode)),
        }
    }
}

fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

impl TryFrom<SmbSettings> for Stored {
    type Error = Error;

    fn try_from(of: SmbSettings) -> Result<Self, Error> {
        let default = ShareSettings::default();
        let mut settings = ShareSettings {
            encryption: of.encryption.unwrap_or(default.encryption),
            signing: of.signing.unwrap_or(default.signing),
            compression: of.compression.unwrap_or(default.compression),
            browsable: of.browsable.unwrap_or(default.browsable),
            access_based_enumeration: of.access_based_enumeration.unwrap_or(default.access_based_enumeration),
            continuously_available: of.continuously_available.unwrap_or(default.continuously_available),
            oplocks: of.oplocks.unwrap_or(default.oplocks),
            change_notify: of.change_notify.unwrap_or(default.change_notify),
            ..default
        };
        for (name, mode) in [(CREATE_MODE, of.create_mode), (DIRECTORY_MODE, of.directory_mode)] {
            if let Some(mode) = mode {
                SmbAssignment::new(name, &mode)?.apply(&mut settings);
            }
        }
        Ok(Self(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_a_property() {
        let mut settings = ShareSettings::default();
        let other = |setting: &control::SmbSetting| match (setting.name, setting.value(settings)) {
            (name, SmbValue::Switch(is_on)) => {
                let words = [["off", "on"], ["off", "required"]];
                let set =
                    words.iter().find_map(|words| SmbAssignment::new(name, words[usize::from(!is_on)]).ok());
                set.unwrap()
            }
            (name, SmbValue::Mode(_)) => SmbAssignment::new(name, "0770").unwrap(),
        };
        let others: Vec<SmbAssignment> = control::SMB_SETTINGS.iter().map(other).collect();
        others.iter().for_each(|other| other.apply(&mut settings));
        let assigned: SmbSettings = others.into_iter().collect();
        assert_eq!(assigned, Stored(settings).into());
        assert_eq!(Stored::try_from(assigned).unwrap(), Stored(settings));
        assert_eq!(Stored::try_from(SmbSettings::default()).unwrap(), Stored::default());
    }

    #[test]
    fn a_mode_that_is_none_is_refused_with_what_is_allowed() {
        for (create_mode, directory_mode) in
            [("0066", "0755"), ("0660", "7770"), ("rw-", "0755"), ("", "0755")]
        {
            let (create_mode, directory_mode) =
                (Some(create_mode.to_owned()), Some(directory_mode.to_owned()));
            let of = SmbSettings { create_mode, directory_mode, ..SmbSettings::default() };
            let error = Stored::try_from(of).unwrap_err().to_string();
            assert!(error.contains("octal digits"), "{error}");
        }
    }
}
