//! A page for people.

use envelope::{Conflict, Headline, Metric, Page, Part, Published, TextFigure};
use report::document::page::{PageTable, tables};
use report::document::table::separated;

use super::PageRequest;
use crate::manage::Table;
use crate::manage::table::Facts;
use crate::terminal::{Tone, folded};

/// The requested page, for a terminal of this many columns.
pub(super) fn of(asked: &PageRequest, columns: Option<usize>) -> String {
    let page = asked.page;
    let mut text = format!("{}\n{}\n", Tone::Head.paint(page.title), page.source.page);
    if asked.table.is_none() {
        text.push('\n');
        let about = page.about.iter().copied().chain(page.source.estimate());
        about.for_each(|line| text.push_str(&item(line, columns)));
    } else if let Some(estimate) = page.source.estimate() {
        text.push_str(&format!("\n{}", folded("", estimate, columns)));
    }
    for part in page.parts {
        let shown: Vec<Published> = part.published().filter(|one| asked.shows(*one)).collect();
        if asked.table.is_none() || !shown.is_empty() {
            text.push_str(&part_text(part, shown, asked, columns));
        }
    }
    text.push_str(&contradictions(asked, columns));
    if asked.table.is_none() {
        text.push_str(&next(page, columns));
    }
    text
}

fn part_text(part: &Part, shown: Vec<Published>, asked: &PageRequest, columns: Option<usize>) -> String {
    let mut text = format!("\n{}\n", Tone::Head.paint(part.title));
    let mut facts = Facts::default();
    facts.maybe("Stands for", Some(part.stands_for).filter(|loads| !loads.is_empty()));
    part.setup.iter().for_each(|(name, value)| facts.add(name, value));
    text.push_str(&facts.fit(columns));
    for one in tables(shown.into_iter(), asked.run.as_ref()) {
        text.push_str(&table_text(&one, columns));
    }
    if asked.table.is_none() && !part.notes.is_empty() {
        text.push('\n');
        part.notes.iter().for_each(|note| text.push_str(&item(note, columns)));
    }
    text
}

fn table_text(one: &PageTable, columns: Option<usize>) -> String {
    let mut text = String::from("\n");
    for published in &one.of {
        let line = match published.shape() {
            Some(_) => format!("{}: {}", published.name(), published.title()),
            // The title of a record is the label of its row.
            None => published.name().to_owned(),
        };
        text.push_str(&folded("", &line, columns));
    }
    let table = Table::from(&one.table).folding(&[""]);
    text.push_str(&table.fit(columns));
    for published in &one.of {
        if published.is_informational() {
            text.push_str("For information only: the page stands by throughput.\n");
        }
        let figures = published.headline().zip(published.shape());
        if let Some((headline, shape)) = figures {
            text.push_str(&folded("", &in_text(headline, shape.metric()), columns));
        }
    }
    text
}

/// The figure in the text of the page, where it is not the rounded figure of its table.
fn in_text(headline: Headline, metric: Metric) -> String {
    let both = [("read", headline.read), ("written", headline.write)];
    let of_all = |of: &dyn Fn(&str, TextFigure) -> Option<String>| -> Vec<String> {
        both.into_iter().filter_map(|(what, said)| of(what, said?)).collect()
    };
    let unit = metric.symbol();
    let said = of_all(&|what, said| Some(format!("{} {} {unit} {what}", said.word, count(said.value))));
    let off = of_all(&|_, said| {
        (!said.is_rounded()).then(|| format!("{} is not {} rounded", count(said.value), count(said.exact)))
    });
    let text = format!("In the page's text: {}.", said.join(" and "));
    if off.is_empty() { text } else { format!("{text} The table counts: {}.", off.join(", and ")) }
}

fn count(value: u64) -> String {
    separated(value as f64, 0)
}

fn contradictions(asked: &PageRequest, columns: Option<usize>) -> String {
    let is_shown = |conflict: &&Conflict| asked.table.is_none_or(|only| conflict.of.contains(&only.name()));
    let line = |conflict: &Conflict| {
        let profiles: Vec<&str> = conflict.profiles.iter().map(|profile| profile.name()).collect();
        let choose = match profiles.as_slice() {
            [] => String::new(),
            names => format!(" To choose: the profile {}.", names.join(" or ")),
        };
        item(&format!("{}: {}{choose}", conflict.name, conflict.text), columns)
    };
    let lines: String = asked.page.conflicts().filter(is_shown).map(line).collect();
    let title = Tone::Head.paint("Where the page contradicts itself or another");
    if lines.is_empty() { lines } else { format!("\n{title}\n{lines}") }
}

/// The next step for the reader.
fn next(page: &Page, columns: Option<usize>) -> String {
    let mut facts = Facts::default();
    for (place, scenario) in page.scenarios.iter().enumerate() {
        let name = if place == 0 { "Measure it" } else { "" };
        facts.verbatim(name, format!("plimsoll bench run {scenario} --target nfs://HOST/EXPORT"));
    }
    facts.verbatim("Beside it", format!("plimsoll page show {} --run RUN.json", page.name));
    facts.verbatim("Watch a volume", "plimsoll volume watch NAME");
    format!("\n{}", facts.fit(columns))
}

/// A line of a list.
fn item(text: &str, columns: Option<usize>) -> String {
    let lines = folded("  ", text, columns);
    format!("- {}", lines.strip_prefix("  ").unwrap_or(&lines))
}
