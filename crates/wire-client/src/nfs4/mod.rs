//! The client over NFSv4.1 and 4.2 (RFC 8881, RFC 7862): one operation on one file in each compound.
//!
//! READs and WRITEs use the anonymous stateid (RFC 8881 §8.2.3).

pub mod call;
pub mod compound;
pub mod lease;
pub mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use nfs_wire::v3::{StableHow, WriteVerf};
use nfs_wire::v4::{
    self, Argument, Bitmap, CloseArgs, CommitArgs, CreateArgs, CreateHow, CreateType, Entry, Fattr, FileType,
    GetattrArgs, GetfhOk, LookupArgs, OpReply, OpenClaim, OpenFlag, ReadArgs, ReaddirArgs, RemoveArgs, Reply,
    ShareAccess, StateOwner, Stateid, WriteArgs, attr,
};
use xdr::{Decode, Encode, Reader};

use crate::error::Error;
use crate::object::{
    Attributes, Chunk, DirEntry, Handle, Listing, PAGE_BYTES, Space, TransferLimits, WriteResult,
    stable_in_v3, stable_in_v4,
};
use crate::rpc::Identity;
use crate::target::Target;
use session::{ClientState, OVERHEAD, open, putfh, unexpected};

const FILE_ATTRIBUTES: Bitmap = Bitmap::of(&[attr::TYPE, attr::SIZE, attr::FILEHANDLE, attr::SPACE_USED]);

#[derive(Debug)]
pub(crate) struct Nfs4 {
    state: ClientState,
    root: Handle,
}

impl Nfs4 {
    pub(crate) fn mount(target: &Target, identity: &Identity, minor: u32) -> Result<Self, Error> {
        let mut state = ClientState::new(target, 0, identity, minor, 0)?;
        let names = target.export.split('/').filter(|name| !name.is_empty());
        let mut operations = vec![Argument::Putrootfh];
        operations.extend(names.map(lookup));
        operations.push(Argument::Getfh);
        let root = handle(state.call(&target.export, &operations)?)?;
        Ok(Self { state, root })
    }

    pub(crate) fn root(&self) -> Handle {
        self.root.clone()
    }

