//! The root directory in which Ceph and the programs that use its libraries run: that of this machine, or one with another
//! release of Debian, in a mount namespace of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::ensure;

use crate::debian::{self, Cache, Suite};
use crate::process::{self, Process, text};

/// Ceph, the headers and the compiler for the comparison of declarations, and what runs beside it.
const PACKAGES: &str =
    "ceph-mon,ceph-mgr,ceph-osd,ceph-mds,ceph-common,libcephfs-dev,librados-dev,gcc,libc6-dev,libfaketime";
/// Parts that no test reads.
const SUPERFLUOUS: [&str; 5] =
    ["var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"];
/// Incremented by hand when the steps below change.
const RECIPE_VERSION: u64 = 1;

/// Changes the root of its mount namespace to the first argument, and mounts the others there at their own paths. After the
/// change nothing of the former root is mounted, so that other tests can unmount their file systems meanwhile.
const ENTER: &str = r#"
set -e
root=$1
shift
mount --bind "$root" "$root"
for path in /tmp /run; do
    mount -t tmpfs none "$root$path"
done
for path in /proc /dev /sys "$@"; do
    if [ -d "$path" ]; then
        mkdir -p "$root$path"
    elif [ ! -e "$root$path" ]; then
        mkdir -p "$(dirname "$root$path")"
        touch "$root$path"
    fi
    mount --bind "$path" "$root$path"
done
mount -o remount,bind,ro "$root"
cd "$root"
pivot_root . mnt
umount -l /mnt
echo ready
exec sleep infinity
"#;

/// A root directory. Its mounts last as long as this value and the processes in it.
pub(super) struct Root {
    /// The first process of the namespace; `None` for the root of this machine.
    first: Option<Process>,
}

impl Root {
    pub(super) fn of_machine() -> Self {
        Self { first: None }
    }

    /// Enters a root that [`build`] made. These paths exist in it too.
    pub(super) fn enter(root: &Path, shared: &[PathBuf]) -> anyhow::Result<Self> {
        let mut argv =
            ["unshare", "--mount", "sh", "-c", ENTER, "sh", text(root)?].map(String::from).to_vec();
        for path in shared {
            argv.push(text(path)?.to_owned());
        }
        let mut first = Process::start(&argv, Stdio::piped(), Stdio::inherit())?;
        let mut said = String::new();
        BufReader::new(first.stdout()?).read_line(&mut said)?;
        ensure!(said == "ready\n", "cannot enter {}", root.display());
        Ok(Self { first: Some(first) })
    }

    /// The words before a command that is to run in this root. Its working directory is `/`.
    pub(super) fn prefix(&self) -> Vec<String> {
        self.first
            .iter()
            .flat_map(|first| ["nsenter".to_owned(), format!("--mount=/proc/{}/ns/mnt", first.id())])
            .collect()
    }

    /// A command that runs in this root.
    pub(super) fn command(&self, words: &[&str]) -> Vec<String> {
        let mut argv = self.prefix();
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        argv
    }
}

/// The root directory with Ceph of this release, made if it is missing.
pub(super) fn build(suite: Suite) -> anyhow::Result<PathBuf> {
    let (home, name) = (process::target_dir().join("ceph"), format!("root-{}", suite.name()));
    let key = debian::key(RECIPE_VERSION, [PACKAGES].into_iter().chain(SUPERFLUOUS));
    let log = home.join(format!("{name}.log"));
    Cache { home: &home, name: &name, key }.directory(|root| {
        eprintln!("ceph: making a root directory with {}, log in {}", suite.name(), log.display());
        drop(fs::remove_file(&log));
        debian::bootstrap(suite, PACKAGES, root, &log)?;
        debian::remove_parts(root, SUPERFLUOUS)
    })
}
