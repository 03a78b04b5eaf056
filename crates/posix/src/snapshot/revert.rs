//! Brings the files of a volume that is not in use back to a snapshot.
//!
//! Only what has a record differs, so the work grows with the changes and not with the volume. Each step is an ordinary
//! change, which preserves what later snapshots need. First the names go that the snapshot does not have; objects that it
//! has elsewhere wait in a directory of the undo store. Then its names come back: to objects that wait, to removed files
//! among the records, to other names of a file, or to objects that are made anew. Data and attributes come last. A revert
//! that was interrupted begins again, with what waits.

use super::node::SnapshotNode;
use super::view::SnapshotView;
use crate::node::Node;
use crate::node::mount::Mount;
use crate::node::preserve::Space;
use crate::undo::{NamedObject, Undo};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::volume::copies::{link_of, make_like};
use vfs::volume::metadata::Metadata;
use vfs::volume::streams;
use vfs::{Attrs, Blocking, FileKey, FileType, FsError, FsResult, Name, NodeRef, Pace, Progress};

const ALLOWED: Blocking = Blocking::Allowed;

struct Revert<'r> {
    view: &'r Arc<SnapshotView>,
    mount: &'r Arc<Mount>,
    undo: &'r Undo,
    /// Objects of the snapshot wait here, each under its key, until their place is there.
    waiting: Arc<Node>,
    /// The present keys of objects of the snapshot that were made anew.
    remade: HashMap<FileKey, FileKey>,
}

/// Objects of the snapshot that are not as they were.
#[derive(Default)]
struct Changed {
    dirs: Vec<FileKey>,
    others: Vec<FileKey>,
}

/// The steps of a revert: each changed directory three times, each other changed object once.
struct Steps<'s, 'p> {
    progress: Progress,
    pace: &'s mut Pace<'p>,
}

enum Stop {
    /// By the pace.
    Ended,
    Failed(FsError),
}

impl From<FsError> for Stop {
    fn from(error: FsError) -> Self {
        Self::Failed(error)
    }
}

impl Steps<'_, '_> {
    /// A step is done. The last one ends nothing.
    fn end_one(&mut self) -> Result<(), Stop> {
        self.progress.done += 1;
        let is_last = Some(self.progress.done) >= self.progress.total;
        match (self.pace)(self.progress) {
            ControlFlow::Break(()) if !is_last => Err(Stop::Ended),
            _ => Ok(()),
        }
    }
}

/// Returns whether it is done; false if `pace` ended it.
pub(super) fn revert(view: &Arc<SnapshotView>, pace: &mut Pace<'_>) -> FsResult<bool> {
    match revert_in_steps(view, pace) {
        Ok(()) => Ok(true),
        Err(Stop::Ended) => Ok(false),
        Err(Stop::Failed(error)) => Err(error),
    }
}

fn revert_in_steps(view: &Arc<SnapshotView>, pace: &mut Pace<'_>) -> Result<(), Stop> {
    let (mount, undo) = (&view.mount, &*view.undo);
    let (waiting, _) = mount.adopt(undo.open_waiting()?)?;
    let mut revert = Revert { view, mount, undo, waiting, remade: HashMap::new() };
    let changed = revert.changed()?;
    let total = (3 * changed.dirs.len() + changed.others.len()) as u64;
    let steps = &mut Steps { progress: Progress { done: 0, total: Some(total) }, pace };
    for key in &changed.dirs {
        if let Some(dir) = revert.present(key)? {
            revert.drop_names(key, &dir)?;
        }
        steps.end_one()?;
    }
    revert.place_all(&changed.dirs, steps)?;
    revert.drop_waiting()?;
    // Directories that have no place any more were no step.
    steps.progress.done = 2 * changed.dirs.len() as u64;
    for key in changed.others.iter().chain(&changed.dirs) {
        revert.restore_state(key)?;
        steps.end_one()?;
    }
    Ok(undo.remove_waiting()?)
}

