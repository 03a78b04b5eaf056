//! TLS, from a certificate and a key in PEM.

use std::io;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate and its key, as texts in PEM.
#[derive(Clone)]
pub struct Tls {
    /// The certificate, and those that lead from it to its issuer.
    pub certificates: Vec<u8>,
    /// The private key of the first certificate.
    pub key: Vec<u8>,
}

pub(crate) fn acceptor(tls: &Tls) -> io::Result<TlsAcceptor> {
    let invalid = |what: &str, error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("the TLS {what}: {error}"))
    };
    let certificates = CertificateDer::pem_slice_iter(&tls.certificates).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| invalid("certificate", &error))?;
    let key = PrivateKeyDer::from_pem_slice(&tls.key).map_err(|error| invalid("key", &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| invalid("certificate and key", &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
