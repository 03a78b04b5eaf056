//! TLS as a transform: version 1.3 alone, by rustls, without threads or sockets of its own.

pub(crate) mod handshake;
mod kernel_tls;
pub(crate) mod transform;

use crate::limits::HANDSHAKE_BYTES_MAX;
use crate::message::Malformed;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{
    NoServerSessionStorage, ServerConfig, ServerConnectionData, UnbufferedServerConnection,
    WebPkiClientVerifier,
};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, WriteTraffic};
use rustls::version::TLS13;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use transform::{KernelOffload, Plaintext, Transform};
use vfs::Protection;
use vfs::sync::RwLock;

/// What a server proves itself with, and by what it knows clients: texts in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// The certificate, and those that lead from it to its issuer.
    pub certificates: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
    /// The certificates of those who issue certificates to clients; `None`: no client is asked for one.
    pub client_issuers: Option<Vec<u8>>,
}

/// The server's side of TLS. What it proves itself with may be replaced while it is used.
pub struct Tls {
    config: RwLock<Arc<ServerConfig>>,
    protocol: Vec<u8>,
}

impl Tls {
    /// For a protocol by its name in ALPN (RFC 7301). Clients that name others and not this one are refused.
    pub fn new(pem: &Pem, protocol: &[u8]) -> io::Result<Self> {
        let config = RwLock::new(Arc::new(config(pem, protocol)?));
        Ok(Self { config, protocol: protocol.to_vec() })
    }

    /// Uses something else for handshakes from now on. After an error everything is as before.
    pub fn replace(&self, pem: &Pem) -> io::Result<()> {
        let config = Arc::new(config(pem, &self.protocol)?);
        *self.config.write() = config;
        Ok(())
    }

    /// The server's side of one connection, which begins with a handshake.
    pub fn accept(&self) -> io::Result<Box<dyn Transform>> {
        let config = Arc::clone(&self.config.read());
        let connection = UnbufferedServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnection { connection, handshake_bytes: 0, has_failed: false }))
    }
}

fn config(pem: &Pem, protocol: &[u8]) -> io::Result<ServerConfig> {
    let invalid = |what: &str, error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("the TLS {what}: {error}"))
    };
    let chain = |what: &str, text: &[u8]| {
        let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
        let found = found.map_err(|error| invalid(what, &error))?;
        if found.is_empty() { Err(invalid(what, &"no certificate is in it")) } else { Ok(found) }
    };
    let certificates = chain("certificate", &pem.certificates)?;
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|error| invalid("key", &error))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?;
    let builder = match &pem.client_issuers {
        None => builder.with_no_client_auth(),
        Some(text) => {
            let what = "certificate of clients' issuers";
            let mut issuers = RootCertStore::empty();
            for issuer in chain(what, text)? {
                issuers.add(issuer).map_err(|error| invalid(what, &error))?;
            }
            // Who needs one is for others to say.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(issuers), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| invalid(what, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| invalid("certificate and key", &error))?;
    config.alpn_protocols = vec![protocol.to_vec()];
    // A session that is resumed would outlive the certificates that it began with.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    // For the kernel, which does the rest where it can.
    config.enable_secret_extraction = true;
    Ok(config)
}

struct TlsConnection {
    connection: UnbufferedServerConnection,
    /// Bytes that the client has sent for the handshake.
    handshake_bytes: usize,
    /// Nothing more may pass.
    has_failed: bool,
}

/// Bytes of plain text in one record, and how much longer it is on the wire (RFC 8446 §5.1, §5.2).
const RECORD_BYTES: usize = 16 << 10;
/// See [`RECORD_BYTES`].
const RECORD_OVERHEAD: usize = 5 + 1 + 16;

impl Transform for TlsConnection {
    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Malformed> {
        // Data before the client's last message could go to somebody who never proves himself.
        if self.has_failed || self.connection.is_handshaking() {
            return Err(Malformed("a message before the end of the TLS handshake"));
        }
        let mut at = 0;
        loop {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => at += encode(data, wire, at)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => {}
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    at += encrypt(&mut traffic, plain, wire, at)?;
                    wire.truncate(at);
                    return Ok(());
                }
                Ok(_) | Err(_) => return Err(Malformed("TLS has ended")),
            }
        }
    }

    fn open(
        &mut self,
        wire: &mut [u8],
        plain: &mut [u8],
        answer: &mut Vec<u8>,
    ) -> Result<Plaintext, Malformed> {
        if self.has_failed {
            return Err(Malformed("TLS has failed"));
        }
        let was_handshaking = self.connection.is_handshaking();
        let opened = self.open_records(wire, plain, answer).inspect_err(|_| self.has_failed = true)?;
        if was_handshaking {
            self.handshake_bytes += opened.used;
            let is_long = self.handshake_bytes + wire.len() - opened.used > HANDSHAKE_BYTES_MAX;
            if self.connection.is_handshaking() && is_long {
                self.has_failed = true;
                return Err(Malformed("a TLS handshake above the limit"));
            }
        }
        Ok(opened)
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        if self.has_failed || self.connection.is_handshaking() {
            return;
        }
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) =
            self.connection.process_tls_records(&mut []).state
        {
            let mut alert = [0; 2 + RECORD_OVERHEAD];
            let len = traffic.queue_close_notify(&mut alert).unwrap_or(0);
            wire.extend_from_slice(&alert[..len]);
        }
    }

    fn protection(&self) -> Option<Protection> {
        let has_certificate = self.connection.peer_certificates().is_some_and(|chain| !chain.is_empty());
        let protection = if has_certificate { Protection::Verified } else { Protection::Encrypted };
        (!self.connection.is_handshaking() && !self.has_failed).then_some(protection)
    }

    fn offload_to_kernel(self: Box<Self>, socket: BorrowedFd<'_>) -> KernelOffload {
        if self.protection().is_none() || !kernel_tls::prepare(socket) {
            return KernelOffload::Declined(self);
        }
        let extracted = self.connection.dangerous_into_kernel_connection().map_err(io::Error::other);
        match extracted.and_then(|(secrets, _)| kernel_tls::install(socket, &secrets)) {
            Ok(()) => KernelOffload::Done(kernel_tls::KEY_BYTES_MAX),
            Err(error) => {
                tracing::warn!(%error, "the kernel does not take the keys of a TLS connection");
                KernelOffload::Failed
            }
        }
    }
}

