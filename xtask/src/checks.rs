//! Named checks of one running stage: which ones run, and their results.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::ensure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's binary; built by `cargo build --release`.
    #[arg(long)]
    pub(crate) binary: Option<PathBuf>,
    /// Only checks whose name contains this.
    #[arg(long)]
    pub(crate) only: Option<String>,
}

pub(crate) type Check<S> = (&'static str, fn(&S) -> anyhow::Result<()>);

/// Results of checks that ran.
#[derive(Default)]
pub(crate) struct Results {
    passed: usize,
    failed: Vec<&'static str>,
}

impl Args {
    /// Runs the selected checks. A failure does not end the others.
    pub(crate) fn run<S>(&self, suite: &str, stage: &S, checks: &[Check<S>]) -> Results {
        let mut results = Results::default();
        let is_selected = |name: &str| self.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
        for (name, check) in checks.iter().filter(|(name, _)| is_selected(name)) {
            let start = Instant::now();
            let outcome = check(stage);
            let seconds = start.elapsed().as_secs_f64();
            match outcome {
                Ok(()) => {
                    results.passed += 1;
                    eprintln!("{suite}: {name}: ok ({seconds:.1} s)");
                }
                Err(why) => {
                    results.failed.push(name);
                    eprintln!("{suite}: {name}: FAILED ({seconds:.1} s): {why:#}");
                }
            }
        }
        results
    }
}

impl Results {
    /// Fails if a check failed, or if none ran.
    pub(crate) fn check(self, suite: &str) -> anyhow::Result<()> {
        let Self { passed, failed } = self;
        ensure!(failed.is_empty(), "{} failed: {}", failed.len(), failed.join(", "));
        ensure!(passed > 0, "no check matches --only");
        eprintln!("{suite}: {passed} checks passed");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKS: [Check<bool>; 2] = [
        ("good", |_| Ok(())),
        ("stage", |stage| {
            ensure!(*stage, "down");
            Ok(())
        }),
    ];

    fn checked(only: Option<&str>, stage: bool) -> Result<(), String> {
        let args = Args { binary: None, only: only.map(str::to_owned) };
        args.run("suite", &stage, &CHECKS).check("suite").map_err(|error| error.to_string())
    }

    #[test]
    fn failures_and_an_empty_selection_fail_the_suite() {
        assert_eq!(checked(None, true), Ok(()));
        assert_eq!(checked(None, false), Err("1 failed: stage".to_owned()));
        assert_eq!(checked(Some("good"), false), Ok(()));
        assert_eq!(checked(Some("none"), true), Err("no check matches --only".to_owned()));
    }
}
