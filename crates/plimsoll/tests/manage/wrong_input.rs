//! Wrong input: what the messages say, and the exit statuses.

use crate::rig::{Service, plimsoll};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

/// Words of Rust and its libraries, which no message has.
const FOREIGN: [&str; 6] =
    ["os error", "expected struct", "invalid digit", "is not in ", "KeyMismatch", "panicked"];

/// The status and the message of a command without a service.
#[track_caller]
fn refused(dir: &Path, args: &[&str]) -> (i32, String) {
    let mut command = plimsoll(None);
    let Output { status, stderr, stdout } = command.current_dir(dir).args(args).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(!status.success(), "{args:?}: {}{said}", String::from_utf8_lossy(&stdout));
    for words in FOREIGN {
        assert!(!said.contains(words), "{args:?}: {said}");
    }
    (status.code().unwrap(), said)
}

fn write(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).unwrap();
    fs::set_permissions(dir.join(name), Permissions::from_mode(0o600)).unwrap();
}

/// Runs each command line; checks its status and a part of its message.
#[track_caller]
fn check(dir: &Path, status: i32, cases: &[(&str, &str)]) {
    for (line, part) in cases {
        let args: Vec<&str> = line.split(' ').collect();
        let (ended, said) = refused(dir, &args);
        assert!(said.contains(part), "{line}: {said}");
        assert_eq!(ended, status, "{line}: {said}");
    }
}

#[test]
fn number_is_refused_with_its_range() {
    let dir = tempfile::tempdir().unwrap();
    check(
        dir.path(),
        2,
        &[
            ("user create bob --uid bob", "'--uid <UID>': allowed: a whole number from 1 to 2000000000"),
            ("operation show abc", "'<ID>': allowed: a whole number of 1 or more"),
            ("volume watch v1 --count 0", "allowed: a whole number of 1 or more"),
            ("export . --threads 0", "allowed: a whole number from 1 to 256"),
            ("export . --threads 100000", "allowed: a whole number from 1 to 256"),
            ("export . --idle-timeout 0", "allowed: a whole number from 1 to 4294967295"),
            ("bench load h:/v --op read --depth 0", "allowed: a whole number from 1 to 1024"),
            ("size --like home --users 0", "allowed: a whole number from 1 to 4294967295"),
            ("volume create v --pool p --size 1TiB --endpoint 300.1.1.1", "allowed: an IP address"),
            (
                "pool create p --level anf/ultra --size -4TiB",
                "\"-4TiB\" begins with a minus; allowed: values of 0",
            ),
            (
                "pool create p --level anf/ultra --size 99999999999999999TiB",
                "is too large; allowed: less than",
            ),
        ],
    );
}

#[test]
fn setting_that_is_given_twice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let pool = "pool create p --level plimsoll/custom --size 1TiB";
    let volume = "volume create v --pool p --size 1GiB";
    check(
        dir.path(),
        2,
        &[
            (&format!("{pool} --limit iops=1 --limit iops=2"), "--limit has iops twice; allowed: each once"),
            (&format!("{volume} --protocols smb --smb oplocks=on,oplocks=off"), "--smb has oplocks twice"),
            (&format!("{volume} --label a=b --label a=c"), "--label has a twice"),
            (&format!("{volume} --protocols nfsv3,nfsv3"), "--protocols has nfsv3 twice"),
        ],
    );
}

#[test]
fn flag_without_effect_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    check(
        dir.path(),
        2,
        &[
            (
                "size --capacity 1TiB --iops 10 --provider anf --level gcnv/premium",
                "not a level of the --provider",
            ),
            ("serve --data d --listen 127.0.0.1:0 --api 127.0.0.1:0 --smb-anonymous", "give --smb-listen"),
            (
                "volume create v --pool p --size 1GiB --smb encryption=required",
                "which --protocols has to name",
            ),
            (
                "volume update v --protocols nfsv3 --create-mode 0660",
                "--create-mode and --directory-mode are for SMB",
            ),
            ("bench load h:/v --op read --read 50", "--read is the share of reads of --op mix"),
            (
                "setup --address 127.0.0.1 --protocols nfs --tls none --user alice --password-file s --config c",
                "--user is a user of SMB",
            ),
            ("level shape gcnv-extreme-nfs3-8k-rand -o x.png", ".json with --json, .svg for the picture"),
        ],
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was done");
}

