//! `plimsoll volume …`

use super::access::{self, RuleFlags, shown};
use super::connection::{Detailed, Reach, Session, TermsArgs, YesArgs, check_change};
use super::limits::{
    UNLIMITED, cell_of_volume, counted, iops, of_volume, origins, room, shared, size, stored, summary,
    throughput,
};
use super::settings::{self, VolumeFlags, VolumeProperty, merge};
use super::share_modes::ShareModes;
use super::table::{Cell, Facts, Table};
use super::words::{Ids, Label, labels_patch, shown_labels};
use super::{names, watch, words};
use crate::exit::usage;
use crate::number::whole;
use crate::shell::quoted;
use crate::terminal::{self, Tone};
use api::convert::{FromBody, smb_settings};
use api_client::Tagged;
use api_client::model::{
    Ceilings, Durability, EndpointStats, LevelName, Limits, Merge, NewVolume, Owner, Protocol, Root, Rules,
    SecurityStyle, SnapshotDirectory, State, Stats, Volume, VolumePatch,
};
use clap::{Args, Subcommand};
use control::{SNAP_RESERVE_PERCENT_MAX, SmbAssignment, SmbSettings};
use envelope::Bytes;
use serde::Serialize;
use std::iter::{once, repeat};
use std::net::IpAddr;

/// Manage volumes, which clients mount. A volume has a part of a pool's capacity.
#[derive(Debug, Args)]
pub(crate) struct VolumeArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a volume and serve it. Does nothing if the volume exists with these properties.
    #[command(after_help = "Examples:
  plimsoll volume create v1 --pool p1 --size 1TiB --allow 10.1.0.0/16
  plimsoll volume create v2 --pool p1 --size 512GiB --allow 10.1.9.0/24 --owner 1000:1000
  plimsoll volume create v3 --pool p1 --size 1TiB --shape gcnv-extreme-nfs3-8k-rand
  plimsoll volume create v4 --pool p1 --size 1TiB --endpoint 10.1.0.5,10.1.0.6
  plimsoll volume create v5 --pool p1 --size 1TiB --protocols smb --smb encryption=required,browsable=off

