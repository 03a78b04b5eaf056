//! Brings the files of a volume that is not open back to a snapshot, in place: a file that the volume still has keeps its
//! key.
//!
//! First every name goes that the snapshot does not have, or that is another object in it. The objects are held
//! ([`held`]), each under its key, even if all of a directory has moved. Then the names of the snapshot come back, from the
//! top: to held files, to further names of a file, or to objects that are made anew. Data and attributes follow, where
//! they differ. A revert that was interrupted begins again.

use crate::error::refused;
use crate::ffi::{Inode, LIVE, Statx, Wanted};
use crate::node::Node as LiveNode;
use crate::node::tree::Tree;
use crate::snapshot::held;
use crate::stat::{file_type, held_name, inode_of, key_of, time};
use crate::store::Store;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::volume::copies::{link_of, make_like};
use vfs::volume::metadata::Metadata;
use vfs::volume::streams;
use vfs::{
    Attrs, Backend, Blocking, FileKey, FileType, FsError, FsResult, Lookup, Name, NodeRef, Pace, Progress,
    SetAttrs,
};

/// Bytes that are compared, and written if they differ.
const PIECE: usize = 1 << 20;

pub(super) struct Revert<'r, 'p> {
    snapshot: Arc<dyn Backend>,
    tree: &'r Arc<Tree>,
    held: &'r Inode,
    /// The present keys of files of the snapshot that were made anew.
    remade: HashMap<FileKey, FileKey>,
    done: u64,
    pace: &'r mut Pace<'p>,
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

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Failed(refused(errno))
    }
}

/// A directory from which names are taken.
struct Taking {
    live: Inode,
    /// This directory in the snapshot; `None` if it is not there, so that all its names go.
    snapshot: Option<NodeRef>,
    name: CString,
    names: Vec<Vec<u8>>,
}

/// A directory that gets its names back.
struct Placing {
    live: Arc<LiveNode>,
    snapshot: NodeRef,
    attrs: Attrs,
    names: Vec<Vec<u8>>,
}

impl<'r, 'p> Revert<'r, 'p> {
    pub(super) fn new(
        snapshot: Arc<dyn Backend>,
        store: &'r Store,
        held: &'r Inode,
        pace: &'r mut Pace<'p>,
    ) -> Self {
        Self { snapshot, tree: &store.tree, held, remade: HashMap::new(), done: 0, pace }
    }

    /// Returns whether it is done; false if the pace ended it.
    pub(super) fn run(mut self) -> FsResult<bool> {
        match self.take_all().and_then(|()| self.place_all()) {
            Ok(()) => Ok(true),
            Err(Stop::Ended) => Ok(false),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.done += 1;
        match (self.pace)(Progress { done: self.done, total: None }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Ended),
        }
    }

    /// Holds the objects whose names the snapshot does not have.
    fn take_all(&mut self) -> Result<(), Stop> {
        let root = self.tree.cluster.client().inode_of(inode_of(self.tree.root_key())?, LIVE)?;
        let names = names_of(&root)?;
        let top =
            Taking { live: root, snapshot: Some(self.snapshot.root()), name: CString::default(), names };
        let mut levels = vec![top];
        while let Some(level) = levels.last_mut() {
            if let Some(name) = level.names.pop() {
                let below = self.take(level, name)?;
                levels.extend(below);
                continue;
            }
            let Some(Taking { live, snapshot, name, .. }) = levels.pop() else { break };
            // The reply to a rename has the state of the other directory alone.
            live.refresh_dir()?;
            if let Some(parent) = levels.last().filter(|_| snapshot.is_none()) {
                held::hold(self.held, &parent.live, &name, &live, &live.attrs()?)?;
            }
            self.step()?;
        }
        Ok(())
    }