#[test]
fn wrong_command_line_ends_with_status_2() {
    let dir = tempfile::tempdir().unwrap();
    let serve = "serve --data d --listen 127.0.0.1:0 --api 127.0.0.1:0";
    let size = "size --capacity 1TiB --iops 10k";
    write(dir.path(), "empty.json", "{}");
    write(dir.path(), "cut.json", "{\"format\": \"plimsoll-run/1\",");
    write(dir.path(), "prices.toml", "currency = \"EUR\"\n[level.\"anf/premium\"]\nper_gb = 1\n");
    check(
        dir.path(),
        2,
        &[
            (&format!("{serve} --tls require"), "TLS has no certificate; give it with --tls-cert"),
            (&format!("{serve} --tls-cert c.pem"), "a certificate without its key: give --tls-key"),
            ("export . --state s --tls-key k.pem", "a key without its certificate"),
            ("export . --state s --lease 2", "allowed: a whole number from 5 to 3600"),
            (
                "export . --state s --grace-period 5",
                "--grace-period is 5; allowed: a whole number from 30 to 3600",
            ),
            ("demo --once --data s --time 0s", "--time is 0 ms; allowed: 100ms or more"),
            ("level show anf/ultra --size 512GiB", "allowed: 1 TiB to 2 PiB in steps of 1 TiB"),
            (
                &format!("{size} --prices prices.toml"),
                "prices.toml: line 3: level.\"anf/premium\".per_gb is unknown; allowed: per_gib, ",
            ),
            (
                &format!("{size} --measured empty.json"),
                "empty.json is not a result of \"plimsoll bench run\": ",
            ),
            (&format!("{size} --measured cut.json"), "the file ends too early, at line 1"),
            ("size --capacity 1TiB --from cut.json", "the file ends too early, at line 1"),
            ("tls client a,b", "allowed: letters, digits, - and _ in parts with dots between them"),
            ("bench load h:/v --op read --time 0s", "--time is 0 ms; allowed: 100ms or more"),
        ],
    );
    let (status, said) = refused(dir.path(), &["tls", "client", "web one"]);
    assert!(status == 2 && said.contains("is not a host name"), "{said}");
    assert!(!dir.path().join("d").exists() && !dir.path().join("s").exists(), "nothing was done");
}

#[test]
fn fault_of_a_configuration_has_its_line_its_key_and_the_allowed_values() {
    let dir = tempfile::tempdir().unwrap();
    for (text, fault) in [
        (
            "colour = 1",
            "line 2: colour is unknown; allowed: data, storage, snapshots, ceph, cluster, nfs, smb, replication, api",
        ),
        ("[nfs]\nlease = 2", "line 3: nfs.lease is 2; allowed: a whole number from 5 to 3600"),
        ("[nfs]\ngrace_period = 5", "line 3: nfs.grace_period is 5; allowed: a whole number from 30 to 3600"),
        ("[nfs]\nthreads = 0", "line 3: nfs.threads is 0; allowed: a whole number from 1 to 256"),
        ("[nfs]\nipv6_prefix = 500", "line 3: nfs.ipv6_prefix is 500; allowed: a whole number from 1 to 128"),
        ("[nfs]\nlisten = 2049", "line 3: nfs.listen is 2049; allowed: ADDRESS:PORT, like"),
        ("[nfs.tls]\nmode = \"maybe\"", "line 3: nfs.tls.mode is \"maybe\"; allowed: off, allow, require"),
        ("[api]\nurl = \"nonsense\"", "line 3: api.url is \"nonsense\"; allowed: https://HOST:PORT"),
        (
            "[ceph]\ngateway = \"one\"",
            "line 3: ceph.gateway has no effect: set storage = \"cephfs\" at the top of the file",
        ),
        (
            "storage = \"cephfs\"\n[ceph]\nuser = \"client.plimsoll\"",
            "line 4: ceph.user is \"client.plimsoll\"; allowed: the name of a Ceph user without \"client.\"",
        ),
        ("[api\n", "line 2: not valid TOML: "),
    ] {
        write(dir.path(), "c.toml", &format!("data = \"d\"\n{text}\n"));
        let (status, said) = refused(dir.path(), &["serve", "--config", "c.toml"]);
        assert!(said.contains(&format!("c.toml: {fault}")), "{text}: {said}");
        assert_eq!(status, 1, "{text}: {said}");
        assert!(!dir.path().join("d").exists(), "{text}");
    }
}

