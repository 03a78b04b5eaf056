//! The commands, with their requirements and their handlers.

use super::headers::RequestHeaders;
use crate::commands::{
    change_notify, create, ioctl, lock, negotiate, oplock_break, query_directory, query_info, read_write,
    session_setup, set_info, tree_connect,
};
use crate::limits::{COMPOUND_REPLY_BYTES_MAX, IO_BYTES_MAX};
use crate::request::context::RequestContext;
use crate::request::outcome::CommandResult;
use crate::request::payload::transfer_bytes;
use smb_wire::Writer;
use smb_wire::compound;
use smb_wire::header::{Command, Header};
use transport::Dispatch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Needs no session, but the command must be the only one of its message: keys are derived from the bytes of the
    /// message.
    SingleCommand,
    Nothing,
    Session,
    Tree,
}

/// Runs a command. Receives the request from its header on, and writes the reply after its header.
type Handler = fn(&mut RequestContext<'_, '_>, &[u8], &mut Writer<'_>) -> CommandResult;

pub(crate) struct CommandEntry {
    pub(crate) needs: Needs,
    dispatch: Dispatch,
    pub(crate) run: Handler,
}

const fn new(needs: Needs, dispatch: Dispatch, run: Handler) -> CommandEntry {
    CommandEntry { needs, dispatch, run }
}

static NEGOTIATE: CommandEntry = new(Needs::SingleCommand, Dispatch::Inline, negotiate::negotiate);
static SESSION_SETUP: CommandEntry = new(Needs::SingleCommand, Dispatch::Batched, session_setup::setup);
static LOGOFF: CommandEntry = new(Needs::Session, Dispatch::Batched, session_setup::logoff);
static TREE_CONNECT: CommandEntry = new(Needs::Session, Dispatch::Batched, tree_connect::connect);
static TREE_DISCONNECT: CommandEntry = new(Needs::Tree, Dispatch::Batched, tree_connect::disconnect);
static CREATE: CommandEntry = new(Needs::Tree, Dispatch::Batched, create::create);
static CLOSE: CommandEntry = new(Needs::Tree, Dispatch::Batched, read_write::close);
static FLUSH: CommandEntry = new(Needs::Tree, Dispatch::Batched, read_write::flush);
static READ: CommandEntry = new(Needs::Tree, Dispatch::Inline, read_write::read);
static WRITE: CommandEntry = new(Needs::Tree, Dispatch::Batched, read_write::write);
static LOCK: CommandEntry = new(Needs::Tree, Dispatch::Batched, lock::lock);
static IOCTL: CommandEntry = new(Needs::Tree, Dispatch::Batched, ioctl::ioctl);
static ECHO: CommandEntry = new(Needs::Nothing, Dispatch::Inline, session_setup::echo);
static QUERY_DIRECTORY: CommandEntry = new(Needs::Tree, Dispatch::Batched, query_directory::query);
static CHANGE_NOTIFY: CommandEntry = new(Needs::Tree, Dispatch::Batched, change_notify::change_notify);
static QUERY_INFO: CommandEntry = new(Needs::Tree, Dispatch::Inline, query_info::query);
static OPLOCK_BREAK: CommandEntry = new(Needs::Tree, Dispatch::Inline, oplock_break::acknowledge);
static SET_INFO: CommandEntry = new(Needs::Tree, Dispatch::Batched, set_info::set);

/// Returns the entry of a command that has a reply; CANCEL has none.
pub(crate) fn command_entry(command: Command) -> Option<&'static CommandEntry> {
    Some(match command {
        Command::NEGOTIATE => &NEGOTIATE,
        Command::SESSION_SETUP => &SESSION_SETUP,
        Command::LOGOFF => &LOGOFF,
        Command::TREE_CONNECT => &TREE_CONNECT,
        Command::TREE_DISCONNECT => &TREE_DISCONNECT,
        Command::CREATE => &CREATE,
        Command::CLOSE => &CLOSE,
        Command::FLUSH => &FLUSH,
        Command::READ => &READ,
        Command::WRITE => &WRITE,
        Command::LOCK => &LOCK,
        Command::IOCTL => &IOCTL,
        Command::ECHO => &ECHO,
        Command::QUERY_DIRECTORY => &QUERY_DIRECTORY,
        Command::CHANGE_NOTIFY => &CHANGE_NOTIFY,
        Command::QUERY_INFO => &QUERY_INFO,
        Command::SET_INFO => &SET_INFO,
        Command::OPLOCK_BREAK => &OPLOCK_BREAK,
        _ => return None,
    })
}

/// A single command that rarely needs storage runs inline.
pub(crate) fn dispatch(headers: &RequestHeaders) -> Dispatch {
    match headers.single() {
        Some(only) if only.command == Command::CANCEL => Dispatch::Inline,
        Some(only) => command_entry(only.command).map_or(Dispatch::Inline, |row| row.dispatch),
        None => Dispatch::Batched,
    }
}

/// The maximum number of data bytes in the replies to a message.
pub(crate) fn reply_bytes_max(message: &[u8]) -> u32 {
    let moves = |header: &Header| {
        matches!(header.command, Command::READ | Command::WRITE | Command::QUERY_DIRECTORY | Command::IOCTL)
    };
    let requests = compound::messages(message).flatten().filter(|request| moves(&request.header));
    let requested = requests.map(|request| transfer_bytes(&request)).fold(0, u32::saturating_add);
    // Commands beyond that are refused.
    requested.min(u32::try_from(COMPOUND_REPLY_BYTES_MAX).unwrap_or(u32::MAX).saturating_add(IO_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::COMPOUND_COMMANDS_MAX;
    use smb_wire::FileId;
    use smb_wire::file::{Channel, ReadFlags, ReadRequest};

    fn reads(count: usize) -> Vec<u8> {
        let (mut out, mut previous) = (Vec::new(), None);
        let request = ReadRequest {
            padding: 0,
            flags: ReadFlags::empty(),
            length: IO_BYTES_MAX,
            offset: 0,
            file_id: FileId::PREVIOUS,
            minimum_count: 0,
            channel: Channel::NONE,
            remaining_bytes: 0,
            read_channel_info: &[],
        };
        for _ in 0..count {
            if let Some(previous) = previous {
                compound::link(&mut out, previous);
            }
            previous = Some(compound::push(&mut out, &Header::request(Command::READ, 0, 0, 0), &request));
        }
        out
    }

    #[test]
    fn reply_bytes_of_many_reads_are_capped() {
        assert_eq!(reply_bytes_max(&reads(2)), 2 * IO_BYTES_MAX);
        let most = u32::try_from(COMPOUND_REPLY_BYTES_MAX).unwrap() + IO_BYTES_MAX;
        assert_eq!(reply_bytes_max(&reads(COMPOUND_COMMANDS_MAX)), most);
    }
}
