//! `plimsoll export`: existing directories, served at once.

use crate::descriptors::{Part, share_descriptors};
use crate::exit::usage;
use crate::host_snapshots::{HostVolume, SnapshotArgs};
use crate::manage::share_modes::ShareModes;
use crate::manage::words;
use crate::nfs_frontend::{IDLE_TICKS, Listen, NfsFrontend, PATIENCE, TICK, run_until_told};
use crate::nodename::nodename;
use crate::periodic::Task;
use crate::signals::ignore_reloads;
use crate::smb_frontend::{Serving, SmbFrontend, SmbListen, Switch};
use crate::{background_tasks, host_snapshots, overlap, state};
use anyhow::{Context, anyhow, bail};
use api::convert::ToValue;
use api_client::model::{Durability, Protection, Squash};
use clap::Args;
use control::{Protocols, SmbAssignment};
use envelope::Protocol;
use nfs::handle::HandleSigner;
use posix::{Options, ResourceBudget, Store};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use vfs::claims::Grace;
use vfs::qos::Pacer;
use vfs::{Cidr, Export, ExportRule, Namespace, ShareSettings, SharedNamespace, Volume, VolumeId};

/// The arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plimsoll export /srv/projects
  plimsoll export /srv/a /srv/b --listen 0.0.0.0:2049 --allow 10.1.0.0/16 --squash none
  plimsoll export ./build --read-only --name artifacts
  plimsoll export /srv/projects --protocols smb,nfsv4.2 --smb-users users.toml

Rules of a volume of \"plimsoll serve\": see \"plimsoll volume access\".")]
pub(crate) struct ExportArgs {
    /// Directories to serve, each as an export named like its last part: /srv/projects is mounted as /projects
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Another name for the export, if there is one DIR
    #[arg(long)]
    name: Option<String>,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
    /// Callers that are mapped to the user and group nobody (65534)
    #[arg(long, value_parser = words::squash(), default_value = "root")]
    squash: Squash,
    /// Clients that may use the exports: an address or a range such as 10.1.0.0/16, repeatable [default: all that can reach the listening address]
    #[arg(long, value_name = "CIDR")]
    allow: Vec<Cidr>,
    /// Protection that clients must use for their connections
    #[arg(long, value_parser = words::xprtsec(), default_value = "any", hide_short_help = true)]
    xprtsec: Protection,
    /// When a stable write is acknowledged: after the flush, or at once (a power cut then loses the last seconds)
    #[arg(long, value_parser = words::durability(), default_value = "sync", hide_short_help = true)]
    durability: Durability,
    /// Access control by mode bits, or by Windows access control lists
    #[arg(long, value_parser = words::security_style(), default_value = "unix", hide_short_help = true)]
    security_style: api_client::model::SecurityStyle,
    /// Protocols they are served over [default: all versions of NFS]
    #[arg(long, value_delimiter = ',', value_parser = words::protocol())]
    protocols: Vec<api_client::model::Protocol>,
    #[command(flatten)]
    snapshots: SnapshotArgs,
    #[command(flatten)]
    listen: Listen,
    #[command(flatten)]
    smb: SmbListen,
    /// Settings of the shares, with commas between them, like encryption=required,signing=off: those of "plimsoll volume create"
    #[arg(
        long = "smb",
        value_name = "SETTING=VALUE",
        value_delimiter = ',',
        help_heading = "SMB",
        hide_short_help = true
    )]
    smb_settings: Vec<SmbAssignment>,
    #[command(flatten)]
    modes: ShareModes,
    /// Directory for the key that signs file handles; clients must mount anew if it is lost [default:
    /// /var/lib/plimsoll, or ~/.local/state/plimsoll for an ordinary user]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    state: Option<PathBuf>,
}

