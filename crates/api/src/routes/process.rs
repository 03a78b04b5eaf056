//! The process: what it warns of, what it is, how it does.

use super::paging::page_of;
use crate::convert::{ToBody, protocols_of};
use crate::core::Call;
use crate::endpoint::{Docs, Endpoint, Json, Needs, NoBody, NoQuery, TEXT, Text};
use crate::metrics;
use crate::plane::SmbService;
use crate::problem::Result;
use api_client::model::{Nfs, Page, PageQuery, Smb, V3Locks, Version, Warning};
use axum::http::{Method, StatusCode};
use control::{Protocols, Role};
use http_server::Problem;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

const TAG: &str = "process";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let look = Needs::Role(Role::Read);
    let endpoint = |path, name, summary, needs, serve| {
        Endpoint::new::<NoQuery, NoBody, Text>(Method::GET, path, Docs::new(TAG, name, summary), needs, serve)
    };
    vec![
        Endpoint::new(
            Method::GET,
            "/v1/warnings",
            Docs::new(TAG, "listWarnings", "List warnings for the operator."),
            look,
            warnings,
        ),
        Endpoint::new(
            Method::GET,
            "/v1/version",
            Docs::new(TAG, "getVersion", "Get the running version."),
            look,
            version,
        ),
        Endpoint::new(Method::GET, "/v1/nfs", Docs::new(TAG, "getNfs", "Get the state of NFS."), look, nfs),
        Endpoint::new(Method::GET, "/v1/smb", Docs::new(TAG, "getSmb", "Get the state of SMB."), look, smb),
        endpoint(
            "/metrics",
            "getMetrics",
            "Get metrics in Prometheus' text format.",
            Some(Needs::Metrics),
            metrics,
        ),
        endpoint("/healthz", "getHealth", "Check that the process answers.", None, health),
        endpoint(
            "/readyz",
            "getReadiness",
            "Check that clients can mount; also get the progress of counting volumes after a crash.",
            None,
            readiness,
        )
        .refuses(&[503]),
        Endpoint::new(
            Method::GET,
            "/openapi.json",
            Docs::new(TAG, "getDescription", "Get this description."),
            None,
            description,
        ),
    ]
}

fn warnings(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Warning>>> {
    // Warnings have no names: their places are what pages go by.
    let all = (1_usize..).zip(call.service().warnings()?).collect();
    let (items, next_page_token) = page_of(all, &asked, |(place, _)| *place)?;
    Ok(Json(Page { items: items.iter().map(|(_, warning)| warning.to_body()).collect(), next_page_token }))
}

fn version(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Version>> {
    let (version, api) = (env!("CARGO_PKG_VERSION").to_owned(), "v1".to_owned());
    let placement = call.core.plane.placement();
    let (endpoint, gateway) = placement.map(|placement| (placement.endpoint, placement.gateway)).unzip();
    Ok(Json(Version { version, api, endpoint, gateway }))
}

fn nfs(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Nfs>> {
    let served = call.core.plane.nfs();
    let reason = served.v3_locks.err();
    Ok(Json(Nfs {
        address: served.address.to_string(),
        protocols: protocols_of(call.service().protocols().and(Protocols::NFS)),
        v3_locks: V3Locks { reachable: reason.is_none(), reason },
    }))
}

fn smb(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Smb>> {
    let served = call.core.plane.smb();
    let number = |of: fn(&SmbService) -> usize| {
        served.as_ref().map_or(0, |served| u64::try_from(of(served)).unwrap_or(u64::MAX))
    };
    Ok(Json(Smb {
        address: served.as_ref().map(|served| served.address.to_string()),
        connections: number(|of| of.connections),
        sessions: number(|of| of.sessions),
        open_files: number(|of| of.opens),
        refused_logins: served.as_ref().map_or(0, |served| served.refused_logins),
    }))
}

fn metrics(call: &Call, _: NoQuery, _: NoBody) -> Result<Text> {
    Ok(Text { media: metrics::MEDIA, text: metrics::gather(&call.core)? })
}

fn health(_: &Call, _: NoQuery, _: NoBody) -> Result<Text> {
    Ok(Text { media: TEXT, text: "ok\n".to_owned() })
}

fn readiness(call: &Call, _: NoQuery, _: NoBody) -> Result<Text> {
    if call.core.plane.is_ready() {
        let counting = call.service().counting();
        let counting = if counting.volumes == 0 { String::new() } else { format!("counting: {counting}\n") };
        return Ok(Text { media: TEXT, text: format!("ok\n{counting}") });
    }
    let detail = "the service is starting or stopping: retry in a second";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "Not ready", detail).into())
}

/// An OpenAPI 3.1 document.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct Description(#[schemars(with = "Map<String, Value>")] Value);

fn description(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Description>> {
    Ok(Json(Description(call.core.description.clone())))
}
