//! The mix of an EDA flow over NFSv4.1, 4.2 and SMB: its rate and its operations, what it opens and closes, by one
//! generator and by agents.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use bench::Target;
use bench::agent::{Agent, Remote, Token, serve, wall_clock};
use bench::eda::Prepared;
use bench::engine::{BuiltIn, Caller, Control, Engine, Job};
use nfs_wire::v4::{Op, Status};
use report::result::Part;
use report::scenario::{Protocol, Work};
use wire_client::Identity;

use super::tries::{near, within_tries};
use super::wiretap::{Seen, wiretap};
use super::{Host, VERSIONS, smb};

fn job() -> Job {
    Job {
        transfer: 1 << 20,
        attribute_cache: true,
        connections: 2,
        job_sets: 1,
        ..super::job::job(Work::EdaBlend)
    }
}

/// A load that begins in a moment and, after a second, is measured for `seconds`.
fn control(seconds: u64) -> Control {
    control_in(Duration::from_millis(100), seconds)
}

/// A load that begins after `ahead`.
fn control_in(ahead: Duration, seconds: u64) -> Control {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let control = Control::new(u64::try_from((now + ahead).as_nanos()).unwrap());
    control.set_window(1, seconds);
    control
}

fn prepared(target: &str, job: &Job) -> Prepared {
    let target: Target = target.parse().unwrap();
    Prepared::new(&target, &Identity::new(0, 0), job, &mut |_| Ok(())).unwrap()
}

fn ops(part: &Part) -> u64 {
    part.operations.iter().map(|operation| operation.ops).sum()
}

/// Checks that everything opened was closed, and that the clients ended without state.
fn assert_nothing_left(seen: &Seen) {
    for (begun, ended) in [
        (Op::OPEN, Op::CLOSE),
        (Op::CREATE_SESSION, Op::DESTROY_SESSION),
        (Op::EXCHANGE_ID, Op::DESTROY_CLIENTID),
    ] {
        assert!(seen.count(begun) > 0 && seen.count(begun) == seen.count(ended), "{begun:?}");
    }
    // A client that holds anything could not be destroyed (RFC 8881 §18.50.3).
    let is_good = |&status: &Status| [Status::OK, Status::NOENT, Status::EXIST].contains(&status);
    assert!(seen.statuses.iter().all(is_good), "{:?}", seen.statuses);
}

#[test]
fn a_set_runs_at_its_rate_over_every_version_and_leaves_nothing() {
    let host = Host::new(30);
    for version in VERSIONS {
        let (address, seen) = wiretap(host.address);
        let mut prepared = prepared(&format!("nfs://{address}/v?version={version}"), &job());
        // Streams go on in the second run where the first one's end cut them.
        for _ in 0..2 {
            let part = within_tries(|| {
                let part = prepared.run(&control(3)).unwrap();
                assert!(part.errors.is_empty() && part.caveats.is_empty(), "{:?}", part.error_details);
                // An operation is one, however many calls it takes; a machine may be busy, but none is
                // skipped.
                near(ops(&part) as f64, 3.0 * 450.0, 0.15)?;
                Ok(part)
            });
            let wire = &part.wire;
            let small = ["read-file", "random-read", "write-file", "random-write", "create"];
            let opened = part.operations.iter().filter(|one| small.contains(&one.name.as_str()));
            let opened: u64 = opened.map(|one| one.ops).sum();
            // Streams add a few; an operation that ends after the measuring has begun may have opened its file before.
            assert!((opened - 10..opened + 20).contains(&wire["OPEN"]), "{opened} {wire:?}");
            assert!(wire["OPEN"].abs_diff(wire["CLOSE"]) <= 10, "{wire:?}");
            assert!(wire["READ"] > 3 * 75 && wire["COMMIT"] > 20 && wire["SETATTR"] > 0, "{wire:?}");
            assert!(wire["CREATE"] > 0 && wire["REMOVE"] > 0, "{wire:?}");
            // What OPEN tells of is not asked for again.
            let asked: u64 = part.operations.iter().take(2).map(|one| one.ops).sum();
            assert!(part.pace.as_ref().unwrap().absorbed > asked * 9 / 10, "{:?}", part.pace);
        }
        drop(prepared);
        assert_nothing_left(&seen.lock());
    }
}

#[test]
fn without_a_cache_names_and_attributes_are_asked_for() {
    let host = Host::new(30);
    let uncached = Job { attribute_cache: false, transfer: 4096, ..job() };
    let mut prepared = prepared(&format!("nfs://{}/v?version=4.1", host.address), &uncached);
    let part = prepared.run(&control(2)).unwrap();
    assert!(part.errors.is_empty(), "{:?}", part.error_details);
    let stats = part.operations.iter().find(|one| one.name == "stat").unwrap().ops;
    assert_eq!(part.pace.as_ref().unwrap().absorbed, 0);
    assert!(part.wire["LOOKUP"].abs_diff(stats) <= 3, "{:?}", part.wire);
    // Opening a file is its check of the attributes: GETATTR belongs to stat alone.
    assert!(part.wire["GETATTR"].abs_diff(stats) <= 3, "{:?}", part.wire);
}

/// A share's job set, by alice.
fn over_smb(server: &smb::Running, how: &str) -> BuiltIn {
    let target = format!("smb://alice@{}/v/below{how}", server.address).parse().unwrap();
    BuiltIn::new(target, Caller { nt_hash: Some(smb::nt_hash()), ..Caller::default() })
}

