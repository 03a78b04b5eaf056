//! Loads of the benchmark over NFSv4.1 and 4.2 against a server: every kind of call, more slots than one session has,
//! leases, and no remaining state at the end.

mod channels;
mod eda;
#[path = "../../../bench/tests/support/job.rs"]
mod job;
#[path = "../support/server.rs"]
mod server;
#[path = "../support/shares.rs"]
mod shares;
mod smb;
#[path = "../../../bench/tests/support/tries.rs"]
mod tries;
mod wiretap;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use bench::Target;
use bench::engine::{BuiltIn, Caller, Control, Engine, Job};
use bench::load::{self, Kind, Op, Plan, Report};
use nfs_wire::v4::{self, Status};
use report::scenario::{Protocol, Work};

use server::Running;
use wiretap::wiretap;

const VERSIONS: [&str; 2] = ["4.1", "4.2"];

/// A server of one export, `/v`.
struct Host {
    address: SocketAddr,
    _server: Running,
    dir: tempfile::TempDir,
}

impl Host {
    fn new(lease_s: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Running::new(vec![server::export("/v", server::volume(0, dir.path()))], lease_s);
        Self { address: server.address, _server: server, dir }
    }

    fn plan(&self, address: SocketAddr, version: &str, op: Op) -> Plan {
        let target = format!("nfs://{address}/v?version={version}").parse().unwrap();
        Plan {
            block: 4096,
            files: 2,
            size: 1 << 20,
            entries: 300,
            connections: 2,
            depth: 4,
            time: Duration::from_millis(300),
            warm_up: Duration::from_millis(50),
            ..Plan::new(target, op)
        }
    }
}

fn run(plan: &Plan) -> Report {
    answered(plan, &[])
}

/// A load without errors in which something of each of `kinds` was answered. A short one may see nothing of that while others use the
/// machine: then it is run for longer.
#[track_caller]
fn answered(plan: &Plan, kinds: &[Kind]) -> Report {
    let mut plan = plan.clone();
    loop {
        let report = load::run(&plan, &mut |_| Ok(())).unwrap();
        assert_eq!(report.errors_total(), 0, "{:?}", report.error_details);
        let has = |&kind: &Kind| report.kind(kind).is_some_and(|kind| kind.ops > 0);
        if report.ops > 0 && kinds.iter().all(has) {
            return report;
        }
        plan.time *= 4;
        assert!(plan.time < Duration::from_secs(10), "{:?} {kinds:?}: {report}", plan.op);
    }
}

#[test]
fn every_kind_of_call_is_made_over_every_version() {
    let host = Host::new(30);
    let all = [
        Op::Read,
        Op::Write,
        Op::Mix,
        Op::OpenRead,
        Op::Getattr,
        Op::Lookup,
        Op::Access,
        Op::Open,
        Op::Create,
        Op::Rename,
        Op::Readdirplus,
        Op::Commit,
        Op::Null,
    ];
    for (version, op) in VERSIONS.iter().flat_map(|version| all.map(|op| (*version, op))) {
        let mut plan = host.plan(host.address, version, op);
        (plan.verify, plan.directories) = (true, if op == Op::Rename { 3 } else { 1 });
        let report = run(&plan);
        assert_eq!(report.read_back, op.writes(), "{op:?}");
    }
    // What loads made under names of their own they have removed again.
    let scratch = std::fs::read_dir(host.dir.path().join("plimsoll-bench/scratch")).unwrap();
    assert_eq!(scratch.count(), 0);
}

/// Stops a load while it fills files, and runs it again with a check of every byte.
#[track_caller]
fn assert_stops(plan: &Plan, directory: &Path) {
    let plan = Plan { size: 64 << 20, files: 2, verify: true, ..plan.clone() };
    let mut stop = |progress| match progress {
        load::Progress::Layout(layout) if layout.written > 0 => Err(bench::Error::Stopped),
        _ => Ok(()),
    };
    let stopped = load::run(&plan, &mut stop);
    assert!(matches!(stopped, Err(bench::Error::Stopped)), "{stopped:?}");
    let all = std::fs::read_dir(directory.join("plimsoll-bench")).unwrap();
    let files: Vec<_> = all.map(|entry| entry.unwrap()).filter(|entry| entry.path().is_file()).collect();
    assert!(files.is_empty(), "{}: {files:?}", plan.target);
    let small = Plan { size: 1 << 20, cleanup: true, ..plan };
    answered(&small, &[Kind::Read]);
}

