//! Preserves what a change replaces, for the latest snapshot.

use super::{ChangeGuard, Node, Rights};
use crate::capacity::limit::{Limit, SnapshotCharge};
use crate::error::refused;
use crate::undo::{Label, NameRecord, NamedObject, PreservedBlocks, Record, RecordMeta, Undo};
use rustix::fs::{AtFlags, readlinkat, statat};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES};
use vfs::{Attrs, FileType, FsError, FsResult};

/// More blocks than this are preserved at once, with their holes, and noted as one range: 1 MiB where blocks have 4 KiB.
const MANY_BLOCKS: u64 = 256;

/// Whether a change fails if the volume has no space for what it must preserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Needed,
    /// The change releases more than it takes: it goes past the capacity.
    Exceeded,
}

/// The duty of a change that has begun: to preserve what it replaces under this label.
pub(crate) struct Preserving<'m> {
    undo: &'m Undo,
    label: Label,
    limit: Option<&'m Limit>,
    space: Space,
}

/// The charge of something to preserve.
struct Charge<'l> {
    bytes: u64,
    /// `None` if the tree has no limit.
    held: Option<SnapshotCharge<'l>>,
}

impl Charge<'_> {
    fn refund(&self) {
        self.refund_part(self.bytes);
    }

    fn refund_part(&self, bytes: u64) {
        self.held.iter().for_each(|held| held.refund(bytes));
    }
}

impl Node {
    /// The duty of a change of this file; `None` without a snapshot. Call it under the locks of the change.
    #[inline]
    pub(crate) fn preserving(&self, space: Space) -> Option<Preserving<'_>> {
        let undo = self.mount.undo()?;
        let label = undo.label()?;
        Some(Preserving { undo, label, limit: self.mount.limit.as_deref(), space })
    }
}

