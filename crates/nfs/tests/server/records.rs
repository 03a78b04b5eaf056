//! Calls and replies, with the bytes cut at any point.

use crate::support::client::{Client, Running, mark, record, system_clock};
use crate::support::gate::Gate;
use crate::support::object::{name, new_inode};
use crate::support::{Auth, BOB, call, decode};
use nfs_wire::v3::{
    FileHandle, GetattrArgs, GetattrReply, LookupArgs, LookupReply, Procedure, ReadArgs, ReadReply, Reply,
    StableHow, WriteArgs, WriteReply,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vfs::Backend;
use vfs::backend::KEEP_SET_ID;
use vfs_testing::{MemFs, UncheckedNode};

/// A server with a file of known content.
struct Fixture {
    running: Running,
    root: Vec<u8>,
    file: Vec<u8>,
    data: Vec<u8>,
}

fn fixture() -> Fixture {
    let fs = MemFs::new(system_clock());
    let made = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap();
    let data: Vec<u8> = (0..=250).cycle().take(1 << 20).collect();
    made.found.node.write(0, &data, KEEP_SET_ID).unwrap();
    let running = Running::new(Arc::new(fs.clone()));
    let [root, file] =
        [fs.root().key(), made.found.node.key()].map(|key| running.handle(crate::support::VOLUME, &key));
    Fixture { running, root, file, data }
}

impl Fixture {
    fn read(&self, offset: u64, count: u32) -> ReadArgs<'_> {
        ReadArgs { file: FileHandle(&self.file), offset, count }
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8]) -> WriteArgs<'a> {
        let count = u32::try_from(data.len()).unwrap();
        WriteArgs { file: FileHandle(&self.file), offset, count, stable: StableHow::Unstable, data }
    }

    fn assert_read(&self, results: &[u8], offset: usize, count: usize) {
        let Reply::Ok(ok) = decode::<ReadReply<'_>>(results) else { panic!("READ failed") };
        assert!(ok.data == &self.data[offset..offset + count], "other bytes at {offset}");
    }
}

/// A mix of calls, some answered immediately and some by other threads, and the expected lengths of their replies.
fn mixed_calls(f: &Fixture, count: u32) -> (Vec<u8>, BTreeMap<u32, u32>) {
    let mut bytes = Vec::new();
    let mut kinds = BTreeMap::new();
    for xid in 0..count {
        let place = u64::from(xid) * 977;
        let one = match xid % 5 {
            0 => record(xid, BOB, Procedure::GETATTR, &GetattrArgs { object: FileHandle(&f.file) }),
            1 => record(xid, BOB, Procedure::READ, &f.read(place, 500)),
            2 => {
                let data = &f.data[usize::try_from(place).unwrap()..][..300];
                record(xid, BOB, Procedure::WRITE, &f.write(place, data))
            }
            3 => {
                let what = nfs_wire::v3::DirOpArgs { dir: FileHandle(&f.root), name: b"file" };
                record(xid, Auth::None, Procedure::LOOKUP, &LookupArgs { what })
            }
            _ => record(xid, BOB, Procedure::NULL, &()),
        };
        bytes.extend(one);
        kinds.insert(xid, xid % 5);
    }
    (bytes, kinds)
}

fn receive_all(f: &Fixture, client: &mut Client, mut kinds: BTreeMap<u32, u32>) {
    while !kinds.is_empty() {
        let answer = client.receive();
        let kind = kinds.remove(&answer.xid).expect("one reply to each call");
        let results = &answer.results[..];
        match kind {
            0 => assert!(matches!(decode::<GetattrReply>(results), Reply::Ok(_))),
            1 => f.assert_read(results, usize::try_from(answer.xid).unwrap() * 977, 500),
            2 => assert!(matches!(decode::<WriteReply>(results), Reply::Ok(ok) if ok.count == 300)),
            3 => match decode::<LookupReply<'_>>(results) {
                Reply::Ok(ok) => assert_eq!(ok.object.0, f.file),
                Reply::Err(status, _) => panic!("{status:?}"),
            },
            _ => assert_eq!(results, []),
        }
    }
}

