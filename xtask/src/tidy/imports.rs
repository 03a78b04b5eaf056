//! The imports among the files of a crate.
//!
//! A path is followed through the modules that are files, down to the deepest one. `crate::a::b::Item` leads to
//! `a/b.rs`, or to `a.rs` if `b` has no file. A re-exported item belongs to the file that defines it. Modules that only
//! tests compile are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::file::File;
use super::source::{Source, is_word};

/// Re-exports of re-exports that are followed.
const RE_EXPORTS_MAX: usize = 8;

pub(super) struct Graph<'a> {
    pub(super) modules: Vec<Module<'a>>,
    /// By index; empty for modules that only tests compile.
    pub(super) imports: Vec<BTreeSet<usize>>,
}

pub(super) struct Module<'a> {
    pub(super) file: &'a File,
    /// The path in the crate, empty for the root.
    pub(super) path: Vec<&'a str>,
    pub(super) only_tests: bool,
}

pub(super) fn graphs(files: &[File]) -> BTreeMap<&str, Graph<'_>> {
    let mut crates: BTreeMap<&str, Vec<Module<'_>>> = BTreeMap::new();
    for file in files {
        let Some((name, within)) = file.path.split_once("/src/") else { continue };
        let Some(within) = within.strip_suffix(".rs") else { continue };
        let mut path: Vec<&str> = within.split('/').collect();
        if path.last() == Some(&"mod") || ["lib", "main"].contains(&within) {
            path.pop();
        }
        crates.entry(name).or_default().push(Module { file, path, only_tests: false });
    }
    crates.into_iter().map(|(name, modules)| (name, Graph::of(modules))).collect()
}

impl<'a> Graph<'a> {
    fn of(mut modules: Vec<Module<'a>>) -> Self {
        let code = modules.iter().map(|module| Source::new(&module.file.path, &module.file.text).into_code());
        let code: Vec<String> = code.collect();
        let found: Vec<Found<'_>> =
            modules.iter().zip(&code).map(|(module, code)| Found::read(code, &module.path)).collect();
        let only_tests: Vec<&Vec<&str>> = found.iter().flat_map(|found| &found.only_tests).collect();
        // A file of tests beside the one that declares it with `#[path]`.
        let is_tests = |name: &str| name == "tests" || name.ends_with("_tests");
        let only_tests: Vec<bool> = modules
            .iter()
            .map(|module| {
                module.path.last().is_some_and(|name| is_tests(name))
                    || only_tests.iter().any(|tests| module.path.starts_with(tests))
            })
            .collect();
        modules.iter_mut().zip(only_tests).for_each(|(module, only_tests)| module.only_tests = only_tests);
        let tree: Tree<'_> = modules
            .iter()
            .enumerate()
            .filter(|(_, module)| !module.only_tests)
            .map(|(index, module)| (module.path.clone(), index))
            .collect();
        let brought: Vec<Brought<'_>> = found.iter().map(|found| found.brought(&tree)).collect();
        let imports = found.iter().zip(&modules).map(|(found, module)| {
            if module.only_tests { BTreeSet::new() } else { found.imports(&tree, &brought) }
        });
        Self { imports: imports.collect(), modules }
    }
}

type Tree<'a> = BTreeMap<Vec<&'a str>, usize>;

/// Imported names, with their origins.
type Brought<'a> = BTreeMap<&'a str, Vec<&'a str>>;

#[derive(Default)]
struct Found<'c> {
    module: Vec<&'c str>,
    /// The imports of `use`: the module, the name and the origin.
    uses: Vec<(Vec<&'c str>, Vec<&'c str>, &'c str)>,
    /// The re-exports of `pub use`. Others find items through them, but the file does not need them.
    re_exports: Vec<(Vec<&'c str>, Vec<&'c str>, &'c str)>,
    paths: Vec<(Vec<&'c str>, Vec<&'c str>)>,
    only_tests: Vec<Vec<&'c str>>,
}

impl<'c> Found<'c> {
    fn read(code: &'c str, module: &[&'c str]) -> Self {
        let tokens = tokens(code);
        let token = |at: usize| tokens.get(at).copied().unwrap_or("");
        let mut found = Self { module: module.to_vec(), ..Self::default() };
        // The module that each open brace begins.
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

    fn brought(&self, tree: &Tree<'_>) -> Brought<'c> {
        let own = self.uses.iter().chain(&self.re_exports).filter(|(inside, ..)| *inside == self.module);
        own.filter_map(|(inside, path, name)| Some((*name, absolute(inside, path, tree)?))).collect()
    }

    /// The files that the paths lead to; `brought` lists the imports of each file.
    fn imports(&self, tree: &Tree<'_>, brought: &[Brought<'_>]) -> BTreeSet<usize> {
        let mut imports = BTreeSet::new();
        // A module imported whole matters only if the file uses an item of it.
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

/// The file that defines the item of a path, found through every file that re-exports it.
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

/// Words, `::`, and every other character alone.
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

/// The index after the bracket that closes the first one after `at`.
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

/// Matches `#[cfg(test)]`, alone or with other conditions that must hold too.
fn is_for_tests(attribute: &[&str]) -> bool {
    let has = |word: &str| attribute.contains(&word);
    has("cfg") && has("test") && !has("any") && !has("not")
}

/// The paths of a `use`, each with its imported name.
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

/// The parts between commas outside of braces.
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
