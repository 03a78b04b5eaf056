//! Creates, lists, revokes and checks API tokens.

use super::Service;
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::name::TokenName;
use crate::operation::{ChangeContext, ChangeResult, Operation, Verb};
use crate::store;
use crate::token::{Fingerprint, Role, Secret, TOKENS_MAX, Token, USED_STEP_MS};

impl Service {
    /// Creates a token and returns its secret, which is never shown again.
    pub fn create_token(
        &self,
        context: &ChangeContext,
        name: &TokenName,
        role: Role,
    ) -> Result<(ChangeResult<Token>, Secret)> {
        let mut random = [0; 32];
        (self.dependencies.entropy)(&mut random);
        let secret = Secret::new(random);
        let token = Token { name: name.clone(), role, created_ms: self.now_ms(), used_ms: None };
        let operation = self.change(|store| {
            let tokens = store::token::list(store)?;
            if tokens.iter().any(|(other, _)| other.name == *name) {
                let name = name.to_string();
                return Err(Error::Conflict { kind: Kind::Token, name, differs: Vec::new() });
            }
            if tokens.len() >= TOKENS_MAX {
                return Err(Error::invalid("another token", format!("at most {TOKENS_MAX}: revoke some")));
            }
            store::token::insert(store, &token, &Fingerprint::of(secret.expose()))?;
            self.record(store, context, Verb::Create, (Kind::Token, name.as_str()), role.as_str())
        })?;
        Ok((ChangeResult { value: token, operation }, secret))
    }

    pub fn tokens(&self) -> Result<Vec<Token>> {
        let all = self.read(|store| Ok(store::token::list(store)?))?;
        Ok(all.into_iter().map(|(token, _)| token).collect())
    }

    /// Requests with the token fail from now on.
    pub fn revoke_token(&self, context: &ChangeContext, name: &TokenName) -> Result<Operation> {
        self.change(|store| {
            if !store::token::delete(store, name)? {
                return Err(Error::not_found(Kind::Token, name));
            }
            self.record(store, context, Verb::Delete, (Kind::Token, name.as_str()), "")
        })
    }

    /// Returns the token with this secret. The time does not depend on how much of a wrong secret is right.
    pub fn check_token(&self, secret: &str) -> Result<Option<Token>> {
        let shown = Fingerprint::of(secret);
        let all = self.read(|store| Ok(store::token::list(store)?))?;
        let mut found = None;
        for (token, fingerprint) in all {
            if fingerprint.is(&shown) {
                found = Some(token);
            }
        }
        let now = self.now_ms();
        if let Some(token) = &mut found
            && token.used_ms.is_none_or(|used| now.saturating_sub(used) >= USED_STEP_MS)
        {
            token.used_ms = Some(now);
            self.change(|store| Ok(store::token::used(store, &token.name, now)?))?;
        }
        Ok(found)
    }
}
