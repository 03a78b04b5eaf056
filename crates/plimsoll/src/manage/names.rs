//! What exists, for shells that complete names. Where no service answers nothing is completed.

use super::connection::ServiceArgs;
use clap_complete::{ArgValueCandidates, CompletionCandidate};

fn candidates(
    names: impl FnOnce(&api_client::Client) -> api_client::Result<Vec<String>>,
) -> Vec<CompletionCandidate> {
    // What is on the line being completed is not known here; the environment and the defaults are.
    let environment = ServiceArgs {
        data: std::env::var_os("PLIMSOLL_DATA").map(Into::into),
        url: std::env::var("PLIMSOLL_URL").ok(),
        ca: std::env::var_os("PLIMSOLL_CA").map(Into::into),
        ..ServiceArgs::default()
    };
    let found = environment.open().and_then(|session| session.ask(names)).unwrap_or_default();
    found.into_iter().map(CompletionCandidate::new).collect()
}

/// The pools there are.
pub(crate) fn pools() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.pools()?.into_iter().map(|pool| pool.name).collect()))
    })
}

/// The volumes there are.
pub(crate) fn volumes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.volumes()?.into_iter().map(|volume| volume.name).collect()))
    })
}

/// The users there are.
pub(crate) fn users() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.users()?.into_iter().map(|user| user.name).collect()))
    })
}

/// The groups there are.
pub(crate) fn groups() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.groups()?.into_iter().map(|group| group.name).collect()))
    })
}

/// The tokens there are.
pub(crate) fn tokens() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.tokens()?.into_iter().map(|token| token.name).collect()))
    })
}
