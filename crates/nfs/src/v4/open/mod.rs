//! Opens: OPEN, OPEN_DOWNGRADE, CLOSE, TEST_STATEID, FREE_STATEID (RFC 8881 §8.2, §18.2, §18.16, §18.18, §18.38,
//! §18.48).

use super::attr::{AttrRequest, When, attr_request};
use super::compound_state::{CompoundState, OpError, OpResult, reply};
use super::delegation::delegate;
use super::dir::{change_info, check_name};
use super::filehandle::Filehandle;
use crate::call::File;
use crate::state::nfs4::ServiceState;
use crate::state::nfs4::client::Client;
use crate::state::nfs4::state_table::{FileId, OpenState, State, StateTable, VolumeHolder};
use crate::state::nfs4::tables::Table;
use nfs_wire::v4::{
    Bitmap, ChangeInfo, CloseArgs, CreateHow, FreeStateidArgs, OpenArgs, OpenClaim, OpenDelegation,
    OpenDowngradeArgs, OpenFlag, OpenOk, OpenResult, ShareAccess, ShareDeny, StateOwner, Stateid, Status,
    TestStateidArgs, TestStateidOk,
};
use std::sync::Arc;
use vfs::bounds::Slot;
use vfs::claims::{self, Conflict, HolderId, OpenRequest, Request, Requester, Rights, Stream, Verdict};
use vfs::{Access, Attrs, Disposition, ExclusiveKey, FileType, FsError, OpenFile, SetAttrs, Wait};
use xdr::Writer;

/// Times that an OPEN looks again for a file that others make and remove meanwhile.
const CREATE_TRIES: u32 = 8;

/// A file as OPEN has found or made it.
struct OpenTarget {
    file: File,
    attrs: Attrs,
    origin: TargetOrigin,
    cinfo: ChangeInfo,
    attrset: Bitmap,
    size: Option<u64>,
}

/// Parameters of an open, and the room for its state.
struct OpenParams<'a> {
    owner: &'a StateOwner<'a>,
    access: claims::Access,
    reclaims: bool,
    room: Slot,
}

enum TargetOrigin {
    /// Existed before.
    Found,
    /// Created for this caller, who may open it whatever its mode.
    New,
    /// Existed before. The caller may have created it by an earlier attempt of the same call.
    Repeated,
}

/// RFC 8881 §18.16.
pub(super) fn open(cx: &mut CompoundState<'_, '_>, args: &OpenArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    let access = claim_access(cx.request.minor, args.share_access, args.share_deny)?;
    check_minor(cx, args)?;
    let client = cx.owner_client(&args.owner)?;
    let reclaims = matches!(args.claim, OpenClaim::Previous(_));
    if reclaims {
        cx.call.service.v4.check_reclaims(&client)?;
    } else if !client.has_reclaimed() && cx.request.minor > 0 {
        // No new open before RECLAIM_COMPLETE (RFC 8881 §18.51.3).
        return Err(OpError::Status(Status::GRACE));
    }
    let state = &cx.call.service.v4;
    // Reserved before anything is created, which could otherwise not be opened.
    let room = state.reserve(Table::States, &client.user(cx.call.credential.uid), &client)?;
    let target = match &args.claim {
        OpenClaim::Null(name) => target_by_name(cx, args, name)?,
        OpenClaim::Fh | OpenClaim::Previous(_) => current_target(cx, args)?,
        OpenClaim::DelegateCur(cur) => {
            let found = target_by_name(cx, args, cur.file)?;
            check_delegated(cx, &client, &cur.delegate_stateid, &found.file)?;
            found
        }
        OpenClaim::DelegCurFh(stateid) => {
            let found = current_target(cx, args)?;
            check_delegated(cx, &client, stateid, &found.file)?;
            found
        }
        OpenClaim::DelegatePrev(_) | OpenClaim::DelegPrevFh => return Err(OpError::Status(Status::NOTSUPP)),
    };
    check_regular(target.attrs.file_type).map_err(|status| match status {
        // 4.0 has no other status for it.
        Status::WRONG_TYPE if cx.request.minor == 0 => Status::SYMLINK,
        status => status,
    })?;
    let opened = authorize(&target, access)?;
    cx.call.service.v4.record(&client);
    let opening = OpenParams { owner: &args.owner, access, reclaims, room };
    let stateid = claim_open(cx, &client, &target, opened, opening)?;
    cx.call.service.v4.namespace_tracker.note_grant(cx.call.namespace, &cx.call.service.namespace);
    if let Some(size) = target.size
        && let Err(stop) = truncate(cx, &target.file, &stateid, size)
    {
        // A new open would never be closed.
        if stateid.seqid == 1 {
            client.close(&stateid);
        }
        return Err(stop);
    }
    let delegation = delegate(cx, &client, &target.file, args, access)?;
    let is_told = cx.request.minor > 0 && client.callbacks.is_reachable();
    let notifies = if is_told { OpenResult::MAY_NOTIFY_LOCK } else { OpenResult(0) };
    let (stateid, left_out) = match instead_of_open(cx, args, stateid, &delegation) {
        Some(delegated) => {
            client.close(&stateid);
            (delegated, OpenResult::NO_OPEN_STATEID)
        }
        None => (stateid, OpenResult(0)),
    };
    cx.current = Some(Filehandle::File(target.file));
    cx.state.stateid = Some(stateid);
    reply(
        w,
        &OpenOk {
            stateid,
            cinfo: target.cinfo,
            rflags: OpenResult::LOCKTYPE_POSIX | confirmation(&client, args) | notifies | left_out,
            attrset: target.attrset,
            delegation,
        },
    )
}

