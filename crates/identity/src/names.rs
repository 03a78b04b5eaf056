use crate::limits::{ACCOUNT_NAME_CHARS_MAX, NAME_UNITS_MAX};
use crate::refusal::{Malformed, Refusal};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountName(String);

impl AccountName {
    /// The rule for names, for errors and help.
    pub const ALLOWED: &str =
        "1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or an underscore";

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form in which names are compared: two accounts cannot differ by case alone.
    pub fn folded(&self) -> String {
        folded(&self.0)
    }
}

impl std::str::FromStr for AccountName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let begins = text.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let is_good = begins && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'));
        if is_good && !text.ends_with('.') && text.chars().count() <= ACCOUNT_NAME_CHARS_MAX {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "{text:?} cannot name a user or group; allowed are {}, and no dot at the end",
                Self::ALLOWED
            ))
        }
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a Windows user, with or without a domain: `CORP\\alice`, `Alice Smith`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WindowsName {
    /// `None` matches every domain.
    pub domain: Option<String>,
    pub name: String,
}

impl WindowsName {
    /// The rule for names, for errors and help.
    pub const ALLOWED: &str = r#"a name or DOMAIN\name, each of 1 to 64 characters without control characters and without any of / \ " [ ] : ; | = , + * ? < > @"#;
}

impl std::str::FromStr for WindowsName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_good = |part: &str| {
            let bad = |c: char| c.is_control() || r#"/\"[]:;|=,+*?<>@"#.contains(c);
            (1..=ACCOUNT_NAME_CHARS_MAX).contains(&part.chars().count())
                && !part.contains(bad)
                && part.trim() == part
        };
        let (domain, name) =
            text.split_once('\\').map_or((None, text), |(domain, name)| (Some(domain), name));
        if domain.is_none_or(is_good) && is_good(name) {
            Ok(Self { domain: domain.map(str::to_owned), name: name.to_owned() })
        } else {
            Err(format!("{text:?} is not a valid name of a Windows user; allowed: {}", Self::ALLOWED))
        }
    }
}

impl fmt::Display for WindowsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.domain {
            Some(domain) => write!(f, "{domain}\\{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Folds case for comparison: each letter becomes its upper case, where that is a single letter, as in Windows
/// (MS-UCODEREF §3.1.5).
pub fn folded(name: &str) -> String {
    name.chars().map(upper).collect()
}

fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// The names that a server states in its CHALLENGE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNames {
    /// The machine's NetBIOS name, at most 15 letters: `FILES`.
    pub netbios: String,
    /// The NetBIOS name of the domain; the machine's own if it is in none.
    pub netbios_domain: String,
    /// The machine's DNS name: `files.example.org`.
    pub dns: String,
    /// The DNS name of the domain: `example.org`, or empty.
    pub dns_domain: String,
}

impl ServerNames {
    /// Derives the names of a machine without a domain from its host name, with or without a DNS domain.
    pub fn for_host(host: &str) -> Self {
        let (first, domain) = host.split_once('.').unwrap_or((host, ""));
        let fits = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
        let mut netbios: String = first.chars().filter(fits).take(15).collect();
        netbios.make_ascii_uppercase();
        if netbios.is_empty() {
            "PLIMSOLL".clone_into(&mut netbios);
        }
        Self { netbios_domain: netbios.clone(), netbios, dns: host.to_owned(), dns_domain: domain.to_owned() }
    }
}

pub(crate) fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

pub(crate) fn from_utf16(bytes: &[u8]) -> Result<String, Refusal> {
    let (units, odd) = bytes.as_chunks();
    if !odd.is_empty() || units.len() > NAME_UNITS_MAX {
        return Err(Malformed::NAME.into());
    }
    let units = units.iter().map(|&unit| u16::from_le_bytes(unit));
    char::decode_utf16(units).collect::<Result<_, _>>().map_err(|_| Malformed::NAME.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_name_rules() {
        for good in ["alice", "Jürgen", "_svc", "a.b-c_9", "王", &"x".repeat(64)] {
            assert_eq!(good.parse::<AccountName>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "1000",
            "-a",
            ".a",
            "a.",
            "a b",
            "a/b",
            "a\\b",
            "a@b",
            "a:b",
            "a$",
            "a\u{202e}",
            &"x".repeat(65),
        ] {
            let error = bad.parse::<AccountName>().unwrap_err();
            assert!(error.contains("allowed are 1 to 64 letters"), "{error}");
        }
    }

    #[test]
    fn windows_name_rules() {
        for good in ["alice", "Alice Smith", r"CORP\alice", "a.b$"] {
            assert_eq!(good.parse::<WindowsName>().unwrap().to_string(), good);
        }
        for bad in ["", r"\a", r"a\", r"a\b\c", "a@b", " a", "a\n", "a:b", &"x".repeat(65)] {
            let error = bad.parse::<WindowsName>().unwrap_err();
            assert!(error.contains(r"allowed: a name or DOMAIN\name"), "{error}");
        }
    }

    #[test]
    fn folding_ignores_case() {
        assert_eq!(folded("jürgen"), folded("JÜRGEN"));
        assert_eq!(folded("straße"), "STRAßE");
    }

    #[test]
    fn server_without_domain_is_its_own_domain() {
        let names = ServerNames::for_host("files-01_production.example.org");
        assert_eq!((&*names.netbios, &*names.netbios_domain), ("FILES-01PRODUCT", "FILES-01PRODUCT"));
        assert_eq!((&*names.dns, &*names.dns_domain), ("files-01_production.example.org", "example.org"));
        assert_eq!(ServerNames::for_host("").netbios, "PLIMSOLL");
    }

    #[test]
    fn overlong_or_odd_utf16_name_is_refused() {
        assert_eq!(from_utf16(&utf16("Größe 𝄞")).unwrap(), "Größe 𝄞");
        assert!(from_utf16(&[0x41]).is_err());
        assert!(from_utf16(&[0x00, 0xd8]).is_err());
        assert!(from_utf16(&utf16(&"x".repeat(NAME_UNITS_MAX))).is_ok());
        assert!(from_utf16(&utf16(&"x".repeat(NAME_UNITS_MAX + 1))).is_err());
    }
}
