//! Opens: OPEN, OPEN_DOWNGRADE, CLOSE, TEST_STATEID, FREE_STATEID, and what a stateid allows (RFC 8881 §8.2, §18.2, §18.16,
//! §18.18, §18.38, §18.48).

use super::attr::{When, Wish, wished};
use super::delegation::offer;
use super::dir::{change_info, check_name};
use super::filehandle::Place;
use super::ops::{Done, Ops, Stop, reply};
use crate::call::File;
use crate::state::nfs4::State as ServiceState;
use crate::state::nfs4::client::Client;
use crate::state::nfs4::state_table::{FileId, Held, Holding, OpenState, State};
use crate::state::nfs4::tables::Table;
use nfs_wire::v4::{
    Bitmap, ChangeInfo, CloseArgs, CreateHow, FreeStateidArgs, OpenArgs, OpenClaim, OpenDelegation,
    OpenDowngradeArgs, OpenFlag, OpenOk, OpenResult, ShareAccess, ShareDeny, StateOwner, Stateid, Status,
    TestStateidArgs, TestStateidOk,
};
use std::sync::Arc;
use vfs::bounds::Slot;
use vfs::claims::{self, Conflict, HolderId, OpenRequest, Request, Requester, Rights, Stream, Verdict};
use vfs::{Access, Attrs, Disposition, ExclusiveKey, FileType, FsError, OpenFile, SetAttrs};
use xdr::Writer;

/// Times that an OPEN looks again for a file that others make and remove meanwhile.
const CREATE_TRIES: u32 = 8;

/// A file as OPEN has found or made it.
struct Target {
    file: File,
    attrs: Attrs,
    origin: Origin,
    cinfo: ChangeInfo,
    attrset: Bitmap,
    /// What is to be cut, once it is open.
    size: Option<u64>,
}

/// How a file is opened, and the room for that.
struct Opening<'a> {
    owner: &'a StateOwner<'a>,
    access: claims::Access,
    reclaims: bool,
    room: Slot,
}

/// How OPEN came by a file.
enum Origin {
    /// It was there.
    Found,
    /// It was made for this caller, whatever its mode says.
    New,
    /// It was there, and the caller may have made it by the same call before.
    Repeated,
}

