//! The load generator against a server that misbehaves.

mod fake;

use std::time::Duration;

use bench::Error;
use bench::load::{self, BlockOrder, Kind, Op, Plan, Report};
use fake::Fault;
use report::scenario::Stability;

fn plan(fault: Fault, op: Op) -> Plan {
    let port = fake::start(fault);
    Plan {
        block: 8 << 10,
        size: 2 << 20,
        files: 2,
        entries: 2000,
        connections: 2,
        depth: 4,
        time: Duration::from_millis(400),
        warm_up: Duration::from_millis(50),
        verify: true,
        ..Plan::new(format!("nfs://127.0.0.1:{port}/x").parse().unwrap(), op)
    }
}

const WITH_FAULTS: u64 = 1000;

/// Repeats a load of fewer than `ops_min` operations with more time, since the machine may have stood still.
/// The server counts on.
#[track_caller]
fn run(plan: &Plan, ops_min: u64) -> Result<Report, Error> {
    let mut plan = plan.clone();
    loop {
        let report = load::run(&plan, &mut |_| Ok(()))?;
        if report.ops >= ops_min {
            return Ok(report);
        }
        plan.time *= 4;
        assert!(plan.time < Duration::from_secs(10), "fewer than {ops_min} operations:\n{report}");
    }
}

fn failure(fault: Fault, op: Op) -> String {
    match run(&plan(fault, op), WITH_FAULTS) {
        Ok(report) => panic!("{fault:?} went unnoticed:\n{report}"),
        Err(wrong) => wrong.to_string(),
    }
}

fn counted(fault: Fault, op: Op, stability: Stability) -> Report {
    run(&Plan { stability, ..plan(fault, op) }, WITH_FAULTS).unwrap()
}

#[test]
fn names_are_spread_over_directories() {
    for op in [Op::Lookup, Op::Create, Op::Rename] {
        // Names that are not where they are looked for would be errors.
        let spread = Plan { directories: 3, clients: 2, ..plan(Fault::None, op) };
        let first = run(&spread, 11).unwrap();
        assert!(first.errors.is_empty(), "{first}");
        let other = run(&Plan { directories: 7, cleanup: true, ..spread }, 11).unwrap();
        assert!(other.errors.is_empty(), "{other}");
    }
}

#[test]
fn every_op_works() {
    for op in [
        Op::Read,
        Op::Write,
        Op::Mix,
        Op::Getattr,
        Op::Lookup,
        Op::Create,
        Op::Rename,
        Op::Readdirplus,
        Op::Commit,
        Op::Null,
    ] {
        for order in [BlockOrder::Random, BlockOrder::Sequential] {
            let plan = Plan { order, cleanup: true, clients: 2, ..plan(Fault::None, op) };
            let report = run(&plan, 11).unwrap();
            assert!(report.errors.is_empty(), "{report}");
            assert_eq!(report.ops, report.series.iter().map(|second| second.ops).sum::<u64>());
            for kind in &report.kinds {
                let histogram = &kind.latency_histogram;
                assert_eq!(kind.ops, histogram.iter().map(|(_, count)| count).sum::<u64>());
                assert!(histogram.is_sorted_by(|a, b| a.0 < b.0) && histogram[0].0 > 0);
            }
            assert_eq!(report.read_back, matches!(op, Op::Write | Op::Mix));
            assert!(report.co_located && report.own_cpu_us_per_op > 0.0, "{report}");
        }
    }
}

#[test]
fn mixes_are_as_asked() {
    let report = run(&Plan { read_percent: 75, ..plan(Fault::None, Op::Mix) }, 1000).unwrap();
    let [reads, writes] = [Kind::Read, Kind::Write].map(|kind| report.kind(kind).unwrap().ops as f64);
    assert!((0.70..0.80).contains(&(reads / (reads + writes))), "{report}");
}

#[test]
fn every_block_size_works() {
    for (block, verify) in
        [(512, true), (1536, true), (4096, false), (128 << 10, true), (128 << 10, false), (1 << 20, false)]
    {
        for op in [Op::Read, Op::Mix] {
            let size = block * 32;
            let report = run(&Plan { block, size, verify, ..plan(Fault::None, op) }, 11).unwrap();
            assert!(report.errors.is_empty(), "{block} {op:?}\n{report}");
            assert_eq!(report.bytes, report.ops * block);
            assert_eq!(report.payload_discarded, !verify && block >= 32 << 10);
        }
    }
}

#[test]
fn legal_oddities_are_no_faults() {
    for fault in [Fault::Fragments, Fault::Reorder] {
        let report = run(&plan(fault, Op::Mix), WITH_FAULTS).unwrap();
        assert!(report.errors.is_empty(), "{fault:?}\n{report}");
    }
}

#[test]
fn wrong_data_ends_the_run() {
    assert!(failure(Fault::FlippedBit, Op::Read).contains("its checksum is wrong"));
    assert!(failure(Fault::WrongBlock, Op::Read).contains("holds data of file"));
    assert!(failure(Fault::LostWrite, Op::Mix).contains("not the last one"));
    assert!(failure(Fault::LostWrite, Op::Write).contains("not the last one"));
}

