//! The load: a worker performs random valid operations in its own directory, one at a time, and models the resulting
//! tree.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Progress;
use super::client::{Change, Failure, Handle, How, MountResult, Stable};
use super::model::{Kind, Operation, SLOT, Tree, fill};
use super::smb::Smb;
use crate::random::Random;

/// Verification reads each name.
const NAMES_MAX: usize = 120;
const FILE_SLOTS_MAX: usize = 64;
const WRITE_SLOTS_MAX: usize = 16;
/// NFS3ERR_JUKEBOX, RFC 1813 §2.6: try again later.
const JUKEBOX: u32 = 10008;

pub(crate) enum Connection {
    Nfs(MountResult),
    Smb(Smb),
}

pub(crate) struct Worker {
    pub(crate) directory: String,
    pub(crate) tree: Tree,
    pub(crate) in_flight: Option<Operation>,
    pub(crate) acknowledged: Vec<&'static str>,
    pub(crate) verifier: Option<u64>,
    /// Faults of the server while it ran.
    pub(crate) complaints: Vec<String>,
    connection: Connection,
    random: Random,
    names_made: u32,
}

impl Worker {
    pub(crate) fn new(mut connection: Connection, directory: String, seed: u64) -> Result<Self, Failure> {
        let root = match &mut connection {
            Connection::Nfs(mounted) => {
                Some(mounted.client.make_directory(&mounted.root, &directory, 0o755)?)
            }
            Connection::Smb(smb) => smb.make_directory(&directory).map(|()| None)?,
        };
        let (in_flight, acknowledged, complaints) = Default::default();
        let (tree, random) = (Tree::new(root), Random::new(seed));
        Ok(Self {
            directory,
            tree,
            in_flight,
            acknowledged,
            verifier: None,
            complaints,
            connection,
            random,
            names_made: 0,
        })
    }

    /// Works until the connection breaks, the server errs, or the load stops.
    pub(crate) fn work(&mut self, progress: &Progress, log: &Mutex<impl Write>) {
        while !progress.stop.load(Ordering::Relaxed) {
            let operation = self.choose();
            let outcome = self.perform(&operation);
            self.note(log, &operation, outcome.as_ref().err());
            match outcome {
                Ok(made) => {
                    self.tree.acknowledge(&operation, made);
                    let kind = operation.kind(self.is_smb());
                    self.acknowledged.push(kind);
                    *progress.acknowledged().entry(kind).or_default() += 1;
                }
                // The server did not perform the operation, so the model stays as it is.
                Err(Failure::Status(JUKEBOX)) => std::thread::sleep(Duration::from_millis(50)),
                Err(Failure::Lost(_)) => {
                    self.in_flight = Some(operation);
                    return;
                }
                Err(failure) => {
                    self.complaints.push(format!("{}: {failure} for {}", self.directory, brief(&operation)));
                    self.in_flight = Some(operation);
                    return;
                }
            }
        }
    }

    fn note(&self, log: &Mutex<impl Write>, operation: &Operation, failure: Option<&Failure>) {
        let (number, operation) = (self.acknowledged.len(), brief(operation));
        let mut log = log.lock().expect("no worker panics while it writes the log");
        // The log is for people; a full disk must not end the test.
        drop(match failure {
            None => writeln!(log, "{} {number} acknowledged {operation}", self.directory),
            Some(failure) => {
                writeln!(log, "{} {number} NOT acknowledged ({failure}) {operation}", self.directory)
            }
        });
    }

