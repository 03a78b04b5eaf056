//! Vaults.

use super::paging::{after, limit, page};
use crate::convert::{FromBody, ToBody};
use crate::core::Call;
use crate::endpoint::{Created, Docs, Endpoint, Force, Json, Needs, NoBody, NoQuery, Patch, Tagged};
use crate::problem::Result;
use api_client::model::{NewVault, Operation, Page, PageQuery, Vault, VaultPatch};
use axum::http::Method;
use control::{Kind, Role, VaultChange, VaultName};

const TAG: &str = "vaults";
const ALL: &str = "/v1/vaults";
const ONE: &str = "/v1/vaults/{name}";

/// A vault names files of the host, so only administrators change one.
pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, administer) = (Needs::Role(Role::Read), Needs::Role(Role::Admin));
    vec![
        Endpoint::new(Method::GET, ALL, Docs::new(TAG, "listVaults", "List vaults by name."), look, list),
        Endpoint::new(
            Method::POST,
            ALL,
            Docs::new(
                TAG,
                "createVault",
                "Create a vault, or use the one that is in its place, with its backups. Succeeds without a change if an identical vault exists.",
            ),
            administer,
            create,
        )
        .refuses(&[409, 422]),
        Endpoint::new(Method::GET, ONE, Docs::new(TAG, "getVault", "Get a vault."), look, one),
        Endpoint::new(
            Method::PATCH,
            ONE,
            Docs::new(TAG, "changeVault", "Change a vault. A new place must be that of the same vault."),
            administer,
            change,
        )
        .conditional()
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(TAG, "deleteVault", "Forget a vault. Its directory or bucket stays as it is."),
            administer,
            delete,
        )
        .conditional()
        .refuses(&[409]),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Vault>>> {
    let vaults = call.service().vaults(after::<VaultName>(&asked)?, limit(&asked)?)?;
    Ok(Json(page(&vaults)))
}

fn create(call: &Call, _: NoQuery, Json(new): Json<NewVault>) -> Result<Created<Vault>> {
    let done = call.service().create_vault(&call.context(false), &FromBody::from_body(new)?)?;
    Ok(Created::of(&done, ALL, done.value.name.as_str()))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Vault>> {
    Ok(Tagged::of(&call.service().vault(&call.name(Kind::Vault)?)?))
}

fn change(call: &Call, _: NoQuery, Patch(patch): Patch<VaultPatch>) -> Result<Tagged<Vault>> {
    let (service, name): (_, VaultName) = (call.service(), call.name(Kind::Vault)?);
    let change = VaultChange::from_body(patch)?;
    let look = || service.vault(&name);
    let done = call.change(false, look, |_, context| service.update_vault(context, &name, &change))?;
    Ok(Tagged::of(&done.value))
}

fn delete(call: &Call, asked: Force, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, VaultName) = (call.service(), call.name(Kind::Vault)?);
    let look = || service.vault(&name);
    let done = call.change(asked.force, look, |_, context| service.delete_vault(context, &name))?;
    Ok(Json(done.to_body()))
}
