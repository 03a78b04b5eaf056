//! The tables of a published page, beside the figures of a run.

use envelope::{Direction, Figure, Metric, Mix, Pattern, Published, Shape, Unit};

use super::published::{self, capitalized, number, value, word};
use super::table::{Row, RowKind, Table, Value};
use crate::curve::{Curve, Time};
use crate::result::{Cell, Run};
use crate::scenario::Work;
use crate::units::show_size;

#[derive(Clone, Debug, PartialEq)]
pub struct PageTable {
    pub of: Vec<Published>,
    pub table: Table,
}

/// One table for each curve, and one for records that have the same figures, in order.
pub fn tables(published: impl Iterator<Item = Published>, run: Option<&Run>) -> Vec<PageTable> {
    let mut tables: Vec<PageTable> = Vec::new();
    for one in published {
        if let Some(shape) = one.shape() {
            tables.push(PageTable { of: vec![one], table: curve_table(one, shape, run) });
            continue;
        }
        let head = head(one);
        match tables.last_mut().filter(|last| last.table.head == head) {
            Some(last) => {
                last.of.push(one);
                last.table.rows.extend(rows(one, run));
            }
            None => {
                let table = Table { title: String::new(), head, rows: rows(one, run) };
                tables.push(PageTable { of: vec![one], table });
            }
        }
    }
    tables
}

/// The run's counterpart of a published figure: the best cell with that load, or for an EDA load the rate
/// within 2 ms.
pub fn measured(run: &Run, published: Published, figure: &Figure) -> Option<f64> {
    match figure.mix {
        Some(mix) => {
            let cell = best(run, published, mix, figure)?;
            published::measured(cell, figure)
        }
        None => eda_rate(run, published, figure.unit),
    }
}

fn curve_table(published: Published, shape: Shape, run: Option<&Run>) -> Table {
    let figures = published.figures();
    let mut reads: Vec<u32> = shape.knots().map(|(reads, _)| reads).collect();
    // From pure reads to pure writes, as on the pages.
    reads.reverse();
    let has_parts = reads.len() > 2;
    let head = std::iter::once("Reads".to_owned())
        .chain(reads.iter().map(|reads| format!("{} %", f64::from(*reads) / 10.0)))
        .collect();
    let mut table = Table { title: String::new(), head, rows: Vec::new() };
    let unit = match shape.metric() {
        Metric::Iops => Unit::Iops,
        Metric::MibPerSecond => Unit::MibPerSecond,
    };
    let of = |direction| {
        let at = |reads: &u32| {
            let is_there = |one: &&Figure| {
                one.direction == direction && one.mix.is_some_and(|mix| mix.read_thousandths == *reads)
            };
            figures.iter().find(is_there).copied()
        };
        reads.iter().map(at).collect::<Vec<Option<Figure>>>()
    };
    let mut row = |kind, label: String, cells: Vec<Value>| table.rows.push(Row { kind, label, cells });
    let directions = [Direction::Read, Direction::Write, Direction::Total];
    // With only the ends, the total adds no information.
    let shown = || directions.into_iter().filter(move |one| has_parts || *one != Direction::Total);
    for direction in shown() {
        let cells = of(direction).iter().map(|one| one.as_ref().map_or(Value::Nothing, value)).collect();
        row(RowKind::Published, format!("{} {}", capitalized(direction), unit.symbol()), cells);
    }
    let Some(run) = run else { return table };
    let own = |figure: &Option<Figure>| measured(run, published, figure.as_ref()?);
    let total = of(Direction::Total);
    if total.iter().all(|figure| own(figure).is_none()) {
        return table;
    }
    for direction in shown() {
        // If the page has only the total, the run still has its parts.
        let part = |figure: &Option<Figure>| own(&figure.map(|total| Figure { direction, ..total }));
        let cells = total.iter().map(|figure| part(figure).map_or(Value::Nothing, Value::figure)).collect();
        row(RowKind::Measured, format!("Measured {}", word(direction)), cells);
    }
    let ratio = |figure: &Option<Figure>| {
        let (own, page) = (own(figure)?, number(figure.as_ref()?));
        Some(Value::ratio(own, page))
    };
    let cells = total.iter().map(|figure| ratio(figure).unwrap_or(Value::Nothing)).collect();
    row(RowKind::Measured, "Measured / page".to_owned(), cells);
    table
}

fn head(published: Published) -> Vec<String> {
    let kind = |figure: &Figure| {
        let unit = figure.unit.symbol();
        match (figure.unit, figure.mix) {
            (Unit::Times, Some(mix)) => {
                format!("{} {}, {unit}", capitalized(figure.direction), load(mix))
            }
            _ if figure.direction == Direction::Total => unit.to_owned(),
            _ => format!("{} {unit}", capitalized(figure.direction)),
        }
    };
    std::iter::once(String::new()).chain(published.figures().iter().map(kind)).collect()
}

fn rows(published: Published, run: Option<&Run>) -> Vec<Row> {
    let figures = published.figures();
    let cells = figures.iter().map(value).collect();
    let mut rows = vec![Row { kind: RowKind::Published, label: published.title().to_owned(), cells }];
    let own = |figure: &Figure| run.and_then(|run| measured(run, published, figure));
    let own: Vec<Value> =
        figures.iter().map(|figure| own(figure).map_or(Value::Nothing, Value::figure)).collect();
    if own.iter().any(|one| *one != Value::Nothing) {
        rows.push(Row { kind: RowKind::Measured, label: "Measured".to_owned(), cells: own });
    }
    rows
}