Without --allow nobody may mount the volume (at the levels of ANF and Filestore: everybody): see \"plimsoll volume access add\".")]
    Create(Box<Create>),
    /// List the volumes.
    #[command(visible_alias = "ls")]
    List,
    /// Show a volume, with its mount commands, its limits and their sources.
    Show {
        /// The volume
        #[arg(add = names::volumes())]
        name: String,
    },
    /// Change a volume's size. The new limits apply to mounted clients immediately.
    #[command(after_help = "Example:\n  plimsoll volume resize v1 2TiB")]
    Resize {
        /// The volume
        #[arg(add = names::volumes())]
        name: String,
        /// The new size
        size: Bytes,
        #[command(flatten)]
        terms: TermsArgs,
    },
    /// Change other properties of a volume.
    #[command(after_help = "Examples:
  plimsoll volume update v1 --throughput 96MiB/s
  plimsoll volume update v1 --share tools --label team=vlsi --unlabel old
  plimsoll volume update v1 --unset shape
  plimsoll volume update v1 --policy nightly
  plimsoll volume update v1 --endpoint 10.1.0.5,10.1.0.6")]
    Update(Box<Update>),
    /// Delete a volume and all its files. Asks first; without a terminal it needs --yes.
    #[command(after_help = "Example:\n  plimsoll volume delete v1 --yes")]
    Delete {
        /// The volume
        #[arg(add = names::volumes())]
        name: String,
        #[command(flatten)]
        yes: YesArgs,
        #[command(flatten)]
        terms: TermsArgs,
    },
    /// Watch a volume: a line each interval with rates, limits, waiting and latency, until Ctrl-C.
    #[command(after_help = "Example:\n  plimsoll volume watch v1 --interval 5s --count 12")]
    Watch(watch::WatchArgs),
    /// Move a volume to another pool, also of another level. Clients keep the volume mounted.
    #[command(after_help = "Example:\n  plimsoll volume move v1 --pool p2")]
    Move {
        /// The volume
        #[arg(add = names::volumes())]
        name: String,
        /// New pool of the volume
        #[arg(long, add = names::pools())]
        pool: String,
        /// New level of the volume, in pools whose volumes choose their level
        #[arg(long, value_parser = words::level(), hide_possible_values = true)]
        level: Option<LevelName>,
        #[command(flatten)]
        terms: TermsArgs,
    },
    /// Manage the access rules of a volume: the clients that may mount it. The first rule that matches a client decides.
    #[command(subcommand)]
    Access(access::Command),
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the volume
    name: String,
    /// Pool that provides the capacity
    #[arg(long, add = names::pools())]
    pool: String,
    /// Size of the volume, like 1TiB
    #[arg(long)]
    size: Bytes,
    /// Last part of the path that clients mount [default: the volume's name]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    share: Option<String>,
    /// Service level, in pools whose volumes choose their level
    #[arg(long, value_parser = words::level(), hide_possible_values = true, hide_short_help = true)]
    level: Option<LevelName>,
    /// Mode of the root directory, in octal [default: the provider's; ANF and GCNV: 0770, Filestore and Plimsoll: 0755]
    #[arg(long, value_parser = words::mode, hide_short_help = true)]
    mode: Option<String>,
    /// Owner and group of the root directory [default: 0:0]
    #[arg(long, value_name = "UID:GID")]
    owner: Option<Ids>,
    /// Durability of acknowledged writes; cannot be changed later [default: sync]
    #[arg(long, value_parser = words::durability(), hide_short_help = true)]
    durability: Option<Durability>,
    /// Kind of permissions that decide about access to files; ntfs needs SMB [default: unix]
    #[arg(long, value_parser = words::security_style(), hide_short_help = true)]
    security_style: Option<SecurityStyle>,
    /// Access of clients to .snapshot (NFS) and ~snapshot (SMB) [default: reachable]
    #[arg(long, value_name = "ACCESS", value_parser = words::snapshot_directory(), hide_short_help = true)]
    snapshot_directory: Option<SnapshotDirectory>,
    /// Policy to make its snapshots [default: none]
    #[arg(long, value_name = "NAME", add = names::policies(), hide_short_help = true)]
    policy: Option<String>,
    /// Policy to make its backups [default: none]
    #[arg(long, value_name = "NAME", add = names::policies(), hide_short_help = true)]
    backup_policy: Option<String>,
    /// Percentage of the size that files leave to snapshots [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = whole(0..=SNAP_RESERVE_PERCENT_MAX), hide_short_help = true)]
    snap_reserve: Option<u8>,
    /// Protocols to serve the volume over [default: nfsv3 and the latest NFSv4 that the level has]
    #[arg(long, value_delimiter = ',', value_parser = words::protocol())]
    protocols: Vec<Protocol>,
    /// Settings as a share of SMB, with commas between them: encryption=off|required, signing=off|required, compression=on|off, browsable=on|off, access-based-enumeration=on|off, continuously-available=on|off, oplocks=on|off, change-notify=on|off [default: signing=required; browsable, oplocks and change-notify on]
    #[arg(long, value_name = "SETTING=VALUE", value_delimiter = ',', hide_short_help = true)]
    smb: Vec<SmbAssignment>,
    /// Address to serve the volume at in addition to the service's own, repeatable: clients are spread over the addresses
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', hide_short_help = true, value_parser = crate::listen_address::ip)]
    endpoint: Vec<IpAddr>,
    /// Label to attach, repeatable
    #[arg(long, value_name = "KEY=VALUE", hide_short_help = true)]
    label: Vec<Label>,
    /// Create the volume even if the pool is then overbooked
    #[arg(long, hide_short_help = true)]
    force: bool,
    /// Create a large volume, at levels with large volumes; cannot be changed later
    #[arg(long, hide_short_help = true)]
    large: bool,
    #[command(flatten)]
    modes: ShareModes,
    #[command(flatten)]
    rule: RuleFlags,
    #[command(flatten)]
    settings: VolumeFlags,
}

