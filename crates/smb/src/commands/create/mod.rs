//! CREATE: opens and creates files (MS-SMB2 §3.3.5.9, MS-FSA §2.1.5.1).

mod allocation;
mod apple;
mod attributes;
mod caching;
mod contexts;
mod durable;
mod frozen;
mod posix;
mod quota_index;
mod resolve;
mod streams;
mod timewarp;

use super::tree_connect::READ_ONLY;
use crate::limits::{CREATE_TRIES, PATH_NAMES_MAX};
use crate::metadata::file_info::FileInfo;
use crate::metadata::names::{self, Naming, Part};
use crate::metadata::rights::{
    claimed_by, data_access, mode_of, rights_from_list, rights_from_mode, without_generic,
};
use crate::pipes;
use crate::request::context::RequestContext;
use crate::request::outcome::{CommandError, CommandResult};
use crate::request::payload;
use crate::state::open::{EntryPath, NewOpen, Open};
use crate::state::pending::Interim;
use crate::state::tree::{DiskShare, Share};
use attributes::NewFileSecurity;
use caching::{CachingGrant, CachingRequest};
use contexts::ResponseContexts;
use durable::{DurableContext, DurableGrant, ExistingOpen};
use frozen::may_list;
use posix::PosixOptions;
use resolve::PathTarget;
use smb_wire::create::{
    CreateAction, CreateDisposition, CreateOptions, CreateRequest, CreateResponse, CreateResponseFlags,
    ImpersonationLevel, ShareAccess,
};
use smb_wire::lease::Lease;
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Encode, NtStatus, Writer};
use std::sync::Arc;
use vfs::claims::{Conflict, Granted, Io, IoKind, OpenRequest, Request, Requester, Span, Verdict};
use vfs::qos::Transferred;
use vfs::volume::change_notify::ChangeMask;
use vfs::{
    Access, Attrs, Blocking, Disposition, File, FileType, FsError, FsResult, OpenFile, SecurityStyle,
    SetAttrs, ViewId, Wait,
};

pub(crate) use allocation::check_room;
pub(crate) use caching::lease_owner;
pub(crate) use streams::{find as find_stream, lock as lock_stream};

/// The minimum length of a context's name (MS-SMB2 §2.2.13.2).
const CONTEXT_NAME_BYTES_MIN: usize = 4;

/// Undefined options (MS-FSA §2.1.5.1).
const OPTIONS_RESERVED: CreateOptions = CreateOptions(0xff00_0000);
/// Options that every server refuses (MS-SMB2 §2.2.13).
const OPTIONS_NOT_SUPPORTED: CreateOptions = CreateOptions::CREATE_TREE_CONNECTION
    .or(CreateOptions::OPEN_BY_FILE_ID)
    .or(CreateOptions::RESERVE_OPFILTER);

struct ResolvedFile {
    entry_path: EntryPath,
    file: File,
    attrs: Attrs,
    /// The type of the file, or of the stream's base file.
    base_type: FileType,
    naming: Naming,
    granted: AccessMask,
    action: CreateAction,
}

