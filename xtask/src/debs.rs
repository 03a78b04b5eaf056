//! Debian packages that are unpacked below `target` and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::debian::{self, Suite};
use crate::process::{self, text};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const DOWNLOAD_MAX: Duration = Duration::from_secs(600);

pub(crate) struct Debs {
    pub(crate) name: &'static str,
    /// The suites to search; the packages come from the last one.
    pub(crate) suites: &'static [&'static str],
    /// Whether nothing of this machine is used with them, so that all their dependencies are unpacked too.
    pub(crate) with_all_dependencies: bool,
    pub(crate) packages: &'static [&'static str],
}

impl Debs {
    /// Returns the directory of the unpacked packages.
    pub(crate) fn unpack(&self) -> anyhow::Result<PathBuf> {
        let home = process::target_dir().join(self.name);
        let (root, done) = (home.join("root"), home.join("unpacked"));
        if !done.exists() {
            process::empty_dir(&home)?;
            self.download(&home)?;
            for package in fs::read_dir(home.join("cache/archives"))? {
                let package = package?.path();
                if package.extension().is_some_and(|extension| extension == "deb") {
                    let argv = ["dpkg-deb", "-x", text(&package)?, text(&root)?];
                    process::run(&argv, &home.join("log"), DOWNLOAD_MAX)?;
                }
            }
            fs::write(&done, "")?;
        }
        Ok(root)
    }

    /// Uses an apt with its own lists and cache.
    fn download(&self, home: &Path) -> anyhow::Result<()> {
        for directory in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(home.join(directory))?;
        }
        let (mirror, last) = (debian::mirror(Suite::Bookworm)?, self.suites.last().context("no suite")?);
        let sources = home.join("sources.list");
        let source = |suite| format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
        fs::write(&sources, self.suites.iter().map(source).collect::<String>())?;
        let mut options = vec![
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={}", home.join("lists").display()),
            format!("Dir::Cache={}", home.join("cache").display()),
        ];
        if self.with_all_dependencies {
            let installed = home.join("installed");
            fs::write(&installed, "")?;
            options.push(format!("Dir::State::status={}", installed.display()));
        }
        let options: Vec<&str> = options.iter().flat_map(|option| ["-o", option]).collect();
        let apt = |arguments: &[&str]| {
            let argv = [&["apt-get", "-y"], options.as_slice(), arguments].concat();
            process::run(&argv, &home.join("log"), DOWNLOAD_MAX)
        };
        apt(&["update"])?;
        let install = ["-t", last, "--no-install-recommends", "--download-only", "install"];
        apt(&[install.as_slice(), self.packages].concat())
    }
}
