//! Whole trees as text, to compare them before and after.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use vfs::backend::{Blocking, NodeRef};
use vfs::{FileType, Name, XattrName};

/// More than a file of a test has.
const READ_BYTES_MAX: usize = 1 << 20;

/// Attributes, data and extended attributes of everything below a directory, by path.
///
/// # Panics
///
/// If anything cannot be read.
#[must_use]
pub fn described(root: &NodeRef) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    describe(root, String::new(), &mut all);
    all
}

fn describe(node: &NodeRef, path: String, all: &mut BTreeMap<String, String>) {
    let attrs = node.attrs(Blocking::Allowed).expect("attributes");
    let content = match attrs.file_type {
        FileType::Regular => {
            let mut data = Vec::new();
            node.read(0, READ_BYTES_MAX, &mut data, Blocking::Allowed).expect("data");
            data
        }
        FileType::Symlink => node.read_link().expect("a target"),
        _ => Vec::new(),
    };
    for name in names(node, attrs.file_type) {
        // The directory of streams is one of the tree, and clients cannot name it.
        let is_streams = name == Name::STREAMS.bytes();
        let entry = if is_streams { Name::STREAMS } else { Name::new(&name).expect("a name") };
        let child = node.lookup(entry, Blocking::Allowed).expect("an entry");
        describe(&child.node, format!("{path}/{}", name.escape_ascii()), all);
    }
    let xattrs = xattrs(node, attrs.file_type);
    all.insert(path, format!("{attrs:?} {xattrs:?} {}", content.escape_ascii()));
}

fn names(node: &NodeRef, file_type: FileType) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    if file_type == FileType::Directory {
        let listed = node.read_dir(0, false, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                names.push(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        });
        assert_eq!(listed, Ok(true), "a whole listing");
    }
    names
}

fn xattrs(node: &NodeRef, file_type: FileType) -> BTreeMap<String, String> {
    let mut names = Vec::new();
    let Some(xattrs) = node.xattrs().filter(|_| matches!(file_type, FileType::Regular | FileType::Directory))
    else {
        return BTreeMap::new();
    };
    let listed = xattrs.list(0, &mut |name, _| {
        names.push(name.bytes().to_vec());
        ControlFlow::Continue(())
    });
    assert_eq!(listed, Ok(true), "a whole listing");
    let value = |name: Vec<u8>| {
        let value = xattrs.get(XattrName::new(&name).expect("a name")).expect("a value");
        (name.escape_ascii().to_string(), value.escape_ascii().to_string())
    };
    names.into_iter().map(value).collect()
}
