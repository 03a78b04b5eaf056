//! The names that clients are known by.

use nfs_wire::v4::OPAQUE_LIMIT;
use std::borrow::Cow;
use vfs::Protection;

/// The name that a client is known by: the one that it gives itself, and with TLS how its connection is protected, behind more
/// zeros than any name has bytes (`NFS4_OPAQUE_LIMIT`). So nobody takes the place of a client with more protection; and
/// Linux, which goes on with the connections that it has to a client number, keeps mounts with and without TLS apart.
pub(crate) fn known_as(ownerid: &[u8], protection: Protection) -> Cow<'_, [u8]> {
    match protection {
        Protection::Plain => ownerid.into(),
        protected => [ownerid, &[0; OPAQUE_LIMIT as usize], &[protected as u8]].concat().into(),
    }
}

/// How the connection was protected over which a client that is known by this name has introduced itself.
pub(crate) fn protection_of(owner: &[u8]) -> Protection {
    let protected = owner.get(OPAQUE_LIMIT as usize..).and_then(<[u8]>::last);
    let all = [Protection::Encrypted, Protection::Verified];
    all.into_iter().find(|&one| protected == Some(&(one as u8))).unwrap_or_default()
}

/// The name that a client gives itself, of the one that it is known by.
pub(super) fn own_name(owner: &[u8]) -> &[u8] {
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
                let owner = known_as(ownerid, protection);
                assert_eq!((own_name(&owner), protection_of(&owner)), (ownerid, protection));
            }
        }
    }
}