/// The stateid of a delegation that a client wants in place of an open (RFC 9754 §4): nothing is denied others with it, and the open is
/// none that the owner had before.
fn instead_of_open(
    cx: &CompoundState<'_, '_>,
    args: &OpenArgs<'_>,
    opened: Stateid,
    delegation: &OpenDelegation<'_>,
) -> Option<Stateid> {
    let is_wanted = cx.delegates_times() && args.share_access.contains(ShareAccess::WANT_OPEN_XOR_DELEGATION);
    if !is_wanted || args.share_deny != ShareDeny::NONE || opened.seqid != 1 {
        return None;
    }
    match delegation {
        OpenDelegation::Read(read) | OpenDelegation::ReadAttrs(read) => Some(read.stateid),
        OpenDelegation::Write(write) | OpenDelegation::WriteAttrs(write) => Some(write.stateid),
        OpenDelegation::None | OpenDelegation::NoneExt(_) => None,
    }
}

/// Only regular files are opened and locked.
pub(super) fn check_regular(file_type: FileType) -> Result<(), Status> {
    match file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(Status::ISDIR),
        FileType::Symlink => Err(Status::SYMLINK),
        _ => Err(Status::WRONG_TYPE),
    }
}

/// The CONFIRM flag: an owner of 4.0 confirms its first open, unless it reclaims (RFC 7530 §9.1.11).
fn confirmation(client: &Client, args: &OpenArgs<'_>) -> OpenResult {
    let Some(mut owners) = client.open_owners() else { return OpenResult::default() };
    let name = args.owner.owner;
    if matches!(args.claim, OpenClaim::Previous(_)) {
        owners.confirm(name);
    }
    if owners.is_confirmed(name) { OpenResult::default() } else { OpenResult::CONFIRM }
}

/// Cuts a file that was just opened: by its own open, which is not in its own way, if that may write.
fn truncate(cx: &mut CompoundState<'_, '_>, file: &File, stateid: &Stateid, size: u64) -> OpResult {
    let set = SetAttrs { size: Some(size), ..SetAttrs::default() };
    match cx.open_by_stateid(file, stateid, Access::WRITE) {
        Ok(Some(opened)) => opened.set_attrs(&file.caller, &set, cx.call.pending)?,
        _ => file.set_attrs(&file.caller, &set, None, cx.call.pending)?,
    };
    Ok(())
}

