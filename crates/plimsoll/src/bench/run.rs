//! `plimsoll bench run` and `plimsoll bench list`: scenarios.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use api_client::model::Page;
use bench::{Target, engine};
use clap::Args;
use envelope::Published;
use report::document::cases as cases_of;
use report::result::{Outcome, Run};
use report::scenario::limits::CLIENTS_MAX;
use report::scenario::{self, Compared, Pair, Protocol, Scenario, Series};
use serde::Serialize;

use super::measure::{Case, HowArgs, has_result, measured, measured_cases, write};
use super::{screen, summary};
use crate::exit::usage;
use crate::form::{Form, json};
use crate::manage::{Table, names};
use crate::number::whole;
use crate::output;
use crate::terminal::{self, printable_lines};
use crate::toml_file;

/// The arguments of `bench run`.
#[derive(Debug, Args)]
#[command(after_help = EXIT, after_long_help = "\
Exit status: 0 measured, and every point meets the targets of the scenario, if it has any; 1 no result, or ended early;
2 the command line is wrong; 3 a point misses a target; 4 a target is missed, and the load generator was too slow to decide.

Examples:
  plimsoll bench run gcnv-scale-out --target nfs://10.0.0.7/projects --preset quick
  plimsoll bench run anf-regular --target nfs://10.0.0.7/projects --series '4 KiB random' --clients 6,32
  plimsoll bench run gcnv-scale-out --target nfs://10.0.0.7,10.0.0.8/projects
  plimsoll bench run gcnv-scale-out --protocol smb --target smb://alice@10.0.0.7/projects --password-file alice.secret
  plimsoll bench run client-tuning --case baseline=/mnt/a --case nconnect=/mnt/b --preset quick
  plimsoll bench run ./mine.toml --target nfs://10.0.0.7/projects --output mine.json")]
pub(crate) struct RunArgs {
    /// Scenario of `plimsoll bench list`, or a TOML file
    #[arg(add = names::scenarios())]
    scenario: String,
    /// Target: HOST:/EXPORT, nfs://…, smb://USER@HOST/SHARE or a directory
    ///
    /// HOST:/EXPORT, nfs://HOST[:PORT]/EXPORT[?version=3|4.1|4.2],
    /// smb://USER@HOST[:PORT]/SHARE[/DIR][?sign=HOW|?seal=HOW][&channels=N], or a directory of a mounted file system, which
    /// the installed fio measures. Repeat it for a volume at several addresses: the clients use them in turn.
    #[arg(long, required_unless_present = "case", conflicts_with = "case")]
    target: Vec<String>,
    /// Mount to compare with others; repeatable
    ///
    /// The scenario is measured over each mount in turn.
    #[arg(long, value_name = "NAME=DIR", value_parser = parse_case, conflicts_with = "agents")]
    case: Vec<Case>,
    /// File for the result [default: SCENARIO-SECONDS.json]
    ///
    /// JSON. The default name has the seconds since 1970 and is in the current directory. A file of that name is kept: it
    /// becomes FILE.1.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Only series with this in their names; repeatable
    #[arg(long, value_name = "NAME")]
    series: Vec<String>,
    /// Numbers of clients, like 6,32 [default: the scenario's]
    ///
    /// The report has several numbers side by side.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = whole::<usize>(1..=CLIENTS_MAX))]
    clients: Vec<usize>,
    /// Protocols: nfsv3, nfsv4.1, smb [default: the target's]
    ///
    /// Separated by commas. The report has several protocols side by side.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    protocol: Vec<Protocol>,
    #[command(flatten)]
    how: HowArgs,
}

const EXIT: &str =
    "Exit status: 0 done; 1 no result, or ended early; 2 wrong command line; 3 a point misses a target of the scenario;
4 a target is missed, and the load generator was too slow to decide.";

/// A scenario, in a list.
#[derive(Serialize)]
struct Listed {
    name: String,
    title: String,
    points: usize,
    is_load_curve: bool,
    on_request: Vec<String>,
}

