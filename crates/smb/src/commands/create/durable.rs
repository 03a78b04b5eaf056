//! Durable and persistent handles in CREATE (MS-SMB2 §3.3.5.9.6, §3.3.5.9.7, §3.3.5.9.10, §3.3.5.9.12).

use super::caching::{self, CachingGrant, lease_owner};
use crate::limits::{DURABLE_MS_DEFAULT, DURABLE_MS_MAX, PERSISTENT_MS_DEFAULT};
use crate::metadata::names::{self, Naming, Part};
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use crate::state::open::durability::{AppInstance, Durable, ReconnectUpdate};
use crate::state::open::open_table::{CreateReplay, TakeError};
use crate::state::persistent::{CreateParams, record};
use crate::state::tree::DiskShare;
use smb_wire::create::{CreateAction, CreateContexts, CreateRequest, OplockLevel, ShareAccess};
use smb_wire::durable::{
    AppInstanceId, AppInstanceVersion, DurableFlags, DurableReconnect, DurableReconnectV2, DurableRequest,
    DurableRequestV2, DurableResponse, DurableResponseV2,
};
use smb_wire::header::Flags;
use smb_wire::lease::Lease;
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, FileId, Guid, NtStatus};
use std::sync::Arc;
use vfs::claims::Caching;
use vfs::{Caller, File, FileType, Wait};

#[derive(Clone, Copy, Debug)]
pub(super) enum DurableContext {
    Nothing,
    V1,
    V2(DurableRequestV2),
    /// A reconnect to an open that lost its connection.
    Reconnect(ReconnectTarget),
}

/// The open that a client reclaims.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReconnectTarget {
    persistent: u64,
    /// `CreateGuid` of the open, in version 2.
    create_guid: Option<Guid>,
    is_persistent: bool,
}

/// The parameters of an open that is to become durable.
pub(super) struct DurableGrant {
    /// A durable open needs handle caching; a persistent one does not.
    pub(super) caching: Caching,
    pub(super) want: Caching,
    pub(super) action: CreateAction,
}

impl ReconnectTarget {
    /// Completes the id of an open that its client knows only by `CreateGuid` (MS-SMB2 §3.3.5.9.12).
    fn by_create_guid(self, cx: &RequestContext<'_, '_>) -> Self {
        let by_guid = || {
            let guid = self.create_guid.filter(|_| self.is_persistent)?;
            cx.message.service.open_table.find_by_guid(lease_owner(cx)?, guid)
        };
        let is_known = || cx.message.service.open_table.is_disconnected(self.persistent);
        let persistent = if is_known() { self.persistent } else { by_guid().unwrap_or(self.persistent) };
        Self { persistent, ..self }
    }
}

impl DurableContext {
    /// Combines the contexts of a request. Version 2 needs SMB 3.
    pub(super) fn of(cx: &RequestContext<'_, '_>, contexts: &CreateContexts<'_>) -> Result<Self, NtStatus> {
        let has_v2 =
            cx.message.connection.negotiated().is_some_and(|agreed| agreed.dialect != Dialect::SMB210);
        let of_v2 = |name| contexts.find(name).filter(|_| has_v2);
        let v1 = contexts.find(DurableRequest::NAME);
        let reconnect = contexts.find(DurableReconnect::NAME);
        match (v1, reconnect, of_v2(DurableRequestV2::NAME), of_v2(DurableReconnectV2::NAME)) {
            (None, None, None, None) => Ok(Self::Nothing),
            (_, Some(data), None, None) => {
                let DurableReconnect { file_id } = decoded(data)?;
                let persistent = file_id.persistent;
                Ok(Self::Reconnect(ReconnectTarget { persistent, create_guid: None, is_persistent: false }))
            }
            (Some(_), None, None, None) => Ok(Self::V1),
            (None, None, Some(data), None) => Ok(Self::V2(decoded(data)?)),
            (None, None, None, Some(data)) => {
                let DurableReconnectV2 { file_id, create_guid, flags } = decoded(data)?;
                Ok(Self::Reconnect(ReconnectTarget {
                    persistent: file_id.persistent,
                    create_guid: Some(create_guid),
                    is_persistent: flags.contains(DurableFlags::PERSISTENT),
                }))
            }
            _ => Err(NtStatus::INVALID_PARAMETER),
        }
    }

