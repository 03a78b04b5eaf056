//! Transforms: the encryption of a whole connection.
//!
//! A protocol signs or seals a single message before it is finished. A transform is for a cipher that counts and chains
//! over all bytes of a connection, in the order in which they leave.

use crate::message::Malformed;
use std::os::fd::BorrowedFd;
use vfs::Protection;

/// A transform between a connection's messages and the bytes on the wire.
pub trait Transform: Send {
    /// Replaces `wire` by the sealed form of `plain`: whole messages, in the order in which they leave. After an error
    /// nothing may be sent.
    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Malformed>;

    /// Opens the front of `wire` into the front of `plain`, which is at least as long. Bytes in `answer` are sent to
    /// the peer immediately, even if an error ends the connection.
    fn open(
        &mut self,
        wire: &mut [u8],
        plain: &mut [u8],
        answer: &mut Vec<u8>,
    ) -> Result<Plaintext, Malformed>;

    /// Appends the message that ends the stream to `wire`.
    fn close(&mut self, wire: &mut Vec<u8>);

    /// The protection of the connection; `None` during the handshake.
    fn protection(&self) -> Option<Protection>;

    /// Hands its work to the kernel's socket, if the kernel supports it. Called when all sealed bytes are sent and all
    /// received bytes are opened.
    fn offload_to_kernel(self: Box<Self>, socket: BorrowedFd<'_>) -> KernelOffload;
}

pub enum KernelOffload {
    Declined(Box<dyn Transform>),
    /// The kernel does the work, for this number of sent bytes. Then the connection has to end.
    Done(u64),
    /// Neither can continue: the connection has to end.
    Failed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plaintext {
    /// Bytes of the wire that were consumed.
    pub used: usize,
    pub plain: usize,
    /// Whether the peer has ended the stream.
    pub is_closed: bool,
}
