//! Which file imports which, and where that goes round in a circle.
//!
//! A path is followed through the modules that are files, down to the deepest one: `crate::a::b::Item` leads to `a/b.rs`,
//! or to `a.rs` where `b` is no file. What a module re-exports belongs to the file that defines it. What is compiled for
//! tests alone is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::file::File;
use super::source::{Source, is_word};

/// Files of a circle above which it is a fault.
const CIRCLE_FILES_MAX: usize = 3;

/// Re-exports of re-exports that are followed.
const RE_EXPORTS_MAX: usize = 8;

/// A circle that is not mended yet: one of its files, how many it may have, and why it is there.
pub(super) type Known<'a> = (&'a str, usize, &'a str);

/// Circles that are not mended yet. They may shrink, but not grow; a row whose circle is gone is a fault.
pub(super) const KNOWN: &[Known<'_>] = &[];

/// Circles of too many files, except for the known ones, and known ones that are gone.
pub(super) fn faults(files: &[File], known: &[Known<'_>]) -> Vec<String> {
    let circles = crates(files).into_values().flat_map(|modules| circles(&modules));
    let circles: Vec<BTreeSet<&str>> = circles.filter(|circle| circle.len() > CIRCLE_FILES_MAX).collect();
    let mut faults = Vec::new();
    for circle in &circles {
        let known = known.iter().filter(|(file, ..)| circle.contains(file));
        let files_max = known.map(|&(_, files_max, _)| files_max).max().unwrap_or(CIRCLE_FILES_MAX);
        if circle.len() > files_max {
            let names: Vec<&str> = circle.iter().copied().collect();
            faults.push(format!(
                "{} files import each other in a circle, at most {files_max} may: {}",
                circle.len(),
                names.join(", ")
            ));
        }
    }
    for (file, _, reason) in known {
        if !circles.iter().any(|circle| circle.contains(file)) {
            faults.push(format!(
                "{file} is in no circle of imports any more; tidy's list of known ones still says: {reason}"
            ));
        }
    }
    faults
}

/// A file of a crate.
struct Module<'a> {
    file: &'a str,
    /// Its place in the crate, empty for the root.
    path: Vec<&'a str>,
    code: String,
}

/// The modules of each crate that are files.
fn crates(files: &[File]) -> BTreeMap<&str, Vec<Module<'_>>> {
    let mut crates: BTreeMap<&str, Vec<Module<'_>>> = BTreeMap::new();
    for file in files {
        let Some((name, within)) = file.path.split_once("/src/") else { continue };
        let Some(within) = within.strip_suffix(".rs") else { continue };
        let mut path: Vec<&str> = within.split('/').collect();
        if path.last() == Some(&"mod") || ["lib", "main"].contains(&within) {
            path.pop();
        }
        let code = Source::new(&file.path, &file.text).into_code();
        crates.entry(name).or_default().push(Module { file: &file.path, path, code });
    }
    crates
}

/// Groups of files each of which imports every other, over however many others.
fn circles<'a>(modules: &[Module<'a>]) -> BTreeSet<BTreeSet<&'a str>> {
    let found: Vec<Found<'_>> =
        modules.iter().map(|module| Found::read(&module.code, &module.path)).collect();
    let only_tests: Vec<&Vec<&str>> = found.iter().flat_map(|found| &found.only_tests).collect();
    let kept = |module: &Module<'_>| !only_tests.iter().any(|tests| module.path.starts_with(tests));
    let tree: Tree<'_> = modules
        .iter()
        .enumerate()
        .filter(|(_, module)| kept(module))
        .map(|(index, module)| (module.path.clone(), index))
        .collect();
    let brought: Vec<Brought<'_>> = found.iter().map(|found| found.brought(&tree)).collect();
    let imports: Vec<BTreeSet<usize>> = found.iter().map(|found| found.imports(&tree, &brought)).collect();
    let reached: BTreeMap<usize, BTreeSet<usize>> =
        tree.values().map(|&index| (index, reachable(index, &imports))).collect();
    let circle = |index: &usize| {
        let round = reached[index].iter().filter(|other| reached[other].contains(index));
        round.map(|&other| modules[other].file).collect()
    };
    tree.values().map(circle).collect()
}

/// Where one comes from a file; itself only if there is a way back.
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

/// The index of each file by its path of modules.
type Tree<'a> = BTreeMap<Vec<&'a str>, usize>;

