//! The rules about crates, their dependencies, and the documents that name them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::file::File;

/// A crate, the workspace crates that it may depend on, and those that its tests may also use.
pub(super) type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

/// A new crate gets its row here, and a sentence in ARCHITECTURE.md.
pub(super) const EDGES: [Row<'_>; 28] = [
    ("xdr-derive", &[], &[]),
    ("xdr", &["xdr-derive"], &[]),
    ("vfs", &[], &["vfs-testing"]),
    ("vfs-testing", &["vfs"], &[]),
    ("identity", &["vfs"], &[]),
    ("transport", &["vfs"], &[]),
    ("storage", &["vfs"], &[]),
    ("posix", &["storage", "vfs"], &["vfs-testing"]),
    ("ceph", &["storage", "vfs"], &["vfs-testing"]),
    ("cluster", &[], &[]),
    ("nfs-wire", &["xdr"], &[]),
    ("smb-wire-derive", &[], &[]),
    ("gmac", &[], &[]),
    ("smb-wire", &["gmac", "smb-wire-derive"], &[]),
    ("stable", &[], &[]),
    ("nfs", &["nfs-wire", "stable", "transport", "vfs", "xdr"], &["vfs-testing"]),
    ("smb", &["identity", "smb-wire", "stable", "transport", "vfs", "xdr"], &["vfs-testing"]),
    ("envelope", &[], &[]),
    ("control", &["envelope", "identity", "replicate", "stable", "vfs"], &["vfs-testing"]),
    // The catalog of levels defines the valid level names of a body.
    ("api-client", &["envelope"], &[]),
    // The locks of `vfs::sync`, and the networks of `vfs::bounds`.
    ("http-server", &["vfs"], &[]),
    (
        "api",
        &["api-client", "control", "envelope", "http-server", "stable", "vfs"],
        &["identity", "vfs-testing"],
    ),
    ("replicate", &["stable", "vfs"], &["posix", "vfs-testing"]),
    ("report", &["envelope"], &[]),
    ("wire-client", &["identity", "nfs-wire", "smb-wire", "xdr"], &[]),
    (
        "bench",
        &["envelope", "identity", "nfs-wire", "report", "smb-wire", "stable", "wire-client", "xdr"],
        &[],
    ),
    // Its tests call a running server directly.
    (
        "plimsoll",
        &[
            "api",
            "api-client",
            "bench",
            "ceph",
            "cluster",
            "control",
            "envelope",
            "identity",
            "nfs",
            "nfs-wire",
            "posix",
            "replicate",
            "report",
            "smb",
            "stable",
            "storage",
            "transport",
            "vfs",
        ],
        &["smb-wire", "wire-client", "xdr"],
    ),
    ("xtask", &[], &[]),
];
/// Planned crates: they have a row before they exist.
pub(super) const COMING: [&str; 0] = [];
/// External crates, each with the only crates that may depend on it. HTTP, SQL, async code, command lines and
/// system calls that need `unsafe` stay in these crates.
const HOMES: [(&str, &[&str]); 13] = [
    ("axum", &["api", "http-server"]),
    ("clap", &["plimsoll", "xtask"]),
    ("http-body-util", &["http-server", "replicate"]),
    ("hyper", &["http-server"]),
    ("hyper-util", &["http-server"]),
    ("jiff", &["control"]),
    ("libc", &["ceph", "posix"]),
    ("libloading", &["ceph"]),
    // Only `replicate::store::s3` uses it, and HTTP.
    ("object_store", &["replicate"]),
    ("rusqlite", &["control"]),
    ("tokio", &["http-server", "replicate", "xtask"]),
    ("tokio-rustls", &["http-server"]),
    ("ureq", &["api-client", "replicate"]),
];
/// A crate with a larger share of all lines of Rust, in percent, is a fault.
const SHARE_MAX: f64 = 25.0;
/// Larger crates, with the allowed share and the reason. A crate that no longer exceeds the maximum is a fault.
pub(super) const LARGE: [Large<'_>; 0] = [];
pub(super) type Large<'a> = (&'a str, f64, &'a str);
/// Outside the workspace.
pub(super) const FUZZ_EDGES: [Row<'_>; 1] =
    [("fuzz", &["identity", "nfs-wire", "replicate", "smb", "smb-wire"], &[])];

pub(super) struct Package {
    name: String,
    /// Crates of the workspace, and whether only tests need them.
    ours: BTreeSet<(String, bool)>,
    foreign: BTreeSet<String>,
}

/// The packages in the output of `cargo metadata --no-deps`.
pub(super) fn packages(metadata: &Value) -> Vec<Package> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let package = |package: &Value| {
        let all = list(&package["dependencies"]);
        // Only workspace crates have a path.
        let (ours, foreign): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|one| one["path"].is_string());
        Package {
            name: text(&package["name"]),
            ours: ours.into_iter().map(|one| (text(&one["name"]), one["kind"] == "dev")).collect(),
            foreign: foreign.into_iter().map(|one| text(&one["name"])).collect(),
        }
    };
    list(&metadata["packages"]).iter().map(package).collect()
}

