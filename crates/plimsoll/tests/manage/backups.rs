//! Vaults, backups and restores by the commands, of files that clients write.

use crate::mount::mount;
use crate::rig::{Service, eventually};
use nfs_wire::v3::StableHow;
use serde_json::{Value, json};
use std::path::Path;

const FILES: u32 = 100;
const FILE_BYTES: u32 = 256 << 10;

/// Bytes that do not compress.
fn noise(seed: u32, len: u32) -> Vec<u8> {
    let mut state = u64::from(seed) * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

pub fn fill(service: &Service) {
    let mut client = mount(service, "/v1").unwrap();
    let root = client.root();
    let dir = client.make_dir(&root, "projects", 0o755).unwrap();
    for number in 0..FILES {
        let file = client.create(&dir, &format!("file {number}"), 0o640).unwrap();
        client.write(&file, 0, &noise(number, FILE_BYTES), StableHow::FileSync).unwrap();
    }
}

pub fn is_whole(service: &Service, path: &str) -> bool {
    let mut client = mount(service, path).unwrap();
    let root = client.root();
    let dir = client.lookup(&root, "projects").unwrap();
    (0..FILES).all(|number| {
        let file = client.lookup(&dir, &format!("file {number}")).unwrap();
        client.read(&file, 0, FILE_BYTES).unwrap().data == noise(number, FILE_BYTES)
    })
}

fn with_vault() -> (Service, tempfile::TempDir) {
    let (service, place) = (Service::with_snapshots("1TiB"), tempfile::tempdir().unwrap());
    service.says(&["vault", "create", "off", "--directory", path(&place)]);
    (service, place)
}

fn path(dir: &tempfile::TempDir) -> &str {
    dir.path().to_str().unwrap()
}

pub fn restore<'a>(backup: &'a str, to: &'a str) -> Vec<&'a str> {
    let restore = ["backup", "restore", "off", backup, "--to", to, "--pool", "p1", "--size", "1TiB"];
    [&restore[..], &["--allow", "127.0.0.0/8", "--squash", "none"]].concat()
}

#[test]
fn volume_is_backed_up_deleted_and_restored_and_a_small_change_sends_little() {
    let (service, place) = with_vault();
    fill(&service);
    let said = service.says(&["backup", "create", "v1", "one", "--vault", "off"]);
    assert!(said.starts_with("Backed up volume v1 as one in vault off: 25 MiB"), "{said}");
    {
        let mut client = mount(&service, "/v1").unwrap();
        let file = client.walk("projects/file 7").unwrap();
        client.write(&file, 0, &noise(1_000, FILE_BYTES), StableHow::FileSync).unwrap();
    }
    let second = service.json(&["backup", "create", "v1", "two", "--vault", "off"]);
    let (bytes, sent) = (second["bytes"].as_u64().unwrap(), second["sent_bytes"].as_u64().unwrap());
    // One file of a hundred has changed.
    assert!(sent * 1_000 <= bytes * 12, "{sent} of {bytes}");
    // The snapshot of the last one stays for the next.
    let left = service.json(&["snapshot", "list", "v1"])["items"].as_array().unwrap().clone();
    let kinds: Vec<_> =
        left.iter().filter(|one| one["state"] == "ready").map(|one| one["kind"].clone()).collect();
    assert_eq!(kinds, [json!("backup")]);
    service.says(&["volume", "delete", "v1", "--yes", "--force"]);
    assert_eq!(service.json(&["backup", "list", "--volume", "v1"])["items"].as_array().unwrap().len(), 2);
    let said = service.says(&restore("one", "v2"));
    assert!(said.contains("Restored backup one of vault off to volume v2."), "{said}");
    assert!(is_whole(&service, "/v2"));
    let said = service.says(&["backup", "verify", "off", "one"]);
    assert!(said.contains("Backup one of vault off is intact."), "{said}");
    let files = ["--to", "v2", "--path", "projects/file 7", "--directory", "/"];
    let said = service.refuses(&[&["backup", "restore", "off", "two"][..], &files].concat());
    assert!(said.contains("file 7") && said.contains("exists"), "{said}");
    {
        let mut client = mount(&service, "/v2").unwrap();
        let root = client.root();
        client.make_dir(&root, "back", 0o755).unwrap();
    }
    let files = ["--to", "v2", "--path", "/projects/file 7", "--directory", "/back"];
    service.says(&[&["backup", "restore", "off", "two"][..], &files].concat());
    let mut client = mount(&service, "/v2").unwrap();
    let file = client.walk("back/projects/file 7").unwrap();
    assert_eq!(client.read(&file, 0, FILE_BYTES).unwrap().data, noise(1_000, FILE_BYTES));
    service.says(&["backup", "delete", "off", "one", "--yes"]);
    let said = service.refuses(&["backup", "delete", "off", "two", "--yes"]);
    assert!(
        said.contains("off/two is the latest backup of the volume v1") && said.contains("--force"),
        "{said}"
    );
    damage(place.path());
    let said = service.refuses(&["backup", "verify", "off", "two"]);
    assert!(said.contains("damaged: packs/"), "{said}");
    assert!(service.says(&["backup", "list"]).contains("damaged"));
}

fn damage(vault: &Path) {
    for pack in std::fs::read_dir(vault.join("packs")).unwrap() {
        let pack = pack.unwrap().path();
        let mut bytes = std::fs::read(&pack).unwrap();
        bytes[50] ^= 4;
        std::fs::write(&pack, bytes).unwrap();
    }
}

#[test]
fn killed_service_goes_on_with_a_backup_and_a_restore() {
    let (mut service, place) = with_vault();
    fill(&service);
    service.says(&["vault", "update", "off", "--limit", "8MiB"]);
    let begun = service.json(&["backup", "create", "v1", "one", "--vault", "off", "--no-wait"]);
    let id = begun["id"].to_string();
    let shown = |service: &Service| service.json(&["operation", "show", &id]);
    eventually("something is sent", || shown(&service)["progress"]["done"].as_u64().unwrap_or(0) > 4 << 20);
    let progress = shown(&service)["progress"].clone();
    assert_eq!(progress["unit"], "bytes");
    let total = u64::from(FILES) * u64::from(FILE_BYTES);
    assert_eq!(progress["total"], json!(total));
    eventually("a speed is shown", || shown(&service)["progress"]["per_second"].is_u64());
    let progress = shown(&service)["progress"].clone();
    let number = |name: &str| progress[name].as_u64().unwrap_or_else(|| panic!("{name}: {progress}"));
    // The first piece, of 1 MiB at most, waits for nothing.
    assert!(number("per_second") > 0 && number("per_second") <= 9 << 20, "{progress}");
    let left = (total - number("done")).div_ceil(number("per_second"));
    assert_eq!(number("seconds_left"), left, "{progress}");
    let said = service.refuses(&["snapshot", "delete", "v1", &own_snapshot(&service), "--yes"]);
    assert!(said.contains("the backup off/one is made from the snapshot"), "{said}");
    service.kill();
    service.start_again();
    service.says(&["operation", "wait", &id]);
    service.says(&["backup", "verify", "off", "one"]);
    let begun = service.json(&[&restore("one", "v2")[..], &["--no-wait"]].concat());
    let id = begun["id"].to_string();
    eventually("something is restored", || {
        let shown = service.json(&["operation", "show", &id]);
        shown["progress"]["done"].as_u64().unwrap_or(0) > 4 << 20
    });
    let state = service.json(&["volume", "show", "v2"])["state"].clone();
    assert_eq!(state, "creating");
    assert!(mount(&service, "/v2").is_err(), "it is served half restored");
    service.kill();
    service.start_again();
    assert!(mount(&service, "/v2").is_err(), "it is served half restored");
    service.says(&["vault", "update", "off", "--no-limit"]);
    service.says(&["operation", "wait", &id]);
    assert!(is_whole(&service, "/v2"));
    drop(place);
}

fn own_snapshot(service: &Service) -> String {
    let snapshots = service.json(&["snapshot", "list", "v1"]);
    snapshots["items"][0]["name"].as_str().unwrap().to_owned()
}

#[test]
fn vaults_are_made_shown_and_refused_with_the_reason() {
    let (service, place) = with_vault();
    let said = service.says(&["vault", "create", "off", "--directory", path(&place)]);
    assert!(said.starts_with("Exists already, unchanged: vault off in /"), "{said}");
    let data = service.data().join("vault");
    let said = service.refuses(&["vault", "create", "in", "--directory", data.to_str().unwrap()]);
    assert!(said.contains("are one in the other"), "{said}");
    let bucket = ["vault", "create", "in", "--endpoint", "https://127.0.0.1:1", "--bucket", "backups"];
    let said = service.refuses(&[&bucket[..], &["--credentials", "/"]].concat());
    assert!(
        said.contains("the place of the vault in: /: ") && said.contains("allowed: a directory"),
        "{said}"
    );
    let gone = place.path().join("gone");
    let said = service.refuses(&["vault", "update", "off", "--directory", gone.to_str().unwrap()]);
    assert!(said.contains("the place of the vault off: ") && said.contains("allowed: a directory"), "{said}");
    let said = service.refuses(&["vault", "create", "none"]);
    assert!(said.contains("allowed: directory or s3"), "{said}");
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    let key = key.to_str().unwrap();
    let said = service.says(&["vault", "new-key", key]);
    assert!(said.contains("Keep a copy of it elsewhere"), "{said}");
    assert!(service.refuses(&["vault", "new-key", key]).contains("allowed: a new file"));
    let vault = dir.path().join("vault");
    let create = ["vault", "create", "secret", "--directory", vault.to_str().unwrap(), "--key-file", key];
    service.says(&create);
    assert!(service.says(&["vault", "list"]).contains("secret"));
    let shown = service.json(&["vault", "show", "secret"]);
    assert_eq!((&shown["key_file"], &shown["lock_days"]), (&json!(key), &json!(0)));
    service.says(&["backup", "create", "v1", "--vault", "secret"]);
    let said = service.refuses(&["vault", "delete", "secret", "--yes"]);
    assert!(said.contains("the vault secret has 1 backup:") && said.contains("--force"), "{said}");
    service.says(&["vault", "delete", "secret", "--yes", "--force"]);
    let without = ["vault", "create", "secret", "--directory", vault.to_str().unwrap()];
    let said = service.refuses(&without);
    assert!(said.contains("If that key is lost, so are its backups"), "{said}");
    service.says(&create);
    let found = service.json(&["backup", "list", "--vault", "secret"]);
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1));
    let said = service.refuses(&["backup", "create", "v1", "--vault", "nowhere"]);
    assert!(said.contains("there is no vault nowhere"), "{said}");
    let said = service.refuses(&["backup", "show", "off", "nothing"]);
    assert!(said.contains("there is no backup off/nothing"), "{said}");
}

