//! The attributes of a CREATE (MS-FSA §2.1.5.1), for new and for overwritten files.

use super::posix::PosixOptions;
use crate::commands::extended_attributes;
use crate::metadata::acl;
use crate::metadata::file_info::{FileInfo, STORED, stored_flags};
use crate::metadata::mode_descriptor::Classes;
use crate::metadata::names::Naming;
use crate::metadata::unix;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use crate::state::tree::DiskShare;
use smb_wire::contexts::SD_BUFFER;
use smb_wire::create::{CreateOptions, CreateRequest};
use smb_wire::ea::EA_BUFFER;
use smb_wire::security::{Control, SecurityDescriptor};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, NtStatus};
use vfs::model::attrs::SET_GID;
use vfs::{Acl, Attrs, Blocking, Caller, File, FileType, FsError, PendingSync, SecurityStyle, ShareSettings};

/// The attributes that a client may request (MS-FSA §2.1.5.1). Offline attributes are accepted but not stored.
const VALID_ATTRIBUTES: FileAttributes = FileAttributes(
    STORED.0
        | FileAttributes::DIRECTORY.0
        | FileAttributes::NORMAL.0
        | FileAttributes::SPARSE_FILE.0
        | FileAttributes::REPARSE_POINT.0
        | FileAttributes::COMPRESSED.0
        | FileAttributes::ENCRYPTED.0
        | FileAttributes::INTEGRITY_STREAM.0
        | FileAttributes::NO_SCRUB_DATA.0
        | FileAttributes::RECALL_ON_OPEN.0
        | FileAttributes::PINNED.0
        | FileAttributes::UNPINNED.0
        | FileAttributes::RECALL_ON_DATA_ACCESS.0,
);

pub(super) fn check(args: &CreateRequest<'_>) -> Result<(), NtStatus> {
    let is_dir = args.create_options.contains(CreateOptions::DIRECTORY_FILE);
    let (requested, never) = (args.file_attributes, FileAttributes::TEMPORARY);
    if !requested.without(VALID_ATTRIBUTES).is_empty() || is_dir && requested.intersects(never) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    args.contexts.find(EA_BUFFER).map_or(Ok(()), |bytes| extended_attributes::parse(bytes).map(drop))
}

