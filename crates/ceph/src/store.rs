//! The backend of an open volume.

use crate::cluster::Place;
use crate::error::refused;
use crate::ffi::Inode;
use crate::node::Node;
use crate::node::tree::Tree;
use crate::node::xattrs::XATTR_NAME_BYTES_MAX;
use crate::snapshot::{SnapshotRoot, VolumeSnapshots};
use crate::space::file_system_stat;
use crate::walk;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use storage::{NodeBudget, Tally};
use vfs::{
    Backend, Blocking, Capabilities, FileKey, FsLimits, FsResult, FsStat, NodeRef, QuotaCheck, QuotaOwner,
    QuotaReport, QuotaRule, QuotaUse, Quotas, RangeLimits, Snapshots, XattrLimits,
};

const CAPABILITIES: Capabilities = Capabilities {
    xattrs: Some(XattrLimits { name_bytes_max: XATTR_NAME_BYTES_MAX }),
    ranges: Some(RangeLimits { clone_bytes: None }),
    acls: false,
};

/// The backend of a volume.
pub(crate) struct Store {
    pub(crate) tree: Arc<Tree>,
    root: Arc<Node>,
    pub(crate) snapshots: VolumeSnapshots,
}

impl Store {
    /// The store of the volume with the root `root`.
    pub(crate) fn new(tree: Arc<Tree>, root: Inode, budget: &Arc<NodeBudget>) -> FsResult<Self> {
        let root = Place::new(&tree.cluster, root)?;
        let root = SnapshotRoot::new(root, *tree.root_key(), limits(&tree), budget);
        let snapshots = VolumeSnapshots::new(root, &tree, CAPABILITIES);
        let root = tree.root_node()?;
        let live: Weak<Tree> = Arc::downgrade(&tree);
        tree.limit.owners().attach(live);
        Ok(Self { tree, root, snapshots })
    }
}

impl Drop for Store {
    /// Nodes and the tree refer to each other.
    fn drop(&mut self) {
        self.tree.release_nameless();
        self.tree.table.close();
    }
}

impl Backend for Store {
    fn root(&self) -> NodeRef {
        Arc::clone(&self.root) as _
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        Ok(self.tree.find(key, blocking)?)
    }

    fn stat(&self) -> FsResult<FsStat> {
        let below = file_system_stat(&*self.root.inode()?)?;
        let ledger = &self.tree.limit.ledger;
        let own = ledger.capacity().stat(ledger.usage());
        let available = own.bytes_available.saturating_sub(ledger.unused_reserve());
        Ok(FsStat { bytes_available: available.min(below.bytes_available), ..own })
    }

    fn limits(&self) -> FsLimits {
        limits(&self.tree)
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn sync(&self) -> FsResult<()> {
        self.tree.cluster.client().sync().map_err(refused)
    }

    fn flush_failures(&self) -> u64 {
        // A new connection has lost what was not flushed.
        self.tree.flush_failures.load(Ordering::SeqCst) + self.tree.cluster.generation()
    }

    fn knows_memory(&self) -> bool {
        false
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(&self.snapshots)
    }

    fn quotas(&self) -> Option<&dyn Quotas> {
        Some(self)
    }
}

impl Quotas for Store {
    fn set_rules(&self, rules: &[QuotaRule]) -> FsResult<()> {
        self.tree.limit.owners().set_rules(rules)?;
        self.tree.limit.start_owners()
    }

    fn rules(&self) -> Vec<QuotaRule> {
        self.tree.limit.owners().rules()
    }

    fn has_rules(&self) -> bool {
        self.tree.limit.owners().has_rules()
    }

    fn report(&self) -> FsResult<QuotaReport> {
        self.tree.limit.start_owners()?;
        self.tree.limit.owners().report()
    }

    fn usage(&self, owner: QuotaOwner) -> FsResult<QuotaUse> {
        self.tree.limit.owners().usage(owner)
    }

    fn check(&self) -> FsResult<QuotaCheck> {
        self.tree.limit.owners().check(&|| {
            let mut tally = Tally::new();
            walk::count(self.root.inode()?, None, Some(&mut tally), &mut |_, _| true)?;
            Ok(tally)
        })
    }
}

fn limits(tree: &Tree) -> FsLimits {
    FsLimits {
        // CephFS has no limit.
        links_max: u32::MAX,
        name_bytes_max: 255,
        file_bytes_max: tree.file_bytes_max,
        time_step_ns: 1,
    }
}
