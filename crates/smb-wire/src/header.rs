//! The header of every message, MS-SMB2 §2.2.1.

use crate::sets::{bit_set, open_set};
use crate::{Decode, Encode, Malformed, NtStatus, Reader, Writer};

pub const HEADER_SIZE: usize = 64;
/// The size as a header field.
const STRUCTURE_SIZE: u16 = 64;
pub const FLAGS_OFFSET: usize = 16;
pub const NEXT_COMMAND_OFFSET: usize = 20;
pub const MESSAGE_ID_OFFSET: usize = 24;
/// The offset of `Signature`, the last 16 bytes.
pub const SIGNATURE_OFFSET: usize = 48;

open_set! {
    /// `ProtocolId`, the first four bytes of a message as a little-endian number.
    pub struct ProtocolId: u32 {
        // 0xFF 'SMB', MS-CIFS §2.2.3.1.
        SMB1 = 0x424d_53ff,
        // 0xFE 'SMB', MS-SMB2 §2.2.1.
        SMB2 = 0x424d_53fe,
        // 0xFD 'SMB', MS-SMB2 §2.2.41.
        TRANSFORM = 0x424d_53fd,
        // 0xFC 'SMB', MS-SMB2 §2.2.42.
        COMPRESSION_TRANSFORM = 0x424d_53fc,
    }

    /// `Command`, MS-SMB2 §2.2.1.2.
    pub struct Command: u16 {
        NEGOTIATE = 0x0000,
        SESSION_SETUP = 0x0001,
        LOGOFF = 0x0002,
        TREE_CONNECT = 0x0003,
        TREE_DISCONNECT = 0x0004,
        CREATE = 0x0005,
        CLOSE = 0x0006,
        FLUSH = 0x0007,
        READ = 0x0008,
        WRITE = 0x0009,
        LOCK = 0x000a,
        IOCTL = 0x000b,
        CANCEL = 0x000c,
        ECHO = 0x000d,
        QUERY_DIRECTORY = 0x000e,
        CHANGE_NOTIFY = 0x000f,
        QUERY_INFO = 0x0010,
        SET_INFO = 0x0011,
        OPLOCK_BREAK = 0x0012,
        SERVER_TO_CLIENT_NOTIFICATION = 0x0013,
    }
}

bit_set! {
    /// `Flags`, MS-SMB2 §2.2.1.2. [`Routing`] alone represents `ASYNC_COMMAND`: decoding removes it, encoding adds it.
    pub struct Flags: u32 {
        SERVER_TO_REDIR = 0x1,
        ASYNC_COMMAND = 0x2,
        RELATED_OPERATIONS = 0x4,
        SIGNED = 0x8,
        PRIORITY_MASK = 0x70,
        DFS_OPERATIONS = 0x1000_0000,
        REPLAY_OPERATION = 0x2000_0000,
    }
}

/// The two forms of the header: MS-SMB2 §2.2.1.1 and §2.2.1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Identifies a tree connect. The four bytes before it are reserved; some clients send a process ID.
    Sync {
        process_id: u32,
        tree_id: u32,
    },
    Async {
        async_id: u64,
    },
}

/// `SMB2 Packet Header`, MS-SMB2 §2.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The cost of the message, in units of 64 KiB.
    pub credit_charge: u16,
    /// The status of a response. In a request since 3.0, the low half is the channel sequence.
    pub status: NtStatus,
    pub command: Command,
    /// Credits requested or granted.
    pub credits: u16,
    /// All flags but `ASYNC_COMMAND`.
    pub flags: Flags,
    /// Offset from this header to the next one of a compound; 0 in the last.
    pub next_command: u32,
    /// Matches a response to its request.
    pub message_id: u64,
    pub routing: Routing,
    pub session_id: u64,
    /// Zeros in an unsigned message.
    pub signature: [u8; 16],
}

impl Header {
    /// The tree connect of a synchronous message, else 0.
    pub const fn tree_id(&self) -> u32 {
        match self.routing {
            Routing::Sync { tree_id, .. } => tree_id,
            Routing::Async { .. } => 0,
        }
    }

    pub const fn async_id(&self) -> Option<u64> {
        match self.routing {
            Routing::Sync { .. } => None,
            Routing::Async { async_id } => Some(async_id),
        }
    }

