//! Calls and replies of NFSv4.1 and 4.2: a compound for each, with the operations of Linux' client.

use nfs_wire::v3::{
    CreateArgs as CreateArgs3, CreateHow as CreateHow3, FileHandle, LookupArgs as LookupArgs3, MkdirArgs,
    ReadArgs as ReadArgs3, RemoveArgs as RemoveArgs3, Sattr,
};
use nfs_wire::v4::{
    self, AccessArgs, AccessOk, Argument, Bitmap, ClientId, CloseArgs, CommitArgs, CommitOk, CompoundHead,
    CreateArgs, CreateHow, CreateOk, CreateType, Fattr, GetattrArgs, GetfhOk, LookupArgs, Op, OpenClaim,
    OpenFlag, OpenOk, PROGRAM, Procedure, PutfhArgs, ReadArgs, ReadOk, ReadOkHead, ReaddirOk, RemoveArgs,
    RemoveOk, RenameOk, SetattrArgs, ShareAccess, StateOwner, Stateid, VERSION, WriteOk, attr,
};
use xdr::{Encode, Reader, Writer};

use super::compound::{CACHE_CONSISTENCY, FILE_ATTRIBUTES, RIGHTS, Results};
use super::session::{SessionSlot, open};
use crate::call::{self, Call, CallKind, CallResult, ListedPage, OpenHead, OpenId, ReadHead, Rejection};
use crate::error::Error;
use crate::object::{stable_in_v3, stable_in_v4};
use crate::rpc::Identity;

/// Open owners of a slot, a power of two.
const OWNERS: u64 = 4;

/// The operation that a compound is made for. NULL has none.
#[inline]
pub fn operation(kind: CallKind) -> Op {
    match kind {
        CallKind::Null => Op(0),
        CallKind::Getattr => Op::GETATTR,
        CallKind::Setattr => Op::SETATTR,
        CallKind::Lookup => Op::LOOKUP,
        CallKind::Access => Op::ACCESS,
        CallKind::Read => Op::READ,
        CallKind::Write => Op::WRITE,
        CallKind::Create | CallKind::Open => Op::OPEN,
        CallKind::Mkdir => Op::CREATE,
        CallKind::Remove | CallKind::Rmdir => Op::REMOVE,
        CallKind::Rename => Op::RENAME,
        CallKind::Readdirplus => Op::READDIR,
        CallKind::Commit => Op::COMMIT,
        CallKind::Close => Op::CLOSE,
    }
}

/// Whether the request asks the server to cache the reply (`sa_cachethis`, RFC 8881 §18.46.3).
pub fn is_reply_cached(kind: CallKind) -> bool {
    match kind {
        CallKind::Setattr
        | CallKind::Create
        | CallKind::Open
        | CallKind::Close
        | CallKind::Mkdir
        | CallKind::Remove
        | CallKind::Rmdir
        | CallKind::Rename => true,
        CallKind::Null
        | CallKind::Getattr
        | CallKind::Lookup
        | CallKind::Access
        | CallKind::Read
        | CallKind::Write
        | CallKind::Readdirplus
        | CallKind::Commit => false,
    }
}

#[derive(Debug)]
pub struct Encoder {
    header: Vec<u8>,
    minor: u32,
    client_id: ClientId,
    write_tail: Vec<u8>,
}

#[derive(Debug)]
pub struct OwnerSlot {
    pub slot: SessionSlot,
    first_owner: u64,
}

impl OwnerSlot {
    pub fn new(slot: SessionSlot, process: u64) -> Self {
        Self { slot, first_owner: process * OWNERS }
    }
}

impl Encoder {
    pub fn new(identity: &Identity, minor: u32, client_id: ClientId) -> Self {
        let header = identity.record_header(PROGRAM, VERSION, Procedure::COMPOUND.0);
        Self { header, minor, client_id, write_tail: getattr(CACHE_CONSISTENCY).to_bytes() }
    }

    /// Record mark, header and credentials, which start every call.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Follows the data of a WRITE; empty for other calls.
    pub fn tail(&self, kind: CallKind) -> &[u8] {
        if kind == CallKind::Write { &self.write_tail } else { &[] }
    }

