//! What needs no service: levels, help, errors, completions, manual pages.

use crate::rig::{Service, plimsoll};
use serde_json::{Value, json};
use std::process::Command;

/// What a command says without a service; it must succeed.
#[track_caller]
fn says(args: &[&str]) -> String {
    let output = plimsoll(None).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Why a command is refused.
#[track_caller]
fn refuses(args: &[&str]) -> String {
    let output = plimsoll(None).args(args).output().unwrap();
    assert!(!output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn levels_tell_their_limits_and_who_says_so() {
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
    assert!(shared.contains("16 MiB/s, 1024 IOPS") && shared.contains("those of the pool"), "{shared}");
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
        (&["level", "show", "anf/premium", "--size", "2T"], "like 2TiB, 1.5TiB"),
        (&["level", "show", "anf/premium", "--size", "1.5TiB"], "allowed: 1 TiB to 2 PiB in steps of 1 TiB"),
        (&["level", "show", "anf/premium", "--size", "2TiB", "--iops", "5"], "the level does not have it"),
        (&["level", "show", "anf/premium", "--throughput", "5MiB/s"], "settings without a size"),
        (&["level", "show", "anf/premium", "--volume-size", "1TiB"], "--size <SIZE>"),
        (&["pool", "create", "p1", "--level", "anf/ultra"], "--size <SIZE>"),
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
            &["export", "add", "v1", "--allow", "10.0.0.1", "--anonymous", "4294967295:0"],
            "allowed: 0 to 4294967294",
        ),
        (&["volume", "create", "v1", "--pool", "p1", "--size", "1TiB", "--scale", "2"], "--shape <SHAPE>"),
        (
            &["volume", "create", "v1", "--pool", "p1", "--size", "1TiB", "--durability", "no"],
            "sync, relaxed",
        ),
        (&["token", "create", "t", "--role", "root"], "read, operate, admin"),
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
        &["export", "add"],
        &["export", "set"],
        &["level", "show"],
        &["token", "create"],
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

/// What a shell would be told could follow.
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
    offers(&["export", "list", ""], "v1");
    offers(&["token", "revoke", ""], "admin");
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
    for page in ["plimsoll.1", "plimsoll-volume.1", "plimsoll-volume-create.1", "plimsoll-export-add.1"] {
        let text = std::fs::read_to_string(man.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
    }
    let create = std::fs::read_to_string(man.join("plimsoll-volume-create.1")).unwrap();
    assert!(create.contains("\\-\\-pool") && create.contains("plimsoll volume create v1"), "{create}");
}
