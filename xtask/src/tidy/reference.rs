//! Pages of `docs/reference` that follow from the source: bounds and log messages.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::file::File;

const BOUNDS: &str = "docs/reference/bounds.md";
const MESSAGES: &str = "docs/reference/messages.md";
/// Files with bounds, and a heading for each.
const LIMITS: [(&str, &str); 7] = [
    ("crates/transport/src/limits.rs", "Connections"),
    ("crates/nfs/src/limits.rs", "NFS"),
    ("crates/smb/src/limits.rs", "SMB"),
    ("crates/identity/src/limits.rs", "Logins"),
    ("crates/http-server/src/limits.rs", "API"),
    ("crates/replicate/src/limits.rs", "Replications of peers"),
    ("crates/bench/src/agent/limits.rs", "Agents of the benchmark"),
];
const LEVELS: [&str; 3] = ["error", "warn", "info"];

/// The pages as they should be.
pub(super) fn pages(files: &[File]) -> Vec<(&'static str, String)> {
    vec![(BOUNDS, bounds(files)), (MESSAGES, messages(files))]
}

pub(super) fn faults(files: &[File]) -> Vec<String> {
    let committed = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let stale = pages(files).into_iter().filter(|(path, page)| committed(path) != Some(page.as_str()));
    stale.map(|(path, _)| format!("{path} is out of date: write it with cargo xtask tidy --write")).collect()
}

fn bounds(files: &[File]) -> String {
    let mut page = "# Bounds

Each table lists constants of one file. `K`, `M` and `G` are powers of 1,024. A client that reaches a
bound waits or gets an error; it never takes more.
"
    .to_owned();
    for (path, heading) in LIMITS {
        let Some(file) = files.iter().find(|file| file.path == path) else { continue };
        _ = write!(page, "\n## {heading}\n\nFrom `{path}`.\n\n| bound | value | meaning |\n|---|---|---|\n");
        let mut about = String::new();
        for line in file.text.lines() {
            let line = line.trim();
            if let Some(doc) = line.strip_prefix("///") {
                about = format!("{about} {}", doc.trim());
            } else if let Some((name, value)) = constant(line) {
                _ = writeln!(page, "| `{name}` | {} | {} |", shown(value), cell(&about));
                about.clear();
            } else {
                about.clear();
            }
        }
    }
    page
}

/// Splits `pub const NAME: TYPE = VALUE;`.
fn constant(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("pub const ").or_else(|| line.strip_prefix("pub(crate) const "))?;
    let (name, rest) = rest.split_once(':')?;
    Some((name, rest.split_once(" = ")?.1.strip_suffix(';')?))
}

/// A value for people; an expression stays as it is.
fn shown(value: &str) -> String {
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    let product = |text: &str| text.split('*').map(number).try_fold(1_u64, |all, one| all.checked_mul(one?));
    let whole = match value.split_once("<<") {
        Some((base, shift)) => product(base)
            .zip(number(shift))
            .and_then(|(base, shift)| base.checked_shl(u32::try_from(shift).ok()?)),
        None => product(value),
    };
    let Some(whole) = whole else { return format!("`{value}`") };
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = units.into_iter().find(|(unit, _)| whole >= *unit && whole.is_multiple_of(*unit));
    unit.map_or_else(|| whole.to_string(), |(unit, name)| format!("{} {name}", whole / unit))
}

