//! An NFSv3 server in memory that misbehaves on demand.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nfs_wire::mount::{self, MountOk, MountReply};
use nfs_wire::rpc::{Accepted, AuthFlavor, CallHeader, OpaqueAuth, RecordMark, ReplyBody, ReplyHeader};
use nfs_wire::v3::{
    self, AccessArgs, AccessOk, CommitArgs, CommitOk, CreateArgs, CreateOk, EntryPlus, Fattr, FileHandle,
    FileType, FsinfoArgs, FsinfoOk, FsstatArgs, FsstatOk, GetattrArgs, GetattrOk, LookupArgs, LookupOk,
    MkdirArgs, NfsTime, Procedure, Properties, ReadArgs, ReadOk, ReaddirplusArgs, RemoveArgs, RemoveOk,
    RenameArgs, RenameOk, Reply, SetattrArgs, SetattrOk, SpecData, StableHow, Status, WccData, WriteArgs,
    WriteOk,
};
use xdr::{Decode, Encode, Reader, Writer};

/// A fault of a running load. It begins with the 200th READ or WRITE and repeats every 50th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Legal: replies in fragments of 1000 bytes.
    Fragments,
    Reorder,
    FlippedBit,
    /// Starts with the layout, and affects all clients.
    FlippedAlways,
    WrongBlock,
    LostWrite,
    WrongXid,
    TwiceAnswered,
    IoError,
    ShortRead,
    EarlyEof,
    LengthLie,
    GarbageArgs,
    Truncated,
    Closed,
    TooWeak,
    NewVerifier,
    /// One connection gets no answers for [`STALL`], once.
    Stall,
    /// REMOVE gets no answer until [`STALL`] after the first one.
    StallRemove,
    /// Every READ and WRITE takes [`SLOW`], one after another on a connection.
    Slow,
    /// READs and WRITEs are answered at [`RATE`] a second, over all connections.
    Paced,
    Dropped,
}

pub(crate) const STALL: Duration = Duration::from_millis(400);

/// After the beginning of the load, which has a warm-up of a second.
const STALL_AFTER: Duration = Duration::from_millis(1500);
pub(crate) const SLOW: Duration = Duration::from_millis(5);
pub(crate) const RATE: u32 = 2000;

#[derive(Clone, Debug)]
enum Node {
    File(Vec<u8>),
    Dir(BTreeMap<Vec<u8>, u64>),
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    /// READs of the client that creates the files.
    pub(crate) setup_reads: AtomicU64,
    pub(crate) places: Mutex<Vec<u64>>,
}

#[derive(Debug)]
struct Server {
    nodes: Mutex<BTreeMap<u64, Node>>,
    next: AtomicU64,
    transfers: AtomicU64,
    seen: Arc<Seen>,
    fault: Fault,
    /// When the next reply is due, for a rate or a stall.
    due: Mutex<Option<Instant>>,
}

pub(crate) fn start(fault: Fault) -> u16 {
    start_watched(fault).0
}

