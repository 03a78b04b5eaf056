//! One call on its way through the rooms: who asks, whether it may wait, and what it may remember.

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
    Protection, ProtocolId, Time, VolumeId,
};
use xdr::Malformed;

/// Everything a procedure needs besides its arguments.
pub struct Call<'c> {
    /// The service.
    pub service: &'c Service,
    /// What is served, as of the start of this batch of calls.
    pub namespace: &'c Namespace,
    /// The client.
    pub peer: SocketAddr,
    /// The address that stands for the client at limits.
    pub payer: IpAddr,
    /// The address at which the client has reached us.
    pub local: IpAddr,
    /// The endpoint that this is, if it is one and not the service's own address.
    pub endpoint: Option<IpAddr>,
    /// The protocol, as export rules know it.
    pub protocol: ProtocolId,
    /// How its connection is protected.
    pub protection: Protection,
    /// Whether its reply may hold pages of files.
    pub moves_pages: bool,
    /// Who the client says is calling.
    pub credential: &'c Arc<Credential>,
    /// The time of day at the start of this batch of calls.
    pub now: Time,
    /// Whether this call may wait for storage.
    pub blocking: Blocking,
    /// The thread's memory, on the threads that have one.
    pub cache: Option<&'c mut HandleCache>,
    /// The flushes that must be done before the replies leave.
    pub pending: &'c mut PendingSync,
    /// The file that the call is about, and the bytes of data that it has read or written.
    pub stats: CallStats<Rc<CachedFile>>,
    /// The payment of the call; an operation that pays by itself puts its own here.
    pub charge: &'c mut Option<Permit>,
}

/// Why a call is not answered now: nothing was done, and it is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It would have to wait for storage: where it may.
    WouldWait,
    /// Somebody else has to give something back first: after a while.
    Held,
}

/// How a procedure ends: its reply is written, or it is run again.
pub type Answer = Result<(), Again>;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The results are written.
    Replied,
    /// Nothing was done: the call is run again.
    Again(Again),
    /// There is no such procedure.
    NoProcedure,
}

/// An attempt at a procedure; malformed arguments become GARBAGE_ARGS.
pub type Attempt = Result<Outcome, Malformed>;

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        match answer {
            Ok(()) => Self::Replied,
            Err(again) => Self::Again(again),
        }
    }
}

/// A file that a call's handle names, and what its export makes of the caller. Cheap to clone.
#[derive(Clone)]
pub struct File {
    cached: Rc<CachedFile>,
    /// The caller under the export's rules.
    pub caller: Caller,
}

impl Call<'_> {
    /// The file of a handle: signed by us, in a volume that is served, to a client that its export admits.
    #[inline]
    pub fn file(&mut self, handle: &[u8]) -> FsResult<File> {
        let cached = match self.remembered(handle) {
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

    /// A file for whom its export takes the caller for, if it admits the client.
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

    /// The client as an address that is the same by whatever family it has come.
    pub fn client(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// The client as bounds of tables know it: the user that it says is calling, in its network.
    pub fn party(&self) -> Party {
        let address = self.peer.ip();
        let network = self.service.networks.of(address);
        Party::of(network)
            .user(self.credential.uid)
            .admitted(self.namespace.admits_from(address, self.protocol))
    }

    /// Whether a READ of `bytes` goes to the client without a copy.
    #[inline]
    pub fn splice(&self, bytes: usize) -> Splice {
        if bytes >= SPLICE_BYTES_MIN && self.moves_pages { Splice::Partial } else { Splice::Never }
    }

    /// Where it comes from, and where it has reached us.
    #[inline]
    pub fn origin(&self) -> Origin {
        let (endpoint, protocol, protection) = (self.endpoint, self.protocol, self.protection);
        Origin { client: self.peer.ip(), endpoint, protocol, protection }
    }

    #[inline]
    fn remembered(&mut self, handle: &[u8]) -> Option<Rc<CachedFile>> {
        self.cache.as_mut()?.handle(handle)
    }

    /// What a handle names, found by its MAC.
    fn open(&self, handle: Rc<Handle>) -> FsResult<Rc<CachedFile>> {
        let (export, key) = self.service.signer.verify(handle.bytes())?;
        let export = self.namespace.export(export).ok_or(FsError::Stale)?;
        Ok(Rc::new(CachedFile { handle, file: export.file(&key, self.blocking)? }))
    }

    /// A file with its handle, remembered where this thread remembers.
    pub fn remember(&mut self, file: vfs::File) -> Rc<CachedFile> {
        let handle = self.service.signer.sign(file.export().id, &file.key());
        if let Some(known) = self.remembered(handle.bytes())
            && known.file.is(&file)
        {
            return known;
        }
        let cached = Rc::new(CachedFile { handle: Rc::new(handle), file });
        if let Some(cache) = &mut self.cache {
            cache.forget_handle(cached.handle.bytes());
            cache.add_handle(&cached);
        }
        cached
    }

    /// The attributes of a file; one that turns out to be gone is forgotten.
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

    /// What a name in a directory means, remembered or looked up: the directory's attributes, the object and its own.
    pub fn find(&mut self, dir: &File, name: &[u8]) -> FsResult<(Attrs, Rc<CachedFile>, Attrs)> {
        let opened = dir.open_dir(&dir.caller, self.blocking)?;
        let dir_attrs = opened.attrs;
        match self.cache.as_mut().and_then(|cache| cache.name(&dir.cached, &dir_attrs, name)) {
            // A file that lost this name changed the directory, so this attribute call cannot miss a removal; one that
            // went since the directory was looked at is looked up again, because STALE would mean the directory.
            Some(Some(handle)) => {
                // A name that is looked up is not remembered as a handle before it is used as one.
                let found = self.remembered(handle.bytes()).map_or_else(|| self.open(handle), Ok);
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
                let cached = self.remember(found.file);
                self.remember_name(dir, &dir_attrs, name, Some(&*cached));
                Ok((dir_attrs, cached, found.attrs))
            }
            Err(error) => {
                if error == FsError::NotFound {
                    self.remember_name(dir, &dir_attrs, name, None);
                }
                Err(error)
            }
        }
    }

    fn remember_name(&mut self, dir: &File, dir_attrs: &Attrs, name: &[u8], found: Option<&CachedFile>) {
        if let Some(cache) = &mut self.cache
            && !matches!(name, b"." | b"..")
        {
            cache.add_name(&dir.cached, dir_attrs, name, found, self.now);
        }
    }
}

impl File {
    /// Its handle.
    #[inline]
    pub fn handle(&self) -> &Handle {
        &self.cached.handle
    }

    /// Another file of the same export, for the same caller.
    #[must_use]
    pub fn beside(&self, cached: Rc<CachedFile>) -> Self {
        Self { cached, caller: self.caller.clone() }
    }

    /// The number of the volume it lies in.
    #[inline]
    pub fn volume_id(&self) -> VolumeId {
        self.volume().id()
    }

    /// The number of the export it was reached by.
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
