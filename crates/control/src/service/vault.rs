//! Creates, changes, removes and lists vaults, and opens them for jobs.

use super::{Page, Service, UNCHANGED, check_version};
use crate::backup::{Backup, BackupState, BackupTotals, NamesInVault, full_name, ms_of, time_of};
use crate::backup_error::BackupError;
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::name::{BackupName, VaultName};
use crate::operation::{ChangeContext, ChangeResult, Operation, Verb};
use crate::store::{self, lock_clock};
use crate::vault::{NewVault, Vault, VaultChange, VaultPlace, read_key};
use replicate::store::ObjectStore;
use replicate::{Error as VaultError, Manifest, Owner, VaultOptions};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use vfs::qos::Nanos;
use vfs::sync::Mutex;

/// Opens the store of an existing vault, or with `true` of one to create.
pub(crate) type OpenStore = dyn Fn(&VaultPlace, bool) -> io::Result<Arc<dyn ObjectStore>> + Send + Sync;

pub(crate) struct VaultStores {
    open: Box<OpenStore>,
    /// Vaults are created, changed and removed one after the other: a store can take long.
    changes: Mutex<()>,
    /// The time at which each vault may send again, by row.
    paces: Mutex<HashMap<i64, Nanos>>,
    /// Failed jobs of each vault since the start.
    failures: Mutex<BTreeMap<VaultName, u64>>,
}

impl Default for VaultStores {
    fn default() -> Self {
        Self {
            open: Box::new(VaultPlace::open),
            changes: Mutex::default(),
            paces: Mutex::default(),
            failures: Mutex::default(),
        }
    }
}

impl VaultStores {
    pub(super) fn count_failure(&self, vault: &VaultName) {
        *self.failures.lock().entry(vault.clone()).or_default() += 1;
    }

    /// The pause before a vault sends a piece.
    pub(super) fn pause(&self, vault: &Vault, bytes: u64, now: Nanos) -> Duration {
        let Some(rate) = vault.bytes_per_s else { return Duration::ZERO };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let mut paces = self.paces.lock();
        let from = paces.get(&vault.row).map_or(now.0, |next| next.0.max(now.0));
        let next = from.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX));
        paces.insert(vault.row, Nanos(next));
        Duration::from_nanos(from - now.0)
    }
}

#[cfg(test)]
impl Service {
    /// The time at which the vault may send again.
    pub(crate) fn vault_pace(&self, vault: &Vault) -> Nanos {
        self.vaults.paces.lock().get(&vault.row).copied().unwrap_or(Nanos(0))
    }
}

