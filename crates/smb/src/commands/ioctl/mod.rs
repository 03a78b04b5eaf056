//! IOCTL (MS-SMB2 §3.3.5.15). Each family of control codes has a file.

mod answer;
mod clone;
mod copy;
mod interfaces;
mod ranges;
mod reparse;
mod volume;

use super::negotiate::validated;
use crate::limits::TRANSACT_BYTES_MAX;
use crate::pipes;
use crate::request::context::{Done, Ops, Stop};
use crate::state::open::Open;
use smb_wire::fsctl::ValidateNegotiateRequest;
use smb_wire::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, FileId, NtStatus, Writer};
use std::sync::Arc;
use vfs::qos::Demand;

use answer::Answer;

/// MS-SMB2 §3.3.5.15.
pub(crate) fn ioctl(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let args: IoctlRequest<'_> = Ops::decode(request)?;
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
        CtlCode::VALIDATE_NEGOTIATE_INFO => validate_negotiate(ops, &args)?,
        // There are no referrals to other servers (MS-SMB2 §3.3.5.15.2).
        CtlCode::DFS_GET_REFERRALS | CtlCode::DFS_GET_REFERRALS_EX => {
            return Err(NtStatus::NOT_FOUND.into());
        }
        CtlCode::QUERY_NETWORK_INTERFACE_INFO => interfaces::query(ops, &args)?,
        CtlCode::PIPE_TRANSCEIVE => {
            let pipe = ops.pipe(args.file_id)?.ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
            return pipes::transceive(ops, &pipe, &args, w);
        }
        CtlCode::PIPE_WAIT => pipes::wait(ops, args.input).map(|()| Answer::NOTHING)?,
        _ => {
            let open = ops.open(args.file_id)?;
            of_file(ops, &open, &args)?
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

/// What a request moves, and how many operations it is, for the limits of volumes.
pub(crate) fn demand(args: &IoctlRequest<'_>) -> Demand {
    copy::copied(args).or_else(|| ranges::trimmed(args)).unwrap_or(Demand::OTHER)
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

/// What files are asked. Everything else is nothing that the file system knows (MS-FSA §2.1.5.10).
fn of_file(ops: &mut Ops<'_>, open: &Arc<Open>, args: &IoctlRequest<'_>) -> Result<Answer, Stop> {
    match args.ctl_code {
        CtlCode::SRV_REQUEST_RESUME_KEY => copy::resume_key(ops, open, args),
        CtlCode::SRV_COPYCHUNK | CtlCode::SRV_COPYCHUNK_WRITE => copy::copy_chunks(ops, open, args),
        CtlCode::DUPLICATE_EXTENTS_TO_FILE => clone::duplicate(ops, open, args.input),
        CtlCode::DUPLICATE_EXTENTS_TO_FILE_EX => clone::duplicate_ex(ops, open, args.input),
        CtlCode::SET_SPARSE => ranges::set_sparse(ops, open, args.input),
        CtlCode::SET_ZERO_DATA => ranges::zero(ops, open, args.input),
        CtlCode::QUERY_ALLOCATED_RANGES => ranges::allocated(open, args),
        CtlCode::QUERY_FILE_REGIONS => ranges::regions(open, args),
        CtlCode::FILE_LEVEL_TRIM => ranges::trim(ops, open, args),
        CtlCode::GET_REPARSE_POINT => reparse::get(open, args),
        CtlCode::SET_REPARSE_POINT => reparse::set(ops, open, args.input),
        CtlCode::SRV_ENUMERATE_SNAPSHOTS => volume::snapshots(args),
        CtlCode::CREATE_OR_GET_OBJECT_ID => volume::object_id(open, args),
        CtlCode::GET_COMPRESSION => volume::compression(args),
        CtlCode::SET_COMPRESSION => volume::set_compression(open, args.input),
        _ => Err(NtStatus::INVALID_DEVICE_REQUEST.into()),
    }
}

/// MS-SMB2 §3.3.5.15.12: where somebody has changed the negotiation on the way, the connection ends.
fn validate_negotiate(ops: &Ops<'_>, args: &IoctlRequest<'_>) -> Result<Answer, Stop> {
    let negotiated = ops.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let asked = ValidateNegotiateRequest::from_bytes(args.input)?;
    let answer = validated(negotiated, ops.service, &asked);
    // With 3.1.1 the keys prove it, and no client asks.
    let answer = answer.filter(|_| negotiated.dialect != Dialect::SMB311).ok_or(Stop::Disconnect)?;
    Answer::whole(args, &answer, NtStatus::INVALID_PARAMETER)
}
