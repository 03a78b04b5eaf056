//! Delegations: granted with OPEN, and returned (RFC 8881 §10.4, §18.6, §18.16).

mod query;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;

use super::compound_state::{CompoundState, OpError, OpResult};
use super::open::{check_file, file_id, holder};
use crate::call::File;
use crate::limits::{CLIENT_DELEGATIONS_MAX, DELEGATIONS_MAX};
use crate::state::nfs4::channel::Callback;
use crate::state::nfs4::client::Client;
use crate::state::nfs4::delegations::{DelegationGuard, DelegationState, VolumeFile};
use crate::state::nfs4::state_table::{State, StateTable};
use crate::state::nfs4::tables::Table;
use crate::state::nfs4::write_delegations::DelegatedWriter;
use nfs_wire::v4::attr::Ace;
use nfs_wire::v4::callback::{Argument, RecallAnyArgs, TYPE_MASK_RDATA_DLG, TYPE_MASK_WDATA_DLG};
use nfs_wire::v4::{
    Bitmap, DelegationType, DelegreturnArgs, NoDelegation, OpenArgs, OpenClaim, OpenDelegation,
    ReadDelegation, ShareAccess, SpaceLimit, Stateid, Status, WhyNoDelegation, WriteDelegation,
};
use std::sync::Arc;
use vfs::claims::{
    Access, Caching, HolderId, LeaseKey, LeaseKind, LeaseRequest, OpenRequest, Request, Requester, Rights,
    Stream, Verdict,
};
use vfs::qos::Nanos;
use vfs::{Attrs, FsStat};

/// The reason for not delegating, for clients that state their wish.
type Refusal = NoDelegation;

const NOT_WANTED: Refusal = NoDelegation::Other(WhyNoDelegation::NOT_WANTED);
const CANCELLED: Refusal = NoDelegation::Other(WhyNoDelegation::CANCELLED);
const CONTENTION: Refusal = NoDelegation::Contention(false);
const RESOURCE: Refusal = NoDelegation::Resource(false);
const NOT_SUPP_UPGRADE: Refusal = NoDelegation::Other(WhyNoDelegation::NOT_SUPP_UPGRADE);

/// The caching that a delegation allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DelegationKind {
    /// Data read.
    Read,
    /// Data written, too.
    Write,
    /// And the times of access and modification (RFC 9754 §5).
    WriteAttrs,
}

impl DelegationKind {
    fn caching(self) -> Caching {
        match self {
            Self::Read => Caching::READ | Caching::HANDLE,
            Self::Write | Self::WriteAttrs => Caching::READ | Caching::WRITE | Caching::HANDLE,
        }
    }
}

/// The delegation granted with an OPEN of `file`. A client that states a wish gets the reason for a refusal.
pub(super) fn delegate(
    cx: &mut CompoundState<'_, '_>,
    client: &Arc<Client>,
    file: &File,
    args: &OpenArgs<'_>,
    access: Access,
) -> Result<OpenDelegation<'static>, OpError> {
    let reclaims = matches!(args.claim, OpenClaim::Previous(_));
    let granted = requested_kind(cx, args, access)
        .and_then(|kind| grant(cx, client, file, kind, reclaims).map_err(Some));
    match (granted, args.share_access.want()) {
        (Ok(delegation), _) => announce(client, file, &delegation),
        (Err(Some(refusal)), want) if want != ShareAccess::WANT_NO_PREFERENCE && !reclaims => {
            Ok(OpenDelegation::NoneExt(refusal))
        }
        (Err(_), _) => Ok(OpenDelegation::None),
    }
}

