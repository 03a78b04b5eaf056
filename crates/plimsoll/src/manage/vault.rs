//! `plimsoll vault …`: places for backups.

use super::connection::{Reach, Session, VersionArgs, YesArgs, check_change};
use super::limits::stored;
use super::names;
use super::table::{Cell, Facts, Table};
use crate::number::whole;
use anyhow::Context;
use api_client::Tagged;
use api_client::model::{Bucket, LOCK_DAYS_MAX, NewVault, Vault, VaultPatch};
use clap::{Args, Subcommand};
use envelope::Bytes;
use stable::files;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Manage vaults: places for backups.
#[derive(Debug, Args)]
#[command(after_help = "\
A vault is a directory of the host, best on another disk or on another machine, or a bucket of an S3-compatible store. One vault \
takes the backups of any number of volumes. Only one service writes it.
With a key the vault is encrypted. The service reads the key from its file at each use. Keep a copy of it elsewhere: without the \
key nobody can restore anything from the vault.")]
pub(crate) struct VaultArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a vault, or use the one that is there, with its backups. Does nothing if it exists with these properties.
    #[command(after_help = "Examples:
  plimsoll vault create disk2 --directory /mnt/backup/plimsoll
  plimsoll vault create offsite --endpoint https://s3.example.com --bucket backups --credentials /etc/plimsoll/s3 \\
    --key-file /etc/plimsoll/offsite.key --lock-days 30
  plimsoll vault create disk2 --directory /mnt/backup/plimsoll --take-over

All files are on the host of the service, with mode 600. The file of credentials has the lines
  aws_access_key_id = …
  aws_secret_access_key = …")]
    Create(Box<Create>),
    /// Write a new key for an encrypted vault to a new file on this host.
    #[command(after_help = "Example:
  plimsoll vault new-key /etc/plimsoll/offsite.key

Keep a copy of the file elsewhere, such as in a password manager. Without it nobody can restore anything from the vault.")]
    NewKey {
        /// New file, with mode 600
        file: PathBuf,
    },
    /// List the vaults.
    #[command(visible_alias = "ls")]
    List,
    /// Show a vault.
    Show {
        /// The vault
        #[arg(add = names::vaults())]
        name: String,
    },
    /// Change a vault. A new place must be that of the same vault.
    #[command(after_help = "Examples:
  plimsoll vault update offsite --limit 50MiB
  plimsoll vault update disk2 --directory /mnt/disk3/plimsoll")]
    Update(Box<Update>),
    /// Forget a vault. Its directory or bucket stays as it is. Asks first; without a terminal it needs --yes.
    #[command(after_help = "Example:
  plimsoll vault delete disk2 --yes

A vault with backups needs --force. Its backups stay, and \"plimsoll vault create\" finds them again.")]
    Delete {
        /// The vault
        #[arg(add = names::vaults())]
        name: String,
        #[command(flatten)]
        yes: YesArgs,
        /// Forget the vault even if it has backups
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        version: VersionArgs,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the vault
    name: String,
    #[command(flatten)]
    place: PlaceFlags,
    /// File with the key of an encrypted vault
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Days for which nobody can delete a new backup
    #[arg(long, value_name = "DAYS", default_value_t = 0, value_parser = whole(0..=LOCK_DAYS_MAX))]
    lock_days: u32,
    /// The most to send and receive in a second, like 50MiB [default: no limit]
    #[arg(long, value_name = "BYTES")]
    limit: Option<Bytes>,
    /// Replace another service as the one that writes the vault
    #[arg(long)]
    take_over: bool,
}

