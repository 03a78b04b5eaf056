//! Commands without a service: levels, help, errors, completions, manual pages.

use crate::rig::{Service, plimsoll};
use serde_json::{Value, json};
use std::process::Command;

/// Returns the output of a command without a service; the command must succeed.
#[track_caller]
fn says(args: &[&str]) -> String {
    let output = plimsoll(None).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a command that must fail.
#[track_caller]
fn refuses(args: &[&str]) -> String {
    let output = plimsoll(None).args(args).output().unwrap();
    assert!(!output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn levels_show_their_limits_and_their_sources() {
    let said = says(&["level", "show", "anf/premium", "--size", "2TiB"]);
    assert!(said.contains("2 TiB × 64 MiB/s per TiB = 128 MiB/s"), "{said}");
    assert!(said.contains("learn.microsoft.com/"), "{said}");
    let limits: Value =
        serde_json::from_str(&says(&["level", "show", "anf/premium", "--size", "2TiB", "--json"])).unwrap();
    assert_eq!(limits["volume"]["total"], json!({"bytes_per_second": 128 << 20}));
    assert_eq!(limits["level"]["name"], "anf/premium");
    for (args, mib) in [
        (&["anf/ultra", "--size", "4TiB", "--volume-size", "1TiB"][..], 128),
        (&["anf/standard", "--size", "4TiB"], 64),
        (&["gcnv/extreme", "--size", "2TiB"], 256),
    ] {
        let args = [&["level", "show"], args, &["--json"]].concat();
        let limits: Value = serde_json::from_str(&says(&args)).unwrap();
        assert_eq!(limits["volume"]["total"]["bytes_per_second"], json!(mib << 20), "{args:?}");
    }
    let shared = says(&["level", "show", "gcnv/flex", "--size", "1TiB"]);
    assert!(shared.contains("16 MiB/s, 1,024 IOPS") && shared.contains("those of the pool"), "{shared}");
    let plain = says(&["level", "show", "gcnv/premium"]);
    assert!(plain.contains("2 TiB to 10 PiB in steps of 1 GiB"), "{plain}");
}

#[test]
fn every_list_is_narrow_and_has_its_json() {
    for list in ["list", "profiles", "shapes"] {
        let items: Value = serde_json::from_str(&says(&["level", list, "--json"])).unwrap();
        let count = items["items"].as_array().unwrap().len();
        let table = says(&["level", list]);
        assert_eq!(table.lines().count(), count + 1, "{list}");
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(list == "profiles" || list == "shapes" || widest <= 100, "{list}: {widest}");
    }
}

#[test]
fn refusals_say_what_is_allowed() {
    for (args, reason) in [
        (&["level", "show", "anf/gold"][..], "anf/premium"),
        (&["level", "show", "anf/premium", "--size", "2tb"], "1.5TiB, 100G or 60TB"),
        (&["level", "show", "anf/premium", "--size", "1.5TiB"], "allowed: 1 TiB to 2 PiB in steps of 1 TiB"),
        (
            &["level", "show", "anf/premium", "--size", "2TiB", "--iops", "5"],
            "operations of the pool, which the level does not have",
        ),
        (&["level", "show", "anf/premium", "--throughput", "5MiB/s"], "settings are given without a size"),
        (&["level", "show", "anf/premium", "--volume-size", "1TiB"], "--size <SIZE>"),
        (&["pool", "create", "p1", "--level", "anf/ultra"], "--size <SIZE>"),
        (&["pool", "create", "p1", "--level", "anf/ultra", "--size", "4"], "a size needs a unit, like 4GiB"),
        (&["volume", "resize", "v1", "4"], "a size needs a unit, like 4GiB"),
        (
            &["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB", "--limit", "x=1"],
            "allowed: one of throughput",
        ),
        (&["volume", "create", "v1", "--pool", "p1", "--size", "1TiB", "--owner", "me"], "allowed: UID:GID"),
        (&["volume", "create", "v1", "--pool", "p1", "--size", "1TiB", "--mode", "9"], "octal digits"),
        (
            &["volume", "create", "v1", "--pool", "p1", "--size", "1TiB", "--owner", "0:4294967295"],
            "allowed: 0 to 4294967294",
        ),
        (
            &["volume", "access", "add", "v1", "--allow", "10.0.0.1", "--anonymous", "4294967295:0"],
            "allowed: 0 to 4294967294",
        ),
        (&["volume", "create", "v1", "--pool", "p1", "--size", "1TiB", "--scale", "2"], "--shape <SHAPE>"),
        (
            &["volume", "create", "v1", "--pool", "p1", "--size", "1TiB", "--durability", "no"],
            "sync, relaxed",
        ),
        (&["token", "create", "t", "--role", "root"], "read, operate, admin"),
        (&["user", "create", "a", "--uid", "0"], "allowed: a whole number from 1 to 2000000000"),
        (&["user", "create"], "<NAME>"),
        (&["group", "add", "artists"], "<USERS>"),
        (&["volume", "list", "--data", "/nonexistent"], "start one with \"plimsoll serve\""),
        (
            &["volume", "list", "--url", "http://127.0.0.1:9", "--token-file", "/nonexistent"],
            "cannot read the token",
        ),
    ] {
        let said = refuses(args);
        assert!(said.contains(reason), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn every_command_has_help_and_those_that_change_have_examples() {
    for args in [
        &["pool", "create"][..],
        &["pool", "resize"],
        &["pool", "update"],
        &["volume", "create"],
        &["volume", "resize"],
        &["volume", "update"],
        &["volume", "watch"],
        &["volume", "move"],
        &["volume", "access", "add"],
        &["volume", "access", "set"],
        &["level", "show"],
        &["token", "create"],
        &["snapshot", "create"],
        &["snapshot", "update"],
        &["snapshot", "delete"],
        &["snapshot", "revert"],
        &["snapshot", "restore"],
        &["clone", "create"],
        &["quota", "set"],
        &["quota", "delete"],
        &["vault", "create"],
        &["vault", "new-key"],
        &["vault", "update"],
        &["vault", "delete"],
        &["backup", "create"],
        &["backup", "delete"],
        &["backup", "restore"],
        &["backup", "verify"],
        &["replication", "create"],
        &["replication", "update"],
        &["replication", "sync"],
        &["replication", "break"],
        &["replication", "resume"],
        &["replication", "reverse"],
        &["replication", "authorize"],
        &["replication", "revoke"],
        &["replication", "delete"],
        &["peer", "create"],
        &["peer", "update"],
        &["peer", "delete"],
        &["policy", "create"],
        &["policy", "update"],
        &["policy", "delete"],
        &["operation", "cancel"],
        &["operation", "wait"],
        &["user", "create"],
        &["user", "set-password"],
        &["user", "update"],
        &["group", "create"],
        &["group", "add"],
        &["group", "remove"],
        &["completions"],
        &["man"],
        &["serve"],
        &["export"],
    ] {
        let said = says(&[args, &["--help"]].concat());
        assert!(said.contains("Example"), "{args:?}: {said}");
        assert!(
            said.lines().all(|line| line.chars().count() <= 100 || line.contains("  plimsoll ")),
            "{args:?}: {said}"
        );
    }
}

/// Returns the output of a command on a terminal of this width.
fn at_terminal(columns: usize, command: &Command, settings: &str) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
    let line = format!("stty cols {columns}; {settings} {}", line.join(" "));
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .env("TERM", "xterm");
    for (name, value) in command.get_envs() {
        value.map(|value| script.env(name, value));
    }
    String::from_utf8(script.output().unwrap().stdout).unwrap().replace('\r', "")
}

/// The widest line, without paint. One that is a single word, such as an address, cannot be narrower.
fn widest(text: &str) -> usize {
    let lines = text.lines().map(|line| anstream::adapter::strip_str(line).to_string());
    let lines = lines.filter(|line| line.trim().contains(' '));
    lines.map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn tables_fit_the_terminal_and_are_whole_in_pipes() {
    let service = Service::with_volume("1TiB", &["--label", "a=1"]);
    service.says(&["pool", "create", "flex", "--level", "gcnv/flex-unified", "--size", "2TiB"]);
    for args in [
        &["pool", "list"][..],
        &["pool", "show", "p1"],
        &["volume", "list"],
        &["operation", "list"],
        &["snapshot", "list", "v1"],
        &["policy", "list"],
        &["volume", "access", "list", "v1"],
        &["token", "list"],
        &["warning", "list"],
        &["status"],
        &["level", "list"],
        &["level", "profiles"],
        &["level", "shapes"],
        &["level", "show", "gcnv/flex"],
        &["level", "show", "gcnv/extreme", "--size", "20TiB"],
        &["volume", "watch", "v1", "--count", "1", "--interval", "100ms"],
    ] {
        let said = at_terminal(80, &service.command(args), "");
        assert!(!said.is_empty() && widest(&said) <= 80, "{args:?}: {} columns: {said}", widest(&said));
    }
    let list = ["level", "list"];
    let said = |columns: usize, settings: &str| at_terminal(columns, &service.command(&list), settings);
    let piped = service.says(&list);
    assert!(said(80, "").ends_with("(--wide adds LARGE VOLUME, LIMITS OF)\n"));
    assert_eq!(said(200, "NO_COLOR=1"), piped, "nothing is cut where there is room, and in pipes");
    assert_eq!(at_terminal(80, &service.command(&["level", "list", "--wide"]), "NO_COLOR=1"), piped);
    assert_eq!(said(80, "COLUMNS=200 CLICOLOR=0"), piped, "COLUMNS says how wide it is");
    assert!(said(200, "").starts_with("\u{1b}[1mNAME\u{1b}[0m") && !piped.contains('\u{1b}'));
    let forced = service.command(&list).env("CLICOLOR_FORCE", "1").output().unwrap().stdout;
    assert!(String::from_utf8(forced).unwrap().contains('\u{1b}'));
}

/// A service with one object of each kind that protects a volume, with names as long as people choose them.
fn protected() -> (Service, tempfile::TempDir) {
    let (service, place) = (Service::with_snapshots("1TiB"), tempfile::tempdir().unwrap());
    let vault = place.path().join("plimsoll-backups-of-the-first-site");
    let key = "ab".repeat(32);
    for args in [
        &["snapshot", "create", "v1", "before-upgrade-to-version-4", "--description", "Version 4 is next"][..],
        &["clone", "create", "v1", "before-upgrade-to-version-4", "home-directories-test"],
        &["user", "create", "alice-the-designer", "--uid", "1000", "--no-password"],
        &["quota", "set", "v1", "--user", "default", "--bytes", "10GiB", "--soft-bytes", "8GiB"],
        &["quota", "set", "v1", "--user", "1000", "--bytes", "1536GiB", "--files", "1000000000"],
        &["policy", "create", "nightly-and-monthly", "--daily", "7", "--weekly", "4", "--monthly", "12"],
        &["vault", "create", "second-disk", "--directory", vault.to_str().unwrap()],
        &["backup", "create", "v1", "--vault", "second-disk", "--lock-until", "2999-01-31"],
        &["volume", "create", "home-directories-copy", "--pool", "p1", "--size", "1TiB"],
        &["replication", "create", "home-directories-copy", "--source", "v1", "--schedule", "10minutely"],
        &["peer", "create", "site-b", "--key", &key, "--address", "files.site-b.example.org:2052"],
        &["replication", "authorize", "home-directories-test", "--peer", "site-b"],
    ] {
        service.says(args);
    }
    (service, place)
}

#[test]
fn protection_fits_the_terminal_and_its_names_are_completed() {
    let (service, _place) = protected();
    let name = |list: &[&str]| service.json(list)["items"][0]["name"].as_str().unwrap().to_owned();
    let backup = name(&["backup", "list"]);
    for args in [
        &["snapshot", "list", "v1"][..],
        &["snapshot", "show", "v1", "before-upgrade-to-version-4"],
        &["clone", "list"],
        &["quota", "list", "v1"],
        &["quota", "report", "v1"],
        &["quota", "check", "v1"],
        &["policy", "list"],
        &["policy", "show", "nightly-and-monthly"],
        &["vault", "list"],
        &["vault", "show", "second-disk"],
        &["backup", "list"],
        &["backup", "show", "second-disk", &backup],
        &["replication", "list"],
        &["replication", "show", "home-directories-copy"],
        &["replication", "authorizations"],
        &["peer", "list"],
        &["peer", "show", "site-b"],
        &["operation", "list"],
    ] {
        let said = at_terminal(80, &service.command(args), "");
        assert!(!said.is_empty() && widest(&said) <= 80, "{args:?}: {} columns: {said}", widest(&said));
    }
    let snapshot = "before-upgrade-to-version-4";
    for (words, wanted) in [
        (&["snapshot", "revert", "v1", ""][..], snapshot),
        (&["snapshot", "restore", "v1", ""], snapshot),
        (&["clone", "create", ""], "v1"),
        (&["clone", "create", "v1", ""], snapshot),
        (&["quota", "set", ""], "v1"),
        (&["quota", "delete", "v1", "--user", ""], "alice-the-designer"),
        (&["policy", "show", ""], "nightly-and-monthly"),
        (&["volume", "update", "v1", "--backup-policy", ""], "nightly-and-monthly"),
        (&["vault", "update", ""], "second-disk"),
        (&["backup", "create", "v1", "--vault", ""], "second-disk"),
        (&["backup", "create", "v1", "--snapshot", ""], snapshot),
        (&["backup", "restore", "second-disk", ""], &backup),
        (&["backup", "verify", "second-disk", ""], &backup),
        (&["replication", "create", "x", "--source", ""], "v1"),
        (&["replication", "create", "x", "--peer", ""], "site-b"),
        (&["replication", "create", "x", "--schedule", ""], "10minutely"),
        (&["replication", "break", ""], "home-directories-copy"),
        (&["replication", "revoke", "home-directories-test", "--peer", ""], "site-b"),
        (&["peer", "update", ""], "site-b"),
    ] {
        let found = candidates(&service, words);
        assert!(found.iter().any(|word| word == wanted), "{words:?}: {found:?}");
    }
}

#[test]
fn results_go_into_files_and_a_list_is_short() {
    let service = Service::with_volume("1TiB", &[]);
    assert_eq!(service.says(&["volume", "ls"]), service.says(&["volume", "list"]));
    assert_eq!(service.says(&["level", "ls"]), service.says(&["level", "list"]));
    let file = service.data().join("out");
    let to_file = ["--output", file.to_str().unwrap()];
    assert_eq!(service.says(&[&["pool", "list"][..], &to_file].concat()), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), service.says(&["pool", "list"]));
    service.says(&["volume", "list", "--json", "-o", file.to_str().unwrap()]);
    let items: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&items["format"], &items["items"][0]["name"]), (&json!("plimsoll/1"), &json!("v1")));
    service.says(&["volume", "access", "list", "v1", "--json", "-o", file.to_str().unwrap()]);
    let rules = service.json(&["volume", "access", "set", "v1", "--file", file.to_str().unwrap()]);
    assert_eq!(rules["rules"][0]["clients"], json!(["127.0.0.0/8"]), "what was written is read");
}

#[test]
fn a_wrong_command_line_ends_with_2_and_a_refusal_with_1() {
    for (args, status) in [
        (&["level", "list"][..], 0),
        (&["level", "show", "anf/premium", "--size", "1.5TiB"], 2),
        (&["volume", "list", "--data", "/nonexistent"], 1),
        (&["level", "show", "anf/gold"], 2),
        (&["level", "show", "anf/premium", "--throughput", "5MiB/s"], 2),
        (&["volume", "access", "set", "v1"], 2),
        (&["volume", "access", "add", "v1"], 2),
        (&["nothing"], 2),
        (&["--wide", "level", "list"], 0),
        (&["--ca"], 2),
    ] {
        let output = plimsoll(None).args(args).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(status),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// The completions that a shell would offer for the last word.
fn candidates(service: &Service, words: &[&str]) -> Vec<String> {
    let mut command = service.command(&["--", "plimsoll"]);
    command.args(words).env("PLIMSOLL_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true").env("_CLAP_IFS", "\n");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn shells_complete_commands_flags_and_names() {
    let service = Service::with_volume("1TiB", &[]);
    let offers = |words: &[&str], wanted: &str| {
        let found = candidates(&service, words);
        assert!(found.iter().any(|word| word == wanted), "{words:?}: {found:?}");
    };
    offers(&["vol"], "volume");
    offers(&["volume", "resize", ""], "v1");
    offers(&["volume", "create", "x", "--pool", ""], "p1");
    offers(&["pool", "create", "--level", "anf/"], "anf/ultra");
    offers(&["volume", "access", "list", ""], "v1");
    offers(&["token", "revoke", ""], "admin");
    offers(&["snapshot", "create", ""], "v1");
    offers(&["volume", "update", "v1", "--snapshot-directory", ""], "reachable");
    for (shell, mark) in
        [("bash", "complete -o"), ("zsh", "#compdef plimsoll"), ("fish", "complete --keep-order")]
    {
        let script = says(&["completions", shell]);
        assert!(script.contains(mark) && script.contains("PLIMSOLL_COMPLETE"), "{shell}: {script}");
    }
    assert!(refuses(&["completions", "tcsh"]).contains("bash, zsh, fish"));
    if let Ok(shell) = Command::new("bash").args(["-n", "-c", &says(&["completions", "bash"])]).output() {
        assert!(shell.status.success(), "{}", String::from_utf8_lossy(&shell.stderr));
    }
}

#[test]
fn manual_pages_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man1");
    says(&["man", "--dir", man.to_str().unwrap()]);
    for page in
        ["plimsoll.1", "plimsoll-volume.1", "plimsoll-volume-create.1", "plimsoll-volume-access-add.1"]
    {
        let text = std::fs::read_to_string(man.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
    }
    let page = |name: &str| std::fs::read_to_string(man.join(name)).unwrap();
    let create = page("plimsoll-volume-create.1");
    assert!(create.contains("\\-\\-pool") && create.contains("plimsoll volume create v1"), "{create}");
    for section in ["EXAMPLES", "NOTES", "EXIT STATUS", "SEE ALSO"] {
        let heading = if section.contains(' ') { format!("\"{section}\"") } else { section.to_owned() };
        assert!(create.contains(&format!(".SH {heading}\n")), "{section}: {create}");
    }
    assert!(create.contains(r"\fBplimsoll\-volume\fR(1), \fBplimsoll\-volume\-list\fR(1)"), "{create}");
    let pages: Vec<_> = std::fs::read_dir(&man).unwrap().map(|page| page.unwrap().path()).collect();
    for path in &pages {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(".SH \"SEE ALSO\"") && !text.contains("EXTRA"), "{}", path.display());
    }
    let compare = page("plimsoll-bench-compare.1");
    assert!(
        compare.contains("2 not all rates can be compared") && !compare.contains("command line is wrong"),
        "{compare}"
    );
}
