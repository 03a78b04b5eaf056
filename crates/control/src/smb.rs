//! The settings of shares as texts: `encryption=required,browsable=off`.

use crate::Error;
use std::fmt;
use std::str::FromStr;
use vfs::ShareSettings;

#[derive(Debug)]
pub struct SmbSetting {
    pub name: &'static str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The words for off and on.
    Switch([&'static str; 2], fn(&mut ShareSettings) -> &mut bool),
    /// A mode in octal digits.
    Mode(Modes, fn(&mut ShareSettings) -> &mut u32),
}

#[derive(Debug)]
struct Modes {
    /// Required bits: without them, the user who creates an object could not use it.
    always: u32,
    possible: u32,
    allowed: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmbValue {
    Switch(bool),
    Mode(u32),
}

const OFF_OR_ON: [&str; 2] = ["off", "on"];
const OFF_OR_REQUIRED: [&str; 2] = ["off", "required"];
const OF_FILES: Modes = Modes {
    always: 0o600,
    possible: 0o777,
    allowed: "three or four octal digits with all of 0600 and nothing beyond 0777, as in 0660",
};
const OF_DIRECTORIES: Modes = Modes {
    always: 0o700,
    possible: 0o3777,
    allowed: "three or four octal digits with all of 0700 and nothing beyond 3777, as in 2770",
};

pub static SMB_SETTINGS: [SmbSetting; 10] = [
    switch("encryption", OFF_OR_REQUIRED, |of| &mut of.encryption),
    switch("signing", OFF_OR_REQUIRED, |of| &mut of.signing),
    switch("compression", OFF_OR_ON, |of| &mut of.compression),
    switch("browsable", OFF_OR_ON, |of| &mut of.browsable),
    switch("access-based-enumeration", OFF_OR_ON, |of| &mut of.access_based_enumeration),
    switch("continuously-available", OFF_OR_ON, |of| &mut of.continuously_available),
    switch("oplocks", OFF_OR_ON, |of| &mut of.oplocks),
    switch("change-notify", OFF_OR_ON, |of| &mut of.change_notify),
    SmbSetting { name: CREATE_MODE, kind: Kind::Mode(OF_FILES, |of| &mut of.create_mode) },
    SmbSetting { name: DIRECTORY_MODE, kind: Kind::Mode(OF_DIRECTORIES, |of| &mut of.directory_mode) },
];

pub const CREATE_MODE: &str = "create-mode";
pub const DIRECTORY_MODE: &str = "directory-mode";

const fn switch(
    name: &'static str,
    words: [&'static str; 2],
    field: fn(&mut ShareSettings) -> &mut bool,
) -> SmbSetting {
    SmbSetting { name, kind: Kind::Switch(words, field) }
}

/// One setting with its value, as in `signing=off`.
#[derive(Clone, Copy, Debug)]
pub struct SmbAssignment {
    setting: &'static SmbSetting,
    value: SmbValue,
}

/// Parsed from and shown as `name=word` pairs; defaults are omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmbSettings(pub ShareSettings);

impl SmbSetting {
    /// Returns the setting's value in `of`.
    pub fn value(&self, mut of: ShareSettings) -> SmbValue {
        match self.kind {
            Kind::Switch(_, field) => SmbValue::Switch(*field(&mut of)),
            Kind::Mode(_, field) => SmbValue::Mode(*field(&mut of)),
        }
    }

    fn parse(&self, word: &str) -> Option<SmbValue> {
        match &self.kind {
            Kind::Switch(words, _) => {
                words.iter().position(|known| *known == word).map(|at| SmbValue::Switch(at == 1))
            }
            Kind::Mode(modes, _) => {
                let is_octal =
                    (3..=4).contains(&word.len()) && word.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
                let mode = u32::from_str_radix(word, 8).ok().filter(|_| is_octal)?;
                let is_one = mode & modes.always == modes.always && mode & !modes.possible == 0;
                is_one.then_some(SmbValue::Mode(mode))
            }
        }
    }

    fn allowed(&self) -> String {
        match &self.kind {
            Kind::Switch(words, _) => words.map(|word| format!("{}={word}", self.name)).join(", "),
            Kind::Mode(modes, _) => modes.allowed.to_owned(),
        }
    }

    fn word(&self, value: SmbValue) -> String {
        match (&self.kind, value) {
            (Kind::Switch(words, _), SmbValue::Switch(is_on)) => words[usize::from(is_on)].to_owned(),
            (_, SmbValue::Switch(is_on)) => is_on.to_string(),
            (_, SmbValue::Mode(mode)) => format!("{mode:04o}"),
        }
    }
}

impl SmbAssignment {
    pub fn new(name: &str, word: &str) -> Result<Self, Error> {
        let setting = SMB_SETTINGS.iter().find(|setting| setting.name == name).ok_or_else(|| {
            let names: Vec<&str> = SMB_SETTINGS.iter().map(|setting| setting.name).collect();
            let allowed = format!("NAME=VALUE, such as signing=off; names: {}", names.join(", "));
            Error::invalid(format!("the SMB setting {name:?}"), allowed)
        })?;
        let value = setting.parse(word);
        let wrong = || Error::invalid(format!("the SMB setting \"{name}={word}\""), setting.allowed());
        Ok(Self { setting, value: value.ok_or_else(wrong)? })
    }

    pub fn name(&self) -> &'static str {
        self.setting.name
    }

    pub fn value(&self) -> SmbValue {
        self.value
    }

    pub fn apply(&self, settings: &mut ShareSettings) {
        match (&self.setting.kind, self.value) {
            (Kind::Switch(_, field), SmbValue::Switch(is_on)) => *field(settings) = is_on,
            (Kind::Mode(_, field), SmbValue::Mode(mode)) => *field(settings) = mode,
            // The setting's parser makes the value, so the kinds always agree.
            (Kind::Switch(..), SmbValue::Mode(_)) | (Kind::Mode(..), SmbValue::Switch(_)) => {}
        }
    }
}

impl FromStr for SmbAssignment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, word) = text.split_once('=').unwrap_or((text, ""));
        Self::new(name, word)
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
        let is_set = |setting: &&SmbSetting| setting.value(self.0) != setting.value(ShareSettings::default());
        for (i, setting) in SMB_SETTINGS.iter().filter(is_set).enumerate() {
            let word = setting.word(setting.value(self.0));
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
                   continuously-available=on,oplocks=off,change-notify=off,create-mode=0660,directory-mode=2770";
        for text in ["", "signing=off", "create-mode=0600", all] {
            assert_eq!(text.parse::<SmbSettings>().unwrap().to_string(), text);
        }
        let settings = "oplocks=off,oplocks=on,browsable=on,create-mode=644,directory-mode=0755"
            .parse::<SmbSettings>()
            .unwrap();
        assert_eq!(settings, SmbSettings::default(), "the last word holds, and defaults are not written");
    }

    #[test]
    fn unknown_setting_is_refused_with_the_known_ones() {
        for (text, allowed) in [
            ("encrypt=on", "encryption, signing, compression, browsable"),
            ("", "change-notify"),
            ("", "create-mode, directory-mode"),
            ("create-mode", "as in 0660"),
            ("create-mode=0066", "with all of 0600"),
            ("create-mode=0440", "with all of 0600"),
            ("create-mode=2660", "nothing beyond 0777"),
            ("create-mode=4755", "nothing beyond 0777"),
            ("create-mode=0o660", "octal digits"),
            ("create-mode=66", "three or four"),
            ("create-mode=00660", "three or four"),
            ("create-mode=+660", "octal digits"),
            ("create-mode=0688", "octal digits"),
            ("directory-mode=0660", "with all of 0700"),
            ("directory-mode=4770", "nothing beyond 3777"),
            ("signing", "signing=off, signing=required"),
            ("oplocks=required", "oplocks=off, oplocks=on"),
        ] {
            let error = text.parse::<SmbAssignment>().err().unwrap().to_string();
            assert!(error.contains(allowed), "{text}: {error}");
        }
    }
}
