use super::*;
use crate::programs::Programs;
use nfs_wire::rpc::{Accepted, CallHeader, OpaqueAuth, ReplyBody, ReplyHeader};
use stable::TestDir;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;
use vfs::sync::Mutex;

/// An rpcbind that accepts all entries, and replies in fragments of a few bytes.
struct Host {
    _dir: TestDir,
    socket: PathBuf,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Host {
    fn new(entries: Vec<Entry>) -> Self {
        let dir = TestDir::new();
        let socket = dir.path().join("rpcbind.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let entries = Arc::new(Mutex::new(entries));
        let kept = Arc::clone(&entries);
        thread::spawn(move || {
            listener.incoming().map_while(Result::ok).for_each(|stream| answer(stream, &kept));
        });
        Self { _dir: dir, socket, entries }
    }

    fn known(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    fn of(&self, address: &str) -> HostRpcbind {
        let nfs = Programs { nfs: true, mount: true, ..Programs::default() };
        HostRpcbind::new(&self.socket, &Registration::of(nfs, Transport::Tcp, address.parse().unwrap()))
    }
}

fn answer(mut stream: UnixStream, entries: &Mutex<Vec<Entry>>) {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut call = vec![0; RecordMark::from_word(u32::from_be_bytes(mark)).length as usize];
    stream.read_exact(&mut call).unwrap();
    let mut r = Reader::new(&call);
    let header = CallHeader::decode(&mut r).unwrap();
    assert_eq!((header.prog, header.vers), (RPCB_PROGRAM, RPCB_VERSION_4));
    let mut entries = entries.lock();
    let results = match RpcbProcedure(header.proc) {
        RpcbProcedure::DUMP => {
            let shown = |entry: &'_ Entry| -> Vec<u8> {
                let Entry { program, version, netid, address } = entry;
                Some(Rpcb { prog: *program, vers: *version, netid, addr: address, owner: b"superuser" })
                    .to_bytes()
            };
            [entries.iter().flat_map(shown).collect(), false.to_bytes()].concat()
        }
        RpcbProcedure::SET => {
            let entry = Entry::of(&Rpcb::decode(&mut r).unwrap());
            let is_free = !entries.iter().any(|other| other.conflicts_with(&entry));
            if is_free {
                entries.push(entry);
            }
            is_free.to_bytes()
        }
        RpcbProcedure::UNSET => {
            let entry = Entry::of(&Rpcb::decode(&mut r).unwrap());
            let before = entries.len();
            entries.retain(|other| !other.conflicts_with(&entry));
            (entries.len() < before).to_bytes()
        }
        other => panic!("{other:?}"),
    };
    let body = ReplyBody::Accepted(OpaqueAuth::default(), Accepted::Success);
    let reply = [ReplyHeader { xid: header.xid, body }.to_bytes(), results].concat();
    let mut parts = reply.chunks(40).peekable();
    while let Some(part) = parts.next() {
        let mark = RecordMark { last: parts.peek().is_none(), length: u32::try_from(part.len()).unwrap() };
        stream.write_all(&[&mark.to_word().to_be_bytes()[..], part].concat()).unwrap();
    }
}

fn entry(program: u32, version: u32, netid: &str, address: &str) -> Entry {
    Entry { program, version, netid: netid.into(), address: address.into() }
}

fn at(port: u16) -> String {
    let [high, low] = port.to_be_bytes();
    format!("0.0.0.0.{high}.{low}")
}

#[test]
fn programs_are_known_as_long_as_they_are_served() {
    let other = entry(100_024, 1, "tcp", "0.0.0.0.3.4");
    let host = Host::new(vec![other.clone()]);
    let rpcbind = host.of("[::]:2049");
    rpcbind.register().unwrap();
    let ours = |netid, address: &str| {
        [(100_003, 3), (100_005, 3), (100_005, 1)]
            .map(|(program, version)| entry(program, version, netid, address))
    };
    let both: Vec<Entry> = ours("tcp", "0.0.0.0.8.1").into_iter().chain(ours("tcp6", "::.8.1")).collect();
    let mut entries = host.known();
    assert!(both.iter().all(|entry| entries.contains(entry)), "{entries:?}");
    assert_eq!(entries.len(), 7);
    rpcbind.register().unwrap();
    assert_eq!(host.known().len(), 7, "again changes nothing");
    // rpcbind was restarted, and is empty.
    host.entries.lock().clear();
    rpcbind.register().unwrap();
    entries.retain(|entry| *entry != other);
    entries.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
    let mut again = host.known();
    again.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
    assert_eq!(again, entries);
    rpcbind.unregister().unwrap();
    assert_eq!(host.known(), []);
}

#[test]
fn another_server_that_answers_keeps_its_programs() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut call = [0; 4096];
        let length = stream.read(&mut call).unwrap();
        let header = CallHeader::decode(&mut Reader::new(&call[4..length])).unwrap();
        assert_eq!((header.prog, header.vers, header.proc), (100_005, 3, 0), "NULL");
        let body = ReplyBody::Accepted(OpaqueAuth::default(), Accepted::Success);
        let reply = ReplyHeader { xid: header.xid, body }.to_bytes();
        let mark = RecordMark { last: true, length: u32::try_from(reply.len()).unwrap() };
        stream.write_all(&[&mark.to_word().to_be_bytes()[..], &reply].concat()).unwrap();
    });
    let theirs = entry(100_005, 3, "tcp", &at(port));
    let host = Host::new(vec![theirs.clone()]);
    let error = host.of("0.0.0.0:2049").register().unwrap_err();
    assert!(
        matches!(error, RegisterError::InUse { program: 100_005, version: 3, at } if at.port() == port),
        "{error}"
    );
    assert!(host.known().contains(&theirs));
    // Entries of other servers stay after unregistering.
    host.of("0.0.0.0:2049").unregister().unwrap();
    assert_eq!(host.known(), [theirs]);
}

#[test]
fn entries_of_a_dead_server_are_replaced() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let left = [entry(100_003, 3, "tcp", &at(free)), entry(100_005, 1, "tcp", "no address")];
    let host = Host::new(left.to_vec());
    host.of("0.0.0.0:2049").register().unwrap();
    let entries = host.known();
    assert!(entries.len() == 3 && entries.iter().all(|entry| entry.address == b"0.0.0.0.8.1"), "{entries:?}");
}

#[test]
fn without_rpcbind_the_error_says_where_it_was_looked_for() {
    let nowhere = Path::new("/nowhere/rpcbind.sock");
    let error = HostRpcbind::new(nowhere, &[]).register().unwrap_err().to_string();
    assert!(
        error.starts_with("cannot reach the host's rpcbind at /nowhere/rpcbind.sock: No such file"),
        "{error}"
    );
}
