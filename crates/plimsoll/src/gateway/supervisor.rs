//! The main process of a gateway: it watches the cluster, and starts and ends the processes of endpoints.

use super::clock::since_boot;
use super::endpoint::STATE_FORMAT;
use super::membership::{self, Member};
use super::store::RadosStore;
use crate::config::Config;
use crate::nodename::nodename;
use crate::notify::Supervisor as Systemd;
use crate::signals::Requests;
use crate::state;
use anyhow::{Context, bail};
use cluster::{
    Formats, GatewayRecord, GatewayState, Holding, LeaseHolder, Name, Observer, Placement, Step, Times, View,
};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

/// Views of the cluster in the time between two renewals.
const VIEWS_PER_RENEWAL: u32 = 2;
/// The time in which this gateway does not start an endpoint again that it could not start, if another one can.
const FAILED: Duration = Duration::from_secs(10);
/// The time doubles this often, to ten minutes.
const FAILURES_MAX: u32 = 6;
/// A process that ends within this time has not started.
const STARTING: Duration = Duration::from_secs(10);
/// The time that endpoints have to end in good order.
const PATIENCE: Duration = Duration::from_secs(15);

/// Starts of an endpoint that failed here, one after the other.
struct Failure {
    count: u32,
    last: Instant,
}

impl Failure {
    /// Whether another gateway is to serve the endpoint rather than this one: longer after each failure.
    fn lasts(&self) -> bool {
        self.last.elapsed() < FAILED * 2_u32.pow(self.count.min(FAILURES_MAX))
    }
}

/// A running process of an endpoint.
struct Process {
    child: Child,
    started: Instant,
    /// Whether it was asked to end.
    is_ending: bool,
}

struct Gateway {
    member: Member,
    instance: u64,
    own: GatewayState,
    observer: Observer,
    processes: BTreeMap<Name, Process>,
    /// Endpoints whose process here has ended; their leases need not run out.
    ended: BTreeSet<Name>,
    failed: BTreeMap<Name, Failure>,
    /// Endpoints whose state this program cannot read.
    too_new: BTreeSet<Name>,
    last_beat: Option<Instant>,
}

