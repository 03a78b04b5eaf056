//! Requests and replies of the client.

use super::certificate::CertificateFault;
use super::socket::SocketConnector;
use crate::model::Problem;
use crate::path::encoded;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;
use ureq::Agent;
use ureq::http::Method;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::resolver::DefaultResolver;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The base of requests over a socket: an address, so that nothing resolves a name.
const LOCAL_BASE: &str = "http://127.0.0.1";
const CONNECT: Duration = Duration::from_secs(5);
/// The timeout of a reply: a change may wait for others and for storage.
const REPLY: Duration = Duration::from_secs(300);
/// Bytes of a reply at most.
const REPLY_BYTES_MAX: u64 = 256 << 20;

/// The address of a service, and the credentials for it.
#[derive(Clone)]
pub struct Target {
    /// `http://127.0.0.1:2050` or `https://…`, without a path.
    pub url: String,
    /// The token.
    pub token: String,
    /// Certificates of issuers to be trusted, in PEM, instead of the public ones.
    pub issuers: Option<Vec<u8>>,
    /// A socket of the service on this machine, which replaces the URL's address and its TLS.
    pub socket: Option<PathBuf>,
}

/// The reason why a request failed.
#[derive(Debug)]
pub enum Error {
    /// The service refused the request.
    Refused(Problem),
    Unreachable(String),
    /// The certificate of the service is not trusted.
    Untrusted {
        url: String,
        fault: CertificateFault,
    },
    /// The reply is not one of a Plimsoll service.
    UnexpectedReply(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(problem) if problem.forceable => write!(f, "{problem} (may be forced)"),
            Self::Refused(problem) => problem.fmt(f),
            Self::Unreachable(why) => write!(f, "the service cannot be reached: {why}"),
            Self::Untrusted { url, fault } => {
                write!(f, "the certificate of {url} is not trusted: {fault}")
            }
            Self::UnexpectedReply(what) => write!(f, "the service's answer is not understood: {what}"),
        }
    }
}

impl std::error::Error for Error {}

pub(super) struct Transport {
    agent: Agent,
    base: String,
    /// The URL or the path of the socket, for messages.
    shown: String,
    authorization: String,
}

/// A request.
#[derive(Clone)]
pub(super) struct Request {
    method: Method,
    path: String,
    query: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
}

/// A reply that is no problem.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) etag: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(super) fn put(path: impl Into<String>) -> Self {
        Self::new(Method::PUT, path)
    }

    pub(super) fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub(super) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: String::new(), headers: Vec::new(), body: None }
    }

    pub(super) fn query(mut self, name: &str, value: &str) -> Self {
        let before = if self.query.is_empty() { '?' } else { '&' };
        self.query = format!("{}{before}{name}={}", self.query, encoded(value));
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn body(self, media: &str, body: &[u8]) -> Self {
        Self { body: Some(body.to_owned()), ..self.header("content-type", media) }
    }
}

impl Reply {
    pub(super) fn value<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| Error::UnexpectedReply(error.to_string()))
    }
}

impl Transport {
    pub(super) fn new(target: &Target) -> Result<Self> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // Not the environment's: the token is for the service alone.
            .proxy(None)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(REPLY));
        if let Some(pem) = &target.issuers {
            let bad = |error: ureq::Error| Error::Unreachable(format!("the issuers' certificates: {error}"));
            let items = parse_pem(pem).collect::<std::result::Result<Vec<_>, _>>().map_err(bad)?;
            let issuers: Vec<Certificate<'static>> = items
                .into_iter()
                .filter_map(|item| if let PemItem::Certificate(issuer) = item { Some(issuer) } else { None })
                .collect();
            if issuers.is_empty() {
                return Err(Error::Unreachable("the file has no certificate in PEM".to_owned()));
            }
            let roots = RootCerts::new_with_certs(&issuers);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let config = config.build();
        let (agent, base) = match &target.socket {
            Some(socket) => {
                let connector = SocketConnector(socket.clone());
                (Agent::with_parts(config, connector, DefaultResolver::default()), LOCAL_BASE)
            }
            None => (config.into(), target.url.trim_end_matches('/')),
        };
        let shown =
            target.socket.as_ref().map_or_else(|| base.to_owned(), |socket| socket.display().to_string());
        let authorization = format!("Bearer {}", target.token.trim());
        Ok(Self { agent, base: base.to_owned(), shown, authorization })
    }

    /// Sends a request and returns a reply that is not a problem.
    pub(super) fn send(&self, request: &Request) -> Result<Reply> {
        let unreachable = |error: ureq::Error| match CertificateFault::of(&error) {
            Some(fault) => Error::Untrusted { url: self.base.clone(), fault },
            None => Error::Unreachable(format!("{}: {error}", self.shown)),
        };
        let mut builder = ureq::http::Request::builder()
            .method(request.method.clone())
            .uri(format!("{}{}{}", self.base, request.path, request.query))
            .header("authorization", &self.authorization);
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        let bad = |error: ureq::http::Error| Error::Unreachable(format!("{}: {error}", self.shown));
        let response = match &request.body {
            Some(body) => self.agent.run(builder.body(body.as_slice()).map_err(bad)?),
            // An empty body has a length. Without one, ureq sends the end of a chunked body after the head, when the service may
            // have answered and closed the connection already.
            None if matches!(request.method, Method::POST | Method::PUT) => {
                self.agent.run(builder.body(&[][..]).map_err(bad)?)
            }
            None => self.agent.run(builder.body(()).map_err(bad)?),
        };
        let mut response = response.map_err(unreachable)?;
        let status = response.status().as_u16();
        let etag = response.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let body =
            response.body_mut().with_config().limit(REPLY_BYTES_MAX).read_to_vec().map_err(unreachable)?;
        if (200..300).contains(&status) {
            return Ok(Reply { status, etag, body });
        }
        match serde_json::from_slice(&body) {
            Ok(problem) => Err(Error::Refused(problem)),
            Err(_) => {
                Err(Error::UnexpectedReply(format!("{}: status {status} without a problem", self.base)))
            }
        }
    }
}
