//! Calls and replies of NFSv4.1 and 4.2: a compound for each, with the operations of Linux' client.

use nfs_wire::rpc::RecordMark;
use nfs_wire::v3::{
    CreateArgs as CreateArgs3, CreateHow as CreateHow3, FileHandle, LookupArgs as LookupArgs3, MkdirArgs,
    ReadArgs as ReadArgs3, RemoveArgs as RemoveArgs3, Sattr,
};
use nfs_wire::v4::{
    self, AccessArgs, AccessOk, Argument, Bitmap, ClientId, CloseArgs, CommitArgs, CommitOk, CompoundHead,
    CreateArgs, CreateHow, CreateOk, CreateType, Fattr, GetattrArgs, GetfhOk, LookupArgs, Op, OpenClaim,
    OpenFlag, OpenOk, PROGRAM, Procedure, PutfhArgs, ReadArgs, ReadOk, RemoveArgs, RemoveOk, SetattrArgs,
    ShareAccess, StateOwner, Stateid, VERSION, WriteOk, attr,
};
use xdr::{Encode, Reader};

use super::call::{Answer, Call, OpenHead, OpenId};
use crate::client::session::{SessionSlot, open};
use crate::client::{Identity, stable_in_v3, stable_in_v4};
use crate::driver::calls::Calls;
use crate::driver::compound::{CONSISTENCY, OF_A_FILE, RIGHTS, Refusal, Results};
use crate::driver::fault::counted;

/// Owners that a process can be, a power of two.
const OWNERS: u64 = 4;

/// The operation for which a call is made.
pub(super) fn operation(call: &Call<'_>) -> Op {
    match call {
        Call::Getattr(_) => Op::GETATTR,
        Call::Setattr(_) => Op::SETATTR,
        Call::Lookup(_) => Op::LOOKUP,
        Call::Access(_) => Op::ACCESS,
        Call::Read(_) => Op::READ,
        Call::Write(_) => Op::WRITE,
        Call::Create(_) | Call::Open(_) => Op::OPEN,
        Call::Mkdir(_) => Op::CREATE,
        Call::Remove(_) | Call::Rmdir(_) => Op::REMOVE,
        Call::Commit(_) => Op::COMMIT,
        Call::Close(_) => Op::CLOSE,
    }
}

/// Whether the server is to keep the reply for a repetition.
fn is_kept(call: &Call<'_>) -> bool {
    match call {
        Call::Setattr(_)
        | Call::Create(_)
        | Call::Open(_)
        | Call::Close(_)
        | Call::Mkdir(_)
        | Call::Remove(_)
        | Call::Rmdir(_) => true,
        Call::Getattr(_)
        | Call::Lookup(_)
        | Call::Access(_)
        | Call::Read(_)
        | Call::Write(_)
        | Call::Commit(_) => false,
    }
}

/// Who calls: a client of the server, by its number there.
#[derive(Debug)]
pub(super) struct Origin {
    /// Record mark, header, credentials.
    header: Vec<u8>,
    minor: u32,
    id: ClientId,
    write_tail: Vec<u8>,
}

/// A process's slot in a session, and what it calls itself.
#[derive(Debug)]
pub(super) struct Place {
    slot: SessionSlot,
    /// The first of its owners.
    owner: u64,
}

impl Place {
    /// Of the process with this number.
    pub(super) fn new(slot: SessionSlot, process: u64) -> Self {
        Self { slot, owner: process * OWNERS }
    }
}

impl Origin {
    /// The client that the server knows as `id`.
    pub(super) fn new(identity: &Identity, minor: u32, id: ClientId) -> Self {
        let header = identity.header(PROGRAM, VERSION, Procedure::COMPOUND.0);
        let header = [[0; RecordMark::SIZE].to_vec(), header].concat();
        Self { header, minor, id, write_tail: getattr(CONSISTENCY).to_bytes() }
    }

    /// Puts a call into the outbox, with so many bytes of a payload; `under` is the stateid of the file that its
    /// operation has open.
    pub(super) fn push(
        &self,
        call: &Call<'_>,
        under: Stateid,
        place: &mut Place,
        (slot, payload): (usize, Option<(usize, u32)>),
        calls: &mut Calls,
    ) {
        let start = calls.begin(&self.header);
        let sequence = place.slot.arguments(is_kept(call));
        place.slot.advance();
        let owner = match call {
            Call::Open(OpenHead { owner, .. }) => place.owner + u64::from(*owner),
            _ => place.owner,
        };
        let owner = owner.to_be_bytes();
        let owner = StateOwner { clientid: self.id, owner: &owner };
        with_operations(call, under, owner, |object, operations| {
            // Besides those there are SEQUENCE and PUTFH, and WRITE, whose data lies before its GETATTR.
            let others = if matches!(call, Call::Write(_)) { 4 } else { 2 };
            let operations_count = u32::try_from(operations.len()).unwrap_or(0) + others;
            calls.encode(&CompoundHead { tag: b"", minorversion: self.minor, operations: operations_count });
            calls.encode(&Argument::Sequence(sequence));
            calls.encode(&Argument::Putfh(PutfhArgs { object: v4::FileHandle(object.0) }));
            operations.iter().for_each(|operation| calls.encode(operation));
        });
        let Call::Write(head) = call else { return calls.finish(start, slot, payload, &[]) };
        calls.encode(&Op::WRITE);
        calls.encode(&v4::WriteHead {
            stateid: under,
            offset: head.offset,
            stable: stable_in_v4(head.stable),
            data_length: head.count,
        });
        calls.finish(start, slot, payload, &self.write_tail);
    }
}

