//! Entries of a directory listing, MS-FSCC §2.4, in a chain.

use crate::apple::ReadDirAttributes;
use crate::chain::ChainWriter;
use crate::dir::DirectoryClass;
use crate::error::ReparseTag;
use crate::posix::PosixInformation;
use crate::types::FileAttributes;
use crate::{Encode, FileTime, Writer};

const ALIGNMENT: usize = 8;
/// Bytes of `ShortName`, its length and reserved bytes, all zero: there are no short names.
const SHORT_NAME_BYTES: usize = 26;

/// The union of the fields of all classes; each class encodes a subset. Without `NextEntryOffset`; `FileIndex` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    pub creation_time: FileTime,
    pub last_access_time: FileTime,
    pub last_write_time: FileTime,
    pub change_time: FileTime,
    pub end_of_file: u64,
    pub allocation_size: u64,
    pub file_attributes: FileAttributes,
    pub ea_size: u32,
    pub reparse_tag: ReparseTag,
    pub file_id: u64,
    /// Apple's attributes, encoded in [`DirectoryClass::ID_BOTH_DIRECTORY`] alone.
    pub apple: Option<ReadDirAttributes>,
    /// The name in UTF-16.
    pub file_name: &'a [u16],
}

/// Whether entries of this class can be encoded. [`ListingWriter::push_posix`] encodes the POSIX class.
pub fn is_supported(class: DirectoryClass) -> bool {
    matches!(
        class,
        DirectoryClass::DIRECTORY
            | DirectoryClass::FULL_DIRECTORY
            | DirectoryClass::BOTH_DIRECTORY
            | DirectoryClass::NAMES
            | DirectoryClass::ID_BOTH_DIRECTORY
            | DirectoryClass::ID_FULL_DIRECTORY
            | DirectoryClass::ID_EXTD_DIRECTORY
    )
}

impl DirectoryEntry<'_> {
    /// Appends the entry behind its `NextEntryOffset`.
    fn encode(&self, class: DirectoryClass, w: &mut Writer<'_>) {
        w.zeros(4);
        if class != DirectoryClass::NAMES {
            let times = [self.creation_time, self.last_access_time, self.last_write_time, self.change_time];
            crate::encode_list(&times, w);
            self.end_of_file.encode(w);
            self.allocation_size.encode(w);
            self.file_attributes.encode(w);
        }
        w.length::<u32>(2 * self.file_name.len());
        // The reparse tag takes the place of the EA size (MS-FSCC §2.4.17).
        let is_reparse = self.file_attributes.contains(FileAttributes::REPARSE_POINT);
        let ea_size = if is_reparse { self.reparse_tag.0 } else { self.ea_size };
        match class {
            DirectoryClass::FULL_DIRECTORY => ea_size.encode(w),
            DirectoryClass::BOTH_DIRECTORY => {
                ea_size.encode(w);
                w.zeros(SHORT_NAME_BYTES);
            }
            DirectoryClass::ID_BOTH_DIRECTORY => {
                match self.apple {
                    Some(apple) => {
                        (if is_reparse { ea_size } else { apple.max_access.0 }).encode(w);
                        apple.encode_short_name(w);
                    }
                    None => {
                        ea_size.encode(w);
                        w.zeros(SHORT_NAME_BYTES + 2);
                    }
                }
                self.file_id.encode(w);
            }
            DirectoryClass::ID_FULL_DIRECTORY => {
                ea_size.encode(w);
                w.zeros(4);
                self.file_id.encode(w);
            }
            DirectoryClass::ID_EXTD_DIRECTORY => {
                self.ea_size.encode(w);
                self.reparse_tag.encode(w);
                self.file_id.encode(w);
                w.zeros(8);
            }
            _ => {}
        }
        crate::encode_list(self.file_name, w);
    }
}

#[derive(Debug)]
pub struct ListingWriter {
    class: DirectoryClass,
    chain: ChainWriter,
}

impl ListingWriter {
    /// Begins at the position of `w` and writes at most `bytes_max` bytes.
    pub fn new(class: DirectoryClass, w: &Writer<'_>, bytes_max: usize) -> Self {
        Self { class, chain: ChainWriter::new(ALIGNMENT, w, bytes_max) }
    }

    /// Appends an entry. Returns `false` without a change if it does not fit.
    pub fn push(&mut self, entry: &DirectoryEntry<'_>, w: &mut Writer<'_>) -> bool {
        self.chain.push(w, |w| entry.encode(self.class, w))
    }

