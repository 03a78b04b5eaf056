//! What lies between messages and the socket where bytes do not leave as they are: encryption of a whole connection.
//!
//! What belongs to single messages (a signature, a sealed body) the protocol does to the message before it is finished. This is
//! for what counts and chains over all bytes of a connection, in the order in which they leave.

use crate::message::Malformed;
use std::os::fd::BorrowedFd;
use vfs::Protection;

/// Turns what is sent into what goes over the wire, and back.
pub trait Transform: Send {
    /// Replaces `wire` by what stands for `plain`, whole messages in the order in which they leave. An error means that they
    /// must not leave.
    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Malformed>;

    /// Opens the front of `wire` into the front of `plain`, which is at least as long. What `answer` gets goes to the other side
    /// at once, also before an error ends the connection.
    fn open(
        &mut self,
        wire: &mut [u8],
        plain: &mut [u8],
        answer: &mut Vec<u8>,
    ) -> Result<Plaintext, Malformed>;

    /// Adds to `wire` what tells the other side that nothing follows.
    fn close(&mut self, wire: &mut Vec<u8>);

    /// How it protects the connection; `None` while both sides still agree on it.
    fn protection(&self) -> Option<Protection>;

    /// Leaves its work to the kernel's socket, if that can do it: asked when nothing that it has sealed waits to be sent, and
    /// nothing that it should open has been received.
    fn offload_to_kernel(self: Box<Self>, socket: BorrowedFd<'_>) -> KernelOffload;
}

/// Who does a transform's work from now on.
pub enum KernelOffload {
    /// The transform, as before.
    Declined(Box<dyn Transform>),
    /// The socket. How many bytes it may send until the connection has to end.
    Done(u64),
    /// Nobody: the connection has to end.
    Failed,
}

/// What a transform has opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plaintext {
    /// Bytes of the wire that were used.
    pub used: usize,
    /// Bytes that they stand for.
    pub plain: usize,
    /// The other side has said that nothing follows.
    pub is_closed: bool,
}