    /// A new open's id. The persistent half of a durable open's id is random, so that others cannot guess it.
    pub(super) fn new_id(&self, cx: &RequestContext<'_, '_>) -> FileId {
        let volatile = cx.message.service.counters.next_id();
        let persistent = match self {
            Self::Nothing | Self::Reconnect(_) => volatile,
            Self::V1 | Self::V2(_) => random_id(cx),
        };
        FileId { persistent, volatile }
    }

    /// Makes an open durable if requested and if it caches its handle, or persistent if requested.
    pub(super) fn grant(
        &self,
        cx: &RequestContext<'_, '_>,
        args: &CreateRequest<'_>,
        open: &Open,
        grant: DurableGrant,
    ) {
        let Some(owner) = lease_owner(cx).filter(|_| open.file_type == FileType::Regular) else { return };
        let keeps_handle = grant.caching.contains(Caching::HANDLE);
        let (create_guid, timeout_ms) = match self {
            Self::Nothing | Self::Reconnect(_) => return,
            Self::V1 => (None, 0),
            Self::V2(context) => (Some(context.create_guid), context.timeout),
        };
        let timeout_or = |default| if timeout_ms == 0 { default } else { timeout_ms.min(DURABLE_MS_MAX) };
        let durable =
            Durable { owner, create_guid, timeout_ms: timeout_or(DURABLE_MS_DEFAULT), is_persistent: false };
        // Records name no view: an open of a snapshot is durable at most.
        let can_persist = !open.file.is_stream() && open.file.is_live();
        if self.is_for_persistent() && cx.is_continuously_available(&open.disk) && can_persist {
            let timeout_ms = timeout_or(PERSISTENT_MS_DEFAULT);
            let persistent = Durable { timeout_ms, is_persistent: true, ..durable };
            if make_persistent(cx, open, persistent, args.share_access, grant).is_some() {
                return;
            }
        }
        if keeps_handle {
            open.set_durable(durable);
        }
    }

    fn is_for_persistent(&self) -> bool {
        matches!(self, Self::V2(context) if context.flags.contains(DurableFlags::PERSISTENT))
    }

    pub(super) fn response(&self, open: &Open) -> Option<(&'static [u8], Vec<u8>)> {
        let Durable { timeout_ms, is_persistent, .. } = open.durable()?;
        match self {
            Self::Nothing | Self::Reconnect(_) => None,
            Self::V1 => Some((DurableRequest::NAME, DurableResponse.to_bytes())),
            Self::V2(_) => {
                let flags = if is_persistent { DurableFlags::PERSISTENT } else { DurableFlags::empty() };
                let response = DurableResponseV2 { timeout: timeout_ms, flags };
                Some((DurableRequestV2::NAME, response.to_bytes()))
            }
        }
    }
}

/// Makes an open persistent; `None` if there are too many, or its record cannot be written.
fn make_persistent(
    cx: &RequestContext<'_, '_>,
    open: &Open,
    durable: Durable,
    share_access: ShareAccess,
    grant: DurableGrant,
) -> Option<()> {
    let opens = cx.message.service.persistent.as_ref()?;
    let Durable { owner, create_guid, timeout_ms, .. } = durable;
    let created = CreateParams {
        uid: owner.uid,
        client_guid: owner.client_guid,
        create_guid: create_guid?,
        timeout_ms,
        share_access,
        action: grant.action,
        want: grant.want,
    };
    let record = opens.add(created, &open.file, open.id.persistent, false)?;
    if record::save_as(open, &record).is_err() {
        // A part of the record may be on disk.
        record.end(&open.file, true);
        return None;
    }
    open.set_durable(durable);
    open.set_record(record);
    Some(())
}

