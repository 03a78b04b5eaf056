//! The first connection to a target, and the cause if the target refuses it.

use crate::error::Error;
use nfs_wire::v4::Status;
use wire_client::{Client, Identity, Protection, Target, Version};

/// # Errors
/// The target is out of reach, or refuses the caller. Where another version or encryption is admitted, the error says so.
pub(crate) fn mount(target: &Target, identity: &Identity) -> Result<Client, Error> {
    Client::mount(target, identity).map_err(|wrong| cause(wrong.into(), target, identity))
}

/// Servers give one status for several causes: only a second try tells them apart.
fn cause(wrong: Error, target: &Target, identity: &Identity) -> Error {
    if !wrong.is_denied() && !is_absent(&wrong, target.version) {
        return wrong;
    }
    let other = |version| Target { version, ..target.clone() };
    let is_admitted = |version: &Version| Client::mount(&other(*version), identity).is_ok();
    let (export, own) = (&target.export, target.version);
    let others = [Version::V42, Version::V41, Version::V3].into_iter().filter(|version| *version != own);
    match own {
        Version::V3 | Version::V41 | Version::V42 => match others.clone().find(is_admitted) {
            Some(version) => {
                let better = other(version);
                Error::Plan(format!("{export} is not served over {own}, but over {version}: write {better}"))
            }
            None if is_absent(&wrong, own) => {
                let tried: Vec<String> = others.map(|version| version.to_string()).collect();
                Error::Plan(format!(
                    "{export} is served over neither {own} ({wrong}) nor {}: check the path, the versions that the server \
                     serves, and whether it admits this address (of a Plimsoll volume: plimsoll volume show VOLUME, \
                     plimsoll volume access list VOLUME)",
                    tried.join(" nor ")
                ))
            }
            None => wrong,
        },
        Version::Smb(protection) if protection.encryption().is_none() => {
            let (share, _) = target.share();
            let user = target.user.as_deref().unwrap_or_default();
            if is_admitted(&Version::Smb(Protection::Gcm128)) {
                return Error::Plan(format!("the share {share} wants encryption: add seal=gcm to {target}"));
            }
            Error::Plan(format!(
                "the share {share} refuses {user} from this address, with encryption too ({wrong}): allow the address and the \
                 user (of a Plimsoll volume: plimsoll volume access list VOLUME)"
            ))
        }
        Version::Smb(_) => wrong,
    }
}

/// Whether the server does not show the export over this version. NFSv4 hides what it does not serve: it is not in the
/// server's tree.
fn is_absent(wrong: &Error, version: Version) -> bool {
    let absent = [Status::NOENT, Status::MINOR_VERS_MISMATCH].map(|status| format!("{status:?}"));
    version.minor().is_some() && matches!(wrong, Error::Refused { status, .. } if absent.contains(status))
}
