//! Backups of volumes in memory, and restores.

mod everything;
mod faults;
mod incremental;
mod killed;
mod linux;
mod owners;
mod random;
mod rig;
mod s3;
#[path = "../../../vfs/tests/support/skip.rs"]
mod skip;
mod sweeping;
mod trees;
mod verifying;
mod volume;
