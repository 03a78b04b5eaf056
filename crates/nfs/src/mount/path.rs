//! The paths that clients mount.

use nfs_wire::mount::{PATH_MAX, Status};
use std::sync::Arc;
use vfs::{Export, Namespace};

/// Normalizes a path: no empty names, no `.`, no `..`, no trailing `/`. MNT and UMNT then match the same entry.
/// `..` removes a name and stays at the top. Symbolic links below an export are not followed, so a name's parent
/// is always the previous name.
pub(crate) fn normal(path: &[u8]) -> Result<Vec<u8>, Status> {
    if path.len() > PATH_MAX as usize {
        return Err(Status::NAMETOOLONG);
    }
    if !path.starts_with(b"/") {
        return Err(Status::NOENT);
    }
    let mut components = Vec::new();
    for name in names(path) {
        match name {
            b"." => {}
            // Stays at the top: no symbolic link is followed, so the parent is the previous name.
            b".." => drop(components.pop()),
            name => components.push(name),
        }
    }
    if components.is_empty() {
        return Ok(b"/".to_vec());
    }
    Ok(components.into_iter().flat_map(|name| [b"/", name]).flatten().copied().collect())
}

pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
}

/// The export at or above a normalized path, and the rest of the path. An export's path is text.
/// Names below it are bytes, so only the path before the first non-UTF-8 name is matched.
pub(crate) fn resolve<'n, 'p>(
    namespace: &'n Namespace,
    path: &'p [u8],
) -> Option<(&'n Arc<Export>, &'p [u8])> {
    let text = match std::str::from_utf8(path) {
        Ok(text) => text,
        Err(error) => {
            let (valid, _) = path.split_at(error.valid_up_to());
            let whole_names = valid.iter().rposition(|&byte| byte == b'/')?;
            std::str::from_utf8(&valid[..whole_names]).ok()?
        }
    };
    let (export, _) = namespace.resolve(text)?;
    Some((export, &path[export.path.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        let same = [
            ("/", "/"),
            ("//", "/"),
            ("/e", "/e"),
            ("/e/", "/e"),
            ("//e//a/", "/e/a"),
            ("/e/./a/.", "/e/a"),
            ("/e/a/../b", "/e/b"),
            ("/../../e", "/e"),
            ("/e/..", "/"),
            ("/e/...", "/e/..."),
        ];
        for (spelled, normal_form) in same {
            assert_eq!(normal(spelled.as_bytes()).as_deref(), Ok(normal_form.as_bytes()), "{spelled}");
        }
        assert_eq!(normal(b"e"), Err(Status::NOENT));
        assert_eq!(normal(b""), Err(Status::NOENT));
        let longest = [&b"/"[..], &[b'x'; PATH_MAX as usize - 1]].concat();
        assert!(normal(&longest).is_ok());
        assert_eq!(normal(&[longest, b"x".to_vec()].concat()), Err(Status::NAMETOOLONG));
    }
}
