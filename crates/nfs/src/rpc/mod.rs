//! ONC RPC, RFC 5531.

pub mod wire;
