//! Quota rules as management names and bounds them.

use crate::error::{Error, Result};
use envelope::{Bytes, Level, Provider};
use identity::{Id, Resolver, Sid};
use vfs::backend::quotas::QUOTA_RULES_MAX;
use vfs::{QuotaKind, QuotaLimits, QuotaRule, QuotaTarget};

/// The word for every user or group without a rule of its own.
const DEFAULT: &str = "default";

/// Returns the name of a rule's target: `user:1001`, `group:default`.
pub fn target_name(target: QuotaTarget) -> String {
    let kind = match target.kind {
        QuotaKind::User => "user",
        QuotaKind::Group => "group",
    };
    target.id.map_or_else(|| format!("{kind}:{DEFAULT}"), |id| format!("{kind}:{id}"))
}

/// Parses the name of a rule's target. A security identifier stands for the number that files store for it.
pub(crate) fn parse_target(name: &str, resolver: &dyn Resolver) -> Result<QuotaTarget> {
    let invalid = || {
        let allowed = "user:ID, group:ID, user:default, group:default; an ID is at most 4294967294, or the security identifier \
                       of a user or group that files can have, like S-1-22-1-1001";
        Error::invalid(format!("a quota of {name:?}"), allowed)
    };
    let (kind, id) = name.split_once(':').ok_or_else(invalid)?;
    let kind = match kind {
        "user" => QuotaKind::User,
        "group" => QuotaKind::Group,
        _ => return Err(invalid()),
    };
    let id = match id {
        DEFAULT => None,
        sid if sid.starts_with("S-") => {
            let id = sid.parse().ok().and_then(|sid: Sid| resolver.id_of(&sid));
            match (kind, id) {
                (QuotaKind::User, Some(Id::User(id))) | (QuotaKind::Group, Some(Id::Group(id))) => Some(id),
                _ => return Err(invalid()),
            }
        }
        id => Some(id.parse().ok().filter(|&id| id != u32::MAX).ok_or_else(invalid)?),
    };
    Ok(QuotaTarget { kind, id })
}

/// The number of rules that the level's provider allows for a volume.
fn rules_max(level: Level) -> usize {
    match level.info().provider {
        Provider::Anf => 1000,
        Provider::Gcnv => 100,
        Provider::Filestore | Provider::Plimsoll => QUOTA_RULES_MAX,
    }
}

pub(crate) fn check_count(level: Level, count: usize) -> Result<()> {
    let most = rules_max(level);
    if count <= most {
        return Ok(());
    }
    Err(Error::invalid(format!("{count} quota rules"), format!("at most {most} for a volume of {level}")))
}

/// Refuses contradictory limits.
pub(crate) fn check_limits(limits: &QuotaLimits) -> Result<()> {
    for (what, soft, hard) in
        [("bytes", limits.soft_bytes, limits.bytes), ("files", limits.soft_files, limits.files)]
    {
        if let (Some(soft), Some(hard)) = (soft, hard)
            && soft > hard
        {
            return Err(Error::invalid(
                format!("a soft limit of {soft} {what} above the limit of {hard}"),
                "a soft limit up to the limit",
            ));
        }
    }
    let has_soft = limits.soft_bytes.is_some() || limits.soft_files.is_some();
    if limits.grace_s.is_some() && !has_soft {
        return Err(Error::invalid("a grace period without a soft limit", "a soft limit with it"));
    }
    if limits.bytes.is_none() && limits.files.is_none() && !has_soft {
        return Err(Error::invalid(
            "a rule without a limit",
            "a limit of bytes, files, soft bytes or soft files",
        ));
    }
    Ok(())
}

/// A rule in words: `user:1001: 10 GiB, 500 files`.
pub(crate) fn text(rule: &QuotaRule) -> String {
    let QuotaLimits { bytes, files, soft_bytes, soft_files, grace_s } = rule.limits;
    let parts = [
        bytes.map(|bytes| Bytes(bytes).to_string()),
        files.map(|files| format!("{files} files")),
        soft_bytes.map(|bytes| format!("soft {}", Bytes(bytes))),
        soft_files.map(|files| format!("soft {files} files")),
        grace_s.map(|seconds| format!("grace {seconds} s")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!("{}: {}", target_name(rule.target), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::{Accounts, SharedAccounts};

    fn accounts() -> SharedAccounts {
        SharedAccounts::new(Accounts::empty("S-1-5-21-1-2-3".parse().unwrap(), "FILES"))
    }

    #[test]
    fn security_identifiers_stand_for_the_numbers_of_files() {
        for (sid, name) in [
            ("user:S-1-22-1-1001", "user:1001"),
            ("group:S-1-22-2-7", "group:7"),
            ("user:S-1-5-21-1-2-3-3002", "user:1001"),
            ("group:S-1-5-21-1-2-3-3003", "group:1001"),
        ] {
            assert_eq!(target_name(parse_target(sid, &accounts()).unwrap()), name, "{sid}");
        }
    }

    #[test]
    fn target_names_are_parsed_as_they_are_written() {
        for name in ["user:0", "user:4294967294", "group:7", "user:default", "group:default"] {
            assert_eq!(target_name(parse_target(name, &accounts()).unwrap()), name);
        }
        let bad = ["", "user", "user:", "user:-1", "user:4294967295", "other:1", "user:1 "];
        let bad_sids =
            ["user:S-1-1-0", "user:S-1-22-2-7", "group:S-1-22-1-7", "user:S-1-x", "user:S-1-22-1-4294967295"];
        for bad in bad.into_iter().chain(bad_sids) {
            assert!(matches!(parse_target(bad, &accounts()), Err(Error::Invalid { .. })), "{bad}");
        }
    }

    #[test]
    fn providers_bound_the_rules_of_a_volume() {
        let level = |name: &str| name.parse::<Level>().unwrap();
        for (name, most) in [("anf/premium", 1000), ("gcnv/premium", 100)] {
            assert!(check_count(level(name), most).is_ok());
            let text = check_count(level(name), most + 1).unwrap_err().to_string();
            assert!(text.contains(&format!("at most {most}")), "{text}");
        }
    }

    #[test]
    fn contradictory_limits_are_refused() {
        let none = QuotaLimits::default();
        for bad in [
            none,
            QuotaLimits { grace_s: Some(1), bytes: Some(1), ..none },
            QuotaLimits { bytes: Some(1), soft_bytes: Some(2), ..none },
            QuotaLimits { files: Some(1), soft_files: Some(2), ..none },
        ] {
            assert!(check_limits(&bad).is_err(), "{bad:?}");
        }
        assert!(check_limits(&QuotaLimits { soft_files: Some(2), grace_s: Some(0), ..none }).is_ok());
    }
}
