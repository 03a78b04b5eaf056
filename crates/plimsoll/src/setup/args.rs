//! The flags of `plimsoll setup`.

use super::questions::{Service, TlsChoice};
use super::systemd;
use crate::number::whole;
use clap::Args;
use control::ACCOUNT_ID_MAX;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plimsoll setup
  plimsoll setup --address 10.0.0.5 --protocols nfs --tls none
  plimsoll setup --address 10.0.0.5 --protocols nfs,smb --tls init --user alice --password-file alice.secret

Without a terminal the command needs --address, --protocols and --tls. It replaces the \
configuration of the package, and one that it has written, and keeps a copy. If you have edited the configuration, use \
--force.")]
pub(crate) struct SetupArgs {
    /// Address at which clients reach the service; 0.0.0.0 is every IPv4 address of this machine
    #[arg(long, value_parser = crate::listen_address::ip)]
    pub(super) address: Option<IpAddr>,
    /// Protocols to serve
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PROTOCOLS")]
    pub(super) protocols: Vec<Service>,
    /// Encryption of NFS
    #[arg(long, value_enum, value_name = "WHEN", conflicts_with_all = ["tls_cert", "tls_key"])]
    pub(super) tls: Option<TlsChoice>,
    /// Certificate for NFS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM and mode 600
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// First user of SMB
    #[arg(long, value_name = "NAME")]
    pub(super) user: Option<String>,
    /// User ID of the first user [default: that of this machine's user of the name, or the next free one from 1000]
    #[arg(long, requires = "user", value_parser = whole::<u32>(1..=ACCOUNT_ID_MAX))]
    pub(super) uid: Option<u32>,
    /// File with the password of the first user, in mode 600 [default: asks]
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(super) password_file: Option<PathBuf>,
    /// Configuration to write
    #[arg(long, value_name = "FILE", default_value = systemd::CONFIG)]
    pub(super) config: PathBuf,
    /// Data directory of the service [default: /var/lib/plimsoll, or ~/.local/state/plimsoll for an ordinary user]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Replace a configuration that this command has not written
    #[arg(long)]
    pub(super) force: bool,
}
