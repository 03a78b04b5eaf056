//! Opens that outlive their connection, or the service (MS-SMB2 §3.3.1.10, §3.3.7.1).

use super::Open;
use super::channel_sequence::ChannelSequence;
use super::open_table::CreateIdentity;
use crate::state::caching::leases::{LeaseOwner, OpenCaching};
use crate::state::persistent::OpenRecord;
use crate::state::tree::DiskShare;
use smb_wire::Guid;
use std::sync::{Arc, OnceLock};
use vfs::claims::{self, Caching, Granted, Request, Verdict};
use vfs::qos::Nanos;
use vfs::sync::Mutex;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Durable {
    /// `DurableOwner` and `ClientGuid`.
    pub(crate) owner: LeaseOwner,
    /// `CreateGuid`, of the second version.
    pub(crate) create_guid: Option<Guid>,
    /// `DurableOpenTimeout` in milliseconds.
    pub(crate) timeout_ms: u32,
    /// Whether the open survives a restart, and opens that conflict with it.
    pub(crate) is_persistent: bool,
}

/// `AppInstanceId` and `AppInstanceVersion`: the application of an open, which may fail over to another client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppInstance {
    pub(crate) owner: LeaseOwner,
    pub(crate) id: Guid,
    /// The high and the low half; zeros for none.
    pub(crate) version: (u64, u64),
}

impl AppInstance {
    /// Whether this is the application of `other`, of the same user, on another client.
    pub(crate) fn follows(&self, other: &Self) -> bool {
        self.id == other.id
            && self.owner.uid == other.owner.uid
            && self.owner.client_guid != other.owner.client_guid
    }
}

/// Properties of an open that are set after it was created, at most once.
#[derive(Default)]
pub(super) struct Durability {
    durable: OnceLock<Durable>,
    /// The record of a persistent open.
    record: OnceLock<OpenRecord>,
    /// The CREATE of the open, if that may be replayed.
    create_identity: OnceLock<CreateIdentity>,
    app_instance: OnceLock<AppInstance>,
}

/// Changes of an open when its client reconnects.
pub(crate) struct ReconnectUpdate {
    pub(crate) volatile: u64,
    pub(crate) channel_sequence: u16,
    pub(crate) caching: Option<OpenCaching>,
}

impl Open {
    pub(crate) fn durable(&self) -> Option<Durable> {
        self.durability.durable.get().copied()
    }

    pub(crate) fn set_durable(&self, durable: Durable) {
        _ = self.durability.durable.set(durable);
    }

    pub(crate) fn is_persistent(&self) -> bool {
        self.durable().is_some_and(|durable| durable.is_persistent)
    }

    pub(crate) fn set_record(&self, record: OpenRecord) {
        _ = self.durability.record.set(record);
    }

    pub(crate) fn record(&self) -> Option<&OpenRecord> {
        self.durability.record.get()
    }

    pub(crate) fn create_identity(&self) -> Option<&CreateIdentity> {
        self.durability.create_identity.get()
    }

    pub(crate) fn set_create_identity(&self, identity: CreateIdentity) {
        _ = self.durability.create_identity.set(identity);
    }

    pub(crate) fn app_instance(&self) -> Option<&AppInstance> {
        self.durability.app_instance.get()
    }

    pub(crate) fn set_app_instance(&self, instance: AppInstance) {
        _ = self.durability.app_instance.set(instance);
    }

    /// Whether the claim was revoked by a conflicting one, or has expired.
    pub(crate) fn is_lost(&self) -> bool {
        self.file.granted_of(self.claim).is_none()
    }

    /// Disconnects the claim until the client returns. False without a cached handle (MS-SMB2 §3.3.7.1), or where another client may
    /// write bytes that this one has locked; Windows closes such an open.
    pub(crate) fn disconnect(&self, durable: Durable) -> bool {
        let Some(Granted { caching, .. }) = self.file.granted_of(self.claim) else { return false };
        let is_locked = || self.file.holds_ranges(self.lock_owner());
        let stays =
            || caching.contains(Caching::HANDLE) && (caching.contains(Caching::WRITE) || !is_locked());
        if !durable.is_persistent && !stays() {
            return false;
        }
        let until = self.file.volume().now().0.saturating_add(u64::from(durable.timeout_ms) * 1_000_000);
        let is_persistent = durable.is_persistent;
        let durable = claims::Durable { until: Nanos(until), is_persistent };
        let verdict = self.file.claim(&Request::Disconnect { open: self.claim, durable });
        matches!(verdict, Verdict::Granted(_))
    }

    /// Moves the open to the tree connect of a client that has returned, with its ranges and its lease. None if the claim is lost.
    pub(crate) fn reconnect(&mut self, disk: &Arc<DiskShare>, update: ReconnectUpdate) -> Option<Granted> {
        let ReconnectUpdate { volatile, channel_sequence, caching } = update;
        let request = Request::Reconnect { open: self.claim, holder: disk.holder };
        let Verdict::Granted(granted) = self.file.claim(&request) else { return None };
        self.id.volatile = volatile;
        self.disk = Arc::clone(disk);
        self.sequences.channel = ChannelSequence::new(channel_sequence);
        self.caching.current = Mutex::new(caching);
        Some(granted)
    }
}
