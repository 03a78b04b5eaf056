//! Comparison of a restored tree with its backup, down to the last byte and attribute.

use crate::error::{Error, Result, at};
use crate::format::manifest::Manifest;
use crate::format::records::Inode;
use crate::inodes::read_inode;
use crate::tree::{Content, Tree};
use crate::vault::Vault;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use vfs::backend::xattrs::XattrName;
use vfs::volume::copies::next_data;
use vfs::volume::streams;
use vfs::{
    Attrs, Backend, Blocking, ExtraAttrs, FileKey, FileType, FsError, FsResult, Lookup, Name, NodeRef, Time,
};

/// A difference between a backup and a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path from the root; a stream follows its file after a colon.
    pub path: Vec<u8>,
    pub what: &'static str,
}

/// Compares a whole tree with a backup and returns at most `max` differences. Change times and access times are not
/// compared, nor are creation times of symbolic links and special files, which no storage can set.
pub fn compare(
    vault: &Vault,
    manifest: &Manifest,
    target: &dyn Backend,
    max: usize,
    progress: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Vec<Difference>> {
    let tree = Tree::open(vault, manifest)?;
    let streams = streams::tree_of(&target.root()).map_err(at(|| "the target".to_owned()))?;
    let (max, found) = (max.max(1), Vec::new());
    let mut comparison = Comparison { tree, streams, linked: HashMap::new(), max, found };
    let root = comparison.tree.root;
    comparison.compare_file(&root, &target.root(), b"")?;
    let mut open = vec![(root, target.root(), Vec::new())];
    while let Some((source, node, path)) = open.pop() {
        if comparison.found.len() >= comparison.max {
            break;
        }
        comparison.compare_dir(&source, &node, &path, &mut open)?;
        if progress().is_break() {
            return Err(Error::Stopped);
        }
    }
    Ok(comparison.found)
}

type Open = (FileKey, NodeRef, Vec<u8>);

struct Comparison<'v> {
    tree: Tree<'v>,
    /// The hidden tree of the target.
    streams: Option<NodeRef>,
    /// Files of the backup with several names, and the files of the target under their first names.
    linked: HashMap<FileKey, FileKey>,
    max: usize,
    found: Vec<Difference>,
}

