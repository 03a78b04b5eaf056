//! The advice for a workload or a plan, as a page in the style of the reports.
//!
//! Both pages begin with the recommendation and one plot. Options with their costs and the years follow. All else is folded.

mod bounds;
mod options;
mod plan;
mod plot;
mod question;
mod years;

use std::collections::BTreeSet;

use envelope::{Advice, Catalog, Choice, Workload};

use super::content::Lead;
use super::html::{details, facts, folded_list, in_short, list, page, plot as figure, table};
use super::plot::svg::escape;
use super::table::Table;

pub use plan::plan_html;
pub use years::{YearInWords, Years};

/// A workload of a page, with notes about assumptions.
#[derive(Clone, Copy)]
pub struct Sized<'a> {
    /// Empty for one alone.
    pub name: &'a str,
    pub workload: &'a Workload,
    pub notes: &'a [String],
}

/// A self-contained page with the advice: the recommended option `chosen`, counted from 0, then all options. Readers can
/// expand the other options, and choices that do not fit. `catalog` must be that of the advice.
pub fn html(
    advice: &Advice,
    asked: Sized<'_>,
    catalog: &Catalog,
    chosen: usize,
    years: Option<&Years>,
) -> String {
    let workload = &advice.workload;
    let title = question::title("", workload);
    let choice = advice.options.get(chosen);
    let lead = choice.or(advice.misses.first()).map_or_else(Lead::default, |choice| Lead {
        result: options::recommendation(choice),
        limit: options::carried(choice, workload),
        plot: plot::of(choice, workload, catalog),
    });
    let none = advice.options.is_empty().then_some("No option carries this load. The nearest choice:");
    let mut text = in_short(&none.map_or_else(String::new, stamp), &lead, &[]);
    text.push_str(&section("Options", &options_in_tables(advice, chosen)));
    text.push_str(&years.map_or_else(String::new, |years| section("Years", &years::shown(years))));
    if let Some(choice) = choice {
        let body = body(choice, workload, catalog, "");
        text.push_str(&section(&options::title(choice, chosen), &body));
    }
    let with_plot = |choice: &Choice| {
        let plot = plot::of(choice, workload, catalog).as_ref().map_or_else(String::new, figure);
        body(choice, workload, catalog, &plot)
    };
    let others = advice.options.iter().enumerate().filter(|(index, _)| *index != chosen);
    let mut in_full: String =
        others.map(|(index, choice)| details(&options::title(choice, index), with_plot(choice))).collect();
    for miss in &advice.misses {
        in_full.push_str(&details(&format!("Not enough: {}", options::kind(miss)), with_plot(miss)));
    }
    text.push_str(&details("The other options in full, and choices that do not fit", in_full));
    text.push_str(&details("The workload and its assumptions", assumptions(asked, catalog)));
    text.push_str(&folded_list("cited", "Skipped levels", &options::skipped_levels(&advice.left_out)));
    text.push_str(&sources(advice.options.iter().chain(&advice.misses)));
    whole(&title, &text)
}

fn whole(title: &str, body: &str) -> String {
    page(title, &format!("<main class=\"broad\">\n<h1>{}</h1>\n{body}</main>\n", escape(title)))
}

fn stamp(text: &str) -> String {
    format!("<p class=\"stamp\">{}</p>\n", escape(text))
}

fn section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{body}</section>\n", escape(title))
}

fn tables(all: &[Table]) -> String {
    all.iter().map(table).collect()
}

fn options_in_tables(advice: &Advice, chosen: usize) -> String {
    let all = tables(&options::all(advice, chosen));
    let summary = format!("All {} options, and why these lead", advice.options.len());
    tables(&options::tables(advice, chosen)) + &details(&summary, all)
}

/// A choice in words, with its bounds folded. `plot`, which may be empty, stands before the caveats.
fn body(choice: &Choice, workload: &Workload, catalog: &Catalog, plot: &str) -> String {
    let mut text = facts(&options::facts(choice, workload, catalog));
    text.push_str(plot);
    text.push_str(&list("doubts", "Caveats", &choice.caveats));
    text.push_str(&details("Bounds, mount options, clients", bounds::tables_of(choice)));
    text
}

/// The workload in words, its loads, and the notes about what was assumed.
fn assumptions(asked: Sized<'_>, catalog: &Catalog) -> String {
    let mut text = facts(&question::facts(asked.workload, catalog));
    text.push_str(&question::load(asked.workload).as_ref().map_or_else(String::new, table));
    text + &list("", "Assumptions", asked.notes)
}

fn sources<'a>(choices: impl Iterator<Item = &'a Choice>) -> String {
    let all: BTreeSet<String> =
        choices.flat_map(Choice::sources).map(|source| format!("{source:#}")).collect();
    folded_list("cited", "Sources", &all.into_iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
