//! `plimsoll volume …`

use super::connection::{Reach, Session, TermsArgs, YesArgs};
use super::export::{RuleFlags, shown};
use super::limits::{iops, lines, of_volume, origins, rounded, sentence, size, throughput};
use super::settings::{self, VolumeFlags, VolumeProperty, merge};
use super::table::{Facts, Table};
use super::words::{Ids, Label, labels_patch, shown_labels};
use super::{names, watch, words};
use api::client::Tagged;
use api::model::{
    Ceilings, Durability, LevelName, NewVolume, Protocol, Root, Rules, State, Stats, Volume, VolumePatch,
};
use clap::{Args, Subcommand};
use envelope::Bytes;

/// What clients mount: a part of a pool's capacity, with limits, rules and files of its own.
#[derive(Debug, Args)]
pub(crate) struct VolumeArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a volume and serve it. One of that name that is as asked for is left as it is.
    #[command(after_help = "Examples:
  plimsoll volume create v1 --pool p1 --size 1TiB --allow 10.1.0.0/16
  plimsoll volume create v2 --pool p1 --size 512GiB --allow 10.1.9.0/24 --owner 1000:1000
  plimsoll volume create v3 --pool p1 --size 1TiB --shape gcnv-extreme-nfs3-8k-rand

Without --allow nobody may mount it (at the levels of ANF and Filestore: everybody): see \"plimsoll export add\".")]
    Create(Box<Create>),
    /// List the volumes.
    List,
    /// Show a volume, how to mount it, its limits and where they come from.
    Show {
        /// The volume
        #[arg(add = names::volumes())]
        name: String,
    },
    /// Give a volume another size; mounted clients have its new limits at once.
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
    /// Change anything else of a volume.
    #[command(after_help = "Examples:
  plimsoll volume update v1 --throughput 96MiB/s
  plimsoll volume update v1 --share tools --label team=vlsi --unlabel old
  plimsoll volume update v1 --unset shape")]
    Update(Box<Update>),
    /// Remove a volume and all its files. Asks first; where there is no terminal, it wants --yes.
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
    /// Watch a volume: rates against its limits, waiting, latency; a line each interval, until Ctrl-C.
    #[command(after_help = "Example:\n  plimsoll volume watch v1 --interval 5s --count 12")]
    Watch(watch::WatchArgs),
    /// Move a volume to another pool, perhaps of another level; clients keep it mounted.
    #[command(after_help = "Example:\n  plimsoll volume move v1 --pool p2")]
    Move {
        /// The volume
        #[arg(add = names::volumes())]
        name: String,
        /// Its new pool
        #[arg(long, add = names::pools())]
        pool: String,
        /// Its new level, where the new pool leaves that to its volumes
        #[arg(long, value_parser = words::level(), hide_possible_values = true)]
        level: Option<LevelName>,
        #[command(flatten)]
        terms: TermsArgs,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Its name
    name: String,
    /// The pool whose capacity it takes
    #[arg(long, add = names::pools())]
    pool: String,
    /// What it may hold, like 1TiB
    #[arg(long)]
    size: Bytes,
    /// The path's last part, if not its name
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    /// Its service level, in pools that leave that to their volumes
    #[arg(long, value_parser = words::level(), hide_possible_values = true)]
    level: Option<LevelName>,
    /// Mode of its root directory, in octal [default: its provider's; ANF and GCNV: 0770, Filestore and Plimsoll: 0755]
    #[arg(long, value_parser = words::mode)]
    mode: Option<String>,
    /// Owner and group of its root directory [default: 0:0]
    #[arg(long, value_name = "UID:GID")]
    owner: Option<Ids>,
    /// What its acknowledgements promise; it never changes [default: sync]
    #[arg(long, value_parser = words::durability())]
    durability: Option<Durability>,
    /// Over which protocols it is served; today nfsv3 alone [default: nfsv3]
    #[arg(long, value_delimiter = ',', value_parser = words::protocol())]
    protocols: Vec<Protocol>,
    /// Text to attach, repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Make it although its pool will be overbooked
    #[arg(long)]
    force: bool,
    /// Make it a large volume
    #[arg(long)]
    large: bool,
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
    /// Another size
    #[arg(long)]
    size: Option<Bytes>,
    /// Another last part of the path; clients keep what they have mounted
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    /// Another service level of its own
    #[arg(long, value_parser = words::level(), hide_possible_values = true)]
    level: Option<LevelName>,
    /// Another mode of its root directory, in octal
    #[arg(long, value_parser = words::mode)]
    mode: Option<String>,
    /// Another owner and group of its root directory
    #[arg(long, value_name = "UID:GID")]
    owner: Option<Ids>,
    /// Other protocols, all of them
    #[arg(long, value_delimiter = ',', value_parser = words::protocol())]
    protocols: Vec<Protocol>,
    /// Text to attach, repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Label to remove, repeatable
    #[arg(long, value_name = "KEY")]
    unlabel: Vec<String>,
    /// Setting to take back, repeatable
    #[arg(long, value_enum, value_name = "SETTING")]
    unset: Vec<VolumeProperty>,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    settings: VolumeFlags,
}