#[test]
fn pipelined_calls_are_each_answered_once() {
    let f = fixture();
    let mut client = f.running.connect();
    let (bytes, kinds) = mixed_calls(&f, 1000);
    let mut writer = client.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &bytes).unwrap());
    receive_all(&f, &mut client, kinds);
    sending.join().unwrap();
    assert!(client.hears_nothing(Duration::from_millis(50)));
}

#[test]
fn calls_byte_by_byte_are_answered() {
    let f = fixture();
    let mut client = f.running.connect();
    let (bytes, kinds) = mixed_calls(&f, 10);
    for byte in bytes.chunks(1) {
        client.send_bytes(byte).unwrap();
    }
    receive_all(&f, &mut client, kinds);
}

#[test]
fn calls_in_pieces_of_any_size_are_answered() {
    let f = fixture();
    for size in [3, 5, 63, 64, 65, 1021, 4099] {
        let mut client = f.running.connect();
        let (bytes, kinds) = mixed_calls(&f, 50);
        for piece in bytes.chunks(size) {
            client.send_bytes(piece).unwrap();
            if size > 1000 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        receive_all(&f, &mut client, kinds);
    }
}

/// The record, cut into fragments at these offsets.
fn fragments(body: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ends = cuts.iter().copied().chain([body.len()]);
    let mut start = 0;
    for (place, end) in ends.enumerate() {
        bytes.extend(mark(place == cuts.len(), end - start));
        bytes.extend(&body[start..end]);
        start = end;
    }
    bytes
}

#[test]
fn a_record_cut_at_any_byte_is_answered() {
    let f = fixture();
    let mut client = f.running.connect();
    let body = call(9, BOB, Procedure::READ, &f.read(3, 100));
    let mut all = Vec::new();
    let mut expected = 0;
    for cut in 0..=body.len() {
        all.push(fragments(&body, &[cut]));
        all.push(fragments(&body, &[cut / 2, cut, cut, (cut + body.len()) / 2]));
        expected += 2;
    }
    all.push(fragments(&body, &(0..body.len()).collect::<Vec<_>>()));
    expected += 1;
    // All together, and each in pieces.
    client.send_bytes(&all.concat()).unwrap();
    for _ in 0..expected {
        let answer = client.receive();
        assert_eq!(answer.xid, 9);
        f.assert_read(&answer.results, 3, 100);
    }
    for bytes in all.iter().step_by(7) {
        for piece in bytes.chunks(11) {
            client.send_bytes(piece).unwrap();
        }
        f.assert_read(&client.receive().results, 3, 100);
    }
}

#[test]
fn a_large_record_cut_at_any_byte_is_answered() {
    let f = fixture();
    let mut client = f.running.connect();
    let body = call(5, BOB, Procedure::WRITE, &f.write(0, &f.data));
    let whole = body.len();
    for cuts in [
        &[][..],
        &[4],
        &[whole / 2],
        &[300 << 10],
        &[300 << 10, 600 << 10],
        &[100 << 10, 400 << 10],
        &[100, 500 << 10, 500 << 10, 600 << 10],
        &[whole - 1],
        &[whole],
    ] {
        let what = FileHandle(&f.file);
        let before = record(1, BOB, Procedure::GETATTR, &GetattrArgs { object: what });
        let after = record(2, BOB, Procedure::READ, &f.read(7, 70));
        let bytes = [before, fragments(&body, cuts), after].concat();
        let mut writer = client.stream.try_clone().unwrap();
        let sending = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &bytes).unwrap());
        let mut seen: Vec<u32> = (0..3)
            .map(|_| {
                let answer = client.receive();
                if answer.xid == 5 {
                    let Reply::Ok(ok) = decode::<WriteReply>(&answer.results) else {
                        panic!("WRITE failed, cut {cuts:?}")
                    };
                    assert_eq!(ok.count, 1 << 20);
                }
                answer.xid
            })
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 5], "cut {cuts:?}");
        sending.join().unwrap();
    }
    let results = client.ask(6, BOB, Procedure::READ, &f.read(0, 1 << 20));
    f.assert_read(&results, 0, 1 << 20);
}

