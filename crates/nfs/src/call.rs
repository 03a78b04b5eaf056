//! The context of one RPC call: the caller, whether it may block, and the caches of its thread.

use crate::handle::Handle;
use crate::handle::cache::{CachedFile, HandleCache};
use crate::limits::SPLICE_BYTES_MIN;
use crate::service::Service;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use transport::{CallStats, Splice};
use vfs::bounds::Party;
use vfs::qos::Permit;
use vfs::{
    Attrs, Blocking, Caller, Credential, ExportId, FsError, FsResult, Namespace, Origin, PendingSync,
    Protection, ProtocolId, Time, VolumeId, Wait,
};
use xdr::Malformed;

pub struct Call<'c> {
    pub service: &'c Service,
    /// The exports at the start of this batch of calls.
    pub namespace: &'c Namespace,
    pub peer: SocketAddr,
    /// The address that limits charge for this client.
    pub payer: IpAddr,
    pub local: IpAddr,
    /// The endpoint's own address; `None` at the service's address.
    pub endpoint: Option<IpAddr>,
    pub protocol: ProtocolId,
    pub protection: Protection,
    /// Whether its reply may hold pages of files.
    pub moves_pages: bool,
    /// The credential that the client claims.
    pub credential: &'c Arc<Credential>,
    /// The time of day at the start of this batch of calls.
    pub now: Time,
    /// Whether this call may wait for storage.
    pub blocking: Blocking,
    pub cache: Option<&'c mut HandleCache>,
    /// Flushes that must finish before the replies leave.
    pub pending: &'c mut PendingSync,
    /// The target file, and the bytes read or written.
    pub stats: CallStats<Rc<CachedFile>>,
    /// The permit of the call. An operation that pays on its own replaces it.
    pub permit: &'c mut Option<Permit>,
}

/// Ok: the reply is written. Err: the call waits and runs again.
pub type CallResult = Result<(), Wait>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Replied,
    /// The call changed nothing and runs again.
    Wait(Wait),
    NoProcedure,
}

/// An attempt at a procedure; malformed arguments become GARBAGE_ARGS.
pub type Attempt = Result<Outcome, Malformed>;

impl From<CallResult> for Outcome {
    fn from(answer: CallResult) -> Self {
        match answer {
            Ok(()) => Self::Replied,
            Err(wait) => Self::Wait(wait),
        }
    }
}

/// The file of a handle, with the caller under its export's rules. Cheap to clone.
#[derive(Clone)]
pub struct File {
    cached: Rc<CachedFile>,
    pub caller: Caller,
}

