//! Restores: of a whole backup to an empty volume, or of some of its paths.

use crate::error::{Error, Result, at};
use crate::format::manifest::Manifest;
use crate::format::records::Inode;
use crate::job::Progress;
use crate::tree::{Content, Tree, TreeEntry};
use crate::vault::Vault;
use std::collections::HashMap;
use std::ops::ControlFlow;
use vfs::backend::KEEP_SET_ID;
use vfs::volume::copies::make_like;
use vfs::volume::streams;
use vfs::{
    Backend, Blocking, FileKey, FileType, FsError, FsResult, Lookup, Name, NodeRef, SetAttrs, SetTime,
};

/// The files to restore.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'a> {
    /// Everything. The target must have no files.
    Whole,
    /// Files and directories with all that is below them, by their paths from the root, `a/b`. Directories on the way
    /// are made where they are missing. Names that exist in the target are [`FsError::Exists`].
    Paths(&'a [&'a [u8]]),
    /// [`Selection::Paths`] below a directory that exists in the target.
    Into { directory: &'a [u8], paths: &'a [&'a [u8]] },
}

/// The means that a caller gives a restore.
pub struct Restore<'a> {
    pub selection: Selection<'a>,
    /// Called with the size of each chunk before it is written; waits as long as a limit demands. `Break` stops.
    pub pace: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    /// Called often. `Break` stops the restore with [`Error::Stopped`], and leaves an incomplete tree.
    pub progress: &'a mut dyn FnMut(&Progress) -> ControlFlow<()>,
}

/// Restores files of a backup to a backend that serves no client yet. All is durable when it returns.
pub fn restore(
    vault: &Vault,
    manifest: &Manifest,
    target: &dyn Backend,
    job: &mut Restore<'_>,
) -> Result<Progress> {
    let tree = Tree::open(vault, manifest)?;
    let progress = match job.selection {
        Selection::Whole => Progress {
            files_total: Some(manifest.totals.files),
            bytes_total: Some(manifest.totals.bytes),
            ..Progress::default()
        },
        Selection::Paths(_) | Selection::Into { .. } => Progress::default(),
    };
    let mut restorer = Restorer { tree, target, linked: HashMap::new(), progress, job };
    let root = target.root();
    match restorer.job.selection {
        Selection::Whole => {
            check_empty(&root).map_err(at(|| "the target".to_owned()))??;
            let key = restorer.tree.root;
            restorer.restore_dir(&key, root.clone())?;
        }
        Selection::Paths(paths) => paths.iter().try_for_each(|path| restorer.restore_path(&root, path))?,
        Selection::Into { directory, paths } => {
            let directory = directory_of(&root, directory)?;
            paths.iter().try_for_each(|path| restorer.restore_path(&directory, path))?;
        }
    }
    target.sync().map_err(at(|| "the target".to_owned()))?;
    Ok(restorer.progress)
}

/// Finds a directory by its path from the root.
fn directory_of(root: &NodeRef, path: &[u8]) -> Result<NodeRef> {
    let shown = || format!("directory {:?}", String::from_utf8_lossy(path));
    let mut dir = root.clone();
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        let found =
            Name::new(name).and_then(|name| dir.lookup(name, Blocking::Allowed)).map_err(at(shown))?;
        if found.attrs.file_type != FileType::Directory {
            return Err(Error::File(shown(), FsError::NotDirectory));
        }
        dir = found.node;
    }
    Ok(dir)
}

fn check_empty(root: &NodeRef) -> FsResult<Result<()>> {
    Ok(if is_empty(root)? { Ok(()) } else { Err(Error::TargetNotEmpty) })
}

/// Whether a directory has no entries but those that a file system makes by itself.
pub(crate) fn is_empty(root: &NodeRef) -> FsResult<bool> {
    is_empty_but(root, |_| false)
}