fn best<'r>(run: &'r Run, published: Published, mix: Mix, figure: &Figure) -> Option<&'r Cell> {
    let of_load = run.cells.iter().filter(|cell| {
        let series = run.scenario.series.get(cell.series);
        let is_of = series.is_some_and(|series| {
            series.published.iter().any(|name| name == published.name())
                && published::at(published, series, &cell.point).iter().any(|one| one.mix == Some(mix))
        });
        is_of && cell.has_result()
    });
    let total = Figure { direction: Direction::Total, ..*figure };
    of_load.max_by(|one, other| {
        let rate = |cell| published::measured(cell, &total).unwrap_or(0.0);
        rate(one).total_cmp(&rate(other))
    })
}

/// The rate within 2 ms, or its data rate, of the best curve among the series that name the record.
fn eda_rate(run: &Run, published: Published, unit: Unit) -> Option<f64> {
    let names_it = |place: &usize| {
        run.scenario.series.get(*place).is_some_and(|series| {
            series.work == Work::EdaBlend && series.published.iter().any(|name| name == published.name())
        })
    };
    let at_2_ms = |place: usize| {
        let curve = Curve::of(run, place);
        let best = curve.rate_at_2ms(Time::Response)?;
        let of_best = |cell: &&Cell| cell.series == place && cell.point.job_sets == Some(best.job_sets);
        let mib = run.cells.iter().find(of_best)?.summary.mib_per_s.median;
        Some((best.achieved, mib))
    };
    let all = (0..run.scenario.series.len()).filter(names_it).filter_map(at_2_ms);
    let (rate, mib) = all.max_by(|one, other| one.0.total_cmp(&other.0))?;
    match unit {
        Unit::Iops => Some(rate),
        Unit::MibPerSecond => Some(mib),
        Unit::MbPerSecond | Unit::Times | Unit::JobSets | Unit::Milliseconds => None,
    }
}

fn load(mix: Mix) -> String {
    let pattern = if mix.pattern == Pattern::Random { "random" } else { "sequential" };
    format!("{} {pattern}", show_size(mix.block.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::sample;

    fn published(name: &str) -> Published {
        name.parse().unwrap()
    }

    fn shown(table: &Table) -> Vec<String> {
        let cells = |row: &Row| row.cells.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        table.rows.iter().map(|row| format!("{}: {}", row.label, cells(row))).collect()
    }

    #[test]
    fn tables_match_page() {
        let tables_of_page = tables([published("gcnv-extreme-nfs3-64k-seq")].into_iter(), None);
        assert_eq!(tables_of_page[0].table.head, ["Reads", "100 %", "75 %", "50 %", "25 %", "0 %"]);
        assert_eq!(
            shown(&tables_of_page[0].table),
            [
                "Read MiB/s: 5,237 2,284 1,415 610 0",
                "Write MiB/s: 0 764 1,416 1,835 2,172",
                "Total MiB/s: 5,237 3,048 2,831 2,445 2,172"
            ]
        );
        let ends = tables([published("anf-regular-4k-rand-cached")].into_iter(), None);
        assert_eq!(shown(&ends[0].table), ["Read IOPS: 460,000 0", "Write IOPS: 0 130,000"]);
        let middle = tables([published("anf-regular-256k-seq-uncached")].into_iter(), None);
        assert_eq!(shown(&middle[0].table)[2], "Total MiB/s: 3,500 > 3,500 2,500");
    }

    #[test]
    fn records_with_the_same_figures_share_a_table() {
        let tiers =
            ["filestore-basic-hdd-1-10", "filestore-basic-ssd", "anf-spec-eda-large", "anf-spec-eda-regular"];
        let tables_of_page = tables(tiers.into_iter().map(published), None);
        assert_eq!(tables_of_page.iter().map(|one| one.of.len()).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(tables_of_page[0].table.head, ["", "Read IOPS", "Write IOPS", "Read MB/s", "Write MB/s"]);
        assert_eq!(
            shown(&tables_of_page[0].table)[1],
            "Filestore Basic SSD, 2.5 to 63.9 TB: 60,000 25,000 1,200 350"
        );
        assert_eq!(tables_of_page[1].table.head, ["", "IOPS", "MiB/s"]);
        let gains = tables([published("anf-large-scaleup-gain")].into_iter(), None);
        assert_eq!(gains[0].table.head[1], "Read 256 KiB sequential, ×");
    }

    #[test]
    fn run_figures_are_beside_published_ones() {
        let run = sample::gcnv();
        let compared = published("gcnv-extreme-nfs3-64k-seq");
        let tables_of_page = tables([compared].into_iter(), Some(&run));
        let last = tables_of_page[0].table.rows.last().unwrap();
        assert_eq!(last.label, "Measured / page", "{:?}", run.scenario.series);
        assert!(
            last.cells.iter().any(|cell| matches!(cell, Value::Number(ratio, 2) if *ratio > 0.0)),
            "{last:?}"
        );
        let eda = tables([published("anf-spec-eda-regular")].into_iter(), Some(&sample::eda()));
        assert_eq!(eda[0].table.rows[1].label, "Measured");
        assert!(eda[0].table.rows[1].cells.iter().all(|cell| *cell != Value::Nothing));
        let others = tables([published("gcnv-extreme-smb-8k-rand")].into_iter(), Some(&run));
        assert_eq!(others[0].table.rows.len(), 3, "of which the run has nothing");
    }
}
