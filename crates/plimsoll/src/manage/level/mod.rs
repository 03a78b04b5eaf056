//! `plimsoll level …`: the catalog of service levels. The catalog is part of this binary, so no service is asked.

mod shape;

use super::limits::{of_pool, of_volume, origins};
use super::settings::PoolFlags;
use super::table::{Facts, Table};
use super::words;
use crate::exit::usage;
use crate::form::Form;
use crate::terminal::Tone;
use api::convert::FromBody;
use api_client::model::{
    LevelLimits, LevelName, Limits, Page, ProfileName, ShapeName, Shaping, VolumeSettings,
};
use clap::{Args, Subcommand};
use envelope::{Bands, Bytes, BytesPerSecond, Level, LevelInfo, Pool, Profile, Shape, Volume};
use serde::Serialize;
use serde_json::json;

/// Service levels.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the service levels, with the owner of their limits and the sizes of pools and volumes.
    #[command(visible_alias = "ls")]
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
    /// List the profiles: alternative figures where two sources disagree.
    Profiles {
        #[command(flatten)]
        form: Form,
    },
    /// List the shapes: published curves that a volume may follow at any level.
    Shapes {
        #[command(flatten)]
        form: Form,
    },
    /// Show a shape: the curve as a table with bars; with -o FILE.svg as a picture.
    #[command(after_help = "Examples:
  plimsoll level shape gcnv-extreme-nfs3-8k-rand
  plimsoll level shape anf-regular-64k-seq-uncached --scale 0.25
  plimsoll level shape gcnv-extreme-nfs3-8k-rand -o curve.svg")]
    Shape(shape::ShapeArgs),
}

/// The arguments of `level show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The level, like anf/premium
    #[arg(value_parser = words::level(), hide_possible_values = true)]
    level: LevelName,
    /// The pool's size, like 2TiB; the volume takes all of it without --volume-size
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
    /// Alternative figure for the volume, where two sources disagree: "plimsoll level profiles" lists them
    #[arg(long, value_name = "PROFILE", value_parser = words::profile(), hide_possible_values = true, requires = "size")]
    volume_profile: Option<ProfileName>,
    /// A published curve that limits the volume as well: "plimsoll level shapes" lists them
    #[arg(long, value_parser = words::shape(), hide_possible_values = true, requires = "size")]
    shape: Option<ShapeName>,
    /// Factor that scales the curve, like 0.25
    #[arg(long, value_name = "FACTOR", value_parser = words::scale, requires = "shape")]
    scale: Option<u32>,
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List { form } => list(&form),
        Command::Show(args) => show(&args),
        Command::Profiles { form } => profiles(&form),
        Command::Shapes { form } => shapes(&form),
        Command::Shape(args) => shape::run(&args),
    }
}

/// Shows a list, as JSON in the form of the API's lists, or as a table.
fn show_all<T: Serialize>(form: &Form, items: Vec<T>, table: impl FnOnce() -> Table) -> anyhow::Result<()> {
    form.show(&Page { items, next_page_token: None }, |_| Ok(table().fit(form.columns())))
}

fn list(form: &Form) -> anyhow::Result<()> {
    let levels = Level::all().iter().map(|&level| api_client::model::Level::from(level)).collect();
    show_all(form, levels, || {
        let heads = ["NAME", "LIMITS OF", "POOL", "VOLUME", "LARGE VOLUME"];
        let mut table = Table::new(&heads).leaving_out(&["LARGE VOLUME", "LIMITS OF"]);
        for level in Level::all() {
            let info = level.info();
            let owner = api_client::model::Owner::from(info.owner);
            let volume =
                if info.is_instance { "the pool".to_owned() } else { span(info.volume_sizes, "any") };
            let large = span(info.large_volume_sizes, "-");
            table.row([info.name.to_owned(), owner.to_string(), span(info.pool_sizes, "any"), volume, large]);
        }
        table
    })
}

/// The range from the least size to the greatest.
fn span(bands: Option<Bands>, none: &str) -> String {
    let ranges = bands.map_or(&[][..], |bands| bands.ranges);
    match (ranges.first(), ranges.last()) {
        (Some(first), Some(last)) => format!("{} to {}", first.min, last.max),
        _ => none.to_owned(),
    }
}

fn show(args: &Show) -> anyhow::Result<()> {
    let level = args.level.0;
    let promised = match args.size {
        Some(size) => Some(args.promised(size)?),
        None if args.pool.settings() != Default::default() => {
            return Err(usage("settings are given without a size; allowed: both, like --size 4TiB, or none"));
        }
        None => None,
    };
    let columns = args.form.columns();
    let (pool, volume) = promised.as_ref().map(|of| (of.pool.1.clone(), of.volume.1.clone())).unzip();
    args.form.show(&LevelLimits { level: level.into(), pool, volume }, |_| {
        Ok(match &promised {
            None => described(level.info()).fit(columns),
            Some(promised) => promised.text(level.info(), columns),
        })
    })
}

