//! Opening small files on a mounted path and reading them whole.
//!
//! This process makes the load itself, with a thread for each operation in flight: fio does not time the opening of
//! files. The mount's attribute cache decides whether an open asks the server (`nocto`, `actimeo`). The client caches
//! the data after the first time, so that the opens dominate.

use std::fs::File;
use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use report::result::{ClientResult, Direction, Distribution, MachineUse, Operation, Part};
use rustix::fs::OFlags;

use super::plan;
use crate::driver::counters::{Clock, Completed, OpCounters};
use crate::driver::cpu::WindowCpu;
use crate::engine::built_in::SMALL_FILES;
use crate::error::Error;
use crate::job::Control;
use crate::job::{Job, LayoutProgress};
use crate::private_dir::PrivateDir;
use wire_client::Version;

const THREADS_MAX: usize = 1024;
const TELL_NS: u64 = 50_000_000;

pub(super) fn check(job: &Job) -> Result<(), Error> {
    let threads = job.clients * job.jobs * job.depth;
    if !(1..=THREADS_MAX).contains(&threads) {
        return Err(Error::Plan(format!(
            "{} clients × {} jobs with {} openings in flight are {threads} threads; 1 to {THREADS_MAX} are possible",
            job.clients, job.jobs, job.depth
        )));
    }
    if job.block == 0 || job.block > 16 << 20 {
        return Err(Error::Plan(format!("small files of {} bytes; 1 to 16 MiB are possible", job.block)));
    }
    if !job.attribute_cache {
        return Err(Error::Plan(
            "the mount decides whether attributes are cached (nocto, actimeo): measure two mounts, or the \
             server itself: nfs://HOST/EXPORT"
                .to_owned(),
        ));
    }
    Ok(())
}

pub(super) fn lay_out(
    files: &PrivateDir,
    job: &Job,
    progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
) -> Result<(), Error> {
    let size = usize::try_from(job.block).unwrap_or(0);
    let mut whole = 0;
    let all = job.clients as u64 * job.jobs as u64 * SMALL_FILES;
    for number in 0..job.clients * job.jobs {
        for file in 0..SMALL_FILES {
            let done = whole as f64 / all as f64;
            progress(LayoutProgress { done, whole, files: all, written: 0 })?;
            whole += 1;
            let name = name(job, number, file);
            if let Some(found) = files.file(&name)? {
                if found.metadata().is_ok_and(|found| found.len() == job.block) {
                    continue;
                }
                files.remove(&name)?;
            }
            let doing = || format!("write {}", files.path().join(&name).display());
            files.create(&name)?.write_all(&vec![0x5a; size]).map_err(Error::io(doing()))?;
        }
    }
    Ok(())
}

