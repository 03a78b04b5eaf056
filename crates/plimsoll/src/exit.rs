//! With which status commands end.

use crate::{form, terminal};
use api_client::model::Problem;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::json;
use std::ffi::OsString;
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

/// A refusal of the API, in the words of the command line.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) message: String,
    pub(crate) problem: Problem,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// Whether the command line is wrong.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<Usage>()
}

/// Reports an error, as JSON with `--json`, and returns the exit status.
pub(crate) fn failed(error: &anyhow::Error, as_json: bool) -> ExitCode {
    let status = if is_usage(error) { USAGE } else { 1 };
    let problem = error.downcast_ref::<Refused>().map(|refused| &refused.problem);
    report(&format!("{error:#}"), status, problem, as_json);
    ExitCode::from(status)
}

/// Ends a command line that clap refuses, or that asks for help or the version.
pub(crate) fn unparsed(mut error: clap::Error, arguments: &[OsString], as_json: bool) -> ExitCode {
    if let Some(value) = negative_value(&error, arguments) {
        return failed(
            &usage(format!("\"{value}\" begins with a minus; allowed: values of 0 or more")),
            as_json,
        );
    }
    if let Some(variable) = empty_variable(&error, arguments) {
        return failed(
            &usage(format!("the variable {variable} is empty; allowed: a value, or no such variable")),
            as_json,
        );
    }
    drop_unused_options(&mut error, arguments);
    if !as_json || !error.use_stderr() {
        // A reader that has closed its end needs no message.
        _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
    }
    let text = error.render().to_string();
    let (text, _) = text.split_once("\n\nFor more information").unwrap_or((&text, ""));
    let message = text.strip_prefix("error: ").unwrap_or(text).trim();
    report(message, USAGE, None, as_json);
    ExitCode::from(USAGE)
}

/// A value like `-4TiB`, which clap takes for an option: its tip would lead to another error.
fn negative_value(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_number = option.strip_prefix('-')?.starts_with(|c: char| c.is_ascii_digit());
    let is_unknown = error.kind() == ErrorKind::UnknownArgument && is_number;
    let given = arguments.iter().map(|argument| argument.to_string_lossy());
    is_unknown
        .then(|| given.into_iter().find(|argument| argument.starts_with(option.as_str())))
        .flatten()
        .map(Into::into)
}

/// Options of the service, and what clap shows of their values.
const SERVICE: [(&str, &str); 4] =
    [("--data", "<DIR>"), ("--config", "<FILE>"), ("--url", "<URL>"), ("--ca", "<FILE>")];

fn has(arguments: &[OsString], option: &str) -> bool {
    arguments.iter().any(|argument| argument.to_string_lossy().starts_with(option))
}

/// The environment variable whose empty value clap refuses in the name of an option.
fn empty_variable(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let (name, _) = option.split_once(' ')?;
    let is_variable = error.kind() == ErrorKind::InvalidValue && !has(arguments, name);
    let is_of_service = SERVICE.iter().any(|(known, _)| *known == name);
    let variable = format!("PLIMSOLL_{}", name.trim_start_matches('-').to_uppercase());
    (is_variable && is_of_service).then_some(variable)
}

/// Options of the service that clap shows in the usage because the environment sets them, as if they were required.
fn drop_unused_options(error: &mut clap::Error, arguments: &[OsString]) {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return };
    let mut text = usage.ansi().to_string();
    for (option, value) in SERVICE.into_iter().filter(|(option, _)| !has(arguments, option)) {
        let words: Vec<&str> = text.split(' ').collect();
        let is = |word: &str, wanted: &str| terminal::unpainted(word) == wanted;
        let place = words.windows(2).position(|pair| is(pair[0], option) && is(pair[1], value));
        if let Some(place) = place {
            text = [&words[..place], &words[place + 2..]].concat().join(" ");
        }
    }
    error.insert(ContextKind::Usage, ContextValue::StyledStr(text.into()));
}

fn report(message: &str, status: u8, problem: Option<&Problem>, as_json: bool) {
    let message = &terminal::in_plain_words(message);
    let mut error = json!({ "message": message, "exit_status": status });
    if let Some(problem) = problem {
        error["problem"] = json!(problem);
    }
    match as_json.then(|| form::json_line(&json!({ "error": error }))) {
        Some(Ok(text)) => eprint!("{text}"),
        _ => terminal::fail(message),
    }
}
