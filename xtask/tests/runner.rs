//! The runner of checks, by its command line: steps that fail once, always and never; the exit code, the output, and
//! the summary.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

struct Run {
    target: PathBuf,
    passed: bool,
    printed: String,
}

impl Run {
    fn of(name: &str, tier: &str, steps: &str) -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runner-{name}"));
        drop(std::fs::remove_dir_all(&target));
        std::fs::create_dir_all(&target).unwrap();
        Self::again(target, tier, steps)
    }

    /// Reuses the target directory of an earlier run.
    fn again(target: PathBuf, tier: &str, steps: &str) -> Self {
        let file = target.join("steps.toml");
        std::fs::write(&file, steps).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args([tier, "--steps"]).arg(&file).env("CARGO_TARGET_DIR", &target);
        let output = command.env("HERE", &target).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}\n{printed}", output.status);
        Self { target, passed: output.status.success(), printed }
    }

    fn has_line(&self, line: &str) -> bool {
        self.printed.lines().any(|printed| printed == line)
    }

    fn summary(&self, tier: &str) -> Value {
        let bytes = std::fs::read(self.target.join("ci/summary.json")).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()[tier].clone()
    }

    /// Names and outcomes of the steps in the summary, one entry for each attempt.
    fn outcomes(&self, tier: &str) -> Vec<String> {
        let summary = self.summary(tier);
        let steps = summary["steps"].as_array().unwrap().iter();
        steps
            .map(|step| format!("{}: {}", step["name"].as_str().unwrap(), step["outcome"].as_str().unwrap()))
            .collect()
    }

    fn left(&self, name: &str) -> String {
        std::fs::read_to_string(self.target.join(name)).unwrap_or_default()
    }
}

/// A step that runs a shell script; `$HERE` is the target directory.
fn step(name: &str, script: &str, more: &str) -> String {
    format!("[[step]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '''{script}''', \"sh\"]\n{more}\n")
}

/// A script that fails the first time.
const ONCE: &str =
    "echo ran >> $HERE/once; [ -e $HERE/mark ] && exit; touch $HERE/mark; echo 'error: it rained'; exit 7";

#[test]
fn a_step_that_never_fails_passes() {
    let run = Run::of("never", "ci", &step("sound", "echo fine", ""));
    assert!(run.passed && run.has_line("1 passed, 0 failed, 0 flaky"), "{}", run.printed);
    let summary = run.summary("ci");
    assert_eq!((&summary["passed"], &summary["flaky"]), (&true.into(), &Value::Array(Vec::new())));
    assert!(summary["minutes"].is_number() && summary["steps"][0]["minutes"].is_number());
}

#[test]
fn a_step_that_fails_once_is_retried_alone_and_then_its_dependents_run() {
    let others = "sleep 0.5; echo other >> $HERE/order";
    let again = format!("echo again >> $HERE/order; {ONCE}");
    let steps = [
        step("dependent", "echo dependent >> $HERE/order", "needs = [\"shaky\"]"),
        step("shaky", &again, ""),
        step("other", others, ""),
    ];
    let run = Run::of("once", "ci", &steps.concat());
    assert!(run.passed, "{}", run.printed);
    assert!(run.has_line("FLAKY shaky: error: it rained"), "{}", run.printed);
    assert!(run.has_line("3 passed, 0 failed, 1 flaky"), "{}", run.printed);
    assert_eq!(run.left("order"), "again\nother\nagain\ndependent\n");
    assert_eq!(
        run.outcomes("ci"),
        [
            "shaky: failed, runs again: exit status: 7",
            "other: passed",
            "shaky: passed when it ran again",
            "dependent: passed",
        ]
    );
    let summary = run.summary("ci");
    assert_eq!((&summary["passed"], &summary["flaky"][0]["name"]), (&true.into(), &"shaky".into()));
    assert_eq!(summary["flaky"][0]["first_failure"], "error: it rained");
}

