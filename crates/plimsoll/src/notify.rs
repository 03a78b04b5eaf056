//! Messages to systemd about readiness and the end: sd_notify(3).

use anyhow::Context;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the address of the socket: a path, or an abstract name after `@`.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// The process that started this one and waits for messages, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Supervisor(Option<SocketAddr>);

impl Supervisor {
    pub(crate) fn from_env() -> Self {
        let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else {
            return Self::default();
        };
        Self::at(&name).unwrap_or_else(|error| {
            tracing::warn!("systemd will not see that this service is ready: {error:#}");
            Self::default()
        })
    }

    fn at(name: &OsStr) -> anyhow::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(name),
        };
        let address = address.with_context(|| format!("{VARIABLE} is {}", name.display()))?;
        Ok(Self(Some(address)))
    }

    /// Clients can connect. `status` is the line that `systemctl status` shows.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Finishing the calls in flight");
    }

    /// A failure is only logged: the service itself works.
    fn send(&self, message: &str) {
        let Some(address) = &self.0 else { return };
        let sent =
            UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(message.as_bytes(), address));
        if let Err(error) = sent {
            tracing::warn!(%error, "cannot send a message to systemd");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn received(socket: &UnixDatagram) -> String {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut message = [0; 1024];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    }

    #[test]
    fn readiness_and_end_arrive_at_both_kinds_of_sockets() {
        let dir = crate::testing::private_dir();
        let path = dir.path().join("notify");
        let name = format!("plimsoll-notify-{}", std::process::id());
        let named = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&named).unwrap(), format!("@{name}").into()),
        ] {
            let supervisor = Supervisor::at(&address).unwrap();
            supervisor.ready("NFS on 127.0.0.1:2049");
            assert_eq!(received(&socket), "READY=1\nSTATUS=NFS on 127.0.0.1:2049");
            supervisor.stopping();
            assert!(received(&socket).starts_with("STOPPING=1\nSTATUS="));
        }
    }

    #[test]
    fn address_that_is_too_long_is_an_error() {
        let long = format!("/{}", "x".repeat(200));
        let error = format!("{:#}", Supervisor::at(OsStr::new(&long)).unwrap_err());
        assert!(error.starts_with("NOTIFY_SOCKET is /xxx"), "{error}");
    }

    #[test]
    fn message_without_a_receiver_is_not_fatal() {
        Supervisor::at(OsStr::new("/nonexistent/notify")).unwrap().ready("");
        Supervisor::default().ready("");
    }
}
