//! Locks over real sockets: one client by TCP, another by UDP, which is called when the lock comes.

use crate::support::client::{Client, PATIENCE, system_clock};
use crate::support::object::{name, new_inode};
use crate::support::{PROGRAMS, VOLUME, service, trusting, volume};
use nfs::nlm::locks::Locks;
use nfs::rpc::dispatch::Programs;
use nfs::rpc::server::{Server, Settings};
use nfs::rpc::udp::Responder;
use nfs::service::Service;
use nfs_wire::nlm::{
    Lock, LockArgs, Object, PROGRAM, Procedure, Reply, Status, TestArgs, UnlockArgs, VERSION_4,
};
use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, RecordMark, ReplyHeader};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use vfs::{Backend, Durability, Export, MemFs, Namespace, UncheckedNode};
use xdr::{Decode, Encode, Reader};

const TCP_CLIENT: [u8; 4] = [127, 0, 4, 1];
const UDP_CLIENT: [u8; 4] = [127, 0, 4, 2];

fn call(xid: u32, (prog, proc): (u32, u32), args: &impl Encode) -> Vec<u8> {
    let sys = AuthSys { uid: 1000, gid: 100, ..AuthSys::default() }.to_bytes();
    let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &sys };
    let verf = OpaqueAuth::default();
    let header = CallHeader { xid, rpcvers: RPC_VERSION, prog, vers: VERSION_4, proc, cred, verf };
    [header.to_bytes(), args.to_bytes()].concat()
}

fn lock_args(fh: &[u8], block: bool) -> LockArgs<'_, u64> {
    let (fh, oh) = (Object(fh), Object(b"1@client"));
    let alock = Lock { caller_name: b"client", fh, oh, svid: 1, l_offset: 0, l_len: 0 };
    LockArgs { cookie: Object(b"c"), block, exclusive: true, alock, reclaim: false, state: 1 }
}

fn status(results: &[u8]) -> Status {
    Reply::decode(&mut Reader::new(results)).unwrap().stat
}

fn ask_tcp(client: &mut Client, procedure: Procedure, args: &impl Encode) -> Status {
    let call = call(7, (PROGRAM, procedure.0), args);
    let mark = RecordMark { last: true, length: u32::try_from(call.len()).unwrap() };
    client.send_bytes(&[&mark.to_word().to_be_bytes()[..], &call].concat()).unwrap();
    status(&client.receive().results)
}

#[test]
fn a_client_waits_over_udp_for_the_lock_of_one_over_tcp() {
    // The second client's host: its port mapper and its lock manager are the same socket.
    let host = UdpSocket::bind((Ipv4Addr::from(UDP_CLIENT), 0)).unwrap();
    host.set_read_timeout(Some(PATIENCE)).unwrap();
    let own_port = host.local_addr().unwrap().port();

    let fs = MemFs::new(system_clock());
    let made = fs.root().create_unchecked(name("file"), &new_inode(0o644)).unwrap();
    let volume = volume(VOLUME, Arc::new(fs.clone()), Durability::Sync);
    let namespace = Namespace::new([Export::new("/vol", volume, vec![trusting()])]);
    let service = service(Arc::new(namespace));
    let service = Arc::new(Service { locks: Locks::new(None, own_port), ..service });
    let handle = service.signer.sign(VOLUME.into(), &made.found.node.key());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let settings = Settings::for_descriptors(2, 10_000);
    let server = Server::start(Arc::clone(&service), vec![(listener, PROGRAMS)], None, settings).unwrap();
    let socket = UdpSocket::bind(address).unwrap();
    let locks_only = Programs { locks: true, ..Programs::default() };
    let responder = Responder::start(service, socket, locks_only).unwrap();

    let mut first = Client::connect_as(TCP_CLIENT, address);
    let fh = handle.bytes();
    assert_eq!(ask_tcp(&mut first, Procedure::LOCK, &lock_args(fh, false)), Status::GRANTED);
    let mut datagram = [0; 2048];
    host.send_to(&call(8, (PROGRAM, Procedure::LOCK.0), &lock_args(fh, true)), address).unwrap();
    let (length, from) = host.recv_from(&mut datagram).unwrap();
    assert_eq!(from, address);
    let reply = datagram[..length].strip_prefix(&ReplyHeader::success(8)).unwrap();
    assert_eq!(status(reply), Status::BLOCKED);

    let unlock = UnlockArgs { cookie: Object(b"c"), alock: lock_args(fh, false).alock };
    assert_eq!(ask_tcp(&mut first, Procedure::UNLOCK, &unlock), Status::GRANTED);
    loop {
        let (length, from) = host.recv_from(&mut datagram).unwrap();
        assert_eq!(from.ip(), address.ip(), "calls come from where the client has called");
        let mut r = Reader::new(&datagram[..length]);
        let CallHeader { xid, prog, proc, .. } = CallHeader::decode(&mut r).unwrap();
        let results = if prog == PROGRAM {
            let told = TestArgs::<u64>::decode(&mut r).unwrap();
            assert_eq!((Procedure(proc), told.alock), (Procedure::GRANTED, lock_args(fh, true).alock));
            Reply { cookie: told.cookie, stat: Status::GRANTED }.to_bytes()
        } else {
            u32::from(own_port).to_bytes()
        };
        host.send_to(&[&ReplyHeader::success(xid)[..], &results].concat(), from).unwrap();
        if prog == PROGRAM {
            break;
        }
    }
    assert_eq!(ask_tcp(&mut first, Procedure::LOCK, &lock_args(fh, false)), Status::DENIED);
    drop(responder);
    server.stop(PATIENCE);
}