/// What a file brings into its own module by `use`: each name with where it comes from.
type Brought<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// The paths in a file that may lead to another one.
#[derive(Default)]
struct Found<'c> {
    /// The module that the file is.
    module: Vec<&'c str>,
    /// Of `use`, each with the module it stands in and the name that it brings.
    uses: Vec<(Vec<&'c str>, Vec<&'c str>, &'c str)>,
    /// Of `pub use`: others find something through it, but the file does not need it.
    re_exports: Vec<(Vec<&'c str>, Vec<&'c str>, &'c str)>,
    /// In expressions and types.
    paths: Vec<(Vec<&'c str>, Vec<&'c str>)>,
    /// Modules that exist in tests only.
    only_tests: Vec<Vec<&'c str>>,
}

impl<'c> Found<'c> {
    /// Reads a file that is `module`.
    fn read(code: &'c str, module: &[&'c str]) -> Self {
        let tokens = tokens(code);
        let token = |at: usize| tokens.get(at).copied().unwrap_or("");
        let mut found = Self { module: module.to_vec(), ..Self::default() };
        // For each open brace, the name of the module that it begins.
        let mut scopes: Vec<Option<&str>> = Vec::new();
        let (mut at, mut for_tests, mut re_exports) = (0, false, false);
        while at < tokens.len() {
            let inside =
                || module.iter().copied().chain(scopes.iter().copied().flatten()).collect::<Vec<_>>();
            let here = at;
            match token(at) {
                "#" => {
                    let end = closing(&tokens, at);
                    for_tests |= is_for_tests(&tokens[at..end]);
                    at = end;
                    continue;
                }
                "pub" => {
                    at = if token(at + 1) == "(" { closing(&tokens, at) } else { at + 1 };
                    re_exports = token(at) == "use";
                    continue;
                }
                "mod" if token(at + 2) == ";" => {
                    if for_tests {
                        found.only_tests.push([inside(), vec![token(at + 1)]].concat());
                    }
                    at += 2;
                }
                "mod" if token(at + 2) == "{" && for_tests => at = closing(&tokens, at) - 1,
                "mod" if token(at + 2) == "{" => {
                    scopes.push(Some(token(at + 1)));
                    at += 2;
                }
                "use" if token(at + 1) != "<" => {
                    let end = tokens[at..]
                        .iter()
                        .position(|&token| token == ";")
                        .map_or(tokens.len(), |length| at + length);
                    if !for_tests {
                        let mut leaves = Vec::new();
                        use_tree(&tokens[at + 1..end], &[], &mut leaves);
                        let inside = inside();
                        let uses = leaves.into_iter().map(|(path, name)| (inside.clone(), path, name));
                        if re_exports { &mut found.re_exports } else { &mut found.uses }.extend(uses);
                    }
                    at = end;
                }
                "{" => scopes.push(None),
                "}" => drop(scopes.pop()),
                word if word.starts_with(is_word) && token(at + 1) == "::" => {
                    let mut path = vec![word];
                    while token(at + 1) == "::" && token(at + 2).starts_with(is_word) {
                        path.push(token(at + 2));
                        at += 2;
                    }
                    if here == 0 || token(here - 1) != "::" {
                        found.paths.push((inside(), path));
                    }
                }
                _ => {}
            }
            (for_tests, re_exports) = (false, false);
            at += 1;
        }
        found
    }

    /// What the file brings into its module.
    fn brought(&self, tree: &Tree<'_>) -> Brought<'c> {
        let own = self.uses.iter().chain(&self.re_exports).filter(|(inside, ..)| *inside == self.module);
        own.filter_map(|(inside, path, name)| Some((*name, absolute(inside, path, tree)?))).collect()
    }

    /// The files that the paths lead to; `brought` is what each file brings into its module.
    fn imports(&self, tree: &Tree<'_>, brought: &[Brought<'_>]) -> BTreeSet<usize> {
        let mut imports = BTreeSet::new();
        // A module that is imported whole matters where something of it is used.
        let mut names: BTreeMap<(&[&str], &str), Vec<&str>> = BTreeMap::new();
        for (inside, path, name) in &self.uses {
            let Some(path) = absolute(inside, path, tree) else { continue };
            if tree.contains_key(&path) && *name != "*" {
                names.insert((inside, name), path);
            } else {
                imports.extend(home(&path, tree, brought));
            }
        }
        for (inside, path) in &self.paths {
            let path = match names.get(&(inside.as_slice(), path[0])) {
                Some(imported) => Some([imported, &path[1..]].concat()),
                None => absolute(inside, path, tree),
            };
            imports.extend(path.and_then(|path| home(&path, tree, brought)));
        }
        imports
    }
}

