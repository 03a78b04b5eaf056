//! Runs steps: two that compute at a time, and one that mostly waits beside them. Each has its own log. A failed step
//! runs once more at the end.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::step::{Load, Outcome, Retry, Step};
use super::timeline::{Span, timeline};
use crate::part::{Part, Verdict};
use crate::process::{self, Process};

/// Lines of a failed step's log that the end repeats: often only the end of the output is preserved.
const LAST_LINES: usize = 12;
const CORES: usize = 2;
const FLAKY: &str = "FLAKY ";
const SKIPPED: &str = "skipped: ";
const POLL: Duration = Duration::from_millis(50);

pub(super) struct Report {
    /// Every attempt at a step, in the order in which they ended.
    pub(super) spans: Vec<Span>,
    pub(super) flaky: Vec<Flaky>,
    pub(super) length: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flaky {
    pub(super) name: String,
    pub(super) first_failure: String,
}

impl Flaky {
    fn parse(line: &str) -> Option<Self> {
        let (name, first_failure) = line.strip_prefix(FLAKY)?.split_once(": ")?;
        Some(Self { name: name.to_owned(), first_failure: first_failure.to_owned() })
    }
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FLAKY}{}: {}", self.name, self.first_failure)
    }
}

struct Running<'s> {
    step: &'s Step,
    process: Process,
    log: PathBuf,
    begun: Instant,
    /// The failures of the first attempt, if this is the second.
    first: Option<Vec<Flaky>>,
}

struct RetriedStep<'s> {
    step: &'s Step,
    argv: Vec<String>,
    failures: Vec<Flaky>,
}

struct Scheduler<'s> {
    begun: Instant,
    /// Every command runs under this one.
    under: &'s [&'s str],
    logs: &'s Path,
    waiting: Vec<&'s Step>,
    running: Vec<Running<'s>>,
    to_retry: Vec<RetriedStep<'s>>,
    spans: Vec<Span>,
    flaky: Vec<Flaky>,
    skipped: Vec<String>,
    failures: Vec<(&'static str, String)>,
}

/// Calls `ended` after each step.
pub(super) fn run(
    steps: &[Step],
    under: &[&str],
    logs: &Path,
    mut ended: impl FnMut(&Span) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    for step in steps {
        let absent = step.needs.iter().find(|needed| steps.iter().all(|other| other.name != **needed));
        ensure!(
            absent.is_none(),
            "{} needs {}, which is not among the steps",
            step.name,
            absent.unwrap_or(&"")
        );
    }
    process::empty_dir(logs)?;
    eprintln!("{} steps, {CORES} at a time; their logs are in {}", steps.len(), logs.display());
    let mut scheduler = Scheduler {
        begun: Instant::now(),
        under,
        logs,
        waiting: steps.iter().collect(),
        running: Vec::new(),
        to_retry: Vec::new(),
        spans: Vec::new(),
        flaky: Vec::new(),
        skipped: Vec::new(),
        failures: Vec::new(),
    };
    let mut printed = 0;
    while scheduler.is_busy() {
        scheduler.start_ready_steps();
        scheduler.collect();
        scheduler.spans[printed..].iter().try_for_each(&mut ended)?;
        printed = scheduler.spans.len();
        std::thread::sleep(POLL);
    }
    let report = Report { length: scheduler.begun.elapsed(), spans: scheduler.spans, flaky: scheduler.flaky };
    scheduler.skipped.iter().for_each(|line| println!("{line}"));
    report.print(&scheduler.failures);
    Ok(report)
}

impl Report {
    pub(super) fn failed(&self) -> usize {
        self.spans.iter().filter(|span| span.outcome.failed()).count()
    }

    pub(super) fn passed(&self) -> usize {
        self.spans.iter().filter(|span| span.outcome.passed()).count()
    }

    fn print(&self, failures: &[(&str, String)]) {
        println!("\n{}", timeline(&self.spans, self.length));
        for (name, log) in failures {
            println!("{name}:\n{}", last_lines(log));
        }
        self.flaky.iter().for_each(|flaky| println!("{flaky}"));
        println!("{} passed, {} failed, {} flaky", self.passed(), self.failed(), self.flaky.len());
    }
}

