//! `plimsoll size apply`: creates the advised pools and volumes on a running service.

use std::process::ExitCode;

use anyhow::bail;
use api_client::ChangeOptions;
use api_client::model::{NewPool, NewVolume, PoolSettings, Protocol, VolumeSettings};
use clap::Args;
use envelope::Choice;
use serde::Serialize;

use super::answer;
use super::question::{Question, SizingRequest};
use super::{Nothing, OptionArg};
use crate::form::{Form, json};
use crate::manage::{RuleFlags, Session};

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    question: Question,
    #[command(flatten)]
    option: OptionArg,
    /// Name of the pool and of the volume; several get numbers: NAME-1, NAME-2
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
}

pub(super) fn run(args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    args.form.check()?;
    let asked = args.question.ask()?;
    let advice = asked.advice()?;
    let choice = args.option.of(&advice, Nothing::Refused)?;
    let plan = plan(choice, &asked, args);
    let session = if args.dry_run { None } else { Some(args.question.service().open()?) };
    let mut out = args.form.open()?;
    let columns = args.form.columns();
    let mut say = |text: &str| if args.form.is_json() { Ok(()) } else { out.print(text) };
    say(&format!("{}{}\n", asked.note_lines(columns), answer::what(choice)))?;
    if let Some(session) = &session {
        check_names(session, &plan)?;
    }
    for planned in &plan {
        match &session {
            Some(session) => create(session, planned, &mut say)?,
            None => say(&planned.preview())?,
        }
    }
    let volume_names =
        |planned: &PlannedPool| planned.volumes.iter().map(|volume| volume.name.clone()).collect::<Vec<_>>();
    let applied = Applied {
        dry_run: args.dry_run,
        pools: plan.iter().map(|planned| planned.pool.name.clone()).collect(),
        volumes: plan.iter().flat_map(volume_names).collect(),
        mount_options: choice.mount.options.clone(),
    };
    if let Some(session) = session {
        say(&format!("Mount with: -o {}\n", choice.mount.options))?;
        say("Next: \"plimsoll size scenario\" with the same flags writes the load that proves it.\n")?;
        session
            .warn(|warning| warning.volume.as_ref().is_some_and(|volume| applied.volumes.contains(volume)));
    }
    if args.form.is_json() {
        out.print(&json(&applied)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl PlannedPool {
    fn preview(&self) -> String {
        let volume =
            |volume: &NewVolume| format!("Would create the volume {} in {}\n", volume.name, volume.pool);
        let volumes: String = self.volumes.iter().map(volume).collect();
        format!("Would create the pool {}\n{volumes}", self.pool.name)
    }
}

fn plan(choice: &Choice, asked: &SizingRequest, args: &ApplyArgs) -> Vec<PlannedPool> {
    let numbered = |count: u32, number: u32| match count {
        1 => args.name.clone(),
        _ => format!("{}-{number}", args.name),
    };
    let pool = |number: u32| {
        let name = numbered(choice.pools, number);
        let first = (number - 1) * choice.volumes_per_pool;
        let volume = |place: u32| NewVolume {
            settings: VolumeSettings::from(&choice.volume.settings),
            protocols: Some(vec![Protocol::from(asked.workload.protocol)]),
            rules: args.rule.rule().map(|rule| vec![rule]),
            ..NewVolume::new(numbered(choice.volumes(), first + place), name.clone(), choice.volume.size.0)
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

/// Refuses names that exist already, so that creation does not fail half-way.
fn check_names(session: &Session, plan: &[PlannedPool]) -> anyhow::Result<()> {
    let pools = session.ask(|client| client.pools())?;
    let volumes = session.ask(|client| client.volumes())?;
    for planned in plan {
        if pools.iter().any(|pool| pool.name == planned.pool.name) {
            bail!("the pool {} exists already; allowed for --name: an unused name", planned.pool.name);
        }
        let existing =
            planned.volumes.iter().find(|new| volumes.iter().any(|volume| volume.name == new.name));
        if let Some(existing) = existing {
            bail!("the volume {} exists already; allowed for --name: an unused name", existing.name);
        }
    }
    Ok(())
}

/// Creates a pool with its volumes. If a volume fails, deletes the pool and the volumes created before.
fn create(
    session: &Session,
    planned: &PlannedPool,
    say: &mut impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    session.ask(|client| client.create_pool(&planned.pool))?;
    say(&format!("Created the pool {}\n", planned.pool.name))?;
    for (done, volume) in planned.volumes.iter().enumerate() {
        let new = session.ask(|client| client.create_volume(&ChangeOptions::none(), volume));
        match new {
            Ok(new) => say(&format!(
                "Created the volume {}: {}\n",
                volume.name,
                session.mount_commands(&new.value)?.join("\n  or ")
            ))?,
            Err(error) => {
                for earlier in &planned.volumes[..done] {
                    session.ask(|client| client.delete_volume(&ChangeOptions::none(), &earlier.name))?;
                }
                session.ask(|client| client.delete_pool(&ChangeOptions::none(), &planned.pool.name))?;
                return Err(error.context(format!("the pool {} was deleted again", planned.pool.name)));
            }
        }
    }
    Ok(())
}
