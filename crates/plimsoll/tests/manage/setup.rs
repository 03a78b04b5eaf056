//! `plimsoll setup` by flags: the file it writes, and the service that runs with it.

use crate::rig::{Service, plimsoll};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

const ALL: [&str; 6] = ["--address", "127.0.0.1", "--protocols", "nfs,smb", "--tls", "none"];

/// Runs setup without a terminal; returns its exit status, and its output.
fn setup(config: &Path, data: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut command = plimsoll(None);
    command.arg("setup").arg("--config").arg(config).arg("--data").arg(data).args(more);
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn setup_without_a_terminal_lists_the_flags_that_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("plimsoll.toml");
    let (status, said) = setup(&config, dir.path(), &["--protocols", "nfs"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("--address ADDRESS") && said.contains("--tls none|init"), "{said}");
    assert!(!said.contains("--protocols") && !config.exists(), "{said}");
}

#[test]
fn setup_replaces_only_files_as_it_or_the_package_has_written_them() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("plimsoll.toml");
    let copy = |number: u32| fs::read_to_string(dir.path().join(format!("plimsoll.toml.backup-{number}")));
    let packaged = include_str!("../../../../packaging/plimsoll.toml");
    fs::write(&config, packaged).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o640)).unwrap();
    let (status, said) = setup(&config, dir.path(), &ALL);
    assert!(status == Some(0) && said.contains("plimsoll.toml.backup-1"), "{said}");
    assert!(said.contains("mount -t nfs -o vers=4.2 127.0.0.1:/files /mnt"), "{said}");
    let first = fs::read_to_string(&config).unwrap();
    assert!(first.contains("[smb]\nlisten = \"127.0.0.1:445\""), "{first}");
    let other = ["--address", "0.0.0.0", "--protocols", "nfs", "--tls", "none"];
    assert_eq!(setup(&config, dir.path(), &other).0, Some(0));
    assert_eq!([copy(1).unwrap(), copy(2).unwrap()], [packaged, &first]);
    assert_eq!(config.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    // An edited file of its own is an administrator's, too.
    let edited = fs::read_to_string(&config).unwrap() + "threads = 2\n";
    for text in [edited.as_str(), "[nfs]\nthreads = 2\n"] {
        fs::write(&config, text).unwrap();
        let (status, said) = setup(&config, dir.path(), &ALL);
        assert!(
            status == Some(1) && said.contains("nothing was changed") && said.contains("--force"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&config).unwrap(), text);
    }
    assert_eq!(setup(&config, dir.path(), &[&ALL[..], &["--force"]].concat()).0, Some(0));
    assert_eq!(copy(3).unwrap(), "[nfs]\nthreads = 2\n");
}

#[test]
fn configurations_name_the_page_that_describes_their_settings() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("plimsoll.toml");
    assert_eq!(setup(&config, dir.path(), &ALL).0, Some(0));
    let packaged = include_str!("../../../../packaging/plimsoll.toml");
    for text in [packaged, &fs::read_to_string(&config).unwrap()] {
        let line = text.lines().find_map(|line| line.strip_suffix(" describes the settings."));
        let page = line.and_then(|line| line.strip_prefix("# /usr/share/doc/plimsoll/"));
        let page = page.unwrap_or_else(|| panic!("no page is named: {text}"));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert!(sources.join(page).is_file(), "{page}");
    }
}

#[test]
fn certificate_of_an_earlier_setup_is_renewed_for_another_address() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("plimsoll.toml");
    let tls = |address: &str| {
        let flags = ["--address", address, "--protocols", "nfs", "--tls", "init"];
        let (status, said) = setup(&config, &dir.path().join("data"), &flags);
        assert_eq!(status, Some(0), "{said}");
        let read = |name: &str| fs::read_to_string(dir.path().join("tls").join(name)).unwrap();
        (read("ca.pem"), read("server.pem"))
    };
    let (first, again, other) = (tls("127.0.0.1"), tls("127.0.0.1"), tls("127.0.0.9"));
    assert_eq!(first, again);
    assert!(first.0 == other.0 && first.1 != other.1);
    // The certificate is still for the first address.
    assert_eq!(tls("127.0.0.1"), other);
    fs::remove_file(dir.path().join("tls/ca.key")).unwrap();
    let flags = ["--address", "127.0.0.1", "--protocols", "nfs", "--tls", "init"];
    let (status, said) = setup(&config, &dir.path().join("data"), &flags);
    assert!(status == Some(1) && said.contains("but not ca.key") && said.contains("--tls-cert"), "{said}");
}

#[test]
fn service_runs_with_the_file_of_setup_and_its_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("plimsoll.toml");
    let tls = ["--address", "127.0.0.1", "--protocols", "nfs", "--tls", "init"];
    for _ in 0..2 {
        let (status, said) = setup(&config, &dir.path().join("data"), &tls);
        assert!(status == Some(0) && said.contains("xprtsec=tls"), "{said}");
    }
    assert!(dir.path().join("tls/ca.pem").exists());
    let options = ["--config", config.to_str().unwrap(), "--api", "127.0.0.1:0"];
    let service = Service::start_with(&options);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1GiB", "--allow", "127.0.0.1"];
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "4GiB"]);
    service.says(&[&create[..], &["--protocols", "nfsv4.2"]].concat());
    service.says(&["volume", "access", "set", "v1", "--allow", "127.0.0.1", "--xprtsec", "mtls"]);
}

#[test]
fn setup_creates_the_first_user_over_the_service_that_runs() {
    let service = Service::start_with(&["--smb-listen", "127.0.0.1:0"]);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("plimsoll.toml");
    let secret = dir.path().join("secret");
    fs::write(&secret, "hush\n").unwrap();
    let user = ["--user", "alice", "--uid", "1234", "--password-file", secret.to_str().unwrap()];
    let arguments = [&ALL[..], &user].concat();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let (status, said) = setup(&config, service.data(), &arguments);
    assert!(status == Some(1) && said.contains("chmod 600") && !config.exists(), "{said}");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    for done in ["Created user alice: uid 1234, gid 1234.", "Exists already, unchanged: user alice: uid 1234"]
    {
        let (status, said) = setup(&config, service.data(), &arguments);
        assert!(status == Some(0) && said.contains(done), "{said}");
        assert!(said.contains("username=alice,uid=1234,gid=1234") && !said.contains("user create"), "{said}");
    }
    assert_eq!(service.json(&["user", "show", "alice"])["has_password"], true);
    // Without an ID, each further user has the next free one, and the same one again.
    let free = service.json(&["user", "create", "plimsoll-bob", "--no-password"])["uid"].as_u64().unwrap();
    let carol = ["--user", "plimsoll-carol", "--password-file", secret.to_str().unwrap()];
    for _ in 0..2 {
        let (status, said) = setup(&config, service.data(), &[&ALL[..], &carol].concat());
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains(&format!("plimsoll-carol: uid {0}, gid {0}.", free + 1)), "{said}");
    }
    let group = service.json(&["group", "create", "plimsoll-team"]);
    assert_eq!(group["gid"], free + 2);
}

#[test]
fn certificate_that_cannot_be_read_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("plimsoll.toml");
    let (certificate, key) = (dir.path().join("server.pem"), dir.path().join("server.key"));
    fs::write(&certificate, "no certificate").unwrap();
    fs::write(&key, "no key").unwrap();
    let files = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let (status, said) = setup(&config, dir.path(), &[&ALL[..4], &files].concat());
    assert!(status == Some(1) && said.contains("server.key") && !config.exists(), "{said}");
}
