//! The need of each year, and whether the recommended option still carries it.

use envelope::{Bytes, Constraint, Cost, PlanYear, Workload, Year, size, size_to_buy};

use super::super::plot::svg::escape;
use super::super::table::{Table, Value};
use super::{options, table};

pub(super) fn of_choice(years: &[Year], workload: &Workload) -> String {
    let rows = years.iter().map(|year| Row {
        year: year.year,
        data: year.data,
        needs: year.smallest.as_ref().map(options::pools),
        cost: year.smallest.as_ref().and_then(|choice| choice.cost.as_ref()),
        outgrown: year.outgrown.as_ref().map(excess),
    });
    shown(&rows.collect::<Vec<_>>(), &format!("The data grow by {} % a year.", workload.growth_percent))
}

/// `names` are those of the workloads.
pub(super) fn of_plan(years: &[PlanYear], names: &[&str]) -> String {
    let name = |place: usize| names.get(place).copied().unwrap_or_default();
    let rows = years.iter().map(|year| Row {
        year: year.year,
        data: year.data,
        needs: year.smallest.as_ref().map(|option| size_to_buy(option.capacity())),
        cost: year.smallest.as_ref().and_then(|option| option.cost.as_ref()),
        outgrown: year.outgrown.as_ref().map(|(place, bound)| format!("{}: {}", name(*place), excess(bound))),
    });
    shown(&rows.collect::<Vec<_>>(), "The data of each workload grow by its own growth a year.")
}

struct Row<'a> {
    /// 0 is now.
    year: u32,
    data: Bytes,
    needs: Option<String>,
    cost: Option<&'a Cost>,
    outgrown: Option<String>,
}

fn excess(bound: &Constraint) -> String {
    format!("{} of its {}", bound.used, bound.kind.name())
}

fn shown(rows: &[Row<'_>], growth: &str) -> String {
    let mut all = Table::new("", &["Year", "Cost a month", "Needs", "Data", "This option"]);
    for row in rows {
        let label = if row.year == 0 { "now".to_owned() } else { row.year.to_string() };
        let needs = row.needs.clone().unwrap_or_else(|| "more than this level has".to_owned());
        let state = row.outgrown.as_ref().map_or("carries it".to_owned(), |over| format!("outgrown: {over}"));
        let cost = row.cost.map_or(Value::Nothing, |cost| cost.to_string().into());
        all.row(label, vec![cost, needs.into(), size(row.data).into(), state.into()]);
    }
    let verdict = match rows.iter().find(|row| row.outgrown.is_some()) {
        Some(row) if row.year == 0 => "The option is outgrown now.".to_owned(),
        Some(row) => format!("The option is outgrown in year {}.", row.year),
        None => "The option is not outgrown in these years.".to_owned(),
    };
    let text = format!("{verdict} {growth} The load stays the same. The option is sized for year 1.");
    format!("<p>{}</p>\n{}", escape(&text), table(&options::without_empty(all)))
}
