//! What lies between messages and the socket where bytes do not leave as they are: encryption of a whole connection.
//!
//! What belongs to single messages (a signature, a sealed body) the protocol does to the message before it is finished. This is
//! for what counts and chains over all bytes of a connection, in the order in which they leave.

use crate::message::Malformed;

/// Turns what is sent into what goes over the wire, and back.
pub trait Transform: Send {
    /// Adds to `wire` what stands for `plain`, whole messages in the order in which they leave.
    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>);

    /// Adds to `plain` what the front of `wire` stands for: how many bytes of `wire` were used. What it adds is not longer
    /// than what it uses.
    fn open(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> Result<usize, Malformed>;
}
