//! Compares the pages with the committed ones.

use super::{catalogs, commands, configuration, plan_file};
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

#[test]
fn pages_are_up_to_date() {
    check("commands.md", &commands::page());
    check("configuration.md", &configuration::page());
    check("levels.md", &catalogs::levels());
    check("scenarios.md", &catalogs::scenarios());
    check("plan-file.md", &plan_file::page());
    check("exit-codes.md", &commands::exit_codes());
}