    /// The channel sequence of a request, MS-SMB2 §2.2.1.2.
    pub const fn channel_sequence(&self) -> u16 {
        let [low, high, ..] = self.status.0.to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    pub const fn request(command: Command, message_id: u64, session_id: u64, tree_id: u32) -> Self {
        Self {
            credit_charge: 1,
            status: NtStatus::SUCCESS,
            command,
            credits: 1,
            flags: Flags::empty(),
            next_command: 0,
            message_id,
            routing: Routing::Sync { process_id: 0, tree_id },
            session_id,
            signature: [0; 16],
        }
    }

    /// The header of the response to this request, without credits.
    pub const fn response(&self, status: NtStatus) -> Self {
        Self {
            status,
            credits: 0,
            flags: self
                .flags
                .and(Flags(Flags::RELATED_OPERATIONS.0 | Flags::REPLAY_OPERATION.0))
                .or(Flags::SERVER_TO_REDIR),
            next_command: 0,
            signature: [0; 16],
            ..*self
        }
    }
}

impl Header {
    pub fn to_array(&self) -> [u8; HEADER_SIZE] {
        let (flags, routing) = match self.routing {
            Routing::Sync { process_id, tree_id } => {
                (self.flags.without(Flags::ASYNC_COMMAND), u64::from(tree_id) << 32 | u64::from(process_id))
            }
            Routing::Async { async_id } => (self.flags.or(Flags::ASYNC_COMMAND), async_id),
        };
        let mut bytes = [0; HEADER_SIZE];
        bytes[..4].copy_from_slice(&ProtocolId::SMB2.0.to_le_bytes());
        bytes[4..6].copy_from_slice(&STRUCTURE_SIZE.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.credit_charge.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.status.0.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.command.0.to_le_bytes());
        bytes[14..FLAGS_OFFSET].copy_from_slice(&self.credits.to_le_bytes());
        bytes[FLAGS_OFFSET..NEXT_COMMAND_OFFSET].copy_from_slice(&flags.0.to_le_bytes());
        bytes[NEXT_COMMAND_OFFSET..MESSAGE_ID_OFFSET].copy_from_slice(&self.next_command.to_le_bytes());
        bytes[MESSAGE_ID_OFFSET..32].copy_from_slice(&self.message_id.to_le_bytes());
        bytes[32..40].copy_from_slice(&routing.to_le_bytes());
        bytes[40..SIGNATURE_OFFSET].copy_from_slice(&self.session_id.to_le_bytes());
        bytes[SIGNATURE_OFFSET..].copy_from_slice(&self.signature);
        bytes
    }

    fn from_array(bytes: &[u8; HEADER_SIZE]) -> Result<Self, Malformed> {
        if u32::from_le_bytes(field(bytes, 0)) != ProtocolId::SMB2.0 {
            return Err(Malformed("not an SMB2 header"));
        }
        if u16::from_le_bytes(field(bytes, 4)) != STRUCTURE_SIZE {
            return Err(Malformed("StructureSize is not the structure's"));
        }
        let flags = Flags(u32::from_le_bytes(field(bytes, FLAGS_OFFSET)));
        let routing = if flags.contains(Flags::ASYNC_COMMAND) {
            Routing::Async { async_id: u64::from_le_bytes(field(bytes, 32)) }
        } else {
            Routing::Sync {
                process_id: u32::from_le_bytes(field(bytes, 32)),
                tree_id: u32::from_le_bytes(field(bytes, 36)),
            }
        };
        Ok(Self {
            credit_charge: u16::from_le_bytes(field(bytes, 6)),
            status: NtStatus(u32::from_le_bytes(field(bytes, 8))),
            command: Command(u16::from_le_bytes(field(bytes, 12))),
            credits: u16::from_le_bytes(field(bytes, 14)),
            flags: flags.without(Flags::ASYNC_COMMAND),
            next_command: u32::from_le_bytes(field(bytes, NEXT_COMMAND_OFFSET)),
            message_id: u64::from_le_bytes(field(bytes, MESSAGE_ID_OFFSET)),
            routing,
            session_id: u64::from_le_bytes(field(bytes, 40)),
            signature: field(bytes, SIGNATURE_OFFSET),
        })
    }
}

#[inline(always)]
fn field<const N: usize>(bytes: &[u8; HEADER_SIZE], offset: usize) -> [u8; N] {
    *bytes[offset..].first_chunk().expect("a field lies within the header")
}

impl Encode for Header {
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(&self.to_array());
    }
}

impl Decode<'_> for Header {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::from_array(&r.array()?)
    }
}
