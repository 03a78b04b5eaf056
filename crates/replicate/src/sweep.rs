//! Deletion: a mark at once, and later a sweep that removes what no backup needs.
//!
//! What is unused once stays unused: a backup takes packs only from a previous backup, which its session preserves, and
//! from itself. So two sweeps at a time remove nothing wrong. A lease keeps them from working twice.

use crate::error::{Error, Result};
use crate::format::bytes::{Reader, Writer};
use crate::format::names::{self, BackupId, PackId};
use crate::format::seal::ObjectKind;
use crate::vault::index::load_packs;
use crate::vault::{Vault, damaged};
use std::collections::HashSet;
use std::ops::ControlFlow;
use vfs::Time;

/// The duration of a lease. A sweep renews it after half of that.
const LEASE_SECONDS: i64 = 600;

/// The means that a caller gives a sweep.
pub struct Sweep<'a> {
    pub random: &'a mut dyn FnMut(&mut [u8]),
    pub now: &'a dyn Fn() -> Time,
    /// Called after each removal with the objects removed, and all to remove. `Break` stops the sweep with
    /// [`Error::Stopped`]; a later one goes on.
    pub progress: &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub packs: u64,
    /// Bytes of the packs.
    pub bytes: u64,
    /// Backups that are gone with their last object.
    pub backups: u64,
}

/// Deletes a backup: it is in no list any more. Its space is free after [`sweep`]. [`Error::Locked`] before the time
/// until which it is locked; `now` must never run back.
pub fn delete(vault: &Vault, id: BackupId, now: Time, random: &mut dyn FnMut(&mut [u8])) -> Result<()> {
    vault.check_writer()?;
    let locked_until = match vault.manifest(id) {
        // It can no longer be restored, and the sweep would not pass it.
        Err(Error::Damaged(..)) => None,
        found => found?.locked_until,
    };
    if let Some(until) = locked_until.filter(|&until| until > now) {
        return Err(Error::Locked(id, until));
    }
    vault.put(&names::deleted(id), ObjectKind::Deleted, &[], random).map(drop)
}

/// Gives up an unfinished backup, also one that another process still works on. Returns false if it is complete.
pub fn abandon(vault: &Vault, id: BackupId, random: &mut dyn FnMut(&mut [u8])) -> Result<bool> {
    vault.check_writer()?;
    // Of this and the manifest, only one can have the name.
    let written = vault.put(&names::manifest(id), ObjectKind::Abandoned, &[], random)?;
    if !written.is_new && vault.manifest_of(id)?.is_some() {
        return Ok(false);
    }
    vault.delete_object(&names::session(id))?;
    Ok(true)
}

/// Removes the packs that no backup needs, and what is left of deleted and abandoned backups.
pub fn sweep(vault: &Vault, job: &mut Sweep<'_>) -> Result<Swept> {
    vault.check_writer()?;
    let mut lease = Lease::acquire(vault, job)?;
    let plan = plan(vault)?;
    let total = (plan.packs.len() + plan.objects.len()) as u64;
    let (mut swept, mut removed) = (Swept::default(), 0);
    for (pack, size) in &plan.packs {
        lease.renew(vault, job)?;
        vault.delete_object(&pack.object())?;
        swept.packs += 1;
        swept.bytes += size;
        removed += 1;
        report(job, removed, total)?;
    }
    for object in &plan.objects {
        lease.renew(vault, job)?;
        vault.delete_object(object)?;
        swept.backups += u64::from(object.starts_with(names::DELETED));
        removed += 1;
        report(job, removed, total)?;
    }
    lease.release(vault, job)?;
    Ok(swept)
}

fn report(job: &mut Sweep<'_>, removed: u64, total: u64) -> Result<()> {
    if (job.progress)(removed, total).is_break() { Err(Error::Stopped) } else { Ok(()) }
}

struct Plan {
    packs: Vec<(PackId, u64)>,
    /// Objects in the order of their removal: the mark of a deleted backup after all else of it.
    objects: Vec<String>,
}

