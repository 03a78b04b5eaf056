//! The file of a plan: `[[workload]]` tables with a name and the keys that the flags have.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::path::Path;

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command, FromArgMatches};
use control::VolumeName;
use toml::{Table, Value};

use super::flags::{ClientFlags, LoadFlags};
use super::{Question, SizingRequest, read};
use crate::exit::{self, usage};
use crate::toml_file;

/// Further flags that a workload may have.
const MORE: [&str; 6] = ["from", "cell", "mount", "since", "volumes", "capacity-max"];
/// A flag of the answer, not of the workload.
const EXCEPT: &str = "years";

/// The workloads of a file, in its order.
pub(super) fn workloads(file: &Path) -> anyhow::Result<Vec<SizingRequest>> {
    PlanFile { text: &read(file)?, file }.workloads()
}

/// A file, for errors that name it with the line.
struct PlanFile<'a> {
    text: &'a str,
    file: &'a Path,
}

impl PlanFile<'_> {
    fn workloads(&self) -> anyhow::Result<Vec<SizingRequest>> {
        let table: Table = toml_file::parse(self.text, self.file).map_err(usage)?;
        if let Some(unknown) = table.keys().find(|key| *key != "workload") {
            let wrong = format!("there is no key {unknown}; allowed: [[workload]]");
            return Err(self.wrong(&format!("/{unknown}"), &wrong));
        }
        let Some(Value::Array(tables)) = table.get("workload").filter(|value| value.is_array()) else {
            return Err(self.wrong("", "there is no workload; allowed: one [[workload]] table for each"));
        };
        let mut names = BTreeSet::new();
        let mut all = Vec::new();
        for (place, table) in tables.iter().enumerate() {
            let (pointer, number) = (format!("/workload/{place}"), place + 1);
            let Some(table) = table.as_table() else {
                return Err(self.wrong(&pointer, &format!("workload {number}: it is not a table")));
            };
            let Some(Value::String(name)) = table.get("name").filter(|name| name.is_str()) else {
                let wrong = format!("workload {number}: the name is missing, like name = \"home\"");
                return Err(self.wrong(&pointer, &wrong));
            };
            // "size apply" creates volumes with these names.
            if let Err(wrong) = name.parse::<VolumeName>() {
                return Err(self.wrong(&format!("{pointer}/name"), &format!("workload {number}: {wrong}")));
            }
            if !names.insert(name.as_str()) {
                let wrong = format!("two workloads have the name {name}: give each its own");
                return Err(self.wrong(&format!("{pointer}/name"), &wrong));
            }
            let asked = workload(table).map_err(|wrong| {
                let at = wrong.key.map_or_else(|| pointer.clone(), |key| format!("{pointer}/{key}"));
                let message = format!("workload {name}: {}", wrong.message);
                let message = toml_file::located(self.text, self.file, &at, &message);
                if wrong.is_usage { usage(message) } else { anyhow!(message) }
            })?;
            all.push(SizingRequest { name: Some(name.clone()), ..asked });
        }
        Ok(all)
    }

    fn wrong(&self, pointer: &str, message: &str) -> anyhow::Error {
        usage(toml_file::located(self.text, self.file, pointer, message))
    }
}

/// The fault of a workload, in the words of the file.
struct Wrong {
    /// The key at fault, if it is one alone.
    key: Option<String>,
    message: String,
    is_usage: bool,
}

impl Wrong {
    fn new(key: Option<&str>, message: String) -> Self {
        Self { key: key.map(str::to_owned), message, is_usage: true }
    }
}

fn workload(table: &Table) -> Result<SizingRequest, Wrong> {
    let keys = keys();
    let mut asked = question(table, &keys)?.ask().map_err(|error| Wrong {
        key: None,
        message: in_keys(&format!("{error:#}"), &keys),
        is_usage: exit::is_usage(&error),
    })?;
    asked.notes.iter_mut().for_each(|note| *note = in_keys(note, &keys));
    Ok(asked)
}

