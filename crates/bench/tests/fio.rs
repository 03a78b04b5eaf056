//! The engine for mounted paths with the installed fio.

#[path = "support/job.rs"]
mod job;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bench::Error;
use bench::engine::{self, Control, Engine, Job};
use bench::fio::{Jobs, run_in};
use report::result::{CaveatKind, Direction, Part};
use report::scenario::{Cache, Pattern, Stability, Work};

fn job() -> Job {
    Job { jobs: 2, depth: 4, file_size: 2 << 20, seed: 7, ..job::job(Work::Transfers) }
}

fn soon() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_millis(200);
    u64::try_from(now.as_nanos()).unwrap()
}

fn measure(directory: &Path, job: &Job, start_s: u64, length_s: u64) -> (Part, Control) {
    let mut engine = engine::Path::open(directory).unwrap();
    assert!(!engine.accepts_late_window());
    engine.prepare(job, &mut |_| Ok(())).unwrap();
    let control = Control::new(soon());
    control.set_window(start_s, length_s);
    let part = engine.run(&control).unwrap();
    (part, control)
}

#[test]
fn reads_writes_and_mixes_are_measured() {
    let directory = tempfile::tempdir().unwrap();
    for (percent, pattern, stability) in [
        (100, Pattern::Shuffled, Stability::Unstable),
        (0, Pattern::Random, Stability::DataSync),
        (50, Pattern::Random, Stability::Unstable),
        (75, Pattern::Sequential, Stability::FileSync),
    ] {
        let job = Job { read_percent: percent, pattern, stability, ..job() };
        let (part, control) = measure(directory.path(), &job, 1, 2);
        assert_eq!(part.errors.values().sum::<u64>(), 0, "{:?}", part.error_details);
        let of = |direction| {
            let wanted = part.operations.iter().filter(|operation| operation.direction == direction);
            wanted.map(|operation| operation.ops).sum::<u64>()
        };
        let (reads, writes) = (of(Direction::Read), of(Direction::Write));
        assert!((reads > 0) == (percent > 0) && (writes > 0) == (percent < 100), "{reads} {writes}");
        let share = reads as f64 / (reads + writes) as f64 * 100.0;
        assert!((share - f64::from(percent)).abs() < 35.0, "{share} instead of {percent}");
        for operation in &part.operations {
            // fio counts bytes a moment before it begins to count times.
            assert!(
                operation.bytes.abs_diff(operation.ops * 8192) <= 8 * 8192,
                "{} {}",
                operation.bytes,
                operation.ops
            );
            assert_eq!(operation.service.count(), operation.ops);
            assert!(operation.service.latency().p50_ms > 0.0);
        }
        let seconds = &part.clients[0].seconds;
        assert_eq!(seconds.iter().map(|second| second.reads).sum::<u64>(), reads);
        // A slow disk may take its time for what is in flight, and for the last fsync.
        assert!(seconds.len() >= 2 && (1.9..60.0).contains(&part.seconds), "{} s", part.seconds);
        // The window begins after the warm-up, and after what fio needs to start on a busy machine.
        let late = part.started - control.begin as f64 / 1e9 - 1.0;
        assert!((-0.2..30.0).contains(&late), "{late} s late");
        assert!(part.usage.cpu_s > 0.0 && part.usage.busiest_thread > 0.0);
    }
}

#[test]
fn layout_that_is_stopped_leaves_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut engine = engine::Path::open(directory.path()).unwrap();
    let job = Job { file_size: 1 << 30, ..job() };
    let stopped = engine.prepare(&job, &mut |_| Err(Error::Stopped));
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    let left = std::fs::read_dir(directory.path().join("plimsoll-bench")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn files_are_made_once_whole_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let mut engine = engine::Path::open(directory.path()).unwrap();
    let facts = engine.facts().unwrap();
    assert_eq!((facts.protocol.as_str(), facts.co_located), ("mounted path", true));
    assert!(facts.generator.starts_with("fio-") && facts.mount.is_some() && facts.free_bytes.is_some());

    let mut shares = Vec::new();
    engine
        .prepare(&job(), &mut |share| {
            shares.push(share.done);
            Ok(())
        })
        .unwrap();
    assert_eq!(shares.last(), Some(&1.0));
    let files = directory.path().join("plimsoll-bench");
    let inode = |name: &str| std::fs::metadata(files.join(name)).map(|found| found.ino()).unwrap();
    let before = inode("client0.0.0");
    // One is as it should be, one has a hole where there was data.
    let file = std::fs::File::options().write(true).open(files.join("client0.1.0")).unwrap();
    file.set_len(0).and_then(|()| file.set_len(2 << 20)).unwrap();
    let holed = inode("client0.1.0");
    engine.prepare(&Job { cache: Cache::Warm, ..job() }, &mut |_| Ok(())).unwrap();
    assert_eq!(inode("client0.0.0"), before);
    assert_ne!(inode("client0.1.0"), holed);

    let names = std::fs::read_dir(&files).unwrap().count();
    assert_eq!(names, 2, "nothing but the files");
    engine.clear().unwrap();
    assert!(!files.exists());
}