/// Runs a gateway until SIGINT or SIGTERM.
pub(crate) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    state::make_dir(&config.data)?;
    let requests = Requests::new().context("cannot wait for signals")?;
    let mut gateway = Gateway::open(membership::open(config)?)?;
    let own = gateway.member.own.clone();
    println!("Gateway {own}, endpoints: plimsoll cluster status");
    let systemd = Systemd::from_env();
    systemd.ready(&format!("gateway {own}"));
    loop {
        let pause = match gateway.tick() {
            Ok(pause) => pause,
            Err(error) if error.is_final() => {
                tracing::error!("{error}; connecting again");
                gateway.member = membership::open(config)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if requests.wait(pause) {
            break;
        }
    }
    systemd.stopping();
    gateway.stop()?;
    Ok(ExitCode::SUCCESS)
}

impl Gateway {
    fn open(member: Member) -> anyhow::Result<Self> {
        let view = member.cluster.view()?;
        let own = view.gateways.get(&member.own).with_context(|| {
            format!(
                "the gateway {} is not a member of the cluster any more: remove its cluster.key and join",
                member.own
            )
        })?;
        let own = Self::wait_for_earlier_run(&member, own.clone(), view.times)?;
        Ok(Self {
            instance: state::instance()?,
            own,
            observer: Observer::default(),
            processes: BTreeMap::new(),
            ended: BTreeSet::new(),
            failed: BTreeMap::new(),
            too_new: BTreeSet::new(),
            last_beat: None,
            member,
        })
    }

    /// Waits until no other process runs as this gateway: one that crashed is silent, and one on a copy of this machine is
    /// not.
    fn wait_for_earlier_run(
        member: &Member,
        first: GatewayState,
        times: Times,
    ) -> anyhow::Result<GatewayState> {
        let deadline = Instant::now() + times.lease;
        while !first.record.has_stopped && Instant::now() < deadline {
            thread::sleep(times.renewal / VIEWS_PER_RENEWAL);
            let view = member.cluster.view()?;
            let beat = view.gateways.get(&member.own).map(|own| own.record.beat);
            if beat != Some(first.record.beat) {
                let own = &member.own;
                bail!(
                    "another process runs as the gateway {own}: give each machine a name of its own in [cluster]"
                );
            }
        }
        Ok(first)
    }

    /// Looks at the cluster and takes the next steps. Returns the time until the next look.
    fn tick(&mut self) -> cluster::Result<Duration> {
        let view = self.member.cluster.view()?;
        self.reap(view.times);
        if self.member.cluster.raise_format(&view)? {
            tracing::info!("all gateways are upgraded: the cluster has a new format");
        }
        self.note_too_new(&view);
        if self.last_beat.is_none_or(|at| at.elapsed() >= view.times.renewal) {
            self.beat(false)?;
            self.last_beat = Some(Instant::now());
        }
        let holder = self.holder();
        self.ended.retain(|name| view.endpoints.get(name).is_some_and(|found| has_lease(found, &holder)));
        let placement = self.observer.placement(&view, &self.member.own, &self.ended, since_boot());
        for step in placement.steps(&self.member.own) {
            match step {
                Step::Take(endpoint) => self.take(&view, &endpoint)?,
                Step::HandOver(endpoint) => self.end(&endpoint),
            }
        }
        self.clear_stopped(&view, &placement)?;
        // An endpoint that was removed from the list, or that another gateway has, is not served here.
        let strays: Vec<Name> =
            self.processes.keys().filter(|name| !view.endpoints.contains_key(*name)).cloned().collect();
        strays.iter().for_each(|name| self.end(name));
        Ok(view.times.renewal / VIEWS_PER_RENEWAL)
    }

    /// Logs once which endpoints this gateway leaves to others because its program is too old.
    fn note_too_new(&mut self, view: &View) {
        let found = view.endpoints.iter().filter(|(_, endpoint)| endpoint.state_format > STATE_FORMAT);
        let found: BTreeSet<Name> = found.map(|(name, _)| name.clone()).collect();
        for endpoint in found.difference(&self.too_new) {
            tracing::warn!(
                %endpoint,
                "a newer plimsoll has changed the state of the endpoint, so this gateway cannot serve it: upgrade plimsoll"
            );
        }
        self.too_new = found;
    }

    fn holder(&self) -> LeaseHolder {
        LeaseHolder { gateway: self.member.own.to_string(), instance: self.instance }
    }

    fn beat(&mut self, has_stopped: bool) -> cluster::Result<()> {
        let record = GatewayRecord {
            instance: self.instance,
            beat: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: nodename(),
            failed: self
                .failed
                .iter()
                .filter(|(_, failure)| failure.lasts())
                .map(|(name, _)| name.clone())
                .collect(),
            has_stopped,
            format: Formats::OWN.newest,
            state_format: STATE_FORMAT,
        };
        self.own = self.member.cluster.beat(&self.member.own, &self.own, record)?;
        Ok(())
    }

    /// Takes the lease of an endpoint and starts its process.
    fn take(&mut self, view: &View, endpoint: &Name) -> cluster::Result<()> {
        // A process that is still ending may have to save something.
        if self.processes.contains_key(endpoint) || self.is_failed(endpoint) {
            return Ok(());
        }
        let Some(holding) = self.take_lease(view, endpoint)? else { return Ok(()) };
        tracing::info!(%endpoint, epoch = holding.epoch(), "this gateway serves an endpoint");
        self.ended.remove(endpoint);
        match spawn(endpoint, self.instance) {
            Ok(child) => drop(
                self.processes
                    .insert(endpoint.clone(), Process { child, started: Instant::now(), is_ending: false }),
            ),
            Err(error) => {
                tracing::error!(%endpoint, "cannot start an endpoint: {error:#}");
                self.note_failure(endpoint);
                release(holding, endpoint);
            }
        }
        Ok(())
    }

    fn is_failed(&self, endpoint: &Name) -> bool {
        self.failed.get(endpoint).is_some_and(Failure::lasts)
    }

    fn note_failure(&mut self, endpoint: &Name) {
        let count = self.failed.get(endpoint).map_or(0, |failure| failure.count + 1);
        self.failed.insert(endpoint.clone(), Failure { count, last: Instant::now() });
    }

    /// Ends the leases of stopped endpoints whose holders died.
    fn clear_stopped(&self, view: &View, placement: &Placement) -> cluster::Result<()> {
        for (name, endpoint) in view.endpoints.iter().filter(|(_, endpoint)| endpoint.is_stopped) {
            let has_holder = endpoint.lease.as_ref().is_some_and(|lease| lease.holder.is_some());
            let is_over = placement.endpoints.get(name).is_some_and(|wish| wish.holder.is_none());
            if has_holder
                && is_over
                && let Some(holding) = self.take_lease(view, name)?
            {
                release(holding, name);
            }
        }
        Ok(())
    }

    fn take_lease(&self, view: &View, endpoint: &Name) -> cluster::Result<Option<Holding<RadosStore>>> {
        let Some(found) = view.endpoints.get(endpoint) else { return Ok(None) };
        let cluster = &self.member.cluster;
        let (store, key) = (cluster.store().clone(), cluster.key());
        Holding::take(store, key, endpoint, &found.stored, self.holder(), view.times, since_boot())
    }

    /// Ends the lease of a process that has ended without doing so.
    fn release_of_ended(&self, endpoint: &Name, times: Times) {
        let cluster = &self.member.cluster;
        let found = Holding::resume(cluster.store().clone(), cluster.key(), endpoint, &self.holder(), times);
        match found {
            Ok(Some(holding)) => release(holding, endpoint),
            Ok(None) => {}
            Err(error) => tracing::warn!(%endpoint, "other gateways wait for the end of the lease: {error}"),
        }
    }

    /// Has the process of an endpoint end in good order.
    fn end(&mut self, endpoint: &Name) {
        let Some(process) = self.processes.get_mut(endpoint) else { return };
        if process.is_ending {
            return;
        }
        tracing::info!(%endpoint, "this gateway hands an endpoint over");
        process.is_ending = true;
        signal(&process.child, Signal::TERM);
    }

    /// Notes which processes have ended.
    fn reap(&mut self, times: Times) {
        let (mut ended, mut failed) = (Vec::new(), Vec::new());
        self.processes.retain(|endpoint, process| {
            let has_started = process.started.elapsed() >= STARTING;
            let status = match process.child.try_wait() {
                Ok(None) => {
                    if has_started {
                        self.failed.remove(endpoint);
                    }
                    return true;
                }
                Ok(Some(status)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            if process.is_ending {
                ended.push(endpoint.clone());
                return false;
            }
            tracing::error!(%endpoint, %status, "the process of an endpoint has ended");
            self.ended.insert(endpoint.clone());
            if !has_started {
                failed.push(endpoint.clone());
            }
            false
        });
        failed.iter().for_each(|endpoint| self.note_failure(endpoint));
        // A process that failed, or that was told to end while it started, may not have ended its lease.
        ended.iter().chain(&failed).for_each(|endpoint| self.release_of_ended(endpoint, times));
    }

    /// Ends all endpoints in good order, and tells the cluster.
    fn stop(mut self) -> anyhow::Result<()> {
        let times = self.member.cluster.view()?.times;
        let endpoints: Vec<Name> = self.processes.keys().cloned().collect();
        // Others take endpoints only from a gateway that is not ready.
        self.beat(true)?;
        endpoints.iter().for_each(|endpoint| self.end(endpoint));
        let deadline = Instant::now() + PATIENCE;
        while !self.processes.is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
            self.reap(times);
        }
        for (endpoint, process) in &self.processes {
            tracing::error!(%endpoint, "an endpoint does not end: it is killed");
            signal(&process.child, Signal::KILL);
        }
        Ok(())
    }
}

fn release(holding: Holding<RadosStore>, endpoint: &Name) {
    if let Err(error) = holding.release() {
        tracing::warn!(%endpoint, "other gateways wait for the end of the lease: {error}");
    }
}

fn has_lease(endpoint: &cluster::EndpointState, holder: &LeaseHolder) -> bool {
    endpoint.lease.as_ref().is_some_and(|lease| lease.holder.as_ref() == Some(holder))
}

/// Starts the process of an endpoint: this program with the same arguments and a few more.
fn spawn(endpoint: &Name, instance: u64) -> anyhow::Result<Child> {
    // The file of the program may have been replaced: this is the one that runs.
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).args([
        "--endpoint",
        endpoint.as_str(),
        "--run",
        &instance.to_string(),
    ]);
    // Readiness is the gateway's to tell.
    Ok(command.env_remove("NOTIFY_SOCKET").spawn()?)
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(Err(error)) = pid.map(|pid| kill_process(pid, signal)) {
        tracing::debug!(%error, "a process has ended already");
    }
}
