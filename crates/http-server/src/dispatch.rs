//! Finds the operation of a request, and enforces token, body and bounds around it.

use crate::auth::{Authority, Guard, Sender};
use crate::limits::{BODY_BYTES_MAX, BODY_S_MAX, CHANGE_PATIENCE_S, CHANGES_MAX, REQUESTS_MAX};
use crate::problem::Problem;
use crate::reply::Answer;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::RawPathParams;
use axum::extract::rejection::RawPathParamsRejection;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::routing::any;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// A method of a path.
pub struct Operation<A: Authority> {
    pub method: Method,
    /// Segments in braces are names.
    pub path: &'static str,
    /// The requirement for tokens. Without one the operation must not wait: it runs at once, however busy the server is.
    pub need: Option<A::Need>,
    /// The media types of the body; none if the operation takes no body.
    pub takes: &'static [&'static str],
    pub serve: Box<Serve<A::Token>>,
}

type Serve<T> = dyn Fn(Request<T>) -> Result<Answer, Problem> + Send + Sync;

/// An authenticated request with its body.
pub struct Request<T> {
    /// `None` if the operation is open.
    pub token: Option<T>,
    /// The segments of the path that are in braces in its pattern, decoded.
    pub names: Vec<(String, String)>,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The address that a request came from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// All operations of one path.
struct PathItem<A: Authority> {
    operations: Vec<Operation<A>>,
    shared: Arc<Shared<A>>,
}

struct Shared<A> {
    authority: Arc<A>,
    guard: Guard,
    requests: Semaphore,
    changes: Semaphore,
}

/// Routes each operation by its path.
pub(crate) fn router<A: Authority>(operations: Vec<Operation<A>>, authority: Arc<A>) -> Router {
    let shared = Arc::new(Shared {
        authority,
        guard: Guard::default(),
        requests: Semaphore::new(REQUESTS_MAX),
        changes: Semaphore::new(CHANGES_MAX),
    });
    let mut paths: BTreeMap<&str, Vec<Operation<A>>> = BTreeMap::new();
    for operation in operations {
        paths.entry(operation.path).or_default().push(operation);
    }
    let mut router = Router::new();
    for (path, operations) in paths {
        let item = Arc::new(PathItem { operations, shared: Arc::clone(&shared) });
        let serve = move |names: Result<RawPathParams, RawPathParamsRejection>,
                          request: axum::http::Request<Body>| {
            let item = Arc::clone(&item);
            async move { finish(item.serve(names, request).await) }
        };
        router = router.route(path, any(serve));
    }
    router.fallback(async |request: axum::http::Request<Body>| {
        finish(Err(Problem::no_such_path(request.uri().path())))
    })
}

/// Adds the headers that every reply carries.
fn finish(answer: Result<Answer, Problem>) -> axum::http::Response<Body> {
    let mut answer = answer.unwrap_or_else(|problem| {
        if problem.status() == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(detail = problem.detail, "a request to the API failed");
        }
        problem.answer()
    });
    let status = answer.status();
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"plimsoll\""));
    }
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer.map(Body::from)
}

impl<A: Authority> PathItem<A> {
    async fn serve(
        self: Arc<Self>,
        names: Result<RawPathParams, RawPathParamsRejection>,
        request: axum::http::Request<Body>,
    ) -> Result<Answer, Problem> {
        let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
        let Some(number) = self.operations.iter().position(|operation| operation.method == method) else {
            return Ok(self.not_allowed(request.method()));
        };
        let names = names.map_err(|_| Problem::no_such_path(request.uri().path()))?;
        let names = names.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let (parts, body) = request.into_parts();
        let operation = &self.operations[number];
        let (headers, uri) = (parts.headers, parts.uri);
        let Some(need) = operation.need else {
            // The state of the process is readable however busy it is: such an operation does not wait.
            return (operation.serve)(Request { token: None, names, uri, headers, body: Bytes::new() });
        };
        let _permit = self.shared.requests.try_acquire().map_err(|_| {
            Problem::too_many(format!("more than {REQUESTS_MAX} requests at once: retry after a second"))
        })?;
        let address = parts.extensions.get().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(from)| *from);
        let (sender, shared) = (Sender { address, at: Instant::now() }, Arc::clone(&self.shared));
        let admit = move || Ok((shared.guard.admit(&*shared.authority, need, &headers, sender)?, headers));
        let (token, headers) = blocking(admit).await?;
        let body = if operation.takes.is_empty() {
            Bytes::new()
        } else {
            read(operation.takes, &headers, body).await?
        };
        let request = Request { token, names, uri, headers, body };
        let _turn = if method == Method::GET { None } else { Some(self.shared.change_permit().await?) };
        let item = Arc::clone(&self);
        blocking(move || (item.operations[number].serve)(request)).await
    }

    fn not_allowed(&self, method: &Method) -> Answer {
        let mut allowed: Vec<&str> =
            self.operations.iter().map(|operation| operation.method.as_str()).collect();
        if allowed.contains(&"GET") {
            allowed.push("HEAD");
        }
        let allowed = allowed.join(", ");
        let detail = format!("the path does not take {method}; allowed: {allowed}");
        let problem = Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "The path has no such method",
            detail,
        );
        let mut answer = problem.answer();
        if let Ok(allowed) = HeaderValue::from_str(&allowed) {
            answer.headers_mut().insert(ALLOW, allowed);
        }
        answer
    }
}

impl<A> Shared<A> {
    /// Waits until a change may begin. Changes may wait long for storage, so they must not occupy all threads.
    async fn change_permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Problem> {
        let busy = || {
            let detail = format!("{CHANGES_MAX} other changes are in progress: retry when one ends");
            Problem::too_many(detail)
        };
        match timeout(Duration::from_secs(CHANGE_PATIENCE_S), self.changes.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }
}

/// Runs work that may wait for a disk or a lock on a thread for such work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Problem::internal("the request failed; see the log of the service")),
    }
}

/// Reads a body of one of the media types `takes`.
async fn read(takes: &[&str], headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let media = media.split(';').next().unwrap_or("").trim();
    if !takes.iter().any(|taken| taken.eq_ignore_ascii_case(media)) {
        let found = if media.is_empty() { "missing".to_owned() } else { format!("{media:?}") };
        let detail = format!("the header Content-Type is {found}; allowed: {}", takes.join(", "));
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(status, "media-type", "The body has another content type", detail));
    }
    let too_large = || {
        let detail = format!("the body is too large; allowed: at most {BODY_BYTES_MAX} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too large", detail)
    };
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let collected = timeout(Duration::from_secs(BODY_S_MAX), Limited::new(body, BODY_BYTES_MAX).collect());
    match collected.await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Problem::malformed(format!("the body ended too early: {error}"))),
        Err(_) => {
            let detail = format!("the body did not arrive within {BODY_S_MAX} s");
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "The request is too slow", detail))
        }
    }
}
