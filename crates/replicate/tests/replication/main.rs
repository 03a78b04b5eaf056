//! Replication of volumes in memory.

#[path = "../backup/everything.rs"]
mod everything;
mod failures;
mod hostile;
mod points;
mod random;
mod rig;
mod tree;
#[path = "../backup/volume.rs"]
mod volume;