/// Closes the opens of `file` that the application instance has at another, failed client (MS-SMB2 §3.3.5.9.13).
/// Another user closes nothing, since the id is not a secret.
pub(super) fn close_failed_over(
    cx: &RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    context: &DurableContext,
    file: &File,
) -> Result<Option<AppInstance>, NtStatus> {
    let (DurableContext::V2(_), Some(data)) = (context, args.contexts.find(AppInstanceId::NAME)) else {
        return Ok(None);
    };
    let AppInstanceId { app_instance_id: id } = decoded(data)?;
    let version =
        args.contexts.find(AppInstanceVersion::NAME).map(decoded::<AppInstanceVersion>).transpose()?;
    let version =
        version.map(|version| (version.app_instance_version_high, version.app_instance_version_low));
    let owner = lease_owner(cx).ok_or(NtStatus::ACCESS_DENIED)?;
    let app_instance = AppInstance { owner, id, version: version.unwrap_or_default() };
    let is_before = |open: &Open| {
        open.app_instance().is_some_and(|other| app_instance.follows(other))
            && open.file.volume().id() == file.volume().id()
            && open.file.key() == file.key()
    };
    let previous = cx.message.service.find_opens(is_before);
    let is_later = |open: &Arc<Open>| {
        let other = open.app_instance().map(|other| other.version).unwrap_or_default();
        version.is_some() && other != (0, 0) && other >= app_instance.version
    };
    if previous.iter().any(is_later) {
        return Err(NtStatus::FILE_FORCED_CLOSED);
    }
    previous.iter().for_each(|open| cx.message.service.close(open));
    cx.message.service.open_table.close_expired(is_before);
    Ok(Some(app_instance))
}

/// A random id other than the reserved ones.
fn random_id(cx: &RequestContext<'_, '_>) -> u64 {
    loop {
        let mut bytes = [0; 8];
        (cx.message.service.random)(&mut bytes);
        let random_id = u64::from_le_bytes(bytes);
        if !matches!(random_id, 0 | u64::MAX) {
            return random_id;
        }
    }
}

fn decoded<'a, T: Decode<'a>>(data: &'a [u8]) -> Result<T, NtStatus> {
    T::from_bytes(data).map_err(|_| NtStatus::INVALID_PARAMETER)
}

pub(super) struct ExistingOpen {
    pub(super) open: Arc<Open>,
    pub(super) action: CreateAction,
    pub(super) caching: CachingGrant,
    pub(super) announces_durable: bool,
}

