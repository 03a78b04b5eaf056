//! `plimsoll size apply`: creates the advised pools and volumes on a running service.

use std::collections::BTreeMap;
use std::process::ExitCode;

use api_client::ChangeOptions;
use api_client::model::{NewPool, NewVolume, PoolSettings, Protocol, VolumeSettings};
use clap::Args;
use envelope::{Choice, PlanOption};
use serde::Serialize;

use super::answer;
use super::plan::Planned;
use super::question::{Asked, HiddenQuestion, SizingRequest};
use super::{Nothing, OptionArg};
use crate::form::{Form, json};
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
    volumes: Vec<NewVolume>,
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
    let wanted = Wanted::of(args)?;
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
    let volume_names =
        |planned: &PlannedPool| planned.volumes.iter().map(|volume| volume.name.clone()).collect::<Vec<_>>();
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
        if applied.mounts.is_empty() {
            say(&format!("Mount with: -o {}\n", applied.mount_options))?;
        }
        applied
            .mounts
            .iter()
            .try_for_each(|(name, options)| say(&format!("Mount {name} with: -o {options}\n")))?;
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
    fn of(args: &ApplyArgs) -> anyhow::Result<Self> {
        let columns = args.form.columns();
        match args.question.0.asked()? {
            Asked::One(asked) => {
                let advice = asked.advice()?;
                let choice = args.option.of(&advice, Nothing::Refused)?;
                let numbers = Numbers { pools: choice.pools, pools_before: 0 };
                let volume = asked.name.as_deref().unwrap_or(&args.name);
                Ok(Self {
                    pools: of_choice(choice, &asked, args, numbers, volume),
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
                    pools: of_option(option, &planned, args),
                    about: format!("{}. Total: {}", option.name(), option.total()),
                    mount_options: mounts.values().next().cloned().unwrap_or_default(),
                    mounts,
                })
            }
        }
    }
}

/// The pools of an option of a plan, with the volumes of all workloads.
fn of_option(option: &PlanOption, planned: &Planned, args: &ApplyArgs) -> Vec<PlannedPool> {
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
            let own = of_choice(&volume.choice, asked, args, numbers, planned.name(volume.workload));
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
        let volume =
            |volume: &NewVolume| format!("Would create the volume {} in {}\n", volume.name, volume.pool);
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

/// The pools and volumes of a choice; several get numbers.
fn of_choice(
    choice: &Choice,
    asked: &SizingRequest,
    args: &ApplyArgs,
    numbers: Numbers,
    volume_name: &str,
) -> Vec<PlannedPool> {
    let numbered = |name: &str, count: u32, number: u32| match count {
        1 => name.to_owned(),
        _ => format!("{name}-{number}"),
    };
    let pool = |number: u32| {
        let name = numbered(&args.name, numbers.pools, numbers.pools_before + number);
        let first = (number - 1) * choice.volumes_per_pool;
        let volume = |place: u32| {
            let own = numbered(volume_name, choice.volumes(), first + place);
            NewVolume {
                settings: VolumeSettings::from(&choice.volume.settings),
                protocols: Some(vec![Protocol::from(asked.workload.protocol)]),
                rules: args.rule.rule().map(|rule| vec![rule]),
                ..NewVolume::new(own, name.clone(), choice.volume.size.0)
            }
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

/// The created objects, to be deleted again if a later one fails.
#[derive(Default)]
struct Created {
    pools: Vec<String>,
    volumes: Vec<String>,
}

/// Creates the pools and volumes that do not exist yet, and returns whether there were any. If one fails, deletes
/// those created before.
fn create_all(
    session: &Session,
    pools: &[PlannedPool],
    say: &mut impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let mut created = Created::default();
    for planned in pools {
        if let Err(error) = create(session, planned, &mut created, say) {
            return Err(created.undo(session, error));
        }
    }
    Ok(!created.pools.is_empty() || !created.volumes.is_empty())
}

fn create(
    session: &Session,
    planned: &PlannedPool,
    created: &mut Created,
    say: &mut impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let name = &planned.pool.name;
    if session.ask(|client| client.create_pool(&planned.pool))?.is_new {
        created.pools.push(name.clone());
        say(&format!("Created the pool {name}\n"))?;
    } else {
        say(&format!("The pool {name} exists already\n"))?;
    }
    for volume in &planned.volumes {
        let new = session.ask(|client| client.create_volume(&ChangeOptions::none(), volume))?;
        let mounts = session.mount_commands(&new.value)?.join("\n  or ");
        if new.is_new {
            created.volumes.push(volume.name.clone());
            say(&format!("Created the volume {}: {mounts}\n", volume.name))?;
        } else {
            say(&format!("The volume {} exists already: {mounts}\n", volume.name))?;
        }
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
