//! Documents that agree with each other and with the tree.

use std::collections::BTreeMap;

use super::file::File;
use super::source::line_of;

/// A developer reads the map whole.
const ARCHITECTURE_BYTES_MAX: usize = 12 << 10;

const RECORDS: &str = "docs/decisions/";

/// Documents that describe the current tree.
const MAPS: [&str; 4] = ["ARCHITECTURE.md", "docs/decisions/", "docs/formats/", "docs/internals/"];

pub(super) fn faults(files: &[File]) -> Vec<String> {
    let mut faults = index(files);
    if let Some(map) = files.iter().find(|file| file.path == "ARCHITECTURE.md")
        && map.text.len() > ARCHITECTURE_BYTES_MAX
    {
        let bytes = map.text.len();
        faults.push(format!("ARCHITECTURE.md has {bytes} bytes; allowed: {ARCHITECTURE_BYTES_MAX}"));
    }
    let maps = files.iter().filter(|file| MAPS.iter().any(|map| file.path.starts_with(map)));
    faults.extend(maps.flat_map(|map| missing_paths(map, files)));
    faults
}

fn index(files: &[File]) -> Vec<String> {
    let readme = format!("{RECORDS}README.md");
    let Some(index) = files.iter().find(|file| file.path == readme) else {
        return vec![format!("there is no {readme}")];
    };
    let row = |line: &'_ str| -> Option<(String, String)> {
        let cells: Vec<&str> = line.strip_prefix("| [")?.strip_suffix(" |")?.splitn(3, " | ").collect();
        let [link, title, status] = cells[..] else { return None };
        let name = link.split_once('(')?.1.strip_suffix(')')?;
        Some((name.to_owned(), format!("{title} | {status}")))
    };
    let mut rows: BTreeMap<String, String> = index.text.lines().filter_map(row).collect();
    let mut faults = Vec::new();
    for file in files {
        let Some(name) = file.path.strip_prefix(RECORDS).filter(|name| *name != "README.md") else {
            continue;
        };
        let wanted = title_and_status(&file.text);
        match (rows.remove(name), wanted) {
            (_, None) => faults.push(format!(
                "{}: begin with \"# NNNN: title\", and the section \"Status\" with \"Accepted.\", \"Amended by …\" or \
                 \"Superseded by …\"",
                file.path
            )),
            (Some(row), Some(wanted)) if row == wanted => {}
            (_, Some(wanted)) => faults.push(format!("{readme}: the row of {name} should say: {wanted}")),
        }
    }
    faults.extend(rows.keys().map(|name| format!("{readme}: there is no {name}")));
    faults
}

/// Formats a record's title and status as the index does.
fn title_and_status(record: &str) -> Option<String> {
    let title = record.lines().next()?.strip_prefix("# ")?.split_once(": ")?.1;
    let status = record.split_once("\n## Status\n\n")?.1;
    if status.starts_with("Accepted.") {
        return Some(format!("{title} | Accepted"));
    }
    let how = ["Amended by ", "Superseded by "].into_iter().find(|how| status.starts_with(how))?;
    let links = status[how.len()..].split(" and ").map_while(|rest| {
        let (number, rest) = rest.strip_prefix('[')?.split_once("](")?;
        Some(format!("[{number}]({})", rest.split_once(')')?.0))
    });
    let links: Vec<String> = links.collect();
    (!links.is_empty()).then(|| format!("{title} | {how}{}", links.join(", ")))
}

/// Source files that a document names in backticks but the tree lacks. The path may begin at a crate.
fn missing_paths(document: &File, files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut at = 0;
    for (index, span) in document.text.split('`').enumerate() {
        let start = at;
        at += span.len() + 1;
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/_-.{},".contains(c);
        if index % 2 == 0 || !span.contains("/src/") || !span.chars().all(is_path) {
            continue;
        }
        for path in alternatives(span) {
            let whole = [path.clone(), format!("crates/{path}")];
            let exists = |file: &File| {
                whole.iter().any(|path| {
                    let rest = file.path.strip_prefix(path.trim_end_matches('/'));
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                })
            };
            if !files.iter().any(exists) {
                faults.push(format!(
                    "{}:{}: {path} is not there",
                    document.path,
                    line_of(&document.text, start)
                ));
            }
        }
    }
    faults
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`.
fn alternatives(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (among, after))) => {
            among.split(',').map(|one| format!("{before}{one}{after}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Split, because tidy would look for this document.
    const RECORD: &str = concat!("do", "cs/decisions/0001-a.md");

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn record(path: &str, status: &str) -> File {
        file(path, &format!("# 0001: A title\n\n## Context\n\n## Status\n\n{status}\n"))
    }

    #[test]
    fn index_agrees_with_each_record() {
        let row = |status: &str| {
            file("docs/decisions/README.md", &format!("| [0001](0001-a.md) | A title | {status} |\n"))
        };
        let accepted = record(RECORD, "Accepted. Code: x.");
        assert_eq!(index(&[row("Accepted"), accepted]), [""; 0]);
        let amended = || record(RECORD, "Amended by [0002](0002-b.md) and [0003](0003-c.md). More.");
        let status = row("Amended by [0002](0002-b.md), [0003](0003-c.md)");
        assert_eq!(index(&[status, amended()]), [""; 0]);
        let differs = index(&[row("Accepted"), amended()]);
        assert!(
            differs[0].contains("should say: A title | Amended by [0002](0002-b.md), [0003]"),
            "{differs:?}"
        );
        let vague = index(&[row("Accepted"), record(RECORD, "Done.")]);
        assert!(vague[0].starts_with(&format!("{RECORD}: begin with")), "{vague:?}");
        assert_eq!(index(&[row("Accepted")]), ["docs/decisions/README.md: there is no 0001-a.md"]);
        let unlisted = [file("docs/decisions/README.md", ""), amended()];
        assert_eq!(index(&unlisted).len(), 1);
    }

    #[test]
    fn path_in_a_document_is_there() {
        let files = [file("crates/a/src/b.rs", ""), file("crates/a/src/c/d.rs", "")];
        let good = "`crates/a/src/b.rs` `a/src/{b,c/d}.rs` `a/src/c/` `GET /src/` a/src/x.rs `b.rs`";
        assert_eq!(missing_paths(&file("ARCHITECTURE.md", good), &files), [""; 0]);
        let bad = "x\n`a/src/{b,x}.rs`";
        assert_eq!(missing_paths(&file("m.md", bad), &files), ["m.md:2: a/src/x.rs is not there"]);
    }

    #[test]
    fn architecture_is_short() {
        let long = "x".repeat(ARCHITECTURE_BYTES_MAX + 1);
        let index = || file("docs/decisions/README.md", "");
        assert_eq!(faults(&[index(), file("ARCHITECTURE.md", &long[1..])]), [""; 0]);
        assert_eq!(faults(&[index(), file("ARCHITECTURE.md", &long)]).len(), 1);
    }
}
