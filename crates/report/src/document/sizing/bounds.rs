//! The bounds of a choice, and the reasons for its settings, as tables.

use envelope::{Choice, Constraint, Recommendation};

use super::super::html::{details, table};
use super::super::table::{Table, Value};
use super::options;

pub(super) fn tables_of(choice: &Choice) -> String {
    let mut text = table(&constraints(choice));
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
    let head = ["Bound", "Used, with headroom", "Comparison, with headroom", "Uncertainty", "Source"];
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

fn origins(choice: &Choice) -> Table {
    let mut table = Table::new("", &["Limit", "How", "Source"]);
    for one in &choice.origins {
        table.row(one.what, vec![one.formula.as_str().into(), one.source.to_string().into()]);
    }
    table
}