    fn perform(&mut self, operation: &Operation) -> Result<Option<Handle>, Failure> {
        let client = match &mut self.connection {
            Connection::Nfs(mounted) => &mut mounted.client,
            Connection::Smb(smb) => return smb.perform(&self.directory, operation).map(|()| None),
        };
        let tree = &self.tree;
        let parent = |path: &'_ str| tree.handle(split(path).0);
        match operation {
            Operation::Create { path, how } => client.create(parent(path), split(path).1, *how).map(Some),
            Operation::Open { .. } => Err(Failure::Malformed("not an operation of NFS")),
            Operation::MakeDirectory { path, mode } => {
                client.make_directory(parent(path), split(path).1, mode.unwrap_or(0o755)).map(Some)
            }
            Operation::Symlink { path, target } => {
                client.symlink(parent(path), split(path).1, target).map(Some)
            }
            Operation::Link { from, to } => {
                client.link(tree.handle(from), parent(to), split(to).1).map(|()| None)
            }
            Operation::Rename { from, to } => {
                client.rename((parent(from), split(from).1), (parent(to), split(to).1)).map(|()| None)
            }
            Operation::Remove { path } => client.remove(parent(path), split(path).1).map(|()| None),
            Operation::RemoveDirectory { path } => {
                client.remove_directory(parent(path), split(path).1).map(|()| None)
            }
            Operation::SetSize { path, slots } => {
                let change = Change { size: Some((slots * SLOT) as u64), ..Change::default() };
                client.set_attributes(tree.handle(path), change).map(|()| None)
            }
            Operation::SetMode { path, mode } => {
                let change = Change { mode: Some(*mode), ..Change::default() };
                client.set_attributes(tree.handle(path), change).map(|()| None)
            }
            Operation::SetMtime { path, mtime } => {
                let change = Change { mtime: Some(*mtime), ..Change::default() };
                client.set_attributes(tree.handle(path), change).map(|()| None)
            }
            Operation::Write { path, slot, tags, stable } => {
                let data: Vec<u8> = tags.iter().flat_map(|&tag| fill(tag)).collect();
                let written = client.write(tree.handle(path), (slot * SLOT) as u64, &data, *stable)?;
                // RFC 1813 §3.3.7 allows a short write, but the model expects whole ones.
                if written.count as usize != data.len() {
                    return Err(Failure::Malformed("a short WRITE of at most 64 KiB"));
                }
                // RFC 1813 §3.3.7: the reply is at least as stable as the request.
                if written.stable < *stable {
                    return Err(Failure::Malformed("a WRITE less stable than asked for"));
                }
                self.same_verifier(written.verifier)?;
                Ok(None)
            }
            Operation::Commit { path } => {
                let verifier = client.commit(tree.handle(path))?;
                self.same_verifier(verifier)?;
                Ok(None)
            }
        }
    }

    /// The write verifier must not change while the server runs (RFC 1813 §3.3.7): clients would repeat all unstable
    /// writes.
    fn same_verifier(&mut self, verifier: u64) -> Result<(), Failure> {
        if *self.verifier.get_or_insert(verifier) == verifier {
            Ok(())
        } else {
            Err(Failure::Malformed("a write verifier that changed without a restart"))
        }
    }

    /// A random operation that a correct server must perform.
    fn choose(&mut self) -> Operation {
        let smb = self.is_smb();
        loop {
            let full = self.tree.names.len() >= NAMES_MAX;
            let choice = match self.random.below(100) {
                0..20 if full => self.remove(),
                0..10 => Some(self.create()),
                10..14 => {
                    let path = self.new_name(true);
                    Some(Operation::MakeDirectory { path, mode: (!smb).then(|| self.mode()) })
                }
                14..17 if smb => Some(self.create()),
                14..17 => {
                    let (path, length) = (self.new_name(false), 1 + self.random.below(200));
                    Some(Operation::Symlink { path, target: "t".repeat(length) })
                }
                17..20 => self.link(),
                20..30 => self.rename(),
                30..38 => self.remove(),
                38..43 => self.set_attributes(),
                43..85 => self.write(),
                _ => self.file().map(|path| Operation::Commit { path }),
            };
            if let Some(operation) = choice {
                return operation;
            }
        }
    }

    fn is_smb(&self) -> bool {
        matches!(self.connection, Connection::Smb(_))
    }

    fn create(&mut self) -> Operation {
        if self.is_smb() {
            return Operation::Open { path: self.new_name(false), anew: self.random.one_in(2) };
        }
        let how = match self.random.below(3) {
            0 => How::Unchecked(self.mode()),
            1 => How::Guarded(self.mode()),
            _ => How::Exclusive(self.random.next()),
        };
        Operation::Create { path: self.new_name(false), how }
    }

