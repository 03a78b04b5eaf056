//! Files that import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::Graph;

/// A circle of more files is a fault.
const CIRCLE_FILES_MAX: usize = 3;

pub(super) fn faults(graph: &Graph<'_>) -> Vec<String> {
    let too_large = circles(graph).into_iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX);
    let fault = |circle: BTreeSet<&str>| {
        let names: Vec<&str> = circle.iter().copied().collect();
        format!(
            "{} files import each other in a circle, at most {CIRCLE_FILES_MAX} may: {}",
            circle.len(),
            names.join(", ")
        )
    };
    too_large.map(fault).collect()
}

/// Groups of files each of which imports every other, over however many others.
fn circles<'a>(graph: &Graph<'a>) -> BTreeSet<BTreeSet<&'a str>> {
    let indexes = 0..graph.modules.len();
    let reached: BTreeMap<usize, BTreeSet<usize>> =
        indexes.clone().map(|index| (index, reachable(index, &graph.imports))).collect();
    let circle = |index: usize| -> BTreeSet<&'a str> {
        let round = reached[&index].iter().filter(|other| reached[other].contains(&index));
        round.map(|&other| graph.modules[other].file.path.as_str()).collect()
    };
    indexes.map(circle).collect()
}

/// The modules that a file reaches; itself only if there is a way back.
fn reachable(from: usize, imports: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<usize> = imports[from].iter().copied().filter(|&import| import != from).collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(&imports[module]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::file::File;
    use super::super::imports::graphs;
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: format!("crates/a/src/{path}"), text: text.to_owned() }
    }

    fn faults_among(files: &[File]) -> Vec<String> {
        graphs(files).values().flat_map(faults).collect()
    }

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<File> = files.iter().map(|(path, text)| file(path, text)).collect();
        let graphs = graphs(&files);
        let all = graphs.values().flat_map(circles).collect::<Vec<_>>();
        let names = |circle: BTreeSet<&str>| -> Vec<String> {
            circle.into_iter().map(|path| path.trim_start_matches("crates/a/src/").to_owned()).collect()
        };
        all.into_iter().filter(|circle| !circle.is_empty()).map(names).collect()
    }

    #[test]
    fn a_circle_is_found_however_paths_are_written() {
        for (way, back) in [
            ("use crate::b::c::Item;", "use super::super::a::Other;"),
            ("use super::b::{self, c::{Item as _, More}};", "use crate::{a::{Other}, x};"),
            ("fn f() { crate::b::c::item() }", "fn f() -> crate::a::Other {}"),
            (
                "use crate::b as d; fn f() { d::c::item::<u8>() }",
                "pub(in crate::b) fn f() -> crate::a::Other {}",
            ),
            ("mod inside { use super::super::b::c::*; }", "use crate::a::*;"),
        ] {
            let files =
                [("lib.rs", "mod a; mod b;"), ("a.rs", way), ("b/mod.rs", "mod c;"), ("b/c.rs", back)];
            assert_eq!(found(&files), [["a.rs", "b/c.rs"]], "{way} {back}");
        }
    }

    #[test]
    fn re_export_of_a_parent_leads_to_the_definition() {
        let files = [
            ("b/mod.rs", "mod c; mod d; pub use c::Item; pub(crate) use self::d::{Inner as Other};"),
            ("b/c.rs", "use super::Other;"),
            ("b/d.rs", "use crate::b::Item as Used;"),
            ("b/e.rs", "use super::d::Other;"),
            ("lib.rs", "pub use b::Item; pub mod b;"),
            ("f.rs", "use crate::Item;"),
        ];
        assert_eq!(found(&files), [["b/c.rs", "b/d.rs"]]);
    }

    #[test]
    fn no_import_no_circle() {
        for text in [
            "#[cfg(test)] mod tests { use super::*; use crate::b::Item; }",
            "#[cfg(test)]\nuse crate::b::Item;",
            "pub(in crate::b) struct A;",
            "// use crate::b;\nconst A: &str = \"crate::b::Item\";",
            "use b::Item;",
            "mod b { } fn f() { other::b::Item }",
        ] {
            assert_eq!(found(&[("a.rs", text), ("b.rs", "use crate::a::Other;")]), [[""; 0]; 0], "{text}");
        }
        let tests_of_their_own =
            [("a.rs", "#[cfg(test)]\nmod tests; use tests::x;"), ("a/tests.rs", "use super::*;")];
        assert_eq!(found(&tests_of_their_own), [[""; 0]; 0]);
        let other = File { path: "crates/c/src/b.rs".into(), text: "use crate::a::Other;".into() };
        assert_eq!(faults_among(&[file("a.rs", "use crate::b::Item;"), other]), [""; 0]);
    }

    #[test]
    fn circle_of_more_than_three_files_is_refused() {
        let next = |number: usize, of: usize| {
            let next = (number + 1) % of;
            file(&format!("f{number}.rs"), &format!("use crate::f{next}::A{next};"))
        };
        let ring = |of: usize| (0..of).map(|number| next(number, of)).collect::<Vec<_>>();
        assert_eq!(faults_among(&ring(3)), [""; 0]);
        assert!(
            faults_among(&ring(4))[0]
                .starts_with("4 files import each other in a circle, at most 3 may: crates/a/src/f0.rs, ")
        );
    }
}
