//! The calls of a load over NFSv4.1 and 4.2: compounds as Linux sends them.

#[cfg(test)]
mod tests;

use nfs_wire::v3::FileHandle;
use nfs_wire::v4::{
    AccessArgs, Argument, Bitmap, CloseArgs, CommitArgs, CompoundHead, CreateHow, Fattr, GetattrArgs, Op,
    OpenClaim, OpenFlag, PROGRAM, Procedure, ShareAccess, StateOwner, Stateid, VERSION, attr,
};
use wire_client::nfs4::call::is_reply_cached;
use wire_client::nfs4::compound::{CACHE_CONSISTENCY, FILE_ATTRIBUTES, RIGHTS};
use wire_client::nfs4::session::{self, SessionSlot, putfh};
use wire_client::{Handle, Identity};
use xdr::{Encode, Writer};

use super::call::{Call, LISTING_MAX, push_name};
use super::file_set::FileSet;
use super::plan::{Kind, stable_how};
use crate::driver::calls::Calls;

/// Linux requests these attributes for each listed name.
const OF_A_NAME: Bitmap = {
    let mut wanted = FILE_ATTRIBUTES;
    wanted.insert(attr::RDATTR_ERROR);
    wanted.insert(attr::FILEHANDLE);
    wanted
};
/// SEQUENCE's arguments up to `sa_highest_slotid` (RFC 8881 §18.46.1).
const STAMP_BYTES: usize = 28;
/// A COMPOUND before these arguments: an empty tag, the minor version, the number of operations, the number
/// of SEQUENCE.
const BEFORE_SEQUENCE: usize = 16;
const OWNER_BYTES: usize = 8;
const BEFORE_OWNER: usize = 28;

#[derive(Debug)]
pub(super) struct SlotState {
    pub(super) slot: SessionSlot,
    /// Unique to the slot, so that two opens of one file stay separate.
    owner: u64,
    opened: Option<Stateid>,
    /// The encoded handle of the file that is open, or opening.
    file: Vec<u8>,
}

