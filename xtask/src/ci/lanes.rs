//! Runs steps two at a time, and beside them one that mostly waits, each with a log of its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::step::{Load, Outcome, Step};
use super::timeline::{Span, timeline};
use crate::process::{self, Process};

/// Lines of the log of a step that has failed which are told again at the end: often that is all of the output that is kept.
const LAST_LINES: usize = 12;
/// Steps that may run at a time, without one that takes little.
const LANES: usize = 2;
const POLL: Duration = Duration::from_millis(50);

/// A step that runs.
struct Running<'s> {
    step: &'s Step,
    process: Process,
    log: PathBuf,
    begun: Instant,
}

/// The steps on their way.
struct Lanes<'s> {
    begun: Instant,
    /// What every command is run by.
    under: &'s [&'s str],
    logs: &'s Path,
    waiting: Vec<&'s Step>,
    running: Vec<Running<'s>>,
    done: Vec<Span>,
    /// The logs of those that failed.
    failures: Vec<(&'static str, String)>,
}

/// Runs them all under a command, whatever happens to one, and tells how it went.
pub(super) fn run(steps: &[Step], under: &[&str], logs: &Path) -> anyhow::Result<()> {
    process::empty_dir(logs)?;
    eprintln!("{} steps, {LANES} at a time; their logs are in {}", steps.len(), logs.display());
    let mut lanes = Lanes {
        begun: Instant::now(),
        under,
        logs,
        waiting: steps.iter().collect(),
        running: Vec::new(),
        done: Vec::new(),
        failures: Vec::new(),
    };
    while !lanes.waiting.is_empty() || !lanes.running.is_empty() {
        while let Some(step) = lanes.next() {
            lanes.start(step);
        }
        lanes.collect();
        std::thread::sleep(POLL);
    }
    println!("\n{}", timeline(&lanes.done, lanes.begun.elapsed()));
    let failed = lanes.done.iter().filter(|span| !span.outcome.passed()).count();
    for (name, text) in &lanes.failures {
        println!("{name}:\n{}", last_lines(text));
    }
    println!("{} passed, {failed} failed", lanes.done.len() - failed);
    if failed > 0 { bail!("{failed} of {} steps failed", lanes.done.len()) } else { Ok(()) }
}

impl<'s> Lanes<'s> {
    /// Takes the first step that can run now. Those that take the machine come when nothing else can.
    fn next(&mut self) -> Option<&'s Step> {
        self.drop_impossible();
        let taken = |load: Load| self.running.iter().filter(|running| running.step.load == load).count();
        if taken(Load::Machine) > 0 {
            return None;
        }
        let passed = |name: &&str| self.done.iter().any(|span| span.name == *name && span.outcome.passed());
        let ready = |step: &Step| step.needs.iter().all(passed);
        let first = |load: Load| self.waiting.iter().position(|step| step.load == load && ready(step));
        let lane = if taken(Load::Lane) < LANES { first(Load::Lane) } else { None };
        let little = if taken(Load::Little) == 0 { first(Load::Little) } else { None };
        let machine = || if self.running.is_empty() { first(Load::Machine) } else { None };
        lane.or(little).or_else(machine).map(|index| self.waiting.remove(index))
    }

    /// Steps that need one that did not pass.
    fn drop_impossible(&mut self) {
        while let Some((index, needed)) = self.impossible() {
            let name = self.waiting.remove(index).name;
            self.finish(name, Instant::now(), Outcome::NotRun(needed));
        }
    }

    fn impossible(&self) -> Option<(usize, &'static str)> {
        let failed =
            |name: &&&str| self.done.iter().any(|span| span.name == **name && !span.outcome.passed());
        let mut waiting = self.waiting.iter().enumerate();
        waiting.find_map(|(index, step)| step.needs.iter().find(failed).map(|needed| (index, *needed)))
    }

    fn start(&mut self, step: &'s Step) {
        let (begun, log) = (Instant::now(), self.logs.join(format!("{}.log", step.name.replace(' ', "-"))));
        eprintln!("=== {}: begins: {}", step.name, step.argv.join(" "));
        let argv: Vec<String> = self.under.iter().map(ToString::to_string).chain(step.argv.clone()).collect();
        let started = process::append_to(&log)
            .and_then(|file| Process::start(&argv, file.try_clone()?.into(), file.into()));
        match started {
            Ok(process) => self.running.push(Running { step, process, log, begun }),
            Err(why) => self.finish(step.name, begun, Outcome::Failed(format!("{why:#}"))),
        }
    }

    /// Looks who has ended.
    fn collect(&mut self) {
        let mut index = 0;
        while index < self.running.len() {
            let Some(outcome) = self.running[index].ended() else {
                index += 1;
                continue;
            };
            let Running { step, log, begun, .. } = self.running.remove(index);
            if !outcome.passed() {
                let text = std::fs::read(&log).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                let name = step.name;
                eprintln!("--- the log of {name} ---\n{text}--- the end of the log of {name} ---");
                self.failures.push((name, text));
            }
            self.finish(step.name, begun, outcome);
        }
    }

    fn finish(&mut self, name: &'static str, begun: Instant, outcome: Outcome) {
        eprintln!("=== {name}: {outcome} after {:.0} s", begun.elapsed().as_secs_f64());
        self.done.push(Span { name, start: begun - self.begun, length: begun.elapsed(), outcome });
    }
}

