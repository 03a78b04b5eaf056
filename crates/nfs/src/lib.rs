//! ONC RPC, portmap, MOUNT and NFSv3.

#[doc(hidden)]
pub mod fuzz;
pub mod mount;
pub mod portmap;
pub mod rpc;
pub mod v3;
