//! RPC with TLS (RFC 9289) against the running program: calls that pass, and the refusals of calls without TLS.

mod rig;
mod v4;

use nfs_wire::mount::Status as MountStatus;
use nfs_wire::rpc::AuthStat;
use nfs_wire::v3::{PROGRAM, Procedure, Status, VERSION};
use rig::{
    Identity, Offer, PATIENCE, Refused, Rpc, Server, create_args, data_of, read_args, record,
    start_tls_record, write_args,
};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
const READ: (u32, u32, u32) = (PROGRAM, VERSION, Procedure::READ.0);
const CREATE: (u32, u32, u32) = (PROGRAM, VERSION, Procedure::CREATE.0);

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at / 5 + at / 70_000) % 251).unwrap()).collect()
}

/// Whether the other side ends the connection, whatever it says before.
fn ends(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Whether the other side ends the connection without another byte.
fn ends_silently(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn data_of_any_size_comes_through_also_to_slow_readers() {
    let server = Server::start(&[]);
    let mut client = server.tls();
    assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"sunrpc"[..]));
    let root = client.mount().unwrap().unwrap();
    let file = client.create(&root, "big");
    let data = pattern(8 * MIB);
    for (number, part) in data.chunks(MIB).enumerate() {
        assert_eq!(client.write(&file, (number * MIB) as u64, part), Ok(Status::OK));
    }
    for (at, len) in [(3, 1), (777, 4096), (5 * MIB - 1, 200_000), (MIB, 70_000)] {
        assert_eq!(client.write(&file, at as u64, &data[at..at + len]), Ok(Status::OK));
    }
    assert!(fs::read(server.file("big")).unwrap() == data);
    for count in [1u32, 100, 16_384, 16_385, 65_536, 1 << 20] {
        let (read, expected) = (client.read(&file, 5, count), &data[5..5 + count as usize]);
        let first = read.iter().zip(expected).position(|(one, other)| one != other);
        assert_eq!((read.len(), first), (expected.len(), None));
    }
    // Far more is asked for than sockets hold, before anything is read.
    for number in 0..64u64 {
        client.send(READ, &read_args(&file, number % 8 * MIB as u64, 1 << 20));
    }
    std::thread::sleep(Duration::from_millis(300));
    for number in 0..64 {
        let reply = client.receive().unwrap();
        let from = number % 8 * MIB;
        assert!(data_of(&reply[24..]) == data[from..from + MIB], "reply {number}");
    }
    // Keys may be changed at any time.
    client.stream.conn.refresh_traffic_keys().unwrap();
    assert!(client.read(&file, 9, 1 << 20) == data[9..9 + MIB]);
}

#[test]
fn server_without_a_certificate_or_with_tls_off_says_so() {
    let server = Server::start(&["--tls", "off"]);
    let mut client = server.plain();
    assert_eq!(client.start_tls(), Ok(Vec::new()), "no STARTTLS");
    assert!(client.mount().unwrap().is_ok(), "the connection goes on in clear");
    let start = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        let done =
            command.args(["export", "/tmp", "--listen", "127.0.0.1:0"]).args(options).output().unwrap();
        assert!(!done.status.success());
        String::from_utf8(done.stderr).unwrap()
    };
    assert!(start(&["--tls", "require"]).contains("--tls-cert and --tls-key"));
    assert!(start(&["--tls-cert", "/x"]).contains("give --tls-key, or key in"));
    assert!(start(&["--tls-cert", "/none", "--tls-key", "/none"]).contains("cannot read /none"));
    let odd = server.dir.path().join("state").join("odd");
    fs::write(&odd, "no PEM").unwrap();
    let (odd, key) = (odd.to_str().unwrap(), server.dir.path().join("server.key"));
    let told = start(&["--tls-cert", odd, "--tls-key", key.to_str().unwrap()]);
    assert!(told.contains("the TLS certificate: it contains no certificate"), "{told}");
}

