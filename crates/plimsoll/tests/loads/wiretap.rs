//! A proxy that records the operations between clients and a server of NFSv4.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use vfs::sync::Mutex;

use nfs_wire::rpc::{CallHeader, RecordMark, ReplyHeader};
use nfs_wire::v4::{Argument, CompoundHead, CompoundReplyHead, Op, Status};
use xdr::{Decode, Reader};

/// The operations of the compounds that came by, the statuses of their replies, and the connections.
#[derive(Debug, Default)]
pub struct Seen {
    /// Whether the proxy has stopped forwarding.
    pub is_mute: bool,
    pub compounds: Vec<Vec<Op>>,
    pub statuses: Vec<Status>,
}

impl Seen {
    pub fn count(&self, op: Op) -> usize {
        self.compounds.iter().flatten().filter(|&&seen| seen == op).count()
    }
}

/// The address of a proxy that records the operations of a server.
pub fn wiretap(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::default());
    let shared = Arc::clone(&seen);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let (calls, replies) = (Arc::clone(&shared), Arc::clone(&shared));
            thread::spawn(move || relay(client, server, &calls, note_call));
            thread::spawn(move || relay(from_server, to_client, &replies, note_reply));
        }
    });
    (address, seen)
}

fn relay(mut from: TcpStream, mut to: TcpStream, seen: &Mutex<Seen>, note: fn(&[u8], &mut Seen)) {
    let mut mark = [0; 4];
    while from.read_exact(&mut mark).is_ok() {
        let mut record = vec![0; RecordMark::from_word(u32::from_be_bytes(mark)).length as usize];
        if from.read_exact(&mut record).is_err() {
            break;
        }
        let mut seen = seen.lock();
        note(&record, &mut seen);
        if seen.is_mute {
            continue;
        }
        drop(seen);
        if to.write_all(&mark).and(to.write_all(&record)).is_err() {
            break;
        }
    }
    _ = to.shutdown(Shutdown::Both);
}

fn note_call(record: &[u8], seen: &mut Seen) {
    let mut r = Reader::new(record);
    CallHeader::decode(&mut r).unwrap();
    let head = CompoundHead::decode(&mut r).unwrap();
    let operations = (0..head.operations).map(|_| Argument::decode(&mut r).unwrap().op()).collect();
    seen.compounds.push(operations);
}

fn note_reply(record: &[u8], seen: &mut Seen) {
    let mut r = Reader::new(record);
    ReplyHeader::decode(&mut r).unwrap();
    seen.statuses.push(CompoundReplyHead::decode(&mut r).unwrap().status);
}