pub(crate) fn create(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let mut args: CreateRequest<'_> = RequestContext::decode(request)?;
    let disk = match &cx.tree()?.share {
        Share::Disk(disk) => Arc::clone(disk),
        Share::Pipe => {
            check(&args)?;
            return pipes::create(cx, &args, unrestricted_access(&args), w);
        }
    };
    cx.message.stats.target = Some(Arc::clone(&disk));
    let durable = DurableContext::of(cx, &args.contexts)?;
    let existing = match durable {
        // A reconnect ignores all other fields.
        DurableContext::Reconnect(wanted) => Some(durable::reconnect(cx, &args, &disk, wanted)?),
        durable => durable::find_replayed(cx, &args, &disk, &durable)?,
    };
    if let Some(ExistingOpen { open, action, caching, announces_durable }) = existing {
        let attrs = open.file.attrs(Blocking::Allowed)?;
        let durable = if announces_durable { durable } else { DurableContext::Nothing };
        return write_reply(cx, &args, &durable, CreatedOpen { open, attrs, action, caching }, w);
    }
    check(&args)?;
    let posix = PosixOptions::of(cx, &args.contexts)?;
    if posix.naming() == Naming::Posix {
        // In POSIX opens the mode alone controls writing.
        args.file_attributes = args.file_attributes.without(FileAttributes::READONLY);
    }
    if posix.naming() == Naming::Windows && quota_index::is_named(&disk, &args.name) {
        args = quota_index::open_of_root(args)?;
    }
    let (path, part) = names::path_and_part(&args.name.units().collect::<Vec<_>>(), posix.naming())?;
    if path.len() > PATH_NAMES_MAX {
        return Err(NtStatus::OBJECT_NAME_INVALID.into());
    }
    let view = timewarp::view_of(&disk, &args.contexts)?;
    if !must_exist(&args) && disk.export.volume.claims().is_in_grace() {
        // A file created now could not be opened.
        return Err(CommandError::Wait(Wait::Recall));
    }
    let mut has_deleted = false;
    for _ in 0..CREATE_TRIES {
        let resolved = match resolve(cx, &args, posix, &disk, view, &path, &part) {
            // Another client created it first.
            Err(CommandError::Status(NtStatus::OBJECT_NAME_COLLISION)) if !must_create(&args) => continue,
            Err(CommandError::Status(NtStatus::IO_REPARSE_TAG_NOT_HANDLED))
                if posix.naming() == Naming::Posix =>
            {
                return posix::stopped_on_link(&disk, view, &path, w);
            }
            resolved => resolved?,
        };
        let action = resolved.action;
        let (open, attrs, caching) = match open_and_claim(cx, &args, &durable, &disk, resolved) {
            // A disconnected open may have been the last of a delete-pending file, which is now deleted.
            Err(CommandError::Status(NtStatus::DELETE_PENDING)) if !has_deleted => {
                has_deleted = true;
                continue;
            }
            extra => extra?,
        };
        if let Some(creation) = cx.wait.create_registration.take() {
            creation.complete(&open, action);
        }
        cx.message.stats.count_metadata(Transferred { read: 0, written: payload::stored_bytes(&args) });
        return write_reply(cx, &args, &durable, CreatedOpen { open, attrs, action, caching }, w);
    }
    Err(CommandError::Wait(Wait::Recall))
}

struct CreatedOpen {
    open: Arc<Open>,
    attrs: Attrs,
    action: CreateAction,
    caching: CachingGrant,
}

fn write_reply(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    durable: &DurableContext,
    created: CreatedOpen,
    w: &mut Writer<'_>,
) -> CommandResult {
    let CreatedOpen { open, attrs, action, caching } = created;
    (cx.related.file_id, cx.related.attrs_at_open) = (Some(open.id), Some(attrs));
    let file_info = open.file_info(&attrs)?;
    let flags = if file_info.reparse_tag.is_some() && !open.is_dir() {
        CreateResponseFlags::REPARSEPOINT
    } else {
        CreateResponseFlags::empty()
    };
    let answers = ResponseContexts::build(
        &args.contexts,
        &open,
        &attrs,
        [
            apple::response(cx, &args.contexts, &open),
            caching.lease.map(|lease| (Lease::NAME, lease.to_bytes())),
            durable.response(&open),
            posix::response(cx, &args.contexts, &open, &attrs, &file_info),
        ],
    );
    let response = CreateResponse {
        oplock_level: caching.level,
        flags,
        create_action: action,
        creation_time: file_info.created,
        last_access_time: file_info.accessed,
        last_write_time: file_info.written,
        change_time: file_info.changed,
        allocation_size: file_info.allocation,
        end_of_file: file_info.size,
        file_attributes: file_info.attributes,
        file_id: open.id,
        contexts: answers.to_wire(),
    };
    cx.respond(w, &response)
}

