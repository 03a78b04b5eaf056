//! The progress of a server-side copy that is done in parts.

use smb_wire::copy::CopyChunkResponse;
use vfs::Change;
use vfs::qos::Permit;

#[derive(Default)]
pub(crate) struct CopyProgress {
    pub(crate) done: CopyChunkResponse,
    pub(crate) change: Option<Change>,
    /// Whether the target has admitted the next part. The message's admission covers the first part.
    pub(crate) is_paid_at_target: bool,
    pub(crate) target: Option<Permit>,
    pub(crate) source: Option<Permit>,
}

impl CopyProgress {
    /// If a limit exists, the message was admitted for the first part at the target.
    pub(crate) fn new(is_limited: bool) -> Self {
        Self { is_paid_at_target: is_limited, ..Self::default() }
    }
}
