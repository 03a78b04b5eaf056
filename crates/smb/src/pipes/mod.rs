//! Named pipes of IPC$ (MS-SMB2 §3.3.5.9 to §3.3.5.15, MS-RPCE §2.1.1.2), for listing shares, users and groups, and for
//! translating SIDs.

mod lsarpc;
mod samr;
mod srvsvc;

pub(crate) use crate::state::pipe_handles::ContextHandles;

use crate::limits::{IO_BYTES_MAX, TRANSACT_BYTES_MAX};
use crate::metadata::names::folded;
use crate::request::context::RequestContext;
use crate::request::outcome::{CommandError, CommandResult};
use crate::state::pending::Interim;
use crate::state::pipe::{Pipe, PipeService};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::StandardInformation;
use smb_wire::create::{
    CreateAction, CreateContexts, CreateDisposition, CreateOptions, CreateRequest, CreateResponse,
    CreateResponseFlags, OplockLevel,
};
use smb_wire::file::{ReadRequest, ReadResponse, WriteRequest, WriteResponse};
use smb_wire::fsctl::PipeWait;
use smb_wire::info::{InfoType, QueryInfoRequest};
use smb_wire::ioctl::{IoctlRequest, IoctlResponse};
use smb_wire::rpc::{self, Association, ReplyPart, Syntax};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, Encode, FileId, FileTime, NtStatus, Utf16, Writer};
use std::sync::Arc;

/// The reported allocation size of a pipe, that of Windows.
const ALLOCATION: u64 = 4096;

struct NamedPipe {
    name: &'static str,
    /// The path in a bind_ack.
    path: &'static str,
    offers: &'static [Syntax],
    service: PipeService,
}

static NAMED_PIPES: [NamedPipe; 4] = [
    NamedPipe {
        name: "srvsvc",
        path: "\\PIPE\\srvsvc",
        offers: &[rpc::srvsvc::INTERFACE],
        service: PipeService::Server,
    },
    NamedPipe {
        name: "wkssvc",
        path: "\\PIPE\\wkssvc",
        offers: &[rpc::wkssvc::INTERFACE],
        service: PipeService::Workstation,
    },
    NamedPipe {
        name: "lsarpc",
        path: "\\PIPE\\lsarpc",
        offers: &[rpc::lsarpc::INTERFACE],
        service: PipeService::Authority,
    },
    NamedPipe {
        name: "samr",
        path: "\\PIPE\\samr",
        offers: &[rpc::samr::INTERFACE],
        service: PipeService::Accounts,
    },
];

fn handle_write(cx: &RequestContext<'_, '_>, pipe: &Pipe, bytes: &[u8]) -> Result<(), NtStatus> {
    pipe.write(bytes, |handles, call| match pipe.service {
        PipeService::Server => srvsvc::server(cx, call),
        PipeService::Workstation => srvsvc::workstation(cx, call),
        PipeService::Authority => lsarpc::authority(cx, call),
        PipeService::Accounts => samr::answer(cx, handles, call),
    })
}

/// The status of a read: BUFFER_OVERFLOW for a partial message (MS-SMB2 §3.3.5.12).
fn status_of(part: &ReplyPart) -> NtStatus {
    if part.has_more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS }
}

/// Finds a pipe by name, ignoring case.
fn named_pipe(name: Utf16<'_>) -> Result<&'static NamedPipe, NtStatus> {
    let name: Vec<u16> = name.units().collect();
    let is_named = |named_pipe: &&NamedPipe| {
        folded(&name) == folded(&named_pipe.name.encode_utf16().collect::<Vec<_>>())
    };
    NAMED_PIPES.iter().find(is_named).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)
}

/// FSCTL_PIPE_WAIT (MS-SMB2 §3.3.5.15.9): an existing pipe can always be opened.
pub(crate) fn wait(cx: &RequestContext<'_, '_>, input: &[u8]) -> Result<(), CommandError> {
    if cx.tree()?.disk().is_some() {
        return Err(NtStatus::INVALID_DEVICE_REQUEST.into());
    }
    named_pipe(PipeWait::from_bytes(input)?.name)?;
    Ok(())
}