#[derive(Debug, Args)]
struct Update {
    /// The volume
    #[arg(add = names::volumes())]
    name: String,
    /// The new size
    #[arg(long)]
    size: Option<Bytes>,
    /// New last part of the path; existing mounts stay
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    share: Option<String>,
    /// New service level, in pools whose volumes choose their level
    #[arg(long, value_parser = words::level(), hide_possible_values = true, hide_short_help = true)]
    level: Option<LevelName>,
    /// New mode of the root directory, in octal
    #[arg(long, value_parser = words::mode, hide_short_help = true)]
    mode: Option<String>,
    /// New owner and group of the root directory
    #[arg(long, value_name = "UID:GID")]
    owner: Option<Ids>,
    /// New access of clients to .snapshot (NFS) and ~snapshot (SMB)
    #[arg(long, value_name = "ACCESS", value_parser = words::snapshot_directory(), hide_short_help = true)]
    snapshot_directory: Option<SnapshotDirectory>,
    /// Policy to make its snapshots; those of an earlier policy stay
    #[arg(long, value_name = "NAME", add = names::policies())]
    policy: Option<String>,
    /// Make no more snapshots by a policy; the present ones stay
    #[arg(long, conflicts_with = "policy", hide_short_help = true)]
    no_policy: bool,
    /// Policy to make its backups; those of an earlier policy stay
    #[arg(long, value_name = "NAME", add = names::policies())]
    backup_policy: Option<String>,
    /// Make no more backups by a policy; the present ones stay
    #[arg(long, conflicts_with = "backup_policy", hide_short_help = true)]
    no_backup_policy: bool,
    /// New percentage of the size that files leave to snapshots
    #[arg(long, value_name = "PERCENT", value_parser = whole(0..=SNAP_RESERVE_PERCENT_MAX))]
    snap_reserve: Option<u8>,
    /// Protocols to serve the volume over; replaces all earlier ones
    #[arg(long, value_delimiter = ',', value_parser = words::protocol())]
    protocols: Vec<Protocol>,
    /// Settings as a share of SMB to change, like encryption=required,browsable=off; "volume create" has the list
    #[arg(long, value_name = "SETTING=VALUE", value_delimiter = ',', hide_short_help = true)]
    smb: Vec<SmbAssignment>,
    /// Addresses to serve the volume at in addition to the service's own, repeatable; replaces all earlier ones
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', hide_short_help = true, value_parser = crate::listen_address::ip)]
    endpoint: Vec<IpAddr>,
    /// Serve the volume at the service's own address alone
    #[arg(long, conflicts_with = "endpoint", hide_short_help = true)]
    no_endpoints: bool,
    /// Label to attach, repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Label to remove, repeatable
    #[arg(long, value_name = "KEY", hide_short_help = true)]
    unlabel: Vec<String>,
    /// Setting to reset to its default, repeatable
    #[arg(long, value_enum, value_name = "SETTING")]
    unset: Vec<VolumeProperty>,
    #[command(flatten)]
    modes: ShareModes,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    settings: VolumeFlags,
}