impl SlotState {
    pub(super) fn new(slot: SessionSlot, owner: u64) -> Self {
        Self { slot, owner, opened: None, file: Vec::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    /// `file` is the handle of a file that was opened by name.
    pub(super) fn set_open(&mut self, stateid: Stateid, file: Option<FileHandle<'_>>) {
        self.opened = Some(stateid);
        if let Some(file) = file {
            self.file.clear();
            file.encode(&mut Writer::new(&mut self.file));
        }
    }

    pub(super) fn set_closed(&mut self) {
        self.opened = None;
    }

    /// The start of SEQUENCE's arguments for the next call.
    #[inline]
    fn stamp(&mut self) -> [u8; STAMP_BYTES] {
        let mut stamp = [0; STAMP_BYTES];
        stamp[..16].copy_from_slice(&self.slot.session);
        let words = [self.slot.sequence, self.slot.slot, self.slot.highest];
        for (place, word) in stamp[16..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        self.slot.advance();
        stamp
    }
}

#[derive(Debug)]
pub(super) struct ClientContext<'a> {
    pub(super) identity: &'a Identity,
    pub(super) minor: u32,
    pub(super) client_id: u64,
    /// [`Stateid::ANONYMOUS`] for files that the client does not use.
    pub(super) opens: Vec<Stateid>,
}

/// The parts of one client's calls that never change, encoded.
#[derive(Debug)]
pub(super) struct Templates {
    calls: [Vec<Vec<u8>>; Kind::ALL.len()],
    sequence_at: usize,
    opens: Vec<[u8; 16]>,
    /// Encoded handles of the data files, and of the directories of new names.
    files: Vec<Vec<u8>>,
    scratch: Vec<Vec<u8>>,
    /// After the owner: of an OPEN by handle, and of a creating OPEN up to the name.
    open_tail: Vec<u8>,
    create_middle: Vec<u8>,
    /// After the name: of a creating OPEN, and of a LOOKUP.
    create_tail: Vec<u8>,
    lookup_tail: Vec<u8>,
    write_tail: Vec<u8>,
    /// After the file handle of a CLOSE, up to the stateid.
    close_middle: Vec<u8>,
    rename_middle: Vec<u8>,
    list_tail: Vec<u8>,
}

impl Templates {
    pub(super) fn new(file_set: &FileSet, origin: &ClientContext<'_>) -> Self {
        let calls = Kind::ALL.map(|kind| match file_set.handles(kind) {
            None => vec![begin(origin, kind, None)],
            Some(all) => all.iter().map(|handle| begin(origin, kind, Some(handle))).collect(),
        });
        let handles = |all: &[Handle]| all.iter().map(|handle| handle.wire().to_bytes()).collect();
        let getattr = |attr_request| Argument::Getattr(GetattrArgs { attr_request }).to_bytes();
        let access = Argument::Access(AccessArgs { access: RIGHTS }).to_bytes();
        let mode = 0o644_u32.to_bytes();
        let how = CreateHow::Unchecked(Fattr { attrmask: Bitmap::of(&[attr::MODE]), attr_vals: &mode });
        let open = open(origin.client_id, ShareAccess::READ, OpenFlag::NoCreate, OpenClaim::Fh);
        let create = open_by_name(origin.client_id, ShareAccess::WRITE, OpenFlag::Create(how));
        let getfh = Argument::Getfh.to_bytes();
        let close = Argument::Close(CloseArgs { seqid: 0, open_stateid: Stateid::ANONYMOUS }).to_bytes();
        Self {
            calls,
            sequence_at: header(origin).len() + BEFORE_SEQUENCE,
            opens: origin.opens.iter().map(|open| stateid_bytes(*open)).collect(),
            files: handles(&file_set.files),
            scratch: handles(&file_set.scratch),
            open_tail: [&open[BEFORE_OWNER + OWNER_BYTES..], &access, &getattr(FILE_ATTRIBUTES)].concat(),
            create_middle: create[BEFORE_OWNER + OWNER_BYTES..].to_vec(),
            create_tail: [getfh.clone(), access, getattr(FILE_ATTRIBUTES)].concat(),
            lookup_tail: [getfh, getattr(FILE_ATTRIBUTES)].concat(),
            write_tail: getattr(CACHE_CONSISTENCY),
            close_middle: [&getattr(CACHE_CONSISTENCY), &close[..close.len() - 16]].concat(),
            rename_middle: Op::RENAME.to_bytes(),
            list_tail: [LISTING_MAX.to_bytes(), LISTING_MAX.to_bytes(), OF_A_NAME.to_bytes()].concat(),
        }
    }

    #[inline]
    pub(super) fn push(&self, call: &Call<'_>, place: &mut SlotState, out: &mut Calls) {
        let start = out.begin(&self.calls[call.kind as usize][call.object]);
        if call.kind != Kind::Null {
            out.patch(start + self.sequence_at, &place.stamp());
            self.push_arguments(call, place, out);
        }
        let tail = if call.kind == Kind::Write { &self.write_tail[..] } else { &[] };
        out.finish(start, call.slot, call.payload(), tail);
    }

    #[inline]
    fn push_arguments(&self, call: &Call<'_>, place: &mut SlotState, out: &mut Calls) {
        match call.kind {
            Kind::Null | Kind::Getattr | Kind::Access | Kind::Commit => {}
            Kind::Read => {
                out.push(&place.opened.map_or(self.opens[call.object], stateid_bytes));
                out.push(&call.position.offset.to_be_bytes());
                out.push(&call.transfer.to_be_bytes());
            }
            Kind::Write => {
                out.push(&self.opens[call.object]);
                out.push(&call.position.offset.to_be_bytes());
                out.push(&(stable_how(call.stability) as u32).to_be_bytes());
                out.push(&call.transfer.to_be_bytes());
            }
            Kind::Lookup => {
                push_name(out, &call.entry());
                out.push(&self.lookup_tail);
            }
            Kind::Open => {
                out.push(&place.owner.to_be_bytes());
                out.push(&self.open_tail);
                place.file.clear();
                place.file.extend_from_slice(&self.files[call.object]);
            }
            Kind::Create => {
                out.push(&place.owner.to_be_bytes());
                out.push(&self.create_middle);
                push_name(out, &call.name(0));
                out.push(&self.create_tail);
            }
            Kind::Close => {
                out.push(&place.file);
                out.push(&self.close_middle);
                out.push(&place.opened.map_or([0; 16], stateid_bytes));
            }
            Kind::Remove => push_name(out, &call.name(0)),
            Kind::Rename => {
                out.push(&self.scratch[call.other]);
                out.push(&self.rename_middle);
                push_name(out, &call.name(0));
                push_name(out, &call.name(1));
            }
            Kind::Readdirplus => {
                out.push(&call.cookie.to_be_bytes());
                out.push(call.cookieverf);
                out.push(&self.list_tail);
            }
        }
    }
}

fn header(origin: &ClientContext<'_>) -> Vec<u8> {
    origin.identity.record_header(PROGRAM, VERSION, Procedure::COMPOUND.0)
}

/// A call up to the first part that changes.
fn begin(origin: &ClientContext<'_>, kind: Kind, handle: Option<&Handle>) -> Vec<u8> {
    if kind == Kind::Null {
        return origin.identity.record_header(PROGRAM, VERSION, Procedure::NULL.0);
    }
    let (operations, arguments) = arguments(origin.client_id, kind);
    // SEQUENCE and PUTFH come first.
    let head = CompoundHead { tag: b"", minorversion: origin.minor, operations: operations + 2 };
    let slot = SessionSlot { session: [0; _], slot: 0, highest: 0, sequence: 0 };
    let object = handle.map_or_else(|| Op::PUTFH.to_bytes(), |handle| putfh(handle).to_bytes());
    [
        header(origin),
        head.to_bytes(),
        Argument::Sequence(slot.arguments(is_reply_cached(kind.into()))).to_bytes(),
        object,
        arguments,
    ]
    .concat()
}

/// The number of operations after PUTFH, and the start of the first one.
fn arguments(client_id: u64, kind: Kind) -> (u32, Vec<u8>) {
    let getattr = || Argument::Getattr(GetattrArgs { attr_request: FILE_ATTRIBUTES }).to_bytes();
    match kind {
        Kind::Null => (0, Vec::new()),
        Kind::Getattr => (1, getattr()),
        Kind::Access => (2, [Argument::Access(AccessArgs { access: RIGHTS }).to_bytes(), getattr()].concat()),
        Kind::Read => (1, Op::READ.to_bytes()),
        Kind::Write => (2, Op::WRITE.to_bytes()),
        Kind::Lookup => (3, Op::LOOKUP.to_bytes()),
        Kind::Open => {
            let open = open(client_id, ShareAccess::READ, OpenFlag::NoCreate, OpenClaim::Fh);
            (3, open[..BEFORE_OWNER].to_vec())
        }
        Kind::Create => {
            let open = open(client_id, ShareAccess::WRITE, OpenFlag::NoCreate, OpenClaim::Fh);
            (4, open[..BEFORE_OWNER].to_vec())
        }
        // The handle of the slot's open file comes first, and changes from call to call.
        Kind::Close => (2, Vec::new()),
        Kind::Remove => (1, Op::REMOVE.to_bytes()),
        Kind::Rename => (3, [Op::SAVEFH.to_bytes(), Op::PUTFH.to_bytes()].concat()),
        Kind::Readdirplus => (1, Op::READDIR.to_bytes()),
        Kind::Commit => (1, Argument::Commit(CommitArgs { offset: 0, count: 0 }).to_bytes()),
    }
}

/// A zero owner is the placeholder.
fn open(clientid: u64, access: ShareAccess, openhow: OpenFlag<'_>, claim: OpenClaim<'_>) -> Vec<u8> {
    session::open(StateOwner { clientid, owner: &[0; OWNER_BYTES] }, access, openhow, claim).to_bytes()
}

/// Ends before the name of the file.
fn open_by_name(clientid: u64, access: ShareAccess, openhow: OpenFlag<'_>) -> Vec<u8> {
    let mut open = open(clientid, access, openhow, OpenClaim::Null(b""));
    // The length of the empty name.
    open.truncate(open.len() - 4);
    open
}

#[inline]
fn stateid_bytes(stateid: Stateid) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&stateid.seqid.to_be_bytes());
    bytes[4..].copy_from_slice(&stateid.other);
    bytes
}
