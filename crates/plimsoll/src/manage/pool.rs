//! `plimsoll pool …`

use super::connection::{Detailed, Reach, Session, TermsArgs, VersionArgs, YesArgs, check_change};
use super::limits::{counted, iops, of_pool as limit_lines, origins, size, summary, throughput};
use super::settings::{PoolFlags, PoolProperty, merge, of_pool};
use super::table::{Facts, Table};
use super::words::{Label, labels_patch, shown_labels};
use super::{names, words};
use crate::shell::quoted;
use api::convert::FromBody;
use api_client::Tagged;
use api_client::model::{LevelName, Limits, NewPool, Operation, Pool, PoolPatch, Volume};
use clap::{Args, Subcommand};
use envelope::Bytes;
use serde::Serialize;

/// Manage pools: capacity at a service level, shared by volumes.
#[derive(Debug, Args)]
pub(crate) struct PoolArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a pool. Does nothing if the pool exists with these properties.
    #[command(after_help = "Examples:
  plimsoll pool create p1 --level anf/ultra --size 4TiB
  plimsoll pool create p2 --level gcnv/flex-custom --size 2TiB --throughput 256MiB/s
  plimsoll pool create p3 --level plimsoll/custom --size 500GiB --limit throughput=300MiB/s

A size is a promise, not disk space: a pool may be larger than the disk below it. \"plimsoll level list\" shows the levels.")]
    Create(Box<Create>),
    /// List the pools.
    #[command(visible_alias = "ls")]
    List,
    /// Show a pool, with its limits and their sources.
    Show {
        /// The pool
        #[arg(add = names::pools())]
        name: String,
    },
    /// Change a pool's size. Limits that depend on the size change immediately.
    #[command(after_help = "Example:\n  plimsoll pool resize p1 8TiB")]
    Resize {
        /// The pool
        #[arg(add = names::pools())]
        name: String,
        /// The new size
        size: Bytes,
        #[command(flatten)]
        terms: TermsArgs,
    },
    /// Change a pool's settings or labels.
    #[command(after_help = "Examples:
  plimsoll pool update p2 --throughput 512MiB/s --label team=vlsi --unlabel old
  plimsoll pool update p3 --limit throughput=400MiB/s --limit iops=20000

The level of a pool cannot be changed: create another pool and move the volumes there (\"plimsoll volume move\").")]
    Update(Box<Update>),
    /// Delete a pool that has no volumes. Asks first; without a terminal it needs --yes.
    Delete {
        /// The pool
        #[arg(add = names::pools())]
        name: String,
        #[command(flatten)]
        yes: YesArgs,
        #[command(flatten)]
        version: VersionArgs,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the pool
    name: String,
    /// Service level, like anf/ultra: "plimsoll level list" shows all levels
    #[arg(long, value_parser = words::level(), hide_possible_values = true)]
    level: LevelName,
    /// Capacity that the pool's volumes share, like 4TiB
    #[arg(long)]
    size: Bytes,
    /// Label to attach, repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    #[command(flatten)]
    settings: PoolFlags,
}

#[derive(Debug, Args)]
struct Update {
    /// The pool
    #[arg(add = names::pools())]
    name: String,
    /// The new level: plimsoll/custom or plimsoll/unlimited
    #[arg(long, value_parser = words::level(), hide_possible_values = true)]
    level: Option<LevelName>,
    /// The new size
    #[arg(long)]
    size: Option<Bytes>,
    /// Label to attach, repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Label to remove, repeatable
    #[arg(long, value_name = "KEY")]
    unlabel: Vec<String>,
    /// Setting to reset to the level's default, repeatable
    #[arg(long, value_enum, value_name = "SETTING")]
    unset: Vec<PoolProperty>,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    settings: PoolFlags,
}

pub(crate) fn run(args: PoolArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    match args.command {
        Command::Create(new) => create(&session, &new),
        Command::List => list(&session),
        Command::Show { name } => show(&session, &name),
        Command::Resize { name, size, terms } => {
            let patch = PoolPatch { size_bytes: Some(size.0), ..PoolPatch::default() };
            change(&session, "Resized", &terms, &name, &patch)
        }
        Command::Update(update) => {
            let patch = update.patch()?;
            check_change(&patch)?;
            change(&session, "Updated", &update.terms, &update.name, &patch)
        }
        Command::Delete { name, yes, version } => {
            yes.confirm(&format!("pool {name}"))?;
            let done: Operation = session.ask(|client| client.delete_pool(&version.terms(), &name))?;
            session.show(&done, |_| Ok(format!("Deleted pool {name}.\n")))
        }
    }
}

fn create(session: &Session, args: &Create) -> anyhow::Result<()> {
    let new = NewPool {
        settings: args.settings.settings(),
        labels: args.label.iter().map(|Label(key, value)| (key.clone(), value.clone())).collect(),
        ..NewPool::new(&args.name, args.level.0, args.size.0)
    };
    let made = session.ask(|client| client.create_pool(&new))?;
    session.show(&made.value, |pool| {
        let what = line(pool)?;
        let done = match made.is_new {
            true => format!("Created pool {what}\n"),
            false => format!("Exists already, unchanged: pool {what}\n"),
        };
        Ok(done + &format!("Next: plimsoll volume create NAME --pool {} --size SIZE\n", quoted(&pool.name)))
    })?;
    warn(session, &args.name);
    Ok(())
}

