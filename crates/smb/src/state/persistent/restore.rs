//! After a restart: opens come back from their records, and wait for their clients.

use super::record::{CacheRecord, LeaseRecord, Record};
use super::{AsCreated, Kept, PersistentOpens};
use crate::metadata::names::Naming;
use crate::metadata::rights::{claimed_by, data_access};
use crate::state::caching::breaks::{CacheName, NewCache, Told};
use crate::state::caching::leases::{Cached, Lessee};
use crate::state::open::lock_sequences::LockSequences;
use crate::state::open::open_table::{Begun, Durable, Instance};
use crate::state::open::{NewOpen, Open, Place};
use crate::state::service::Service;
use crate::state::session::Session;
use crate::state::tree::Disk;
use crate::status::{of_conflict, of_fs_error};
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

/// An open whose claim is there again, but not what its client may cache.
struct Claimed<'a> {
    record: &'a Record<'a>,
    id: FileId,
    disk: Arc<Disk>,
    dir: File,
    file: File,
    claim: OpenId,
    kept: Kept,
}

impl Service {
    /// Brings back what clients had open of continuously available shares when the last run ended, before anybody is served: how many
    /// opens that are. Those that cannot come back are forgotten.
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
            match self.claim_again(opens, *number, record) {
                Ok(open) => claimed.push(open),
                Err(status) => forget(opens, (*number, record), status),
            }
        }
        // Only now, so that none keeps more than what all the others allow.
        let mut restored = 0;
        for open in claimed {
            let (number, record) = (open.id.persistent, open.record);
            match self.bring_back(open) {
                Ok(()) => restored += 1,
                Err(status) => forget(opens, (number, record), status),
            }
        }
        Ok(restored)
    }

    /// Claims what an open had.
    fn claim_again<'a>(
        &self,
        opens: &Arc<PersistentOpens>,
        persistent: u64,
        record: &'a Record<'a>,
    ) -> Result<Claimed<'a>, NtStatus> {
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
            let key = FileKey::new(key).map_err(of_fs_error)?;
            export.file(&key, Blocking::Allowed).map_err(of_fs_error)
        };
        let (dir, file) = (file(record.dir)?, file(record.file)?);
        let created = AsCreated {
            uid: record.uid,
            client_guid: Guid(record.client_guid),
            create_guid: Guid(record.create_guid),
            timeout_ms: record.timeout_ms,
            share_access,
            action: CreateAction(record.action),
            want: record.cache.map(|cache| cache.want()).unwrap_or_default(),
        };
        let kept = opens
            .add(created, &file, (persistent, record.is_deleted))
            .ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
        let caller = &record.caller;
        let read_only = caller.read_only;
        let mut caller = Caller::new(caller.uid, caller.gid, caller.groups.iter().copied());
        caller.read_only = read_only;
        // Whoever has it now is told nothing: nobody is there.
        let nobody = Weak::<Session>::new();
        let disk = Arc::new(Disk::new(nobody, export, caller, (record.uid, true), None));
        let link = Link { parent: dir.key(), name: record.name().into(), listing: None };
        let is_deleted_on_close = Mode(record.mode).contains(Mode::DELETE_ON_CLOSE);
        let waits_ns = u64::from(record.timeout_ms) * 1_000_000;
        let until = Nanos(export.volume.now().0.saturating_add(waits_ns));
        let verdict = file.claim(&Request::Restore(RestoreRequest {
            holder: disk.holder,
            stream: file.stream(),
            access: claimed_by(&disk.caller, AccessMask(record.granted), share_access),
            durable: claims::Durable { until, is_persistent: true },
            ranges: record.spans()?,
            delete_on_close: is_deleted_on_close.then(|| link.clone()),
            deletion: record.is_deleted.then_some(link),
        }));
        let claim = match verdict {
            Verdict::Granted(granted) => granted.open.ok_or(NtStatus::INTERNAL_ERROR)?,
            Verdict::Refused(conflict) => {
                return Err(of_conflict(conflict).unwrap_or(NtStatus::INTERNAL_ERROR));
            }
            Verdict::Wait(_) => return Err(NtStatus::INTERNAL_ERROR),
        };
        let id = FileId { persistent, volatile: self.counts.next_id() };
        Ok(Claimed { record, id, disk, dir, file, claim, kept })
    }

    /// Gives an open what it may cache, and has it wait for its client.
    fn bring_back(&self, claimed: Claimed<'_>) -> Result<(), NtStatus> {
        let Claimed { record, id, disk, dir, file, claim, kept } = claimed;
        let AsCreated { uid, client_guid, create_guid, timeout_ms, action, .. } = kept.created;
        let owner = Lessee { client_guid, uid };
        let cached = record.cache.map(|cache| self.cache(&disk, (&file, claim), (id, owner), &cache));
        let access =
            data_access(AccessMask(record.granted), file.volume().security_style() == SecurityStyle::Ntfs);
        let opened = file.reopen(&disk.caller, access).map_err(of_fs_error)?.into_owned();
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
            place: Place {
                entry: Some((dir, record.name().to_vec())),
                path: record.path.iter().map(|name| name.0.to_vec()).collect(),
                stream: None,
            },
            channel_sequence: 0,
            cached: cached.transpose()?.flatten(),
            listing: None,
            file,
        });
        open.lock_sequences = LockSequences::of_bytes(&record.lock_sequences);
        open.set_durable(Durable { owner, create_guid: Some(create_guid), timeout_ms, is_persistent: true });
        if let Some(instance) = record.instance {
            let version = (instance.high, instance.low);
            open.set_instance(Instance { owner, id: Guid(instance.id), version });
        }
        open.set_kept(kept);
        let open = Arc::new(open);
        if let Begun::New(creation) = self.handles.begin(owner, create_guid, false)? {
            creation.done(&open, action);
        }
        self.handles.add(open);
        Ok(())
    }

    /// What the client of an open may cache by now.
    fn cache(
        &self,
        disk: &Disk,
        (file, claim): (&File, OpenId),
        (id, owner): (FileId, Lessee),
        cache: &CacheRecord,
    ) -> Result<Option<Cached>, NtStatus> {
        let lease = |LeaseRecord { key, has_epoch }| {
            self.leases.take(owner, (LeaseKey(key), has_epoch), file, file.stream())
        };
        let lease = cache.lease.map(lease).transpose()?;
        let kind = lease.as_ref().map_or(LeaseKind::Oplock, |lease| lease.kind());
        let epoch = u16::try_from(cache.epoch).unwrap_or_default();
        let lease_request = LeaseRequest { kind, want: cache.want(), answers_within: None, epoch };
        let verdict = file.claim(&Request::Recache { open: claim, lease: lease_request });
        let Verdict::Granted(granted) = verdict else { return Err(NtStatus::INTERNAL_ERROR) };
        let (key, name) = match &lease {
            Some(lease) => {
                (lease.shared(), CacheName::Lease { key: lease.key(), has_epoch: lease.has_epoch() })
            }
            None if granted.caching.is_none() => return Ok(None),
            None => (claims::LeaseKey::Oplock(claim), CacheName::Oplock(id)),
        };
        // Whether it is a secret, the client says when it comes back.
        let secret = lease.as_ref().map(|lease| lease.secret().clone()).unwrap_or_default();
        let NewCache { open, reply } = disk.claimant.breaks.add(key, Told { name, secret, connection: 0 });
        drop(reply);
        Ok(Some(Cached::new(lease, open)))
    }
}

fn forget(opens: &PersistentOpens, (number, record): (u64, &Record<'_>), status: NtStatus) {
    let share = String::from_utf8_lossy(record.share);
    tracing::warn!("an open of {share} cannot come back ({status:?}): its client has lost it");
    opens.remove(number, true);
}
