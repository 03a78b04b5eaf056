//! A file system in a file, for features that this machine's other file systems lack, such as clones.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::process::{self, text};

/// The size of the file system. The file occupies only the used part.
const BYTES: u64 = 32 << 30;
const COMMAND_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum FsKind {
    Xfs,
    Btrfs,
    Ext4,
    Tmpfs,
}

impl FsKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Ext4 => "ext4",
            Self::Tmpfs => "tmpfs",
        }
    }

    /// The command that makes one in a file. `None`: it needs no file.
    fn maker(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Xfs => Some(&["mkfs.xfs", "-q", "-m", "reflink=1"]),
            Self::Btrfs => Some(&["mkfs.btrfs", "-q"]),
            Self::Ext4 => Some(&["mkfs.ext4", "-q"]),
            Self::Tmpfs => None,
        }
    }
}

/// A mounted file system. The image is removed with its directory.
pub(crate) struct LoopFs {
    directory: PathBuf,
    log: PathBuf,
}

impl LoopFs {
    /// Creates a file system in a new file beside `directory`, and mounts it there; needs root.
    pub(crate) fn mount(kind: FsKind, directory: &Path) -> anyhow::Result<Self> {
        let (image, log) = (directory.with_extension(kind.name()), directory.with_extension("log"));
        fs::create_dir_all(directory)?;
        let at = text(directory)?;
        let Some(maker) = kind.maker() else {
            let size = format!("size={BYTES},nodev,nosuid");
            process::run(&["mount", "-t", kind.name(), "-o", &size, "tmpfs", at], &log, COMMAND_MAX)?;
            return Ok(Self { directory: directory.to_owned(), log });
        };
        File::create(&image).and_then(|file| file.set_len(BYTES)).context("cannot create an image")?;
        let image = text(&image)?;
        process::run(&[maker, &[image]].concat(), &log, COMMAND_MAX)?;
        process::run(&["mount", "-t", kind.name(), "-o", "loop,nodev,nosuid", image, at], &log, COMMAND_MAX)?;
        let mounted = Self { directory: directory.to_owned(), log };
        let device = find_device(directory)?.context("the image is not mounted")?;
        // Otherwise a flush waits for what the outer file system has in memory, from any image.
        process::run(&["losetup", "--direct-io=on", &device], &mounted.log, COMMAND_MAX)?;
        Ok(mounted)
    }

    /// Unmounts a file system that a killed run has left at `directory`.
    pub(crate) fn clear(directory: &Path) -> anyhow::Result<()> {
        if find_device(directory)?.is_none() {
            return Ok(());
        }
        let log = process::target_dir().join("unmount.log");
        process::run(&["umount", text(directory)?], &log, COMMAND_MAX)
    }
}

/// The device of the file system at `directory`; `None` if nothing is mounted there.
fn find_device(directory: &Path) -> anyhow::Result<Option<String>> {
    let (mounts, directory) = (fs::read_to_string("/proc/self/mounts")?, text(directory)?);
    let found =
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|line| line[1] == directory);
    Ok(found.map(|line| line[0].to_owned()))
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        let unmounted = text(&self.directory)
            .and_then(|directory| process::run(&["umount", directory], &self.log, COMMAND_MAX));
        if let Err(error) = unmounted {
            eprintln!("{} stays mounted: {error:#}", self.directory.display());
        }
    }
}
