//! `plimsoll export`: existing directories, served at once.

use crate::manage::{self, words};
use crate::nfs_frontend::{IDLE_TICKS, Listen, NfsFrontend, TICK, run_until_told, share_descriptors};
use crate::periodic::Task;
use crate::smb_frontend::{Serving, SmbFrontend, SmbListen};
use crate::{state, volumes};
use anyhow::{Context, anyhow, bail};
use api::model::{Durability, Protection, Squash};
use clap::Args;
use control::{Protocols, SmbAssignment};
use envelope::Protocol;
use nfs::handle::HandleSigner;
use posix::{Options, ResourceBudget, Store};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use vfs::claims::Grace;
use vfs::qos::Pacer;
use vfs::{Cidr, Export, ExportRule, Namespace, ShareSettings, SharedNamespace, Volume, VolumeId};

/// The arguments of `export`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  plimsoll export /srv/projects
  plimsoll export /srv/a /srv/b --listen 0.0.0.0:2049 --allow 10.1.0.0/16 --squash none
  plimsoll export ./build --read-only --name artifacts
  plimsoll export /srv/projects --protocols smb,nfsv4.2 --smb-users users.toml

Who may mount a volume of a running \"plimsoll serve\":
  plimsoll export add v1 --allow 10.1.0.0/16
  plimsoll export list v1

A directory that is named like a command is served as ./list.")]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    manage: Option<manage::ExportCommand>,
    /// Directories to serve, each as an export named like its last part: /srv/projects is mounted as /projects
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Another name for the export, if there is one DIR
    #[arg(long)]
    name: Option<String>,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
    /// Which callers are treated as nobody (user and group 65534)
    #[arg(long, value_parser = words::squash(), default_value = "root")]
    squash: Squash,
    /// Clients that may use the exports: an address or a range such as 10.1.0.0/16, repeatable [default: all who can reach the address listened on]
    #[arg(long, value_name = "CIDR")]
    allow: Vec<Cidr>,
    /// How clients must protect their connections
    #[arg(long, value_parser = words::xprtsec(), default_value = "any")]
    xprtsec: Protection,
    /// When a stable write is acknowledged: after the flush, or at once (a power cut then loses the last seconds)
    #[arg(long, value_parser = words::durability(), default_value = "sync")]
    durability: Durability,
    /// What decides who may do what: mode bits, or the access control lists of Windows
    #[arg(long, value_parser = words::security_style(), default_value = "unix")]
    security_style: api::model::SecurityStyle,
    /// Protocols they are served over [default: all versions of NFS]
    #[arg(long, value_delimiter = ',', value_parser = words::protocol())]
    protocols: Vec<api::model::Protocol>,
    #[command(flatten)]
    listen: Listen,
    #[command(flatten)]
    smb: SmbListen,
    /// Settings of the shares, with commas between them, like encryption=required,signing=off: those of "plimsoll volume create"
    #[arg(long = "smb", value_name = "SETTING=VALUE", value_delimiter = ',', help_heading = "SMB")]
    smb_settings: Vec<SmbAssignment>,
    /// Directory for the key that signs file handles; clients must mount anew if it is lost [default:
    /// /var/lib/plimsoll, or ~/.local/state/plimsoll for an ordinary user]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// Serves until told to stop, or manages who may mount a volume.
