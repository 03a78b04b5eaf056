//! The questions of `plimsoll setup`: over a reader and a writer, so that tests can answer them.

use super::args::SetupArgs;
use crate::exit;
use anyhow::{Context, bail};
use std::io::{BufRead, Write};
use std::net::IpAddr;
use std::path::PathBuf;

/// A protocol that clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Service {
    Nfs,
    Smb,
}

/// The encryption of NFS, as a flag or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TlsChoice {
    /// No encryption
    None,
    /// A new certificate authority and a certificate for this machine
    Init,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    None,
    Init,
    Files { certificate: PathBuf, key: PathBuf },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) address: IpAddr,
    pub(super) services: Vec<Service>,
    pub(super) tls: Tls,
    /// The first user of SMB.
    pub(super) user: Option<String>,
}

/// The answers that the flags give alone. An error names all flags that are missing.
pub(super) fn from_flags(flags: &SetupArgs) -> anyhow::Result<Answers> {
    let mut missing = Vec::new();
    if flags.address.is_none() {
        missing.push("--address ADDRESS");
    }
    if flags.protocols.is_empty() {
        missing.push("--protocols nfs,smb");
    }
    if tls_of(flags).is_none() {
        missing.push("--tls none|init (or --tls-cert FILE --tls-key FILE)");
    }
    if flags.user.is_some() && flags.password_file.is_none() {
        missing.push("--password-file FILE");
    }
    if !flags.protocols.is_empty() {
        check_user(&flags.protocols, flags.user.as_ref())?;
    }
    match (flags.address, tls_of(flags)) {
        (Some(address), Some(tls)) if missing.is_empty() => {
            Ok(Answers { address, services: flags.protocols.clone(), tls, user: flags.user.clone() })
        }
        _ => Err(exit::usage(format!(
            "there is no terminal to ask at, and these flags are missing: {}",
            missing.join(", ")
        ))),
    }
}

/// Asks for each answer that the flags do not give. An empty line takes the answer in brackets.
pub(super) fn ask(
    flags: &SetupArgs,
    suggested: IpAddr,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> anyhow::Result<Answers> {
    let mut asking = Asking { input, output };
    let address = match flags.address {
        Some(address) => address,
        None => asking.until(
            &format!("Address for clients; 0.0.0.0 for all IPv4 addresses [{suggested}]: "),
            |line| {
                if line.is_empty() {
                    Ok(suggested)
                } else {
                    line.parse().map_err(|_| line_is_no("an IP address", line))
                }
            },
        )?,
    };
    let services = match flags.protocols.is_empty() {
        false => flags.protocols.clone(),
        true => asking.until("Protocols: nfs, smb or nfs,smb [nfs]: ", services)?,
    };
    check_user(&services, flags.user.as_ref())?;
    let tls = match tls_of(flags) {
        Some(tls) => tls,
        None => {
            asking.until("TLS for NFS: none, or init to create certificates [none]: ", |line| match line {
                "" | "none" => Ok(Tls::None),
                "init" => Ok(Tls::Init),
                _ => Err(line_is_no("none or init", line)),
            })?
        }
    };
    let user = match &flags.user {
        None if services.contains(&Service::Smb) => {
            let name = asking.until("First SMB user; empty for none: ", |line| Ok(line.to_owned()))?;
            Some(name).filter(|name| !name.is_empty())
        }
        given => given.clone(),
    };
    Ok(Answers { address, services, tls, user })
}

/// Refuses a user of SMB without SMB.
fn check_user(services: &[Service], user: Option<&String>) -> anyhow::Result<()> {
    match user {
        Some(_) if !services.contains(&Service::Smb) => Err(exit::usage(
            "--user is a user of SMB, which --protocols has to name: such as --protocols nfs,smb",
        )),
        _ => Ok(()),
    }
}

fn tls_of(flags: &SetupArgs) -> Option<Tls> {
    match (&flags.tls_cert, &flags.tls_key, flags.tls) {
        (Some(certificate), Some(key), _) => {
            Some(Tls::Files { certificate: certificate.clone(), key: key.clone() })
        }
        (_, _, Some(TlsChoice::None)) => Some(Tls::None),
        (_, _, Some(TlsChoice::Init)) => Some(Tls::Init),
        _ => None,
    }
}

fn services(line: &str) -> Result<Vec<Service>, String> {
    let service = |word: &str| match word.trim() {
        "nfs" => Ok(Service::Nfs),
        "smb" => Ok(Service::Smb),
        _ => Err(line_is_no("nfs, smb or nfs,smb", line)),
    };
    if line.is_empty() { Ok(vec![Service::Nfs]) } else { line.split(',').map(service).collect() }
}

fn line_is_no(wanted: &str, line: &str) -> String {
    format!("{line:?} is not {wanted}.")
}

struct Asking<'a, R, W> {
    input: &'a mut R,
    output: &'a mut W,
}

