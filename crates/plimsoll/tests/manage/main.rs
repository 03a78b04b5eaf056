//! `plimsoll serve` and the commands that manage it, as their users have them.

mod access;
mod asked;
mod backups;
mod bench;
mod capacity;
mod client_check;
mod command_line;
mod counters;
mod counting;
mod endpoints;
mod figures;
mod fsx;
mod full;
#[path = "../../../posix/tests/fixture/ground.rs"]
mod ground;
mod life;
mod metrics;
mod mount;
mod newcomer;
mod page;
mod peers;
mod quota_attacks;
mod quota_writers;
mod quotas;
mod replication_clients;
mod replications;
mod reverts;
mod rig;
mod s3;
mod secure;
#[path = "../support/session.rs"]
mod session;
mod setup;
mod size;
mod skip {
    pub(crate) use crate::ground::skip;
}
mod smb;
mod snapshots;
mod space;
mod steps;
mod users;
mod ways;
mod wrong_input;
