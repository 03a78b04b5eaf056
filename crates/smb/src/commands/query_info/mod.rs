//! QUERY_INFO (MS-SMB2 §3.3.5.20).

mod file;
mod file_system;
mod info;
mod quota;
mod security;
mod streams;

use crate::limits::TRANSACT_BYTES_MAX;
use crate::pipes;
use crate::request::context::{OpenObject, RequestContext};
use crate::request::outcome::{CommandError, CommandResult};
use crate::request::payload;
use crate::state::open::Open;
use info::Info;
use smb_wire::dir::OutputResponse;
use smb_wire::error::ErrorResponse;
use smb_wire::info::{InfoType, QueryInfoRequest};
use smb_wire::{Encode, NtStatus, Writer};
use vfs::qos::Transferred;

pub(crate) fn query(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: QueryInfoRequest<'_> = RequestContext::decode(request)?;
    if args.output_buffer_length > TRANSACT_BYTES_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let info = match cx.object(args.file_id)? {
        OpenObject::Pipe(_) => Info::fixed(&pipes::query(&args)?),
        OpenObject::File(open) => of_file(cx, &open, &args)?,
    };
    let room = usize::try_from(args.output_buffer_length).unwrap_or(usize::MAX);
    if room < info.fixed && args.info_type == InfoType::SECURITY {
        // The error response has the needed length (MS-SMB2 §2.2.2, §3.3.5.20.3).
        let needed = u32::try_from(info.fixed).unwrap_or(u32::MAX);
        ErrorResponse { context_count: 0, data: &needed.to_le_bytes() }.encode(w);
        return Ok(NtStatus::BUFFER_TOO_SMALL);
    }
    if room < info.fixed {
        return Err(NtStatus::INFO_LENGTH_MISMATCH.into());
    }
    let returned = info.bytes.len().min(room);
    if payload::is_user_data(args.info_type, args.file_info_class) {
        cx.message.stats.count_metadata(Transferred::read(returned));
    }
    OutputResponse { output: &info.bytes[..returned] }.encode(w);
    Ok(if info.is_cut || returned < info.bytes.len() { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
}

fn of_file(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    args: &QueryInfoRequest<'_>,
) -> Result<Info, CommandError> {
    match args.info_type {
        InfoType::FILE => file::query(cx, open, args),
        InfoType::FILESYSTEM => file_system::query(cx, open, args.file_info_class),
        InfoType::SECURITY => security::query(cx, open, args.additional_information),
        InfoType::QUOTA => quota::query(cx, open, args),
        _ => Err(NtStatus::INVALID_PARAMETER.into()),
    }
}
