//! Replication of volumes in memory.

#[path = "../backup/everything.rs"]
mod everything;
mod failures;
#[path = "../../../posix/tests/fixture/ground.rs"]
mod ground;
mod hostile;
mod linux;
mod points;
mod random;
mod rig;
mod tree;
#[path = "../backup/volume.rs"]
mod volume;