impl Service {
    /// Creates a vault, or uses the one that is in its place already, with its backups. Succeeds without a change if an
    /// identical vault exists.
    pub fn create_vault(&self, context: &ChangeContext, new: &NewVault) -> Result<ChangeResult<Vault>> {
        new.check()?;
        let place = new.place.clone().resolved(&self.dependencies.dir)?;
        let new = NewVault { place, ..new.clone() };
        let _changes = self.vaults.changes.lock();
        let thing = (Kind::Vault, new.name.as_str());
        if let Some(vault) = self.read(|store| Ok(store::vault::find(store, &new.name)?))? {
            let differs = new.differs_from(&vault);
            if !differs.is_empty() {
                return Err(Error::Conflict { kind: Kind::Vault, name: new.name.to_string(), differs });
            }
            let operation =
                self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: vault, operation });
        }
        let opened = self.create_in_store(&new)?;
        let now = self.now_ms();
        let mut vault = Vault {
            row: 0,
            name: new.name.clone(),
            number: opened.id(),
            place: new.place.clone(),
            key_file: new.key_file.clone(),
            lock_days: new.lock_days,
            bytes_per_s: new.bytes_per_s,
            version: 1,
            created_ms: now,
            changed_ms: now,
        };
        if let Some(other) = self.read(|store| Ok(store::vault::find_number(store, vault.number)?))? {
            let what = format!("the place {}, which is that of the vault {}", vault.place, other.name);
            return Err(Error::invalid(what, "a place of its own for each vault"));
        }
        let found = opened.list().map_err(|error| vault_error(&new.name, error))?;
        let operation = self.change(|store| {
            store::vault::insert(store, &mut vault)?;
            self.import(store, &vault, &found.backups)?;
            lock_clock::advance(store, self.lock_now_ms())?;
            let detail = match found.backups.len() {
                0 => format!("in {}", vault.place),
                count => format!("in {}, with {count} backups", vault.place),
            };
            self.record(store, context, Verb::Create, thing, &detail)
        })?;
        Ok(ChangeResult { value: vault, operation })
    }

    /// Makes a vault in a store, or opens the one that is there.
    fn create_in_store(&self, new: &NewVault) -> Result<replicate::Vault> {
        let failed = |error| vault_error(&new.name, error);
        let key = new.key_file.as_deref().map(read_key).transpose()?;
        let owner = self.vault_owner()?;
        let store = (self.vaults.open)(&new.place, true).map_err(|error| unusable(&new.name, &error))?;
        let mut random = |bytes: &mut [u8]| (self.dependencies.entropy)(bytes);
        let options =
            VaultOptions { key: key.clone(), owner: owner.clone(), created: time_of(self.now_ms()) };
        match replicate::Vault::create(Arc::clone(&store), &options, &mut random) {
            Err(VaultError::VaultExists) if new.takes_over => {
                replicate::Vault::take_over(store, key.as_ref(), &owner, &mut random).map_err(failed)
            }
            Err(VaultError::VaultExists) => {
                replicate::Vault::open(store, key.as_ref(), Some(&owner), &mut random).map_err(failed)
            }
            created => created.map_err(failed),
        }
    }

    /// Inserts rows for the backups that a vault has and the store does not know.
    pub(super) fn import(
        &self,
        store: &rusqlite::Connection,
        vault: &Vault,
        found: &[Manifest],
    ) -> Result<usize> {
        let known = store::backup::of_vault(store, vault.row)?;
        let ids: HashSet<_> = known.iter().map(|one| one.id).collect();
        let mut names: HashSet<String> = known.iter().map(|one| one.name.to_string()).collect();
        let mut count = 0;
        for manifest in found.iter().filter(|manifest| !ids.contains(&manifest.id)) {
            let Some(of) = NamesInVault::of(manifest) else { continue };
            // A name that was free again for another backup.
            let name = match names.insert(of.name.to_string()) {
                true => of.name,
                false => BackupName::stored(format!("{}-{}", of.name, manifest.id)),
            };
            let row = Backup {
                vault_row: vault.row,
                id: manifest.id,
                vault: vault.name.clone(),
                name,
                volume: of.volume,
                volume_id: of.volume_id,
                snapshot: of.snapshot,
                kind: of.kind,
                view: None,
                made_from: None,
                previous: None,
                taken_ms: ms_of(manifest.taken),
                finished_ms: None,
                totals: BackupTotals::default(),
                state: BackupState::Ready,
                reason: String::new(),
                verified_ms: None,
                damage: String::new(),
                locked_until_ms: None,
                version: 1,
                created_ms: ms_of(manifest.finished),
                changed_ms: self.now_ms(),
            };
            store::backup::insert(store, &row.with_manifest(manifest))?;
            count += 1;
        }
        Ok(count)
    }

    /// Changes a vault. A new place must be that of the same vault.
    pub fn update_vault(
        &self,
        context: &ChangeContext,
        name: &VaultName,
        change: &VaultChange,
    ) -> Result<ChangeResult<Vault>> {
        let _changes = self.vaults.changes.lock();
        let before = self.vault(name)?;
        check_version(context, Kind::Vault, name.as_str(), before.version)?;
        let place = change.place.clone().map(|place| {
            place.check()?;
            place.resolved(&self.dependencies.dir)
        });
        let change = VaultChange { place: place.transpose()?, ..change.clone() };
        let (mut after, changes) = before.changed(&change)?;
        let thing = (Kind::Vault, name.as_str());
        if changes.is_empty() {
            let operation =
                self.change(|store| self.record(store, context, Verb::Update, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: before, operation });
        }
        if after.place != before.place || after.key_file != before.key_file {
            let store = (self.vaults.open)(&after.place, false).map_err(|error| unusable(name, &error))?;
            self.open_in_store(&after, store)?;
        }
        (after.version, after.changed_ms) = (before.version + 1, self.now_ms());
        let operation = self.change(|store| {
            store::vault::update(store, &after)?;
            self.record(store, context, Verb::Update, thing, &changes.join(", "))
        })?;
        Ok(ChangeResult { value: after, operation })
    }

    /// Forgets a vault. Refuses while it has backups, unless forced. What is in its store stays.
    pub fn delete_vault(&self, context: &ChangeContext, name: &VaultName) -> Result<Operation> {
        let _changes = self.vaults.changes.lock();
        let vault = self.vault(name)?;
        check_version(context, Kind::Vault, name.as_str(), vault.version)?;
        let (left, operation) = self.change(|store| {
            if let Some(policy) = store::policy::of_vault(store, vault.row)? {
                return Err(BackupError::VaultOfPolicy {
                    vault: name.to_string(),
                    policy: policy.to_string(),
                }
                .into());
            }
            let jobs = store::operation::jobs(store)?;
            if let Some(job) = jobs.into_iter().find(|job| job.spec.vault() == Some(vault.row)) {
                let backup = full_name(name, "…");
                return Err(BackupError::Busy { backup, operation: job.id.0 }.into());
            }
            let left = store::backup::of_vault(store, vault.row)?;
            let backups = left.len();
            if backups > 0 && !context.force {
                return Err(BackupError::VaultInUse { vault: name.to_string(), backups }.into());
            }
            store::vault::delete(store, vault.row)?;
            let detail = if backups > 0 { "its backups stay in it" } else { "" };
            let thing = (Kind::Vault, name.as_str());
            Ok((left, self.record(store, context, Verb::Delete, thing, detail)?))
        })?;
        left.iter().for_each(|backup| self.delete_own_snapshot(backup));
        Ok(operation)
    }

    pub fn vault(&self, name: &VaultName) -> Result<Vault> {
        let found = self.read(|store| Ok(store::vault::find(store, name)?))?;
        found.ok_or_else(|| Error::not_found(Kind::Vault, name))
    }

    /// Lists vaults by name after `after`, the [`Page::next`] of the previous page.
    pub fn vaults(&self, after: Option<&str>, most: usize) -> Result<Page<Vault>> {
        let after = after.unwrap_or("");
        self.page(most, |store, most| store::vault::list(store, after, most), |one| one.name.to_string())
    }

    /// The failed jobs of each vault since the start of the process.
    pub fn vault_failures(&self) -> BTreeMap<VaultName, u64> {
        self.vaults.failures.lock().clone()
    }

    /// Opens a vault to write it.
    pub(super) fn open_vault(&self, vault: &Vault) -> Result<replicate::Vault> {
        let store =
            (self.vaults.open)(&vault.place, false).map_err(|error| store_error(&vault.name, &error))?;
        self.open_in_store(vault, store)
    }

    fn open_in_store(&self, vault: &Vault, store: Arc<dyn ObjectStore>) -> Result<replicate::Vault> {
        let key = vault.key_file.as_deref().map(read_key).transpose()?;
        let owner = self.vault_owner()?;
        let mut random = |bytes: &mut [u8]| (self.dependencies.entropy)(bytes);
        let opened = replicate::Vault::open(store, key.as_ref(), Some(&owner), &mut random)
            .map_err(|error| vault_error(&vault.name, error))?;
        if opened.id() != vault.number {
            let reason = format!("another vault is in {}", vault.place);
            return Err(BackupError::Vault { vault: vault.name.to_string(), reason }.into());
        }
        Ok(opened)
    }

    /// The name and the secret by which vaults know this service.
    fn vault_owner(&self) -> Result<Owner> {
        let name = self.dependencies.host.clone();
        if let Some(token) = self.read(|store| Ok(store::vault::token(store)?))? {
            return Ok(Owner { token, name });
        }
        let mut token = [0; 16];
        (self.dependencies.entropy)(&mut token);
        self.change(|store| Ok(store::vault::set_token(store, token)?))?;
        Ok(Owner { token, name })
    }

    /// Opens the stores of vaults with faults between.
    #[cfg(test)]
    pub(crate) fn open_stores_with(&mut self, open: Box<OpenStore>) {
        self.vaults.open = open;
    }
}

