//! Names of pools, volumes and shares, and labels, checked once on input.
//!
//! These checks hold for every provider: a name is part of a path and of a log line.
//! The level checks further restrictions of its provider ([`crate::Error::Invalid`]).

use crate::Error;
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of a name, whatever the provider.
pub const NAME_BYTES_MAX: usize = 255;
pub const LABELS_MAX: usize = 64;
/// Bytes of a label's key.
pub const LABEL_KEY_BYTES_MAX: usize = 512;
/// Bytes of a label's value.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;

/// UTF-16 units of an SMB share's name.
const SMB_SHARE_UNITS_MAX: usize = 80;
/// The fault of a name.
const SMB_SHARE_RESERVED: [char; 14] =
    ['\\', '"', '[', ']', ':', '|', '<', '>', '+', '=', ';', ',', '?', '*'];

/// Text that the operator attaches to a pool or volume.
pub type Labels = BTreeMap<String, String>;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Takes a name from the store, which holds only checked names.
            pub(crate) fn stored(text: String) -> Self {
                Self(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                check(text, $what).map(|()| Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    PoolName = "a pool";
    VolumeName = "a volume";
    /// The name of a directory below `.snapshot`.
    SnapshotName = "a snapshot";
    PolicyName = "a policy";
    VaultName = "a vault";
    BackupName = "a backup";
    /// The name that this service has for another one.
    PeerName = "a peer";
    /// The last part of the path that clients mount: GCNV's share name, ANF's creation token.
    ShareName = "a share";
    TokenName = "a token";
}

impl From<&VolumeName> for ShareName {
    fn from(name: &VolumeName) -> Self {
        Self(name.0.clone())
    }
}

impl SnapshotName {
    /// Returns the spelling by which SMB finds files.
    pub(crate) fn folded(&self) -> String {
        folded(&self.0)
    }

    /// Refuses names that SMB takes for times (`@GMT-…`, MS-SMB2 §2.2.32.2), and those of the service itself.
    pub(crate) fn check_new(&self) -> Result<(), Error> {
        if !self.0.starts_with('@') {
            return Ok(());
        }
        Err(Error::invalid(
            format!("{:?} is not a valid name of a snapshot", self.0),
            "a name that does not begin with @",
        ))
    }
}

impl ShareName {
    /// Returns the spelling by which SMB finds shares.
    pub(crate) fn folded(&self) -> String {
        folded(&self.0)
    }

    /// Refuses names that cannot be an SMB share: longer than MS-SMB2 §2.2.9 permits, with a character
    /// that clients interpret (MS-FSCC §2.1.6), or the name of a pipe or of a share of the server itself.
    pub(crate) fn check_smb(&self) -> Result<(), Error> {
        let is_long = self.0.encode_utf16().count() > SMB_SHARE_UNITS_MAX;
        let is_own = ["IPC$", "PIPE", "MAILSLOT"].contains(&&*self.folded());
        if !is_long && !is_own && !self.0.contains(SMB_SHARE_RESERVED) {
            return Ok(());
        }
        let reserved: String = SMB_SHARE_RESERVED.iter().collect();
        Err(Error::invalid(
            format!("{:?} is not a valid name of an SMB share", self.0),
            format!(
                "1 to {SMB_SHARE_UNITS_MAX} characters without {reserved}, and not IPC$, PIPE or MAILSLOT"
            ),
        ))
    }
}

/// Folds the case of letters; the number of characters stays.
fn folded(text: &str) -> String {
    let upper = |c: char| {
        let mut upper = c.to_uppercase();
        upper.next().filter(|_| upper.next().is_none()).unwrap_or(c)
    };
    text.chars().map(upper).collect()
}

/// Whether a terminal interprets the character: control characters, and Unicode's format category (`Cf`),
/// which is invisible or changes the direction of text.
pub fn steers_terminal(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
                | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
                | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}'
        )
}

fn check(text: &str, what: &str) -> Result<(), Error> {
    let bad = |c: char| c == '/' || c.is_whitespace() || steers_terminal(c);
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(bad) || text == "." || text == ".." {
        return Err(Error::Invalid {
            what: format!("{text:?} is not a valid name of {what}"),
            allowed: format!(
                "1 to {NAME_BYTES_MAX} bytes without slashes, blanks, or characters that control a terminal \
                 or the direction of text"
            ),
        });
    }
    Ok(())
}

pub(crate) fn check_labels(labels: &Labels) -> Result<(), Error> {
    if labels.len() > LABELS_MAX {
        return Err(Error::Invalid {
            what: format!("{} labels", labels.len()),
            allowed: format!("at most {LABELS_MAX}"),
        });
    }
    for (key, value) in labels {
        let key_is_good = (1..=LABEL_KEY_BYTES_MAX).contains(&key.len()) && !key.contains(steers_terminal);
        if !key_is_good || value.len() > LABEL_VALUE_BYTES_MAX {
            return Err(Error::Invalid {
                what: format!("the label {key:?} = {value:?}"),
                allowed: format!(
                    "a key of 1 to {LABEL_KEY_BYTES_MAX} bytes without control characters, a value of at most {LABEL_VALUE_BYTES_MAX}"
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_part_of_a_path() {
        for good in ["a", "tools-2026", "Größe", &"x".repeat(255)] {
            assert_eq!(good.parse::<VolumeName>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "a\n",
            "a\0",
            "a\u{7f}",
            "a\u{85}",
            "a\u{202e}b",
            "\u{200b}a",
            "a\u{2067}",
            "\u{feff}a",
            &"x".repeat(256),
        ] {
            let error = bad.parse::<VolumeName>().unwrap_err().to_string();
            assert!(
                error.contains("is not a valid name of a volume") && error.contains("1 to 255 bytes"),
                "{error}"
            );
        }
    }

    #[test]
    fn shares_of_smb_have_names_that_clients_can_ask_for() {
        let share = |name: &str| name.parse::<ShareName>().unwrap();
        for good in ["tools-2026", "Größe", "admin$", &"x".repeat(80)] {
            assert!(share(good).check_smb().is_ok(), "{good:?}");
        }
        for bad in ["ipc$", "Pipe", "mailslot", "a:b", "a\\b", "a*", &"x".repeat(81)] {
            let error = share(bad).check_smb().unwrap_err().to_string();
            assert!(
                error.contains("is not a valid name of an SMB share") && error.contains("IPC$"),
                "{error}"
            );
        }
        assert_eq!(share("Tools-Ü").folded(), share("tOOLS-ü").folded());
        assert_ne!(share("ß").folded(), share("ss").folded());
    }

    #[test]
    fn labels_are_bounded() {
        let label = |key: &str, value: &str| Labels::from([(key.to_owned(), value.to_owned())]);
        assert!(check_labels(&label("team", "")).is_ok());
        assert!(check_labels(&label("", "x")).is_err());
        assert!(check_labels(&label("a\nb", "x")).is_err());
        assert!(check_labels(&label("a", &"x".repeat(LABEL_VALUE_BYTES_MAX + 1))).is_err());
        let many = (0..=LABELS_MAX).map(|number| (number.to_string(), String::new())).collect();
        assert!(check_labels(&many).unwrap_err().to_string().contains("at most 64"));
    }
}
