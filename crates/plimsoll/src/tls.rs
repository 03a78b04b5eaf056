//! TLS under NFS (RFC 9289) as it is set: when, and with which files, which may change while they are used.

use crate::periodic::Task;
use anyhow::Context;
use clap::{Args, ValueEnum};
use nfs::server::tls::{ALPN, TlsPolicy};
use serde::Deserialize;
use stable::files::read_secret;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use transport::tls::{Pem, Tls};
use vfs::Protection;

/// The interval of checks of the files.
const LOOK: Duration = Duration::from_secs(1);

/// Flags, and `[nfs.tls]` in the configuration.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TlsSettings {
    /// Whether clients may encrypt their connections, or must [default: allow with --tls-cert, else off]
    #[arg(long = "tls", value_name = "WHEN", hide_short_help = true)]
    mode: Option<TlsMode>,
    /// The server's certificate in PEM, and those that lead from it to its issuer; read again when it changes
    #[arg(long = "tls-cert", value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long = "tls-key", value_name = "FILE")]
    key: Option<PathBuf>,
    /// Certificates in PEM of the authorities that issue client certificates; without it no client can present one
    #[arg(long = "tls-client-ca", value_name = "FILE", hide_short_help = true)]
    client_ca: Option<PathBuf>,
}

/// When connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum TlsMode {
    /// Never
    Off,
    /// TLS for clients that ask for it
    Allow,
    /// Always: calls without it are refused
    Require,
}

/// The files of a server that uses them.
#[derive(Clone)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// TLS that is set up, and its files.
#[derive(Clone)]
pub(crate) struct ServerTls {
    /// For the listeners.
    pub(crate) policy: TlsPolicy,
    files: Files,
    read: Stamps,
}

/// The last modification and length of each file, to detect changes.
type Stamps = Vec<Option<(SystemTime, u64)>>;

impl TlsSettings {
    /// These settings, and `other` ones where there are none.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            mode: self.mode.or(other.mode),
            certificate: self.certificate.or(other.certificate),
            key: self.key.or(other.key),
            client_ca: self.client_ca.or(other.client_ca),
        }
    }

    /// Whether calls without TLS are refused.
    pub(crate) fn is_required(&self) -> bool {
        self.mode == Some(TlsMode::Require)
    }

    /// The most protection that connections can have.
    pub(crate) fn protection(&self) -> Protection {
        match (self.mode, &self.certificate, &self.client_ca) {
            (Some(TlsMode::Off), ..) | (_, None, _) => Protection::Plain,
            (_, Some(_), None) => Protection::Encrypted,
            (_, Some(_), Some(_)) => Protection::Verified,
        }
    }

    /// Whether there are any settings.
    pub(crate) fn is_given(&self) -> bool {
        let Self { mode, certificate, key, client_ca } = self;
        mode.is_some() || [certificate, key, client_ca].into_iter().any(Option::is_some)
    }

    /// Refuses settings that lack others.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match (&self.certificate, &self.key, self.mode) {
            (_, _, Some(TlsMode::Off)) | (Some(_), Some(_), _) => Ok(()),
            (None, None, None) if self.client_ca.is_none() => Ok(()),
            (None, None, _) => Err(
                "TLS has no certificate; give it with --tls-cert and --tls-key, or as certificate and key in [nfs.tls]",
            ),
            (Some(_), None, _) => {
                Err("TLS has a certificate without its key: give --tls-key, or key in [nfs.tls], too")
            }
            (None, Some(_), _) => Err(
                "TLS has a key without its certificate: give --tls-cert, or certificate in [nfs.tls], too",
            ),
        }
    }

    /// Reads the files, if TLS is wanted.
    pub(crate) fn load(&self) -> anyhow::Result<Option<ServerTls>> {
        self.check().map_err(anyhow::Error::msg)?;
        let (Some(certificate), Some(key), false) =
            (&self.certificate, &self.key, self.mode == Some(TlsMode::Off))
        else {
            return Ok(None);
        };
        let (certificate, key) = (certificate.clone(), key.clone());
        let files = Files { certificate, key, client_ca: self.client_ca.clone() };
        let read = files.stamps();
        let tls = Arc::new(Tls::new(&files.read()?, ALPN)?);
        Ok(Some(ServerTls { policy: TlsPolicy { tls, is_required: self.is_required() }, files, read }))
    }
}

impl ServerTls {
    /// Reads the files again when they change. Invalid files change nothing.
    pub(crate) fn renew(&self) -> Task {
        let Self { policy: TlsPolicy { tls, .. }, files, read } = self.clone();
        let mut last = read;
        Task::new("certificate", LOOK, move || {
            let now = files.stamps();
            if now == last {
                return;
            }
            last = now;
            match files.read().and_then(|pem| Ok(tls.replace(&pem)?)) {
                Ok(()) => tracing::info!("the TLS certificate was read again"),
                Err(error) => tracing::warn!("the TLS certificate stays as it was: {error:#}"),
            }
        })
    }
}

impl Files {
    fn read(&self) -> anyhow::Result<Pem> {
        let (certificates, key) = read_pair(&self.certificate, &self.key)?;
        let client_issuers = self.client_ca.as_deref().map(read).transpose()?;
        Ok(Pem { certificates, key, client_issuers })
    }

    fn stamps(&self) -> Stamps {
        let files = [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()];
        let stamp = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        files.into_iter().flatten().map(stamp).collect()
    }
}

/// Reads a certificate and its key. Other users must not be able to read the key.
pub(crate) fn read_pair(certificate: &Path, key: &Path) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let secret = read_secret(key).with_context(|| format!("cannot read {}", key.display()))?;
    Ok((read(certificate)?, secret.into_bytes()))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    stable::files::read_trusted(path).with_context(|| format!("cannot read {}", path.display()))
}
