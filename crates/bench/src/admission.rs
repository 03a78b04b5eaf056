//! The first connection to a target, and the cause if the target refuses it.

use crate::error::Error;
use wire_client::{Client, Identity, Protection, Target, Version};

/// # Errors
/// The target is out of reach, or refuses the caller. Where another version or encryption is admitted, the error says so.
pub(crate) fn mount(target: &Target, identity: &Identity) -> Result<Client, Error> {
    Client::mount(target, identity).map_err(|wrong| cause(wrong.into(), target, identity))
}

/// Servers give one status for several causes: only a second try tells them apart.
fn cause(wrong: Error, target: &Target, identity: &Identity) -> Error {
    if !wrong.is_denied() {
        return wrong;
    }
    let other = |version| Target { version, ..target.clone() };
    let is_admitted = |version: &Version| Client::mount(&other(*version), identity).is_ok();
    match target.version {
        Version::V3 => match [Version::V42, Version::V41].into_iter().find(is_admitted) {
            Some(version) => {
                let (export, better) = (&target.export, other(version));
                Error::Plan(format!("{export} is not served over NFSv3, but over {version}: write {better}"))
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
        Version::V41 | Version::V42 | Version::Smb(_) => wrong,
    }
}
