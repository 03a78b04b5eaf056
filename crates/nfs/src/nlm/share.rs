//! Share modes (SHARE and UNSHARE, RFC 1813 §6.3.20): opens that deny others. They apply to opens of every protocol.
//! They do not apply to READ and WRITE of NFSv3, which cannot be matched to a share.

use crate::call::Call;
use crate::limits::LOCK_OWNER_BYTES_MAX;
use crate::state::nlm::table::{Share, Table};
use crate::state::nlm::{Locks, Shared};
use crate::status::nlm::from_conflict;
use nfs_wire::nlm::{Procedure, ShareAccess, ShareArgs, ShareMode, Status};
use std::net::IpAddr;
use std::sync::Arc;
use vfs::claims::{Access, HolderId, OpenRequest, Request, Rights, Stream, Verdict};
use vfs::{Blocking, ExportAccess, File, FsError, FsResult, Wait};

struct ShareRequest<'a> {
    file: &'a File,
    client: IpAddr,
    /// The server address that the client used.
    local: IpAddr,
    owner: &'a [u8],
    admission: ExportAccess,
}

pub(super) fn answer(call: &mut Call<'_>, procedure: Procedure, args: &ShareArgs<'_>) -> FsResult<Status> {
    let share = &args.share;
    if share.oh.0.len() > LOCK_OWNER_BYTES_MAX {
        return Err(FsError::Invalid);
    }
    let file = call.file(share.fh.0)?;
    let (client, locks) = (call.client(), &call.service.locks);
    let (local, admission) = (call.local.to_canonical(), call.admission(&file, false));
    let request = ShareRequest { file: &file, client, local, owner: share.oh.0, admission };
    if procedure == Procedure::UNSHARE {
        locks.unshare(&request);
        return Ok(Status::GRANTED);
    }
    let access = access(share.mode, share.access)?;
    let changes = access.rights.contains(Rights::WRITE) || !access.deny.is_none();
    let request = ShareRequest { admission: ExportAccess { changes, ..admission }, ..request };
    for (right, is_exclusive) in [(Rights::READ, false), (Rights::WRITE, true)] {
        if access.rights.contains(right) {
            file.authorize_lock(&file.caller, is_exclusive, call.blocking)?;
        }
    }
    file.authorize_deny(&file.caller, access.deny, call.blocking)?;
    if !locks.is_recorded(client) && call.blocking == Blocking::Never {
        return Err(FsError::Wait(Wait::Storage));
    }
    loop {
        if !locks.record(client, call.local.to_canonical()) {
            return Ok(Status::DENIED_NOLOCKS);
        }
        if let Some(status) = locks.share(&request, access, args.reclaim) {
            locks.note_grant(call.namespace, &call.service.namespace);
            return Ok(status);
        }
    }
}

fn access(mode: ShareMode, access: ShareAccess) -> FsResult<Access> {
    let rights = match access {
        ShareAccess::NONE => Rights::NONE,
        ShareAccess::READ => Rights::READ,
        ShareAccess::WRITE => Rights::WRITE,
        ShareAccess::BOTH => Rights::READ | Rights::WRITE,
        _ => return Err(FsError::Invalid),
    };
    let deny = match mode {
        ShareMode::DENY_NONE => Rights::NONE,
        ShareMode::DENY_READ => Rights::READ,
        ShareMode::DENY_WRITE => Rights::WRITE,
        ShareMode::DENY_BOTH => Rights::READ | Rights::WRITE,
        _ => return Err(FsError::Invalid),
    };
    Ok(Access { rights, deny })
}

impl Locks {
    /// Opens a file with a share mode, replacing the owner's earlier one.
    /// `None`: the client was forgotten meanwhile, and must be recorded first.
    fn share(&self, request: &ShareRequest<'_>, access: Access, reclaims: bool) -> Option<Status> {
        let volume = &request.file.export().volume;
        let claims = volume.claims();
        let shared: &Arc<Shared> = &self.0;
        let (client, party) = (request.client, shared.party(request.client));
        for table in [Table::Hosts, Table::Locks] {
            shared.make_room(client, &party, table);
        }
        let mut state = shared.state();
        if !shared.is_recorded(request.client) {
            return None;
        }
        let host = state.has_room_to_hold(client, &party).then(|| state.admit(client, &party)).flatten();
        let Some(host) = host else { return Some(Status::DENIED_NOLOCKS) };
        host.local = Some(request.local);
        let Some(holder) = shared.holder(&mut state, client, &party, volume) else {
            return Some(Status::DENIED_NOLOCKS);
        };
        let key = request.file.key();
        let before = state.remove_share(request.client, |share| request.is(share));
        let mut effects = Vec::new();
        if let Some(before) = &before {
            effects = claims.apply(volume.now(), &key, &Request::Close(before.open)).1;
        }
        let mut open = |access, reclaims| {
            let (verdict, more) = claims.apply(volume.now(), &key, &open_request(holder, access, reclaims));
            effects.extend(more);
            verdict
        };
        let mut verdict = open(access, reclaims);
        let (mut opened, mut admission) = (access, request.admission);
        let status = match &verdict {
            Verdict::Refused(conflict) => from_conflict(*conflict),
            Verdict::Granted(_) | Verdict::Wait(_) => Status::GRANTED,
        };
        if status != Status::GRANTED
            && let Some(before) = before
        {
            // A refused change restores the earlier share.
            (opened, admission) = (before.access, before.admission);
            verdict = open(opened, reclaims);
        }
        if let Verdict::Granted(granted) = verdict
            && let Some(open) = granted.open
        {
            let (volume, owner) = (volume.id(), request.owner.into());
            state.add_share(
                request.client,
                Share { volume, file: key, owner, open, access: opened, admission },
            );
        }
        drop(state);
        claims.dispatch(effects);
        Some(status)
    }

    /// Ends a share. A missing share is not an error.
    fn unshare(&self, request: &ShareRequest<'_>) {
        let volume = request.file.volume();
        let mut state = self.0.state();
        let Some(share) = state.remove_share(request.client, |share| request.is(share)) else { return };
        let close = Request::Close(share.open);
        let (_, effects) = volume.claims().apply(volume.now(), &share.file, &close);
        drop(state);
        volume.claims().dispatch(effects);
    }
}

impl ShareRequest<'_> {
    fn is(&self, share: &Share) -> bool {
        share.volume == self.file.volume().id()
            && share.file == self.file.key()
            && *share.owner == *self.owner
    }
}

fn open_request(holder: HolderId, access: Access, reclaims: bool) -> Request {
    Request::Open(OpenRequest {
        holder,
        stream: Stream::default(),
        access,
        truncates: false,
        is_mandatory: false,
        is_advisory: true,
        lease: None,
        reclaims,
        waits: false,
    })
}
