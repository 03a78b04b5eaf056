//! Renames and links: FileRenameInformation and FileLinkInformation (MS-FSA §2.1.5.15.11, §2.1.5.15.6).

use super::{others, streams};
use crate::limits::PATH_NAMES_MAX;
use crate::metadata::file_info::FileInfo;
use crate::metadata::names::locks::NameLock;
use crate::metadata::names::{self, Naming};
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::request::path_lookup::{find_name, folded_key, lock_name, resolve_parent};
use crate::state::open::{EntryPath, Open};
use crate::state::persistent::record;
use crate::state::service::Service;
use smb_wire::NtStatus;
use smb_wire::classes::file::RenameInformation;
use smb_wire::types::{AccessMask, FileAttributes};
use std::sync::Arc;
use vfs::claims::{self, OpenId, OpenRequest, Request, Requester, Rights, Verdict};
use vfs::{Attrs, Blocking, File, FileType, FsError, Resolved, Wait};

struct RenameTarget<'l> {
    dir: File,
    /// The stored spelling, if the name exists.
    name: Vec<u8>,
    path: Vec<Vec<u8>>,
    existing: Existing,
    lock: Option<NameLock<'l>>,
}

enum Existing {
    Nothing,
    /// The file itself, under the name of its open, perhaps in another case.
    OwnName,
    /// The file itself, under another of its names.
    OtherName,
    OtherFile(Resolved),
}

impl RenameTarget<'_> {
    fn replaced(&self) -> Option<&Resolved> {
        match &self.existing {
            Existing::OtherFile(replaced) => Some(replaced),
            Existing::Nothing | Existing::OwnName | Existing::OtherName => None,
        }
    }
}

pub(super) fn rename(
    cx: &mut RequestContext<'_, '_>,
    open: &Arc<Open>,
    args: &RenameInformation<'_>,
    ignores_read_only: bool,
) -> Result<(), CommandError> {
    open.check(AccessMask::DELETE)?;
    if !open.file.is_live() {
        // The new name is one of the live files (smb2.twrp.write).
        return Err(NtStatus::NOT_SAME_DEVICE.into());
    }
    if open.file.is_stream() {
        return streams::rename(cx, open, args);
    }
    let target = rename_target(cx.message.service, open, args)?;
    let from = open.entry_path().entry.clone();
    // The root of a share has no name.
    let (from_dir, from_name) = from.ok_or(NtStatus::ACCESS_DENIED)?;
    if target.path.starts_with(&open.entry_path().path) && target.path.len() > open.entry_path().path.len() {
        // A directory cannot be moved below itself.
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let gives_up = matches!(target.existing, Existing::OtherName);
    if gives_up && open.naming == Naming::Posix {
        // rename(2) leaves both names.
        return Ok(());
    }
    others::check_no_opens_below(cx, open)?;
    let claimed =
        target.replaced().map(|replaced| claim_replaced(open, replaced, ignores_read_only)).transpose()?;
    let parent = claim_parent(open, &target.dir)?;
    // The open's own leases do not conflict.
    let caller = &mut open.disk.caller.clone();
    caller.by = Requester::Open(open.claim());
    caller.listing = open.parent_lease();
    let after_reply = open.disk.claim_holder.breaks.pause();
    // Another client may have replaced the target meanwhile.
    let (file_id, to) = (open.file.attrs(Blocking::Allowed)?.file_id, &target.name[..]);
    let renamed = match gives_up {
        true => from_dir
            .remove_one_name(caller, &from_name, file_id, &target.dir, to, cx.message.pending)
            .map(drop),
        false => {
            from_dir.rename_file(caller, &from_name, file_id, &target.dir, to, cx.message.pending).map(drop)
        }
    };
    drop((claimed, parent, target.lock));
    if renamed.is_ok() {
        // A client ignores a listing's break that precedes the reply to its own change.
        cx.reply.guards.push(after_reply);
    } else {
        drop(after_reply);
    }
    renamed.map_err(|error| match error {
        FsError::NotFound | FsError::Stale => CommandError::Status(NtStatus::OBJECT_NAME_NOT_FOUND),
        FsError::Wait(Wait::Recall) => cx.wait_for_name(open, &open.file),
        error => error.into(),
    })?;
    let to = EntryPath { entry: Some((target.dir, target.name)), path: target.path, stream: None };
    let from = std::mem::replace(&mut *open.entry_path(), to.clone());
    // The rename stands although its record failed: the open is lost in a restart, which is logged.
    _ = record::save(open);
    others::update_opens(cx, open, &from, &to);
    Ok(())
}

pub(super) fn link(
    cx: &mut RequestContext<'_, '_>,
    open: &Arc<Open>,
    args: &RenameInformation<'_>,
) -> Result<(), CommandError> {
    let target = rename_target(cx.message.service, open, args)?;
    if open.is_dir() {
        return Err(NtStatus::FILE_IS_A_DIRECTORY.into());
    }
    match target.existing {
        Existing::OwnName | Existing::OtherName if args.replace_if_exists => return Ok(()),
        Existing::OwnName | Existing::OtherName => return Err(NtStatus::OBJECT_NAME_COLLISION.into()),
        Existing::Nothing | Existing::OtherFile(_) => {}
    }
    let caller = &mut open.disk.caller.clone();
    caller.by = Requester::Open(open.claim());
    caller.listing = open.parent_lease();
    // A client ignores a listing's break that precedes the reply to its own change.
    let after_reply = open.disk.claim_holder.breaks.pause();
    let (mut linked, mut in_the_way) = (target.dir.authorize_link(caller, &open.file), &open.file);
    if linked.is_ok() {
        linked = match target.replaced() {
            Some(replaced) => {
                let _taken = claim_replaced(open, replaced, false)?;
                in_the_way = &replaced.file;
                let file_id = replaced.attrs.file_id;
                target.dir.link_over(caller, &open.file, &target.name, file_id, cx.message.pending).map(drop)
            }
            None => target.dir.link(caller, &open.file, &target.name, cx.message.pending).map(drop),
        };
    }
    if linked == Err(FsError::Wait(Wait::Recall)) {
        drop(after_reply);
        return Err(cx.wait_for_name(open, in_the_way));
    }
    linked?;
    cx.reply.guards.push(after_reply);
    Ok(())
}

fn rename_target<'l>(
    service: &'l Service,
    open: &Open,
    args: &RenameInformation<'_>,
) -> Result<RenameTarget<'l>, CommandError> {
    if args.root_directory != 0 {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let wire: Vec<u16> = args.file_name.units().collect();
    let naming = open.naming;
    let path = names::path(wire.strip_prefix(&[naming.separator()]).unwrap_or(&wire), naming)?;
    let Some(name) = path.last().filter(|_| path.len() <= PATH_NAMES_MAX).cloned() else {
        return Err(NtStatus::OBJECT_NAME_INVALID.into());
    };
    let (dir, mut path) = resolve_parent(&open.disk, &path, naming)?;
    let lock = lock_name(service, &dir.file, &name, naming);
    let own = open.entry_path().entry.clone();
    // A change of case alone is a rename even in a case-insensitive file system.
    let is_own = |stored: &[u8], attrs: &Attrs| {
        let folds_to = |name: &[u8]| name == stored || folded_key(name) == folded_key(stored);
        let is_only = attrs.file_type == FileType::Directory || attrs.links < 2;
        is_only || own.is_some_and(|(of, name)| of.key() == dir.file.key() && folds_to(&name))
    };
    let (name, existing) = match find_name(&dir, &open.disk.caller, &name, naming) {
        Ok((stored, found)) if found.file.key() == open.file.key() => match is_own(&stored, &found.attrs) {
            true => (name, Existing::OwnName),
            false if args.replace_if_exists => (stored, Existing::OtherName),
            false => return Err(NtStatus::OBJECT_NAME_COLLISION.into()),
        },
        Ok((stored, found)) if args.replace_if_exists => (stored, Existing::OtherFile(found)),
        Ok(_) => return Err(NtStatus::OBJECT_NAME_COLLISION.into()),
        Err(FsError::NotFound) => (name, Existing::Nothing),
        Err(error) => return Err(error.into()),
    };
    path.push(name.clone());
    Ok(RenameTarget { dir: dir.file, name, path, existing, lock })
}

