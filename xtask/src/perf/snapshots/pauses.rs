//! The pauses of clients while snapshots of many files come and go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::times::{Times, millis};
use super::volume::make_volume;
use super::writers::Writers;
use crate::ledger::client::{Client, How, MountResult, Stable};
use crate::managed::Managed;
use crate::server::Endpoint;

const ROUNDS: u32 = 8;
const SETTLES: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_secs(3);
/// The most that a volume may have.
const SNAPSHOTS: usize = 255;
const SPACE_BACK_MAX: Duration = Duration::from_secs(60);
/// The limit of the other volume, which must get it all the time.
const LIMIT_MIB_PER_S: f64 = 4.0;
const PIECE: usize = 64 << 10;

pub(super) fn measure(service: &Managed, files: usize) -> anyhow::Result<()> {
    make_volume(service, "many", "own", "20GiB")?;
    let mut writers = Writers::make(service, "many", files)?;
    create_beside(service, &mut writers)?;
    create_all(service, &mut writers, files)?;
    delete_all(service, &mut writers)
}

/// Makes snapshots beside writers, in turns with windows without one.
fn create_beside(service: &Managed, writers: &mut Writers) -> anyhow::Result<()> {
    let (mut without, mut with, mut ready) = <(Times, Times, Times)>::default();
    for round in 0..ROUNDS {
        sleep(SETTLES);
        without.extend(writers.beside(|| rest(WINDOW))?.1);
        let create = || {
            sleep(WINDOW / 3);
            ready.take(|| service.manage(&format!("snapshot create many round-{round}")))?;
            sleep(WINDOW / 3);
            Ok(())
        };
        with.extend(writers.beside(create)?.1);
    }
    for round in 0..ROUNDS {
        service.manage(&format!("snapshot delete many round-{round} --yes"))?;
    }
    println!("  writes of 8 clients, no snapshot made {}", pauses(&without));
    println!("  … while one is made                   {}", pauses(&with));
    println!("  ready after {:.0} ms, at most {:.0} ms", millis(ready.median()), millis(ready.max()));
    Ok(())
}

/// Makes as many snapshots as a volume may have, each with changes after it.
fn create_all(service: &Managed, writers: &mut Writers, files: usize) -> anyhow::Result<()> {
    let mut times = Times::default();
    for number in 0..SNAPSHOTS {
        times.take(|| service.manage(&format!("snapshot create many all-{number}")))?;
        writers.overwrite(number * files / SNAPSHOTS, files / SNAPSHOTS)?;
    }
    let more = service.manage("snapshot create many one-more");
    let refused = more.err().context("the volume has more snapshots than it may")?.to_string();
    ensure!(refused.contains(&SNAPSHOTS.to_string()), "{refused}");
    let (first, last) = (times.part(..10).median(), times.part(SNAPSHOTS - 10..).median());
    println!(
        "  {SNAPSHOTS} snapshots, {files} files changed: the first ten {:.0} ms, the last ten {:.0} ms, by the medians",
        millis(first),
        millis(last)
    );
    Ok(())
}

/// Deletes all of them beside writers of this volume and of one at its limit.
fn delete_all(service: &Managed, writers: &mut Writers) -> anyhow::Result<()> {
    let limit = format!("throughput={LIMIT_MIB_PER_S}MiB/s");
    service.manage(&format!("pool create limited --level plimsoll/custom --size 1GiB --limit {limit}"))?;
    make_volume(service, "limited", "limited", "1GiB")?;
    let ((alone, _), without) = writers.beside(|| at_limit(service, || rest(WINDOW * ROUNDS)))?;
    let delete = || {
        let began = Instant::now();
        for number in 0..SNAPSHOTS {
            service.manage(&format!("snapshot delete many all-{number} --yes --no-wait"))?;
        }
        while service.manage("snapshot list many")?.contains("all-") {
            sleep(Duration::from_millis(200));
        }
        Ok(began.elapsed())
    };
    let ((beside, took), with) = writers.beside(|| at_limit(service, delete))?;
    println!("  writes of 8 clients, none deleted     {}", pauses(&without));
    println!("  … while {SNAPSHOTS} are deleted             {}", pauses(&with));
    println!(
        "  all deleted after {:.1} s; another volume got {alone:.3} MiB/s before and {beside:.3} meanwhile",
        took.as_secs_f64()
    );
    let until = Instant::now() + SPACE_BACK_MAX;
    while snapshot_bytes(service)?.is_some_and(|bytes| bytes > 0) {
        ensure!(Instant::now() < until, "the space of deleted snapshots is not free");
        sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn snapshot_bytes(service: &Managed) -> anyhow::Result<Option<u64>> {
    let shown: serde_json::Value = serde_json::from_str(&service.manage("volume show many --json")?)?;
    Ok(shown["snapshot_bytes"].as_u64())
}

/// The MiB/s of a volume at its limit while `run` runs.
fn at_limit<T>(service: &Managed, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let MountResult { mut client, root } = Client::mount(&Endpoint::loopback(service.port, "/limited"))?;
    let file = client.create(&root, "data", How::Unchecked(0o644))?;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_done = &is_done;
        let load = scope.spawn(move || -> anyhow::Result<f64> {
            let data = vec![1; PIECE];
            // Takes the burst.
            let settled = Instant::now() + SETTLES;
            while Instant::now() < settled {
                client.write(&file, 0, &data, Stable::Unstable)?;
            }
            let (began, mut bytes) = (Instant::now(), 0.0);
            while !is_done.load(Ordering::Relaxed) {
                client.write(&file, 0, &data, Stable::Unstable)?;
                bytes += PIECE as f64;
            }
            Ok(bytes / f64::from(1 << 20) / began.elapsed().as_secs_f64())
        });
        sleep(SETTLES);
        let ended = run();
        is_done.store(true, Ordering::Relaxed);
        let rate = load.join().map_err(|_| anyhow::anyhow!("the load panicked"))??;
        Ok((rate, ended?))
    })
}

fn rest(time: Duration) -> anyhow::Result<()> {
    sleep(time);
    Ok(())
}

/// 99.9 % of the calls, and the longest, beside the aims.
fn pauses(times: &Times) -> String {
    format!(
        "{:>7.2} ms p99.9 (aim: 20), {:>7.2} ms at most (aim: 100), {} calls",
        millis(times.within(999)),
        millis(times.max()),
        times.count()
    )
}
