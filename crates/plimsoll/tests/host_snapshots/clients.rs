//! Clients of every protocol that read files and try to change them.

use identity::NtHash;
use nfs_wire::v3::PROGRAM;
use nfs_wire::v4::{
    Argument, CompoundHead, CompoundReplyHead, LookupArgs, OpReply, ReadArgs, RemoveArgs, Reply, Stateid,
    Status,
};
use smb_wire::create::{CreateContext, CreateContexts, CreateResponse};
use smb_wire::header::Command;
use smb_wire::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use smb_wire::snapshots::{GmtToken, SnapshotArray, TimewarpToken};
use smb_wire::{Decode as _, Encode as _, FileId, FileTime, NtStatus, Utf16};
use std::time::{SystemTime, UNIX_EPOCH};
use wire_client::smb::requests::{self, OpenMode};
use wire_client::smb::session::Session;
use wire_client::{Client, Connection, Handle, Identity};
use xdr::{Decode, Encode, Reader};

pub enum Way {
    Nfs(&'static str, Box<Client>),
    V40(Connection),
    Smb(Box<Smb>),
}

/// An open file: over NFSv4.0 its path.
pub enum Open {
    Handle(Handle),
    Path(String),
    Id(FileId),
}

impl Way {
    pub fn nfs(version: &'static str, port: u16) -> Self {
        let target = format!("nfs://127.0.0.1:{port}/data?version={version}").parse().unwrap();
        Self::Nfs(version, Box::new(Client::mount(&target, &Identity::new(0, 0)).unwrap()))
    }

    pub fn v40(port: u16) -> Self {
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        Self::V40(Connection::open(address, Identity::new(0, 0)).unwrap())
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Nfs(version, _) => version,
            Self::V40(_) => "4.0",
            Self::Smb(_) => "smb",
        }
    }

    pub fn open(&mut self, path: &str) -> Result<Open, String> {
        match self {
            Self::Nfs(_, client) => client.walk(path).map(Open::Handle).map_err(|e| format!("{e:?}")),
            Self::V40(_) => Ok(Open::Path(path.to_owned())),
            Self::Smb(smb) => smb.open(path, OpenMode::READING, None).map(Open::Id),
        }
    }

    pub fn read(&mut self, file: &Open) -> Result<String, String> {
        let data = match (self, file) {
            (Self::Nfs(_, client), Open::Handle(file)) => {
                client.read(file, 0, 100).map(|chunk| chunk.data.to_vec()).map_err(|e| format!("{e:?}"))
            }
            (Self::V40(connection), Open::Path(path)) => {
                let read = ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count: 100 };
                ask_v40(connection, path, Argument::Read(read))
            }
            (Self::Smb(smb), Open::Id(file)) => smb.read(*file),
            _ => unreachable!("an open of another client"),
        };
        data.map(|data| String::from_utf8(data).unwrap())
    }

    pub fn read_at(&mut self, path: &str) -> Result<String, String> {
        if let Self::Smb(smb) = self {
            return smb.read_at(path, None);
        }
        let file = self.open(path)?;
        self.read(&file)
    }

    pub fn remove(&mut self, dir: &str, file: &str) -> Result<(), String> {
        match self {
            Self::Nfs(_, client) => {
                let dir = client.walk(dir).map_err(|e| format!("{e:?}"))?;
                client.remove(&dir, file).map_err(|e| format!("{e:?}"))
            }
            Self::V40(connection) => {
                ask_v40(connection, dir, Argument::Remove(RemoveArgs { target: file.as_bytes() })).map(drop)
            }
            Self::Smb(smb) => smb
                .open(&format!("{dir}/{file}"), OpenMode::DELETE_ON_CLOSE, None)
                .map(|file| smb.close(file)),
        }
    }

    /// The names in a directory; `None` over NFSv4.0.
    pub fn list(&mut self, dir: &str) -> Option<Vec<String>> {
        let mut of_share;
        let (client, dir) = match self {
            Self::Nfs(_, client) => (&mut **client, dir.to_owned()),
            Self::V40(_) => return None,
            Self::Smb(smb) => {
                let target = format!("smb://alice@127.0.0.1:{}/data", smb.port).parse().unwrap();
                of_share = Client::mount(&target, &alice()).unwrap();
                (&mut of_share, over_smb(dir))
            }
        };
        let dir = client.walk(&dir).unwrap();
        Some(
            client
                .list(&dir)
                .unwrap()
                .into_iter()
                .map(|entry| String::from_utf8(entry.name).unwrap())
                .collect(),
        )
    }
}

