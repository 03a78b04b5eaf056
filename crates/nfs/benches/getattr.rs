//! CPU time of the server for a GETATTR over NFSv3 and NFSv4.1, of a file in memory, with 16 calls in flight on one
//! connection: `cargo bench -p nfs --bench getattr`.
//!
//! With a version, `3` or `4.1`, and a number of calls, only those calls are made. `valgrind --tool=callgrind
//! --separate-threads=yes` then counts the instructions of the event loop's thread. The instructions of a call are the
//! difference between two runs, divided by the difference of their calls. Build with `--features rustix/use-libc` for
//! this: rustix does not find the vDSO under valgrind otherwise.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

#[path = "../tests/support/mod.rs"]
mod support;

use nfs::server::Settings;
use nfs_wire::v3::{self, FileHandle, GetattrArgs};
use nfs_wire::v4::{
    self, Argument, Bitmap, ChannelAttrs, ClientOwner, CompoundHead, CompoundReplyHead, CreateSessionArgs,
    CreateSessionFlags, CreateSessionReply, ExchangeIdArgs, ExchangeIdFlags, ExchangeIdReply, OpReply,
    PutfhArgs, SequenceArgs, SessionId, StateProtect, attr,
};
use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;
use support::client::{Client, Running, mark, one_volume, system_clock};
use support::{Auth, VOLUME, head};
use vfs::Backend;
use vfs_testing::{MemFs, UncheckedNode};
use xdr::{Decode, Encode, Reader};

const DEPTH: u32 = 16;
const ROUNDS: usize = 15;
const CALLS: u32 = 100_000;
/// The credential of a Linux user, with some groups.
const AUTH: Auth = Auth::Sys(1000, 1000, &[4, 24, 27, 1000]);
/// The attributes that Linux asks for.
const ATTRIBUTES: Bitmap = Bitmap::of(&[
    attr::TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::FSID,
    attr::FILEID,
    attr::MODE,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::RAWDEV,
    attr::SPACE_USED,
    attr::TIME_ACCESS,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
    attr::MOUNTED_ON_FILEID,
]);

/// Calls that are sent together. Their numbers differ from those of earlier calls.
struct Load {
    client: Client,
    records: Vec<u8>,
    /// The offset of each call's slot sequence number, if it has one.
    sequences: Vec<usize>,
    sequence: u32,
    replies: Vec<u8>,
}

fn record(version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    let body = [&head(7, AUTH, version, procedure), args].concat();
    [&mark(true, body.len())[..], &body].concat()
}

fn compound(operations: &[Argument<'_>]) -> Vec<u8> {
    let count = u32::try_from(operations.len()).expect("a few");
    let head = CompoundHead { tag: b"", minorversion: 1, operations: count };
    let body = operations.iter().flat_map(Argument::to_bytes);
    record(v4::VERSION, 1, &[head.to_bytes(), body.collect()].concat())
}

/// Creates a session with a slot for each call in flight.
fn session(client: &mut Client) -> SessionId {
    let mut ask = |operation: Argument<'_>| {
        client.send_bytes(&compound(&[operation])).expect("a connection");
        client.receive().results
    };
    let introduction = ExchangeIdArgs {
        clientowner: ClientOwner { verifier: [1; 8], ownerid: b"bench" },
        flags: ExchangeIdFlags(0),
        state_protect: StateProtect::None,
        client_impl_id: None,
    };
    let reply = ask(Argument::ExchangeId(introduction));
    let OpReply::ExchangeId(ExchangeIdReply::Ok(known)) = only(&reply) else { panic!("refused") };
    let attrs = ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: 1 << 20,
        maxresponsesize: 1 << 20,
        maxresponsesize_cached: 4096,
        maxoperations: 8,
        maxrequests: DEPTH,
        rdma_ird: None,
    };
    let creation = CreateSessionArgs {
        clientid: known.clientid,
        sequence: known.sequenceid,
        flags: CreateSessionFlags(0),
        fore_chan_attrs: attrs,
        back_chan_attrs: attrs,
        cb_program: 0x4000_0000,
        sec_parms: vec![],
    };
    let reply = ask(Argument::CreateSession(creation));
    let OpReply::CreateSession(CreateSessionReply::Ok(session)) = only(&reply) else { panic!("refused") };
    session.sessionid
}