    pub(crate) fn attributes(&mut self, object: &Handle) -> Result<Attributes, Error> {
        let getattr = Argument::Getattr(GetattrArgs { attr_request: FILE_ATTRIBUTES });
        match self.state.call(object, &[putfh(object), getattr])? {
            OpReply::Getattr(Reply::Ok(ok)) => Ok(Values::of(&ok.obj_attributes)?.attributes),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn lookup(&mut self, dir: &Handle, name: &str) -> Result<Handle, Error> {
        handle(self.state.call(&name, &[putfh(dir), lookup(name), Argument::Getfh])?)
    }

    pub(crate) fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Chunk<'_>, Error> {
        let arguments = ReadArgs { stateid: Stateid::ANONYMOUS, offset, count };
        match self.state.call(file, &[putfh(file), Argument::Read(arguments)])? {
            OpReply::Read(Reply::Ok(ok)) if ok.data.len() <= count as usize => {
                Ok(Chunk { data: ok.data, eof: ok.eof })
            }
            OpReply::Read(Reply::Ok(ok)) => {
                Err(Error::Protocol(format!("READ of {count} sends {} bytes", ok.data.len())))
            }
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn write(
        &mut self,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<WriteResult, Error> {
        let wanted = stable_in_v4(stable);
        let arguments = WriteArgs { stateid: Stateid::ANONYMOUS, offset, stable: wanted, data };
        let ok = match self.state.call(file, &[putfh(file), Argument::Write(arguments)])? {
            OpReply::Write(Reply::Ok(ok)) => ok,
            other => return Err(unexpected(&other)),
        };
        if ok.count == 0 || ok.count as usize > data.len() || ok.committed < wanted {
            return Err(Error::Protocol(format!(
                "{stable:?} WRITE of {} bytes: {:?} of {}",
                data.len(),
                ok.committed,
                ok.count
            )));
        }
        Ok(WriteResult { count: ok.count, committed: stable_in_v3(ok.committed), verf: ok.writeverf })
    }

    pub(crate) fn commit(&mut self, file: &Handle) -> Result<WriteVerf, Error> {
        let commit = Argument::Commit(CommitArgs { offset: 0, count: 0 });
        match self.state.call(file, &[putfh(file), commit])? {
            OpReply::Commit(Reply::Ok(ok)) => Ok(ok.writeverf),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn create(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        let attr_vals = mode.to_bytes();
        let attributes = Fattr { attrmask: Bitmap::of(&[attr::MODE]), attr_vals: &attr_vals };
        let owner = StateOwner { clientid: self.state.id, owner: b"plimsoll-bench" };
        let how = OpenFlag::Create(CreateHow::Unchecked(attributes));
        let open = open(owner, ShareAccess::WRITE, how, OpenClaim::Null(name.as_bytes()));
        let close = Argument::Close(CloseArgs { seqid: 0, open_stateid: Stateid::CURRENT });
        handle(self.state.call(&name, &[putfh(dir), open, close, Argument::Getfh])?)
    }

    pub(crate) fn mkdir(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        let attr_vals = mode.to_bytes();
        let create = Argument::Create(CreateArgs {
            objtype: CreateType::Directory,
            objname: name.as_bytes(),
            createattrs: Fattr { attrmask: Bitmap::of(&[attr::MODE]), attr_vals: &attr_vals },
        });
        handle(self.state.call(&name, &[putfh(dir), create, Argument::Getfh])?)
    }

    pub(crate) fn remove(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        let remove = Argument::Remove(RemoveArgs { target: name.as_bytes() });
        self.state.call(&name, &[putfh(dir), remove]).map(drop)
    }

    pub(crate) fn remove_dir(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        self.remove(dir, name)
    }

    pub(crate) fn list(&mut self, dir: &Handle) -> Result<Vec<DirEntry>, Error> {
        Listing::read(|listing| {
            let arguments = ReaddirArgs {
                cookie: listing.cookie,
                cookieverf: listing.cookieverf,
                dircount: PAGE_BYTES,
                maxcount: PAGE_BYTES,
                attr_request: FILE_ATTRIBUTES,
            };
            let ok = match self.state.call(dir, &[putfh(dir), Argument::Readdir(arguments)])? {
                OpReply::Readdir(Reply::Ok(ok)) => ok,
                other => return Err(unexpected(&other)),
            };
            for Entry { cookie, name, attrs } in ok.entries.iter() {
                listing.cookie = cookie;
                let Values { attributes, handle, .. } = Values::of(&attrs)?;
                listing.entries.push(DirEntry { name: name.to_vec(), attributes: Some(attributes), handle });
            }
            listing.cookieverf = ok.cookieverf;
            Ok(ok.eof)
        })
    }

    /// Bounded by the server and by the session's message sizes.
    pub(crate) fn limits(&mut self) -> Result<TransferLimits, Error> {
        let values = self.root_values(Bitmap::of(&[attr::MAXREAD, attr::MAXWRITE]))?;
        let most = |server: u64, message: u32| {
            u32::try_from(server).unwrap_or(u32::MAX).min(message.saturating_sub(OVERHEAD / 2))
        };
        Ok(TransferLimits {
            read_max: most(values.read_max, self.state.reply_max),
            write_max: most(values.write_max, self.state.request_max),
        })
    }

    pub(crate) fn space(&mut self) -> Result<Space, Error> {
        let of_space = Bitmap::of(&[attr::SPACE_AVAIL, attr::SPACE_FREE, attr::SPACE_TOTAL]);
        self.root_values(of_space).map(|values| values.space)
    }

    fn root_values(&mut self, attr_request: Bitmap) -> Result<Values, Error> {
        let operations = [putfh(&self.root), Argument::Getattr(GetattrArgs { attr_request })];
        match self.state.call(&self.root, &operations)? {
            OpReply::Getattr(Reply::Ok(ok)) => Values::of(&ok.obj_attributes),
            other => Err(unexpected(&other)),
        }
    }
}

fn lookup(name: &str) -> Argument<'_> {
    Argument::Lookup(LookupArgs { objname: name.as_bytes() })
}

fn handle(result: OpReply<'_>) -> Result<Handle, Error> {
    match result {
        OpReply::Getfh(Reply::Ok(GetfhOk { object })) => Ok(Handle(object.0.to_vec())),
        other => Err(unexpected(&other)),
    }
}

#[derive(Debug, Default)]
struct Values {
    attributes: Attributes,
    handle: Option<Handle>,
    read_max: u64,
    write_max: u64,
    space: Space,
}

impl Values {
    /// Decodes only the attributes that this client requests: the lengths of others are unknown.
    fn of(attributes: &Fattr<'_>) -> Result<Self, Error> {
        let (mut r, mut values) = (Reader::new(attributes.attr_vals), Self::default());
        for number in attributes.attrmask.iter() {
            match number {
                attr::TYPE => values.attributes.is_directory = r.u32()? == FileType::Directory as u32,
                attr::SIZE => values.attributes.size = r.u64()?,
                attr::FILEHANDLE => values.handle = Some(Handle(v4::FileHandle::decode(&mut r)?.0.to_vec())),
                attr::MAXREAD => values.read_max = r.u64()?,
                attr::MAXWRITE => values.write_max = r.u64()?,
                attr::SPACE_AVAIL => values.space.available = r.u64()?,
                attr::SPACE_FREE => values.space.free = r.u64()?,
                attr::SPACE_TOTAL => values.space.total = r.u64()?,
                attr::SPACE_USED => values.attributes.used = r.u64()?,
                other => {
                    let name = attr::name(other).unwrap_or("an unknown attribute");
                    return Err(Error::Protocol(format!("{name} was not asked for")));
                }
            }
        }
        Ok(values)
    }
}