/// Edges that the table forbids, crates that it lacks, and rows without a crate.
pub(super) fn wrong_edges(packages: &[Package], table: &[Row<'_>], coming: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for package in packages {
        let Some((_, allowed, in_tests)) = table.iter().find(|(name, ..)| *name == package.name) else {
            faults.push(format!("{} has no row in tidy's table of allowed dependencies", package.name));
            continue;
        };
        for (used, for_tests) in &package.ours {
            // A crate's tests may use it with other features.
            let more = *for_tests && (in_tests.contains(&used.as_str()) || *used == package.name);
            if !more && !allowed.contains(&used.as_str()) {
                faults.push(format!("{} must not depend on {used}", package.name));
            }
        }
    }
    let is_there = |name: &str| packages.iter().any(|package| package.name == name);
    let missing = table.iter().filter(|(name, ..)| !is_there(name) && !coming.contains(name));
    faults.extend(missing.map(|(name, ..)| {
        format!("tidy's table of allowed dependencies has a row for {name}, which is gone")
    }));
    let came = coming.iter().filter(|name| is_there(name));
    faults.extend(came.map(|name| format!("{name} is there: take it out of tidy's list of crates to come")));
    faults
}

pub(super) fn away_from_home(packages: &[Package]) -> Vec<String> {
    let strayed = |package: &Package| {
        let misplaced = HOMES.iter().filter(|(name, homes)| {
            package.foreign.contains(*name) && !homes.contains(&package.name.as_str())
        });
        misplaced
            .map(|(name, homes)| {
                format!("{} must not depend on {name}: only {} may", package.name, homes.join(", "))
            })
            .collect::<Vec<_>>()
    };
    packages.iter().flat_map(strayed).collect()
}

/// Each crate's lines of Rust, in percent of all, the largest first.
pub(super) fn shares(files: &[File]) -> Vec<(&str, f64)> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let within = file.path.strip_prefix("crates/").unwrap_or(&file.path);
        let name = within.split('/').next().unwrap_or_default();
        *lines.entry(name).or_default() += file.text.lines().count();
    }
    let all: usize = lines.values().sum();
    // Thousands of lines are exact as floating-point numbers.
    let percent = |lines: usize| lines as f64 * 100.0 / all as f64;
    let mut shares: Vec<(&str, f64)> =
        lines.into_iter().map(|(name, lines)| (name, percent(lines))).collect();
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    shares
}

/// Crates with too large a share, except known ones, and known ones that are small enough.
pub(super) fn too_large(shares: &[(&str, f64)], known: &[Large<'_>]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, share) in shares {
        let max = known.iter().find(|(large, ..)| large == name).map_or(SHARE_MAX, |&(_, max, _)| max);
        if *share > max {
            faults.push(format!("{name} is {share:.1} % of the house; at most {max} %"));
        }
    }
    for (name, _, reason) in known {
        if !shares.iter().any(|(large, share)| large == name && *share > SHARE_MAX) {
            faults.push(format!(
                "{name} is no longer too large; tidy's list of large crates still says: {reason}"
            ));
        }
    }
    faults
}

/// External crates without a reason where a manifest names their version, and versions that no crate uses.
pub(super) fn unexplained(packages: &[Package], manifests: &[(&str, &str)]) -> Vec<String> {
    let used: BTreeSet<&str> =
        packages.iter().flat_map(|package| &package.foreign).map(String::as_str).collect();
    let mut faults = Vec::new();
    for (path, manifest) in manifests {
        let (mut section, mut before) = ("", "");
        for (number, line) in (1..).zip(manifest.lines()) {
            if line.starts_with('[') {
                section = line;
            }
            let version = section.ends_with("dependencies]").then(|| external(line)).flatten();
            if let Some(name) = version {
                if !line.contains('#') && !before.starts_with('#') {
                    faults.push(format!("{path}:{number}: say in a comment what {name} is for"));
                }
                if !used.contains(name) {
                    faults.push(format!("{path}:{number}: nothing depends on {name}"));
                }
            }
            before = line;
        }
    }
    faults
}