/// The only result of a compound.
fn only(reply: &[u8]) -> OpReply<'_> {
    let mut r = Reader::new(reply);
    assert_eq!(CompoundReplyHead::decode(&mut r).expect("results").operations, 1);
    OpReply::decode(&mut r).expect("a result")
}

impl Load {
    fn new(running: &Running, handle: &[u8], is_v4: bool) -> Self {
        let mut client = running.connect();
        let session = is_v4.then(|| session(&mut client));
        let (mut records, mut sequences) = (Vec::new(), Vec::new());
        for slotid in 0..DEPTH {
            let start = records.len();
            let object = FileHandle(handle);
            let Some(sessionid) = session else {
                let args = GetattrArgs { object };
                records.extend(record(v3::VERSION, v3::Procedure::GETATTR.0, &args.to_bytes()));
                continue;
            };
            let sequence = SequenceArgs {
                sessionid,
                sequenceid: 0,
                slotid,
                highest_slotid: DEPTH - 1,
                cachethis: false,
            };
            records.extend(compound(&[
                Argument::Sequence(sequence),
                Argument::Putfh(PutfhArgs { object: v4::FileHandle(handle) }),
                Argument::Getattr(v4::GetattrArgs { attr_request: ATTRIBUTES }),
            ]));
            let id = records[start..].windows(sessionid.len()).position(|window| *window == sessionid);
            sequences.push(start + id.expect("the session") + sessionid.len());
        }
        let mut load = Self { client, records, sequences, sequence: 0, replies: Vec::new() };
        load.warm_up();
        load
    }

    /// Makes the first calls: determines the length of replies, and checks that they succeed.
    fn warm_up(&mut self) {
        let calls = self.next_calls();
        self.client.send_bytes(&calls).expect("a connection");
        let mut length = 0;
        for _ in 0..DEPTH {
            let results = self.client.receive().results;
            assert_eq!(results.first_chunk(), Some(&[0; 4]), "the status");
            length += 4 + 24 + results.len();
        }
        self.replies = vec![0; length];
        println!("{} bytes a call, {} a reply", self.records.len() / 16, length / 16);
    }

    fn next_calls(&mut self) -> Vec<u8> {
        self.sequence += 1;
        for &at in &self.sequences {
            self.records[at..at + 4].copy_from_slice(&self.sequence.to_be_bytes());
        }
        self.records.clone()
    }

    /// Makes calls. Returns the server's CPU time for each, in nanoseconds.
    fn run(&mut self, calls: u32) -> f64 {
        let before = server_ns();
        for _ in 0..calls / DEPTH {
            let records = self.next_calls();
            self.client.stream.write_all(&records).expect("a connection");
            self.client.stream.read_exact(&mut self.replies).expect("replies");
        }
        (server_ns() - before) / f64::from(calls)
    }
}

/// CPU time of all other threads.
fn server_ns() -> f64 {
    let own = fs::canonicalize("/proc/thread-self").expect("procfs");
    let tasks = fs::read_dir("/proc/self/task").expect("procfs").flatten();
    let of = |task: fs::DirEntry| {
        let is_own = task.file_name() == own.file_name().unwrap_or_default();
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let spent = text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
        if is_own { 0.0 } else { spent }
    };
    tasks.map(of).sum()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let fs = MemFs::new(system_clock());
    let name = support::object::name("file");
    let inode = support::object::new_inode(0o644);
    let file = fs.root().create_unchecked(name, &inode).expect("a file").found.node;
    let running = Running::with(one_volume(Arc::new(fs.clone())), Settings::for_descriptors(1, 10_000));
    let handle = running.handle(VOLUME, &file.key());
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    if let (Some(version), Some(calls)) = (args.next(), args.next()) {
        let mut load = Load::new(&running, &handle, version != "3");
        load.run(calls.parse().expect("a number of calls"));
        return;
    }
    let mut loads = [false, true].map(|is_v4| Load::new(&running, &handle, is_v4));
    let mut rounds: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        let [v3, v4] = loads.each_mut().map(|load| load.run(CALLS));
        rounds.iter_mut().zip([v3, v4, v4 / v3]).for_each(|(all, one)| all.push(one));
    }
    let [v3, v4, ratio] = rounds.each_mut().map(|all| median(all));
    println!("{v3:.0} ns over NFSv3, {v4:.0} over NFSv4.1: {ratio:.2} × (medians of {ROUNDS} rounds)");
}