impl TlsConnection {
    fn open_records(
        &mut self,
        wire: &mut [u8],
        plain: &mut [u8],
        answer: &mut Vec<u8>,
    ) -> Result<Plaintext, Malformed> {
        let mut opened = Plaintext::default();
        loop {
            let status = self.connection.process_tls_records(&mut wire[opened.used..]);
            opened.used += status.discard;
            match status.state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|_| Malformed("a TLS record that does not open"))?;
                        let room = plain.get_mut(opened.plain..opened.plain + record.payload.len());
                        let room = room.ok_or(Malformed("TLS records that are longer than they were"))?;
                        room.copy_from_slice(record.payload);
                        opened.plain += record.payload.len();
                        opened.used += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => _ = encode(data, answer, answer.len())?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    // What follows the end is nobody's.
                    return Ok(Plaintext { used: wire.len(), is_closed: true, ..opened });
                }
                Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                    return Ok(opened);
                }
                Ok(_) => return Err(Malformed("early data of TLS")),
                Err(error) => {
                    tracing::debug!(%error, "TLS fails");
                    // What comes in place of a handshake gets no answer.
                    let has_begun = self.handshake_bytes > 0 || opened.used > 0;
                    if has_begun || !matches!(error, rustls::Error::InvalidMessage(_)) {
                        self.encode_alert(answer);
                    }
                    return Err(Malformed("TLS fails"));
                }
            }
        }
    }

    /// Tells the client what it did wrong.
    fn encode_alert(&mut self, answer: &mut Vec<u8>) {
        if let Ok(ConnectionState::EncodeTlsData(data)) = self.connection.process_tls_records(&mut []).state {
            // The connection ends, with these words or without.
            _ = encode(data, answer, answer.len());
        }
    }
}

/// Puts a message of TLS's own into `wire` at `at`: its length.
fn encode(
    mut data: EncodeTlsData<'_, ServerConnectionData>,
    wire: &mut Vec<u8>,
    at: usize,
) -> Result<usize, Malformed> {
    loop {
        match data.encode(wire.get_mut(at..).unwrap_or_default()) {
            Ok(len) => {
                wire.truncate(at + len);
                return Ok(len);
            }
            Err(EncodeError::InsufficientSize(size)) => wire.resize(at + size.required_size, 0),
            Err(EncodeError::AlreadyEncoded) => return Err(Malformed("a TLS message twice")),
        }
    }
}

/// Puts what stands for `plain` into `wire` at `at`: its length.
fn encrypt(
    traffic: &mut WriteTraffic<'_, ServerConnectionData>,
    plain: &[u8],
    wire: &mut Vec<u8>,
    at: usize,
) -> Result<usize, Malformed> {
    wire.resize(at + plain.len() + plain.len().div_ceil(RECORD_BYTES) * RECORD_OVERHEAD, 0);
    loop {
        match traffic.encrypt(plain, &mut wire[at..]) {
            Ok(len) => return Ok(len),
            Err(EncryptError::InsufficientSize(size)) if at + size.required_size > wire.len() => {
                wire.resize(at + size.required_size, 0);
            }
            Err(_) => return Err(Malformed("the TLS keys are used up")),
        }
    }
}