/// Serves until a signal.
pub(crate) fn run(args: ExportArgs) -> anyhow::Result<ExitCode> {
    if args.name.is_some() && args.dirs.len() > 1 {
        return Err(usage(format!(
            "--name names one export, but there are {} directories; each is exported under its base name",
            args.dirs.len()
        )));
    }
    let protocols = args.protocols();
    if !args.modes.with(&args.smb_settings).is_empty() && !protocols.contains(Protocol::Smb) {
        return Err(usage(
            "--smb, --create-mode and --directory-mode are for SMB, which --protocols has to name: such as --protocols smb,nfsv4.2",
        ));
    }
    if args.smb.smb_users.is_some() && !protocols.contains(Protocol::Smb) {
        return Err(usage(
            "--smb-users is for SMB, which --protocols has to name: such as --protocols smb,nfsv4.2",
        ));
    }
    args.listen.tls.check().map_err(usage)?;
    args.listen.lease.check()?;
    ignore_reloads();
    let (asked, offered) = (args.xprtsec.to_value(), args.listen.tls.protection());
    if asked > offered && !(protocols.contains(Protocol::Smb) && asked == vfs::Protection::Encrypted) {
        return Err(usage(
            "--xprtsec asks for TLS, and no client could mount: give --tls-cert and --tls-key, for mtls --tls-client-ca, too",
        ));
    }
    let served = Served::start(&args)?;
    // Printed in one write: a reader of the first line may stop reading.
    run_until_told(|| print!("{}", served.commands()), served.tasks(), &served.status());
    served.stop();
    Ok(ExitCode::SUCCESS)
}

/// Directories that are served.
struct Served {
    namespace: SharedNamespace,
    stores: Arc<[Arc<Store>]>,
    with_snapshots: Arc<[HostVolume]>,
    budget: Arc<ResourceBudget>,
    nfs: Option<NfsFrontend>,
    smb: Option<SmbFrontend>,
}

impl Served {
    /// Opens the directories, listens, and starts to serve.
    fn start(args: &ExportArgs) -> anyhow::Result<Self> {
        let state_dir = args.state.clone().unwrap_or_else(state::default_dir);
        state::make_dir(&state_dir)?;
        let signer = state::handle_signer(&state_dir, None)?;
        let budget = ResourceBudget::of_process();
        let pacer = Pacer::start().context("cannot start the timer of calls that wait")?;
        let mut stable = state::stable(&state_dir, pacer.now(), &args.listen.lease, None)?;
        let Opened { exports, stores, with_snapshots } =
            open_all(args, &signer, &pacer, &stable.grace, &budget)?;
        let namespace: SharedNamespace = Arc::new(Arc::new(Namespace::new(exports)).into());
        let (protocols, opens) = (args.protocols(), stable.opens.take());
        let serves_smb = protocols.contains(Protocol::Smb);
        let serves_nfs = !protocols.and(Protocols::NFS).is_empty();
        let smb = serves_smb.then(|| {
            let accounts = args.smb.accounts(&signer)?;
            let multichannel = args.smb.smb_multichannel == Switch::On;
            let (address, logins) = (args.smb.smb_listen, args.smb.logins());
            let serving = Serving { address, host: nodename(), logins, opens, multichannel };
            let part = Part::of_smb(serves_nfs);
            SmbFrontend::start(Arc::clone(&namespace), accounts, serving, &args.listen, part)
        });
        let smb = smb.transpose()?;
        let start_nfs = || {
            let part = Part::of_nfs(serves_smb);
            NfsFrontend::start(Arc::clone(&namespace), signer, &pacer, stable, &args.listen, part)
        };
        let nfs = serves_nfs.then(start_nfs);
        let (stores, with_snapshots) = (stores.into(), with_snapshots.into());
        Ok(Self { namespace, stores, with_snapshots, budget, nfs: nfs.transpose()?, smb })
    }