/// A place that a request names cannot be opened: the directory, or the files for a bucket. No request was made to the bucket.
fn unusable(vault: &VaultName, error: &io::Error) -> Error {
    let allowed = "a directory that the service can write, or a bucket with files of credentials and certificates that it \
         can read";
    Error::invalid(format!("the place of the vault {vault}: {error}"), allowed)
}

fn store_error(vault: &VaultName, error: &io::Error) -> Error {
    Error::from(BackupError::Vault { vault: vault.to_string(), reason: error.to_string() })
}

/// An error of a vault as one of management.
pub(super) fn vault_error(vault: &VaultName, error: VaultError) -> Error {
    match error {
        VaultError::OtherOwner(owner) => {
            Error::from(BackupError::OtherVaultOwner { vault: vault.to_string(), owner })
        }
        VaultError::KeyMissing | VaultError::KeyWrong | VaultError::KeyUnneeded => {
            Error::invalid(format!("the key of the vault {vault}: {error}"), "the key file of this vault")
        }
        other => Error::from(BackupError::Vault { vault: vault.to_string(), reason: other.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::VaultPlace;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    fn vault(row: i64, bytes_per_s: Option<u64>) -> Vault {
        Vault {
            row,
            name: VaultName::stored("off".to_owned()),
            number: [0; 16],
            place: VaultPlace::Directory { path: "/vault".into() },
            key_file: None,
            lock_days: 0,
            bytes_per_s,
            version: 1,
            created_ms: 0,
            changed_ms: 0,
        }
    }

    /// Jobs in virtual time, each with pieces of its size: the bytes that each may send in a time.
    fn sent(stores: &VaultStores, jobs: &[(Vault, u64)], from: u64, until: u64) -> Vec<u64> {
        let (mut sent, mut asks_at) = (vec![0; jobs.len()], vec![from; jobs.len()]);
        loop {
            let next = (0..jobs.len()).min_by_key(|&job| asks_at[job]).unwrap();
            if asks_at[next] >= until {
                return sent;
            }
            let (vault, piece) = &jobs[next];
            let pause = stores.pause(vault, *piece, Nanos(asks_at[next]));
            asks_at[next] += u64::try_from(pause.as_nanos()).unwrap();
            if asks_at[next] < until {
                sent[next] += piece;
            }
        }
    }

    #[test]
    fn jobs_of_a_vault_share_its_rate() {
        for jobs in 1..4 {
            let stores = VaultStores::default();
            let jobs: Vec<_> = (0..jobs).map(|_| (vault(1, Some(8 * MIB)), MIB)).collect();
            let sent = sent(&stores, &jobs, 0, 10 * SECOND);
            assert_eq!(sent.iter().sum::<u64>(), 80 * MIB);
            assert!(
                sent.iter().all(|&one| one.abs_diff(80 * MIB / sent.len() as u64) <= 2 * MIB),
                "{sent:?}"
            );
        }
    }

    #[test]
    fn pieces_of_any_size_keep_the_rate_together() {
        let stores = VaultStores::default();
        // A backup sends parts of packs, a restore and a check read extents and whole packs.
        let jobs = [MIB, 4096, 64 * MIB].map(|piece| (vault(1, Some(8 * MIB)), piece));
        let sent: u64 = sent(&stores, &jobs, 0, 1000 * SECOND).iter().sum();
        // The pieces that go first wait for nothing, and the last ones are not over.
        assert!(sent.abs_diff(8000 * MIB) <= 2 * 64 * MIB, "{sent}");
    }

    #[test]
    fn idle_time_is_no_credit_and_other_vaults_wait_for_nothing() {
        let stores = VaultStores::default();
        let limited = vault(1, Some(MIB));
        assert_eq!(stores.pause(&limited, 5 * MIB, Nanos(0)), Duration::ZERO);
        assert_eq!(stores.pause(&limited, MIB, Nanos(2 * SECOND)), Duration::from_secs(3));
        assert_eq!(stores.pause(&vault(2, Some(MIB)), MIB, Nanos(2 * SECOND)), Duration::ZERO);
        assert_eq!(stores.pause(&vault(3, None), 1 << 40, Nanos(2 * SECOND)), Duration::ZERO);
        assert_eq!(stores.pause(&vault(3, None), 1 << 40, Nanos(2 * SECOND)), Duration::ZERO);
        let late = 1_000_000 * SECOND;
        let after: u64 = sent(&stores, &[(limited, MIB)], late, late + 10 * SECOND).iter().sum();
        assert_eq!(after, 10 * MIB);
    }

    #[test]
    fn changed_limit_binds_the_next_piece() {
        let stores = VaultStores::default();
        assert_eq!(stores.pause(&vault(1, Some(MIB)), MIB, Nanos(0)), Duration::ZERO);
        assert_eq!(stores.pause(&vault(1, Some(4 * MIB)), 4 * MIB, Nanos(0)), Duration::from_secs(1));
        assert_eq!(stores.pause(&vault(1, Some(4 * MIB)), MIB, Nanos(0)), Duration::from_secs(2));
        assert_eq!(stores.pause(&vault(1, None), MIB, Nanos(0)), Duration::ZERO);
    }
}
