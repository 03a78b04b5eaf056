//! Delegations: when an OPEN gives one, and how it is given back (RFC 8881 §10.4, §18.6, §18.16).

mod query;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;

use super::open::{check_file, file_id, holder};
use super::ops::{Done, Ops, Stop};
use crate::call::File;
use crate::limits::{CLIENT_DELEGATIONS_MAX, DELEGATIONS_MAX};
use crate::state::nfs4::channel::Callback;
use crate::state::nfs4::client::Client;
use crate::state::nfs4::delegations::{Counted, DelegationState, VolumeFile};
use crate::state::nfs4::state_table::{Held, State};
use crate::state::nfs4::tables::Table;
use crate::state::nfs4::writers::Writer;
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

/// Why there is no delegation, for those who have said what they want.
type Refusal = NoDelegation;

const NOT_WANTED: Refusal = NoDelegation::Other(WhyNoDelegation::NOT_WANTED);
const CANCELLED: Refusal = NoDelegation::Other(WhyNoDelegation::CANCELLED);
const CONTENTION: Refusal = NoDelegation::Contention(false);
const RESOURCE: Refusal = NoDelegation::Resource(false);
const NOT_SUPP_UPGRADE: Refusal = NoDelegation::Other(WhyNoDelegation::NOT_SUPP_UPGRADE);

/// What a client may keep to itself that has a file delegated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// What it has read.
    Read,
    /// What it has written, too.
    Write,
    /// And the times of access and modification (RFC 9754 §5).
    WriteAttrs,
}

impl Kind {
    fn caching(self) -> Caching {
        match self {
            Self::Read => Caching::READ | Caching::HANDLE,
            Self::Write | Self::WriteAttrs => Caching::READ | Caching::WRITE | Caching::HANDLE,
        }
    }
}

/// The delegation that comes with an OPEN of `file` for `access`. A client that says what it wants hears why it has none.
pub(super) fn offer(
    ops: &mut Ops<'_, '_>,
    client: &Arc<Client>,
    file: &File,
    args: &OpenArgs<'_>,
    access: Access,
) -> Result<OpenDelegation<'static>, Stop> {
    let reclaims = matches!(args.claim, OpenClaim::Previous(_));
    let granted =
        wanted(ops, args, access).and_then(|kind| grant(ops, client, file, kind, reclaims).map_err(Some));
    match (granted, args.share_access.want()) {
        (Ok(given), _) => begin(client, file, &given),
        (Err(Some(refusal)), want) if want != ShareAccess::WANT_NO_PREFERENCE && !reclaims => {
            Ok(OpenDelegation::NoneExt(refusal))
        }
        (Err(_), _) => Ok(OpenDelegation::None),
    }
}

/// Which delegation an OPEN for `access` could have; without one, why not if that is said.
fn wanted(ops: &Ops<'_, '_>, args: &OpenArgs<'_>, access: Access) -> Result<Kind, Option<Refusal>> {
    use DelegationType::{Read, ReadAttrs, Write, WriteAttrs};
    let writes = access.rights.intersects(Rights::WRITE);
    let delegates_writing = ops.call.service.v4.delegates_writing;
    match (args.claim, args.share_access.want()) {
        _ if ops.minor == 0 => Err(None),
        // It was opened with the delegation that there is.
        (OpenClaim::DelegateCur(_) | OpenClaim::DelegCurFh(_), _) => Err(None),
        (OpenClaim::Previous(Read | ReadAttrs), _) if !writes => Ok(Kind::Read),
        (OpenClaim::Previous(WriteAttrs), _) if ops.delegates_times() => Ok(Kind::WriteAttrs),
        (OpenClaim::Previous(Write), _) if delegates_writing => Ok(Kind::Write),
        (OpenClaim::Previous(_), _) => Err(None),
        (_, ShareAccess::WANT_NO_DELEG) => Err(Some(NOT_WANTED)),
        (_, ShareAccess::WANT_CANCEL) => Err(Some(CANCELLED)),
        _ if !writes => Ok(Kind::Read),
        // What is open for writing can only be delegated for writing.
        (_, want) if delegates_writing && want != ShareAccess::WANT_READ_DELEG => {
            let keeps_times =
                ops.delegates_times() && args.share_access.contains(ShareAccess::WANT_DELEG_TIMESTAMPS);
            Ok(if keeps_times { Kind::WriteAttrs } else { Kind::Write })
        }
        _ => Err(Some(RESOURCE)),
    }
}

/// A delegation that a client has not been told of yet.
struct Given {
    stateid: Stateid,
    /// If it is to write.
    writer: Option<Arc<Writer>>,
}