fn messages(files: &[File]) -> String {
    let mut page = "# Log messages

The service logs to the standard error; under systemd to the journal. `PLIMSOLL_LOG` sets the least
level: `error`, `warn`, `info` (the default) or `debug`. Braces stand for values, which follow a
message as `name=value`, too. [Logs and the record of changes](../how-to/logs.md) shows how to read
and filter them.

## A defect in the program

A message that begins with `a defect:` means that Plimsoll has a bug, and that a part of it has
panicked. It names the place in the program's source, the reason and the thread:

```
ERROR a defect: panicked at crates/nfs/src/v4/mod.rs:120:9:
index out of bounds: the len is 0 but the index is 0 thread=\"nfs\"
```

The next message, or the end of the process, shows the effect:

| next | effect |
|---|---|
| `a call panicked; its connection is closed` | one connection ends and its client connects again; other clients notice nothing |
| `a request to the API failed` | one request gets status 500 |
| `a task panicked: it goes on the next time` | the service repeats the task |
| no message | one call gets no answer; its client repeats it |
| the process ends with SIGABRT | all clients needed that thread. The unit restarts the service after 5 seconds, and clients wait as in each [restart](../how-to/operate.md#start-and-stop) |

Acknowledged data stays safe in each case. The metric `plimsoll_panics_total` counts the panics of
calls and tasks. A command that panics ends with status 101.

To report a defect, send this message, the lines before it, and the output of `plimsoll --version`.
If the request of one client fails each time, end the program that sends it. After 5 restarts within
120 seconds systemd does not restart the service again. Then start it yourself:

```
systemctl reset-failed plimsoll
systemctl start plimsoll
```
"
    .to_owned();
    for level in LEVELS {
        _ = write!(page, "\n## {level}\n\n| message | from |\n|---|---|\n");
        let mut rows = BTreeSet::new();
        for file in files.iter().filter(|file| is_product(&file.path)) {
            let part = file.path.split('/').nth(1).unwrap_or_default();
            rows.extend(
                logged(without_tests(&file.text), level)
                    .into_iter()
                    .map(|text| format!("| {} | {part} |\n", cell(&text))),
            );
        }
        page.extend(rows);
    }
    page
}

fn is_product(path: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("testing");
    path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs") && !is_test
}

/// The text before the first module of tests in the file itself. `mod tests;` names another file.
fn without_tests(text: &str) -> &str {
    let modules = text.match_indices("#[cfg(test)]\nmod ");
    let is_inline = |at: usize| text[at..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
    let end = modules.map(|(at, _)| at).find(|at| is_inline(*at));
    &text[..end.unwrap_or(text.len())]
}

/// The messages of one level.
fn logged(code: &str, level: &str) -> Vec<String> {
    let call = format!("tracing::{level}!(");
    code.match_indices(&call).filter_map(|(at, _)| message(&code[at + call.len()..])).collect()
}

/// The first string of a macro call that is an argument of its own, neither a field's value nor a part of one.
fn message(arguments: &str) -> Option<String> {
    let mut rest = arguments;
    loop {
        let (before, after) = rest.split_once('"')?;
        let mut text = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()? {
                    (_, '\n') => {
                        let spaces = characters.as_str();
                        let trimmed = spaces.trim_start();
                        (spaces.len() - trimmed.len() > 0)
                            .then(|| characters.nth(spaces.len() - trimmed.len() - 1));
                    }
                    (_, other) => text.push(other),
                },
                (_, other) => text.push(other),
            }
        };
        let before = before.trim_end();
        if before.is_empty() || before.ends_with(',') {
            return Some(text);
        }
        rest = &after[end + 1..];
    }
}

fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|").replace('<', "&lt;").replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_values_for_people() {
        for (value, expected) in [
            ("1 << 20", "1 M"),
            ("16_384", "16 K"),
            ("24 * 3600", "86400"),
            ("A + 1", "`A + 1`"),
            ("35", "35"),
        ] {
            assert_eq!(shown(value), expected);
        }
        assert_eq!(constant("pub const A_MAX: usize = 1 << 20;"), Some(("A_MAX", "1 << 20")));
        assert_eq!(constant("const A: u8 = 1;"), None);
    }

    #[test]
    fn messages_are_found_behind_fields() {
        let code =
            "tracing::warn!(%error, name = \"x\", \"cannot \\\n    read {}\", path); tracing::info!(\"a\");";
        assert_eq!(logged(code, "warn"), ["cannot read {}"]);
        assert_eq!(logged(code, "info"), ["a"]);
        let nested = "tracing::error!(thread = name.unwrap_or(\"unnamed\"), \"a defect: {panic}\");";
        assert_eq!(logged(nested, "error"), ["a defect: {panic}"]);
    }

    #[test]
    fn tests_in_the_file_end_the_text_and_declared_modules_do_not() {
        let declared = "#[cfg(test)]\nmod tests;\nfn a() {}\n";
        assert_eq!(without_tests(declared), declared);
        let inline = format!("{declared}#[cfg(test)]\nmod tests {{\n}}\n");
        assert_eq!(without_tests(&inline), declared);
    }
}
