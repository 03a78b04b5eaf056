//! Connections to a gateway that is about to fail, with calls in flight and calls that arrive later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::capture::{Capture, of_first_connections};
use super::setup::address;
use crate::ledger::client::{Client, Handle, How, Stable};
use crate::server::Endpoint;

const WRITERS: usize = 4;
const ASKERS: usize = 2;
/// Calls of a connection that are in flight.
const WINDOW: usize = 4;
const SLOT: usize = 512;
/// Calls that each writer sends after the failure, and the time between two.
const LATE_CALLS: u32 = 10;
const LATE_PAUSE: Duration = Duration::from_millis(100);
/// The time between two calls of a connection that asks.
const ASK_PAUSE: Duration = Duration::from_millis(20);

/// Clients that are connected to an endpoint before its gateway fails.
pub(super) struct EarlierClients {
    has_failed: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    capture: Capture,
    writers: Vec<JoinHandle<anyhow::Result<Written>>>,
    askers: Vec<JoinHandle<anyhow::Result<u16>>>,
}

/// The calls of a writer.
struct Written {
    name: String,
    port: u16,
    acknowledged: BTreeSet<u64>,
    /// Neither acknowledged nor refused.
    unknown: BTreeSet<u64>,
    /// Those that were in flight when the gateway failed.
    in_flight: usize,
    was_reset: bool,
}

/// The end of clients that were connected earlier.
pub(super) struct Remains {
    endpoint: Endpoint,
    written: Vec<Written>,
    ports: BTreeSet<u16>,
    capture: Option<Capture>,
    /// Slots that another gateway wrote instead, and what it found in the others, by writer.
    again: Vec<BTreeSet<u64>>,
    left: Vec<Vec<(u64, Vec<u8>)>>,
}

impl EarlierClients {
    /// Starts them. Files are named after `label`.
    pub(super) fn start(endpoint: &Endpoint, number: usize, label: &str) -> anyhow::Result<Self> {
        let (has_failed, stop) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let capture = Capture::start(address(number))?;
        let (mut writers, mut askers) = (Vec::new(), Vec::new());
        for writer in 0..WRITERS {
            let mut mounted = Client::mount(endpoint)?;
            let name = format!("{label}-{writer}");
            let file = mounted.client.create(&mounted.root, &name, How::Guarded(0o644))?;
            let (has_failed, stop) = (Arc::clone(&has_failed), Arc::clone(&stop));
            let mut writer = Writer::new(mounted.client, file, name)?;
            writers.push(std::thread::spawn(move || {
                writer.work(&has_failed, &stop);
                Ok(writer.written)
            }));
        }
        for _ in 0..ASKERS {
            let mounted = Client::mount(endpoint)?;
            let (mut client, root, stop) = (mounted.client, mounted.root, Arc::clone(&stop));
            let port = client.local_address()?.port();
            askers.push(std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) && client.send_attributes(&root).is_ok() {
                    // A broken connection shows at the next call.
                    if client.receive_status(ASK_PAUSE).is_err() {
                        break;
                    }
                    std::thread::sleep(ASK_PAUSE);
                }
                Ok(port)
            }));
        }
        Ok(Self { has_failed, stop, capture, writers, askers })
    }

    /// Has the writers send some more calls into their connections.
    pub(super) fn note_failure(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
    }

    /// Ends the clients, and checks that the connections of all were reset. Half of the calls whose outcome is unknown
    /// are then repeated with other data, through the gateway that serves now.
    pub(super) fn finish(self, endpoint: &Endpoint) -> anyhow::Result<Remains> {
        self.stop.store(true, Ordering::SeqCst);
        let (mut written, mut ports) = (Vec::new(), BTreeSet::new());
        for writer in self.writers {
            written.push(writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))??);
        }
        for asker in self.askers {
            ports.insert(asker.join().map_err(|_| anyhow::anyhow!("a client panicked"))??);
        }
        ports.extend(written.iter().map(|written| written.port));
        let (acknowledged, in_flight): (usize, usize) = (
            written.iter().map(|written| written.acknowledged.len()).sum(),
            written.iter().map(|written| written.in_flight).sum(),
        );
        let reset = written.iter().filter(|written| written.was_reset).count();
        eprintln!(
            "ceph: {acknowledged} writes acknowledged, {in_flight} in flight at the failure, {reset} of {WRITERS} connections reset"
        );
        ensure!(acknowledged > 0 && in_flight > 0, "the failure found no calls in flight");
        ensure!(reset == WRITERS, "some clients were not told that their gateway is gone");
        let mut remains = Remains {
            endpoint: endpoint.clone(),
            written,
            ports,
            capture: Some(self.capture),
            again: Vec::new(),
            left: Vec::new(),
        };
        remains.repeat_half()?;
        Ok(remains)
    }
}

struct Writer {
    client: Client,
    file: Handle,
    next: u64,
    calls: Vec<(u32, u64)>,
    late_calls: u32,
    written: Written,
}

impl Writer {
    fn new(client: Client, file: Handle, name: String) -> anyhow::Result<Self> {
        let port = client.local_address()?.port();
        let written = Written {
            name,
            port,
            acknowledged: BTreeSet::new(),
            unknown: BTreeSet::new(),
            in_flight: 0,
            was_reset: false,
        };
        Ok(Self { client, file, next: 0, calls: Vec::new(), late_calls: 0, written })
    }