#[test]
fn server_that_requires_tls_refuses_calls_in_clear() {
    let server = Server::start(&["--tls", "require"]);
    assert!(server.hint.contains(",xprtsec=tls "), "{}", server.hint);
    let mut secured = server.tls();
    let root = secured.mount().unwrap().unwrap();
    let file = secured.create(&root, "file");
    assert_eq!(secured.write(&file, 0, b"secret"), Ok(Status::OK));
    let mut plain = server.plain();
    assert_eq!(plain.null(), Ok(()), "who is there is no secret");
    let too_weak = Refused::Rejected(AuthStat::TOOWEAK);
    assert_eq!(plain.mount(), Err(too_weak));
    assert_eq!(plain.getattr(&root), Err(Refused::Rejected(AuthStat::TOOWEAK)));
    assert_eq!(plain.call(READ, &read_args(&file, 0, 6)), Err(Refused::Rejected(AuthStat::TOOWEAK)));
    assert_eq!(plain.write(&file, 0, b"other"), Err(Refused::Rejected(AuthStat::TOOWEAK)));
    // A COMPOUND without operations.
    let compound = (PROGRAM, 4, 1);
    assert_eq!(
        plain.call(compound, &[0u32, 2, 0].map(|word| word).to_vec()),
        Err(Refused::Rejected(AuthStat::TOOWEAK))
    );
    assert!(plain.write(&file, 0, &pattern(MIB)).is_err(), "long bodies too");
    assert_eq!(fs::read(server.file("file")).unwrap(), b"secret");
}

#[test]
fn an_export_for_tls_says_nothing_to_others() {
    let server = Server::start(&["--xprtsec", "tls"]);
    assert!(server.hint.contains(",xprtsec=tls "), "{}", server.hint);
    let (mut secured, mut plain) = (server.tls(), server.plain());
    let root = secured.mount().unwrap().unwrap();
    let file = secured.create(&root, "file");
    assert_eq!(plain.mount(), Ok(Ok(root.clone())), "kernels mount in clear what they use encrypted");
    assert_eq!(plain.getattr(&root), Ok(Status::ACCES), "it is good for nothing");
    fs::create_dir(server.file("sub")).unwrap();
    assert!(secured.mount_at("/files/sub").unwrap().is_ok());
    for below in ["/files/sub", "/files/none", "/files/file"] {
        assert_eq!(plain.mount_at(below), Ok(Err(MountStatus::ACCES)), "{below}");
    }
    assert_eq!(plain.getattr(&file), Ok(Status::ACCES), "with a handle that is right");
    assert_eq!(plain.write(&file, 0, &pattern(MIB)), Ok(Status::ACCES));
    assert_eq!(secured.getattr(&file), Ok(Status::OK));
    assert_eq!(plain.getattr(&file), Ok(Status::ACCES), "whatever others were answered");
    assert_eq!(fs::metadata(server.file("file")).unwrap().len(), 0);
}

#[test]
fn an_export_for_certificates_asks_for_one_that_is_trusted() {
    let server = Server::start(&["--xprtsec", "mtls"]);
    let mut nameless = server.tls();
    assert_eq!(nameless.mount_at("/files/sub"), Ok(Err(MountStatus::ACCES)));
    let trusted = Offer { shows: Some(server.client.clone()), ..Offer::new(&server.identity) };
    let mut known = server.shake_hands(&trusted).unwrap();
    let root = known.mount().unwrap().unwrap();
    assert_eq!(known.getattr(&root), Ok(Status::OK));
    assert_eq!(nameless.getattr(&root), Ok(Status::ACCES));
    assert_eq!(server.plain().getattr(&root), Ok(Status::ACCES));
    // The server's own certificate is one that nobody issues to clients.
    for stranger in [Identity::new(), server.identity.clone()] {
        let offer = Offer { shows: Some(stranger), ..Offer::new(&server.identity) };
        let refused = server.shake_hands(&offer).and_then(|mut client| client.stream.read(&mut [0]));
        assert!(refused.is_err(), "a certificate that is not trusted is worse than none");
    }
}

#[test]
fn clear_text_after_the_call_for_tls_ends_the_connection() {
    let server = Server::start(&[]);
    let root = server.tls().mount().unwrap().unwrap();
    let evil = record(77, CREATE, &create_args(&root, "evil"));
    // In the same packet.
    let mut plain = server.plain();
    plain.stream.write_all(&[start_tls_record(9), evil.clone()].concat()).unwrap();
    assert_eq!(plain.receive().map(|reply| reply.len()), Some(32), "STARTTLS");
    assert!(ends_silently(plain.stream));
    // Instead of a handshake.
    let mut asked = server.asked();
    asked.write_all(&evil).unwrap();
    assert!(ends_silently(asked));
    // In the middle of a handshake.
    let mut begun = Offer::new(&server.identity).over(server.asked());
    begun.conn.write_tls(&mut begun.sock).unwrap();
    begun.sock.write_all(&evil).unwrap();
    assert!(ends(&mut begun.sock));
    // After it.
    let mut secured = server.tls();
    secured.stream.sock.write_all(&evil).unwrap();
    assert!(ends(&mut secured.stream.sock));
    assert!(!server.file("evil").exists());
}