impl<R: BufRead, W: Write> Asking<'_, R, W> {
    /// Asks again after an answer that is not valid.
    fn until<T>(&mut self, question: &str, parse: impl Fn(&str) -> Result<T, String>) -> anyhow::Result<T> {
        loop {
            write!(self.output, "{question}")?;
            self.output.flush()?;
            let mut line = String::new();
            if self.input.read_line(&mut line).context("cannot read the answer")? == 0 {
                bail!("nothing was changed: the input ended before the answer");
            }
            match parse(line.trim()) {
                Ok(answer) => return Ok(answer),
                Err(why) => writeln!(self.output, "{why}")?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        setup: SetupArgs,
    }

    fn flags(arguments: &[&str]) -> SetupArgs {
        Arguments::parse_from([&["setup"], arguments].concat()).setup
    }

    fn asked(arguments: &[&str], input: &str) -> (anyhow::Result<Answers>, String) {
        let mut output = Vec::new();
        let suggested = "10.0.0.5".parse().unwrap();
        let answers = ask(&flags(arguments), suggested, &mut input.as_bytes(), &mut output);
        (answers, String::from_utf8(output).unwrap())
    }

    #[test]
    fn empty_lines_take_what_is_suggested() {
        let (answers, said) = asked(&[], "\n\n\n");
        let expected = Answers {
            address: "10.0.0.5".parse().unwrap(),
            services: vec![Service::Nfs],
            tls: Tls::None,
            user: None,
        };
        assert_eq!(answers.unwrap(), expected);
        assert!(said.contains("[10.0.0.5]") && !said.contains("SMB user"), "{said}");
    }

    #[test]
    fn answer_that_is_not_valid_is_asked_for_again() {
        let (answers, said) = asked(&[], "here\n0.0.0.0\nftp\nnfs, smb\nyes\ninit\nalice\n");
        let answers = answers.unwrap();
        assert_eq!(
            (answers.services.len(), answers.tls, answers.user.as_deref()),
            (2, Tls::Init, Some("alice"))
        );
        for why in ["\"here\" is not an IP address", "\"ftp\"", "\"yes\" is not none or init"] {
            assert!(said.contains(why) || said.contains("is not nfs"), "{said}");
        }
    }

    #[test]
    fn flags_are_not_asked_for() {
        let all = ["--address", "::1", "--protocols", "smb", "--tls", "none", "--user", "bob"];
        let (answers, said) = asked(&all, "");
        assert_eq!((answers.unwrap().user.as_deref(), said.as_str()), (Some("bob"), ""));
        assert!(asked(&all[..6], "").0.unwrap_err().to_string().contains("the input ended"));
    }

    #[test]
    fn flags_that_are_missing_are_listed_together() {
        let error = from_flags(&flags(&["--user", "bob"])).unwrap_err().to_string();
        for flag in ["--address", "--protocols", "--tls none|init", "--password-file"] {
            assert!(error.contains(flag), "{error}");
        }
        let files = ["--address", "10.0.0.5", "--protocols", "nfs", "--tls-cert", "c", "--tls-key", "k"];
        let tls = Tls::Files { certificate: "c".into(), key: "k".into() };
        assert_eq!(from_flags(&flags(&files)).unwrap().tls, tls);
    }
}
