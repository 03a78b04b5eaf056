//! An XFS file system in a file, for tests of features that this machine's other file systems lack, such as clones.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::process::{self, text};

/// The size of the file system. The file occupies only the used part.
const BYTES: u64 = 16 << 30;
const COMMAND_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Xfs {
    directory: PathBuf,
    log: PathBuf,
}

impl Xfs {
    /// Creates a file system in a new file beside `directory`, and mounts it there; needs root.
    pub(crate) fn mount(directory: &Path) -> anyhow::Result<Self> {
        let (image, log) = (directory.with_extension("xfs"), directory.with_extension("log"));
        File::create(&image).and_then(|file| file.set_len(BYTES)).context("cannot create an image")?;
        fs::create_dir_all(directory)?;
        let image = text(&image)?;
        process::run(&["mkfs.xfs", "-q", "-m", "reflink=1", image], &log, COMMAND_MAX)?;
        process::run(
            &["mount", "-t", "xfs", "-o", "loop,nodev,nosuid", image, text(directory)?],
            &log,
            COMMAND_MAX,
        )?;
        Ok(Self { directory: directory.to_owned(), log })
    }

    /// Unmounts a file system that a killed run has left at `directory`.
    pub(crate) fn clear(directory: &Path) -> anyhow::Result<()> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let directory = text(directory)?;
        if !mounts.lines().any(|line| line.split(' ').nth(1) == Some(directory)) {
            return Ok(());
        }
        let log = process::target_dir().join("unmount.log");
        process::run(&["umount", directory], &log, COMMAND_MAX)
    }
}

impl Drop for Xfs {
    fn drop(&mut self) {
        let unmounted = text(&self.directory)
            .and_then(|directory| process::run(&["umount", directory], &self.log, COMMAND_MAX));
        if let Err(error) = unmounted {
            eprintln!("{} stays mounted: {error:#}", self.directory.display());
        }
    }
}
