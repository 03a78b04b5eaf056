//! Named streams in CREATE: finds one, or creates it with its file (MS-FSA §2.1.5.1).

use super::posix::PosixOptions;
use super::resolve::PathTarget;
use super::{
    ResolvedFile, caching, create_new, maximal_access, must_create, must_exist, open_existing, undo_create,
    unrestricted_access,
};
use crate::metadata::names::locks::NameLock;
use crate::metadata::names::{Naming, folded, stream_to_wire};
use crate::metadata::rights::without_generic;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::EntryPath;
use crate::state::pending::Interim;
use crate::state::service::Service;
use crate::state::tree::DiskShare;
use smb_wire::NtStatus;
use smb_wire::create::{CreateAction, CreateOptions, CreateRequest};
use smb_wire::types::AccessMask;
use vfs::claims::{Conflict, Io, IoKind, Request, Requester, Span, Verdict};
use vfs::volume::change_notify::ChangeMask;
use vfs::{Blocking, File, FileType, FsError, FsResult, Wait};

/// Finds or creates the stream `name` of `target`. POSIX opens have no streams.
pub(super) fn resolve(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    disk: &DiskShare,
    target: PathTarget<'_>,
    name: &[u8],
) -> Result<ResolvedFile, CommandError> {
    if args.create_options.contains(CreateOptions::DIRECTORY_FILE) {
        return Err(NtStatus::NOT_A_DIRECTORY.into());
    }
    let service = cx.message.service;
    let (entry_path, file, granted, new, base_type, _lock) = match target {
        PathTarget::Found { entry_path, file, attrs } => {
            let base_type = attrs.file_type;
            if attrs.file_type == FileType::Symlink {
                return Err(NtStatus::IO_REPARSE_TAG_NOT_HANDLED.into());
            }
            let lock = (!must_exist(args)).then(|| lock(service, &file, name));
            match find(&file, name) {
                Ok((stored, stream)) => {
                    let attrs = stream.attrs(Blocking::Allowed)?;
                    let entry_path = EntryPath { stream: Some(stored), ..entry_path };
                    let opened = open_existing(args, Naming::Windows, disk, entry_path, stream, attrs)?;
                    return Ok(ResolvedFile { base_type, ..opened });
                }
                Err(FsError::NotFound) if !must_exist(args) => {}
                Err(FsError::NotFound) => return Err(NtStatus::OBJECT_NAME_NOT_FOUND.into()),
                Err(error) => return Err(error.into()),
            }
            if !attrs.is_live() {
                return Err(NtStatus::MEDIA_WRITE_PROTECTED.into());
            }
            let entry_path = EntryPath { stream: Some(name.to_vec()), ..entry_path };
            let desired = without_generic(args.desired_access);
            let maximal = maximal_access(disk, &entry_path, &file, &attrs, Naming::Windows, desired)?;
            let requested = desired.without(AccessMask::MAXIMUM_ALLOWED);
            if !maximal.contains(requested | AccessMask::WRITE_DATA) {
                return Err(NtStatus::ACCESS_DENIED.into());
            }
            let granted = if desired == requested { requested } else { maximal };
            (entry_path, file, granted, None, base_type, lock)
        }
        // Holds the lock until the stream exists: a concurrent creator of another stream then finds this file.
        PathTarget::Missing(entry_path, lock) => {
            vfs::volume::streams::check_name(name)?;
            let ResolvedFile { entry_path, file, attrs, base_type, .. } =
                create_new(cx, args, PosixOptions::Windows, disk, entry_path)?;
            let entry_path = EntryPath { stream: Some(name.to_vec()), ..entry_path };
            (entry_path, file, unrestricted_access(args), Some(attrs), base_type, lock)
        }
    };
    let stream = match file.make_stream(&disk.caller, name, cx.message.pending) {
        // Another client created it first.
        Err(FsError::Exists) if !must_create(args) => return Err(CommandError::Wait(Wait::Recall)),
        created => {
            if let (Err(_), Some(seen)) = (&created, &new) {
                undo_create(cx, args, disk, &entry_path, seen);
            }
            created?
        }
    };
    entry_path.notify_modified(ChangeMask::MODIFIED, caching::parent_lease_of(cx, args));
    let attrs = stream.attrs(Blocking::Allowed)?;
    let (naming, action) = (Naming::Windows, CreateAction::CREATED);
    Ok(ResolvedFile { entry_path, file: stream, attrs, base_type, naming, granted, action })
}

pub(crate) fn lock<'l>(service: &'l Service, file: &File, name: &[u8]) -> NameLock<'l> {
    service.name_locks.lock(file, stream_to_wire(name).map(|wire| folded(&wire)))
}

/// Breaks the caches of streams of a file before it is overwritten, and waits: cached writes would be lost.
pub(super) fn recall_stream_caches(
    cx: &mut RequestContext<'_, '_>,
    disk: &DiskShare,
    file: &File,
) -> Result<(), CommandError> {
    for stream in all_streams(file)? {
        let io = replace_io(&stream, disk.caller.by);
        if stream.claim(&Request::Io(io)) != Verdict::Refused(Conflict::Recalling) {
            continue;
        }
        let waker = cx.waker(None, NtStatus::CANCELLED, Interim::Always)?;
        if let Verdict::Wait(ticket) = stream.claim(&Request::Io(Io { waits: true, ..io })) {
            return Err(cx.wait_for_claim(disk, &stream, ticket, &waker));
        }
    }
    Ok(())
}

/// Notifies holders of stream caches or exclusive opens that these streams will be deleted. Does not wait.
pub(super) fn notify_removal(file: &File, by: Requester) -> FsResult<()> {
    for stream in all_streams(file)? {
        stream.claim(&Request::Io(replace_io(&stream, by)));
    }
    Ok(())
}

fn all_streams(file: &File) -> FsResult<Vec<File>> {
    let mut names = Vec::new();
    file.list_streams(&mut |name, _, _| names.push(name.to_vec()))?;
    let found = names.iter().map(|name| file.find_stream(name));
    found.filter(|found| !matches!(found, Err(FsError::NotFound))).collect()
}

fn replace_io(stream: &File, by: Requester) -> Io {
    Io { by, stream: stream.stream(), kind: IoKind::Replace, span: Span::ALL, waits: false }
}

/// Finds a stream by exact name, else ignoring case. Returns its stored name too.
pub(crate) fn find(file: &File, name: &[u8]) -> FsResult<(Vec<u8>, File)> {
    match file.find_stream(name) {
        Err(FsError::NotFound) => {}
        found => return Ok((name.to_vec(), found?)),
    }
    let folded_name = folded(&stream_to_wire(name).ok_or(FsError::NotFound)?);
    let mut stored = None;
    file.list_streams(&mut |name, _, _| {
        if stream_to_wire(name).is_some_and(|wire| folded(&wire) == folded_name) {
            stored = Some(name.to_vec());
        }
    })?;
    let stored = stored.ok_or(FsError::NotFound)?;
    let stream = file.find_stream(&stored)?;
    Ok((stored, stream))
}
