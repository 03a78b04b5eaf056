//! Requests of an open that predate the loss of a connection (MS-SMB2 §3.3.5.2.10).
//!
//! A client that loses a connection repeats unanswered requests over another, with the next channel sequence. Older
//! requests must not run after that: they could undo later ones.
use smb_wire::NtStatus;
use smb_wire::header::{Command, Flags, Header};
use std::sync::Arc;
use vfs::sync::Mutex;

/// `ChannelSequence` of an open, with its requests in progress.
#[derive(Default)]
pub(crate) struct ChannelSequence(Arc<Mutex<OutstandingCounts>>);

#[derive(Default)]
struct OutstandingCounts {
    sequence: u16,
    changes: u64,
    /// `OutstandingRequestCount`.
    outstanding: usize,
    /// `OutstandingPreRequestCount`.
    outstanding_pre: usize,
}

/// A request in progress. Dropping it uncounts the request.
pub(crate) struct OutstandingRequest {
    counters: Arc<Mutex<OutstandingCounts>>,
    changes: u64,
}

/// The difference from which on a sequence is an earlier one.
const EARLIER: u16 = 0x8000;

impl ChannelSequence {
    pub(crate) fn new(sequence: u16) -> Self {
        Self(Arc::new(Mutex::new(OutstandingCounts { sequence, ..OutstandingCounts::default() })))
    }

    /// Counts a request. None: the request is from an earlier sequence, and is harmless. Requests that change
    /// something are refused then.
    pub(crate) fn count(&self, header: &Header) -> Result<Option<OutstandingRequest>, NtStatus> {
        let sequence = header.channel_sequence();
        let changes = matches!(header.command, Command::WRITE | Command::SET_INFO | Command::IOCTL);
        let refused = if changes { Err(NtStatus::FILE_NOT_AVAILABLE) } else { Ok(None) };
        let mut counted = self.0.lock();
        match sequence.wrapping_sub(counted.sequence) {
            EARLIER.. => return refused,
            0 => {}
            _ => {
                counted.outstanding_pre += std::mem::take(&mut counted.outstanding);
                counted.sequence = sequence;
                counted.changes += 1;
            }
        }
        // A replay must not overtake a request of the earlier sequence.
        if header.flags.contains(Flags::REPLAY_OPERATION) && counted.outstanding_pre > 0 {
            return refused;
        }
        counted.outstanding += 1;
        Ok(Some(OutstandingRequest { counters: Arc::clone(&self.0), changes: counted.changes }))
    }
}

impl Drop for OutstandingRequest {
    fn drop(&mut self) {
        let mut counted = self.counters.lock();
        if self.changes == counted.changes {
            counted.outstanding -= 1;
        } else {
            counted.outstanding_pre -= 1;
        }
    }
}
