//! Scenarios with generators of known results.

#[path = "support/tries.rs"]
mod tries;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::Error;
use bench::engine::{Control, Engine, Job, LayoutProgress, moment};
use bench::observer::{Observer, Sample};
use bench::run::{
    Arm, GeneratorGroup, Measured, Phase, Progress, ProgressListener, RunRequest, Thoroughness,
};
use report::result::{
    CaveatKind, ClientResult, Direction, Distribution, Limits, MachineUse, Operation, Part, Run, Second,
    TargetFacts, VolumeFacts,
};
use report::scenario::{Cache, Preset, Scenario};

use tries::{ensure, within_tries};

const SCENARIO: &str = r#"
name = "test"
title = "a test"

[[series]]
name = "mixes"
blocks = ["8k"]
reads = [100, 50]
clients = [2]
jobs = 4
connections = [2]
depths = [3]
working_set = "1g"
"#;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Fault {
    #[default]
    None,
    Errors,
    Dies,
    WrongMix,
    Busy,
    /// Two percent of the operations are late.
    Late,
    Climbs,
}

struct Fake {
    rate: u64,
    fault: Fault,
    job: Option<Job>,
    jobs: Arc<Mutex<Vec<Job>>>,
}

impl Engine for Fake {
    fn facts(&mut self) -> Result<TargetFacts, Error> {
        Ok(TargetFacts { target: "fake".to_owned(), free_bytes: Some(1 << 40), ..TargetFacts::default() })
    }

