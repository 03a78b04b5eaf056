//! One call on its way through the rooms: who asks, whether it may wait, and what it may remember.

use crate::cache::{HandleCache, Opened};
use crate::handle::Handle;
use crate::service::Service;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use transport::CallStats;
use vfs::{
    Attrs, Blocking, Caller, Export, FsError, FsResult, Namespace, NodeRef, PendingSync, Time, Volume,
    VolumeId,
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
    /// The address at which the client has reached us.
    pub local: IpAddr,
    /// Who the client says is calling; `None` for AUTH_NONE.
    pub claim: Option<Caller>,
    /// The time of day at the start of this batch of calls.
    pub now: Time,
    /// Whether this call may wait for storage.
    pub blocking: Blocking,
    /// The thread's memory, on the threads that have one.
    pub cache: Option<&'c mut HandleCache>,
    /// The flushes that must be done before the replies leave.
    pub pending: &'c mut PendingSync,
    /// The file that the call is about, and the bytes of data that it has read or written.
    pub stats: CallStats<Rc<Opened>>,
}

/// The call cannot be answered without waiting: nothing was done, run it again where it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldWait;

/// How a procedure ends: its reply is written, or it would have to wait.
pub type Answer = Result<(), WouldWait>;

/// How a procedure may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Tried at once on the connection's thread; where it would have to wait, later and alone.
    Inline,
    /// Waits for storage on a thread of its own.
    Offload,
    /// Waits for storage together with its neighbors: they share one hop and one flush.
    Batched,
    /// As [`Dispatch::Batched`], and must not be done twice.
    NonIdempotent,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The results are written.
    Replied,
    /// Nothing was done: the call has to wait.
    WouldWait,
    /// There is no such procedure.
    NoProcedure,
}

/// An attempt at a procedure; malformed arguments become GARBAGE_ARGS.
pub type Attempt = Result<Outcome, Malformed>;

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        match answer {
            Ok(()) => Self::Replied,
            Err(WouldWait) => Self::WouldWait,
        }
    }
}

/// A file that a call's handle names, and what its export makes of the caller.
pub struct File {
    opened: Rc<Opened>,
    /// The caller under the export's rules.
    pub caller: Caller,
}

impl Call<'_> {
    /// The file of a handle: signed by us, in a volume that is served, to a client that its export admits.
    #[inline]
    pub fn file(&mut self, handle: &[u8]) -> FsResult<File> {
        let opened = match self.remembered(handle) {
            Some(opened) => opened,
            None => {
                let opened = self.open(Rc::new(Handle::of(handle)?))?;
                if let Some(cache) = &mut self.cache {
                    cache.add_handle(&opened);
                }
                opened
            }
        };
        let rule = opened.export.rule(self.peer.ip()).ok_or(FsError::Access)?;
        let caller = rule.caller(self.claim);
        self.stats.target = Some(Rc::clone(&opened));
        Ok(File { opened, caller })
    }

    #[inline]
    fn remembered(&mut self, handle: &[u8]) -> Option<Rc<Opened>> {
        self.cache.as_mut()?.handle(handle)
    }

    /// What a handle names, found by its MAC.
    fn open(&self, handle: Rc<Handle>) -> FsResult<Rc<Opened>> {
        let (volume, key) = self.service.signer.verify(handle.bytes())?;
        let export = self.namespace.volume(volume).ok_or(FsError::Stale)?;
        let node = export.volume.node(&key, self.blocking)?;
        Ok(Rc::new(Opened { handle, export: Arc::clone(export), node }))
    }

    /// A node with its handle, remembered where this thread remembers.
    pub fn remember(&mut self, export: &Arc<Export>, node: NodeRef) -> Rc<Opened> {
        let handle = self.service.signer.sign(export.volume.id(), &node.key());
        if let Some(known) = self.remembered(handle.bytes())
            && Arc::ptr_eq(&known.node, &node)
        {
            return known;
        }
        let opened = Rc::new(Opened { handle: Rc::new(handle), export: Arc::clone(export), node });
        if let Some(cache) = &mut self.cache {
            cache.forget_handle(opened.handle.bytes());
            cache.add_handle(&opened);
        }
        opened
    }

    /// The attributes of a file; one that turns out to be gone is forgotten.
    #[inline]
    pub fn attrs(&mut self, file: &File) -> FsResult<Attrs> {
        let attrs = file.node().attrs(self.blocking);
        if attrs == Err(FsError::Stale)
            && let Some(cache) = &mut self.cache
        {
            cache.forget_handle(file.opened.handle.bytes());
        }
        attrs
    }

    /// What a name in a directory means, remembered or looked up: the directory's attributes, the object and its own.
    pub fn find(&mut self, dir: &File, name: &[u8]) -> FsResult<(Attrs, Rc<Opened>, Attrs)> {
        let dir_attrs = dir.volume().open_dir(&dir.caller, dir.node(), self.blocking)?;
        match self.cache.as_mut().and_then(|cache| cache.name(&dir.opened, &dir_attrs, name)) {
            // A file that lost this name changed the directory, so this attribute call cannot miss a removal; one that
            // went since the directory was looked at is looked up again, because STALE would mean the directory.
            Some(Some(handle)) => {
                // A name that is looked up is not remembered as a handle before it is used as one.
                let found = self.remembered(handle.bytes()).map_or_else(|| self.open(handle), Ok);
                match found.and_then(|found| found.node.attrs(self.blocking).map(|attrs| (found, attrs))) {
                    Err(FsError::Stale) => {}
                    found => return found.map(|(found, attrs)| (dir_attrs, found, attrs)),
                }
            }
            Some(None) => return Err(FsError::NotFound),
            None => {}
        }
        match dir.volume().lookup(dir.node(), name, self.blocking) {
            Ok(found) => {
                let opened = self.remember(&dir.opened.export, found.node);
                self.remember_name(dir, &dir_attrs, name, Some(&*opened));
                Ok((dir_attrs, opened, found.attrs))
            }
            Err(error) => {
                if error == FsError::NotFound {
                    self.remember_name(dir, &dir_attrs, name, None);
                }
                Err(error)
            }
        }
    }

    fn remember_name(&mut self, dir: &File, dir_attrs: &Attrs, name: &[u8], found: Option<&Opened>) {
        if let Some(cache) = &mut self.cache
            && !matches!(name, b"." | b"..")
        {
            cache.add_name(&dir.opened, dir_attrs, name, found, self.now);
        }
    }
}

impl File {
    /// The backend's node.
    #[inline]
    pub fn node(&self) -> &NodeRef {
        &self.opened.node
    }

    /// The volume it lies in.
    #[inline]
    pub fn volume(&self) -> &Volume {
        &self.opened.export.volume
    }

    /// The number of that volume.
    #[inline]
    pub fn volume_id(&self) -> VolumeId {
        self.volume().id()
    }

    /// The export it was reached by.
    pub fn export(&self) -> &Arc<Export> {
        &self.opened.export
    }
}