fn plan(vault: &Vault) -> Result<Plan> {
    // The order matters. Packs that appear after their list was made are not removed. A session that is not in its list
    // finds the marks that are in theirs, and does not begin. What a session preserves is in a manifest before it ends.
    let (mut packs, mut parts) = (Vec::new(), Vec::new());
    vault.each(names::PACKS, &mut |name, size| {
        packs.extend(PackId::of_object(name).map(|pack| (pack, size)));
    })?;
    vault.each(names::BACKUPS, &mut |name, _| {
        let id = names::backup_of(names::BACKUPS, name).filter(|_| !names::is_manifest(name));
        parts.extend(id.map(|id| (id, name.to_owned())));
    })?;
    let deleted: HashSet<BackupId> = vault.backups_below(names::DELETED)?.into_iter().collect();
    let sessions: HashSet<BackupId> = vault.backups_below(names::SESSIONS)?.into_iter().collect();
    let mut bases = Vec::new();
    for session in &sessions {
        bases.extend(base_of(vault, *session)?.map(|base| (*session, base)));
    }
    let manifests: HashSet<BackupId> = vault.manifests()?.into_iter().collect();
    // Of a backup that is complete or abandoned, a process that crashed or came too late may have left the session.
    let (ended, sessions): (HashSet<_>, HashSet<_>) =
        sessions.into_iter().partition(|id| manifests.contains(id));
    bases.retain(|(session, _)| sessions.contains(session));
    let bases: HashSet<BackupId> = bases.into_iter().map(|(_, base)| base).collect();
    let is_dead = |id: &BackupId| deleted.contains(id) && !bases.contains(id);
    let (mut used, mut used_parts) = (HashSet::new(), HashSet::new());
    for id in manifests.iter().filter(|id| !is_dead(id)) {
        if let Some(manifest) = vault.manifest_of(*id)? {
            used.extend(load_packs(vault, &manifest)?.into_keys());
            used_parts.extend(manifest.leaves.into_iter().chain(manifest.packs).map(|part| part.object));
        }
    }
    packs.retain(|(pack, _)| !used.contains(pack) && !sessions.contains(&pack.backup()));
    parts.retain(|(id, name)| !used_parts.contains(name) && !sessions.contains(id));
    let mut objects: Vec<String> = parts.into_iter().map(|(_, name)| name).collect();
    objects.extend(ended.into_iter().map(names::session));
    let dead: Vec<BackupId> = deleted.iter().copied().filter(is_dead).collect();
    objects.extend(dead.iter().map(|id| names::manifest(*id)));
    objects.extend(dead.iter().map(|id| names::deleted(*id)));
    Ok(Plan { packs, objects })
}

/// The previous backup of an unfinished one.
fn base_of(vault: &Vault, session: BackupId) -> Result<Option<BackupId>> {
    let name = names::session(session);
    let payload = match vault.get(&name, ObjectKind::Session) {
        // It ended meanwhile, with a manifest.
        Err(Error::Damaged(..)) if !vault.exists(&name)? => return Ok(None),
        payload => payload?,
    };
    let mut reader = Reader(&payload);
    match reader.bytes() {
        Some([]) => Ok(None),
        Some(id) => {
            let id = id.try_into().map_err(|_| damaged(&name, "its content is no session"))?;
            Ok(Some(BackupId(id)))
        }
        None => Err(damaged(&name, "its content is no session")),
    }
}

/// The right to sweep for a time.
struct Lease {
    number: u64,
    holder: [u8; 16],
    until: Time,
}

impl Lease {
    fn acquire(vault: &Vault, job: &mut Sweep<'_>) -> Result<Self> {
        let last = vault.last_number(names::LEASES)?.unwrap_or(0);
        if last > 0 {
            let name = names::numbered(names::LEASES, last);
            let payload = vault.get(&name, ObjectKind::Lease)?;
            let until = Reader(&payload).time().ok_or_else(|| damaged(&name, "its content is no lease"))?;
            if until > (job.now)() {
                return Err(Error::Leased(until));
            }
        }
        let mut holder = [0; 16];
        (job.random)(&mut holder);
        let mut lease = Self { number: last, holder, until: Time::default() };
        lease.put(vault, LEASE_SECONDS, job)?;
        // Leases before the last are history.
        let mut old = Vec::new();
        vault.each(names::LEASES, &mut |name, _| old.push(name.to_owned()))?;
        old.retain(|name| names::number_of(names::LEASES, name).is_some_and(|number| number <= last));
        old.iter().try_for_each(|name| vault.delete_object(name))?;
        Ok(lease)
    }

    fn put(&mut self, vault: &Vault, seconds: i64, job: &mut Sweep<'_>) -> Result<()> {
        let now = (job.now)();
        let until = Time { seconds: now.seconds.saturating_add(seconds), ..now };
        let mut payload = Writer::default();
        payload.time(until);
        payload.raw(&self.holder);
        let name = names::numbered(names::LEASES, self.number + 1);
        if !vault.put_or_same(&name, ObjectKind::Lease, &payload.0, job.random)? {
            return Err(Error::Leased(until));
        }
        self.number += 1;
        self.until = until;
        Ok(())
    }

    fn renew(&mut self, vault: &Vault, job: &mut Sweep<'_>) -> Result<()> {
        let left = self.until.seconds.saturating_sub((job.now)().seconds);
        if left < LEASE_SECONDS / 2 { self.put(vault, LEASE_SECONDS, job) } else { Ok(()) }
    }

    fn release(mut self, vault: &Vault, job: &mut Sweep<'_>) -> Result<()> {
        self.put(vault, 0, job)
    }
}
