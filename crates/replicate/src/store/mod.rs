//! Stores of objects: immutable, named byte strings.

mod directory;
mod s3;

pub use directory::Directory;
pub use s3::{S3, S3Options};

use std::io;
use std::ops::ControlFlow;
use vfs::Time;

/// Receives names and sizes. `Break` ends the listing.
pub type ObjectSink<'s> = dyn FnMut(&str, u64) -> ControlFlow<()> + 's;

/// Called with the size of each piece before it is sent; waits as long as a limit demands. `Break` ends the work.
pub type Pace<'p> = dyn FnMut(u64) -> ControlFlow<()> + 'p;

/// A pace without a limit.
pub(crate) fn unpaced(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Waits before a piece is sent. [`io::ErrorKind::Interrupted`] at the end of the work.
fn wait(pace: &mut Pace<'_>, piece: &[u8]) -> io::Result<()> {
    if pace(piece.len() as u64).is_break() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

/// A place for objects. Names are ASCII letters, digits, `-` and `/`. An object is visible whole or not at all, and
/// durable once its `put_new` has returned.
pub trait ObjectStore: Send + Sync {
    /// Puts an object unless the name exists; returns whether it was put. Nothing is put if `pace` ends the work, with
    /// [`io::ErrorKind::Interrupted`].
    fn put_new(&self, name: &str, content: &[u8], pace: &mut Pace<'_>) -> io::Result<bool>;

    /// Reads up to `len` bytes at `offset`; fewer only at the end. [`io::ErrorKind::NotFound`] without the object.
    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>>;

    /// The size of an object; `None` if it does not exist.
    fn size(&self, name: &str) -> io::Result<Option<u64>>;

    /// Lists the objects whose names begin with `prefix`, in any order.
    fn list(&self, prefix: &str, sink: &mut ObjectSink<'_>) -> io::Result<()>;

    /// Deletes an object; succeeds if it does not exist.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Forbids everybody to delete an object until a time. False if the store has no such feature.
    fn retain(&self, name: &str, until: Time) -> io::Result<bool>;
}
