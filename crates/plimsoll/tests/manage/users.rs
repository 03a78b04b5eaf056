//! Management of users and groups.

use crate::rig::Service;
use serde_json::json;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const PASSWORD: &str = "correct horse";

/// Runs a command with this standard input; returns whether it succeeded, and its output.
fn told(service: &Service, args: &[&str], input: &str) -> (bool, String) {
    let mut command = service.command(args);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not want it ends before it has it.
    _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.success(), said)
}

fn file(service: &Service, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = service.data().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_user_is_made_shown_changed_and_deleted() {
    let service = Service::start();
    let create = ["user", "create", "alice", "--uid", "1000", "--windows-name", r"CORP\a.smith"];
    let (is_done, said) = told(&service, &create, &format!("{PASSWORD}\n"));
    assert!(is_done && said == "Created user alice: uid 1000, gid 1000.\n", "{said}");
    let (_, again) = told(&service, &create, PASSWORD);
    assert_eq!(again, "Exists already, unchanged: user alice: uid 1000, gid 1000.\n");
    let (is_done, other) = told(&service, &create, "another");
    assert!(!is_done && other.contains("with other properties, password"), "{other}");
    service.says(&["user", "create", "svc", "--uid", "1001", "--gid", "0", "--no-password"]);
    let listed = service.says(&["user", "list"]);
    assert!(listed.contains("alice  1000  1000  yes"), "{listed}");
    assert!(listed.contains("svc    1001     0  no"), "{listed}");
    let shown = service.says(&["user", "show", "alice"]);
    assert!(shown.contains(r"CORP\a.smith") && shown.contains("set"), "{shown}");
    let secret = file(&service, "secret", "second\n", 0o600);
    let said = service.says(&["user", "set-password", "alice", "--password-file", secret.to_str().unwrap()]);
    assert_eq!(said, "Set the password of user alice.\n");
    let late = service.refuses(&["user", "set-password", "alice", "--no-password", "--if-version", "1-0"]);
    assert!(late.contains("user alice has changed since version \"1-0\""), "{late}");
    let said = service.says(&["user", "set-password", "alice", "--no-password"]);
    assert_eq!(said, "User alice has no password now and cannot log in.\n");
    let said = service.says(&["user", "update", "alice", "--gid", "2000", "--no-windows-names"]);
    assert_eq!(said, "Updated user alice: uid 1000, gid 2000, no password: it cannot log in.\n");
    let user = service.json(&["user", "show", "alice"]);
    assert_eq!((&user["gid"], &user["windows_names"]), (&json!(2000), &json!([])));
    assert!(service.refuses(&["user", "delete", "alice"]).contains("use --yes"));
    assert_eq!(service.says(&["user", "delete", "alice", "--yes"]), "Deleted user alice.\n");
    assert!(service.refuses(&["user", "show", "alice"]).contains("there is no user alice"));
}

#[test]
fn groups_have_members() {
    let service = Service::start();
    for (user, uid) in [("alice", "1000"), ("bob", "1001"), ("carol", "1002")] {
        service.says(&["user", "create", user, "--uid", uid, "--no-password"]);
    }
    let said = service.says(&["group", "create", "artists", "--gid", "2000", "--member", "alice"]);
    assert_eq!(said, "Created group artists: gid 2000, 1 member.\n");
    let said = service.says(&["group", "add", "artists", "bob", "carol", "bob"]);
    assert_eq!(said, "Updated group artists: gid 2000, 3 members.\n");
    service.says(&["group", "remove", "artists", "alice"]);
    let shown = service.says(&["group", "show", "artists"]);
    assert!(shown.contains("bob, carol") && !shown.contains("alice"), "{shown}");
    assert!(service.says(&["user", "show", "bob"]).contains("artists"));
    let stranger = service.refuses(&["group", "add", "artists", "alice", "dave"]);
    assert!(stranger.contains("there is no user dave"), "{stranger}");
    assert!(service.says(&["group", "list"]).contains("artists  2000  alice, bob, carol"));
    assert_eq!(service.says(&["group", "delete", "artists", "-y"]), "Deleted group artists.\n");
}

#[test]
fn passwords_come_from_where_nobody_sees_them() {
    let service = Service::start();
    let create = |more: &[&'static str]| [&["user", "create", "alice", "--uid", "1000"][..], more].concat();
    let (is_done, said) = told(&service, &create(&["--password", PASSWORD]), "");
    assert!(!is_done && said.contains("--password-file"), "{said}");
    let (is_done, said) = told(&service, &create(&[PASSWORD]), "");
    assert!(!is_done && said.contains("unexpected argument"), "{said}");
    for (input, why) in [
        ("", "the password is empty"),
        ("\n", "the password is empty"),
        ("a\tb", "without control characters"),
    ] {
        let (is_done, said) = told(&service, &create(&[]), input);
        assert!(!is_done && said.contains(why), "{said}");
    }
    let open = file(&service, "secret", PASSWORD, 0o640);
    let with_file = [&create(&[])[..], &["--password-file", open.to_str().unwrap()]].concat();
    let (is_done, said) = told(&service, &with_file, "");
    assert!(!is_done && said.contains("chmod 600") && !said.contains(PASSWORD), "{said}");
    assert!(service.says(&["user", "list"]).starts_with("No users."));
    // Neither what is said of the user, nor the record, nor the store has it.
    let (_, said) = told(&service, &create(&["--json"]), PASSWORD);
    let operations = service.says(&["operation", "list", "--json"]);
    assert!(said.contains("alice") && operations.contains("uid 1000, gid 1000"), "{said} {operations}");
    assert!(!said.contains(PASSWORD) && !operations.contains(PASSWORD));
    for name in ["plimsoll.db", "plimsoll.db-wal", "users.key"] {
        let path = service.data().join(name);
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes()), "{name}");
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_key_that_is_gone_is_a_warning_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start_on(dir.path());
    told(&service, &["user", "create", "alice", "--uid", "1000"], PASSWORD);
    drop(service);
    fs::remove_file(dir.path().join("users.key")).unwrap();
    let service = Service::start_on(dir.path());
    let warned = service.says(&["warning", "list"]);
    assert!(warned.contains("1 user cannot log in") && warned.contains("users.key"), "{warned}");
    told(&service, &["user", "set-password", "alice"], PASSWORD);
    assert!(!service.says(&["warning", "list"]).contains("log in"));
}

/// Runs a command at a terminal and answers it; returns the text on the terminal.
fn at_terminal(service: &Service, line: &str, answers: &[(&str, &str)]) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{} {line}", env!("CARGO_BIN_EXE_plimsoll")), "/dev/null"]);
    script.env("PLIMSOLL_DATA", service.data()).env("TERM", "xterm");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = Vec::new();
    for (question, answer) in answers {
        while !String::from_utf8_lossy(&shown).ends_with(question) {
            let mut byte = [0];
            output.read_exact(&mut byte).unwrap();
            shown.extend(byte);
        }
        input.write_all(format!("{answer}\n").as_bytes()).unwrap();
    }
    output.read_to_end(&mut shown).unwrap();
    child.wait().unwrap();
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_password_that_is_typed_is_not_shown() {
    let service = Service::start();
    let (first, again) = ("Password of alice: ", "The same again: ");
    let create = "user create alice --uid 1000; stty -a";
    let shown = at_terminal(&service, create, &[(first, PASSWORD), (again, PASSWORD)]);
    assert!(shown.contains("Created user alice: uid 1000, gid 1000.") && !shown.contains("horse"), "{shown}");
    let is_as_before =
        |shown: &str| ["echo", "isig"].iter().all(|mode| shown.split_whitespace().any(|word| word == *mode));
    assert!(is_as_before(&shown), "{shown}");
    let set = "user set-password alice; stty -a";
    for (answers, why) in [
        (&[(first, "trombone"), (again, "another")][..], "two different passwords"),
        (&[(first, "")], "the password is empty"),
        (&[(first, "half\u{3}")], "interrupted"),
    ] {
        let shown = at_terminal(&service, set, answers);
        assert!(shown.contains(why) && !shown.contains("Set the password"), "{shown}");
        assert!(is_as_before(&shown) && !shown.contains("half") && !shown.contains("trombone"), "{shown}");
    }
    assert_eq!(service.json(&["user", "show", "alice"])["has_password"], json!(true));
}