/// Whether it has no entries but those, and some others.
pub(crate) fn is_empty_but(root: &NodeRef, others: impl Fn(&[u8]) -> bool) -> FsResult<bool> {
    let mut is_empty = true;
    root.read_dir(0, false, &mut |entry| {
        is_empty = matches!(entry.name, b"." | b".." | b"lost+found") || others(entry.name);
        if is_empty { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(is_empty)
}

struct Restorer<'r, 'v, 'a> {
    tree: Tree<'v>,
    target: &'r dyn Backend,
    /// Restored files that have more names, by their keys in the backup.
    linked: HashMap<FileKey, FileKey>,
    progress: Progress,
    job: &'r mut Restore<'a>,
}

/// A directory whose entries are being restored.
struct Open {
    source: FileKey,
    target: NodeRef,
    inode: Inode,
    after: Option<Vec<u8>>,
}

impl Restorer<'_, '_, '_> {
    fn restore_path(&mut self, root: &NodeRef, path: &[u8]) -> Result<()> {
        let shown = || String::from_utf8_lossy(path).into_owned();
        let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
        let Some((last, dirs)) = names.split_last() else { return Err(Error::NoPath(shown())) };
        let (mut source, mut target) = (self.tree.root, root.clone());
        for name in dirs {
            let found = self.tree.entry(&source, name)?;
            let found = found.filter(|found| found.file_type == FileType::Directory);
            source = found.ok_or_else(|| Error::NoPath(shown()))?.key;
            target = self.enter(&source, &target, name)?;
        }
        let entry = self.tree.entry(&source, last)?.ok_or_else(|| Error::NoPath(shown()))?;
        match self.restore_entry(&target, &entry)? {
            Some(dir) => self.restore_dir(&entry.key, dir),
            None => Ok(()),
        }
    }

    /// The directory of this name in the target, made with the attributes of the backup if it is missing.
    fn enter(&mut self, source: &FileKey, target: &NodeRef, name: &[u8]) -> Result<NodeRef> {
        let shown = || String::from_utf8_lossy(name).into_owned();
        let checked = Name::new(name).map_err(at(shown))?;
        match target.lookup(checked, Blocking::Allowed) {
            Ok(Lookup { node, attrs }) if attrs.file_type == FileType::Directory => Ok(node),
            Ok(_) => Err(Error::File(shown(), FsError::NotDirectory)),
            Err(FsError::NotFound) => {
                let inode = self.tree.inode(source)?;
                let made = make_like(target, checked, &inode.attrs, &inode.target).map_err(at(shown))?;
                self.finish(source, &made, &inode)?;
                Ok(made)
            }
            Err(error) => Err(at(shown)(error)),
        }
    }

    /// Restores what is below a directory, then its attributes, which the entries would change.
    fn restore_dir(&mut self, key: &FileKey, target: NodeRef) -> Result<()> {
        let inode = self.tree.inode(key)?;
        let mut open = vec![Open { source: *key, target, inode, after: None }];
        while let Some(mut dir) = open.pop() {
            let Some(entry) = self.tree.next_entry(&dir.source, dir.after.as_deref())? else {
                self.finish(&dir.source, &dir.target, &dir.inode)?;
                self.done(0)?;
                continue;
            };
            let below = self.restore_entry(&dir.target, &entry)?;
            dir.after = Some(entry.name);
            open.push(dir);
            if let Some(target) = below {
                let inode = self.tree.inode(&entry.key)?;
                open.push(Open { source: entry.key, target, inode, after: None });
            }
        }
        Ok(())
    }

    /// Restores an object. Of a directory only the name is made, and the directory is returned.
    fn restore_entry(&mut self, dir: &NodeRef, entry: &TreeEntry) -> Result<Option<NodeRef>> {
        let shown = || String::from_utf8_lossy(&entry.name).into_owned();
        let name = Name::new(&entry.name).map_err(at(shown))?;
        if let Some(key) = self.linked.get(&entry.key) {
            let node = self.target.node(key, Blocking::Allowed).map_err(at(shown))?;
            dir.link(name, &node, &|_| Ok(())).map_err(at(shown))?;
            return Ok(None);
        }
        let inode = self.tree.inode(&entry.key)?;
        let node = make_like(dir, name, &inode.attrs, &inode.target).map_err(at(shown))?;
        if inode.attrs.file_type == FileType::Directory {
            return Ok(Some(node));
        }
        if inode.attrs.links > 1 {
            self.linked.insert(entry.key, node.key());
        }
        self.write(&node, Content::of_file(&entry.key))?;
        self.finish(&entry.key, &node, &inode)?;
        self.done(if inode.attrs.file_type == FileType::Regular { inode.attrs.size } else { 0 })?;
        Ok(None)
    }

    fn done(&mut self, bytes: u64) -> Result<()> {
        self.progress.files_done += 1;
        self.progress.bytes_done += bytes;
        self.report()
    }

    fn report(&mut self) -> Result<()> {
        match (self.job.progress)(&self.progress).is_break() {
            true => Err(Error::Stopped),
            false => Ok(()),
        }
    }

    /// Writes the data of a file or a stream. Holes stay holes.
    fn write(&mut self, node: &NodeRef, mut content: Content) -> Result<()> {
        loop {
            let extents = self.tree.next_extents(&mut content)?;
            if extents.is_empty() {
                return Ok(());
            }
            for extent in extents {
                let chunk = self.tree.read(&extent)?;
                if (self.job.pace)(extent.len.into()).is_break() {
                    return Err(Error::Stopped);
                }
                let written = node.write(extent.offset, &chunk, KEEP_SET_ID);
                written.map_err(at(|| format!("file {:?}", node.key())))?;
                self.report()?;
            }
        }
    }

    /// Restores streams, extended attributes, lists, and last the times.
    fn finish(&mut self, source: &FileKey, node: &NodeRef, inode: &Inode) -> Result<()> {
        let shown = || format!("file {:?}", node.key());
        if matches!(inode.attrs.file_type, FileType::Regular | FileType::Directory) {
            self.restore_streams(source, node)?;
        }
        inode.metadata.restore(node).map_err(at(shown))
    }

    fn restore_streams(&mut self, source: &FileKey, node: &NodeRef) -> Result<()> {
        let (root, mut after) = (self.target.root(), None::<Vec<u8>>);
        while let Some((name, inode)) = self.tree.next_stream(source, after.as_deref())? {
            let shown = || format!("stream {:?}", String::from_utf8_lossy(&name));
            let stream =
                streams::restore_stream(&root, &node.key(), &name, &inode.attrs).map_err(at(shown))?;
            self.write(&stream, Content::of_stream(source, &name))?;
            let attrs = &inode.attrs;
            let modified = Some(SetTime::To(attrs.modified));
            let set = SetAttrs { size: Some(attrs.size), modified, ..SetAttrs::default() };
            stream.set_attrs(&set).map_err(at(shown))?;
            self.done(attrs.size)?;
            after = Some(name);
        }
        Ok(())
    }
}
