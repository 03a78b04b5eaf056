//! `plimsoll size`: advises what to buy for a workload, with the reasons.

mod answer;
mod apply;
mod explain;
mod json;
mod plan;
mod prices;
pub(crate) mod question;
mod scenario;
mod shown;
mod watch;
mod words;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use envelope::{Advice, Choice, Year};
use report::document::sizing::{self, Sized, Years};

use crate::exit::usage;
use crate::form::{Form, TEXT};
use crate::terminal::folded;

use answer::SizingOutput;
use question::{Asked, ELSEWHERE, HiddenQuestion, Question, SizingRequest};
use shown::{NOTHING_FITS, Nothing, OptionArg, Shown};

/// Advise level, capacity, volumes and mount options for a workload.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "Example:
  plimsoll size --capacity 40TiB --iops 120k --block 8k --read 70 --clients 6
\"--help\" lists all flags: clients, measured loads, headroom, profiles.",
    after_long_help = "Examples:
  plimsoll size --capacity 40TiB --iops 120k --block 8k --read 70 --clients 6 --latency 2ms
  plimsoll size --capacity 200TiB --throughput 9GiB/s --block 256k --pattern sequential --read 80 --provider anf
  plimsoll size --capacity 80TiB --like media-rendering --throughput 3GiB/s --clients 12 --machine E32s_v5
  plimsoll size --like home --users 500 --growth 20 --years 3
  plimsoll size --plan workloads.toml --prices prices.toml
  plimsoll size --capacity 40TiB --from run.json --html advice.html
  plimsoll size explain --capacity 2TiB --throughput 100MiB/s --block 64k --level anf/premium
  plimsoll size apply --capacity 2TiB --throughput 100MiB/s --block 64k --level anf/premium --name tools \
    --allow 10.1.0.0/16

Figures are documented limits and published measurements, each with its page: \"explain\" shows the arithmetic.

Exit status: 0 if something carries the workload, 3 if nothing does, 2 if the question is wrong, 1 if it failed otherwise."
)]
pub(crate) struct SizeArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    question: Question,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the arithmetic of an option, with the page of each figure.
    #[command(after_help = ELSEWHERE)]
    Explain(Box<ExplainArgs>),
    /// Create the pools and volumes of an option on a running service.
    #[command(after_help = ELSEWHERE)]
    Apply(Box<apply::ApplyArgs>),
    /// Write each workload as a scenario for "plimsoll bench run".
    ///
    /// With --plan, --output names a directory, and each workload has a file there.
    #[command(after_help = ELSEWHERE)]
    Scenario(Box<scenario::ScenarioArgs>),
    /// Say how to compare options by cost, or print example prices.
    Prices(prices::PricesArgs),
}

#[derive(Debug, Args)]
struct ExplainArgs {
    #[command(flatten)]
    question: HiddenQuestion,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    option: OptionArg,
}

/// Answers the question. If no option carries the workload, shows the nearest one and returns [`NOTHING_FITS`].
pub(crate) fn run(args: SizeArgs) -> anyhow::Result<ExitCode> {
    match args.verb {
        None => advise(&args.question, &args.shown),
        Some(Verb::Explain(args)) => explain(&args),
        Some(Verb::Apply(args)) => apply::run(&args),
        Some(Verb::Prices(args)) => prices::run(&args),
        Some(Verb::Scenario(args)) => scenario::run(&args),
    }
}

fn advise(question: &Question, shown: &Shown) -> anyhow::Result<ExitCode> {
    let form = &shown.form.0;
    form.check()?;
    form.check_extension(TEXT, ", --html FILE for a page")?;
    if let Some(file) = &shown.html {
        check_page(file)?;
    }
    let asked = match question.asked()? {
        Asked::One(asked) => asked,
        Asked::Several(requests) => return plan::Planned::new(*requests)?.show(&question.given, shown),
    };
    let advice = asked.advice()?;
    let choice = shown.option.0.of(&advice, Nothing::Nearest)?;
    let years = asked.years_of(choice)?;
    let in_words = years.as_deref().map(|years| Years::of_choice(years, &asked.workload));
    if let Some(file) = &shown.html {
        let chosen = shown.option.0.option.saturating_sub(1);
        let page = sizing::html(&advice, asked.on_page(), &asked.catalog, chosen, in_words.as_ref());
        crate::output::write(file, page)?;
    }
    let columns = form.columns();
    let answer = SizingOutput { advice: &advice, request: &asked, choice, all: shown.all, columns };
    form.show(&json::of_advice(&advice, &asked, years.as_deref()), |_| {
        let priced = asked.catalog.prices.is_some();
        let years = in_words.map_or_else(String::new, |years| answer::years(&years, priced, columns));
        let mut next = shown.option.0.next(&question.given);
        // "apply" refuses an option that is too small.
        next.truncate(if advice.options.is_empty() { 1 } else { next.len() });
        Ok(answer.text() + &years + &answer::next(&next, shown.all))
    })?;
    Ok(ended(&advice))
}

/// Refuses a page whose name ends in another form.
fn check_page(file: &Path) -> anyhow::Result<()> {
    let is_page = |own: &OsStr| ["html", "htm"].iter().any(|known| own.eq_ignore_ascii_case(known));
    if file.extension().is_none_or(is_page) {
        return Ok(());
    }
    let name = file.display();
    Err(usage(format!(
        "--html {name} is a page in HTML; allowed: a name that ends in .html, or without ending"
    )))
}

fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    args.form.check_extension(TEXT, "")?;
    let columns = args.form.columns();
    let asked = match args.question.0.asked()? {
        Asked::One(asked) => asked,
        Asked::Several(requests) => return plan::Planned::new(*requests)?.explain(&args.option, &args.form),
    };
    let advice = asked.advice()?;
    let choice = args.option.of(&advice, Nothing::Nearest)?;
    args.form.show(&json::of_choice(choice, &asked), |_| Ok(explain::explained(choice, &asked, columns)))?;
    Ok(ended(&advice))
}

fn ended(advice: &Advice) -> ExitCode {
    if advice.options.is_empty() { ExitCode::from(NOTHING_FITS) } else { ExitCode::SUCCESS }
}

impl SizingRequest {
    fn advice(&self) -> anyhow::Result<Advice> {
        envelope::advise(&self.workload, &self.catalog).map_err(|refusal| usage(refusal.to_string()))
    }

    /// The option's years, if they were asked for.
    fn years_of(&self, choice: &Choice) -> anyhow::Result<Option<Vec<Year>>> {
        let years = self.years.map(|_| choice.years(&self.workload, &self.catalog)).transpose();
        years.map_err(|refusal| usage(refusal.to_string()))
    }

    fn on_page(&self) -> Sized<'_> {
        let name = self.name.as_deref().unwrap_or_default();
        Sized { name, workload: &self.workload, notes: &self.notes }
    }

    fn note_lines(&self, columns: Option<usize>) -> String {
        self.notes.iter().map(|note| folded("", &format!("Note: {note}"), columns)).collect()
    }
}
