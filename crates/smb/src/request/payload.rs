//! The bytes that commands carry.

use super::context::RequestContext;
use crate::limits::{CREATE_CONTEXTS_BYTES_FREE, IO_BYTES_MAX, TRANSACT_BYTES_MAX};
use smb_wire::ExternalBuffer;
use smb_wire::classes::FileClass;
use smb_wire::compound::Message;
use smb_wire::create::CreateRequest;
use smb_wire::dir::{ChangeNotifyRequest, QueryDirectoryRequest};
use smb_wire::file::{ReadRequest, WriteRequest};
use smb_wire::header::Command;
use smb_wire::info::{InfoType, QueryInfoRequest, SetInfoRequest};
use smb_wire::ioctl::IoctlRequest;

/// `SendPayloadSize` or the expected response payload size, whichever is larger (MS-SMB2 §3.3.5.2.5). A malformed
/// request counts as 0: its handler refuses it.
pub(crate) fn payload_bytes(request: &Message<'_>) -> u32 {
    let bytes = request.bytes;
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let counted = match request.header.command {
        Command::READ => RequestContext::decode::<ReadRequest<'_>>(bytes).map(|read| read.length),
        Command::WRITE => RequestContext::decode::<WriteRequest<ExternalBuffer>>(bytes)
            .map(|write| u32::try_from(write.data.length).unwrap_or(u32::MAX)),
        Command::QUERY_DIRECTORY => {
            RequestContext::decode::<QueryDirectoryRequest<'_>>(bytes).map(|query| query.output_buffer_length)
        }
        Command::CHANGE_NOTIFY => {
            RequestContext::decode::<ChangeNotifyRequest>(bytes).map(|notify| notify.output_buffer_length)
        }
        Command::QUERY_INFO => RequestContext::decode::<QueryInfoRequest<'_>>(bytes)
            .map(|query| query.output_buffer_length.max(length(query.input))),
        Command::SET_INFO => {
            RequestContext::decode::<SetInfoRequest<'_>>(bytes).map(|set| length(set.buffer))
        }
        Command::IOCTL => RequestContext::decode::<IoctlRequest<'_>>(bytes).map(|ioctl| {
            length(ioctl.input).max(ioctl.max_input_response.saturating_add(ioctl.max_output_response))
        }),
        _ => Ok(0),
    };
    counted.unwrap_or(0)
}

/// The maximum number of bytes that a command transfers, whatever buffer its request offers.
pub(crate) fn transfer_bytes(request: &Message<'_>) -> u32 {
    payload_bytes(request).min(IO_BYTES_MAX.max(TRANSACT_BYTES_MAX))
}

pub(crate) fn is_user_data(info_type: InfoType, class: u8) -> bool {
    let class = FileClass(class);
    info_type == InfoType::SECURITY
        || info_type == InfoType::FILE && matches!(class, FileClass::FULL_EA | FileClass::STREAM)
}

/// Bytes of descriptors and extended attributes that a CREATE stores: its contexts, if they exceed the usual length.
pub(crate) fn stored_bytes(create: &CreateRequest<'_>) -> u32 {
    let bytes: usize = create.contexts.0.iter().map(|context| context.data.len()).sum();
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    if bytes > CREATE_CONTEXTS_BYTES_FREE { bytes.min(TRANSACT_BYTES_MAX) } else { 0 }
}
