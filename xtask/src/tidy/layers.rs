//! The order of a crate's top folders: each imports only those below.
//!
//! A crate with several folders lists them in its root, and may list files of the same level too:
//! `//! Layers, top down: `server`, `state`, `limits`.`

use std::collections::BTreeSet;

use super::imports::Graph;

const HEADING: &str = "Layers, top down";

/// A crate with this many top folders lists its layers.
const FOLDERS_MIN: usize = 2;

/// Modules that the list lacks, and imports of a module above.
pub(super) fn faults(name: &str, graph: &Graph<'_>) -> Vec<String> {
    let modules = || graph.modules.iter().filter(|module| !module.only_tests);
    let tops: BTreeSet<&str> = modules().filter_map(|module| module.path.first().copied()).collect();
    let folders: BTreeSet<&str> =
        modules().filter(|module| module.path.len() > 1).map(|module| module.path[0]).collect();
    let Some(root) = graph.modules.iter().find(|module| module.path.is_empty()) else { return Vec::new() };
    let layers = layers(&root.file.text);
    if layers.is_empty() {
        let too_many = folders.len() >= FOLDERS_MIN;
        let fault =
            || format!("{}: list the {} top folders under \"{HEADING}\"", root.file.path, folders.len());
        return too_many.then(fault).into_iter().collect();
    }
    let missing = folders.iter().filter(|top| !layers.contains(top));
    let unknown = layers.iter().filter(|layer| !tops.contains(*layer));
    let mut faults: Vec<String> = missing
        .map(|top| format!("{}: `{top}` is not among the layers", root.file.path))
        .chain(unknown.map(|layer| format!("{}: there is no module `{layer}`", root.file.path)))
        .collect();
    let floor = |index: usize| {
        let top = graph.modules[index].path.first()?;
        layers.iter().position(|layer| layer == top)
    };
    for (from, imports) in graph.imports.iter().enumerate() {
        for &to in imports {
            if let (Some(own), Some(other)) = (floor(from), floor(to))
                && other < own
            {
                let [from, to] = [from, to].map(|index| graph.modules[index].file.path.as_str());
                faults.push(format!("{from} imports {to}, which is above it among the layers of {name}"));
            }
        }
    }
    faults
}

fn layers(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| !line.starts_with("//!") || !line.contains(HEADING));
    let mut layers = Vec::new();
    for line in lines.take_while(|line| line.starts_with("//!")) {
        layers.extend(line.split('`').skip(1).step_by(2));
        if line.ends_with('.') {
            break;
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::super::file::File;
    use super::super::imports::graphs;
    use super::*;

    fn found(root: &str, files: &[(&str, &str)]) -> Vec<String> {
        let root = [("lib.rs", root)];
        let file = |(path, text): &(&str, &str)| File { path: format!("a/src/{path}"), text: (*text).into() };
        let files: Vec<File> = root.iter().chain(files).map(file).collect();
        graphs(&files).iter().flat_map(|(name, graph)| faults(name, graph)).collect()
    }

    const LISTED: &str =
        "//! A.\n//!\n//! Layers, top down:\n//! `x`,\n//! `y`, `z`.\n//! More of `x`.\nmod x; mod y; mod z;";

    #[test]
    fn import_upward_is_refused() {
        let downward = [("x/mod.rs", "mod b; use crate::y::Item;"), ("x/b.rs", "use super::Own;")];
        let upward = [("y/mod.rs", "mod b;"), ("y/b.rs", "use crate::x::b::Item;"), ("z.rs", "")];
        let faults = found(LISTED, &[&downward[..], &upward].concat());
        assert_eq!(faults, ["a/src/y/b.rs imports a/src/x/b.rs, which is above it among the layers of a"]);
        let for_tests = [("y/b.rs", "#[cfg(test)] mod tests { use crate::x::b::Item; }"), ("z.rs", "")];
        assert_eq!(found(LISTED, &[&downward[..], &for_tests].concat()), [""; 0]);
    }

    #[test]
    fn list_names_every_folder() {
        let folders = [("x/a.rs", ""), ("y/a.rs", "")];
        assert_eq!(found("", &folders), ["a/src/lib.rs: list the 2 top folders under \"Layers, top down\""]);
        assert_eq!(found("", &folders[..1]), [""; 0]);
        assert_eq!(found(LISTED, &folders), ["a/src/lib.rs: there is no module `z`"]);
        let more = [folders[0], folders[1], ("z.rs", ""), ("w/a.rs", "")];
        assert_eq!(found(LISTED, &more), ["a/src/lib.rs: `w` is not among the layers"]);
    }
}
