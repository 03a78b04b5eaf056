//! The need of each year, and whether the recommended option still carries it.

use envelope::{Bytes, Choice, Constraint, Cost, PlanYear, Workload, Year, size, size_to_buy};

use super::super::html::table;
use super::super::plot::svg::escape;
use super::super::table::{Table, Value};
use super::options;

/// The years of an option, in words, for all forms of an answer.
pub struct Years {
    pub rows: Vec<YearInWords>,
    /// The first year that outgrows the option.
    pub verdict: String,
    /// The growth of the data, in words.
    pub growth: String,
}

pub struct YearInWords {
    pub year: String,
    pub data: String,
    /// The smallest capacity that carries this year.
    pub needs: String,
    pub cost: Option<String>,
    pub state: String,
}

impl Years {
    pub fn of_choice(years: &[Year], workload: &Workload) -> Self {
        let needs = |choice: &Choice| match choice.pools {
            1 => size_to_buy(choice.pool.size),
            several => format!("{several} × {}", size_to_buy(choice.pool.size)),
        };
        let row = |year: &Year| Row {
            year: year.year,
            data: year.data,
            needs: year.smallest.as_ref().map(needs),
            cost: year.smallest.as_ref().and_then(|choice| choice.cost.clone()),
            outgrown: year.outgrown.as_ref().map(excess),
        };
        let growth = format!("The data grow by {} % a year", workload.growth_percent);
        Self::new(years.iter().map(row).collect(), growth)
    }

    /// `names` are those of the workloads.
    pub fn of_plan(years: &[PlanYear], names: &[&str]) -> Self {
        let name = |place: usize| names.get(place).copied().unwrap_or_default();
        let row = |year: &PlanYear| Row {
            year: year.year,
            data: year.data,
            needs: year.smallest.as_ref().map(|option| size_to_buy(option.capacity())),
            cost: year.smallest.as_ref().and_then(|option| option.cost.clone()),
            outgrown: year.outgrown.as_ref().map(|(at, bound)| format!("{}: {}", name(*at), excess(bound))),
        };
        Self::new(years.iter().map(row).collect(), "Each workload grows by its own growth a year".to_owned())
    }

    fn new(rows: Vec<Row>, growth: String) -> Self {
        let verdict = match rows.iter().find(|row| row.outgrown.is_some()) {
            Some(row) if row.year == 0 => "It is outgrown now.".to_owned(),
            Some(row) => format!("It is outgrown in year {}.", row.year),
            None => "It carries every year.".to_owned(),
        };
        let last = rows.last().map_or(0, |row| row.year);
        let grows = |pair: &[Row]| pair[0].data != pair[1].data;
        let is_same = |pair: &[Row]| pair[0].needs.is_some() && pair[0].needs == pair[1].needs;
        let same = match rows.windows(2).any(is_same) {
            true if !rows.windows(2).any(grows) => " Without growth, all years have the same size.",
            true => " Years have the same size where sizes come in steps, or where the load decides.",
            false => "",
        };
        let growth = format!(
            "{growth}; the load stays the same. The option is sized for year {last}. Each size includes the headroom.{same}"
        );
        Self { rows: rows.into_iter().map(Row::in_words).collect(), verdict, growth }
    }
}

struct Row {
    /// 0 is now.
    year: u32,
    data: Bytes,
    needs: Option<String>,
    cost: Option<Cost>,
    outgrown: Option<String>,
}

impl Row {
    fn in_words(self) -> YearInWords {
        YearInWords {
            year: if self.year == 0 { "now".to_owned() } else { self.year.to_string() },
            data: size(self.data),
            needs: self.needs.unwrap_or_else(|| "more than this level has".to_owned()),
            cost: self.cost.map(|cost| cost.to_string()),
            state: self.outgrown.map_or("carries it".to_owned(), |over| format!("outgrown: {over}")),
        }
    }
}

fn excess(bound: &Constraint) -> String {
    format!("{} of its {}", bound.used, bound.kind.name())
}

pub(super) fn shown(years: &Years) -> String {
    let mut all = Table::new("", &["Year", "Cost a month", "Needs", "Data", "This option"]);
    for row in &years.rows {
        let cost = row.cost.as_deref().map_or(Value::Nothing, Value::from);
        let [needs, data, state] = [&row.needs, &row.data, &row.state].map(|text| Value::from(text.as_str()));
        all.row(row.year.as_str(), vec![cost, needs, data, state]);
    }
    let text = format!("{} {}", years.verdict, years.growth);
    format!("<p>{}</p>\n{}", escape(&text), table(&options::without_empty(all)))
}
