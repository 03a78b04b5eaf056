//! `plimsoll size apply`: creates the advised pools and volumes on a running service.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::bail;
use api_client::model::{NewPool, NewVolume, PoolSettings, Protocol, Rule, Volume, VolumeSettings};
use api_client::{ChangeOptions, Client};
use clap::Args;
use control::{PoolName, VolumeName};
use envelope::{Choice, PlanOption};
use serde::Serialize;

use super::answer;
use super::plan::Planned;
use super::question::{Asked, HiddenQuestion, SizingRequest};
use super::shown::{Nothing, OptionArg};
use crate::exit::usage;
use crate::form::{Form, TEXT, json};
use crate::manage::{RuleFlags, Session};

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    question: HiddenQuestion<true>,
    #[command(flatten)]
    option: OptionArg,
    /// Name of the pool and of the volume; several get numbers: NAME-1, NAME-2. With --plan, volumes get the names of the workloads
    #[arg(long)]
    name: String,
    /// Show the pools and volumes to create, and create nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    rule: RuleFlags,
    #[command(flatten)]
    form: Form,
}

/// A pool and its volumes to create.
struct PlannedPool {
    pool: NewPool,
    volumes: Vec<PlannedVolume>,
}

/// A volume to create, with the mount options that are advised for it.
struct PlannedVolume {
    new: NewVolume,
    mount_options: String,
}

/// The created pools and volumes, or with `--dry-run` the planned ones.
#[derive(Default, Serialize)]
struct Applied {
    dry_run: bool,
    pools: Vec<String>,
    volumes: Vec<String>,
    mount_options: String,
    /// Mount options of each workload of a plan.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    mounts: BTreeMap<String, String>,
}

