//! The plan for several workloads, as a page in the form of that for one.

use envelope::{
    Catalog, Plan, PlanOption, PlannedVolume, RaiseStep, Utilization, Workload, size, size_to_buy,
};

use super::super::content::Lead;
use super::super::html::{details, folded_list, in_short, plot as figure, table};
use super::super::plot::{Bars, Ceiling, Chart, Part, Plot, Stack};
use super::super::table::{Row, RowKind, Table, Value};
use super::years::{self, Years};
use super::{Sized, assumptions, body, options, plot, question, section, sources, stamp, tables, whole};

/// Options that are shown without unfolding.
const LEADING: usize = 3;
const LOAD: usize = 1;
const HEADROOM: usize = 6;

/// A self-contained page with a plan: the recommended option `chosen`, counted from 0, then all options. `catalog` and the
/// order of `asked` must be those of the plan.
pub fn plan_html(
    plan: &Plan,
    asked: &[Sized<'_>],
    catalog: &Catalog,
    chosen: usize,
    years: Option<&Years>,
) -> String {
    let title = title(asked);
    let page = Page { plan, asked, catalog };
    let option = plan.options.get(chosen);
    let none = option.is_none().then_some("No level carries all workloads.");
    let lead = option.map_or_else(Lead::default, |option| page.lead(option));
    let mut text = in_short(&none.map_or_else(String::new, stamp), &lead, &[]);
    if option.is_some() {
        text.push_str(&section("Options", &page.options(chosen)));
    }
    text.push_str(&years.map_or_else(String::new, |years| section("Years", &years::shown(years))));
    if let Some(option) = option {
        text.push_str(&section(&heading(option, chosen), &page.pools_and_volumes(option)));
        text.push_str(&page.workloads(option));
    }
    let in_full =
        |(index, option): (usize, _)| details(&heading(option, index), page.pools_and_volumes(option));
    let others = plan.options.iter().enumerate().filter(|(index, _)| *index != chosen).map(in_full);
    text.push_str(&details("The other options in full", others.collect()));
    let of_one = |one: &Sized<'_>| details(one.name, assumptions(*one, catalog));
    text.push_str(&details("The workloads and their assumptions", asked.iter().map(of_one).collect()));
    text.push_str(&folded_list("cited", "Skipped levels", &options::skipped_levels(&plan.left_out)));
    let volumes = plan.options.iter().flat_map(PlanOption::volumes);
    text.push_str(&sources(volumes.map(|volume| &volume.choice)));
    whole(&title, &text)
}

fn title(asked: &[Sized<'_>]) -> String {
    let capacity: u64 = asked.iter().map(|one| one.workload.planned().0).fold(0, u64::saturating_add);
    let streams = asked.iter().flat_map(|one| &one.workload.streams).copied().collect();
    let together = Workload { streams, ..Workload::new(envelope::Bytes(capacity)) };
    question::title(&format!("{} workloads: ", asked.len()), &together)
}

fn heading(option: &PlanOption, index: usize) -> String {
    format!("Option {}: {}, {}", index + 1, option.name(), option.total())
}

struct Page<'a> {
    plan: &'a Plan,
    asked: &'a [Sized<'a>],
    catalog: &'a Catalog,
}

impl<'a> Page<'a> {
    /// The volumes with their workloads, in the order of the workloads.
    fn volumes(&self, option: &'a PlanOption) -> Vec<(Sized<'a>, &'a PlannedVolume)> {
        let with = |volume: &'a PlannedVolume| Some((*self.asked.get(volume.workload)?, volume));
        option.volumes().into_iter().filter_map(with).collect()
    }

    /// The workload that is closest to its limit, and the share that its peak takes.
    fn closest(&self, option: &'a PlanOption) -> Option<(Sized<'a>, &'a PlannedVolume, Utilization)> {
        let all = self.volumes(option).into_iter();
        let with_peak =
            all.filter_map(|(asked, volume)| Some((asked, volume, volume.choice.at_peak(asked.workload)?)));
        // Of equals, the first one.
        with_peak.reduce(|one, other| if other.2 > one.2 { other } else { one })
    }

    fn lead(&self, option: &'a PlanOption) -> Lead {
        let limit = self.closest(option).map_or_else(String::new, |(asked, volume, _)| {
            format!(
                "The load closest to its limit: {}. {}",
                asked.name,
                options::carried(&volume.choice, asked.workload)
            )
        });
        Lead { result: format!("{}: {}.", option.name(), option.total()), limit, plot: self.plot(option) }
    }