impl Revert<'_> {
    fn of_snapshot(&self, key: &FileKey) -> SnapshotNode {
        SnapshotNode::new(self.view, *key)
    }

    /// The attributes that an object had in the snapshot; `None` if the snapshot does not have it.
    fn attrs(&self, key: &FileKey) -> FsResult<Option<Attrs>> {
        match self.of_snapshot(key).attrs_now() {
            Ok(attrs) => Ok(Some(attrs)),
            Err(FsError::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn changed(&self) -> FsResult<Changed> {
        let mut changed = Changed::default();
        for key in self.undo.keys_since(self.view.label.view)? {
            match self.attrs(&key)?.map(|attrs| attrs.file_type) {
                Some(FileType::Directory) => changed.dirs.push(key),
                Some(_) => changed.others.push(key),
                None => {}
            }
        }
        Ok(changed)
    }

    /// The present object of one of the snapshot; `None` if there is none.
    fn present(&self, key: &FileKey) -> FsResult<Option<Arc<Node>>> {
        match self.mount.node(self.remade.get(key).unwrap_or(key), ALLOWED) {
            Ok(node) => Ok(Some(node)),
            Err(FsError::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn child(&self, dir: &Node, name: &[u8]) -> FsResult<Option<Arc<Node>>> {
        match self.mount.child(dir, name, ALLOWED) {
            Ok((node, _)) => Ok(Some(node)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the names of a directory that mean something else than in the snapshot.
    fn drop_names(&self, key: &FileKey, dir: &Arc<Node>) -> FsResult<()> {
        for (name, record) in self.undo.names_in(key, self.view.label.view)? {
            let Some(node) = self.child(dir, &name)? else { continue };
            if record.is_none_or(|object| object.key != node.key) {
                self.drop_tree(dir, &name, true)?;
            }
        }
        Ok(())
    }

    /// Removes a name, and what is below it. Objects of the snapshot wait, if `keeps` says so.
    fn drop_tree(&self, dir: &Arc<Node>, name: &[u8], keeps: bool) -> FsResult<()> {
        let mut open = vec![(Arc::clone(dir), name.to_vec())];
        while let Some((dir, name)) = open.last() {
            let Some(node) = self.child(dir, name)? else {
                open.pop();
                continue;
            };
            let is_dir = node.kind == FileType::Directory;
            let dropped = if keeps && self.must_wait(&node)? {
                self.move_to_waiting(dir, name, &node)
            } else {
                dir.unlink_entry(Name::new(name)?, is_dir, &|_| Ok(())).map(drop)
            };
            match dropped {
                Ok(()) => _ = open.pop(),
                Err(FsError::NotEmpty) => open.extend(names_of(&node)?.into_iter().map({
                    let node = Arc::clone(&node);
                    move |name| (Arc::clone(&node), name)
                })),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether an object of the snapshot does not wait yet.
    fn must_wait(&self, node: &Node) -> FsResult<bool> {
        Ok(self.attrs(&node.key)?.is_some() && self.waiting(&node.key)?.is_none())
    }

    fn waiting(&self, key: &FileKey) -> FsResult<Option<Arc<Node>>> {
        self.child(&self.waiting, streams::dir_name(key).as_bytes())
    }

    fn move_to_waiting(&self, dir: &Arc<Node>, name: &[u8], node: &Node) -> FsResult<()> {
        let to = streams::dir_name(&node.key);
        let waiting = Arc::clone(&self.waiting) as NodeRef;
        let moved = dir.rename_entry(Name::new(name)?, &waiting, Name::new(to.as_bytes())?, &|_, _| Ok(()));
        moved.map(drop)
    }

    /// Gives all directories the names that they had. The hidden tree of streams comes last, because its names are keys.
    fn place_all(&mut self, dirs: &[FileKey], steps: &mut Steps<'_, '_>) -> Result<(), Stop> {
        let root = Arc::new(self.of_snapshot(&self.mount.root_key)) as NodeRef;
        let tree = streams::tree_of(&root)?.map(|tree| tree.key());
        let (tree, others): (Vec<_>, Vec<_>) = dirs.iter().partition(|key| Some(**key) == tree);
        let left = self.place_in_all(others, steps)?;
        self.place_in(tree, true, steps)?;
        // What is below the hidden tree.
        self.place_in_all(left, steps).map(drop)
    }

    /// Gives directories their names, also those that get their own name meanwhile. Returns those that are not there.
    fn place_in_all(&mut self, dirs: Vec<FileKey>, steps: &mut Steps<'_, '_>) -> Result<Vec<FileKey>, Stop> {
        let mut left = dirs;
        loop {
            let before = left.len();
            left = self.place_in(left, false, steps)?;
            if left.len() == before {
                return Ok(left);
            }
        }
    }

    /// [`Revert::place_in_all`], once.
    fn place_in(
        &mut self,
        dirs: Vec<FileKey>,
        are_streams: bool,
        steps: &mut Steps<'_, '_>,
    ) -> Result<Vec<FileKey>, Stop> {
        let mut absent = Vec::new();
        for key in dirs {
            let Some(dir) = self.present(&key)? else {
                absent.push(key);
                continue;
            };
            self.drop_names(&key, &dir)?;
            for (name, record) in self.undo.names_in(&key, self.view.label.view)? {
                let Some(object) = record else { continue };
                let name = if are_streams { self.name_of_streams(&name) } else { name.into() };
                self.place(&dir, &name, &object)?;
            }
            steps.end_one()?;
        }
        Ok(absent)
    }

    /// The name of a directory of streams, whose file may have another key now.
    fn name_of_streams(&self, name: &[u8]) -> Vec<u8> {
        let file = streams::key_of(name).and_then(|key| self.remade.get(&key));
        file.map_or_else(|| name.to_vec(), |key| streams::dir_name(key).into_bytes())
    }

    /// Gives an object its name.
    fn place(&mut self, dir: &Arc<Node>, name: &[u8], object: &NamedObject) -> FsResult<()> {
        let key = object.key;
        let present = self.remade.get(&key).copied().unwrap_or(key);
        match self.child(dir, name)? {
            Some(node) if node.key == present => return Ok(()),
            Some(_) => self.drop_tree(dir, name, true)?,
            None => {}
        }
        let attrs = self.attrs(&key)?.ok_or(FsError::Io)?;
        let is_dir = attrs.file_type == FileType::Directory;
        let name = Name::new(name)?;
        if let Some(node) = self.waiting(&key)? {
            return if is_dir { self.move_from_waiting(dir, name, &key) } else { self.link(dir, name, node) };
        }
        if self.undo.has_retained(&key)? {
            return self.take_back(dir, name, &key);
        }
        match self.present(&key)? {
            Some(node) if !is_dir => self.link(dir, name, node),
            _ => self.remake(dir, name, &key, &attrs),
        }
    }

    fn move_from_waiting(&self, dir: &Arc<Node>, name: Name<'_>, key: &FileKey) -> FsResult<()> {
        let from = streams::dir_name(key);
        let to = Arc::clone(dir) as NodeRef;
        self.waiting.rename_entry(Name::new(from.as_bytes())?, &to, name, &|_, _| Ok(())).map(drop)
    }

    fn link(&self, dir: &Node, name: Name<'_>, file: Arc<Node>) -> FsResult<()> {
        dir.link_entry(name, &(file as NodeRef), &|_| Ok(())).map(drop)
    }

    /// Gives a removed file that is among the records its name again.
    fn take_back(&self, dir: &Node, name: Name<'_>, key: &FileKey) -> FsResult<()> {
        let mut guard = dir.lock_change();
        let before = dir.attrs_now()?;
        if let Some(preserving) = dir.preserving(Space::Exceeded) {
            preserving.new_name(dir, &before, name.bytes())?;
        }
        guard.begin();
        self.undo.take_back(key, dir.fd(), name.bytes())?;
        self.mount.record(key, &dir.key, name.bytes());
        Ok(())
    }

    /// Makes an object anew that is no regular file: the records have none of them.
    fn remake(&mut self, dir: &Arc<Node>, name: Name<'_>, key: &FileKey, attrs: &Attrs) -> FsResult<()> {
        let source = SnapshotNode::node_ref(self.view, *key);
        let made = make_like(&(Arc::clone(dir) as NodeRef), name, attrs, &link_of(&source, attrs)?)?;
        self.remade.insert(*key, made.key());
        Ok(())
    }

    /// Drops what waits: it has its places, or none.
    fn drop_waiting(&self) -> FsResult<()> {
        names_of(&self.waiting)?.iter().try_for_each(|name| self.drop_tree(&self.waiting, name, false))
    }

    /// Gives an object the data and the attributes that it had.
    fn restore_state(&self, key: &FileKey) -> FsResult<()> {
        let (Some(present), Some(attrs)) = (self.present(key)?, self.attrs(key)?) else { return Ok(()) };
        if attrs.file_type == FileType::Regular {
            self.of_snapshot(key).put_back(&present)?;
        }
        let source = SnapshotNode::node_ref(self.view, *key);
        Metadata::read(&source, &attrs)?.restore(&(present as NodeRef))
    }
}

fn names_of(dir: &Node) -> FsResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    dir.list(0, false, None, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(names)
}
