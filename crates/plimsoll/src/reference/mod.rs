//! Pages of `docs/reference` that follow from declarations. A test compares each with the committed page;
//! `PLIMSOLL_REWRITE_GOLDEN=1 cargo test -p plimsoll reference` writes them.

mod catalogs;
mod commands;
mod configuration;

use std::fs;
use std::path::Path;

/// Rewrites pages instead of comparing them.
const REWRITE: &str = "PLIMSOLL_REWRITE_GOLDEN";

fn check(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os(REWRITE).is_some() {
        fs::write(&path, page).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "docs/reference/{name} is out of date: set {REWRITE}=1 to write it");
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// A table row of a Markdown page.
fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

#[test]
fn pages_are_up_to_date() {
    check("commands.md", &commands::page());
    check("configuration.md", &configuration::page());
    check("levels.md", &catalogs::levels());
    check("scenarios.md", &catalogs::scenarios());
    check("exit-codes.md", &commands::exit_codes());
}
