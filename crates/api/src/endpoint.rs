//! One declaration for each operation: name, permissions, body and replies. The same declaration serves requests and
//! describes the interface.

use crate::convert::ToBody;
use crate::core::{Call, Versioned};
use crate::problem::{Failure, Result};
use api_client::model::Operation;
use api_client::{JSON, MERGE_PATCH, encoded};
use axum::extract::Query;
use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use control::Role;
use http_server::{Answer, Problem, answer};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The media type of plain text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) type Serve = dyn Fn(&Call) -> Result<Answer, Problem> + Send + Sync;

/// The token that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// One of this role or a higher one.
    Role(Role),
    /// Any, or none if the configuration opens metrics.
    Metrics,
}

/// An operation of the interface.
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    /// Parts in braces are names.
    pub(crate) path: &'static str,
    pub(crate) docs: Docs,
    /// `None`: open to all clients.
    pub(crate) needs: Option<Needs>,
    /// The media types of the body, if it takes one.
    pub(crate) takes: &'static [&'static str],
    /// Whether it heeds `If-Match`.
    pub(crate) is_conditional: bool,
    /// Statuses of refusals besides those of all operations of its kind.
    pub(crate) refusals: &'static [u16],
    pub(crate) describe: fn(&mut SchemaGenerator) -> OperationSchemas,
    pub(crate) serve: Box<Serve>,
}

/// The texts that describe an operation.
pub(crate) struct Docs {
    pub(crate) tag: &'static str,
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
}

impl Docs {
    pub(crate) fn new(tag: &'static str, name: &'static str, summary: &'static str) -> Self {
        Self { tag, name, summary }
    }
}

/// An operation's types.
pub(crate) struct OperationSchemas {
    pub(crate) query: Schema,
    pub(crate) body: Option<Schema>,
    pub(crate) replies: Vec<ResponseSpec>,
}

/// A reply of an operation.
pub(crate) struct ResponseSpec {
    pub(crate) status: StatusCode,
    pub(crate) description: &'static str,
    pub(crate) media: &'static str,
    pub(crate) schema: Schema,
    pub(crate) headers: &'static [&'static str],
}

/// The body of an operation.
pub(crate) trait Body: Sized {
    /// Media types; none if the operation takes no body.
    const TAKES: &'static [&'static str];
    fn schema(generator: &mut SchemaGenerator) -> Option<Schema>;
    fn read(call: &Call) -> Result<Self, Problem>;
}

/// The reply of an operation.
pub(crate) trait Reply {
    fn describe(generator: &mut SchemaGenerator) -> Vec<ResponseSpec>;
    fn answer(self) -> Result<Answer, Problem>;
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoQuery {}

/// Whether the operator insists.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Force {
    /// Applies the change despite a `forceable` problem.
    #[serde(default)]
    pub(crate) force: bool,
}

pub(crate) struct NoBody;
/// A body or reply in JSON.
pub(crate) struct Json<T>(pub(crate) T);
/// A merge patch (RFC 7396).
pub(crate) struct Patch<T>(pub(crate) T);
/// A value with its version.
pub(crate) struct Tagged<T> {
    pub(crate) etag: String,
    pub(crate) value: T,
}
/// A created object, or an existing one that is as asked for.
pub(crate) struct Created<T> {
    pub(crate) is_new: bool,
    pub(crate) location: String,
    pub(crate) etag: String,
    pub(crate) value: T,
}
/// A created object that cannot exist before.
pub(crate) struct CreatedNew<T> {
    pub(crate) location: String,
    pub(crate) value: T,
}
/// A long operation that goes on after the reply.
pub(crate) struct Started(pub(crate) Operation);
pub(crate) struct Text {
    pub(crate) media: &'static str,
    pub(crate) text: String,
}

impl Endpoint {
    pub(crate) fn new<Q, B, R>(
        method: Method,
        path: &'static str,
        docs: Docs,
        needs: impl Into<Option<Needs>>,
        serve: fn(&Call, Q, B) -> Result<R>,
    ) -> Self
    where
        Q: DeserializeOwned + JsonSchema + 'static,
        B: Body + 'static,
        R: Reply + 'static,
    {
        Self {
            method,
            path,
            docs,
            needs: needs.into(),
            takes: B::TAKES,
            is_conditional: false,
            refusals: &[],
            describe: |generator| OperationSchemas {
                query: Q::json_schema(generator),
                body: B::schema(generator),
                replies: R::describe(generator),
            },
            serve: Box::new(move |call| {
                serve(call, query(call)?, B::read(call)?).map_err(|Failure(problem)| problem)?.answer()
            }),
        }
    }

    /// Makes the operation depend on `If-Match`.
    pub(crate) fn conditional(self) -> Self {
        Self { is_conditional: true, ..self }
    }

    /// Adds statuses of refusals.
    pub(crate) fn refuses(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }
}

/// Reads the query parameters.
fn query<Q: DeserializeOwned>(call: &Call) -> Result<Q, Problem> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(&call.request.uri);
    let Query(pairs) =
        pairs.map_err(|_| Problem::malformed("the query; allowed: name=value, joined by &"))?;
    api_client::json::from_query(pairs).map_err(|error| Problem::malformed(error.of_parameter()))
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Answer, Problem> {
    let body = serde_json::to_vec(value).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(answer(status, JSON, body))
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), Problem> {
    let value = HeaderValue::from_str(value).map_err(|error| Problem::internal(error.to_string()))?;
    headers.insert(name, value);
    Ok(())
}