impl<'s> Scheduler<'s> {
    fn is_busy(&self) -> bool {
        !(self.waiting.is_empty() && self.running.is_empty() && self.to_retry.is_empty())
    }

    fn start_ready_steps(&mut self) {
        while let Some(step) = self.next() {
            self.start(step, step.argv.clone(), None);
        }
        // Nothing else can run: a failed step gets the machine for itself.
        if self.running.is_empty() && !self.to_retry.is_empty() {
            let RetriedStep { step, argv, failures } = self.to_retry.remove(0);
            self.start(step, argv, Some(failures));
        }
    }

    /// Steps that need the whole machine come when nothing else can run.
    fn next(&mut self) -> Option<&'s Step> {
        self.drop_impossible();
        let count = |load: Load| self.running.iter().filter(|running| running.step.load == load).count();
        // A repeated step runs alone too: a busy machine may have caused its failure.
        if count(Load::Machine) > 0 || self.running.iter().any(|running| running.first.is_some()) {
            return None;
        }
        let passed = |name: &&str| self.spans.iter().any(|span| span.name == *name && span.outcome.passed());
        let ready = |step: &Step| step.needs.iter().all(passed);
        let first = |load: Load| self.waiting.iter().position(|step| step.load == load && ready(step));
        let core = if count(Load::Core) < CORES { first(Load::Core) } else { None };
        let little = if count(Load::Little) == 0 { first(Load::Little) } else { None };
        let machine = || if self.running.is_empty() { first(Load::Machine) } else { None };
        core.or(little).or_else(machine).map(|index| self.waiting.remove(index))
    }

    fn drop_impossible(&mut self) {
        // A dropped step counts as failed, so the steps that need it drop next.
        while let Some((index, needed)) = self.impossible() {
            let name = self.waiting.remove(index).name;
            self.finish(name, Instant::now(), Outcome::NotRun(needed), Vec::new());
        }
    }

    fn impossible(&self) -> Option<(usize, &'static str)> {
        let failed =
            |name: &&&str| self.spans.iter().any(|span| span.name == **name && span.outcome.failed());
        let mut waiting = self.waiting.iter().enumerate();
        waiting.find_map(|(index, step)| step.needs.iter().find(failed).map(|needed| (index, *needed)))
    }

    fn start(&mut self, step: &'s Step, argv: Vec<String>, first: Option<Vec<Flaky>>) {
        let attempt = if first.is_some() { ".again" } else { "" };
        let (begun, log) = (Instant::now(), self.logs.join(format!("{}{attempt}.log", step.file_stem())));
        eprintln!("=== {}: begins: {}", step.name, argv.join(" "));
        let argv: Vec<String> = self.under.iter().map(ToString::to_string).chain(argv).collect();
        let started = process::append_to(&log)
            .and_then(|file| Process::start(&argv, file.try_clone()?.into(), file.into()));
        match started {
            Ok(process) => self.running.push(Running { step, process, log, begun, first }),
            Err(why) => self.finish(step.name, begun, Outcome::Failed(format!("{why:#}")), Vec::new()),
        }
    }

    fn collect(&mut self) {
        let mut index = 0;
        while index < self.running.len() {
            let Some(outcome) = self.running[index].ended() else {
                index += 1;
                continue;
            };
            let running = self.running.remove(index);
            let log = std::fs::read(&running.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log).into_owned();
            self.judge(running, outcome, log);
        }
    }

    fn judge(&mut self, running: Running<'s>, outcome: Outcome, log: String) {
        let Running { step, begun, first, .. } = running;
        let parts = Part::all_in(&log);
        self.flaky.extend(log.lines().filter_map(Flaky::parse));
        self.skipped.extend(log.lines().filter(|line| line.starts_with(SKIPPED)).map(String::from));
        let outcome = match (outcome, first) {
            (Outcome::Passed, Some(failures)) => {
                self.flaky.extend(failures);
                Outcome::Flaky
            }
            (Outcome::Failed(why), None) if step.retry == Retry::Once && !fails_for_good(&parts) => {
                let failures = failures(step, &parts, &log);
                self.to_retry.push(RetriedStep { step, argv: argv_again(step, &parts), failures });
                Outcome::RunsAgain(why)
            }
            (outcome, _) => outcome,
        };
        if !matches!(outcome, Outcome::Passed | Outcome::Flaky) {
            let name = step.name;
            eprintln!("--- the log of {name} ---\n{log}--- the end of the log of {name} ---");
        }
        if outcome.failed() {
            self.failures.push((step.name, log));
        }
        self.finish(step.name, begun, outcome, parts);
    }

    fn finish(&mut self, name: &'static str, begun: Instant, outcome: Outcome, parts: Vec<Part>) {
        eprintln!("=== {name}: {outcome} after {:.0} s", begun.elapsed().as_secs_f64());
        self.spans.push(Span { name, start: begun - self.begun, length: begun.elapsed(), outcome, parts });
    }
}