    /// Appends an entry of the POSIX extensions; `name` is UTF-16.
    pub fn push_posix(
        &mut self,
        information: &PosixInformation,
        file_name: &[u16],
        w: &mut Writer<'_>,
    ) -> bool {
        self.chain.push(w, |w| {
            w.zeros(4);
            information.encode(w);
            w.length::<u32>(2 * file_name.len());
            crate::encode_list(file_name, w);
        })
    }

    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apple::FinderInfo;
    use crate::types::AccessMask;

    fn listing(class: DirectoryClass, names: &[&[u16]], bytes_max: usize) -> (Vec<u8>, Vec<bool>) {
        // The buffer begins at an unaligned offset.
        let mut out = vec![0xee; 3];
        let mut w = Writer::new(&mut out);
        w.zeros(2);
        let mut listing = ListingWriter::new(class, &w, bytes_max);
        let entries =
            names.iter().map(|file_name| DirectoryEntry { file_name, file_id: 7, ..Default::default() });
        let fits = entries.map(|entry| listing.push(&entry, &mut w)).collect();
        (out.split_off(5), fits)
    }

    #[test]
    fn name_offset_matches_class() {
        for (class, fixed) in [
            (DirectoryClass::DIRECTORY, 64),
            (DirectoryClass::FULL_DIRECTORY, 68),
            (DirectoryClass::ID_FULL_DIRECTORY, 80),
            (DirectoryClass::BOTH_DIRECTORY, 94),
            (DirectoryClass::ID_BOTH_DIRECTORY, 104),
            (DirectoryClass::ID_EXTD_DIRECTORY, 88),
            (DirectoryClass::NAMES, 12),
        ] {
            let (bytes, _) = listing(class, &[&[0x61, 0x62]], 200);
            assert_eq!(bytes.len(), fixed + 4, "{class:?}");
            assert_eq!(bytes[fixed..], [0x61, 0, 0x62, 0], "{class:?}");
            assert!(is_supported(class));
        }
        assert!(!is_supported(DirectoryClass(0x99)));
    }

    #[test]
    fn apple_attributes_fit_in_place_of_short_name() {
        let apple = ReadDirAttributes {
            max_access: AccessMask(0x1f),
            resource_fork_bytes: 0x0102_0304_0506_0708,
            finder_info: FinderInfo([b'F'; 16]),
            unix_mode: 0o100_644,
        };
        let entry = |file_attributes| {
            let mut out = Vec::new();
            let mut w = Writer::new(&mut out);
            let mut listing = ListingWriter::new(DirectoryClass::ID_BOTH_DIRECTORY, &w, 200);
            let reparse_tag = ReparseTag::SYMLINK;
            let entry = DirectoryEntry {
                file_attributes,
                reparse_tag,
                file_id: 7,
                apple: Some(apple),
                ..Default::default()
            };
            assert!(listing.push(&entry, &mut w));
            out
        };
        let bytes = entry(FileAttributes::NORMAL);
        assert_eq!(bytes.len(), 104);
        assert_eq!(bytes[64..70], [0x1f, 0, 0, 0, 24, 0]);
        assert_eq!(bytes[70..78], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[78..94], [b'F'; 16]);
        assert_eq!(bytes[94..104], [0xa4, 0x81, 7, 0, 0, 0, 0, 0, 0, 0]);
        let link = entry(FileAttributes::REPARSE_POINT);
        assert_eq!(link[64..68], ReparseTag::SYMLINK.0.to_le_bytes(), "the tag keeps its place");
    }

    #[test]
    fn listing_entries_are_chained() {
        let (bytes, fits) = listing(DirectoryClass::NAMES, &[&[0x61], &[0x62], &[0x63]], 46);
        assert_eq!(fits, [true, true, true]);
        assert_eq!(bytes.len(), 46);
        assert_eq!((bytes[0], bytes[16], bytes[32]), (16, 16, 0));
        assert_eq!(bytes[14..16], [0, 0], "padding is zero");
    }

    #[test]
    fn oversized_entry_is_not_written() {
        let (bytes, fits) = listing(DirectoryClass::NAMES, &[&[0x61], &[0x62]], 29);
        assert_eq!(fits, [true, false]);
        assert_eq!((bytes.len(), bytes[0]), (14, 0));
        let (bytes, fits) = listing(DirectoryClass::NAMES, &[&[0x61]], 13);
        assert_eq!((bytes.len(), fits), (0, vec![false]));
    }
}