    /// Encodes a call after its header, up to the data of a WRITE. `open` is the stateid of the operation's
    /// open file.
    pub fn encode(&self, call: &Call<'_>, open: Stateid, slot: &mut OwnerSlot, w: &mut Writer<'_>) {
        let sequence = slot.slot.arguments(is_reply_cached(call.kind()));
        slot.slot.advance();
        let owner = match call {
            Call::Open(OpenHead { owner, .. }) => slot.first_owner + u64::from(*owner),
            _ => slot.first_owner,
        };
        let owner = owner.to_be_bytes();
        let owner = StateOwner { clientid: self.client_id, owner: &owner };
        with_operations(call, open, owner, |object, operations| {
            // SEQUENCE and PUTFH, and for WRITE the operation itself and the GETATTR behind its data.
            let others = if matches!(call, Call::Write(_)) { 4 } else { 2 };
            let operations_count = u32::try_from(operations.len()).unwrap_or(0) + others;
            CompoundHead { tag: b"", minorversion: self.minor, operations: operations_count }.encode(w);
            Argument::Sequence(sequence).encode(w);
            Argument::Putfh(PutfhArgs { object: v4::FileHandle(object.0) }).encode(w);
            operations.iter().for_each(|operation| operation.encode(w));
        });
        if let Call::Write(head) = call {
            Op::WRITE.encode(w);
            let (offset, data_length) = (head.offset, head.count);
            let stable = stable_in_v4(head.stable);
            v4::WriteHead { stateid: open, offset, stable, data_length }.encode(w);
        }
    }
}

/// Passes the object of a call and the operations on it to `put`. A WRITE has none: its data lies between its
/// operations.
fn with_operations(
    call: &Call<'_>,
    open_stateid: Stateid,
    owner: StateOwner<'_>,
    put: impl FnOnce(FileHandle<'_>, &[Argument<'_>]),
) {
    let access = Argument::Access(AccessArgs { access: RIGHTS });
    let getattr = getattr(FILE_ATTRIBUTES);
    match *call {
        Call::Getattr(arguments) => put(arguments.object, &[getattr]),
        Call::Access(arguments) => put(arguments.object, &[access, getattr]),
        Call::Setattr(arguments) => with_attributes(&arguments.new_attributes, |obj_attributes| {
            let setattr = Argument::Setattr(SetattrArgs { stateid: open_stateid, obj_attributes });
            put(arguments.object, &[setattr, getattr]);
        }),
        Call::Lookup(LookupArgs3 { what }) => {
            let lookup = Argument::Lookup(LookupArgs { objname: what.name });
            put(what.dir, &[lookup, Argument::Getfh, getattr]);
        }
        Call::Read(ReadArgs3 { file, offset, count }) => {
            put(file, &[Argument::Read(ReadArgs { stateid: open_stateid, offset, count })]);
        }
        Call::Write(head) => put(head.file, &[]),
        Call::Commit(arguments) => {
            put(arguments.file, &[Argument::Commit(CommitArgs { offset: 0, count: 0 })]);
        }
        Call::Open(OpenHead { file, access: wanted, .. }) => {
            put(file, &[open(owner, wanted, OpenFlag::NoCreate, OpenClaim::Fh), access, getattr]);
        }
        Call::Create(CreateArgs3 { place, how }) => with_attributes(&create_attributes(&how), |attributes| {
            let how = OpenFlag::Create(CreateHow::Unchecked(attributes));
            let open = open(owner, ShareAccess::WRITE, how, OpenClaim::Null(place.name));
            put(place.dir, &[open, Argument::Getfh, access, getattr]);
        }),
        Call::Mkdir(MkdirArgs { place, attributes }) => with_attributes(&attributes, |createattrs| {
            let objtype = CreateType::Directory;
            let create = Argument::Create(CreateArgs { objtype, objname: place.name, createattrs });
            put(place.dir, &[create, Argument::Getfh, getattr]);
        }),
        Call::Remove(RemoveArgs3 { object }) | Call::Rmdir(RemoveArgs3 { object }) => {
            put(object.dir, &[Argument::Remove(RemoveArgs { target: object.name })]);
        }
        Call::Close(file) => {
            let close = Argument::Close(CloseArgs { seqid: 0, open_stateid });
            put(file, &[self::getattr(CACHE_CONSISTENCY), close]);
        }
    }
}

fn getattr(attr_request: Bitmap) -> Argument<'static> {
    Argument::Getattr(GetattrArgs { attr_request })
}

fn create_attributes(how: &CreateHow3) -> Sattr {
    match how {
        CreateHow3::Unchecked(attributes) | CreateHow3::Guarded(attributes) => *attributes,
        CreateHow3::Exclusive(_) => Sattr::default(),
    }
}

