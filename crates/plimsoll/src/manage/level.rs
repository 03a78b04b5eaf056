//! `plimsoll level …`: the catalog of service levels, which is in this binary: no service is asked.

use super::connection::{print, print_json};
use super::limits::{lines, origins};
use super::settings::PoolFlags;
use super::table::{Facts, Table};
use super::words;
use anyhow::bail;
use api::model::{LevelLimits, LevelName, Limits, Page, ProfileName, ShapeName, Shaping, VolumeSettings};
use clap::{Args, Subcommand};
use envelope::{Bands, Bytes, BytesPerSecond, Level, LevelInfo, Pool, Profile, Shape, Volume};
use serde::Serialize;

/// Service levels.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the service levels, who holds their limits, and the sizes of pools and volumes.
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Show a service level; with a size, its limits and where they come from.
    #[command(after_help = "Examples:
  plimsoll level show anf/premium --size 2TiB
  plimsoll level show anf/ultra --size 4TiB --volume-size 1TiB
  plimsoll level show gcnv/flex-custom --size 4TiB --throughput 512MiB/s --json")]
    Show(Box<Show>),
    /// List the profiles: other figures, where two sources disagree.
    Profiles {
        #[command(flatten)]
        form: Form,
    },
    /// List the shapes: published curves that a volume may follow at any level.
    Shapes {
        #[command(flatten)]
        form: Form,
    },
}

/// In which form.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Form {
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// The arguments of `level show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The level, like anf/premium
    #[arg(value_parser = words::level(), hide_possible_values = true)]
    level: LevelName,
    /// The pool's size, like 2TiB; a volume takes all of it unless --volume-size says otherwise
    #[arg(long)]
    size: Option<Bytes>,
    #[command(flatten)]
    volume: OfVolume,
    #[command(flatten)]
    pool: PoolFlags,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The volume")]
struct OfVolume {
    /// The volume's size
    #[arg(long, value_name = "SIZE", requires = "size")]
    volume_size: Option<Bytes>,
    /// The volume's part of the pool's throughput, with manual QoS
    #[arg(long, value_name = "RATE", requires = "size")]
    volume_throughput: Option<BytesPerSecond>,
    /// A large volume
    #[arg(long, requires = "size")]
    large: bool,
    /// The other figure for the volume, where two sources disagree: "plimsoll level profiles" lists them
    #[arg(long, value_name = "PROFILE", value_parser = words::profile(), hide_possible_values = true, requires = "size")]
    volume_profile: Option<ProfileName>,
    /// A published curve that the volume follows besides: "plimsoll level shapes" lists them
    #[arg(long, value_parser = words::shape(), hide_possible_values = true, requires = "size")]
    shape: Option<ShapeName>,
    /// The curve made lower or higher as a whole, like 0.25
    #[arg(long, value_name = "FACTOR", value_parser = words::scale, requires = "shape")]
    scale: Option<u32>,
}

/// Does what is asked.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List { form } => list(form),
        Command::Show(args) => show(&args),
        Command::Profiles { form } => profiles(form),
        Command::Shapes { form } => shapes(form),
    }
}

/// Prints a list: as JSON in the form of the API's lists, or as a table.
fn print_all<T: Serialize>(form: Form, items: Vec<T>, table: impl FnOnce() -> Table) -> anyhow::Result<()> {
    if form.json { print_json(&Page { items, next_page_token: None }) } else { print(&table().to_string()) }
}

fn list(form: Form) -> anyhow::Result<()> {
    let levels = Level::all().iter().map(|&level| api::model::Level::from(level)).collect();
    print_all(form, levels, || {
        let mut table = Table::new(&["NAME", "HELD BY", "POOL", "VOLUME", "LARGE VOLUME"]);
        for level in Level::all() {
            let info = level.info();
            let owner = api::model::Owner::from(info.owner);
            let volume =
                if info.is_instance { "the pool".to_owned() } else { span(info.volume_sizes, "any") };
            let large = span(info.large_volume_sizes, "-");
            table.row([info.name.to_owned(), owner.to_string(), span(info.pool_sizes, "any"), volume, large]);
        }
        table
    })
}

/// From the least size to the greatest.
fn span(bands: Option<Bands>, none: &str) -> String {
    let ranges = bands.map_or(&[][..], |bands| bands.ranges);
    match (ranges.first(), ranges.last()) {
        (Some(first), Some(last)) => format!("{} to {}", first.min, last.max),
        _ => none.to_owned(),
    }
}

fn show(args: &Show) -> anyhow::Result<()> {
    let level = args.level.0;
    let limits = match args.size {
        Some(size) => Some(args.limits(size)?),
        None if args.pool.settings() != Default::default() => {
            bail!("settings without a size; allowed: both, like --size 4TiB, or none")
        }
        None => None,
    };
    if args.form.json {
        let (pool, volume) =
            limits.map(|(pool, _, volume)| (Limits::from(pool.limits), Limits::from(volume))).unzip();
        return print_json(&LevelLimits { level: level.into(), pool, volume });
    }
    match limits {
        None => print(&described(level.info()).to_string()),
        Some((pool, size, volume)) => print(&promised(level.info(), pool, size, volume)),
    }
}

/// A pool's size, and what it may do.
struct Promised {
    size: Bytes,
    limits: envelope::Limits,
}

