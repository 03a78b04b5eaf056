//! The EDA mix against a correct server, and against a faulty one.

mod fake;
#[path = "support/job.rs"]
mod job;
#[path = "support/tries.rs"]
mod tries;

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bench::eda::{self, Prepared};
use bench::engine::{Control, Job};
use bench::{Error, Target};
use report::result::{CaveatKind, Distribution, Operation, Part};
use report::scenario::{Stability, Work};
use wire_client::{Client, Identity};

use fake::{Fault, STALL};
use tries::{ensure, near, within_tries};

fn job(job_sets: u32) -> Job {
    Job { transfer: 1 << 20, attribute_cache: true, connections: 2, job_sets, ..job::job(Work::EdaBlend) }
}

fn target(fault: Fault) -> Target {
    format!("nfs://127.0.0.1:{}/x", fake::start(fault)).parse().unwrap()
}

fn identity() -> Identity {
    Identity::new(0, 0)
}

fn control() -> Control {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Control::new(u64::try_from((now + Duration::from_millis(50)).as_nanos()).unwrap())
}

/// A second of warm-up precedes the window.
fn measure(prepared: &mut Prepared, seconds: u64) -> Result<Part, Error> {
    let control = control();
    control.set_window(1, seconds);
    prepared.run(&control)
}

fn operation<'a>(part: &'a Part, name: &str) -> &'a Operation {
    part.operations.iter().find(|operation| operation.name == name).unwrap()
}

fn ops(part: &Part) -> u64 {
    part.operations.iter().map(|operation| operation.ops).sum()
}

fn above(times: &Distribution, limit: Duration) -> u64 {
    times.steps.iter().filter(|(ns, _)| u128::from(*ns) > limit.as_nanos()).map(|(_, count)| count).sum()
}

#[test]
fn set_runs_at_its_rate_with_its_mix() {
    let target = target(Fault::None);
    let mut told = Vec::new();
    let job = job(1);
    let mut prepared = Prepared::new(&target, &identity(), &job, &mut |done| {
        told.push(done.done);
        Ok(())
    })
    .unwrap();
    assert!(told.is_sorted() && told.iter().all(|done| (0.0..=1.0).contains(done)), "{told:?}");
    let part = within_tries(|| {
        let part = measure(&mut prepared, 4).unwrap();
        assert!(part.errors.is_empty() && part.caveats.is_empty(), "{:?}", part.error_details);
        // The machine may be busy, but no operation is skipped.
        near(ops(&part) as f64, 4.0 * 450.0, 0.05)?;
        let pace = part.pace.as_ref().unwrap();
        ensure(pace.processes.iter().all(|share| *share > 900), format!("{pace:?}"))?;
        Ok(part)
    });
    let all = ops(&part);
    for (name, percent) in [("stat", 26.0), ("write-file", 6.7), ("sequential-read", 16.7), ("mkdir", 0.67)] {
        let found = operation(&part, name).ops as f64 * 100.0 / all as f64;
        assert!((found - percent).abs() < 1.0, "{name} {found}");
    }
    let pace = part.pace.as_ref().unwrap();
    assert_eq!(pace.processes.len(), 5, "{pace:?}");
    // Of ten files each process knows the attributes after a second.
    let asked = operation(&part, "stat").ops + operation(&part, "access").ops;
    assert!(pace.absorbed > asked * 9 / 10, "{pace:?}");
    assert!(part.wire["READ"] > 4 * 75 && part.wire["COMMIT"] > 20 && part.wire["REMOVE"] > 0);
    assert!(!part.wire.contains_key("LOOKUP"), "{:?}", part.wire);
    let [client] = &part.clients[..] else { panic!("{:?}", part.clients) };
    let counted = client.seconds.iter().map(|second| second.reads + second.writes + second.others);
    assert_eq!((counted.sum::<u64>(), client.seconds.len()), (all, 4));
    assert_eq!(client.connections.iter().sum::<u64>(), all);
    assert!(part.usage.cpu_s > 0.0 && part.usage.busiest_thread > 0.0);
}

