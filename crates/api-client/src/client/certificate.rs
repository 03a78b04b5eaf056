//! The reasons why the certificate of a service is not trusted.

use rustls::CertificateError;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateFault {
    /// No trusted certificate authority has issued it.
    UnknownIssuer,
    /// The certificate is that of an authority itself. A server must present one that an authority has issued (RFC 5280
    /// §4.2.1.9).
    IsAuthority,
    /// The names differ from that of the URL.
    WrongName(Vec<String>),
    Expired,
    NotYetValid,
    /// Not for servers (RFC 5280 §4.2.1.12).
    WrongPurpose,
    Other(String),
}

impl CertificateFault {
    /// The fault behind an error of a request. `None` if the certificate is not the cause.
    pub(super) fn of(error: &ureq::Error) -> Option<Self> {
        let error = match error {
            ureq::Error::Rustls(error) => error,
            ureq::Error::Io(error) => error.get_ref()?.downcast_ref()?,
            _ => return None,
        };
        match error {
            rustls::Error::InvalidCertificate(error) => Some(Self::from(error)),
            _ => None,
        }
    }
}

impl From<&CertificateError> for CertificateFault {
    fn from(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::NotValidForName => Self::WrongName(Vec::new()),
            CertificateError::NotValidForNameContext { presented, .. } => {
                Self::WrongName(presented.iter().map(|name| bare(name).to_owned()).collect())
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::WrongPurpose
            }
            // rustls has no variant for this error of webpki.
            CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity" => Self::IsAuthority,
            other => Self::Other(other.to_string()),
        }
    }
}

/// rustls writes names as `DnsName("files.example.org")` or `IpAddress(10.0.0.5)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')'));
    inner.trim_matches('"')
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownIssuer => f.write_str("no trusted certificate authority has issued it"),
            Self::IsAuthority => {
                f.write_str("it is the certificate of a CA (CA:TRUE), which a server must not present")
            }
            Self::WrongName(names) if names.is_empty() => f.write_str("it is for other names"),
            Self::WrongName(names) => write!(f, "it is for {}", names.join(", ")),
            Self::Expired => f.write_str("it has expired"),
            Self::NotYetValid => f.write_str("it is not valid yet"),
            Self::WrongPurpose => f.write_str("it is not for servers (serverAuth)"),
            Self::Other(why) => f.write_str(why),
        }
    }
}
