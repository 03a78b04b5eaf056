//! Delegations: when an OPEN gives one, and how it is given back (RFC 8881 §10.4, §18.6, §18.16).

use super::open::{check_file, file_id, holder};
use super::ops::{Done, Ops, Stop};
use super::state::channel::Callback;
use super::state::client::Client;
use super::state::delegations::{Counted, DelegationState, VolumeFile};
use super::state::held::{Held, State};
use crate::call::File;
use crate::limits::CLIENT_DELEGATIONS_MAX;
use nfs_wire::v4::attr::Ace;
use nfs_wire::v4::callback::{Argument, RecallAnyArgs, TYPE_MASK_RDATA_DLG};
use nfs_wire::v4::{
    Bitmap, DelegationType, DelegreturnArgs, NoDelegation, OpenArgs, OpenClaim, OpenDelegation,
    ReadDelegation, ShareAccess, Stateid, Status, WhyNoDelegation,
};
use std::sync::Arc;
use vfs::claims::{
    Access, By, Caching, HolderId, LeaseKey, LeaseKind, LeaseRequest, OpenRequest, Request, Rights, Stream,
    Verdict,
};
use vfs::qos::Nanos;

/// Why there is no delegation, for those who have said what they want.
type Refusal = NoDelegation;

const NOT_WANTED: Refusal = NoDelegation::Other(WhyNoDelegation::NOT_WANTED);
const CANCELLED: Refusal = NoDelegation::Other(WhyNoDelegation::CANCELLED);
const CONTENTION: Refusal = NoDelegation::Contention(false);
const RESOURCE: Refusal = NoDelegation::Resource(false);

/// The delegation that comes with an OPEN of `file` for `access`. A client that says what it wants hears why it has none.
pub(super) fn offer(
    ops: &mut Ops<'_, '_>,
    client: &Arc<Client>,
    file: &File,
    args: &OpenArgs<'_>,
    access: Access,
) -> Result<OpenDelegation<'static>, Stop> {
    let wanted = args.share_access;
    match args.claim {
        _ if ops.minor == 0 => return Ok(OpenDelegation::None),
        // It was opened with the delegation that there is.
        OpenClaim::DelegateCur(_) | OpenClaim::DelegCurFh(_) => return Ok(OpenDelegation::None),
        OpenClaim::Previous(DelegationType::Read) if !access.rights.intersects(Rights::WRITE) => {
            return match grant(ops, client, file, true) {
                Ok(stateid) => begin(client, file, stateid),
                Err(_) => Ok(OpenDelegation::None),
            };
        }
        OpenClaim::Previous(_) => return Ok(OpenDelegation::None),
        _ => {}
    }
    let refusal = match wanted.want() {
        ShareAccess::WANT_NO_DELEG => NOT_WANTED,
        ShareAccess::WANT_CANCEL => CANCELLED,
        // What is open for writing could only be delegated for writing.
        _ if access.rights.intersects(Rights::WRITE) => RESOURCE,
        _ => match grant(ops, client, file, false) {
            Ok(stateid) => return begin(client, file, stateid),
            Err(refusal) => refusal,
        },
    };
    Ok(match wanted.want() {
        ShareAccess::WANT_NO_PREFERENCE => OpenDelegation::None,
        _ => OpenDelegation::NoneExt(refusal),
    })
}

/// Delegates a file to a client that can be asked for it back, if nobody else wants to change it. One that had it before a
/// restart has it again (RFC 8881 §10.2.1), and is asked for it later if somebody wants that.
fn grant(ops: &Ops<'_, '_>, client: &Arc<Client>, file: &File, reclaims: bool) -> Result<Stateid, Refusal> {
    let state = &ops.call.service.v4;
    let place: VolumeFile = (file.volume_id(), file.key());
    if state.desk.contended.has(&place, state.second()) {
        return Err(CONTENTION);
    }
    if !client.callbacks.is_reachable() && !reclaims {
        return Err(RESOURCE);
    }
    let counted = Counted::new(&client.delegations, &state.delegations).ok_or(RESOURCE)?;
    let is_many = counted.is_many();
    // Locked until the delegation is in the table, where a recall looks for it.
    let mut held = client.held();
    if held.delegation_of(&place).is_some() {
        return Err(RESOURCE);
    }
    let holder = holder(state, client, &mut held, file);
    let key = LeaseKey::Delegation(holder);
    lease(file, holder, state.lease_s, reclaims).ok_or(CONTENTION)?;
    let delegation = DelegationState {
        volume: file.volume_id(),
        file: file_id(file),
        handle: file.handle().bytes().into(),
        is_revoked: false,
        _counted: counted,
    };
    let Ok(index) = held.insert(State::Delegation(delegation)) else {
        give_back(file, key);
        return Err(RESOURCE);
    };
    let stateid = held.stateid(index);
    drop(held);
    if is_many {
        ask_for_some(client);
    }
    Ok(stateid)
}

