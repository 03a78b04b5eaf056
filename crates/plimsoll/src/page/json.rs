//! A page as JSON.

use envelope::{Conflict, Direction, Figure, Part, Published, TextFigure};
use report::document::page::measured;
use serde::Serialize;

use super::PageRequest;

#[derive(Serialize)]
pub(super) struct Page {
    name: &'static str,
    title: &'static str,
    address: &'static str,
    about: &'static [&'static str],
    estimate: Option<&'static str>,
    parts: Vec<PartOf>,
    contradictions: Vec<&'static Conflict>,
    scenarios: &'static [&'static str],
}

#[derive(Serialize)]
struct PartOf {
    title: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    stands_for: &'static str,
    setup: Vec<Setting>,
    tables: Vec<TableOf>,
    notes: &'static [&'static str],
}

#[derive(Serialize)]
struct Setting {
    name: &'static str,
    value: &'static str,
}

#[derive(Serialize)]
struct TableOf {
    name: &'static str,
    title: &'static str,
    is_informational: bool,
    read_in_text: Option<InText>,
    write_in_text: Option<InText>,
    figures: Vec<FigureOf>,
}

/// The page's text about pure reads or writes.
#[derive(Serialize)]
struct InText {
    word: &'static str,
    value: u64,
    is_rounded: bool,
}

#[derive(Serialize)]
struct FigureOf {
    direction: &'static str,
    value: f64,
    is_exceeded: bool,
    unit: &'static str,
    block_bytes: Option<u64>,
    pattern: Option<envelope::Pattern>,
    read_percent: Option<f64>,
    measured: Option<f64>,
}

/// The requested page.
pub(super) fn of(asked: &PageRequest) -> Page {
    let page = asked.page;
    let parts = page.parts.iter().map(|part| part_of(part, asked));
    let is_shown = |conflict: &&Conflict| asked.table.is_none_or(|only| conflict.of.contains(&only.name()));
    Page {
        name: page.name,
        title: page.title,
        address: page.source.page,
        about: page.about,
        estimate: page.source.estimate(),
        parts: parts.filter(|part| asked.table.is_none() || !part.tables.is_empty()).collect(),
        contradictions: page.conflicts().filter(is_shown).collect(),
        scenarios: page.scenarios,
    }
}

fn part_of(part: &'static Part, asked: &PageRequest) -> PartOf {
    let setting = |&(name, value): &(&'static str, &'static str)| Setting { name, value };
    PartOf {
        title: part.title,
        stands_for: part.stands_for,
        setup: part.setup.iter().map(setting).collect(),
        tables: part.published().filter(|one| asked.shows(*one)).map(|one| table_of(one, asked)).collect(),
        notes: part.notes,
    }
}

fn table_of(published: Published, asked: &PageRequest) -> TableOf {
    let headline = published.headline();
    let in_text =
        |said: TextFigure| InText { word: said.word, value: said.value, is_rounded: said.is_rounded() };
    TableOf {
        name: published.name(),
        title: published.title(),
        is_informational: published.is_informational(),
        read_in_text: headline.and_then(|headline| headline.read).map(in_text),
        write_in_text: headline.and_then(|headline| headline.write).map(in_text),
        figures: published.figures().iter().map(|figure| figure_of(published, figure, asked)).collect(),
    }
}

fn figure_of(published: Published, figure: &Figure, asked: &PageRequest) -> FigureOf {
    FigureOf {
        direction: match figure.direction {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Total => "total",
        },
        value: figure.hundredths as f64 / 100.0,
        is_exceeded: figure.is_exceeded,
        unit: figure.unit.symbol(),
        block_bytes: figure.mix.map(|mix| mix.block.0),
        pattern: figure.mix.map(|mix| mix.pattern),
        read_percent: figure.mix.map(|mix| f64::from(mix.read_thousandths) / 10.0),
        measured: asked.run.as_ref().and_then(|run| measured(run, published, figure)),
    }
}