#[test]
fn only_administrators_name_files_of_the_host() {
    let (service, place) = with_vault();
    let made = service.json(&["token", "create", "op", "--role", "operate"]);
    let token = secret(&made);
    let run = |args: &[&str]| {
        let output = service.command(args).env("PLIMSOLL_TOKEN", &token).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let dir = place.path().join("other");
    let (is_done, said) = run(&["vault", "create", "x", "--directory", dir.to_str().unwrap()]);
    assert!(!is_done && said.contains("admin"), "{said}");
    let (is_done, said) = run(&["vault", "delete", "off", "--yes"]);
    assert!(!is_done && said.contains("admin"), "{said}");
    let (is_done, said) = run(&["backup", "create", "v1", "one", "--vault", "off"]);
    assert!(is_done, "{said}");
}

fn secret(made: &Value) -> String {
    made["secret"].as_str().or_else(|| made["token"].as_str()).unwrap().to_owned()
}

#[test]
fn policy_with_a_vault_makes_backups() {
    let (service, _place) = with_vault();
    let said = service.says(&["policy", "create", "nightly", "--vault", "off", "--daily", "7"]);
    assert!(said.contains("backups in vault off"), "{said}");
    let said = service.refuses(&["volume", "update", "v1", "--policy", "nightly"]);
    assert!(said.contains("which makes backups"), "{said}");
    let create = ["volume", "create", "v2", "--pool", "p1", "--size", "100GiB"];
    let said = service.refuses(&[&create[..], &["--policy", "nightly"]].concat());
    assert!(said.contains("which makes backups"), "{said}");
    service.says(&[&create[..], &["--backup-policy", "nightly"]].concat());
    assert_eq!(service.json(&["volume", "show", "v2"])["backup_policy"], "nightly");
    service.says(&["volume", "delete", "v2", "--yes"]);
    service.says(&["volume", "update", "v1", "--backup-policy", "nightly"]);
    assert!(service.says(&["volume", "show", "v1"]).contains("nightly"));
    let said = service.refuses(&["vault", "delete", "off", "--yes"]);
    assert!(said.contains("the policy nightly makes backups in the vault off"), "{said}");
    service.says(&["volume", "update", "v1", "--no-backup-policy"]);
    service.says(&["policy", "delete", "nightly", "--yes"]);
    service.says(&["vault", "delete", "off", "--yes"]);
}
