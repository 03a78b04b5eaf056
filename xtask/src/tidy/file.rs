//! The repository's files.

use std::collections::BTreeSet;
use std::path::Path;

use crate::process::output;

pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

/// Text files that are committed or untracked, but not ignored.
pub(super) fn files(root: &Path) -> anyhow::Result<Vec<File>> {
    // Git refuses a clone that belongs to another user.
    let listing =
        output(root, "git", &["-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"])?;
    let read = |path: &str| {
        let text = String::from_utf8(std::fs::read(root.join(path)).ok()?).ok()?;
        Some(File { path: path.to_owned(), text })
    };
    let listing = String::from_utf8(listing)?;
    let paths: BTreeSet<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
    Ok(paths.into_iter().filter_map(read).collect())
}
