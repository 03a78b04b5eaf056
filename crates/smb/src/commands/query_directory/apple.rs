//! Finder's attributes of each entry of a listing, so that macOS need not query each file.

use crate::commands::create::maximal_access;
use crate::metadata::names::Naming;
use crate::state::open::{EntryPath, Open};
use smb_wire::apple::{AFP_INFO, AFP_INFO_BYTES, AFP_RESOURCE, FinderInfo, ReadDirAttributes};
use smb_wire::types::AccessMask;
use vfs::claims::Requester;
use vfs::{Access, Attrs, Blocking, File, FileKey, FileType, FsError, FsResult};

/// The file type bits of a mode (POSIX, `sys/stat.h`), in Unix numbering.
const fn kind_bits(file_type: FileType) -> u16 {
    match file_type {
        FileType::Fifo => 0o010_000,
        FileType::Character => 0o020_000,
        FileType::Directory => 0o040_000,
        FileType::Block => 0o060_000,
        FileType::Regular => 0o100_000,
        FileType::Symlink => 0o120_000,
        FileType::Socket => 0o140_000,
    }
}

/// Reads the attributes of the entry `name`. Omits unavailable attributes, so that one file does not end the listing.
pub(super) fn attributes(open: &Open, name: &[u8], key: &FileKey, attrs: &Attrs) -> ReadDirAttributes {
    let mode = u16::try_from(attrs.mode & vfs::model::attrs::MODE_BITS).unwrap_or(0);
    let mut listed =
        ReadDirAttributes { unix_mode: kind_bits(attrs.file_type) | mode, ..ReadDirAttributes::default() };
    if let Ok(file) = open.disk.export.file(key, Blocking::Allowed) {
        listed.max_access = maximal_rights(open, name, &file, attrs).unwrap_or_default();
        // Without stream information Finder shows none.
        _ = add_streams(open, &file, attrs, &mut listed);
    }
    listed
}

/// Returns the same rights as `MaximalAccess` of the file.
fn maximal_rights(open: &Open, name: &[u8], file: &File, attrs: &Attrs) -> FsResult<AccessMask> {
    let entry_path = match name {
        b"." => open.entry_path().clone(),
        b".." => EntryPath { entry: None, path: Vec::new(), stream: None },
        name => {
            let entry = Some((open.file.clone(), name.to_vec()));
            EntryPath { entry, path: Vec::new(), stream: None }
        }
    };
    maximal_access(&open.disk, &entry_path, file, attrs, Naming::Windows, AccessMask::MAXIMUM_ALLOWED)
}

/// Looks up two streams by name: a file may have a thousand, and a directory thousands of files.
fn add_streams(open: &Open, file: &File, attrs: &Attrs, listed: &mut ReadDirAttributes) -> FsResult<()> {
    match file.find_stream(AFP_RESOURCE) {
        Ok(fork) => listed.resource_fork_bytes = fork.attrs(Blocking::Allowed)?.size,
        Err(FsError::NotFound) => {}
        Err(error) => return Err(error),
    }
    let info = file.find_stream(AFP_INFO)?;
    let mut caller = open.disk.caller.clone();
    // The client's own caching of the stream is not broken.
    caller.by = Requester::Holder(open.disk.holder);
    let (opened, _) = info.open(&caller, Access::READ, Blocking::Allowed)?;
    let mut data = Vec::new();
    opened.read(0, AFP_INFO_BYTES + 1, &mut data, Blocking::Allowed)?;
    let is_folder = attrs.file_type == FileType::Directory;
    listed.finder_info = FinderInfo::from_afp_info(&data, is_folder).unwrap_or_default();
    Ok(())
}
