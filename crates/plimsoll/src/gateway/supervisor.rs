//! The main process of a gateway: it watches the cluster, and starts and ends the processes of endpoints.

use super::clock::since_boot;
use super::membership::{self, Member};
use super::store::RadosStore;
use crate::config::Config;
use crate::nodename::nodename;
use crate::notify::Supervisor as Systemd;
use crate::signals::Requests;
use crate::state;
use anyhow::Context;
use cluster::{GatewayRecord, GatewayState, Holding, LeaseHolder, Name, Observer, Step, View};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

/// Views of the cluster in the time between two renewals.
const VIEWS_PER_RENEWAL: u32 = 2;
/// The time in which this gateway does not start an endpoint again that it could not start, if another one can.
const FAILED: Duration = Duration::from_secs(10);
/// A process that ends within this time has not started.
const STARTING: Duration = Duration::from_secs(10);
/// The time that endpoints have to end in good order.
const PATIENCE: Duration = Duration::from_secs(15);

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
    failed: BTreeMap<Name, Instant>,
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
        Ok(Self {
            instance: state::instance()?,
            own: own.clone(),
            observer: Observer::default(),
            processes: BTreeMap::new(),
            ended: BTreeSet::new(),
            failed: BTreeMap::new(),
            last_beat: None,
            member,
        })
    }

    /// Looks at the cluster and takes the next steps. Returns the time until the next look.
    fn tick(&mut self) -> cluster::Result<Duration> {
        self.reap();
        let view = self.member.cluster.view()?;
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
        // An endpoint that was removed from the list, or that another gateway has, is not served here.
        let strays: Vec<Name> =
            self.processes.keys().filter(|name| !view.endpoints.contains_key(*name)).cloned().collect();
        strays.iter().for_each(|name| self.end(name));
        Ok(view.times.renewal / VIEWS_PER_RENEWAL)
    }

    fn holder(&self) -> LeaseHolder {
        LeaseHolder { gateway: self.member.own.to_string(), instance: self.instance }
    }

    fn beat(&mut self, has_stopped: bool) -> cluster::Result<()> {
        self.failed.retain(|_, at| at.elapsed() < FAILED);
        let record = GatewayRecord {
            instance: self.instance,
            beat: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: nodename(),
            failed: self.failed.keys().cloned().collect(),
            has_stopped,
        };
        self.own = self.member.cluster.beat(&self.member.own, &self.own, record)?;
        Ok(())
    }

    /// Takes the lease of an endpoint and starts its process.
    fn take(&mut self, view: &View, endpoint: &Name) -> cluster::Result<()> {
        // A process that is still ending may have to save something.
        if self.processes.contains_key(endpoint) || self.failed.contains_key(endpoint) {
            return Ok(());
        }
        let Some(found) = view.endpoints.get(endpoint) else { return Ok(()) };
        let cluster = &self.member.cluster;
        let (store, key): (RadosStore, _) = (cluster.store().clone(), cluster.key());
        let taken =
            Holding::take(store, key, endpoint, &found.stored, self.holder(), view.times, since_boot())?;
        let Some(holding) = taken else { return Ok(()) };
        tracing::info!(%endpoint, epoch = holding.epoch(), "this gateway serves an endpoint");
        self.ended.remove(endpoint);
        match spawn(endpoint, self.instance) {
            Ok(child) => drop(
                self.processes
                    .insert(endpoint.clone(), Process { child, started: Instant::now(), is_ending: false }),
            ),
            Err(error) => {
                tracing::error!(%endpoint, "cannot start an endpoint: {error:#}");
                self.failed.insert(endpoint.clone(), Instant::now());
            }
        }
        Ok(())
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
    fn reap(&mut self) {
        let (ended, failed) = (&mut self.ended, &mut self.failed);
        self.processes.retain(|endpoint, process| {
            let status = match process.child.try_wait() {
                Ok(None) => return true,
                Ok(Some(status)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            ended.insert(endpoint.clone());
            if !process.is_ending {
                tracing::error!(%endpoint, %status, "the process of an endpoint has ended");
            }
            if process.started.elapsed() < STARTING {
                failed.insert(endpoint.clone(), Instant::now());
            }
            false
        });
    }

    /// Ends all endpoints in good order, and tells the cluster.
    fn stop(mut self) -> anyhow::Result<()> {
        let endpoints: Vec<Name> = self.processes.keys().cloned().collect();
        // Others take endpoints only from a gateway that is not ready.
        self.beat(true)?;
        endpoints.iter().for_each(|endpoint| self.end(endpoint));
        let deadline = Instant::now() + PATIENCE;
        while !self.processes.is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
            self.reap();
        }
        for (endpoint, process) in &self.processes {
            tracing::error!(%endpoint, "an endpoint does not end: it is killed");
            signal(&process.child, Signal::KILL);
        }
        Ok(())
    }
}

fn has_lease(endpoint: &cluster::EndpointState, holder: &LeaseHolder) -> bool {
    endpoint.lease.as_ref().is_some_and(|lease| lease.holder.as_ref() == Some(holder))
}

/// Starts the process of an endpoint: this program with the same arguments and a few more.
fn spawn(endpoint: &Name, instance: u64) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
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