/// Returns the result of this CREATE if it is a replay (MS-SMB2 §3.3.5.9.10); otherwise registers it.
pub(super) fn find_replayed(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    disk: &Arc<DiskShare>,
    context: &DurableContext,
) -> Result<Option<ExistingOpen>, CommandError> {
    let DurableContext::V2(DurableRequestV2 { create_guid, .. }) = *context else { return Ok(None) };
    if cx.wait.create_registration.is_some() {
        // The original is this request, resumed after a wait.
        return Ok(None);
    }
    let owner = lease_owner(cx).ok_or(NtStatus::ACCESS_DENIED)?;
    let is_replay = cx.header.flags.contains(Flags::REPLAY_OPERATION);
    let open = match cx.message.service.open_table.register_create(owner, create_guid, is_replay)? {
        CreateReplay::New(creation) => {
            cx.wait.create_registration = Some(creation);
            return Ok(None);
        }
        CreateReplay::Existing(open) => open,
    };
    let asked_lease = caching::lease_of(cx, args);
    if asked_lease.as_ref().map(Lease::lease_key) != open.lease_key() {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let is_here = cx.session()?.open(open.id).is_some_and(|existing| Arc::ptr_eq(&existing, &open));
    if !is_here || !Arc::ptr_eq(disk, &open.disk) {
        let (persistent, is_persistent) = (open.id.persistent, open.is_persistent());
        let target = ReconnectTarget { persistent, create_guid: Some(create_guid), is_persistent };
        drop(open);
        let reconnected = reconnect(cx, args, disk, target);
        // The client never received the reply, so it gets the original one.
        let reconnected = reconnected.map(|existing| {
            Some(with_original_action(cx, ExistingOpen { announces_durable: true, ..existing }))
        });
        // Another session of the client has it.
        return reconnected.map_err(|stop| match stop {
            CommandError::Status(NtStatus::OBJECT_NAME_NOT_FOUND) => NtStatus::DUPLICATE_OBJECTID.into(),
            stop => stop,
        });
    }
    let granted = open.file.granted_of(open.claim()).ok_or(NtStatus::FILE_CLOSED)?;
    let caching = match &asked_lease {
        Some(lease) => caching::regrant(Some(lease), &granted),
        // Windows echoes the requested level, whatever the open has.
        None => CachingGrant { level: args.requested_oplock_level, lease: None },
    };
    let announces_durable =
        asked_lease.is_some() || caching.level == OplockLevel::BATCH || open.is_persistent();
    Ok(Some(with_original_action(
        cx,
        ExistingOpen { open, action: CreateAction::OPENED, caching, announces_durable },
    )))
}

/// Restores the original create action. Its changes may not be durable yet.
fn with_original_action(cx: &mut RequestContext<'_, '_>, existing: ExistingOpen) -> ExistingOpen {
    let Some(action) = existing.open.create_identity().map(|origin| origin.action) else { return existing };
    if action != CreateAction::OPENED {
        existing.open.file.require_stable(cx.message.pending);
        if let Some((dir, _)) = &existing.open.entry_path().entry {
            dir.require_stable(cx.message.pending);
        }
    }
    ExistingOpen { action, ..existing }
}

/// Reclaims the open that a client lost with its connection (MS-SMB2 §3.3.5.9.7, §3.3.5.9.12).
pub(super) fn reconnect(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    disk: &Arc<DiskShare>,
    target: ReconnectTarget,
) -> Result<ExistingOpen, CommandError> {
    // The oplock level of the request is ignored.
    let lease = args.contexts.find(Lease::NAME).map(decoded::<Lease>).transpose()?;
    let target = target.by_create_guid(cx);
    let mut open = take_disconnected(cx, args, disk, target, lease.as_ref())?;
    let volatile = cx.message.service.counters.next_id();
    let id = FileId { volatile, ..open.id };
    let caching = open.take_caching();
    let caching =
        caching.map(|caching| caching::reattach(cx, disk, caching, open.claim(), id, lease.as_ref()));
    let reconnected = ReconnectUpdate { volatile, channel_sequence: cx.header.channel_sequence(), caching };
    let Some(granted) = open.reconnect(disk, reconnected) else {
        open.close();
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND.into());
    };
    let open = Arc::new(open);
    if let Some(origin) = open.create_identity() {
        origin.set_open(&open);
    }
    if let Err(status) = cx.session()?.add_open(&cx.message.service.counters, cx.header.tree_id(), &open) {
        // The open keeps waiting for its client, or is closed.
        _ = cx.message.service.open_table.add_disconnected(open).inspect_err(|open| open.close());
        return Err(status.into());
    }
    let caching = caching::regrant(lease.as_ref(), &granted);
    Ok(ExistingOpen { open, action: CreateAction::OPENED, caching, announces_durable: false })
}

