//! `plimsoll setup`: the configuration of a new service, its start, and its first user.

mod advice;
mod args;
mod file;
mod questions;
mod systemd;

use crate::certificates;
use crate::exit::usage;
use crate::manage::{PasswordArgs, ServiceArgs};
use crate::terminal::{self, print};
pub(crate) use args::SetupArgs;

use anyhow::{Context, ensure};
use api_client::model::{NewUser, Password};
use questions::{Answers, Tls};
use std::io::{ErrorKind, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

/// The user ID of the first user where this machine has no user of the name.
const FIRST_UID: u32 = 1000;

pub(crate) fn run(args: &SetupArgs) -> anyhow::Result<()> {
    let answers = answers(args)?;
    let starts = systemd::has_unit(&args.config);
    if starts {
        check_own(answers.address)?;
    }
    file::check_replaceable(&args.config, args.force)?;
    let password = answers.user.as_deref().map(|name| password(args, name)).transpose()?.flatten();
    let tls = certificate(&answers, &args.config)?;
    let text = file::text(&answers, tls.as_ref(), args.data.as_deref())?;
    let config = file::check(&text, &args.config)?;
    let backup = file::write(&args.config, &text)?;
    print(&advice::written(&args.config, backup.as_deref()))?;
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

/// Refuses an address at which this machine cannot listen: the service would not start.
fn check_own(address: IpAddr) -> anyhow::Result<()> {
    match UdpSocket::bind((address, 0)) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Err(usage(format!(
            "this machine does not have the address {address}; allowed: an address that \"ip address\" shows, or 0.0.0.0 for all"
        ))),
        _ => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_another_machine_is_refused() {
        for own in ["127.0.0.1", "0.0.0.0"] {
            check_own(own.parse().unwrap()).unwrap();
        }
        let refused = check_own("192.0.2.1".parse().unwrap()).unwrap_err().to_string();
        assert!(
            refused.starts_with("this machine does not have the address 192.0.2.1; allowed: "),
            "{refused}"
        );
    }
}
