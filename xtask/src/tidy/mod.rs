//! `cargo xtask tidy`: the project's rules that no compiler checks.
//!
//! The rules cover the dependencies and vocabulary of crates, forbidden source, and documents that contradict the code.
//! Clippy checks function length, casts and printing.

mod circles;
mod documents;
mod file;
mod imports;
mod layers;
mod links;
mod project;
mod prose;
mod reference;
mod source;

use std::path::Path;

use anyhow::{bail, ensure};
use clap::CommandFactory;

use crate::cargo::metadata;
use file::File;
use project::{COMING, Commands, EDGES, FUZZ_EDGES};
use source::{Source, line_of};

/// Documents whose commands must exist.
const GUIDES: [&str; 2] = ["README.md", "CONTRIBUTING.md"];
/// Byte layouts that outlive the process, and the documents that draw them.
const FORMATS: [(&str, &str); 3] = [
    ("the file handle", "docs/formats/file-handle.md"),
    ("the state directory", "docs/formats/data-directory.md"),
    ("the store", "docs/formats/store.md"),
];
/// Directories of one machine. Each is split, because tidy would find this line.
const MACHINE_PATHS: [&str; 2] = [concat!("/", "work"), concat!("/", "root")];
/// Scripts for a machine that the tests create.
const MACHINE_PATHS_EXEMPT: &str = "xtask/guest/";
const UNFINISHED: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the pages of docs/reference that follow from the source, instead of comparing them.
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let root = crate::process::workspace();
    let mut files = file::files(&root)?;
    if args.write {
        for (path, page) in reference::pages(&files) {
            std::fs::write(root.join(path), page)?;
        }
        files = file::files(&root)?;
    }
    ensure!(!files.is_empty(), "no file to check in {}", root.display());
    let mut faults: Vec<String> = files.iter().flat_map(faults_of_file).collect();
    faults.extend(faults_of_project(&root, &files)?);
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    match faults.len() {
        0 => eprintln!("tidy: {} files are in order", files.len()),
        count => bail!("{count} faults"),
    }
    Ok(())
}

fn faults_of_file(file: &File) -> Vec<String> {
    let File { path, text } = file;
    let mut faults = Vec::new();
    if path.ends_with(".rs") {
        faults.extend(Source::new(path, text).faults());
    }
    if path.ends_with("Cargo.toml") {
        faults.extend(project::allowed_lints(path, text));
    }
    faults.extend(prose::faults(file));
    if !path.starts_with(MACHINE_PATHS_EXEMPT) {
        for place in MACHINE_PATHS.iter().flat_map(|machine| stray(text, machine)) {
            faults.push(format!("{path}:{place}: a path of one machine"));
        }
    }
    for place in UNFINISHED.iter().flat_map(|word| stray(text, word)) {
        faults.push(format!("{path}:{place}: unfinished, says a comment; finish it or open an issue"));
    }
    faults
}

/// The lines where `word` stands alone, without a name directly before or after it.
fn stray<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> {
    let goes_on = |c: char| c.is_alphanumeric() || "_-.$})*".contains(c);
    let alone = move |&at: &usize| {
        let after = &text[at + word.len()..];
        !text[..at].ends_with(goes_on) && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    };
    text.match_indices(word).map(|(at, _)| at).filter(alone).map(|at| line_of(text, at))
}

fn faults_of_project(root: &Path, files: &[File]) -> anyhow::Result<Vec<String>> {
    let mut packages = project::packages(&metadata(&root.join("Cargo.toml"))?);
    let fuzz = project::packages(&metadata(&root.join("fuzz/Cargo.toml"))?);
    let mut faults = project::wrong_edges(&packages, &EDGES, &COMING);
    faults.extend(project::wrong_edges(&fuzz, &FUZZ_EDGES, &[]));
    packages.extend(fuzz);
    faults.extend(project::away_from_home(&packages));
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let manifests = files
        .iter()
        .filter(|file| file.path.ends_with("Cargo.toml") && !file.path.starts_with("conformance/"));
    let manifests: Vec<(&str, &str)> =
        manifests.map(|file| (file.path.as_str(), file.text.as_str())).collect();
    faults.extend(project::unexplained(&packages, &manifests));
    faults.extend(documents::faults(files));
    faults.extend(links::faults(files));
    faults.extend(reference::faults(files));
    let commands = commands(files);
    for guide in GUIDES {
        match text(guide) {
            Some(document) => faults.extend(commands.unknown_in(guide, document)),
            None => faults.push(format!("there is no {guide}")),
        }
    }
    let undrawn = FORMATS.iter().filter(|(_, path)| text(path).is_none());
    faults
        .extend(undrawn.map(|(what, path)| format!("{what} outlives the process, but {path} is not there")));
    faults.extend(files.iter().flat_map(|file| dead_references(file, files)));
    faults.extend(second_faces(files));
    for (name, graph) in imports::graphs(files) {
        faults.extend(circles::faults(&graph));
        faults.extend(layers::faults(name, &graph));
    }
    let shares = project::shares(files);
    let texts: Vec<String> = shares.iter().map(|(name, share)| format!("{name} {share:.1} %")).collect();
    eprintln!("tidy: of all lines of Rust: {}", texts.join(", "));
    faults.extend(project::too_large(&shares, &project::LARGE));
    Ok(faults)
}