/// Does what is asked.
pub(crate) fn run(args: VolumeArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    match args.command {
        Command::Create(new) => create(&session, *new),
        Command::List => list(&session),
        Command::Show { name } => show(&session, &name),
        Command::Resize { name, size, terms } => {
            let patch = VolumePatch { size_bytes: Some(size.0), ..VolumePatch::default() };
            change(&session, &terms, &name, &patch)
        }
        Command::Update(update) => {
            let patch = update.patch(&session)?;
            change(&session, &update.terms, &update.name, &patch)
        }
        Command::Delete { name, yes, terms } => {
            yes.confirm(&format!("the volume {name} and all its files"))?;
            let done = session.ask(|client| client.delete_volume(&terms.terms(), &name))?;
            session.show(&done, |_| Ok(format!("Removed the volume {name} and its files.\n")))
        }
        Command::Watch(args) => watch::run(&session, &args),
        Command::Move { name, pool, level, terms } => {
            let level = level.map(Some);
            let patch = VolumePatch { pool: Some(pool), level, ..VolumePatch::default() };
            change(&session, &terms, &name, &patch)
        }
    }
}

fn create(session: &Session, args: Create) -> anyhow::Result<()> {
    let is_of_root = args.mode.is_some() || args.owner.is_some();
    let plain = is_of_root.then(|| plain_root(session, &args)).transpose()?;
    let root = plain.and_then(|plain| words::root(args.mode.as_ref(), args.owner, plain));
    let new = NewVolume {
        share: args.share,
        level: args.level,
        settings: args.settings.settings(args.large),
        protocols: Some(args.protocols).filter(|protocols| !protocols.is_empty()),
        root,
        durability: args.durability,
        rules: args.rule.rule().map(|rule| vec![rule]),
        labels: args.label.into_iter().map(|Label(key, value)| (key, value)).collect(),
        ..NewVolume::new(&args.name, args.pool, args.size.0)
    };
    let terms = api::client::Terms::none().forced(args.force);
    let made = session.ask(|client| client.create_volume(&terms, &new))?;
    session.show(&made.value, |volume| {
        let done = if made.is_new { "Made the volume" } else { "There already, as asked for: the volume" };
        let stats = session.ask(|client| client.stats(&volume.name))?;
        let mount = mount_command(session, volume);
        Ok(format!("{done} {}\nMount it as root: {mount}\n", line(volume, &stats)))
    })?;
    warn(session, &args.name);
    Ok(())
}

/// What its root directory is unless it is said.
fn plain_root(session: &Session, new: &Create) -> anyhow::Result<Root> {
    let level = match new.level {
        Some(level) => level,
        None => session.ask(|client| client.pool(&new.pool))?.value.level,
    };
    let vfs::Root { mode, uid, gid } = control::default_root(level.0);
    Ok(Root { mode: format!("{mode:04o}"), uid, gid })
}

/// What an operator should know of a volume that was just made or changed, or of its pool.
fn warn(session: &Session, name: &str) {
    session.warn(|warning| warning.volume.as_deref() == Some(name) || warning.kind == "over-pool");
}

fn mount_command(session: &Session, volume: &Volume) -> String {
    session.mount_command(&volume.path, volume.durability.into())
}

/// A volume and its limits in a sentence.
fn line(volume: &Volume, stats: &Stats) -> String {
    let (limits, is_shared) = of_volume(stats);
    let (limits, shared) = (sentence(&limits), if is_shared { " shared with its pool" } else { "" });
    let shape = stats.limits.shape.map(envelope::Shaping::from);
    let shaped = shape.map(|shape| format!(", shaped to {shape}")).unwrap_or_default();
    format!("{}: {} in {}, {limits}{shared}{shaped}.", volume.name, size(volume.size_bytes), volume.pool)
}

