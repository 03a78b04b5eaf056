//! The addresses of a running service, in a file of the data directory for the commands (`docs/formats/data-
//! directory.md`).

use anyhow::Context;
use serde::{Deserialize, Serialize};
use stable::files;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The file in the data directory.
const FILE: &str = "service.json";

/// The addresses of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// The API.
    pub(crate) api: String,
    /// NFS and MOUNT.
    pub(crate) nfs: SocketAddr,
    /// Whether the API answers at the data directory's socket.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_socket: bool,
    /// SMB, if it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) smb: Option<SocketAddr>,
    /// The listener for peers, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replication: Option<SocketAddr>,
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NFS on {}, ", self.nfs)?;
        self.smb.iter().try_for_each(|smb| write!(f, "SMB on {smb}, "))?;
        write!(f, "API at {}", self.api)
    }
}

impl Announcement {
    /// Tells it in the data directory.
    pub(crate) fn write(&self, data: &Path) -> anyhow::Result<()> {
        let (path, draft) = (data.join(FILE), data.join(format!("{FILE}.new")));
        let text = serde_json::to_string_pretty(self)? + "\n";
        files::replace(&path, &draft, files::PUBLIC, &[text.as_bytes()])
            .or_else(|error| {
                // On a full disk the file of an earlier run has room for the new text.
                overwrite(&path, &text).map_err(|_| error)
            })
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the announcement in a data directory. None if no service has run there, or the last one has ended cleanly. A
    /// file that another user may have written is an error: it could send the API token elsewhere.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Option<Self>> {
        let path = Self::path(data);
        match files::read_trusted(&path) {
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

    /// The path of the announcement.
    pub(crate) fn path(data: &Path) -> PathBuf {
        data.join(FILE)
    }
}

/// Writes `text` over a file that is there, whose blocks are taken already.
fn overwrite(path: &Path, text: &str) -> std::io::Result<()> {
    let file = files::open_for_update(path)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcement_is_read_until_it_is_removed() {
        let dir = crate::testing::private_dir();
        assert_eq!(Announcement::read(dir.path()).unwrap(), None);
        let announcement = Announcement {
            api: "http://127.0.0.1:1".into(),
            nfs: "[::1]:2050".parse().unwrap(),
            has_socket: true,
            smb: None,
            replication: None,
        };
        announcement.write(dir.path()).unwrap();
        assert_eq!(Announcement::read(dir.path()).unwrap(), Some(announcement));
        Announcement::remove(dir.path());
        assert_eq!(Announcement::read(dir.path()).unwrap(), None);
        fs::write(Announcement::path(dir.path()), "{").unwrap();
        assert!(Announcement::read(dir.path()).is_err());
    }
}
