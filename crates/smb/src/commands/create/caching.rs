//! What a CREATE asks to cache, and what it is given of it (MS-SMB2 §3.3.5.9, §3.3.5.9.8, §3.3.5.9.11).

use crate::request::context::Ops;
use crate::state::caching::breaks::{
    Asking, CacheName, NewCache, Secret, Told, caching_of_level, caching_of_state, level_of, state_of,
};
use crate::state::caching::leases::{Cached, LeaseUse, Lessee};
use crate::state::tree::Disk;
use smb_wire::create::{CreateRequest, OplockLevel};
use smb_wire::lease::{Lease, LeaseFlags, LeaseV1, LeaseV2};
use smb_wire::negotiate::Capabilities;
use smb_wire::oplock::LeaseKey;
use smb_wire::types::Dialect;
use smb_wire::{Decode, FileId, NtStatus};
use vfs::claims::{self, Caching, Granted, LeaseKind, LeaseRequest, OpenId};
use vfs::{File, FileType};

/// Whose leases this request's are; nobody's before there is a user.
pub(crate) fn lessee(ops: &Ops<'_>) -> Option<Lessee> {
    let client_guid = ops.connection.negotiated()?.client_guid;
    let uid = ops.session().ok()?.identity()?.credential.uid;
    Some(Lessee { client_guid, uid })
}

/// The lease that a request asks for.
pub(super) fn lease_of(ops: &Ops<'_>, args: &CreateRequest<'_>) -> Option<Lease> {
    if args.requested_oplock_level != OplockLevel::LEASE {
        return None;
    }
    let lease = Lease::from_bytes(args.contexts.find(Lease::NAME)?).ok()?;
    // The second version came with 3.0.
    let has_second = ops.connection.negotiated()?.dialect != Dialect::SMB210;
    (has_second || matches!(lease, Lease::V1(_))).then_some(lease)
}

/// Whether the client has said that it caches listings.
fn has_directories(ops: &Ops<'_>) -> bool {
    ops.connection
        .negotiated()
        .is_some_and(|negotiated| negotiated.capabilities.contains(Capabilities::DIRECTORY_LEASING))
}

/// The lease of a directory whose holder knows what this request and its open change of the listing.
pub(super) fn listing_of(ops: &Ops<'_>, args: &CreateRequest<'_>) -> Option<claims::LeaseKey> {
    ops.service.leases.key_of(lessee(ops)?, lease_of(ops, args)?.parent_lease_key()?)
}

/// Whether a request may make a file: not with the key of a lease that another one has (MS-SMB2 §3.3.5.9.8).
pub(super) fn check_new(ops: &Ops<'_>, args: &CreateRequest<'_>) -> Result<(), NtStatus> {
    match (lease_of(ops, args), lessee(ops)) {
        (Some(lease), Some(lessee)) if ops.service.leases.is_used(lessee, lease.lease_key()) => {
            Err(NtStatus::INVALID_PARAMETER)
        }
        _ => Ok(()),
    }
}

/// The wish of a CREATE, before its file is claimed.
pub(super) enum Wish {
    Nothing,
    Oplock { want: Caching, asking: Asking },
    Lease(Box<LeaseWish>),
}

pub(super) struct LeaseWish {
    want: Caching,
    asked: Lease,
    lease: LeaseUse,
    new: NewCache,
}

/// What the client is answered.
pub(super) struct Answer {
    pub(super) level: OplockLevel,
    pub(super) lease: Option<Lease>,
}

impl Wish {
    /// What `args` ask of a file of this type.
    pub(super) fn of(
        ops: &Ops<'_>,
        args: &CreateRequest<'_>,
        disk: &Disk,
        (file, file_type): (&File, FileType),
    ) -> Result<Self, NtStatus> {
        if !ops.share_settings(disk).oplocks {
            return Ok(Self::Nothing);
        }
        let is_dir = file_type == FileType::Directory;
        if let (Some(asked), Some(lessee)) = (lease_of(ops, args), lessee(ops)) {
            let want = caching_of_state(asked.lease_state());
            let want = match (file_type, &asked) {
                (FileType::Regular, _) => want,
                // Nobody writes a listing (MS-SMB2 §3.3.5.9.11).
                (FileType::Directory, Lease::V2(_)) if has_directories(ops) => want.without(Caching::WRITE),
                _ => return Ok(Self::Nothing),
            };
            let named = (asked.lease_key(), matches!(asked, Lease::V2(_)));
            let lease = ops.service.leases.take(lessee, named, file, file.stream())?;
            let LeaseKind::Shared { client, key } = lease.kind() else { return Ok(Self::Nothing) };
            let name = CacheName::Lease { key: asked.lease_key(), has_epoch: lease.has_epoch() };
            let told = told(ops, disk, name, lease.secret());
            let new = disk.claimant.breaks.add(claims::LeaseKey::Shared { client, key }, told);
            return Ok(Self::Lease(Box::new(LeaseWish { want, asked, lease, new })));
        }
        match caching_of_level(args.requested_oplock_level) {
            Some(want) if !want.is_none() && !is_dir && file_type == FileType::Regular => {
                Ok(Self::Oplock { want, asking: disk.claimant.breaks.ask() })
            }
            _ => Ok(Self::Nothing),
        }
    }

