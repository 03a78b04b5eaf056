//! A service with vaults in a bucket of a real server, which `conformance/s3/run` starts and describes in `PLIMSOLL_S3`:
//! endpoint, bucket, access key, secret key, and the file of its issuer or nothing, with commas between.

use crate::backups::{fill, is_whole, restore};
use crate::rig::{Service, eventually};
use serde_json::Value;
use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// The arguments that name the bucket, with a prefix that no other test has. The credentials are in a file in `dir`.
fn bucket(dir: &tempfile::TempDir) -> Vec<String> {
    let described = std::env::var("PLIMSOLL_S3").expect("conformance/s3/run sets PLIMSOLL_S3");
    let parts: Vec<&str> = described.split(',').collect();
    let [endpoint, bucket, access_key, secret_key, issuer] = parts[..] else {
        panic!("five parts: {described}")
    };
    let file = dir.path().join("credentials");
    write(&file, format!("aws_access_key_id = {access_key}\naws_secret_access_key = {secret_key}\n"))
        .unwrap();
    set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let prefix = format!("service/{}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos());
    let named = ["--endpoint", endpoint, "--bucket", bucket, "--prefix", &prefix];
    let mut args: Vec<String> = named.map(str::to_owned).into();
    args.extend(["--credentials".to_owned(), file.to_str().unwrap().to_owned()]);
    if !issuer.is_empty() {
        args.extend(["--ca-file".to_owned(), issuer.to_owned()]);
    }
    args
}

fn with<'a>(args: &[&'a str], more: &'a [String]) -> Vec<&'a str> {
    args.iter().copied().chain(more.iter().map(String::as_str)).collect()
}

fn progress(service: &Service, id: &str) -> Value {
    service.json(&["operation", "show", id])["progress"].clone()
}

#[test]
#[ignore = "conformance/s3/run starts a server for it"]
fn vault_in_a_bucket_outlives_kills_and_its_service_but_not_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let (bucket, key) = (bucket(&dir), dir.path().join("key"));
    let key = key.to_str().unwrap();
    let mut service = Service::with_snapshots("1TiB");
    service.says(&["vault", "new-key", key]);
    let create = with(&["vault", "create", "off", "--key-file", key], &bucket);
    if bucket.iter().any(|arg| arg == "--ca-file") {
        // Without the issuer, the server is not who it says.
        let said = service.refuses(&create[..create.len() - 2]);
        assert!(said.contains("certificate"), "{said}");
    }
    service.says(&create);
    fill(&service);

    // Killed in the middle of an upload, it goes on with the same backup.
    service.says(&["vault", "update", "off", "--limit", "8MiB"]);
    let begun = service.json(&["backup", "create", "v1", "one", "--vault", "off", "--no-wait"]);
    let id = begun["id"].to_string();
    eventually("something is sent", || progress(&service, &id)["done"].as_u64().unwrap_or(0) > 4 << 20);
    service.kill();
    service.start_again();
    service.says(&["vault", "update", "off", "--no-limit"]);
    service.says(&["operation", "wait", &id]);
    service.says(&["backup", "verify", "off", "one"]);
    service.says(&restore("one", "v2"));
    assert!(is_whole(&service, "/v2"));

    // A second service is refused until it takes the vault over; then the first one is.
    let other = Service::with_snapshots("1TiB");
    let said = other.refuses(&create);
    assert!(said.contains("take it over"), "{said}");
    let keyless = with(&["vault", "create", "off", "--take-over"], &bucket);
    let said = other.refuses(&keyless);
    assert!(said.contains("If that key is lost, so are its backups"), "{said}");
    other.says(&[&create[..], &["--take-over"]].concat());
    assert_eq!(other.json(&["backup", "list"])["items"][0]["name"], "one");
    other.says(&restore("one", "v2"));
    assert!(is_whole(&other, "/v2"));
    let said = service.refuses(&["backup", "create", "v1", "two", "--vault", "off"]);
    assert!(said.contains("belongs to the service"), "{said}");
    other.says(&["backup", "create", "v2", "two", "--vault", "off"]);

    // Nobody reads anything without the key.
    std::fs::remove_file(key).unwrap();
    let said = other.refuses(&restore("one", "v3"));
    assert!(said.contains("key"), "{said}");
    let said = other.refuses(&["backup", "verify", "off", "one"]);
    assert!(said.contains("key"), "{said}");
    other.says(&["vault", "new-key", key]);
    let said = other.refuses(&["backup", "verify", "off", "one"]);
    assert!(said.contains("If that key is lost, so are its backups"), "{said}");
}
