//! Calls over NFS.

use super::{Call, Outcome, Way, name, target, user};
use crate::rig::Service;
use nfs_wire::v3::{
    self, CreateArgs, DirOpArgs, LinkArgs, LookupReply, Procedure, RemoveArgs, RenameArgs, Sattr,
    SetattrArgs, StableHow, SymlinkArgs, SymlinkData,
};
use nfs_wire::v4::{
    self, AllocateArgs, Argument, Bitmap, CloneArgs, CloseArgs, CompoundHead, CopyArgs, CreateHow, Fattr,
    OpenArgs, OpenClaim, OpenFlag, RenameArgs as RenameArgs4, SetattrArgs as Setattr4, SetxattrArgs,
    SetxattrOption, ShareAccess, ShareDeny, StateOwner, Stateid, XattrValue, attr,
};
use wire_client::nfs4::session::ClientState;
use wire_client::{Client, Connection, Error, Handle, Version};
use xdr::{Decode, Encode, Reader};

const V4: u32 = 4;
const COMPOUND: u32 = 1;

fn way(version: &str, uid: u32) -> String {
    format!("{version} of {uid}")
}

fn data(len: u64, fill: u8) -> Vec<u8> {
    vec![fill; usize::try_from(len).unwrap()]
}

pub struct V3 {
    connection: Connection,
    root: Handle,
    uid: u32,
}

impl V3 {
    pub fn new(service: &Service, uid: u32) -> Self {
        let target = target(service, Version::V3, uid);
        let root = Client::mount(&target, &user(uid)).unwrap().root();
        Self { connection: Connection::open(target.address().unwrap(), user(uid)).unwrap(), root, uid }
    }

    fn reply(&mut self, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
        self.connection.call(v3::PROGRAM, v3::VERSION, procedure.0, args).unwrap().rest().to_vec()
    }

    fn ask(&mut self, procedure: Procedure, args: &impl Encode) -> Outcome {
        let reply = self.reply(procedure, args);
        match v3::Status::decode(&mut Reader::new(&reply)).unwrap() {
            v3::Status::OK => Ok(()),
            status => Err(format!("{status:?}")),
        }
    }

    fn found(&mut self, file: u64) -> Result<Handle, String> {
        let (root, name) = (self.root.clone(), name(file));
        let what = DirOpArgs { dir: root.wire(), name: name.as_bytes() };
        let reply = self.reply(Procedure::LOOKUP, &v3::LookupArgs { what });
        match LookupReply::decode(&mut Reader::new(&reply)).unwrap() {
            LookupReply::Ok(ok) => Ok(ok.object.into()),
            LookupReply::Err(status, _) => Err(format!("{status:?}")),
        }
    }

    fn set(&mut self, file: u64, new_attributes: Sattr) -> Outcome {
        let object = self.found(file)?;
        self.ask(Procedure::SETATTR, &SetattrArgs { object: object.wire(), new_attributes, guard: None })
    }
}

impl Way for V3 {
    fn name(&self) -> String {
        way("v3", self.uid)
    }

    fn run(&mut self, call: Call) -> Option<Outcome> {
        let (root, none) = (self.root.clone(), Sattr::default());
        let names = [0, 1].map(|place| match call {
            Call::Create { file, .. } | Call::Remove { file } | Call::Symlink { file } => name(file),
            Call::Link { from, file } | Call::Rename { from, file } => name([from, file][place]),
            _ => String::new(),
        });
        let [from, place] = [0, 1].map(|at| DirOpArgs { dir: root.wire(), name: names[at].as_bytes() });
        Some(match call {
            Call::Create { size, .. } => {
                let how = v3::CreateHow::Unchecked(Sattr { mode: Some(0o666), size: Some(size), ..none });
                self.ask(Procedure::CREATE, &CreateArgs { place, how })
            }
            Call::Write { file, offset, len, fill } => self.found(file).and_then(|file| {
                let (file, data, count) = (file.wire(), &data(len, fill)[..], u32::try_from(len).unwrap());
                let stable = StableHow::Unstable;
                self.ask(Procedure::WRITE, &v3::WriteArgs { file, offset, count, stable, data })
            }),
            Call::Resize { file, size } => self.set(file, Sattr { size: Some(size), ..none }),
            Call::ChangeOwner { file, uid } if self.uid == 0 => {
                self.set(file, Sattr { uid: Some(uid), ..none })
            }
            Call::ChangeGroup { file, gid } if self.uid == 0 => {
                self.set(file, Sattr { gid: Some(gid), ..none })
            }
            Call::Link { from, .. } => self
                .found(from)
                .and_then(|file| self.ask(Procedure::LINK, &LinkArgs { file: file.wire(), link: place })),
            Call::Rename { .. } => self.ask(Procedure::RENAME, &RenameArgs { from, to: place }),
            Call::Remove { .. } => self.ask(Procedure::REMOVE, &RemoveArgs { object: place }),
            Call::Symlink { .. } => {
                let symlink = SymlinkData { symlink_attributes: none, symlink_data: b"target" };
                self.ask(Procedure::SYMLINK, &SymlinkArgs { place, symlink })
            }
            _ => return None,
        })
    }
}

