//! Restoring of persistent opens after a restart. They wait for their clients.

use super::record::{CacheRecord, LeaseRecord, Record};
use super::{CreateParams, OpenRecord, PersistentOpens};
use crate::metadata::names::Naming;
use crate::metadata::rights::{claimed_by, data_access};
use crate::state::caching::breaks::{BreakTarget, CacheName, NewCache};
use crate::state::caching::leases::{LeaseOwner, OpenCaching};
use crate::state::open::durability::{AppInstance, Durable};
use crate::state::open::lock_sequences::LockSequences;
use crate::state::open::open_table::CreateReplay;
use crate::state::open::{EntryPath, NewOpen, Open};
use crate::state::service::Service;
use crate::state::session::Session;
use crate::state::tree::DiskShare;
use crate::status::{from_conflict, from_fs_error};
use smb_wire::classes::file::Mode;
use smb_wire::create::{CreateAction, ShareAccess};
use smb_wire::oplock::LeaseKey;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, Guid, NtStatus};
use std::io;
use std::sync::{Arc, Weak};
use vfs::claims::{self, LeaseKind, LeaseRequest, Link, OpenId, Request, Requester, RestoreRequest, Verdict};
use vfs::qos::Nanos;
use vfs::{Blocking, Caller, File, FileKey, FileType, SecurityStyle, VolumeId};

/// An open whose claim is restored, but not its caching.
struct ClaimedRecord<'a> {
    record: &'a Record<'a>,
    id: FileId,
    disk: Arc<DiskShare>,
    dir: File,
    file: File,
    claim: OpenId,
    open_record: OpenRecord,
}

impl Service {
    /// Restores the persistent opens of the last run, before any client is served, and returns their number. Records
    /// that cannot be restored are removed.
    pub fn restore(&self) -> io::Result<usize> {
        let Some(opens) = &self.persistent else { return Ok(0) };
        let found = opens.entries.load_all()?;
        let records = found.iter().filter_map(|found| {
            let record = found.content.as_deref().and_then(|content| Record::read(content).ok());
            if record.is_none() {
                tracing::warn!("the record {:016x} of an open is damaged: the open is lost", found.number);
                opens.remove(found.number, false);
            }
            Some((found.number, record?))
        });
        let records: Vec<_> = records.collect();
        let mut claimed = Vec::new();
        for (number, record) in &records {
            match self.claim(opens, *number, record) {
                Ok(open) => claimed.push(open),
                Err(status) => discard(opens, *number, record, status),
            }
        }
        // Caching is restored after all claims, so that no open caches more than the other claims allow.
        let mut restored = 0;
        for open in claimed {
            let (number, record) = (open.id.persistent, open.record);
            match self.restore_open(open) {
                Ok(()) => restored += 1,
                Err(status) => discard(opens, number, record, status),
            }
        }
        Ok(restored)
    }