impl Body for NoBody {
    const TAKES: &'static [&'static str] = &[];

    fn schema(_: &mut SchemaGenerator) -> Option<Schema> {
        None
    }

    fn read(_: &Call) -> Result<Self, Problem> {
        Ok(Self)
    }
}

impl<T: DeserializeOwned + JsonSchema> Body for Json<T> {
    const TAKES: &'static [&'static str] = &[JSON];

    fn schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.subschema_for::<T>())
    }

    fn read(call: &Call) -> Result<Self, Problem> {
        call.json().map(Self)
    }
}

impl<T: DeserializeOwned + JsonSchema> Body for Patch<T> {
    const TAKES: &'static [&'static str] = &[MERGE_PATCH, JSON];

    fn schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.subschema_for::<T>())
    }

    fn read(call: &Call) -> Result<Self, Problem> {
        call.json().map(Self)
    }
}

impl<T: Serialize + JsonSchema> Reply for Json<T> {
    fn describe(generator: &mut SchemaGenerator) -> Vec<ResponseSpec> {
        vec![ResponseSpec::new(
            StatusCode::OK,
            "The requested resource.",
            generator.subschema_for::<T>(),
            &[],
        )]
    }

    fn answer(self) -> Result<Answer, Problem> {
        json(StatusCode::OK, &self.0)
    }
}

impl<T: Serialize + JsonSchema> Reply for Tagged<T> {
    fn describe(generator: &mut SchemaGenerator) -> Vec<ResponseSpec> {
        vec![ResponseSpec::new(
            StatusCode::OK,
            "The current state.",
            generator.subschema_for::<T>(),
            &["ETag"],
        )]
    }

    fn answer(self) -> Result<Answer, Problem> {
        let mut answer = json(StatusCode::OK, &self.value)?;
        set(answer.headers_mut(), ETAG, &self.etag)?;
        Ok(answer)
    }
}

impl<T: Serialize + JsonSchema> Reply for Created<T> {
    fn describe(generator: &mut SchemaGenerator) -> Vec<ResponseSpec> {
        let schema = generator.subschema_for::<T>();
        let there = "An identical resource exists; nothing changed.";
        vec![
            ResponseSpec::new(StatusCode::OK, there, schema.clone(), &["Location", "ETag"]),
            ResponseSpec::new(StatusCode::CREATED, "Created.", schema, &["Location", "ETag"]),
        ]
    }

    fn answer(self) -> Result<Answer, Problem> {
        let status = if self.is_new { StatusCode::CREATED } else { StatusCode::OK };
        let mut answer = json(status, &self.value)?;
        set(answer.headers_mut(), LOCATION, &self.location)?;
        set(answer.headers_mut(), ETAG, &self.etag)?;
        Ok(answer)
    }
}

impl<T: Serialize + JsonSchema> Reply for CreatedNew<T> {
    fn describe(generator: &mut SchemaGenerator) -> Vec<ResponseSpec> {
        let schema = generator.subschema_for::<T>();
        vec![ResponseSpec::new(StatusCode::CREATED, "Created.", schema, &["Location"])]
    }

    fn answer(self) -> Result<Answer, Problem> {
        let mut answer = json(StatusCode::CREATED, &self.value)?;
        set(answer.headers_mut(), LOCATION, &self.location)?;
        Ok(answer)
    }
}

impl Reply for Started {
    fn describe(generator: &mut SchemaGenerator) -> Vec<ResponseSpec> {
        let schema = generator.subschema_for::<Operation>();
        let started = "Started. The operation at `Location` shows its progress and its end.";
        vec![ResponseSpec::new(StatusCode::ACCEPTED, started, schema, &["Location"])]
    }

    fn answer(self) -> Result<Answer, Problem> {
        let mut answer = json(StatusCode::ACCEPTED, &self.0)?;
        set(answer.headers_mut(), LOCATION, &format!("/v1/operations/{}", self.0.id))?;
        Ok(answer)
    }
}

impl Reply for Text {
    fn describe(_: &mut SchemaGenerator) -> Vec<ResponseSpec> {
        let schema = schemars::json_schema!({ "type": "string" });
        vec![ResponseSpec { media: "text/plain", ..ResponseSpec::new(StatusCode::OK, "Text.", schema, &[]) }]
    }

    fn answer(self) -> Result<Answer, Problem> {
        Ok(answer(StatusCode::OK, self.media, self.text))
    }
}

impl ResponseSpec {
    fn new(
        status: StatusCode,
        description: &'static str,
        schema: Schema,
        headers: &'static [&'static str],
    ) -> Self {
        Self { status, description, media: JSON, schema, headers }
    }
}

impl<T> Tagged<T> {
    /// Shows `thing` with its version.
    pub(crate) fn of(thing: &(impl Versioned + ToBody<Body = T>)) -> Self {
        Self { etag: thing.etag(), value: thing.to_body() }
    }
}

impl<T> Created<T> {
    /// Shows the result of a creation, at `collection` and its name.
    pub(crate) fn of<V>(done: &control::ChangeResult<V>, collection: &str, name: &str) -> Self
    where
        V: Versioned + ToBody<Body = T>,
    {
        Self {
            is_new: done.operation.has_changed(),
            location: format!("{collection}/{}", encoded(name)),
            etag: done.value.etag(),
            value: done.value.to_body(),
        }
    }
}