    /// Works until the connection ends or `stop` is set.
    fn work(&mut self, has_failed: &AtomicBool, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            let failed = has_failed.load(Ordering::SeqCst);
            if self.step(failed).is_err() {
                self.written.was_reset = true;
                break;
            }
        }
        self.written.unknown.extend(self.calls.iter().map(|call| call.1));
    }

    fn step(&mut self, has_failed: bool) -> anyhow::Result<()> {
        if has_failed && self.written.in_flight == 0 {
            self.written.in_flight = self.calls.len();
        }
        let is_late = has_failed && self.late_calls < LATE_CALLS;
        if is_late || (!has_failed && self.calls.len() < WINDOW) {
            self.late_calls += u32::from(has_failed);
            let (slot, data) = (self.next, data(false, self.next));
            self.next += 1;
            // Noted first: what is sent half may be performed after all.
            self.calls.push((0, slot));
            let number = self.client.send_write(&self.file, slot * SLOT as u64, &data, Stable::FileSync)?;
            if let Some(call) = self.calls.last_mut() {
                call.0 = number;
            }
            if !is_late {
                return Ok(());
            }
        }
        let Some((number, status)) = self.client.receive_status(LATE_PAUSE)? else { return Ok(()) };
        let at = self.calls.iter().position(|call| call.0 == number);
        let slot = self.calls.remove(at.ok_or_else(|| anyhow::anyhow!("an answer to no call"))?).1;
        if status == 0 {
            self.written.acknowledged.insert(slot);
        } else {
            self.written.unknown.insert(slot);
        }
        Ok(())
    }
}

impl Remains {
    fn repeat_half(&mut self) -> anyhow::Result<()> {
        let mut mounted = Client::mount(&self.endpoint)?;
        for written in &self.written {
            let file = mounted.client.lookup(&mounted.root, &written.name)?;
            let (mut again, mut left) = (BTreeSet::new(), Vec::new());
            for &slot in &written.unknown {
                let offset = slot * SLOT as u64;
                if slot % 2 == 0 {
                    mounted.client.write(&file, offset, &data(true, slot), Stable::FileSync)?;
                    again.insert(slot);
                }
            }
            for &slot in written.unknown.difference(&again) {
                left.push((slot, read_slot(&mut mounted.client, &file, slot)?));
            }
            self.again.push(again);
            self.left.push(left);
        }
        Ok(())
    }

    /// Ends the capture. Fails if the connections of earlier received data after this time.
    pub(super) fn require_silence_after(&mut self, time: Instant, what: &str) -> anyhow::Result<()> {
        let segments = self.capture.take().context("the capture has ended")?.finish()?;
        let earlier = of_first_connections(segments, &self.ports);
        let late: Vec<_> = earlier.iter().filter(|segment| segment.at > time).collect();
        let last = earlier.iter().map(|segment| segment.at).max();
        let total: usize = earlier.iter().map(|segment| segment.bytes).sum();
        let late_bytes: usize = late.iter().map(|segment| segment.bytes).sum();
        let margin = last.map_or(0, |last| time.saturating_duration_since(last).as_millis());
        eprintln!(
            "ceph: {} earlier connections received {total} bytes, {late_bytes} of them later than {what}; the last {margin} ms before",
            self.ports.len()
        );
        ensure!(total > 0, "the capture saw nothing of the earlier connections");
        ensure!(late.is_empty(), "{} replies came later than {what}", late.len());
        Ok(())
    }

    /// Fails if acknowledged data is lost, or the earlier gateway wrote anything after another one had taken over.
    pub(super) fn require_no_late_writes(&self) -> anyhow::Result<()> {
        let mut mounted = Client::mount(&self.endpoint)?;
        let mut checked = 0;
        for ((written, again), left) in self.written.iter().zip(&self.again).zip(&self.left) {
            let file = mounted.client.lookup(&mounted.root, &written.name)?;
            let mut require = |slot: u64, expected: &[u8], what: &str| {
                let found = read_slot(&mut mounted.client, &file, slot)?;
                checked += 1;
                ensure!(found == expected, "{} slot {slot}: {what}", written.name);
                Ok(())
            };
            for &slot in &written.acknowledged {
                require(slot, &data(false, slot), "acknowledged data is lost")?;
            }
            for &slot in again {
                require(slot, &data(true, slot), "a write of the earlier gateway came late")?;
            }
            for (slot, before) in left {
                require(*slot, before, "it changed after the takeover")?;
            }
        }
        let (again, left) = (self.again.iter().map(BTreeSet::len), self.left.iter().map(Vec::len));
        let (again, left): (usize, usize) = (again.sum(), left.sum());
        eprintln!("ceph: {checked} writes checked, {again} of them repeated and {left} left");
        ensure!(again > 0 && left > 0, "no writes were in flight");
        Ok(())
    }
}

/// The data of a slot, from an earlier client or one that repeats.
fn data(is_again: bool, slot: u64) -> Vec<u8> {
    let mut data = format!("{} {slot}", if is_again { "again" } else { "first" }).into_bytes();
    data.resize(SLOT, b'.');
    data
}

/// A slot that was not written yet is zeros.
fn read_slot(client: &mut Client, file: &[u8], slot: u64) -> anyhow::Result<Vec<u8>> {
    let mut found = client.read(file, slot * SLOT as u64, u32::try_from(SLOT)?)?.0;
    found.resize(SLOT, 0);
    Ok(found)
}