#[test]
fn impossible_job_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let mut engine = engine::Path::open(directory.path()).unwrap();
    let control = Control::new(soon());
    assert!(engine.run(&control).unwrap_err().to_string().contains("nothing was prepared"));
    engine.prepare(&job(), &mut |_| Ok(())).unwrap();
    assert!(engine.run(&control).unwrap_err().to_string().contains("window"));
    let huge = Job { file_size: 1 << 50, ..job() };
    let refusal = engine.prepare(&huge, &mut |_| Ok(())).unwrap_err().to_string();
    assert!(refusal.contains("2 files of 1024 TiB") && refusal.contains("smaller working set"), "{refusal}");
    assert!(engine::Path::open(&directory.path().join("nowhere")).is_err());
}

#[test]
fn stopped_load_ends_early_with_caveats() {
    let directory = tempfile::tempdir().unwrap();
    let mut engine = engine::Path::open(directory.path()).unwrap();
    engine.prepare(&Job { connections: 4, ..job() }, &mut |_| Ok(())).unwrap();
    let control = Control::new(soon());
    control.set_window(0, 60);
    let begin = Instant::now();
    let part = std::thread::scope(|scope| {
        let running = scope.spawn(|| engine.run(&control));
        while (0..60).all(|second| control.second(second).0 == 0) {
            assert!(begin.elapsed() < Duration::from_secs(30), "nothing is told while it runs");
            std::thread::sleep(Duration::from_millis(50));
        }
        control.stop();
        running.join().unwrap().unwrap()
    });
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    let doubt = part.caveats.iter().find(|doubt| doubt.text.contains("4 connections"));
    assert_eq!(doubt.map(|doubt| doubt.kind), Some(CaveatKind::Other));
}

#[test]
fn given_jobs_run_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let jobs = Jobs::from_command(
        "fio --name=reads --directory=/nowhere --rw=randread --bs=4k --size=1m --numjobs=2 --loops=2 --group_reporting \
         --name=writes --stonewall --filename=/nowhere/there --rw=write --bs=64k --size=2m",
    )
    .unwrap();
    let measured = run_in(&jobs, directory.path(), &mut |_| ()).unwrap();
    let [reads, writes] = measured.as_slice() else { panic!("{measured:?}") };
    let figures = |at: &bench::fio::Measured| {
        let [operation] = at.operations.as_slice() else { panic!("{at:?}") };
        (at.name.clone(), operation.ops, operation.bytes, operation.service.count(), at.error.clone())
    };
    assert_eq!(figures(reads), ("reads".to_owned(), 1024, 4 << 20, 1024, None));
    assert_eq!(figures(writes), ("writes".to_owned(), 32, 2 << 20, 32, None));
    assert_eq!(std::fs::metadata(directory.path().join("there")).unwrap().len(), 2 << 20);
    assert!(directory.path().join("reads.1.0").exists());

    let wrong = Jobs::from_command("fio --name=a --no_such_option=1 --size=1m").unwrap();
    let refusal = run_in(&wrong, directory.path(), &mut |_| ()).unwrap_err().to_string();
    assert!(refusal.contains("no_such_option"), "{refusal}");
    let failing = Jobs::from_file("[a]\nrw=read\nsize=1m\nfilename=absent\nallow_file_create=0\n").unwrap();
    let failed = run_in(&failing, directory.path(), &mut |_| ()).unwrap();
    assert!(failed[0].error.as_ref().unwrap().contains("allow_file_create"), "{failed:?}");
}
