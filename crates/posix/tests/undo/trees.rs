//! Whole trees, as copies to compare with.

use crate::ALLOWED;
use crate::fixture::name;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use vfs::{Attrs, FileKey, FileType, FsResult, NodeRef, Time, XattrName};

/// All that a snapshot shows of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) attrs: Attrs,
    pub(crate) key: FileKey,
    pub(crate) content: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

pub(crate) fn content(node: &NodeRef, attrs: &Attrs) -> FsResult<Vec<u8>> {
    match attrs.file_type {
        FileType::Regular => {
            let mut data = Vec::new();
            node.read(0, usize::try_from(attrs.size).unwrap(), &mut data, ALLOWED)?;
            Ok(data)
        }
        FileType::Symlink => node.read_link(),
        _ => Ok(Vec::new()),
    }
}

pub(crate) fn xattrs(node: &NodeRef, attrs: &Attrs) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    if let (FileType::Regular | FileType::Directory, Some(xattrs)) = (attrs.file_type, node.xattrs()) {
        let mut names = Vec::new();
        let listed = xattrs.list(0, &mut |name, _| {
            names.push(name.bytes().to_vec());
            ControlFlow::Continue(())
        });
        assert_eq!(listed, Ok(true));
        for name in names {
            let value = xattrs.get(XattrName::new(&name).unwrap()).unwrap();
            all.insert(name, value);
        }
    }
    all
}

/// Everything below a directory, by path.
pub(crate) fn walk(node: &NodeRef, path: &str, all: &mut BTreeMap<String, Seen>) {
    let attrs = node.attrs(ALLOWED).unwrap();
    let seen = Seen {
        // Reads move the access time, and storage in use is what records and files share.
        attrs: Attrs { accessed: Time::default(), used: 0, ..attrs },
        key: node.key(),
        content: content(node, &attrs).unwrap(),
        xattrs: xattrs(node, &attrs),
    };
    all.insert(path.to_owned(), seen);
    if attrs.file_type != FileType::Directory {
        return;
    }
    let (mut names, mut cookies) = (Vec::new(), Vec::new());
    let mut cookie = 0;
    loop {
        let mut count = 0;
        let at_end = node.read_dir(cookie, true, &mut |entry| {
            if count == 3 {
                return ControlFlow::Break(());
            }
            count += 1;
            cookie = entry.cookie;
            cookies.push(entry.cookie);
            if !matches!(entry.name, b"." | b"..") {
                names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.file_id));
            }
            ControlFlow::Continue(())
        });
        if at_end.unwrap() {
            break;
        }
    }
    cookies.sort_unstable();
    assert!(cookies.windows(2).all(|pair| pair[0] < pair[1]), "a cookie twice in {path}");
    for (entry, file_id) in names {
        let found =
            node.lookup(name(&entry), ALLOWED).unwrap_or_else(|error| panic!("{path}/{entry}: {error}"));
        assert_eq!(found.attrs.file_id, file_id, "{path}/{entry}");
        if found.attrs.file_type == FileType::Directory {
            assert_eq!(found.node.parent().unwrap().node.key(), node.key(), "the parent of {path}/{entry}");
        }
        walk(&found.node, &format!("{path}/{entry}"), all);
    }
}

pub(crate) fn tree(root: &NodeRef) -> BTreeMap<String, Seen> {
    let mut all = BTreeMap::new();
    walk(root, "", &mut all);
    all
}

#[track_caller]
pub(crate) fn assert_same(what: &str, got: &BTreeMap<String, Seen>, want: &BTreeMap<String, Seen>) {
    for (path, want) in want {
        let Some(got) = got.get(path) else { panic!("{what}: {path:?} is missing") };
        // The links of a directory follow its subdirectories; the counter of an unchanged file may rise with others'.
        let attrs = Attrs { change: want.attrs.change, ..got.attrs };
        assert_eq!((attrs, &got.key), (want.attrs, &want.key), "{what}: {path:?}");
        assert_eq!(got.xattrs, want.xattrs, "{what}: {path:?}");
        let differs = got.content.iter().zip(&want.content).position(|(a, b)| a != b);
        assert!(got.content == want.content, "{what}: {path:?} differs at {differs:?}");
    }
    let more: Vec<_> = got.keys().filter(|path| !want.contains_key(*path)).collect();
    assert!(more.is_empty(), "{what}: {more:?} should not be there");
}

/// A tree without what a file that is made anew has otherwise. After a revert, regular files are the same ones.
pub(crate) fn anew(tree: &BTreeMap<String, Seen>, is_revert: bool) -> BTreeMap<String, Seen> {
    let plain = |(path, seen): (&String, &Seen)| {
        let Seen { attrs, key, .. } = seen;
        let keeps_key = is_revert && attrs.file_type == FileType::Regular;
        let key = if keeps_key { *key } else { FileKey::new(b"any").unwrap() };
        let attrs = Attrs { changed: Time::default(), change: 0, born: None, file_id: 0, ..*attrs };
        (path.clone(), Seen { attrs, key, ..seen.clone() })
    };
    tree.iter().map(plain).collect()
}