/// Modules that are a file beside a folder of the same name; the folder should contain `mod.rs`.
fn second_faces(files: &[File]) -> Vec<String> {
    let folder = |file: &File| Some(format!("{}/", file.path.strip_suffix(".rs")?));
    let has_folder = |file: &&File| {
        folder(file).is_some_and(|folder| {
            files.iter().any(|other| other.path.starts_with(&folder) && other.path.ends_with(".rs"))
        })
    };
    let fault = |file: &File| {
        let folder = folder(file).unwrap_or_default();
        format!("{} stands beside its folder; move it to {folder}mod.rs", file.path)
    };
    files.iter().filter(has_folder).map(fault).collect()
}

/// Documents under `docs/` that a file names but the tree lacks.
fn dead_references(file: &File, files: &[File]) -> Vec<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    let mentioned = file.text.match_indices("docs/").filter_map(|(at, _)| {
        let rest = &file.text[at..];
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        let (path, _) = rest[..end].split_once(".md")?;
        // NNNN stands for any number.
        let whole = !file.text[..at].ends_with(part) && !path.contains("NNNN");
        whole.then(|| (at, format!("{path}.md")))
    });
    let dead = mentioned.filter(|(_, path)| files.iter().all(|there| there.path != *path));
    dead.map(|(at, path)| format!("{}:{}: {path} is not there", file.path, line_of(&file.text, at))).collect()
}

fn commands(files: &[File]) -> Commands {
    let task = crate::Task::command();
    let xtask = task.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let ours = files.iter().filter(|file| file.path.starts_with("crates/plimsoll/src/"));
    Commands { xtask, plimsoll: ours.map(|file| file.text.as_str()).collect::<Vec<_>>().join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let path = MACHINE_PATHS[0];
        assert_eq!(
            faults_of_file(&file("a.md", &format!("x\nin {path}/a"))),
            ["a.md:2: a path of one machine"]
        );
        assert_eq!(
            faults_of_file(&file("a.sh", &format!("cd $mnt{path}/a; cd {path}space; cd ..{path}"))),
            [""; 0]
        );
        let exempt = format!("mount a {}", MACHINE_PATHS[1]);
        assert_eq!(faults_of_file(&file("a.sh", &exempt)).len(), 1);
        assert_eq!(faults_of_file(&file(&format!("{MACHINE_PATHS_EXEMPT}a.sh"), &exempt)), [""; 0]);
    }

    #[test]
    fn unfinished_work_is_found() {
        let text = format!("// {}: more", UNFINISHED[0]);
        assert_eq!(faults_of_file(&file("a.toml", &text)).len(), 1);
        assert_eq!(faults_of_file(&file("a.toml", "MY_TODOS")), [""; 0]);
    }

    #[test]
    fn rust_and_manifests_have_their_rules() {
        assert_eq!(faults_of_file(&file("a.rs", "todo!()")).len(), 1);
        assert_eq!(faults_of_file(&file("a/Cargo.toml", "[lints.rust]\na = \"allow\"\n")).len(), 1);
        assert_eq!(faults_of_file(&file("a.txt", "todo!()")), [""; 0]);
    }

    #[test]
    fn module_beside_its_folder_is_refused() {
        let files = [file("a/b.rs", ""), file("a/b/c.rs", ""), file("a/d.rs", ""), file("a/e/mod.rs", "")];
        assert_eq!(second_faces(&files), ["a/b.rs stands beside its folder; move it to a/b/mod.rs"]);
    }

    #[test]
    fn documents_that_are_named_are_there() {
        // Split, because tidy would report this test.
        let docs = concat!("do", "cs/guide");
        let existing = file(&format!("{docs}/a.md"), "");
        let naming = format!(
            "// see {docs}/a.md,\n// or (`{docs}/b.md`), {docs}/NNNN-x.md\n// other{docs}/c.md {docs}"
        );
        let dead = dead_references(&file("a.rs", &naming), &[existing]);
        assert_eq!(dead, [format!("a.rs:2: {docs}/b.md is not there")]);
    }
}
