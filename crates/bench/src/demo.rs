//! Several loads in a row.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nfs_wire::v3::StableHow;
use report::result::{Distribution, Latency};
use serde::Serialize;

use wire_client::{Client, Handle, Identity, Target};

use crate::checksum::Crc32;
use crate::error::Error;
use crate::load::{self, BlockOrder, Kind, Op, Plan, Progress, Report};
use crate::pattern::{FileOffset, Payload};

const DIRECTORY: &str = "plimsoll-demo";
const FILES: u32 = 4;
const FILE_SIZE: u64 = 8 << 20;
const TRANSFER: u32 = 256 << 10;
/// A shorter load has no meaningful result.
const LOAD_MIN: Duration = Duration::from_millis(300);
/// Bounds a load while the storage does not answer.
const LOAD_MAX: Duration = Duration::from_secs(20);
/// Bounds the histogram, in nanoseconds.
const LATENCY_MAX_NS: u64 = 120_000_000_000;

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub ops_per_s: f64,
    /// MiB (2^20 bytes) a second; zero for metadata.
    pub mib_per_s: f64,
    pub latency: Latency,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub name: &'static str,
    /// A share of 1.
    pub done: f64,
}

struct Part {
    name: &'static str,
    plan: Plan,
    kinds: &'static [Kind],
}

/// Writes files and compares checksums, then reads, mixes and works on metadata, for about `budget`.
///
/// # Errors
/// Any mismatch, any refused call, and every error that ends a load.
pub fn demo(target: &Target, budget: Duration, progress: &mut dyn FnMut(Step)) -> Result<Vec<Row>, Error> {
    let identity = Identity::new(0, 0);
    let mut client = Client::mount(target, &identity)?;
    let limits = client.limits()?;
    let largest = limits.read_max.min(1 << 20) / 4096 * 4096;
    let parts = parts(target, budget, u64::from(largest.max(4096)));
    let steps = parts.len() as f64 + 2.0;

    progress(Step { name: "write", done: 0.0 });
    let root = client.root();
    let dir = client.make_dir(&root, DIRECTORY, 0o755)?;
    let transfer = TRANSFER.min(limits.write_max).min(limits.read_max) / 4096 * 4096;
    let (written, row) = write_files(&mut client, &dir, transfer.max(4096))?;
    let mut rows = vec![row];
    progress(Step { name: "verify by checksum", done: 1.0 / steps });
    // Another connection, so that reads come from the server and not from this client.
    let mut reader = Client::mount(target, &identity)?;
    rows.push(compare(&mut reader, transfer.max(4096), &written)?);
    for index in 0..FILES {
        client.remove(&dir, &file_name(index))?;
    }
    client.remove_dir(&root, DIRECTORY)?;

    for (index, part) in (2u8..).zip(parts) {
        let (before, name) = (f64::from(index), part.name);
        // A repeated part does not move the progress back.
        let mut share_max = 0.0_f64;
        let mut tell = |share: f64| {
            share_max = share_max.max(share);
            progress(Step { name, done: (before + share_max) / steps });
        };
        rows.extend(part.run(&mut tell)?);
    }
    Ok(rows)
}

impl Part {
    /// Repeats the load with twice the time while the storage stalls and a kind of call has no result.
    fn run(mut self, tell: &mut dyn FnMut(f64)) -> Result<Vec<Row>, Error> {
        loop {
            let report = load::run(&self.plan, &mut |progress| {
                tell(match progress {
                    Progress::Running { done, .. } => done,
                    Progress::Layout(_) => 0.0,
                    Progress::Verifying => 1.0,
                });
                Ok(())
            })?;
            let unanswered = self.kinds.iter().any(|kind| report.kind(*kind).is_none());
            if !unanswered || !report.errors.is_empty() || self.plan.time >= LOAD_MAX {
                return rows_of(&self, &report);
            }
            self.plan.time = (self.plan.time * 2).min(LOAD_MAX);
        }
    }
}

pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(8);
    let mut text = format!("{:<width$}", "");
    for head in ["ops/s", "MiB/s", "mean ms", "p50 ms", "p95 ms", "p99 ms"] {
        let _ = write!(text, "{head:>10}");
    }
    text.push('\n');
    for row in rows {
        let l = row.latency;
        let rate = if row.mib_per_s > 0.0 { format!("{:.1}", row.mib_per_s) } else { "-".to_owned() };
        let _ = write!(text, "{:<width$}{:>10.0}{rate:>10}", row.name, row.ops_per_s);
        let _ = writeln!(text, "{:>10.3}{:>10.3}{:>10.3}{:>10.3}", l.mean_ms, l.p50_ms, l.p95_ms, l.p99_ms);
    }
    text
}

fn parts(target: &Target, budget: Duration, largest: u64) -> Vec<Part> {
    // The checked files take a part of the budget, every load a warm-up and a set-up.
    let share = (budget / 10).max(LOAD_MIN);
    let plan = |op: Op| Plan {
        connections: 4,
        depth: 8,
        files: 2,
        size: 16 << 20,
        // The set-up flushes each entry; more would take longer than the measurement.
        entries: 200,
        time: share,
        warm_up: share / 5,
        ..Plan::new(target.clone(), op)
    };
    let part = |name, plan, kinds| Part { name, plan, kinds };
    vec![
        part("random read 4k", Plan { block: 4 << 10, verify: true, ..plan(Op::Read) }, &[Kind::Read]),
        part(
            "sequential read 1m",
            Plan { block: largest, depth: 2, order: BlockOrder::Sequential, ..plan(Op::Read) },
            &[Kind::Read],
        ),
        part(
            "mixed 8k 75/25",
            Plan { block: 8 << 10, verify: true, ..plan(Op::Mix) },
            &[Kind::Read, Kind::Write],
        ),
        part("getattr", plan(Op::Getattr), &[Kind::Getattr]),
        part("lookup", plan(Op::Lookup), &[Kind::Lookup]),
        part("create and remove", Plan { cleanup: true, ..plan(Op::Create) }, &[Kind::Create, Kind::Remove]),
    ]
}

