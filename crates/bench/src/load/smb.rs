//! The calls of a load over SMB: requests on open files, and compounds that open and close.

use std::sync::Arc;

use smb_wire::classes::FileClass;
use smb_wire::classes::file::RenameInformation;
use smb_wire::create::CreateResponse;
use smb_wire::dir::DirectoryClass;
use smb_wire::file::WriteFlags;
use smb_wire::header::Command;
use smb_wire::session::Empty;
use smb_wire::{Encode, FileId, Utf16};

use report::scenario::Stability;
use wire_client::Handle;
use wire_client::smb::channel::{self, Request};
use wire_client::smb::requests::{self as smb_requests, OpenMode, utf16};
use wire_client::smb::session::Session;

use super::call::Call;
use super::file_set::FileSet;
use super::plan::{Kind, Op, Plan};
use crate::driver::calls::Calls;
use crate::error::Error;

pub(super) fn requests(kind: Kind) -> &'static [Command] {
    match kind {
        Kind::Null => &[Command::ECHO],
        Kind::Getattr | Kind::Access => &[Command::QUERY_INFO],
        Kind::Lookup => &[Command::CREATE, Command::QUERY_INFO, Command::CLOSE],
        Kind::Read => &[Command::READ],
        Kind::Write => &[Command::WRITE],
        Kind::Create | Kind::Open => &[Command::CREATE],
        Kind::Rename => &[Command::CREATE, Command::SET_INFO, Command::CLOSE],
        Kind::Remove => &[Command::CREATE, Command::CLOSE],
        Kind::Readdirplus => &[Command::QUERY_DIRECTORY],
        Kind::Commit => &[Command::FLUSH],
        Kind::Close => &[Command::CLOSE],
    }
}

/// A call is counted as this request. Of a compound it is the second one, after CREATE.
pub(super) fn command(kind: Kind) -> Command {
    let requests = requests(kind);
    *requests.get(1).unwrap_or(&requests[0])
}

/// In credits.
#[inline]
pub(super) fn charge(kind: Kind, transfer: u32) -> u16 {
    match kind {
        Kind::Read | Kind::Write => channel::charge(transfer),
        Kind::Lookup | Kind::Rename => 3,
        Kind::Remove => 2,
        _ => 1,
    }
}

/// The opens that all connections of a session share, and the paths that calls open.
#[derive(Debug)]
pub(super) struct SharedOpens {
    /// Data files that stay open; zeros for other files.
    files: Vec<FileId>,
    /// In UTF-16: the data files, then the directories.
    paths: Vec<Vec<u8>>,
    many: Vec<Vec<u8>>,
    scratch: Vec<Vec<u8>>,
}

impl SharedOpens {
    /// Opens the files that a session's calls need: those in `own`, or all.
    pub(super) fn new(
        plan: &Plan,
        own: std::ops::Range<usize>,
        file_set: &FileSet,
        session: &mut Session,
    ) -> Result<Self, Error> {
        let paths = |handles: &[Handle]| handles.iter().map(Handle::path).collect::<Result<Vec<_>, _>>();
        let mut opens = Self {
            files: vec![FileId::default(); file_set.files.len()],
            paths: paths(&file_set.files)?,
            many: paths(&file_set.many)?,
            scratch: paths(&file_set.scratch)?,
        };
        let initial = match plan.op {
            op if op.holds_files_open() => own,
            Op::Getattr | Op::Commit => 0..opens.files.len(),
            _ => 0..0,
        };
        for file in initial {
            opens.files[file] = open(session, &opens.paths[file], OpenMode::DATA)?;
        }
        Ok(opens)
    }
}

#[derive(Debug)]
pub(super) struct Opens {
    shared: Arc<SharedOpens>,
    /// The large directory, open once for each slot: an open holds the position of a listing.
    listings: Vec<FileId>,
    opened: Vec<Option<FileId>>,
    /// Calls of an operation. The first of their slots opens the file for all.
    parts: usize,
    all_names: Vec<u8>,
    path: Vec<u8>,
    other_path: Vec<u8>,
}

impl Opens {
    /// Opens the directories that the connection needs besides the session's files.
    pub(super) fn new(
        plan: &Plan,
        slots: usize,
        shared: Arc<SharedOpens>,
        session: &mut Session,
    ) -> Result<Self, Error> {
        let mut listings = Vec::new();
        if plan.op == Op::Readdirplus {
            let listing = |_| open(session, &shared.many[0], OpenMode::LISTING);
            listings = (0..slots).map(listing).collect::<Result<_, _>>()?;
        }
        Ok(Self {
            shared,
            listings,
            opened: vec![None; slots],
            parts: plan.parts(),
            all_names: utf16("*"),
            path: Vec::new(),
            other_path: Vec::new(),
        })
    }

    #[inline]
    pub(super) fn opened_mut(&mut self, slot: usize) -> &mut Option<FileId> {
        &mut self.opened[slot]
    }