    /// Holds the object of a name unless the snapshot has it there. Returns a directory whose names are next.
    fn take(&mut self, dir: &Taking, name: Vec<u8>) -> Result<Option<Taking>, Stop> {
        let name = CString::new(name).map_err(|_| FsError::Io)?;
        let (live, stat) = match dir.live.lookup(&name) {
            Err(Errno::NOENT) => return Ok(None),
            found => found?,
        };
        let then = dir.snapshot.as_ref().map_or(Ok(None), |then| lookup(then, name.as_bytes()))?;
        let key = key_of(&stat)?;
        let same = then.filter(|then| then.node.key() == key && !held::is_held(&stat)).map(|then| then.node);
        if file_type(&stat)? == FileType::Directory {
            let names = names_of(&live)?;
            return Ok(Some(Taking { live, snapshot: same, name, names }));
        }
        if same.is_none() {
            held::hold(self.held, &dir.live, &name, &live, &stat)?;
            self.step()?;
        }
        Ok(None)
    }

    /// Gives every directory the names that it had.
    fn place_all(&mut self) -> Result<(), Stop> {
        let root = self.snapshot.root();
        let mut names = names_in(&root)?;
        // The hidden tree of streams comes last, because its names are keys.
        if let Some(at) = names.iter().position(|name| name == Name::STREAMS.bytes()) {
            names.swap(0, at);
        }
        let attrs = root.attrs(Blocking::Allowed)?;
        let mut levels = vec![Placing { live: self.tree.root_node()?, snapshot: root, attrs, names }];
        while let Some(level) = levels.last_mut() {
            if let Some(name) = level.names.pop() {
                let is_stream_tree = levels.len() == 2 && self.is_stream_tree(&levels)?;
                let Some(level) = levels.last() else { break };
                let below = self.place(level, &name, is_stream_tree)?;
                levels.extend(below);
                continue;
            }
            let Some(Placing { live, snapshot, attrs, .. }) = levels.pop() else { break };
            self.restore(&snapshot, &attrs, &live)?;
            self.step()?;
        }
        Ok(())
    }

    /// Whether the last directory is the hidden tree of the root.
    fn is_stream_tree(&self, levels: &[Placing]) -> FsResult<bool> {
        let tree = streams::tree_of(&self.snapshot.root())?.map(|tree| tree.key());
        Ok(levels.last().map(|level| level.snapshot.key()) == tree)
    }

    /// Gives an object of the snapshot its name, data and attributes. Returns a directory whose names are next.
    fn place(&mut self, dir: &Placing, name: &[u8], is_stream_dir: bool) -> Result<Option<Placing>, Stop> {
        let Lookup { node: snapshot, attrs } = lookup(&dir.snapshot, name)?.ok_or(FsError::Io)?;
        let name = if is_stream_dir { self.name_of_streams(name) } else { name.to_vec() };
        let name = CString::new(name).map_err(|_| FsError::Io)?;
        let live_dir = dir.live.inode()?;
        let is_missing = match live_dir.lookup(&name) {
            Ok(_) => false,
            Err(Errno::NOENT) => true,
            Err(errno) => return Err(errno.into()),
        };
        if is_missing && !self.place_known(&live_dir, &name, &snapshot.key(), &attrs)? {
            let made =
                make_like(&dir.node(), name_of(name.as_bytes())?, &attrs, &link_of(&snapshot, &attrs)?)?;
            self.remade.insert(snapshot.key(), made.key());
        }
        let (inode, stat) = live_dir.lookup(&name)?;
        let is_unchanged = !is_missing && is_unchanged(&attrs, &stat);
        let live = self.tree.adopt(inode, &stat)?;
        if attrs.file_type == FileType::Directory {
            let names = names_in(&snapshot)?;
            return Ok(Some(Placing { live, snapshot, attrs, names }));
        }
        if !is_unchanged {
            self.restore(&snapshot, &attrs, &live)?;
            self.step()?;
        }
        Ok(None)
    }

