//! Pages of `docs/reference` that follow from declarations. A test compares each with the committed page;
//! `PLIMSOLL_REWRITE_GOLDEN=1 cargo test -p plimsoll reference` writes them.

mod catalogs;
mod commands;
mod configuration;
mod plan_file;
mod tests;

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// A table row of a Markdown page.
fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}