#[test]
fn command_for_a_gateway_names_the_endpoints() {
    let dir = tempfile::tempdir().unwrap();
    let said = |wanted: &str| {
        let (status, said) = refused(dir.path(), &["pool", "list", "--data", "gateway"]);
        assert!(status == 1 && said.contains(wanted), "{wanted}: {said}");
    };
    fs::create_dir_all(dir.path().join("gateway/endpoints/home")).unwrap();
    said("no service runs in the data directory gateway: start one");
    write(dir.path(), "gateway/cluster.key", "");
    said("gateway belongs to a gateway, whose endpoints are services of their own; none is served here");
    let announced = r#"{"api":"http://127.0.0.1:1","nfs":"127.0.0.1:2","has_socket":false}"#;
    write(dir.path(), "gateway/endpoints/home/service.json", announced);
    said("services of their own; name one: --data gateway/endpoints/home");
}

#[test]
fn fault_of_a_file_of_users_does_not_repeat_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let user = "[[user]]\nname = \"a\"\nuid = 5\n";
    for (line, fault) in [
        ("password = 12345", "line 4: user.password has a wrong type; allowed: a string"),
        ("password = 12345x", "line 4: not valid TOML: "),
        ("nt_hash = 12345", "line 4: user.nt_hash has a wrong type; allowed: a string"),
        ("shoe = 12345", "line 4: user.shoe is unknown; allowed: name, uid, gid, password, nt_hash"),
    ] {
        write(dir.path(), "users.toml", &format!("{user}{line}\n"));
        let export = "export . --state s --protocols smb --smb-listen 127.0.0.1:0 --smb-users users.toml";
        let (_, said) = refused(dir.path(), &export.split(' ').collect::<Vec<_>>());
        assert!(said.contains(&format!("users.toml: {fault}")) && !said.contains("12345"), "{line}: {said}");
    }
}

#[test]
fn fault_of_a_scenario_has_its_line() {
    let dir = tempfile::tempdir().unwrap();
    for (line, fault) in [
        ("work = \"dance\"", "s.toml: line 5: series.work is \"dance\"; allowed: transfers, open-read"),
        ("depths = 5", "s.toml: line 5: series.depths is not allowed; allowed: numbers"),
        ("color = 5", "s.toml: line 5: series.color is unknown; allowed: name, "),
        (
            "work = \"metadata\"\noperations = [\"stat\"]\nblocks = [\"4k\"]",
            "blocks has no effect on the work \"metadata\"; leave it out",
        ),
    ] {
        write(
            dir.path(),
            "s.toml",
            &format!("name = \"x\"\ntitle = \"X\"\n[[series]]\nname = \"a\"\n{line}\n"),
        );
        let (status, said) = refused(dir.path(), &["bench", "run", "s.toml", "--target", "127.0.0.1:/v1"]);
        assert!(said.contains(fault), "{line}: {said}");
        assert_eq!(status, 2, "{line}: {said}");
    }
}

#[test]
fn fault_of_a_file_of_rules_has_its_place() {
    let service = Service::with_volume("1TiB", &[]);
    let rules = service.says(&["volume", "access", "list", "v1", "--json"]);
    let path = service.data().join("rules.json");
    for (text, fault) in [
        (
            rules.replace("read-write", "write"),
            ".rules[0].access is \"write\"; allowed: read-write, read-only",
        ),
        (rules.replace("\"access\"", "\"color\""), ".rules[0].color is unknown; allowed: clients, access"),
        ("[]".to_owned(), "the text is an array; allowed: an object"),
        ("{\"x".to_owned(), "the text ends too early, at line 1"),
    ] {
        fs::write(&path, &text).unwrap();
        let said = service.refuses(&["volume", "access", "set", "v1", "--file", path.to_str().unwrap()]);
        assert!(said.contains(fault), "{text}: {said}");
    }
    assert_eq!(service.says(&["volume", "access", "list", "v1", "--json"]), rules, "nothing has changed");
}

