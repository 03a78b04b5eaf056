//! The oplock or lease that a CREATE requests, and the one it is granted (MS-SMB2 §3.3.5.9, §3.3.5.9.8, §3.3.5.9.11).

use crate::request::context::RequestContext;
use crate::state::caching::breaks::{
    BreakTarget, CacheName, Confidentiality, NewCache, PendingOplock, caching_of_level, caching_of_state,
    level_of, state_of,
};
use crate::state::caching::leases::{LeaseGuard, LeaseOwner, OpenCaching};
use crate::state::tree::DiskShare;
use smb_wire::create::{CreateRequest, OplockLevel};
use smb_wire::lease::{Lease, LeaseFlags, LeaseV1, LeaseV2};
use smb_wire::negotiate::Capabilities;
use smb_wire::oplock::LeaseKey;
use smb_wire::types::Dialect;
use smb_wire::{Decode, FileId, NtStatus};
use vfs::claims::{self, Caching, Granted, LeaseKind, LeaseRequest, OpenId};
use vfs::{File, FileType, ViewId};

/// The owner of this request's leases; `None` before authentication.
pub(crate) fn lease_owner(cx: &RequestContext<'_, '_>) -> Option<LeaseOwner> {
    let client_guid = cx.message.connection.negotiated()?.client_guid;
    let uid = cx.session().ok()?.identity()?.credential.uid;
    Some(LeaseOwner { client_guid, uid })
}

pub(super) fn lease_of(cx: &RequestContext<'_, '_>, args: &CreateRequest<'_>) -> Option<Lease> {
    if args.requested_oplock_level != OplockLevel::LEASE {
        return None;
    }
    let lease = Lease::from_bytes(args.contexts.find(Lease::NAME)?).ok()?;
    // The second version needs 3.0.
    let has_second = cx.message.connection.negotiated()?.dialect != Dialect::SMB210;
    (has_second || matches!(lease, Lease::V1(_))).then_some(lease)
}

fn has_directory_leasing(cx: &RequestContext<'_, '_>) -> bool {
    cx.message
        .connection
        .negotiated()
        .is_some_and(|negotiated| negotiated.capabilities.contains(Capabilities::DIRECTORY_LEASING))
}

/// The key of the directory lease whose holder knows about this request's changes.
pub(super) fn parent_lease_of(
    cx: &RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
) -> Option<claims::LeaseKey> {
    cx.message.service.leases.claim_key_of(lease_owner(cx)?, lease_of(cx, args)?.parent_lease_key()?)
}

/// Checks that the request does not reuse the lease key of another file (MS-SMB2 §3.3.5.9.8).
pub(super) fn check_lease_key(cx: &RequestContext<'_, '_>, args: &CreateRequest<'_>) -> Result<(), NtStatus> {
    match (lease_of(cx, args), lease_owner(cx)) {
        (Some(lease), Some(owner)) if cx.message.service.leases.is_used(owner, lease.lease_key()) => {
            Err(NtStatus::INVALID_PARAMETER)
        }
        _ => Ok(()),
    }
}

pub(super) enum CachingRequest {
    Nothing,
    Oplock { want: Caching, asking: PendingOplock },
    Lease(Box<RequestedLease>),
}

pub(super) struct RequestedLease {
    want: Caching,
    lease_context: Lease,
    lease: LeaseGuard,
    new: NewCache,
}

pub(super) struct CachingGrant {
    pub(super) level: OplockLevel,
    pub(super) lease: Option<Lease>,
}

impl CachingRequest {
    pub(super) fn of(
        cx: &RequestContext<'_, '_>,
        args: &CreateRequest<'_>,
        disk: &DiskShare,
        file: &File,
        file_type: FileType,
    ) -> Result<Self, NtStatus> {
        if !cx.share_settings(disk).oplocks {
            return Ok(Self::Nothing);
        }
        let is_dir = file_type == FileType::Directory;
        // A new snapshot breaks no lease of a directory of snapshots.
        let can_break = file.key().view() != ViewId::DIRECTORY;
        if let (Some(lease_context), Some(owner)) = (lease_of(cx, args), lease_owner(cx)) {
            let want = caching_of_state(lease_context.lease_state());
            let want = match (file_type, &lease_context) {
                (FileType::Regular, _) => want,
                // Directory leases have no write caching (MS-SMB2 §3.3.5.9.11).
                (FileType::Directory, Lease::V2(_)) if has_directory_leasing(cx) && can_break => {
                    want.without(Caching::WRITE)
                }
                _ => return Ok(Self::Nothing),
            };
            let (key, has_epoch) = (lease_context.lease_key(), matches!(lease_context, Lease::V2(_)));
            let lease = cx.message.service.leases.acquire(owner, key, has_epoch, file, file.stream())?;
            let LeaseKind::Shared { client, key } = lease.claim_kind() else { return Ok(Self::Nothing) };
            let name = CacheName::Lease { key: lease_context.lease_key(), has_epoch: lease.has_epoch() };
            let target = break_target(cx, disk, name, lease.confidentiality());
            let new = disk.claim_holder.breaks.add(claims::LeaseKey::Shared { client, key }, target);
            return Ok(Self::Lease(Box::new(RequestedLease { want, lease_context, lease, new })));
        }
        match caching_of_level(args.requested_oplock_level) {
            Some(want) if !want.is_none() && !is_dir && file_type == FileType::Regular => {
                Ok(Self::Oplock { want, asking: disk.claim_holder.breaks.begin_oplock() })
            }
            _ => Ok(Self::Nothing),
        }
    }

