//! QUERY_INFO (MS-SMB2 §3.3.5.20).

mod file;
mod file_system;
mod info;
mod security;
mod streams;

use crate::limits::TRANSACT_BYTES_MAX;
use crate::pipes;
use crate::request::context::{Done, Ops, Stop};
use crate::request::payload;
use info::Info;
use smb_wire::dir::OutputResponse;
use smb_wire::error::ErrorResponse;
use smb_wire::info::{InfoType, QueryInfoRequest};
use smb_wire::{Encode, NtStatus, Writer};
use vfs::qos::Transferred;

/// MS-SMB2 §3.3.5.20.
pub(crate) fn query(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let args: QueryInfoRequest<'_> = Ops::decode(request)?;
    if args.output_buffer_length > TRANSACT_BYTES_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let info = match ops.pipe(args.file_id)? {
        Some(_) => Info::fixed(&pipes::query(&args)?),
        None => of_file(ops, &args)?,
    };
    let room = usize::try_from(args.output_buffer_length).unwrap_or(usize::MAX);
    if room < info.fixed && args.info_type == InfoType::SECURITY {
        // The client is told how much it needs (MS-SMB2 §2.2.2, §3.3.5.20.3).
        let needed = u32::try_from(info.fixed).unwrap_or(u32::MAX);
        ErrorResponse { context_count: 0, data: &needed.to_le_bytes() }.encode(w);
        return Ok(NtStatus::BUFFER_TOO_SMALL);
    }
    if room < info.fixed {
        return Err(NtStatus::INFO_LENGTH_MISMATCH.into());
    }
    let told = info.bytes.len().min(room);
    if payload::is_data(args.info_type, args.file_info_class) {
        ops.stats.count_listed(Transferred::read(told));
    }
    OutputResponse { output: &info.bytes[..told] }.encode(w);
    Ok(if info.is_cut || told < info.bytes.len() { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
}

fn of_file(ops: &mut Ops<'_>, args: &QueryInfoRequest<'_>) -> Result<Info, Stop> {
    let open = ops.open(args.file_id)?;
    match args.info_type {
        InfoType::FILE => file::query(ops, &open, args),
        InfoType::FILESYSTEM => file_system::query(ops, &open, args.file_info_class),
        InfoType::SECURITY => security::query(ops, &open, args.additional_information),
        // Users have none (MS-SMB2 §3.3.5.20.4).
        InfoType::QUOTA => Err(NtStatus::NOT_SUPPORTED.into()),
        _ => Err(NtStatus::INVALID_PARAMETER.into()),
    }
}
