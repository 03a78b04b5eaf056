//! Two guests with different kernels at one server: locks between them, across a crash of the server, and after a
//! client was disconnected; and delegations of one that the other recalls.
//!
//! Server and guests are in their own network namespace, so that NFS has port 2049 and the port mapper port 111, as
//! locks of version 3 need, and each guest has its own address. The host sends commands to each guest
//! (`xtask/guest/two-clients.sh`) over a connection, so one clock times both.

mod scenes;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::client;
use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS, OTHER_ADDRESS, Running};
use super::namespace;
use crate::debian::Suite;
use crate::process;
use crate::server::{Endpoint, PLIMSOLL_EXPORT, Server, plimsoll_command};
use scenes::Clients;

const SCRIPT: &str = include_str!("../../../guest/two-clients.sh");
const PORT: u16 = 2049;
/// The interface of each guest, its address on the host and its network.
const NETWORKS: [(&str, &str, u8); 2] = [("tap0", HOST_ADDRESS, 2), ("tap1", OTHER_ADDRESS, 3)];
const LEASE: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(15);
const OUTAGE: Duration = Duration::from_secs(2);
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds after which everything is killed.
    #[arg(long, default_value_t = 1200)]
    timeout_s: u64,
    /// Run fewer pairs of versions, and no scene that waits for a lease to expire.
    #[arg(long)]
    brief: bool,
    /// Set by this command itself: the network namespace exists.
    #[arg(long, hide = true)]
    in_namespace: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let images = [Image::build(Suite::Bookworm)?, Image::build(Suite::Trixie)?];
    if args.in_namespace {
        return run_in_namespace(args, &images);
    }
    let binary = process::binary(args.binary.as_deref()).display().to_string();
    let timeout = args.timeout_s.to_string();
    let mut arguments = vec!["two-clients", "--in-namespace", "--binary", &binary, "--timeout-s", &timeout];
    arguments.extend(args.brief.then_some("--brief"));
    namespace::run(&arguments, Duration::from_secs(args.timeout_s + 60))
}

fn run_in_namespace(args: &Args, images: &[Image; 2]) -> anyhow::Result<()> {
    let work = process::target_dir().join("guest").join("two-clients");
    process::empty_dir(&work)?;
    let mut host = Host::new(args, work)?;
    host.start(&[])?;
    let control = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let port = control.local_addr()?.port();
    let within = Duration::from_secs(args.timeout_s);
    let start = |index: usize, name: &str| {
        let (interface, address, network) = NETWORKS[index];
        let guest = Guest::new(&images[index]).cpus(1).tap(interface);
        let guest = guest.set("NAME", name).set("NETWORK", network).set("HOST", address);
        guest.set("CONTROL", port).set("EXPORT", PLIMSOLL_EXPORT).start(SCRIPT, within)
    };
    let [one, two] = [start(0, "one")?, start(1, "two")?];
    let result = connect(&control).and_then(|mut clients| clients.run(&mut host, args.brief));
    // The guests end when the host sends no more commands; their logs help to explain a failure.
    let outcomes = [one, two].map(Running::finish);
    result?;
    for outcome in outcomes {
        outcome?.require_success()?;
    }
    host.server.stop()
}

fn connect(control: &TcpListener) -> anyhow::Result<Clients> {
    let mut clients = [client::accept(control)?, client::accept(control)?];
    clients.sort_by(|first, second| first.name.cmp(&second.name));
    let [one, two] = clients;
    Ok(Clients { one, two })
}

struct Host {
    binary: PathBuf,
    work: PathBuf,
    server: Server,
}

impl Host {
    fn new(args: &Args, work: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir(work.join("export"))?;
        let binary = process::binary(args.binary.as_deref());
        let server = server(&binary, &work, &[])?;
        let host = Self { binary, work, server };
        for (interface, address, _) in NETWORKS {
            host.ip(&format!("tuntap add dev {interface} mode tap"))?;
            host.ip(&format!("address add {address}/24 dev {interface}"))?;
            host.ip(&format!("link set {interface} up"))?;
        }
        Ok(host)
    }

    fn start(&mut self, options: &[&str]) -> anyhow::Result<()> {
        self.server = server(&self.binary, &self.work, options)?;
        self.server.start()
    }

    /// Kills the server, and restarts it after the outage.
    fn crash(&mut self) -> anyhow::Result<()> {
        self.server.kill()?;
        std::thread::sleep(OUTAGE);
        self.server.start()
    }

    fn set_link(&self, state: &str) -> anyhow::Result<()> {
        self.ip(&format!("link set {} {state}", NETWORKS[0].0))
    }

    fn ip(&self, line: &str) -> anyhow::Result<()> {
        let argv: Vec<&str> = ["ip"].into_iter().chain(line.split(' ')).collect();
        process::run(&argv, &self.work.join("ip.log"), Duration::from_secs(10))
    }
}

fn server(binary: &Path, work: &Path, options: &[&str]) -> anyhow::Result<Server> {
    let (directory, state) = (work.join("export"), work.join("state"));
    let [binary, directory, state] =
        [binary, &directory, &state].map(|path| path.to_str().context("path is not UTF-8"));
    let mut argv = plimsoll_command(binary?, directory?, state?, &format!("0.0.0.0:{PORT}"));
    let seconds = |time: Duration| time.as_secs().to_string();
    argv.extend(["--lease".to_owned(), seconds(LEASE), "--grace-period".to_owned(), seconds(GRACE)]);
    argv.extend(options.iter().copied().map(String::from));
    Ok(Server::from_command(argv, Endpoint::loopback(PORT, PLIMSOLL_EXPORT), work))
}
