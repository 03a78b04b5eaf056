//! Calls and replies of SMB 3.1.1: a request on a file that is open, or a compound that opens, does something and closes.
//!
//! | call | requests |
//! |---|---|
//! | GETATTR | CREATE, QUERY_INFO, CLOSE |
//! | SETATTR of a size | SET_INFO of the open file |
//! | SETATTR of a mode | CREATE, SET_INFO of attributes, CLOSE: SMB has no modes |
//! | LOOKUP | CREATE, CLOSE |
//! | ACCESS | CREATE with all rights that there are, CLOSE |
//! | READ, WRITE, COMMIT | READ, WRITE, FLUSH of the open file |
//! | CREATE, OPEN, CLOSE | CREATE, CREATE, CLOSE |
//! | MKDIR | CREATE of a directory, CLOSE |
//! | REMOVE, RMDIR | CREATE of what goes when it is closed, CLOSE |

use nfs_wire::v3::{FileHandle, StableHow, WriteVerf};
use nfs_wire::v4::ShareAccess;
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{BasicInformation, SizeInformation};
use smb_wire::compound;
use smb_wire::create::CreateResponse;
use smb_wire::file::{ReadResponse, WriteFlags, WriteResponse};
use smb_wire::header::Command;
use smb_wire::types::FileAttributes;
use smb_wire::{Encode, FileId, NtStatus, Utf16};

use super::call::{Answer, Call, OpenId};
use crate::driver::calls::Calls;
use crate::driver::compound::Refusal;
use crate::driver::fault::counted;
use crate::driver::responses::{body, message};
use crate::smb::requests::{self, Opening, utf16};
use crate::smb::{self, Request};

/// Of a handle that is a path by itself.
const NO_NAME: &[u8] = b"";
/// A mode for which a file is marked.
const MARKED: u32 = 0o600;

/// The call that a process has in flight.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The path of what it opens.
    path: Vec<u8>,
    /// The requests that it is made of.
    requests: &'static [Command],
}

/// The request for which a call is made.
pub(super) fn command(call: &Call<'_>) -> Command {
    match call {
        Call::Getattr(_) => Command::QUERY_INFO,
        Call::Setattr(_) => Command::SET_INFO,
        Call::Read(_) => Command::READ,
        Call::Write(_) => Command::WRITE,
        Call::Commit(_) => Command::FLUSH,
        Call::Lookup(_) | Call::Access(_) | Call::Create(_) | Call::Mkdir(_) | Call::Open(_) => {
            Command::CREATE
        }
        Call::Remove(_) | Call::Rmdir(_) | Call::Close(_) => Command::CLOSE,
    }
}

/// Credits that a call takes at most.
pub(super) fn charge(call: &Call<'_>) -> u16 {
    match call {
        Call::Read(arguments) => smb::charge(arguments.count),
        Call::Write(head) => smb::charge(head.count),
        Call::Getattr(_) | Call::Setattr(_) => 3,
        Call::Lookup(_) | Call::Access(_) | Call::Mkdir(_) | Call::Remove(_) | Call::Rmdir(_) => 2,
        Call::Create(_) | Call::Commit(_) | Call::Open(_) | Call::Close(_) => 1,
    }
}