pub(super) struct ClaimGuard {
    file: File,
    claim: OpenId,
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.file.claim(&Request::Close(self.claim));
    }
}

/// Claims write access to the target directory. Fails if the directory is delete-pending or another open denies writing
/// (MS-FSA §2.1.5.15.11).
fn claim_parent(open: &Open, dir: &File) -> Result<ClaimGuard, CommandError> {
    claim_file(
        open,
        dir,
        claims::Access { rights: Rights::WRITE, deny: Rights::DELETE },
        NtStatus::SHARING_VIOLATION,
    )
}

/// Claims deletion of the file to replace. Fails if the file is open, and prevents new opens.
fn claim_replaced(
    open: &Open,
    replaced: &Resolved,
    ignores_read_only: bool,
) -> Result<ClaimGuard, CommandError> {
    let Resolved { file, attrs } = replaced;
    if attrs.file_type == FileType::Directory {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    if open.naming == Naming::Windows && !ignores_read_only {
        let file_info = FileInfo::of(attrs, &file.extra_attrs(attrs, Blocking::Allowed)?);
        if file_info.attributes.contains(FileAttributes::READONLY) {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
    }
    let all = Rights::READ | Rights::WRITE | Rights::DELETE;
    let access = claims::Access { rights: Rights::DELETE, deny: all };
    // Any other open prevents the replacement (MS-FSA §2.1.5.15.11).
    claim_file(open, file, access, NtStatus::ACCESS_DENIED)
}

pub(super) fn claim_file(
    open: &Open,
    file: &File,
    access: claims::Access,
    in_use: NtStatus,
) -> Result<ClaimGuard, CommandError> {
    let request = Request::Open(OpenRequest { is_advisory: true, ..open.auxiliary_request(file, access) });
    match file.claim(&request) {
        Verdict::Granted(granted) => {
            let claim = granted.open.ok_or(NtStatus::INTERNAL_ERROR)?;
            Ok(ClaimGuard { file: file.clone(), claim })
        }
        Verdict::Refused(claims::Conflict::Share | claims::Conflict::Absent) => Err(in_use.into()),
        Verdict::Refused(conflict) => Err(conflict.into()),
        Verdict::Wait(_) => Err(CommandError::Wait(Wait::Recall)),
    }
}