    /// Gives a file that exists a name. Returns false if there is none.
    fn place_known(&self, dir: &Inode, name: &CString, key: &FileKey, attrs: &Attrs) -> Result<bool, Stop> {
        let has_other_names = attrs.links > 1 && attrs.file_type != FileType::Directory;
        match self.held.lookup(&held_name(key)) {
            Ok((file, _)) if has_other_names => file.link(dir, name)?,
            Ok(_) => self.held.rename(&held_name(key), dir, name)?,
            Err(Errno::NOENT) if has_other_names => {
                let key = self.remade.get(key).unwrap_or(key);
                match self.tree.find(key, Blocking::Allowed) {
                    Ok(file) => file.inode()?.link(dir, name)?,
                    Err(FsError::Stale) => return Ok(false),
                    Err(error) => return Err(error.into()),
                }
            }
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        Ok(true)
    }

    /// The name of a directory of streams, whose file may have another key now.
    fn name_of_streams(&self, name: &[u8]) -> Vec<u8> {
        let file = streams::key_of(name).and_then(|key| self.remade.get(&key));
        file.map_or_else(|| name.to_vec(), |key| streams::dir_name(key).into_bytes())
    }

    /// Gives an object the data and the attributes that it had.
    fn restore(&self, snapshot: &NodeRef, attrs: &Attrs, live: &Arc<LiveNode>) -> Result<(), Stop> {
        if is_unchanged(attrs, &live.inode()?.attrs()?) {
            return Ok(());
        }
        let live = Arc::clone(live) as NodeRef;
        if attrs.file_type == FileType::Regular {
            restore_data(snapshot, &live, attrs.size)?;
        }
        Ok(Metadata::read(snapshot, attrs)?.restore(&live)?)
    }
}

impl Placing {
    fn node(&self) -> NodeRef {
        Arc::clone(&self.live) as NodeRef
    }
}

/// Whether a file has not changed since the snapshot: the engine raises its number with each change.
fn is_unchanged(then: &Attrs, now: &Statx) -> bool {
    now.version == then.change
        && time(now.changed) == then.changed
        && time(now.modified) == then.modified
        && now.size == then.size
}

/// Writes the pieces that differ: a piece that is written takes space beside the snapshot.
fn restore_data(snapshot: &NodeRef, live: &NodeRef, size: u64) -> FsResult<()> {
    if live.attrs(Blocking::Allowed)?.size != size {
        live.set_attrs(&SetAttrs { size: Some(size), ..SetAttrs::default() })?;
    }
    let (mut at, mut then, mut now) = (0, Vec::new(), Vec::new());
    while at < size {
        then.clear();
        now.clear();
        let read = snapshot.read(at, PIECE, &mut then, Blocking::Allowed)?;
        live.read(at, PIECE, &mut now, Blocking::Allowed)?;
        if read == 0 {
            return Err(FsError::Io);
        }
        if then != now {
            live.write(at, &then, KEEP_SET_ID)?;
        }
        at += read as u64;
    }
    Ok(())
}

/// A name in a volume, with that of the hidden tree.
fn name_of(bytes: &[u8]) -> FsResult<Name<'_>> {
    if bytes == Name::STREAMS.bytes() { Ok(Name::STREAMS) } else { Name::new(bytes) }
}

fn lookup(dir: &NodeRef, name: &[u8]) -> FsResult<Option<Lookup>> {
    match dir.lookup(name_of(name)?, Blocking::Allowed) {
        Ok(found) => Ok(Some(found)),
        Err(FsError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

fn names_in(dir: &NodeRef) -> FsResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    dir.read_dir(0, false, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

fn names_of(dir: &Inode) -> Result<Vec<Vec<u8>>, Errno> {
    let (mut entries, mut names) = (dir.open_dir()?, Vec::new());
    while let Some(entry) = entries.next(Wanted::Nothing)? {
        if !matches!(&entry.name[..], b"." | b"..") {
            names.push(entry.name);
        }
    }
    Ok(names)
}