    /// The commands that mount what is served, a line each.
    fn commands(&self) -> String {
        let namespace = self.namespace.load();
        let nfs = self.nfs.as_ref().map(|nfs| nfs.mounting().commands_of(&namespace));
        let smb = self.smb.as_ref().map(|smb| smb.commands_of(&namespace));
        nfs.into_iter().chain(smb).collect()
    }

    /// The addresses, for `systemctl status`.
    fn status(&self) -> String {
        let nfs = self.nfs.iter().map(|nfs| format!("NFS on {}", nfs.address()));
        let smb = self.smb.iter().map(|smb| format!("SMB on {}", smb.address()));
        nfs.chain(smb).collect::<Vec<_>>().join(", ")
    }

    fn tasks(&self) -> impl Iterator<Item = Task> + use<> {
        let (stores, budget) = (Arc::clone(&self.stores), Arc::clone(&self.budget));
        let nfs = self.nfs.as_ref().map(NfsFrontend::view);
        let smb = self.smb.as_ref().map(SmbFrontend::view);
        let tick = move || {
            stores.iter().for_each(|store| store.sweep(IDLE_TICKS));
            let nfs = nfs.as_ref().map_or(0, |view| view.connections());
            let smb = smb.as_ref().map_or(0, |view| view.connections());
            share_descriptors(&budget, nfs + smb);
        };
        let volume_tasks = background_tasks::tasks(&self.namespace, self.nfs.as_ref(), self.smb.as_ref());
        let scan = host_snapshots::task(Arc::clone(&self.with_snapshots));
        [Task::new("tick", TICK, tick)].into_iter().chain(scan).chain(volume_tasks)
    }

    /// Ends the service: no new calls, answers to those in flight, everything on disk.
    fn stop(self) {
        let now = Instant::now();
        self.smb.into_iter().for_each(|smb| smb.stop(now + PATIENCE / 2));
        self.nfs.into_iter().for_each(|nfs| nfs.stop(now + PATIENCE));
    }
}

impl ExportArgs {
    /// Over which protocols the directories are served.
    fn protocols(&self) -> Protocols {
        match self.protocols.is_empty() {
            true => Protocols::NFS,
            false => self.protocols.iter().map(|&protocol| Protocol::from(protocol)).collect(),
        }
    }
}

/// Opened directories.
#[derive(Default)]
struct Opened {
    exports: Vec<Export>,
    stores: Vec<Arc<Store>>,
    with_snapshots: Vec<HostVolume>,
}

/// Opens all directories and makes volumes of them, each with its export.
fn open_all(
    args: &ExportArgs,
    signer: &HandleSigner,
    pacer: &Arc<Pacer>,
    grace: &Grace,
    budget: &Arc<ResourceBudget>,
) -> anyhow::Result<Opened> {
    let rule = ExportRule {
        clients: args.allow.clone(),
        protocols: args.protocols().ids(),
        read_only: args.read_only,
        squash: args.squash.to_value(),
        protection: args.xprtsec.to_value(),
        ..ExportRule::everybody()
    };
    let mut share = ShareSettings::default();
    args.modes.with(&args.smb_settings).iter().for_each(|setting| setting.apply(&mut share));
    let instance = state::instance()?;
    overlap::check(&args.dirs)?;
    let (mut names, mut opened) = (HashSet::new(), Opened::default());
    for dir in &args.dirs {
        let name = export_name(dir, args.name.as_deref())?;
        if !names.insert(name.clone()) {
            return Err(usage(format!(
                "two directories would be exported as /{name}; serve them one by one with --name"
            )));
        }
        let options = Options { budget: Arc::clone(budget), ..Options::default() };
        let store =
            Store::open(dir, options.clone()).with_context(|| format!("cannot serve {}", dir.display()))?;
        args.snapshots.show_in(&store, dir, &options)?;
        say_what_is_different(&name, &store);
        let id = VolumeId(signer.number(&name));
        let volume = Volume::new(id, &name, Arc::clone(&store) as _, args.durability.to_value(), instance);
        let volume = volume.with_security_style(args.security_style.to_value()).map_err(|_| {
            anyhow!(
                "--security-style ntfs needs extended attributes, which the file system of {} does not have",
                dir.display()
            )
        })?;
        let (path, clock) = (format!("/{name}"), Arc::clone(pacer));
        let volume = Arc::new(volume.with_clock(move || clock.now()).with_grace(grace.clone()));
        opened.with_snapshots.extend(args.snapshots.volume(&store, &volume));
        opened.exports.push(Export::new(path, volume, vec![rule.clone()]).shared(share));
        opened.stores.push(store);
    }
    Ok(opened)
}

