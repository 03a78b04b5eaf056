//! One call on its way through the rooms: who asks, whether it may wait, and what it may remember.

use crate::cache::{HandleCache, Opened};
use crate::counters::Completed;
use crate::handle::Handle;
use crate::service::Service;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use vfs::qos::Kind;
use vfs::traffic::ReadFrom;
use vfs::{
    Attrs, Blocking, Caller, Export, FsError, FsResult, Namespace, NodeRef, PendingSync, Time, Volume,
    VolumeId,
};

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
    pub stats: CallStats,
}

/// What a call has to do with.
#[derive(Default)]
pub struct CallStats {
    opened: Option<Rc<Opened>>,
    /// Bytes of data read or written.
    pub bytes: u32,
    /// Bytes of a listing or of a symbolic link's text that the reply says, which limits count as data.
    pub told: u32,
    /// Where the data of a READ is, as far as that has been found out.
    pub read_from: Option<ReadFrom>,
}

impl CallStats {
    /// Bytes that limits count.
    pub fn used(&self) -> u32 {
        self.bytes + self.told
    }
}

/// The call cannot be answered without waiting: nothing was done, run it again where it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldWait;

/// How a procedure ends: its reply is written, or it would have to wait.
pub type Answer = Result<(), WouldWait>;

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
        self.stats.opened = Some(Rc::clone(&opened));
        Ok(File { opened, caller })
    }

    /// What the call has done, if it was about a file; `kind` is what its procedure does.
    #[inline]
    pub fn completed(&mut self, kind: Kind) -> Option<Completed> {
        let CallStats { opened, bytes, told: _, read_from } = std::mem::take(&mut self.stats);
        opened.map(|opened| Completed { opened, kind, bytes, read_from })
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
