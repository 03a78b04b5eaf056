//! The model of a directory tree after a crash, given the acknowledged operations.
//!
//! File contents consist of slots of 4 KiB, each filled from one tag, so that a slot identifies the write that it came
//! from. A slot whose last write was unstable may contain that write or an earlier one; a COMMIT settles it.

use std::collections::BTreeMap;

use super::client::{Handle, How, Stable};
use crate::random::mix;

/// Bytes of a slot: a page, which no server and no file system tears.
pub(crate) const SLOT: usize = 4096;

/// Paths are below a worker's own directory.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Create {
        path: String,
        how: How,
    },
    /// CREATE of SMB, with or without the requirement that the name is new.
    Open {
        path: String,
        anew: bool,
    },
    /// Without a mode over SMB.
    MakeDirectory {
        path: String,
        mode: Option<u32>,
    },
    Symlink {
        path: String,
        target: String,
    },
    Link {
        from: String,
        to: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        path: String,
    },
    RemoveDirectory {
        path: String,
    },
    SetSize {
        path: String,
        slots: usize,
    },
    SetMode {
        path: String,
        mode: u32,
    },
    SetMtime {
        path: String,
        mtime: (u32, u32),
    },
    Write {
        path: String,
        slot: usize,
        tags: Vec<u64>,
        stable: Stable,
    },
    Commit {
        path: String,
    },
}

/// The values of `Operation::kind` over NFS; a run must have seen each acknowledged.
pub(crate) const KINDS_OF_NFS: [&str; 16] = [
    "create unchecked",
    "create guarded",
    "create exclusive",
    "mkdir",
    "symlink",
    "link",
    "rename",
    "remove",
    "rmdir",
    "set size",
    "set mode",
    "set mtime",
    "write unstable",
    "write data_sync",
    "write file_sync",
    "commit",
];
/// The values over SMB, without the rarest. Their names differ from those of NFS, so that the counts show the protocol.
pub(crate) const KINDS_OF_SMB: [&str; 10] = [
    "SMB open",
    "SMB open anew",
    "SMB mkdir",
    "SMB link",
    "SMB rename",
    "SMB remove",
    "SMB set size",
    "SMB write",
    "SMB write through",
    "SMB flush",
];