    fn link(&mut self) -> Option<Operation> {
        let from = self.file()?;
        Some(Operation::Link { from, to: self.new_name(false) })
    }

    fn rename(&mut self) -> Option<Operation> {
        let from = self.any()?;
        let directory = self.tree.inode(&from).kind == Kind::Directory;
        if !directory && self.random.one_in(3) {
            // A rename over another file.
            let to = self.pick(|tree, path| !matches!(tree.inode(path).kind, Kind::Directory))?;
            // Over NFS a rename between two names of one file does nothing; over SMB they are two names.
            let same =
                if self.is_smb() { self.tree.names[&to] == self.tree.names[&from] } else { to == from };
            return (!same).then_some(Operation::Rename { from, to });
        }
        Some(Operation::Rename { from, to: self.new_name(directory) })
    }

    fn remove(&mut self) -> Option<Operation> {
        let path = self.any()?;
        if self.tree.inode(&path).kind != Kind::Directory {
            return Some(Operation::Remove { path });
        }
        self.tree.is_empty_directory(&path).then_some(Operation::RemoveDirectory { path })
    }

    fn set_attributes(&mut self) -> Option<Operation> {
        let path = self.file()?;
        Some(match self.random.below(3) {
            0 if !self.is_smb() => Operation::SetMode { path, mode: self.mode() },
            1 => {
                let seconds = 1_000_000_000 + u32::try_from(self.random.below(600_000_000)).unwrap_or(0);
                Operation::SetMtime { path, mtime: (seconds, 123_456_000) }
            }
            _ => Operation::SetSize { path, slots: self.random.below(FILE_SLOTS_MAX) },
        })
    }

    fn write(&mut self) -> Option<Operation> {
        let path = self.file()?;
        let stable = match self.random.below(4) {
            0 => Stable::FileSync,
            1 if !self.is_smb() => Stable::DataSync,
            _ => Stable::Unstable,
        };
        // Mostly small, and mostly inside or at the end of the file.
        let most = if self.random.one_in(4) { WRITE_SLOTS_MAX } else { 2 };
        let length = 1 + self.random.below(most);
        let end = self.tree.content(&path)?.slots.len().min(FILE_SLOTS_MAX - length);
        let slot = self.random.below(end + 1);
        // An odd tag is never the tag of zeros.
        let tags = (0..length).map(|_| self.random.next() | 1).collect();
        Some(Operation::Write { path, slot, tags, stable })
    }

    /// Owner bits are only added: the caller is root, but not every server lets root read a file of mode 0.
    fn mode(&mut self) -> u32 {
        0o600 | u32::try_from(self.random.below(0o200)).unwrap_or(0)
    }

    /// Directories are in the worker's own directory; other names may be one level deeper.
    fn new_name(&mut self, directory: bool) -> String {
        self.names_made += 1;
        let name = format!("n{:05}", self.names_made);
        if directory || self.random.one_in(2) {
            return name;
        }
        match self.pick(|tree, path| tree.inode(path).kind == Kind::Directory) {
            Some(parent) => format!("{parent}/{name}"),
            None => name,
        }
    }

    fn any(&mut self) -> Option<String> {
        self.pick(|_, _| true)
    }

    fn file(&mut self) -> Option<String> {
        self.pick(|tree, path| tree.content(path).is_some())
    }

    fn pick(&mut self, wanted: impl Fn(&Tree, &str) -> bool) -> Option<String> {
        let tree = &self.tree;
        let paths: Vec<&String> =
            tree.names.keys().filter(|path| !path.is_empty() && wanted(tree, path)).collect();
        self.random.pick(&paths).map(|path| (*path).clone())
    }
}

pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Leaves out the long list of a write's tags.
fn brief(operation: &Operation) -> String {
    match operation {
        Operation::Write { path, slot, tags, stable } => {
            format!("Write {{ path: {path:?}, slots: {slot}..{}, stable: {stable:?} }}", slot + tags.len())
        }
        other => format!("{other:?}"),
    }
}
