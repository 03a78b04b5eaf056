//! Reparse points: reads symbolic links and special files, and turns files into them (MS-FSA §2.1.5.10, MS-FSCC
//! §2.1.2).

use super::answer::{FsctlReply, output_room};
use crate::commands::set_info::is_empty;
use crate::metadata::file_info::reparse_tag;
use crate::metadata::unix::{link_target, target_of};
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::request::path_lookup::lock_name;
use crate::state::caching::breaks::Break;
use crate::state::open::{EntryPath, NewOpen, Open};
use smb_wire::error::ReparseTag;
use smb_wire::ioctl::IoctlRequest;
use smb_wire::reparse::{NfsFile, ReparseData, SymbolicLink};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, NtStatus, Utf16};
use std::sync::Arc;
use vfs::claims::{self, Caching, Granted, Request, Requester, Rights, Verdict};
use vfs::{Attrs, Blocking, Created, Device, File, FileType, FsError, FsResult, Special, Wait};

/// Bytes of a `REPARSE_DATA_BUFFER` before its data, which must fit.
const HEAD_BYTES: usize = 8;

/// FSCTL_GET_REPARSE_POINT: the target of a link, or the type of a special file.
pub(super) fn get(open: &Open, args: &IoctlRequest<'_>) -> Result<FsctlReply, CommandError> {
    let reparse_tag = reparse_tag(open.file_type).ok_or(NtStatus::NOT_A_REPARSE_POINT)?;
    let mut output = match reparse_tag {
        ReparseTag::SYMLINK => link_of(open)?,
        reparse_tag => ReparseData::Other { reparse_tag, data: &[] }.to_bytes(),
    };
    if output_room(args) < HEAD_BYTES {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    let is_cut = output.len() > output_room(args);
    output.truncate(output_room(args));
    Ok(FsctlReply { status: if is_cut { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS }, output })
}

fn link_of(open: &Open) -> Result<Vec<u8>, CommandError> {
    let (_, target) = open.file.read_link()?;
    let (target, flags) = link_target(&target, open.naming).ok_or(NtStatus::OBJECT_NAME_INVALID)?;
    let name = Utf16::new(&target)?;
    let link = SymbolicLink { substitute_name: name, print_name: name, flags };
    Ok(ReparseData::SymbolicLink(link).to_bytes())
}

/// FSCTL_SET_REPARSE_POINT: turns an empty, exclusively open file into a link or a special file. The file system
/// creates a new file, which takes over the name and the open.
pub(super) fn set(
    cx: &mut RequestContext<'_, '_>,
    open: &Arc<Open>,
    input: &[u8],
) -> Result<FsctlReply, CommandError> {
    open.check(AccessMask::WRITE_DATA | AccessMask::WRITE_ATTRIBUTES)?;
    let target = SpecialTarget::of(input, open)?;
    let EntryPath { entry: Some((dir, name)), stream: None, .. } = open.entry_path().clone() else {
        return Err(NtStatus::ACCESS_DENIED.into());
    };
    if open.deletes() {
        return Err(NtStatus::DELETE_PENDING.into());
    }
    open.check_writable()?;
    let seen = open.file.attrs(Blocking::Allowed)?;
    check_replaceable(open, &seen, &target)?;
    let exclusive = ExclusiveClaim::of(open)?;
    let caller = &mut open.disk.caller.clone();
    caller.by = Requester::Open(open.claim());
    caller.listing = open.parent_lease();
    // A client ignores a listing's break that precedes the reply to its own change.
    let after_reply = open.disk.claim_holder.breaks.pause();
    // The name is briefly free.
    let lock = lock_name(cx.message.service, &dir, &name, open.naming);
    let created = dir.make_special_over(caller, &name, &seen, target.special(), cx.message.pending);
    drop(lock);
    let created = created.map_err(|error| match error {
        FsError::Wait(Wait::Recall) => cx.wait_for_name(open, &open.file),
        FsError::Stale => NtStatus::SHARING_VIOLATION.into(),
        error => error.into(),
    })?;
    cx.reply.guards.push(after_reply);
    replace_open(cx, open, created, exclusive.previous)?;
    Ok(FsctlReply { status: NtStatus::SUCCESS, output: Vec::new() })
}

enum SpecialTarget {
    Link(Vec<u8>),
    Fifo,
    Socket,
    Character(Device),
    Block(Device),
}

impl SpecialTarget {
    fn of(input: &[u8], open: &Open) -> Result<Self, NtStatus> {
        let data = ReparseData::from_bytes(input).map_err(|_| NtStatus::IO_REPARSE_DATA_INVALID)?;
        let link = |name: Utf16<'_>, flags| {
            target_of(&name.units().collect::<Vec<_>>(), flags, open.naming).map(Self::Link)
        };
        match data {
            ReparseData::SymbolicLink(SymbolicLink { substitute_name, flags, .. }) => {
                link(substitute_name, flags)
            }
            ReparseData::Nfs(NfsFile::Link(target)) => {
                let target = String::from_utf16(&target.units().collect::<Vec<_>>());
                target
                    .map(|target| Self::Link(target.into_bytes()))
                    .map_err(|_| NtStatus::IO_REPARSE_DATA_INVALID)
            }
            ReparseData::Nfs(NfsFile::Fifo) | ReparseData::Other { reparse_tag: ReparseTag::LX_FIFO, .. } => {
                Ok(Self::Fifo)
            }
            ReparseData::Nfs(NfsFile::Socket)
            | ReparseData::Other { reparse_tag: ReparseTag::AF_UNIX, .. } => Ok(Self::Socket),
            ReparseData::Nfs(NfsFile::Character { major, minor }) => {
                Ok(Self::Character(Device { major, minor }))
            }
            ReparseData::Nfs(NfsFile::Block { major, minor }) => Ok(Self::Block(Device { major, minor })),
            ReparseData::Other { .. } => Err(NtStatus::IO_REPARSE_TAG_INVALID),
        }
    }

    fn special(&self) -> Special<'_> {
        match self {
            Self::Link(target) => Special::Symlink(target),
            Self::Fifo => Special::Fifo,
            Self::Socket => Special::Socket,
            Self::Character(device) => Special::Character(*device),
            Self::Block(device) => Special::Block(*device),
        }
    }
}