    fn claim<'a>(
        &self,
        opens: &Arc<PersistentOpens>,
        persistent: u64,
        record: &'a Record<'a>,
    ) -> Result<ClaimedRecord<'a>, NtStatus> {
        let namespace = self.namespace.load();
        let export = namespace
            .exports()
            .iter()
            .find(|export| {
                export.path.as_bytes() == record.share && export.volume.id() == VolumeId(record.volume)
            })
            .filter(|export| export.share.continuously_available)
            .ok_or(NtStatus::BAD_NETWORK_NAME)?;
        let share_access = ShareAccess(record.share_access);
        let file = |key| {
            let key = FileKey::new(key).map_err(from_fs_error)?;
            export.file(&key, Blocking::Allowed).map_err(from_fs_error)
        };
        let (dir, file) = (file(record.dir)?, file(record.file)?);
        let created = CreateParams {
            uid: record.uid,
            client_guid: Guid(record.client_guid),
            create_guid: Guid(record.create_guid),
            timeout_ms: record.timeout_ms,
            share_access,
            action: CreateAction(record.action),
            want: record.cache.map(|cache| cache.want()).unwrap_or_default(),
        };
        let open_record = opens
            .add(created, &file, persistent, record.is_deleted)
            .ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
        let caller = &record.caller;
        let read_only = caller.read_only;
        let mut caller = Caller::new(caller.uid, caller.gid, caller.groups.iter().copied());
        caller.read_only = read_only;
        // No client is connected, so breaks reach nobody.
        let nobody = Weak::<Session>::new();
        let disk = Arc::new(DiskShare::new(nobody, export, caller, record.uid, true, None));
        let link = Link { parent: dir.key(), name: record.name().into(), listing: None };
        let is_deleted_on_close = Mode(record.mode).contains(Mode::DELETE_ON_CLOSE);
        let waits_ns = u64::from(record.timeout_ms) * 1_000_000;
        let until = Nanos(export.volume.now().0.saturating_add(waits_ns));
        let verdict = file.claim(&Request::Restore(RestoreRequest {
            holder: disk.holder,
            stream: file.stream(),
            access: claimed_by(&disk.caller, &file, AccessMask(record.granted), share_access),
            durable: claims::Durable { until, is_persistent: true },
            ranges: record.lock_spans()?,
            delete_on_close: is_deleted_on_close.then(|| link.clone()),
            deletion: record.is_deleted.then_some(link),
        }));
        let claim = match verdict {
            Verdict::Granted(granted) => granted.open.ok_or(NtStatus::INTERNAL_ERROR)?,
            Verdict::Refused(conflict) => {
                return Err(from_conflict(conflict).unwrap_or(NtStatus::INTERNAL_ERROR));
            }
            Verdict::Wait(_) => return Err(NtStatus::INTERNAL_ERROR),
        };
        let id = FileId { persistent, volatile: self.counters.next_id() };
        Ok(ClaimedRecord { record, id, disk, dir, file, claim, open_record })
    }

    /// Restores the caching of an open, and adds it to the table of disconnected opens.
    fn restore_open(&self, claimed: ClaimedRecord<'_>) -> Result<(), NtStatus> {
        let ClaimedRecord { record, id, disk, dir, file, claim, open_record } = claimed;
        let CreateParams { uid, client_guid, create_guid, timeout_ms, action, .. } = open_record.params;
        let owner = LeaseOwner { client_guid, uid };
        let caching = record.cache.map(|cache| self.restore_caching(&disk, &file, claim, id, owner, &cache));
        let access =
            data_access(AccessMask(record.granted), file.volume().security_style() == SecurityStyle::Ntfs);
        let opened = file.reopen(&disk.caller, access).map_err(from_fs_error)?.into_owned();
        let mut open = Open::new(NewOpen {
            id,
            disk,
            opened: Some(opened.with_claim(Requester::Open(claim))),
            file_type: FileType::Regular,
            base_type: FileType::Regular,
            naming: if record.is_posix { Naming::Posix } else { Naming::Windows },
            granted: AccessMask(record.granted),
            mode: Mode(record.mode),
            claim,
            entry_path: EntryPath {
                entry: Some((dir, record.name().to_vec())),
                path: record.path.iter().map(|name| name.0.to_vec()).collect(),
                stream: None,
            },
            channel_sequence: 0,
            caching: caching.transpose()?.flatten(),
            parent_lease: None,
            file,
        });
        open.sequences.locks = LockSequences::from_bytes(&record.lock_sequences);
        open.set_durable(Durable { owner, create_guid: Some(create_guid), timeout_ms, is_persistent: true });
        if let Some(instance) = record.instance {
            let version = (instance.high, instance.low);
            open.set_app_instance(AppInstance { owner, id: Guid(instance.id), version });
        }
        open.set_record(open_record);
        let open = Arc::new(open);
        if let CreateReplay::New(creation) = self.open_table.register_create(owner, create_guid, false)? {
            creation.complete(&open, action);
        }
        self.open_table.add_restored(open);
        Ok(())
    }

    /// Restores the caching that the other claims allow now.
    fn restore_caching(
        &self,
        disk: &DiskShare,
        file: &File,
        claim: OpenId,
        id: FileId,
        owner: LeaseOwner,
        cache: &CacheRecord,
    ) -> Result<Option<OpenCaching>, NtStatus> {
        let lease = |LeaseRecord { key, has_epoch }| {
            self.leases.acquire(owner, LeaseKey(key), has_epoch, file, file.stream())
        };
        let lease = cache.lease.map(lease).transpose()?;
        let kind = lease.as_ref().map_or(LeaseKind::Oplock, |lease| lease.claim_kind());
        let epoch = u16::try_from(cache.epoch).unwrap_or_default();
        let lease_request = LeaseRequest { kind, want: cache.want(), answers_within: None, epoch };
        let verdict = file.claim(&Request::Recache { open: claim, lease: lease_request });
        let Verdict::Granted(granted) = verdict else { return Err(NtStatus::INTERNAL_ERROR) };
        let (key, name) = match &lease {
            Some(lease) => {
                (lease.claim_key(), CacheName::Lease { key: lease.key(), has_epoch: lease.has_epoch() })
            }
            None if granted.caching.is_none() => return Ok(None),
            None => (claims::LeaseKey::Oplock(claim), CacheName::Oplock(id)),
        };
        // The client says on its return whether the cache is confidential.
        let confidentiality = lease.as_ref().map(|lease| lease.confidentiality().clone()).unwrap_or_default();
        let NewCache { open, reply } =
            disk.claim_holder.breaks.add(key, BreakTarget { name, confidentiality, connection: 0 });
        drop(reply);
        Ok(Some(OpenCaching::new(lease, open)))
    }
}

fn discard(opens: &PersistentOpens, number: u64, record: &Record<'_>, status: NtStatus) {
    let share = String::from_utf8_lossy(record.share);
    tracing::warn!("an open of {share} cannot come back ({status:?}): its client has lost it");
    opens.remove(number, true);
}
