//! `plimsoll agent`: makes load on this machine for a coordinator on another one.

use crate::bench::PasswordArgs;
use crate::signals::{ignore_reloads, until_told};
use anyhow::Context;
use bench::agent::{Token, serve, wall_clock};
use bench::engine::{self, Caller};
use clap::Args;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `agent`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  (umask 077 && head -c 32 /dev/urandom | base64 > plimsoll.token)
  plimsoll agent --listen 10.0.0.11:2051 --token-file plimsoll.token

Every machine needs a copy of the token file. Traffic is not encrypted: an attacker on the network
could redirect the load. Allow only the coordinator to reach the port.")]
pub(crate) struct AgentArgs {
    /// Address and port where the coordinator reaches this agent; 0.0.0.0 is every IPv4 address of this machine, port 0 any free one
    #[arg(long, default_value = "127.0.0.1:2051", value_name = "ADDRESS:PORT", value_parser = crate::listen_address::parse)]
    listen: SocketAddr,
    /// File with the secret that coordinator and agents share, 16 to 1024 bytes; only its owner may have rights to it
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    #[command(flatten)]
    password: PasswordArgs,
    /// Local addresses to call from, dealt to this machine's clients in turn; separated by commas
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = crate::listen_address::ip)]
    source: Vec<IpAddr>,
}

/// Serves until told to stop.
pub(crate) fn run(args: AgentArgs) -> anyhow::Result<ExitCode> {
    ignore_reloads();
    let token = Token::read(&args.token_file).context(
        "the agent needs a token: (umask 077 && head -c 32 /dev/urandom | base64 > FILE), the same on all machines",
    )?;
    let listener = TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {}; choose another address with --listen", args.listen))?;
    let (sources, password) = (args.source, args.password);
    let make_engine = move |target: &str, caller: &Caller| {
        // A directory has no user who logs in.
        let nt_hash = target.parse().map_or(Ok(None), |target| password.nt_hash(&target));
        let nt_hash = nt_hash.map_err(|unknown| bench::Error::Plan(format!("{unknown:#}")))?;
        engine::open(target, &Caller { nt_hash, sources: sources.clone(), ..caller.clone() })
    };
    let agent = serve(listener, token, Box::new(make_engine), wall_clock)?;
    until_told(|| println!("Agent {}", agent.address()));
    tracing::info!("stopping: ending the load, if there is one");
    agent.stop();
    Ok(ExitCode::SUCCESS)
}
