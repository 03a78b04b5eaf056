//! TLS as a transform: version 1.3, by rustls, without threads or sockets of its own.

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

/// The server's certificate and key, and the issuers of client certificates, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    pub certificates: Vec<u8>,
    pub key: Vec<u8>,
    /// The certificates of the issuers of client certificates. `None`: clients are not asked for one.
    pub client_issuers: Option<Vec<u8>>,
}

/// The server's side of TLS. Its certificate may be replaced while it is in use.
pub struct Tls {
    config: RwLock<Arc<ServerConfig>>,
    protocol: Vec<u8>,
}

impl Tls {
    /// TLS for a protocol with this ALPN name (RFC 7301). Clients that offer only other names are refused.
    pub fn new(pem: &Pem, protocol: &[u8]) -> io::Result<Self> {
        let config = RwLock::new(Arc::new(config(pem, protocol)?));
        Ok(Self { config, protocol: protocol.to_vec() })
    }

    /// Uses another certificate for later handshakes. After an error the old one remains in use.
    pub fn replace(&self, pem: &Pem) -> io::Result<()> {
        let config = Arc::new(config(pem, &self.protocol)?);
        *self.config.write() = config;
        Ok(())
    }

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
        if found.is_empty() { Err(invalid(what, &"it contains no certificate")) } else { Ok(found) }
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
            // The export decides whether a client certificate is required.
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
    // A resumed session would outlive the certificates that it began with.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    // The kernel needs the keys, to take over after the handshake.
    config.enable_secret_extraction = true;
    Ok(config)
}

struct TlsConnection {
    connection: UnbufferedServerConnection,
    handshake_bytes: usize,
    /// Whether an error has ended the connection.
    has_failed: bool,
}

/// Bytes of plaintext in one record, and the record's overhead on the wire (RFC 8446 §5.1, §5.2).
const RECORD_BYTES: usize = 16 << 10;
const RECORD_OVERHEAD: usize = 5 + 1 + 16;

impl Transform for TlsConnection {
    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Malformed> {
        // Before the client's Finished message the peer is not authenticated, so no data may be sent.
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
                tracing::warn!(%error, "the kernel rejects the keys of a TLS connection");
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
                        let record =
                            record.map_err(|_| Malformed("a TLS record that cannot be decrypted"))?;
                        let room = plain.get_mut(opened.plain..opened.plain + record.payload.len());
                        let room = room.ok_or(Malformed("a TLS record longer than its ciphertext"))?;
                        room.copy_from_slice(record.payload);
                        opened.plain += record.payload.len();
                        opened.used += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => _ = encode(data, answer, answer.len())?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    // Bytes after the closing alert belong to no message.
                    return Ok(Plaintext { used: wire.len(), is_closed: true, ..opened });
                }
                Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                    return Ok(opened);
                }
                Ok(_) => return Err(Malformed("TLS early data is not supported")),
                Err(error) => {
                    tracing::debug!(%error, "TLS failed");
                    // Bytes that are not TLS at all get no alert.
                    let has_begun = self.handshake_bytes > 0 || opened.used > 0;
                    if has_begun || !matches!(error, rustls::Error::InvalidMessage(_)) {
                        self.encode_alert(answer);
                    }
                    return Err(Malformed("TLS failed"));
                }
            }
        }
    }

    /// Encodes the alert that tells the client its mistake.
    fn encode_alert(&mut self, answer: &mut Vec<u8>) {
        if let Ok(ConnectionState::EncodeTlsData(data)) = self.connection.process_tls_records(&mut []).state {
            // The connection ends, with or without the alert.
            _ = encode(data, answer, answer.len());
        }
    }
}

/// Encodes a handshake message or alert into `wire` at `at`. Returns its length.
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
            Err(EncodeError::AlreadyEncoded) => return Err(Malformed("a TLS message was already encoded")),
        }
    }
}

/// Encrypts `plain` into `wire` at `at`. Returns the length of the records.
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
