//! Names of objects, and the numbers in them.

use std::fmt;

const BACKUP_BYTES: usize = 8;
const PACK_BYTES: usize = 20;

/// The number of a backup: random bytes, so that no two services choose the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId(pub [u8; BACKUP_BYTES]);

impl BackupId {
    /// Reads the sixteen hexadecimal digits that `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        parse(text).map(Self)
    }
}

/// The number of a pack: that of the backup that made it, and random bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PackId(pub(crate) [u8; PACK_BYTES]);

impl PackId {
    pub(crate) fn backup(&self) -> BackupId {
        let mut id = [0; BACKUP_BYTES];
        id.copy_from_slice(&self.0[..BACKUP_BYTES]);
        BackupId(id)
    }

    pub(crate) fn object(&self) -> String {
        format!("{PACKS}{self}")
    }

    pub(crate) fn of_object(name: &str) -> Option<Self> {
        parse(name.strip_prefix(PACKS)?).map(Self)
    }
}

/// The hash of a chunk, of a leaf, or of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hash(pub(crate) [u8; 32]);

/// The header of the vault: what makes a directory or a bucket one.
pub(crate) const VAULT: &str = "vault";
/// The services that have written it, by number; the last one may.
pub(crate) const OWNERS: &str = "owners/";
pub(crate) const LEASES: &str = "leases/";
/// Backups that are not complete.
pub(crate) const SESSIONS: &str = "sessions/";
pub(crate) const PACKS: &str = "packs/";
pub(crate) const BACKUPS: &str = "backups/";
/// Backups that are to be removed.
pub(crate) const DELETED: &str = "deleted/";
const MANIFEST: &str = "manifest";

pub(crate) fn numbered(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:016}")
}

pub(crate) fn number_of(prefix: &str, name: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.parse().ok()
}

pub(crate) fn session(id: BackupId) -> String {
    format!("{SESSIONS}{id}")
}

pub(crate) fn deleted(id: BackupId) -> String {
    format!("{DELETED}{id}")
}

pub(crate) fn manifest(id: BackupId) -> String {
    format!("{BACKUPS}{id}/{MANIFEST}")
}

pub(crate) fn part(id: BackupId, number: [u8; 8]) -> String {
    format!("{BACKUPS}{id}/{}", BackupId(number))
}

pub(crate) fn packs_of(id: BackupId) -> String {
    format!("{PACKS}{id}")
}

/// The backup of an object below `prefix`.
pub(crate) fn backup_of(prefix: &str, name: &str) -> Option<BackupId> {
    BackupId::parse(name.strip_prefix(prefix)?.split('/').next()?)
}

pub(crate) fn is_manifest(name: &str) -> bool {
    name.starts_with(BACKUPS) && name.ends_with(MANIFEST)
}

fn parse<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

fn digits(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

macro_rules! hexadecimal {
    ($($name:ident),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                digits(f, &self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                digits(f, &self.0)
            }
        }
    )+};
}
hexadecimal!(BackupId, PackId, Hash);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_names() {
        let id = BackupId([0, 1, 2, 3, 4, 5, 0xfe, 0xff]);
        assert_eq!(id.to_string(), "000102030405feff");
        assert_eq!(BackupId::parse("000102030405feff"), Some(id));
        for bad in ["", "000102030405fef", "000102030405FEFF", "+00102030405feff"] {
            assert_eq!(BackupId::parse(bad), None, "{bad}");
        }
        assert_eq!(backup_of(BACKUPS, &manifest(id)), Some(id));
        assert!(is_manifest(&manifest(id)) && !is_manifest(&part(id, [1; 8])));
        assert_eq!(number_of(OWNERS, &numbered(OWNERS, 7)), Some(7));
        let pack = PackId([7; 20]);
        assert_eq!(PackId::of_object(&pack.object()), Some(pack));
        assert_eq!(pack.backup(), BackupId([7; 8]));
    }
}