/// CREATE on IPC$ (MS-SMB2 §3.3.5.9). Every session may use pipes, but anonymous sessions cannot list users.
pub(crate) fn create(
    cx: &mut RequestContext<'_, '_>,
    args: &CreateRequest<'_>,
    granted: AccessMask,
    w: &mut Writer<'_>,
) -> CommandResult {
    let named_pipe = named_pipe(args.name)?;
    if args.create_disposition == CreateDisposition::CREATE {
        return Err(NtStatus::OBJECT_NAME_COLLISION.into());
    }
    if args.create_options.contains(CreateOptions::DIRECTORY_FILE) {
        return Err(NtStatus::NOT_A_DIRECTORY.into());
    }
    let session = Arc::clone(cx.session()?);
    let tells_users = matches!(named_pipe.service, PipeService::Authority | PipeService::Accounts);
    if session.identity().is_none() && tells_users {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let number = cx.message.service.counters.next_id();
    let id = FileId { persistent: number, volatile: number };
    let association = Association::new(named_pipe.path, named_pipe.offers);
    let budgets = session.pipe_budgets(&cx.message.service.counters);
    let pipe = Pipe::new(id, cx.tree()?.id, granted, named_pipe.service, association, budgets);
    session.add_pipe(&cx.message.service.counters, pipe)?;
    cx.related.file_id = Some(id);
    let response = CreateResponse {
        oplock_level: OplockLevel::NONE,
        flags: CreateResponseFlags::empty(),
        create_action: CreateAction::OPENED,
        creation_time: FileTime::NONE,
        last_access_time: FileTime::NONE,
        last_write_time: FileTime::NONE,
        change_time: FileTime::NONE,
        allocation_size: ALLOCATION,
        end_of_file: 0,
        file_attributes: FileAttributes::NORMAL,
        file_id: id,
        contexts: CreateContexts::default(),
    };
    cx.respond(w, &response)
}

/// READ of a pipe (MS-SMB2 §3.3.5.12). Ignores the offset, and waits for data.
pub(crate) fn read(
    cx: &mut RequestContext<'_, '_>,
    pipe: &Arc<Pipe>,
    args: &ReadRequest<'_>,
    w: &mut Writer<'_>,
) -> CommandResult {
    if args.length > IO_BYTES_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    pipe.check(AccessMask::READ_DATA)?;
    let part = match pipe.read(args.length) {
        Err(NtStatus::PIPE_EMPTY) => return Err(wait_for_answer(cx, pipe)?),
        part => part?,
    };
    ReadResponse { data: &part.bytes[..], data_remaining: 0, flags: 0 }.encode(w);
    Ok(status_of(&part))
}

fn wait_for_answer(cx: &mut RequestContext<'_, '_>, pipe: &Arc<Pipe>) -> Result<CommandError, NtStatus> {
    let waker = cx.waker(Some(pipe.id), NtStatus::FILE_CLOSED, Interim::OfLast)?;
    pipe.wait(&waker);
    let (async_id, pipe) = (waker.request().async_id, Arc::downgrade(pipe));
    Ok(cx.suspend(Box::new(move || {
        if let Some(pipe) = pipe.upgrade() {
            pipe.cancel_wait(async_id);
        }
        true
    })))
}

/// WRITE to a pipe (MS-SMB2 §3.3.5.13).
pub(crate) fn write(
    cx: &RequestContext<'_, '_>,
    pipe: &Pipe,
    args: &WriteRequest<&[u8]>,
    w: &mut Writer<'_>,
) -> CommandResult {
    let count = u32::try_from(args.data.len()).unwrap_or(u32::MAX);
    if count > IO_BYTES_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    pipe.check(AccessMask::WRITE_DATA)?;
    handle_write(cx, pipe, args.data)?;
    cx.respond(w, &WriteResponse { count, remaining: 0 })
}

/// FSCTL_PIPE_TRANSCEIVE (MS-SMB2 §3.3.5.15.3): a write, then a read of the reply.
pub(crate) fn transceive(
    cx: &RequestContext<'_, '_>,
    pipe: &Pipe,
    args: &IoctlRequest<'_>,
    w: &mut Writer<'_>,
) -> CommandResult {
    if args.max_output_response > TRANSACT_BYTES_MAX || args.input.len() > TRANSACT_BYTES_MAX as usize {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    pipe.check(AccessMask::READ_DATA | AccessMask::WRITE_DATA)?;
    // The read after the write would return the older reply.
    if pipe.has_unread()? {
        return Err(NtStatus::PIPE_BUSY.into());
    }
    handle_write(cx, pipe, args.input)?;
    let part = pipe.read(args.max_output_response)?;
    let reply = IoctlResponse {
        ctl_code: args.ctl_code,
        file_id: pipe.id,
        input: &[],
        output: &part.bytes,
        flags: args.flags,
    };
    reply.encode(w);
    Ok(status_of(&part))
}

/// The size of a pipe, which Windows queries after opening it (MS-SMB2 §3.3.5.20.1).
pub(crate) fn query(args: &QueryInfoRequest<'_>) -> Result<StandardInformation, CommandError> {
    match (args.info_type, FileClass(args.file_info_class)) {
        (InfoType::FILE, FileClass::STANDARD) => Ok(StandardInformation {
            allocation_size: ALLOCATION,
            end_of_file: 0,
            number_of_links: 1,
            delete_pending: false,
            directory: false,
        }),
        _ => Err(NtStatus::NOT_SUPPORTED.into()),
    }
}
