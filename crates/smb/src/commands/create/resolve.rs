//! From a path to a file: name by name, as it is spelled, and where that is not there without case, unless Unix asks.

use crate::metadata::names::Naming;
use crate::metadata::names::locks::NameLock;
use crate::request::context::Stop;
use crate::request::path_lookup::{Trail, find, lock_name, on_the_way};
use crate::state::open::Place;
use crate::state::service::Service;
use crate::state::tree::Disk;
use std::sync::Arc;
use vfs::{Attrs, Blocking, File, FsError, Resolved};

/// What a path leads to.
pub(super) enum Target<'l> {
    Found {
        place: Place,
        file: File,
        attrs: Attrs,
    },
    /// Nothing has the last name, and nothing gets it as long as it is locked; all others are there.
    Missing(Place, Option<NameLock<'l>>),
}

/// Follows a path from the root of a share. With `making`, the last name is made if nothing has it.
pub(super) fn walk<'l>(
    disk: &Arc<Disk>,
    path: &[Vec<u8>],
    naming: Naming,
    trail: &mut Trail,
    making: Option<&'l Service>,
) -> Result<Target<'l>, Stop> {
    let Some((last, dirs)) = path.split_last() else {
        let root = disk.export.root();
        let attrs = root.attrs(Blocking::Allowed)?;
        return Ok(Target::Found {
            place: Place { entry: None, path: Vec::new(), stream: None },
            file: root,
            attrs,
        });
    };
    let (dir, mut found_path) = trail.descend(disk, dirs, naming)?;
    let lock = making.and_then(|service| lock_name(service, (&dir.file, last), naming));
    match find(&dir, &disk.caller, last, naming) {
        Ok((name, Resolved { file, attrs })) => {
            found_path.push(name.clone());
            let place = Place { entry: Some((dir.file, name)), path: found_path, stream: None };
            Ok(Target::Found { place, file, attrs })
        }
        Err(FsError::NotFound) => {
            found_path.push(last.clone());
            let entry = Some((dir.file, last.clone()));
            Ok(Target::Missing(Place { entry, path: found_path, stream: None }, lock))
        }
        Err(error) => Err(on_the_way(error)),
    }
}