/// The external crate whose version a line names.
fn external(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(" = ")?;
    let is_ours = value.contains("path = ") || value.contains("workspace = true");
    (!is_ours && !name.contains(['.', '#'])).then_some(name)
}

/// Lints that a Cargo.toml allows without a comment on the same line or the one before.
pub(super) fn allowed_lints(path: &str, manifest: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut section, mut before) = ("", "");
    for (number, line) in (1..).zip(manifest.lines()) {
        if line.starts_with('[') {
            section = line;
        }
        let allows = section.contains("lints") && line.contains("\"allow\"");
        if allows && !line.contains('#') && !before.trim_start().starts_with('#') {
            faults.push(format!("{path}:{number}: a lint is allowed without a reason"));
        }
        before = line;
    }
    faults
}

pub(super) struct Commands {
    pub(super) xtask: BTreeSet<String>,
    /// All files of the `plimsoll` crate's source, concatenated.
    pub(super) plimsoll: String,
}

impl Commands {
    /// Commands in code blocks that do not exist, and options of `plimsoll` that do not.
    pub(super) fn unknown_in(&self, path: &str, document: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let mut inside = false;
        for (number, line) in (1..).zip(document.lines()) {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if inside && let Some(what) = self.unknown(line) {
                faults.push(format!("{path}:{number}: {what}"));
            }
        }
        faults
    }