#[test]
fn without_a_cache_everything_is_on_the_wire_in_pieces_as_small_as_asked() {
    let job = Job { attribute_cache: false, transfer: 4096, ..job(1) };
    let mut prepared = Prepared::new(&target(Fault::None), &identity(), &job, &mut |_| Ok(())).unwrap();
    let part = measure(&mut prepared, 2).unwrap();
    assert!(part.errors.is_empty(), "{:?}", part.error_details);
    assert_eq!(part.pace.as_ref().unwrap().absorbed, 0);
    let stats = operation(&part, "stat").ops;
    assert!(part.wire["LOOKUP"].abs_diff(stats) <= 3 && part.wire["GETATTR"] > stats, "{:?}", part.wire);
    let read = operation(&part, "sequential-read").bytes + operation(&part, "read-file").bytes;
    assert!(part.wire["READ"] > read / 4096 * 9 / 10, "{:?}", part.wire);
}

#[test]
fn stall_shows_in_the_response_time_and_only_of_its_connection_in_the_service_time() {
    within_tries(|| {
        let mut prepared =
            Prepared::new(&target(Fault::Stall), &identity(), &job(2), &mut |_| Ok(())).unwrap();
        let part = measure(&mut prepared, 4).unwrap();
        assert!(part.errors.is_empty(), "{:?}", part.error_details);
        // Ten processes share two connections. Those of the one that is not answered have one operation under
        // way each, and as many more that should have begun meanwhile: 75 a second at least, for 0.4 s.
        let times: Vec<_> =
            part.operations.iter().map(|one| (&one.service, one.response.as_ref().unwrap())).collect();
        let service: Distribution = times.iter().map(|(service, _)| *service).collect();
        let response: Distribution = times.iter().map(|(_, response)| *response).collect();
        let (under_way, waited) = (above(&service, STALL / 2), above(&response, STALL / 2));
        // Five, and what a busy machine holds up besides.
        let is_told_apart = (1..=20).contains(&under_way) && waited > 3 * under_way;
        ensure(is_told_apart, format!("{waited} {under_way}"))?;
        // Nothing is skipped: all of it is done in the end.
        near(ops(&part) as f64, 4.0 * 900.0, 0.05)
    });
}

#[test]
fn generators_share_the_sets_and_use_again_what_is_there() {
    let target = target(Fault::None);
    let whole = Job { clients_total: 3, clients: 3, connections: 1, ..job(3) };
    let mut prepared = Prepared::new(&target, &identity(), &whole, &mut |_| Ok(())).unwrap();
    let names: Vec<_> =
        measure(&mut prepared, 1).unwrap().clients.into_iter().map(|client| client.name).collect();
    assert_eq!(names, ["plimsoll-bench-0", "plimsoll-bench-1", "plimsoll-bench-2"]);
    drop(prepared);
    let parts = [(0, 2), (2, 1)].map(|(first_client, clients)| {
        let job = Job { first_client, clients, ..whole.clone() };
        let mut done = Vec::new();
        let mut prepared = Prepared::new(&target, &identity(), &job, &mut |share| {
            done.push(share);
            Ok(())
        })
        .unwrap();
        measure(&mut prepared, 1).unwrap()
    });
    let counts =
        parts.each_ref().map(|part| (part.clients.len(), part.pace.as_ref().unwrap().processes.len()));
    assert_eq!(counts, [(2, 10), (1, 5)]);
    assert!(parts.iter().all(|part| part.errors.is_empty()));
    eda::clear(&target, &identity()).unwrap();
    let mut client = Client::mount(&target, &identity()).unwrap();
    let top = client.walk("plimsoll-bench").unwrap();
    assert_eq!(client.list(&top).unwrap(), []);
    eda::clear(&target, &identity()).unwrap();
}