fn fails_for_good(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part.verdict, Verdict::FailedForGood(_)))
}

/// The command of a second attempt: for the failed parts only, where the step names them.
fn argv_again(step: &Step, parts: &[Part]) -> Vec<String> {
    let failed = parts.iter().filter(|part| part.verdict != Verdict::Ok);
    let failed: Vec<&str> = failed.map(|part| part.name.as_str()).collect();
    let mut argv = step.argv.clone();
    if !failed.is_empty() {
        argv.extend(["--only".to_owned(), failed.join(",")]);
    }
    argv
}

/// The failures of a first attempt, named by the parts if there are any.
fn failures(step: &Step, parts: &[Part], log: &str) -> Vec<Flaky> {
    let of_part = |part: &Part| match &part.verdict {
        Verdict::Ok => None,
        Verdict::Failed(why) | Verdict::FailedForGood(why) => {
            Some(Flaky { name: part.name.clone(), first_failure: why.clone() })
        }
    };
    let failures: Vec<Flaky> = parts.iter().filter_map(of_part).collect();
    if failures.is_empty() {
        return vec![Flaky { name: step.name.to_owned(), first_failure: first_failure(log) }];
    }
    failures
}

fn explains_failure(line: &str) -> bool {
    ["FAIL", "panicked", "error: ", "has failed", "seed"].iter().any(|word| line.contains(word))
}

/// Falls back to the last line.
fn first_failure(log: &str) -> String {
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().find(|line| explains_failure(line) && !line.contains("seed"));
    first.or_else(|| lines.next_back()).unwrap_or("it printed nothing").to_owned()
}

/// Includes the log's last line.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let (mut why, last): (Vec<&&str>, _) =
        (lines.iter().filter(|line| explains_failure(line)).collect(), lines.last());
    why.extend(last.filter(|last| why.last() != Some(last)));
    let shown = &why[why.len().saturating_sub(LAST_LINES)..];
    shown.iter().map(|line| format!("  {line}\n")).collect()
}

