//! `plimsoll serve`: pools and volumes, kept and managed.

use crate::config::Config;
use crate::front::run_until_told;
use crate::host::Host;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plimsoll serve
  plimsoll serve --data /srv/plimsoll --listen 0.0.0.0:2049
  plimsoll serve --config /etc/plimsoll.toml

Then, from another terminal:
  plimsoll pool create p1 --level anf/ultra --size 4TiB
  plimsoll volume create v1 --pool p1 --size 1TiB --allow 10.1.0.0/16")]
pub(crate) struct ServeArgs {
    /// Configuration: addresses, ports, the data directory; everything may be left out
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory: volumes, the store that says what is served, keys [default: that of the configuration, or /var/lib/plimsoll, or ~/.local/state/plimsoll for an ordinary user]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address and port for NFS and MOUNT [default: that of the configuration, or 127.0.0.1:2049]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

/// Serves until told to stop.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let mut config = args.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    config.data = args.data.unwrap_or(config.data);
    config.nfs.listen = args.listen.unwrap_or(config.nfs.listen);
    let host = Host::start(&config.data, &config.nfs.listen())?;
    host.log_warnings();
    let announce = || {
        println!("Serving {} over NFS on {}", config.data.display(), host.front.address());
    };
    run_until_told(announce, host.ticker());
    host.front.stop();
    Ok(ExitCode::SUCCESS)
}