    pub(super) fn want(&self) -> Caching {
        self.claim_request().map(|request| request.want).unwrap_or_default()
    }

    pub(super) fn claim_request(&self) -> Option<LeaseRequest> {
        let (kind, want, epoch) = match self {
            Self::Nothing => return None,
            Self::Oplock { want, .. } => (LeaseKind::Oplock, *want, 0),
            Self::Lease(requested) => {
                (requested.lease.claim_kind(), requested.want, epoch_of(&requested.lease_context))
            }
        };
        Some(LeaseRequest { kind, want, answers_within: None, epoch })
    }

    /// Turns the claim's result into the open's state and the response.
    pub(super) fn into_grant(
        self,
        cx: &mut RequestContext<'_, '_>,
        disk: &DiskShare,
        file_id: FileId,
        granted: &Granted,
    ) -> (Option<OpenCaching>, CachingGrant) {
        let none = CachingGrant { level: OplockLevel::NONE, lease: None };
        match self {
            Self::Nothing => (None, none),
            Self::Oplock { asking, .. } => {
                let Some(key) = granted.lease.filter(|_| !granted.caching.is_none()) else {
                    return (None, none);
                };
                let target = break_target(cx, disk, CacheName::Oplock(file_id), &Confidentiality::default());
                let NewCache { open, reply } = disk.claim_holder.breaks.add(key, target);
                drop(asking);
                cx.reply.guards.push(reply);
                (
                    Some(OpenCaching::new(None, open)),
                    CachingGrant { level: level_of(granted.caching), lease: None },
                )
            }
            Self::Lease(requested) => {
                let RequestedLease { lease_context, lease, new: NewCache { open, reply }, .. } = *requested;
                cx.reply.guards.push(reply);
                let lease_context = as_version(lease_context, lease.has_epoch());
                let answer = CachingGrant {
                    level: OplockLevel::LEASE,
                    lease: Some(lease_response(&lease_context, granted)),
                };
                (Some(OpenCaching::new(Some(lease), open)), answer)
            }
        }
    }
}

fn break_target(
    cx: &RequestContext<'_, '_>,
    disk: &DiskShare,
    name: CacheName,
    confidentiality: &Confidentiality,
) -> BreakTarget {
    // A break of a cache on sealed data must itself be encrypted.
    if cx.is_sealed || disk.must_seal {
        confidentiality.set();
    }
    BreakTarget { name, confidentiality: confidentiality.clone(), connection: cx.message.connection.number }
}

fn epoch_of(lease_context: &Lease) -> u16 {
    match lease_context {
        Lease::V1(_) => 0,
        Lease::V2(lease) => lease.epoch,
    }
}

pub(super) fn reattach(
    cx: &mut RequestContext<'_, '_>,
    disk: &DiskShare,
    caching: OpenCaching,
    open: OpenId,
    file_id: FileId,
    lease_context: Option<&Lease>,
) -> OpenCaching {
    let (key, name, confidentiality) = match (caching.lease(), lease_context) {
        (Some(lease), Some(_)) => {
            let name = CacheName::Lease { key: lease.key(), has_epoch: lease.has_epoch() };
            (lease.claim_key(), name, lease.confidentiality().clone())
        }
        _ => (claims::LeaseKey::Oplock(open), CacheName::Oplock(file_id), Confidentiality::default()),
    };
    let NewCache { open, reply } =
        disk.claim_holder.breaks.add(key, break_target(cx, disk, name, &confidentiality));
    cx.reply.guards.push(reply);
    caching.with_guard(open)
}

pub(super) fn regrant(lease_context: Option<&Lease>, granted: &Granted) -> CachingGrant {
    match lease_context {
        Some(lease_context) => {
            CachingGrant { level: OplockLevel::LEASE, lease: Some(lease_response(lease_context, granted)) }
        }
        None => CachingGrant { level: level_of(granted.caching), lease: None },
    }
}

/// Converts the requested lease to the version of the existing one.
fn as_version(lease_context: Lease, has_epoch: bool) -> Lease {
    match lease_context {
        Lease::V1(LeaseV1 { lease_key, lease_state, lease_flags }) if has_epoch => Lease::V2(LeaseV2 {
            lease_key,
            lease_state,
            flags: lease_flags,
            parent_lease_key: LeaseKey::default(),
            epoch: 0,
        }),
        Lease::V2(LeaseV2 { lease_key, lease_state, flags, .. }) if !has_epoch => {
            Lease::V1(LeaseV1 { lease_key, lease_state, lease_flags: flags })
        }
        lease_context => lease_context,
    }
}

fn lease_response(lease_context: &Lease, granted: &Granted) -> Lease {
    let lease_state = state_of(granted.caching);
    let breaking = if granted.is_breaking { LeaseFlags::BREAK_IN_PROGRESS } else { LeaseFlags::empty() };
    match lease_context {
        Lease::V1(lease) => {
            Lease::V1(LeaseV1 { lease_key: lease.lease_key, lease_state, lease_flags: breaking })
        }
        Lease::V2(lease) => {
            let flags = breaking | lease.flags.and(LeaseFlags::PARENT_LEASE_KEY_SET);
            let has_parent = !flags.and(LeaseFlags::PARENT_LEASE_KEY_SET).is_empty();
            let parent_lease_key = if has_parent { lease.parent_lease_key } else { LeaseKey::default() };
            let epoch = granted.epoch;
            Lease::V2(LeaseV2 { lease_key: lease.lease_key, lease_state, flags, parent_lease_key, epoch })
        }
    }
}
