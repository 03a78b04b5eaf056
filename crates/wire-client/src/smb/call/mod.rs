//! Calls and replies of SMB 3.1.1: a request on an open file, or a compound that opens, acts and closes.
//!
//! | call | requests |
//! |---|---|
//! | GETATTR | CREATE, QUERY_INFO, CLOSE |
//! | SETATTR of a size | SET_INFO of the open file |
//! | SETATTR of a mode | CREATE, SET_INFO of attributes, CLOSE: SMB has no modes |
//! | LOOKUP | CREATE, CLOSE |
//! | ACCESS | CREATE with MAXIMUM_ALLOWED, CLOSE |
//! | READ, WRITE, COMMIT | READ, WRITE, FLUSH of the open file |
//! | CREATE, OPEN, CLOSE | CREATE, CREATE, CLOSE |
//! | MKDIR | CREATE of a directory, CLOSE |
//! | REMOVE, RMDIR | CREATE with delete-on-close, CLOSE |

use nfs_wire::v3::{FileHandle, StableHow, WriteVerf};
use nfs_wire::v4::ShareAccess;
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{BasicInformation, SizeInformation};
use smb_wire::compound;
use smb_wire::create::CreateResponse;
use smb_wire::file::{ReadResponse, WriteFlags, WriteResponse};
use smb_wire::header::Command;
use smb_wire::types::FileAttributes;
use smb_wire::{Encode, ExternalBuffer, FileId, NtStatus, Utf16};

use super::channel::{self, Request};
use super::requests::{self, OpenMode, utf16};
use super::responses::{body, listed, message};
use crate::call::{Call, CallKind, CallResult, ListedPage, OpenId, ReadHead, Rejection};

/// For a handle that is the whole path.
const NO_NAME: &[u8] = b"";
/// Sets the archive attribute, since SMB has no modes.
const ARCHIVED_MODE: u32 = 0o600;

#[derive(Debug, Default)]
pub struct InFlight {
    /// The path that the call opens, in UTF-8.
    path: Vec<u8>,
    requests: &'static [Command],
}

pub fn command(kind: CallKind) -> Command {
    match kind {
        CallKind::Null => Command::ECHO,
        CallKind::Getattr => Command::QUERY_INFO,
        CallKind::Setattr | CallKind::Rename => Command::SET_INFO,
        CallKind::Read => Command::READ,
        CallKind::Write => Command::WRITE,
        CallKind::Commit => Command::FLUSH,
        CallKind::Lookup | CallKind::Access | CallKind::Create | CallKind::Mkdir | CallKind::Open => {
            Command::CREATE
        }
        CallKind::Readdirplus => Command::QUERY_DIRECTORY,
        CallKind::Remove | CallKind::Rmdir | CallKind::Close => Command::CLOSE,
    }
}

/// An upper bound of the credits of a call.
pub fn charge(call: &Call<'_>) -> u16 {
    match call {
        Call::Read(arguments) => channel::charge(arguments.count),
        Call::Write(head) => channel::charge(head.count),
        // SETATTR has one request where its file is open.
        Call::Getattr(_) | Call::Setattr(_) => 3,
        Call::Lookup(_) | Call::Access(_) | Call::Mkdir(_) | Call::Remove(_) | Call::Rmdir(_) => 2,
        Call::Create(_) | Call::Commit(_) | Call::Open(_) | Call::Close(_) => 1,
    }
}

