//! The tokens of the interface, and the first of them.

use crate::endpoint::Needs;
use crate::problem::problem_of;
use api_client::ADMIN_TOKEN_FILE;
use axum::http::StatusCode;
use control::{Actor, ChangeContext, Role, Service, Token, TokenName};
use http_server::{Authority, Problem};
use stable::files;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first token's name.
const ADMIN: &str = "admin";

/// Makes the first token, unless there is one. Its secret is in [`ADMIN_TOKEN_FILE`] in `dir`, which only the owner can read.
/// Returns the path if the token is new.
pub fn bootstrap(service: &Service, dir: &Path) -> io::Result<Option<PathBuf>> {
    let path = dir.join(ADMIN_TOKEN_FILE);
    let name: TokenName = ADMIN.parse().map_err(io::Error::other)?;
    let context = ChangeContext::by(Actor::new("plimsoll"));
    let tokens = service.tokens().map_err(io::Error::other)?;
    // The process may have ended after the token was stored and before its file was written.
    let is_lost = |token: &Token| token.name == name && token.used_ms.is_none() && !path.exists();
    match tokens.as_slice() {
        [] => {}
        [only] if is_lost(only) => drop(service.revoke_token(&context, &name).map_err(io::Error::other)?),
        _ => return Ok(None),
    }
    let (_, secret) = service.create_token(&context, &name, Role::Admin).map_err(io::Error::other)?;
    let new = dir.join(format!("{ADMIN_TOKEN_FILE}.new"));
    let line = format!("{}\n", secret.expose());
    if let Some(replica) = service.replica() {
        stable::store_whole(&**replica, ADMIN_TOKEN_FILE, line.as_bytes())?;
    }
    files::replace(&path, &new, files::PRIVATE, &[line.as_bytes()])?;
    Ok(Some(path))
}

/// The tokens that `control` keeps.
pub(crate) struct Tokens {
    pub(crate) service: Arc<Service>,
    pub(crate) metrics_are_open: bool,
}

impl Authority for Tokens {
    type Token = Token;
    type Need = Needs;

    fn has_tokens(&self) -> io::Result<bool> {
        Ok(!self.service.tokens().map_err(io::Error::other)?.is_empty())
    }

    fn is_open(&self, need: Needs) -> bool {
        need == Needs::Metrics && self.metrics_are_open
    }

    fn find(&self, secret: &str) -> Result<Option<Token>, Problem> {
        self.service.check_token(secret).map_err(problem_of)
    }

    fn check(&self, token: &Token, need: Needs) -> Result<(), Problem> {
        let role = match need {
            Needs::Role(role) => role,
            Needs::Metrics => Role::Read,
        };
        if token.role >= role {
            return Ok(());
        }
        let detail = format!("the token {} has the role {}; needed: {role}", token.name, token.role);
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "The token's role is too low", detail))
    }
}
