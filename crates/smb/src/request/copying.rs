//! A copy by the server that is done part by part, as far as it has come.

use smb_wire::copy::CopyChunkResponse;
use vfs::Change;
use vfs::qos::Permit;

/// How far a request has copied, and what is paid for the next part of it.
#[derive(Default)]
pub(crate) struct Copying {
    pub(crate) done: CopyChunkResponse,
    /// What it did to the target so far.
    pub(crate) change: Option<Change>,
    /// Whether the next part is paid at the target: the first is, with the message.
    pub(crate) is_paid_at_target: bool,
    pub(crate) target: Option<Permit>,
    pub(crate) source: Option<Permit>,
}

impl Copying {
    /// One of which nothing is done. Where a limit is, its message has paid for the first part at the target.
    pub(crate) fn new(is_limited: bool) -> Self {
        Self { is_paid_at_target: is_limited, ..Self::default() }
    }
}
