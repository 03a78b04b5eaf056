//! `plimsoll setup`: the configuration of a new service, its start, and its first user.

mod advice;
mod args;
mod file;
mod questions;
mod systemd;

use crate::certificates;
use crate::exit::usage;
use crate::manage::{PasswordArgs, ServiceArgs, ids};
use crate::mounting::{name_at, primary_address};
use crate::nodename::nodename;
use crate::state;
use crate::terminal::{self, print};
pub(crate) use args::SetupArgs;

use advice::{FirstUser, Next};
use anyhow::Context;
use api_client::model::{NewUser, Password};
use questions::{Answers, Service, Tls};
use std::io::{ErrorKind, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

pub(crate) fn run(args: &SetupArgs) -> anyhow::Result<()> {
    let answers = answers(args)?;
    let starts = systemd::has_unit(&args.config);
    if starts {
        check_own(answers.address)?;
    }
    file::check_replaceable(&args.config, args.force)?;
    // Without a service nobody can create the user, so the password is not asked for.
    let data = args.data.clone().unwrap_or_else(state::default_dir);
    let can_create = starts || service_in(&data).open().is_ok();
    let password = match &answers.user {
        Some(name) if can_create => password(args, name)?,
        _ => None,
    };
    let tls = certificate(&answers, &args.config)?;
    let text = file::text(&answers, tls.as_ref(), args.data.as_deref())?;
    let config = file::check(&text, &args.config)?;
    let backup = file::write(&args.config, &text)?;
    print(&advice::written(&args.config, backup.as_deref()))?;
    if starts {
        systemd::restart()?;
        print("The service runs (systemctl status plimsoll).\n")?;
    }
    let user = match &answers.user {
        Some(name) if can_create => Some(create_user(args, name, password, &config.data)?),
        _ => first_user(args, &answers)?,
    };
    let is_default = args.config == Path::new(systemd::CONFIG);
    let next = Next {
        host: name_at(answers.address),
        runs: starts,
        user,
        password_file: args.password_file.as_deref(),
        config: (!is_default).then_some(args.config.as_path()),
    };
    print(&next.text(&answers))
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
            let names = [nodename(), name_at(answers.address), "localhost".to_owned()];
            certificates::create(&dir, &names).map(Some)
        }
        Tls::Files { certificate, key } => {
            let full =
                |path: &Path| path.canonicalize().with_context(|| format!("cannot read {}", path.display()));
            Ok(Some(certificates::ServerFiles::of(full(certificate)?, full(key)?)))
        }
    }
}

fn service_in(data: &Path) -> ServiceArgs {
    ServiceArgs { data: Some(data.to_owned()), ..ServiceArgs::default() }
}

/// Creates the first user over the API of the service that runs.
fn create_user(
    args: &SetupArgs,
    name: &str,
    password: Option<String>,
    data: &Path,
) -> anyhow::Result<FirstUser> {
    let session = service_in(data).open()?;
    let uid = args.uid.map_or_else(|| ids::uid(&session, name), Ok)?;
    let password = password.map(Password);
    let user = NewUser { name: name.to_owned(), uid, gid: None, windows_names: None, password };
    let made = session.ask(|client| client.create_user(&user))?;
    let user = made.value;
    let done = if made.is_new { "Created user" } else { "Exists already, unchanged: user" };
    print(&format!("{done} {}: uid {}, gid {}.\n", terminal::printable(&user.name), user.uid, user.gid))?;
    Ok(FirstUser { name: user.name, uid: user.uid, gid: user.gid, exists: true })
}

/// The user to create after the start, an example if none was chosen. `None` without SMB.
fn first_user(args: &SetupArgs, answers: &Answers) -> anyhow::Result<Option<FirstUser>> {
    if !answers.services.contains(&Service::Smb) {
        return Ok(None);
    }
    let name = answers.user.as_deref().unwrap_or("alice");
    let uid = args.uid.map_or_else(|| ids::uid_of_first(name), Ok)?;
    Ok(Some(FirstUser { name: name.to_owned(), uid, gid: uid, exists: false }))
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