#[test]
fn calls_before_and_within_tls_change_nothing_of_it() {
    let server = Server::start(&[]);
    let mut early = server.plain();
    assert_eq!(early.null(), Ok(()));
    assert_eq!(early.start_tls(), Ok(b"STARTTLS".to_vec()));
    let mut stream = Offer::new(&server.identity).over(early.stream);
    stream.conn.complete_io(&mut stream.sock).unwrap();
    let mut secured = server.tls();
    assert_eq!(secured.start_tls(), Err(Refused::Rejected(AuthStat::BADCRED)), "RFC 9289 §4.1");
    assert_eq!(secured.null(), Ok(()), "which ends nothing");
    let mut plain = server.plain();
    let getattr = record(3, (PROGRAM, VERSION, 1), &());
    let mut for_tls = start_tls_record(3);
    for_tls[4 + 20..4 + 24].copy_from_slice(&1u32.to_be_bytes());
    assert_ne!(getattr, for_tls);
    plain.stream.write_all(&for_tls).unwrap();
    let reply = plain.receive().unwrap();
    let words = [1u32, 1, 1, AuthStat::BADCRED.0].map(u32::to_be_bytes).concat();
    assert_eq!(reply[4..], words, "only NULL calls ask for TLS");
}

#[test]
fn older_versions_and_other_protocols_are_refused() {
    let server = Server::start(&[]);
    let older = Offer { version: &rustls::version::TLS12, ..Offer::new(&server.identity) };
    assert!(server.shake_hands(&older).is_err());
    let other = Offer { protocols: vec![b"h2".to_vec()], ..Offer::new(&server.identity) };
    assert!(server.shake_hands(&other).is_err());
    let nameless = Offer { protocols: Vec::new(), ..Offer::new(&server.identity) };
    assert!(server.shake_hands(&nameless).unwrap().mount().unwrap().is_ok(), "clients may name none");
}

#[test]
fn record_cut_off_altered_or_repeated_is_not_executed() {
    let server = Server::start(&[]);
    let mut client = server.tls();
    let root = client.mount().unwrap().unwrap();
    let file = client.create(&root, "file");
    assert_eq!(client.write(&file, 0, b"before"), Ok(Status::OK));
    let write = |xid| record(xid, (PROGRAM, VERSION, Procedure::WRITE.0), &write_args(&file, 0, b"after!"));
    // Sealed by the client, and sent otherwise.
    let sealed = |stream: &mut rig::Tls| {
        stream.conn.writer().write_all(&write(5)).unwrap();
        let mut wire = Vec::new();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut wire).unwrap();
        }
        wire
    };
    let Rpc { stream: mut cut, .. } = server.tls();
    let wire = sealed(&mut cut);
    cut.sock.write_all(&wire[..wire.len() - 1]).unwrap();
    cut.sock.shutdown(Shutdown::Write).unwrap();
    assert!(!matches!(cut.read(&mut [0; 64]), Ok(count) if count > 0));
    let Rpc { stream: mut altered, .. } = server.tls();
    let mut wire = sealed(&mut altered);
    wire[20] ^= 1;
    altered.sock.write_all(&wire).unwrap();
    assert!(altered.read(&mut [0; 64]).is_err(), "an alert");
    let Rpc { stream: mut twice, .. } = server.tls();
    let wire = sealed(&mut twice);
    twice.sock.write_all(&wire).unwrap();
    assert!(twice.read(&mut [0; 64]).unwrap() > 0);
    assert_eq!(fs::read(server.file("file")).unwrap(), b"after!");
    assert_eq!(client.write(&file, 0, b"before"), Ok(Status::OK));
    twice.sock.write_all(&wire).unwrap();
    assert!(ends(&mut twice.sock));
    assert_eq!(fs::read(server.file("file")).unwrap(), b"before", "what was heard once is not heard again");
    let mut long = server.tls();
    long.stream.sock.write_all(&[23, 3, 3, 0xff, 0xff]).unwrap();
    assert!(ends(&mut long.stream.sock), "a record that is too long");
}

