//! The operations of the native interface, by family.

mod backup;
mod client;
mod from_snapshot;
mod group;
mod level;
mod operation;
mod paging;
mod peer;
mod policy;
mod pool;
mod process;
mod quota;
mod replication;
mod rule;
mod snapshot;
mod token;
mod user;
mod vault;
mod volume;

use crate::endpoint::Endpoint;

/// All operations.
pub(crate) fn all() -> Vec<Endpoint> {
    [
        pool::endpoints(),
        volume::endpoints(),
        snapshot::endpoints(),
        from_snapshot::endpoints(),
        policy::endpoints(),
        vault::endpoints(),
        backup::endpoints(),
        replication::endpoints(),
        peer::endpoints(),
        rule::endpoints(),
        quota::endpoints(),
        user::endpoints(),
        group::endpoints(),
        level::endpoints(),
        operation::endpoints(),
        client::endpoints(),
        token::endpoints(),
        process::endpoints(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
