//! Generated pages of `docs/reference`.

use std::path::Path;

/// Set it to write the pages anew.
const REWRITE: &str = "PLIMSOLL_REWRITE_GOLDEN";
const WIDTH: usize = 100;

/// Compares a page with the committed one.
pub(crate) fn check(name: &str, page: &str) {
    for line in page.lines() {
        let is_wide = line.chars().count() > WIDTH && !line.starts_with('|');
        assert!(!is_wide, "{name} has a line over {WIDTH} characters: {line}");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "{} differs: look at the difference that {REWRITE}=1 makes", path.display());
}

/// A row of a table.
pub(crate) fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The text in lines of the page's width.
pub(crate) fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}