/// A pool and its limits in a sentence.
fn line(pool: &Pool) -> anyhow::Result<String> {
    let limits = summary(&limits(pool)?);
    Ok(format!("{}: {} at {}, {limits}.", pool.name, size(pool.size_bytes), pool.level))
}

/// Prints the warnings about a pool that was just created or changed.
fn warn(session: &Session, name: &str) {
    session.warn(|warning| warning.kind == "over-disk" || warning.pool.as_deref() == Some(name));
}

/// Properties of a pool besides the API's.
#[derive(Clone, Debug, Serialize)]
struct Details {
    allocated_bytes: u64,
    volumes: u64,
    limits: Limits,
}

impl Details {
    fn of(pool: Pool, volumes: &[Volume]) -> anyhow::Result<Detailed<Pool, Self>> {
        let own = volumes.iter().filter(|volume| volume.pool == pool.name);
        let (allocated_bytes, volumes) = own
            .fold((0_u64, 0), |(bytes, count), volume| (bytes.saturating_add(volume.size_bytes), count + 1));
        let limits = limits(&pool)?;
        Ok(Detailed { object: pool, details: Self { allocated_bytes, volumes, limits } })
    }
}

fn list(session: &Session) -> anyhow::Result<()> {
    let pools = session.ask(|client| client.pools())?;
    let volumes = session.ask(|client| client.volumes())?;
    let pools: anyhow::Result<_> = pools.into_iter().map(|pool| Details::of(pool, &volumes)).collect();
    session.show_all(pools?, |pools: &[Detailed<Pool, Details>]| {
        let heads = ["NAME", "LEVEL", ">SIZE", ">ALLOCATED", ">VOLUMES", ">MiB/s", ">IOPS"];
        let mut table = Table::new(&heads).leaving_out(&["VOLUMES", "IOPS"]);
        for Detailed { object: pool, details } in pools {
            let total = &details.limits.total;
            table.row([
                pool.name.clone(),
                pool.level.to_string(),
                size(pool.size_bytes),
                size(details.allocated_bytes),
                details.volumes.to_string(),
                throughput(total),
                iops(total),
            ]);
        }
        let nothing = "No pools. Create one: plimsoll pool create p1 --level anf/ultra --size 4TiB";
        Ok(table.or(nothing, session.columns()))
    })
}

/// The limits of a pool, computed here: this binary has the catalog of levels too.
fn limits(pool: &Pool) -> anyhow::Result<Limits> {
    let settings = FromBody::from_body(pool.settings.clone()).map_err(anyhow::Error::from)?;
    let declared = envelope::Pool { level: pool.level.0, size: Bytes(pool.size_bytes), settings };
    Ok(declared.limits()?.into())
}

fn show(session: &Session, name: &str) -> anyhow::Result<()> {
    let Tagged { value: pool, etag } = session.ask(|client| client.pool(name))?;
    let volumes = session.ask(|client| client.volumes())?;
    session.show(&Details::of(pool, &volumes)?, |pool| Ok(describe(pool, &etag, session.columns())))
}

fn describe(
    Detailed { object: pool, details }: &Detailed<Pool, Details>,
    etag: &str,
    columns: Option<usize>,
) -> String {
    let Details { allocated_bytes, volumes, limits } = details;
    let mut facts = Facts::default();
    facts.add("Pool", &pool.name);
    facts.add("Level", format!("{}, {}", pool.level, pool.level.0.info().title));
    facts.add("Size", size(pool.size_bytes));
    facts.add("Allocated", format!("{} in {}", size(*allocated_bytes), counted(*volumes, "volume")));
    facts.maybe("Settings", Some(of_pool(&pool.settings)).filter(|words| !words.is_empty()));
    limit_lines(limits).into_iter().for_each(|(name, line)| facts.add(name, line));
    facts.maybe("Labels", shown_labels(&pool.labels));
    facts.add("Created", &pool.created);
    facts.add("Changed", &pool.changed);
    facts.add("Version", etag.trim_matches('"'));
    let origins = origins(limits, columns);
    format!("{}\nWhere the limits come from:\n{origins}", facts.fit(columns))
}

impl Update {
    fn patch(&self) -> anyhow::Result<PoolPatch> {
        Ok(PoolPatch {
            level: self.level,
            size_bytes: self.size.map(|size| size.0),
            settings: merge(&self.settings.settings(), self.unset.iter().map(|property| property.name()))?,
            labels: labels_patch(&self.label, &self.unlabel),
        })
    }
}

fn change(
    session: &Session,
    done: &str,
    terms: &TermsArgs,
    name: &str,
    patch: &PoolPatch,
) -> anyhow::Result<()> {
    let changed = session.ask(|client| client.change_pool(&terms.terms(), name, patch))?;
    session.show(&changed.value, |pool| Ok(format!("{done} pool {}\n", line(pool)?)))?;
    warn(session, name);
    Ok(())
}
