//! Tokens of this interface.

use super::paging::page_of;
use crate::convert::{ToBody, ToValue};
use crate::core::Call;
use crate::endpoint::{CreatedNew, Docs, Endpoint, Json, Needs, NoBody, NoQuery};
use crate::problem::Result;
use api_client::encoded;
use api_client::model::{NewToken, Operation, Page, PageQuery, Secret, Token};
use axum::http::{Method, StatusCode};
use control::{Kind, Role, TokenName};
use http_server::Problem;

const TAG: &str = "tokens";
const ALL: &str = "/v1/tokens";
const ONE: &str = "/v1/tokens/{name}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let admin = Needs::Role(Role::Admin);
    vec![
        Endpoint::new(Method::GET, ALL, Docs::new(TAG, "listTokens", "List tokens by name."), admin, list),
        Endpoint::new(
            Method::POST,
            ALL,
            Docs::new(TAG, "createToken", "Create a token. Only this reply contains its secret."),
            admin,
            create,
        )
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(TAG, "revokeToken", "Revoke a token. The service refuses further requests with it."),
            admin,
            revoke,
        )
        .refuses(&[409]),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Token>>> {
    let (tokens, next_page_token) =
        page_of(call.service().tokens()?, &asked, |token| token.name.to_string())?;
    Ok(Json(Page { items: tokens.iter().map(ToBody::to_body).collect(), next_page_token }))
}

fn create(call: &Call, _: NoQuery, Json(new): Json<NewToken>) -> Result<CreatedNew<Secret>> {
    let name: TokenName = new.name.parse()?;
    let (done, secret) = call.service().create_token(&call.context(false), &name, new.role.to_value())?;
    Ok(CreatedNew {
        location: format!("{ALL}/{}", encoded(name.as_str())),
        value: Secret { token: done.value.to_body(), secret: secret.expose().to_owned() },
    })
}

fn revoke(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let name: TokenName = call.name(Kind::Token)?;
    // So there is always one who can get in.
    if call.request.token.as_ref().is_some_and(|token| token.name == name) {
        let detail = format!("the token {name} cannot revoke itself: use another token of the role admin");
        return Err(
            Problem::new(StatusCode::CONFLICT, "own-token", "A token cannot revoke itself", detail).into()
        );
    }
    let operation = call.service().revoke_token(&call.context(false), &name)?;
    Ok(Json(operation.to_body()))
}