impl Show {
    /// What a pool of this size may do, the volume's size, and what that may do.
    fn limits(&self, size: Bytes) -> anyhow::Result<(Promised, Bytes, envelope::Limits)> {
        let settings = self.pool.settings().try_into().map_err(anyhow::Error::from)?;
        let pool = Pool { level: self.level.0, size, settings };
        let of = &self.volume;
        let scale_thousandths = of.scale.unwrap_or(1000);
        let settings = VolumeSettings {
            throughput_bytes_per_second: of.volume_throughput.map(|rate| rate.0),
            large: of.large.then_some(true),
            profile: of.volume_profile,
            shape: of.shape.map(|name| Shaping { name, scale_thousandths }),
            declared: None,
        };
        let volume = Volume { size: of.volume_size.unwrap_or(size), settings: settings.into() };
        Ok((Promised { size, limits: pool.limits()? }, volume.size, pool.volume_limits(&volume)?))
    }
}

/// A level without a size.
fn described(info: &LevelInfo) -> Facts {
    let mut facts = Facts::default();
    let sizes = |bands: Option<Bands>, none: &str| {
        let ranges = bands.map_or(&[][..], |bands| bands.ranges).iter().map(ToString::to_string);
        let ranges = ranges.collect::<Vec<_>>().join(", or ");
        if ranges.is_empty() { none.to_owned() } else { ranges }
    };
    let level = api::model::Level::from(info.name.parse::<Level>().unwrap_or(Level::Unlimited));
    facts.add("Level", format!("{}, {}", info.name, info.title));
    facts.maybe("Also", Some(info.aliases.join(", ")).filter(|aliases| !aliases.is_empty()));
    facts.add("Limits", format!("of the {}", level.owner));
    facts.add("Pool", sizes(info.pool_sizes, "any size"));
    let volume = if info.is_instance {
        "the pool itself".to_owned()
    } else {
        sizes(info.volume_sizes, "any size up to the pool's")
    };
    facts.add("Volume", volume);
    facts.maybe("Large volume", info.large_volume_sizes.map(|bands| sizes(Some(bands), "")));
    let words = |words: Vec<&str>| words.join(", ");
    facts.add("QoS", words(level.qos.iter().map(|qos| qos.as_str()).collect()));
    facts.add("Protocols", words(level.protocols.iter().map(|protocol| protocol.as_str()).collect()));
    let settable = [
        (info.settable.throughput, "--throughput"),
        (info.settable.iops, "--iops, --iops-per-tib"),
        (info.settable.tiering, "--tiering"),
        (info.settable.declared, "--limit"),
    ];
    let settable: Vec<&str> = settable.iter().filter(|(is_so, _)| *is_so).map(|(_, flag)| *flag).collect();
    facts.maybe("Settable", Some(words(settable)).filter(|flags| !flags.is_empty()));
    let of_level =
        |profile: &&Profile| profile.info().levels.iter().any(|(level, _)| level.info().name == info.name);
    let profiles: Vec<&str> = Profile::all().iter().filter(of_level).map(|profile| profile.name()).collect();
    facts.maybe("Profiles", Some(words(profiles)).filter(|names| !names.is_empty()));
    facts.maybe("Volumes", info.counts.volumes_per_pool.map(|most| format!("at most {most} in a pool")));
    for (place, source) in info.sources.iter().enumerate() {
        facts.add(if place == 0 { "Sources" } else { "" }, source);
    }
    facts
}

/// A level at a size.
fn promised(info: &LevelInfo, pool: Promised, size: Bytes, volume: envelope::Limits) -> String {
    let is_shared = pool.limits.owner == envelope::Owner::Pool;
    let part = |title: String, limits: envelope::Limits, has_owner: bool| {
        let limits = Limits::from(limits);
        let mut facts = Facts::default();
        let shown = lines(&limits).into_iter().filter(|(name, _)| has_owner || *name != "Held");
        shown.for_each(|(name, line)| facts.add(name, line));
        format!("\n{title}\n{facts}{}", origins(&limits))
    };
    let title = format!("{}, {}\n", info.name, info.title);
    let of_pool = if is_shared { "A pool of" } else { "What volumes may share out of a pool of" };
    title
        + &part(format!("{of_pool} {}", pool.size), pool.limits, false)
        + &part(format!("A volume of {size} in it"), volume, true)
}

fn profiles(form: Form) -> anyhow::Result<()> {
    let infos = Profile::all().iter().map(|profile| profile.info()).collect();
    print_all(form, infos, || {
        let mut table = Table::new(&["NAME", "FOR A", "WHAT"]);
        for profile in Profile::all() {
            let info = profile.info();
            table.row([info.name.to_owned(), info.target.to_string(), info.title.to_owned()]);
        }
        table
    })
}

/// A shape, as JSON.
#[derive(Serialize)]
struct ShapeInfo {
    name: &'static str,
    title: &'static str,
    block_bytes: u64,
    mean_error_thousandths: u32,
    worst_error_thousandths: u32,
    source: String,
}

fn shapes(form: Form) -> anyhow::Result<()> {
    let info = |shape: Shape| ShapeInfo {
        name: shape.name(),
        title: shape.title(),
        block_bytes: shape.block().0,
        mean_error_thousandths: shape.error_band().mean_thousandths,
        worst_error_thousandths: shape.error_band().worst_thousandths,
        source: shape.source().to_string(),
    };
    print_all(form, Shape::all().map(info).collect(), || {
        let mut table = Table::new(&["NAME", "WHAT WAS MEASURED"]);
        Shape::all().for_each(|shape| table.row([shape.name().to_owned(), shape.title().to_owned()]));
        table
    })
}