/// Refuses ways to open that 4.0 does not have.
fn check_minor(cx: &CompoundState<'_, '_>, args: &OpenArgs<'_>) -> Result<(), Status> {
    let is_later = matches!(args.openhow, OpenFlag::Create(CreateHow::Exclusive41(_)))
        || matches!(args.claim, OpenClaim::Fh | OpenClaim::DelegCurFh(_) | OpenClaim::DelegPrevFh);
    if cx.request.minor == 0 && is_later { Err(Status::BADXDR) } else { Ok(()) }
}

/// Whether the access has only known flags for delegations; 4.0 has none.
fn has_known_wants(minor: u32, access: ShareAccess) -> bool {
    let others = [
        ShareAccess::WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL,
        ShareAccess::WANT_PUSH_DELEG_WHEN_UNCONTENDED,
        ShareAccess::WANT_DELEG_TIMESTAMPS,
        ShareAccess::WANT_OPEN_XOR_DELEGATION,
    ];
    let known_flags =
        others.into_iter().fold(ShareAccess::BOTH.0 | ShareAccess::WANT_DELEG_MASK.0, |all, one| all | one.0);
    let wants = access.0 & !ShareAccess::BOTH.0;
    wants == 0 || minor > 0 && wants & !known_flags == 0 && access.want().0 <= ShareAccess::WANT_CANCEL.0
}

fn claim_access(minor: u32, access: ShareAccess, deny: ShareDeny) -> Result<claims::Access, Status> {
    if !has_known_wants(minor, access) {
        return Err(Status::INVAL);
    }
    let rights = |bits: u32| match bits {
        0 => Ok(Rights::NONE),
        1 => Ok(Rights::READ),
        2 => Ok(Rights::WRITE),
        3 => Ok(Rights::READ | Rights::WRITE),
        _ => Err(Status::INVAL),
    };
    let (rights, deny) = (rights(access.access().0)?, rights(deny.0)?);
    if rights.is_none() { Err(Status::INVAL) } else { Ok(claims::Access { rights, deny }) }
}

/// [`Status::BAD_STATEID`] unless the client has this delegation of the file.
fn check_delegated(cx: &CompoundState<'_, '_>, client: &Client, stateid: &Stateid, file: &File) -> OpResult {
    let states = client.states();
    let index = states.find(&cx.stateid(stateid)?)?;
    Ok(check_file(&states.delegation(index)?.file, file)?)
}

fn current_target(cx: &mut CompoundState<'_, '_>, args: &OpenArgs<'_>) -> Result<OpenTarget, OpError> {
    if matches!(args.openhow, OpenFlag::Create(_)) {
        return Err(OpError::Status(Status::INVAL));
    }
    let file = cx.file()?;
    let attrs = cx.call.attrs(&file)?;
    let (cinfo, attrset) = (ChangeInfo::default(), Bitmap::EMPTY);
    Ok(OpenTarget { file, attrs, origin: TargetOrigin::Found, cinfo, attrset, size: None })
}

