//! `plimsoll export --snapshots`: Btrfs snapshots of the host, over every protocol.

mod clients;
#[path = "../../../posix/tests/fixture/ground.rs"]
mod ground;

use clients::{Smb, Way};
use ground::{Ground, Tree, run};
use nfs_wire::v3::Status as V3Status;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire_client::{Client, Identity};

const USERS: &str = "[[user]]\nname = \"alice\"\nuid = 1000\npassword = \"secret\"\n";
/// Only a hang takes this long.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// More than a token of SMB distinguishes.
const SECOND: Duration = Duration::from_millis(1100);

/// A subvolume `data` with `dir/f`, its snapshots in `snaps`, and the service.
struct Host {
    served: Served,
    data: PathBuf,
    snaps: PathBuf,
    tree: Tree,
}

/// A running `plimsoll export`.
struct Served {
    child: Child,
    nfs: u16,
    smb: u16,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn export(tree: &Tree) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["export", "data", "--state", "state", "--no-portmap", "--listen", "127.0.0.1:0"]);
    command.args(["--squash", "none", "--protocols", "nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb"]);
    command.args(["--smb-users", "users.toml", "--smb-listen", "127.0.0.1:0"]);
    command.current_dir(&tree.path).stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

impl Served {
    fn start(tree: &Tree) -> Self {
        Self::start_with(tree, &["--snapshots", "snaps"])
    }

    fn start_with(tree: &Tree, arguments: &[&str]) -> Self {
        let mut child = export(tree).args(arguments).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut served = Self { child, nfs: 0, smb: 0 };
        for line in lines {
            let port = line.split(['=', ',', ' ']).skip_while(|part| *part != "port").nth(1).unwrap_or("0");
            match line.starts_with("mount -t nfs") {
                true => served.nfs = port.parse().unwrap(),
                false => served.smb = port.parse().unwrap(),
            }
            if served.smb != 0 {
                return served;
            }
        }
        let mut log = String::new();
        served.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        panic!("it does not start: {log}");
    }

    fn ways(&self) -> Vec<Way> {
        let of_nfs = ["3", "4.1", "4.2"].map(|version| Way::nfs(version, self.nfs));
        of_nfs.into_iter().chain([Way::v40(self.nfs), Way::Smb(Box::new(Smb::new(self.smb)))]).collect()
    }
}

fn btrfs(verb: &[&str], paths: &[&Path]) {
    assert!(
        run(Command::new("btrfs").args(["-q", "subvolume"]).args(verb).args(paths)),
        "{verb:?} {paths:?}"
    );
}

