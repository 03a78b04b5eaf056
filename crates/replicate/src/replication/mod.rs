//! Replication: the changes between two snapshots of a volume go to another volume over one connection.
//!
//! A *point* is a snapshot of the source, known by its number. The destination takes over one point after the other, whole
//! or not at all: it changes live files that no client sees, and its own snapshot of them is then the point that it serves.
//! docs/formats/replication.md draws every byte; docs/decisions/0078-replication.md has the reasons.
//!
//! Layers, top down: `fuzz`, `send`, `receive`, `apply`, `difference`, `log`, `key_map`, `message`, `frame`.

mod apply;
mod difference;
mod frame;
pub(crate) mod fuzz;
mod key_map;
mod log;
mod message;
mod receive;
mod send;

pub use difference::{Changes, count_changes};
pub use frame::Link;
pub use message::{POINT_NUMBER_MAX, Point, RelationId, Request};
pub use receive::{Target, WorkDir, ask, clear, fetch_maps, has_no_files, receive};
pub use send::{Find, Origin, Purpose, serve};

use crate::job::Progress;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// A side for which the other one waits sends a sign of life this often.
const ALIVE: Duration = Duration::from_secs(5);

/// The means that a caller gives a transfer.
pub struct Means<'a> {
    /// A directory for temporary files: about a hundred bytes for each file of the source.
    pub scratch: &'a Path,
    /// Called with the size of each piece before it is sent or written; waits as long as a limit of the bandwidth demands.
    /// `Break` stops the transfer.
    pub pace: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    /// Called often. `Break` stops the transfer with [`crate::Error::Stopped`]; a later call goes on.
    pub progress: &'a mut dyn FnMut(&Progress) -> ControlFlow<()>,
}
