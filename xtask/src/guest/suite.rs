//! All parts of a release in one guest, one after another. Each part is also a command; sharing a guest saves its boot.
//!
//! The suite runs in a network namespace, so that the servers of all parts have their ports at its loopback.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Parser;

use super::form::Form;
use super::image::Image;
use super::shared::Machine;
use super::{Task, crossproto, namespace, quota, run_part};
use crate::debian::Suite;
use crate::part::{self, Verdict};
use crate::process;

/// Longer than all parts together: each part has its own limit.
const SUITE_MAX: Duration = Duration::from_secs(3 * 3600);

/// The part that compares reads and writes with a model: its first failure counts.
const MODEL: &str = "crossproto";

#[derive(Debug, PartialEq, Eq)]
struct Part {
    name: &'static str,
    /// The command line, without the server.
    words: &'static [&'static str],
    takes_binary: bool,
}

const BOOKWORM: [Part; 9] = [
    Part::new("kernel-client", &["kernel-client"]),
    Part::new("smb", &["smb"]),
    Part::new("crossproto", &["crossproto"]),
    Part::new("hold", &["hold"]),
    Part::new("snapshots", &["snapshots"]),
    Part { name: "quota", words: &["quota"], takes_binary: false },
    Part::new("rquota", &["rquota"]),
    Part::new("tune", &["tune"]),
    Part::new("prove", &["prove"]),
];
const TRIXIE: [Part; 2] =
    [Part::new("kernel-client", &["kernel-client", "--suite", "trixie"]), Part::new("tls", &["tls"])];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Debian release of the guest.
    #[arg(long, value_enum, default_value = "bookworm")]
    image: Suite,
    /// Run only these parts, in the suite's order.
    #[arg(long, value_delimiter = ',', value_name = "PART", overrides_with = "only")]
    only: Vec<String>,
    /// Run every kind of check, with fewer repetitions and combinations.
    #[arg(long)]
    brief: bool,
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The network namespace exists. The command adds this when it runs itself again.
    #[arg(long, hide = true)]
    in_namespace: bool,
}

/// A part's command line.
#[derive(clap::Parser)]
struct Line {
    #[command(subcommand)]
    task: Task,
}

impl Part {
    const fn new(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, words, takes_binary: true }
    }

    fn task(&self, binary: &str) -> anyhow::Result<Task> {
        let binary = ["--binary", binary];
        let binary = if self.takes_binary { binary.as_slice() } else { &[] };
        let words = [&["guest"], self.words, binary].concat();
        Ok(Line::try_parse_from(words)?.task)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let parts = chosen(args.image, &args.only)?;
    let binary = process::binary(args.binary.as_deref()).canonicalize().context("cannot find the server")?;
    let binary = process::text(&binary)?;
    let image = Image::build(args.image)?;
    let form = if args.brief { Form::Brief } else { Form::Full };
    if args.in_namespace {
        return run_parts(&parts, &image, binary, form);
    }
    prepare(&parts)?;
    let names = parts.iter().map(|part| part.name).collect::<Vec<_>>().join(",");
    let mut arguments = vec!["suite", "--in-namespace", "--image", args.image.name(), "--only", &names];
    arguments.extend(["--binary", binary]);
    arguments.extend(args.brief.then_some("--brief"));
    namespace::run(&arguments, SUITE_MAX)
}

fn chosen(image: Suite, only: &[String]) -> anyhow::Result<Vec<&'static Part>> {
    let parts = match image {
        Suite::Bookworm => BOOKWORM.as_slice(),
        Suite::Trixie => &TRIXIE,
    };
    if let Some(unknown) = only.iter().find(|name| parts.iter().all(|part| part.name != *name)) {
        let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
        bail!("unknown part {unknown}; parts: {}", names.join(", "));
    }
    Ok(parts.iter().filter(|part| only.is_empty() || only.iter().any(|name| name == part.name)).collect())
}

/// Prepares parts that need the host's network, which the namespace lacks.
fn prepare(parts: &[&Part]) -> anyhow::Result<()> {
    for part in parts {
        match part.name {
            "crossproto" => crossproto::prepare()?,
            "quota" => drop(quota::prepare()?),
            _ => {}
        }
    }
    Ok(())
}

fn run_parts(parts: &[&Part], image: &Image, binary: &str, form: Form) -> anyhow::Result<()> {
    let mut machine = Machine::shared(image);
    let mut failed = 0;
    for part in parts {
        eprintln!("suite: part {} begins", part.name);
        let begun = Instant::now();
        let result = part.task(binary).and_then(|task| run_part(&task, &mut machine, form));
        if result.is_err() {
            failed += 1;
            // Remaining processes must not fail the next part.
            machine.end();
        }
        let verdict = match result {
            Ok(()) => Verdict::Ok,
            Err(why) if part.name == MODEL => Verdict::FailedForGood(format!("{why:#}")),
            Err(why) => Verdict::Failed(format!("{why:#}")),
        };
        let (name, seconds) = (part.name.to_owned(), begun.elapsed().as_secs());
        println!("{}", part::Part { name, seconds, verdict });
    }
    ensure!(failed == 0, "{failed} of {} parts failed", parts.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(image: Suite, only: &[&str]) -> anyhow::Result<Vec<&'static str>> {
        let only: Vec<String> = only.iter().map(ToString::to_string).collect();
        Ok(chosen(image, &only)?.into_iter().map(|part| part.name).collect())
    }

    #[test]
    fn without_a_selection_all_parts_run() {
        assert_eq!(names(Suite::Bookworm, &[]).unwrap().len(), BOOKWORM.len());
        assert_eq!(names(Suite::Trixie, &[]).unwrap(), ["kernel-client", "tls"]);
    }

    #[test]
    fn selected_parts_run_in_the_order_of_the_suite() {
        assert_eq!(names(Suite::Bookworm, &["prove", "smb"]).unwrap(), ["smb", "prove"]);
    }

    #[test]
    fn an_unknown_part_is_refused_with_the_known_ones() {
        let error = names(Suite::Trixie, &["tls", "smb"]).unwrap_err().to_string();
        assert_eq!(error, "unknown part smb; parts: kernel-client, tls");
    }

    #[test]
    fn each_part_is_a_command() {
        for part in BOOKWORM.iter().chain(&TRIXIE) {
            assert!(part.task("plimsoll").is_ok(), "{part:?}");
        }
    }
}