    /// The peaks in percent of the limit of each workload, which all have their own units.
    fn plot(&self, option: &'a PlanOption) -> Option<Plot> {
        let loaded: Vec<(Sized<'a>, f64)> = self
            .volumes(option)
            .into_iter()
            .filter_map(|(asked, volume)| {
                Some((asked, volume.choice.at_peak(asked.workload)?.ratio() * 100.0))
            })
            .collect();
        let part = |name: &str, color, of: fn(&Workload, f64) -> f64| Part {
            name: name.to_owned(),
            color,
            values: loaded.iter().map(|(asked, peak)| Some(of(asked.workload, *peak))).collect(),
        };
        let parts = vec![
            part("peak", LOAD, |_, peak| peak),
            part("headroom", HEADROOM, |workload, peak| peak * f64::from(workload.headroom_percent) / 100.0),
        ];
        let ceiling = Ceiling {
            name: "limit: the load that the volumes carry".to_owned(),
            values: vec![Some(100.0); loaded.len()],
        };
        let bars = Bars {
            unit: "% of the limit".to_owned(),
            groups: loaded.iter().map(|(asked, _)| asked.name.to_owned()).collect(),
            stacks: vec![Stack { published: false, parts }],
            totals: true,
            ceilings: vec![ceiling],
        };
        let note =
            "Each bar is the peak with its headroom. The settings are chosen for it, so 100 % is normal.";
        let title = "Load of each workload and its limit".to_owned();
        (!loaded.is_empty()).then(|| Plot { title, note: note.to_owned(), chart: Chart::Bars(bars) })
    }

    fn options(&self, chosen: usize) -> String {
        let is_priced = self.plan.options.iter().any(|option| option.cost.is_some());
        let title = if is_priced { "Options, the cheapest first" } else { "Options, the smallest first" };
        let count = self.plan.options.len();
        let mut text = table(&self.options_table(title, LEADING.min(count), chosen));
        if count > LEADING {
            let all = table(&self.options_table("", count, chosen));
            text.push_str(&details(&format!("All {count} options"), all));
        }
        text
    }

    fn options_table(&self, title: &str, count: usize, chosen: usize) -> Table {
        let head = [
            "Option",
            "At peak",
            "Cost a month",
            "Capacity",
            "Pools",
            "Volumes",
            "Load closest to its limit",
        ];
        let mut table = Table::new(title, &head);
        for (index, option) in self.plan.options.iter().enumerate().take(count) {
            let closest = self.closest(option);
            let name = closest.as_ref().map_or(Value::Nothing, |(asked, _, _)| asked.name.into());
            let volumes = option.pools.iter().map(|pool| u64::from(pool.volume_count())).sum();
            let cells = vec![
                closest.map_or(Value::Nothing, |(_, _, peak)| options::share(peak)),
                option.cost.as_ref().map_or(Value::Nothing, |cost| cost.to_string().into()),
                size_to_buy(option.capacity()).into(),
                Value::count(option.pool_count().into()),
                Value::count(volumes),
                name,
            ];
            let kind = if index == chosen { RowKind::Page } else { RowKind::Measured };
            table.rows.push(Row { kind, label: format!("{}. {}", index + 1, option.name()), cells });
        }
        options::without_empty(table)
    }

    fn pools_and_volumes(&self, option: &'a PlanOption) -> String {
        tables(&[self.pools(option), self.volumes_table(option)])
    }

    fn pools(&self, option: &PlanOption) -> Table {
        let mut table = Table::new(
            "Pools",
            &["Pool", "Cost a month", "Next size", "Next level", "Size", "Volumes", "Set"],
        );
        let named: Vec<(String, Workload)> =
            self.asked.iter().map(|one| (one.name.to_owned(), one.workload.clone())).collect();
        for (pool, raises) in option.pools.iter().zip(option.raises(&named, self.catalog)) {
            let raise = |step| {
                let raise = raises.iter().find(|raise| raise.step == step && pool.cost.is_some());
                raise.map_or(Value::Nothing, |raise| raise.in_words().into())
            };
            let cells = vec![
                pool.cost.as_ref().map_or(Value::Nothing, |cost| cost.to_string().into()),
                raise(RaiseStep::Size),
                raise(RaiseStep::Level),
                format!("{} × {}", pool.count, size_to_buy(pool.pool.size)).into(),
                Value::count(pool.volume_count().into()),
                pool.settings().unwrap_or_default().into(),
            ];
            table.row(pool.pool.level.name(), cells);
        }
        options::without_empty(table)
    }

    fn volumes_table(&self, option: &'a PlanOption) -> Table {
        let head = [
            "Workload",
            "At peak",
            "Volumes",
            "Data",
            "Set",
            "Carries MiB/s",
            "IOPS",
            "Bottleneck",
            "Latency target",
            "Mount with",
        ];
        let mut table = Table::new("Volumes", &head);
        for (asked, volume) in self.volumes(option) {
            let choice = &volume.choice;
            let mut cells = vec![
                choice.at_peak(asked.workload).map_or(Value::Nothing, options::share),
                options::volumes(choice).into(),
                size(asked.workload.planned()).into(),
                choice.volume_settings().unwrap_or_default().into(),
            ];
            cells.extend(options::maximum_columns(choice, asked.workload));
            let bottleneck = choice.binding().map_or(Value::Nothing, |one| one.kind.name().into());
            let latency = choice.latency.map_or(Value::Nothing, |check| check.name().into());
            cells.extend([bottleneck, latency, choice.mount.options.as_str().into()]);
            table.row(asked.name, cells);
        }
        options::without_empty(table)
    }

    /// The volumes of each workload in full, folded.
    fn workloads(&self, option: &'a PlanOption) -> String {
        let of_one = |(asked, volume): (Sized<'a>, &PlannedVolume)| {
            let plot = plot::of(&volume.choice, asked.workload, self.catalog);
            let plot = plot.as_ref().map_or_else(String::new, figure);
            let body = body(&volume.choice, asked.workload, self.catalog, &plot);
            details(&format!("{}: {}", asked.name, options::kind(&volume.choice)), body)
        };
        self.volumes(option).into_iter().map(of_one).collect()
    }
}
