//! The names that clients are known by.

use nfs_wire::v4::OPAQUE_LIMIT;
use std::borrow::Cow;
use vfs::Protection;

/// Added to the protection where no export rule admits the host.
const STRANGER: u8 = 0x80;

/// The name that a client is known by: the one that it gives itself, and behind more zeros than any name has bytes
/// (`NFS4_OPAQUE_LIMIT`) how its connection is protected by TLS, and whether no export rule admits its host. So nobody takes the
/// place of a client with more protection, no stranger that of a client which may mount; and Linux, which goes on with the connections
/// that it has to a client number, keeps mounts with and without TLS apart.
pub(crate) fn registered_name(ownerid: &[u8], protection: Protection, is_stranger: bool) -> Cow<'_, [u8]> {
    match protection as u8 | if is_stranger { STRANGER } else { 0 } {
        0 => ownerid.into(),
        mark => [ownerid, &[0; OPAQUE_LIMIT as usize], &[mark]].concat().into(),
    }
}

/// The name of the same client if an export rule admitted its host: what it is recorded as once it holds something.
pub(crate) fn without_admission(owner: &[u8]) -> Cow<'_, [u8]> {
    registered_name(name_given_by_client(owner), protection_of(owner), false).into_owned().into()
}

/// How the connection was protected over which a client that is known by this name has introduced itself.
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
