//! ONC RPC, portmap, MOUNT and NFSv3.

pub mod mount;
pub mod portmap;
pub mod rpc;
pub mod v3;
