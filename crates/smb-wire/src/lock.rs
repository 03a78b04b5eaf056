//! LOCK, MS-SMB2 §2.2.26. The response is [`Empty`](crate::session::Empty).

use crate::sets::bit_set;
use crate::{Decode, Encode, FileId, Malformed, Reader, Wire, Writer, decode_list, encode_list};

bit_set! {
    /// `Flags`, MS-SMB2 §2.2.26.1.
    pub struct LockFlags: u32 {
        SHARED_LOCK = 0x1,
        EXCLUSIVE_LOCK = 0x2,
        UNLOCK = 0x4,
        FAIL_IMMEDIATELY = 0x10,
    }
}

/// `SMB2_LOCK_ELEMENT`, MS-SMB2 §2.2.26.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(end = 4)]
pub struct LockElement {
    pub offset: u64,
    pub length: u64,
    pub flags: LockFlags,
}

/// `LockSequenceNumber` and `LockSequenceIndex`, MS-SMB2 §2.2.26: 4 bits and 28.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct LockSequence(pub u32);

impl LockSequence {
    /// A number that differs between consecutive requests with the same index.
    pub const fn number(self) -> u32 {
        self.0 & 15
    }

    /// An entry of `Open.LockSequenceArray`, 1 to 64; 0: none.
    pub const fn index(self) -> u32 {
        self.0 >> 4
    }
}

/// `SMB2 LOCK Request`, MS-SMB2 §2.2.26.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    pub lock_sequence: LockSequence,
    pub file_id: FileId,
    pub locks: Vec<LockElement>,
}

impl Encode for LockRequest {
    fn encode(&self, w: &mut Writer<'_>) {
        w.u16(48);
        w.length::<u16>(self.locks.len());
        self.lock_sequence.encode(w);
        self.file_id.encode(w);
        encode_list(&self.locks, w);
    }
}

impl Decode<'_> for LockRequest {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.structure_size(48)?;
        let count = u16::decode(r)?;
        let lock_sequence = Decode::decode(r)?;
        let file_id = Decode::decode(r)?;
        Ok(Self { lock_sequence, file_id, locks: decode_list(r, usize::from(count))? })
    }
}