/// Tells a client of a delegation, once the changes are over that began before.
fn begin(client: &Client, file: &File, stateid: Stateid) -> Result<OpenDelegation<'static>, Stop> {
    if let Err(error) = file.pass_changes() {
        end(&mut client.held(), file, &stateid)?;
        return Err(error.into());
    }
    // It allows nobody what the client would have to ask for otherwise.
    let permissions = Ace { who: b"EVERYONE@", ..Ace::default() };
    Ok(OpenDelegation::Read(ReadDelegation { stateid, recall: false, permissions }))
}

/// Ends a delegation of a file.
fn end(held: &mut Held, file: &File, stateid: &Stateid) -> Result<(), Status> {
    let index = held.find(stateid)?;
    check_file(&held.delegation(index)?.file, file)?;
    held.remove(index);
    if let Some(holder) = held.holder(file.volume_id()) {
        give_back(file, LeaseKey::Delegation(holder));
    }
    Ok(())
}

/// A lease to read, if nobody is in its way: that of an open without rights, which it outlives.
fn lease(file: &File, holder: HolderId, lease_s: u32, reclaims: bool) -> Option<()> {
    let answers_within = Some(Nanos::from_seconds(lease_s.into()));
    let want = Caching::READ | Caching::HANDLE;
    let request = OpenRequest {
        holder,
        stream: Stream::default(),
        access: Access::default(),
        truncates: false,
        is_mandatory: false,
        is_advisory: false,
        lease: Some(LeaseRequest { kind: LeaseKind::Delegation, want, answers_within }),
        delete_on_close: None,
        reclaims,
        waits: false,
    };
    let Verdict::Granted(granted) = file.claim(&Request::Open(request)) else { return None };
    if let Some(open) = granted.open {
        file.claim(&Request::Close(open));
    }
    granted.caching.contains(want).then_some(())
}

fn give_back(file: &File, key: LeaseKey) {
    file.claim(&Request::Acknowledge { key, stream: Stream::default(), keeps: Caching::NONE });
}

/// Asks a client that has many delegations to give those back which it does not use (RFC 8881 §20.6).
fn ask_for_some(client: &Arc<Client>) {
    let keep = u32::try_from(CLIENT_DELEGATIONS_MAX / 2).unwrap_or(u32::MAX);
    let args = RecallAnyArgs { objects_to_keep: keep, type_mask: Bitmap::of(&[TYPE_MASK_RDATA_DLG]) };
    client.callbacks.call(Callback::new(&Argument::RecallAny(args)));
}

/// RFC 8881 §18.6.
pub(super) fn delegreturn(ops: &mut Ops<'_, '_>, args: &DelegreturnArgs) -> Done {
    let file = ops.file()?;
    let client = ops.client_of(&args.deleg_stateid)?;
    let stateid = ops.stateid(&args.deleg_stateid)?;
    Ok(end(&mut client.held(), &file, &stateid)?)
}

impl Ops<'_, '_> {
    /// Who the client is to those who hold claims on a file, so that its own delegations are not in its way.
    pub(super) fn by(&self, file: &File) -> By {
        let Ok(client) = self.client() else { return By::Anonymous };
        if !client.has_delegations() {
            return By::Anonymous;
        }
        client.held().holder(file.volume_id()).map_or(By::Anonymous, By::Holder)
    }
}

#[cfg(test)]
mod tests;