#[test]
fn load_that_is_stopped_leaves_no_partial_files() {
    let host = Host::new(30);
    for version in ["3", "4.1", "4.2"] {
        assert_stops(&host.plan(host.address, version, Op::Read), host.dir.path());
    }
}

#[test]
fn load_that_is_stopped_while_it_runs_has_no_result() {
    let host = Host::new(30);
    let plan = Plan { time: Duration::from_secs(600), ..host.plan(host.address, "4.2", Op::Read) };
    let mut stop = |progress| match progress {
        load::Progress::Running { .. } => Err(bench::Error::Stopped),
        _ => Ok(()),
    };
    let stopped = load::run(&plan, &mut stop);
    assert!(matches!(stopped, Err(bench::Error::Stopped)), "{stopped:?}");
}

#[test]
fn versions_find_the_same_files() {
    let host = Host::new(30);
    for version in ["3", "4.1", "3"] {
        let plan = Plan { verify: true, ..host.plan(host.address, version, Op::Mix) };
        assert!(run(&plan).read_back, "{version}");
        assert!(run(&host.plan(host.address, version, Op::Readdirplus)).kinds[0].entries_per_s > 0.0);
    }
    let plan = Plan { cleanup: true, ..host.plan(host.address, "4.1", Op::Read) };
    run(&plan);
    assert_eq!(std::fs::read_dir(host.dir.path()).unwrap().count(), 0);
}

#[test]
fn engine_reports_its_version() {
    let host = Host::new(30);
    for (version, name) in [("3", "NFSv3"), ("4.1", "NFSv4.1"), ("4.2", "NFSv4.2")] {
        let target = format!("nfs://{}/v?version={version}", host.address).parse().unwrap();
        let facts = BuiltIn::new(target, Caller::default()).facts().unwrap();
        assert_eq!((facts.protocol.as_str(), facts.generator), (name, format!("built-in {name} client")));
        assert_eq!(facts.target.contains("version"), version != "3");
        assert_eq!((facts.read_max, facts.write_max), (Some(1 << 20), Some(1 << 20)));
    }
}

/// 4 KiB reads of one client over this protocol, or that of the target.
fn job(protocol: Option<Protocol>) -> Job {
    Job {
        protocol,
        block: 4096,
        transfer: 4096,
        connections: 2,
        jobs: 2,
        depth: 4,
        ..job::job(Work::Transfers)
    }
}

#[test]
fn job_runs_over_its_protocol() {
    let host = Host::new(30);
    let (address, seen) = wiretap(host.address);
    let reads = || seen.lock().count(v4::Op::READ);
    for version in ["3", "4.2"] {
        let mut target: Target = format!("nfs://{address}/v?version={version}").parse().unwrap();
        // The wiretap understands NFSv4 alone, so NFSv3 is asked for at the server itself.
        let direct = Target { port: host.address.port(), mount_port: host.address.port(), ..target.clone() };
        target.mount_port = host.address.port();
        for (target, protocol, over_v4) in
            [(direct, Some(Protocol::NfsV3), false), (target, Some(Protocol::NfsV41), true)]
        {
            let mut engine = BuiltIn::new(target, Caller::default());
            let before = reads();
            engine.prepare(&job(protocol), &mut |_| Ok(())).unwrap();
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let control = Control::new(u64::try_from((now + Duration::from_millis(50)).as_nanos()).unwrap());
            control.set_window(0, 1);
            let part = engine.run(&control).unwrap();
            assert!(part.wire["READ"] > 0 && part.errors.is_empty(), "{:?}", part.errors);
            assert_eq!(reads() > before, over_v4);
        }
    }
    let target = format!("nfs://{}/v", host.address).parse().unwrap();
    let smb = BuiltIn::new(target, Caller::default()).prepare(&job(Some(Protocol::Smb)), &mut |_| Ok(()));
    assert!(smb.unwrap_err().to_string().starts_with("the load is over SMB, which nfs://"));
}

