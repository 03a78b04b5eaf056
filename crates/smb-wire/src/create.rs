//! CREATE, MS-SMB2 §2.2.13 and §2.2.14.

use crate::chain;
use crate::sets::{bit_set, open_set};
use crate::types::{AccessMask, FileAttributes};
use crate::{
    BufferLocation, Decode, DecodeBuffer, Encode, EncodeBuffer, FileId, FileTime, Malformed, Reader, Utf16,
    Wire, Writer,
};

open_set! {
    /// `RequestedOplockLevel` and `OplockLevel`, MS-SMB2 §2.2.13.
    pub struct OplockLevel: u8 {
        NONE = 0x00,
        II = 0x01,
        EXCLUSIVE = 0x08,
        BATCH = 0x09,
        LEASE = 0xff,
    }

    /// `ImpersonationLevel`, MS-SMB2 §2.2.13.
    pub struct ImpersonationLevel: u32 {
        ANONYMOUS = 0,
        IDENTIFICATION = 1,
        IMPERSONATION = 2,
        DELEGATE = 3,
    }

    /// `CreateDisposition`, MS-SMB2 §2.2.13. The server refuses values above 5 without treating the message as
    /// malformed.
    pub struct CreateDisposition: u32 {
        SUPERSEDE = 0,
        OPEN = 1,
        CREATE = 2,
        OPEN_IF = 3,
        OVERWRITE = 4,
        OVERWRITE_IF = 5,
    }

    /// `CreateAction`, MS-SMB2 §2.2.14.
    pub struct CreateAction: u32 {
        SUPERSEDED = 0,
        OPENED = 1,
        CREATED = 2,
        OVERWRITTEN = 3,
    }
}

bit_set! {
    /// `ShareAccess`, MS-SMB2 §2.2.13.
    pub struct ShareAccess: u32 {
        READ = 0x1,
        WRITE = 0x2,
        DELETE = 0x4,
    }

    /// `CreateOptions`, MS-SMB2 §2.2.13.
    pub struct CreateOptions: u32 {
        DIRECTORY_FILE = 0x1,
        WRITE_THROUGH = 0x2,
        SEQUENTIAL_ONLY = 0x4,
        NO_INTERMEDIATE_BUFFERING = 0x8,
        SYNCHRONOUS_IO_ALERT = 0x10,
        SYNCHRONOUS_IO_NONALERT = 0x20,
        NON_DIRECTORY_FILE = 0x40,
        CREATE_TREE_CONNECTION = 0x80,
        COMPLETE_IF_OPLOCKED = 0x100,
        NO_EA_KNOWLEDGE = 0x200,
        OPEN_REMOTE_INSTANCE = 0x400,
        RANDOM_ACCESS = 0x800,
        DELETE_ON_CLOSE = 0x1000,
        OPEN_BY_FILE_ID = 0x2000,
        OPEN_FOR_BACKUP_INTENT = 0x4000,
        NO_COMPRESSION = 0x8000,
        OPEN_REQUIRING_OPLOCK = 0x1_0000,
        DISALLOW_EXCLUSIVE = 0x2_0000,
        RESERVE_OPFILTER = 0x10_0000,
        OPEN_REPARSE_POINT = 0x20_0000,
        OPEN_NO_RECALL = 0x40_0000,
        OPEN_FOR_FREE_SPACE_QUERY = 0x80_0000,
    }

    /// `Flags` of the response, MS-SMB2 §2.2.14.
    pub struct CreateResponseFlags: u8 {
        REPARSEPOINT = 0x1,
    }
}

/// `SMB2 CREATE Request`, MS-SMB2 §2.2.13.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[wire(size = 57)]
pub struct CreateRequest<'a> {
    #[wire(pad = 1)]
    pub requested_oplock_level: OplockLevel,
    pub impersonation_level: ImpersonationLevel,
    #[wire(pad = 16)]
    pub desired_access: AccessMask,
    pub file_attributes: FileAttributes,
    pub share_access: ShareAccess,
    pub create_disposition: CreateDisposition,
    pub create_options: CreateOptions,
    #[wire(offset = u16, length = u16)]
    pub name: Utf16<'a>,
    #[wire(offset = u32, length = u32, optional)]
    pub contexts: CreateContexts<'a>,
}

