//! DCE/RPC over named pipes (C706, MS-RPCE, MS-SMB2 §3.3.5.12 and §3.3.5.13), for clients of a file server: shares,
//! server information, SIDs, and users.

mod association;
pub mod lsarpc;
mod ndr;
pub mod pdu;
pub mod samr;
pub mod srvsvc;
pub mod wkssvc;

pub use association::{Association, Call, REQUEST_MAX, ReplyPart, UNREAD_MAX, WriteError};
pub use pdu::{Fault, Syntax};

use crate::sets::open_set;

open_set! {
    /// Win32 error codes (MS-ERREF §2.2), including those of networks (`NERR_`), that `srvsvc` and `wkssvc` return.
    pub struct Win32Error: u32 {
        SUCCESS = 0,
        ACCESS_DENIED = 5,
        INVALID_PARAMETER = 87,
        INVALID_LEVEL = 124,
        MORE_DATA = 234,
        NERR_NET_NAME_NOT_FOUND = 2310,
    }
}

#[cfg(test)]
mod tests;
