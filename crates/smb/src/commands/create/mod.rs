//! CREATE: opening and making files (MS-SMB2 §3.3.5.9, MS-FSA §2.1.5.1).

mod allocation;
mod apple;
mod attributes;
mod caching;
mod contexts;
mod durable;
mod posix;
mod resolve;
mod streams;

use super::tree_connect::READ_ONLY;
use crate::limits::{CREATE_TRIES, PATH_NAMES_MAX};
use crate::metadata::file_info::Shown;
use crate::metadata::names::{self, Naming, Part};
use crate::metadata::rights::{claimed_by, data_access, mode_of, of_attrs, of_list, without_generic};
use crate::pipes;
use crate::request::context::{Done, Ops, Stop};
use crate::request::payload;
use crate::state::open::{NewOpen, Open, Place};
use crate::state::pending::Interim;
use crate::state::tree::{Disk, Share};
use crate::status::of_conflict;
use attributes::New;
use caching::{Answer, Wish};
use contexts::Answers;
use durable::{Asked, Granting, Known};
use posix::Rules;
use resolve::Target;
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
    Access, Attrs, Blocking, Caller, Disposition, File, FileType, FsError, FsResult, OpenFile, SecurityStyle,
    SetAttrs, Wait,
};

pub(crate) use allocation::check_room;
pub(crate) use caching::lessee;
pub(crate) use streams::{find as find_stream, lock as lock_stream};

/// Names of create contexts have so many bytes, or more (MS-SMB2 §2.2.13.2).
const CONTEXT_NAME_BYTES_MIN: usize = 4;

/// Options that there are not (MS-FSA §2.1.5.1).
const OPTIONS_RESERVED: CreateOptions = CreateOptions(0xff00_0000);
/// Options that every server refuses (MS-SMB2 §2.2.13).
const OPTIONS_NOT_SUPPORTED: CreateOptions = CreateOptions::CREATE_TREE_CONNECTION
    .or(CreateOptions::OPEN_BY_FILE_ID)
    .or(CreateOptions::RESERVE_OPFILTER);

/// A file as CREATE has found or made it.
struct Chosen {
    place: Place,
    file: File,
    attrs: Attrs,
    /// The type of the file that it is, or that it is a stream of.
    base_type: FileType,
    naming: Naming,
    granted: AccessMask,
    action: CreateAction,
}

/// MS-SMB2 §3.3.5.9.
pub(crate) fn create(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let mut args: CreateRequest<'_> = Ops::decode(request)?;
    let disk = match &ops.tree()?.share {
        Share::Disk(disk) => Arc::clone(disk),
        Share::Pipe => {
            check(&args)?;
            return pipes::create(ops, &args, granted_freely(&args), w);
        }
    };
    ops.stats.target = Some(Arc::clone(&disk));
    let asked = Asked::of(ops, &args.contexts)?;
    let known = match asked {
        // Of everything else that such a request says nothing counts.
        Asked::Reconnect(wanted) => Some(durable::reconnect(ops, &args, &disk, wanted)?),
        asked => durable::replayed(ops, &args, &disk, &asked)?,
    };
    if let Some(Known { open, action, caching, is_told }) = known {
        let attrs = open.file.attrs(Blocking::Allowed)?;
        let asked = if is_told { asked } else { Asked::Nothing };
        return answer(ops, (&args, &asked), Made { open, attrs, action, caching }, w);
    }
    check(&args)?;
    let rules = Rules::of(ops, &args.contexts)?;
    if rules.naming() == Naming::Posix {
        // The mode says who may write the file.
        args.file_attributes = args.file_attributes.without(FileAttributes::READONLY);
    }
    let (path, part) = names::path_and_part(&args.name.units().collect::<Vec<_>>(), rules.naming())?;
    if path.len() > PATH_NAMES_MAX {
        return Err(NtStatus::OBJECT_NAME_INVALID.into());
    }
    if !must_be_there(&args) && disk.export.volume.claims().is_in_grace() {
        // What is made now could not be opened.
        return Err(Stop::Delayed);
    }
    let mut has_deleted = false;
    for _ in 0..CREATE_TRIES {
        let chosen = match choose(ops, (&args, rules), &disk, &path, &part) {
            // Somebody else was faster.
            Err(Stop::Status(NtStatus::OBJECT_NAME_COLLISION)) if !must_make(&args) => continue,
            Err(Stop::Status(NtStatus::IO_REPARSE_TAG_NOT_HANDLED)) if rules.naming() == Naming::Posix => {
                return posix::stopped_on_link(&disk, &path, w);
            }
            chosen => chosen?,
        };
        let action = chosen.action;
        let (open, attrs, caching) = match keep(ops, (&args, &asked), &disk, chosen) {
            // An open without a connection may have been the last of a file that was to go with it, and has gone.
            Err(Stop::Status(NtStatus::DELETE_PENDING)) if !has_deleted => {
                has_deleted = true;
                continue;
            }
            kept => kept?,
        };
        if let Some(creation) = ops.creation.take() {
            creation.done(&open, action);
        }
        ops.stats.count_listed(Transferred { read: 0, written: payload::stored_bytes(&args) });
        return answer(ops, (&args, &asked), Made { open, attrs, action, caching }, w);
    }
    Err(Stop::Delayed)
}