/// A path from the crate's root, if it does not leave the crate.
fn absolute<'c>(inside: &[&'c str], path: &[&'c str], tree: &Tree<'_>) -> Option<Vec<&'c str>> {
    let (first, rest) = path.split_first()?;
    match *first {
        "crate" => Some(rest.to_vec()),
        "self" => Some([inside, rest].concat()),
        "super" => {
            let ups = path.iter().take_while(|&&part| part == "super").count();
            Some([inside.get(..inside.len().checked_sub(ups)?)?, &path[ups..]].concat())
        }
        _ => tree.contains_key(&[inside, &[*first]].concat()).then(|| [inside, path].concat()),
    }
}

/// The file that defines what a path leads to, found through every file that brings it from another one.
fn home(path: &[&str], tree: &Tree<'_>, brought: &[Brought<'_>]) -> Option<usize> {
    let mut path = path.to_vec();
    for _ in 0..RE_EXPORTS_MAX {
        let (length, file) =
            (0..=path.len()).rev().find_map(|length| Some((length, *tree.get(&path[..length])?)))?;
        match path.get(length).and_then(|name| brought[file].get(name)) {
            Some(from) if from[..] != path[..=length] => path = [from, &path[length + 1..]].concat(),
            Some(_) | None => return Some(file),
        }
    }
    None
}

/// Words, `::`, and every other character by itself.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Behind the bracket that closes the first one after `at`.
fn closing(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0;
    for (index, &token) in tokens.iter().enumerate().skip(at) {
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 1 => return index + 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// `#[cfg(test)]`, alone or with other conditions that must hold too.
fn is_for_tests(attribute: &[&str]) -> bool {
    let has = |word: &str| attribute.contains(&word);
    has("cfg") && has("test") && !has("any") && !has("not")
}

/// The paths of a `use`, each with the name that it brings.
fn use_tree<'c>(tree: &[&'c str], prefix: &[&'c str], leaves: &mut Vec<(Vec<&'c str>, &'c str)>) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while let Some(&token) = tree.get(at) {
        match token {
            "{" => {
                let end = closing(tree, at);
                for part in parts(&tree[at + 1..end - 1]) {
                    use_tree(part, &path, leaves);
                }
                return;
            }
            "as" => break,
            "::" => {}
            // The prefix itself.
            "self" if !prefix.is_empty() => {}
            part => path.push(part),
        }
        at += 1;
    }
    let renamed = tree.iter().position(|&token| token == "as").and_then(|at| tree.get(at + 1));
    let Some(&name) = renamed.or(path.last()) else { return };
    if name == "*" {
        path.pop();
    }
    leaves.push((path, name));
}

/// What commas divide, outside of braces.
fn parts<'t, 'c>(tree: &'t [&'c str]) -> Vec<&'t [&'c str]> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, &token) in tree.iter().enumerate() {
        match token {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                parts.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: format!("crates/a/src/{path}"), text: text.to_owned() }
    }

    /// The circles among files, by their names without the common beginning.
    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<File> = files.iter().map(|(path, text)| file(path, text)).collect();
        let all = crates(&files).into_values().flat_map(|modules| circles(&modules)).collect::<Vec<_>>();
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
    fn what_a_parent_re_exports_leads_to_where_it_is_defined() {
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
        assert_eq!(faults(&[file("a.rs", "use crate::b::Item;"), other], &[]), [""; 0]);
    }

    #[test]
    fn known_circles_may_shrink_and_must_be_there() {
        let next = |number: usize, of: usize| {
            let next = (number + 1) % of;
            file(&format!("f{number}.rs"), &format!("use crate::f{next}::A{next};"))
        };
        let ring = |of: usize| (0..of).map(|number| next(number, of)).collect::<Vec<_>>();
        let known = |files_max| [("crates/a/src/f1.rs", files_max, "because")];
        assert_eq!(faults(&ring(3), &[]), [""; 0]);
        assert!(
            faults(&ring(4), &[])[0]
                .starts_with("4 files import each other in a circle, at most 3 may: crates/a/src/f0.rs, ")
        );
        assert_eq!(faults(&ring(4), &known(5)), [""; 0]);
        assert_eq!(faults(&ring(6), &known(5)).len(), 1);
        let gone = faults(&ring(3), &known(5));
        assert!(gone[0].starts_with("crates/a/src/f1.rs is in no circle of imports any more"), "{gone:?}");
    }
}