/// A pool and a volume in it, each with its size and limits.
struct Promised {
    pool: (Bytes, Limits),
    volume: (Bytes, Limits),
}

impl Show {
    /// The limits of a pool of this size, and of a volume in it.
    fn promised(&self, size: Bytes) -> anyhow::Result<Promised> {
        let settings = FromBody::from_body(self.pool.settings()).map_err(refused)?;
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
        let limits = pool.volume_limits(&volume).map_err(refused)?;
        Ok(Promised {
            pool: (size, pool.limits().map_err(refused)?.into()),
            volume: (volume.size, limits.into()),
        })
    }
}

/// No service is asked: sizes and settings that the level does not have are a wrong command line.
fn refused(why: impl std::fmt::Display) -> anyhow::Error {
    usage(why.to_string())
}

/// A level without a size.
fn described(info: &LevelInfo) -> Facts {
    let mut facts = Facts::default();
    let sizes = |bands: Option<Bands>, none: &str| {
        let ranges = bands.map_or(&[][..], |bands| bands.ranges).iter().map(ToString::to_string);
        let ranges = ranges.collect::<Vec<_>>().join(", or ");
        if ranges.is_empty() { none.to_owned() } else { ranges }
    };
    let level = api_client::model::Level::from(info.name.parse::<Level>().unwrap_or(Level::Unlimited));
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
        facts.add(if place == 0 { "Sources" } else { "" }, format!("{source:#}"));
    }
    facts
}

impl Promised {
    /// The limits and their sources. An instance is pool and volume in one, so its limits are shown once.
    fn text(&self, info: &LevelInfo, columns: Option<usize>) -> String {
        let (pool, volume) = (&self.pool.1, &self.volume.1);
        let (size, volume_size) = (self.pool.0, self.volume.0);
        let volume_lines = of_volume(volume, pool);
        let parts = match (info.is_instance, pool.owner) {
            (true, _) => vec![(format!("An instance of {size}"), volume_lines, volume)],
            (false, owner) => {
                let title = match owner {
                    api_client::model::Owner::Pool => format!("A pool of {size}"),
                    api_client::model::Owner::Volume => {
                        format!("Limits that volumes share in a pool of {size}")
                    }
                };
                let shared = of_pool(pool).into_iter().filter(|(name, _)| *name != "Enforced").collect();
                vec![
                    (title, shared, pool),
                    (format!("A volume of {volume_size} in it"), volume_lines, volume),
                ]
            }
        };
        let part = |(title, lines, limits): (String, Vec<(&'static str, String)>, &Limits)| {
            let mut facts = Facts::default();
            lines.into_iter().for_each(|(name, line)| facts.add(name, line));
            let title = Tone::Head.paint(&title);
            format!("\n{title}\n{}{}", facts.fit(columns), origins(limits, columns))
        };
        let parts: String = parts.into_iter().map(part).collect();
        format!("{}, {}\n{parts}", info.name, info.title)
    }
}

fn profiles(form: &Form) -> anyhow::Result<()> {
    let listed = |profile: &Profile| {
        let info = profile.info();
        let levels =
            info.levels.iter().map(|(level, rate)| json!({ "name": level, "bytes_per_second": rate }));
        let mut listed = serde_json::to_value(info)?;
        listed["levels"] = levels.collect();
        Ok(listed)
    };
    let listed = Profile::all().iter().map(listed).collect::<anyhow::Result<Vec<_>>>()?;
    show_all(form, listed, || {
        let mut table = Table::new(&["NAME", "FOR A", "TITLE"]).folding(&["TITLE"]);
        for profile in Profile::all() {
            let info = profile.info();
            table.row([info.name.to_owned(), info.target.to_string(), info.title.to_owned()]);
        }
        table
    })
}

#[derive(Serialize)]
struct ShapeInfo {
    name: &'static str,
    title: &'static str,
    block_bytes: u64,
    mean_error_thousandths: u32,
    worst_error_thousandths: u32,
    source: String,
}

fn shapes(form: &Form) -> anyhow::Result<()> {
    let info = |shape: Shape| ShapeInfo {
        name: shape.name(),
        title: shape.title(),
        block_bytes: shape.block().0,
        mean_error_thousandths: shape.error_band().mean_thousandths,
        worst_error_thousandths: shape.error_band().worst_thousandths,
        source: format!("{:#}", shape.source()),
    };
    show_all(form, Shape::all().map(info).collect(), || {
        let mut table = Table::new(&["NAME", "MEASUREMENT"]).folding(&["MEASUREMENT"]);
        Shape::all().for_each(|shape| table.row([shape.name().to_owned(), shape.title().to_owned()]));
        table
    })
}
