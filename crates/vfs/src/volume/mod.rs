//! A volume: a backend and what is promised, limited and counted of it. Its files are reached through an
//! [`crate::Export`].

pub mod case_index;
pub mod change_notify;
pub mod extra_attrs;
pub mod streams;
pub mod traffic;

use crate::acl::SecurityStyle;
use crate::backend::capabilities::Capabilities;
use crate::backend::durability::{Durability, PendingSync};
use crate::backend::{Backend, Blocking, EntryRef, NodeRef, SyncScope};
use crate::claims::{Claims, Effect, Grace, Link, Stream, Timeouts};
use crate::error::{FsError, FsResult};
use crate::file_key::{FileKey, ViewId};
use crate::model::attrs::{FileType, FsLimits, FsStat};
use crate::model::name::Name;
use crate::model::volume_id::VolumeId;
use crate::qos::{Admission, Demand, Gate, Nanos};
use case_index::{NameChange, NameIndexes};
use change_notify::Watches;
use extra_attrs::KeptCache;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use streams::StreamTree;
use traffic::{ReadCounts, Traffic};

/// How often somebody looks again whether a name has gone that another thread removes: ten seconds' worth, or a thousand names.
const REMOVAL_MOMENTS_MAX: usize = 1000;

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
    /// A number of this run of the process.
    instance: u64,
    gate: Arc<Gate>,
    traffic: Traffic,
    /// What was read of what is kept with its files.
    extra_attrs: KeptCache,
    /// Who holds what of its files; made for the first who does.
    claims: OnceLock<Claims>,
    /// Where the named streams of its files are.
    streams: StreamTree,
    /// Who is told of changes.
    watches: Arc<Watches>,
    /// Names that were looked for by another spelling.
    names: NameIndexes,
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
            backend,
            root,
            limits,
            capabilities,
            durability,
            style: SecurityStyle::default(),
            instance,
            gate,
            traffic: Traffic::default(),
            extra_attrs: KeptCache::default(),
            claims: OnceLock::new(),
            streams: StreamTree::default(),
            watches: Arc::default(),
            names: NameIndexes::default(),
            clock: Box::new(Nanos::default),
        }
    }

    /// This volume with a gate that calls to it have to pass.
    #[must_use]
    pub fn with_gate(self, gate: Arc<Gate>) -> Self {
        Self { gate, ..self }
    }

    /// This volume, where `style` decides who may do what. [`FsError::NotSupported`] where the storage keeps no lists.
    pub fn with_security_style(self, style: SecurityStyle) -> FsResult<Self> {
        match style {
            SecurityStyle::Ntfs if self.capabilities.xattrs.is_none() => Err(FsError::NotSupported),
            SecurityStyle::Unix | SecurityStyle::Ntfs => {
                Ok(Self { style, watches: Arc::new(Watches::new(style)), ..self })
            }
        }
    }

    /// What decides who may do what with its files.
    #[inline]
    pub fn security_style(&self) -> SecurityStyle {
        self.style
    }

    /// This volume with a clock for the deadlines of its claims.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> Nanos + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    /// This volume after a restart: until the grace period ends, only what was held before can be claimed.
    #[must_use]
    pub fn with_grace(self, grace: Grace) -> Self {
        if !grace.is_active() {
            return self;
        }
        Self { claims: OnceLock::from(Claims::new(Timeouts::default(), grace)), ..self }
    }

    /// What calls to this volume have to pass before anything else is done for them.
    #[inline]
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// What a call of `client` to this volume must pay before anything is done for it; `None` if nothing is limited. The one
    /// place of admission, for every protocol.
    #[inline]
    pub fn admission(&self, client: IpAddr, demand: Demand) -> Option<Admission> {
        self.gate.is_limited().then(|| Admission::new(&self.gate, client, demand))
    }

    /// Who holds what of its files, for protocols that hold something.
    pub fn claims(&self) -> &Claims {
        self.claims.get_or_init(|| Claims::new(Timeouts::default(), Grace::default()))
    }

    /// The same, if anything is held.
    #[inline]
    pub(crate) fn active_claims(&self) -> Option<&Claims> {
        self.claims.get().filter(|claims| !claims.is_empty())
    }

    /// Who is told of changes.
    #[inline]
    pub(crate) fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    /// Names that were looked for by another spelling.
    #[inline]
    pub(crate) fn names(&self) -> &NameIndexes {
        &self.names
    }

    /// Whether anybody is told of changes in it.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.watches.is_any()
    }

    /// The clock of its claims.
    pub fn now(&self) -> Nanos {
        (self.clock)()
    }

    /// Enforces the deadlines of its claims up to `now`. They pass also while no request comes, so whoever serves a volume calls
    /// this again and again. A volume of which nothing was ever held has nothing to look at. An error is that of a name that
    /// had to go with the last open of its file, and is still there.
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

    /// The same, once the names of `file` that go with its last open have gone, though other threads are at it: who has closed it is
    /// answered after that. One load more where nothing is to be deleted.
    pub fn remove_closed(&self, file: &FileKey) -> FsResult<()> {
        let Some(claims) = self.claims.get() else { return Ok(()) };
        let mut result = self.expire_claims(self.now());
        for _ in 0..REMOVAL_MOMENTS_MAX {
            if !claims.wait_for_removal(file) {
                break;
            }
            // It may have been left to whoever comes first.
            let others = self.expire_claims(self.now());
            result = result.and(others);
        }
        result
    }

    /// Removes the name of a file that goes with its last open, unless something else has it by now.
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
        self.names.changed(&link.parent, &change, || vec![NameChange::Removed(link.name.clone())]);
        self.remove_streams_of_gone(named);
        self.watches.removed(&self.root, &dir, &link.name, child);
        let mut pending = PendingSync::default();
        self.require_sync(&mut pending, &dir, SyncScope::All);
        let synced = pending.sync_all();
        claims.listing_changed(|| now, &link.parent, link.listing)?;
        synced
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

    /// What was read of what is kept with its files.
    pub(crate) fn kept(&self) -> &KeptCache {
        &self.extra_attrs
    }

    /// Where the data of READs was; `None` where the storage cannot tell what memory has.
    pub fn reads(&self) -> Option<ReadCounts> {
        self.backend.knows_memory().then(|| self.traffic.reads())
    }

    /// Where the named streams of its files are.
    pub(crate) fn streams(&self) -> &StreamTree {
        &self.streams
    }

    /// Whether the file of a key is gone for certain.
    pub(crate) fn is_removed(&self, key: &FileKey) -> bool {
        self.backend.is_removed(key)
    }

    /// The root directory.
    pub(crate) fn root(&self) -> &NodeRef {
        &self.root
    }

    /// The file of a key. A backend has only live files, so a key of another view is stale.
    pub(crate) fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        if key.view() != ViewId::LIVE {
            return Err(FsError::Stale);
        }
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

    /// Adds a flush, where what is acknowledged must be durable.
    pub(crate) fn require_sync(&self, pending: &mut PendingSync, node: &NodeRef, scope: SyncScope) {
        if self.durability == Durability::Sync {
            pending.add(node, scope);
        }
    }
}
