//! `plimsoll setup`: the configuration of a new service, its start, and its first user.

mod advice;
mod file;
mod questions;
mod systemd;

use crate::certificates;
use crate::manage::{PasswordArgs, ServiceArgs};
use crate::state;
use crate::terminal::{self, print};
use anyhow::{Context, ensure};
use api_client::model::{NewUser, Password};
use clap::Args;
use questions::{Answers, Service, Tls, TlsChoice};
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};

/// The user ID of the first user where this machine has no user of the name.
const FIRST_UID: u32 = 1000;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plimsoll setup
  plimsoll setup --address 10.0.0.5 --protocols nfs --tls none
  plimsoll setup --address 10.0.0.5 --protocols nfs,smb --tls init --user alice --password-file alice.secret

Without a terminal the command needs --address, --protocols and --tls. It replaces a configuration that it has written \
itself or that is unchanged since the installation of the package, and keeps a copy. Others need --force.")]
pub(crate) struct SetupArgs {
    /// Address at which clients reach the service; 0.0.0.0 is every IPv4 address of this machine
    #[arg(long)]
    address: Option<IpAddr>,
    /// Protocols to serve
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PROTOCOLS")]
    protocols: Vec<Service>,
    /// Encryption of NFS
    #[arg(long, value_enum, value_name = "WHEN", conflicts_with_all = ["tls_cert", "tls_key"])]
    tls: Option<TlsChoice>,
    /// Certificate for NFS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM and mode 600
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// First user of SMB
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// User ID of the first user [default: that of this machine's user of the name, or 1000]
    #[arg(long, requires = "user")]
    uid: Option<u32>,
    /// File with the password of the first user, in mode 600 [default: asks]
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Configuration to write
    #[arg(long, value_name = "FILE", default_value = systemd::CONFIG)]
    config: PathBuf,
    /// Data directory of the service [default: /var/lib/plimsoll, or ~/.local/state/plimsoll for an ordinary user]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Replace a configuration that this command has not written
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &SetupArgs) -> anyhow::Result<()> {
    let answers = answers(args)?;
    file::check_replaceable(&args.config, args.force)?;
    let password = answers.user.as_deref().map(|name| password(args, name)).transpose()?.flatten();
    let tls = certificate(&answers, &args.config)?;
    let text = file::text(&answers, tls.as_ref(), args.data.as_deref())?;
    let config = file::check(&text, &args.config)?;
    let backup = file::write(&args.config, &text)?;
    print(&advice::written(&args.config, backup.as_deref()))?;
    let starts = systemd::has_unit(&args.config);
    if starts {
        systemd::restart()?;
        print("The service runs (systemctl status plimsoll).\n")?;
    }
    let made = create_user(args, &answers, password, &config.data, starts)?;
    print(&advice::next(&answers, &host(answers.address), starts, made, &args.config))
}

fn answers(args: &SetupArgs) -> anyhow::Result<Answers> {
    let (input, mut output) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() || !output.is_terminal() {
        return questions::from_flags(args);
    }
    let suggested = primary_address().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    questions::ask(args, suggested, &mut input.lock(), &mut output)
}

fn password(args: &SetupArgs, name: &str) -> anyhow::Result<Option<String>> {
    PasswordArgs::from_file(args.password_file.clone()).read(name)
}

/// The certificate and the key for NFS. Certificates of an earlier setup are used again.
fn certificate(answers: &Answers, config: &Path) -> anyhow::Result<Option<certificates::ServerFiles>> {
    match &answers.tls {
        Tls::None => Ok(None),
        Tls::Init => {
            let dir = config.parent().unwrap_or(Path::new(".")).join("tls");
            let names = [uname(), host(answers.address), "localhost".to_owned()];
            certificates::create(&dir, &names).map(Some)
        }
        Tls::Files { certificate, key } => {
            let full =
                |path: &Path| path.canonicalize().with_context(|| format!("cannot read {}", path.display()));
            Ok(Some(certificates::ServerFiles::of(full(certificate)?, full(key)?)))
        }
    }
}

/// Creates the first user over the API of the service that runs. `None` without a user; `false` if none runs.
fn create_user(
    args: &SetupArgs,
    answers: &Answers,
    password: Option<String>,
    data: &Path,
    starts: bool,
) -> anyhow::Result<Option<bool>> {
    let Some(name) = answers.user.clone() else { return Ok(None) };
    let service = ServiceArgs { data: Some(data.to_owned()), ..ServiceArgs::default() };
    let session = match service.open() {
        Ok(session) => session,
        Err(error) if starts => return Err(error),
        Err(_) => return Ok(Some(false)),
    };
    let own = || nix::unistd::User::from_name(&name).ok().flatten().map(|user| user.uid.as_raw());
    let uid = args.uid.or_else(own).unwrap_or(FIRST_UID);
    ensure!(uid != 0, "{name} is root (user ID 0): choose another user, or give --uid");
    let user = NewUser { name, uid, gid: None, windows_names: None, password: password.map(Password) };
    let made = session.ask(|client| client.create_user(&user))?;
    let user = &made.value;
    print(&format!("The user {} exists (uid {}).\n", terminal::printable(&user.name), user.uid))?;
    Ok(Some(true))
}

/// The address or name by which clients reach an address of this machine.
fn host(address: IpAddr) -> String {
    match address {
        ip if ip.is_unspecified() => primary_address().map_or_else(uname, |ip| ip.to_string()),
        ip => ip.to_string(),
    }
}

fn uname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The address from which this machine reaches others. Connecting a datagram socket sends nothing (192.0.2.0/24 is for
/// documentation, RFC 5737).
fn primary_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}

/// The data directory that a configuration names only if it is not the default.
fn is_default(data: &Path) -> bool {
    data == state::default_dir()
}