/// Refuses to overwrite a hidden or system file unless the request has the same attribute (MS-FSA §2.1.5.1.2).
pub(super) fn check_overwrite(args: &CreateRequest<'_>, file_info: &FileInfo) -> Result<(), NtStatus> {
    let marks = FileAttributes::HIDDEN | FileAttributes::SYSTEM;
    let unsaid = (file_info.attributes & marks).without(args.file_attributes);
    if unsaid.is_empty() { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
}

pub(super) struct NewFileSecurity {
    /// The mode, on volumes with Unix rules.
    pub(super) mode: Option<u32>,
    /// The ACL, on volumes with NTFS rules.
    pub(super) acl: Option<Acl>,
}

/// The permissions of a new file in `dir`: from its descriptor (MS-SMB2 §2.2.13.2.2), else from its POSIX mode.
pub(super) fn security_of_new(
    cx: &RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    posix: PosixOptions,
    disk: &DiskShare,
    dir: &File,
) -> Result<NewFileSecurity, CommandError> {
    let by_mode = |mode| NewFileSecurity { mode, acl: None };
    let is_dir = args.create_options.contains(CreateOptions::DIRECTORY_FILE);
    let share = cx.share_settings(disk);
    // Default modes act like a umask, which an inheritable ACL of the directory replaces.
    let usual = ShareSettings::default();
    let (set, usual) = match is_dir {
        true => (share.directory_mode, usual.directory_mode),
        false => (share.create_mode, usual.create_mode),
    };
    let usual = posix.mode().or((set != usual).then_some(set));
    let Some(bytes) = args.contexts.find(SD_BUFFER) else { return Ok(by_mode(usual)) };
    let descriptor = SecurityDescriptor::from_bytes(bytes).map_err(|_| NtStatus::INVALID_SECURITY_DESCR)?;
    let dir = dir.attrs(Blocking::Allowed)?;
    let caller = &disk.caller;
    let gid = if dir.mode & SET_GID != 0 { dir.gid } else { caller.gid };
    let resolver = &*cx.message.service.resolver;
    let classes = Classes::of(resolver, caller.uid, gid)?;
    // A new file always belongs to its creator.
    if descriptor.owner.is_some_and(|owner| owner != classes.owner) {
        return Err(NtStatus::INVALID_OWNER.into());
    }
    if !descriptor.control.contains(Control::DACL_PRESENT) {
        return Ok(by_mode(usual));
    }
    let mode = unix::mode_of(descriptor.dacl.as_ref()).filter(|_| posix.naming() == Naming::Posix);
    if mode.is_some() {
        return Ok(by_mode(mode));
    }
    if disk.export.volume.security_style() == SecurityStyle::Ntfs {
        return Ok(NewFileSecurity { mode: None, acl: Some(acl::from_wire(resolver, &descriptor)?) });
    }
    let file_type = if is_dir { FileType::Directory } else { FileType::Regular };
    Ok(by_mode(Some(classes.mode(descriptor.dacl.as_ref(), file_type, 0)?)))
}

/// The rights that a read-only file denies to everyone (MS-FSA §2.1.5.1.2.1).
pub(super) fn read_only_denied(attrs: &Attrs, file_info: &FileInfo) -> AccessMask {
    let is_bound =
        attrs.file_type == FileType::Regular && file_info.attributes.contains(FileAttributes::READONLY);
    if is_bound { AccessMask::WRITE_DATA | AccessMask::APPEND_DATA } else { AccessMask::empty() }
}

pub(super) fn apply_to_new(
    file: &File,
    attrs: Attrs,
    caller: &Caller,
    args: &CreateRequest<'_>,
    pending: &mut PendingSync,
) -> Result<Attrs, CommandError> {
    let attrs = store_flags(file, caller, attrs, args.file_attributes, pending)?;
    set_eas(file, caller, attrs, args, pending)
}

/// Sets the attributes of an overwritten file like those of a new one and returns its attributes.
pub(super) fn apply_to_overwritten(
    open: &Open,
    attrs: Attrs,
    args: &CreateRequest<'_>,
    pending: &mut PendingSync,
) -> Result<Attrs, CommandError> {
    let (file, caller) = (&open.file, &open.disk.caller);
    extended_attributes::clear(file, caller, &attrs, pending)?;
    let attrs = file.attrs(Blocking::Allowed)?;
    let attrs = store_flags(file, caller, attrs, args.file_attributes, pending)?;
    set_eas(file, caller, attrs, args, pending)
}

fn store_flags(
    file: &File,
    caller: &Caller,
    attrs: Attrs,
    requested: FileAttributes,
    pending: &mut PendingSync,
) -> Result<Attrs, CommandError> {
    let extra = file.extra_attrs(&attrs, Blocking::Allowed)?;
    let flags = match attrs.file_type {
        FileType::Regular => (requested & STORED) | FileAttributes::ARCHIVE,
        _ => requested & STORED,
    };
    if flags == stored_flags(attrs.file_type, attrs.file_type, &extra) {
        return Ok(attrs);
    }
    match file.update_extra_attrs(caller, |extra| extra.flags = Some(flags.0), pending) {
        // The storage cannot store them; the file is created without.
        Err(FsError::NotSupported) => Ok(attrs),
        extra => Ok(extra?.after),
    }
}

/// Sets the extended attributes of the request (MS-SMB2 §2.2.13.2.1).
fn set_eas(
    file: &File,
    caller: &Caller,
    attrs: Attrs,
    args: &CreateRequest<'_>,
    pending: &mut PendingSync,
) -> Result<Attrs, CommandError> {
    let Some(bytes) = args.contexts.find(EA_BUFFER) else { return Ok(attrs) };
    extended_attributes::apply(file, caller, &extended_attributes::parse(bytes)?, pending)?;
    Ok(file.attrs(Blocking::Allowed)?)
}