/// `is_open` is true if the call's operation has the file open.
fn requests_of(call: &Call<'_>, is_open: bool) -> &'static [Command] {
    match call {
        Call::Getattr(_) => &[Command::CREATE, Command::QUERY_INFO, Command::CLOSE],
        Call::Setattr(_) if is_open => &[Command::SET_INFO],
        Call::Setattr(_) => &[Command::CREATE, Command::SET_INFO, Command::CLOSE],
        Call::Lookup(_) | Call::Access(_) | Call::Mkdir(_) | Call::Remove(_) | Call::Rmdir(_) => {
            &[Command::CREATE, Command::CLOSE]
        }
        Call::Read(_) => &[Command::READ],
        Call::Write(_) => &[Command::WRITE],
        Call::Commit(_) => &[Command::FLUSH],
        Call::Create(_) | Call::Open(_) => &[Command::CREATE],
        Call::Close(_) => &[Command::CLOSE],
    }
}

/// The directory and name that a call opens, and the mode. `None` for a call on an open file.
fn open_operand<'a>(call: &Call<'a>) -> Option<(FileHandle<'a>, &'a [u8], OpenMode)> {
    let name = |what: nfs_wire::v3::DirOpArgs<'a>, mode| Some((what.dir, what.name, mode));
    match *call {
        Call::Getattr(arguments) => Some((arguments.object, NO_NAME, OpenMode::ATTRIBUTES)),
        Call::Setattr(arguments) => Some((arguments.object, NO_NAME, OpenMode::SET_ATTRIBUTES)),
        Call::Access(arguments) => Some((arguments.object, NO_NAME, OpenMode::MAXIMUM)),
        Call::Open(head) if head.access == ShareAccess::READ => Some((head.file, NO_NAME, OpenMode::READING)),
        Call::Open(head) => Some((head.file, NO_NAME, OpenMode::WRITING)),
        Call::Lookup(arguments) => name(arguments.what, OpenMode::ATTRIBUTES),
        Call::Create(arguments) => name(arguments.place, OpenMode::OPEN_OR_CREATE),
        Call::Mkdir(arguments) => name(arguments.place, OpenMode::NEW_DIRECTORY),
        Call::Remove(arguments) | Call::Rmdir(arguments) => name(arguments.object, OpenMode::DELETE_ON_CLOSE),
        Call::Read(_) | Call::Write(_) | Call::Commit(_) | Call::Close(_) => None,
    }
}

/// Passes the requests of a call to `send`. `open` is the file that the call's operation has open.
pub fn with_requests(
    call: &Call<'_>,
    open: Option<FileId>,
    in_flight: &mut InFlight,
    send: impl FnOnce(&[Request<'_>]),
) {
    in_flight.requests = requests_of(call, open.is_some());
    let (opened, path) = match open_operand(call) {
        Some((object, name, mode)) => {
            in_flight.path = join(object, name);
            let path = utf16(&String::from_utf8_lossy(&in_flight.path));
            (Some(mode), path)
        }
        None => (None, Vec::new()),
    };
    let create = opened.map(|mode| mode.request(Utf16::new(&path).unwrap_or_default()));
    let file = open.filter(|_| in_flight.requests.len() == 1).unwrap_or(FileId::PREVIOUS);
    let (class, set) = attributes(call);
    let (query, close) = (requests::query(file), requests::close(file));
    let (set, flush) = (requests::set_info(class, &set, file), requests::flush(file));
    let (offset, count) = match call {
        Call::Read(arguments) => (arguments.offset, arguments.count),
        Call::Write(head) => (head.offset, head.count),
        _ => (0, 0),
    };
    let read = requests::read(file, offset, count);
    let write = requests::write(file, offset, count as usize, write_flags(call));
    let body = |command: &Command| -> &dyn Encode {
        match (*command, &create) {
            (Command::CREATE, Some(create)) => create,
            (Command::QUERY_INFO, _) => &query,
            (Command::SET_INFO, _) => &set,
            (Command::READ, _) => &read,
            (Command::WRITE, _) => &write,
            (Command::FLUSH, _) => &flush,
            _ => &close,
        }
    };
    let charge = match call {
        Call::Read(_) | Call::Write(_) => charge(call),
        _ => 1,
    };
    let request = |command: &Command| Request { command: *command, charge, body: body(command) };
    let all: Vec<Request<'_>> = in_flight.requests.iter().map(request).collect();
    send(&all);
}

/// An empty name stands for the object itself.
fn join(object: FileHandle<'_>, name: &[u8]) -> Vec<u8> {
    let between: &[u8] = if object.0.is_empty() || name.is_empty() { b"" } else { b"\\" };
    [object.0, between, name].concat()
}

/// A size becomes the end of file, a mode the archive attribute.
fn attributes(call: &Call<'_>) -> (FileClass, Vec<u8>) {
    let Call::Setattr(arguments) = call else { return (FileClass::BASIC, Vec::new()) };
    match (arguments.new_attributes.size, arguments.new_attributes.mode) {
        (Some(size), _) => {
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            (FileClass::END_OF_FILE, SizeInformation { size }.to_bytes())
        }
        (None, mode) => {
            let is_archived = mode == Some(ARCHIVED_MODE);
            let file_attributes = if is_archived { FileAttributes::ARCHIVE } else { FileAttributes::NORMAL };
            (FileClass::BASIC, BasicInformation { file_attributes, ..BasicInformation::default() }.to_bytes())
        }
    }
}

fn write_flags(call: &Call<'_>) -> WriteFlags {
    match call {
        Call::Write(head) if head.stable != StableHow::Unstable => WriteFlags::WRITE_THROUGH,
        _ => WriteFlags::empty(),
    }
}

#[inline]
pub fn decode_in_flight<'a>(
    kind: CallKind,
    in_flight: &'a InFlight,
    bytes: &'a [u8],
) -> Result<CallResult<'a>, Rejection> {
    let result = decode(kind, in_flight.requests, bytes)?;
    Ok(match (kind, result) {
        (CallKind::Create, CallResult::Opened(id, _)) => {
            CallResult::Opened(id, Some(FileHandle(&in_flight.path)))
        }
        (_, result) => result,
    })
}

