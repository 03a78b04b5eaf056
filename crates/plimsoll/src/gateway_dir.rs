//! The data directory of a gateway.

use std::path::{Path, PathBuf};

pub(crate) const KEY_FILE: &str = "cluster.key";

/// The directory with the data directories of endpoints.
pub(crate) fn endpoints_dir(data: &Path) -> PathBuf {
    data.join("endpoints")
}

/// The directories of endpoints that this machine has served; `None` if `data` is not the directory of a gateway.
pub(crate) fn endpoint_dirs(data: &Path) -> Option<Vec<PathBuf>> {
    if !data.join(KEY_FILE).exists() {
        return None;
    }
    let entries = std::fs::read_dir(endpoints_dir(data)).into_iter().flatten().flatten();
    let mut dirs: Vec<_> = entries.map(|entry| entry.path()).collect();
    dirs.sort_unstable();
    Some(dirs)
}