/// An open as its client is told of it.
struct Made {
    open: Arc<Open>,
    attrs: Attrs,
    action: CreateAction,
    caching: Answer,
}

fn answer(
    ops: &mut Ops<'_>,
    (args, asked): (&CreateRequest<'_>, &Asked),
    made: Made,
    w: &mut Writer<'_>,
) -> Done {
    let Made { open, attrs, action, caching } = made;
    (ops.file, ops.told) = (Some(open.id), Some(attrs));
    let shown = open.shown(&attrs)?;
    let flags = if shown.reparse_tag.is_some() && !open.is_dir() {
        CreateResponseFlags::REPARSEPOINT
    } else {
        CreateResponseFlags::empty()
    };
    let answers = Answers::to(
        &args.contexts,
        &open,
        &attrs,
        [
            apple::answer(ops, &args.contexts, &open),
            caching.lease.map(|lease| (Lease::NAME, lease.to_bytes())),
            asked.answer(&open),
            posix::answer(ops, &args.contexts, &open, (&attrs, &shown)),
        ],
    );
    let response = CreateResponse {
        oplock_level: caching.level,
        flags,
        create_action: action,
        creation_time: shown.created,
        last_access_time: shown.accessed,
        last_write_time: shown.written,
        change_time: shown.changed,
        allocation_size: shown.allocation,
        end_of_file: shown.size,
        file_attributes: shown.attributes,
        file_id: open.id,
        contexts: answers.on_wire(),
    };
    ops.reply(w, &response)
}

/// What is at `path`, made where the request says so.
fn choose(
    ops: &mut Ops<'_>,
    (args, rules): (&CreateRequest<'_>, Rules),
    disk: &Arc<Disk>,
    path: &[Vec<u8>],
    part: &Part,
) -> Result<Chosen, Stop> {
    let is_dir = args.create_options.contains(CreateOptions::DIRECTORY_FILE);
    let making = (!must_be_there(args)).then_some(ops.service);
    match (resolve::walk(disk, path, rules.naming(), ops.trail, making)?, part) {
        (target, Part::Stream(name)) => streams::choose(ops, args, disk, target, name),
        // Whoever says that the data are meant wants no directory.
        (_, Part::Data) if is_dir => Err(NtStatus::NOT_A_DIRECTORY.into()),
        (Target::Found { attrs, .. }, Part::Data) if attrs.file_type == FileType::Directory => {
            Err(NtStatus::FILE_IS_A_DIRECTORY.into())
        }
        (Target::Found { place, file, attrs }, _) => take((args, rules.naming()), disk, place, file, attrs),
        (Target::Missing(place, _lock), _) => make(ops, (args, rules), disk, place),
    }
}

/// What is wrong with a request, whatever it names.
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
    let known = AccessMask::FILE_ALL | AccessMask::MAXIMUM_ALLOWED | AccessMask::ACCESS_SYSTEM_SECURITY;
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
    if desired.is_empty() || !desired.without(known).is_empty() {
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
    // Of no snapshot is anything there yet (MS-SMB2 §2.2.13.2.7).
    if args.contexts.find(b"TWrp").is_some() {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    Ok(())
}

/// The rights asked for, where nothing stands against any.
fn granted_freely(args: &CreateRequest<'_>) -> AccessMask {
    let desired = without_generic(args.desired_access);
    if desired.contains(AccessMask::MAXIMUM_ALLOWED) { AccessMask::FILE_ALL } else { desired }
}

/// Whether the name must be free.
fn must_make(args: &CreateRequest<'_>) -> bool {
    args.create_disposition == CreateDisposition::CREATE
}

/// Whether the name must be there already: nothing is made.
fn must_be_there(args: &CreateRequest<'_>) -> bool {
    matches!(args.create_disposition, CreateDisposition::OPEN | CreateDisposition::OVERWRITE)
}

/// A file that is there already (MS-FSA §2.1.5.1.2).
fn take(
    (args, naming): (&CreateRequest<'_>, Naming),
    disk: &Disk,
    place: Place,
    file: File,
    attrs: Attrs,
) -> Result<Chosen, Stop> {
    if must_make(args) {
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
    if attrs.file_type == FileType::Symlink && !options.contains(CreateOptions::OPEN_REPARSE_POINT) {
        return Err(NtStatus::IO_REPARSE_TAG_NOT_HANDLED.into());
    }
    let kept = file.extra_attrs(&attrs, Blocking::Allowed)?;
    if kept.is_damaged {
        let (volume, file) = (disk.export.volume.name(), attrs.file_id);
        tracing::warn!(volume, file, "what is kept with a file is damaged, and counts as nothing");
    }
    let shown = Shown::of(&attrs, &kept);
    if overwrites && naming == Naming::Windows {
        attributes::check_overwrite(args, &shown)?;
    }
    let desired = without_generic(args.desired_access);
    let maximal = maximal(disk, &place, (&file, &attrs), (naming, desired))?;
    let asked = desired.without(AccessMask::MAXIMUM_ALLOWED);
    let needed = match overwrites {
        // It begins anew: its extended attributes go, and its attributes are set (MS-FSA §2.1.5.1.2).
        true if removes_streams(&file, naming) => {
            AccessMask::WRITE_DATA | AccessMask::WRITE_EA | AccessMask::WRITE_ATTRIBUTES
        }
        true => AccessMask::WRITE_DATA,
        false => AccessMask::empty(),
    };
    if !maximal.contains(asked | needed) {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let granted = if desired.contains(AccessMask::MAXIMUM_ALLOWED) { maximal } else { asked };
    let deletes = options.contains(CreateOptions::DELETE_ON_CLOSE);
    if deletes && (place.deletion(&file, None).is_none() || !granted.contains(AccessMask::DELETE)) {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    if deletes && naming == Naming::Windows && shown.attributes.contains(FileAttributes::READONLY) {
        return Err(NtStatus::CANNOT_DELETE.into());
    }
    Ok(Chosen { place, file, attrs, base_type: attrs.file_type, naming, granted, action })
}

/// The rights of the user on a file. Whether it may be deleted is looked at only if `desired` asks for that, or for all rights. To Unix
/// the attribute *read-only* says nothing.
pub(crate) fn maximal(
    disk: &Disk,
    place: &Place,
    (file, attrs): (&File, &Attrs),
    (naming, desired): (Naming, AccessMask),
) -> FsResult<AccessMask> {
    let caller = &disk.caller;
    let reply = match file.is_stream() {
        true => file.access(caller, Blocking::Allowed)?,
        false => file.access_by(*attrs, caller, Blocking::Allowed)?,
    };
    let asks_removal = desired.intersects(AccessMask::DELETE | AccessMask::MAXIMUM_ALLOWED);
    let may_remove =
        |(dir, _): &(File, Vec<u8>)| dir.authorize_removal(caller, file, attrs, Blocking::Allowed).is_ok();
    let may_remove = match place.stream {
        // Whoever may write a file may remove its streams.
        Some(_) => reply.modify,
        None => asks_removal && place.entry.as_ref().is_some_and(may_remove),
    };
    let all = match file.rights(caller, attrs, Blocking::Allowed)? {
        Some(rights) => {
            let is_listed = place.entry.as_ref().map(|(dir, _)| lists(dir, caller)).transpose()?;
            let all = of_list(rights, is_listed == Some(true), may_remove);
            // The rule of an export may refuse what a list gives.
            if caller.read_only { all & READ_ONLY } else { all }
        }
        None => of_attrs(&reply, attrs.file_type == FileType::Directory, may_remove),
    };
    if naming == Naming::Posix {
        return Ok(all);
    }
    let shown = Shown::of(attrs, &file.extra_attrs(attrs, Blocking::Allowed)?);
    Ok(all.without(attributes::refused(attrs, &shown)))
}

/// Whether somebody may list a directory.
fn lists(dir: &File, caller: &Caller) -> FsResult<bool> {
    Ok(dir.access(caller, Blocking::Allowed)?.read)
}

/// A file or directory that is made (MS-FSA §2.1.5.1.1).
fn make(
    ops: &mut Ops<'_>,
    (args, rules): (&CreateRequest<'_>, Rules),
    disk: &Disk,
    place: Place,
) -> Result<Chosen, Stop> {
    if must_be_there(args) {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND.into());
    }
    let Some((dir, name)) = &place.entry else { return Err(NtStatus::OBJECT_NAME_INVALID.into()) };
    caching::check_new(ops, args)?;
    let is_dir = args.create_options.contains(CreateOptions::DIRECTORY_FILE);
    let is_read_only = args.file_attributes.contains(FileAttributes::READONLY) && !is_dir;
    if is_read_only && args.create_options.contains(CreateOptions::DELETE_ON_CLOSE) {
        return Err(NtStatus::CANNOT_DELETE.into());
    }
    if !is_dir {
        allocation::check(args, dir, 0)?;
    }
    let New { mode, acl } = attributes::security_of_new(ops, (args, rules), disk, dir)?;
    let set = SetAttrs { mode, ..SetAttrs::default() };
    let mut caller = disk.caller.clone();
    caller.listing = caching::listing_of(ops, args);
    let made = if is_dir {
        dir.make_dir_listed(&caller, name, &set, acl.as_ref(), ops.pending)
    } else {
        dir.create_listed(&caller, name, Disposition::CreateNew, &set, acl.as_ref(), ops.pending)
    };
    let made = made.map_err(|error| match error {
        // Whoever may not add names learns it as from Windows.
        FsError::ReadOnly => Stop::Status(NtStatus::ACCESS_DENIED),
        error => error.into(),
    })?;
    let attrs = match attributes::of_new(&made.file, made.attrs, &disk.caller, args, ops.pending) {
        Ok(attrs) => attrs,
        Err(refused) => {
            // Attributes that were set before the refusal have changed it. A file that somebody has written to stays.
            let seen = made.file.attrs(Blocking::Allowed).ok().filter(|seen| seen.size == made.attrs.size);
            if let Some(seen) = seen {
                take_back(ops, args, disk, &place, &seen);
            }
            return Err(refused);
        }
    };
    let granted = granted_freely(args);
    let naming = rules.naming();
    let (file, base_type) = (made.file, attrs.file_type);
    Ok(Chosen { file, attrs, base_type, naming, granted, action: CreateAction::CREATED, place })
}

/// Removes a file that was made for something that it cannot have. It stays where somebody else has found a use for it.
fn take_back(ops: &mut Ops<'_>, args: &CreateRequest<'_>, disk: &Disk, place: &Place, seen: &Attrs) {
    let Some((dir, name)) = &place.entry else { return };
    let mut caller = disk.caller.clone();
    caller.listing = caching::listing_of(ops, args);
    _ = dir.remove_as_seen(&caller, name, seen, ops.pending);
}

/// Claims the file and keeps it open, empty if it is overwritten.
fn keep(
    ops: &mut Ops<'_>,
    (args, asked): (&CreateRequest<'_>, &Asked),
    disk: &Arc<Disk>,
    chosen: Chosen,
) -> Result<(Arc<Open>, Attrs, Answer), Stop> {
    let Chosen { place, file, attrs, base_type, naming, granted, action } = chosen;
    ask_before_telling(ops, disk, &file)?;
    let truncates = empties(action);
    if truncates {
        prepare_to_empty(ops, args, disk, (&file, &attrs), naming)?;
    }
    let deletes = args.create_options.contains(CreateOptions::DELETE_ON_CLOSE);
    if deletes {
        disk.check_writable()?;
    }
    let opened = data_of(disk, (&file, &attrs), granted, action)?;
    let instance = durable::fail_over(ops, args, asked, &file)?;
    let listing = caching::listing_of(ops, args);
    let wish = Wish::of(ops, args, disk, (&file, attrs.file_type))?;
    let request = request(disk, &file, (args, granted), truncates, &wish);
    let granted_claim = claim(ops, disk, &file, request).inspect_err(|stop| {
        if *stop == Stop::Status(NtStatus::DELETE_PENDING) {
            disk.delete_closed_file(&file);
        }
    })?;
    let claim = granted_claim.open.ok_or(NtStatus::INTERNAL_ERROR)?;
    let granting = Granting { caching: granted_claim.caching, want: wish.want(), action };
    let id = asked.new_id(ops);
    let (cached, answer) = wish.granted(ops, disk, id, &granted_claim);
    let open = Open::new(NewOpen {
        id,
        disk: Arc::clone(disk),
        file: file.clone(),
        file_type: attrs.file_type,
        base_type,
        naming,
        opened: opened.map(|opened| opened.with_claim(Requester::Open(claim))),
        granted,
        mode: mode_of(args.create_options),
        claim,
        place,
        channel_sequence: ops.header.channel_sequence(),
        cached,
        listing,
    });
    let attrs = attrs_of_claimed(ops, args, &open, &granting)?.unwrap_or(attrs);
    if let Some(instance) = instance {
        open.set_instance(instance);
    }
    asked.grant(ops, args, &open, granting);
    let open = Arc::new(open);
    ops.session()?
        .add_open(&ops.service.counts, ops.header.tree_id(), &open)
        .inspect_err(|_| open.close())?;
    if deletes {
        // Not before it is the client's: nothing goes with a CREATE that is refused.
        open.delete_on_close();
    }
    Ok((open, attrs, answer))
}

/// Whether a file loses what was in it.
fn empties(action: CreateAction) -> bool {
    matches!(action, CreateAction::SUPERSEDED | CreateAction::OVERWRITTEN)
}

/// Does what was asked for with an open once the file is claimed; what the file is then, if that may be other than before.
fn attrs_of_claimed(
    ops: &mut Ops<'_>,
    args: &CreateRequest<'_>,
    open: &Open,
    granting: &Granting,
) -> Result<Option<Attrs>, Stop> {
    let mut attrs = None;
    if !granting.caching.is_none() {
        // A change that has begun before is done before the client caches anything.
        attrs = Some(open.file.pass_changes()?);
    }
    if empties(granting.action) {
        attrs = Some(empty(ops, args, open)?);
    }
    if granting.action != CreateAction::OPENED && open.file_type == FileType::Regular {
        attrs = allocation::take(ops, args, open, granting.action)?.or(attrs);
    }
    Ok(attrs)
}

/// What is claimed of the file.
fn request(
    disk: &Disk,
    file: &File,
    (args, granted): (&CreateRequest<'_>, AccessMask),
    truncates: bool,
    wish: &Wish,
) -> OpenRequest {
    // Whoever empties a file writes it, whatever else it is opened for.
    let writes = if truncates { AccessMask::WRITE_DATA } else { AccessMask::empty() };
    OpenRequest {
        holder: disk.holder,
        stream: file.stream(),
        access: claimed_by(&disk.caller, granted | writes, args.share_access),
        truncates,
        is_mandatory: true,
        is_advisory: false,
        lease: wish.request(),
        reclaims: false,
        waits: false,
    }
}

/// Asks who may have written to a file without saying so: the reply tells of its size and times, also of what is not opened to be read.
fn ask_before_telling(ops: &mut Ops<'_>, disk: &Disk, file: &File) -> Result<(), Stop> {
    let by = disk.caller.by;
    match file.recall_writers(by) {
        Err(FsError::Wait(Wait::Recall)) => {}
        asked => return Ok(asked?),
    }
    let waker = ops.waker(None, NtStatus::CANCELLED, Interim::Always)?;
    let io = Io { by, stream: file.stream(), kind: IoKind::ReadAttrs, span: Span::ALL, waits: true };
    match file.claim(&Request::Io(io)) {
        Verdict::Wait(ticket) => Err(ops.wait_for_claim(disk, file, ticket, &waker)),
        Verdict::Granted(_) | Verdict::Refused(_) => Err(Stop::Delayed),
    }
}

/// The way to the data of a file, if it has any.
fn data_of(
    disk: &Disk,
    (file, attrs): (&File, &Attrs),
    granted: AccessMask,
    action: CreateAction,
) -> FsResult<Option<OpenFile<'static>>> {
    if attrs.file_type != FileType::Regular {
        return Ok(None);
    }
    let access = data_access(granted, file.volume().security_style() == SecurityStyle::Ntfs);
    let opened = match action {
        CreateAction::CREATED => file.open_new(&disk.caller, access, Blocking::Allowed)?.0,
        _ => file.open_by(attrs, &disk.caller, access, Blocking::Allowed)?,
    };
    Ok(Some(opened.into_owned()))
}

/// Checks that there is room for what a file is to have instead, and asks those who cache streams that go with what it has.
fn prepare_to_empty(
    ops: &mut Ops<'_>,
    args: &CreateRequest<'_>,
    disk: &Disk,
    (file, attrs): (&File, &Attrs),
    naming: Naming,
) -> Result<(), Stop> {
    allocation::check(args, file, attrs.used)?;
    if removes_streams(file, naming) {
        streams::ask_before_removal(ops, disk, file)?;
    }
    Ok(())
}

/// Whether a file that is emptied loses its streams: one that is replaced begins anew (MS-FSA §2.1.5.1.2.1). Unix empties it, and that
/// is all.
fn removes_streams(file: &File, naming: Naming) -> bool {
    !file.is_stream() && naming == Naming::Windows
}

/// Empties the file of an open that replaces it, and ends the right to write it that was claimed for that: its attributes then.
fn empty(ops: &mut Ops<'_>, args: &CreateRequest<'_>, open: &Open) -> Result<Attrs, Stop> {
    let (file, caller) = (&open.file, &open.disk.caller);
    let (writing, _) = file.open(caller, Access::WRITE, Blocking::Allowed)?;
    let by = Requester::Open(open.claim());
    let mut attrs = writing.into_owned().with_claim(by).replace(caller, ops.pending)?.after;
    if removes_streams(file, open.naming) {
        streams::tell_removal(file, by)?;
        file.remove_streams(caller, ops.pending)?;
        attrs = attributes::of_emptied(open, attrs, args, ops.pending)?;
    }
    open.tell_modified(ChangeMask::SIZE | ChangeMask::MODIFIED | ChangeMask::ATTRIBUTES);
    let access = claimed_by(caller, open.granted, args.share_access);
    file.claim(&Request::Downgrade { open: open.claim(), access });
    Ok(attrs)
}

/// Claims the file, once those have answered who have to give up something first.
fn claim(ops: &mut Ops<'_>, disk: &Disk, file: &File, request: OpenRequest) -> Result<Granted, Stop> {
    let mut verdict = file.claim(&Request::Open(request.clone()));
    if let Verdict::Refused(Conflict::Recalling) = verdict {
        let waker = ops.waker(None, NtStatus::CANCELLED, Interim::Always)?;
        verdict = file.claim(&Request::Open(OpenRequest { waits: true, ..request }));
        if let Verdict::Wait(ticket) = verdict {
            return Err(ops.wait_for_claim(disk, file, ticket, &waker));
        }
    }
    match verdict {
        Verdict::Granted(granted) => Ok(granted),
        Verdict::Refused(conflict) => Err(of_conflict(conflict).map_or(Stop::Delayed, Stop::Status)),
        Verdict::Wait(_) => Err(Stop::Delayed),
    }
}