/// Passes size and mode to `give`, encoded in the order of their attribute numbers (RFC 8881 §5.1).
fn with_attributes(attributes: &Sattr, give: impl FnOnce(Fattr<'_>)) {
    let (mut attrmask, mut attr_vals) = (Bitmap::EMPTY, Vec::new());
    if let Some(size) = attributes.size {
        attrmask.insert(attr::SIZE);
        attr_vals.extend(size.to_be_bytes());
    }
    if let Some(mode) = attributes.mode {
        attrmask.insert(attr::MODE);
        attr_vals.extend(mode.to_be_bytes());
    }
    give(Fattr { attrmask, attr_vals: &attr_vals });
}

#[inline]
pub fn decode<'a>(
    kind: CallKind,
    slot: &mut SessionSlot,
    results: Reader<'a>,
) -> Result<CallResult<'a>, Rejection> {
    if kind == CallKind::Null {
        call::ended(&results)?;
        return Ok(CallResult::Done);
    }
    let mut r = Results::new(results, slot)?;
    r.status(Op::PUTFH)?;
    let result = match kind {
        CallKind::Null => CallResult::Done,
        CallKind::Getattr => r.attributes().map(|()| CallResult::Done)?,
        CallKind::Access => {
            r.result::<AccessOk>(Op::ACCESS)?;
            r.attributes().map(|()| CallResult::Done)?
        }
        CallKind::Setattr => {
            r.result::<Bitmap>(Op::SETATTR)?;
            r.attributes().map(|()| CallResult::Done)?
        }
        CallKind::Lookup => {
            r.status(Op::LOOKUP)?;
            let found = file_handle(&mut r)?;
            r.attributes().map(|()| CallResult::Found(Some(found)))?
        }
        CallKind::Read => {
            let ok = r.result::<ReadOk<'_>>(Op::READ)?;
            // A reply is shorter than 4 GiB.
            let count = u32::try_from(ok.data.len()).unwrap_or(u32::MAX);
            CallResult::Read { count, data: ok.data, eof: ok.eof }
        }
        CallKind::Write => {
            let ok = r.result::<WriteOk>(Op::WRITE)?;
            let (count, committed, verf) = (ok.count, stable_in_v3(ok.committed), ok.writeverf);
            r.attributes().map(|()| CallResult::Written { count, committed, verf })?
        }
        CallKind::Commit => CallResult::Committed(r.result::<CommitOk>(Op::COMMIT)?.writeverf),
        CallKind::Open | CallKind::Create => opened(kind, &mut r)?,
        CallKind::Mkdir => {
            r.result::<CreateOk>(Op::CREATE)?;
            file_handle(&mut r)?;
            r.attributes().map(|()| CallResult::Done)?
        }
        CallKind::Remove | CallKind::Rmdir => r.result::<RemoveOk>(Op::REMOVE).map(|_| CallResult::Done)?,
        CallKind::Rename => {
            r.status(Op::SAVEFH)?;
            r.status(Op::PUTFH)?;
            r.result::<RenameOk>(Op::RENAME).map(|_| CallResult::Done)?
        }
        CallKind::Readdirplus => CallResult::Listed(listed(&r.result::<ReaddirOk<'_>>(Op::READDIR)?)?),
        CallKind::Close => {
            r.attributes()?;
            r.result::<Stateid>(Op::CLOSE).map(|_| CallResult::Done)?
        }
    };
    r.ended()?;
    Ok(result)
}

/// Decodes the results of a READ up to its data. Returns the bytes that follow, of which a receiver may have
/// dropped some.
#[inline]
pub fn decode_read_head<'a>(
    slot: &mut SessionSlot,
    results: Reader<'a>,
) -> Result<(ReadHead, &'a [u8]), Rejection> {
    let mut r = Results::new(results, slot)?;
    r.status(Op::PUTFH)?;
    let ok = r.result::<ReadOkHead>(Op::READ)?;
    Ok((ReadHead { count: ok.data_length, length: ok.data_length, eof: ok.eof }, r.rest()))
}

/// CREATE opens by name and so returns a handle; OPEN has the handle already.
fn opened<'a>(kind: CallKind, r: &mut Results<'a>) -> Result<CallResult<'a>, Rejection> {
    let stateid = r.result::<OpenOk<'_>>(Op::OPEN)?.stateid;
    let file = (kind == CallKind::Create).then(|| file_handle(r)).transpose()?;
    r.result::<AccessOk>(Op::ACCESS)?;
    r.attributes().map(|()| CallResult::Opened(OpenId::Nfs4(stateid), file))
}

fn listed(ok: &ReaddirOk<'_>) -> Result<ListedPage, Error> {
    let (mut entries, mut cookie) = (0, None);
    for entry in ok.entries.iter() {
        cookie = Some(entry.cookie);
        entries += 1;
    }
    if cookie.is_none() && !ok.eof {
        return Err(Error::Protocol("READDIR without entries and not at the end".to_owned()));
    }
    Ok(ListedPage { entries, cookie: cookie.unwrap_or(0), cookieverf: ok.cookieverf, eof: ok.eof })
}

fn file_handle<'a>(r: &mut Results<'a>) -> Result<FileHandle<'a>, Rejection> {
    r.result::<GetfhOk<'_>>(Op::GETFH).map(|ok| FileHandle(ok.object.0))
}

#[cfg(test)]
mod tests;