#[test]
fn a_step_that_always_fails_runs_twice_and_fails_the_run() {
    let steps = [
        step("broken", "echo ran >> $HERE/broken; echo 'error: no'; exit 1", ""),
        step("dependent", "touch $HERE/dependent", "needs = [\"broken\"]"),
        step("other", "touch $HERE/other", ""),
    ];
    let run = Run::of("always", "ci", &steps.concat());
    assert!(!run.passed && run.has_line("1 passed, 2 failed, 0 flaky"), "{}", run.printed);
    assert_eq!(run.left("broken"), "ran\nran\n");
    assert!(!run.target.join("dependent").exists() && run.target.join("other").exists());
    assert!(!run.printed.contains("FLAKY"));
    assert!(run.outcomes("ci").contains(&"dependent: FAILED: not run without \"broken\"".to_owned()));
    assert_eq!(run.summary("ci")["passed"], false);
}

#[test]
fn an_excepted_step_fails_the_run_the_first_time_and_prints_its_seed() {
    let script = format!("echo 'crash: 5 rounds, --seed 4711'; {ONCE}");
    let run = Run::of("excepted", "ci", &step("crash", &script, "never_again = true"));
    assert!(!run.passed && run.printed.contains("--seed 4711"), "{}", run.printed);
    assert_eq!(run.left("once"), "ran\n");
}

#[test]
fn only_the_failed_parts_run_again() {
    let script = "echo \"$@\" >> $HERE/arguments
        [ $# -gt 0 ] && { echo 'part b: ok (1 s)'; exit; }
        echo 'part a: ok (1 s)'; echo 'part b: FAILED (2 s): x: y'; echo 'part c: FAILED (2 s): z'; exit 1";
    let run = Run::of("parts", "ci", &step("tests", script, ""));
    assert!(run.passed && run.has_line("FLAKY b: x: y") && run.has_line("FLAKY c: z"), "{}", run.printed);
    assert_eq!(run.left("arguments"), "\n--only b,c\n");
    assert_eq!(run.summary("ci")["steps"][0]["parts"].as_array().unwrap().len(), 3);
}

#[test]
fn a_permanently_failed_part_fails_the_run() {
    let script = "echo ran >> $HERE/ran; echo 'part a: FAILED (1 s): x'; echo 'part nfs::hostile: FAILED for good (1 s): y'; exit 1";
    let run = Run::of("for-good", "ci", &step("tests", script, ""));
    assert!(!run.passed, "{}", run.printed);
    assert_eq!(run.left("ran"), "ran\n");
}

#[test]
fn flaky_and_skipped_tests_are_repeated_at_the_end() {
    let run = Run::of("lines", "ci", &step("suite", "echo 'FLAKY t: u'; echo 'skipped: no root: a, b'", ""));
    assert!(
        run.passed && run.has_line("FLAKY t: u") && run.has_line("skipped: no root: a, b"),
        "{}",
        run.printed
    );
}

#[test]
fn a_passed_lane_of_full_runs_only_with_again() {
    let steps = [step("long", "echo ran >> $HERE/long", ""), step("broken", "exit 1", "never_again = true")];
    let first = Run::of("lanes", "full", &steps.concat());
    assert!(!first.passed);
    let mended = [step("long", "echo ran >> $HERE/long", ""), step("broken", "exit 0", "never_again = true")];
    let second = Run::again(first.target, "full", &mended.concat());
    assert!(second.passed && second.printed.contains("unchanged long: passed"), "{}", second.printed);
    assert_eq!(second.left("long"), "ran\n");
    let third = Run::again(second.target, "full", &mended.concat());
    assert!(third.passed && third.has_line("every lane has passed"), "{}", third.printed);
}

#[test]
fn an_unknown_step_is_refused_with_the_known_ones() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_xtask")).args(["test", "--only", "nothing"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("unknown step nothing; steps: fmt, tidy, test programs"), "{said}");
}
