//! `plimsoll cluster`: gateways and endpoints.

use super::clock::since_1970_ms;
use super::membership::{self, Member};
use super::network::EndpointAddress;
use super::settings;
use crate::config::Config;
use crate::manage::Table;
use crate::number::whole;
use crate::volume_storage::VolumeStorage;
use crate::{state, terminal};
use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use cluster::{Cluster, EndpointRecord, GatewayState, Invitation, Name, View};
use serde_json::{Value, json};
use std::io::Read;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Gateways in front of one CephFS.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Configuration of this gateway, with [ceph] and [cluster] [default for root: /etc/plimsoll/plimsoll.toml]
    #[arg(long, global = true, value_name = "FILE", env = "PLIMSOLL_CONFIG")]
    config: Option<PathBuf>,
    /// Data directory [default: that of the configuration]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a new cluster with this machine as its first gateway.
    Init {
        /// Seconds after which another gateway may take the endpoints of a silent one
        #[arg(long, default_value_t = 3, value_name = "SECONDS", value_parser = whole::<u64>(1..=60))]
        lease: u64,
    },
    /// Print an invitation, with which one machine can join the cluster.
    Invite {
        /// Minutes until the invitation expires
        #[arg(long, default_value_t = 60, value_name = "MINUTES", value_parser = whole::<u64>(1..=10_080))]
        minutes: u64,
    },
    /// Join a cluster as a new gateway. The invitation is read from the standard input.
    Join,
    /// Show gateways and endpoints.
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Move all endpoints away from a gateway, and give it no new ones.
    Drain {
        /// Name of the gateway
        gateway: Name,
    },
    /// End the drain of a gateway.
    Resume {
        /// Name of the gateway
        gateway: Name,
    },
    /// Remove a gateway that serves nothing from the cluster.
    Remove {
        /// Name of the gateway
        gateway: Name,
    },
    /// Manage endpoints.
    #[command(subcommand)]
    Endpoint(EndpointCommand),
}

#[derive(Debug, Subcommand)]
enum EndpointCommand {
    /// Add an endpoint: a service with an address, pools, volumes and users of its own.
    Create {
        /// Name of the endpoint
        name: Name,
        /// Address with the length of the network's prefix, such as 10.1.0.50/24
        #[arg(long, value_name = "ADDRESS/BITS")]
        address: EndpointAddress,
        /// Gateway that serves it as long as it can [default: any]
        #[arg(long, value_name = "GATEWAY")]
        gateway: Option<Name>,
    },
    /// Move an endpoint to a gateway, which serves it from now on as long as it can.
    Move {
        /// Name of the endpoint
        name: Name,
        /// Gateway, or "any"
        gateway: String,
    },
    /// Stop an endpoint: no gateway serves it until it is started.
    Stop {
        /// Name of the endpoint
        name: Name,
    },
    /// Start a stopped endpoint.
    Start {
        /// Name of the endpoint
        name: Name,
    },
    /// Delete a stopped endpoint without volumes, with its pools, policies and users.
    Delete {
        /// Name of the endpoint
        name: Name,
    },
}

pub(crate) fn run(args: ClusterArgs) -> anyhow::Result<()> {
    let mut config = Config::read_or_default(args.config.as_deref())?;
    config.data = args.data.unwrap_or(config.data);
    match args.command {
        Command::Init { lease } => init(&config, Duration::from_secs(lease)),
        Command::Join => join(&config),
        command => run_as_member(command, &config, &membership::open(&config)?),
    }
}

