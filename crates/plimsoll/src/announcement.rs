//! Where a running service is: told in the data directory, for the commands (`docs/formats/data-directory.md`).

use crate::shell::quoted;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use vfs::Durability;

/// The file in the data directory.
const FILE: &str = "service.json";

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// The API.
    pub(crate) api: String,
    /// NFS.
    pub(crate) nfs: Mounting,
}

/// How a service's exports are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mounting {
    /// Where NFS and MOUNT are served.
    pub(crate) address: SocketAddr,
    /// Whether clients find the port by themselves.
    pub(crate) is_announced: bool,
}

impl Announcement {
    /// Tells it in the data directory.
    pub(crate) fn write(&self, data: &Path) -> anyhow::Result<()> {
        let (path, draft) = (data.join(FILE), data.join(format!("{FILE}.new")));
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&draft, &text)
            .and_then(|()| fs::rename(&draft, &path))
            .or_else(|error| {
                _ = fs::remove_file(&draft);
                // On a full disk what an earlier run told has room for what is told now.
                overwrite(&path, &text).map_err(|_| error)
            })
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// What the data directory tells; nothing if no service has run there or the last one has ended properly.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Option<Self>> {
        let path = Self::path(data);
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).with_context(|| format!("read {}", path.display()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Takes it back.
    pub(crate) fn remove(data: &Path) {
        let path = Self::path(data);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(%error, "cannot remove {}", path.display());
        }
    }

    /// Where it is told.
    pub(crate) fn path(data: &Path) -> PathBuf {
        data.join(FILE)
    }
}

/// Writes `text` over a file that is there, whose blocks are taken already.
fn overwrite(path: &Path, text: &str) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

impl Mounting {
    /// The command that mounts `path` from the service's own address.
    pub(crate) fn command(&self, path: &str, durability: Durability) -> String {
        self.command_at(self.address.ip(), path, durability)
    }

    /// The command that mounts `path` from an address of the service. The port mapper is at its own addresses alone.
    pub(crate) fn command_at(&self, address: IpAddr, path: &str, durability: Durability) -> String {
        let (own, port) = (self.address.ip(), self.address.port());
        let finds_port = self.is_announced && (own == address || own.is_unspecified());
        let ports = if finds_port { String::new() } else { format!(",port={port},mountport={port}") };
        let (host, path, relaxed) = (host(address), quoted(path), note(durability));
        format!("mount -t nfs -o vers=3,proto=tcp{ports},nolock {host}:{path} /mnt{relaxed}")
    }
}

/// An address as `mount` takes it.
pub(crate) fn host(address: IpAddr) -> String {
    match address {
        ip if ip.is_unspecified() => "HOST".into(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// What is to be said of the durability; nothing where it is as everybody expects.
pub(crate) fn note(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "",
        Durability::Relaxed => "   (durability: relaxed: a power cut loses the last seconds)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_read_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Announcement::read(dir.path()).unwrap(), None);
        let nfs = Mounting { address: "[::1]:2050".parse().unwrap(), is_announced: false };
        let told = Announcement { api: "http://127.0.0.1:1".into(), nfs };
        told.write(dir.path()).unwrap();
        assert_eq!(Announcement::read(dir.path()).unwrap(), Some(told));
        let command = nfs.command("/v1", Durability::Sync);
        assert_eq!(
            command,
            "mount -t nfs -o vers=3,proto=tcp,port=2050,mountport=2050,nolock [::1]:/v1 /mnt"
        );
        let announced = Mounting { address: "10.0.0.1:2049".parse().unwrap(), is_announced: true };
        let at = |address: &str| announced.command_at(address.parse().unwrap(), "/v1", Durability::Sync);
        assert_eq!(at("10.0.0.1"), "mount -t nfs -o vers=3,proto=tcp,nolock 10.0.0.1:/v1 /mnt");
        assert_eq!(
            at("10.0.0.2"),
            "mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,nolock 10.0.0.2:/v1 /mnt"
        );
        let odd = nfs.command("/it's;x", Durability::Sync);
        assert!(odd.ends_with(r"[::1]:'/it'\''s;x' /mnt"), "{odd}");
        Announcement::remove(dir.path());
        assert_eq!(Announcement::read(dir.path()).unwrap(), None);
        fs::write(Announcement::path(dir.path()), "{").unwrap();
        assert!(Announcement::read(dir.path()).is_err());
    }
}