impl Call<'_> {
    /// Opens a file by its handle. The handle must be signed by us, its volume served,
    /// and the client admitted by its export.
    #[inline]
    pub fn file(&mut self, handle: &[u8]) -> FsResult<File> {
        let cached = match self.cached_file(handle) {
            Some(cached) => cached,
            None => {
                let cached = self.open(Rc::new(Handle::of(handle)?))?;
                if let Some(cache) = &mut self.cache {
                    cache.add_handle(&cached);
                }
                cached
            }
        };
        self.admit(cached)
    }

    /// Checks the export's rules for the client, and returns the file with the mapped caller.
    #[inline]
    pub fn admit(&mut self, cached: Rc<CachedFile>) -> FsResult<File> {
        let export = cached.file.export();
        let rule = export.rule(self.origin()).ok_or(FsError::Access)?;
        let caller = match &mut self.cache {
            Some(cache) => cache.credentials.caller(self.credential, export, rule),
            None => rule.caller(self.credential),
        };
        self.stats.target = Some(Rc::clone(&cached));
        Ok(File { cached, caller })
    }

    /// The client's canonical address: an IPv4-mapped IPv6 address becomes IPv4.
    pub fn client(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// The client for the bounds of tables: the claimed user in its network.
    pub fn party(&self) -> Party {
        let address = self.peer.ip();
        let network = self.service.networks.of(address);
        Party::of(network)
            .user(self.credential.uid)
            .admitted(self.namespace.admits_from(address, self.protocol))
    }

    /// The splicing of a READ of `bytes`: large ones move pages instead of copying.
    #[inline]
    pub fn splice(&self, bytes: usize) -> Splice {
        if bytes >= SPLICE_BYTES_MIN && self.moves_pages { Splice::Partial } else { Splice::Never }
    }

    /// Client address, endpoint, protocol and protection, as export rules match them.
    #[inline]
    pub fn origin(&self) -> Origin {
        let (endpoint, protocol, protection) = (self.endpoint, self.protocol, self.protection);
        Origin { client: self.peer.ip(), endpoint, protocol, protection }
    }

    #[inline]
    fn cached_file(&mut self, handle: &[u8]) -> Option<Rc<CachedFile>> {
        self.cache.as_mut()?.handle(handle)
    }

    /// Verifies the MAC of a handle and opens its file.
    fn open(&self, handle: Rc<Handle>) -> FsResult<Rc<CachedFile>> {
        let (export, key) = self.service.signer.verify(handle.bytes())?;
        let export = self.namespace.export(export).ok_or(FsError::Stale)?;
        Ok(Rc::new(CachedFile { handle, file: export.file(&key, self.blocking)? }))
    }

    /// Caches a file with its handle, on threads that have a cache.
    pub fn cache_file(&mut self, file: vfs::File) -> Rc<CachedFile> {
        let handle = self.service.signer.sign(file.export().id, &file.key());
        if let Some(cached) = self.cached_file(handle.bytes())
            && cached.file.is(&file)
        {
            return cached;
        }
        let cached = Rc::new(CachedFile { handle: Rc::new(handle), file });
        if let Some(cache) = &mut self.cache {
            cache.forget_handle(cached.handle.bytes());
            cache.add_handle(&cached);
        }
        cached
    }

    /// The attributes of a file. Drops a stale file from the cache.
    #[inline]
    pub fn attrs(&mut self, file: &File) -> FsResult<Attrs> {
        let attrs = file.attrs(self.blocking);
        if attrs == Err(FsError::Stale)
            && let Some(cache) = &mut self.cache
        {
            cache.forget_handle(file.cached.handle.bytes());
        }
        attrs
    }

    /// Looks a name up, in the cache first. Returns the directory's attributes, the object and its attributes.
    pub fn lookup(&mut self, dir: &File, name: &[u8]) -> FsResult<(Attrs, Rc<CachedFile>, Attrs)> {
        let opened = dir.open_dir(&dir.caller, self.blocking)?;
        let dir_attrs = opened.attrs;
        match self.cache.as_mut().and_then(|cache| cache.name(&dir.cached, &dir_attrs, name)) {
            // Removing this name would have changed the directory, so this GETATTR cannot miss a removal. A file
            // removed since the directory was checked is looked up again, because STALE would refer to the directory.
            Some(Some(handle)) => {
                // A name is cached as a handle only after the client uses it as one.
                let found = self.cached_file(handle.bytes()).map_or_else(|| self.open(handle), Ok);
                match found.and_then(|found| found.file.attrs(self.blocking).map(|attrs| (found, attrs))) {
                    Err(FsError::Stale) => {}
                    found => return found.map(|(found, attrs)| (dir_attrs, found, attrs)),
                }
            }
            Some(None) => return Err(FsError::NotFound),
            None => {}
        }
        match opened.lookup(name, self.blocking) {
            Ok(found) => {
                let cached = self.cache_file(found.file);
                self.cache_name(dir, &dir_attrs, name, Some(&*cached));
                Ok((dir_attrs, cached, found.attrs))
            }
            Err(error) => {
                if error == FsError::NotFound {
                    self.cache_name(dir, &dir_attrs, name, None);
                }
                Err(error)
            }
        }
    }

    fn cache_name(&mut self, dir: &File, dir_attrs: &Attrs, name: &[u8], found: Option<&CachedFile>) {
        if let Some(cache) = &mut self.cache
            // The access to snapshots may change while the directory does not.
            && !matches!(name, b"." | b".." | b".snapshot")
        {
            cache.add_name(&dir.cached, dir_attrs, name, found, self.now);
        }
    }
}

impl File {
    #[inline]
    pub fn handle(&self) -> &Handle {
        &self.cached.handle
    }

    #[must_use]
    pub fn sibling(&self, cached: Rc<CachedFile>) -> Self {
        Self { cached, caller: self.caller.clone() }
    }

    #[inline]
    pub fn volume_id(&self) -> VolumeId {
        self.volume().id()
    }

    #[inline]
    pub fn export_id(&self) -> ExportId {
        self.export().id
    }
}

impl Deref for File {
    type Target = vfs::File;

    #[inline]
    fn deref(&self) -> &vfs::File {
        &self.cached.file
    }
}
