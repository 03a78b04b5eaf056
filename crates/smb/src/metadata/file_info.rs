//! The wire form of file attributes: from the file system, and from the stored [`ExtraAttrs`].

use smb_wire::FileTime;
use smb_wire::error::ReparseTag;
use smb_wire::types::FileAttributes;
use vfs::{Attrs, ExtraAttrs, FileType, Time, ViewId};

/// A file without any of these mode bits is read-only.
pub(crate) const WRITE_BITS: u32 = 0o222;
/// Directories report a size of 0.
const NO_SIZE: u64 = 0;

/// The attributes that are stored as a client sets them (MS-FSA §2.1.5.15.2).
pub(crate) const STORED: FileAttributes = FileAttributes(
    FileAttributes::HIDDEN.0
        | FileAttributes::SYSTEM.0
        | FileAttributes::READONLY.0
        | FileAttributes::ARCHIVE.0
        | FileAttributes::TEMPORARY.0
        | FileAttributes::OFFLINE.0
        | FileAttributes::NOT_CONTENT_INDEXED.0,
);
/// The stored attributes that FSCTLs set.
const STORED_BY_FSCTL: FileAttributes = FileAttributes::SPARSE_FILE;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileInfo {
    pub(crate) attributes: FileAttributes,
    pub(crate) reparse_tag: Option<ReparseTag>,
    pub(crate) created: FileTime,
    pub(crate) accessed: FileTime,
    pub(crate) written: FileTime,
    pub(crate) changed: FileTime,
    pub(crate) allocation: u64,
    pub(crate) size: u64,
}

/// The reparse tag of a file type that Windows lacks.
pub(crate) fn reparse_tag(file_type: FileType) -> Option<ReparseTag> {
    Some(match file_type {
        FileType::Regular | FileType::Directory => return None,
        FileType::Symlink => ReparseTag::SYMLINK,
        FileType::Fifo => ReparseTag::LX_FIFO,
        FileType::Character => ReparseTag::LX_CHR,
        FileType::Block => ReparseTag::LX_BLK,
        FileType::Socket => ReparseTag::AF_UNIX,
    })
}

impl FileInfo {
    pub(crate) fn of(attrs: &Attrs, extra: &ExtraAttrs) -> Self {
        Self::with_base(attrs.file_type, attrs, extra)
    }

    /// The attributes of a file, or of a stream of a file with type `base`.
    pub(crate) fn with_base(base: FileType, attrs: &Attrs, extra: &ExtraAttrs) -> Self {
        let is_dir = attrs.file_type == FileType::Directory;
        let reparse_tag = reparse_tag(attrs.file_type);
        let mut attributes = stored_flags(attrs.file_type, base, extra);
        // A file without write bits is read-only, even without the attribute.
        let is_read_only = base == FileType::Regular && attrs.mode & WRITE_BITS == 0 && !extra.is_listed;
        let auxiliary_request = [
            (is_dir, FileAttributes::DIRECTORY),
            (is_read_only, FileAttributes::READONLY),
            (reparse_tag.is_some(), FileAttributes::REPARSE_POINT),
            (attrs.view == ViewId::DIRECTORY, FileAttributes::HIDDEN),
        ];
        for (_, attribute) in auxiliary_request.into_iter().filter(|(has, _)| *has) {
            attributes |= attribute;
        }
        if attributes.is_empty() {
            attributes = FileAttributes::NORMAL;
        }
        Self {
            attributes,
            reparse_tag,
            created: file_time(extra.born_or_modified(attrs)),
            accessed: file_time(attrs.accessed),
            written: file_time(attrs.modified),
            changed: file_time(extra.changed(attrs)),
            allocation: if is_dir { NO_SIZE } else { attrs.used },
            size: if is_dir { NO_SIZE } else { attrs.size },
        }
    }
}

/// The stored attributes of a file with type `base`, as the file or its stream of `file_type` shows them. All streams
/// of a file share the sparse flag; a directory has none.
pub(crate) fn stored_flags(file_type: FileType, base: FileType, extra: &ExtraAttrs) -> FileAttributes {
    let default = match base {
        // A new file has the archive attribute (MS-FSA §2.1.5.1.1).
        FileType::Regular => FileAttributes::ARCHIVE,
        FileType::Directory => FileAttributes::empty(),
        _ => return FileAttributes::empty(),
    };
    let possible = if file_type == FileType::Directory { STORED } else { STORED | STORED_BY_FSCTL };
    extra.flags.map_or(default, FileAttributes) & possible
}

pub(crate) fn file_time(time: Time) -> FileTime {
    FileTime::from_unix(time.seconds, time.nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_follow_the_file_type() {
        let attrs = |file_type, mode| Attrs {
            file_type,
            mode,
            links: 1,
            uid: 0,
            gid: 0,
            size: 5,
            used: 4096,
            device: vfs::Device::default(),
            file_id: 1,
            accessed: Time { seconds: 3, nanos: 0 },
            modified: Time { seconds: 2, nanos: 0 },
            changed: Time { seconds: 4, nanos: 0 },
            change: 1,
            born: None,
            view: vfs::ViewId::LIVE,
        };
        let file = FileInfo::of(&attrs(FileType::Regular, 0o644), &ExtraAttrs::default());
        assert_eq!((file.attributes, file.size, file.allocation), (FileAttributes::ARCHIVE, 5, 4096));
        assert_eq!(file.created, file.written, "the file was there then");
        let read_only = FileInfo::of(&attrs(FileType::Regular, 0o444), &ExtraAttrs::default());
        assert_eq!(read_only.attributes, FileAttributes::ARCHIVE | FileAttributes::READONLY);
        let dir = FileInfo::of(&attrs(FileType::Directory, 0o555), &ExtraAttrs::default());
        assert_eq!((dir.attributes, dir.size), (FileAttributes::DIRECTORY, 0));
        let link = FileInfo::of(&attrs(FileType::Symlink, 0o777), &ExtraAttrs::default());
        assert_eq!(link.reparse_tag, Some(ReparseTag::SYMLINK));
        assert_eq!(link.attributes, FileAttributes::REPARSE_POINT);
        let keeps = |file_type, mode, flags: FileAttributes| {
            let mut extra = ExtraAttrs::default();
            extra.flags = Some(flags.0);
            FileInfo::of(&attrs(file_type, mode), &extra).attributes
        };
        assert_eq!(keeps(FileType::Regular, 0o644, FileAttributes::empty()), FileAttributes::NORMAL);
        let all = FileAttributes(u32::MAX);
        assert_eq!(
            keeps(FileType::Regular, 0o644, all),
            STORED | STORED_BY_FSCTL,
            "other attributes are ignored"
        );
        assert_eq!(keeps(FileType::Directory, 0o755, all), STORED | FileAttributes::DIRECTORY);
    }
}