/// The requests that a call is made of, where its operation has a file open and where not.
fn chain(call: &Call<'_>, is_open: bool) -> &'static [Command] {
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

/// What a call opens, and how; `None` where it is on what is open.
fn opening<'a>(call: &Call<'a>) -> Option<(FileHandle<'a>, &'a [u8], Opening)> {
    let below = |what: nfs_wire::v3::DirOpArgs<'a>, opening| Some((what.dir, what.name, opening));
    match *call {
        Call::Getattr(arguments) => Some((arguments.object, NO_NAME, Opening::ATTRIBUTES)),
        Call::Setattr(arguments) => Some((arguments.object, NO_NAME, Opening::SETTING)),
        Call::Access(arguments) => Some((arguments.object, NO_NAME, Opening::WHATEVER)),
        Call::Open(head) if head.access == ShareAccess::READ => Some((head.file, NO_NAME, Opening::READING)),
        Call::Open(head) => Some((head.file, NO_NAME, Opening::WRITING)),
        Call::Lookup(arguments) => below(arguments.what, Opening::ATTRIBUTES),
        Call::Create(arguments) => below(arguments.place, Opening::FILE),
        Call::Mkdir(arguments) => below(arguments.place, Opening::NEW_DIRECTORY),
        Call::Remove(arguments) | Call::Rmdir(arguments) => below(arguments.object, Opening::REMOVAL),
        Call::Read(_) | Call::Write(_) | Call::Commit(_) | Call::Close(_) => None,
    }
}

/// Puts a call into the outbox, with so many bytes of a payload; `under` is the file that its operation has open.
pub(super) fn push(
    call: &Call<'_>,
    under: Option<FileId>,
    place: &mut Place,
    (slot, payload): (usize, Option<(usize, u32)>),
    calls: &mut Calls,
) {
    place.requests = chain(call, under.is_some());
    let (opened, path) = match opening(call) {
        Some((object, name, opening)) => {
            place.path = joined(object, name);
            let path = utf16(&String::from_utf8_lossy(&place.path));
            (Some(opening), path)
        }
        None => (None, Vec::new()),
    };
    let create = opened.map(|opening| opening.request(Utf16::new(&path).unwrap_or_default()));
    let file = under.filter(|_| place.requests.len() == 1).unwrap_or(FileId::PREVIOUS);
    let (class, set) = attributes(call);
    let (query, close) = (requests::query(file), requests::close(file));
    let (set, flush) = (requests::set_info(class, &set, file), requests::flush(file));
    let (offset, count) = match call {
        Call::Read(arguments) => (arguments.offset, arguments.count),
        Call::Write(head) => (head.offset, head.count),
        _ => (0, 0),
    };
    let read = requests::read(file, offset, count);
    let write = requests::write(file, offset, count as usize, flags(call));
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
    let all: Vec<Request<'_>> = place.requests.iter().map(request).collect();
    calls.send(slot, &all, payload);
}

/// The path of a name in a directory, or of what the handle is of.
fn joined(object: FileHandle<'_>, name: &[u8]) -> Vec<u8> {
    let between: &[u8] = if object.0.is_empty() || name.is_empty() { b"" } else { b"\\" };
    [object.0, between, name].concat()
}

/// What a SETATTR sets: a size, or for a mode the mark that a file is to be archived.
fn attributes(call: &Call<'_>) -> (FileClass, Vec<u8>) {
    let Call::Setattr(arguments) = call else { return (FileClass::BASIC, Vec::new()) };
    match (arguments.new_attributes.size, arguments.new_attributes.mode) {
        (Some(size), _) => {
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            (FileClass::END_OF_FILE, SizeInformation { size }.to_bytes())
        }
        (None, mode) => {
            let is_marked = mode == Some(MARKED);
            let file_attributes = if is_marked { FileAttributes::ARCHIVE } else { FileAttributes::NORMAL };
            (FileClass::BASIC, BasicInformation { file_attributes, ..BasicInformation::default() }.to_bytes())
        }
    }
}

/// How safe a WRITE is to be when it is answered.
fn flags(call: &Call<'_>) -> WriteFlags {
    match call {
        Call::Write(head) if head.stable != StableHow::Unstable => WriteFlags::WRITE_THROUGH,
        _ => WriteFlags::empty(),
    }
}

/// What the responses to a call brought. SMB has no verifier of WRITEs.
pub(super) fn judge<'a>(call: &Call<'_>, place: &'a Place, bytes: &'a [u8]) -> Result<Answer<'a>, Refusal> {
    let mut all = compound::messages(bytes);
    let mut first = None;
    for &wanted in place.requests {
        let message = message(all.next(), wanted)?;
        match message.header.status {
            NtStatus::SUCCESS => first = first.or(Some(message)),
            status => return Err(counted(format!("{status:?}"), "refused".to_owned()).into()),
        }
    }
    let Some(first) = first else { return Ok(Answer::Done) };
    let opened = |file| -> Result<Answer<'a>, Refusal> {
        let file_id = body::<CreateResponse<'_>>(&first)?.file_id;
        Ok(Answer::Opened(OpenId::Smb(file_id), file))
    };
    match call {
        Call::Read(_) => {
            let data = body::<ReadResponse<&[u8]>>(&first)?.data;
            // A response is shorter than 4 GiB.
            let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
            Ok(Answer::Read { count, data, eof: false })
        }
        Call::Write(head) => {
            let count = body::<WriteResponse>(&first)?.count;
            // A server that does not write through says so with a status.
            Ok(Answer::Written { count, committed: head.stable, verf: WriteVerf::default() })
        }
        Call::Commit(_) => Ok(Answer::Committed(WriteVerf::default())),
        Call::Open(_) => opened(None),
        Call::Create(_) => opened(Some(FileHandle(&place.path))),
        _ => Ok(Answer::Done),
    }
}

#[cfg(test)]
mod tests;