#[derive(Debug, Args)]
struct Update {
    /// The vault
    #[arg(add = names::vaults())]
    name: String,
    #[command(flatten)]
    place: PlaceFlags,
    /// New file with the same key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// New number of days for which nobody can delete a new backup
    #[arg(long, value_name = "DAYS", value_parser = whole(0..=LOCK_DAYS_MAX))]
    lock_days: Option<u32>,
    /// New limit of bytes in a second, like 50MiB
    #[arg(long, value_name = "BYTES")]
    limit: Option<Bytes>,
    /// Remove the limit
    #[arg(long, conflicts_with = "limit")]
    no_limit: bool,
    #[command(flatten)]
    version: VersionArgs,
}

#[derive(Debug, Args)]
struct PlaceFlags {
    /// Directory of the host: an empty one, a new one, or one that is a vault
    #[arg(long, value_name = "DIR", conflicts_with_all = ["endpoint", "bucket", "prefix", "region", "credentials", "ca_file"])]
    directory: Option<PathBuf>,
    /// URL of an S3-compatible store, without the bucket
    #[arg(long, value_name = "URL", requires_all = ["bucket", "credentials"])]
    endpoint: Option<String>,
    /// Bucket, which must exist
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    bucket: Option<String>,
    /// Text before the names of all objects, like site-1/files
    #[arg(long, value_name = "TEXT", requires = "endpoint")]
    prefix: Option<String>,
    /// Region of the bucket [default: us-east-1]
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    region: Option<String>,
    /// File with the credentials
    #[arg(long, value_name = "FILE", requires = "endpoint")]
    credentials: Option<PathBuf>,
    /// File with the certificates of the issuers to trust, in PEM [default: the well-known ones]
    #[arg(long, value_name = "FILE", requires = "endpoint")]
    ca_file: Option<PathBuf>,
}

impl PlaceFlags {
    fn directory(&self) -> anyhow::Result<Option<String>> {
        self.directory.clone().map(path).transpose()
    }

    fn bucket(&self) -> anyhow::Result<Option<Bucket>> {
        let (Some(endpoint), Some(bucket), Some(credentials)) =
            (self.endpoint.clone(), self.bucket.clone(), self.credentials.clone())
        else {
            return Ok(None);
        };
        Ok(Some(Bucket {
            endpoint,
            bucket,
            prefix: self.prefix.clone().unwrap_or_default(),
            region: self.region.clone().unwrap_or_else(|| "us-east-1".to_owned()),
            credentials_file: path(credentials)?,
            ca_file: self.ca_file.clone().map(path).transpose()?,
        }))
    }
}

/// A path as the service gets it. A relative one is of this directory.
fn path(of: PathBuf) -> anyhow::Result<String> {
    let path = std::path::absolute(&of).with_context(|| format!("{}: not a valid path", of.display()))?;
    path.into_os_string()
        .into_string()
        .map_err(|_| anyhow::anyhow!("{}: not a valid path: allowed: UTF-8", of.display()))
}

pub(crate) fn run(args: VaultArgs) -> anyhow::Result<()> {
    let open = || args.reach.open();
    match args.command {
        Command::Create(create) => {
            let new = NewVault {
                name: create.name,
                directory: create.place.directory()?,
                s3: create.place.bucket()?,
                key_file: create.key_file.map(path).transpose()?,
                lock_days: create.lock_days,
                bytes_per_second_max: create.limit.map(|limit| limit.0),
                take_over: create.take_over,
            };
            let session = open()?;
            let made = session.ask(|client| client.create_vault(&new))?;
            session.show(&made.value, |vault| {
                let done = if made.is_new { "Created vault" } else { "Exists already, unchanged: vault" };
                let key = match vault.key_file {
                    Some(_) if made.is_new => {
                        "Keep a copy of its key elsewhere. Without it nobody can restore anything.\n"
                    }
                    _ => "",
                };
                Ok(format!("{done} {} in {}.\n{key}", vault.name, place(vault)))
            })
        }
        Command::NewKey { file } => new_key(&file),
        Command::List => list(&open()?),
        Command::Show { name } => show(&open()?, &name),
        Command::Update(update) => {
            let patch = VaultPatch {
                directory: update.place.directory()?,
                s3: update.place.bucket()?,
                key_file: update.key_file.clone().map(path).transpose()?,
                lock_days: update.lock_days,
                bytes_per_second_max: if update.no_limit {
                    Some(None)
                } else {
                    update.limit.map(|limit| Some(limit.0))
                },
            };
            check_change(&patch)?;
            let session = open()?;
            let changed =
                session.ask(|client| client.change_vault(&update.version.terms(), &update.name, &patch))?;
            session.show(&changed.value, |vault| Ok(format!("Updated vault {}.\n", vault.name)))
        }
        Command::Delete { name, yes, force, version } => {
            yes.confirm(&format!("vault {name}"))?;
            let session = open()?;
            let terms = version.terms().forced(force);
            let done = session.ask(|client| client.delete_vault(&terms, &name))?;
            session.show(&done, |_| Ok(format!("Forgot vault {name}. What is in it stays.\n")))
        }
    }
}