impl Operation {
    /// The name in reports; each protocol has its own.
    pub(crate) fn kind(&self, smb: bool) -> &'static str {
        let [nfs, own] = self.kinds();
        if smb { own } else { nfs }
    }

    /// The names over NFS and over SMB; empty for an operation that a protocol lacks.
    fn kinds(&self) -> [&'static str; 2] {
        match self {
            Self::Create { how: How::Unchecked(_), .. } => ["create unchecked", ""],
            Self::Create { how: How::Guarded(_), .. } => ["create guarded", ""],
            Self::Create { how: How::Exclusive(_), .. } => ["create exclusive", ""],
            Self::Open { anew: false, .. } => ["", "SMB open"],
            Self::Open { anew: true, .. } => ["", "SMB open anew"],
            Self::MakeDirectory { .. } => ["mkdir", "SMB mkdir"],
            Self::Symlink { .. } => ["symlink", ""],
            Self::Link { .. } => ["link", "SMB link"],
            Self::Rename { .. } => ["rename", "SMB rename"],
            Self::Remove { .. } => ["remove", "SMB remove"],
            Self::RemoveDirectory { .. } => ["rmdir", "SMB rmdir"],
            Self::SetSize { .. } => ["set size", "SMB set size"],
            Self::SetMode { .. } => ["set mode", ""],
            Self::SetMtime { .. } => ["set mtime", "SMB set mtime"],
            Self::Write { stable: Stable::Unstable, .. } => ["write unstable", "SMB write"],
            Self::Write { stable: Stable::DataSync, .. } => ["write data_sync", ""],
            Self::Write { stable: Stable::FileSync, .. } => ["write file_sync", "SMB write through"],
            Self::Commit { .. } => ["commit", "SMB flush"],
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// For each slot the tags that it may contain, the latest last; tag 0 is a slot of zeros.
    pub(crate) slots: Vec<Vec<u64>>,
    /// The maximum is `slots.len()`.
    pub(crate) slots_min: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File(Content),
    Directory,
    Symlink(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    /// `None` unless an acknowledged operation has set it.
    pub(crate) mode: Option<u32>,
    pub(crate) mtime: Option<(u32, u32)>,
    pub(crate) handle: Option<Handle>,
}

/// A worker's directory, which has the path "" itself.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) names: BTreeMap<String, usize>,
    pub(crate) inodes: Vec<Inode>,
}

impl Tree {
    pub(crate) fn new(root: Option<Handle>) -> Self {
        let inode = Inode { kind: Kind::Directory, mode: None, mtime: None, handle: root };
        Self { names: BTreeMap::from([(String::new(), 0)]), inodes: vec![inode] }
    }

    pub(crate) fn inode(&self, path: &str) -> &Inode {
        &self.inodes[self.names[path]]
    }

    /// Every inode that an acknowledged operation created has a handle.
    pub(crate) fn handle(&self, path: &str) -> &[u8] {
        self.inode(path).handle.as_deref().expect("an acknowledged operation left a handle")
    }

    pub(crate) fn content(&self, path: &str) -> Option<&Content> {
        match &self.inode(path).kind {
            Kind::File(content) => Some(content),
            Kind::Directory | Kind::Symlink(_) => None,
        }
    }

    pub(crate) fn is_empty_directory(&self, path: &str) -> bool {
        let below = format!("{path}/");
        !self.names.keys().any(|name| name.starts_with(&below))
    }

    pub(crate) fn acknowledge(&mut self, operation: &Operation, made: Option<Handle>) {
        self.apply(operation, made, true);
    }

    pub(crate) fn candidates(&self, in_flight: Option<&Operation>) -> Vec<Self> {
        let Some(operation) = in_flight else { return vec![self.clone()] };
        let mut after = self.clone();
        after.apply(operation, None, false);
        match operation {
            // Any part of a write may have happened, which its tree allows slot by slot.
            Operation::Write { .. } => vec![after],
            _ => vec![self.clone(), after],
        }
    }

    fn apply(&mut self, operation: &Operation, made: Option<Handle>, certain: bool) {
        match operation {
            Operation::Create { path, how } => {
                let mode = match how {
                    How::Unchecked(mode) | How::Guarded(mode) => Some(*mode),
                    How::Exclusive(_) => None,
                };
                self.add(path, Kind::File(Content::default()), mode.filter(|_| certain), made);
            }
            Operation::Open { path, .. } => self.add(path, Kind::File(Content::default()), None, made),
            // A crash may come between the creation and the change of the mode.
            Operation::MakeDirectory { path, mode } => {
                self.add(path, Kind::Directory, mode.filter(|_| certain), made);
            }
            Operation::Symlink { path, target } => self.add(path, Kind::Symlink(target.clone()), None, made),
            Operation::Link { from, to } => drop(self.names.insert(to.clone(), self.names[from])),
            Operation::Rename { from, to } => self.rename(from, to),
            Operation::Remove { path } | Operation::RemoveDirectory { path } => drop(self.names.remove(path)),
            Operation::SetSize { path, slots } => self.change(path, |content| content.set_size(*slots)),
            Operation::SetMode { path, mode } => self.inode_mut(path).mode = Some(*mode),
            Operation::SetMtime { path, mtime } => self.inode_mut(path).mtime = Some(*mtime),
            Operation::Write { path, slot, tags, stable } => {
                let settled = certain && *stable != Stable::Unstable;
                self.change(path, |content| content.write(*slot, tags, settled));
            }
            // A COMMIT in flight settles nothing.
            Operation::Commit { path } if certain => {
                if let Kind::File(content) = &mut self.inode_mut(path).kind {
                    content.settle();
                }
            }
            Operation::Commit { .. } => {}
        }
    }

    fn inode_mut(&mut self, path: &str) -> &mut Inode {
        &mut self.inodes[self.names[path]]
    }

    fn add(&mut self, path: &str, kind: Kind, mode: Option<u32>, handle: Option<Handle>) {
        self.names.insert(path.to_owned(), self.inodes.len());
        self.inodes.push(Inode { kind, mode, mtime: None, handle });
    }

    fn change(&mut self, path: &str, change: impl FnOnce(&mut Content)) {
        let inode = self.inode_mut(path);
        // The server sets the time to its own clock.
        inode.mtime = None;
        if let Kind::File(content) = &mut inode.kind {
            change(content);
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        // Two names of one file: a rename does nothing at all (RFC 1813 §3.3.14).
        if self.names.get(to) == self.names.get(from) {
            return;
        }
        let below = format!("{from}/");
        let moved = |name: &String| name == from || name.starts_with(&below);
        let names: Vec<String> = self.names.keys().filter(|name| moved(name)).cloned().collect();
        for name in names {
            if let Some(inode) = self.names.remove(&name) {
                self.names.insert(format!("{to}{}", &name[from.len()..]), inode);
            }
        }
    }
}

impl Content {
    fn write(&mut self, slot: usize, tags: &[u64], settled: bool) {
        let end = slot + tags.len();
        if self.slots.len() < end {
            self.slots.resize(end, vec![0]);
        }
        for (allowed, &tag) in self.slots[slot..].iter_mut().zip(tags) {
            if settled {
                allowed.clear();
            }
            allowed.push(tag);
        }
        if settled {
            self.slots_min = self.slots_min.max(end);
        }
    }

    fn set_size(&mut self, slots: usize) {
        self.slots.resize(slots, vec![0]);
        self.slots_min = slots;
    }

    fn settle(&mut self) {
        for allowed in &mut self.slots {
            allowed.drain(..allowed.len() - 1);
        }
        self.slots_min = self.slots.len();
    }

    /// Returns the first difference from the bytes that were read.
    pub(crate) fn compare(&self, bytes: &[u8]) -> Result<(), String> {
        let slots = bytes.len() / SLOT;
        if !bytes.len().is_multiple_of(SLOT) || slots < self.slots_min || slots > self.slots.len() {
            let (min, max) = (self.slots_min * SLOT, self.slots.len() * SLOT);
            return Err(format!("has {} bytes, expected {min} to {max}", bytes.len()));
        }
        for (index, (allowed, found)) in self.slots.iter().zip(bytes.chunks(SLOT)).enumerate() {
            if !allowed.iter().any(|&tag| found == fill(tag)) {
                let what = if found.iter().all(|&byte| byte == 0) { "zeros" } else { "other data" };
                let writes = allowed.len();
                return Err(format!(
                    "slot {index} holds {what}, not the acknowledged write (of {writes} possible)"
                ));
            }
        }
        Ok(())
    }
}

/// The bytes of a slot: every eighth depends on the tag and on its position.
pub(crate) fn fill(tag: u64) -> Vec<u8> {
    if tag == 0 {
        return vec![0; SLOT];
    }
    (0..SLOT as u64 / 8).flat_map(|word| mix(tag ^ word.rotate_left(32)).to_be_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(operations: &[Operation]) -> Content {
        let mut tree = Tree::new(None);
        tree.acknowledge(&Operation::Create { path: "f".into(), how: How::Guarded(0o600) }, Some(vec![1]));
        for operation in operations {
            tree.acknowledge(operation, None);
        }
        tree.content("f").unwrap().clone()
    }

    fn write(slot: usize, tags: &[u64], stable: Stable) -> Operation {
        Operation::Write { path: "f".into(), slot, tags: tags.into(), stable }
    }

    fn bytes(tags: &[u64]) -> Vec<u8> {
        tags.iter().flat_map(|&tag| fill(tag)).collect()
    }

    #[test]
    fn a_stable_write_must_survive() {
        let content = file(&[write(0, &[5, 6], Stable::FileSync)]);
        assert!(content.compare(&bytes(&[5, 6])).is_ok());
        for wrong in [&[5][..], &[5, 0], &[6, 5], &[5, 6, 0], &[]] {
            assert!(content.compare(&bytes(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_unstable_write_may_survive_slot_by_slot_until_committed() {
        let writes = [write(0, &[5, 6], Stable::DataSync), write(1, &[7, 8], Stable::Unstable)];
        let content = file(&writes);
        for right in [&[5, 6][..], &[5, 7], &[5, 6, 8], &[5, 7, 0], &[5, 7, 8]] {
            assert!(content.compare(&bytes(right)).is_ok(), "{right:?}");
        }
        assert!(content.compare(&bytes(&[7, 7])).is_err());
        let commit = Operation::Commit { path: "f".into() };
        let content = file(&[&writes[..], &[commit]].concat());
        assert!(content.compare(&bytes(&[5, 7, 8])).is_ok());
        assert!(content.compare(&bytes(&[5, 6, 8])).is_err());
        assert!(content.compare(&bytes(&[5, 7])).is_err());
    }

    #[test]
    fn truncated_data_does_not_return() {
        let shrink = Operation::SetSize { path: "f".into(), slots: 1 };
        let grow = Operation::SetSize { path: "f".into(), slots: 3 };
        let content = file(&[write(0, &[5, 6], Stable::FileSync), shrink, grow]);
        assert!(content.compare(&bytes(&[5, 0, 0])).is_ok());
        assert!(content.compare(&bytes(&[5, 6, 0])).is_err());
    }

    #[test]
    fn renaming_a_directory_moves_its_contents_and_replaces_a_file() {
        let mut tree = Tree::new(None);
        for path in ["d", "e"] {
            tree.acknowledge(&Operation::MakeDirectory { path: path.into(), mode: None }, Some(vec![1]));
        }
        for path in ["d/f", "dx", "e/g"] {
            tree.acknowledge(&Operation::Create { path: path.into(), how: How::Exclusive(1) }, Some(vec![2]));
        }
        tree.acknowledge(&Operation::Rename { from: "d".into(), to: "n".into() }, None);
        tree.acknowledge(&Operation::Rename { from: "dx".into(), to: "e/g".into() }, None);
        assert_eq!(tree.names.keys().collect::<Vec<_>>(), ["", "e", "e/g", "n", "n/f"]);
        assert_eq!(tree.names["e/g"], 4);
    }

    #[test]
    fn an_operation_in_flight_may_have_happened_or_not() {
        let mut tree = Tree::new(None);
        tree.acknowledge(&Operation::Create { path: "a".into(), how: How::Guarded(0o600) }, Some(vec![1]));
        let candidates = tree.candidates(Some(&Operation::Remove { path: "a".into() }));
        assert_eq!(candidates.iter().map(|tree| tree.names.len()).collect::<Vec<_>>(), [2, 1]);
        let stable = Operation::Write { path: "a".into(), slot: 0, tags: vec![9], stable: Stable::FileSync };
        let [written] = &tree.candidates(Some(&stable))[..] else { panic!("one tree allows both") };
        for found in [&[][..], &[0], &[9]] {
            assert!(written.content("a").unwrap().compare(&bytes(found)).is_ok(), "{found:?}");
        }
        assert_eq!(tree.candidates(None).len(), 1);
    }
}
