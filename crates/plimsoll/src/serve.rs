//! `plimsoll serve`: pools and volumes, kept and managed.

use crate::announcement::Announcement;
use crate::config::{ApiConfig, Config, SnapshotMode};
use crate::exit::usage;
use crate::gateway::{EndpointArgs, endpoint, supervisor};
use crate::host::{Host, Moving};
use crate::local_socket;
use crate::nfs_frontend::run_until_told;
use crate::number::whole;
use crate::replication_listener;
use crate::signals::ignore_reloads;
use crate::smb_frontend::Switch;
use crate::tls::TlsSettings;
use anyhow::{Context, anyhow};
use clap::Args;
use replicate::link::Listener;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plimsoll serve
  plimsoll serve --data /srv/plimsoll --listen 0.0.0.0:2049
  plimsoll serve --listen 0.0.0.0:2049 --smb-listen 0.0.0.0:445
  plimsoll serve --config ./plimsoll.toml

Then, from another terminal:
  plimsoll pool create p1 --level anf/ultra --size 4TiB
  plimsoll volume create v1 --pool p1 --size 1TiB --allow 10.1.0.0/16")]
pub(crate) struct ServeArgs {
    /// Configuration: addresses, ports, certificates, the data directory [default for root: /etc/plimsoll/plimsoll.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CONFIG")]
    config: Option<PathBuf>,
    /// Data directory: volumes, the store that says what is served, keys [default: that of the configuration, or /var/lib/plimsoll, or ~/.local/state/plimsoll for an ordinary user]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_DATA")]
    data: Option<PathBuf>,
    /// Address and port for NFS and MOUNT [default: that of the configuration, or 127.0.0.1:2049]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::listen_address::parse)]
    listen: Option<SocketAddr>,
    /// Address and port for SMB, which is served to the users of the service ("plimsoll user") [default: that of the configuration; else SMB is not served]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::listen_address::parse)]
    smb_listen: Option<SocketAddr>,
    /// Allow anonymous SMB logins. They can list shares but not open them [default: that of the configuration; else they are refused]
    #[arg(long, hide_short_help = true)]
    smb_anonymous: bool,
    /// Whether a session of SMB may have several TCP connections (multichannel); off: AES-GMAC signs for all clients that offer it [default: that of the configuration; else on]
    #[arg(long, value_name = "on|off", hide_short_help = true)]
    smb_multichannel: Option<Switch>,
    /// Port for remote quotas, UDP and TCP, such as 4049: "quota" on NFS clients shows limits and usage; 0 for none [default: that of the configuration; else none]
    #[arg(long, value_name = "PORT", hide_short_help = true, value_parser = whole::<u16>(0..=u16::MAX))]
    rquota_port: Option<u16>,
    /// Address and port for peers that replicate volumes of this service ("plimsoll peer"), such as 0.0.0.0:2052 [default: that of the configuration; else it does not listen for them]
    #[arg(long, value_name = "ADDRESS:PORT", hide_short_help = true, value_parser = crate::listen_address::parse)]
    replication_listen: Option<SocketAddr>,
    /// Address and port for the API, over which everything is managed [default: that of the configuration, or 127.0.0.1:2050]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::listen_address::parse)]
    api: Option<SocketAddr>,
    /// File systems on which volumes can have snapshots [default: that of the configuration, or native]
    #[arg(long, value_name = "native|copy", hide_short_help = true)]
    snapshots: Option<SnapshotMode>,
    #[command(flatten)]
    tls: TlsSettings,
    #[command(flatten)]
    process: EndpointArgs,
}

