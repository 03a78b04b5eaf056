//! `plimsoll bench compare`: is the second run better, worse, or the same?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::report::compare::{self, Comparison, Verdict};
use ::report::result::Run;
use anyhow::{anyhow, bail};
use bench::{Target, engine};
use clap::{Args, ValueEnum};

use super::measure::{HowArgs, measured, write};
use super::report;
use super::run::chosen;
use crate::exit::usage;
use crate::form::Form;
use crate::manage::Table;
use crate::manage::table::Cell;
use crate::terminal::{self, Tone, folded};

/// The arguments of `bench compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 nothing is worse, 1 something is, 2 not all rates can be compared, or one is no run.

Examples:
  plimsoll bench compare before.json after.json
  plimsoll bench compare nfs://10.0.0.7/a nfs://10.0.0.8/b --scenario gcnv-scale-out --preset quick")]
pub(crate) struct CompareArgs {
    /// Base of the comparison: the file of a run, or a target to measure now
    a: String,
    /// Subject of the comparison: another file, or another target
    b: String,
    /// Scenario to measure on both targets, in turn and on the first one twice: the difference of those two is chance
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Keep what was measured as PREFIX-a.json, PREFIX-b.json and PREFIX-aa.json
    #[arg(long, value_name = "PREFIX", requires = "scenario", hide_short_help = true)]
    keep: Option<String>,
    /// Changes up to this count as none, in percent
    #[arg(long, default_value = "3%", value_parser = percent)]
    tolerance: f64,
    /// Another run of what A measured: what it differs by from A is chance
    #[arg(long, value_name = "AA.json", conflicts_with = "scenario")]
    noise: Option<PathBuf>,
    /// Form of the output
    #[arg(long, value_enum, default_value = "table", conflicts_with = "json")]
    format: Format,
    #[command(flatten)]
    form: Form,
    #[command(flatten, next_help_heading = "With --scenario")]
    how: HowArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For terminals.
    Table,
    /// Markdown.
    Md,
}

/// A share, from percent with or without the sign.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let share = number.ok().filter(|percent| (0.0..100.0).contains(percent));
    share
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("\"{text}\" is not a tolerance; write 0% to 99%, like 3%"))
}

/// Compares. Whatever keeps it from doing so has the exit status of what cannot be compared.
pub(crate) fn run(arguments: &CompareArgs) -> ExitCode {
    match compared(arguments) {
        Ok(Verdict::Same | Verdict::Better) => ExitCode::SUCCESS,
        Ok(Verdict::Worse) => ExitCode::from(1),
        Ok(Verdict::NotComparable) => ExitCode::from(2),
        Err(wrong) => {
            terminal::fail(&format!("{wrong:#}"));
            ExitCode::from(2)
        }
    }
}

fn compared(arguments: &CompareArgs) -> anyhow::Result<Verdict> {
    arguments.form.check()?;
    let is_same = arguments.scenario.is_none() && is_same_file(&arguments.a, &arguments.b);
    let (a, b, noise) = match &arguments.scenario {
        Some(scenario) => both(arguments, scenario)?,
        None => {
            let noise = arguments.noise.as_deref().map(report::read).transpose()?;
            (read(&arguments.a)?, read(&arguments.b)?, noise)
        }
    };
    let mut found = compare::compare(&a, &b, noise.as_ref(), arguments.tolerance);
    if is_same {
        found.notes = vec!["A and B are the same file: nothing can differ".to_owned()];
        found.rows.clear();
        found.verdict = Verdict::Same;
    }
    arguments.form.show(&found, |found| {
        Ok(match arguments.format {
            Format::Table => table(found, arguments.form.columns()),
            Format::Md => found.markdown(),
        })
    })?;
    Ok(found.verdict)
}

/// Whether both have the same content.
fn is_same_file(a: &str, b: &str) -> bool {
    let content = |path: &str| fs::read(path).ok();
    a == b || content(a).is_some_and(|text| content(b) == Some(text))
}

fn read(path: &str) -> anyhow::Result<Run> {
    if path.parse::<Target>().is_ok() || Path::new(path).is_dir() {
        bail!("{path} is a target, not the file of a run: say with --scenario what to measure on it");
    }
    report::read(Path::new(path))
}

/// Measures both targets in turn, and the first one once more for the noise.
fn both(arguments: &CompareArgs, scenario: &str) -> anyhow::Result<(Run, Run, Option<Run>)> {
    let scenario = chosen(scenario, &[])?;
    for target in [&arguments.a, &arguments.b] {
        engine::check(target).map_err(usage)?;
    }
    let (a, b) = (arguments.a.as_str(), arguments.b.as_str());
    let runs = measured(&scenario, &[a, b, a], &arguments.how)?;
    let [a, b, noise]: [Run; 3] = runs.try_into().map_err(|_| anyhow!("not every target was measured"))?;
    if let Some(prefix) = &arguments.keep {
        for (run, which) in [(&a, "a"), (&b, "b"), (&noise, "aa")] {
            write(run, Path::new(&format!("{prefix}-{which}.json")))?;
        }
    }
    Ok((a, b, Some(noise)))
}

fn table(found: &Comparison, columns: Option<usize>) -> String {
    const HEADS: [&str; 8] =
        ["POINT", "FIGURE", ">A", ">B", ">B OVER A", ">95 %", ">NOISE FLOOR %", "VERDICT"];
    let mut table = Table::new(&HEADS).folding(&["POINT", "VERDICT"]).leaving_out(&["NOISE FLOOR %", "95 %"]);
    for (shown, row) in found.table().rows.into_iter().zip(&found.rows) {
        let tone = match row.verdict {
            Verdict::Same => Tone::Plain,
            Verdict::Better => Tone::Good,
            Verdict::Worse => Tone::Bad,
            Verdict::NotComparable => Tone::Warning,
        };
        let mut cells: Vec<Cell> = shown.cells.iter().map(|cell| Cell::from(cell.to_string())).collect();
        cells.insert(0, shown.label.into());
        table.row(
            cells.into_iter().enumerate().map(
                |(at, cell)| {
                    if HEADS[at] == "VERDICT" { cell.tone(tone) } else { cell }
                },
            ),
        );
    }
    let (first, last) = found.lines();
    let first: String = first.iter().map(|line| folded("", line, columns)).collect();
    format!("{first}\n{}\n{}", table.fit(columns), folded("", &last, columns))
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn tolerances() {
        assert_eq!((percent("3%"), percent("0.5"), percent("0 %")), (Ok(0.03), Ok(0.005), Ok(0.0)));
        for wrong in ["", "-1%", "100%", "x", "nan", "3%%"] {
            assert!(percent(wrong).unwrap_err().contains("like 3%"), "{wrong}");
        }
    }
}
