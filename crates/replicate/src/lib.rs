//! Backups of snapshots in a vault, restores, and replication of volumes.
//!
//! A *vault* is a directory or a bucket ([`store::ObjectStore`]). A *backup* in it is a manifest, an index of all files,
//! and packs of their data. Each backup can be restored alone; unchanged data is in the packs of earlier backups.
//! docs/formats/backup.md draws every byte.
//!
//! Time, randomness and waiting are arguments. Storage is reached through `vfs::Backend` only.
//!
//! Layers, top down: `fuzz`, `link`, `replication`, `backup`, `restore`, `compare`, `verify`, `sweep`, `tree`, `walk`, `inodes`,
//! `vault`, `sorter`, `store`, `job`, `error`, `format`, `limits`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod backup;
mod compare;
mod error;
mod format;
pub mod fuzz;
mod inodes;
mod job;
pub mod limits;
pub mod link;
pub mod replication;
mod restore;
mod sorter;
pub mod store;
mod sweep;
mod tree;
mod vault;
mod verify;
mod walk;

pub use backup::backup;
pub use compare::{Difference, compare};
pub use error::{Error, Result};
pub use format::manifest::{Manifest, Totals};
pub use format::names::BackupId;
pub use format::seal::Key;
pub use job::{Job, Progress, Source};
pub use restore::{Restore, Selection, restore};
pub use sweep::{Sweep, Swept, abandon, delete, sweep};
pub use vault::{Listing, Owner, Random, Vault, VaultOptions};
pub use verify::{Depth, Fault, Verify, verify};