    fn unknown(&self, line: &str) -> Option<String> {
        let line = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ");
        let line = line.split(" #").next().unwrap_or("");
        let after = |prefix: &str| line.strip_prefix(prefix);
        if let Some(rest) = after("cargo xtask ") {
            let command = rest.split(' ').next().unwrap_or("");
            return (!self.xtask.contains(command)).then(|| format!("there is no `cargo xtask {command}`"));
        }
        let rest = after("cargo run --release -- ")
            .or_else(|| after("plimsoll "))
            .or_else(|| after("./target/release/plimsoll "))?;
        let command = rest.split(' ').next().unwrap_or("");
        let variant = command.split('-').map(capitalized).collect::<String>();
        let declared = |line: &str| {
            let rest = line.trim().strip_prefix(&variant);
            rest.is_some_and(|rest| rest.starts_with('(') || rest.starts_with(" {") || rest.starts_with(','))
        };
        if !command.starts_with('-') && !self.plimsoll.lines().any(declared) {
            return Some(format!("there is no `plimsoll {command}`"));
        }
        let mut options = rest.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        let unknown = options.find(|option| {
            let name = option.split('=').next().unwrap_or("");
            let field = format!("{}:", name.replace('-', "_"));
            let is_known = self
                .plimsoll
                .lines()
                .any(|line| line.trim().trim_start_matches("pub(crate) ").starts_with(&field));
            !is_known && !["help", "version"].contains(&name)
        })?;
        Some(format!("`plimsoll {command}` has no --{unknown}"))
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Package> {
        packages(&serde_json::json!({ "packages": [
            { "name": "vfs", "dependencies": [{ "name": "nfs", "path": "/x" }, { "name": "libc", "path": null }] },
            { "name": "nfs", "dependencies": [
                { "name": "nfs", "path": "/x", "kind": "dev" }, { "name": "xdr", "path": "/x", "kind": "dev" },
                { "name": "libc" }, { "name": "tempfile", "kind": "dev" },
            ] },
        ]}))
    }

    #[test]
    fn dependencies_have_one_direction() {
        assert_eq!(wrong_edges(&sample(), &[("vfs", &["nfs"], &[]), ("nfs", &[], &["xdr"])], &[]), [""; 0]);
        let only_in_tests = wrong_edges(&sample(), &[("vfs", &[], &["nfs"]), ("nfs", &["xdr"], &[])], &[]);
        assert_eq!(only_in_tests, ["vfs must not depend on nfs"]);
        let expected = [
            "vfs must not depend on nfs",
            "nfs has no row in tidy's table of allowed dependencies",
            "tidy's table of allowed dependencies has a row for smb, which is gone",
        ];
        assert_eq!(wrong_edges(&sample(), &[("vfs", &[], &[]), ("smb", &[], &[])], &[]), expected);
    }

    #[test]
    fn a_crate_may_have_its_row_before_it_is_there() {
        let table: [Row<'_>; 3] = [("vfs", &["nfs"], &[]), ("nfs", &[], &["xdr"]), ("smb", &[], &[])];
        assert_eq!(wrong_edges(&sample(), &table, &["smb"]), [""; 0]);
        let came = wrong_edges(&sample(), &table, &["smb", "nfs"]);
        assert_eq!(came, ["nfs is there: take it out of tidy's list of crates to come"]);
    }

    #[test]
    fn external_crates_stay_at_home() {
        assert_eq!(
            away_from_home(&sample()),
            ["vfs", "nfs"].map(|name| format!("{name} must not depend on libc: only ceph, posix may"))
        );
    }

    #[test]
    fn no_crate_is_most_of_the_house() {
        let file = |path: &str, lines: usize| File { path: path.to_owned(), text: "x\n".repeat(lines) };
        let files = [
            file("crates/a/src/lib.rs", 20),
            file("crates/a/tests/b.rs", 10),
            file("xtask/src/main.rs", 25),
            file("crates/b/src/lib.rs", 45),
            file("crates/b/README.md", 99),
        ];
        let shares = shares(&files);
        assert_eq!(shares, [("b", 45.0), ("a", 30.0), ("xtask", 25.0)]);
        assert_eq!(too_large(&shares, &[("b", 50.0, "x")]), ["a is 30.0 % of the house; at most 25 %"]);
        let large: [Large<'_>; 3] = [("a", 31.0, "x"), ("b", 40.0, "y"), ("xtask", 30.0, "z")];
        assert_eq!(
            too_large(&shares, &large),
            [
                "b is 45.0 % of the house; at most 40 %",
                "xtask is no longer too large; tidy's list of large crates still says: z"
            ]
        );
    }

    #[test]
    fn external_crate_needs_a_reason() {
        let good = "[dependencies]\n# Numbers.\nlibc = \"0.2\"\ntempfile = \"3\" # Directories.\nxdr.workspace = true\n[a]\nb = 1\n";
        assert_eq!(unexplained(&sample(), &[("Cargo.toml", good)]), [""; 0]);
        let bad = "[workspace.dependencies]\n# Of ours.\nxdr = { path = \"x\" }\nlibc = \"0.2\"\n# Values.\nserde = \"1\"\n";
        assert_eq!(
            unexplained(&sample(), &[("Cargo.toml", bad)]),
            ["Cargo.toml:4: say in a comment what libc is for", "Cargo.toml:6: nothing depends on serde"]
        );
    }

    #[test]
    fn manifests_say_why_a_lint_is_allowed() {
        let good = "[lints.clippy]\n# because\na = \"allow\"\nb = \"allow\" # because\n[features]\nc = [\"allow\"]\n";
        assert_eq!(allowed_lints("Cargo.toml", good), [""; 0]);
        let bad = "[workspace.lints.rust]\n\na = \"allow\"\n";
        assert_eq!(allowed_lints("Cargo.toml", bad), ["Cargo.toml:3: a lint is allowed without a reason"]);
    }

    #[test]
    fn documents_name_what_there_is() {
        let plimsoll = "enum Command {\n    Export(export::ExportArgs),\n    BigOne,\n}\n    pub(crate) listen: SocketAddr,\n    read_only: bool,\n";
        let commands = Commands { xtask: ["ci".to_owned()].into(), plimsoll: plimsoll.to_owned() };
        let unknown =
            |line: &str| commands.unknown_in("README.md", &format!("cargo xtask x\n```sh\n{line}\n```\n"));
        for good in [
            "cargo xtask ci",
            "cargo run --release -- export /srv --listen 0.0.0.0:2049 --read-only",
            "$ plimsoll big-one   # --why",
            "plimsoll --help",
            "ls --all",
        ] {
            assert_eq!(unknown(good), [""; 0], "{good}");
        }
        assert_eq!(unknown("cargo xtask cy"), ["README.md:3: there is no `cargo xtask cy`"]);
        assert_eq!(unknown("sudo plimsoll serve"), ["README.md:3: there is no `plimsoll serve`"]);
        assert_eq!(
            unknown("plimsoll export /srv --write-only"),
            ["README.md:3: `plimsoll export` has no --write-only"]
        );
    }
}
