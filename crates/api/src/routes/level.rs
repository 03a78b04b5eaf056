//! The catalog of service levels.

use super::paging::page_of;
use crate::convert::FromBody;
use crate::core::Call;
use crate::endpoint::{Docs, Endpoint, Json, Needs, NoBody};
use crate::problem::Result;
use api_client::model::{Level, LevelLimits, LevelQuery, Limits, Page, PageQuery};
use axum::http::Method;
use control::Role;
use envelope::Bytes;
use http_server::Problem;

const TAG: &str = "levels";
const ALL: &str = "/v1/levels";
const ONE: &str = "/v1/levels/{provider}/{level}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let look = Needs::Role(Role::Read);
    vec![
        Endpoint::new(Method::GET, ALL, Docs::new(TAG, "listLevels", "List all service levels."), look, list),
        Endpoint::new(
            Method::GET,
            ONE,
            Docs::new(
                TAG,
                "getLevel",
                "Get a service level; with sizes and settings, also the limits and their origins.",
            ),
            look,
            one,
        )
        .refuses(&[422]),
    ]
}

fn list(_: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Level>>> {
    let mut levels = envelope::Level::all().to_vec();
    levels.sort_by_key(|level| level.name());
    let (levels, next_page_token) = page_of(levels, &asked, |level| level.name().to_owned())?;
    Ok(Json(Page { items: levels.into_iter().map(Level::from).collect(), next_page_token }))
}

fn one(call: &Call, asked: LevelQuery, _: NoBody) -> Result<Json<LevelLimits>> {
    let name = format!("{}/{}", call.part("provider"), call.part("level"));
    let level: envelope::Level =
        name.parse().map_err(|_| Problem::no_such_path(&format!("/v1/levels/{name}")))?;
    let Some(size) = asked.size_bytes else {
        let is_asked = asked != LevelQuery::default();
        return if is_asked {
            let what = "settings without size_bytes".to_owned();
            Err(control::Error::Invalid { what, allowed: "both, or neither".to_owned() }.into())
        } else {
            Ok(Json(LevelLimits { level: level.into(), pool: None, volume: None }))
        };
    };
    let settings = FromBody::from_body(asked.pool_settings())?;
    let pool = envelope::Pool { level, size: Bytes(size), settings };
    let size = Bytes(asked.volume_size_bytes.unwrap_or(size));
    let volume = envelope::Volume { size, settings: asked.volume_settings().into() };
    let of_pool = pool.limits().map_err(control::Error::from)?;
    let of_volume = pool.volume_limits(&volume).map_err(control::Error::from)?;
    Ok(Json(LevelLimits {
        level: level.into(),
        pool: Some(Limits::from(of_pool)),
        volume: Some(Limits::from(of_volume)),
    }))
}