/// The text with the keys of the file in place of flags: `"iops"` for `--iops`, and `iops = "20k"` for an example.
fn in_keys(text: &str, keys: &BTreeSet<String>) -> String {
    let is_of_key = |c: char| c.is_ascii_lowercase() || c == '-';
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("--") {
        let end = behind.find(|c| !is_of_key(c)).unwrap_or(behind.len());
        let (key, after) = behind.split_at(end);
        shown.push_str(before);
        rest = after;
        if !keys.contains(key) {
            shown.push_str("--");
            shown.push_str(key);
            continue;
        }
        let is_example = before.ends_with("like ");
        let value =
            after.strip_prefix(' ').map(|after| after.split([' ', ',', ':', ';']).next().unwrap_or(after));
        match value.filter(|value| is_example && !value.is_empty()) {
            Some(value) => {
                shown.push_str(&format!("{key} = \"{value}\""));
                rest = &after[1 + value.len()..];
            }
            None => shown.push_str(&format!("\"{key}\"")),
        }
    }
    shown + rest
}

/// The keys that a workload may have besides its name.
fn keys() -> BTreeSet<String> {
    let command = ClientFlags::augment_args(LoadFlags::augment_args(Command::new("workload")));
    let long = command.get_arguments().filter_map(|arg| arg.get_long()).filter(|long| *long != EXCEPT);
    long.chain(MORE).map(str::to_owned).collect()
}

/// The flags whose names are the keys of a workload, in the order of the help.
#[cfg(test)]
pub(crate) fn flags_of_keys() -> Vec<clap::Arg> {
    let keys = keys();
    let command = Question::augment_args(Command::new("workload"));
    let is_key = |arg: &&clap::Arg| arg.get_long().is_some_and(|long| keys.contains(long));
    command.get_arguments().filter(is_key).cloned().collect()
}

/// The question of a table: the command line with its keys as flags, so that both mean the same.
fn question(table: &Table, keys: &BTreeSet<String>) -> Result<Question, Wrong> {
    let mut args = vec!["workload".to_owned()];
    for (key, value) in table.iter().filter(|(key, _)| *key != "name") {
        if !keys.contains(key) {
            let allowed = keys.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let message = format!("there is no key {key}; allowed: name, {allowed}");
            return Err(Wrong::new(Some(key), message));
        }
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let flag = flag(key, value).ok_or_else(|| {
                Wrong::new(Some(key), format!("{key} is not a text, a number, true or false"))
            })?;
            args.extend(flag);
        }
    }
    let command = Question::augment_args(Command::new("workload"));
    let matches = command.try_get_matches_from(args);
    let found = matches.and_then(|matches| Question::from_arg_matches(&matches));
    found.map_err(|error| wrong_flag(&error, keys))
}