/// A file by its name in the current directory, made if it is not there and the client wants that.
fn target_by_name(
    cx: &mut CompoundState<'_, '_>,
    args: &OpenArgs<'_>,
    name: &[u8],
) -> Result<OpenTarget, OpError> {
    let dir = match cx.current_filehandle()? {
        Filehandle::Pseudo(_) if matches!(args.openhow, OpenFlag::NoCreate) => {
            return Err(OpError::Status(Status::ISDIR));
        }
        _ => cx.file()?,
    };
    check_name(name)?;
    let OpenFlag::Create(how) = &args.openhow else {
        return find_target(cx, &dir, name);
    };
    if dir.volume().claims().is_in_grace() {
        // A file created now could not be opened, and would exist when the client retries.
        return Err(OpError::Status(Status::GRACE));
    }
    let (disposition, mut request) = match how {
        CreateHow::Unchecked(attrs) | CreateHow::Guarded(attrs) => {
            (Disposition::CreateNew, attr_request(cx, attrs, When::Creation)?)
        }
        CreateHow::Exclusive(verifier) => {
            let set = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
            let request = AttrRequest { set, born: None, mask: Bitmap::EMPTY };
            (Disposition::CreateOnce(ExclusiveKey::new(*verifier)), request)
        }
        CreateHow::Exclusive41(asked) => {
            let request = attr_request(cx, &asked.attrs, When::Once)?;
            (Disposition::CreateOnce(ExclusiveKey::new(asked.verf)), request)
        }
    };
    let takes_existing = matches!(how, CreateHow::Unchecked(_));
    for _ in 0..CREATE_TRIES {
        // A user without write access to the directory may open an existing file.
        if takes_existing {
            match find_target(cx, &dir, name) {
                // For an existing file, only a size of 0 applies (RFC 8881 §18.16.3).
                Ok(found) => {
                    let size = request.set.size.filter(|&size| size == 0);
                    let attrset = size.map_or(Bitmap::EMPTY, |_| Bitmap::of(&[nfs_wire::v4::attr::SIZE]));
                    return Ok(OpenTarget { size, attrset, ..found });
                }
                Err(OpError::Status(Status::NOENT)) => {}
                Err(stop) => return Err(stop),
            }
        }
        match dir.create(&dir.caller, name, disposition, &request.set, cx.call.pending) {
            Ok(created) => {
                let cinfo = change_info(&created.dir);
                if created.is_new {
                    request.set_born_of_new(&created.file, &dir.caller, cx.call.pending);
                }
                let attrset = request.mask;
                let file = dir.sibling(cx.call.cache_file(created.file));
                let origin = if created.is_new { TargetOrigin::New } else { TargetOrigin::Repeated };
                return Ok(OpenTarget { file, attrs: created.attrs, origin, cinfo, attrset, size: None });
            }
            Err(FsError::Exists) if takes_existing => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(OpError::Status(Status::DELAY))
}

fn find_target(cx: &mut CompoundState<'_, '_>, dir: &File, name: &[u8]) -> Result<OpenTarget, OpError> {
    let (dir_attrs, cached, attrs) = cx.call.lookup(dir, name)?;
    let cinfo = ChangeInfo { atomic: false, before: dir_attrs.change, after: dir_attrs.change };
    let (file, attrset) = (dir.sibling(cached), Bitmap::EMPTY);
    Ok(OpenTarget { file, attrs, origin: TargetOrigin::Found, cinfo, attrset, size: None })
}

fn authorize(target: &OpenTarget, access: claims::Access) -> Result<OpenFile<'static>, OpError> {
    let mut wanted = Access::NONE;
    if access.rights.contains(Rights::READ) {
        wanted = wanted.and(Access::READ);
    }
    if access.rights.contains(Rights::WRITE) {
        wanted = wanted.and(Access::WRITE);
    }
    let (file, blocking) = (&target.file, vfs::Blocking::Allowed);
    let (opened, _) = match target.origin {
        TargetOrigin::Found => file.open(&file.caller, wanted, blocking)?,
        TargetOrigin::New => file.open_new(&file.caller, wanted, blocking)?,
        TargetOrigin::Repeated => file.open_repeated(&file.caller, wanted, blocking)?,
    };
    file.authorize_deny(&file.caller, access.deny, blocking)?;
    Ok(opened.into_owned())
}

/// Claims the open, and gives it a stateid: a new one, or that of the open which the owner has already.
fn claim_open(
    cx: &CompoundState<'_, '_>,
    client: &Arc<Client>,
    target: &OpenTarget,
    opened: OpenFile<'static>,
    opening: OpenParams<'_>,
) -> Result<Stateid, OpError> {
    let OpenParams { owner, access, reclaims, room } = opening;
    let file = &target.file;
    let (id, origin) = (file_id(file), cx.call.origin());
    let mut states = client.states();
    let holder = holder(&cx.call.service.v4, client, &mut states, file);
    if let Some(index) = states.open_by(owner.owner, id) {
        let state = states.open_mut(index)?;
        // An owner's deny mode binds its own opens as well (RFC 7530 §9.9, RFC 8881 §9.7).
        if state.access.conflicts(access) {
            return Err(OpError::Status(Status::SHARE_DENIED));
        }
        let request = Request::Upgrade { open: state.claim, access, reclaims, waits: false };
        granted(file.claim(&request)).map_err(|stop| refusal(stop, reclaims))?;
        state.access = claims::Access {
            rights: state.access.rights | access.rights,
            deny: state.access.deny | access.deny,
        };
        state.opened =
            Arc::new(opened.with_claim(Requester::Open(state.claim)).with_access_of(&state.opened));
        state.pairs |= access_pair(access);
        state.origin = origin;
        return Ok(states.advance(index));
    }
    let request = OpenRequest {
        holder,
        stream: Stream::default(),
        access,
        truncates: target.size.is_some(),
        is_mandatory: false,
        is_advisory: false,
        lease: None,
        reclaims,
        waits: false,
    };
    let granted = granted(file.claim(&Request::Open(request))).map_err(|stop| refusal(stop, reclaims))?;
    let claim = granted.open.ok_or(OpError::Status(Status::SERVERFAULT))?;
    let opened = Arc::new(opened.with_claim(Requester::Open(claim)));
    let state = OpenState {
        owner: owner.owner.into(),
        file: id,
        opened,
        claim,
        access,
        origin,
        locks: Vec::new(),
        pairs: access_pair(access),
    };
    match states.insert(State::Open(state), room) {
        Ok(index) => Ok(states.stateid(index)),
        Err(status) => {
            file.claim(&Request::Close(claim));
            Err(OpError::Status(status))
        }
    }
}

/// The error of a claim. Reclaimed state had no conflict, so one now is RECLAIM_CONFLICT (RFC 8881 §8.4.2.1).
pub(super) fn refusal(stop: OpError, reclaims: bool) -> OpError {
    match stop {
        OpError::Status(Status::SHARE_DENIED | Status::DENIED) if reclaims => {
            OpError::Status(Status::RECLAIM_CONFLICT)
        }
        stop => stop,
    }
}

fn access_pair(access: claims::Access) -> u16 {
    let number = |rights: Rights| {
        u16::from(rights.contains(Rights::READ)) | u16::from(rights.contains(Rights::WRITE)) << 1
    };
    1 << (number(access.rights) | number(access.deny) << 2)
}

pub(super) fn file_id(file: &File) -> FileId {
    (file.export_id(), file.key())
}

/// The client's holder in the claims of the file's volume.
pub(super) fn holder(
    state: &ServiceState,
    client: &Arc<Client>,
    states: &mut StateTable,
    file: &File,
) -> HolderId {
    if let Some(holder) = states.holder(file.volume()) {
        return holder;
    }
    let id = state.notifier.attach(client, file.volume());
    states.add_holder(file.volume_id(), VolumeHolder { id, export: Arc::clone(file.export()) });
    id
}

/// Converts a verdict on a claim.
pub(super) fn granted(verdict: Verdict) -> Result<claims::Granted, OpError> {
    match verdict {
        Verdict::Granted(granted) => Ok(granted),
        Verdict::Wait(_) | Verdict::Refused(Conflict::Recalling) => Err(OpError::Wait(Wait::Recall)),
        Verdict::Refused(conflict) => Err(OpError::Status(match conflict {
            Conflict::Share | Conflict::Absent => Status::SHARE_DENIED,
            Conflict::DeletePending => Status::FILE_OPEN,
            Conflict::Range { .. } => Status::DENIED,
            Conflict::Recalling | Conflict::TooMany => Status::DELAY,
            Conflict::Grace => Status::GRACE,
            Conflict::NoGrace => Status::NO_GRACE,
            Conflict::NotHeld => Status::BAD_STATEID,
            Conflict::Denied => Status::INVAL,
        })),
    }
}

/// RFC 8881 §18.18.
pub(super) fn open_downgrade(
    cx: &mut CompoundState<'_, '_>,
    args: &OpenDowngradeArgs,
    w: &mut Writer<'_>,
) -> OpResult {
    let access = claim_access(cx.request.minor, args.share_access, args.share_deny)?;
    let file = cx.file()?;
    let client = cx.client_of(&args.open_stateid)?;
    let mut states = client.states();
    let index = states.find(&cx.stateid(&args.open_stateid)?)?;
    let state = states.open_mut(index)?;
    check_file(&state.file, &file)?;
    if state.pairs & access_pair(access) == 0 {
        return Err(OpError::Status(Status::INVAL));
    }
    granted(file.claim(&Request::Downgrade { open: state.claim, access }))?;
    state.access = access;
    state.pairs = remaining_pairs(state.pairs, access);
    let stateid = states.advance(index);
    cx.state.stateid = Some(stateid);
    reply(w, &stateid)
}

/// The pairs of `pairs` that allow and deny no more than `access`.
fn remaining_pairs(pairs: u16, access: claims::Access) -> u16 {
    let all = access_pair(access).trailing_zeros();
    (0..16).filter(|bit| pairs & 1 << bit != 0 && bit & !all == 0).fold(0, |left, bit| left | 1 << bit)
}

/// RFC 8881 §18.2.
pub(super) fn close(cx: &mut CompoundState<'_, '_>, args: &CloseArgs, w: &mut Writer<'_>) -> OpResult {
    let file = cx.file()?;
    let client = cx.client_of(&args.open_stateid)?;
    let mut states = client.states();
    let index = states.find(&cx.stateid(&args.open_stateid)?)?;
    let state = states.open(index)?;
    check_file(&state.file, &file)?;
    let claim = state.claim;
    let locks: Vec<u32> = states.locks_of(index).map(|(lock, _)| lock).collect();
    // The ranges of these locks end with the open.
    for lock in locks {
        states.remove(lock);
    }
    // Since 4.1 the returned stateid must not be usable (RFC 8881 §18.2.4).
    let closed = if cx.request.minor == 0 { states.advance(index) } else { Stateid::INVALID };
    states.remove(index);
    drop(states);
    file.claim(&Request::Close(claim));
    cx.state.stateid = Some(closed);
    reply(w, &closed)
}

/// [`Status::BAD_STATEID`] unless a state is of the current file.
pub(super) fn check_file(state: &FileId, file: &File) -> Result<(), Status> {
    if *state == file_id(file) { Ok(()) } else { Err(Status::BAD_STATEID) }
}

/// RFC 8881 §18.48.
pub(super) fn test_stateid(
    cx: &mut CompoundState<'_, '_>,
    args: &TestStateidArgs,
    w: &mut Writer<'_>,
) -> OpResult {
    let client = Arc::clone(&cx.client()?);
    let states = client.states();
    let status = |stateid: &Stateid| states.find(stateid).map_or_else(|status| status, |_| Status::OK);
    reply(w, &TestStateidOk { status_codes: args.stateids.iter().map(status).collect() })
}

/// RFC 8881 §18.38.
pub(super) fn free_stateid(cx: &mut CompoundState<'_, '_>, args: &FreeStateidArgs) -> OpResult {
    let client = Arc::clone(&cx.client()?);
    let mut states = client.states();
    let stateid = cx.stateid(&args.stateid)?;
    if states.free_revoked(&stateid) {
        return Ok(());
    }
    let index = states.find(&stateid)?;
    let Ok(lock) = states.lock(index) else { return Err(OpError::Status(Status::LOCKS_HELD)) };
    let owner = lock.owner;
    let open = states.open(lock.open)?;
    if open.opened.file().holds_ranges(owner) {
        return Err(OpError::Status(Status::LOCKS_HELD));
    }
    states.remove(index);
    Ok(())
}

#[cfg(test)]
mod deletion_tests;
#[cfg(test)]
mod exclusive_tests;
#[cfg(test)]
mod reclaim_tests;
#[cfg(test)]
mod unlinked_tests;
