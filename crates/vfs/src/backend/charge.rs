//! Charges of an object against a volume's capacity besides the contents of a regular file.
//!
//! Every figure follows from the state that a walk over the files sees, so a recount agrees with the running count.
//! Each is at least the use on ext4, XFS and Btrfs, except for the trees that index it
//! (docs/decisions/0063-overhead.md).

use crate::model::attrs::FileType;

pub const BLOCK_BYTES: u64 = 4096;
/// An object without its names: the largest inode of the three file systems.
pub const INODE_BYTES: u64 = 512;
pub const NAME_BYTES: u64 = 512;
/// The part of the root directory that every volume has, which is not charged.
pub const ROOT_BYTES: u64 = INODE_BYTES + NAME_BYTES + BLOCK_BYTES;

/// The longest target of a symbolic link that lies in the inode.
const TARGET_BYTES_INLINE: u64 = 59;
/// An extended attribute besides its name, without the class, and its value.
const XATTR_HEAD_BYTES: u64 = 28;
/// The size up to which all extended attributes together fit in the inode.
const XATTR_BYTES_INLINE: u64 = 88;
/// The value of a larger extended attribute has blocks of its own.
const XATTR_BYTES_SMALL: u64 = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of storage in use.
    pub bytes: u64,
    /// Files, directories and all other objects; of a volume with the root directory.
    pub files: u64,
}

/// Rounds up to whole blocks.
pub const fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}

pub fn directory(size: u64) -> u64 {
    blocks(size).max(BLOCK_BYTES)
}

/// Returns the charge of a symbolic link with a target of this length.
pub fn symlink(target: u64) -> u64 {
    if target <= TARGET_BYTES_INLINE { 0 } else { blocks(target) }
}

/// Returns the charge of an object's content, without its extended attributes.
pub fn content(file_type: FileType, size: u64) -> u64 {
    match file_type {
        FileType::Regular => blocks(size),
        FileType::Directory => directory(size),
        FileType::Symlink => symlink(size),
        FileType::Fifo | FileType::Socket | FileType::Block | FileType::Character => 0,
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Xattrs {
    small: u64,
    large: u64,
}

impl Xattrs {
    /// Adds one, with the length of its name without the class.
    pub fn add(&mut self, name: usize, value: usize) {
        let (name, value) = (XATTR_HEAD_BYTES + name as u64, value as u64);
        self.small += name;
        if name + value > XATTR_BYTES_SMALL {
            self.large += blocks(value);
        } else {
            self.small += value;
        }
    }

    /// Returns the charge of all of them. File systems store small ones in blocks that may be half empty.
    pub fn bytes(self) -> u64 {
        let is_inline = self.small <= XATTR_BYTES_INLINE && self.large == 0;
        if is_inline { 0 } else { blocks(2 * self.small) + self.large }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged(attributes: &[(usize, usize)]) -> u64 {
        let mut charge = Xattrs::default();
        attributes.iter().for_each(|&(name, value)| charge.add(name, value));
        charge.bytes()
    }

    #[test]
    fn content_in_the_inode_is_charged_nothing_more() {
        assert_eq!([0, 59, 60, 4096].map(symlink), [0, 0, 4096, 4096]);
        assert_eq!([0, 4096, 4097].map(directory), [4096, 4096, 8192]);
        let (kept, owner) = (("plimsoll.kept".len(), 44), ("plimsoll.owner".len(), 11));
        assert_eq!([charged(&[]), charged(&[kept]), charged(&[owner])], [0; 3]);
        assert_eq!(charged(&[kept, owner]), BLOCK_BYTES);
    }

    #[test]
    fn attributes_beside_the_inode_are_charged_in_blocks() {
        assert_eq!(charged(&[(10, 300)]), 4096);
        assert_eq!(charged(&[(10, 900), (11, 900), (12, 900)]), 8192);
        assert_eq!(charged(&[(10, 65_536)]), 65_536 + 4096);
        assert_eq!(charged(&[(10, 1000), (11, 1000)]), 3 * 4096, "one each, and the names");
    }
}
