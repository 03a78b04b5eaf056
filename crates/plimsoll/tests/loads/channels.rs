//! Loads over sessions of SMB that have several connections: all of them carry it, and none is added without the session's key.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bench::engine::{BuiltIn, Caller, Control, Engine, Job};
use bench::load::{Kind, Op, Plan};
use report::scenario::{Protocol, Work};
use vfs::ShareSettings;

use crate::answered;
use crate::job::job;
use crate::smb::{Running, make_below, nt_hash, run};

/// The first bytes of an unencrypted SMB message, MS-SMB2 §2.2.1.2.
const PROTOCOL_ID: &[u8] = b"\xFESMB";
/// Offsets of fields in the header, and the length of the header.
const STATUS_AT: usize = 8;
const COMMAND_AT: usize = 12;
const SESSION_ID_AT: usize = 40;
const SIGNATURE_AT: usize = 48;
const HEADER_SIZE: usize = 64;
/// Commands.
const NEGOTIATE: u8 = 0;
const SESSION_SETUP: u8 = 1;
/// Statuses.
const SUCCESS: u32 = 0;
const MORE_PROCESSING_REQUIRED: u32 = 0xC000_0016;
/// Connections of each client here.
const CONNECTIONS: usize = 4;

/// A load over four connections; `how` says how many of them a session has.
fn plan(server: &Running, op: Op, how: &str) -> Plan {
    Plan { connections: CONNECTIONS, depth: 4, threads: Some(2), ..server.plan(op, how) }
}

#[test]
fn data_comes_back_over_all_connections_under_every_protection() {
    let server = Running::sharing(ShareSettings { signing: false, ..ShareSettings::default() });
    make_below(&server);
    for how in ["", "&sign=cmac", "&sign=hmac", "&sign=none", "&seal=gcm", "&seal=ccm", "&seal=gcm256"] {
        let plan = plan(&server, Op::Mix, &format!("?channels=4{how}"));
        assert!(answered(&plan, &[Kind::Read, Kind::Write]).read_back, "{how}");
    }
}

#[test]
fn every_operation_is_made_over_channels() {
    let server = Running::new();
    make_below(&server);
    for (op, kind) in [
        (Op::Null, Kind::Null),
        (Op::Getattr, Kind::Getattr),
        (Op::Lookup, Kind::Lookup),
        (Op::Open, Kind::Close),
        (Op::Create, Kind::Remove),
        (Op::Rename, Kind::Rename),
        (Op::Commit, Kind::Commit),
        (Op::OpenRead, Kind::Read),
        (Op::Readdirplus, Kind::Readdirplus),
    ] {
        answered(&plan(&server, op, "?channels=4"), &[kind]);
    }
}

/// Checks the sessions and opens at the server, and the calls that each connection made.
#[test]
fn all_channels_of_a_session_carry_the_load() {
    let server = Running::new();
    make_below(&server);
    for (how, sessions) in
        [("?seal=gcm", 4), ("?channels=4&seal=gcm", 1), ("?channels=4&sign=cmac", 1), ("?channels=3", 2)]
    {
        let target = format!("smb://alice@{}/v/below{how}", server.address).parse().unwrap();
        let nt_hash = Some(nt_hash());
        let mut engine = BuiltIn::new(target, Caller { nt_hash, ..Caller::default() });
        assert_eq!(engine.facts().unwrap().smb.unwrap().multichannel, how.contains("channels"));
        let transfers = Job {
            connections: CONNECTIONS,
            jobs: 2,
            depth: 4,
            protocol: Some(Protocol::Smb),
            ..job(Work::Transfers)
        };
        engine.prepare(&transfers, &mut |_| Ok(())).unwrap();
        // Two files, which a session opens once for all its connections.
        wait_until(|| {
            let usage = server.usage();
            (usage.connections, usage.sessions, usage.opens) == (CONNECTIONS, sessions, 2 * sessions)
        });
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let control = Control::new(u64::try_from((now + Duration::from_millis(50)).as_nanos()).unwrap());
        control.set_window(0, 2);
        let part = engine.run(&control).unwrap();
        assert!(part.errors.is_empty(), "{:?}", part.error_details);
        let carried = &part.clients[0].connections;
        assert!(carried.len() == CONNECTIONS && carried.iter().all(|&ops| ops > 10), "{how}: {carried:?}");
    }
}

/// Points with fewer connections than the target says are measured with sessions of those.
#[test]
fn a_session_has_no_more_connections_than_its_client() {
    let server = Running::new();
    make_below(&server);
    let target = format!("smb://alice@{}/v/below?channels=4", server.address).parse().unwrap();
    let nt_hash = Some(nt_hash());
    let mut engine = BuiltIn::new(target, Caller { nt_hash, ..Caller::default() });
    engine.prepare(&Job { connections: 2, ..job(Work::Transfers) }, &mut |_| Ok(())).unwrap();
    wait_until(|| (server.usage().connections, server.usage().sessions) == (2, 1));
    let refused = run(&Plan { connections: 3, ..plan(&server, Op::Null, "?channels=4") });
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("channels=4 of --connections 3"), "{refused}");
}