/// Shows the scenarios that come with the program.
pub(super) fn list(form: &Form) -> anyhow::Result<ExitCode> {
    let listed = |scenario: Scenario| {
        let (on_request, asked): (Vec<&Series>, Vec<&Series>) =
            scenario.series.iter().partition(|series| series.on_request);
        Listed {
            points: asked.iter().map(|series| series.points().len()).sum(),
            is_load_curve: scenario.series.iter().any(Series::is_curve),
            on_request: on_request.iter().map(|series| series.name.clone()).collect(),
            name: scenario.name.clone(),
            title: scenario.title.clone(),
        }
    };
    let items = scenario::all().into_iter().map(listed).collect();
    form.show(&Page { items, next_page_token: None }, |page| {
        let mut table = Table::new(&["NAME", ">POINTS", "WHAT IT MEASURES"]).folding(&["WHAT IT MEASURES"]);
        for listed in &page.items {
            let points = if listed.is_load_curve { "a curve".to_owned() } else { listed.points.to_string() };
            table.row([listed.name.clone(), points, listed.title.clone()]);
            for series in &listed.on_request {
                table.row([String::new(), String::new(), format!("on request: --series \"{series}\"")]);
            }
        }
        Ok(table.fit(form.columns()))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a scenario; without a result in any point, or ended before all were measured, it ends with a failure.
pub(super) fn run(arguments: RunArgs) -> anyhow::Result<ExitCode> {
    let mut scenario = chosen(&arguments.scenario, &arguments.series)?;
    let is_share = |target: &String| target.starts_with("smb://");
    let protocols = match arguments.protocol.as_slice() {
        [] if arguments.target.iter().any(is_share) => &[Protocol::Smb],
        given => given,
    };
    vary(&mut scenario, &arguments.clients, protocols)?;
    arguments.output.as_deref().map_or(Ok(()), output::check)?;
    if !arguments.case.is_empty() {
        return run_cases(&scenario, &arguments);
    }
    let target = joined(&arguments.target)?;
    let runs = measured(&scenario, &[target.as_str()], &arguments.how)?;
    for run in &runs {
        let path = arguments.output.clone().unwrap_or_else(|| default_name(run));
        write(run, &path)?;
        if arguments.json {
            terminal::print(&json(run)?)?;
        } else {
            terminal::print(&printable_lines(&summary::of(run, &path, terminal::columns())))?;
        }
    }
    Ok(status(&runs))
}

/// Runs a scenario over mounts that are compared: a result for each, and what they carry side by side.
fn run_cases(scenario: &Scenario, arguments: &RunArgs) -> anyhow::Result<ExitCode> {
    let (cases, mut seen) = (&arguments.case, Vec::new());
    for case in cases {
        let directory = fs::canonicalize(&case.directory);
        let directory = directory.with_context(|| format!("cannot look at {}", case.directory.display()))?;
        if seen.iter().any(|(name, other)| *name == &case.name || *other == directory) {
            return Err(usage(format!(
                "the case {} is there twice, by its name or its directory",
                case.name
            )));
        }
        seen.push((&case.name, directory));
    }
    let runs = measured_cases(scenario, cases, &arguments.how)?;
    let mut paths = Vec::new();
    for (run, case) in runs.iter().zip(cases) {
        let path = arguments.output.clone().unwrap_or_else(|| default_name(&runs[0]));
        let path = path.with_extension(format!("{}.json", case.name));
        write(run, &path)?;
        paths.push(path.display().to_string());
    }
    if arguments.json {
        runs.iter().try_for_each(|run| terminal::print(&json(run)?))?;
    } else {
        let columns = terminal::columns();
        let tables = cases_of(&runs).map_or_else(String::new, |report| screen::of(&[report], columns));
        let results: String = paths.iter().map(|path| format!("Result: {path}\n")).collect();
        let all = paths.join(" ");
        let text = format!(
            "{tables}\n{results}A page with plots: plimsoll bench report {all} --format html --output cases.html\n"
        );
        terminal::print(&printable_lines(&text))?;
    }
    Ok(status(&runs))
}

/// Exit status of a run whose points miss their targets.
const MISSED: u8 = 3;
/// Exit status of a run whose missed targets may be those of the load generator.
const UNDECIDED: u8 = 4;

fn status(runs: &[Run]) -> ExitCode {
    let is_whole = |run: &Run| has_result(run) && run.ended_early.is_none();
    let ends =
        |outcome| runs.iter().any(|run| run.verdict.as_ref().is_some_and(|one| one.outcome() == outcome));
    match runs.iter().all(is_whole) {
        false => ExitCode::FAILURE,
        true if ends(Outcome::Missed) => ExitCode::from(MISSED),
        true if ends(Outcome::Undecided) => ExitCode::from(UNDECIDED),
        true => ExitCode::SUCCESS,
    }
}

/// `NAME=DIR`.
fn parse_case(text: &str) -> Result<Case, String> {
    let is_name = |name: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'+');
        !name.is_empty() && name.bytes().all(is_plain)
    };
    match text.split_once('=') {
        Some((name, directory)) if is_name(name) && !directory.is_empty() => {
            Ok(Case { name: name.to_owned(), directory: directory.into() })
        }
        _ => Err("allowed: NAME=DIRECTORY, the name of letters, digits, -, _ and +, like nconnect=/mnt/b"
            .to_owned()),
    }
}

/// Several addresses of an export as one target.
fn joined(targets: &[String]) -> anyhow::Result<String> {
    if let [one] = targets {
        engine::check(one).map_err(usage)?;
        return Ok(one.clone());
    }
    let each = targets.iter().map(|text| text.parse().map_err(anyhow::Error::msg));
    let each: Result<Vec<Target>, _> = each.collect();
    let each = each.map_err(|wrong| usage(format!("of several targets each is one address: {wrong}")))?;
    Ok(Target::joined(&each).map_err(|wrong| usage(wrong.to_string()))?.to_string())
}

/// A scenario by its name or from a file, and of it only the wanted series.
pub(super) fn chosen(name: &str, series: &[String]) -> anyhow::Result<Scenario> {
    let mut scenario = match scenario::by_name(name) {
        Some(scenario) => scenario,
        None if name.contains('/') || name.ends_with(".toml") => {
            let text = fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
            let read: Scenario = toml_file::parse(&text, Path::new(name)).map_err(usage)?;
            read.check().map_err(|wrong| usage(format!("{name}: {wrong}")))?;
            read
        }
        None => {
            let names: Vec<_> = scenario::all().into_iter().map(|scenario| scenario.name).collect();
            let names = names.join(", ");
            return Err(usage(format!(
                "no scenario is called \"{name}\"; allowed: {names}, or a file that ends with .toml"
            )));
        }
    };
    if !series.is_empty() {
        let all: Vec<_> = scenario.series.iter().map(|one| one.name.to_lowercase()).collect();
        for part in series.iter().map(|part| part.to_lowercase()) {
            if !all.iter().any(|name| name.contains(&part)) {
                let names: Vec<_> = scenario.series.iter().map(|one| format!("\"{}\"", one.name)).collect();
                let names = names.join(", ");
                return Err(usage(format!(
                    "no series has \"{part}\" in its name; allowed (for several, repeat --series): {names}"
                )));
            }
        }
        // A whole name is that series alone, even where it is a part of others.
        let is = |name: &str, part: &str| {
            let is_whole = all.iter().any(|other| other == part);
            if is_whole { name == part } else { name.contains(part) }
        };
        scenario.keep(|one| series.iter().any(|part| is(&one.name.to_lowercase(), &part.to_lowercase())));
    } else if scenario.series.iter().any(|one| !one.on_request) {
        scenario.keep(|one| !one.on_request);
    }
    Ok(scenario)
}

/// Puts other clients and protocols in the place of the scenario's, side by side where there are several.
fn vary(scenario: &mut Scenario, clients: &[usize], protocols: &[Protocol]) -> anyhow::Result<()> {
    for series in &mut scenario.series {
        if !clients.is_empty() {
            series.clients = clients.to_vec();
        }
        if !protocols.is_empty() {
            series.protocols = protocols.to_vec();
        }
        if protocols == [Protocol::Smb] {
            series.published = over_smb(&series.published);
        }
    }
    let compared = [(Compared::Clients, clients.len()), (Compared::Protocol, protocols.len())];
    let compares: Vec<Compared> =
        compared.into_iter().filter(|(_, count)| *count > 1).map(|(compared, _)| compared).collect();
    if !compares.is_empty() {
        let pair = |series: &Series| Pair {
            name: format!("{}, side by side", series.name),
            compares: compares.clone(),
            series: vec![series.name.clone()],
            claims: Vec::new(),
            note: String::new(),
        };
        let pairs: Vec<Pair> = scenario.series.iter().map(pair).collect();
        scenario.pairs.extend(pairs);
    }
    scenario.check().map_err(|wrong| usage(format!("{}: {wrong}", scenario.name)))
}

/// The figures of the same pages for the same loads over SMB.
fn over_smb(published: &[String]) -> Vec<String> {
    let twin = |name: &String| {
        let twin = name.replace("-nfs3-", "-smb-");
        (twin.contains("-smb-") && twin.parse::<Published>().is_ok()).then_some(twin)
    };
    published.iter().filter_map(twin).collect()
}

fn default_name(run: &Run) -> PathBuf {
    format!("{}-{:.0}.json", run.scenario.name, run.started).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::result::{Caveat, CaveatKind};

    fn names(scenario: &str, series: &[&str]) -> Vec<String> {
        let series: Vec<String> = series.iter().map(|name| (*name).to_owned()).collect();
        chosen(scenario, &series).unwrap().series.into_iter().map(|series| series.name).collect()
    }

    #[test]
    fn series_are_chosen_by_whole_names_or_parts() {
        assert_eq!(names("anf-regular", &["4 KiB random, uncached"]), ["4 KiB random, uncached"]);
        assert_eq!(names("anf-regular", &["8 kib", "256 KiB"]).len(), 2);
        assert_eq!(names("gcnv-scale-out", &["flex"]), ["Flex: 64 KiB sequential", "Flex: 8 KiB random"]);
        assert_eq!(
            names("gcnv-scale-out", &["8 KiB random"]),
            ["8 KiB random"],
            "a whole name is that one alone"
        );
        let wrong = chosen("anf-regular", &["4 KiB,8 KiB".to_owned()]).unwrap_err().to_string();
        assert!(wrong.contains("\"4 kib,8 kib\"") && wrong.contains("repeat --series"), "{wrong}");
    }

    #[test]
    fn status_tells_a_missed_target_from_one_that_is_not_decided() {
        let mut run = report::document::sample::depths();
        let ends = |run: &mut Run, iops: f64| {
            let targets = report::scenario::Targets { iops: Some(iops), ..Default::default() };
            run.scenario.series[0].targets = Some(targets);
            run.verdict = report::result::Verdict::of(run);
            status(std::slice::from_ref(run))
        };
        assert_eq!(ends(&mut run, 1.0), ExitCode::SUCCESS);
        assert_eq!(ends(&mut run, 1e9), ExitCode::from(3));
        for one in run.cells.iter_mut().flat_map(|cell| &mut cell.measurements) {
            let late = "3.0 % of the operations were sent late";
            one.caveats.push(Caveat::new(CaveatKind::ClientLimited, late));
        }
        assert_eq!(ends(&mut run, 1e9), ExitCode::from(4));
        run.ended_early = Some("stopped before the end".to_owned());
        assert_eq!(ends(&mut run, 1e9), ExitCode::FAILURE);
    }

    #[test]
    fn optional_series_run_only_on_request() {
        assert_eq!(names("eda-blend", &[]), ["EDA blend"]);
        let cases = chosen("eda-blend", &["cases".to_owned()]).unwrap();
        assert_eq!((cases.series.len(), cases.pairs.len()), (1, 1), "with its pair and no other");
        assert_eq!(cases.series[0].points().len(), 4);
    }

    #[test]
    fn other_clients_and_protocols_are_set_side_by_side() {
        let varied = |clients: &[usize], protocols: &[Protocol]| {
            let mut scenario = chosen("anf-regular", &["8 KiB random, uncached".to_owned()])?;
            vary(&mut scenario, clients, protocols).map(|()| scenario)
        };
        let alone = varied(&[32], &[]).unwrap();
        assert_eq!((alone.series[0].clients.as_slice(), alone.pairs.len()), (&[32][..], 0));
        let both = varied(&[6, 32], &[Protocol::NfsV3, Protocol::NfsV41]).unwrap();
        assert_eq!(both.pairs[0].compares, [Compared::Clients, Compared::Protocol]);
        assert_eq!(both.series[0].points().len(), 5 * 2 * 2);
        let smb = varied(&[], &[Protocol::Smb]).unwrap();
        assert!(smb.series[0].published.is_empty(), "the page has figures of NFS");
        let mut scenario = chosen("gcnv-scale-out", &[]).unwrap();
        vary(&mut scenario, &[], &[Protocol::Smb]).unwrap();
        let published: Vec<_> = scenario.series.iter().flat_map(|series| &series.published).collect();
        assert_eq!(published[..2], ["gcnv-extreme-smb-64k-seq", "gcnv-extreme-smb-256k-seq"]);
        assert_eq!(published.len(), 4, "Flex has no figures over SMB");
        let wrong = varied(&[0], &[]).unwrap_err().to_string();
        assert!(wrong.contains("clients has 0; allowed are 1 to 1024"), "{wrong}");
    }
}