/// Takes an open from the disconnected ones. The request waits if the old session still exists although the client has
/// left: clients reconnect before the server notices the loss.
fn take_disconnected(
    cx: &RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    disk: &DiskShare,
    target: ReconnectTarget,
    lease: Option<&Lease>,
) -> Result<Open, CommandError> {
    let check = |open: &Open| check_reconnect(cx, args, disk, open, target, lease);
    let take = || {
        cx.message.service.open_table.take_disconnected(target.persistent, check).map_err(|taking| {
            match taking {
                TakeError::Refused(status) => CommandError::Status(status),
                TakeError::Busy => CommandError::Wait(Wait::Recall),
            }
        })
    };
    let opened = take();
    let (Err(CommandError::Status(NtStatus::OBJECT_NAME_NOT_FOUND)), Some(owner)) =
        (&opened, lease_owner(cx))
    else {
        return opened;
    };
    // An open with an oplock may be reclaimed under another ClientGuid: smb2.durable-open.reopen2 draws one for each
    // connection. A refusal for another reason waits, too: the answer must not depend on when the server notices.
    let is_meant = |open: &Open| check(open) != Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    if cx.message.service.is_abandoned_open(owner.uid, target.persistent, is_meant) {
        return Err(CommandError::Wait(Wait::Recall));
    }
    cx.message.service.wait_for_cleanup(owner.uid);
    take()
}

fn check_reconnect(
    cx: &RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    disk: &DiskShare,
    open: &Open,
    target: ReconnectTarget,
    lease: Option<&Lease>,
) -> Result<(), NtStatus> {
    let unknown = NtStatus::OBJECT_NAME_NOT_FOUND;
    let durable = open.durable().ok_or(unknown)?;
    let owner = lease_owner(cx).ok_or(NtStatus::ACCESS_DENIED)?;
    let is_of_share =
        open.disk.export.id == disk.export.id && Arc::ptr_eq(&open.disk.export.volume, &disk.export.volume);
    // Version 1 has a zero GUID.
    let create_guid = durable.create_guid.unwrap_or_default();
    let is_named = target.create_guid.is_none_or(|target| target == create_guid);
    let has_lease = open.lease_key().is_some();
    let is_kind = target.is_persistent || !durable.is_persistent;
    if !is_of_share
        || !is_named
        || !is_kind
        || open.lease_key() != lease.map(Lease::lease_key)
        || has_lease && owner.client_guid != durable.owner.client_guid
    {
        return Err(unknown);
    }
    if owner.uid != durable.owner.uid {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if !is_same_caller(&open.disk.caller, &disk.caller) {
        return Err(unknown);
    }
    // The name does not matter for an oplock.
    if has_lease && !has_name(args, open) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(())
}

/// Whether a share's rules still treat the user as before: permissions must not pass to another user.
fn is_same_caller(then: &Caller, now: &Caller) -> bool {
    (then.uid, then.gid, then.groups(), then.read_only) == (now.uid, now.gid, now.groups(), now.read_only)
}

fn has_name(args: &CreateRequest<'_>, open: &Open) -> bool {
    let folded = |path: &[Vec<u8>]| {
        let to_wire = |name: &Vec<u8>| names::to_wire(name, Naming::Windows);
        let names = path.iter().map(|name| to_wire(name).map(|name| names::folded(&name)));
        names.collect::<Option<Vec<_>>>()
    };
    let wire = args.name.units().collect::<Vec<_>>();
    let Ok((path, part)) = names::path_and_part(&wire, open.naming) else { return false };
    let folded_stream = |name: &[u8]| names::stream_to_wire(name).map(|name| names::folded(&name));
    let entry_path = open.entry_path();
    let is_of_part = match (&part, &entry_path.stream) {
        (Part::Stream(context), Some(stream)) => folded_stream(context) == folded_stream(stream),
        (Part::Whole | Part::Data, None) => true,
        _ => false,
    };
    is_of_part
        && match open.naming {
            Naming::Windows => folded(&path) == folded(&entry_path.path),
            Naming::Posix => path == entry_path.path,
        }
}
