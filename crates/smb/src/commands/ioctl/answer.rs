//! What is answered to a control code, and how much of it there is room for.

use crate::request::outcome::CommandError;
use smb_wire::ioctl::IoctlRequest;
use smb_wire::{Encode, NtStatus};

/// What is answered to a control code.
pub(super) struct FsctlReply {
    /// Some answers that were cut or failed half-way say more than their status.
    pub(super) status: NtStatus,
    pub(super) output: Vec<u8>,
}

impl FsctlReply {
    /// Success, and nothing more.
    pub(super) const NOTHING: Self = Self { status: NtStatus::SUCCESS, output: Vec::new() };

    /// A structure that the client must have room for; `otherwise` is what it is told if it has not.
    pub(super) fn encode_whole(
        args: &IoctlRequest<'_>,
        value: &impl Encode,
        otherwise: NtStatus,
    ) -> Result<Self, CommandError> {
        let output = value.to_bytes();
        if output_room(args) < output.len() {
            return Err(otherwise.into());
        }
        Ok(Self { status: NtStatus::SUCCESS, output })
    }
}

/// Bytes that the client has room for.
pub(super) fn output_room(args: &IoctlRequest<'_>) -> usize {
    usize::try_from(args.max_output_response).unwrap_or(usize::MAX)
}
