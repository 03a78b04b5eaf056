//! Refusals by `plimsoll export` of arguments for SMB that do not go together.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const USERS: &str = "[[user]]\nname = \"alice\"\nuid = 1000\npassword = \"a secret\"\n";

/// The error with which the program ends.
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["export", "files", "--state", "state", "--no-portmap", "--listen", "127.0.0.1:0"]);
    let output = command.args(arguments).current_dir(dir).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn arguments_that_do_not_go_together_are_refused_with_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("files")).unwrap();
    let users = dir.path().join("users.toml");
    let write = |text: &str, mode| {
        fs::write(&users, text).unwrap();
        fs::set_permissions(&users, fs::Permissions::from_mode(mode)).unwrap();
    };
    write(USERS, 0o600);
    let says = |arguments: &[&str], word: &str| {
        let said = refused(dir.path(), arguments);
        assert!(said.contains(word), "{arguments:?}: {said}");
    };
    says(&["--protocols", "smb"], "--smb-users");
    says(&["--smb-users", "users.toml"], "--protocols");
    says(&["--smb-listen", "127.0.0.1:0"], "--smb-users");
    says(&["--smb-names", "files"], "--smb-users");
    says(&["--smb-anonymous"], "--smb-users");
    says(&["--smb-multichannel", "off"], "--smb-users");
    says(&["--protocols", "nfs", "--smb-users", "users.toml"], "nfsv3");
    let smb = ["--protocols", "smb", "--smb-listen", "127.0.0.1:0", "--smb-users", "users.toml"];
    says(&[&smb[..], &["--smb-names", "files,,other"]].concat(), "cannot be empty");
    says(&[&smb[..], &["--smb-multichannel", "no"]].concat(), "possible values: on, off");
    write(USERS, 0o644);
    says(&smb, "chmod 600");
    write(&format!("{USERS}colour = 1\n"), 0o600);
    says(&smb, "colour");
    fs::remove_file(&users).unwrap();
    says(&smb, "users.toml");
}