#[test]
fn target_of_another_protocol_is_reported_as_no_smb_server() {
    let service = Service::with_volume("1TiB", &[]);
    write(service.data(), "secret", "x");
    let secret = service.data().join("secret");
    let target = format!("smb://alice@{}/v1", service.nfs());
    let load = ["bench", "load", &target, "--op", "read", "--password-file", secret.to_str().unwrap()];
    let said = service.refuses(&load);
    let expected = format!("{} does not answer as an SMB server", service.nfs());
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn load_that_has_no_room_is_refused_before_it_writes() {
    let service = Service::with_volume("1TiB", &[]);
    let target = format!("nfs://{}/v1", service.nfs());
    let said = service.refuses(&["bench", "load", &target, "--op", "read", "--size", "2TiB"]);
    assert!(
        said.contains("--files × --size is 8 × 2 TiB; ") && said.contains("allowed are files of up to"),
        "{said}"
    );
    let nowhere = service.refuses(&["bench", "load", &target.replace("v1", "v9"), "--op", "read"]);
    assert!(nowhere.contains("there is no such export: the server answered MNT3ERR_NOENT"), "{nowhere}");
}

#[test]
fn standard_error_has_json_alone_with_json() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"]);
    let lines = |args: &[&str]| {
        let output = service.command(args).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let parsed = text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")));
        parsed.collect::<Vec<Value>>()
    };
    let warned = lines(&[
        "volume",
        "create",
        "v1",
        "--pool",
        "p1",
        "--size",
        "1TiB",
        "--endpoint",
        "192.0.2.7",
        "--json",
    ]);
    let warnings: Vec<&str> = warned.iter().filter_map(|line| line["warning"]["message"].as_str()).collect();
    assert!(
        warnings.iter().any(|text| text.contains("192.0.2.7: it is no address of this machine")),
        "{warned:?}"
    );
    let target = "nfs://127.0.0.1:1/v1";
    let failed = lines(&["bench", "load", target, "--op", "read", "--json"]);
    let error = &failed.last().unwrap()["error"];
    assert!(error["message"].as_str().unwrap().ends_with("Connection refused"), "{failed:?}");
    assert_eq!(error["exit_status"], 1);
    let other = lines(&["pool", "create", "p1", "--level", "anf/premium", "--size", "9TiB", "--json"]);
    let problem = &other[0]["error"]["problem"];
    assert_eq!(problem["type"], "urn:plimsoll:problem:conflict", "{other:?}");
    assert!(problem["differs"].as_array().unwrap().len() > 1, "{problem}");
    let unparsed = lines(&["pool", "create", "--json"]);
    assert_eq!(unparsed[0]["error"]["exit_status"], 2);
    let usage = unparsed[0]["error"]["message"].as_str().unwrap();
    assert!(
        usage.contains("--level <LEVEL>") && !usage.contains("--data"),
        "the environment has it: {usage}"
    );
}

#[test]
fn wrong_variable_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (variable, value, expected) in [
        ("PLIMSOLL_DATA", "", "the variable PLIMSOLL_DATA is empty"),
        ("PLIMSOLL_URL", "x", "--url (PLIMSOLL_URL) is \"x\"; allowed: https://HOST:PORT"),
        (
            "PLIMSOLL_LOG",
            "loud",
            "PLIMSOLL_LOG is \"loud\"; allowed: error, warn, info, debug, or levels of parts",
        ),
    ] {
        let mut command = plimsoll(None);
        let output = command.current_dir(dir.path()).env(variable, value).arg("status").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(expected) && output.status.code() == Some(2), "{said}");
    }
}