/// Gives the object of a call and the operations on it; not those of a WRITE.
fn with_operations(
    call: &Call<'_>,
    under: Stateid,
    owner: StateOwner<'_>,
    put: impl FnOnce(FileHandle<'_>, &[Argument<'_>]),
) {
    let access = Argument::Access(AccessArgs { access: RIGHTS });
    let getattr = getattr(OF_A_FILE);
    match *call {
        Call::Getattr(arguments) => put(arguments.object, &[getattr]),
        Call::Access(arguments) => put(arguments.object, &[access, getattr]),
        Call::Setattr(arguments) => with_attributes(&arguments.new_attributes, |obj_attributes| {
            let setattr = Argument::Setattr(SetattrArgs { stateid: under, obj_attributes });
            put(arguments.object, &[setattr, getattr]);
        }),
        Call::Lookup(LookupArgs3 { what }) => {
            let lookup = Argument::Lookup(LookupArgs { objname: what.name });
            put(what.dir, &[lookup, Argument::Getfh, getattr]);
        }
        Call::Read(ReadArgs3 { file, offset, count }) => {
            put(file, &[Argument::Read(ReadArgs { stateid: under, offset, count })]);
        }
        Call::Write(head) => put(head.file, &[]),
        Call::Commit(arguments) => {
            put(arguments.file, &[Argument::Commit(CommitArgs { offset: 0, count: 0 })]);
        }
        Call::Open(OpenHead { file, access: wanted, .. }) => {
            put(file, &[open(owner, wanted, OpenFlag::NoCreate, OpenClaim::Fh), access, getattr]);
        }
        Call::Create(CreateArgs3 { place, how }) => with_attributes(&made(&how), |attributes| {
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
            let close = Argument::Close(CloseArgs { seqid: 0, open_stateid: under });
            put(file, &[self::getattr(CONSISTENCY), close]);
        }
    }
}

fn getattr(attr_request: Bitmap) -> Argument<'static> {
    Argument::Getattr(GetattrArgs { attr_request })
}

/// With which attributes a name is made.
fn made(how: &CreateHow3) -> Sattr {
    match how {
        CreateHow3::Unchecked(attributes) | CreateHow3::Guarded(attributes) => *attributes,
        CreateHow3::Exclusive(_) => Sattr::default(),
    }
}

/// Gives size and mode as NFSv4 wants them, in the order of their numbers.
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

/// What the reply to a call brought.
pub(super) fn judge<'a>(
    call: &Call<'_>,
    place: &mut Place,
    results: Reader<'a>,
) -> Result<Answer<'a>, Refusal> {
    let refused = |status| counted(format!("{status:?}"), "refused".to_owned());
    let mut r = Results::new(results, &mut place.slot, &refused)?;
    r.passed(Op::PUTFH)?;
    let answer = match call {
        Call::Getattr(_) => r.attributes().map(|()| Answer::Done)?,
        Call::Access(_) => {
            r.succeeded::<AccessOk>(Op::ACCESS)?;
            r.attributes().map(|()| Answer::Done)?
        }
        Call::Setattr(_) => {
            r.succeeded::<Bitmap>(Op::SETATTR)?;
            r.attributes().map(|()| Answer::Done)?
        }
        Call::Lookup(_) => {
            r.passed(Op::LOOKUP)?;
            let found = found(&mut r)?;
            r.attributes().map(|()| Answer::Found(Some(found)))?
        }
        Call::Read(_) => {
            let ok = r.succeeded::<ReadOk<'_>>(Op::READ)?;
            // A reply is shorter than 4 GiB.
            let count = u32::try_from(ok.data.len()).unwrap_or(u32::MAX);
            Answer::Read { count, data: ok.data, eof: ok.eof }
        }
        Call::Write(_) => {
            let ok = r.succeeded::<WriteOk>(Op::WRITE)?;
            let (count, committed, verf) = (ok.count, stable_in_v3(ok.committed), ok.writeverf);
            r.attributes().map(|()| Answer::Written { count, committed, verf })?
        }
        Call::Commit(_) => Answer::Committed(r.succeeded::<CommitOk>(Op::COMMIT)?.writeverf),
        Call::Open(_) | Call::Create(_) => {
            let stateid = r.succeeded::<OpenOk<'_>>(Op::OPEN)?.stateid;
            let file = matches!(call, Call::Create(_)).then(|| found(&mut r)).transpose()?;
            r.succeeded::<AccessOk>(Op::ACCESS)?;
            r.attributes().map(|()| Answer::Opened(OpenId::V4(stateid), file))?
        }
        Call::Mkdir(_) => {
            r.succeeded::<CreateOk>(Op::CREATE)?;
            found(&mut r)?;
            r.attributes().map(|()| Answer::Done)?
        }
        Call::Remove(_) | Call::Rmdir(_) => r.succeeded::<RemoveOk>(Op::REMOVE).map(|_| Answer::Done)?,
        Call::Close(_) => {
            r.attributes()?;
            r.succeeded::<Stateid>(Op::CLOSE).map(|_| Answer::Done)?
        }
    };
    r.ended()?;
    Ok(answer)
}

/// What GETFH says.
fn found<'a>(r: &mut Results<'_, 'a>) -> Result<FileHandle<'a>, Refusal> {
    r.succeeded::<GetfhOk<'_>>(Op::GETFH).map(|ok| FileHandle(ok.object.0))
}

#[cfg(test)]
mod tests;