fn new_key(file: &Path) -> anyhow::Result<()> {
    let mut key = [0; 32];
    crate::state::random(&mut key)?;
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let failed = || format!("{}: cannot write the key; allowed: a new file", file.display());
    let mut made = files::create_new(file, files::PRIVATE).with_context(failed)?;
    made.write_all(format!("{digits}\n").as_bytes()).and_then(|()| made.sync_all()).with_context(failed)?;
    crate::terminal::print(&format!(
        "Wrote a new key to {}.\nKeep a copy of it elsewhere. Without it nobody can restore anything from the vault.\n",
        file.display()
    ))
}

/// A place in a word or a URL.
fn place(vault: &Vault) -> String {
    match (&vault.directory, &vault.s3) {
        (Some(directory), _) => directory.clone(),
        (None, Some(Bucket { endpoint, bucket, prefix, .. })) if prefix.is_empty() => {
            format!("{endpoint}/{bucket}")
        }
        (None, Some(Bucket { endpoint, bucket, prefix, .. })) => format!("{endpoint}/{bucket}/{prefix}"),
        (None, None) => String::new(),
    }
}

fn list(session: &Session) -> anyhow::Result<()> {
    let vaults = session.ask(|client| client.vaults())?;
    session.show_all(vaults, |vaults| {
        let mut table = Table::new(&["NAME", "PLACE", "ENCRYPTED", ">LOCK DAYS"]).folding(&["PLACE"]);
        for vault in vaults {
            table.row([
                Cell::from(&vault.name),
                place(vault).into(),
                if vault.key_file.is_some() { "yes" } else { "no" }.to_owned().into(),
                vault.lock_days.to_string().into(),
            ]);
        }
        let nothing = "No vaults. Create one: plimsoll vault create disk2 --directory /mnt/backup/plimsoll";
        Ok(table.or(nothing, session.columns()))
    })
}

fn show(session: &Session, name: &str) -> anyhow::Result<()> {
    let Tagged { value: vault, etag } = session.ask(|client| client.vault(name))?;
    session.show(&vault, |vault| {
        let mut facts = Facts::default();
        facts.add("Vault", &vault.name);
        facts.add("Place", place(vault));
        if let Some(bucket) = &vault.s3 {
            facts.add("Region", &bucket.region);
            facts.add("Credentials", &bucket.credentials_file);
            facts.maybe("Certificates", bucket.ca_file.as_ref());
        }
        facts.add("Key", vault.key_file.as_deref().unwrap_or("none: it is not encrypted"));
        facts.add("Locks backups for", format!("{} days", vault.lock_days));
        let limit = vault.bytes_per_second_max.map(|limit| format!("{} per second", stored(limit)));
        facts.add("Limit", limit.unwrap_or_else(|| "none".to_owned()));
        facts.add("Number", &vault.number);
        facts.add("Created", &vault.created);
        facts.add("Changed", &vault.changed);
        facts.add("Version", etag.trim_matches('"'));
        Ok(facts.fit(session.columns()))
    })
}
