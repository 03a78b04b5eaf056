//! The settings of shares as texts: `encryption=required,browsable=off`.

use crate::Error;
use std::fmt;
use std::str::FromStr;
use vfs::ShareSettings;

/// A setting of a share.
#[derive(Debug)]
pub struct SmbSetting {
    /// Its name.
    pub name: &'static str,
    /// The word for off, and that for on.
    pub words: [&'static str; 2],
    field: fn(&mut ShareSettings) -> &mut bool,
}

const OFF_OR_ON: [&str; 2] = ["off", "on"];
const OFF_OR_REQUIRED: [&str; 2] = ["off", "required"];

/// All of them.
pub static SMB_SETTINGS: [SmbSetting; 8] = [
    SmbSetting { name: "encryption", words: OFF_OR_REQUIRED, field: |of| &mut of.encryption },
    SmbSetting { name: "signing", words: OFF_OR_REQUIRED, field: |of| &mut of.signing },
    SmbSetting { name: "compression", words: OFF_OR_ON, field: |of| &mut of.compression },
    SmbSetting { name: "browsable", words: OFF_OR_ON, field: |of| &mut of.browsable },
    SmbSetting {
        name: "access-based-enumeration",
        words: OFF_OR_ON,
        field: |of| &mut of.access_based_enumeration,
    },
    SmbSetting {
        name: "continuously-available",
        words: OFF_OR_ON,
        field: |of| &mut of.continuously_available,
    },
    SmbSetting { name: "oplocks", words: OFF_OR_ON, field: |of| &mut of.oplocks },
    SmbSetting { name: "change-notify", words: OFF_OR_ON, field: |of| &mut of.change_notify },
];

/// One setting with its value, as in `signing=off`.
#[derive(Clone, Copy, Debug)]
pub struct SmbAssignment {
    /// What is set.
    pub setting: &'static SmbSetting,
    /// Whether it is on.
    pub is_on: bool,
}

/// Settings of a share that are written as their names and words, as far as they are not the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmbSettings(pub ShareSettings);

impl SmbSetting {
    /// Whether it is on in `of`.
    pub fn is_on(&self, mut of: ShareSettings) -> bool {
        *(self.field)(&mut of)
    }
}

impl SmbAssignment {
    /// Sets it in `settings`.
    pub fn apply(&self, settings: &mut ShareSettings) {
        *(self.setting.field)(settings) = self.is_on;
    }
}

impl FromStr for SmbAssignment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, word) = text.split_once('=').unwrap_or((text, ""));
        let setting = SMB_SETTINGS.iter().find(|setting| setting.name == name).ok_or_else(|| {
            let names: Vec<&str> = SMB_SETTINGS.iter().map(|setting| setting.name).collect();
            let allowed = format!("one of {}, and = with its value, as in signing=off", names.join(", "));
            Error::invalid(format!("the SMB setting {text:?}"), allowed)
        })?;
        let place = setting.words.iter().position(|known| *known == word);
        let place = place.ok_or_else(|| {
            Error::invalid(
                format!("the SMB setting {text:?}"),
                setting.words.map(|word| format!("{name}={word}")).join(", "),
            )
        })?;
        Ok(Self { setting, is_on: place == 1 })
    }
}

impl FromStr for SmbSettings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut settings = ShareSettings::default();
        for assignment in text.split(',').filter(|text| !text.is_empty()) {
            assignment.parse::<SmbAssignment>()?.apply(&mut settings);
        }
        Ok(Self(settings))
    }
}

impl fmt::Display for SmbSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = |setting: &&SmbSetting| setting.is_on(self.0) != setting.is_on(ShareSettings::default());
        for (i, setting) in SMB_SETTINGS.iter().filter(is_set).enumerate() {
            let word = setting.words[usize::from(setting.is_on(self.0))];
            write!(f, "{}{}={word}", if i > 0 { "," } else { "" }, setting.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_they_are_read() {
        let all = "encryption=required,signing=off,compression=on,browsable=off,access-based-enumeration=on,\
                   continuously-available=on,oplocks=off,change-notify=off";
        for text in ["", "signing=off", all] {
            assert_eq!(text.parse::<SmbSettings>().unwrap().to_string(), text);
        }
        let settings = "oplocks=off,oplocks=on,browsable=on".parse::<SmbSettings>().unwrap();
        assert_eq!(settings, SmbSettings::default(), "the last word holds, and defaults are not written");
    }

    #[test]
    fn what_is_no_setting_is_told_with_those_there_are() {
        for (text, allowed) in [
            ("encrypt=on", "encryption, signing, compression, browsable"),
            ("", "change-notify"),
            ("signing", "signing=off, signing=required"),
            ("oplocks=required", "oplocks=off, oplocks=on"),
        ] {
            let error = text.parse::<SmbAssignment>().err().unwrap().to_string();
            assert!(error.contains(allowed), "{text}: {error}");
        }
    }
}