/// The end of a log: what it says of failures and panics, if it does, and its last line.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let says_why = |line: &&&str| ["FAIL", "panicked", "error: "].iter().any(|word| line.contains(word));
    let (mut why, last): (Vec<&&str>, _) = (lines.iter().filter(says_why).collect(), lines.last());
    why.extend(last.filter(|last| why.last() != Some(last)));
    let told = &why[why.len().saturating_sub(LAST_LINES)..];
    told.iter().map(|line| format!("  {line}\n")).collect()
}

impl Running<'_> {
    /// How it ended, if it has. It is killed when its time is over.
    fn ended(&mut self) -> Option<Outcome> {
        match self.process.ended().context("its end is not known") {
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

    /// Runs shell scripts that get the directory of their own as `$0`; what they leave there, and the verdict.
    fn ran(
        name: &str,
        steps: &[(&'static str, &'static [&'static str], Load, &str)],
    ) -> (Vec<String>, Result<(), String>) {
        let directory = std::env::temp_dir().join(format!("xtask-lanes-{name}-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let text = directory.to_str().unwrap();
        let step = |&(name, needs, load, script): &(&'static str, &'static [&'static str], Load, &str)| {
            let argv = ["sh", "-c", script, text].map(String::from).into();
            Step::new(name, argv, 1).after(needs).takes(load)
        };
        let verdict = run(&steps.iter().map(step).collect::<Vec<_>>(), &["env"], &directory.join("logs"));
        let listed = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<String> = listed.filter(|name| name != "logs").collect();
        left.sort();
        std::fs::remove_dir_all(&directory).unwrap();
        (left, verdict.map_err(|error| error.to_string()))
    }

    #[test]
    fn what_has_failed_is_told_at_the_end() {
        let log = "test one ... ok\ntest two ... FAILED\nthread 'two' panicked at two.rs:1:1:\n\nerror: test failed\n\n";
        let told = "  test two ... FAILED\n  thread 'two' panicked at two.rs:1:1:\n  error: test failed\n";
        assert_eq!(last_lines(log), told);
        assert_eq!(last_lines("quiet\nthe end\n"), "  the end\n");
        assert_eq!(last_lines(""), "");
        assert_eq!(last_lines(&"error: again\n".repeat(20)).lines().count(), LAST_LINES);
    }

    #[test]
    fn a_failure_stops_only_what_needs_it() {
        let (left, verdict) = ran(
            "needs",
            &[
                // It stands before what it needs.
                ("three", &["two"], Load::Lane, "touch $0/three"),
                ("one", &[], Load::Lane, "touch $0/one"),
                ("two", &["one"], Load::Machine, "touch $0/two; exit 3"),
                ("four", &["one"], Load::Lane, "touch $0/four"),
                ("five", &["three"], Load::Lane, "touch $0/five"),
            ],
        );
        assert_eq!(left, ["four", "one", "two"]);
        assert_eq!(verdict.unwrap_err(), "3 of 5 steps failed");
    }

    #[test]
    fn two_run_at_a_time_a_small_one_beside_them_and_some_alone() {
        // The first three wait for each other; what runs alone sees nobody.
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
        let (left, verdict) = ran(
            "lanes",
            &[
                ("first alone", &[], Load::Machine, alone),
                ("second alone", &[], Load::Machine, alone),
                ("small", &[], Load::Little, &small),
                ("one", &[], Load::Lane, &one),
                ("two", &[], Load::Lane, &two),
                ("third", &[], Load::Lane, next),
            ],
        );
        assert_eq!(verdict, Ok(()));
        assert_eq!(left, ["one", "small", "two"]);
    }
}