pub(crate) fn run(args: VolumeArgs) -> anyhow::Result<()> {
    let open = || args.reach.open();
    match args.command {
        Command::Create(new) => {
            check_smb(&new.protocols, !new.modes.with(&new.smb).is_empty(), true)?;
            create(&open()?, *new)
        }
        Command::List => list(&open()?),
        Command::Show { name } => show(&open()?, &name),
        Command::Resize { name, size, terms } => {
            let patch = VolumePatch { size_bytes: Some(size.0), ..VolumePatch::default() };
            change(&open()?, "Resized", &terms, &name, &patch)
        }
        Command::Update(update) => {
            check_smb(&update.protocols, !update.modes.with(&update.smb).is_empty(), false)?;
            let session = open()?;
            let patch = update.patch(&session)?;
            check_change(&patch)?;
            change(&session, "Updated", &update.terms, &update.name, &patch)
        }
        Command::Delete { name, yes, terms } => {
            yes.confirm(&format!("volume {name} and all its files"))?;
            let session = open()?;
            let done = session.ask(|client| client.delete_volume(&terms.terms(), &name))?;
            session.show(&done, |_| Ok(format!("Deleted volume {name} and its files.\n")))
        }
        Command::Access(command) => access::run(open, command),
        Command::Watch(args) => watch::run(&open()?, &args),
        Command::Move { name, pool, level, terms } => {
            let level = level.map(Some);
            let patch = VolumePatch { pool: Some(pool), level, ..VolumePatch::default() };
            change(&open()?, "Moved", &terms, &name, &patch)
        }
    }
}

/// Refuses settings of a share for a volume without SMB. A new volume without protocols has no SMB.
fn check_smb(protocols: &[Protocol], has_settings: bool, is_new: bool) -> anyhow::Result<()> {
    let lacks_smb = if protocols.is_empty() {
        is_new
    } else {
        !protocols.iter().any(|&protocol| envelope::Protocol::from(protocol) == envelope::Protocol::Smb)
    };
    if has_settings && lacks_smb {
        return Err(usage(
            "--smb, --create-mode and --directory-mode are for SMB, which --protocols has to name: such as --protocols smb,nfsv4.2",
        ));
    }
    Ok(())
}

fn create(session: &Session, args: Create) -> anyhow::Result<()> {
    let is_of_root = args.mode.is_some() || args.owner.is_some();
    let plain = is_of_root.then(|| plain_root(session, &args)).transpose()?;
    let root = plain.and_then(|plain| words::root(args.mode.as_ref(), args.owner, plain));
    let shared = args.modes.with(&args.smb);
    let rule = args.rule.rule();
    let has_default_rules = rule.is_none();
    let new = NewVolume {
        share: args.share,
        level: args.level,
        settings: args.settings.settings(args.large),
        protocols: Some(args.protocols).filter(|protocols| !protocols.is_empty()),
        smb: Some(shared).filter(|shared| !shared.is_empty()).map(smb_settings),
        root,
        durability: args.durability,
        security_style: args.security_style,
        snapshot_directory: args.snapshot_directory,
        policy: args.policy,
        backup_policy: args.backup_policy,
        snap_reserve: args.snap_reserve,
        rules: rule.map(|rule| vec![rule]),
        endpoints: Some(texts(&args.endpoint)).filter(|endpoints| !endpoints.is_empty()),
        labels: args.label.into_iter().map(|Label(key, value)| (key, value)).collect(),
        ..NewVolume::new(&args.name, args.pool, args.size.0)
    };
    let terms = api_client::ChangeOptions::none().forced(args.force);
    let made = session.ask(|client| client.create_volume(&terms, &new))?;
    session.show(&made.value, |volume| {
        let done = match made.is_new {
            true => "Created volume",
            false => "Exists already, unchanged: volume",
        };
        let stats = session.ask(|client| client.stats(&volume.name))?;
        let commands = session.mount_commands(volume, "")?.join("\n  ");
        let mount = match volume.endpoints.len() {
            0 | 1 => format!("Mount as root, with one of:\n  {commands}\n"),
            _ => format!("Mount as root, each client from another of its endpoints in turn:\n  {commands}\n"),
        };
        Ok(format!("{done} {}\n{mount}", line(volume, &stats)))
    })?;
    warn(session, &args.name);
    // Azure NetApp Files and Filestore let all clients mount by default, with root's rights.
    if made.is_new && has_default_rules && !made.value.rules.is_empty() {
        let name = quoted(&args.name);
        terminal::warn(&format!(
            "all clients may mount the volume {}, the default of its level: restrict it with \"plimsoll volume access set {name} \
             --allow 10.1.0.0/16\"",
            args.name
        ));
    }
    Ok(())
}

