//! The configuration that `plimsoll setup` writes.

use super::questions::{Answers, Service};
use crate::certificates::ServerFiles;
use crate::config::Config;
use crate::state;
use anyhow::{Context, bail};
use stable::files;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The start of each file. The checksum tells whether somebody has edited the file.
const MARK: &str = "# Written by \"plimsoll setup\". Checksum of the lines below: ";
/// The configuration in the package.
const PACKAGED: &str = include_str!("../../../../packaging/plimsoll.toml");

const NFS_PORT: u16 = 2049;
const SMB_PORT: u16 = 445;

/// Refuses a file that an administrator has written.
pub(super) fn check_replaceable(path: &Path, force: bool) -> anyhow::Result<()> {
    let shown = path.display();
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
        Ok(text) if force || is_own(&text) || text == PACKAGED => Ok(()),
        Ok(_) => bail!(
            "nothing was changed: {shown} has settings that this command has not written. Edit it, or use --force to replace it"
        ),
    }
}

/// Whether setup has written the text, and nobody has edited it.
fn is_own(text: &str) -> bool {
    let parts = text.strip_prefix(MARK).and_then(|text| text.split_once('\n'));
    parts.is_some_and(|(sum, below)| sum == checksum(below))
}

fn checksum(text: &str) -> String {
    format!("{:08x}", u32::from_le_bytes(stable::checksum(text.as_bytes())))
}

pub(super) fn text(
    answers: &Answers,
    tls: Option<&ServerFiles>,
    data: Option<&Path>,
) -> anyhow::Result<String> {
    let serves = |service| answers.services.contains(&service);
    let mut text = "# It replaces this file when it runs again, and keeps a copy; once you have edited the file, only with \
                    --force.\n# /usr/share/doc/plimsoll/docs/reference/configuration.md describes the settings.\n"
        .to_owned();
    if let Some(data) = data.filter(|data| *data != state::default_dir()) {
        text += &format!("data = {}\n", quoted(&std::path::absolute(data)?)?);
    }
    let address = if serves(Service::Nfs) { answers.address } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
    text += "\n[nfs]\n";
    if !serves(Service::Nfs) {
        text += "# For this machine only: NFS was not chosen.\n";
    }
    text += &format!("listen = \"{}\"\n", SocketAddr::new(address, NFS_PORT));
    if let Some(files) = tls {
        text += "\n[nfs.tls]\nmode = \"allow\"\n";
        text += &format!("certificate = {}\nkey = {}\n", quoted(&files.certificate)?, quoted(&files.key)?);
        if let Some(authority) = &files.authority {
            text += &format!("client_ca = {}\n", quoted(authority)?);
        }
    }
    if serves(Service::Smb) {
        text += &format!("\n[smb]\nlisten = \"{}\"\n", SocketAddr::new(answers.address, SMB_PORT));
    }
    Ok(format!("{MARK}{}\n{text}", checksum(&text)))
}

fn quoted(path: &Path) -> anyhow::Result<String> {
    let path = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(toml::Value::from(path).to_string())
}

/// Checks a configuration as `plimsoll serve` does.
pub(super) fn check(text: &str, path: &Path) -> anyhow::Result<Config> {
    let config = Config::parse(text.as_bytes(), path)?;
    config.check()?;
    Ok(config)
}

/// Writes the file; returns the copy of the earlier one. The file keeps its mode.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<Option<PathBuf>> {
    let doing = || format!("cannot write {}", path.display());
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    files::make_dirs(directory, files::PUBLIC_DIR).with_context(doing)?;
    let (backup, mode) = match fs::read(path) {
        Ok(earlier) if earlier == text.as_bytes() => return Ok(None),
        Ok(_) => {
            let mode = fs::metadata(path).with_context(doing)?.permissions().mode() & 0o777;
            (Some(keep(path)?), mode)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => (None, files::PUBLIC),
        Err(error) => return Err(error).with_context(doing),
    };
    files::replace(path, &beside(path, ".new"), mode, &[text.as_bytes()]).with_context(doing)?;
    Ok(backup)
}

/// Keeps the file under the next name that is free.
fn keep(path: &Path) -> anyhow::Result<PathBuf> {
    let mut number = 1;
    loop {
        let backup = beside(path, &format!(".backup-{number}"));
        match fs::hard_link(path, &backup) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            linked => {
                return linked
                    .map(|()| backup)
                    .with_context(|| format!("cannot keep a copy of {}", path.display()));
            }
        }
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
