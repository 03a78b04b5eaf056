//! A sandbox for the commands of documents: only loopback, empty data directories, and processes that end with it. So
//! commands run as written, with their usual ports and paths, beside other processes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context;

use crate::process;

const INIT: &str = include_str!("init.sh");
const STEP: &str = include_str!("step.sh");
const PROGRAMS: [(&str, &str); 2] =
    [("plimsoll", include_str!("plimsoll.sh")), ("cargo", include_str!("cargo.sh"))];
const SCRIPT_S_MAX: &str = "900";
const MACHINE_MAX: Duration = Duration::from_secs(1800);
/// Concurrent sandboxes; their commands mostly wait.
const MACHINES: usize = 5;

pub(crate) struct Sandbox<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) work: PathBuf,
    pub(crate) is_brief: bool,
    /// Whether a failed script ends the run.
    pub(crate) ends_at_failure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptResult {
    pub(crate) status: i32,
    /// The standard output and standard error.
    pub(crate) printed: String,
}

impl Sandbox<'_> {
    /// Runs the scripts one after the other. Each inherits variables, functions and the directory of the previous one.
    /// Returns the results; `None` for a script that was not run.
    pub(crate) fn run(&self, scripts: &[String]) -> anyhow::Result<Vec<Option<ScriptResult>>> {
        process::empty_dir(&self.work)?;
        for directory in ["bin", "here", "running", "scripts"] {
            fs::create_dir(self.work.join(directory))?;
        }
        for (name, text) in PROGRAMS {
            let file = self.work.join("bin").join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, Permissions::from_mode(0o755))?;
        }
        for (name, text) in [("init.sh", INIT), ("step.sh", STEP)] {
            fs::write(self.work.join(name), text)?;
        }
        for (index, script) in scripts.iter().enumerate() {
            fs::write(self.script(index), script)?;
        }
        let command = self.command()?;
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        process::run(&words, &self.work.join("machine.log"), MACHINE_MAX)?;
        (0..scripts.len()).map(|index| self.ended(index)).collect()
    }

    fn script(&self, index: usize) -> PathBuf {
        self.work.join(format!("scripts/{index:03}.sh"))
    }

    /// The command of the sandbox. An unprivileged user becomes root in it.
    fn command(&self) -> anyhow::Result<Vec<String>> {
        let text = |path: &Path| path.to_str().map(String::from).context("path is not UTF-8");
        let variables = [
            ("SANDBOX", text(&self.work)?),
            ("PLIMSOLL_PROGRAM", text(&fs::canonicalize(self.binary)?)?),
            ("SCRIPT_S_MAX", SCRIPT_S_MAX.to_owned()),
            ("IS_BRIEF", if self.is_brief { "yes" } else { "" }.to_owned()),
            ("ENDS_AT_FAILURE", if self.ends_at_failure { "yes" } else { "" }.to_owned()),
        ];
        let mut command = vec!["env".to_owned()];
        command.extend(variables.into_iter().map(|(name, value)| format!("{name}={value}")));
        command.extend(["unshare", "--net", "--mount", "--pid", "--fork"].map(String::from));
        command.extend(["--kill-child", "--mount-proc"].map(String::from));
        if !rustix::process::geteuid().is_root() {
            command.push("--map-root-user".to_owned());
        }
        command.extend(["bash".to_owned(), text(&self.work.join("init.sh"))?]);
        Ok(command)
    }

    fn ended(&self, index: usize) -> anyhow::Result<Option<ScriptResult>> {
        let script = self.script(index);
        let status = script.with_extension("status");
        if !status.exists() {
            return Ok(None);
        }
        let status = fs::read_to_string(&status)?.trim().parse()?;
        let printed = fs::read(script.with_extension("out"))?;
        Ok(Some(ScriptResult { status, printed: String::from_utf8_lossy(&printed).into_owned() }))
    }
}

/// Returns the results in the order of the items.
pub(crate) fn run_concurrently<T: Sync, R: Send>(items: &[T], doing: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::new());
    let take = || next.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..MACHINES.min(items.len()) {
            scope.spawn(|| {
                while let Some((index, item)) = take() {
                    let result = doing(item);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Threads finish out of order.
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(name: &str, program: &str, scripts: &[&str]) -> Vec<Option<ScriptResult>> {
        let work = std::env::temp_dir().join(format!("xtask-sandbox-{name}-{}", std::process::id()));
        let sandbox = Sandbox {
            binary: Path::new(program),
            work: work.clone(),
            is_brief: false,
            ends_at_failure: true,
        };
        let scripts: Vec<String> = scripts.iter().map(ToString::to_string).collect();
        let ended = sandbox.run(&scripts).unwrap();
        fs::remove_dir_all(&work).unwrap();
        ended
    }

    fn ended(status: i32, printed: &str) -> Option<ScriptResult> {
        Some(ScriptResult { status, printed: printed.to_owned() })
    }

    #[test]
    fn scripts_continue_the_previous_one_and_stop_at_a_failure() {
        let scripts = ["A='b c'\nmkdir d\ncd d", "echo $A ${PWD##*/}", "false\necho no", "echo never"];
        let [first, second, third, fourth] =
            ran("order", "/bin/echo", &scripts).try_into().expect("four outcomes");
        assert_eq!([first, second], [ended(0, ""), ended(0, "b c d\n")]);
        assert_eq!(third, ended(1, "line 1 failed: false\n"));
        assert_eq!(fourth, None);
    }

    #[test]
    fn a_sandbox_has_only_loopback_and_empty_directories() {
        let scripts = ["ip -brief address | cut -d' ' -f1", "ls -A /srv /var/lib", "plimsoll level list"];
        let [links, files, program] =
            ran("machine", "/bin/echo", &scripts).try_into().expect("three outcomes");
        assert_eq!(links, ended(0, "lo\n"));
        assert_eq!(files, ended(0, "/srv:\n\n/var/lib:\n"));
        assert_eq!(program, ended(0, "level list\n"));
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..20).collect();
        let doubled = run_concurrently(&items, |item| {
            std::thread::sleep(Duration::from_millis((20 - item) % 3));
            item * 2
        });
        assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
    }
}
