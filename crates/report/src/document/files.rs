//! The plots of reports as pictures, and the data of every table and plot, each in a file.

use super::content::Report;
use super::csv;
use super::plot::{Bars, Chart, Heatmap, Lines, Plot, Spot};
use super::table::{Table, Value};

/// A file in the directory of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub text: String,
}

/// A file name may have at most 255 bytes, with the name of the run before it.
const NAME_MAX: usize = 80;

pub fn svg_files(reports: &[Report]) -> Vec<File> {
    let mut names = Names::default();
    let plots = reports.iter().flat_map(|report| plots(report, reports.len() > 1));
    plots.map(|(name, plot)| File { name: names.unique(&name, "svg"), text: plot.picture() }).collect()
}

/// `points.csv` has a row for each point of all runs. Every table and plot has a file besides.
pub fn csv_files(reports: &[Report]) -> Vec<File> {
    let mut names = Names::default();
    let measured: Vec<Report> =
        reports.iter().filter(|report| !report.cells.head.is_empty()).cloned().collect();
    let mut files = vec![File { name: names.unique("points", "csv"), text: csv::csv(&measured) }];
    for report in reports {
        let several = reports.len() > 1;
        let mut add = |name: String, table: &Table| {
            files.push(File { name: names.unique(&name, "csv"), text: csv::table(table) });
        };
        for section in &report.sections {
            for table in section.tables.iter().chain(&section.details) {
                add(joined(report, several, &[&section.title, "table", &table.title]), table);
            }
        }
        report.details.iter().for_each(|table| add(joined(report, several, &[&table.title]), table));
        plots(report, several).into_iter().for_each(|(name, plot)| add(name, &data(plot)));
    }
    files
}

/// Every plot once, with a name. The first screen repeats a plot of a series.
fn plots(report: &Report, several: bool) -> Vec<(String, &Plot)> {
    let own = report.plots.iter().map(|plot| (joined(report, several, &[&plot.title]), plot));
    let of_sections = report.sections.iter().flat_map(|section| {
        let plots = section.plots.iter().chain(&section.detail_plots);
        plots.map(move |plot| (joined(report, several, &[&section.title, &plot.title]), plot))
    });
    own.chain(of_sections).collect()
}

fn joined(report: &Report, several: bool, parts: &[&str]) -> String {
    let run = several.then_some(report.name.as_str());
    let parts: Vec<&str> =
        run.into_iter().chain(parts.iter().copied()).filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// File names that are unique in one directory.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn unique(&mut self, text: &str, extension: &str) -> String {
        let slug = slug(text);
        let numbered = |number: usize| match number {
            1 => format!("{slug}.{extension}"),
            _ => format!("{slug}-{number}.{extension}"),
        };
        let name = (1..).map(numbered).find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.push(name.clone());
        name
    }
}

/// Lowercase letters and digits, with `-` between words: names come from files and servers.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for letter in text.chars().take(NAME_MAX) {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "plot".to_owned() } else { slug.to_owned() }
}

fn data(plot: &Plot) -> Table {
    match &plot.chart {
        Chart::Bars(bars) => of_bars(bars),
        Chart::Lines(lines) => of_lines(lines),
        Chart::Heatmap(map) => of_map(map),
    }
}

fn of_bars(bars: &Bars) -> Table {
    let mut table = Table::new("", &["group", "bar", "published", &bars.unit]);
    for (group, name) in bars.groups.iter().enumerate() {
        for stack in &bars.stacks {
            let is_published = if stack.published { "yes" } else { "no" };
            for part in &stack.parts {
                let value = part.values.get(group).copied().flatten().map_or(Value::Nothing, exact);
                table.row(name.as_str(), vec![part.name.as_str().into(), is_published.into(), value]);
            }
        }
        for ceiling in &bars.ceilings {
            let value = ceiling.values.get(group).copied().flatten().map_or(Value::Nothing, exact);
            table.row(name.as_str(), vec![ceiling.name.as_str().into(), "no".into(), value]);
        }
    }
    table
}

fn of_lines(lines: &Lines) -> Table {
    let mut table = Table::new("", &["line", &lines.x.label, &lines.y.label]);
    for line in &lines.lines {
        for (x, y) in &line.points {
            table.row(line.name.as_str(), vec![exact(*x), exact(*y)]);
        }
    }
    for mark in &lines.marks {
        table.row(mark.name.as_str(), vec![exact(mark.at.0), exact(mark.at.1)]);
    }
    for (y, name) in &lines.levels {
        table.row(name.as_str(), vec![Value::Nothing, exact(*y)]);
    }
    for (x, name) in &lines.uprights {
        table.row(name.as_str(), vec![exact(*x), Value::Nothing]);
    }
    table
}

fn of_map(map: &Heatmap) -> Table {
    let mut table = Table::new("", &[""]);
    table.head.extend(map.columns.iter().cloned());
    for (name, spots) in &map.rows {
        let value = |spot: &Spot| match spot {
            Spot::Value(value) => exact(*value),
            Spot::NoResult => "void".into(),
            Spot::NotMeasured => Value::Nothing,
        };
        table.row(name.as_str(), spots.iter().map(value).collect());
    }
    table
}

fn exact(value: f64) -> Value {
    Value::Number(value, 4)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn every_plot_and_table_has_a_file_of_its_own() {
        for run in [sample::gcnv(), sample::connections(), sample::depths(), sample::eda()] {
            let report = Report::of(&run);
            let plots = report.plots.len()
                + report
                    .sections
                    .iter()
                    .map(|section| section.plots.len() + section.detail_plots.len())
                    .sum::<usize>();
            let tables = report.details.len()
                + report
                    .sections
                    .iter()
                    .map(|section| section.tables.len() + section.details.len())
                    .sum::<usize>();
            let (pictures, data) =
                (svg_files(std::slice::from_ref(&report)), csv_files(std::slice::from_ref(&report)));
            assert_eq!((pictures.len(), data.len()), (plots, 1 + tables + plots));
            for files in [&pictures, &data] {
                let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), files.len());
                assert!(names.iter().all(|name| !name.contains(['/', ' '])), "{names:?}");
            }
            for file in &data {
                let columns = |line: &str| line.matches(',').count();
                let has_text = file.text.contains('"');
                let head = file.text.lines().next().map(columns);
                assert!(has_text || file.text.lines().all(|line| Some(columns(line)) == head), "{file:?}");
            }
        }
    }

    #[test]
    fn data_of_bars_has_the_limit_of_each_group() {
        let report = Report::of(&sample::gcnv());
        let files = csv_files(std::slice::from_ref(&report));
        let rates = files.iter().find(|file| file.name == "64-kib-sequential-rates-by-mix.csv").unwrap();
        assert_eq!(rates.text.lines().next(), Some("group,bar,published,MiB/s"));
        assert_eq!(rates.text.matches("100/0,").count(), 4 + usize::from(rates.text.contains("limit ")));
    }
}