fn list(session: &Session) -> anyhow::Result<()> {
    let volumes = session.ask(|client| client.volumes())?;
    session.show_all(volumes, |volumes| {
        let mut table = Table::new(&["NAME", "POOL", ">SIZE", ">USED", ">MiB/s", ">IOPS", "STATE", "PATH"]);
        for volume in volumes {
            // One that was removed since the list was made has none.
            let stats = session.ask(|client| client.stats(&volume.name)).ok();
            let (limits, is_shared) = stats.as_ref().map(of_volume).unwrap_or_default();
            let cell = |of: fn(&Ceilings) -> String| of(&limits) + if is_shared { " (pool)" } else { "" };
            table.row([
                volume.name.clone(),
                volume.pool.clone(),
                size(volume.size_bytes),
                stats.as_ref().map_or_else(|| "?".to_owned(), |stats| rounded(stats.used_bytes)),
                cell(throughput),
                cell(iops),
                volume.state.to_string(),
                volume.path.clone(),
            ]);
        }
        Ok(table.or("No volumes. Make one: plimsoll volume create v1 --pool p1 --size 1TiB"))
    })
}

fn show(session: &Session, name: &str) -> anyhow::Result<()> {
    let tagged = session.ask(|client| client.volume(name))?;
    session.show(&tagged.value, |volume| {
        let stats = session.ask(|client| client.stats(name))?;
        let facts = describe(session, &tagged, &stats);
        let rules = shown(&Rules { rules: volume.rules.clone() }, name);
        let origins = origins(&stats.limits);
        Ok(format!("{facts}\nWho may mount it:\n{rules}\nWhere the limits come from:\n{origins}"))
    })
}

fn describe(session: &Session, Tagged { value: volume, etag }: &Tagged<Volume>, stats: &Stats) -> Facts {
    let mut facts = Facts::default();
    facts.add("Volume", &volume.name);
    facts.add("Pool", &volume.pool);
    facts.add("Size", size(volume.size_bytes));
    facts.add("Used", format!("{} in {} files", rounded(stats.used_bytes), stats.used_files));
    let set = settings::of_volume(volume.level, &volume.settings);
    facts.maybe("Set", Some(set).filter(|words| !words.is_empty()));
    lines(&stats.limits).into_iter().for_each(|(name, line)| facts.add(name, line));
    let (shared, is_shared) = of_volume(stats);
    facts.maybe("The pool's", is_shared.then(|| sentence(&shared)));
    let protocols: Vec<&str> = volume.protocols.iter().map(|protocol| protocol.as_str()).collect();
    facts.add("Protocols", protocols.join(", "));
    facts.add("Root", format!("mode {}, owner {}:{}", volume.root.mode, volume.root.uid, volume.root.gid));
    facts.add("Durability", durability_words(volume.durability));
    facts.add("Mount as root", mount_command(session, volume));
    facts.maybe("State", Some(volume.state).filter(|&state| state != State::Ready));
    facts.maybe("Labels", shown_labels(&volume.labels));
    facts.add("Made", &volume.created);
    facts.add("Changed", &volume.changed);
    facts.add("Version", etag.trim_matches('"'));
    facts
}

fn durability_words(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync: what was acknowledged as stable survives a power cut",
        Durability::Relaxed => "relaxed: a power cut loses the last seconds",
    }
}

impl Update {
    fn patch(&self, session: &Session) -> anyhow::Result<VolumePatch> {
        let is_of_root = self.mode.is_some() || self.owner.is_some();
        let before = is_of_root.then(|| session.ask(|client| client.volume(&self.name))).transpose()?;
        let takes_level = self.unset.iter().any(|property| matches!(property, VolumeProperty::Level));
        Ok(VolumePatch {
            size_bytes: self.size.map(|size| size.0),
            share: self.share.clone(),
            level: if takes_level { Some(None) } else { self.level.map(Some) },
            settings: merge(
                &self.settings.settings(false),
                self.unset.iter().filter_map(|property| property.name()),
            ),
            protocols: Some(self.protocols.clone()).filter(|protocols| !protocols.is_empty()),
            root: before.and_then(|before| words::root(self.mode.as_ref(), self.owner, before.value.root)),
            labels: labels_patch(&self.label, &self.unlabel),
            ..VolumePatch::default()
        })
    }
}

fn change(session: &Session, terms: &TermsArgs, name: &str, patch: &VolumePatch) -> anyhow::Result<()> {
    let changed = session.ask(|client| client.change_volume(&terms.terms(), name, patch))?;
    session.show(&changed.value, |volume| {
        let stats = session.ask(|client| client.stats(name))?;
        Ok(format!("The volume {}\n", line(volume, &stats)))
    })?;
    warn(session, name);
    Ok(())
}