pub(super) fn run(files: &PrivateDir, job: &Job, control: &Control) -> Result<Part, Error> {
    let clock = Clock::new(control);
    let mut all = OpCounters::new(clock, job.clients, Version::V3);
    all.expect(0, false)?;
    let counters = thread::scope(|scope| {
        let mut running = Vec::new();
        for number in 0..job.clients * job.jobs {
            for place in 0..job.depth {
                let counters = all.clone();
                running.push(scope.spawn(move || load(files, job, number, place, control, counters)));
            }
        }
        let join = |thread: thread::ScopedJoinHandle<'_, Result<OpCounters, Error>>| {
            thread.join().map_err(|_| Error::Plan("a generator panicked".to_owned()))?
        };
        running.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    if control.is_stopped() {
        return Err(Error::Stopped);
    }
    counters.into_iter().try_for_each(|counters| all.merge(counters))?;
    let seconds = (clock.end - clock.start) as f64 / 1e9;
    let counts = all.operation(0).ok_or_else(|| Error::Plan("nothing was counted".to_owned()))?;
    let operation = Operation {
        name: "open-read".to_owned(),
        direction: Direction::Read,
        ops: counts.service.len(),
        bytes: counts.bytes,
        service: Distribution::from(&counts.service),
        response: None,
    };
    let client = |client: usize| ClientResult {
        name: plan::client(job.first_client + client),
        seconds: all.window(client),
        ..ClientResult::default()
    };
    Ok(Part {
        started: (control.begin + clock.start) as f64 / 1e9,
        seconds,
        operations: vec![operation],
        clients: (0..job.clients).map(client).collect(),
        usage: MachineUse {
            cpu_s: all.cpu.as_secs_f64(),
            busiest_thread: all.busiest.as_secs_f64() / seconds,
            ..MachineUse::default()
        },
        errors: all.errors,
        error_details: all.described,
        ..Part::default()
    })
}

fn load(
    files: &PrivateDir,
    job: &Job,
    number: usize,
    place: usize,
    control: &Control,
    mut counters: OpCounters,
) -> Result<OpCounters, Error> {
    let clock = counters.clock;
    let names: Vec<String> = (0..SMALL_FILES).map(|file| name(job, number, file)).collect();
    let mut buffer = Vec::with_capacity(usize::try_from(job.block).unwrap_or(0) + 1);
    while clock.now() == 0 && !control.is_stopped() {
        thread::sleep(Duration::from_millis(1));
    }
    let (mut told, mut untold, mut cpu) = (0, (0, 0), WindowCpu::default());
    for name in names.iter().cycle().skip(place * names.len() / job.depth) {
        let start = clock.now();
        cpu.update(start, (clock.start, clock.end));
        if start >= clock.end || control.is_stopped() {
            break;
        }
        let read = open_and_read(files, name, &mut buffer);
        let now = clock.now();
        match read {
            Ok(bytes) if bytes == job.block => {
                let service = now - start;
                let (client, direction) = (number / job.jobs, Direction::Read);
                let done = Completed {
                    operation: 0,
                    direction,
                    client,
                    service,
                    response: service,
                    bytes,
                    entries: 0,
                };
                counters.count(&done, now);
                untold = (untold.0 + 1, untold.1 + bytes);
            }
            Ok(bytes) => counters.error("open-read", "is short", &format!("{name} has {bytes} bytes")),
            Err(error) => {
                counters.error("open-read", "fails", &format!("{name}: {error}"));
                // An open that fails takes no time: without a pause the thread would spin.
                thread::sleep(Duration::from_millis(1));
            }
        }
        if now >= told + TELL_NS {
            control.count(now, untold.0, untold.1);
            (told, untold) = (now, (0, 0));
        }
    }
    counters.cpu = cpu.used();
    Ok(counters)
}

fn open_and_read(files: &PrivateDir, name: &str, buffer: &mut Vec<u8>) -> std::io::Result<u64> {
    buffer.clear();
    let mut file = File::from(files.open_with(name, OFlags::RDONLY)?);
    file.read_to_end(buffer).map(|bytes| bytes as u64)
}

fn name(job: &Job, number: usize, file: u64) -> String {
    plan::small_file(job.jobs, job.first_client * job.jobs + number, file)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::plan::tests::job;
    use super::*;

    fn small() -> Job {
        Job {
            block: 8192,
            first_client: 0,
            clients: 2,
            clients_total: 2,
            jobs: 2,
            depth: 2,
            attribute_cache: true,
            ..job()
        }
    }

    /// Leaves time for threads to start. The window is longer than a busy machine stands still.
    fn control() -> Control {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let begin = u64::try_from((now + Duration::from_millis(200)).as_nanos()).unwrap();
        Control::with_window(begin, Duration::from_millis(50), Duration::from_secs(2))
    }

    #[test]
    fn openings_are_counted_in_the_window_and_files_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let files = PrivateDir::open(dir.path()).unwrap();
        lay_out(&files, &small(), &mut |_| Ok(())).unwrap();
        let names = files.names().unwrap();
        assert_eq!(names.len(), 4 * 64);
        assert!(names.iter().all(|name| plan::is_file(name.to_str().unwrap())), "removed with the others");
        std::fs::write(dir.path().join("client0.0.1"), b"short").unwrap();
        lay_out(&files, &small(), &mut |_| Ok(())).unwrap();
        let control = control();
        let part = run(&files, &small(), &control).unwrap();
        let done = &part.operations[0];
        assert!(done.ops > 0 && done.bytes == done.ops * 8192, "{} {}", done.ops, done.bytes);
        assert_eq!((part.clients.len(), part.errors.len()), (2, 0), "{:?}", part.errors);
        assert!(part.clients.iter().all(|client| client.seconds.iter().any(|second| second.reads > 0)));
        assert!(control.total().0 > 0 && part.usage.cpu_s > 0.0);
    }

    #[test]
    fn file_that_is_cut_is_an_error_and_no_operation() {
        let dir = tempfile::tempdir().unwrap();
        let files = PrivateDir::open(dir.path()).unwrap();
        let job = Job { clients: 1, clients_total: 1, jobs: 1, depth: 1, ..small() };
        lay_out(&files, &job, &mut |_| Ok(())).unwrap();
        for file in files.names().unwrap() {
            std::fs::write(dir.path().join(file), b"cut").unwrap();
        }
        let part = run(&files, &job, &control()).unwrap();
        assert_eq!(part.operations[0].ops, 0);
        assert!(part.errors["open-read is short"] > 0, "{:?}", part.errors);
    }
}
