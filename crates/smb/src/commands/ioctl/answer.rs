//! Responses to control codes, and their size limits.

use crate::request::outcome::CommandError;
use smb_wire::ioctl::IoctlRequest;
use smb_wire::{Encode, NtStatus};

pub(super) struct FsctlReply {
    /// Some truncated or partly failed operations return output with an error status.
    pub(super) status: NtStatus,
    pub(super) output: Vec<u8>,
}

impl FsctlReply {
    pub(super) const NOTHING: Self = Self { status: NtStatus::SUCCESS, output: Vec::new() };

    /// Encodes a structure that must fit as a whole; returns `otherwise` if it does not.
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

pub(super) fn output_room(args: &IoctlRequest<'_>) -> usize {
    usize::try_from(args.max_output_response).unwrap_or(usize::MAX)
}