/// Any thread may receive the parts, and the client may pause in the head, the data or the padding.
#[test]
fn long_writes_with_pauses_at_any_byte_are_answered() {
    let f = fixture();
    let mut client = f.running.connect();
    let mut xid = 0;
    for length in [1 << 20, 700_001, (256 << 10) + 2] {
        let data: Vec<u8> = f.data[..length].iter().map(|byte| byte ^ 0x55).collect();
        let body = call(xid, BOB, Procedure::WRITE, &f.write(0, &data));
        let whole = body.len() + 4;
        for pauses in [&[][..], &[50], &[700], &[200 << 10], &[whole - 1], &[2000, 150 << 10, whole - 3]] {
            xid += 1;
            let bytes = record(xid, BOB, Procedure::WRITE, &f.write(0, &data));
            let after =
                record(xid + 1000, BOB, Procedure::GETATTR, &GetattrArgs { object: FileHandle(&f.file) });
            let mut sent = 0;
            for &pause in pauses {
                client.send_bytes(&bytes[sent..pause]).unwrap();
                std::thread::sleep(Duration::from_millis(8));
                sent = pause;
            }
            client.send_bytes(&[&bytes[sent..], &after].concat()).unwrap();
            let mut seen = [client.receive(), client.receive()];
            seen.sort_by_key(|answer| answer.xid);
            let Reply::Ok(ok) = decode::<WriteReply>(&seen[0].results) else { panic!("{length} {pauses:?}") };
            assert_eq!(
                (seen[0].xid, seen[1].xid, ok.count as usize),
                (xid, xid + 1000, length),
                "{pauses:?}"
            );
        }
        let results = client.ask(1, BOB, Procedure::READ, &f.read(0, u32::try_from(length).unwrap()));
        let Reply::Ok(ok) = decode::<ReadReply<'_>>(&results) else { panic!("READ failed") };
        assert!(ok.data == data, "other bytes than those written");
    }
}

#[test]
fn a_call_above_the_record_limit_ends_the_connection() {
    let f = fixture();
    for bytes in
        [mark(true, (1 << 20) + 4097), mark(false, (1 << 20) + 4097), [0xff; 4], [0x7f, 0xff, 0xff, 0xff]]
    {
        let mut client = f.running.connect();
        client.send_bytes(&bytes).unwrap();
        assert!(client.is_ended());
    }
    let mut client = f.running.connect();
    let half = vec![0; 600 << 10];
    let bytes = [&mark(false, half.len())[..], &half, &mark(true, half.len()), &half].concat();
    let _ = client.send_bytes(&bytes);
    assert!(client.is_ended(), "two fragments that are too long together");
}

/// Another process truncates the file between GETATTR and READ. A client takes "no bytes, and not the end" for an I/O
/// error.
#[test]
fn a_read_of_a_truncated_file_reports_the_end() {
    let fs = MemFs::new(system_clock());
    let made = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap();
    made.found.node.write(0, b"0123456789", KEEP_SET_ID).unwrap();
    let (gate, control) = Gate::new(fs);
    let running = Running::new(gate);
    let file = running.handle(crate::support::VOLUME, &made.found.node.key());
    control.short_reads.store(true, Ordering::SeqCst);
    let mut client = running.connect();
    for (count, got) in [(10, &b"01234"[..]), (1, b"")] {
        let args = ReadArgs { file: FileHandle(&file), offset: 0, count };
        let results = client.ask(1, BOB, Procedure::READ, &args);
        let Reply::Ok(ok) = decode::<ReadReply<'_>>(&results) else { panic!() };
        assert_eq!((ok.data, ok.eof), (got, true));
    }
}
