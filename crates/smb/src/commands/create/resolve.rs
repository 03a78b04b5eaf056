//! Resolves a path to a file, name by name: in its exact spelling, then, except for POSIX opens, ignoring case.

use crate::metadata::names::Naming;
use crate::metadata::names::locks::NameLock;
use crate::request::outcome::CommandError;
use crate::request::path_lookup::{PathCache, find_name, lock_name, path_error, root};
use crate::state::open::EntryPath;
use crate::state::service::Service;
use crate::state::tree::DiskShare;
use std::sync::Arc;
use vfs::{Attrs, Blocking, File, FsError, Resolved, ViewId};

pub(super) enum PathTarget<'l> {
    Found {
        entry_path: EntryPath,
        file: File,
        attrs: Attrs,
    },
    /// Only the last name is missing. The lock prevents its concurrent creation.
    Missing(EntryPath, Option<NameLock<'l>>),
}

/// Follows a path from the root of a share in `view`. With `making`, locks a missing last name for creation.
pub(super) fn resolve_path<'l>(
    disk: &Arc<DiskShare>,
    view: ViewId,
    path: &[Vec<u8>],
    naming: Naming,
    path_cache: &mut PathCache,
    making: Option<&'l Service>,
) -> Result<PathTarget<'l>, CommandError> {
    let Some((last, dirs)) = path.split_last() else {
        let root = root(disk, view)?;
        let attrs = root.attrs(Blocking::Allowed)?;
        return Ok(PathTarget::Found {
            entry_path: EntryPath { entry: None, path: Vec::new(), stream: None },
            file: root,
            attrs,
        });
    };
    let (dir, mut found_path) = path_cache.resolve_dir(disk, view, dirs, naming)?;
    let lock = making.and_then(|service| lock_name(service, &dir.file, last, naming));
    match find_name(&dir, &disk.caller, last, naming) {
        Ok((name, Resolved { file, attrs })) => {
            found_path.push(name.clone());
            let entry_path = EntryPath { entry: Some((dir.file, name)), path: found_path, stream: None };
            Ok(PathTarget::Found { entry_path, file, attrs })
        }
        Err(FsError::NotFound) => {
            found_path.push(last.clone());
            let entry = Some((dir.file, last.clone()));
            Ok(PathTarget::Missing(EntryPath { entry, path: found_path, stream: None }, lock))
        }
        Err(error) => Err(path_error(error)),
    }
}