/// `SMB2 CREATE Response`, MS-SMB2 §2.2.14.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[wire(size = 89)]
pub struct CreateResponse<'a> {
    pub oplock_level: OplockLevel,
    pub flags: CreateResponseFlags,
    pub create_action: CreateAction,
    pub creation_time: FileTime,
    pub last_access_time: FileTime,
    pub last_write_time: FileTime,
    pub change_time: FileTime,
    pub allocation_size: u64,
    pub end_of_file: u64,
    pub file_attributes: FileAttributes,
    #[wire(pad = 4)]
    pub file_id: FileId,
    #[wire(offset = u32, length = u32, optional)]
    pub contexts: CreateContexts<'a>,
}

const CONTEXT_ALIGNMENT: usize = 8;
/// The maximum number of create contexts in a message. The specification has seventeen kinds, and no client repeats
/// one.
pub const CONTEXTS_MAX: usize = 32;

/// `SMB2_CREATE_CONTEXT`, MS-SMB2 §2.2.13.2, as name and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateContext<'a> {
    pub name: &'a [u8],
    pub data: &'a [u8],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateContexts<'a>(pub Vec<CreateContext<'a>>);

impl<'a> CreateContexts<'a> {
    pub fn find(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.0.iter().find(|context| context.name == name).map(|context| context.data)
    }
}

/// The separately aligned part of a context; offsets count from its start.
#[derive(Clone, Copy, Debug, Wire)]
struct ContextBody<'a> {
    next: u32,
    #[wire(offset = u16, length = u16)]
    name: &'a [u8],
    #[wire(pad = 2, offset = u16, length = u32, optional)]
    data: Aligned<'a>,
}

/// Bytes aligned to a multiple of 8.
#[derive(Clone, Copy, Debug)]
struct Aligned<'a>(&'a [u8]);

impl EncodeBuffer for Aligned<'_> {
    const ALIGN: usize = CONTEXT_ALIGNMENT;

    fn encode_buffer(&self, w: &mut Writer<'_>) -> usize {
        self.0.encode_buffer(w)
    }
}

impl<'a> DecodeBuffer<'a> for Aligned<'a> {
    fn decode_buffer(r: &mut Reader<'a>, location: BufferLocation) -> Result<Self, Malformed> {
        r.buffer(location).map(Self)
    }
}

impl EncodeBuffer for CreateContexts<'_> {
    const ALIGN: usize = CONTEXT_ALIGNMENT;

    fn encode_buffer(&self, w: &mut Writer<'_>) -> usize {
        let start = w.position();
        let mut previous = None;
        for context in &self.0 {
            w.align(CONTEXT_ALIGNMENT);
            let at = w.position();
            if let Some(previous) = previous.replace(at) {
                w.patch::<u32>(previous, at - previous);
            }
            ContextBody { next: 0, name: context.name, data: Aligned(context.data) }.encode(&mut w.nested());
        }
        w.position() - start
    }
}

impl<'a> DecodeBuffer<'a> for CreateContexts<'a> {
    fn decode_buffer(r: &mut Reader<'a>, location: BufferLocation) -> Result<Self, Malformed> {
        let mut contexts = Vec::new();
        for bytes in chain::entries(CONTEXT_ALIGNMENT, r.buffer(location)?) {
            if contexts.len() == CONTEXTS_MAX {
                return Err(Malformed("too many create contexts"));
            }
            let body = ContextBody::from_bytes(bytes?)?;
            contexts.push(CreateContext { name: body.name, data: body.data.0 });
        }
        Ok(Self(contexts))
    }
}
