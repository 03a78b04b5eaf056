//! Which requests of an open come from before a connection of its session was lost (MS-SMB2 §3.3.5.2.10).
//!
//! A client that loses a connection sends what was not answered again over another, with the next channel sequence. What it had sent
//! before must not be done after that: it could undo what came later.
use smb_wire::NtStatus;
use smb_wire::header::{Command, Flags, Header};
use std::sync::Arc;
use vfs::sync::Mutex;

/// `ChannelSequence` of an open, and its requests that are being done.
#[derive(Default)]
pub(crate) struct ChannelSequence(Arc<Mutex<OutstandingCounts>>);

#[derive(Default)]
struct OutstandingCounts {
    sequence: u16,
    /// How often that has changed.
    changes: u64,
    /// `OutstandingRequestCount`.
    outstanding: usize,
    /// `OutstandingPreRequestCount`.
    outstanding_pre: usize,
}

/// A request of an open that is being done, until this is dropped.
pub(crate) struct OutstandingRequest {
    counters: Arc<Mutex<OutstandingCounts>>,
    changes: u64,
}

/// A sequence that is as many steps later as this, or more, is an earlier one.
const EARLIER: u16 = 0x8000;

impl ChannelSequence {
    /// Of an open that was made, or has come back, by a request with this channel sequence.
    pub(crate) fn new(sequence: u16) -> Self {
        Self(Arc::new(Mutex::new(OutstandingCounts { sequence, ..OutstandingCounts::default() })))
    }

    /// Counts a request of an open. `None`: it comes from before, and does no harm. What changes something does, and is refused.
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
        // What is sent again is done once nothing of what was sent before is still on its way.
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