fn rows_of(part: &Part, report: &Report) -> Result<Vec<Row>, Error> {
    if let Some((what, count)) = report.errors.iter().next() {
        let detail = report.error_details.first().map_or("", String::as_str);
        let doing = format!("{}: {count} × {what} ({detail})", part.name);
        return Err(Error::Refused { doing, status: "errors".to_owned() });
    }
    let several = part.kinds.len() > 1;
    let row = |kind: &Kind| {
        let measured = report.kind(*kind).ok_or_else(|| {
            Error::Protocol(format!("{}: no {kind} was answered in {:?}", part.name, part.plan.time))
        })?;
        let name = if several { format!("{}: {kind}", part.name) } else { part.name.to_owned() };
        Ok(Row {
            name,
            ops_per_s: measured.ops_per_s,
            mib_per_s: measured.mib_per_s,
            latency: measured.latency,
        })
    };
    part.kinds.iter().map(row).collect()
}

struct Sent {
    name: String,
    file: Handle,
    checksum: u32,
}

fn write_files(client: &mut Client, dir: &Handle, transfer: u32) -> Result<(Vec<Sent>, Row), Error> {
    let mut sent = Vec::new();
    let mut timing = Timing::new()?;
    for index in 0..FILES {
        let name = file_name(index);
        let file = client.create(dir, &name, 0o644)?;
        let mut payload = Payload::new(transfer as usize, 4096, u64::from(index) << 32);
        let (mut crc, mut offset, mut verf) = (Crc32::default(), 0, None);
        while offset < FILE_SIZE {
            payload.stamp(FileOffset { file: index, offset }, 0);
            let length = u64::from(transfer).min(FILE_SIZE - offset);
            let data = &payload.bytes()[..usize::try_from(length).unwrap_or(usize::MAX)];
            let written = timing.call(|| client.write(&file, offset, data, StableHow::Unstable))?;
            if u64::from(written.count) != length || *verf.get_or_insert(written.verf) != written.verf {
                return Err(Error::Mismatch(format!(
                    "{name}: a write was cut short, or the server restarted"
                )));
            }
            crc.update(data);
            offset += length;
        }
        if Some(timing.add_time(|| client.commit(&file))?) != verf {
            return Err(Error::Mismatch(format!("{name}: the server restarted before COMMIT")));
        }
        sent.push(Sent { name, file, checksum: crc.value() });
    }
    Ok((sent, timing.row("write, then commit")))
}

fn compare(client: &mut Client, transfer: u32, files: &[Sent]) -> Result<Row, Error> {
    let mut timing = Timing::new()?;
    for sent in files {
        let (mut crc, mut offset) = (Crc32::default(), 0);
        loop {
            let chunk = timing.call(|| client.read(&sent.file, offset, transfer))?;
            crc.update(chunk.data);
            offset += chunk.data.len() as u64;
            if chunk.eof {
                break;
            }
            if chunk.data.is_empty() {
                return Err(Error::Mismatch(format!("{}: nothing at {offset}, and no end", sent.name)));
            }
        }
        let (wanted, found) = (sent.checksum, crc.value());
        if offset != FILE_SIZE || wanted != found {
            let (name, size) = (&sent.name, FILE_SIZE);
            let text =
                format!("{name}: {offset} bytes of checksum {found:08x} instead of {size} of {wanted:08x}");
            return Err(Error::Mismatch(text));
        }
    }
    Ok(timing.row("read back, checksums right"))
}

fn file_name(index: u32) -> String {
    format!("checked-{index}")
}

struct Timing {
    latency: Histogram<u64>,
    busy: Duration,
}

impl Timing {
    fn new() -> Result<Self, Error> {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
            .map_err(|wrong| Error::Plan(format!("cannot make a histogram: {wrong}")))?;
        Ok(Self { latency, busy: Duration::ZERO })
    }

    fn call<T>(&mut self, call: impl FnOnce() -> Result<T, wire_client::Error>) -> Result<T, Error> {
        let start = Instant::now();
        let result = call();
        let took = start.elapsed();
        self.busy += took;
        self.latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        Ok(result?)
    }

    /// Adds time that belongs to the calls but is not a call itself.
    fn add_time<T>(&mut self, call: impl FnOnce() -> Result<T, wire_client::Error>) -> Result<T, Error> {
        let start = Instant::now();
        let result = call();
        self.busy += start.elapsed();
        Ok(result?)
    }

    fn row(&self, name: &str) -> Row {
        let seconds = self.busy.as_secs_f64().max(1e-9);
        let bytes = u64::from(FILES) * FILE_SIZE;
        Row {
            name: name.to_owned(),
            ops_per_s: self.latency.len() as f64 / seconds,
            mib_per_s: bytes as f64 / f64::from(1 << 20) / seconds,
            latency: Distribution::from(&self.latency).latency(),
        }
    }
}
