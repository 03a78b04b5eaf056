//! Objects of RADOS on a Ceph cluster that `cargo xtask ceph` starts.

use ceph::{ObjectChange, Presence, Rados, RadosOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Once, mpsc};
use std::time::{Duration, Instant};
use vfs::{Provisioner, VolumeId};
use vfs_testing::UncheckedNode;

const POOL: &str = "rados-tests";

fn conf() -> PathBuf {
    std::env::var_os("CEPH_CONF").expect("CEPH_CONF names the configuration of a cluster").into()
}

/// Runs a command of the cluster.
fn ceph(words: &[&str]) -> String {
    let run = Command::new("ceph").arg("-c").arg(conf()).args(words).output().expect("ceph runs");
    assert!(run.status.success(), "{words:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).expect("text")
}

fn options() -> RadosOptions {
    static POOL_IS_MADE: Once = Once::new();
    POOL_IS_MADE.call_once(|| {
        ceph(&["osd", "pool", "create", POOL, "8"]);
        ceph(&["osd", "pool", "application", "enable", POOL, "plimsoll"]);
    });
    let connect_timeout = RadosOptions::CONNECT_TIMEOUT;
    RadosOptions { conf: conf(), user: "admin".into(), pool: POOL.into(), connect_timeout }
}

fn connect() -> Rados {
    Rados::connect(&options()).expect("the cluster answers")
}

/// An object name that no other test uses.
fn object() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("tests-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn key(text: &str) -> String {
    text.to_owned()
}

fn set(name: &str, value: &[u8]) -> ObjectChange {
    ObjectChange { sets: vec![(key(name), value.to_vec())], ..ObjectChange::default() }
}

fn pairs(pairs: &[(&str, &[u8])]) -> Option<BTreeMap<String, Vec<u8>>> {
    Some(pairs.iter().map(|(name, value)| (key(name), value.to_vec())).collect())
}

/// Adds 1 to a decimal number; `false` if another client was first.
fn add_one(rados: &Rados, object: &str) -> std::io::Result<bool> {
    let found = rados.load(object)?.unwrap_or_default().remove("count");
    let number = found.as_ref().map_or(0, |text| number(text));
    let condition = (key("count"), found);
    let sets = vec![(key("count"), (number + 1).to_string().into_bytes())];
    rados.change(object, &ObjectChange { conditions: vec![condition], sets, ..ObjectChange::default() })
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).expect("text").parse().expect("a number")
}