#[test]
fn key_changes_between_calls_are_accepted_and_a_flood_ends_the_connection() {
    let server = Server::start(&[]);
    let mut client = server.tls();
    for _ in 0..100 {
        client.stream.conn.refresh_traffic_keys().unwrap();
        client.null().unwrap();
    }
    // Each costs us more than it costs them.
    for _ in 0..100 {
        client.stream.conn.refresh_traffic_keys().unwrap();
    }
    let flooded = (0..100).any(|_| client.null().is_err());
    assert!(flooded, "changes without calls end the connection");
    assert!(server.tls().null().is_ok());
}

#[test]
fn both_sides_say_when_they_end() {
    let server = Server::start(&["--idle-timeout", "2"]);
    let mut client = server.tls();
    client.null().unwrap();
    client.stream.conn.send_close_notify();
    client.stream.conn.complete_io(&mut client.stream.sock).unwrap();
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "an end that was said");
    let mut client = server.tls();
    client.null().unwrap();
    // What follows the end is not heard.
    client.send((PROGRAM, VERSION, 0), &());
    client.stream.conn.send_close_notify();
    client.stream.conn.complete_io(&mut client.stream.sock).unwrap();
    client.stream.sock.write_all(&record(9, (PROGRAM, VERSION, 0), &())).unwrap();
    assert!(client.receive().is_some());
    assert_eq!(client.receive(), None);
    let mut idle = server.tls();
    assert_eq!(idle.stream.read(&mut [0]).unwrap(), 0, "idle connections end with a word, too");
}

#[test]
fn call_before_the_end_of_tls_is_executed() {
    let server = Server::start(&[]);
    let root = server.tls().mount().unwrap().unwrap();
    for (number, len) in [1, 5000, 100_000, MIB].into_iter().enumerate() {
        // With the end right behind it, and while a storage thread has the connection.
        for waits in [false, true] {
            let (mut client, name) = (server.tls(), format!("{number}-{waits}"));
            let (file, data) = (client.create(&root, &name), pattern(len));
            if waits {
                assert_eq!(client.write(&file, 0, &data), Ok(Status::OK));
            } else {
                client.send((PROGRAM, VERSION, Procedure::WRITE.0), &write_args(&file, 0, &data));
            }
            client.stream.conn.send_close_notify();
            client.stream.conn.complete_io(&mut client.stream.sock).unwrap();
            assert_eq!(client.receive().is_some(), !waits, "{name}: the reply");
            assert!(ends(&mut client.stream.sock), "{name}");
            assert!(fs::read(server.file(&name)).unwrap() == data, "{name}");
        }
    }
}

#[test]
fn half_handshakes_are_few_and_do_not_last() {
    let server = Server::start(&[]);
    let began = Instant::now();
    let mut asked = Vec::new();
    let mut refused = 0;
    for _ in 0..1000 {
        let mut plain = server.plain();
        match plain.start_tls() {
            Ok(_) => asked.push(plain.stream),
            Err(why) => {
                assert_eq!(why, Refused::Rejected(AuthStat::FAILED));
                refused += 1;
            }
        }
    }
    assert_eq!((asked.len(), refused), (1000, 0));
    assert!(server.plain().mount().unwrap().is_ok(), "others are served");
    for (number, stream) in asked.iter_mut().enumerate() {
        // One record begins and does not end; another is of a ClientHello without end; the rest say nothing.
        match number % 3 {
            0 => stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1]).unwrap(),
            1 => {
                let record = [&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 0x3ffc]].concat();
                _ = stream.write_all(&record[..]);
                for _ in 0..8 {
                    _ = stream.write_all(&[&[22, 3, 1, 0x40, 0][..], &[0; 0x4000]].concat());
                }
            }
            _ => {}
        }
    }
    for mut stream in asked {
        assert!(ends(&mut stream));
    }
    assert!((28..50).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert!(server.tls().mount().unwrap().is_ok(), "there is room again");
}

#[test]
fn a_new_certificate_is_used_without_a_restart() {
    let server = Server::start(&[]);
    let mut before = server.tls();
    before.null().unwrap();
    let key = server.dir.path().join("server.key");
    fs::write(&key, "no key").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(server.tls().null().is_ok(), "what cannot be used changes nothing");
    let next = Identity::new();
    next.write(server.dir.path());
    let deadline = Instant::now() + PATIENCE;
    while server.shake_hands(&Offer::new(&next)).is_err() {
        assert!(Instant::now() < deadline, "the old certificate is still used");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(before.null().is_ok(), "connections stay");
    assert!(server.shake_hands(&Offer::new(&server.identity)).is_err());
}