#[test]
fn fault_is_counted_or_ends_the_run() {
    let run = |fault, job: &Job| {
        let mut prepared = Prepared::new(&target(fault), &identity(), job, &mut |_| Ok(()))?;
        measure(&mut prepared, 2)
    };
    let synced = Job { stability: Stability::FileSync, ..job(1) };
    for (fault, what) in
        [(Fault::IoError, "NFS3ERR_IO"), (Fault::ShortRead, "short"), (Fault::TooWeak, "too weak")]
    {
        within_tries(|| {
            let part = run(fault, &synced).unwrap();
            let is_counted = part.errors.keys().any(|key| key.ends_with(what));
            ensure(is_counted && !part.error_details.is_empty(), format!("{fault:?} {:?}", part.errors))?;
            // The operation that failed does not count, and the process goes on.
            ensure(ops(&part) > 450, format!("{fault:?} {}", ops(&part)))
        });
    }
    let part = run(Fault::NewVerifier, &job(1)).unwrap();
    assert!(part.caveats.iter().any(|doubt| doubt.kind == CaveatKind::Void), "{:?}", part.caveats);
    for (fault, wrong) in [
        (Fault::WrongXid, "not in flight"),
        (Fault::TwiceAnswered, "not in flight"),
        (Fault::Closed, "closed a connection"),
        (Fault::LengthLie, "bytes sent"),
        (Fault::WrongBlock, "holds data of file"),
    ] {
        let told = run(fault, &job(1)).map(|part| part.errors).unwrap_err().to_string();
        assert!(told.contains(wrong), "{fault:?}: {told}");
    }
    let refused = run(Fault::None, &Job { file_scale_thousandths: 0, ..job(1) }).unwrap_err().to_string();
    assert_eq!(refused, "the file scale in thousandths is 0; allowed is 1 to 1000");
}

#[test]
fn load_can_be_stopped_and_its_window_set_while_it_runs() {
    let mut prepared = Prepared::new(&target(Fault::None), &identity(), &job(1), &mut |_| Ok(())).unwrap();
    let control = control();
    let stopped = thread::scope(|scope| {
        let running = scope.spawn(|| prepared.run(&control));
        thread::sleep(Duration::from_millis(500));
        control.stop();
        running.join().unwrap()
    });
    assert_eq!(stopped.unwrap(), Part::default());
    let control = self::control();
    let (told, part) = thread::scope(|scope| {
        let running = scope.spawn(|| prepared.run(&control));
        let patience = Instant::now() + Duration::from_secs(2);
        while control.total().0 <= 50 && Instant::now() < patience {
            thread::sleep(Duration::from_millis(10));
        }
        let told = control.total().0;
        control.set_window(3, 2);
        (told, running.join().unwrap())
    });
    assert!(told > 50, "{told}");
    let part = part.unwrap();
    assert!((part.seconds, ops(&part) > 300) == (2.0, true), "{}", ops(&part));
    assert!((control.begin as f64 / 1e9 + 3.0 - part.started).abs() < 0.001);
}

/// Measures a real server, from the variables `EDA_TARGET`, `EDA_JOB_SETS` and `EDA_FILE_SCALE`
/// (thousandths).
#[test]
#[ignore = "needs a server"]
fn real_server() {
    let target: Target = std::env::var("EDA_TARGET").expect("EDA_TARGET").parse().unwrap();
    let number = |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (sets, file_scale_thousandths) = (number("EDA_JOB_SETS", 4), number("EDA_FILE_SCALE", 1));
    for attribute_cache in [true, false] {
        let job = Job { attribute_cache, connections: 4, file_scale_thousandths, ..job(sets) };
        let begun = Instant::now();
        let mut prepared = Prepared::new(&target, &identity(), &job, &mut |_| Ok(())).unwrap();
        println!("prepared in {:.1} s", begun.elapsed().as_secs_f64());
        let part = measure(&mut prepared, 5).unwrap();
        assert!(part.errors.is_empty() && part.caveats.is_empty(), "{:?}", part.error_details);
        let ops: u64 = part.operations.iter().map(|operation| operation.ops).sum();
        let slowest = part.pace.as_ref().unwrap().processes.iter().min().unwrap();
        let calls: u64 = part.wire.values().sum();
        println!(
            "{sets} sets, cache {attribute_cache}: {:.0} ops/s, {:.0} calls/s, slowest process {slowest} ‰, late {}, \
             CPU {:.2} µs/op, {:.2} µs/call",
            ops as f64 / part.seconds,
            calls as f64 / part.seconds,
            part.usage.late,
            part.usage.cpu_s * 1e6 / ops as f64,
            part.usage.cpu_s * 1e6 / calls as f64
        );
        for operation in &part.operations {
            let ms = |latency: report::result::Latency| (latency.mean_ms, latency.p99_ms, latency.max_ms);
            let response = operation.response.as_ref().unwrap();
            println!(
                "{:16} {:8} service {:.3?} response {:.3?}",
                operation.name,
                operation.ops,
                ms(operation.service.latency()),
                ms(response.latency())
            );
        }
        println!("{:?}", part.wire);
    }
}
