//! The interface over real sockets, asked by its own client and by clients that misbehave.

mod changes;
mod description;
mod from_snapshot;
mod listing;
mod messages;
mod metrics;
mod quotas;
mod raw;
mod replications;
mod rig;
mod security;
mod snapshots;
mod statuses;
mod users;
