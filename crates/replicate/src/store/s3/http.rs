//! Requests that block, as the HTTP client of `object_store`.

use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

const CONNECT: Duration = Duration::from_secs(20);
/// One request with its reply. A part of 8 MiB takes that long at 35 KiB/s.
const REQUEST: Duration = Duration::from_secs(240);
/// The largest reply: a pack, with a margin.
const REPLY_BYTES_MAX: u64 = 80 << 20;

#[derive(Clone, Debug)]
pub(super) struct Agent(ureq::Agent);

impl Agent {
    /// Trusts the issuers of a list of certificates in PEM, or the well-known ones.
    pub(super) fn new(issuers: Option<&[u8]>) -> io::Result<Self> {
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // Credentials are for the store alone.
            .proxy(None)
            .allow_non_standard_methods(true)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(REQUEST));
        if let Some(pem) = issuers {
            let items = parse_pem(pem).collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
            let issuers: Vec<Certificate<'static>> = items
                .into_iter()
                .filter_map(|item| if let PemItem::Certificate(issuer) = item { Some(issuer) } else { None })
                .collect();
            if issuers.is_empty() {
                let why = "the file of issuers has no certificate in PEM";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            let roots = RootCerts::new_with_certs(&issuers);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        Ok(Self(config.build().into()))
    }

    /// Sends a request and returns the whole reply, whatever its status.
    pub(super) fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, ureq::Error> {
        let (head, body) = request.into_parts();
        let reply = if body.is_empty() && !head.headers.contains_key("content-length") {
            self.0.run(Request::from_parts(head, ()))?
        } else {
            self.0.run(Request::from_parts(head, body.as_slice()))?
        };
        let (head, mut body) = reply.into_parts();
        let body = body.with_config().limit(REPLY_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(head, body))
    }
}

impl HttpConnector for Agent {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

type Reply<'f> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>;

impl HttpService for Agent {
    // The form that `async_trait` gives the declaration.
    fn call<'s, 'f>(&'s self, request: HttpRequest) -> Reply<'f>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            // It is in memory: nothing waits here.
            let body = body.collect().await.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            let request = Request::from_parts(head, body.to_bytes().to_vec());
            let reply = self.send(request).map_err(|error| HttpError::new(kind_of(&error), error))?;
            Ok(reply.map(Into::into))
        })
    }
}

/// Says what may be tried again: what did not reach the store, and what is the same if it comes twice.
fn kind_of(error: &ureq::Error) -> HttpErrorKind {
    match error {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => HttpErrorKind::Connect,
        ureq::Error::Io(error) if error.kind() != io::ErrorKind::InvalidData => HttpErrorKind::Interrupted,
        ureq::Error::Protocol(_) => HttpErrorKind::Decode,
        // Certificates that are not trusted among them: they stay so.
        _ => HttpErrorKind::Unknown,
    }
}
