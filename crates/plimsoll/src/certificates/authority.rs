//! A certificate authority (RFC 5280) for one installation: its own certificate, and those that it issues.

use crate::exit::usage;
use anyhow::{Context, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

/// Apple's clients refuse server certificates that are valid for longer.
pub(super) const ISSUED_DAYS: u32 = 825;
/// Ten years.
const AUTHORITY_DAYS: u32 = 3652;
const DAY: Duration = Duration::from_secs(86_400);
/// Clocks of clients may be behind.
const SKEW: Duration = Duration::from_secs(3600);
/// The longest name of a host (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// A certificate or a key in PEM.
pub(super) type Pem = String;

pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    not_after: SystemTime,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Server,
    Client,
}

pub(super) struct Issued {
    pub(super) certificate: Pem,
    pub(super) not_after: SystemTime,
}

impl Authority {
    /// Makes a new authority; returns its certificate and its key too.
    pub(super) fn create(name: &str, now: SystemTime) -> anyhow::Result<(Self, Issued, Pem)> {
        let key = new_key()?;
        let not_after = now + DAY * AUTHORITY_DAYS;
        let mut params = params(Vec::new(), &format!("Plimsoll CA of {name}"), now, not_after)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.pem();
        let key_pem = key.serialize_pem();
        let authority = Self { issuer: Issuer::new(params, key), not_after };
        Ok((authority, Issued { certificate, not_after }, key_pem))
    }

    /// Reads an authority from its certificate and its key.
    pub(super) fn open(certificate: &str, key: &str, now: SystemTime) -> anyhow::Result<Self> {
        let key = KeyPair::from_pem(key).context("the key of the CA")?;
        let not_after = with_parsed(certificate, |parsed| {
            ensure!(parsed.is_ca(), "it is not the certificate of a CA (CA:TRUE)");
            ensure!(
                parsed.public_key().subject_public_key.data.as_ref() == key.public_key_raw(),
                "ca.key is not the key of this certificate"
            );
            Ok(time(parsed.validity().not_after.timestamp()))
        })?;
        ensure!(now < not_after, "it has expired on {}", date(not_after));
        Ok(Self { issuer: Issuer::from_ca_cert_pem(certificate, key)?, not_after })
    }

    /// Issues a certificate for a key. It ends no later than that of the authority.
    pub(super) fn issue(
        &self,
        purpose: Purpose,
        names: &[String],
        key: &KeyPair,
        now: SystemTime,
    ) -> anyhow::Result<Issued> {
        let subject = names.first().context("a certificate needs a name")?;
        let not_after = (now + DAY * ISSUED_DAYS).min(self.not_after);
        // Clients can have any name; only names of hosts can be alternative names.
        let alternatives = names.iter().filter(|name| check_name(name).is_ok()).cloned().collect();
        let mut params = params(alternatives, subject, now, not_after)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match purpose {
            Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        Ok(Issued { certificate: params.signed_by(key, &self.issuer)?.pem(), not_after })
    }
}

pub(super) fn new_key() -> anyhow::Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).context("cannot make a key")
}

/// The names of hosts and the addresses that a server's certificate is for.
pub(super) fn names_of(certificate: &str) -> anyhow::Result<Vec<String>> {
    with_parsed(certificate, |parsed| {
        let alternatives = parsed.subject_alternative_name().ok().flatten();
        let names = alternatives.into_iter().flat_map(|names| &names.value.general_names);
        Ok(names.filter_map(name_of).collect())
    })
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}

/// Refuses a name that no URL and no mount command can have.
pub(super) fn check_name(name: &str) -> anyhow::Result<()> {
    if name.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    let labels = name.strip_prefix("*.").unwrap_or(name).split('.');
    let is_label = |label: &str| {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len()) && label.chars().all(is_inner) && !label.starts_with('-')
    };
    if name.len() > NAME_BYTES_MAX || !labels.into_iter().all(is_label) {
        return Err(usage(format!(
            "{name:?} is not a host name or an IP address; allowed: letters, digits, - and _ in parts with dots between them, \
             like files.example.org, or an address like 10.0.0.5"
        )));
    }
    Ok(())
}

fn params(
    names: Vec<String>,
    subject: &str,
    now: SystemTime,
    not_after: SystemTime,
) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, subject);
    params.not_before = (now - SKEW).into();
    params.not_after = not_after.into();
    Ok(params)
}

fn with_parsed<T>(
    pem: &str,
    read: impl FnOnce(&X509Certificate<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).context("it is not a certificate in PEM")?;
    read(&pem.parse_x509().context("it is not a certificate")?)
}

fn time(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// The day in UTC, like 2036-11-26.
pub(super) fn date(time: SystemTime) -> String {
    (rcgen::date_time_ymd(1970, 1, 1) + time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
        .date()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn at(day: u32) -> SystemTime {
        NOW + DAY * (20_000 + day)
    }

    #[test]
    fn certificate_is_valid_for_825_days_and_no_longer_than_its_authority() {
        let (authority, own, _) = Authority::create("host", at(0)).unwrap();
        assert_eq!(own.not_after, at(3652));
        let issue = |day| {
            let names = ["files.example.org".to_owned()];
            authority.issue(Purpose::Server, &names, &new_key().unwrap(), at(day)).unwrap().not_after
        };
        assert_eq!((issue(0), issue(3000)), (at(825), at(3652)));
        assert_eq!(date(at(0)), "2024-10-04");
    }

    #[test]
    fn names_of_a_certificate_are_those_it_was_issued_for() {
        let (authority, own, _) = Authority::create("host", at(0)).unwrap();
        let names = ["files.example.org", "10.0.0.5", "2001:db8::5"].map(String::from);
        let issued = authority.issue(Purpose::Server, &names, &new_key().unwrap(), at(0)).unwrap();
        assert_eq!(names_of(&issued.certificate).unwrap(), names);
        assert_eq!(names_of(&own.certificate).unwrap(), [""; 0]);
    }

    #[test]
    fn authority_is_opened_only_with_its_own_key_and_while_it_is_valid() {
        let (_, one, key) = Authority::create("one", at(0)).unwrap();
        let (other, _, other_key) = Authority::create("other", at(0)).unwrap();
        assert!(Authority::open(&one.certificate, &key, at(3651)).is_ok());
        let refusal = |certificate: &str, key: &str, day| {
            format!("{:#}", Authority::open(certificate, key, at(day)).err().unwrap())
        };
        assert_eq!(refusal(&one.certificate, &other_key, 0), "ca.key is not the key of this certificate");
        assert_eq!(refusal(&one.certificate, &key, 3652), "it has expired on 2034-10-04");
        assert!(refusal("no certificate", &key, 0).contains("in PEM"));
        let server = new_key().unwrap();
        let issued = other.issue(Purpose::Server, &["a".to_owned()], &server, at(0)).unwrap();
        assert!(
            refusal(&issued.certificate, &server.serialize_pem(), 0).contains("not the certificate of a CA")
        );
    }

    #[test]
    fn name_that_no_host_can_have_is_refused() {
        for good in ["files", "files.example.org", "*.example.org", "10.0.0.5", "::1", "a_b.c"] {
            check_name(good).unwrap();
        }
        for bad in ["", "a b", "https://x", "a..b", "-a", "10.0.0.5:2049", "größe"] {
            assert!(check_name(bad).unwrap_err().to_string().contains("is not a host name"), "{bad}");
        }
    }
}