/// Delegates a file to a client that can be asked for it back, if nobody else is in its way. One that had it before a
/// restart has it again (RFC 8881 §10.2.1), and is asked for it later if somebody wants that.
fn grant(
    ops: &Ops<'_, '_>,
    client: &Arc<Client>,
    file: &File,
    kind: Kind,
    reclaims: bool,
) -> Result<Given, Refusal> {
    let state = &ops.call.service.v4;
    let place: VolumeFile = (file.volume_id(), file.key());
    if state.desk.contended.has(&place, state.second()) {
        return Err(CONTENTION);
    }
    if !client.callbacks.is_reachable() && !reclaims {
        return Err(RESOURCE);
    }
    let party = client.user(ops.call.credential.uid);
    let room = state.take(Table::Delegations, &party, client).map_err(|_| RESOURCE)?;
    let slot = state.take(Table::States, &party, client).map_err(|_| RESOURCE)?;
    let counted = Counted::new(&client.delegations, room).ok_or(RESOURCE)?;
    let is_many = counted.is_many(&state.tables.delegations);
    // Locked until the delegation is in the table, where a recall looks for it.
    let mut held = client.held();
    if let Some(index) = held.delegation_of(&place) {
        let upgrades = kind != Kind::Read && held.delegation(index).is_ok_and(|has| has.writing.is_none());
        return Err(if upgrades { NOT_SUPP_UPGRADE } else { RESOURCE });
    }
    let holder = holder(state, client, &mut held, file);
    lease(file, holder, kind, state.lease_s, reclaims).ok_or(CONTENTION)?;
    let handle = file.handle().bytes();
    let writing = (kind != Kind::Read).then(|| {
        let bytes_max = file.volume().limits().file_bytes_max;
        let mut writer = Writer::new(&client.callbacks, holder, handle, bytes_max);
        writer.keeps_times = kind == Kind::WriteAttrs;
        state.writers.add(place, writer)
    });
    let writer = writing.as_ref().map(|writing| Arc::clone(&writing.writer));
    let delegation = DelegationState {
        volume: file.volume_id(),
        file: file_id(file),
        handle: handle.into(),
        origin: ops.call.origin(),
        writing,
        is_revoked: false,
        _counted: counted,
    };
    let Ok(index) = held.insert(State::Delegation(delegation), slot) else {
        give_back(file, holder);
        return Err(RESOURCE);
    };
    let stateid = held.stateid(index);
    drop(held);
    state.followed.note(ops.call.namespace, &ops.call.service.namespace);
    if is_many {
        ask_for_some(client);
    }
    Ok(Given { stateid, writer })
}

/// Tells a client of a delegation, once the changes are over that began before.
fn begin(client: &Client, file: &File, given: &Given) -> Result<OpenDelegation<'static>, Stop> {
    let stateid = given.stateid;
    let attrs = match file.pass_changes() {
        Ok(attrs) => attrs,
        Err(error) => {
            end(&mut client.held(), file, &stateid)?;
            return Err(error.into());
        }
    };
    // It allows nobody what the client would have to ask for otherwise.
    let permissions = Ace { who: b"EVERYONE@", ..Ace::default() };
    let recall = false;
    Ok(match &given.writer {
        None => OpenDelegation::Read(ReadDelegation { stateid, recall, permissions }),
        Some(writer) => {
            writer.begin(attrs.change);
            let space_limit = SpaceLimit::Size(attrs.size.saturating_add(room(file)));
            let write = WriteDelegation { stateid, recall, space_limit, permissions };
            if writer.keeps_times { OpenDelegation::WriteAttrs(write) } else { OpenDelegation::Write(write) }
        }
    })
}

/// By how many bytes a file may grow before its client has to send them: so many are there for each delegation that there may be.
fn room(file: &File) -> u64 {
    file.volume().stat().map_or(0, |stat| stat.bytes_available / DELEGATIONS_MAX as u64)
}

/// Ends a delegation of a file.
fn end(held: &mut Held, file: &File, stateid: &Stateid) -> Result<(), Status> {
    let index = held.find(stateid)?;
    check_file(&held.delegation(index)?.file, file)?;
    held.remove(index);
    if let Some(holder) = held.holder(file.volume_id()) {
        give_back(file, holder);
    }
    Ok(())
}

/// A lease, if nobody is in its way: that of an open without rights, which it outlives.
fn lease(file: &File, holder: HolderId, kind: Kind, lease_s: u32, reclaims: bool) -> Option<()> {
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
    if let Some(open) = granted.open {
        file.claim(&Request::Close(open));
    }
    let has_all = granted.caching.contains(want);
    if !has_all && !granted.caching.is_none() {
        give_back(file, holder);
    }
    has_all.then_some(())
}

fn give_back(file: &File, holder: HolderId) {
    let key = LeaseKey::Delegation(holder);
    file.claim(&Request::Acknowledge { key, stream: Stream::default(), keeps: Caching::NONE });
}

/// Asks a client that has many delegations to give those back which it does not use (RFC 8881 §20.6).
fn ask_for_some(client: &Arc<Client>) {
    let keep = u32::try_from(CLIENT_DELEGATIONS_MAX / 2).unwrap_or(u32::MAX);
    let type_mask = Bitmap::of(&[TYPE_MASK_RDATA_DLG, TYPE_MASK_WDATA_DLG]);
    let args = RecallAnyArgs { objects_to_keep: keep, type_mask };
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
    /// Whether clients may keep times of files that are delegated to them for writing.
    pub(super) fn delegates_times(&self) -> bool {
        self.call.service.v4.delegates_times(self.minor)
    }

    /// Who the client is to those who hold claims on a file, so that its own delegations are not in its way.
    pub(super) fn by(&self, file: &File) -> Requester {
        let Ok(client) = self.client() else { return Requester::Anonymous };
        if !client.has_delegations() {
            return Requester::Anonymous;
        }
        client.held().holder(file.volume_id()).map_or(Requester::Anonymous, Requester::Holder)
    }
}
