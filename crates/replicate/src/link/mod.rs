//! Connections between two services: TLS 1.3 (RFC 8446) with raw public keys (RFC 7250), which both sides have pinned.
//!
//! There are no certificates and no names. A client whose key is not that of a peer gets no further than the handshake.

mod connection;
mod key;
mod listener;
mod tls;

pub use connection::{Connection, Stop, connect};
pub use key::{Identity, PublicKey};
pub use listener::{Listener, Peers};
