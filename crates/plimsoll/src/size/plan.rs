//! Several workloads in one plan: as text, as JSON, and explained.

use std::process::ExitCode;

use envelope::{
    Catalog, Choice, LatencyCheck, Plan, PlanOption, PlanYear, PlannedPool, PoolRaise, RaiseStep, Workload,
    size, size_to_buy,
};
use report::document::sizing::{self, Sized, Years};
use serde::Serialize;

use super::answer::{self, carries, of_stream, times};
use super::explain;
use super::json::{JsonChoice, JsonRaise};
use super::question::{GivenFlags, SeveralRequests, SizingRequest};
use super::shown::{NOTHING_FITS, OptionArg, Shown};
use crate::exit::usage;
use crate::form::Form;
use crate::manage::Table;
use crate::terminal::folded;

/// The name and version of the JSON format.
const FORMAT: &str = "plimsoll-size-plan/1";
/// Options that are shown without `--all`.
const LEADING: usize = 3;

/// A plan with the workloads that it is for.
pub(super) struct Planned {
    pub(super) workloads: Vec<SizingRequest>,
    named: Vec<(String, Workload)>,
    catalog: Catalog,
    years: Option<u32>,
    plan: Plan,
}

impl Planned {
    pub(super) fn new(requests: SeveralRequests) -> anyhow::Result<Self> {
        let SeveralRequests { workloads, catalog, years } = requests;
        let named: Vec<(String, Workload)> = workloads
            .iter()
            .map(|one| (one.name.clone().unwrap_or_default(), one.workload.clone()))
            .collect();
        let plan = envelope::plan(&named, &catalog).map_err(|refusal| usage(refusal.to_string()))?;
        let with_catalog = |one| SizingRequest { catalog: catalog.clone(), ..one };
        let workloads = workloads.into_iter().map(with_catalog).collect();
        Ok(Self { workloads, named, catalog, years, plan })
    }

    pub(super) fn name(&self, workload: usize) -> &str {
        self.workloads.get(workload).and_then(|one| one.name.as_deref()).unwrap_or_default()
    }

    /// The choice for a workload in the first option; `None` if no level carries all workloads.
    pub(super) fn advised(&self, workload: usize) -> Option<&Choice> {
        let volumes = self.plan.options.first()?.volumes();
        volumes.into_iter().find(|volume| volume.workload == workload).map(|volume| &volume.choice)
    }

    /// The option with this number.
    pub(super) fn option(&self, arg: &OptionArg) -> anyhow::Result<&PlanOption> {
        let count = self.plan.options.len();
        if count == 0 {
            let why = self.plan.left_out.iter().map(|one| format!("{} {}", one.level, one.why));
            anyhow::bail!("no level carries all workloads: {}", why.collect::<Vec<_>>().join("; "));
        }
        let chosen = arg.option.checked_sub(1).and_then(|index| self.plan.options.get(index));
        chosen.ok_or_else(|| usage(format!("there is no option {}; allowed: 1 to {count}", arg.option)))
    }

    pub(super) fn show(&self, given: &GivenFlags, shown: &Shown) -> anyhow::Result<ExitCode> {
        let (form, arg) = (&shown.form.0, &shown.option.0);
        let columns = form.columns();
        let option = if self.plan.options.is_empty() { None } else { Some(self.option(arg)?) };
        let years = option.map(|option| self.years_of(option)).transpose()?.flatten();
        let names: Vec<&str> = self.named.iter().map(|(name, _)| name.as_str()).collect();
        let in_words = years.as_deref().map(|years| Years::of_plan(years, &names));
        if let Some(file) = &shown.html {
            let asked: Vec<Sized<'_>> = self.workloads.iter().map(SizingRequest::on_page).collect();
            let chosen = arg.option.saturating_sub(1);
            let page = sizing::plan_html(&self.plan, &asked, &self.catalog, chosen, in_words.as_ref());
            crate::output::write(file, page)?;
        }
        form.show(&self.json(years.as_deref()), |_| {
            let Some(option) = option else { return Ok(self.refusal(columns)) };
            let priced = self.catalog.prices.is_some();
            let years = in_words.map_or_else(String::new, |years| answer::years(&years, priced, columns));
            let mut next = arg.next(given);
            next.push(given.command("scenario", "--output DIR"));
            Ok(self.text(option, arg.option, shown.all, columns) + &years + &answer::next(&next, shown.all))
        })?;
        Ok(if option.is_some() { ExitCode::SUCCESS } else { ExitCode::from(NOTHING_FITS) })
    }

    /// The option's years, if they were asked for.
    fn years_of(&self, option: &PlanOption) -> anyhow::Result<Option<Vec<PlanYear>>> {
        let years = self.years.map(|_| option.years(&self.named, &self.catalog)).transpose();
        years.map_err(|refusal| usage(refusal.to_string()))
    }