#[test]
fn a_set_runs_at_its_rate_over_smb_and_leaves_nothing() {
    let server = smb::Running::new();
    smb::make_below(&server);
    for how in ["?sign=hmac", "?channels=2&seal=gcm"] {
        let mut engine = over_smb(&server, how);
        engine.prepare(&Job { protocol: Some(Protocol::Smb), ..job() }, &mut |_| Ok(())).unwrap();
        // Streams go on in the second run where the first one's end cut them.
        for _ in 0..2 {
            let part = within_tries(|| {
                let part = engine.run(&control(3)).unwrap();
                assert!(part.errors.is_empty() && part.caveats.is_empty(), "{:?}", part.error_details);
                near(ops(&part) as f64, 3.0 * 450.0, 0.15)?;
                Ok(part)
            });
            let wire = &part.wire;
            let named = |names: &[&str]| -> u64 {
                let is_one = |name: &str| names.contains(&name);
                part.operations.iter().filter(|one| is_one(&one.name)).map(|one| one.ops).sum()
            };
            let opened =
                named(&["read-file", "random-read", "write-file", "random-write", "create", "mkdir"]);
            // Streams add a few; an operation that ends after the measuring has begun may have opened its file before.
            assert!((opened - 10..opened + 30).contains(&wire["CREATE"]), "{opened} {wire:?}");
            assert!(wire["READ"] > 3 * 75 && wire["WRITE"] > 0 && wire["FLUSH"] > 20, "{wire:?}");
            let set = named(&["chmod", "write-file"]);
            assert!(wire["SET_INFO"] > 0 && wire["SET_INFO"] <= set + 10, "{set} {wire:?}");
            let asked = named(&["stat", "access"]);
            assert!(part.pace.as_ref().unwrap().absorbed > asked * 9 / 10, "{:?}", part.pace);
            assert_eq!(server.usage().opens, 0, "what was opened is closed");
        }
        engine.clear().unwrap();
        assert_eq!(std::fs::read_dir(server.below()).unwrap().count(), 0);
    }
}

#[test]
fn without_a_cache_attributes_are_asked_for_over_smb() {
    let server = smb::Running::new();
    smb::make_below(&server);
    let mut engine = over_smb(&server, "?sign=hmac");
    engine.prepare(&Job { attribute_cache: false, transfer: 4096, ..job() }, &mut |_| Ok(())).unwrap();
    let part = engine.run(&control(2)).unwrap();
    assert!(part.errors.is_empty(), "{:?}", part.error_details);
    let stats = part.operations.iter().find(|one| one.name == "stat").unwrap().ops;
    assert_eq!(part.pace.as_ref().unwrap().absorbed, 0);
    assert!(part.wire["QUERY_INFO"].abs_diff(stats) <= 3, "{:?}", part.wire);
}

#[test]
fn versions_find_the_same_files() {
    let host = Host::new(30);
    let run = |version: &str, protocol| {
        let target: Target = format!("nfs://{}/v?version={version}", host.address).parse().unwrap();
        let mut engine = BuiltIn::new(target, Caller::default());
        engine.prepare(&Job { protocol, ..job() }, &mut |_| Ok(())).unwrap();
        let part = engine.run(&control(1)).unwrap();
        assert!(part.errors.is_empty(), "{:?}", part.error_details);
        part.wire.contains_key("OPEN")
    };
    let file = host.dir.path().join("plimsoll-bench/eda/s00/b1/d00/f00");
    let inode = |path: &Path| path.metadata().unwrap().ino();
    assert!(!run("3", None));
    let before = inode(&file);
    assert!(run("4.1", None) && run("4.2", None));
    // A job says over which protocol it runs, whatever the target's version.
    assert!(run("3", Some(Protocol::NfsV41)) && !run("4.1", Some(Protocol::NfsV3)));
    assert_eq!(inode(&file), before);
}

/// An agent in this process; the controller names the target.
fn agent(token: &Token) -> Agent {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let make = Box::new(|target: &str, caller: &Caller| {
        let target: Target = target.parse().map_err(bench::Error::Plan)?;
        Ok(Box::new(BuiltIn::new(target, caller.clone())) as Box<dyn Engine>)
    });
    serve(listener, token.clone(), make, wall_clock).unwrap()
}

#[test]
fn agents_share_the_sets_over_version_4_1() {
    let host = Host::new(30);
    let (address, seen) = wiretap(host.address);
    let token: Token = "the token of these tests".parse().unwrap();
    let agents = [0, 1].map(|_| agent(&token));
    // Each lays out the files of its own sets, before the load begins.
    let mut remotes = [0, 1].map(|first_client| {
        let job = Job { clients_total: 2, first_client, connections: 1, job_sets: 2, ..job() };
        let mut remote = Remote::connect(&agents[first_client].address().to_string(), &token).unwrap();
        remote.open(&format!("nfs://{address}/v?version=4.1"), &Caller::default()).unwrap();
        remote.prepare(&job, &mut |_| Ok(())).unwrap();
        remote
    });
    within_tries(|| {
        // Both hear of it in time, even if the machine stands still for a second.
        let control = control_in(Duration::from_secs(2), 2);
        let parts = thread::scope(|scope| {
            let running = remotes.each_mut().map(|remote| scope.spawn(|| remote.run(&control)));
            running.map(|running| running.join().unwrap().unwrap())
        });
        for part in &parts {
            assert!(part.errors.is_empty(), "{:?}", part.error_details);
            assert!(part.wire["OPEN"] > 0 && part.clients.len() == 1);
        }
        parts.iter().try_for_each(|part| near(ops(part) as f64, 2.0 * 450.0, 0.15))
    });
    drop(remotes);
    agents.into_iter().for_each(Agent::stop);
    assert_nothing_left(&seen.lock());
}