impl Running<'_> {
    /// Kills a step that takes too long.
    fn ended(&mut self) -> Option<Outcome> {
        match self.process.try_wait().context("cannot wait for the step") {
            Ok(Some(status)) if status.success() => Some(Outcome::Passed),
            Ok(Some(status)) => Some(Outcome::Failed(status.to_string())),
            Err(why) => Some(Outcome::Failed(format!("{why:#}"))),
            Ok(None) if self.begun.elapsed() < Duration::from_secs(self.step.minutes_max * 60) => None,
            Ok(None) => {
                self.process.end();
                Some(Outcome::Failed(format!("killed after {} minutes", self.step.minutes_max)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scripts get a directory as `$0`. Returns the files that they leave in it, and the number of
    /// failures.
    fn ran(
        name: &str,
        steps: &[(&'static str, &'static [&'static str], Load, &str)],
    ) -> (Vec<String>, usize) {
        let directory = std::env::temp_dir().join(format!("xtask-scheduler-{name}-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let text = directory.to_str().unwrap();
        let step = |&(name, needs, load, script): &(&'static str, &'static [&'static str], Load, &str)| {
            let argv = ["sh", "-c", script, text].map(String::from).into();
            Step::new(name, argv, 1).after(needs).takes(load).never_again()
        };
        let steps: Vec<Step> = steps.iter().map(step).collect();
        let failed = run(&steps, &["env"], &directory.join("logs"), |_| Ok(())).unwrap().failed();
        let listed = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<String> = listed.filter(|name| name != "logs").collect();
        files.sort();
        std::fs::remove_dir_all(&directory).unwrap();
        (files, failed)
    }

    #[test]
    fn last_lines_name_failures_and_seeds() {
        let log = "test one ... ok\ntest two ... FAILED\nthread 'two' panicked at two.rs:1:1:\n\nerror: test failed\n\n";
        let output = "  test two ... FAILED\n  thread 'two' panicked at two.rs:1:1:\n  error: test failed\n";
        assert_eq!(last_lines(log), output);
        assert_eq!(first_failure(log), "test two ... FAILED");
        assert_eq!(first_failure("seed 7\nerror: no\nend\n"), "error: no");
        assert_eq!(first_failure("a\nb\n\n"), "b");
        assert_eq!(last_lines("ran with --seed 7\nthe end\n"), "  ran with --seed 7\n  the end\n");
        assert_eq!(last_lines(""), "");
        assert_eq!(last_lines(&"error: again\n".repeat(20)).lines().count(), LAST_LINES);
    }

    #[test]
    fn a_failed_step_stops_only_its_dependents() {
        let (left, failed) = ran(
            "needs",
            &[
                // It is listed before the step that it needs.
                ("three", &["two"], Load::Core, "touch $0/three"),
                ("one", &[], Load::Core, "touch $0/one"),
                ("two", &["one"], Load::Machine, "touch $0/two; exit 3"),
                ("four", &["one"], Load::Core, "touch $0/four"),
                ("five", &["three"], Load::Core, "touch $0/five"),
            ],
        );
        assert_eq!(left, ["four", "one", "two"]);
        assert_eq!(failed, 3);
    }

    #[test]
    fn step_that_needs_an_absent_one_is_refused_before_any_runs() {
        let steps = [Step::new("one", vec!["true".to_owned()], 1).after(&["two"])];
        let logs = std::env::temp_dir().join(format!("xtask-scheduler-absent-{}", std::process::id()));
        let refused = run(&steps, &["env"], &logs, |_| Ok(())).err().unwrap().to_string();
        assert_eq!(refused, "one needs two, which is not among the steps");
        assert!(!logs.exists());
    }

    #[test]
    fn steps_share_the_machine_by_their_load() {
        // The first three wait for each other; a step that runs alone sees no other.
        let meets = |own: &str, others: [&str; 2]| {
            let [one, other] = others;
            format!(
                "touch $0/{own}; for i in $(seq 100); do [ -e $0/{one} ] && [ -e $0/{other} ] && exit; sleep 0.1; done; exit 1"
            )
        };
        let (one, two, small) =
            (meets("one", ["two", "small"]), meets("two", ["one", "small"]), meets("small", ["one", "two"]));
        let next = "[ -e $0/other ] && exit 1; touch $0/third; sleep 0.3; rm $0/third";
        let alone = "[ -e $0/two ] && [ ! -e $0/third ] && [ ! -e $0/other ] && touch $0/other && sleep 0.2 && rm $0/other";
        let (left, failed) = ran(
            "lanes",
            &[
                ("first alone", &[], Load::Machine, alone),
                ("second alone", &[], Load::Machine, alone),
                ("small", &[], Load::Little, &small),
                ("one", &[], Load::Core, &one),
                ("two", &[], Load::Core, &two),
                ("third", &[], Load::Core, next),
            ],
        );
        assert_eq!(failed, 0);
        assert_eq!(left, ["one", "small", "two"]);
    }
}