    /// The answer without an option.
    fn refusal(&self, columns: Option<usize>) -> String {
        let asked = self.notes(columns) + &self.asked().fit(columns);
        asked + "\nNo level carries all workloads.\n" + &self.left_out(columns)
    }

    pub(super) fn explain(&self, arg: &OptionArg, form: &Form) -> anyhow::Result<ExitCode> {
        let option = self.option(arg)?;
        let columns = form.columns();
        let mut text = format!("The pools\n{}\n", self.pools(option).fit(columns));
        for volume in option.volumes() {
            let Some(asked) = self.workloads.get(volume.workload) else { continue };
            text.push_str(&format!("\n== {} ==\n", self.name(volume.workload)));
            text.push_str(&explain::explained(&volume.choice, asked, columns));
        }
        form.show(option, |_| Ok(text))?;
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self, option: &PlanOption, number: usize, all: bool, columns: Option<usize>) -> String {
        let shown = if all { self.plan.options.len() } else { LEADING.min(self.plan.options.len()) };
        let order = match option.cost {
            Some(_) => "Cheapest first",
            None => "Smallest first, the best of each provider before the others",
        };
        let mut text = self.notes(columns) + &self.asked().fit(columns);
        text.push_str(&format!("\n{order}:\n"));
        text.push_str(&self.options(shown).fit(columns));
        if all {
            text.push_str(&self.left_out(columns));
        }
        text.push_str(&format!("\nOption {number}: {}\n", option.name()));
        text.push_str(&self.pools(option).fit(columns));
        text.push('\n');
        text.push_str(&self.volumes(option).fit(columns));
        text.push_str(&format!("\nTotal: {}\n", option.total()));
        text
    }

    fn notes(&self, columns: Option<usize>) -> String {
        let lines = |(place, one): (usize, &SizingRequest)| {
            let line = |note: &String| folded("", &format!("Note: {}: {note}", self.name(place)), columns);
            one.notes.iter().map(line).collect::<String>()
        };
        self.workloads.iter().enumerate().map(lines).collect()
    }

    /// The workloads that are planned for.
    fn asked(&self) -> Table {
        let mut table = Table::new(&["WORKLOAD", ">DATA", ">WITH HEADROOM", "LOAD AT ITS PEAK"])
            .folding(&["LOAD AT ITS PEAK"]);
        for (place, one) in self.workloads.iter().enumerate() {
            let loads: Vec<String> = one.workload.streams.iter().map(of_stream).collect();
            let loads = if loads.is_empty() { "none".to_owned() } else { loads.join("; ") };
            let [data, needed] = [one.workload.planned(), one.workload.needed_capacity()].map(size);
            table.row([self.name(place).to_owned(), data, needed, loads]);
        }
        table
    }

    fn options(&self, shown: usize) -> Table {
        let priced = self.plan.options.iter().any(|option| option.cost.is_some());
        let mut heads = vec![">#", "LEVEL", ">CAPACITY", "POOLS"];
        heads.extend(priced.then_some(">A MONTH"));
        let mut table = Table::new(&heads).folding(&["POOLS", "LEVEL"]);
        for (option, number) in self.plan.options.iter().take(shown).zip(1..) {
            let pools: Vec<String> =
                option.pools.iter().map(|pool| times(pool.count, &size_to_buy(pool.pool.size))).collect();
            let cells =
                [format!("{number}"), option.name(), size_to_buy(option.capacity()), pools.join(", ")];
            let cost = option.cost.as_ref().map_or_else(|| "no price".to_owned(), ToString::to_string);
            table.row(cells.into_iter().chain(priced.then_some(cost)));
        }
        table
    }

    /// The pools of an option; with prices also the next size and the next level of each, and their additional cost.
    fn pools(&self, option: &PlanOption) -> Table {
        let is_priced = option.cost.is_some();
        let mut heads = vec!["POOL", "SIZE", "SET", ">VOLUMES"];
        heads.extend(is_priced.then_some([">A MONTH", "NEXT SIZE", "NEXT LEVEL"]).into_iter().flatten());
        let mut table = Table::new(&heads).folding(&["SET"]).leaving_out(&["NEXT LEVEL", "NEXT SIZE"]);
        for (pool, raises) in option.pools.iter().zip(option.raises(&self.named, &self.catalog)) {
            let cells = [
                pool.pool.level.name().to_owned(),
                times(pool.count, &size_to_buy(pool.pool.size)),
                pool.settings().unwrap_or_else(|| "-".to_owned()),
                pool.volume_count().to_string(),
            ];
            let raise = |step| {
                let raise = raises.iter().find(|raise| raise.step == step);
                raise.map_or_else(|| "-".to_owned(), PoolRaise::in_words)
            };
            let cost = pool.cost.as_ref().map_or(String::new(), ToString::to_string);
            let costs = is_priced.then(|| [cost, raise(RaiseStep::Size), raise(RaiseStep::Level)]);
            table.row(cells.into_iter().chain(costs.into_iter().flatten()));
        }
        table
    }