/// Says at the start what an operator would otherwise find out by surprise.
pub(crate) fn say_what_is_different(name: &str, store: &Store) {
    if store.uses_owner_attribute() {
        tracing::info!(
            volume = name,
            "this process may not change owners: owner, group and mode are kept in the extended attribute \
             user.plimsoll.owner, and the files themselves belong to the user who runs it"
        );
    }
    if store.uses_index() {
        tracing::info!(
            volume = name,
            "this process may not open files by handle (CAP_DAC_READ_SEARCH): an index finds them, which after a \
             restart is rebuilt by listing the tree when it is needed"
        );
    }
}

/// The export's name: the one given, or the last part of the directory's full path.
fn export_name(dir: &Path, given: Option<&str>) -> anyhow::Result<String> {
    let full = dir.canonicalize().with_context(|| format!("cannot serve {}", dir.display()))?;
    if !full.is_dir() {
        bail!("cannot serve {}: it is no directory", dir.display());
    }
    let name = match given {
        Some(name) => name.trim_start_matches('/').to_owned(),
        None => {
            full.file_name().map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned())
        }
    };
    if name.is_empty()
        || name.contains('/')
        || name.contains(char::is_whitespace)
        || name.contains(control::steers_terminal)
        || name.len() > 255
    {
        bail!(
            "{name:?} cannot name an export: 1 to 255 bytes without blanks, slashes, and characters that control a terminal or \
             the direction of text; choose one with --name"
        );
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::periodic::Tasks;
    use clap::Parser;
    use identity::NtHash;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};
    use wire_client::{Client, Identity};

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        export: ExportArgs,
    }

    const USERS: &str = "[[user]]\nname = \"alice\"\nuid = 1000\npassword = \"secret\"\n";

    /// `export` treats sessions as `serve` does.
    #[test]
    fn opens_of_a_removed_export_end_without_a_call() {
        let dir = crate::testing::private_dir();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (files, users, state) = (path("files"), path("users.toml"), path("state"));
        fs::create_dir(&files).unwrap();
        fs::set_permissions(&files, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(&users, USERS).unwrap();
        fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();
        let arguments = ["export", &files, "--protocols", "smb", "--state", &state, "--smb-users", &users];
        let arguments = arguments.into_iter().chain(["--smb-listen", "127.0.0.1:0"]);
        let served = Served::start(&Arguments::parse_from(arguments).export).unwrap();
        let smb = served.smb.as_ref().unwrap();
        let target = format!("smb://alice@{}/files", smb.address()).parse().unwrap();
        let alice = Identity { nt_hash: Some(NtHash::from_password("secret")), ..Identity::new(1000, 1000) };
        let mut client = Client::mount(&target, &alice).unwrap();
        let root = client.root();
        let file = client.create(&root, "file", 0o644).unwrap();
        // It stays open.
        client.read(&file, 0, 1).unwrap();
        assert_eq!(smb.view().usage().opens, 1);
        served.namespace.store(Arc::new(Namespace::default()));
        let tasks = Tasks::start(served.tasks());
        let begun = Instant::now();
        while smb.view().usage().opens > 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "a file of a volume that is gone stays open");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(client);
        tasks.stop(Duration::from_secs(20));
        served.stop();
    }
}
