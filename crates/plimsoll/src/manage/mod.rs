//! The commands that manage a running service, one file for each family.

mod access;
mod authorization;
mod back;
mod backup;
mod client;
mod client_check;
mod clone;
mod connection;
mod group;
pub(crate) mod ids;
mod level;
pub(crate) mod limits;
pub(crate) mod names;
mod operation;
mod password;
mod peer;
mod policy;
mod pool;
mod quota;
mod replication;
mod schedule;
mod settings;
pub(crate) mod share_modes;
mod snapshot;
mod status;
pub(crate) mod table;
mod token;
mod user;
mod vault;
mod volume;
mod watch;
pub(crate) mod words;

pub(crate) use access::RuleFlags;
pub(crate) use connection::{ServiceArgs, Session, URL_ALLOWED, is_url};
pub(crate) use password::{PasswordArgs, without_line_end};
pub(crate) use table::Table;

use clap::Subcommand;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Manage pools: capacity at a service level, shared by volumes.
    Pool(pool::PoolArgs),
    /// Manage volumes, which clients mount.
    Volume(volume::VolumeArgs),
    /// Manage snapshots: read-only states of a volume.
    Snapshot(snapshot::SnapshotArgs),
    /// Make volumes from snapshots.
    Clone(clone::CloneArgs),
    /// Manage policies, which make snapshots or backups on schedules.
    Policy(policy::PolicyArgs),
    /// Manage vaults: places for backups.
    Vault(vault::VaultArgs),
    /// Back up volumes, and restore volumes and files.
    Backup(backup::BackupArgs),
    /// Manage replications: volumes that follow other volumes.
    Replication(replication::ReplicationArgs),
    /// Manage peers: other services, for replications between them.
    Peer(peer::PeerArgs),
    /// Limit what users and groups store on a volume.
    Quota(quota::QuotaArgs),
    /// Manage users, which log in with a password.
    User(user::UserArgs),
    /// Manage groups of users.
    Group(group::GroupArgs),
    /// Show service levels, with their limits and sources. Needs no running service.
    #[command(subcommand)]
    Level(level::Command),
    /// Show the connected clients, or check this host as a client.
    #[command(subcommand)]
    Client(client::Command),
    /// Show the record of changes, and cancel long operations.
    Operation(operation::OperationArgs),
    /// Manage tokens, which give access to the API.
    Token(token::TokenArgs),
    /// Show the warnings of the service.
    Warning(status::WarningArgs),
    /// Show the state and the warnings of the service.
    Status(status::StatusArgs),
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let done = |ended: anyhow::Result<()>| ended.map(|()| ExitCode::SUCCESS);
    match command {
        Command::Pool(args) => done(pool::run(args)),
        Command::Volume(args) => done(volume::run(args)),
        Command::Snapshot(args) => done(snapshot::run(args)),
        Command::Clone(args) => done(clone::run(args)),
        Command::Policy(args) => done(policy::run(args)),
        Command::Vault(args) => done(vault::run(args)),
        Command::Backup(args) => done(backup::run(args)),
        Command::Replication(args) => done(replication::run(args)),
        Command::Peer(args) => done(peer::run(args)),
        Command::Quota(args) => done(quota::run(args)),
        Command::User(args) => done(user::run(args)),
        Command::Group(args) => done(group::run(args)),
        Command::Level(command) => done(level::run(command)),
        Command::Client(command) => client::run(command),
        Command::Operation(args) => done(operation::run(args)),
        Command::Token(args) => done(token::run(args)),
        Command::Warning(args) => done(status::list(args)),
        Command::Status(args) => done(status::run(&args)),
    }
}