/// Decodes the responses to a call made as `requests`. SMB has no write verifier.
#[inline]
pub fn decode<'a>(
    kind: CallKind,
    requests: &[Command],
    bytes: &'a [u8],
) -> Result<CallResult<'a>, Rejection> {
    let mut all = compound::messages(bytes);
    let mut first = None;
    for &wanted in requests {
        let message = message(all.next(), wanted)?;
        match message.header.status {
            NtStatus::SUCCESS => first = first.or(Some(message)),
            NtStatus::NO_MORE_FILES if kind == CallKind::Readdirplus => {
                return Ok(CallResult::Listed(ListedPage { eof: true, ..ListedPage::default() }));
            }
            status => return Err(Rejection::refused(status)),
        }
    }
    let Some(first) = first else { return Ok(CallResult::Done) };
    match kind {
        CallKind::Read => {
            let data = body::<ReadResponse<&[u8]>>(&first)?.data;
            // A response is shorter than 4 GiB.
            let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
            Ok(CallResult::Read { count, data, eof: false })
        }
        CallKind::Write => {
            let count = body::<WriteResponse>(&first)?.count;
            // A server that does not write through fails the request, so that a success is as stable as requested.
            Ok(CallResult::Written { count, committed: StableHow::FileSync, verf: WriteVerf::default() })
        }
        CallKind::Commit => Ok(CallResult::Committed(WriteVerf::default())),
        CallKind::Open | CallKind::Create => {
            let file_id = body::<CreateResponse<'_>>(&first)?.file_id;
            Ok(CallResult::Opened(OpenId::Smb(file_id), None))
        }
        CallKind::Readdirplus => listed(&first).map(CallResult::Listed),
        _ => Ok(CallResult::Done),
    }
}

/// Decodes the response to a READ up to its data. Returns the data, of which a receiver may have dropped
/// some.
#[inline]
pub fn decode_read_head(bytes: &[u8]) -> Result<(ReadHead, &[u8]), Rejection> {
    let message = message(compound::messages(bytes).next(), Command::READ)?;
    if message.header.status != NtStatus::SUCCESS {
        return Err(Rejection::refused(message.header.status));
    }
    let ExternalBuffer { offset, length } = body::<ReadResponse<ExternalBuffer>>(&message)?.data;
    let count = u32::try_from(length).unwrap_or(u32::MAX);
    let data = message.bytes.get(offset..).unwrap_or_default();
    Ok((ReadHead { count, length: count, eof: false }, data))
}

#[cfg(test)]
mod tests;