#[test]
fn more_calls_in_flight_than_a_session_has_slots_take_several() {
    let host = Host::new(30);
    let (address, seen) = wiretap(host.address);
    let plan = Plan { connections: 2, depth: 300, ..host.plan(address, "4.1", Op::Getattr) };
    run(&plan);
    let seen = seen.lock();
    // Two clients set up, with a session each; the load's has 601 slots, of which a session has 256.
    assert!(seen.count(v4::Op::CREATE_SESSION) >= 3 + seen.count(v4::Op::EXCHANGE_ID) - 1, "{seen:?}");
    // Both of its connections are bound to all of them.
    assert_eq!(seen.count(v4::Op::BIND_CONN_TO_SESSION), 2 * 3);
    assert!(seen.statuses.iter().all(|&status| status == Status::OK || status == Status::NOENT));
}

#[test]
fn load_closes_everything_it_opened() {
    let host = Host::new(30);
    let (address, seen) = wiretap(host.address);
    for op in [Op::Mix, Op::Open, Op::OpenRead, Op::Create, Op::Rename] {
        run(&host.plan(address, "4.1", op));
        // A schedule leaves pauses, in one of which the load ends.
        run(&Plan { rate: Some(100.0), ..host.plan(address, "4.1", op) });
    }
    let scratch = std::fs::read_dir(host.dir.path().join("plimsoll-bench/scratch")).unwrap();
    assert_eq!(scratch.count(), 0);
    let seen = seen.lock();
    for (begun, ended) in [
        (v4::Op::EXCHANGE_ID, v4::Op::DESTROY_CLIENTID),
        (v4::Op::CREATE_SESSION, v4::Op::DESTROY_SESSION),
        (v4::Op::OPEN, v4::Op::CLOSE),
    ] {
        assert!(seen.count(begun) > 0 && seen.count(begun) == seen.count(ended), "{begun:?}");
    }
    // A client that holds anything could not be destroyed (RFC 8881 §18.50.3).
    assert!(seen.statuses.iter().all(|&status| status == Status::OK || status == Status::NOENT));
}

#[test]
fn a_lease_is_renewed_while_a_schedule_leaves_a_pause() {
    let host = Host::new(1);
    let (address, seen) = wiretap(host.address);
    let plan = Plan {
        rate: Some(0.5),
        connections: 1,
        depth: 1,
        warm_up: Duration::from_millis(100),
        time: Duration::from_millis(3900),
        ..host.plan(address, "4.1", Op::Read)
    };
    run(&plan);
    let seen = seen.lock();
    let alone = seen.compounds.iter().filter(|compound| compound[..] == [v4::Op::SEQUENCE]).count();
    // Three a second, in four seconds; a machine may be slow, or stand still.
    assert!(alone >= 4, "{alone}");
}

#[test]
fn a_silent_server_is_waited_for_once_and_not_for_each_client() {
    let host = Host::new(30);
    let (address, seen) = wiretap(host.address);
    let target = format!("nfs://{address}/v?version=4.1").parse().unwrap();
    let mut engine = BuiltIn::new(target, Caller::default());
    engine.prepare(&Job { clients: 4, clients_total: 4, ..job(None) }, &mut |_| Ok(())).unwrap();
    seen.lock().is_mute = true;
    let start = Instant::now();
    drop(engine);
    // Five seconds for the first of them.
    assert!((4..9).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[test]
fn operation_or_path_that_does_not_exist_is_refused_with_reason() {
    let host = Host::new(30);
    let open = load::run(&host.plan(host.address, "3", Op::Open), &mut |_| Ok(())).unwrap_err().to_string();
    let words = "--op open is of NFSv4 and SMB; write ?version=4.1 or ?version=4.2";
    assert!(open.contains(words), "{open}");
    let target = format!("nfs://{}/nowhere?version=4.1", host.address).parse().unwrap();
    let plan = Plan::new(target, Op::Getattr);
    let nowhere = load::run(&plan, &mut |_| Ok(())).unwrap_err().to_string();
    assert!(nowhere.contains("/nowhere") && nowhere.contains("NFS4ERR_NOENT"), "{nowhere}");
}
