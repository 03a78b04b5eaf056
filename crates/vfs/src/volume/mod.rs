//! A volume: a backend with permissions, limits and counters. Clients reach its files through an [`crate::Export`].

pub mod case_index;
pub mod change_notify;
pub mod copies;
pub mod extra_attrs;
pub mod metadata;
mod quotas;
pub mod snapshots;
mod stream_owners;
pub mod streams;
pub mod traffic;

use crate::acl::SecurityStyle;
use crate::backend::capabilities::Capabilities;
use crate::backend::durability::{Durability, PendingSync};
use crate::backend::placeholder::Placeholder;
use crate::backend::{Backend, Blocking, EntryRef, NodeRef, SyncScope};
use crate::claims::{Claims, Effect, Grace, Link, Stream, Timeouts};
use crate::error::{FsError, FsResult, Wait};
use crate::file_key::{FileKey, ViewId};
use crate::model::attrs::{FileType, FsLimits, FsStat};
use crate::model::name::Name;
use crate::model::volume_id::VolumeId;
use crate::qos::{Admission, Demand, Gate, Nanos};
use case_index::{CaseIndexes, NameChange};
use change_notify::Watches;
use extra_attrs::ExtraAttrsCache;
use snapshots::table::SnapshotTable;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use streams::StreamTree;
use traffic::{ReadCounts, Traffic};

/// Polls for a name that another thread is removing: ten seconds, or a thousand names.
const REMOVAL_POLLS_MAX: usize = 1000;

/// The volumes that this process has opened.
static INCARNATIONS: AtomicU64 = AtomicU64::new(1);

/// A served tree of files with its rules.
pub struct Volume {
    id: VolumeId,
    name: String,
    backend: Arc<dyn Backend>,
    root: NodeRef,
    limits: FsLimits,
    capabilities: Capabilities,
    durability: Durability,
    style: SecurityStyle,
    /// A number that differs at every start of the process.
    instance: u64,
    incarnation: u64,
    is_placeholder: bool,
    gate: Arc<Gate>,
    traffic: Traffic,
    extra_attrs: ExtraAttrsCache,
    /// Created by the first claim.
    claims: OnceLock<Claims>,
    streams: StreamTree,
    snapshots: Arc<SnapshotTable>,
    watches: Arc<Watches>,
    case_indexes: CaseIndexes,
    clock: Box<dyn Fn() -> Nanos + Send + Sync>,
}