    /// What is asked to be cached.
    pub(super) fn want(&self) -> Caching {
        self.request().map(|request| request.want).unwrap_or_default()
    }

    /// As the table of claims is asked.
    pub(super) fn request(&self) -> Option<LeaseRequest> {
        let (kind, want, epoch) = match self {
            Self::Nothing => return None,
            Self::Oplock { want, .. } => (LeaseKind::Oplock, *want, 0),
            Self::Lease(wish) => (wish.lease.kind(), wish.want, epoch_of(&wish.asked)),
        };
        Some(LeaseRequest { kind, want, answers_within: None, epoch })
    }

    /// What comes of it, now that the file is claimed: what its open keeps, and what the client is answered.
    pub(super) fn granted(
        self,
        ops: &mut Ops<'_>,
        disk: &Disk,
        file_id: FileId,
        granted: &Granted,
    ) -> (Option<Cached>, Answer) {
        let none = Answer { level: OplockLevel::NONE, lease: None };
        match self {
            Self::Nothing => (None, none),
            Self::Oplock { asking, .. } => {
                let Some(key) = granted.lease.filter(|_| !granted.caching.is_none()) else {
                    return (None, none);
                };
                let told = told(ops, disk, CacheName::Oplock(file_id), &Secret::default());
                let NewCache { open, reply } = disk.claimant.breaks.add(key, told);
                drop(asking);
                ops.unanswered.push(reply);
                (Some(Cached::new(None, open)), Answer { level: level_of(granted.caching), lease: None })
            }
            Self::Lease(wish) => {
                let LeaseWish { asked, lease, new: NewCache { open, reply }, .. } = *wish;
                ops.unanswered.push(reply);
                let asked = as_version(asked, lease.has_epoch());
                let answer = Answer { level: OplockLevel::LEASE, lease: Some(answer(&asked, granted)) };
                (Some(Cached::new(Some(lease), open)), answer)
            }
        }
    }
}

fn told(ops: &Ops<'_>, disk: &Disk, name: CacheName, secret: &Secret) -> Told {
    if ops.is_sealed || disk.must_seal {
        secret.keep();
    }
    Told { name, secret: secret.clone(), connection: ops.connection.number }
}

fn epoch_of(asked: &Lease) -> u16 {
    match asked {
        Lease::V1(_) => 0,
        Lease::V2(lease) => lease.epoch,
    }
}

/// What an open has that its client has come back for, over another tree connect and by another id.
pub(super) fn moved(
    ops: &mut Ops<'_>,
    disk: &Disk,
    (cached, open): (Cached, OpenId),
    (file_id, asked): (FileId, Option<&Lease>),
) -> Cached {
    let (key, name, secret) = match (cached.lease(), asked) {
        (Some(lease), Some(_)) => {
            let name = CacheName::Lease { key: lease.key(), has_epoch: lease.has_epoch() };
            (lease.shared(), name, lease.secret().clone())
        }
        _ => (claims::LeaseKey::Oplock(open), CacheName::Oplock(file_id), Secret::default()),
    };
    let NewCache { open, reply } = disk.claimant.breaks.add(key, told(ops, disk, name, &secret));
    ops.unanswered.push(reply);
    cached.moved(open)
}

/// What the client is told of a cache that it has already.
pub(super) fn again(asked: Option<&Lease>, granted: &Granted) -> Answer {
    match asked {
        Some(asked) => Answer { level: OplockLevel::LEASE, lease: Some(answer(asked, granted)) },
        None => Answer { level: level_of(granted.caching), lease: None },
    }
}

/// What is asked for, in the version that its lease has.
fn as_version(asked: Lease, has_epoch: bool) -> Lease {
    match asked {
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
        asked => asked,
    }
}

/// The lease as it is now.
fn answer(asked: &Lease, granted: &Granted) -> Lease {
    let lease_state = state_of(granted.caching);
    let breaking = if granted.is_breaking { LeaseFlags::BREAK_IN_PROGRESS } else { LeaseFlags::empty() };
    match asked {
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
