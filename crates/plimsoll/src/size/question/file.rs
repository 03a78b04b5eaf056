//! The file of a plan: `[[workload]]` tables with a name and the keys that the flags have.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::path::Path;

use anyhow::Context;
use clap::{Args, Command, FromArgMatches};
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
    let text = read(file)?;
    // The errors of the syntax name the file themselves, with the line.
    let table = toml_file::parse(&text, file).map_err(usage)?;
    read_table(&table).with_context(|| format!("{}", file.display()))
}

fn read_table(table: &Table) -> anyhow::Result<Vec<SizingRequest>> {
    if let Some(unknown) = table.keys().find(|key| *key != "workload") {
        return Err(usage(format!("there is no key {unknown}; allowed: [[workload]]")));
    }
    let Some(Value::Array(tables)) = table.get("workload").filter(|value| value.is_array()) else {
        return Err(usage("there is no workload; allowed: one [[workload]] table for each"));
    };
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    for (place, table) in tables.iter().enumerate() {
        let Some(table) = table.as_table() else {
            return Err(usage(format!("workload {}: it is not a table", place + 1)));
        };
        let Some(Value::String(name)) = table.get("name").filter(|name| name.is_str()) else {
            return Err(usage(format!("workload {}: the name is missing, like name = \"home\"", place + 1)));
        };
        if !names.insert(name.as_str()) {
            return Err(usage(format!("two workloads have the name {name}: give each its own")));
        }
        let asked = question(name, table)?.ask().map_err(|error| in_keys(name, error))?;
        all.push(SizingRequest { name: Some(name.clone()), ..asked });
    }
    Ok(all)
}

/// The error of a wrong workload, with the keys of the file in place of flags.
fn in_keys(name: &str, error: anyhow::Error) -> anyhow::Error {
    if !exit::is_usage(&error) {
        return error.context(format!("workload {name}"));
    }
    let message = format!("{error:#}");
    let mut words = message.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for place in 0..words.len() {
        let is_example = place > 0 && words[place - 1] == "like" && words[place].starts_with("--");
        if let Some(key) = words[place].strip_prefix("--").map(str::to_owned) {
            words[place] = key;
        }
        if is_example && place + 1 < words.len() {
            words[place + 1] = format!("= \"{}\"", words[place + 1]);
        }
    }
    usage(format!("workload {name}: {}", words.join(" ")))
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
fn question(name: &str, table: &Table) -> anyhow::Result<Question> {
    let keys = keys();
    let mut args = vec!["workload".to_owned()];
    for (key, value) in table.iter().filter(|(key, _)| *key != "name") {
        if !keys.contains(key) {
            let keys = keys.into_iter().collect::<Vec<_>>().join(", ");
            return Err(usage(format!("workload {name}: there is no key {key}; allowed: name, {keys}")));
        }
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            args.extend(flag(key, value).ok_or_else(|| {
                usage(format!("workload {name}: {key} is not a text, a number, true or false"))
            })?);
        }
    }
    let command = Question::augment_args(Command::new("workload"));
    let matches = command.try_get_matches_from(args);
    let found = matches.and_then(|matches| Question::from_arg_matches(&matches));
    found.map_err(|error| usage(format!("workload {name}: {}", reason(&error))))
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

/// The reason of a wrong flag in one line.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    match error.source() {
        Some(source) if !first.contains(&source.to_string()) => format!("{first}: {source}"),
        _ => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> anyhow::Result<Vec<SizingRequest>> {
        read_table(&toml_file::parse(text, Path::new("plan.toml")).map_err(usage)?)
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
    fn invalid_file_is_refused_with_the_workload_and_the_reason() {
        let of = |lines: &str| format!("[[workload]]\nname = \"home\"\n{lines}\n");
        for (text, why) in [
            ("x = 1".to_owned(), "no key x; allowed: [[workload]]"),
            (String::new(), "no workload"),
            ("[[workload]]\ncapacity = \"1TiB\"".to_owned(), "workload 1: the name is missing"),
            (of("capasity = \"1TiB\""), "workload home: there is no key capasity; allowed: name, average,"),
            (of("years = 3"), "no key years"),
            (of("iops = \"20k\""), "the capacity is missing: give capacity SIZE, like capacity = \"40TiB\""),
            (
                of("capacity = 40"),
                "workload home: invalid value '40' for '--capacity <SIZE>': \"40\" has no unit",
            ),
            (
                of("capacity = \"1TiB\"\nlike = \"home\""),
                "workload home: like sets the mix and not the amount: give users N",
            ),
            (of("users = [[1]]"), "users is not a text, a number"),
            (format!("{}{}", of("users = 1"), of("users = 2")), "two workloads have the name home"),
            ("workload = [".to_owned(), "plan.toml: line 1: not valid TOML: "),
        ] {
            let Err(error) = parse(&text) else { panic!("{text}") };
            let error = format!("{error:#}");
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