impl Preserving<'_> {
    /// Whether the snapshot has this file.
    fn has(&self, node: &Node) -> bool {
        self.label.has(node.birth_time)
    }

    /// Preserves the attributes of a file that has `before`. Returns whether its record is new.
    pub(crate) fn attrs(&self, node: &Node, before: &Attrs) -> FsResult<bool> {
        if !self.has(node) || node.recorded.load(Ordering::Acquire) == self.label.view.0 {
            return Ok(false);
        }
        // Before the record: a charge that fails changes nothing. A record that exists gives it back.
        let charged = self.charge(INODE_BYTES)?;
        let made = self.undo.make_record(&node.key, self.label.view, node.fd(), || {
            Ok(RecordMeta { attrs: *before, rest: node.rest_of_record(before)? })
        });
        if !matches!(made, Ok((_, true))) {
            charged.refund();
        }
        let (_, is_new) = made?;
        node.recorded.store(self.label.view.0, Ordering::Release);
        Ok(is_new)
    }

    /// Preserves the attributes, and the blocks of a range that are about to change.
    pub(crate) fn data(
        &self,
        node: &Node,
        guard: &mut ChangeGuard<'_>,
        before: &Attrs,
        bytes: Range<u64>,
    ) -> FsResult<()> {
        let is_new = self.attrs(node, before)?;
        let bytes = bytes.start..bytes.end.min(before.size);
        if !self.has(node) || bytes.is_empty() {
            return Ok(());
        }
        let unit = self.undo.unit();
        let wanted = bytes.start / unit..bytes.end.div_ceil(unit);
        let mut record = None;
        if !guard.preserved_mut().is_of(self.label.view) {
            let record = self.opened(node, &mut record)?;
            let end = record.blocks_max(unit)?;
            let whole = Arc::clone(&record.whole);
            guard.preserved_mut().start(self.label.view, is_new, end, &whole);
        }
        let wanted = guard.preserved_mut().needed(wanted);
        if wanted.is_empty() {
            return Ok(());
        }
        if wanted.end - wanted.start > MANY_BLOCKS {
            return self.many(node, guard, before.size, wanted, record);
        }
        let preserved = guard.preserved_mut();
        let missing = preserved.missing(wanted, |window| {
            let record = self.opened(node, &mut record)?;
            self.undo.preserved_blocks(record, window)
        })?;
        if missing.is_empty() {
            return Ok(());
        }
        let blocks: u64 = missing.iter().map(|range| range.end - range.start).sum();
        let charged = self.charge(blocks * unit)?;
        let file = node.open(Rights::Read)?.as_fd();
        let record = self.opened(node, &mut record)?;
        if let Err(error) = self.undo.preserve_blocks(record, file, before.size, &missing) {
            return Err(Self::failed(node, guard, &charged, error));
        }
        let preserved: &mut PreservedBlocks = guard.preserved_mut();
        missing.into_iter().for_each(|range| preserved.add(range));
        Ok(())
    }

    /// Preserves many blocks at once, of a file of `size` bytes. Holes cost nothing.
    fn many(
        &self,
        node: &Node,
        guard: &mut ChangeGuard<'_>,
        size: u64,
        wanted: Range<u64>,
        mut record: Option<Record>,
    ) -> FsResult<()> {
        if guard.preserved_mut().has_many(&wanted) {
            return Ok(());
        }
        let record = self.opened(node, &mut record)?;
        let missing = self.undo.missing_blocks(record, &wanted)?;
        let all: u64 = missing.iter().map(|range| range.end - range.start).sum();
        let file = node.open(Rights::Read)?.as_fd();
        let unit = self.undo.unit();
        let charged = self.charge(self.undo.data_blocks(file, size, &missing)? * unit)?;
        let preserved = self.undo.preserve_with_holes(record, file, size, &missing).and_then(|kept| {
            let has_holes = kept < all;
            if has_holes {
                self.undo.add_whole(&node.key, self.label.view, wanted.clone())?;
            }
            self.settle(&charged, kept * unit)
        });
        if let Err(error) = preserved {
            return Err(Self::failed(node, guard, &charged, error));
        }
        guard.preserved_mut().add_many(wanted);
        Ok(())
    }

    /// Some blocks may be there: they are counted when the record is read again.
    fn failed(node: &Node, guard: &mut ChangeGuard<'_>, charged: &Charge<'_>, error: FsError) -> FsError {
        *guard.preserved_mut() = PreservedBlocks::default();
        charged.refund();
        node.mount.mark_count_doubtful();
        error
    }

    /// Corrects a charge to what was used: the file system may have written holes meanwhile, or found some.
    fn settle(&self, charged: &Charge<'_>, used: u64) -> FsResult<()> {
        match self.limit {
            Some(limit) if used > charged.bytes => limit.hold(used - charged.bytes, true).map(drop),
            _ => {
                charged.refund_part(charged.bytes.saturating_sub(used));
                Ok(())
            }
        }
    }

    fn opened<'r>(&self, node: &Node, record: &'r mut Option<Record>) -> FsResult<&'r Record> {
        if record.is_none() {
            *record = self.undo.record(&node.key, self.label.view)?;
        }
        record.as_ref().ok_or(FsError::Io)
    }

    /// Preserves what a name of a directory means: `object`. The directory has `before`.
    pub(crate) fn name(&self, dir: &Node, before: &Attrs, name: &[u8], object: &NameRecord) -> FsResult<()> {
        self.attrs(dir, before)?;
        if !self.has(dir) {
            return Ok(());
        }
        let charged = self.charge(NAME_BYTES)?;
        let is_new = self.undo.record_name(&dir.key, self.label.view, name, object);
        if !matches!(is_new, Ok(true)) {
            charged.refund();
        }
        is_new.map(drop)
    }

    /// Preserves that a name does not exist; [`FsError::Exists`] if it does.
    pub(crate) fn new_name(&self, dir: &Node, before: &Attrs, name: &[u8]) -> FsResult<()> {
        match statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => self.name(dir, before, name, &None),
            Ok(_) => Err(FsError::Exists),
            Err(errno) => Err(dir.or_stale(refused(errno))),
        }
    }

    /// Preserves a name that is about to be removed or replaced, and the object that it names.
    pub(crate) fn old_name(&self, dir: &Node, before: &Attrs, name: &[u8], node: &Node) -> FsResult<()> {
        if node.kind != FileType::Directory {
            // A write under way may have begun before the snapshot: all of it is in the record then.
            node.wait_for_change();
        }
        let attrs = node.attrs_now()?;
        self.name(dir, before, name, &Some(NamedObject { key: node.key, file_id: attrs.file_id }))?;
        self.attrs(node, &attrs).map(drop)
    }

    /// Keeps a file that is about to lose its last name, with its data. Returns whether it does.
    pub(crate) fn begin_retain(&self, node: &Arc<Node>) -> FsResult<bool> {
        if node.kind != FileType::Regular || !self.has(node) {
            return Ok(false);
        }
        if node.stat()?.st_nlink != 1 {
            return Ok(false);
        }
        self.undo.begin_retain(&node.key, node.fd())?;
        Ok(true)
    }

    fn charge(&self, bytes: u64) -> FsResult<Charge<'_>> {
        let exceeds = self.space == Space::Exceeded;
        let held = self.limit.map(|limit| limit.hold(bytes, exceeds)).transpose()?;
        Ok(Charge { bytes, held })
    }
}

impl Node {
    fn rest_of_record(&self, attrs: &Attrs) -> FsResult<Vec<u8>> {
        match attrs.file_type {
            FileType::Symlink => {
                let target = readlinkat(self.fd(), "", Vec::new()).map_err(refused)?;
                Ok(target.into_bytes())
            }
            FileType::Directory if self.key != self.mount.root_key => {
                let parent = self.mount.key_at(self.fd(), b"..")?;
                Ok(parent.bytes().to_vec())
            }
            _ => Ok(Vec::new()),
        }
    }
}
