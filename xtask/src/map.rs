//! `cargo xtask map`: each source file with the first sentence of its documentation.

use std::path::Path;

use crate::process::{output, workspace};

pub(crate) fn run() -> anyhow::Result<()> {
    let root = workspace();
    let listing = output(&root, "git", &["-c", "safe.directory=*", "ls-files", "*/src/*.rs"])?;
    for path in String::from_utf8(listing)?.lines() {
        let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        println!("{path}: {}", first_sentence(&text).unwrap_or_else(|| test_file_name(path)));
    }
    Ok(())
}

fn first_sentence(text: &str) -> Option<String> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let paragraph: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |end| end + 1);
    (end > 0).then(|| paragraph[..end].to_owned())
}

/// Tests need no `//!` comment: the file name documents them.
fn test_file_name(path: &str) -> String {
    Path::new(path).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_sentence_may_span_several_lines() {
        let text = "//! A file: RFC 1.2 says\n//! how. More.\n//!\n//! Else.\nuse a;\n";
        assert_eq!(first_sentence(text).unwrap(), "A file: RFC 1.2 says how.");
        assert_eq!(first_sentence("//! One\n").unwrap(), "One");
        assert_eq!(first_sentence("use a;\n//! No.\n"), None);
        assert_eq!(test_file_name("a/src/rules_tests.rs"), "rules tests");
    }
}
