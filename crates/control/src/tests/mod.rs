//! The service over volumes in memory: what it makes, what it refuses, and what is left when it ends at any step.

mod backup_crash;
mod backups;
mod change;
mod clones;
mod concurrency;
mod crash;
mod endpoints;
mod groups;
mod growth;
mod network;
mod peers;
mod policies;
mod policy_decade;
mod pool;
mod quotas;
mod replication_crash;
mod replication_waits;
mod replications;
mod restores;
mod revert;
mod rig;
mod rules;
mod snapshot_crash;
mod snapshot_races;
mod snapshot_rules;
mod snapshots;
mod space;
mod store;
mod store_log;
mod token;
mod users;
mod vault_rate;
mod volume;

#[test]
fn a_service_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<crate::Service>();
}
