//! Authentication of coordinators.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bench::agent::{Remote, Token, check_clock, wall_clock};
use bench::engine::{Engine, LayoutProgress};
use serde_json::{Value, json};

use crate::{Fixture, job, token};

fn send(mut stream: &TcpStream, message: &Value) {
    let bytes = message.to_string().into_bytes();
    stream.write_all(&u32::try_from(bytes.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&bytes).unwrap();
}

fn receive(mut stream: &TcpStream) -> Value {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(mark)).unwrap()];
    stream.read_exact(&mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn hello(version: u32) -> Value {
    let (protocol, nonce) = ("plimsoll-agent", "0".repeat(64));
    json!({"message": "hello", "protocol": protocol, "version": version, "program": "9.9", "nonce": nonce})
}

fn refusal(address: &str, token: &Token) -> String {
    Remote::connect(address, token).unwrap_err().to_string()
}

#[test]
fn coordinator_learns_of_the_machine_and_uses_its_engine() {
    let fixture = Fixture::start();
    let mut remote = fixture.remote("steady");
    let (machine, own) = (remote.machine(), bench::machine::machine_facts());
    assert_eq!((machine.name.as_str(), machine.host), (fixture.address.as_str(), own.host));
    assert_eq!((machine.kernel, machine.cpus, machine.version), (own.kernel, own.cpus, own.version));
    assert!(remote.accepts_late_window());
    assert_eq!(remote.facts().unwrap().target, "steady");
    let mut shares = Vec::new();
    let mut tell = |done: LayoutProgress| {
        shares.push(done.done);
        Ok(())
    };
    remote.prepare(&job(), &mut tell).unwrap();
    shares.dedup();
    // It has nothing to tell before the agent's first message.
    assert_eq!(shares, [0.0, 0.5]);
    assert_eq!(*fixture.seen.jobs.lock().unwrap(), [job()]);
    remote.clear().unwrap();
}

#[test]
fn offset_of_a_clock_is_found_within_its_bound() {
    for (now, ahead_us) in [
        (wall_clock as fn() -> u64, 0.0),
        (|| wall_clock() + 5_000_000_000, 5e6),
        (|| wall_clock() - 86_400_000_000_000, -86_400e6),
    ] {
        let fixture = Fixture::with_clock(now);
        let remote = fixture.remote("steady");
        let machine = remote.machine();
        let wrong = (machine.clock_offset_us - ahead_us).abs();
        // The figures are rounded to a microsecond's fractions.
        assert!(wrong <= machine.clock_bound_us + 0.1, "{machine:?}");
        assert!(machine.clock_bound_us < 5_000.0, "{machine:?}");
        assert_eq!(check_clock(&machine).is_ok(), machine.clock_bound_us <= 1000.0);
    }
}

#[test]
fn wrong_token_is_refused_and_guessing_is_slow() {
    let fixture = Fixture::start();
    let wrong = "another token than that".parse().unwrap();
    let said = refusal(&fixture.address, &wrong);
    assert!(said.contains(&fixture.address) && said.contains("wrong token"), "{said}");
    let said: Vec<String> = (0..12).map(|_| refusal(&fixture.address, &wrong)).collect();
    assert!(said.last().unwrap().contains("too many wrong tokens"), "{said:?}");
    // A correct token is refused too, for a while. A second in which the machine stands still forgives one wrong token, which
    // another one makes up for.
    let is_kept_out = || {
        refusal(&fixture.address, &wrong);
        let right = Remote::connect(&fixture.address, &token());
        right.is_err_and(|said| said.to_string().contains("too many wrong tokens"))
    };
    assert!((0..5).any(|_| is_kept_out()));
    thread::sleep(Duration::from_millis(2500));
    assert!(Remote::connect(&fixture.address, &token()).is_ok());
}

#[test]
fn connections_that_say_nothing_keep_no_coordinator_out() {
    let fixture = Fixture::start();
    let silent: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(&fixture.address).unwrap()).collect();
    let begun = Instant::now();
    drop(fixture.remote("steady"));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    drop(silent);
}

#[test]
fn another_version_is_refused_by_either_side() {
    let fixture = Fixture::start();
    let stream = TcpStream::connect(&fixture.address).unwrap();
    send(&stream, &hello(2));
    let said = receive(&stream);
    assert_eq!(said["message"], "refused");
    assert!(said["why"].as_str().unwrap().contains("plimsoll 9.9 and speaks version 2"), "{said}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let old = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        receive(&stream);
        send(&stream, &hello(7));
    });
    let said = refusal(&address, &token());
    assert!(said.contains("speaks version 7") && said.contains(&address), "{said}");
    old.join().unwrap();
}

#[test]
fn agent_without_token_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let false_agent = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        receive(&stream);
        send(&stream, &hello(1));
        // The coordinator's own proof, sent back, is none of the agent.
        let mac = receive(&stream)["mac"].clone();
        let machine = serde_json::to_value(bench::machine::machine_facts()).unwrap();
        send(&stream, &json!({"message": "welcome", "mac": mac, "machine": machine}));
    });
    assert!(refusal(&address, &token()).contains("does not have the token"));
    false_agent.join().unwrap();
}

#[test]
fn agent_has_one_coordinator_at_a_time() {
    let fixture = Fixture::start();
    let first = fixture.remote("steady");
    assert!(refusal(&fixture.address, &token()).contains("another coordinator, 127.0.0.1:"));
    drop(first);
    let begun = Instant::now();
    while Remote::connect(&fixture.address, &token()).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_that_are_no_coordinator_are_closed() {
    let fixture = Fixture::start();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\x02{}", b"\xff\xff\xff\xff"] {
        let mut stream = TcpStream::connect(&fixture.address).unwrap();
        stream.write_all(bytes).unwrap();
        let mut reply = Vec::new();
        // It may be reset, since not all was read.
        _ = stream.read_to_end(&mut reply);
        assert_eq!(reply, b"");
    }
    let idle: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(&fixture.address).unwrap()).collect();
    drop(idle);
    thread::sleep(Duration::from_millis(300));
    assert!(Remote::connect(&fixture.address, &token()).is_ok());
    let said = refusal("127.0.0.1:1", &token());
    assert!(said.contains("127.0.0.1:1") && said.contains("plimsoll agent"), "{said}");
    assert!(refusal("nonsense", &token()).contains("HOST:PORT"));
}
