//! One connection, which blocks.

use super::key::{Identity, PublicKey};
use super::tls::client_config;
use crate::limits::{HANDSHAKE_S_MAX, SILENCE_S_MAX};
use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, CertificateError, ClientConnection, Connection as Session, Error as TlsError,
    ServerConfig, ServerConnection, Stream,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SILENCE: Duration = Duration::from_secs(SILENCE_S_MAX);

/// The time after which a connection that waits looks whether it has to end.
const LOOK: Duration = Duration::from_millis(500);

/// Whether a connection has to end, although the other side is silent.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// A connection with a peer that has proved its key.
pub struct Connection {
    socket: Socket,
    session: Session,
    peer: PublicKey,
}

/// Connects to a service at `HOST:PORT`, which must have this key.
pub fn connect(identity: &Identity, address: &str, server: PublicKey, stop: Stop) -> io::Result<Connection> {
    let config = Arc::new(client_config(identity, server)?);
    let mut last = io::Error::new(ErrorKind::NotFound, format!("{address} has no address"));
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(HANDSHAKE_S_MAX)) {
            Err(error) => last = error,
            Ok(stream) => {
                // Not sent: there are no names.
                let name = ServerName::from(stream.peer_addr()?.ip());
                let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
                return Connection::start(stream, session.into(), stop);
            }
        }
    }
    Err(last)
}

impl Connection {
    pub(super) fn accept(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        // The listener closes the socket.
        Self::start(stream, session.into(), Arc::new(|| false))
    }

    fn start(stream: TcpStream, mut session: Session, stop: Stop) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(Duration::from_secs(HANDSHAKE_S_MAX)))?;
        let deadline = Some(Instant::now() + Duration::from_secs(HANDSHAKE_S_MAX));
        stream.set_read_timeout(Some(LOOK))?;
        let mut socket = Socket { stream, deadline, stop };
        while session.is_handshaking() {
            let (read, written) = session.complete_io(&mut socket).map_err(in_words)?;
            if read + written == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let key = session.peer_certificates().and_then(|keys| PublicKey::of_spki(keys.first()?));
        let peer = key.ok_or_else(|| io::Error::other("the other side has no key"))?;
        socket.deadline = None;
        socket.stream.set_write_timeout(Some(SILENCE))?;
        Ok(Self { socket, session, peer })
    }

    pub fn peer(&self) -> PublicKey {
        self.peer
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let done = match &mut self.session {
            Session::Client(session) => Stream::new(session, &mut self.socket).read(into),
            Session::Server(session) => Stream::new(session, &mut self.socket).read(into),
        };
        done.map_err(in_words)
    }
}

impl Write for Connection {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let done = match &mut self.session {
            Session::Client(session) => Stream::new(session, &mut self.socket).write(from),
            Session::Server(session) => Stream::new(session, &mut self.socket).write(from),
        };
        done.map_err(in_words)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = match &mut self.session {
            Session::Client(session) => Stream::new(session, &mut self.socket).flush(),
            Session::Server(session) => Stream::new(session, &mut self.socket).flush(),
        };
        done.map_err(in_words)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.send_close_notify();
        // The other side sees the end in any case.
        _ = self.socket.stream.set_write_timeout(Some(Duration::from_millis(200)));
        _ = self.session.write_tls(&mut self.socket);
        _ = self.socket.stream.shutdown(std::net::Shutdown::Write);
    }
}

/// A socket whose reads end at a deadline, however few bytes come at a time; without one, after silence.
struct Socket {
    stream: TcpStream,
    deadline: Option<Instant>,
    stop: Stop,
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let until = self.deadline.unwrap_or_else(|| Instant::now() + SILENCE);
        loop {
            if (self.stop)() {
                return Err(io::Error::other("stopped"));
            }
            if Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            match self.stream.read(into) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                done => return done,
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// An error as an operator understands it.
fn in_words(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    let text = match (tls, error.kind()) {
        (Some(TlsError::InvalidCertificate(CertificateError::ApplicationVerificationFailure)), _) => {
            "the service there does not have the key that this one expects of it: compare the peer's key with \"plimsoll \
             peer key\" there"
        }
        (Some(TlsError::AlertReceived(AlertDescription::AccessDenied)), _) => {
            "the service there has no peer with this service's key: create one there, with the key that \"plimsoll peer \
             key\" shows here"
        }
        (Some(TlsError::AlertReceived(AlertDescription::NoApplicationProtocol)), _) => {
            "the service there does not serve replications at this address"
        }
        (Some(_), _) => return error,
        (None, ErrorKind::WouldBlock | ErrorKind::TimedOut) => "the other side was silent for too long",
        (None, ErrorKind::UnexpectedEof) => "the other side has closed the connection",
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}
