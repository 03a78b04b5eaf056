//! With which status commands end.

use crate::terminal;
use std::fmt;
use std::process::ExitCode;

/// The paragraph of the help.
pub(crate) const HELP: &str = "Exit status: 0 done; 1 failed, or refused by the service; 2 the command line is wrong, nothing was done.";

/// A command line that is wrong in a way that its flags do not declare: it ends as others that are wrong do.
#[derive(Debug)]
struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The error of a wrong command line.
pub(crate) fn usage(why: impl Into<String>) -> anyhow::Error {
    Usage(why.into()).into()
}

/// Says what went wrong, and with which status the process ends.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    terminal::fail(&format!("{error:#}"));
    if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