/// Checks that the file has no data and no other name. An existing link may get another target.
fn check_replaceable(open: &Open, seen: &Attrs, target: &SpecialTarget) -> Result<(), CommandError> {
    let is_new = match seen.file_type {
        FileType::Directory if !is_empty(&open.file, open)? => {
            return Err(NtStatus::DIRECTORY_NOT_EMPTY.into());
        }
        FileType::Directory => !has_streams(&open.file)?,
        FileType::Regular => seen.size == 0 && seen.links == 1 && !has_streams(&open.file)?,
        FileType::Symlink if matches!(target, SpecialTarget::Link(_)) => seen.links == 1,
        _ => return Err(NtStatus::IO_REPARSE_TAG_MISMATCH.into()),
    };
    if is_new { Ok(()) } else { Err(NtStatus::NOT_SUPPORTED.into()) }
}

fn has_streams(file: &File) -> FsResult<bool> {
    let mut has = false;
    file.list_streams(&mut |_, _, _| has = true)?;
    Ok(has)
}

/// Prevents other opens of the file while it exists.
struct ExclusiveClaim<'o> {
    open: &'o Open,
    previous: claims::Access,
}

impl<'o> ExclusiveClaim<'o> {
    fn of(open: &'o Open) -> Result<Self, CommandError> {
        let previous = open.file.access_of(open.claim()).ok_or(NtStatus::FILE_CLOSED)?;
        let deny = Rights::READ | Rights::WRITE | Rights::DELETE;
        // Claims deletion of the name, so share modes and caches of others apply.
        let access = claims::Access { rights: Rights::DELETE, deny };
        let request = Request::Upgrade { open: open.claim(), access, reclaims: false, waits: false };
        match open.file.claim(&request) {
            Verdict::Granted(_) => Ok(Self { open, previous }),
            Verdict::Refused(conflict) => Err(conflict.into()),
            Verdict::Wait(_) => Err(CommandError::Wait(Wait::Recall)),
        }
    }
}

impl Drop for ExclusiveClaim<'_> {
    fn drop(&mut self) {
        self.open.file.claim(&Request::Downgrade { open: self.open.claim(), access: self.previous });
    }
}

fn replace_open(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    created: Created,
    access: claims::Access,
) -> Result<(), CommandError> {
    let Created { file, attrs, .. } = created;
    let request = Request::Open(open.auxiliary_request(&file, access));
    let Verdict::Granted(Granted { open: Some(claim), .. }) = file.claim(&request) else {
        return Err(NtStatus::SHARING_VIOLATION.into());
    };
    let new = Arc::new(Open::new(NewOpen {
        id: open.id,
        disk: Arc::clone(&open.disk),
        file,
        file_type: attrs.file_type,
        base_type: attrs.file_type,
        naming: open.naming,
        opened: None,
        granted: open.granted,
        mode: open.mode(),
        claim,
        entry_path: open.entry_path().clone(),
        channel_sequence: cx.header.channel_sequence(),
        caching: None,
        parent_lease: open.parent_lease(),
    }));
    let Some(old) = cx.session()?.replace_open(&new) else {
        new.close();
        return Err(NtStatus::FILE_CLOSED.into());
    };
    notify_uncached(&old);
    old.close();
    Ok(())
}

/// Notifies a client that it no longer caches anything of a replaced file.
fn notify_uncached(old: &Open) {
    let granted = old.file.granted_of(old.claim());
    if let Some(Granted { lease: Some(key), caching, epoch, .. }) = granted
        && !caching.is_none()
    {
        // Each change of a lease's state increments its epoch (MS-SMB2 §3.3.4.7).
        let epoch = epoch.wrapping_add(1);
        let step = Break { from: caching, to: Caching::NONE, epoch, acknowledge: false };
        old.disk.claim_holder.breaks.notify(key, step);
    }
}
