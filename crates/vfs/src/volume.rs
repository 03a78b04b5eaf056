//! A volume rules: whether this caller may do this to that file, and what the operation means.
//!
//! Every protocol comes through here, so that the same file gives the same answer whoever asks. The verbs are grouped
//! by family: [`file`] (data), [`attr`], [`dir`] (names), and where the
//! storage has them [`ranges`] and [`xattrs`].

mod attr;
mod dir;
mod file;
mod ranges;
mod xattrs;

pub use attr::{AccessReply, Guard};
pub use dir::{CreateHow, Listing};
pub use file::{Reserved, Stability};

use crate::access::{self, Access};
use crate::qos::Gate;
use crate::traffic::{Reads, Traffic};
use crate::{
    Attrs, Backend, Blocking, Caller, Capabilities, Durability, FileKey, FsError, FsLimits, FsResult, FsStat,
    NewInode, NodeRef, PendingSync, SetAttrs, SyncScope, VolumeId,
};
use std::sync::Arc;

/// A served tree of files with its rules.
pub struct Volume {
    id: VolumeId,
    name: String,
    backend: Arc<dyn Backend>,
    root: NodeRef,
    limits: FsLimits,
    capabilities: Capabilities,
    durability: Durability,
    /// A number of this run of the process.
    instance: u64,
    gate: Arc<Gate>,
    traffic: Traffic,
}

impl Volume {
    /// A volume over `backend`. `instance` is a number that differs at every start of the process.
    pub fn new(
        id: VolumeId,
        name: impl Into<String>,
        backend: Arc<dyn Backend>,
        durability: Durability,
        instance: u64,
    ) -> Self {
        let (root, limits, capabilities) = (backend.root(), backend.limits(), backend.capabilities());
        let gate = Gate::open();
        Self {
            id,
            name: name.into(),
            backend,
            root,
            limits,
            capabilities,
            durability,
            instance,
            gate,
            traffic: Traffic::default(),
        }
    }

    /// This volume with a gate that calls to it have to pass.
    #[must_use]
    pub fn with_gate(self, gate: Arc<Gate>) -> Self {
        Self { gate, ..self }
    }

    /// What calls to this volume have to pass before anything else is done for them.
    #[inline]
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Its number, part of every handle.
    pub fn id(&self) -> VolumeId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its acknowledgements promise.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// What has passed through it.
    #[inline]
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Where the data of READs was; `None` where the storage cannot tell what memory has.
    pub fn reads(&self) -> Option<Reads> {
        self.backend.knows_memory().then(|| self.traffic.reads())
    }

    /// The root directory.
    pub fn root(&self) -> &NodeRef {
        &self.root
    }

    /// The file of a key.
    pub fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        self.backend.node(key, blocking)
    }

    /// Capacity and free space.
    pub fn stat(&self) -> FsResult<FsStat> {
        self.backend.stat()
    }

    /// What never changes.
    pub fn limits(&self) -> &FsLimits {
        &self.limits
    }

    /// What its storage can do besides what every storage can.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Makes everything durable, at the end of a service.
    pub fn sync(&self) -> FsResult<()> {
        self.backend.sync()
    }

    /// What unstable writes are acknowledged with. It changes whenever they may have been lost, at a restart and after
    /// a flush that failed, so that clients write them again (RFC 1813 §4.8).
    pub fn write_verifier(&self) -> u64 {
        // Any odd number makes the verifiers of 2^64 failures differ; this one changes many bits at once.
        self.instance.wrapping_add(self.backend.flush_failures().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn require_sync(&self, pending: &mut PendingSync, node: &NodeRef, scope: SyncScope) {
        if self.durability == Durability::Sync {
            pending.add(node, scope);
        }
    }
}

fn check_writable(caller: &Caller) -> FsResult<()> {
    if caller.read_only { Err(FsError::ReadOnly) } else { Ok(()) }
}

/// Checks that `caller` may change the entries of a directory with these attributes.
fn check_dir_change(dir: &Attrs, caller: &Caller) -> FsResult<()> {
    check_writable(caller)?;
    check_is_dir(dir)?;
    access::check(dir, caller, Access::WRITE.and(Access::EXECUTE))
}

fn check_is_dir(attrs: &Attrs) -> FsResult<()> {
    if attrs.file_type == crate::FileType::Directory { Ok(()) } else { Err(FsError::NotDirectory) }
}

/// What a new object in `dir` gets: the caller's user, and its group unless the directory hands on its own.
///
/// Root may give it to anybody, others to a group of theirs. A wish for more is left unheeded, not refused: some clients
/// send their idea of the owner with everything they make.
fn new_inode(dir: &Attrs, caller: &Caller, set: &SetAttrs, default_mode: u32, is_dir: bool) -> NewInode {
    use crate::attrs::{MODE_BITS, SET_GID};
    let inherits = dir.mode & SET_GID != 0;
    let uid = set.uid.filter(|_| caller.is_root()).unwrap_or(caller.uid);
    let given = set.gid.filter(|&gid| caller.is_root() || caller.is_in(gid));
    let gid = given.unwrap_or(if inherits { dir.gid } else { caller.gid });
    let mut mode = set.mode.unwrap_or(default_mode) & MODE_BITS;
    if is_dir && inherits {
        mode |= SET_GID;
    } else if !is_dir && mode & SET_GID != 0 && !caller.is_root() && !caller.is_in(gid) {
        mode &= !SET_GID;
    }
    let size = if is_dir { 0 } else { set.size.unwrap_or(0) };
    NewInode { mode, uid, gid, times: None, size }
}