/// Changes that an attacker between client and server makes to requests and responses.
///
/// The flag says whether the connection is added to an existing session.
#[derive(Clone, Copy)]
struct Tampering {
    request: fn(&mut [u8], bool),
    response: fn(&mut [u8], bool),
}

const NONE: Tampering = Tampering { request: |_, _| (), response: |_, _| () };

#[test]
fn a_connection_is_added_with_the_sessions_key_and_trusted_with_its_own() {
    let server = Running::new();
    make_below(&server);
    let forged_request =
        Tampering { request: |message, is_added| flip(message, is_added, SIGNATURE_AT, None), ..NONE };
    let [forged_challenge, forged_answer, another_session] = [
        |message: &mut [u8], is_added| {
            flip(message, is_added, SIGNATURE_AT, Some(MORE_PROCESSING_REQUIRED));
        },
        |message: &mut [u8], is_added| flip(message, is_added, SIGNATURE_AT, Some(SUCCESS)),
        |message: &mut [u8], is_added| flip(message, is_added, SESSION_ID_AT, None),
    ]
    .map(|response: fn(&mut [u8], bool)| Tampering { response, ..NONE });
    let without_channels = Tampering {
        response: |message, _| {
            const CAPABILITIES_AT: usize = HEADER_SIZE + 24;
            const MULTI_CHANNEL: u8 = 8;
            if command(message) == Some(NEGOTIATE) {
                message[CAPABILITIES_AT] &= !MULTI_CHANNEL;
            }
        },
        ..NONE
    };
    let adding = "SESSION_SETUP that adds a connection to a session of alice: permission denied: the server answered ACCESS_DENIED";
    let unsigned = "the last response to the login has no valid signature";
    for (how, tampering, wrong) in [
        ("", forged_request, adding),
        ("&sign=cmac", forged_request, adding),
        ("&seal=gcm", forged_request, adding),
        ("", forged_challenge, unsigned),
        ("", forged_answer, unsigned),
        ("&seal=gcm", forged_answer, unsigned),
        ("", another_session, "creates a session instead of adding a connection"),
        ("", without_channels, "does not offer MULTI_CHANNEL"),
    ] {
        let between = between(server.address, tampering);
        let plan = plan(&server, Op::Getattr, &format!("?channels=4{how}"));
        let mut tampered = plan.clone();
        tampered.target.port = between.port();
        let told = run(&tampered).unwrap_err().to_string();
        assert!(told.contains(wrong), "{how}: {told}");
        // Nobody else's session has suffered.
        answered(&plan, &[Kind::Getattr]);
    }
}

/// Changes a byte of SESSION_SETUP, of one with this status if any, on a connection that is added.
fn flip(message: &mut [u8], is_added: bool, at: usize, status: Option<u32>) {
    let is_meant = status.is_none_or(|status| message[STATUS_AT..].starts_with(&status.to_le_bytes()));
    if is_added && command(message) == Some(SESSION_SETUP) && is_meant {
        message[at] ^= 1;
    }
}

/// The address of a proxy that tampers with the messages of a server.
fn between(server: SocketAddr, tampering: Tampering) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            thread::spawn(move || {
                let mut is_added = false;
                // A client of these tests has one request in flight until its load begins, which none does here.
                while let Some(mut request) = receive(&mut client) {
                    is_added |= is_binding(&request);
                    (tampering.request)(&mut request, is_added);
                    send(&mut server, &request);
                    let Some(mut response) = receive(&mut server) else { break };
                    (tampering.response)(&mut response, is_added);
                    send(&mut client, &response);
                }
                _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

/// Whether a request adds its connection to a session.
fn is_binding(request: &[u8]) -> bool {
    const FLAGS_AT: usize = HEADER_SIZE + 2;
    const BINDING: u8 = 1;
    command(request) == Some(SESSION_SETUP) && request[FLAGS_AT] & BINDING != 0
}

/// The command of a message, unless that is encrypted.
fn command(message: &[u8]) -> Option<u8> {
    message.starts_with(PROTOCOL_ID).then(|| message[COMMAND_AT])
}

fn receive(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    from.read_exact(&mut message).ok()?;
    Some(message)
}

fn send(to: &mut TcpStream, message: &[u8]) {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    _ = to.write_all(&[&length, message].concat());
}

#[track_caller]
fn wait_until(is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(5);
    while !is_so() {
        assert!(Instant::now() < until, "not within five seconds");
        thread::sleep(Duration::from_millis(10));
    }
}
