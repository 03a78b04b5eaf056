//! Test backends for everything above `vfs::backend`, and the suite that every backend runs.
//!
//! A product crate names this crate among its dev-dependencies only.
//!
//! Layers, top down: `conformance`, `faulty`, `memfs`, `delegate`, `describe`, `unchecked`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod conformance;
mod delegate;
mod describe;
mod faulty;
pub mod memfs;
mod unchecked;

pub use describe::described;
pub use faulty::Faulty;
pub use memfs::MemFs;
pub use memfs::provisioner::MemProvisioner;
pub use unchecked::UncheckedNode;
