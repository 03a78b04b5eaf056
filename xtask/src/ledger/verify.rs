//! Reads the tree of a server after a crash, and compares it with the model.

use std::collections::BTreeMap;

use super::client::{Attributes, Client, Failure, Handle};
use super::model::{Kind, Tree};

const READ_SIZE: u32 = 65536;

/// `ftype3`, RFC 1813 §2.3.
const REGULAR: u32 = 1;
const DIRECTORY: u32 = 2;
const SYMLINK: u32 = 5;

struct Found {
    handle: Handle,
    attributes: Attributes,
    bytes: Vec<u8>,
}

pub(crate) struct Snapshot(BTreeMap<String, Found>);

impl Snapshot {
    pub(crate) fn take(client: &mut Client, directory: Handle) -> Result<Self, Failure> {
        let mut found = BTreeMap::new();
        read_tree(client, directory, String::new(), &mut found)?;
        Ok(Self(found))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn first_file(&self) -> Option<&[u8]> {
        self.0.values().find(|found| found.attributes.kind == REGULAR).map(|found| &found.handle[..])
    }

    pub(crate) fn problems(&self, tree: &Tree) -> Vec<String> {
        let mut problems = Vec::new();
        for path in self.0.keys().filter(|path| !tree.names.contains_key(*path)) {
            problems.push(format!("`{path}` is there, but was removed, renamed, or never made"));
        }
        let mut fileids: BTreeMap<usize, u64> = BTreeMap::new();
        for (path, &inode) in &tree.names {
            let Some(found) = self.0.get(path) else {
                problems.push(format!("`{path}` is missing"));
                continue;
            };
            let fileid = found.attributes.fileid;
            if *fileids.entry(inode).or_insert(fileid) != fileid {
                problems.push(format!("`{path}` is no longer the same file as its other names"));
            }
            if let Err(problem) = compare(tree, path, found) {
                problems.push(format!("`{path}` {problem}"));
            }
        }
        problems
    }

    /// Handles from before the crash that no longer lead to their files, as RFC 1813 §2.5 requires.
    pub(crate) fn stale_handles(&self, client: &mut Client, tree: &Tree) -> Result<Vec<String>, Failure> {
        let mut problems = Vec::new();
        for (path, &inode) in &tree.names {
            let (Some(handle), Some(found)) = (&tree.inodes[inode].handle, self.0.get(path)) else {
                continue;
            };
            match client.attributes(handle) {
                Ok(attributes) if attributes.fileid == found.attributes.fileid => {}
                Ok(_) => problems.push(format!("the handle of `{path}` leads to another file")),
                Err(Failure::Status(status)) => {
                    problems.push(format!("the handle of `{path}` has status {status}"))
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(problems)
    }
}

fn read_tree(
    client: &mut Client,
    handle: Handle,
    path: String,
    found: &mut BTreeMap<String, Found>,
) -> Result<(), Failure> {
    let attributes = client.attributes(&handle)?;
    let mut bytes = Vec::new();
    match attributes.kind {
        REGULAR => bytes = read_file(client, &handle)?,
        SYMLINK => bytes = client.read_link(&handle)?.into_bytes(),
        DIRECTORY => {
            for name in client.list(&handle)? {
                let child = client.lookup(&handle, &name)?;
                let below = if path.is_empty() { name } else { format!("{path}/{name}") };
                read_tree(client, child, below, found)?;
            }
        }
        _ => {}
    }
    found.insert(path, Found { handle, attributes, bytes });
    Ok(())
}

fn read_file(client: &mut Client, handle: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    loop {
        let (data, end) = client.read(handle, bytes.len() as u64, READ_SIZE)?;
        if data.is_empty() && !end {
            return Err(Failure::Malformed("a READ that neither ends nor goes on"));
        }
        bytes.extend(data);
        if end {
            return Ok(bytes);
        }
    }
}

fn compare(tree: &Tree, path: &str, found: &Found) -> Result<(), String> {
    let inode = tree.inode(path);
    let expected = match &inode.kind {
        Kind::File(_) => REGULAR,
        Kind::Directory => DIRECTORY,
        Kind::Symlink(_) => SYMLINK,
    };
    let attributes = &found.attributes;
    if attributes.kind != expected {
        return Err(format!("has type {}, expected {expected}", attributes.kind));
    }
    if let Some(mode) = inode.mode.filter(|mode| attributes.mode & 0o7777 != *mode) {
        return Err(format!("has mode {:o}, expected {mode:o}", attributes.mode));
    }
    if let Some(mtime) = inode.mtime.filter(|mtime| attributes.mtime != *mtime) {
        return Err(format!("was modified at {:?}, expected {mtime:?}", attributes.mtime));
    }
    let links = tree.names.values().filter(|&&other| other == tree.names[path]).count();
    if inode.kind != Kind::Directory && attributes.links as usize != links {
        return Err(format!("has {} links, expected {links}", attributes.links));
    }
    match &inode.kind {
        Kind::File(content) => {
            if attributes.size != found.bytes.len() as u64 {
                return Err(format!(
                    "has size {}, but {} bytes were read",
                    attributes.size,
                    found.bytes.len()
                ));
            }
            content.compare(&found.bytes)
        }
        Kind::Symlink(target) if found.bytes != target.as_bytes() => Err("leads elsewhere".into()),
        Kind::Symlink(_) | Kind::Directory => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::How;
    use super::super::model::{Operation, SLOT, fill};
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::new(Some(vec![0]));
        let file = Operation::Create { path: "f".into(), how: How::Guarded(0o640) };
        tree.acknowledge(&file, Some(vec![1]));
        tree.acknowledge(&Operation::Link { from: "f".into(), to: "g".into() }, None);
        let write = Operation::Write {
            path: "g".into(),
            slot: 0,
            tags: vec![3],
            stable: super::super::client::Stable::FileSync,
        };
        tree.acknowledge(&write, None);
        tree
    }

    fn snapshot() -> Snapshot {
        let file =
            Attributes { kind: REGULAR, mode: 0o640, links: 2, size: SLOT as u64, fileid: 9, mtime: (0, 0) };
        let root = Attributes { kind: DIRECTORY, mode: 0o755, links: 2, size: 64, fileid: 1, mtime: (0, 0) };
        let entry =
            |attributes: &Attributes, bytes| Found { handle: vec![], attributes: attributes.clone(), bytes };
        Snapshot(BTreeMap::from([
            (String::new(), entry(&root, vec![])),
            ("f".into(), entry(&file, fill(3))),
            ("g".into(), entry(&file, fill(3))),
        ]))
    }

    #[test]
    fn existing_acknowledged_operations_are_no_problem() {
        assert_eq!(snapshot().problems(&tree()), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_loss_is_found() {
        type Lose = fn(&mut Snapshot);
        let losses: [(&str, Lose); 7] = [
            ("`g` is missing", |found| drop(found.0.remove("g"))),
            ("`h` is there", |found| {
                let extra = found.0.remove("f").unwrap();
                found.0.insert("h".into(), extra);
            }),
            ("has mode", |found| found.0.get_mut("f").unwrap().attributes.mode = 0o600),
            ("has 1 links", |found| found.0.get_mut("f").unwrap().attributes.links = 1),
            ("no longer the same file", |found| found.0.get_mut("g").unwrap().attributes.fileid = 10),
            ("holds zeros", |found| found.0.get_mut("g").unwrap().bytes = fill(0)),
            ("has type", |found| found.0.get_mut("g").unwrap().attributes.kind = SYMLINK),
        ];
        for (problem, lose) in losses {
            let mut found = snapshot();
            lose(&mut found);
            let problems = found.problems(&tree()).join("\n");
            assert!(problems.contains(problem), "expected {problem}, got: {problems}");
        }
    }
}
