//! `plimsoll setup`: the configuration of a new service, its start, and its first user.

mod advice;
mod args;
mod file;
mod questions;
mod systemd;

use crate::certificates;
use crate::exit::usage;
use crate::manage::{PasswordArgs, ServiceArgs, ids};
use crate::mounting::{host_name, name_at, primary_address};
use crate::terminal::{self, print};
pub(crate) use args::SetupArgs;

use anyhow::Context;
use api_client::model::{NewUser, Password, User};
use questions::{Answers, Tls};
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
    let user = create_user(args, &answers, password, &config.data, starts)?;
    print(&advice::next(&answers, &name_at(answers.address), starts, &user, &args.config))
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
            let names = [host_name(), name_at(answers.address), "localhost".to_owned()];
            certificates::create(&dir, &names).map(Some)
        }
        Tls::Files { certificate, key } => {
            let full =
                |path: &Path| path.canonicalize().with_context(|| format!("cannot read {}", path.display()));
            Ok(Some(certificates::ServerFiles::of(full(certificate)?, full(key)?)))
        }
    }
}

/// The first user of a new service.
enum FirstUser {
    /// Nobody was asked for.
    None,
    /// No service runs that could create it.
    Later(String),
    Exists(User),
}

/// Creates the first user over the API of the service that runs.
fn create_user(
    args: &SetupArgs,
    answers: &Answers,
    password: Option<String>,
    data: &Path,
    starts: bool,
) -> anyhow::Result<FirstUser> {
    let Some(name) = answers.user.clone() else { return Ok(FirstUser::None) };
    let service = ServiceArgs { data: Some(data.to_owned()), ..ServiceArgs::default() };
    let session = match service.open() {
        Ok(session) => session,
        Err(error) if starts => return Err(error),
        Err(_) => return Ok(FirstUser::Later(name)),
    };
    let uid = args.uid.map_or_else(|| ids::uid(&session, &name), Ok)?;
    let user = NewUser { name, uid, gid: None, windows_names: None, password: password.map(Password) };
    let made = session.ask(|client| client.create_user(&user))?;
    let user = made.value;
    let done = if made.is_new { "Created user" } else { "Exists already, unchanged: user" };
    print(&format!("{done} {}: uid {}, gid {}.\n", terminal::printable(&user.name), user.uid, user.gid))?;
    Ok(FirstUser::Exists(user))
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