/// RFC 8881 §18.16.
pub(super) fn open(ops: &mut Ops<'_, '_>, args: &OpenArgs<'_>, w: &mut Writer<'_>) -> Done {
    let access = share(ops.minor, args.share_access, args.share_deny)?;
    check_minor(ops, args)?;
    let client = ops.owner_client(&args.owner)?;
    let reclaims = matches!(args.claim, OpenClaim::Previous(_));
    if reclaims {
        ops.call.service.v4.check_reclaims(&client)?;
    } else if !client.has_reclaimed() && ops.minor > 0 {
        return Err(Stop::Status(Status::GRACE));
    }
    let state = &ops.call.service.v4;
    // Before anything is made, which could not be opened then.
    let room = state.take(Table::States, &client.user(ops.call.credential.uid), &client)?;
    let target = match &args.claim {
        OpenClaim::Null(name) => named(ops, args, name)?,
        OpenClaim::Fh | OpenClaim::Previous(_) => current(ops, args)?,
        OpenClaim::DelegateCur(cur) => {
            let found = named(ops, args, cur.file)?;
            check_delegated(ops, &client, &cur.delegate_stateid, &found.file)?;
            found
        }
        OpenClaim::DelegCurFh(stateid) => {
            let found = current(ops, args)?;
            check_delegated(ops, &client, stateid, &found.file)?;
            found
        }
        OpenClaim::DelegatePrev(_) | OpenClaim::DelegPrevFh => return Err(Stop::Status(Status::NOTSUPP)),
    };
    check_regular(target.attrs.file_type).map_err(|status| match status {
        // 4.0 has no other word for it.
        Status::WRONG_TYPE if ops.minor == 0 => Status::SYMLINK,
        status => status,
    })?;
    let opened = authorize(&target, access)?;
    ops.call.service.v4.record(&client);
    let opening = Opening { owner: &args.owner, access, reclaims, room };
    let stateid = keep(ops, &client, &target, opened, opening)?;
    ops.call.service.v4.followed.note(ops.call.namespace, &ops.call.service.namespace);
    if let Some(size) = target.size
        && let Err(stop) = cut(ops, &target.file, &stateid, size)
    {
        // Nobody would close what was opened just for this.
        if stateid.seqid == 1 {
            client.close(&stateid);
        }
        return Err(stop);
    }
    let delegation = offer(ops, &client, &target.file, args, access)?;
    let is_told = ops.minor > 0 && client.callbacks.is_reachable();
    let notifies = if is_told { OpenResult::MAY_NOTIFY_LOCK } else { OpenResult(0) };
    let (stateid, left_out) = match instead_of_open(ops, args, stateid, &delegation) {
        Some(delegated) => {
            client.close(&stateid);
            (delegated, OpenResult::NO_OPEN_STATEID)
        }
        None => (stateid, OpenResult(0)),
    };
    ops.current = Some(Place::File(target.file));
    ops.stateid = Some(stateid);
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
    ops: &Ops<'_, '_>,
    args: &OpenArgs<'_>,
    opened: Stateid,
    delegation: &OpenDelegation<'_>,
) -> Option<Stateid> {
    let is_wanted =
        ops.delegates_times() && args.share_access.contains(ShareAccess::WANT_OPEN_XOR_DELEGATION);
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

/// Whether an owner has to confirm that it is there: in 4.0, once, unless it claims again what it had before a restart (RFC
/// 7530 §9.1.11).
fn confirmation(client: &Client, args: &OpenArgs<'_>) -> OpenResult {
    let Some(mut owners) = client.open_owners() else { return OpenResult::default() };
    let name = args.owner.owner;
    if matches!(args.claim, OpenClaim::Previous(_)) {
        owners.confirm(name);
    }
    if owners.is_confirmed(name) { OpenResult::default() } else { OpenResult::CONFIRM }
}

/// Cuts a file that was just opened: by its own open, which is not in its own way, if that may write.
fn cut(ops: &mut Ops<'_, '_>, file: &File, stateid: &Stateid, size: u64) -> Done {
    let set = SetAttrs { size: Some(size), ..SetAttrs::default() };
    match ops.opened(file, stateid, Access::WRITE) {
        Ok(Some(opened)) => opened.set_attrs(&file.caller, &set, ops.call.pending)?,
        _ => file.set_attrs(&file.caller, &set, None, ops.call.pending)?,
    };
    Ok(())
}

/// Refuses ways to open that 4.0 does not have.
fn check_minor(ops: &Ops<'_, '_>, args: &OpenArgs<'_>) -> Result<(), Status> {
    let is_later = matches!(args.openhow, OpenFlag::Create(CreateHow::Exclusive41(_)))
        || matches!(args.claim, OpenClaim::Fh | OpenClaim::DelegCurFh(_) | OpenClaim::DelegPrevFh);
    if ops.minor == 0 && is_later { Err(Status::BADXDR) } else { Ok(()) }
}

/// Whether all bits of an access beyond reading and writing say what is wanted besides; 4.0 has none of these.
fn has_known_wants(minor: u32, access: ShareAccess) -> bool {
    let others = [
        ShareAccess::WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL,
        ShareAccess::WANT_PUSH_DELEG_WHEN_UNCONTENDED,
        ShareAccess::WANT_DELEG_TIMESTAMPS,
        ShareAccess::WANT_OPEN_XOR_DELEGATION,
    ];
    let known =
        others.into_iter().fold(ShareAccess::BOTH.0 | ShareAccess::WANT_DELEG_MASK.0, |all, one| all | one.0);
    let wants = access.0 & !ShareAccess::BOTH.0;
    wants == 0 || minor > 0 && wants & !known == 0 && access.want().0 <= ShareAccess::WANT_CANCEL.0
}

/// The access and share mode of an OPEN.
fn share(minor: u32, access: ShareAccess, deny: ShareDeny) -> Result<claims::Access, Status> {
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
fn check_delegated(ops: &Ops<'_, '_>, client: &Client, stateid: &Stateid, file: &File) -> Done {
    let held = client.held();
    let index = held.find(&ops.stateid(stateid)?)?;
    Ok(check_file(&held.delegation(index)?.file, file)?)
}

/// The current file, for those claims that name it.
fn current(ops: &mut Ops<'_, '_>, args: &OpenArgs<'_>) -> Result<Target, Stop> {
    if matches!(args.openhow, OpenFlag::Create(_)) {
        return Err(Stop::Status(Status::INVAL));
    }
    let file = ops.file()?;
    let attrs = ops.call.attrs(&file)?;
    let (cinfo, attrset) = (ChangeInfo::default(), Bitmap::EMPTY);
    Ok(Target { file, attrs, origin: Origin::Found, cinfo, attrset, size: None })
}

/// A file by its name in the current directory, made if it is not there and the client wants that.
fn named(ops: &mut Ops<'_, '_>, args: &OpenArgs<'_>, name: &[u8]) -> Result<Target, Stop> {
    let dir = match ops.place()? {
        Place::Pseudo(_) if matches!(args.openhow, OpenFlag::NoCreate) => {
            return Err(Stop::Status(Status::ISDIR));
        }
        _ => ops.file()?,
    };
    check_name(name)?;
    let OpenFlag::Create(how) = &args.openhow else {
        return find(ops, &dir, name);
    };
    if dir.volume().claims().is_in_grace() {
        // What is made now could not be opened, and is there already when the client asks again.
        return Err(Stop::Status(Status::GRACE));
    }
    let (disposition, mut wish) = match how {
        CreateHow::Unchecked(attrs) | CreateHow::Guarded(attrs) => {
            (Disposition::CreateNew, wished(ops, attrs, When::Creation)?)
        }
        CreateHow::Exclusive(verifier) => {
            let set = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
            let wish = Wish { set, born: None, mask: Bitmap::EMPTY };
            (Disposition::CreateOnce(ExclusiveKey::new(*verifier)), wish)
        }
        CreateHow::Exclusive41(asked) => {
            let wish = wished(ops, &asked.attrs, When::Once)?;
            (Disposition::CreateOnce(ExclusiveKey::new(asked.verf)), wish)
        }
    };
    let takes_existing = matches!(how, CreateHow::Unchecked(_));
    for _ in 0..CREATE_TRIES {
        // Who may not change the directory may open what is there.
        if takes_existing {
            match find(ops, &dir, name) {
                // Of what a file is to be made with, only a size of 0 counts for one that is there.
                Ok(found) => {
                    let size = wish.set.size.filter(|&size| size == 0);
                    let attrset = size.map_or(Bitmap::EMPTY, |_| Bitmap::of(&[nfs_wire::v4::attr::SIZE]));
                    return Ok(Target { size, attrset, ..found });
                }
                Err(Stop::Status(Status::NOENT)) => {}
                Err(stop) => return Err(stop),
            }
        }
        match dir.create(&dir.caller, name, disposition, &wish.set, ops.call.pending) {
            Ok(made) => {
                let cinfo = change_info(&made.dir);
                if made.is_new {
                    wish.set_born_of_new(&made.file, &dir.caller, ops.call.pending);
                }
                let attrset = wish.mask;
                let file = dir.beside(ops.call.remember(made.file));
                let origin = if made.is_new { Origin::New } else { Origin::Repeated };
                return Ok(Target { file, attrs: made.attrs, origin, cinfo, attrset, size: None });
            }
            Err(FsError::Exists) if takes_existing => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Stop::Status(Status::DELAY))
}

fn find(ops: &mut Ops<'_, '_>, dir: &File, name: &[u8]) -> Result<Target, Stop> {
    let (dir_attrs, cached, attrs) = ops.call.find(dir, name)?;
    let cinfo = ChangeInfo { atomic: false, before: dir_attrs.change, after: dir_attrs.change };
    let (file, attrset) = (dir.beside(cached), Bitmap::EMPTY);
    Ok(Target { file, attrs, origin: Origin::Found, cinfo, attrset, size: None })
}

/// What the caller may do with the file from now on.
fn authorize(target: &Target, access: claims::Access) -> Result<OpenFile<'static>, Stop> {
    let mut wanted = Access::NONE;
    if access.rights.contains(Rights::READ) {
        wanted = wanted.and(Access::READ);
    }
    if access.rights.contains(Rights::WRITE) {
        wanted = wanted.and(Access::WRITE);
    }
    let (file, blocking) = (&target.file, vfs::Blocking::Allowed);
    let (opened, _) = match target.origin {
        Origin::Found => file.open(&file.caller, wanted, blocking)?,
        Origin::New => file.open_new(&file.caller, wanted, blocking)?,
        Origin::Repeated => file.open_repeated(&file.caller, wanted, blocking)?,
    };
    file.authorize_deny(&file.caller, access.deny, blocking)?;
    Ok(opened.into_owned())
}

/// Claims the open, and gives it a stateid: a new one, or that of the open which the owner has already.
fn keep(
    ops: &Ops<'_, '_>,
    client: &Arc<Client>,
    target: &Target,
    opened: OpenFile<'static>,
    opening: Opening<'_>,
) -> Result<Stateid, Stop> {
    let Opening { owner, access, reclaims, room } = opening;
    let file = &target.file;
    let (id, origin) = (file_id(file), ops.call.origin());
    let mut held = client.held();
    let holder = holder(&ops.call.service.v4, client, &mut held, file);
    if let Some(index) = held.open_by(owner.owner, id) {
        let state = held.open_mut(index)?;
        // What an owner denies it denies itself (RFC 7530 §9.9, RFC 8881 §9.7).
        if state.access.conflicts(access) {
            return Err(Stop::Status(Status::SHARE_DENIED));
        }
        let request = Request::Upgrade { open: state.claim, access, reclaims, waits: false };
        granted(file.claim(&request)).map_err(|stop| refusal(stop, reclaims))?;
        state.access = claims::Access {
            rights: state.access.rights | access.rights,
            deny: state.access.deny | access.deny,
        };
        state.opened =
            Arc::new(opened.with_claim(Requester::Open(state.claim)).with_access_of(&state.opened));
        state.pairs |= pair(access);
        state.origin = origin;
        return Ok(held.advance(index));
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
    let claim = granted.open.ok_or(Stop::Status(Status::SERVERFAULT))?;
    let opened = Arc::new(opened.with_claim(Requester::Open(claim)));
    let state = OpenState {
        owner: owner.owner.into(),
        file: id,
        opened,
        claim,
        access,
        origin,
        locks: Vec::new(),
        pairs: pair(access),
    };
    match held.insert(State::Open(state), room) {
        Ok(index) => Ok(held.stateid(index)),
        Err(status) => {
            file.claim(&Request::Close(claim));
            Err(Stop::Status(status))
        }
    }
}

/// Why a claim is refused. What is reclaimed was held alone, so whoever has it now should not (RFC 8881 §8.4.2.1).
pub(super) fn refusal(stop: Stop, reclaims: bool) -> Stop {
    match stop {
        Stop::Status(Status::SHARE_DENIED | Status::DENIED) if reclaims => {
            Stop::Status(Status::RECLAIM_CONFLICT)
        }
        stop => stop,
    }
}

/// A pair of access and deny as one bit.
fn pair(access: claims::Access) -> u16 {
    let number = |rights: Rights| {
        u16::from(rights.contains(Rights::READ)) | u16::from(rights.contains(Rights::WRITE)) << 1
    };
    1 << (number(access.rights) | number(access.deny) << 2)
}

/// A file as states know it.
pub(super) fn file_id(file: &File) -> FileId {
    (file.export_id(), file.key())
}

/// Who the client is to the claims of the file's volume.
pub(super) fn holder(state: &ServiceState, client: &Arc<Client>, held: &mut Held, file: &File) -> HolderId {
    let volume = file.volume_id();
    if let Some(holder) = held.holder(volume) {
        return holder;
    }
    let id = state.desk.attach(client, file.volume());
    held.add_holder(volume, Holding { id, export: Arc::clone(file.export()) });
    id
}

/// What was granted, or why not.
pub(super) fn granted(verdict: Verdict) -> Result<claims::Granted, Stop> {
    match verdict {
        Verdict::Granted(granted) => Ok(granted),
        Verdict::Wait(_) | Verdict::Refused(Conflict::Recalling) => Err(Stop::Held),
        Verdict::Refused(conflict) => Err(Stop::Status(match conflict {
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
pub(super) fn open_downgrade(ops: &mut Ops<'_, '_>, args: &OpenDowngradeArgs, w: &mut Writer<'_>) -> Done {
    let access = share(ops.minor, args.share_access, args.share_deny)?;
    let file = ops.file()?;
    let client = ops.client_of(&args.open_stateid)?;
    let mut held = client.held();
    let index = held.find(&ops.stateid(&args.open_stateid)?)?;
    let state = held.open_mut(index)?;
    check_file(&state.file, &file)?;
    if state.pairs & pair(access) == 0 {
        return Err(Stop::Status(Status::INVAL));
    }
    granted(file.claim(&Request::Downgrade { open: state.claim, access }))?;
    state.access = access;
    state.pairs = remaining_pairs(state.pairs, access);
    let stateid = held.advance(index);
    ops.stateid = Some(stateid);
    reply(w, &stateid)
}

/// The pairs of `pairs` that allow and deny no more than `access`.
fn remaining_pairs(pairs: u16, access: claims::Access) -> u16 {
    let all = pair(access).trailing_zeros();
    (0..16).filter(|bit| pairs & 1 << bit != 0 && bit & !all == 0).fold(0, |left, bit| left | 1 << bit)
}

/// RFC 8881 §18.2.
pub(super) fn close(ops: &mut Ops<'_, '_>, args: &CloseArgs, w: &mut Writer<'_>) -> Done {
    let file = ops.file()?;
    let client = ops.client_of(&args.open_stateid)?;
    let mut held = client.held();
    let index = held.find(&ops.stateid(&args.open_stateid)?)?;
    let state = held.open(index)?;
    check_file(&state.file, &file)?;
    let claim = state.claim;
    let locks: Vec<u32> = held.locks_of(index).map(|(lock, _)| lock).collect();
    // The ranges of these locks end with the open.
    for lock in locks {
        held.remove(lock);
    }
    // Since 4.1 nobody may take what is returned for a stateid (RFC 8881 §18.2.4).
    let closed = if ops.minor == 0 { held.advance(index) } else { Stateid::INVALID };
    held.remove(index);
    drop(held);
    file.claim(&Request::Close(claim));
    ops.stateid = Some(closed);
    reply(w, &closed)
}

/// [`Status::BAD_STATEID`] unless a state is of the current file.
pub(super) fn check_file(state: &FileId, file: &File) -> Result<(), Status> {
    if *state == file_id(file) { Ok(()) } else { Err(Status::BAD_STATEID) }
}

/// RFC 8881 §18.48.
pub(super) fn test_stateid(ops: &mut Ops<'_, '_>, args: &TestStateidArgs, w: &mut Writer<'_>) -> Done {
    let client = Arc::clone(&ops.client()?);
    let held = client.held();
    let status = |stateid: &Stateid| held.find(stateid).map_or_else(|status| status, |_| Status::OK);
    reply(w, &TestStateidOk { status_codes: args.stateids.iter().map(status).collect() })
}

/// RFC 8881 §18.38.
pub(super) fn free_stateid(ops: &mut Ops<'_, '_>, args: &FreeStateidArgs) -> Done {
    let client = Arc::clone(&ops.client()?);
    let mut held = client.held();
    let stateid = ops.stateid(&args.stateid)?;
    if held.free_revoked(&stateid) {
        return Ok(());
    }
    let index = held.find(&stateid)?;
    let Ok(lock) = held.lock(index) else { return Err(Stop::Status(Status::LOCKS_HELD)) };
    let owner = lock.owner;
    let open = held.open(lock.open)?;
    if open.opened.file().holds_ranges(owner) {
        return Err(Stop::Status(Status::LOCKS_HELD));
    }
    held.remove(index);
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