fn path(name: &str) -> [Argument<'_>; 3] {
    [Argument::Putrootfh, lookup(b"v1"), lookup(name.as_bytes())]
}

const ROOT: [Argument<'static>; 2] =
    [Argument::Putrootfh, Argument::Lookup(v4::LookupArgs { objname: b"v1" })];

/// Calls of any minor version of NFSv4 that need no open.
trait Compounds {
    fn ask(&mut self, operations: &[Argument<'_>]) -> Outcome;

    fn change(&mut self, file: u64, operation: Argument<'_>) -> Outcome {
        let name = name(file);
        self.ask(&[&path(&name)[..], &[operation]].concat())
    }

    fn set(&mut self, file: u64, number: u32, attr_vals: &[u8]) -> Outcome {
        let obj_attributes = Fattr { attrmask: Bitmap::of(&[number]), attr_vals };
        let stateid = Stateid::ANONYMOUS;
        self.change(file, Argument::Setattr(Setattr4 { stateid, obj_attributes }))
    }

    /// An operation from the saved filehandle to the current one.
    fn two(&mut self, from: u64, file: u64, operation: Argument<'_>) -> Outcome {
        let (from, file) = (name(from), name(file));
        self.ask(&[&path(&from)[..], &[Argument::Savefh], &path(&file), &[operation]].concat())
    }

    /// Changes of names and owners.
    fn change_name(&mut self, call: Call, is_root: bool) -> Option<Outcome> {
        Some(match call {
            Call::ChangeOwner { file, uid } if is_root => {
                self.set(file, attr::OWNER, &uid.to_string().as_bytes().to_bytes())
            }
            Call::ChangeGroup { file, gid } if is_root => {
                self.set(file, attr::OWNER_GROUP, &gid.to_string().as_bytes().to_bytes())
            }
            Call::Link { from, file } => {
                let (from, file) = (name(from), name(file));
                let link = Argument::Link(v4::LinkArgs { newname: file.as_bytes() });
                self.ask(&[&path(&from)[..], &[Argument::Savefh], &ROOT, &[link]].concat())
            }
            Call::Rename { from, file } => {
                let (from, file) = (name(from), name(file));
                let rename = RenameArgs4 { oldname: from.as_bytes(), newname: file.as_bytes() };
                self.ask(&[&ROOT[..], &[Argument::Savefh, Argument::Rename(rename)]].concat())
            }
            Call::Remove { file } => {
                let target = name(file);
                self.ask(
                    &[&ROOT[..], &[Argument::Remove(v4::RemoveArgs { target: target.as_bytes() })]].concat(),
                )
            }
            Call::Symlink { file } => {
                let (name, createattrs) = (name(file), Fattr::default());
                let objtype = v4::CreateType::Symlink(b"target");
                let create = v4::CreateArgs { objtype, objname: name.as_bytes(), createattrs };
                self.ask(&[&ROOT[..], &[Argument::Create(create)]].concat())
            }
            Call::Write { file, offset, len, fill } => {
                let (stateid, stable, data) = (Stateid::ANONYMOUS, v4::StableHow::Unstable, data(len, fill));
                self.change(file, Argument::Write(v4::WriteArgs { stateid, offset, stable, data: &data }))
            }
            Call::Resize { file, size } => self.set(file, attr::SIZE, &size.to_be_bytes()),
            _ => return None,
        })
    }

    /// Operations that only NFSv4.2 has.
    fn change_range(&mut self, call: Call) -> Option<Outcome> {
        let stateid = Stateid::ANONYMOUS;
        let (src_stateid, dst_stateid, src_offset) = (stateid, stateid, 0);
        Some(match call {
            Call::Allocate { file, offset, len: length } => {
                self.change(file, Argument::Allocate(AllocateArgs { stateid, offset, length }))
            }
            Call::Deallocate { file, offset, len: length } => {
                self.change(file, Argument::Deallocate(v4::DeallocateArgs { stateid, offset, length }))
            }
            Call::SetXattr { file, len } => {
                let value = data(len, 7);
                let (option, key, value) = (SetxattrOption::Either, &b"key"[..], XattrValue(&value));
                self.change(file, Argument::Setxattr(SetxattrArgs { option, key, value }))
            }
            Call::Copy { from, file, offset: dst_offset, len: count } => {
                let (consecutive, synchronous, source_server) = (true, true, vec![]);
                let copy = CopyArgs {
                    src_stateid,
                    dst_stateid,
                    src_offset,
                    dst_offset,
                    count,
                    consecutive,
                    synchronous,
                    source_server,
                };
                self.two(from, file, Argument::Copy(copy))
            }
            Call::Clone { from, file, offset: dst_offset, len: count } => {
                let clone = CloneArgs { src_stateid, dst_stateid, src_offset, dst_offset, count };
                self.two(from, file, Argument::Clone(clone))
            }
            _ => return None,
        })
    }
}

fn lookup(objname: &[u8]) -> Argument<'_> {
    Argument::Lookup(v4::LookupArgs { objname })
}

/// NFSv4.0, without opens.
pub struct V40 {
    connection: Connection,
    uid: u32,
}

impl V40 {
    pub fn new(service: &Service, uid: u32) -> Self {
        let address = target(service, Version::V42, uid).address().unwrap();
        Self { connection: Connection::open(address, user(uid)).unwrap(), uid }
    }
}

impl Compounds for V40 {
    fn ask(&mut self, operations: &[Argument<'_>]) -> Outcome {
        let count = u32::try_from(operations.len()).unwrap();
        let head = CompoundHead { tag: b"", minorversion: 0, operations: count };
        let all: Vec<u8> = operations.iter().flat_map(Encode::to_bytes).collect();
        let args = Encoded([head.to_bytes(), all].concat());
        let reply = self.connection.call(v3::PROGRAM, V4, COMPOUND, &args).unwrap().rest().to_vec();
        match v4::Status::decode(&mut Reader::new(&reply)).unwrap() {
            v4::Status::OK => Ok(()),
            status => Err(format!("{status:?}")),
        }
    }
}

struct Encoded(Vec<u8>);

impl Encode for Encoded {
    fn encode(&self, w: &mut xdr::Writer<'_>) {
        w.fixed(&self.0);
    }
}

impl Way for V40 {
    fn name(&self) -> String {
        way("v4.0", self.uid)
    }

    fn run(&mut self, call: Call) -> Option<Outcome> {
        self.change_name(call, self.uid == 0)
    }
}

/// NFSv4.1 and 4.2.
pub struct Nfs4 {
    state: ClientState,
    minor: u32,
    uid: u32,
}

impl Nfs4 {
    pub fn new(service: &Service, uid: u32, minor: u32) -> Self {
        let version = if minor == 1 { Version::V41 } else { Version::V42 };
        let state = ClientState::new(&target(service, version, uid), 0, &user(uid), minor, 0).unwrap();
        Self { state, minor, uid }
    }

    /// OPEN that makes the file or truncates it to a size.
    fn create(&mut self, file: u64, size: u64) -> Outcome {
        let name = name(file);
        let attr_vals = [size.to_be_bytes().to_vec(), 0o666_u32.to_be_bytes().to_vec()].concat();
        let attrs = Fattr { attrmask: Bitmap::of(&[attr::SIZE, attr::MODE]), attr_vals: &attr_vals };
        let open = OpenArgs {
            seqid: 0,
            share_access: ShareAccess::WRITE,
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: self.state.id, owner: b"caller" },
            openhow: OpenFlag::Create(CreateHow::Unchecked(attrs)),
            claim: OpenClaim::Null(name.as_bytes()),
        };
        let close = Argument::Close(CloseArgs { seqid: 0, open_stateid: Stateid::CURRENT });
        self.ask(&[Argument::Putrootfh, lookup(b"v1"), Argument::Open(open), close])
    }
}

impl Compounds for Nfs4 {
    fn ask(&mut self, operations: &[Argument<'_>]) -> Outcome {
        match self.state.call(&"a call", operations) {
            Ok(_) => Ok(()),
            Err(Error::Refused { status, .. }) => Err(status),
            Err(error) => panic!("{error}"),
        }
    }
}

impl Way for Nfs4 {
    fn name(&self) -> String {
        way(&format!("v4.{}", self.minor), self.uid)
    }

    fn run(&mut self, call: Call) -> Option<Outcome> {
        match call {
            Call::Create { file, size } => Some(self.create(file, size)),
            _ => match self.change_name(call, self.uid == 0) {
                None if self.minor == 2 => self.change_range(call),
                outcome => outcome,
            },
        }
    }
}