    fn prepare(
        &mut self,
        job: &Job,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(), Error> {
        progress(LayoutProgress { done: 1.0, ..LayoutProgress::default() })?;
        self.jobs.lock().unwrap().push(job.clone());
        self.job = Some(job.clone());
        Ok(())
    }

    fn run(&mut self, control: &Control) -> Result<Part, Error> {
        let epoch = moment(control.begin);
        std::thread::sleep(epoch.saturating_duration_since(Instant::now()));
        if self.fault == Fault::Dies {
            return Err(Error::Protocol("it died".to_owned()));
        }
        let job = self.job.take().unwrap();
        let (mut counted, clients) = (0, job.clients as u64);
        loop {
            let now = u64::try_from(epoch.elapsed().as_nanos()).unwrap();
            while counted <= now / 1_000_000_000 {
                let climbed = if self.fault == Fault::Climbs { counted + 1 } else { 100 };
                control.count(counted * 1_000_000_000, self.rate * clients * climbed / 100, 0);
                counted += 1;
            }
            if control.is_stopped() {
                return Err(Error::Stopped);
            }
            if now >= control.window().1 {
                return Ok(self.part(&job, control));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn accepts_late_window(&self) -> bool {
        true
    }

    fn clear(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Fake {
    fn part(&self, job: &Job, control: &Control) -> Part {
        let (start, end) = control.window();
        let seconds = (end - start) / 1_000_000_000;
        let each = self.rate * seconds;
        let percent = u64::from(job.read_percent) / if self.fault == Fault::WrongMix { 2 } else { 1 };
        let reads = each * percent / 100;
        let operation = |name: &str, direction, ops: u64| Operation {
            name: name.to_owned(),
            direction,
            ops,
            bytes: ops * job.block,
            service: Distribution { steps: vec![(1_000_000, ops)], sum_ns: ops * 1_000_000 },
            response: None,
        };
        let clients = job.clients as u64;
        let second = Second { reads: self.rate * percent / 100, ..Second::default() };
        let client = |client: usize| ClientResult {
            name: format!("client-{}", job.first_client + client),
            machine: 0,
            endpoint: None,
            seconds: vec![second; usize::try_from(seconds).unwrap()],
            connections: vec![each / 2; job.connections],
        };
        Part {
            started: control.begin as f64 / 1e9,
            seconds: seconds as f64,
            operations: vec![
                operation("read", Direction::Read, reads * clients),
                operation("write", Direction::Write, (each - reads) * clients),
            ],
            clients: (0..job.clients).map(client).collect(),
            usage: MachineUse {
                late: if self.fault == Fault::Late { each * clients / 50 } else { 0 },
                busiest_thread: if self.fault == Fault::Busy { 0.95 } else { 0.1 },
                ..MachineUse::default()
            },
            errors: if self.fault == Fault::Errors {
                [("READ NFS3ERR_IO".to_owned(), 3)].into()
            } else {
                [].into()
            },
            ..Part::default()
        }
    }
}

/// Stops the run after `stop_after` repetitions.
struct Notes<'a> {
    measured: Vec<String>,
    phases: Vec<Phase>,
    stop_after: usize,
    stop: &'a AtomicBool,
}

impl ProgressListener for Notes<'_> {
    fn progress(&mut self, progress: &Progress<'_>) {
        assert!((0.0..=1.0).contains(&progress.done));
        self.phases.push(progress.status.phase);
    }

    fn measured(&mut self, measured: &Measured<'_>) {
        self.measured.push(measured.label.to_owned());
        assert!((1..=measured.count.planned).contains(&measured.count.done));
        if self.measured.len() >= self.stop_after {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

struct Server {
    connections: u64,
    hits: u64,
    asked: u64,
    /// Rise of the limit with each sample.
    limit_step: u64,
}

impl Observer for Server {
    fn facts(&mut self) -> Result<VolumeFacts, Error> {
        Ok(VolumeFacts { name: "v".to_owned(), ..VolumeFacts::default() })
    }

    fn sample(&mut self) -> Result<Sample, Error> {
        self.asked += 1;
        Ok(Sample {
            connections: self.connections,
            ops: self.asked * 1000,
            throttle_s: self.asked as f64,
            reads_from_memory: self.asked * self.hits,
            reads_from_storage: self.asked * (100 - self.hits),
            limits: Limits { iops: Some(1000 + self.asked * self.limit_step), ..Limits::default() },
            ..Sample::default()
        })
    }
}

fn request(text: &str) -> RunRequest {
    let scenario: Scenario = text.parse().unwrap();
    let thoroughness =
        Thoroughness { repetitions: 2, warm_up_min: 0, warm_up_max: 0, time: 1, ..Preset::Quick.into() };
    RunRequest { scenario, preset: Preset::Quick, thoroughness, seed: 1, working_set_max: None }
}

fn member(rate: u64, fault: Fault, jobs: &Arc<Mutex<Vec<Job>>>) -> Box<dyn Engine> {
    Box::new(Fake { rate, fault, job: None, jobs: Arc::clone(jobs) })
}

fn run(
    request: &RunRequest,
    members: Vec<Box<dyn Engine>>,
    observer: Option<Server>,
    stop_after: usize,
) -> (Run, Vec<String>) {
    let stop = AtomicBool::new(false);
    let observer = observer.map(|server| Box::new(server) as Box<dyn Observer>);
    let mut arms = [Arm { generators: GeneratorGroup::new(members).unwrap(), observer }];
    let mut notes = Notes { measured: Vec::new(), phases: Vec::new(), stop_after, stop: &stop };
    let mut runs = bench::run::run(request, &mut arms, &stop, &mut notes).unwrap();
    assert!(notes.phases.iter().any(|phase| matches!(phase, Phase::Measuring(_))) || stop_after == 0);
    (runs.remove(0), notes.measured)
}

fn simple(fault: Fault) -> Run {
    run(&request(SCENARIO), vec![member(1000, fault, &Arc::default())], None, usize::MAX).0
}

fn kinds(run: &Run) -> Vec<CaveatKind> {
    run.cells.iter().flat_map(|cell| cell.caveats.iter().map(|doubt| doubt.kind)).collect()
}

#[test]
fn every_point_is_measured_and_written() {
    let jobs = Arc::default();
    let (run, measured) = run(&request(SCENARIO), vec![member(1000, Fault::None, &jobs)], None, usize::MAX);
    assert_eq!(run.cells.len(), 2);
    for (cell, reads) in run.cells.iter().zip([2000.0, 1000.0]) {
        assert_eq!(cell.measurements.len(), 2);
        assert_eq!((cell.summary.read_iops.median, cell.summary.iops.median), (reads, 2000.0));
        assert_eq!(cell.summary.mib_per_s.median, 2000.0 / 128.0);
        assert_eq!(cell.summary.latency.p99_ms, 1.0);
        assert!(cell.caveats.is_empty(), "{:?}", cell.caveats);
    }
    // Each round has every point once.
    assert_eq!(measured.len(), 4);
    assert!(measured.chunks(2).all(|round| round[0] != round[1]));
    let job = jobs.lock().unwrap()[0].clone();
    assert_eq!((job.clients, job.jobs, job.connections, job.depth), (2, 4, 2, 3));
    // 1 GiB does not fit into what a quick run has time for: 768 MiB over 8 jobs.
    assert_eq!(job.file_size, 96 << 20);
    assert!(run.scaled.iter().any(|text| text.contains("768 MiB instead of 1 GiB")), "{:?}", run.scaled);
    let text = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
}

#[test]
fn clients_are_dealt_to_members_and_merged() {
    let (fast, slow) = (Arc::default(), Arc::default());
    let members = vec![member(1000, Fault::None, &fast), member(500, Fault::None, &slow)];
    let (run, _) = run(&request(SCENARIO), members, None, usize::MAX);
    let (ours, theirs) = (fast.lock().unwrap()[0].clone(), slow.lock().unwrap()[0].clone());
    assert_eq!((ours.first_client, ours.clients, theirs.first_client, theirs.clients), (0, 1, 1, 1));
    let measured = &run.cells[0].measurements[0];
    assert_eq!(measured.ops(None), 1500);
    assert_eq!(measured.service(None).count(), 1500);
    let clients: Vec<_> =
        measured.clients.iter().map(|client| (client.name.as_str(), client.machine)).collect();
    assert_eq!(clients, [("client-0", 0), ("client-1", 1)]);
    assert_eq!(measured.machines.len(), 2);
}

#[test]
fn faults_take_the_result_away_or_are_told() {
    for (fault, kind, words) in [
        (Fault::Errors, CaveatKind::Void, "3 calls failed"),
        (Fault::Dies, CaveatKind::Void, "it died"),
        (Fault::WrongMix, CaveatKind::Void, "50.0 % were reads instead of 100 %"),
        (Fault::Busy, CaveatKind::ClientLimited, "95.0 % of the time a thread of the generator was busy"),
        (Fault::Late, CaveatKind::ClientLimited, "2.0 % of the operations were sent late"),
    ] {
        let run = simple(fault);
        assert!(kinds(&run).contains(&kind), "{fault:?} {:?}", run.cells);
        assert!(run.cells[0].caveats[0].text.contains(words), "{fault:?} {:?}", run.cells[0].caveats);
        assert_eq!(run.cells[0].summary.iops.median == 0.0, kind == CaveatKind::Void);
    }
    assert!(simple(Fault::Dies).ended_early.is_some_and(|why| why.contains("in a row")));
}

#[test]
fn rate_reaches_engines_and_is_compared_with_result() {
    let asked = |rate| {
        let (mut request, jobs) = (request(SCENARIO), Arc::default());
        request.scenario.series[0].rate = Some(rate);
        let run = run(&request, vec![member(1000, Fault::None, &jobs)], None, usize::MAX).0;
        assert!(jobs.lock().unwrap().iter().all(|job| job.rate == Some(rate)));
        run.cells.into_iter().map(|cell| cell.caveats).collect::<Vec<_>>()
    };
    // Two clients do 1000 each.
    assert!(asked(2100.0).iter().all(Vec::is_empty));
    for doubts in asked(2200.0) {
        let [doubt] = doubts.as_slice() else { panic!("{doubts:?}") };
        assert_eq!(doubt.kind, CaveatKind::Other);
        assert_eq!(doubt.text, "delivered 2000.0 of 2200 operations a second asked");
    }
}

#[test]
fn server_counters_qualify_results() {
    let asked = |connections, hits, cache| {
        let mut request = request(SCENARIO);
        request.scenario.series[0].cache = cache;
        let server = Server { connections, hits, asked: 0, limit_step: 0 };
        run(&request, vec![member(1000, Fault::None, &Arc::default())], Some(server), usize::MAX).0
    };
    // The server is asked later than the window begins or ends where the machine stands still then.
    within_tries(|| {
        let good = asked(4, 50, Cache::Any);
        assert!(kinds(&good).is_empty(), "{:?}", good.cells);
        let server = good.cells[0].measurements[0].server.ok_or("the server was not asked in time")?;
        assert_eq!((server.ops, server.throttle_s, server.cache_hit_ratio), (1000, 1.0, Some(0.5)));
        let window = good.cells[0].measurements[0].seconds;
        let is_in_time = (window..window + 0.5).contains(&(server.seconds + 0.05));
        ensure(is_in_time, format!("{} {window}", server.seconds))
    });
    assert!(asked(3, 50, Cache::Any).cells[0].caveats[0].text.contains("counted 3 connections, not 4"));
    assert!(kinds(&asked(4, 94, Cache::Warm)).contains(&CaveatKind::CacheMixed));
    assert!(kinds(&asked(4, 96, Cache::Warm)).is_empty());
    assert!(kinds(&asked(4, 6, Cache::Cold)).contains(&CaveatKind::CacheMixed));
    assert!(kinds(&asked(4, 4, Cache::Cold)).is_empty());
}

#[test]
fn being_stopped_keeps_what_was_measured() {
    let members = vec![member(1000, Fault::None, &Arc::default())];
    let (run, measured) = run(&request(SCENARIO), members, None, 1);
    assert_eq!(measured.len(), 1);
    let has: Vec<usize> = run.cells.iter().map(|cell| cell.measurements.len()).collect();
    assert_eq!(has.iter().sum::<usize>(), 1);
    assert!(run.ended_early.is_some() && run.caveats.iter().any(|doubt| doubt.text.contains("ended before")));
    // A point without a figure says why.
    for cell in &run.cells {
        let is_void = cell.caveats.iter().any(|doubt| doubt.kind == CaveatKind::Void);
        assert_eq!(is_void, cell.measurements.is_empty(), "{:?}", cell.caveats);
    }
}

#[test]
fn limits_that_change_in_the_window_are_a_doubt() {
    let measured = |limit_step| {
        let mut request = request(SCENARIO);
        request.scenario.series[0].cache = Cache::Any;
        let server = Server { connections: 4, hits: 50, asked: 0, limit_step };
        let mut run =
            run(&request, vec![member(1000, Fault::None, &Arc::default())], Some(server), usize::MAX).0;
        run.cells.swap_remove(0).measurements.swap_remove(0)
    };
    let (same, changed) = (measured(0), measured(1));
    assert_eq!((same.server.unwrap().limits_before, same.caveats.as_slice()), (None, &[][..]));
    assert!(changed.server.unwrap().limits_before.is_some());
    let [doubt] = changed.caveats.as_slice() else { panic!("{changed:?}") };
    assert!(
        doubt.text.starts_with("the limits changed while it was measured from all operations 1,00"),
        "{doubt:?}"
    );
}

#[test]
fn window_opens_when_the_rate_is_steady_or_after_the_longest_warm_up() {
    let warmed_up = |fault| {
        let mut request = request(SCENARIO);
        request.scenario.series[0].reads = vec![100];
        request.thoroughness =
            Thoroughness { repetitions: 1, warm_up_min: 30, warm_up_max: 33, ..request.thoroughness };
        let run = run(&request, vec![member(1000, fault, &Arc::default())], None, usize::MAX).0;
        let measured = run.cells[0].measurements[0].clone();
        (measured.steady, measured.warm_up_s, kinds(&run))
    };
    std::thread::scope(|scope| {
        let steady = scope.spawn(|| warmed_up(Fault::None));
        // What is decided after 30 and 33 s comes later where the machine stands still then.
        let (is_steady, warm_up_s, doubts) = warmed_up(Fault::Climbs);
        assert_eq!((is_steady, doubts), (Some(false), vec![CaveatKind::NotSteady]));
        assert!((35.0..38.0).contains(&warm_up_s), "{warm_up_s}");
        let (is_steady, warm_up_s, doubts) = steady.join().unwrap();
        assert_eq!((is_steady, doubts), (Some(true), vec![]));
        assert!((32.0..35.0).contains(&warm_up_s), "{warm_up_s}");
    });
}

#[test]
fn arms_are_measured_in_turn() {
    let stop = AtomicBool::new(false);
    let arm = |rate| {
        let generators = GeneratorGroup::new(vec![member(rate, Fault::None, &Arc::default())]).unwrap();
        Arm { generators, observer: None }
    };
    let mut arms = [arm(1000), arm(900)];
    let mut notes = Notes { measured: Vec::new(), phases: Vec::new(), stop_after: usize::MAX, stop: &stop };
    let runs = bench::run::run(&request(SCENARIO), &mut arms, &stop, &mut notes).unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1].cells[0].summary.iops.median, 1800.0);
    assert!(notes.measured.chunks(2).all(|pair| pair[0] == pair[1]), "{:?}", notes.measured);
}
