//! Making what was advised on a running service.

use std::process::ExitCode;

use anyhow::bail;
use api::client::Terms;
use api::model::{NewPool, NewVolume, PoolSettings, Protocol, VolumeSettings};
use clap::Args;
use envelope::Choice;

use super::answer;
use super::question::{Asked, Question};
use super::{Nothing, OptionArg};
use crate::manage::{RuleFlags, Session, print};

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    question: Question,
    #[command(flatten)]
    option: OptionArg,
    /// Name of the pool and of the volume; several are numbered: NAME-1, NAME-2
    #[arg(long)]
    name: String,
    /// Show what would be made, and make nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    rule: RuleFlags,
}

/// A pool and its volumes.
struct Made {
    pool: NewPool,
    volumes: Vec<NewVolume>,
}

pub(super) fn run(args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let asked = args.question.ask()?;
    let advice = envelope::advise(&asked.workload, &asked.catalog)?;
    let choice = args.option.of(&advice, Nothing::Refused)?;
    let plan = plan(choice, &asked, args);
    print(&format!("{}{}\n", asked.note_lines(), answer::what(choice)))?;
    if args.dry_run {
        for made in &plan {
            print(&format!("Would make the pool {}\n", made.pool.name))?;
            for volume in &made.volumes {
                print(&format!("Would make the volume {} in {}\n", volume.name, volume.pool))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let session = args.question.service().open()?;
    check_names(&session, &plan)?;
    for made in &plan {
        make(&session, made)?;
    }
    print(&format!("Mount with: -o {}\n", choice.mount.options))?;
    print("Next: \"plimsoll size scenario\" with the same flags writes the load that proves it.\n")?;
    let made: Vec<&str> =
        plan.iter().flat_map(|made| &made.volumes).map(|volume| volume.name.as_str()).collect();
    session.warn(|warning| warning.volume.as_deref().is_some_and(|volume| made.contains(&volume)));
    Ok(ExitCode::SUCCESS)
}

fn plan(choice: &Choice, asked: &Asked, args: &ApplyArgs) -> Vec<Made> {
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
        Made {
            pool: NewPool { settings, ..NewPool::new(&name, choice.level(), size) },
            volumes: (1..=choice.volumes_per_pool).map(volume).collect(),
        }
    };
    (1..=choice.pools).map(pool).collect()
}

/// Refuses what would end half-way: names that are taken.
fn check_names(session: &Session, plan: &[Made]) -> anyhow::Result<()> {
    let pools = session.ask(|client| client.pools())?;
    let volumes = session.ask(|client| client.volumes())?;
    for made in plan {
        if pools.iter().any(|pool| pool.name == made.pool.name) {
            bail!("there is a pool {} already; allowed for --name: one that is not taken", made.pool.name);
        }
        let taken = made.volumes.iter().find(|new| volumes.iter().any(|volume| volume.name == new.name));
        if let Some(taken) = taken {
            bail!("there is a volume {} already; allowed for --name: one that is not taken", taken.name);
        }
    }
    Ok(())
}

/// Makes a pool with its volumes; if one cannot be made, what this made of them is taken back.
fn make(session: &Session, made: &Made) -> anyhow::Result<()> {
    session.ask(|client| client.create_pool(&made.pool))?;
    print(&format!("Made the pool {}\n", made.pool.name))?;
    for (done, volume) in made.volumes.iter().enumerate() {
        let new = session.ask(|client| client.create_volume(&Terms::none(), volume));
        match new {
            Ok(new) => print(&format!(
                "Made the volume {}: {}\n",
                volume.name,
                session.mount_command(&new.value.path, new.value.durability.into())
            ))?,
            Err(error) => {
                for earlier in &made.volumes[..done] {
                    session.ask(|client| client.delete_volume(&Terms::none(), &earlier.name))?;
                }
                session.ask(|client| client.delete_pool(&Terms::none(), &made.pool.name))?;
                return Err(error.context(format!("the pool {} was taken back", made.pool.name)));
            }
        }
    }
    Ok(())
}