pub(crate) fn run(mut args: ExportArgs) -> anyhow::Result<ExitCode> {
    if let Some(command) = args.manage.take() {
        return manage::run_export(command).map(|()| ExitCode::SUCCESS);
    }
    if args.name.is_some() && args.dirs.len() > 1 {
        bail!(
            "--name names one export, but there are {} directories; each is named by its last part",
            args.dirs.len()
        );
    }
    let protocols = args.protocols();
    if !args.smb_settings.is_empty() && !protocols.contains(Protocol::Smb) {
        bail!("--smb is for SMB, which --protocols has to name: such as --protocols smb,nfsv4.2");
    }
    if args.smb.smb_users.is_some() && !protocols.contains(Protocol::Smb) {
        bail!("--smb-users is for SMB, which --protocols has to name: such as --protocols smb,nfsv4.2");
    }
    let state_dir = args.state.clone().unwrap_or_else(state::default_dir);
    state::make_dir(&state_dir)?;
    let signer = state::handle_signer(&state_dir)?;
    let budget = ResourceBudget::of_process();
    let pacer = Pacer::start().context("cannot start the timer of calls that wait")?;
    let mut stable = state::stable(&state_dir, pacer.now(), &args.listen.lease)?;
    let (exports, stores) = open_all(&args, &signer, &pacer, &stable.grace, &budget)?;
    let namespace = Arc::new(Namespace::new(exports));
    let shared: SharedNamespace = Arc::new(Arc::clone(&namespace).into());
    let opens = stable.opens.take();
    let smb = protocols.contains(Protocol::Smb);
    let smb = smb.then(|| {
        let accounts = args.smb.accounts(&signer)?;
        let serving = Serving { address: args.smb.smb_listen, logins: args.smb.logins(), opens };
        SmbFrontend::start(Arc::clone(&shared), accounts, serving, &args.listen)
    });
    let smb = smb.transpose()?;
    let nfs = !protocols.and(Protocols::NFS).is_empty();
    let nfs = nfs.then(|| NfsFrontend::start(Arc::clone(&shared), signer, &pacer, stable, &args.listen));
    let nfs = nfs.transpose()?;
    let nfs_view = nfs.as_ref().map(NfsFrontend::view);
    let smb_view = smb.as_ref().map(SmbFrontend::view);
    let tick = move || {
        stores.iter().for_each(|store| store.sweep(IDLE_TICKS));
        let nfs = nfs_view.as_ref().map_or(0, |view| view.connections());
        let smb = smb_view.as_ref().map_or(0, |view| view.connections());
        share_descriptors(&budget, nfs + smb);
    };
    // At once: whoever has read the first line may read no more.
    let announce = || {
        let nfs = nfs.as_ref().map(|nfs| nfs.mounting().commands_of(&namespace));
        let smb = smb.as_ref().map(|smb| smb.commands_of(&namespace));
        print!("{}{}", nfs.unwrap_or_default(), smb.unwrap_or_default());
    };
    let streams = volumes::sweep_streams(SharedNamespace::clone(&shared));
    let tasks = [Task::new("tick", TICK, tick), volumes::expire_claims(shared), streams];
    let of_nfs = nfs.iter().flat_map(|nfs| {
        let renew = nfs.keep_registered().into_iter().chain(nfs.renew_certificate());
        [nfs.tend_locks()].into_iter().chain(renew)
    });
    run_until_told(announce, tasks.into_iter().chain(of_nfs));
    smb.into_iter().for_each(SmbFrontend::stop);
    nfs.into_iter().for_each(NfsFrontend::stop);
    Ok(ExitCode::SUCCESS)
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

/// Opens all directories and makes volumes of them, each with its export.
fn open_all(
    args: &ExportArgs,
    signer: &HandleSigner,
    pacer: &Arc<Pacer>,
    grace: &Grace,
    budget: &Arc<ResourceBudget>,
) -> anyhow::Result<(Vec<Export>, Vec<Arc<Store>>)> {
    let rule = ExportRule {
        clients: args.allow.clone(),
        protocols: args.protocols().ids(),
        read_only: args.read_only,
        squash: args.squash.into(),
        protection: args.xprtsec.into(),
        ..ExportRule::everybody()
    };
    let mut share = ShareSettings::default();
    args.smb_settings.iter().for_each(|setting| setting.apply(&mut share));
    let instance = state::instance()?;
    let (mut names, mut stores, mut exports) = (HashSet::new(), Vec::new(), Vec::new());
    for dir in &args.dirs {
        let name = export_name(dir, args.name.as_deref())?;
        if !names.insert(name.clone()) {
            bail!("two directories would be exported as /{name}; serve them one by one with --name");
        }
        let options = Options { budget: Arc::clone(budget), ..Options::default() };
        let store = Store::open(dir, options).with_context(|| format!("cannot serve {}", dir.display()))?;
        say_what_is_different(&name, &store);
        let id = VolumeId(signer.number(&name));
        let volume = Volume::new(id, &name, Arc::clone(&store) as _, args.durability.into(), instance);
        let volume = volume.with_security_style(args.security_style.into()).map_err(|_| {
            anyhow!(
                "--security-style ntfs needs extended attributes, which the file system of {} does not have",
                dir.display()
            )
        })?;
        let (path, clock) = (format!("/{name}"), Arc::clone(pacer));
        let volume = Arc::new(volume.with_clock(move || clock.now()).with_grace(grace.clone()));
        exports.push(Export::new(path, volume, vec![rule.clone()]).shared(share));
        stores.push(store);
    }
    Ok((exports, stores))
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