/// The delegation that an OPEN may get; the error is the reason, if it is reported.
fn requested_kind(
    cx: &CompoundState<'_, '_>,
    args: &OpenArgs<'_>,
    access: Access,
) -> Result<DelegationKind, Option<Refusal>> {
    use DelegationType::{Read, ReadAttrs, Write, WriteAttrs};
    let writes = access.rights.intersects(Rights::WRITE);
    let delegates_writing = cx.call.service.v4.delegates_writing;
    match (args.claim, args.share_access.want()) {
        _ if cx.request.minor == 0 => Err(None),
        // The client already has a delegation.
        (OpenClaim::DelegateCur(_) | OpenClaim::DelegCurFh(_), _) => Err(None),
        (OpenClaim::Previous(Read | ReadAttrs), _) if !writes => Ok(DelegationKind::Read),
        (OpenClaim::Previous(WriteAttrs), _) if cx.delegates_times() => Ok(DelegationKind::WriteAttrs),
        (OpenClaim::Previous(Write), _) if delegates_writing => Ok(DelegationKind::Write),
        (OpenClaim::Previous(_), _) => Err(None),
        (_, ShareAccess::WANT_NO_DELEG) => Err(Some(NOT_WANTED)),
        (_, ShareAccess::WANT_CANCEL) => Err(Some(CANCELLED)),
        _ if !writes => Ok(DelegationKind::Read),
        // A file open for writing needs a write delegation.
        (_, want) if delegates_writing && want != ShareAccess::WANT_READ_DELEG => {
            let keeps_times =
                cx.delegates_times() && args.share_access.contains(ShareAccess::WANT_DELEG_TIMESTAMPS);
            Ok(if keeps_times { DelegationKind::WriteAttrs } else { DelegationKind::Write })
        }
        _ => Err(Some(RESOURCE)),
    }
}

/// A delegation that is not announced to its client yet.
struct GrantedDelegation {
    stateid: Stateid,
    writer: Option<Arc<DelegatedWriter>>,
}

/// Delegates a file, if the client can be called and no other claim conflicts. A client that had the delegation before
/// a restart gets it again (RFC 8881 §10.2.1), even if it cannot be called yet.
fn grant(
    cx: &CompoundState<'_, '_>,
    client: &Arc<Client>,
    file: &File,
    kind: DelegationKind,
    reclaims: bool,
) -> Result<GrantedDelegation, Refusal> {
    let state = &cx.call.service.v4;
    let volume_file: VolumeFile = (file.volume_id(), file.key());
    if state.notifier.recent_recalls.has(&volume_file, state.second()) {
        return Err(CONTENTION);
    }
    // A delegation without a back channel could not be recalled.
    if !client.callbacks.is_reachable() && !reclaims {
        return Err(RESOURCE);
    }
    let party = client.user(cx.call.credential.uid);
    let room = state.reserve(Table::Delegations, &party, client).map_err(|_| RESOURCE)?;
    let slot = state.reserve(Table::States, &party, client).map_err(|_| RESOURCE)?;
    let guard = DelegationGuard::new(&client.delegations, room).ok_or(RESOURCE)?;
    let is_many = guard.is_near_limit(&state.tables.delegations);
    // Locked until the table has the delegation, where a recall looks for it.
    let mut states = client.states();
    if let Some(index) = states.delegation_of(&volume_file) {
        let upgrades =
            kind != DelegationKind::Read && states.delegation(index).is_ok_and(|has| has.writing.is_none());
        return Err(if upgrades { NOT_SUPP_UPGRADE } else { RESOURCE });
    }
    let holder = holder(state, client, &mut states, file);
    lease(file, holder, kind, state.lease_s, reclaims).ok_or(CONTENTION)?;
    let handle = file.handle().bytes();
    let writing = (kind != DelegationKind::Read).then(|| {
        let bytes_max = file.volume().limits().file_bytes_max;
        let mut writer = DelegatedWriter::new(&client.callbacks, holder, handle, bytes_max);
        writer.keeps_times = kind == DelegationKind::WriteAttrs;
        state.writers.add(volume_file, writer)
    });
    let writer = writing.as_ref().map(|writing| Arc::clone(&writing.writer));
    let delegation = DelegationState {
        volume: file.volume_id(),
        incarnation: file.volume().incarnation(),
        file: file_id(file),
        handle: handle.into(),
        origin: cx.call.origin(),
        writing,
        is_revoked: false,
        _guard: guard,
    };
    let Ok(index) = states.insert(State::Delegation(delegation), slot) else {
        return_lease(file, holder);
        return Err(RESOURCE);
    };
    let stateid = states.stateid(index);
    drop(states);
    state.namespace_tracker.note_grant(cx.call.namespace, &cx.call.service.namespace);
    if is_many {
        recall_some(client);
    }
    Ok(GrantedDelegation { stateid, writer })
}

