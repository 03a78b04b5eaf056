//! `plimsoll page …`: the published pages, which are in this binary, with a run beside them.

mod json;
mod text;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use envelope::{Page, Published};
use report::result::Run;
use serde::Serialize;

use crate::bench;
use crate::exit::usage;
use crate::form::Form;
use crate::manage::Table;

/// Show the published pages: tables, settings, text, and where they contradict themselves.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  plimsoll page list
  plimsoll page show gcnv
  plimsoll page gcnv --table gcnv-extreme-nfs3-64k-seq
  plimsoll page show gcnv --run run.json"
)]
pub(crate) struct PageArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    show: Show,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the pages.
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Show a page.
    Show(Show),
}

#[derive(Debug, Args)]
struct Show {
    /// The page
    #[arg(required = true, value_parser = names())]
    page: Option<String>,
    /// Show only this table, by the name that stands above it
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Show beside the page what this run of the same load found: a file that "plimsoll bench run" wrote
    #[arg(long, value_name = "RUN.json")]
    run: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

/// A page and what of it is asked for.
struct PageRequest {
    page: &'static Page,
    table: Option<Published>,
    run: Option<Run>,
}

fn names() -> PossibleValuesParser {
    Page::all().iter().map(|page| page.name).collect::<Vec<_>>().into()
}

/// Does what is asked.
pub(crate) fn run(args: &PageArgs) -> anyhow::Result<()> {
    match &args.verb {
        Some(Verb::List { form }) => list(form),
        Some(Verb::Show(show)) => show.run(),
        None => args.show.run(),
    }
}

#[derive(Serialize)]
struct Listed {
    pages: Vec<ListedPage>,
}

#[derive(Serialize)]
struct ListedPage {
    name: &'static str,
    title: &'static str,
    address: &'static str,
    scenarios: &'static [&'static str],
}

fn list(form: &Form) -> anyhow::Result<()> {
    let listed = |page: &'static Page| ListedPage {
        name: page.name,
        title: page.title,
        address: page.source.page,
        scenarios: page.scenarios,
    };
    form.show(&Listed { pages: Page::all().iter().map(listed).collect() }, |listed| {
        let heads = ["NAME", "WHAT IT IS ABOUT", "SCENARIOS"];
        let mut table = Table::new(&heads).folding(&heads[1..]);
        for page in &listed.pages {
            table.row([page.name.to_owned(), page.title.to_owned(), page.scenarios.join(", ")]);
        }
        Ok(table.fit(form.columns()))
    })
}

impl Show {
    fn run(&self) -> anyhow::Result<()> {
        let asked = self.request()?;
        let columns = self.form.columns();
        self.form.show(&json::of(&asked), |_| Ok(text::of(&asked, columns)))
    }

    fn request(&self) -> anyhow::Result<PageRequest> {
        let page = Page::by_name(self.page.as_deref().unwrap_or_default())?;
        let run = self.run.as_deref().map(bench::read_run).transpose()?;
        let Some(name) = &self.table else { return Ok(PageRequest { page, table: None, run }) };
        let names = || page.parts.iter().flat_map(|part| part.published);
        if !names().any(|one| one == name) {
            let names: Vec<&str> = names().copied().collect();
            let allowed = names.join(", ");
            return Err(usage(format!(
                "\"{name}\" is no table of the page {}; allowed: {allowed}",
                page.name
            )));
        }
        Ok(PageRequest { page, table: Some(name.parse()?), run })
    }
}

impl PageRequest {
    /// Whether something published is to be shown.
    fn shows(&self, published: Published) -> bool {
        self.table.is_none_or(|only| only == published)
    }
}