pub(crate) fn start_watched(fault: Fault) -> (u16, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let nodes = Mutex::new(BTreeMap::from([(1, Node::Dir(BTreeMap::new()))]));
    let seen = Arc::<Seen>::default();
    let server = Arc::new(Server {
        nodes,
        next: 2.into(),
        transfers: 0.into(),
        seen: Arc::clone(&seen),
        fault,
        due: Mutex::default(),
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                server.seen.connections.fetch_add(1, Ordering::Relaxed);
                server.serve(stream.unwrap());
                server.seen.connections.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    (port, seen)
}

impl Server {
    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut held: Option<Vec<u8>> = None;
        let mut mark = [0; 4];
        while stream.read_exact(&mut mark).is_ok() {
            let length = RecordMark::from_word(u32::from_be_bytes(mark)).length;
            let mut call = vec![0; length as usize];
            stream.read_exact(&mut call).unwrap();
            let mut r = Reader::new(&call);
            let header = CallHeader::decode(&mut r).unwrap();
            let load = header.cred.body.windows(16).any(|name| name == b"plimsoll-bench-0")
                && header.prog == v3::PROGRAM;
            let is_transfer = [Procedure::READ.0, Procedure::WRITE.0].contains(&header.proc);
            let is_setup_read = !load && header.prog == v3::PROGRAM && header.proc == Procedure::READ.0;
            self.seen.setup_reads.fetch_add(u64::from(is_setup_read), Ordering::Relaxed);
            if load && header.prog == v3::PROGRAM && header.proc == Procedure::READ.0 {
                let place = ReadArgs::decode(&mut r.clone()).unwrap().offset;
                self.seen.places.lock().unwrap().push(place);
            }
            let number = if load && is_transfer { self.transfers.fetch_add(1, Ordering::Relaxed) } else { 0 };
            let always = self.fault == Fault::FlippedAlways;
            let fault =
                if always || number >= 200 && number.is_multiple_of(50) { self.fault } else { Fault::None };
            let reply = self.reply(&header, &mut r, fault);
            match self.fault {
                Fault::Slow if load && is_transfer => thread::sleep(SLOW),
                Fault::Paced if load && is_transfer => self.pace(),
                Fault::StallRemove if load && header.proc == Procedure::REMOVE.0 => self.stall_since_first(),
                Fault::Stall if load && is_transfer && self.is_time_to_stall() => thread::sleep(STALL),
                _ => {}
            }
            let mut out = Vec::new();
            frame(&mut out, &reply, if self.fault == Fault::Fragments { 1000 } else { usize::MAX });
            match fault {
                Fault::Closed => return,
                Fault::Reorder if held.is_none() => {
                    // Unless it is the last call: then nothing comes that could overtake it.
                    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                    if stream.peek(&mut mark).is_ok() {
                        held = Some(out);
                        out = Vec::new();
                    }
                    stream.set_read_timeout(None).unwrap();
                }
                Fault::Dropped if number == 200 => continue,
                Fault::TwiceAnswered => out.extend_from_slice(&out.clone()),
                _ => {}
            }
            if !out.is_empty() {
                out.extend(held.take().unwrap_or_default());
            }
            if stream.write_all(&out).is_err() {
                return;
            }
        }
    }

    fn reply(&self, header: &CallHeader<'_>, r: &mut Reader<'_>, fault: Fault) -> Vec<u8> {
        let xid = if fault == Fault::WrongXid { header.xid ^ 0x4000_0000 } else { header.xid };
        let accepted = if fault == Fault::GarbageArgs { Accepted::GarbageArgs } else { Accepted::Success };
        let mut reply =
            ReplyHeader { xid, body: ReplyBody::Accepted(OpaqueAuth::default(), accepted) }.to_bytes();
        if accepted == Accepted::Success {
            let results = match header.prog {
                mount::PROGRAM => {
                    let ok = MountOk { fhandle: &1u64.to_be_bytes(), auth_flavors: vec![AuthFlavor::SYS] };
                    MountReply::Ok(ok).to_bytes()
                }
                _ => self.procedure(Procedure(header.proc), r, fault),
            };
            reply.extend(results);
        }
        if fault == Fault::Truncated {
            reply.truncate(reply.len() - 8);
        }
        reply
    }

    fn procedure(&self, procedure: Procedure, r: &mut Reader<'_>, fault: Fault) -> Vec<u8> {
        let mut nodes = self.nodes.lock().unwrap();
        match procedure {
            Procedure::NULL => Vec::new(),
            Procedure::GETATTR => {
                let id = id(GetattrArgs::decode(r).unwrap().object);
                Reply::<_, ()>::Ok(GetattrOk { obj_attributes: attributes(id, &nodes[&id]) }).to_bytes()
            }
            Procedure::LOOKUP => {
                let what = LookupArgs::decode(r).unwrap().what;
                let Node::Dir(names) = &nodes[&id(what.dir)] else { panic!("not a directory") };
                match names.get(what.name).map(|id| id.to_be_bytes()) {
                    Some(handle) => {
                        let object = FileHandle(&handle);
                        Reply::<_, ()>::Ok(LookupOk { object, obj_attributes: None, dir_attributes: None })
                            .to_bytes()
                    }
                    None => failure(Status::NOENT, 1),
                }
            }
            Procedure::ACCESS => {
                let access = AccessArgs::decode(r).unwrap().access;
                Reply::<_, ()>::Ok(AccessOk { obj_attributes: None, access }).to_bytes()
            }
            Procedure::SETATTR => {
                let arguments = SetattrArgs::decode(r).unwrap();
                if let (Some(size), Some(Node::File(data))) =
                    (arguments.new_attributes.size, nodes.get_mut(&id(arguments.object)))
                {
                    data.resize(usize::try_from(size).unwrap(), 0);
                }
                Reply::<_, ()>::Ok(SetattrOk { obj_wcc: WccData::default() }).to_bytes()
            }
            Procedure::CREATE => {
                self.make(&mut nodes, CreateArgs::decode(r).unwrap().place, Node::File(Vec::new()))
            }
            Procedure::MKDIR => {
                self.make(&mut nodes, MkdirArgs::decode(r).unwrap().place, Node::Dir(BTreeMap::new()))
            }
            Procedure::REMOVE | Procedure::RMDIR => remove(&mut nodes, RemoveArgs::decode(r).unwrap()),
            Procedure::RENAME => rename(&mut nodes, RenameArgs::decode(r).unwrap()),
            Procedure::READ => read(&nodes, ReadArgs::decode(r).unwrap(), fault),
            Procedure::WRITE => write(&mut nodes, WriteArgs::decode(r).unwrap(), fault),
            Procedure::COMMIT => {
                CommitArgs::decode(r).unwrap();
                Reply::<_, ()>::Ok(CommitOk { file_wcc: WccData::default(), verf: [7; 8] }).to_bytes()
            }
            Procedure::FSSTAT => {
                FsstatArgs::decode(r).unwrap();
                Reply::<_, ()>::Ok(room()).to_bytes()
            }
            Procedure::FSINFO => {
                FsinfoArgs::decode(r).unwrap();
                Reply::<_, ()>::Ok(info()).to_bytes()
            }
            Procedure::READDIRPLUS => list(&nodes, ReaddirplusArgs::decode(r).unwrap()),
            other => panic!("{other:?} is not for this server"),
        }
    }

    /// Returns true once, at the time of the stall.
    fn is_time_to_stall(&self) -> bool {
        let mut due = self.due.lock().unwrap();
        let is_time = due.is_some_and(|due| Instant::now() >= due);
        *due = Some(match *due {
            None => Instant::now() + STALL_AFTER,
            Some(_) if is_time => Instant::now() + Duration::from_secs(3600),
            Some(due) => due,
        });
        is_time
    }

    fn stall_since_first(&self) {
        let due = *self.due.lock().unwrap().get_or_insert_with(|| Instant::now() + STALL);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }

    /// Waits for this call's turn. Unused turns expire, but later than a busy machine stands still.
    fn pace(&self) {
        let turn = {
            let mut due = self.due.lock().unwrap();
            let turn = due.unwrap_or_else(Instant::now).max(Instant::now() - Duration::from_secs(5));
            *due = Some(turn + Duration::from_secs(1) / RATE);
            turn
        };
        thread::sleep(turn.saturating_duration_since(Instant::now()));
    }

    fn make(&self, nodes: &mut BTreeMap<u64, Node>, place: v3::DirOpArgs<'_>, node: Node) -> Vec<u8> {
        let new = self.next.fetch_add(1, Ordering::Relaxed);
        let made = *names(nodes, place.dir).entry(place.name.to_vec()).or_insert(new);
        nodes.entry(made).or_insert(node);
        let handle = made.to_be_bytes();
        let (obj, dir_wcc) = (Some(FileHandle(&handle)), WccData::default());
        Reply::<_, ()>::Ok(CreateOk { obj, obj_attributes: None, dir_wcc }).to_bytes()
    }
}

fn remove(nodes: &mut BTreeMap<u64, Node>, RemoveArgs { object }: RemoveArgs<'_>) -> Vec<u8> {
    match names(nodes, object.dir).remove(object.name) {
        Some(_) => Reply::<_, ()>::Ok(RemoveOk { dir_wcc: WccData::default() }).to_bytes(),
        None => failure(Status::NOENT, 2),
    }
}

fn rename(nodes: &mut BTreeMap<u64, Node>, RenameArgs { from, to }: RenameArgs<'_>) -> Vec<u8> {
    let Some(moved) = names(nodes, from.dir).remove(from.name) else { return failure(Status::NOENT, 4) };
    names(nodes, to.dir).insert(to.name.to_vec(), moved);
    let (fromdir_wcc, todir_wcc) = (WccData::default(), WccData::default());
    Reply::<_, ()>::Ok(RenameOk { fromdir_wcc, todir_wcc }).to_bytes()
}

fn names<'n>(nodes: &'n mut BTreeMap<u64, Node>, dir: FileHandle<'_>) -> &'n mut BTreeMap<Vec<u8>, u64> {
    match nodes.get_mut(&id(dir)) {
        Some(Node::Dir(names)) => names,
        _ => panic!("not a directory"),
    }
}

fn read(nodes: &BTreeMap<u64, Node>, arguments: ReadArgs<'_>, fault: Fault) -> Vec<u8> {
    let Node::File(data) = &nodes[&id(arguments.file)] else { panic!("not a file") };
    let mut start = usize::try_from(arguments.offset).unwrap().min(data.len());
    let mut count = arguments.count as usize;
    match fault {
        Fault::IoError => return failure(Status::IO, 1),
        Fault::WrongBlock => start = if start == 0 { count } else { 0 },
        Fault::ShortRead => count /= 2,
        _ => {}
    }
    let end = (start + count).min(data.len());
    let mut bytes = data[start..end].to_vec();
    if matches!(fault, Fault::FlippedBit | Fault::FlippedAlways) {
        // In the body of a unit, not in its head.
        let middle = bytes.len() / 2 + 100;
        bytes[middle] ^= 1;
    }
    let lie = u32::from(fault == Fault::LengthLie);
    let count = u32::try_from(bytes.len()).unwrap() - lie;
    let eof = end == data.len() || fault == Fault::EarlyEof;
    Reply::<_, ()>::Ok(ReadOk { file_attributes: None, count, eof, data: &bytes }).to_bytes()
}

fn write(nodes: &mut BTreeMap<u64, Node>, arguments: WriteArgs<'_>, fault: Fault) -> Vec<u8> {
    let Some(Node::File(data)) = nodes.get_mut(&id(arguments.file)) else { panic!("not a file") };
    let start = usize::try_from(arguments.offset).unwrap();
    if fault == Fault::IoError {
        return failure(Status::IO, 2);
    }
    if fault != Fault::LostWrite {
        data.resize(data.len().max(start + arguments.data.len()), 0);
        data[start..][..arguments.data.len()].copy_from_slice(arguments.data);
    }
    let committed = if fault == Fault::TooWeak { StableHow::Unstable } else { arguments.stable };
    let verf = if fault == Fault::NewVerifier { [8; 8] } else { [7; 8] };
    Reply::<_, ()>::Ok(WriteOk { file_wcc: WccData::default(), count: arguments.count, committed, verf })
        .to_bytes()
}

fn list(nodes: &BTreeMap<u64, Node>, arguments: ReaddirplusArgs<'_>) -> Vec<u8> {
    let Node::Dir(names) = &nodes[&id(arguments.dir)] else { panic!("not a directory") };
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    Status::OK.encode(&mut w);
    v3::ReaddirOkHead { dir_attributes: None, cookieverf: [1; 8] }.encode(&mut w);
    let mut eof = true;
    for ((name, id), cookie) in names.iter().zip(1..).skip(usize::try_from(arguments.cookie).unwrap()) {
        if w.len() + 400 > arguments.maxcount as usize {
            eof = false;
            break;
        }
        let handle = id.to_be_bytes();
        let name_handle = Some(FileHandle(&handle));
        Some(EntryPlus { fileid: *id, name, cookie, name_attributes: None, name_handle }).encode(&mut w);
    }
    v3::DirListEnd { eof }.encode(&mut w);
    out
}

fn info() -> FsinfoOk {
    FsinfoOk {
        obj_attributes: None,
        rtmax: 1 << 20,
        rtpref: 1 << 20,
        rtmult: 1,
        wtmax: 1 << 20,
        wtpref: 1 << 20,
        wtmult: 1,
        dtpref: 4096,
        maxfilesize: u64::MAX,
        time_delta: NfsTime::default(),
        properties: Properties::HOMOGENEOUS,
    }
}

fn room() -> FsstatOk {
    FsstatOk {
        obj_attributes: None,
        tbytes: 1 << 30,
        fbytes: 1 << 30,
        abytes: 1 << 30,
        tfiles: 1000,
        ffiles: 1000,
        afiles: 1000,
        invarsec: 0,
    }
}

fn attributes(id: u64, node: &Node) -> Fattr {
    let (ftype, size) = match node {
        Node::File(data) => (FileType::Regular, data.len() as u64),
        Node::Dir(_) => (FileType::Directory, 4096),
    };
    let (rdev, time) = (SpecData::default(), NfsTime::default());
    let (atime, mtime, ctime) = (time, time, time);
    Fattr {
        ftype,
        mode: 0o755,
        nlink: 1,
        uid: 0,
        gid: 0,
        size,
        used: size,
        rdev,
        fsid: 1,
        fileid: id,
        atime,
        mtime,
        ctime,
    }
}

fn failure(status: Status, absent: usize) -> Vec<u8> {
    let mut out = status.to_bytes();
    out.extend(std::iter::repeat_n(0, 4 * absent));
    out
}

fn id(handle: FileHandle<'_>) -> u64 {
    u64::from_be_bytes(handle.0.try_into().unwrap())
}

fn frame(out: &mut Vec<u8>, record: &[u8], longest: usize) {
    let mut pieces = record.chunks(longest).peekable();
    while let Some(piece) = pieces.next() {
        let mark = RecordMark { last: pieces.peek().is_none(), length: u32::try_from(piece.len()).unwrap() };
        out.extend_from_slice(&mark.to_word().to_be_bytes());
        out.extend_from_slice(piece);
    }
}