/// Tells a client of a delegation, once the changes are over that began before.
fn announce(
    client: &Client,
    file: &File,
    delegation: &GrantedDelegation,
) -> Result<OpenDelegation<'static>, OpError> {
    let stateid = delegation.stateid;
    let attrs = match file.pass_changes() {
        Ok(attrs) => attrs,
        Err(error) => {
            end(&mut client.states(), file, &stateid)?;
            return Err(error.into());
        }
    };
    // The empty ACE makes the client check permissions with ACCESS.
    let permissions = Ace { who: b"EVERYONE@", ..Ace::default() };
    let recall = false;
    Ok(match &delegation.writer {
        None => OpenDelegation::Read(ReadDelegation { stateid, recall, permissions }),
        Some(writer) => {
            writer.activate(attrs.change);
            let space_limit = SpaceLimit::Size(attrs.size.saturating_add(growth_limit(file, &attrs)));
            let write = WriteDelegation { stateid, recall, space_limit, permissions };
            if writer.keeps_times { OpenDelegation::WriteAttrs(write) } else { OpenDelegation::Write(write) }
        }
    })
}

/// Bytes that a client may cache beyond the file's size: the free space, and what is left to the file's owners, divided by
/// the possible delegations.
fn growth_limit(file: &File, attrs: &Attrs) -> u64 {
    let left = file.volume().quota_room(attrs.uid, attrs.gid).and_then(|room| room.bytes);
    let room = |stat: FsStat| stat.bytes_available.min(left.unwrap_or(u64::MAX));
    file.volume().stat().map_or(0, |stat| room(stat) / DELEGATIONS_MAX as u64)
}

fn end(states: &mut StateTable, file: &File, stateid: &Stateid) -> Result<(), Status> {
    let index = states.find(stateid)?;
    check_file(&states.delegation(index)?.file, file)?;
    states.remove(index);
    if let Some(holder) = states.holder(file.volume()) {
        return_lease(file, holder);
    }
    Ok(())
}

/// Acquires the lease of a delegation. The open without rights that carries it is closed again.
fn lease(file: &File, holder: HolderId, kind: DelegationKind, lease_s: u32, reclaims: bool) -> Option<()> {
    let answers_within = Some(Nanos::from_seconds(lease_s.into()));
    let want = kind.caching();
    let request = OpenRequest {
        holder,
        stream: Stream::default(),
        access: Access::default(),
        truncates: false,
        is_mandatory: false,
        is_advisory: false,
        lease: Some(LeaseRequest { kind: LeaseKind::Delegation, want, answers_within, epoch: 0 }),
        reclaims,
        waits: false,
    };
    let Verdict::Granted(granted) = file.claim(&Request::Open(request)) else { return None };
    // The lease stays when the open without rights is closed.
    if let Some(open) = granted.open {
        file.claim(&Request::Close(open));
    }
    let has_all = granted.caching.contains(want);
    if !has_all && !granted.caching.is_none() {
        return_lease(file, holder);
    }
    has_all.then_some(())
}

fn return_lease(file: &File, holder: HolderId) {
    let key = LeaseKey::Delegation(holder);
    file.claim(&Request::Acknowledge { key, stream: Stream::default(), keeps: Caching::NONE });
}

/// Asks a client that has many delegations to give those back which it does not use (RFC 8881 §20.6).
fn recall_some(client: &Arc<Client>) {
    let keep = u32::try_from(CLIENT_DELEGATIONS_MAX / 2).unwrap_or(u32::MAX);
    let type_mask = Bitmap::of(&[TYPE_MASK_RDATA_DLG, TYPE_MASK_WDATA_DLG]);
    let args = RecallAnyArgs { objects_to_keep: keep, type_mask };
    client.callbacks.call(Callback::new(&Argument::RecallAny(args)));
}

/// RFC 8881 §18.6.
pub(super) fn delegreturn(cx: &mut CompoundState<'_, '_>, args: &DelegreturnArgs) -> OpResult {
    let file = cx.file()?;
    let client = cx.client_of(&args.deleg_stateid)?;
    let stateid = cx.stateid(&args.deleg_stateid)?;
    Ok(end(&mut client.states(), &file, &stateid)?)
}

impl CompoundState<'_, '_> {
    /// Whether clients may keep times of files that are delegated to them for writing.
    pub(super) fn delegates_times(&self) -> bool {
        self.call.service.v4.delegates_times(self.request.minor)
    }

    /// The client as a requester of claims, so that its own delegations do not conflict with its requests.
    pub(super) fn requester(&self, file: &File) -> Requester {
        let Ok(client) = self.client() else { return Requester::Anonymous };
        if !client.has_delegations() {
            return Requester::Anonymous;
        }
        client.states().holder(file.volume()).map_or(Requester::Anonymous, Requester::Holder)
    }
}
