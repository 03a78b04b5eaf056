//! Links and anchors of documents, and the table of contents.

use std::collections::BTreeSet;

use super::file::File;
use super::source::line_of;

const CONTENTS: &str = "docs/SUMMARY.md";
/// Folders whose pages the table of contents lists.
const BOOK: [&str; 4] = ["docs/start/", "docs/how-to/", "docs/concepts/", "docs/reference/"];

pub(super) fn faults(files: &[File]) -> Vec<String> {
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    let mut faults: Vec<String> = documents.flat_map(|document| dead(document, files)).collect();
    let contents = files.iter().find(|file| file.path == CONTENTS).map_or("", |file| file.text.as_str());
    let pages = files.iter().filter(|file| BOOK.iter().any(|folder| file.path.starts_with(folder)));
    let missing = pages.filter(|page| !contents.contains(&format!("]({})", &page.path["docs/".len()..])));
    faults.extend(missing.map(|page| format!("{CONTENTS} does not list {}", page.path)));
    faults
}

/// Links to files or headings that do not exist.
fn dead(document: &File, files: &[File]) -> Vec<String> {
    let text = without_code(&document.text);
    let mut faults = Vec::new();
    for (at, _) in text.match_indices("](") {
        let Some((target, _)) = text[at + 2..].split_once(')') else { continue };
        if target.contains("://") || target.starts_with("mailto:") || target.is_empty() {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { document.path.clone() } else { joined(&document.path, path) };
        let place = format!("{}:{}", document.path, line_of(&document.text, at));
        let is_folder =
            || files.iter().any(|file| file.path.starts_with(&format!("{}/", path.trim_end_matches('/'))));
        match files.iter().find(|file| file.path == path) {
            None if !is_folder() && !is_picture(&path) => {
                faults.push(format!("{place}: {path} is not there"))
            }
            Some(file) if !anchor.is_empty() && !anchors(&file.text).contains(anchor) => {
                faults.push(format!("{place}: {path} has no heading #{anchor}"));
            }
            _ => {}
        }
    }
    faults
}

/// Pictures may not be text, so that they are not among the files.
fn is_picture(path: &str) -> bool {
    path.ends_with(".png")
}

/// Blanks code blocks and code spans; every byte keeps its position.
fn without_code(text: &str) -> String {
    let mut is_block = false;
    let mut plain = String::new();
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        let blank = |part: &str| {
            part.chars()
                .map(|c| if c == '\n' { "\n".to_owned() } else { " ".repeat(c.len_utf8()) })
                .collect::<String>()
        };
        if is_fence || is_block {
            plain.push_str(&blank(line));
        } else {
            for (number, part) in line.split('`').enumerate() {
                let tick = if number == 0 { "" } else { " " };
                plain.push_str(tick);
                plain.push_str(&if number % 2 == 0 { part.to_owned() } else { blank(part) });
            }
        }
        is_block ^= is_fence;
    }
    plain
}

/// Resolves a link against the document's folder.
fn joined(document: &str, path: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// The anchors of headings, as mdBook and GitHub make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_block = false;
    let headings = text.lines().filter(|line| {
        is_block ^= line.trim_start().starts_with("```");
        !is_block && line.starts_with('#')
    });
    headings
        .map(|heading| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn dead_links_and_anchors_are_found() {
        let other = file("a/other.md", "# One: `two`\n```\n# no\n```\n");
        let page = |link: &str| file("b/page.md", &format!("# Here\nx\n[a]({link}) `[b](c)`\n"));
        for good in ["../a/other.md", "../a/other.md#one-two", "#here", "https://x.org/y", "../a/"] {
            let page = page(good);
            assert_eq!(
                dead(&page, &[file(&page.path, &page.text), file(&other.path, &other.text)]),
                [""; 0],
                "{good}"
            );
        }
        for (bad, fault) in [
            ("other.md", "b/page.md:3: b/other.md is not there"),
            ("../a/other.md#no", "b/page.md:3: a/other.md has no heading #no"),
        ] {
            assert_eq!(dead(&page(bad), std::slice::from_ref(&other)), [fault]);
        }
    }

    #[test]
    fn page_of_the_book_is_in_the_contents() {
        let files = [
            file(CONTENTS, "[a](start/a.md)"),
            file(concat!("docs/start/", "a.md"), ""),
            file(concat!("docs/start/", "b.md"), ""),
        ];
        assert_eq!(faults(&files), [concat!("docs/SUMMARY.md does not list docs/start/", "b.md")]);
    }
}