/// The default mode and owner of the root directory.
fn plain_root(session: &Session, new: &Create) -> anyhow::Result<Root> {
    let level = match new.level {
        Some(level) => level,
        None => session.ask(|client| client.pool(&new.pool))?.value.level,
    };
    let vfs::Root { mode, uid, gid } = control::default_root(level.0);
    Ok(Root { mode: format!("{mode:04o}"), uid, gid })
}

/// Prints the warnings about a volume that was just created or changed, or about its pool.
fn warn(session: &Session, name: &str) {
    session.warn(|warning| warning.volume.as_deref() == Some(name) || warning.kind == "over-pool");
}

fn texts(endpoints: &[IpAddr]) -> Vec<String> {
    endpoints.iter().map(ToString::to_string).collect()
}

/// A volume and its limits in a sentence.
fn line(volume: &Volume, stats: &Stats) -> String {
    let own = (stats.limits.owner == Owner::Volume).then(|| summary(&stats.limits));
    let pool = shared(stats).map(|pool| format!("{} shared with its pool", summary(pool)));
    let own = own.filter(|own| pool.is_none() || own != UNLIMITED);
    let limits: Vec<String> = own.into_iter().chain(pool).collect();
    let limits = if limits.is_empty() { UNLIMITED.to_owned() } else { limits.join(", ") };
    format!("{}: {} in pool {}, {limits}.", volume.name, size(volume.size_bytes), volume.pool)
}

/// Properties of a volume besides the API's, as the tables show them.
#[derive(Clone, Debug, Serialize)]
struct Details {
    #[serde(flatten)]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mount_commands: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Usage {
    used_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_bytes: Option<u64>,
    reserve_bytes: u64,
    available_bytes: u64,
    used_files: u64,
    snapshots: u64,
    limits: Limits,
    pool_limits: Limits,
}

impl Usage {
    fn of(stats: &Stats) -> Self {
        Self {
            used_bytes: stats.used_bytes,
            live_bytes: stats.live_bytes,
            snapshot_bytes: stats.snapshot_bytes,
            reserve_bytes: stats.reserve_bytes,
            available_bytes: stats.available_bytes,
            used_files: stats.used_files,
            snapshots: stats.snapshots,
            limits: stats.limits.clone(),
            pool_limits: stats.pool_limits.clone(),
        }
    }
}

fn list(session: &Session) -> anyhow::Result<()> {
    let mut volumes = Vec::new();
    for volume in session.ask(|client| client.volumes())? {
        // A volume that was removed after the list was read has no counters.
        let stats = session.ask(|client| client.stats(&volume.name)).ok();
        let details = Details { usage: stats.as_ref().map(Usage::of), mount_commands: Vec::new() };
        volumes.push((Detailed { object: volume, details }, stats));
    }
    let (shown, stats): (Vec<_>, Vec<_>) = volumes.into_iter().unzip();
    session.show_all(shown, |volumes| {
        let heads = ["NAME", "POOL", ">SIZE", ">USED", ">MiB/s", ">IOPS", "STATE", "PATH"];
        let mut table = Table::new(&heads).leaving_out(&["IOPS", "STATE", "POOL"]);
        for (Detailed { object: volume, .. }, stats) in volumes.iter().zip(&stats) {
            let cell = |show: fn(&Ceilings) -> String| {
                stats.as_ref().map_or_else(|| "?".to_owned(), |stats| cell_of_volume(stats, show))
            };
            table.row([
                Cell::from(&volume.name),
                Cell::from(&volume.pool),
                size(volume.size_bytes).into(),
                stats.as_ref().map_or("?".into(), used),
                cell(throughput).into(),
                cell(iops).into(),
                state(volume.state),
                Cell::from(&volume.path),
            ]);
        }
        let nothing = "No volumes. Create one in a pool: plimsoll volume create v1 --pool p1 --size 1TiB --allow 10.1.0.0/16";
        Ok(table.or(nothing, session.columns()))
    })
}

