//! From an HTTP request to its operation and back: methods, tokens, bodies, bounds.

use crate::auth::too_many;
use crate::core::{Call, Core};
use crate::endpoint::{Answer, Endpoint, Needs};
use crate::limits::{BODY_BYTES_MAX, BODY_S_MAX, CHANGE_PATIENCE_S, CHANGES_MAX, REQUESTS_MAX};
use crate::problem::Problem;
use crate::routes;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::RawPathParams;
use axum::extract::rejection::RawPathParamsRejection;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::routing::any;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The address a request came from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// All operations at one path.
struct PathItem {
    endpoints: Vec<Endpoint>,
    shared: Arc<Shared>,
}

struct Shared {
    core: Arc<Core>,
    requests: Semaphore,
    changes: Semaphore,
}

/// Every operation at its path.
pub(crate) fn router(core: Arc<Core>) -> Router {
    let shared = Arc::new(Shared {
        core,
        requests: Semaphore::new(REQUESTS_MAX),
        changes: Semaphore::new(CHANGES_MAX),
    });
    let mut paths: BTreeMap<&str, Vec<Endpoint>> = BTreeMap::new();
    for endpoint in routes::all() {
        paths.entry(endpoint.path).or_default().push(endpoint);
    }
    let mut router = Router::new();
    for (path, endpoints) in paths {
        let item = Arc::new(PathItem { endpoints, shared: Arc::clone(&shared) });
        let serve = move |names: Result<RawPathParams, RawPathParamsRejection>, request: Request<Body>| {
            let item = Arc::clone(&item);
            async move { finish(item.serve(names, request).await) }
        };
        router = router.route(path, any(serve));
    }
    router.fallback(async |request: Request<Body>| finish(Err(Problem::no_such_path(request.uri().path()))))
}

/// What every reply carries.
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

impl PathItem {
    async fn serve(
        self: Arc<Self>,
        names: Result<RawPathParams, RawPathParamsRejection>,
        request: Request<Body>,
    ) -> Result<Answer, Problem> {
        let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
        let Some(number) = self.endpoints.iter().position(|endpoint| endpoint.method == method) else {
            return Ok(self.not_allowed(request.method()));
        };
        let names = names.map_err(|_| Problem::no_such_path(request.uri().path()))?;
        let names = names.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let (parts, body) = request.into_parts();
        let endpoint = &self.endpoints[number];
        let (core, headers, uri) = (Arc::clone(&self.shared.core), parts.headers, parts.uri);
        if endpoint.needs == Needs::Nothing {
            // The state of the process is told however busy it is: nothing of this waits.
            return (endpoint.serve)(&Call { core, token: None, names, uri, headers, body: Bytes::new() });
        }
        let _permit = self.shared.requests.try_acquire().map_err(|_| {
            too_many(format!("more than {REQUESTS_MAX} requests at once: ask again in a second"))
        })?;
        let from = parts.extensions.get().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(from)| *from);
        let (needs, admitting) = (endpoint.needs, Arc::clone(&core));
        let (token, headers) =
            blocking(move || Ok((admitting.admit(needs, &headers, (from, Instant::now()))?, headers)))
                .await?;
        let body =
            if endpoint.takes.is_empty() { Bytes::new() } else { read(endpoint, &headers, body).await? };
        let call = Call { core, token, names, uri, headers, body };
        let _turn = if method == Method::GET { None } else { Some(self.shared.turn().await?) };
        let item = Arc::clone(&self);
        blocking(move || (item.endpoints[number].serve)(&call)).await
    }

    fn not_allowed(&self, method: &Method) -> Answer {
        let mut allowed: Vec<&str> = self.endpoints.iter().map(|endpoint| endpoint.method.as_str()).collect();
        if allowed.contains(&"GET") {
            allowed.push("HEAD");
        }
        let allowed = allowed.join(", ");
        let detail = format!("{method} of this path; allowed: {allowed}");
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

impl Shared {
    /// Leave to make a change: the threads that wait for storage shall never be all.
    async fn turn(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Problem> {
        let busy =
            || too_many(format!("{CHANGES_MAX} other changes are under way: ask again when one is done"));
        match timeout(Duration::from_secs(CHANGE_PATIENCE_S), self.changes.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }
}

/// Does what may wait for a disk or a lock on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Problem::internal("the request could not be finished; the log says more")),
    }
}

async fn read(endpoint: &Endpoint, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let media = media.split(';').next().unwrap_or("").trim();
    if !endpoint.takes.iter().any(|taken| taken.eq_ignore_ascii_case(media)) {
        let detail = format!("a body of type {media:?}; allowed: {}", endpoint.takes.join(", "));
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(status, "media-type", "The body is of another type", detail));
    }
    let too_large = || {
        let detail = format!("the body; allowed: at most {BODY_BYTES_MAX} bytes");
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
        Ok(Err(error)) => Err(Problem::malformed(format!("the body broke off: {error}"))),
        Err(_) => {
            let detail = format!("the body did not come within {BODY_S_MAX} s");
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "The request is too slow", detail))
        }
    }
}
