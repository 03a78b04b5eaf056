//! A vault: its header, its owner, and its objects by kind.

pub(crate) mod chunks;
pub(crate) mod header;
pub(crate) mod index;

use crate::error::{Error, Result};
use crate::format::bytes::{Reader, Writer};
use crate::format::manifest::Manifest;
use crate::format::names::{self, BackupId, Hash};
use crate::format::seal::{Key, ObjectKind, SALT_BYTES, Secrets};
use crate::format::{PACK_BYTES, PART_BYTES_MAX};
use crate::store::{ObjectStore, unpaced};
use header::Header;
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::Time;

/// Fills its argument with random bytes.
pub type Random<'r> = dyn FnMut(&mut [u8]) + 'r;

/// The service that writes a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Random bytes that the service made once and keeps.
    pub token: [u8; 16],
    /// A name for messages, such as that of the host.
    pub name: String,
}

pub struct VaultOptions {
    /// The key of an encrypted vault. Without it nobody can read the vault, so the operator must keep it.
    pub key: Option<Key>,
    pub owner: Owner,
    pub created: Time,
}

/// An open vault.
pub struct Vault {
    store: Arc<dyn ObjectStore>,
    id: [u8; 16],
    secrets: Secrets,
    /// The service that opened it to write.
    owner: Option<Owner>,
}

/// The backups of a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Complete backups, oldest first.
    pub backups: Vec<Manifest>,
    /// Backups whose manifest is damaged.
    pub damaged: Vec<BackupId>,
}

/// An object that was put.
pub(crate) struct Written {
    /// False if the name existed.
    pub(crate) is_new: bool,
    pub(crate) hash: Hash,
}

impl Vault {
    /// Makes a vault in an empty directory or bucket.
    pub fn create(
        store: Arc<dyn ObjectStore>,
        options: &VaultOptions,
        random: &mut Random<'_>,
    ) -> Result<Self> {
        let (mut id, mut salt) = ([0; 16], [0; 32]);
        random(&mut id);
        random(&mut salt);
        let secrets = Secrets::new(options.key.as_ref(), &salt);
        let is_encrypted = secrets.is_encrypted();
        let header = Header { is_encrypted, id, salt, check: secrets.check(), created: options.created };
        let is_new = store.put_new(names::VAULT, &header.encode(), &mut unpaced).map_err(at(names::VAULT))?;
        if !is_new {
            return Err(Error::VaultExists);
        }
        let vault = Self { store, id, secrets, owner: Some(options.owner.clone()) };
        vault.claim(0, random)?;
        Ok(vault)
    }

    /// Opens a vault. Only its owner may write it: [`Error::OtherOwner`] for any other.
    pub fn open(
        store: Arc<dyn ObjectStore>,
        key: Option<&Key>,
        owner: Option<&Owner>,
        random: &mut Random<'_>,
    ) -> Result<Self> {
        let vault = Self { owner: owner.cloned(), ..Self::open_to_read(store, key)? };
        // A crash can leave a new vault without an owner.
        if owner.is_some() && vault.last_owner()?.is_none() {
            vault.claim(0, random)?;
        }
        if owner.is_some() {
            vault.check_writer()?;
        }
        Ok(vault)
    }

    /// Opens a vault for a service that replaces its owner. From then on the former owner can write no more.
    pub fn take_over(
        store: Arc<dyn ObjectStore>,
        key: Option<&Key>,
        owner: &Owner,
        random: &mut Random<'_>,
    ) -> Result<Self> {
        let vault = Self { owner: Some(owner.clone()), ..Self::open_to_read(store, key)? };
        let last = vault.last_owner()?;
        if last.as_ref().is_none_or(|(_, last)| last.token != owner.token) {
            vault.claim(last.map_or(0, |(number, _)| number), random)?;
        }
        vault.check_writer()?;
        Ok(vault)
    }