pub(super) fn run(args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    args.form.check()?;
    args.form.check_extension(TEXT, "")?;
    let rule = args.rule.required()?;
    let wanted = Wanted::of(args, &rule)?;
    check_names(&wanted.pools)?;
    let session = if args.dry_run { None } else { Some(args.question.0.service().open()?) };
    let mut out = args.form.open()?;
    let mut say = |text: &str| if args.form.is_json() { Ok(()) } else { out.print(text) };
    say(&format!("{}\n", wanted.about))?;
    let is_new = match &session {
        Some(session) => create_all(session, &wanted.pools, &mut say)?,
        None => {
            wanted.pools.iter().try_for_each(|planned| say(&planned.preview()))?;
            false
        }
    };
    let volume_names = |planned: &PlannedPool| {
        planned.volumes.iter().map(|volume| volume.new.name.clone()).collect::<Vec<_>>()
    };
    let applied = Applied {
        dry_run: args.dry_run,
        pools: wanted.pools.iter().map(|planned| planned.pool.name.clone()).collect(),
        volumes: wanted.pools.iter().flat_map(volume_names).collect(),
        mount_options: wanted.mount_options,
        mounts: wanted.mounts,
    };
    if let Some(session) = session {
        if !is_new {
            say("Nothing to change: all of it exists already, with these settings.\n")?;
        }
        say(match applied.mounts.is_empty() {
            true => {
                "Next: \"plimsoll size scenario\" with the flags of the workload writes the load that proves it.\n"
            }
            false => {
                "Next: \"plimsoll size scenario\" with --plan and --output DIR writes the loads that prove it.\n"
            }
        })?;
        session
            .warn(|warning| warning.volume.as_ref().is_some_and(|volume| applied.volumes.contains(volume)));
    }
    if args.form.is_json() {
        out.print(&json(&applied)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The pools and volumes of the selected option.
struct Wanted {
    pools: Vec<PlannedPool>,
    about: String,
    mount_options: String,
    /// Mount options of each workload of a plan.
    mounts: BTreeMap<String, String>,
}

impl Wanted {
    fn of(args: &ApplyArgs, rule: &Rule) -> anyhow::Result<Self> {
        let created = |choice: &Choice, asked: &SizingRequest, numbers, volume_name: &str| {
            of_choice(choice, asked, &Naming { pool: &args.name, volume: volume_name, numbers }, rule)
        };
        let columns = args.form.columns();
        match args.question.0.asked()? {
            Asked::One(asked) => {
                let advice = asked.advice()?;
                let choice = args.option.of(&advice, Nothing::Refused)?;
                let numbers = Numbers { pools: choice.pools, pools_before: 0 };
                let volume = asked.name.as_deref().unwrap_or(&args.name);
                Ok(Self {
                    pools: created(choice, &asked, numbers, volume),
                    about: format!("{}{}", asked.note_lines(columns), answer::what(choice)),
                    mount_options: choice.mount.options.clone(),
                    mounts: BTreeMap::new(),
                })
            }
            Asked::Several(requests) => {
                let planned = Planned::new(*requests)?;
                let option = planned.option(&args.option)?;
                let mount = |volume: &&envelope::PlannedVolume| {
                    (planned.name(volume.workload).to_owned(), volume.choice.mount.options.clone())
                };
                let mounts: BTreeMap<String, String> = option.volumes().iter().map(mount).collect();
                Ok(Self {
                    pools: of_option(option, &planned, created),
                    about: format!("{}. Total: {}", option.name(), option.total()),
                    mount_options: mounts.values().next().cloned().unwrap_or_default(),
                    mounts,
                })
            }
        }
    }
}

/// The pools of an option of a plan, with the volumes of all workloads.
fn of_option(
    option: &PlanOption,
    planned: &Planned,
    created: impl Fn(&Choice, &SizingRequest, Numbers, &str) -> Vec<PlannedPool>,
) -> Vec<PlannedPool> {
    let mut all: Vec<PlannedPool> = Vec::new();
    for pool in &option.pools {
        let numbers = Numbers {
            pools: option.pool_count(),
            pools_before: u32::try_from(all.len()).unwrap_or(u32::MAX),
        };
        // Volumes of different workloads share the pools of the first.
        let mut pools: Vec<PlannedPool> = Vec::new();
        for volume in &pool.volumes {
            let Some(asked) = planned.workloads.get(volume.workload) else { continue };
            let own = created(&volume.choice, asked, numbers, planned.name(volume.workload));
            for (place, one) in own.into_iter().enumerate() {
                match pools.get_mut(place) {
                    Some(shared) => shared.volumes.extend(one.volumes),
                    None => pools.push(one),
                }
            }
        }
        all.extend(pools);
    }
    all
}

impl PlannedPool {
    fn preview(&self) -> String {
        let volume = |PlannedVolume { new: volume, .. }: &PlannedVolume| {
            let clients: Vec<&str> =
                volume.rules.iter().flatten().flat_map(|rule| &rule.clients).map(String::as_str).collect();
            let clients = clients.join(", ");
            format!("Would create the volume {} in {}, for {clients}\n", volume.name, volume.pool)
        };
        let volumes: String = self.volumes.iter().map(volume).collect();
        format!("Would create the pool {}\n{volumes}", self.pool.name)
    }
}

/// The place of pools among all pools, which their names count.
#[derive(Clone, Copy)]
struct Numbers {
    pools: u32,
    pools_before: u32,
}

/// The names of pools and volumes, before they are numbered.
struct Naming<'a> {
    pool: &'a str,
    volume: &'a str,
    numbers: Numbers,
}

/// The pools and volumes of a choice; several get numbers.
fn of_choice(choice: &Choice, asked: &SizingRequest, naming: &Naming<'_>, rule: &Rule) -> Vec<PlannedPool> {
    let numbers = naming.numbers;
    let numbered = |name: &str, count: u32, number: u32| match count {
        1 => name.to_owned(),
        _ => format!("{name}-{number}"),
    };
    let pool = |number: u32| {
        let name = numbered(naming.pool, numbers.pools, numbers.pools_before + number);
        let first = (number - 1) * choice.volumes_per_pool;
        let volume = |place: u32| {
            let own = numbered(naming.volume, choice.volumes(), first + place);
            let new = NewVolume {
                settings: VolumeSettings::from(&choice.volume.settings),
                protocols: Some(vec![Protocol::from(asked.workload.protocol)]),
                rules: Some(vec![rule.clone()]),
                ..NewVolume::new(own, name.clone(), choice.volume.size.0)
            };
            PlannedVolume { new, mount_options: choice.mount.options.clone() }
        };
        let settings = PoolSettings::from(&choice.pool.settings);
        let size = choice.pool.size.0;
        PlannedPool {
            pool: NewPool { settings, ..NewPool::new(&name, choice.level(), size) },
            volumes: (1..=choice.volumes_per_pool).map(volume).collect(),
        }
    };
    (1..=choice.pools).map(pool).collect()
}

/// Refuses names that no service accepts, and a name that two volumes would have.
fn check_names(pools: &[PlannedPool]) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    for planned in pools {
        planned.pool.name.parse::<PoolName>().map_err(|wrong| usage(wrong.to_string()))?;
        for PlannedVolume { new: volume, .. } in &planned.volumes {
            volume.name.parse::<VolumeName>().map_err(|wrong| usage(wrong.to_string()))?;
            if !names.insert(&volume.name) {
                let name = &volume.name;
                return Err(usage(format!("two volumes would have the name {name}: rename a workload")));
            }
        }
    }
    Ok(())
}

/// The pools and volumes that exist already, as planned.
#[derive(Default)]
struct Existing {
    pools: BTreeSet<String>,
    volumes: BTreeMap<String, Volume>,
}

impl Existing {
    /// Refuses names and paths that others have, and existing objects that differ from the planned ones. Creates nothing:
    /// to create an existing object again has no effect, and fails if a property differs.
    fn check(session: &Session, planned: &[PlannedPool]) -> anyhow::Result<Self> {
        let pools = session.ask(Client::pools)?;
        let volumes = session.ask(Client::volumes)?;
        let mut existing = Self::default();
        for one in planned {
            let name = &one.pool.name;
            if pools.iter().any(|pool| pool.name == *name) {
                session.ask(|client| client.create_pool(&one.pool))?;
                existing.pools.insert(name.clone());
            }
            for PlannedVolume { new: volume, .. } in &one.volumes {
                if volumes.iter().any(|other| other.name == volume.name) {
                    let found = session.ask(|client| client.create_volume(&ChangeOptions::none(), volume))?;
                    existing.volumes.insert(volume.name.clone(), found.value);
                } else if let Some(other) = volumes.iter().find(|other| other.share == volume.name) {
                    bail!(
                        "the volume {} has the path {} already: choose another name",
                        other.name,
                        other.path
                    );
                }
            }
        }
        Ok(existing)
    }
}

/// The created objects, to be deleted again if a later one fails.
#[derive(Default)]
struct Created {
    pools: Vec<String>,
    volumes: Vec<String>,
}

/// Creates the pools and volumes that do not exist yet, and returns whether there were any. Checks all names first. If
/// one fails nevertheless, deletes those created before.
fn create_all(
    session: &Session,
    pools: &[PlannedPool],
    say: &mut impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let existing = Existing::check(session, pools)?;
    let mut created = Created::default();
    for planned in pools {
        if let Err(error) = create(session, planned, &existing, &mut created, say) {
            return Err(created.undo(session, error));
        }
    }
    Ok(!created.pools.is_empty() || !created.volumes.is_empty())
}

fn create(
    session: &Session,
    planned: &PlannedPool,
    existing: &Existing,
    created: &mut Created,
    say: &mut impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let name = &planned.pool.name;
    if existing.pools.contains(name) {
        say(&format!("The pool {name} exists already\n"))?;
    } else if session.ask(|client| client.create_pool(&planned.pool))?.is_new {
        created.pools.push(name.clone());
        say(&format!("Created the pool {name}\n"))?;
    }
    for PlannedVolume { new: volume, mount_options } in &planned.volumes {
        let mounts = |made: &Volume| {
            let commands = session.mount_commands(made, mount_options)?;
            Ok::<_, anyhow::Error>(commands.join("\n  or "))
        };
        if let Some(found) = existing.volumes.get(&volume.name) {
            say(&format!("The volume {} exists already: {}\n", volume.name, mounts(found)?))?;
            continue;
        }
        let new = session.ask(|client| client.create_volume(&ChangeOptions::none(), volume))?;
        if new.is_new {
            created.volumes.push(volume.name.clone());
        }
        say(&format!("Created the volume {}: {}\n", volume.name, mounts(&new.value)?))?;
    }
    Ok(())
}

impl Created {
    /// Deletes everything created, and adds that to the error.
    fn undo(&self, session: &Session, error: anyhow::Error) -> anyhow::Error {
        let mut deleted = Vec::new();
        for volume in &self.volumes {
            if session.ask(|client| client.delete_volume(&ChangeOptions::none(), volume)).is_ok() {
                deleted.push(format!("the volume {volume}"));
            }
        }
        for pool in &self.pools {
            if session.ask(|client| client.delete_pool(&ChangeOptions::none(), pool)).is_ok() {
                deleted.push(format!("the pool {pool}"));
            }
        }
        match deleted.as_slice() {
            [] => error,
            [only] => error.context(format!("{only} was deleted again")),
            several => error.context(format!("{} were deleted again", several.join(", "))),
        }
    }
}
