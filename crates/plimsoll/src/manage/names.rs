//! Names of existing objects for the completion of shells. If no service answers, there are no candidates.

use super::connection::ServiceArgs;
use clap_complete::{ArgValueCandidates, CompletionCandidate};

fn candidates(
    names: impl FnOnce(&api_client::Client) -> api_client::Result<Vec<String>>,
) -> Vec<CompletionCandidate> {
    // The flags on the line being completed are not available here, only the environment and the defaults.
    let environment = ServiceArgs {
        data: std::env::var_os("PLIMSOLL_DATA").map(Into::into),
        config: std::env::var_os("PLIMSOLL_CONFIG").map(Into::into),
        url: std::env::var("PLIMSOLL_URL").ok(),
        ca: std::env::var_os("PLIMSOLL_CA").map(Into::into),
        ..ServiceArgs::default()
    };
    let found = environment.open().and_then(|session| session.ask(names)).unwrap_or_default();
    found.into_iter().map(CompletionCandidate::new).collect()
}

pub(crate) fn pools() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.pools()?.into_iter().map(|pool| pool.name).collect()))
    })
}

pub(crate) fn volumes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.volumes()?.into_iter().map(|volume| volume.name).collect()))
    })
}

/// The snapshots of all volumes: completion does not know the volume on the line.
pub(crate) fn snapshots() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| {
            let mut names = Vec::new();
            for volume in client.volumes()? {
                names.extend(client.snapshots(&volume.name)?.into_iter().map(|one| one.name));
            }
            names.sort();
            names.dedup();
            Ok(names)
        })
    })
}

pub(crate) fn policies() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.policies()?.into_iter().map(|policy| policy.name).collect()))
    })
}

pub(crate) fn vaults() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.vaults()?.into_iter().map(|vault| vault.name).collect()))
    })
}

/// The backups of all vaults: completion does not know the vault on the line.
pub(crate) fn backups() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| {
            let mut names = Vec::new();
            for vault in client.vaults()? {
                names.extend(client.backups(&vault.name)?.into_iter().map(|one| one.name));
            }
            Ok(names)
        })
    })
}

pub(crate) fn peers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.peers()?.into_iter().map(|peer| peer.name).collect()))
    })
}

pub(crate) fn replications() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.replications()?.into_iter().map(|one| one.volume).collect()))
    })
}

pub(crate) fn scenarios() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let candidate = |scenario: report::scenario::Scenario| {
            CompletionCandidate::new(scenario.name).help(Some(scenario.title.into()))
        };
        report::scenario::all().into_iter().map(candidate).collect()
    })
}

pub(crate) fn users() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.users()?.into_iter().map(|user| user.name).collect()))
    })
}

pub(crate) fn groups() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.groups()?.into_iter().map(|group| group.name).collect()))
    })
}

pub(crate) fn tokens() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(|client| Ok(client.tokens()?.into_iter().map(|token| token.name).collect()))
    })
}
