//! IOCTL (MS-SMB2 §3.3.5.15). Each family of control codes has a file.

mod answer;
mod clone;
mod copy;
mod interfaces;
mod ranges;
mod reparse;
mod snapshots;
mod volume;

use super::negotiate::validate;
use crate::limits::TRANSACT_BYTES_MAX;
use crate::pipes;
use crate::request::context::RequestContext;
use crate::request::outcome::{CommandError, CommandResult};
use crate::state::open::Open;
use smb_wire::fsctl::ValidateNegotiateRequest;
use smb_wire::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, FileId, NtStatus, Writer};
use std::sync::Arc;
use vfs::qos::Demand;

use answer::FsctlReply;

pub(crate) fn ioctl(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: IoctlRequest<'_> = RequestContext::decode(request)?;
    if args.flags != IoctlFlags::IS_FSCTL {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    let longest = args.max_input_response.max(args.max_output_response);
    if longest > TRANSACT_BYTES_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    if is_of_no_file(args.ctl_code) && args.file_id != FileId::NONE {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let answer = match args.ctl_code {
        CtlCode::VALIDATE_NEGOTIATE_INFO => validate_negotiate(cx, &args)?,
        // There are no referrals to other servers (MS-SMB2 §3.3.5.15.2).
        CtlCode::DFS_GET_REFERRALS | CtlCode::DFS_GET_REFERRALS_EX => {
            return Err(NtStatus::NOT_FOUND.into());
        }
        CtlCode::QUERY_NETWORK_INTERFACE_INFO => interfaces::query(cx, &args)?,
        CtlCode::PIPE_TRANSCEIVE => {
            let pipe = cx.pipe(args.file_id)?;
            return pipes::transceive(cx, &pipe, &args, w);
        }
        CtlCode::PIPE_WAIT => pipes::wait(cx, args.input).map(|()| FsctlReply::NOTHING)?,
        _ => {
            let open = cx.open(args.file_id)?;
            of_file(cx, &open, &args)?
        }
    };
    let reply = IoctlResponse {
        ctl_code: args.ctl_code,
        file_id: args.file_id,
        input: &[],
        output: &answer.output,
        flags: args.flags,
    };
    reply.encode(w);
    Ok(answer.status)
}

pub(crate) fn demand(args: &IoctlRequest<'_>) -> Demand {
    let several = copy::copy_demand(args).or_else(|| ranges::trim_demand(args));
    several.or_else(|| snapshots::enumeration_demand(args)).unwrap_or(Demand::OTHER)
}

fn is_of_no_file(code: CtlCode) -> bool {
    matches!(
        code,
        CtlCode::VALIDATE_NEGOTIATE_INFO
            | CtlCode::DFS_GET_REFERRALS
            | CtlCode::DFS_GET_REFERRALS_EX
            | CtlCode::QUERY_NETWORK_INTERFACE_INFO
            | CtlCode::PIPE_WAIT
    )
}

/// Control codes of files; other codes are unknown to the file system (MS-FSA §2.1.5.10).
fn of_file(
    cx: &mut RequestContext<'_, '_>,
    open: &Arc<Open>,
    args: &IoctlRequest<'_>,
) -> Result<FsctlReply, CommandError> {
    match args.ctl_code {
        CtlCode::SRV_REQUEST_RESUME_KEY => copy::resume_key(cx, open, args),
        CtlCode::SRV_COPYCHUNK | CtlCode::SRV_COPYCHUNK_WRITE => copy::copy_chunks(cx, open, args),
        CtlCode::DUPLICATE_EXTENTS_TO_FILE => clone::duplicate(cx, open, args.input),
        CtlCode::DUPLICATE_EXTENTS_TO_FILE_EX => clone::duplicate_ex(cx, open, args.input),
        CtlCode::SET_SPARSE => ranges::set_sparse(cx, open, args.input),
        CtlCode::SET_ZERO_DATA => ranges::zero(cx, open, args.input),
        CtlCode::QUERY_ALLOCATED_RANGES => ranges::allocated(open, args),
        CtlCode::QUERY_FILE_REGIONS => ranges::regions(open, args),
        CtlCode::FILE_LEVEL_TRIM => ranges::trim(cx, open, args),
        CtlCode::GET_REPARSE_POINT => reparse::get(open, args),
        CtlCode::SET_REPARSE_POINT => reparse::set(cx, open, args.input),
        CtlCode::SRV_ENUMERATE_SNAPSHOTS => snapshots::enumerate(open, args),
        CtlCode::CREATE_OR_GET_OBJECT_ID => volume::object_id(open, args),
        CtlCode::GET_COMPRESSION => volume::compression(args),
        CtlCode::SET_COMPRESSION => volume::set_compression(open, args.input),
        _ => Err(NtStatus::INVALID_DEVICE_REQUEST.into()),
    }
}

/// Disconnects if an attacker changed the negotiation (MS-SMB2 §3.3.5.15.12).
fn validate_negotiate(
    cx: &RequestContext<'_, '_>,
    args: &IoctlRequest<'_>,
) -> Result<FsctlReply, CommandError> {
    let negotiated = cx.message.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let request = ValidateNegotiateRequest::from_bytes(args.input)?;
    let answer = validate(negotiated, cx.message.service, &request);
    // With 3.1.1 the keys prove the negotiation, and clients do not validate.
    let answer = answer.filter(|_| negotiated.dialect != Dialect::SMB311).ok_or(CommandError::Disconnect)?;
    FsctlReply::encode_whole(args, &answer, NtStatus::INVALID_PARAMETER)
}
