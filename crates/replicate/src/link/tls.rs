//! TLS with pinned keys.

use super::key::{Identity, PublicKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use std::fmt;
use std::io;
use std::sync::Arc;

/// The name of the protocol (RFC 7301).
const ALPN: &[u8] = b"plimsoll-replication";

/// Whether a key is that of a peer.
pub(super) type IsPeer = dyn Fn(&PublicKey) -> bool + Send + Sync;

pub(super) fn client_config(identity: &Identity, server: PublicKey) -> io::Result<ClientConfig> {
    let pinned = Pinned { provider: provider(), is_peer: Box::new(move |key| *key == server) };
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified(identity)?)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(config)
}

pub(super) fn server_config(identity: &Identity, is_peer: Box<IsPeer>) -> io::Result<ServerConfig> {
    let pinned = Pinned { provider: provider(), is_peer };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(Arc::new(pinned))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(identity)?)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Each connection proves its key anew: a peer may have been removed.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certified(identity: &Identity) -> io::Result<Arc<CertifiedKey>> {
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(identity.pkcs8()));
    let spki = CertificateDer::from(identity.public().spki());
    Ok(Arc::new(CertifiedKey::new(vec![spki], key.map_err(io::Error::other)?)))
}

/// Accepts the keys of peers alone.
struct Pinned {
    provider: Arc<CryptoProvider>,
    is_peer: Box<IsPeer>,
}

impl Pinned {
    fn check(&self, key: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Error> {
        let key = PublicKey::of_spki(key).filter(|_| more.is_empty());
        match key.is_some_and(|key| (self.is_peer)(&key)) {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(&**key),
            signed,
            algorithms,
        )
    }
}

/// RFC 7250 came with TLS 1.2; here it is served with 1.3 alone.
fn refuse_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pinned")
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        refuse_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        refuse_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
