//! Maps of blocks and mixes over several series.

use envelope::Direction;

use super::axes::Form;
use super::plot::{Chart, Heatmap, Plot, Spot};
use crate::result::Cell;
use crate::scenario::{Depth, Scenario, Series, Work};
use crate::units::show_size;

/// One map for each group of series with the same mixes and several rows: blocks down, mixes across. Each
/// series is a separate row, because cached and uncached loads must not mix.
pub(super) fn blocks_and_mixes(scenario: &Scenario, cells: &[Cell]) -> Vec<Plot> {
    let mut maps: Vec<(&[u8], Heatmap)> = Vec::new();
    for (index, series) in scenario.series.iter().enumerate().filter(|(_, series)| is_of_mixes(series)) {
        let own: Vec<&Cell> = cells.iter().filter(|cell| cell.series == index).collect();
        if own.is_empty() {
            continue;
        }
        let rows = series.blocks.iter().map(|&block| row(series, block, &own));
        match maps.iter_mut().find(|(mixes, _)| *mixes == series.reads) {
            Some((_, map)) => map.rows.extend(rows),
            None => {
                let column = |&mix: &u8| format!("{mix}/{}", 100u8.saturating_sub(mix));
                let columns = series.reads.iter().map(column).collect();
                maps.push((&series.reads, Heatmap { columns, rows: rows.collect() }));
            }
        }
    }
    maps.into_iter().filter(|(_, map)| map.rows.len() > 1).map(|(_, map)| plot(map)).collect()
}

fn plot(map: Heatmap) -> Plot {
    let is_missing = |spot: &Spot| *spot == Spot::NoResult;
    let missing = map.rows.iter().any(|(_, spots)| spots.iter().any(is_missing));
    let missing = if missing { "; –: no result" } else { "" };
    let note = format!(
        "MiB/s of reads and writes together, the darker the more; columns: read/write %, from pure reads to pure writes\
         {missing}."
    );
    Plot { title: "Blocks and mixes".to_owned(), note, chart: Chart::Heatmap(map) }
}

fn row(series: &Series, block: u64, cells: &[&Cell]) -> (String, Vec<Spot>) {
    let spot = |&mix: &u8| {
        let at = |cell: &&&Cell| cell.point.read_percent == mix && cell.point.block == block;
        let same: Vec<&&Cell> = cells.iter().filter(at).collect();
        let rates = same.iter().filter(|cell| cell.has_result());
        let best = rates.map(|cell| Form::Mib.rate(cell, Direction::Total)).reduce(f64::max);
        match best {
            Some(rate) => Spot::Value(rate),
            None if same.is_empty() => Spot::NotMeasured,
            None => Spot::NoResult,
        }
    };
    let name = match series.blocks.len() {
        1 => series.name.clone(),
        _ => format!("{}, {}", series.name, show_size(block)),
    };
    (name, series.reads.iter().map(spot).collect())
}

fn is_of_mixes(series: &Series) -> bool {
    series.work == Work::Transfers && matches!(series.depths, Depth::Search(_)) && series.reads.len() > 1
}
