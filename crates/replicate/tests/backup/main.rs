//! Backups of volumes in memory, and restores.

mod faults;
mod incremental;
mod killed;
mod linux;
mod owners;
mod random;
mod rig;
mod s3;
mod sweeping;
mod trees;
mod verifying;
