//! A state directory for a test.

use crate::StableDir;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory of one test, removed when dropped.
pub struct TestDir(PathBuf);

impl TestDir {
    #[expect(
        clippy::new_without_default,
        clippy::unwrap_used,
        reason = "it makes a directory, for tests alone"
    )]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("plimsoll-stable-{}-{number}", std::process::id()));
        crate::files::make_dir(&dir, crate::files::PRIVATE_DIR).unwrap();
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    #[expect(clippy::unwrap_used, reason = "it is for tests alone")]
    pub fn open(&self) -> Arc<StableDir> {
        Arc::new(StableDir::open(&self.0).unwrap())
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
