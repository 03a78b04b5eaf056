//! The rows that `--only` selects.

use anyhow::bail;

pub(super) const V41: &str = "v41.";
pub(super) const SMB: &str = "smb.";

/// Without prefixes, all keys are selected.
pub(super) fn is_selected(only: &[String], key: &str) -> bool {
    only.is_empty() || only.iter().any(|wanted| key.starts_with(wanted.as_str()))
}

pub(super) fn require_known(only: &[String], keys: &[String]) -> anyhow::Result<()> {
    for wanted in only {
        if !keys.iter().any(|key| key.starts_with(wanted.as_str())) {
            bail!("--only {wanted}: no row key begins with this; keys: {}", keys.join(" "));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_selected_by_their_beginnings() {
        let only = |wanted: &[&str]| wanted.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(is_selected(&[], "read4k"));
        assert!(is_selected(&only(&["write", "read"]), "read4k"));
        assert!(!is_selected(&only(&["read"]), "v41.read4k"));
        assert!(is_selected(&only(&["smb."]), "smb.read4k"));
        let keys = only(&["read4k", "v41.read4k"]);
        require_known(&only(&["v41.", "read"]), &keys).unwrap();
        let error = require_known(&only(&["reed"]), &keys).unwrap_err().to_string();
        assert_eq!(error, "--only reed: no row key begins with this; keys: read4k v41.read4k");
    }
}