    #[inline]
    pub(super) fn has_open(&self, slot: usize) -> bool {
        self.opened[slot].is_some()
    }

    /// The file that the operation has opened, or one that stays open.
    #[inline]
    fn file(&self, call: &Call<'_>) -> FileId {
        self.opened[call.slot - call.slot % self.parts].unwrap_or(self.shared.files[call.object])
    }

    #[inline]
    pub(super) fn push(&mut self, call: &Call<'_>, calls: &mut Calls) {
        let mut send = |body: &dyn Encode| {
            let (command, charge) = (command(call.kind), charge(call.kind, call.transfer));
            calls.send(call.slot, &[Request { command, charge, body }], call.payload());
        };
        match call.kind {
            Kind::Null => send(&Empty),
            Kind::Getattr | Kind::Access => send(&smb_requests::query(self.shared.files[call.object])),
            Kind::Read => send(&smb_requests::read(self.file(call), call.position.offset, call.transfer)),
            Kind::Write => {
                let (file, flags) = (self.file(call), write_flags(call.stability));
                send(&smb_requests::write(file, call.position.offset, call.transfer as usize, flags));
            }
            Kind::Commit => send(&smb_requests::flush(self.shared.files[call.object])),
            Kind::Close => send(&smb_requests::close(self.opened[call.slot].unwrap_or_default())),
            Kind::Open => send(&OpenMode::DATA.request(text(&self.shared.paths[call.object]))),
            Kind::Create => {
                path(&mut self.path, &self.shared.scratch[call.object], &call.name(0));
                send(&OpenMode::OPEN_OR_CREATE.request(text(&self.path)));
            }
            Kind::Readdirplus => {
                let class = DirectoryClass::ID_BOTH_DIRECTORY;
                let (open, is_first) = (self.listings[call.slot], call.cookie == 0);
                send(&smb_requests::list(class, open, is_first, text(&self.all_names)));
            }
            Kind::Lookup | Kind::Remove | Kind::Rename => self.push_compound(call, calls),
        }
    }

    fn push_compound(&mut self, call: &Call<'_>, calls: &mut Calls) {
        let one = |command: Command, body| Request { command, charge: 1, body };
        let close = smb_requests::close(FileId::PREVIOUS);
        let close = one(Command::CLOSE, &close);
        match call.kind {
            Kind::Lookup => {
                path(&mut self.path, &self.shared.many[call.object], &call.entry());
                let create = OpenMode::ATTRIBUTES.request(text(&self.path));
                let query = smb_requests::query(FileId::PREVIOUS);
                let all = [one(Command::CREATE, &create), one(Command::QUERY_INFO, &query), close];
                calls.send(call.slot, &all, None);
            }
            Kind::Rename => {
                path(&mut self.path, &self.shared.scratch[call.object], &call.name(0));
                path(&mut self.other_path, &self.shared.scratch[call.other], &call.name(1));
                let create = OpenMode::DELETE_ACCESS.request(text(&self.path));
                let file_name = text(&self.other_path);
                let buffer = RenameInformation { replace_if_exists: false, root_directory: 0, file_name };
                let buffer = buffer.to_bytes();
                let rename = smb_requests::set_info(FileClass::RENAME, &buffer, FileId::PREVIOUS);
                let all = [one(Command::CREATE, &create), one(Command::SET_INFO, &rename), close];
                calls.send(call.slot, &all, None);
            }
            _ => {
                path(&mut self.path, &self.shared.scratch[call.object], &call.name(0));
                let create = OpenMode::DELETE_ON_CLOSE.request(text(&self.path));
                calls.send(call.slot, &[one(Command::CREATE, &create), close], None);
            }
        }
    }
}

fn open(session: &mut Session, path: &[u8], mode: OpenMode) -> Result<FileId, wire_client::Error> {
    let reply = session.call(Command::CREATE, 0, &mode.request(Utf16::new(path)?), None)?;
    let reply =
        reply.succeeded(|| format!("CREATE of {}", String::from_utf8_lossy(&text(path).to_wtf8())))?;
    Ok(reply.body::<CreateResponse<'_>>()?.file_id)
}

fn write_flags(stability: Stability) -> WriteFlags {
    match stability {
        Stability::Unstable => WriteFlags::empty(),
        Stability::DataSync | Stability::FileSync => WriteFlags::WRITE_THROUGH,
    }
}

#[inline]
fn path(out: &mut Vec<u8>, directory: &[u8], name: &[u8]) {
    out.clear();
    out.extend_from_slice(directory);
    for &byte in b"\\".iter().chain(name) {
        out.extend_from_slice(&[byte, 0]);
    }
}

/// Paths always consist of whole UTF-16 units.
#[inline]
fn text(path: &[u8]) -> Utf16<'_> {
    Utf16::new(path).unwrap_or_default()
}
