//! The ledger's operations over SMB, through an independent client: `conformance/smb-clients/ledger.py` executes
//! commands.
//!
//! Names, data and sizes only: SMB has no modes, and no handles that survive a connection.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, ensure};

use super::client::{Failure, Stable};
use super::model::{Operation, SLOT, fill};
use crate::interop::smb::{environment, programs};
use crate::process::{self, Process};
use crate::samba::USER;
use crate::server::PLIMSOLL_EXPORT;

/// Seconds from the year 1601 to 1970, MS-DTYP §2.3.3.
const EPOCH: u64 = 11_644_473_600;

#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) address: SocketAddr,
    python: PathBuf,
    log: PathBuf,
}

pub(crate) struct Smb {
    _client: Process,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Share {
    /// Serves the export of [`plimsoll_command`](crate::server::plimsoll_command) at a loopback port. The
    /// clients' output goes to `log`.
    pub(crate) fn new(port: u16, log: PathBuf) -> anyhow::Result<Self> {
        Self::at((Ipv4Addr::LOCALHOST, port).into(), log)
    }

    pub(crate) fn at(address: SocketAddr, log: PathBuf) -> anyhow::Result<Self> {
        Ok(Self { address, python: environment(&log)?, log })
    }

    pub(crate) fn connect(&self) -> anyhow::Result<Smb> {
        let program = programs().join("ledger.py");
        let [python, program] =
            [&self.python, &program].map(|path| path.to_str().context("path is not UTF-8"));
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        let share = PLIMSOLL_EXPORT.trim_start_matches('/');
        let argv = [python?, program?, &host, &port, share, USER.name, USER.password].map(String::from);
        let mut client = Process::start_with_stdin(
            &argv,
            Stdio::piped(),
            Stdio::piped(),
            process::append_to(&self.log)?.into(),
        )?;
        let (to, from) = (client.stdin()?, BufReader::new(client.stdout()?));
        let mut smb = Smb { _client: client, to, from };
        let ready = smb.line().with_context(|| format!("see {}", self.log.display()))?;
        ensure!(ready == "ready", "the client printed {ready}");
        Ok(smb)
    }
}

impl Smb {
    pub(crate) fn perform(&mut self, directory: &str, operation: &Operation) -> Result<(), Failure> {
        let below = |path: &str| format!("{directory}/{path}").replace('/', "\\");
        let line = match operation {
            Operation::Open { path, anew } => {
                format!("create{}\t{}", if *anew { "_new" } else { "" }, below(path))
            }
            Operation::MakeDirectory { path, .. } => format!("mkdir\t{}", below(path)),
            Operation::Link { from, to } => format!("link\t{}\t{}", below(from), below(to)),
            Operation::Rename { from, to } => format!("rename\t{}\t{}", below(from), below(to)),
            Operation::Remove { path } | Operation::RemoveDirectory { path } => {
                format!("remove\t{}", below(path))
            }
            Operation::SetSize { path, slots } => format!("size\t{}\t{}", below(path), slots * SLOT),
            Operation::SetMtime { path, mtime: (seconds, nanoseconds) } => {
                let time = (u64::from(*seconds) + EPOCH) * 10_000_000 + u64::from(*nanoseconds) / 100;
                format!("mtime\t{}\t{time}", below(path))
            }
            Operation::Write { path, slot, tags, stable } => {
                let data: Vec<u8> = tags.iter().flat_map(|&tag| fill(tag)).collect();
                let through = u8::from(*stable != Stable::Unstable);
                format!("write\t{}\t{}\t{through}\t{}", below(path), slot * SLOT, hexadecimal(&data))
            }
            Operation::Commit { path } => format!("flush\t{}", below(path)),
            Operation::Create { .. } | Operation::Symlink { .. } | Operation::SetMode { .. } => {
                return Err(Failure::Malformed("not an operation of SMB"));
            }
        };
        self.say(&line)
    }

    pub(crate) fn make_directory(&mut self, name: &str) -> Result<(), Failure> {
        self.say(&format!("mkdir\t{name}"))
    }

    fn say(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.to, "{line}")?;
        let answer = self.line()?;
        if answer == "ok" {
            return Ok(());
        }
        let status = answer.strip_prefix("status 0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
        Err(status.map_or(Failure::Malformed("an answer that is none"), Failure::Status))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::hexadecimal;

    #[test]
    fn bytes_have_two_hexadecimal_digits() {
        assert_eq!(hexadecimal(&[0x00, 0x0f, 0xa9]), "000fa9");
    }
}
