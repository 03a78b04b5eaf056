//! A tree as text, to compare two of them whole.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use vfs::volume::streams;
use vfs::{Attrs, Backend, Blocking, ExtraAttrs, FileKey, FileType, Name, NodeRef, XattrName};

/// Everything of a tree that replication must preserve, by path.
pub(crate) fn describe(backend: &dyn Backend) -> BTreeMap<String, String> {
    let (mut seen, mut tree) = (HashMap::new(), BTreeMap::new());
    let root = backend.root();
    let mut open = vec![(String::from("/"), root.clone())];
    while let Some((path, dir)) = open.pop() {
        tree.insert(path.clone(), describe_file(&root, &dir, &path, &mut seen));
        for name in names(&dir) {
            let Ok(checked) = Name::new(&name) else { continue };
            let node = dir.lookup(checked, Blocking::Allowed).unwrap().node;
            let path = format!("{path}{}/", name.escape_ascii());
            if node.attrs(Blocking::Allowed).unwrap().file_type == FileType::Directory {
                open.push((path, node));
            } else {
                let text = describe_file(&root, &node, &path, &mut seen);
                tree.insert(path, text);
            }
        }
    }
    // Nothing of a transfer stays behind.
    let hidden = streams::tree_of(&root)
        .unwrap()
        .and_then(|tree| tree.lookup(Name::new(b"replication").unwrap(), Blocking::Allowed).ok());
    if let Some(staging) = hidden {
        assert_eq!(names(&staging.node), Vec::<Vec<u8>>::new());
    }
    tree
}

pub(crate) fn names(dir: &NodeRef) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    dir.read_dir(0, false, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    names.sort();
    names
}

fn describe_file(root: &NodeRef, node: &NodeRef, path: &str, seen: &mut HashMap<FileKey, String>) -> String {
    let attrs = node.attrs(Blocking::Allowed).unwrap();
    let is_dir = attrs.file_type == FileType::Directory;
    if attrs.links > 1 && !is_dir {
        if let Some(first) = seen.get(&node.key()) {
            return format!("the same as {first}");
        }
        seen.insert(node.key(), path.to_owned());
    }
    let Attrs { file_type, mode, uid, gid, device, modified, .. } = attrs;
    let links = if is_dir { 0 } else { attrs.links };
    let size = if is_dir { 0 } else { attrs.size };
    let target = if file_type == FileType::Symlink { node.read_link().unwrap() } else { Vec::new() };
    let mode = if file_type == FileType::Symlink { 0 } else { mode };
    let mut text = format!(
        "{file_type:?} {mode:o} {links} {uid} {gid} {size} {device:?} {modified:?} {}",
        target.escape_ascii()
    );
    if matches!(file_type, FileType::Regular | FileType::Directory) {
        text += &describe_xattrs(node, &attrs);
        text += &describe_streams(root, node);
    }
    if let Some(acls) = node.acls().filter(|_| file_type != FileType::Symlink) {
        let access = acls.access_acl(&attrs, Blocking::Allowed).unwrap();
        text += &format!(" {:?}", access.map(|acl| acl.with_mode(mode)));
        if is_dir {
            text += &format!(" {:?}", acls.default_acl().unwrap());
        }
    }
    if file_type == FileType::Regular {
        text += &format!(" {}", content(node, attrs.size));
    }
    text
}

fn describe_xattrs(node: &NodeRef, attrs: &Attrs) -> String {
    let Some(xattrs) = node.xattrs() else { return String::new() };
    let mut all = BTreeMap::new();
    xattrs
        .list(0, &mut |name, _| {
            all.insert(name.bytes().to_vec(), Vec::new());
            ControlFlow::Continue(())
        })
        .unwrap();
    for (name, value) in &mut all {
        *value = xattrs.get(XattrName::new(name).unwrap()).unwrap();
    }
    let acl = xattrs.get(XattrName::ACL).ok();
    let extra =
        xattrs.get(XattrName::EXTRA_ATTRS).map(|record| ExtraAttrs::decode(&record)).unwrap_or_default();
    let all: Vec<_> =
        all.iter().map(|(name, value)| (name.escape_ascii().to_string(), blake3::hash(value))).collect();
    format!(" {all:?} {acl:?} {:?} {:?}", extra.flags, extra.born(attrs))
}

fn describe_streams(root: &NodeRef, node: &NodeRef) -> String {
    let Some(tree) = streams::tree_of(root).unwrap() else { return String::new() };
    let name = streams::dir_name(&node.key());
    let Ok(dir) = tree.lookup(Name::new(name.as_bytes()).unwrap(), Blocking::Allowed) else {
        return String::new();
    };
    names(&dir.node)
        .iter()
        .map(|name| {
            let stream = dir.node.lookup(Name::new(name).unwrap(), Blocking::Allowed).unwrap();
            let Attrs { size, modified, .. } = stream.attrs;
            format!(" {} {size} {modified:?} {}", name.escape_ascii(), content(&stream.node, size))
        })
        .collect()
}

/// A hash of the data that are not zeros, and of their places.
fn content(node: &NodeRef, size: u64) -> String {
    const STEP: usize = 64 << 10;
    let mut hasher = blake3::Hasher::new();
    let mut offset = 0;
    while offset < size {
        let data = match node.ranges() {
            Some(ranges) => ranges.seek(offset, vfs::Seek::Data).unwrap(),
            None => Some(offset),
        };
        let Some(start) = data else { break };
        let start = start / STEP as u64 * STEP as u64;
        let mut bytes = Vec::new();
        node.read(start, STEP, &mut bytes, Blocking::Allowed).unwrap();
        bytes.resize(STEP, 0);
        if bytes.iter().any(|&byte| byte != 0) {
            hasher.update(&start.to_be_bytes());
            hasher.update(&bytes);
        }
        offset = start + STEP as u64;
    }
    hasher.finalize().to_hex()[..16].to_owned()
}
