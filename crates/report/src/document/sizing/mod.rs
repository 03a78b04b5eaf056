//! The advice for a workload, as a page in the style of the reports.

mod options;
mod plot;
mod question;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use envelope::{Advice, Catalog, Choice, Constraint, Recommendation};

use super::html::{details, facts, list, page, plot as figure, table};
use super::plot::svg::escape;
use super::table::{Table, Value};

/// A self-contained page with the advice: the workload, the options, and the details of option `chosen`,
/// counted from 0. Readers can expand the other options, and choices that do not fit. `catalog` must be that
/// of the advice.
pub fn html(advice: &Advice, catalog: &Catalog, chosen: usize) -> String {
    let workload = &advice.workload;
    let title = question::title(workload);
    let mut text = format!("<main class=\"broad\">\n<h1>{}</h1>\n", escape(&title));
    if advice.options.is_empty() {
        text.push_str("<p class=\"stamp\">No option carries this load.</p>\n");
    }
    text.push_str(&facts(&question::facts(workload, catalog)));
    text.push_str(&question::load(workload).as_ref().map_or_else(String::new, table));
    text.push_str("<section>\n<h2>Options</h2>\n");
    for one in options::tables(advice, chosen) {
        text.push_str(&table(&one));
    }
    let all: String = options::all(advice, chosen).iter().map(table).collect();
    text.push_str(&details(&format!("All {} options, and why these lead", advice.options.len()), all));
    text.push_str(&list("cited", "Skipped levels", &options::skipped_levels(advice)));
    text.push_str("</section>\n");
    let body = |choice: &Choice| body(choice, advice, catalog);
    if let Some(choice) = advice.options.get(chosen) {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "<section>\n<h2>{}</h2>\n{}</section>\n",
            escape(&options::title(choice, chosen)),
            body(choice)
        );
    }
    for (index, choice) in advice.options.iter().enumerate().filter(|(index, _)| *index != chosen) {
        text.push_str(&details(&options::title(choice, index), body(choice)));
    }
    for miss in &advice.misses {
        text.push_str(&details(&format!("Not enough: {}", options::kind(miss)), body(miss)));
    }
    text.push_str(&list("cited", "Sources", &sources(advice)));
    text.push_str("</main>\n");
    page(&title, &text)
}

fn body(choice: &Choice, advice: &Advice, catalog: &Catalog) -> String {
    let mut text = facts(&options::facts(choice, &advice.workload, catalog));
    text.push_str(&plot::of(choice, &advice.workload, catalog).as_ref().map_or_else(String::new, figure));
    text.push_str(&list("doubts", "Caveats", &choice.caveats));
    text.push_str(&table(&constraints(choice)));
    for (title, advice) in [("Mount options", &choice.mount.why), ("Clients", &choice.clients)] {
        if !advice.is_empty() {
            text.push_str(&table(&reasons(title, advice)));
        }
    }
    text.push_str(&details("Effect of each mount option", table(&meanings(choice))));
    text.push_str(&details("How the limits come about", table(&origins(choice))));
    text
}

fn constraints(choice: &Choice) -> Table {
    let head = ["Bound", "Used", "Comparison, with the headroom", "Uncertainty", "Source"];
    let mut table = Table::new("Bounds", &head);
    for one in &choice.constraints {
        let row = vec![
            options::share(one.used),
            one.formula.as_str().into(),
            band(one),
            one.source.as_str().into(),
        ];
        table.row(one.kind.name(), row);
    }
    options::without_empty(table)
}

fn band(constraint: &Constraint) -> Value {
    let Some(band) = constraint.band else { return Value::Nothing };
    let percent = |thousandths: u32| Value::percent(f64::from(thousandths) / 1e3);
    format!("{} to {} % of that", percent(band.low_thousandths), percent(band.high_thousandths)).into()
}

fn reasons(title: &str, advice: &[Recommendation]) -> Table {
    let mut table = Table::new(title, &["Recommendation", "Reason", "Source"]);
    for one in advice {
        table.row(one.what.as_str(), vec![one.why.as_str().into(), one.source.to_string().into()]);
    }
    table
}

fn meanings(choice: &Choice) -> Table {
    let mut table = Table::new("", &["Option", "Effect", "Source"]);
    for one in choice.mount.meanings() {
        table.row(one.what, vec![one.why.into(), one.source.to_string().into()]);
    }
    table
}

fn sources(advice: &Advice) -> Vec<String> {
    let cited = advice.options.iter().chain(&advice.misses).flat_map(Choice::sources);
    let all: BTreeSet<String> = cited.map(|source| format!("{source:#}")).collect();
    all.into_iter().collect()
}

fn origins(choice: &Choice) -> Table {
    let mut table = Table::new("", &["Limit", "How", "Source"]);
    for one in &choice.origins {
        table.row(one.what, vec![one.formula.as_str().into(), one.source.to_string().into()]);
    }
    table
}

#[cfg(test)]
mod tests;