fn run_as_member(command: Command, config: &Config, member: &Member) -> anyhow::Result<()> {
    let cluster = &member.cluster;
    match command {
        Command::Init { .. } | Command::Join => {}
        Command::Invite { minutes } => {
            let valid_ms = Duration::from_secs(minutes * 60).as_millis().try_into()?;
            println!("{}", cluster.invite(since_1970_ms(), valid_ms, &state::must_random)?);
        }
        Command::Status { json } => status(member, json)?,
        Command::Drain { gateway } => {
            cluster.set_drained(&gateway, true)?;
            println!("{gateway} is drained. Its endpoints move: plimsoll cluster status");
        }
        Command::Resume { gateway } => {
            cluster.set_drained(&gateway, false)?;
            println!("{gateway} takes endpoints again.");
        }
        Command::Remove { gateway } => {
            cluster.remove_gateway(&gateway)?;
            println!("{gateway} is removed. Its file cluster.key is of no use any more.");
        }
        Command::Endpoint(EndpointCommand::Create { name, address, gateway }) => {
            let EndpointAddress { ip: address, prefix } = address;
            check_unused(config, member, address)?;
            cluster.create_endpoint(
                &name,
                &EndpointRecord { address, prefix, gateway, created_ms: since_1970_ms() },
            )?;
        }
        Command::Endpoint(EndpointCommand::Move { name, gateway }) => {
            let gateway = (gateway != "any")
                .then(|| gateway.parse().map_err(|error: String| anyhow!(error)))
                .transpose()?;
            cluster.prefer(&name, gateway.as_ref())?;
        }
        Command::Endpoint(EndpointCommand::Stop { name }) => {
            cluster.set_stopped(&name, true)?;
            println!("{name} stops: plimsoll cluster status");
        }
        Command::Endpoint(EndpointCommand::Start { name }) => {
            cluster.set_stopped(&name, false)?;
            println!("{name} starts: plimsoll cluster status");
        }
        Command::Endpoint(EndpointCommand::Delete { name }) => delete(config, member, &name)?,
    }
    Ok(())
}

/// Refuses an address of this machine: it would stay here when the endpoint moves.
fn check_unused(config: &Config, member: &Member, address: IpAddr) -> anyhow::Result<()> {
    // Another program may put an address on every gateway.
    let moves = config.cluster.interface.is_some();
    let is_new = member.cluster.view()?.endpoints.values().all(|endpoint| endpoint.record.address != address);
    if moves && is_new && UdpSocket::bind((address, 0)).is_ok() {
        bail!("{address} is an address of this machine: an endpoint needs an address that no machine has");
    }
    Ok(())
}

/// Deletes an endpoint that has no volumes, so that no data is lost.
fn delete(config: &Config, member: &Member, name: &Name) -> anyhow::Result<()> {
    let view = member.cluster.view()?;
    if let Some(found) = view.endpoints.get(name) {
        if !found.is_stopped {
            bail!("the endpoint {name} is not stopped: plimsoll cluster endpoint stop {name}");
        }
        if holder(&view, name).is_some() {
            bail!(
                "the endpoint {name} has not ended yet: wait until \"plimsoll cluster status\" shows \"stopped\""
            );
        }
        let config = settings::of_endpoint(config, name, found.record.address);
        let storage = VolumeStorage::open(&config.data, &config.storage())?;
        let volumes =
            storage.provisioner().list().map_err(|error| anyhow!("cannot list the volumes: {error}"))?;
        if !volumes.is_empty() {
            let count = volumes.len();
            bail!("the endpoint {name} has volumes ({count}): start it, delete them, and stop it again");
        }
    }
    Ok(member.cluster.remove_endpoint(name)?)
}

fn init(config: &Config, lease: Duration) -> anyhow::Result<()> {
    state::make_dir(&config.data)?;
    let (own, store) = membership::connect_new(config)?;
    let cluster = Cluster::init(store, &own, lease, &state::must_random)?;
    membership::keep_key(&config.data, cluster.key())?;
    println!("This machine is the first gateway of a new cluster, {own}.");
    println!("Next: systemctl start plimsoll; plimsoll cluster invite; plimsoll cluster endpoint create");
    Ok(())
}

fn join(config: &Config) -> anyhow::Result<()> {
    state::make_dir(&config.data)?;
    let (own, store) = membership::connect_new(config)?;
    let mut text = String::new();
    std::io::stdin().take(4096).read_to_string(&mut text).context("cannot read the invitation")?;
    if text.trim().is_empty() {
        bail!("no invitation on the standard input: echo plimsoll-join-… | plimsoll cluster join");
    }
    let cluster = Cluster::join(store, &Invitation::parse(&text)?, &own, since_1970_ms())?;
    membership::keep_key(&config.data, cluster.key())?;
    println!("This machine is the gateway {own}. Next: systemctl start plimsoll");
    Ok(())
}