    fn open_to_read(store: Arc<dyn ObjectStore>, key: Option<&Key>) -> Result<Self> {
        let bytes = match store.read(names::VAULT, 0, Header::BYTES + 1) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Error::NoVault),
            read => read.map_err(at(names::VAULT))?,
        };
        let header = Header::decode(&bytes)?;
        let secrets = Secrets::new(key, &header.salt);
        match key {
            None if header.is_encrypted => return Err(Error::KeyMissing),
            Some(_) if !header.is_encrypted => return Err(Error::KeyUnneeded),
            _ if secrets.check() != header.check => return Err(Error::KeyWrong),
            _ => {}
        }
        Ok(Self { store, id: header.id, secrets, owner: None })
    }

    /// The number that tells this vault from all others.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// Lists the complete backups.
    pub fn list(&self) -> Result<Listing> {
        let deleted = self.backups_below(names::DELETED)?;
        let mut listing = Listing::default();
        for id in self.manifests()?.into_iter().filter(|id| !deleted.contains(id)) {
            match self.manifest_of(id) {
                Err(Error::Damaged(..)) => listing.damaged.push(id),
                found => listing.backups.extend(found?),
            }
        }
        listing.backups.sort_by_key(|manifest| (manifest.taken, manifest.finished, manifest.id));
        Ok(listing)
    }

    /// The manifest of a backup; [`Error::NotFound`] also if it was deleted or abandoned.
    pub fn manifest(&self, id: BackupId) -> Result<Manifest> {
        if self.exists(&names::deleted(id))? {
            return Err(Error::NotFound(id));
        }
        self.manifest_of(id)?.ok_or(Error::NotFound(id))
    }

    /// Backups that were begun and neither finished nor abandoned.
    pub fn unfinished(&self) -> Result<Vec<BackupId>> {
        let done = self.manifests()?;
        let mut open = self.backups_below(names::SESSIONS)?;
        open.retain(|id| !done.contains(id));
        Ok(open)
    }

    /// The manifest of a backup that may be deleted; `None` without one, or if it was abandoned.
    pub(crate) fn manifest_of(&self, id: BackupId) -> Result<Option<Manifest>> {
        match self.completed(id) {
            Err(Error::Abandoned(_)) => Ok(None),
            found => found,
        }
    }

    /// The manifest of a backup; `None` if it is not complete, [`Error::Abandoned`] if it never will be.
    pub(crate) fn completed(&self, id: BackupId) -> Result<Option<Manifest>> {
        let name = names::manifest(id);
        let Some(object) = self.read_small(&name)? else { return Ok(None) };
        if self.secrets.open(&name, ObjectKind::Abandoned, &object).is_ok() {
            return Err(Error::Abandoned(id));
        }
        let payload = self.opened(&name, ObjectKind::Manifest, &object)?;
        let manifest = Manifest::decode(&payload).filter(|manifest| manifest.id == id);
        manifest.map(Some).ok_or_else(|| damaged(&name, "its content is no manifest"))
    }

    /// Backups with a manifest, abandoned ones too.
    pub(crate) fn manifests(&self) -> Result<Vec<BackupId>> {
        let mut ids = Vec::new();
        self.each(names::BACKUPS, &mut |name, _| {
            ids.extend(names::backup_of(names::BACKUPS, name).filter(|_| names::is_manifest(name)));
        })?;
        Ok(ids)
    }

    /// Backups with an object directly below `prefix`.
    pub(crate) fn backups_below(&self, prefix: &str) -> Result<Vec<BackupId>> {
        let mut ids = Vec::new();
        self.each(prefix, &mut |name, _| ids.extend(names::backup_of(prefix, name)))?;
        Ok(ids)
    }

    /// [`Error::OtherOwner`] if another service has taken the vault over, or this one opened it only to read.
    pub(crate) fn check_writer(&self) -> Result<()> {
        let (_, last) = self.last_owner()?.ok_or(Error::NoVault)?;
        let is_ours = self.owner.as_ref().is_some_and(|owner| owner.token == last.token);
        if is_ours { Ok(()) } else { Err(Error::OtherOwner(last.name)) }
    }

    /// Makes this service the owner after owner `last`. If another one was faster, it is the owner.
    fn claim(&self, last: u64, random: &mut Random<'_>) -> Result<()> {
        let Some(owner) = &self.owner else { return Ok(()) };
        let mut payload = Writer::default();
        payload.raw(&owner.token);
        payload.bytes(owner.name.as_bytes());
        let name = names::numbered(names::OWNERS, last + 1);
        self.put(&name, ObjectKind::Owner, &payload.0, random).map(drop)
    }

    fn last_owner(&self) -> Result<Option<(u64, Owner)>> {
        let Some(number) = self.last_number(names::OWNERS)? else { return Ok(None) };
        let name = names::numbered(names::OWNERS, number);
        let payload = self.get(&name, ObjectKind::Owner)?;
        let mut reader = Reader(&payload);
        let owner = || Some(Owner { token: reader.array()?, name: reader.text()? });
        let owner = { owner }().ok_or_else(|| damaged(&name, "its content is no owner"))?;
        Ok(Some((number, owner)))
    }

    /// The largest number of an object below `prefix`.
    pub(crate) fn last_number(&self, prefix: &str) -> Result<Option<u64>> {
        let mut last = None;
        self.each(prefix, &mut |name, _| last = last.max(names::number_of(prefix, name)))?;
        Ok(last)
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    /// Puts an object unless its name exists.
    pub(crate) fn put(
        &self,
        name: &str,
        kind: ObjectKind,
        payload: &[u8],
        random: &mut Random<'_>,
    ) -> Result<Written> {
        let mut salt = [0; SALT_BYTES];
        random(&mut salt);
        let object = self.secrets.seal(name, kind, salt, payload);
        let object = object.ok_or_else(|| damaged(name, "it cannot be encrypted"))?;
        let is_new = self.store.put_new(name, &object, &mut unpaced).map_err(at(name))?;
        Ok(Written { is_new, hash: Hash(*blake3::hash(&object).as_bytes()) })
    }

    /// Puts an object. If the name exists, the object must have the same payload, as after a repeated call.
    pub(crate) fn put_or_same(
        &self,
        name: &str,
        kind: ObjectKind,
        payload: &[u8],
        random: &mut Random<'_>,
    ) -> Result<bool> {
        Ok(self.put(name, kind, payload, random)?.is_new || self.get(name, kind)? == payload)
    }

    pub(crate) fn get(&self, name: &str, kind: ObjectKind) -> Result<Vec<u8>> {
        let object = self.read_small(name)?.ok_or_else(|| damaged(name, "it is missing"))?;
        self.opened(name, kind, &object)
    }

    /// Reads an object that must have this hash.
    pub(crate) fn get_hashed(&self, name: &str, kind: ObjectKind, hash: Hash) -> Result<Vec<u8>> {
        let object = self.read_small(name)?.ok_or_else(|| damaged(name, "it is missing"))?;
        if *blake3::hash(&object).as_bytes() != hash.0 {
            return Err(damaged(name, "its hash is another one"));
        }
        self.opened(name, kind, &object)
    }

    fn opened(&self, name: &str, kind: ObjectKind, object: &[u8]) -> Result<Vec<u8>> {
        self.secrets.open(name, kind, object).map_err(|why| damaged(name, why))
    }

    fn read_small(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.store.read(name, 0, PART_BYTES_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(at(name)),
        }
    }

    /// Reads a whole pack; `None` if it is missing.
    pub(crate) fn read_pack(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.store.read(name, 0, PACK_BYTES + 1) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(at(name)),
        }
    }

    pub(crate) fn read(&self, name: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        match self.store.read(name, offset, len) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(damaged(name, "it is missing")),
            read => read.map_err(at(name)),
        }
    }

    pub(crate) fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.store.size(name).map_err(at(name))?.is_some())
    }

    pub(crate) fn delete_object(&self, name: &str) -> Result<()> {
        self.store.delete(name).map_err(at(name))
    }

    pub(crate) fn each(&self, prefix: &str, sink: &mut dyn FnMut(&str, u64)) -> Result<()> {
        let listed = self.store.list(prefix, &mut |name, size| {
            sink(name, size);
            ControlFlow::Continue(())
        });
        listed.map_err(at(prefix))
    }
}

/// Adds the object to an error of the store.
pub(crate) fn at(name: &str) -> impl Fn(std::io::Error) -> Error + '_ {
    |error| Error::Store(name.to_owned(), error)
}

pub(crate) fn damaged(name: &str, why: &'static str) -> Error {
    Error::Damaged(name.to_owned(), why)
}