/// The bytes stored, as a warning if the volume is full.
fn used(stats: &Stats) -> Cell {
    Cell::from(stored(stats.used_bytes)).tone(if is_full(stats) { Tone::Warning } else { Tone::Plain })
}

/// Whether files can take no more of the volume: it is in use, or reserved for snapshots.
fn is_full(stats: &Stats) -> bool {
    let unused = stats.reserve_bytes.saturating_sub(stats.snapshot_bytes.unwrap_or(0));
    stats.used_bytes.saturating_add(unused) >= stats.size_bytes
}

/// The use of the volume, by files and by snapshots.
fn fill_words(stats: &Stats) -> String {
    let all = format!("{} in {}", stored(stats.used_bytes), counted(stats.used_files, "file"));
    match stats.live_bytes.zip(stats.snapshot_bytes) {
        Some((live, snapshots)) if snapshots > 0 => {
            format!("{all}: {} live, {} held by snapshots", stored(live), stored(snapshots))
        }
        _ => all,
    }
}

fn state(of: State) -> Cell {
    Cell::from(of.to_string()).tone(if of == State::Ready { Tone::Plain } else { Tone::Warning })
}

fn show(session: &Session, name: &str) -> anyhow::Result<()> {
    let tagged = session.ask(|client| client.volume(name))?;
    let stats = session.ask(|client| client.stats(name))?;
    let mount_commands = session.mount_commands(&tagged.value, "")?;
    let details = Details { usage: Some(Usage::of(&stats)), mount_commands };
    session.show(&Detailed { object: &tagged.value, details }, |Detailed { object: volume, details }| {
        let columns = session.columns();
        let facts = describe(session, &tagged, &stats, &details.mount_commands)?.fit(columns);
        let rules = shown(&Rules { rules: volume.rules.clone() }, name, columns);
        let origins = origins(&stats.limits, columns);
        Ok(format!("{facts}\nExport rules:\n{rules}\nWhere the limits come from:\n{origins}"))
    })
}

fn describe(
    session: &Session,
    Tagged { value: volume, etag }: &Tagged<Volume>,
    stats: &Stats,
    mount_commands: &[String],
) -> anyhow::Result<Facts> {
    let level = match volume.level {
        Some(level) => level,
        None => session.ask(|client| client.pool(&volume.pool))?.value.level,
    };
    let mut facts = Facts::default();
    facts.add("Volume", &volume.name);
    facts.maybe("Clone of", volume.clone_of.as_ref());
    facts.add("Pool", &volume.pool);
    facts.add("Level", format!("{level}, {}", level.0.info().title));
    facts.add("Size", size(volume.size_bytes));
    facts.add("Used", fill_words(stats));
    let reserved = (volume.snap_reserve > 0)
        .then(|| format!("{} ({} %) for snapshots", size(stats.reserve_bytes), volume.snap_reserve));
    facts.maybe("Reserve", reserved);
    let (available, tone) = match (room(stats.available_bytes), is_full(stats)) {
        (available, true) => (format!("{available}: it is full"), Tone::Warning),
        (available, false) => (available, Tone::Plain),
    };
    facts.add_cell("Available", Cell::from(available).tone(tone));
    facts.maybe("Settings", Some(settings::of_volume(&volume.settings)).filter(|words| !words.is_empty()));
    of_volume(&stats.limits, &stats.pool_limits).into_iter().for_each(|(name, line)| facts.add(name, line));
    facts.maybe("Pool limits", shared(stats).map(summary));
    let protocols: Vec<&str> = volume.protocols.iter().map(|protocol| protocol.as_str()).collect();
    facts.add("Protocols", protocols.join(", "));
    let smb = SmbSettings::from_body(volume.smb.clone()).unwrap_or_default().to_string();
    facts.maybe("SMB", Some(smb.replace(',', ", ")).filter(|words| !words.is_empty()));
    facts.add("Root", format!("mode {}, owner {}:{}", volume.root.mode, volume.root.uid, volume.root.gid));
    facts.add("Durability", durability_words(volume.durability));
    facts.add("Security style", volume.security_style.to_string());
    facts.add("Snapshots", format!("{}, {}", stats.snapshots, access_words(volume.snapshot_directory)));
    facts.maybe("Policy", volume.policy.as_ref());
    facts.maybe("Backup policy", volume.backup_policy.as_ref());
    for (name, endpoint) in once("Endpoints").chain(repeat("")).zip(&stats.endpoints) {
        let EndpointStats { address, connections, failure } = endpoint;
        facts.add(
            name,
            match failure {
                None => format!("{address}, {}", counted(*connections, "connection")),
                Some(why) => format!("{address}, not served there: {why}"),
            },
        );
    }
    for (name, mount) in once("Mount as root").chain(repeat("")).zip(mount_commands) {
        facts.verbatim(name, mount);
    }
    let other = Some(volume.state).filter(|&state| state != State::Ready);
    other.into_iter().for_each(|other| facts.add_cell("State", state(other)));
    facts.maybe("Labels", shown_labels(&volume.labels));
    facts.add("Created", &volume.created);
    facts.add("Changed", &volume.changed);
    facts.add("Version", etag.trim_matches('"'));
    Ok(facts)
}

