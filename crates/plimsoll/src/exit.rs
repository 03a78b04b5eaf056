//! With which status commands end.

use crate::{form, terminal};
use serde_json::json;
use std::fmt;
use std::process::ExitCode;

/// The paragraph of the help.
pub(crate) const HELP: &str = "Exit status: 0 done; 1 failed, or refused by the service; 2 the command line is wrong, nothing was done.";

/// The exit status for a wrong command line.
const USAGE: u8 = 2;

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

/// Reports an error, as JSON with `--json`, and returns the exit status.
pub(crate) fn failed(error: &anyhow::Error, as_json: bool) -> ExitCode {
    let status = if error.is::<Usage>() { USAGE } else { 1 };
    report(&format!("{error:#}"), status, as_json);
    ExitCode::from(status)
}

/// Ends a command line that clap refuses, or that asks for help or the version.
pub(crate) fn unparsed(error: &clap::Error, as_json: bool) -> ExitCode {
    if !as_json || !error.use_stderr() {
        // A reader that has closed its end needs no message.
        _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
    }
    let text = error.render().to_string();
    let message = text.strip_prefix("error: ").unwrap_or(&text).trim();
    report(message, USAGE, as_json);
    ExitCode::from(USAGE)
}

fn report(message: &str, status: u8, as_json: bool) {
    let error = json!({ "error": { "message": message, "exit_status": status } });
    match as_json.then(|| form::json(&error)) {
        Some(Ok(text)) => eprint!("{text}"),
        _ => terminal::fail(message),
    }
}