#[test]
fn wrong_protocol_ends_the_run() {
    assert!(failure(Fault::WrongXid, Op::Read).contains("not in flight"));
    assert!(failure(Fault::TwiceAnswered, Op::Read).contains("not in flight"));
    assert!(failure(Fault::LengthLie, Op::Read).contains("count 8191, data length 8192"));
    assert!(failure(Fault::Truncated, Op::Read).contains("protocol error"));
    assert!(failure(Fault::Truncated, Op::Write).contains("message ends early"));
    assert!(failure(Fault::Closed, Op::Read).contains("closed a connection"));
}

#[test]
fn refused_calls_are_counted() {
    for (fault, op, what) in [
        (Fault::IoError, Op::Read, "READ NFS3ERR_IO"),
        (Fault::IoError, Op::Write, "WRITE NFS3ERR_IO"),
        (Fault::ShortRead, Op::Read, "READ short"),
        (Fault::EarlyEof, Op::Read, "READ short"),
        (Fault::GarbageArgs, Op::Read, "READ RPC Accepted"),
        (Fault::TooWeak, Op::Write, "WRITE too weak"),
    ] {
        let report = counted(fault, op, Stability::FileSync);
        let found = report.errors.iter().find(|(key, _)| key.starts_with(what));
        assert!(found.is_some_and(|(_, &count)| count > 0), "{fault:?}\n{report}");
        assert!(report.warnings.iter().any(|warning| warning.starts_with("void")), "{report}");
    }
    let report = counted(Fault::NewVerifier, Op::Write, Stability::Unstable);
    assert!(
        report.server_restarts > 0 && report.warnings.iter().any(|warning| warning.contains("restarted")),
        "{report}"
    );
}

#[test]
fn second_run_uses_the_files_of_the_first_unless_they_are_wrong() {
    let first = plan(Fault::None, Op::Write);
    let layout = |plan: &Plan| {
        let (mut made, mut last) = (0, None);
        load::run(plan, &mut |progress| {
            if let load::Progress::Layout(layout) = progress {
                (made, last) = (layout.written, Some((layout.whole, layout.files, layout.done)));
            }
            Ok(())
        })
        .unwrap();
        let files = plan.files as u64;
        assert_eq!(last, Some((files, files, 1.0)));
        made
    };
    assert!(layout(&first) > 0);
    assert_eq!(layout(&first), 0);
    assert_eq!(layout(&Plan { op: Op::Read, block: 64 << 10, ..first.clone() }), 0);
    assert!(layout(&Plan { block: 512, ..first.clone() }) > 0, "another unit");
    assert!(layout(&Plan { size: 1 << 20, ..first }) > 0, "another size");
}

#[test]
fn demo_detects_wrong_data() {
    let target = |fault| format!("nfs://127.0.0.1:{}/x", fake::start(fault)).parse().unwrap();
    let mut last = 0.0;
    let rows = bench::demo::demo(&target(Fault::None), Duration::from_secs(1), &mut |step| {
        assert!(step.done >= last && step.done <= 1.0);
        last = step.done;
    });
    let rows = rows.unwrap();
    assert!(
        rows.len() >= 9 && rows.iter().all(|row| row.ops_per_s > 0.0 && row.latency.p99_ms > 0.0),
        "{rows:?}"
    );
    assert!(bench::demo::table(&rows).lines().count() > rows.len());
    for fault in [Fault::LostWrite, Fault::IoError] {
        let target = target(fault);
        // It begins with the 200th transfer, to which a machine that stands still does not come in a second.
        let wrong = [1, 5]
            .into_iter()
            .find_map(|budget| bench::demo::demo(&target, Duration::from_secs(budget), &mut |_| {}).err());
        let wrong = wrong.unwrap_or_else(|| panic!("{fault:?} went unnoticed"));
        assert!(!wrong.to_string().is_empty() && !wrong.to_string().contains('\n'), "{fault:?}: {wrong}");
    }
    let wrong =
        bench::demo::demo(&target(Fault::FlippedAlways), Duration::from_secs(1), &mut |_| {}).unwrap_err();
    assert!(wrong.to_string().starts_with("data mismatch: checked-0: 8388608 bytes of checksum"), "{wrong}");
}

#[test]
fn demo_waits_for_stalled_storage() {
    let target = format!("nfs://127.0.0.1:{}/x", fake::start(Fault::StallRemove)).parse().unwrap();
    let mut last = 0.0;
    let rows = bench::demo::demo(&target, Duration::from_secs(1), &mut |step| {
        assert!(step.done >= last && step.done <= 1.0);
        last = step.done;
    });
    let removes = rows.unwrap().pop().unwrap();
    assert!(removes.name.ends_with(": REMOVE") && removes.ops_per_s > 0.0, "{removes:?}");
}
