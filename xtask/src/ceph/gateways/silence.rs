//! Gateways that live and are silent: they are frozen, or do not reach Ceph.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::earlier_clients::EarlierClients;
use super::gateway::has_ended;
use super::probe::Probe;
use super::setup::{ENDPOINTS, GATEWAYS, RECOVERY_MAX, Setup};

const LOAD: Duration = Duration::from_millis(700);
const FROZEN: Duration = Duration::from_secs(10);
/// The length of a lease. Until it ends, replies may arrive that a process sent before it froze.
const LEASE: Duration = Duration::from_secs(3);
/// The time after the failure in which a gateway that does not reach Ceph may answer.
const SILENT_MAX: Duration = Duration::from_millis(3500);
/// The time after the failure in which a gateway is ready again.
const READY_MAX: Duration = Duration::from_secs(10);
/// Another gateway takes over before this.
const TAKEOVER_MAX: Duration = Duration::from_secs(9);
/// The time for which a gateway that goes on is watched.
const WATCH: Duration = Duration::from_secs(5);

/// Freezes the gateway of an endpoint and lets it go on.
pub(super) fn freeze(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    setup.settle()?;
    let (from, endpoint) = (setup.serving(ENDPOINTS[0])?, setup.endpoint(0));
    let main = setup.gateways[from].id()?;
    let clients = EarlierClients::start(&endpoint, 0, "frozen")?;
    let probe = Probe::start(endpoint.address)?;
    std::thread::sleep(LOAD);
    let frozen = setup.gateways[from].freeze()?;
    let at = Instant::now();
    clients.note_failure();
    let takeover = probe.wait_for_answer_after(at)?.duration_since(at);
    let mut remains = clients.finish(&endpoint)?;
    std::thread::sleep(FROZEN.saturating_sub(at.elapsed()));
    let taker = setup.serving_except(ENDPOINTS[0], Some(from))?;
    setup.gateways[from].thaw(&frozen)?;
    let woken = Instant::now();
    while !frozen.iter().all(|&process| has_ended(process)) {
        ensure!(woken.elapsed() < RECOVERY_MAX, "an endpoint that was frozen goes on after its lease");
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = woken.elapsed();
    let ready = setup.wait_until_ready(from, woken)?;
    std::thread::sleep(WATCH.saturating_sub(woken.elapsed()));
    let stall = probe.finish()?;
    remains.require_silence_after(at + LEASE, "the lease of the frozen gateway")?;
    remains.require_no_late_writes()?;
    eprintln!(
        "ceph: {} frozen, clients waited {} ms, {} serves; {} processes ended {} ms after they went on, ready after {} ms",
        GATEWAYS[from],
        stall.as_millis(),
        GATEWAYS[taker],
        frozen.len(),
        ended.as_millis(),
        ready.as_millis()
    );
    let is_in_time = setup.is_in_time(takeover, TAKEOVER_MAX);
    ensure!(is_in_time, "another gateway took over after {} ms only", takeover.as_millis());
    require_recovered(setup, from, main, ready)
}

/// Cuts the gateway of an endpoint from Ceph for this time.
pub(super) fn cut(setup: &mut Setup<'_>, time: Duration) -> anyhow::Result<()> {
    setup.settle()?;
    let (from, endpoint) = (setup.serving(ENDPOINTS[0])?, setup.endpoint(0));
    let main = setup.gateways[from].id()?;
    let clients = EarlierClients::start(&endpoint, 0, &format!("cut-{}", time.as_secs()))?;
    let probe = Probe::start(endpoint.address)?;
    std::thread::sleep(LOAD);
    let at = Instant::now();
    setup.gateways[from].machine.set_cut_from_ceph(true)?;
    clients.note_failure();
    // The old gateway answers new connections until its lease ends.
    let takeover = probe.wait_for_answer_after(at + SILENT_MAX)?.duration_since(at);
    let mut remains = clients.finish(&endpoint)?;
    std::thread::sleep(time.saturating_sub(at.elapsed()));
    let taker = setup.serving_except(ENDPOINTS[0], Some(from))?;
    setup.gateways[from].machine.set_cut_from_ceph(false)?;
    let mended = Instant::now();
    let ready = setup.wait_until_ready(from, mended)?;
    std::thread::sleep(WATCH.saturating_sub(mended.elapsed()));
    let stall = probe.finish()?;
    remains.require_silence_after(at + SILENT_MAX, "3.5 s after the cut")?;
    remains.require_no_late_writes()?;
    eprintln!(
        "ceph: {} cut from Ceph for {} s, clients waited {} ms, {} serves; ready {} ms after the cut was mended",
        GATEWAYS[from],
        time.as_secs(),
        stall.as_millis(),
        GATEWAYS[taker],
        ready.as_millis()
    );
    let is_in_time = setup.is_in_time(takeover, TAKEOVER_MAX);
    ensure!(is_in_time, "another gateway took over after {} ms only", takeover.as_millis());
    require_recovered(setup, from, main, ready)
}

/// Fails unless the gateway is ready in time with the main process it had, and serves the endpoint again.
fn require_recovered(setup: &Setup<'_>, gateway: usize, main: u32, ready: Duration) -> anyhow::Result<()> {
    ensure!(
        setup.gateways[gateway].id()? == main && !has_ended(main),
        "the main process of {} has ended",
        GATEWAYS[gateway]
    );
    ensure!(
        setup.is_in_time(ready, READY_MAX),
        "{} was ready after {} ms only",
        GATEWAYS[gateway],
        ready.as_millis()
    );
    setup.place(0, gateway)
}