fn access_words(directory: SnapshotDirectory) -> &'static str {
    match directory {
        SnapshotDirectory::Hidden => "hidden from clients",
        SnapshotDirectory::Reachable => "reachable as .snapshot and ~snapshot",
        SnapshotDirectory::Listed => "reachable as .snapshot and ~snapshot, listed in the root directory",
    }
}

fn durability_words(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync: acknowledged stable writes survive a power cut",
        Durability::Relaxed => "relaxed: a power cut loses the last seconds",
    }
}

impl Update {
    fn patch(&self, session: &Session) -> anyhow::Result<VolumePatch> {
        let is_of_root = self.mode.is_some() || self.owner.is_some();
        let before = is_of_root.then(|| session.ask(|client| client.volume(&self.name))).transpose()?;
        let shared = self.modes.with(&self.smb);
        let takes_level = self.unset.iter().any(|property| matches!(property, VolumeProperty::Level));
        Ok(VolumePatch {
            size_bytes: self.size.map(|size| size.0),
            share: self.share.clone(),
            level: if takes_level { Some(None) } else { self.level.map(Some) },
            settings: merge(
                &self.settings.settings(false),
                self.unset.iter().filter_map(|property| property.name()),
            )?,
            protocols: Some(self.protocols.clone()).filter(|protocols| !protocols.is_empty()),
            smb: (!shared.is_empty()).then(|| Merge::set(&smb_settings(shared))),
            root: before.and_then(|before| words::root(self.mode.as_ref(), self.owner, before.value.root)),
            snapshot_directory: self.snapshot_directory,
            policy: if self.no_policy { Some(None) } else { self.policy.clone().map(Some) },
            backup_policy: if self.no_backup_policy {
                Some(None)
            } else {
                self.backup_policy.clone().map(Some)
            },
            snap_reserve: self.snap_reserve,
            endpoints: (self.no_endpoints || !self.endpoint.is_empty()).then(|| texts(&self.endpoint)),
            labels: labels_patch(&self.label, &self.unlabel),
            ..VolumePatch::default()
        })
    }
}

fn change(
    session: &Session,
    done: &str,
    terms: &TermsArgs,
    name: &str,
    patch: &VolumePatch,
) -> anyhow::Result<()> {
    let changed = session.ask(|client| client.change_volume(&terms.terms(), name, patch))?;
    session.show(&changed.value, |volume| {
        let stats = session.ask(|client| client.stats(name))?;
        Ok(format!("{done} volume {}\n", line(volume, &stats)))
    })?;
    warn(session, name);
    Ok(())
}
