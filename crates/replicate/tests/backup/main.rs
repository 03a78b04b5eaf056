//! Backups of volumes in memory, and restores.

mod everything;
mod faults;
#[path = "../../../posix/tests/fixture/ground.rs"]
mod ground;
mod incremental;
mod killed;
mod linux;
mod owners;
mod random;
mod rig;
mod s3;
mod skip {
    pub(crate) use crate::ground::skip;
}
mod sweeping;
mod trees;
mod verifying;
mod views;
mod volume;