fn status(member: &Member, as_json: bool) -> anyhow::Result<()> {
    let before = member.cluster.view()?;
    // A gateway or a lease lives if it was renewed between two looks.
    thread::sleep(before.times.renewal * 5 / 2);
    let view = member.cluster.view()?;
    if as_json {
        println!("{}", serde_json::to_string_pretty(&as_value(&before, &view))?);
        return Ok(());
    }
    let columns = terminal::columns();
    let mut table = Table::new(&["GATEWAY", "STATE", "ENDPOINTS", "VERSION", "HOST"]);
    for (name, gateway) in &view.gateways {
        let endpoints = served_by(&view, name).join(", ");
        let (version, host) = (&gateway.record.version, &gateway.record.host);
        table.row([
            name.to_string(),
            gateway_state(&before, name, gateway).to_owned(),
            endpoints,
            version.clone(),
            host.clone(),
        ]);
    }
    print!("{}", table.or("No gateways.", columns));
    println!();
    let mut table = Table::new(&["ENDPOINT", "ADDRESS", "STATE", "GATEWAY", "PREFERRED"]);
    for (name, endpoint) in &view.endpoints {
        let address = format!("{}/{}", endpoint.record.address, endpoint.record.prefix);
        let preferred = endpoint.record.gateway.as_ref().map_or("any".to_owned(), Name::to_string);
        let state = endpoint_state(&before, &view, name).to_owned();
        table.row([
            name.to_string(),
            address,
            state,
            holder(&view, name).unwrap_or_default().to_owned(),
            preferred,
        ]);
    }
    let nothing = "No endpoints. Create one: plimsoll cluster endpoint create NAME --address ADDRESS/BITS";
    print!("{}", table.or(nothing, columns));
    Ok(())
}

fn as_value(before: &View, view: &View) -> Value {
    let gateways = view.gateways.iter().map(|(name, gateway)| {
        json!({
            "name": name.as_str(),
            "state": gateway_state(before, name, gateway),
            "endpoints": served_by(view, name),
            "version": gateway.record.version,
            "state_format": gateway.record.state_format,
            "host": gateway.record.host,
        })
    });
    let endpoints = view.endpoints.iter().map(|(name, endpoint)| {
        json!({
            "name": name.as_str(),
            "address": endpoint.record.address.to_string(),
            "prefix": endpoint.record.prefix,
            "state": endpoint_state(before, view, name),
            "gateway": holder(view, name),
            "state_format": endpoint.state_format,
            "preferred_gateway": endpoint.record.gateway.as_ref().map(Name::as_str),
        })
    });
    json!({
        "cluster": view.id,
        "format": view.format,
        "lease_seconds": view.times.lease.as_secs(),
        "gateways": gateways.collect::<Vec<_>>(),
        "endpoints": endpoints.collect::<Vec<_>>(),
    })
}

fn gateway_state(before: &View, name: &Name, gateway: &GatewayState) -> &'static str {
    let earlier = before.gateways.get(name).map(|earlier| (earlier.record.instance, earlier.record.beat));
    let lives = earlier.is_none_or(|earlier| earlier != (gateway.record.instance, gateway.record.beat));
    match (gateway.record.has_stopped, lives, gateway.is_drained) {
        (true, ..) => "stopped",
        (false, false, _) => "silent",
        (false, true, true) => "drained",
        (false, true, false) => "ready",
    }
}

fn endpoint_state(before: &View, view: &View, name: &Name) -> &'static str {
    let lease = |view: &View| view.endpoints.get(name).and_then(|endpoint| endpoint.lease.clone());
    let is_stopped = view.endpoints.get(name).is_some_and(|endpoint| endpoint.is_stopped);
    match (lease(view), lease(before)) {
        (None, _) => "incomplete",
        (Some(lease), _) if lease.holder.is_none() && is_stopped => "stopped",
        (Some(lease), _) if lease.holder.is_none() && needs_upgrade(before, view, name) => "needs upgrade",
        (Some(lease), _) if lease.holder.is_none() => "not served",
        (now, earlier) if now == earlier => "silent",
        _ => "served",
    }
}

/// Whether gateways are ready, but the program of each is too old for the state of the endpoint.
fn needs_upgrade(before: &View, view: &View, endpoint: &Name) -> bool {
    let state_format = view.endpoints.get(endpoint).map_or(0, |endpoint| endpoint.state_format);
    let ready = |(name, gateway): &(&Name, &GatewayState)| gateway_state(before, name, gateway) == "ready";
    let mut ready = view.gateways.iter().filter(ready).peekable();
    ready.peek().is_some() && ready.all(|(_, gateway)| gateway.record.state_format < state_format)
}

fn holder<'v>(view: &'v View, name: &Name) -> Option<&'v str> {
    let lease = view.endpoints.get(name)?.lease.as_ref()?;
    Some(lease.holder.as_ref()?.gateway.as_str())
}

fn served_by<'v>(view: &'v View, gateway: &Name) -> Vec<&'v str> {
    let serves = |name: &&Name| holder(view, name) == Some(gateway.as_str());
    view.endpoints.keys().filter(serves).map(Name::as_str).collect()
}