fn count(rados: &Rados, object: &str) -> u64 {
    rados.load(object).expect("a read").unwrap_or_default().get("count").map_or(0, |text| number(text))
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn counter_of_eight_threads_loses_no_addition() {
    const ADDITIONS: u64 = 50;
    let (object, collisions) = (object(), AtomicUsize::new(0));
    // Four of them share a connection.
    let shared = connect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (shared, object, collisions) = (&shared, &object, &collisions);
            scope.spawn(move || {
                let own = (thread % 2 == 0).then(connect);
                let rados = own.as_ref().unwrap_or(shared);
                for _ in 0..ADDITIONS {
                    let refused = (0..10_000).take_while(|_| !add_one(rados, object).expect("a change"));
                    let refused = refused.count();
                    assert!(refused < 10_000, "no addition succeeds");
                    collisions.fetch_add(refused, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(count(&shared, &object), 8 * ADDITIONS);
    assert!(collisions.load(Ordering::Relaxed) > 0, "the threads never met");
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn change_with_a_false_condition_changes_nothing() {
    let (rados, object) = (connect(), object());
    let refused = |change: &ObjectChange| {
        let before = rados.load(&object).expect("a read");
        assert!(!rados.change(&object, change).expect("an answer"), "{change:?}");
        assert_eq!(rados.load(&object).expect("a read"), before, "{change:?}");
    };
    let conditions = |list: &[(&str, Option<&[u8]>)]| ObjectChange {
        conditions: list.iter().map(|&(name, value)| (key(name), value.map(<[u8]>::to_vec))).collect(),
        removals: vec![key("b"), key("none")],
        sets: vec![(key("a"), b"new".to_vec()), (key("d"), b"4".to_vec())],
        presence: Presence::Any,
    };
    // Without an object: none is made.
    refused(&conditions(&[("a", Some(b"1"))]));
    refused(&ObjectChange { presence: Presence::Required, ..set("a", b"1") });
    assert_eq!(rados.load(&object).expect("a read"), None);

    let first = [("a", b"1"), ("b", b"2"), ("c", b"3")].map(|(name, value)| (key(name), value.to_vec()));
    let create = ObjectChange { sets: first.to_vec(), presence: Presence::Forbidden, ..Default::default() };
    assert!(rados.change(&object, &create).expect("a change"));
    refused(&create);
    refused(&conditions(&[("a", Some(b"1")), ("b", Some(b"2")), ("c", Some(b"0"))]));
    refused(&conditions(&[("a", Some(b"0")), ("b", Some(b"2"))]));
    refused(&conditions(&[("a", Some(b"1")), ("b", None)]));
    refused(&conditions(&[("d", Some(b"4"))]));
    // A prefix is not the value.
    refused(&conditions(&[("a", Some(b"11"))]));

    let change = conditions(&[("a", Some(b"1")), ("b", Some(b"2")), ("d", None)]);
    assert!(rados.change(&object, &change).expect("a change"));
    let after = pairs(&[("a", b"new"), ("c", b"3"), ("d", b"4")]);
    assert_eq!(rados.load(&object).expect("a read"), after);
    refused(&change);
    let required = ObjectChange { presence: Presence::Required, ..set("c", b"5") };
    assert!(rados.change(&object, &required).expect("a change"));
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn absent_keys_of_a_missing_object_are_a_true_condition() {
    let (rados, object) = (connect(), object());
    let change = ObjectChange { conditions: vec![(key("a"), None)], ..set("a", b"1") };
    assert!(rados.change(&object, &change).expect("a change"));
    assert!(!rados.change(&object, &change).expect("an answer"));
    // An object without pairs exists.
    let empty = ObjectChange { removals: vec![key("a")], ..ObjectChange::default() };
    assert!(rados.change(&object, &empty).expect("a change"));
    assert_eq!(rados.load(&object).expect("a read"), pairs(&[]));
    assert!(rados.remove(&object).expect("a removal"));
    assert!(!rados.remove(&object).expect("an answer"));
    assert_eq!(rados.load(&object).expect("a read"), None);
    // Removals come before sets.
    let both = ObjectChange { removals: vec![key("a")], ..set("a", b"2") };
    assert!(rados.change(&object, &both).expect("a change"));
    assert_eq!(rados.load(&object).expect("a read"), pairs(&[("a", b"2")]));
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn exclusive_creation_succeeds_once() {
    let object = object();
    let clients = [(); 4].map(|()| connect());
    let create =
        |name: String| ObjectChange { presence: Presence::Forbidden, ..set("owner", name.as_bytes()) };
    let winners = std::thread::scope(|scope| {
        let threads = clients.iter().enumerate().map(|(number, rados)| {
            let change = create(number.to_string());
            let object = &object;
            scope.spawn(move || rados.change(object, &change).expect("an answer"))
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert_eq!(winners.iter().filter(|&&won| won).count(), 1, "{winners:?}");
    let winner = winners.iter().position(|&won| won).expect("a winner").to_string();
    assert_eq!(clients[0].load(&object).expect("a read"), pairs(&[("owner", winner.as_bytes())]));
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn excluded_client_changes_nothing_and_another_goes_on() {
    let (old, new, bystander, object) = (connect(), connect(), connect(), object());
    for _ in 0..3 {
        assert!(add_one(&old, &object).expect("a change"));
    }
    new.blocklist(&old.own_addresses().expect("an address"), 600).expect("the capability");
    new.wait_for_latest_map().expect("a map");
    assert_eq!(count(&new, &object), 3);
    let error = old.change(&object, &set("count", b"100")).expect_err("it is excluded");
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}");
    assert!(error.to_string().contains("excluded this client"), "{error}");
    for result in [old.load(&object).map(drop), old.write_blob(&object, b"x"), old.remove(&object).map(drop)]
    {
        assert_eq!(result.expect_err("it is excluded").kind(), ErrorKind::ConnectionAborted);
    }
    assert_eq!(count(&new, &object), 3);
    assert!(add_one(&new, &object).expect("a change"));
    assert!(add_one(&bystander, &object).expect("a change"));
    // The process may connect again.
    assert!(add_one(&connect(), &object).expect("a change"));
    assert_eq!(count(&new, &object), 6);
}

/// The flag keeps the operation of the old client in its queue until the exclusion holds.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn operation_in_flight_of_an_excluded_client_changes_nothing() {
    let (old, new, object) = (connect(), connect(), object());
    assert!(add_one(&old, &object).expect("a change"));
    let addresses = old.own_addresses().expect("an address");
    ceph(&["osd", "set", "pause"]);
    old.wait_for_latest_map().expect("a map");
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        let (old, object) = (&old, &object);
        scope.spawn(move || sender.send(old.change(object, &set("count", b"100"))));
        let early = results.recv_timeout(Duration::from_millis(500));
        assert!(early.is_err(), "the operation is not in flight: {early:?}");
        new.blocklist(&addresses, 600).expect("the capability");
        ceph(&["osd", "unset", "pause"]);
        new.wait_for_latest_map().expect("a map");
        assert!(add_one(&new, object).expect("a change"));
        let error = results.recv().expect("a result").expect_err("it is excluded");
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}");
        assert_eq!(count(&new, object), 2);
    });
}

/// The old client changes the object in a loop, so that some operation is on its way at any time.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn busy_client_is_excluded_between_two_operations() {
    for _ in 0..5 {
        let (old, new, object) = (connect(), connect(), object());
        let (addresses, acknowledged) = (old.own_addresses().expect("an address"), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (old, object) = (&old, &object);
            let thread = scope.spawn(|| {
                loop {
                    match add_one(old, object) {
                        Ok(true) => acknowledged.fetch_add(1, Ordering::SeqCst),
                        Ok(false) => continue,
                        Err(error) => return error,
                    };
                }
            });
            while acknowledged.load(Ordering::SeqCst) < 20 {
                std::thread::yield_now();
            }
            new.blocklist(&addresses, 600).expect("the capability");
            new.wait_for_latest_map().expect("a map");
            // From its answer on the OSD has the map.
            assert!(new.change(object, &set("fenced", b"1")).expect("a change"));
            let fenced = count(&new, object);
            let error = thread.join().expect("no panic");
            assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}");
            assert_eq!(count(&new, object), fenced);
            let known = acknowledged.load(Ordering::SeqCst);
            assert!(known == fenced || known + 1 == fenced, "{known} acknowledged, {fenced} done");
        });
    }
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn load_of_five_thousand_keys_is_complete() {
    let (rados, object) = (connect(), object());
    let names: Vec<String> = (0..5000).map(|number| format!("key-{number:05}")).collect();
    let sets = names.iter().map(|name| (name.clone(), b"0".to_vec())).collect();
    assert!(rados.change(&object, &ObjectChange { sets, ..ObjectChange::default() }).expect("a change"));
    let found = rados.load(&object).expect("a read").expect("the object");
    assert!(found.keys().eq(&names));
    let some = rados.load_prefix(&object, "key-042").expect("a read").expect("the object");
    assert!(some.keys().eq(&names[4200..4300]));
    assert_eq!(rados.load_prefix(&object, "none").expect("a read"), pairs(&[]));
}

/// Ends a loop of another thread, also after a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Changes an object, with all its values at once, but not so often while a load goes on that the load gives up.
fn change_during_loads(object: &str, all: impl Fn(u32) -> ObjectChange, loads: &Loads) {
    const CHANGES: u32 = 20;
    let (rados, mut load, mut changes) = (connect(), 0, 0);
    while !loads.are_over.load(Ordering::SeqCst) {
        let current = loads.begun.load(Ordering::SeqCst);
        if current != load {
            (load, changes) = (current, 0);
        }
        if changes == CHANGES {
            std::thread::yield_now();
            continue;
        }
        changes += 1;
        let value = loads.changed_to.load(Ordering::SeqCst) + 1;
        assert!(rados.change(object, &all(value)).expect("a change"));
        loads.changed_to.store(value, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Loads {
    begun: AtomicU32,
    /// The last acknowledged value.
    changed_to: AtomicU32,
    are_over: AtomicBool,
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn load_of_several_pages_never_mixes_two_states() {
    let (rados, object, loads) = (connect(), object(), Loads::default());
    let all = |value: u32| {
        let value = value.to_string().into_bytes();
        let sets = (0..5000).map(|number| (format!("key-{number:05}"), value.clone())).collect();
        ObjectChange { sets, ..ObjectChange::default() }
    };
    assert!(rados.change(&object, &all(0)).expect("a change"));
    std::thread::scope(|scope| {
        scope.spawn(|| change_during_loads(&object, all, &loads));
        let (mut disturbed, _stop) = (0, Stop(&loads.are_over));
        while disturbed < 20 {
            let before = u64::from(loads.changed_to.load(Ordering::SeqCst));
            assert!(loads.begun.fetch_add(1, Ordering::SeqCst) < 2000, "{disturbed} loads met a change");
            let found = rados.load(&object).expect("fewer changes than attempts").expect("the object");
            assert_eq!(found.len(), 5000);
            let values: BTreeSet<_> = found.into_values().map(|value| number(&value)).collect();
            assert_eq!(values.len(), 1, "{values:?}");
            disturbed += u32::from(values.last() > Some(&before));
        }
    });
}

/// Bytes that repeat only after a long time.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn large_values_and_blobs_come_back() {
    let (rados, object, blob) = (connect(), object(), object());
    let value = noise(1 << 20);
    assert!(rados.change(&object, &set("large", &value)).expect("a change"));
    let condition =
        ObjectChange { conditions: vec![(key("large"), Some(value.clone()))], ..set("small", b"1") };
    assert!(rados.change(&object, &condition).expect("a change"));
    assert_eq!(rados.load(&object).expect("a read"), pairs(&[("large", &value), ("small", b"1")]));
    let largest = noise(16 << 20);
    assert!(rados.change(&object, &set("large", &largest)).expect("a change"));
    assert_eq!(rados.load_prefix(&object, "l").expect("a read"), pairs(&[("large", &largest)]));

    assert_eq!(rados.read_blob(&blob).expect("a read"), None);
    for size in [20 << 20, 4 << 20, (4 << 20) + 1, 5, 0] {
        let bytes = noise(size);
        rados.write_blob(&blob, &bytes).expect("a write");
        assert!(rados.read_blob(&blob).expect("a read").is_some_and(|found| found == bytes), "{size}");
    }
    assert!(rados.change(&blob, &set("a", b"1")).expect("a change"));
    rados.write_blob(&blob, b"data").expect("a write");
    assert_eq!(rados.load(&blob).expect("a read"), pairs(&[("a", b"1")]), "data and pairs are apart");
    for name in [&object, &blob] {
        assert!(rados.remove(name).expect("a removal"));
    }
    assert_eq!(rados.read_blob(&blob).expect("a read"), None);
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn change_out_of_bounds_is_refused() {
    let (rados, object) = (connect(), object());
    let refused = |change: &ObjectChange, text: &str| {
        let error = rados.change(&object, change).expect_err("out of bounds");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    };
    refused(&set("a", b""), "a value has 1 to");
    refused(&set("a", &vec![0; (16 << 20) + 1]), "a value has 1 to");
    refused(&set("", b"1"), "a key has 1 to");
    refused(&set("a\0b", b"1"), "a key has 1 to");
    refused(&set(&"k".repeat(4097), b"1"), "a key has 1 to");
    let sets = (0..5).map(|number| (number.to_string(), vec![0; 15 << 20])).collect();
    refused(&ObjectChange { sets, ..ObjectChange::default() }, "a change has up to");
    let conditions = (0..1001).map(|number| (number.to_string(), None)).collect();
    refused(&ObjectChange { conditions, ..ObjectChange::default() }, "conditions");
    for name in [String::new(), "n".repeat(2049), "a\0b".into()] {
        assert_eq!(rados.load(&name).expect_err("no name").kind(), ErrorKind::InvalidInput);
    }
    let blob = rados.write_blob(&object, &vec![0; (128 << 20) + 1]).expect_err("too large");
    assert_eq!(blob.kind(), ErrorKind::InvalidInput, "{blob}");
    assert_eq!(rados.load(&object).expect("a read"), None);
    // The largest that are allowed.
    let sets = (0..4).map(|number| (number.to_string(), vec![7; (16 << 20) - 8000])).collect();
    let conditions = (0..1000).map(|number| (number.to_string(), None)).collect();
    let large = ObjectChange { sets, conditions, ..ObjectChange::default() };
    assert!(rados.change(&object, &large).expect("a change"));
    let (longest, name) =
        (set(&"k".repeat(4096), b"1"), format!("{object}{}", "n".repeat(2048 - object.len())));
    assert!(rados.change(&name, &longest).expect("a change"));
    assert!(rados.remove(&object).expect("a removal") && rados.remove(&name).expect("a removal"));
}

fn remove_pool(name: &str) {
    ceph(&["osd", "pool", "delete", name, name, "--yes-i-really-really-mean-it"]);
}

/// The text of a failed connection.
fn refusal(options: &RadosOptions) -> String {
    Rados::connect(options).map(drop).expect_err("no connection").to_string()
}

/// A configuration file with a key and the monitors at `address`, or those of the cluster.
fn other_conf(dir: &Path, name: &str, keyring: &str, address: Option<&str>) -> PathBuf {
    let text = std::fs::read_to_string(conf()).expect("the configuration");
    let (keys, path) = (dir.join(format!("{name}.keyring")), dir.join(name));
    std::fs::write(&keys, keyring).expect("a file");
    let lines = text.lines().map(|line| match line.split_once(" = ") {
        Some(("keyring", _)) => format!("keyring = {}\n", keys.display()),
        Some(("mon host", _)) if address.is_some() => format!("mon host = {}\n", address.unwrap_or_default()),
        _ => format!("{line}\n"),
    });
    std::fs::write(&path, lines.collect::<String>()).expect("a file");
    path
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn refused_connection_tells_the_cause() {
    let (dir, good) = (tempfile::tempdir().expect("a directory"), options());
    let missing = RadosOptions { conf: "/nonexistent/ceph.conf".into(), ..good.clone() };
    let expected = "cannot read the configuration of Ceph /nonexistent/ceph.conf: No such file or directory";
    assert!(refusal(&missing).contains(expected), "{}", refusal(&missing));

    let conf = other_conf(dir.path(), "no-key", "", None);
    let text = refusal(&RadosOptions { conf: conf.clone(), ..good.clone() });
    assert!(text.contains("client.admin") && text.contains(conf.to_str().expect("UTF-8")), "{text}");
    let key = "[client.admin]\n\tkey = AQCTvA1r0M0qOxAAYRGE6WlHH/Ep5bRQLSQtUA==\n";
    let conf = other_conf(dir.path(), "wrong-key", key, None);
    let text = refusal(&RadosOptions { conf, ..good.clone() });
    assert!(text.contains("refuses the user client.admin or its key"), "{text}");
    let text = refusal(&RadosOptions { user: "nobody".into(), ..good.clone() });
    assert!(text.contains("client.nobody"), "{text}");

    let address = Some("[v2:127.0.0.1:3399,v1:127.0.0.1:6799]");
    let conf = other_conf(dir.path(), "silent", key, address);
    let connect_timeout = Duration::from_secs(2);
    let begin = Instant::now();
    let text = refusal(&RadosOptions { conf: conf.clone(), connect_timeout, ..good.clone() });
    assert!(text.contains("no monitor of the Ceph cluster answers within 2 s"), "{text}");
    assert!(text.contains(conf.to_str().expect("UTF-8")), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());

    let text = refusal(&RadosOptions { pool: "nopool".into(), ..good.clone() });
    assert!(text.contains("no pool nopool; create it: ceph osd pool create nopool 8"), "{text}");
    assert!(text.contains("ceph osd pool application enable nopool plimsoll"), "{text}");
    // Its groups never become active here: the question must not wait for them.
    ceph(&["osd", "erasure-code-profile", "set", "two", "k=2", "m=1", "crush-failure-domain=osd"]);
    ceph(&["osd", "pool", "create", "coded", "1", "1", "erasure", "two"]);
    let text = refusal(&RadosOptions { pool: "coded".into(), ..good });
    assert!(text.contains("the pool coded is erasure-coded"), "{text}");
    remove_pool("coded");
}

/// Makes a volume with a file on CephFS.
fn write_a_file(conf: PathBuf, user: &str) {
    let (directory, name) = (format!("/{}", object()), "one".into());
    let options =
        ceph::Options { conf, user: user.into(), file_system: None, directory, is_exclusive: true, name };
    let volumes = ceph::Volumes::open(&options, storage::NodeBudget::new(100)).expect("the cluster answers");
    let root = vfs::Root { mode: 0o755, uid: 0, gid: 0 };
    volumes.make(VolumeId(1), &root, vfs::Capacity { bytes: 1 << 30, files: 100 }).expect("a volume");
    let volume = volumes.open(VolumeId(1)).expect("the volume");
    let new = vfs::NewInode { mode: 0o644, uid: 0, gid: 0, times: None, size: 0 };
    let made = volume.root().create_unchecked(vfs::Name::new(b"file").expect("a name"), &new);
    let file = made.expect("a file").found.node;
    file.write(0, b"data", vfs::backend::KEEP_SET_ID).expect("a write");
    file.sync(vfs::SyncScope::All).expect("a flush");
}

/// The first user has exactly the capabilities of the guide.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn user_with_least_capabilities_is_enough_and_one_without_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let conf = |name: &str, capabilities: &[&str]| {
        let user = format!("client.{name}");
        other_conf(dir.path(), name, &ceph(&[&["auth", "get-or-create", &user], capabilities].concat()), None)
    };
    let user = |name: &str, capabilities: &[&str]| {
        let conf = conf(name, capabilities);
        Rados::connect(&RadosOptions { conf, user: name.into(), ..options() }).expect("a connection")
    };
    let mon = "allow r, allow command \"osd blocklist\" with blocklistop=add";
    let osd = format!("allow rw tag cephfs data=fs, allow rw pool={POOL}");
    let least = ["mon", mon, "mds", "allow rwp fsname=fs", "osd", &osd];
    let (rados, object, victim) = (user("least", &least), object(), connect());
    assert!(rados.change(&object, &set("a", b"1")).expect("a change"));
    assert_eq!(rados.load(&object).expect("a read"), pairs(&[("a", b"1")]));
    rados.blocklist(&victim.own_addresses().expect("an address"), 60).expect("the capability");
    rados.wait_for_latest_map().expect("a map");
    // The answer shows that the OSD of the object knows.
    assert_eq!(rados.load(&object).expect("a read"), pairs(&[("a", b"1")]));
    let excluded = victim.change(&object, &set("a", b"2")).expect_err("it is excluded");
    assert_eq!(excluded.kind(), ErrorKind::ConnectionAborted, "{excluded}");
    rados.write_blob(&object, b"data").expect("a write");
    assert_eq!(rados.read_blob(&object).expect("a read"), Some(b"data".to_vec()));
    write_a_file(conf("least", &least), "least");

    let osd = format!("allow r pool={POOL}");
    let reader = user("reader", &["mon", "allow r", "osd", &osd]);
    let error = reader.change(&object, &set("a", b"2")).expect_err("no capability");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("ceph auth get client.reader"), "{error}");
    let error = reader.blocklist("127.0.0.1:0/1", 60).expect_err("no capability");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert_eq!(reader.load(&object).expect("a read"), pairs(&[("a", b"1")]));
    assert!(rados.remove(&object).expect("a removal"));
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn removed_pool_is_an_error_and_no_missing_object() {
    ceph(&["osd", "pool", "create", "short-lived", "1"]);
    let rados = Rados::connect(&RadosOptions { pool: "short-lived".into(), ..options() });
    let (rados, object) = (rados.expect("the pool"), object());
    assert!(rados.change(&object, &set("a", b"1")).expect("a change"));
    remove_pool("short-lived");
    let change = ObjectChange { presence: Presence::Required, ..set("a", b"2") };
    for error in [rados.load(&object).map(drop), rados.change(&object, &change).map(drop)] {
        let error = error.expect_err("no pool");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains("the pool was removed"), "{error}");
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Prints how long the calls take, for the documents.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn calls_take_a_moment() {
    let (rados, object) = (connect(), object());
    let timed = |call: &mut dyn FnMut(usize)| {
        let times = (0..200).map(|round| {
            let begin = Instant::now();
            call(round);
            begin.elapsed()
        });
        median(times.collect())
    };
    let change = timed(&mut |round| {
        let condition = (key("n"), (round > 0).then(|| round.to_string().into_bytes()));
        let next = set("n", (round + 1).to_string().as_bytes());
        let change = ObjectChange { conditions: vec![condition], ..next };
        assert!(rados.change(&object, &change).expect("a change"));
    });
    let sets = (0..100).map(|number| (format!("key-{number}"), vec![7; 200])).collect();
    assert!(rados.change(&object, &ObjectChange { sets, ..ObjectChange::default() }).expect("a change"));
    let load = timed(&mut |_| {
        assert_eq!(rados.load(&object).expect("a read").map(|found| found.len()), Some(101));
    });
    let fences = (0..9).map(|_| {
        let addresses = connect().own_addresses().expect("an address");
        let begin = Instant::now();
        rados.blocklist(&addresses, 60).expect("the capability");
        rados.wait_for_latest_map().expect("a map");
        begin.elapsed()
    });
    let fence = median(fences.collect());
    let connects = (0..5).map(|_| {
        let begin = Instant::now();
        let _connection = connect();
        begin.elapsed()
    });
    let connect = median(connects.collect());
    eprintln!("medians: change {change:?}, load of 101 keys {load:?}, fence {fence:?}, connect {connect:?}");
    assert!(rados.remove(&object).expect("a removal"));
}