/// Does an operation on the object at a path over NFSv4.0; returns the data of a READ.
fn ask_v40(connection: &mut Connection, path: &str, operation: Argument<'_>) -> Result<Vec<u8>, String> {
    let names = ["data"].into_iter().chain(path.split('/'));
    let lookups = names.map(|name| Argument::Lookup(LookupArgs { objname: name.as_bytes() }));
    let all: Vec<_> = [Argument::Putrootfh].into_iter().chain(lookups).chain([operation]).collect();
    let head = CompoundHead { tag: b"", minorversion: 0, operations: u32::try_from(all.len()).unwrap() };
    let body: Vec<u8> = all.iter().flat_map(Encode::to_bytes).collect();
    let args = Encoded([head.to_bytes(), body].concat());
    let reply = connection.call(PROGRAM, 4, 1, &args).unwrap().rest().to_vec();
    let r = &mut Reader::new(&reply);
    let head = CompoundReplyHead::decode(r).unwrap();
    let results: Vec<_> = (0..head.operations).map(|_| OpReply::decode(r).unwrap()).collect();
    match results.last() {
        _ if head.status != Status::OK => Err(format!("{:?}", head.status)),
        Some(OpReply::Read(Reply::Ok(read))) => Ok(read.data.to_vec()),
        _ => Ok(Vec::new()),
    }
}

struct Encoded(Vec<u8>);

impl Encode for Encoded {
    fn encode(&self, w: &mut xdr::Writer<'_>) {
        w.fixed(&self.0);
    }
}

/// alice at the share.
pub struct Smb {
    session: Session,
    port: u16,
}

fn alice() -> Identity {
    Identity { nt_hash: Some(NtHash::from_password("secret")), ..Identity::new(1000, 1000) }
}

fn over_smb(path: &str) -> String {
    path.replace(".snapshot", "~snapshot")
}

fn outcome(status: NtStatus) -> Result<(), String> {
    if status == NtStatus::SUCCESS { Ok(()) } else { Err(format!("{status:?}")) }
}

impl Smb {
    pub fn new(port: u16) -> Self {
        let target = format!("smb://alice@127.0.0.1:{port}/data").parse().unwrap();
        Self { session: Session::open(&target, 0, &alice()).unwrap(), port }
    }

    /// Opens a path, as the snapshot of a time has it.
    fn open(&mut self, path: &str, mode: OpenMode, time: Option<i64>) -> Result<FileId, String> {
        let path = requests::utf16(&over_smb(path).replace('/', "\\"));
        let mut request = mode.request(Utf16::new(&path).unwrap());
        let token = time.map(|time| TimewarpToken { timestamp: FileTime::from_unix(time, 0) }.to_bytes());
        if let Some(data) = &token {
            request.contexts = CreateContexts(vec![CreateContext { name: TimewarpToken::NAME, data }]);
        }
        let reply = self.session.call(Command::CREATE, 0, &request, None).unwrap();
        outcome(reply.header.status)?;
        Ok(reply.body::<CreateResponse<'_>>().unwrap().file_id)
    }

    fn read(&mut self, file: FileId) -> Result<Vec<u8>, String> {
        let reply = self.session.call(Command::READ, 100, &requests::read(file, 0, 100), None).unwrap();
        outcome(reply.header.status)?;
        Ok(reply.body::<smb_wire::file::ReadResponse<&[u8]>>().unwrap().data.to_vec())
    }

    fn close(&mut self, file: FileId) {
        self.session.call(Command::CLOSE, 0, &requests::close(file), None).unwrap();
    }

    pub fn read_at(&mut self, path: &str, time: Option<i64>) -> Result<String, String> {
        let file = self.open(path, OpenMode::READING, time)?;
        let data = self.read(file);
        self.close(file);
        data.map(|data| String::from_utf8(data).unwrap())
    }

    /// The times of the previous versions of a file, the newest first.
    pub fn versions(&mut self, path: &str) -> Vec<i64> {
        let file_id = self.open(path, OpenMode::READING, None).unwrap();
        let request = IoctlRequest {
            ctl_code: CtlCode::SRV_ENUMERATE_SNAPSHOTS,
            file_id,
            input: &[],
            max_input_response: 0,
            output: &[],
            max_output_response: 1 << 16,
            flags: IoctlFlags::IS_FSCTL,
        };
        let reply = self.session.call(Command::IOCTL, 1 << 16, &request, None).unwrap();
        outcome(reply.header.status).unwrap();
        let output = reply.body::<IoctlResponse<'_>>().unwrap().output.to_vec();
        self.close(file_id);
        let units: Vec<u16> = SnapshotArray::from_bytes(&output).unwrap().snapshots.units().collect();
        let text = String::from_utf16(&units).unwrap();
        let tokens = text.split_terminator('\0').filter(|token| !token.is_empty());
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
        let recent = now - 3600..now + 60;
        let second = |token: &str| recent.clone().find(|&seconds| GmtToken { seconds }.to_string() == token);
        tokens.map(|token| second(token).unwrap()).collect()
    }
}