/// The time that shutdown waits for requests of the API.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves until told to stop.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    ignore_reloads();
    let mut config = Config::read_or_default(args.config.as_deref())?;
    config.data = args.data.unwrap_or(config.data);
    config.snapshots = args.snapshots.unwrap_or(config.snapshots);
    config.nfs.listen = args.listen.unwrap_or(config.nfs.listen);
    config.nfs.rquota_port = args.rquota_port.or(config.nfs.rquota_port);
    let has_tls_flags = args.tls.is_given();
    config.nfs.tls = args.tls.or(config.nfs.tls);
    config.nfs.tls.check().map_err(|lack| if has_tls_flags { usage(lack) } else { anyhow!(lack) })?;
    config.smb.listen = args.smb_listen.or(config.smb.listen);
    config.smb.anonymous |= args.smb_anonymous;
    config.smb.multichannel = args.smb_multichannel.map_or(config.smb.multichannel, |set| set == Switch::On);
    config.replication.listen = args.replication_listen.or(config.replication.listen);
    config.api.listen = args.api.unwrap_or(config.api.listen);
    if config.smb.listen.is_none() && (args.smb_anonymous || args.smb_multichannel.is_some()) {
        return Err(usage(
            "--smb-anonymous and --smb-multichannel are for SMB, which is not served: give --smb-listen ADDRESS:PORT too",
        ));
    }
    if config.cluster.pool.is_none() {
        return serve_until_told(&config, None).map(|()| ExitCode::SUCCESS);
    }
    match (args.process.endpoint, args.process.run) {
        (Some(endpoint), Some(run)) => endpoint::run(&config, &endpoint, run),
        _ => supervisor::run(&config),
    }
}

/// Serves with a finished configuration until told to stop.
pub(crate) fn serve_until_told(config: &Config, moving: Option<Moving>) -> anyhow::Result<()> {
    let settings = config.check()?;
    let host = Host::start(&config.data, &config.nfs.listen(), &config.smb, &config.storage(), moving)?;
    let listen = config.replication.listen;
    let peers = listen.map(|listen| replication_listener::start(&host.control, listen)).transpose();
    let served = peers.and_then(|peers| {
        let served = serve(&host, config, &settings, peers.as_ref().map(Listener::local_addr));
        // Peers end before the jobs and the storage.
        drop(peers);
        served
    });
    host.stop();
    served
}

/// Serves the API beside NFS and SMB until told to stop.
fn serve(
    host: &Host,
    config: &Config,
    settings: &api::Settings,
    replication: Option<SocketAddr>,
) -> anyhow::Result<()> {
    let lent = host.lend_room();
    let made =
        api::bootstrap(&host.control, &config.data).context("cannot make the first token of the API")?;
    let socket = local_socket::listen(&config.data);
    if let Err(error) = &socket {
        tracing::warn!("commands reach the API by its URL alone: {error:#}");
    }
    let has_socket = socket.is_ok();
    let api = api::start(host.api_dependencies(), settings, socket.ok());
    let api = api.with_context(|| failed(&config.api))?;
    let announcement = Announcement {
        api: url(&api, &config.api),
        nfs: host.frontend.address(),
        has_socket,
        smb: host.smb_address(),
        replication,
    };
    if let Err(error) = announcement.write(&config.data) {
        tracing::warn!("commands need --url {}: {error:#}", announcement.api);
    }
    drop(lent);
    host.log_warnings();
    let status = announcement.to_string();
    run_until_told(|| announce(&config.data, &announcement, made.as_deref()), host.tasks(), &status);
    host.begin_drain();
    api.stop(PATIENCE);
    Announcement::remove(&config.data);
    if has_socket {
        local_socket::remove(&config.data);
    }
    Ok(())
}

/// Says how the service is used.
fn announce(data: &Path, at: &Announcement, new_token: Option<&Path>) {
    println!("Data  {}", data.display());
    println!("NFS   {}", at.nfs);
    at.smb.iter().for_each(|smb| println!("SMB   {smb}"));
    at.replication.iter().for_each(|peers| println!("Peers {peers}"));
    println!("API   {}", at.api);
    let token = data.join(api_client::ADMIN_TOKEN_FILE);
    match (new_token, token.exists()) {
        (Some(path), _) => println!("Token {} (new: only its owner can read it)", path.display()),
        (None, true) => println!("Token {}", token.display()),
        (None, false) => println!("Token kept elsewhere: {} is not there", token.display()),
    }
}

fn failed(config: &ApiConfig) -> String {
    format!("cannot serve the API on {}; choose another address with --api or in [api]", config.listen)
}

/// The address by which clients know the API.
fn url(api: &api::Server, config: &ApiConfig) -> String {
    if let Some(url) = &config.url {
        return url.trim_end_matches('/').to_owned();
    }
    let mut address = api.local_addr();
    if address.ip().is_unspecified() {
        let loopback = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
        address.set_ip(loopback.parse().unwrap_or(address.ip()));
    }
    let scheme = if config.certificate.is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}
