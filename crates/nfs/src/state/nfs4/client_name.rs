//! The names that clients are known by.

use nfs_wire::v4::OPAQUE_LIMIT;
use std::borrow::Cow;
use vfs::Protection;

/// Added to the protection where no export rule admits the host.
const STRANGER: u8 = 0x80;

/// The key of a client in tables: the name it gives itself, then more zeros than a name has bytes
/// (`NFS4_OPAQUE_LIMIT`), then its TLS protection and whether no export rule admits its host.
///
/// So a client cannot replace one with more protection, nor a stranger one that may mount. Linux, which reuses the
/// connections of a client id, keeps mounts with and without TLS apart.
pub(crate) fn registered_name(ownerid: &[u8], protection: Protection, is_stranger: bool) -> Cow<'_, [u8]> {
    match protection as u8 | if is_stranger { STRANGER } else { 0 } {
        0 => ownerid.into(),
        mark => [ownerid, &[0; OPAQUE_LIMIT as usize], &[mark]].concat().into(),
    }
}

/// The key of the same client with an admitted host, under which it is recorded once it has state.
pub(crate) fn without_admission(owner: &[u8]) -> Cow<'_, [u8]> {
    registered_name(name_given_by_client(owner), protection_of(owner), false).into_owned().into()
}

/// The protection of the connection over which a client of this name introduced itself.
pub(crate) fn protection_of(owner: &[u8]) -> Protection {
    let mark = owner.get(OPAQUE_LIMIT as usize..).and_then(<[u8]>::last).copied().unwrap_or(0);
    let all = [Protection::Encrypted, Protection::Verified];
    all.into_iter().find(|&one| mark & !STRANGER == one as u8).unwrap_or_default()
}

/// The name that a client gives itself, of the one that it is known by.
pub(super) fn name_given_by_client(owner: &[u8]) -> &[u8] {
    let behind = OPAQUE_LIMIT as usize + 1;
    owner.len().checked_sub(behind).map_or(owner, |end| &owner[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_connections_are_protected_and_are_told_without() {
        let longest = vec![7; OPAQUE_LIMIT as usize];
        for ownerid in [&b""[..], b"host", &longest] {
            for protection in [Protection::Plain, Protection::Encrypted, Protection::Verified] {
                let owner = registered_name(ownerid, protection, false);
                assert_eq!((name_given_by_client(&owner), protection_of(&owner)), (ownerid, protection));
                let stranger = registered_name(ownerid, protection, true);
                assert_eq!(
                    (name_given_by_client(&stranger), protection_of(&stranger)),
                    (ownerid, protection)
                );
                assert_ne!(stranger, owner);
                assert_eq!(without_admission(&stranger), owner);
            }
        }
    }
}