/// A key and its value as a flag; an empty list for a flag that is off. `None` for other types.
fn flag(key: &str, value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Boolean(true) => Some(vec![format!("--{key}")]),
        Value::Boolean(false) => Some(Vec::new()),
        Value::String(text) => Some(vec![format!("--{key}={text}")]),
        Value::Integer(number) => Some(vec![format!("--{key}={number}")]),
        Value::Float(number) => Some(vec![format!("--{key}={number}")]),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// The fault of a flag, as that of the key.
fn wrong_flag(error: &clap::Error, keys: &BTreeSet<String>) -> Wrong {
    let names = |kind| -> Vec<String> {
        let key = |shown: &str| {
            let long = shown.trim_start_matches("--").split([' ', '=']).next().unwrap_or_default();
            keys.get(long).cloned()
        };
        match error.get(kind) {
            Some(ContextValue::String(one)) => key(one).into_iter().collect(),
            Some(ContextValue::Strings(several)) => several.iter().filter_map(|one| key(one)).collect(),
            _ => Vec::new(),
        }
    };
    let (own, others) = (names(ContextKind::InvalidArg), names(ContextKind::PriorArg));
    let key = own.first().map(String::as_str);
    let value = error.get(ContextKind::InvalidValue).map(ToString::to_string).unwrap_or_default();
    let message = match (error.kind(), key, error.source(), others.as_slice()) {
        (ErrorKind::ValueValidation, Some(key), Some(source), _) => format!("{key}: {source}"),
        (ErrorKind::InvalidValue, Some(key), ..) => {
            let allowed = error.get(ContextKind::ValidValue).map(ToString::to_string).unwrap_or_default();
            format!("{key}: \"{value}\" is not allowed; allowed: {allowed}")
        }
        (ErrorKind::ArgumentConflict, Some(key), _, [other, ..]) if key == other => {
            format!("{key} has one value alone")
        }
        (ErrorKind::ArgumentConflict, Some(key), _, [other, ..]) => {
            format!("{key} cannot be used with {other}: leave one out")
        }
        (ErrorKind::MissingRequiredArgument, Some(key), ..) => format!("the key {key} is missing"),
        (ErrorKind::TooManyValues, Some(key), ..) => {
            format!("{key}: \"{value}\" is not allowed; allowed: true, false")
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            in_keys(first.strip_prefix("error: ").unwrap_or(first), keys)
        }
    };
    let key = key.filter(|_| error.kind() != ErrorKind::MissingRequiredArgument);
    Wrong::new(key, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> anyhow::Result<Vec<SizingRequest>> {
        PlanFile { text, file: Path::new("plan.toml") }.workloads()
    }

    #[test]
    fn table_means_the_same_as_the_flags() {
        let text = "[[workload]]\nname = \"db\"\ncapacity = \"4TiB\"\niops = \"20k\"\nblock = \"8k\"\n\
                    read = 70\nclients = 3\nlatency = \"2ms\"\ncached = true\n\
                    load = [\"sequential,256k,100,1GiB/s\"]\nworking-set = \"100GiB\"\n";
        let from_file = parse(text).unwrap().remove(0);
        let flags = "size --capacity 4TiB --iops 20k --block 8k --read 70 --clients 3 --latency 2ms --cached \
                     --load sequential,256k,100,1GiB/s --working-set 100GiB";
        let matches = Question::augment_args(Command::new("size")).get_matches_from(flags.split_whitespace());
        let from_flags = Question::from_arg_matches(&matches).unwrap().ask().unwrap();
        assert_eq!(from_file.workload, from_flags.workload);
        assert_eq!(from_file.notes, from_flags.notes);
    }

    #[test]
    fn notes_name_keys_as_the_file_has_them() {
        let asked = parse("[[workload]]\nname = \"home\"\nusers = 500\n").unwrap().remove(0);
        let notes = asked.notes.join("\n");
        assert!(notes.contains("\"capacity\", \"iops\" and \"throughput\" override it"), "{notes}");
        assert!(!notes.contains("--"), "{notes}");
    }

    #[test]
    fn invalid_file_is_refused_with_the_workload_and_the_reason() {
        let of = |lines: &str| format!("[[workload]]\nname = \"home\"\n{lines}\n");
        for (text, why) in [
            ("\nx = 1".to_owned(), "plan.toml: line 2: there is no key x; allowed: [[workload]]"),
            (String::new(), "plan.toml: there is no workload"),
            (
                "[[workload]]\ncapacity = \"1TiB\"".to_owned(),
                "plan.toml: line 1: workload 1: the name is missing",
            ),
            (
                of("capasity = \"1TiB\""),
                "plan.toml: line 3: workload home: there is no key capasity; allowed: name, average,",
            ),
            (of("years = 3"), "no key years"),
            ("[[workload]]\nname = \"a/b\"\nusers = 1".to_owned(), "plan.toml: line 2: workload 1: "),
            (
                of("iops = \"20k\""),
                "plan.toml: line 1: workload home: the capacity is missing: give \"capacity\" SIZE, like capacity = \"40TiB\"",
            ),
            (
                of("iops = 5\ncapacity = 40"),
                "plan.toml: line 4: workload home: capacity: \"40\" has no unit: ",
            ),
            (
                of("capacity = \"1TiB\"\nlike = \"home\""),
                "workload home: \"like\" sets the mix and not the amount: give \"users\" N, or the rate with \"iops\" or",
            ),
            (
                of("users = 1\ngpus = 2"),
                "plan.toml: line 4: workload home: gpus cannot be used with users: leave one out",
            ),
            (of("capacity = [\"1TiB\", \"2TiB\"]"), "line 3: workload home: capacity has one value alone"),
            (
                of("capacity = \"1TiB\"\nprotocol = \"ftp\""),
                "plan.toml: line 4: workload home: protocol: \"ftp\" is not",
            ),
            (
                of("capacity = \"1TiB\"\ncached = \"yes\""),
                "plan.toml: line 4: workload home: cached: \"yes\" is not allowed; allowed: true, false",
            ),
            (of("capacity = \"1TiB\"\ncell = 3"), "workload home: the key from is missing"),
            (of("users = [[1]]"), "line 3: workload home: users is not a text, a number"),
            (format!("{}{}", of("users = 1"), of("users = 2")), "line 5: two workloads have the name home"),
            ("workload = [".to_owned(), "plan.toml: line 1: not valid TOML: "),
        ] {
            let Err(error) = parse(&text) else { panic!("{text}") };
            let error = format!("{error:#}");
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
