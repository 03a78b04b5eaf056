//! The API's socket in the data directory, for the commands of the user who runs the service. They need neither the API's
//! public name nor its certificate.

use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

const FILE: &str = "api.sock";
const BACKLOG: i32 = 128;

/// A path of the socket, valid while this exists.
pub(crate) struct SocketPath {
    pub(crate) path: PathBuf,
    _dir: OwnedFd,
}

impl SocketPath {
    /// The address of a Unix socket has at most 107 bytes, so the path goes through a descriptor of the directory.
    pub(crate) fn in_dir(data: &Path) -> anyhow::Result<Self> {
        let dir = rustix::fs::open(data, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .with_context(|| format!("cannot open the directory {}", data.display()))?;
        Ok(Self { path: PathBuf::from(format!("/proc/self/fd/{}/{FILE}", dir.as_raw_fd())), _dir: dir })
    }
}

/// Listens in the data directory, where no other service runs.
pub(crate) fn listen(data: &Path) -> anyhow::Result<UnixListener> {
    let socket = SocketPath::in_dir(data)?;
    bind(&socket.path).with_context(|| format!("cannot listen at {}", data.join(FILE).display()))
}

fn bind(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // `bind` gives the file the socket's mode, so that no other user connects in between.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

pub(crate) fn remove(data: &Path) {
    if let Err(error) = std::fs::remove_file(data.join(FILE)) {
        tracing::warn!(%error, "cannot remove {}", data.join(FILE).display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn socket_is_private_and_replaces_one_of_an_earlier_run() {
        let dir = crate::testing::private_dir();
        let deep = dir.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        drop(listen(&deep).unwrap());
        let listener = listen(&deep).unwrap();
        let mode = std::fs::metadata(deep.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let _client = UnixStream::connect(SocketPath::in_dir(&deep).unwrap().path).unwrap();
        listener.accept().unwrap();
        remove(&deep);
        assert!(!deep.join(FILE).exists());
    }
}