fn make_tree() -> Option<Tree> {
    let tree = Tree::new(Ground::Btrfs)?;
    // The kernel frees the space of deleted subvolumes with each commit.
    assert!(run(Command::new("mount").args(["-o", "remount,commit=1"]).arg(&tree.path)));
    fs::write(tree.path.join("users.toml"), USERS).unwrap();
    fs::set_permissions(tree.path.join("users.toml"), fs::Permissions::from_mode(0o600)).unwrap();
    let data = tree.path.join("data");
    btrfs(&["create"], &[&data]);
    fs::create_dir(data.join("dir")).unwrap();
    for dir in [&data, &data.join("dir")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::create_dir(tree.path.join("snaps")).unwrap();
    Some(tree)
}

impl Host {
    fn new() -> Option<Self> {
        let tree = make_tree()?;
        let (data, snaps) = (tree.path.join("data"), tree.path.join("snaps"));
        fs::write(data.join("dir/f"), "one").unwrap();
        btrfs(&["snapshot", "-r"], &[&data, &snaps.join("first")]);
        std::thread::sleep(SECOND);
        fs::write(data.join("dir/f"), "two").unwrap();
        fs::create_dir(snaps.join("7")).unwrap();
        btrfs(&["snapshot", "-r"], &[&data, &snaps.join("7/snapshot")]);
        fs::write(data.join("dir/f"), "three").unwrap();
        Some(Self { served: Served::start(&tree), data, snaps, tree })
    }
}

/// Waits for a result of each client.
#[track_caller]
fn wait_for(ways: &mut [Way], what: &str, is_so: impl Fn(&mut Way) -> bool) {
    let end = Instant::now() + WAIT_MAX;
    for way in ways {
        while !is_so(way) {
            assert!(Instant::now() < end, "over {}: {what}", way.name());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn snapshots_of_the_host_are_read_and_refuse_changes_over_every_protocol() {
    let Some(host) = Host::new() else { return };
    let mut ways = host.served.ways();
    for way in &mut ways {
        let name = way.name();
        for (path, text) in [
            ("dir/f", "three"),
            (".snapshot/first/dir/f", "one"),
            (".snapshot/7/dir/f", "two"),
            ("dir/.snapshot/first/f", "one"),
            ("dir/.snapshot/7/f", "two"),
        ] {
            assert_eq!(way.read_at(path).as_deref(), Ok(text), "over {name}: {path}");
        }
        let said = way.remove(".snapshot/first/dir", "f").unwrap_err();
        let expected = if name == "smb" { "MEDIA_WRITE_PROTECTED" } else { "ROFS" };
        assert!(said.contains(expected), "over {name}: {said}");
        assert_eq!(way.read_at(".snapshot/first/dir/f").as_deref(), Ok("one"), "over {name}");
        assert!(way.read_at(".snapshot/second/dir/f").is_err(), "over {name}");
    }
    // One more, and something else each time: without a restart.
    fs::write(host.data.join("dir/f"), "four").unwrap();
    btrfs(&["snapshot", "-r"], &[&host.data, &host.snaps.join("second")]);
    wait_for(&mut ways, "a new snapshot does not appear", |way| {
        way.read_at("dir/.snapshot/second/f").as_deref() == Ok("four")
    });
}

#[test]
fn other_things_in_the_directory_are_not_served_over_any_protocol() {
    let Some(host) = Host::new() else { return };
    let (snaps, other) = (&host.snaps, host.tree.path.join("other"));
    btrfs(&["create"], &[&other]);
    fs::create_dir(other.join("dir")).unwrap();
    fs::write(other.join("dir/f"), "a secret").unwrap();
    btrfs(&["snapshot", "-r"], &[&other, &snaps.join("another")]);
    btrfs(&["snapshot"], &[&host.data, &snaps.join("writable")]);
    symlink("first", snaps.join("link")).unwrap();
    symlink(&other, snaps.join("outside")).unwrap();
    fs::create_dir(snaps.join("8")).unwrap();
    symlink("../first", snaps.join("8/snapshot")).unwrap();
    fs::create_dir_all(snaps.join("plain/dir")).unwrap();
    fs::write(snaps.join("plain/dir/f"), "a secret").unwrap();
    // The last is a good one: once it is there, a scan has seen all.
    let long = "l".repeat(255);
    for name in ["bad \u{1b}[31m\n;name", &long, "last"] {
        btrfs(&["snapshot", "-r"], &[&host.data, &snaps.join(name)]);
    }
    let mut ways = host.served.ways();
    wait_for(&mut ways, "a good snapshot does not appear", |way| {
        way.read_at("dir/.snapshot/last/f").as_deref() == Ok("three")
    });
    for way in &mut ways {
        for name in ["another", "writable", "link", "outside", "8", "plain", "..", "snaps"] {
            for path in [format!("dir/.snapshot/{name}/f"), format!(".snapshot/{name}/dir/f")] {
                let read = way.read_at(&path);
                // The parent of `.snapshot` is the live directory, where a protocol has parents.
                let is_live = name == ".." && read.as_deref() == Ok("three");
                assert!(read.is_err() || is_live, "over {}: {path}: {read:?}", way.name());
            }
        }
        assert_eq!(way.read_at(&format!("dir/.snapshot/{long}/f")).as_deref(), Ok("three"), "{}", way.name());
        let (name, Some(listed)) = (way.name(), way.list("dir/.snapshot")) else { continue };
        for good in ["first", "7", "last", &long] {
            assert!(listed.iter().any(|name| name == good), "over {name}: {good} in {listed:?}");
        }
        assert!(!listed.iter().any(|name| name == "another" || name == "link"), "over {name}: {listed:?}");
    }
}

#[test]
fn directory_of_snapshots_is_hidden_or_listed_as_the_operator_chose() {
    let Some(mut host) = Host::new() else { return };
    for (access, is_reachable, is_listed) in
        [("hidden", false, false), ("reachable", true, false), ("listed", true, true)]
    {
        drop(host.served);
        host.served =
            Served::start_with(&host.tree, &["--snapshots", "snaps", "--snapshot-directory", access]);
        for way in &mut host.served.ways() {
            let name = way.name();
            let read = way.read_at(".snapshot/first/dir/f");
            assert_eq!(read.is_ok(), is_reachable, "over {name}, {access}: {read:?}");
            let Some(names) = way.list("") else { continue };
            let is_in = names.iter().any(|name| name == ".snapshot" || name == "~snapshot");
            // Windows shows previous versions instead.
            assert_eq!(is_in, is_listed && name != "smb", "over {name}, {access}: {names:?}");
        }
    }
}

#[test]
fn snapshot_that_the_host_deletes_is_stale_frees_its_space_and_stops_nothing() {
    let Some(mut host) = Host::new() else { return };
    let mut ways = host.served.ways();
    let files: Vec<_> = ways.iter_mut().map(|way| way.open(".snapshot/first/dir/f").unwrap()).collect();
    for (way, file) in ways.iter_mut().zip(&files) {
        assert_eq!(way.read(file).as_deref(), Ok("one"), "over {}", way.name());
    }
    btrfs(&["delete"], &[&host.snaps.join("first")]);
    for (way, file) in ways.iter_mut().zip(&files) {
        wait_for(std::slice::from_mut(way), "a deleted snapshot stays", |way| way.read(file).is_err());
        let (name, said) = (way.name(), way.read(file).unwrap_err());
        // Over NFSv4.0 the test finds the file by its path, which is gone.
        let expected = if name == "4.0" { "NOENT" } else { "STALE" };
        assert!(name == "smb" || said.contains(expected), "over {name}: {said}");
        assert!(way.read_at(".snapshot/first/dir/f").is_err(), "over {name}");
        assert_eq!(way.read_at("dir/f").as_deref(), Ok("three"), "over {name}");
        assert_eq!(way.read_at("dir/.snapshot/7/f").as_deref(), Ok("two"), "over {name}");
    }
    // It ends once the kernel has freed the subvolume, which no open file may hold.
    let freed = run(Command::new("timeout").args(["60", "btrfs", "subvolume", "sync"]).arg(&host.tree.path));
    assert!(freed, "the deleted snapshot still takes space");
    assert!(host.served.child.try_wait().unwrap().is_none(), "the service runs");
}

#[test]
fn handles_stay_valid_over_a_restart_and_without_the_snapshots() {
    let Some(host) = Host::new() else { return };
    let Host { served, data: _data, snaps: _snaps, tree } = host;
    let v3 = |served: &Served| {
        let target = format!("nfs://127.0.0.1:{}/data", served.nfs).parse().unwrap();
        Client::mount(&target, &Identity::new(0, 0)).unwrap()
    };
    let mut client = v3(&served);
    let [live, old] = ["dir/f", ".snapshot/first/dir/f"].map(|path| client.walk(path).unwrap());
    drop((client, served));
    let served = Served::start(&tree);
    let mut client = v3(&served);
    assert_eq!(client.read(&live, 0, 100).unwrap().data, b"three");
    assert_eq!(client.read(&old, 0, 100).unwrap().data, b"one");
    drop((client, served));
    let mut child = export(&tree).spawn().unwrap();
    let first = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let port =
        first.split(['=', ',', ' ']).skip_while(|part| *part != "port").nth(1).unwrap().parse().unwrap();
    let served = Served { child, nfs: port, smb: 0 };
    let mut client = v3(&served);
    assert_eq!(client.read(&live, 0, 100).unwrap().data, b"three");
    assert!(client.read(&old, 0, 100).unwrap_err().is(V3Status::STALE));
}

/// btrbk keeps the snapshots of several subvolumes in one directory.
#[test]
fn exports_with_one_directory_of_snapshots_show_each_its_own() {
    let Some(tree) = make_tree() else { return };
    let (data, snaps) = (tree.path.join("data"), tree.path.join("snaps"));
    let other = tree.path.join("other");
    btrfs(&["create"], &[&other]);
    fs::write(data.join("f"), "of data").unwrap();
    fs::write(other.join("f"), "of other").unwrap();
    btrfs(&["snapshot", "-r"], &[&data, &snaps.join("data.1")]);
    btrfs(&["snapshot", "-r"], &[&other, &snaps.join("other.1")]);
    let served = Served::start_with(&tree, &["other", "--snapshots", "snaps"]);
    for (export, own, foreign) in [("data", "data.1", "other.1"), ("other", "other.1", "data.1")] {
        let target = format!("nfs://127.0.0.1:{}/{export}", served.nfs).parse().unwrap();
        let mut client = Client::mount(&target, &Identity::new(0, 0)).unwrap();
        let file = client.walk(&format!(".snapshot/{own}/f")).unwrap();
        assert_eq!(client.read(&file, 0, 100).unwrap().data, format!("of {export}").as_bytes());
        assert!(client.walk(&format!(".snapshot/{foreign}")).unwrap_err().is(V3Status::NOENT));
    }
}

/// Clients show the tokens, and open a file by the time of one.
#[test]
fn previous_versions_are_listed_and_opened_by_their_time() {
    let Some(host) = Host::new() else { return };
    let mut smb = Smb::new(host.served.smb);
    let times = smb.versions("dir/f");
    assert_eq!(times.len(), 2, "{times:?}");
    for (time, text) in times.iter().rev().zip(["one", "two"]) {
        assert_eq!(smb.read_at("dir/f", Some(*time)).as_deref(), Ok(text), "{time}");
    }
    assert!(smb.read_at("dir/f", Some(times[1] - 1)).is_err(), "no snapshot has this time");
    // Two in one second: a client sees the first.
    let is_one_second = (0..100).any(|round| {
        std::thread::sleep(SECOND);
        let before = smb.versions("dir/f").len();
        let [one, two] = ["a", "b"].map(|name| host.snaps.join(format!("{name}{round}")));
        fs::write(host.data.join("dir/f"), "first").unwrap();
        btrfs(&["snapshot", "-r"], &[&host.data, &one]);
        fs::write(host.data.join("dir/f"), "second").unwrap();
        btrfs(&["snapshot", "-r"], &[&host.data, &two]);
        let end = Instant::now() + WAIT_MAX;
        let path = format!("dir/~snapshot/b{round}/f");
        while smb.read_at(&path, None).as_deref() != Ok("second") {
            assert!(Instant::now() < end, "a new snapshot does not appear");
            std::thread::sleep(Duration::from_millis(50));
        }
        // Unless the second ended between them.
        smb.versions("dir/f").len() == before + 1
    });
    assert!(is_one_second, "never two in one second");
    let newest = smb.versions("dir/f")[0];
    assert_eq!(smb.read_at("dir/f", Some(newest)).as_deref(), Ok("first"));
}

#[test]
fn directories_that_can_have_no_snapshots_are_refused_with_what_is_needed() {
    let Some(tree) = make_tree() else { return };
    let plain = Tree::new(Ground::Tmpfs).unwrap();
    let refused = |dir: &Path, snaps: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["export", "--state", "state", "--no-portmap", "--listen", "127.0.0.1:0"]).arg(dir);
        let output = command.arg("--snapshots").arg(snaps).current_dir(&tree.path).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{dir:?} {snaps:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (dir, snaps, words) in [
        (
            Path::new("data/dir"),
            Path::new("snaps"),
            ["not the root of a subvolume", "btrfs subvolume create"],
        ),
        (&plain.path, Path::new("snaps"), ["not the root of a subvolume", "export that"]),
        (
            Path::new("data"),
            &plain.path,
            ["on another file system", "on the Btrfs of the exported directory"],
        ),
        (Path::new("data"), Path::new("none"), ["cannot open", "an existing directory"]),
        (Path::new("data"), Path::new("users.toml"), ["cannot open", "an existing directory"]),
    ] {
        let said = refused(dir, snaps);
        assert!(words.iter().all(|word| said.contains(word)), "{dir:?} {snaps:?}: {said}");
    }
}