fn resolve(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    posix: PosixOptions,
    disk: &Arc<DiskShare>,
    view: ViewId,
    path: &[Vec<u8>],
    part: &Part,
) -> Result<ResolvedFile, CommandError> {
    let is_dir = args.create_options.contains(CreateOptions::DIRECTORY_FILE);
    let making = (!must_exist(args)).then_some(cx.message.service);
    match (resolve::resolve_path(disk, view, path, posix.naming(), cx.message.path_cache, making)?, part) {
        (target, Part::Stream(name)) => streams::resolve(cx, args, disk, target, name),
        // `::$DATA` never names a directory.
        (_, Part::Data) if is_dir => Err(NtStatus::NOT_A_DIRECTORY.into()),
        (PathTarget::Found { attrs, .. }, Part::Data) if attrs.file_type == FileType::Directory => {
            Err(NtStatus::FILE_IS_A_DIRECTORY.into())
        }
        (PathTarget::Found { entry_path, file, attrs }, _) => {
            open_existing(args, posix.naming(), disk, entry_path, file, attrs)
        }
        (PathTarget::Missing(entry_path, _lock), _) => create_new(cx, args, posix, disk, entry_path),
    }
}

/// Checks a request independent of its target.
fn check(args: &CreateRequest<'_>) -> Result<(), NtStatus> {
    let (options, disposition) = (args.create_options, args.create_disposition);
    let replaces = matches!(
        disposition,
        CreateDisposition::SUPERSEDE | CreateDisposition::OVERWRITE | CreateDisposition::OVERWRITE_IF
    );
    let is_dir = options.contains(CreateOptions::DIRECTORY_FILE);
    let deletes = options.contains(CreateOptions::DELETE_ON_CLOSE);
    let desired = without_generic(args.desired_access);
    let may_delete = desired.intersects(AccessMask::DELETE | AccessMask::MAXIMUM_ALLOWED);
    let existing = AccessMask::FILE_ALL | AccessMask::MAXIMUM_ALLOWED | AccessMask::ACCESS_SYSTEM_SECURITY;
    let known_share = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    if args.impersonation_level > ImpersonationLevel::DELEGATE {
        return Err(NtStatus::BAD_IMPERSONATION_LEVEL);
    }
    if disposition > CreateDisposition::OVERWRITE_IF
        || options.intersects(OPTIONS_RESERVED)
        || !args.share_access.without(known_share).is_empty()
        || is_dir && options.contains(CreateOptions::NON_DIRECTORY_FILE)
        || is_dir && replaces
        || deletes && !may_delete
    {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if desired.is_empty() || !desired.without(existing).is_empty() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if desired.contains(AccessMask::ACCESS_SYSTEM_SECURITY) {
        return Err(NtStatus::PRIVILEGE_NOT_HELD);
    }
    if options.intersects(OPTIONS_NOT_SUPPORTED) {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    attributes::check(args)?;
    if args.contexts.0.iter().any(|context| context.name.len() < CONTEXT_NAME_BYTES_MIN) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(())
}

fn unrestricted_access(args: &CreateRequest<'_>) -> AccessMask {
    let desired = without_generic(args.desired_access);
    if desired.contains(AccessMask::MAXIMUM_ALLOWED) { AccessMask::FILE_ALL } else { desired }
}

fn must_create(args: &CreateRequest<'_>) -> bool {
    args.create_disposition == CreateDisposition::CREATE
}

fn must_exist(args: &CreateRequest<'_>) -> bool {
    matches!(args.create_disposition, CreateDisposition::OPEN | CreateDisposition::OVERWRITE)
}

/// Opens an existing file (MS-FSA §2.1.5.1.2).
fn open_existing(
    args: &CreateRequest<'_>,
    naming: Naming,
    disk: &DiskShare,
    entry_path: EntryPath,
    file: File,
    attrs: Attrs,
) -> Result<ResolvedFile, CommandError> {
    if must_create(args) {
        return Err(NtStatus::OBJECT_NAME_COLLISION.into());
    }
    let is_dir = attrs.file_type == FileType::Directory;
    let options = args.create_options;
    if is_dir && options.contains(CreateOptions::NON_DIRECTORY_FILE) {
        return Err(NtStatus::FILE_IS_A_DIRECTORY.into());
    }
    if !is_dir && options.contains(CreateOptions::DIRECTORY_FILE) {
        return Err(NtStatus::NOT_A_DIRECTORY.into());
    }
    let (action, overwrites) = match args.create_disposition {
        CreateDisposition::SUPERSEDE => (CreateAction::SUPERSEDED, true),
        CreateDisposition::OVERWRITE | CreateDisposition::OVERWRITE_IF => (CreateAction::OVERWRITTEN, true),
        _ => (CreateAction::OPENED, false),
    };
    if is_dir && overwrites {
        return Err(NtStatus::FILE_IS_A_DIRECTORY.into());
    }
    if !attrs.is_live() && (overwrites || options.contains(CreateOptions::DELETE_ON_CLOSE)) {
        return Err(NtStatus::MEDIA_WRITE_PROTECTED.into());
    }
    if attrs.file_type == FileType::Symlink && !options.contains(CreateOptions::OPEN_REPARSE_POINT) {
        return Err(NtStatus::IO_REPARSE_TAG_NOT_HANDLED.into());
    }
    let extra = file.extra_attrs(&attrs, Blocking::Allowed)?;
    if extra.is_damaged {
        let (volume, file) = (disk.export.volume.name(), attrs.file_id);
        tracing::warn!(volume, file, "the stored attributes of a file are damaged and ignored");
    }
    let file_info = FileInfo::of(&attrs, &extra);
    if overwrites && naming == Naming::Windows {
        attributes::check_overwrite(args, &file_info)?;
    }
    let desired = without_generic(args.desired_access);
    let maximal = maximal_access(disk, &entry_path, &file, &attrs, naming, desired)?;
    let requested = desired.without(AccessMask::MAXIMUM_ALLOWED);
    if !attrs.is_live() {
        frozen::check_access(disk, &entry_path, &file, &attrs, requested, maximal)?;
        let granted = if desired == requested { requested } else { maximal | requested };
        return Ok(ResolvedFile {
            entry_path,
            file,
            attrs,
            base_type: attrs.file_type,
            naming,
            granted,
            action,
        });
    }
    let needed = match overwrites {
        // A superseded file loses its extended attributes and gets new attributes.
        true if removes_streams(&file, naming) => {
            AccessMask::WRITE_DATA | AccessMask::WRITE_EA | AccessMask::WRITE_ATTRIBUTES
        }
        true => AccessMask::WRITE_DATA,
        false => AccessMask::empty(),
    };
    if !maximal.contains(requested | needed) {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let granted = if desired.contains(AccessMask::MAXIMUM_ALLOWED) { maximal } else { requested };
    let deletes = options.contains(CreateOptions::DELETE_ON_CLOSE);
    if deletes && (entry_path.deletion(&file, None).is_none() || !granted.contains(AccessMask::DELETE)) {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    if deletes && naming == Naming::Windows && file_info.attributes.contains(FileAttributes::READONLY) {
        return Err(NtStatus::CANNOT_DELETE.into());
    }
    Ok(ResolvedFile { entry_path, file, attrs, base_type: attrs.file_type, naming, granted, action })
}

/// Computes the user's rights on a file. Checks deletion only if `desired` includes it, or asks for all rights. POSIX
/// opens ignore the read-only attribute.
pub(crate) fn maximal_access(
    disk: &DiskShare,
    entry_path: &EntryPath,
    file: &File,
    attrs: &Attrs,
    naming: Naming,
    desired: AccessMask,
) -> FsResult<AccessMask> {
    let caller = &disk.caller;
    let reply = match file.is_stream() {
        true => file.access(caller, Blocking::Allowed)?,
        false => file.access_by(*attrs, caller, Blocking::Allowed)?,
    };
    let asks_removal = desired.intersects(AccessMask::DELETE | AccessMask::MAXIMUM_ALLOWED);
    let may_remove =
        |(dir, _): &(File, Vec<u8>)| dir.authorize_removal(caller, file, attrs, Blocking::Allowed).is_ok();
    let may_remove = match entry_path.stream {
        // Write permission to a file includes removing its streams.
        Some(_) => reply.modify,
        None => asks_removal && entry_path.entry.as_ref().is_some_and(may_remove),
    };
    let all = match file.rights(caller, attrs, Blocking::Allowed)? {
        Some(rights) => {
            let is_listed = entry_path.entry.as_ref().map(|(dir, _)| may_list(dir, caller)).transpose()?;
            let all = rights_from_list(rights, is_listed == Some(true), may_remove);
            // An export rule may restrict the rights of the ACL, and so does a snapshot.
            if caller.read_only || !attrs.is_live() { all & READ_ONLY } else { all }
        }
        None => rights_from_mode(&reply, attrs.file_type == FileType::Directory, may_remove),
    };
    if naming == Naming::Posix {
        return Ok(all);
    }
    let file_info = FileInfo::of(attrs, &file.extra_attrs(attrs, Blocking::Allowed)?);
    Ok(all.without(attributes::read_only_denied(attrs, &file_info)))
}

/// Creates a file or directory (MS-FSA §2.1.5.1.1).
fn create_new(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    posix: PosixOptions,
    disk: &DiskShare,
    entry_path: EntryPath,
) -> Result<ResolvedFile, CommandError> {
    if must_exist(args) {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND.into());
    }
    let Some((dir, name)) = &entry_path.entry else { return Err(NtStatus::OBJECT_NAME_INVALID.into()) };
    caching::check_lease_key(cx, args)?;
    let is_dir = args.create_options.contains(CreateOptions::DIRECTORY_FILE);
    let is_read_only = args.file_attributes.contains(FileAttributes::READONLY) && !is_dir;
    if is_read_only && args.create_options.contains(CreateOptions::DELETE_ON_CLOSE) {
        return Err(NtStatus::CANNOT_DELETE.into());
    }
    if !is_dir {
        allocation::check(args, dir, 0)?;
    }
    let NewFileSecurity { mode, acl } = attributes::security_of_new(cx, args, posix, disk, dir)?;
    let set = SetAttrs { mode, ..SetAttrs::default() };
    let mut caller = disk.caller.clone();
    caller.listing = caching::parent_lease_of(cx, args);
    let created = if is_dir {
        dir.make_dir_listed(&caller, name, &set, acl.as_ref(), cx.message.pending)
    } else {
        dir.create_listed(&caller, name, Disposition::CreateNew, &set, acl.as_ref(), cx.message.pending)
    };
    let created = created.map_err(|error| match error {
        // Windows reports a missing right to add names, whatever the cause.
        FsError::ReadOnly if disk.caller.read_only => CommandError::Status(NtStatus::ACCESS_DENIED),
        error => error.into(),
    })?;
    let attrs = match attributes::apply_to_new(
        &created.file,
        created.attrs,
        &disk.caller,
        args,
        cx.message.pending,
    ) {
        Ok(attrs) => attrs,
        Err(refused) => {
            // Attributes set before the failure have changed the file. A file that another client has written stays.
            let seen =
                created.file.attrs(Blocking::Allowed).ok().filter(|seen| seen.size == created.attrs.size);
            if let Some(seen) = seen {
                undo_create(cx, args, disk, &entry_path, &seen);
            }
            return Err(refused);
        }
    };
    let granted = unrestricted_access(args);
    let naming = posix.naming();
    let (file, base_type) = (created.file, attrs.file_type);
    Ok(ResolvedFile { file, attrs, base_type, naming, granted, action: CreateAction::CREATED, entry_path })
}

/// Removes a file whose creation cannot complete, unless another client already uses it.
fn undo_create(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    disk: &DiskShare,
    entry_path: &EntryPath,
    seen: &Attrs,
) {
    let Some((dir, name)) = &entry_path.entry else { return };
    let mut caller = disk.caller.clone();
    caller.listing = caching::parent_lease_of(cx, args);
    _ = dir.remove_as_seen(&caller, name, seen, cx.message.pending);
}

/// Claims the file and opens it, empty if it is overwritten.
fn open_and_claim(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    durable: &DurableContext,
    disk: &Arc<DiskShare>,
    resolved: ResolvedFile,
) -> Result<(Arc<Open>, Attrs, CachingGrant), CommandError> {
    let ResolvedFile { entry_path, file, attrs, base_type, naming, granted, action } = resolved;
    recall_writers(cx, disk, &file)?;
    let truncates = truncates(action);
    if truncates {
        prepare_overwrite(cx, args, disk, &file, &attrs, naming)?;
    }
    let deletes = args.create_options.contains(CreateOptions::DELETE_ON_CLOSE);
    if deletes {
        disk.check_writable(&file)?;
    }
    let opened = open_data(disk, &file, &attrs, granted, action)?;
    let app_instance = durable::close_failed_over(cx, args, durable, &file)?;
    let parent_lease = caching::parent_lease_of(cx, args);
    let caching_request = CachingRequest::of(cx, args, disk, &file, attrs.file_type)?;
    let request = claim_request(disk, &file, args, granted, truncates, &caching_request);
    let granted_claim = claim(cx, disk, &file, request).inspect_err(|stop| {
        if *stop == CommandError::Status(NtStatus::DELETE_PENDING) {
            // If no open remains, the refusing file is overdue for deletion; the caller tries again.
            disk.delete_closed_file(&file);
        }
    })?;
    let claim_open = granted_claim.open.ok_or(NtStatus::INTERNAL_ERROR)?;
    let grant = DurableGrant { caching: granted_claim.caching, want: caching_request.want(), action };
    let id = durable.new_id(cx);
    let (caching, answer) = caching_request.into_grant(cx, disk, id, &granted_claim);
    let open = Open::new(NewOpen {
        id,
        disk: Arc::clone(disk),
        file: file.clone(),
        file_type: attrs.file_type,
        base_type,
        naming,
        opened: opened.map(|opened| opened.with_claim(Requester::Open(claim_open))),
        granted,
        mode: mode_of(args.create_options),
        claim: claim_open,
        entry_path,
        channel_sequence: cx.header.channel_sequence(),
        caching,
        parent_lease,
    });
    let attrs = finish_claimed(cx, args, &open, &grant)?.unwrap_or(attrs);
    if let Some(app_instance) = app_instance {
        open.set_app_instance(app_instance);
    }
    durable.grant(cx, args, &open, grant);
    let open = Arc::new(open);
    cx.session()?
        .add_open(&cx.message.service.counters, cx.header.tree_id(), &open)
        .inspect_err(|_| open.close())?;
    if deletes {
        // Only after the open succeeded: a refused CREATE deletes nothing.
        open.delete_on_close();
    }
    Ok((open, attrs, answer))
}

fn truncates(action: CreateAction) -> bool {
    matches!(action, CreateAction::SUPERSEDED | CreateAction::OVERWRITTEN)
}

/// Completes an open after its claim. Returns the new attributes if they may have changed.
fn finish_claimed(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    open: &Open,
    grant: &DurableGrant,
) -> Result<Option<Attrs>, CommandError> {
    let mut attrs = None;
    if !grant.caching.is_none() {
        // A change in progress must end before the client caches anything.
        attrs = Some(open.file.pass_changes()?);
    }
    if truncates(grant.action) {
        attrs = Some(overwrite(cx, args, open)?);
    }
    if grant.action != CreateAction::OPENED && open.file_type == FileType::Regular {
        attrs = allocation::preallocate(cx, args, open, grant.action)?.or(attrs);
    }
    Ok(attrs)
}

fn claim_request(
    disk: &DiskShare,
    file: &File,
    args: &CreateRequest<'_>,
    granted: AccessMask,
    truncates: bool,
    caching_request: &CachingRequest,
) -> OpenRequest {
    // Overwriting needs write access, whatever the requested rights.
    let writes = if truncates { AccessMask::WRITE_DATA } else { AccessMask::empty() };
    OpenRequest {
        holder: disk.holder,
        stream: file.stream(),
        access: claimed_by(&disk.caller, file, granted | writes, args.share_access),
        truncates,
        is_mandatory: true,
        is_advisory: false,
        lease: caching_request.claim_request(),
        reclaims: false,
        waits: false,
    }
}

/// Recalls delegations of clients with unreported writes: the reply has size and times, even for an open without read
/// access.
fn recall_writers(
    cx: &mut RequestContext<'_, '_>,
    disk: &DiskShare,
    file: &File,
) -> Result<(), CommandError> {
    let by = disk.caller.by;
    match file.recall_writers(by) {
        Err(FsError::Wait(Wait::Recall)) => {}
        recalled => return Ok(recalled?),
    }
    let waker = cx.waker(None, NtStatus::CANCELLED, Interim::Always)?;
    let io = Io { by, stream: file.stream(), kind: IoKind::ReadAttrs, span: Span::ALL, waits: true };
    match file.claim(&Request::Io(io)) {
        Verdict::Wait(ticket) => Err(cx.wait_for_claim(disk, file, ticket, &waker)),
        Verdict::Granted(_) | Verdict::Refused(_) => Err(CommandError::Wait(Wait::Recall)),
    }
}

fn open_data(
    disk: &DiskShare,
    file: &File,
    attrs: &Attrs,
    granted: AccessMask,
    action: CreateAction,
) -> FsResult<Option<OpenFile<'static>>> {
    if attrs.file_type != FileType::Regular {
        return Ok(None);
    }
    // Nobody writes in a snapshot, whatever rights the open has.
    let granted = if attrs.is_live() { granted } else { granted & READ_ONLY };
    let access = data_access(granted, file.volume().security_style() == SecurityStyle::Ntfs);
    let opened = match action {
        CreateAction::CREATED => file.open_new(&disk.caller, access, Blocking::Allowed)?.0,
        _ => file.open_by(attrs, &disk.caller, access, Blocking::Allowed)?,
    };
    Ok(Some(opened.into_owned()))
}

/// Checks the space for the new contents, and recalls caches of streams that will be removed.
fn prepare_overwrite(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    disk: &DiskShare,
    file: &File,
    attrs: &Attrs,
    naming: Naming,
) -> Result<(), CommandError> {
    allocation::check(args, file, attrs.used)?;
    if removes_streams(file, naming) {
        streams::recall_stream_caches(cx, disk, file)?;
    }
    Ok(())
}

/// Whether overwriting removes the streams (MS-FSA §2.1.5.1.2.1). POSIX truncation keeps them.
fn removes_streams(file: &File, naming: Naming) -> bool {
    !file.is_stream() && naming == Naming::Windows
}

/// Empties the file of an overwriting open and drops the write claim made for that. Returns the new attributes.
fn overwrite(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    open: &Open,
) -> Result<Attrs, CommandError> {
    let (file, caller) = (&open.file, &open.disk.caller);
    let (writing, _) = file.open(caller, Access::WRITE, Blocking::Allowed)?;
    let by = Requester::Open(open.claim());
    let mut attrs = writing.into_owned().with_claim(by).replace(caller, cx.message.pending)?.after;
    if removes_streams(file, open.naming) {
        streams::notify_removal(file, by)?;
        file.remove_streams(caller, cx.message.pending)?;
        attrs = attributes::apply_to_overwritten(open, attrs, args, cx.message.pending)?;
    }
    open.notify_modified(ChangeMask::SIZE | ChangeMask::MODIFIED | ChangeMask::ATTRIBUTES);
    let access = claimed_by(caller, file, open.granted, args.share_access);
    // The write claim served the truncation alone; the open keeps the rights it requested.
    file.claim(&Request::Downgrade { open: open.claim(), access });
    Ok(attrs)
}

/// Claims the file. Waits until conflicting holders have released their caches.
fn claim(
    cx: &mut RequestContext<'_, '_>,
    disk: &DiskShare,
    file: &File,
    request: OpenRequest,
) -> Result<Granted, CommandError> {
    let mut verdict = file.claim(&Request::Open(request.clone()));
    if let Verdict::Refused(Conflict::Recalling) = verdict {
        let waker = cx.waker(None, NtStatus::CANCELLED, Interim::Always)?;
        verdict = file.claim(&Request::Open(OpenRequest { waits: true, ..request }));
        if let Verdict::Wait(ticket) = verdict {
            return Err(cx.wait_for_claim(disk, file, ticket, &waker));
        }
    }
    match verdict {
        Verdict::Granted(granted) => Ok(granted),
        Verdict::Refused(conflict) => Err(conflict.into()),
        Verdict::Wait(_) => Err(CommandError::Wait(Wait::Recall)),
    }
}