impl Volume {
    /// A volume over `backend`. `instance` is a number that differs at every start of the process. No time passes for its
    /// claims until it has a clock ([`Volume::with_clock`]).
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
            snapshots: SnapshotTable::new(Arc::clone(&backend)),
            backend,
            root,
            limits,
            capabilities,
            durability,
            style: SecurityStyle::default(),
            instance,
            incarnation: INCARNATIONS.fetch_add(1, Ordering::Relaxed),
            is_placeholder: false,
            gate,
            traffic: Traffic::default(),
            extra_attrs: ExtraAttrsCache::default(),
            claims: OnceLock::new(),
            streams: StreamTree::default(),
            watches: Arc::default(),
            case_indexes: CaseIndexes::default(),
            clock: Box::new(Nanos::default),
        }
    }

    /// A volume that clients find in the place of one whose storage is closed for a while: all that they ask has to wait
    /// ([`crate::Wait::Recall`]).
    pub fn placeholder(id: VolumeId, name: impl Into<String>, durability: Durability, instance: u64) -> Self {
        let volume = Self::new(id, name, Arc::new(Placeholder), durability, instance);
        Self { is_placeholder: true, ..volume }
    }

    /// [`FsError::Wait`] while the storage is closed.
    pub fn check_open(&self) -> FsResult<()> {
        if self.is_placeholder { Err(FsError::Wait(Wait::Recall)) } else { Ok(()) }
    }

    #[must_use]
    pub fn with_gate(self, gate: Arc<Gate>) -> Self {
        Self { gate, ..self }
    }

    /// Sets the security style. [`FsError::NotSupported`] where the storage has no extended attributes to store lists
    /// in.
    pub fn with_security_style(self, style: SecurityStyle) -> FsResult<Self> {
        match style {
            SecurityStyle::Ntfs if self.capabilities.xattrs.is_none() => Err(FsError::NotSupported),
            SecurityStyle::Unix | SecurityStyle::Ntfs => {
                Ok(Self { style, watches: Arc::new(Watches::new(style)), ..self })
            }
        }
    }

    #[inline]
    pub fn security_style(&self) -> SecurityStyle {
        self.style
    }

    /// Adds a clock for the deadlines of claims.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> Nanos + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    /// Starts the volume after a restart: until the grace period ends, only earlier claims can be reclaimed.
    #[must_use]
    pub fn with_grace(self, grace: Grace) -> Self {
        if !grace.is_active() {
            return self;
        }
        Self { claims: OnceLock::from(Claims::new(Timeouts::default(), grace)), ..self }
    }

    /// The gate that calls to this volume pass first.
    #[inline]
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Returns the admission that a call of `client` needs before any work; `None` if nothing is limited. The one place
    /// of admission, for every protocol.
    #[inline]
    pub fn admission(&self, client: IpAddr, demand: Demand) -> Option<Admission> {
        self.gate.is_limited().then(|| Admission::new(&self.gate, client, demand))
    }

    pub fn claims(&self) -> &Claims {
        self.claims.get_or_init(|| Claims::new(Timeouts::default(), Grace::default()))
    }

    #[inline]
    pub(crate) fn active_claims(&self) -> Option<&Claims> {
        self.claims.get().filter(|claims| !claims.is_empty())
    }

    #[inline]
    pub(crate) fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    #[inline]
    pub(crate) fn case_indexes(&self) -> &CaseIndexes {
        &self.case_indexes
    }

    #[inline]
    pub fn is_watched(&self) -> bool {
        self.watches.is_any()
    }

    pub fn now(&self) -> Nanos {
        (self.clock)()
    }

    /// Enforces the deadlines of claims up to `now`. Deadlines pass also without requests, so the server calls this
    /// periodically. Without claims it returns immediately. An error is that of a delete-on-close name that could not
    /// be removed.
    pub fn expire_claims(&self, now: Nanos) -> FsResult<()> {
        let Some(claims) = self.claims.get() else { return Ok(()) };
        if claims.next_deadline().is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        let mut result = Ok(());
        for left in claims.deliver_effects(claims.expire(now)) {
            if let Effect::Remove { file, stream, link } = left {
                let removed = match stream == Stream::default() {
                    true => self.remove_deleted(claims, now, &file, &link),
                    false => self.remove_stream(&file, stream, &link.name),
                };
                claims.removed(now, &file, stream);
                result = match removed {
                    // Somebody else was faster.
                    Ok(()) | Err(FsError::NotFound | FsError::Stale) => result,
                    Err(error) => Err(error),
                };
            }
        }
        result
    }

    /// [`Volume::expire_claims`], and waits until other threads have removed the delete-on-close names of `file`: a
    /// CLOSE is answered after that. One more atomic load where nothing is to be deleted.
    pub fn remove_closed(&self, file: &FileKey) -> FsResult<()> {
        let Some(claims) = self.claims.get() else { return Ok(()) };
        let mut result = self.expire_claims(self.now());
        for _ in 0..REMOVAL_POLLS_MAX {
            if !claims.wait_for_removal(file) {
                break;
            }
            // The removal may have been left to the first thread that comes.
            let others = self.expire_claims(self.now());
            result = result.and(others);
        }
        result
    }

    /// Deletes a name after the last close, unless another object has it by now.
    fn remove_deleted(&self, claims: &Claims, now: Nanos, file: &FileKey, link: &Link) -> FsResult<()> {
        let (dir, name) = (self.node(&link.parent, Blocking::Allowed)?, Name::new(&link.name)?);
        let found = dir.lookup(name, Blocking::Allowed)?;
        if found.node.key() != *file {
            return Ok(());
        }
        let is_same = |entry: &EntryRef<'_>| {
            let now = (entry.object)()?;
            if now.file_id == found.attrs.file_id { Ok(()) } else { Err(FsError::NotFound) }
        };
        let child = self.watches.child(&dir, name);
        let named = self.may_have_streams(&dir, name);
        let change = match found.attrs.file_type {
            FileType::Directory => dir.remove_dir(name, &is_same)?,
            _ => dir.remove(name, &is_same)?,
        };
        self.case_indexes.changed(&link.parent, &change, || vec![NameChange::Removed(link.name.clone())]);
        self.remove_streams_of_gone(named);
        self.watches.removed(&self.root, &dir, &link.name, child);
        let mut pending = PendingSync::default();
        self.require_sync(&mut pending, &dir, SyncScope::All);
        let synced = pending.sync_all();
        claims.listing_changed(|| now, &link.parent, link.listing)?;
        synced
    }

    /// The number that is part of every handle.
    pub fn id(&self) -> VolumeId {
        self.id
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A number of this opening of the volume, different from those of all others in this process. Claims, opens and locks
    /// of another opening are not of this one.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub fn durability(&self) -> Durability {
        self.durability
    }

    #[inline]
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Whether there are files to serve: a destination of a replication has none before its first point.
    pub fn has_files(&self) -> bool {
        self.backend.has_files()
    }

    /// Whether no client can change any file, because of the storage.
    pub fn is_read_only(&self) -> bool {
        self.backend.is_read_only()
    }

    pub(crate) fn extra_attrs_cache(&self) -> &ExtraAttrsCache {
        &self.extra_attrs
    }

    /// Returns the sources of READ data; `None` where the storage cannot tell what is in memory.
    pub fn reads(&self) -> Option<ReadCounts> {
        self.backend.knows_memory().then(|| self.traffic.reads())
    }

    /// Whether the file of a key is certainly deleted.
    pub(crate) fn is_removed(&self, key: &FileKey) -> bool {
        self.backend.is_removed(key)
    }

    pub(crate) fn root(&self) -> &NodeRef {
        &self.root
    }

    pub(crate) fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        if key.view() == ViewId::LIVE {
            self.backend.node(key, blocking)
        } else {
            self.node_in_view(key, blocking)
        }
    }

    pub fn stat(&self) -> FsResult<FsStat> {
        self.backend.stat()
    }

    pub fn limits(&self) -> &FsLimits {
        &self.limits
    }

    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    pub fn sync(&self) -> FsResult<()> {
        self.backend.sync()
    }

    /// The verifier of unstable writes. It changes whenever they may have been lost, at a restart and after a failed
    /// flush, so that clients write again (RFC 1813 §4.8).
    pub fn write_verifier(&self) -> u64 {
        // Any odd number makes the verifiers of 2^64 failures differ; this one changes many bits at once.
        self.instance.wrapping_add(self.backend.flush_failures().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Schedules a flush, where acknowledged changes must be durable.
    pub(crate) fn require_sync(&self, pending: &mut PendingSync, node: &NodeRef, scope: SyncScope) {
        if self.durability == Durability::Sync {
            pending.add(node, scope);
        }
    }
}