    /// The volumes of an option, a row for each workload.
    fn volumes(&self, option: &PlanOption) -> Table {
        let has_target = self.workloads.iter().any(|one| one.workload.latency_us.is_some());
        let mut heads = vec!["WORKLOAD", "VOLUME", "SET", ">CARRIES", ">AT PEAK", "BOTTLENECK"];
        heads.extend(has_target.then_some("LATENCY"));
        let mut table =
            Table::new(&heads).folding(&["SET"]).leaving_out(&["BOTTLENECK", "LATENCY", "AT PEAK"]);
        for volume in option.volumes() {
            let Some(asked) = self.workloads.get(volume.workload) else { continue };
            let (choice, workload) = (&volume.choice, &asked.workload);
            let latency = choice.latency.map_or("-", LatencyCheck::name).to_owned();
            let cells = [
                self.name(volume.workload).to_owned(),
                times(choice.volumes(), &size_to_buy(choice.volume.size)),
                choice.volume_settings().unwrap_or_else(|| "-".to_owned()),
                carries(choice, workload).unwrap_or_default(),
                choice.at_peak(workload).map_or_else(String::new, |used| used.to_string()),
                choice.binding().map_or_else(String::new, |bound| bound.kind.name().to_owned()),
            ];
            table.row(cells.into_iter().chain(has_target.then_some(latency)));
        }
        table
    }

    fn left_out(&self, columns: Option<usize>) -> String {
        let line =
            |one: &envelope::SkippedLevel| folded("  ", &format!("{} {}", one.level, one.why), columns);
        let lines: String = self.plan.left_out.iter().map(line).collect();
        if lines.is_empty() { lines } else { format!("\nSkipped:\n{lines}") }
    }

    fn json<'a>(&'a self, years: Option<&'a [PlanYear]>) -> Json<'a> {
        let workload = |(place, one): (usize, &'_ SizingRequest)| JsonWorkload {
            name: self.name(place).to_owned(),
            notes: one.notes.clone(),
            workload: one.workload.clone(),
        };
        Json {
            format: FORMAT,
            workloads: self.workloads.iter().enumerate().map(workload).collect(),
            options: self.plan.options.iter().map(|option| self.json_option(option)).collect(),
            left_out: &self.plan.left_out,
            years,
        }
    }

    fn json_option<'a>(&'a self, option: &'a PlanOption) -> JsonOption<'a> {
        JsonOption {
            levels: option.levels().iter().map(|level| level.name()).collect(),
            capacity_bytes: option.capacity().0,
            cost: &option.cost,
            pools: option
                .pools
                .iter()
                .zip(option.raises(&self.named, &self.catalog))
                .map(|(pool, raises)| self.json_pool(pool, raises))
                .collect(),
        }
    }

    fn json_pool<'a>(&'a self, pool: &'a PlannedPool, raises: Vec<PoolRaise>) -> JsonPool<'a> {
        let volume = |volume: &'a envelope::PlannedVolume| {
            let asked = self.workloads.get(volume.workload)?;
            let name = self.name(volume.workload).to_owned();
            Some(JsonVolume { workload: name, choice: JsonChoice::of(&volume.choice, asked) })
        };
        JsonPool {
            count: pool.count,
            pool: &pool.pool,
            cost: &pool.cost,
            raises: pool.cost.iter().flat_map(|_| &raises).map(JsonRaise::of_pool).collect(),
            volumes: pool.volumes.iter().filter_map(volume).collect(),
        }
    }
}

/// The plan, for programs.
#[derive(Serialize)]
struct Json<'a> {
    format: &'static str,
    workloads: Vec<JsonWorkload>,
    options: Vec<JsonOption<'a>>,
    left_out: &'a [envelope::SkippedLevel],
    /// The years of the selected option.
    #[serde(skip_serializing_if = "Option::is_none")]
    years: Option<&'a [PlanYear]>,
}

#[derive(Serialize)]
struct JsonWorkload {
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    workload: Workload,
}

#[derive(Serialize)]
struct JsonOption<'a> {
    levels: Vec<&'static str>,
    capacity_bytes: u64,
    cost: &'a Option<envelope::Cost>,
    pools: Vec<JsonPool<'a>>,
}

#[derive(Serialize)]
struct JsonPool<'a> {
    count: u32,
    pool: &'a envelope::Pool,
    cost: &'a Option<envelope::Cost>,
    /// The next size and the next level with their additional cost, if there are prices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    raises: Vec<JsonRaise>,
    volumes: Vec<JsonVolume<'a>>,
}

#[derive(Serialize)]
struct JsonVolume<'a> {
    workload: String,
    #[serde(flatten)]
    choice: JsonChoice<'a>,
}
