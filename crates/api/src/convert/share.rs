//! Settings of a volume as a share of SMB.

use super::{FromBody, ToBody};
use api_client::model::SmbSettings;
use control::{CREATE_MODE, DIRECTORY_MODE, Error, SmbAssignment, SmbSettings as Stored, SmbValue};
use serde_json::Value;
use vfs::ShareSettings;

/// The settings that are assigned; of two with one name the last wins.
pub fn smb_settings(assigned: impl IntoIterator<Item = SmbAssignment>) -> SmbSettings {
    let value = |value| match value {
        SmbValue::Switch(is_on) => Value::Bool(is_on),
        SmbValue::Mode(mode) => Value::String(octal(mode)),
    };
    let property = |one: SmbAssignment| (one.name().replace('-', "_"), value(one.value()));
    // The properties are named like the settings.
    serde_json::from_value(Value::Object(assigned.into_iter().map(property).collect())).unwrap_or_default()
}

impl ToBody for Stored {
    type Body = SmbSettings;

    fn to_body(&self) -> SmbSettings {
        let of = self.0;
        SmbSettings {
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

impl FromBody<SmbSettings> for Stored {
    fn from_body(of: SmbSettings) -> Result<Self, Error> {
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
        let assigned = smb_settings(others);
        assert_eq!(assigned, Stored(settings).to_body());
        assert_eq!(Stored::from_body(assigned).unwrap(), Stored(settings));
        assert_eq!(Stored::from_body(SmbSettings::default()).unwrap(), Stored::default());
    }

    #[test]
    fn a_mode_that_is_none_is_refused_with_what_is_allowed() {
        for (create_mode, directory_mode) in
            [("0066", "0755"), ("0660", "7770"), ("rw-", "0755"), ("", "0755")]
        {
            let (create_mode, directory_mode) =
                (Some(create_mode.to_owned()), Some(directory_mode.to_owned()));
            let of = SmbSettings { create_mode, directory_mode, ..SmbSettings::default() };
            let error = Stored::from_body(of).unwrap_err().to_string();
            assert!(error.contains("octal digits"), "{error}");
        }
    }
}
