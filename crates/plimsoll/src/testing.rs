//! Directories for unit tests.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use tempfile::{Builder, TempDir};

/// A directory of the test's own. Another test may have set the umask of the process to 0, and no state is kept where others may write.
pub(crate) fn private_dir() -> TempDir {
    Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
}