impl Comparison<'_> {
    fn note(&mut self, path: &[u8], what: &'static str) {
        if self.found.len() < self.max {
            self.found.push(Difference { path: path.to_vec(), what });
        }
    }

    fn compare_dir(
        &mut self,
        source: &FileKey,
        node: &NodeRef,
        path: &[u8],
        open: &mut Vec<Open>,
    ) -> Result<()> {
        let shown = || String::from_utf8_lossy(path).into_owned();
        let mut names = names(node).map_err(at(shown))?;
        let mut after = None::<Vec<u8>>;
        while let Some(entry) = self.tree.next_entry(source, after.as_deref())? {
            let path = if path.is_empty() { entry.name.clone() } else { [path, b"/", &entry.name].concat() };
            names.remove(&entry.name);
            let found = Name::new(&entry.name).and_then(|name| node.lookup(name, Blocking::Allowed));
            match found {
                Err(FsError::NotFound) => self.note(&path, "it is missing"),
                Err(error) => return Err(at(shown)(error)),
                Ok(Lookup { node, attrs }) if attrs.file_type != entry.file_type => {
                    drop(node);
                    self.note(&path, "it has another type");
                }
                Ok(Lookup { node, .. }) => {
                    self.compare_file(&entry.key, &node, &path)?;
                    if entry.file_type == FileType::Directory {
                        open.push((entry.key, node, path));
                    }
                }
            }
            after = Some(entry.name);
        }
        for name in names {
            let is_own = path.is_empty() && (name == Name::STREAMS.bytes() || name == b"lost+found");
            if !is_own {
                self.note(&[path, b"/", &name].concat(), "the backup does not have it");
            }
        }
        Ok(())
    }

    fn compare_file(&mut self, source: &FileKey, node: &NodeRef, path: &[u8]) -> Result<()> {
        let shown = || String::from_utf8_lossy(path).into_owned();
        let inode = self.tree.inode(source)?;
        let is_dir = inode.attrs.file_type == FileType::Directory;
        if inode.attrs.links > 1 && !is_dir {
            match self.linked.insert(*source, node.key()) {
                Some(first) if first != node.key() => {
                    self.note(path, "it is not the same file as another name")
                }
                Some(_) => return Ok(()),
                None => {}
            }
        }
        let attrs = node.attrs(Blocking::Allowed).map_err(at(shown))?;
        let other = read_inode(node, &attrs, false).map_err(at(shown))?;
        for what in differences(&inode, &other) {
            self.note(path, what);
        }
        if inode.attrs.file_type == FileType::Regular && inode.attrs.size == attrs.size {
            self.compare_data(Content::of_file(source), node, path, attrs.size)?;
        }
        if matches!(inode.attrs.file_type, FileType::Regular | FileType::Directory) {
            self.compare_streams(source, node, path)?;
        }
        Ok(())
    }

    fn compare_data(&mut self, mut content: Content, node: &NodeRef, path: &[u8], size: u64) -> Result<()> {
        let shown = || String::from_utf8_lossy(path).into_owned();
        let mut end = 0;
        loop {
            let extents = self.tree.next_extents(&mut content)?;
            for extent in &extents {
                if !is_zero(node, end, extent.offset).map_err(at(shown))? {
                    self.note(path, "it has data where the backup has a hole");
                    return Ok(());
                }
                let mut found = Vec::new();
                let read = node.read(extent.offset, extent.len as usize, &mut found, Blocking::Allowed);
                read.map_err(at(shown))?;
                if found != self.tree.read(extent)? {
                    self.note(path, "its data differs");
                    return Ok(());
                }
                end = extent.offset + u64::from(extent.len);
            }
            if extents.is_empty() {
                break;
            }
        }
        if !is_zero(node, end, size).map_err(at(shown))? {
            self.note(path, "it has data where the backup has a hole");
        }
        Ok(())
    }

    fn compare_streams(&mut self, source: &FileKey, node: &NodeRef, path: &[u8]) -> Result<()> {
        let shown = || String::from_utf8_lossy(path).into_owned();
        let dir = self.streams_of(&node.key()).map_err(at(shown))?;
        let mut others = dir.as_ref().map_or(Ok(BTreeSet::new()), names).map_err(at(shown))?;
        let mut after = None::<Vec<u8>>;
        while let Some((name, inode)) = self.tree.next_stream(source, after.as_deref())? {
            let stored = [b":", &name[..]].concat();
            let path = [path, &stored].concat();
            if others.remove(&stored)
                && let Some(dir) = &dir
            {
                let found = Name::new(&stored).and_then(|name| dir.lookup(name, Blocking::Allowed));
                let Lookup { node, attrs } = found.map_err(at(shown))?;
                if attrs.size == inode.attrs.size {
                    self.compare_data(Content::of_stream(source, &name), &node, &path, attrs.size)?;
                } else {
                    self.note(&path, "its size differs");
                }
            } else {
                self.note(&path, "it is missing");
            }
            after = Some(name);
        }
        for name in others {
            self.note(&[path, &name].concat(), "the backup does not have it");
        }
        Ok(())
    }

    /// The directory of a file's streams in the target.
    fn streams_of(&self, key: &FileKey) -> FsResult<Option<NodeRef>> {
        let Some(tree) = &self.streams else { return Ok(None) };
        match tree.lookup(Name::new(streams::dir_name(key).as_bytes())?, Blocking::Allowed) {
            Ok(found) => Ok(Some(found.node)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn names(dir: &NodeRef) -> FsResult<BTreeSet<Vec<u8>>> {
    let mut names = BTreeSet::new();
    dir.read_dir(0, false, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.insert(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

/// Whether a range reads as zeros. Holes are not read.
fn is_zero(node: &NodeRef, start: u64, end: u64) -> FsResult<bool> {
    const STEP: usize = 1 << 20;
    let mut at = start;
    while let Some(run) = next_data(node, at, end)? {
        let mut from = run.start;
        while from < run.end {
            let mut bytes = Vec::new();
            let len = usize::try_from(run.end - from).unwrap_or(STEP).min(STEP);
            node.read(from, len, &mut bytes, Blocking::Allowed)?;
            if bytes.len() != len || bytes.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            from += len as u64;
        }
        at = run.end;
    }
    Ok(true)
}

fn differences(one: &Inode, other: &Inode) -> Vec<&'static str> {
    let (a, b) = (&one.attrs, &other.attrs);
    let is_link = a.file_type == FileType::Symlink;
    let is_plain = matches!(a.file_type, FileType::Regular | FileType::Directory);
    let is_dir = a.file_type == FileType::Directory;
    [
        (a.file_type != b.file_type, "its type differs"),
        (a.mode != b.mode && !is_link, "its mode differs"),
        ((a.uid, a.gid) != (b.uid, b.gid), "its owner differs"),
        (a.device != b.device, "its device differs"),
        (a.size != b.size && !is_dir, "its size differs"),
        (a.links != b.links && !is_dir, "its number of links differs"),
        (a.modified != b.modified, "its modification time differs"),
        (one.target != other.target, "its target differs"),
        (is_plain && extra(one) != extra(other), "its creation time or Windows attributes differ"),
        (others(one) != others(other), "its extended attributes differ"),
        (one.access_acl != other.access_acl, "its access ACL differs"),
        (one.default_acl != other.default_acl, "its default ACL differs"),
    ]
    .into_iter()
    .filter_map(|(differs, what)| differs.then_some(what))
    .collect()
}

/// Windows attributes and creation time, wherever the storage has them.
fn extra(inode: &Inode) -> (Option<u32>, Option<Time>) {
    let record = inode.xattrs.iter().find(|(name, _)| name == XattrName::EXTRA_ATTRS.bytes());
    let extra = record.map_or_else(ExtraAttrs::default, |(_, value)| ExtraAttrs::decode(value));
    let attrs: &Attrs = &inode.attrs;
    (extra.flags, extra.born(attrs))
}

fn others(inode: &Inode) -> Vec<&(Vec<u8>, Vec<u8>)> {
    inode.xattrs.iter().filter(|(name, _)| name != XattrName::EXTRA_ATTRS.bytes()).collect()
}
