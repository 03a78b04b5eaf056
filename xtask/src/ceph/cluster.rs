//! A Ceph cluster of one machine: a monitor, a manager, one OSD and one metadata server, without systemd.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::root::Root;
use crate::process::{self, Process};

const START_MAX: Duration = Duration::from_secs(180);
const COMMAND_MAX: Duration = Duration::from_secs(120);
/// The size of the OSD's file, which is sparse.
const OSD_BYTES: u64 = 8 << 30;
const MDS_CAPS: [&str; 8] = ["mon", "profile mds", "osd", "allow *", "mds", "allow *", "mgr", "profile mds"];

/// A running cluster. Its daemons end when it is dropped.
pub(super) struct Cluster {
    root: Root,
    dir: PathBuf,
    address: Ipv4Addr,
    /// By name, such as `ceph-mds.a`.
    daemons: BTreeMap<String, Process>,
}

impl Cluster {
    /// Starts a cluster with all its files in `dir`, which exists in its root too, at an address of this machine.
    pub(super) fn start(root: Root, dir: &Path, address: Ipv4Addr) -> anyhow::Result<Self> {
        process::empty_dir(dir)?;
        for name in ["mon", "mgr", "mds", "mds-b", "osd0", "run", "log"] {
            fs::create_dir(dir.join(name))?;
        }
        let mut cluster = Self { root, dir: dir.to_owned(), address, daemons: BTreeMap::new() };
        let [fsid, osd] = [0, 1].map(|_| fs::read_to_string("/proc/sys/kernel/random/uuid"));
        let (fsid, osd) = (fsid?.trim().to_owned(), osd?.trim().to_owned());
        fs::write(cluster.conf(), configuration(dir, address, &fsid))?;
        cluster.start_monitor(&fsid)?;
        cluster.start_osd(&osd)?;
        cluster.start_file_system()?;
        Ok(cluster)
    }

    /// The configuration file for clients.
    pub(super) fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn run(&self, line: &[&str]) -> anyhow::Result<()> {
        let argv = self.root.command(line);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        process::run(&argv, &self.dir.join("log/setup.log"), COMMAND_MAX)
    }

    fn output(&self, line: &[&str]) -> anyhow::Result<String> {
        let argv = self.root.command(line);
        let words: Vec<&str> = argv[1..].iter().map(String::as_str).collect();
        Ok(String::from_utf8(process::output(&self.dir, &argv[0], &words)?)?)
    }

    /// The root in which programs find the libraries of the cluster.
    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Runs a command of the cluster and returns its output.
    pub(super) fn ceph(&self, words: &[&str]) -> anyhow::Result<String> {
        let conf = self.path("ceph.conf");
        self.output(&[&["ceph", "-c", &conf, "--connect-timeout", "60"], words].concat())
    }

    fn start_daemon(&mut self, program: &str, id: &str) -> anyhow::Result<()> {
        let log = process::append_to(&self.dir.join(format!("log/{program}.out")))?;
        let conf = self.path("ceph.conf");
        let argv = self.root.command(&[program, "-f", "-c", &conf, "-i", id]);
        let process = Process::start(&argv, log.try_clone()?.into(), log.into())?;
        self.daemons.insert(format!("{program}.{id}"), process);
        Ok(())
    }

    /// Starts a second metadata server, which waits until the first one fails.
    pub(super) fn start_standby(&mut self) -> anyhow::Result<()> {
        self.make_key("mds.b", "mds-b/keyring", &MDS_CAPS)?;
        self.start_daemon("ceph-mds", "b")?;
        let waits =
            |cluster: &Self| cluster.ceph(&["mds", "stat"]).is_ok_and(|stat| stat.contains("up:standby"));
        self.wait_for("second metadata server", waits)
    }

    /// Kills the first metadata server.
    pub(super) fn kill_mds(&mut self) -> anyhow::Result<()> {
        self.daemons.remove("ceph-mds.a").context("the metadata server does not run")?.kill();
        Ok(())
    }

    fn start_monitor(&mut self, fsid: &str) -> anyhow::Result<()> {
        let (keyring, own, map) = (self.path("keyring"), self.path("mon.keyring"), self.path("monmap"));
        let tool = "ceph-authtool";
        let all = ["--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mds", "allow *"];
        let admin = [tool, "--create-keyring", &keyring, "--gen-key", "-n", "client.admin"];
        self.run(&[&admin[..], &all, &["--cap", "mgr", "allow *"]].concat())?;
        self.run(&[tool, "--create-keyring", &own, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"])?;
        self.run(&[tool, &own, "--import-keyring", &keyring])?;
        let address = monitor(self.address);
        self.run(&["monmaptool", "--create", "--clobber", "--addv", "a", &address, "--fsid", fsid, &map])?;
        let conf = self.path("ceph.conf");
        let make = ["ceph-mon", "-c", &conf, "--mkfs", "-i", "a", "--monmap", &map, "--keyring", &own];
        self.run(&make)?;
        self.start_daemon("ceph-mon", "a")?;
        self.wait_for("a quorum", |cluster| cluster.ceph(&["mon", "stat"]).is_ok())?;
        self.ceph(&["mon", "enable-msgr2"])?;
        let caps = ["mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"];
        self.make_key("mgr.x", "mgr/keyring", &caps)?;
        self.start_daemon("ceph-mgr", "x")
    }

    fn make_key(&self, name: &str, file: &str, caps: &[&str]) -> anyhow::Result<()> {
        let made = self.ceph(&[&["auth", "get-or-create", name], caps].concat())?;
        Ok(fs::write(self.dir.join(file), made)?)
    }

    fn start_osd(&mut self, uuid: &str) -> anyhow::Result<()> {
        let key = self.output(&["ceph-authtool", "--gen-print-key"])?;
        let key = key.trim();
        let secret = self.path("osd-secret.json");
        fs::write(&secret, format!("{{\"cephx_secret\": \"{key}\"}}"))?;
        self.ceph(&["osd", "new", uuid, "-i", &secret])?;
        let (keyring, conf) = (self.path("osd0/keyring"), self.path("ceph.conf"));
        self.run(&["ceph-authtool", "--create-keyring", &keyring, "-n", "osd.0", "--add-key", key])?;
        self.run(&["ceph-osd", "-c", &conf, "-i", "0", "--mkfs", "--osd-uuid", uuid])?;
        self.start_daemon("ceph-osd", "0")
    }

    fn start_file_system(&mut self) -> anyhow::Result<()> {
        for pool in ["cephfs.meta", "cephfs.data"] {
            self.ceph(&["osd", "pool", "create", pool, "8"])?;
        }
        self.ceph(&["fs", "new", "fs", "cephfs.meta", "cephfs.data"])?;
        self.make_key("mds.a", "mds/keyring", &MDS_CAPS)?;
        self.start_daemon("ceph-mds", "a")?;
        let is_active =
            |cluster: &Self| cluster.ceph(&["mds", "stat"]).is_ok_and(|stat| stat.contains("up:active"));
        self.wait_for("a metadata server", is_active)
    }

    fn wait_for(&self, what: &str, is_there: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_MAX;
        while !is_there(self) {
            ensure!(Instant::now() < deadline, "the Ceph cluster has no {what}; see {}", self.path("log"));
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

/// The address of the monitor.
fn monitor(address: Ipv4Addr) -> String {
    format!("[v2:{address}:3300,v1:{address}:6789]")
}

fn configuration(dir: &Path, address: Ipv4Addr, fsid: &str) -> String {
    let dir = dir.display();
    let mut text = String::new();
    let mut section = |name: &str, lines: &[(&str, String)]| {
        let _written = writeln!(text, "[{name}]");
        for (key, value) in lines {
            let _written = writeln!(text, "{key} = {value}");
        }
    };
    let plain = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        pairs.iter().map(|&(key, value)| (key, value.to_owned())).collect()
    };
    let paths = [
        ("fsid", fsid.to_owned()),
        ("keyring", format!("{dir}/keyring")),
        ("run dir", format!("{dir}/run")),
        ("log file", format!("{dir}/log/$name.log")),
        ("admin socket", format!("{dir}/run/$name.$pid.asok")),
        ("crash dir", format!("{dir}/crash")),
        ("mon host", monitor(address)),
        ("public addr", address.to_string()),
        ("cluster addr", address.to_string()),
    ];
    let global = plain(&[
        ("auth cluster required", "cephx"),
        ("auth service required", "cephx"),
        ("auth client required", "cephx"),
        ("osd pool default size", "1"),
        ("osd pool default min size", "1"),
        ("osd crush chooseleaf type", "0"),
        ("mon allow pool size one", "true"),
        ("mon allow pool delete", "true"),
        ("mon warn on pool no redundancy", "false"),
        ("mon data avail warn", "2"),
        ("mon data avail crit", "1"),
        ("ms bind ipv6", "false"),
    ]);
    section("global", &[&paths[..], &global].concat());
    section("mon", &[("mon data", format!("{dir}/mon"))]);
    let (data, keyring) = (format!("{dir}/mgr"), format!("{dir}/mgr/keyring"));
    section("mgr", &[("mgr data", data), ("keyring", keyring), ("mgr initial modules", String::new())]);
    let place = [("mds data", format!("{dir}/mds")), ("keyring", format!("{dir}/mds/keyring"))];
    // Directories are split at a few hundred entries, so that the suites list some that are split meanwhile.
    let limits = plain(&[
        ("mds cache memory limit", "268435456"),
        ("mds bal split size", "500"),
        ("mds bal merge size", "50"),
    ]);
    section("mds", &[&place[..], &limits].concat());
    let (data, keyring) = (format!("{dir}/mds-b"), format!("{dir}/mds-b/keyring"));
    section("mds.b", &[("mds data", data), ("keyring", keyring)]);
    let store = plain(&[
        ("osd objectstore", "bluestore"),
        ("bluestore block create", "true"),
        ("bluestore block db create", "false"),
        ("bluestore block wal create", "false"),
        ("bluestore fsck on mount", "false"),
        ("osd memory target", "939524096"),
        ("bdev enable discard", "false"),
    ]);
    let place = [
        ("osd data", format!("{dir}/osd$id")),
        ("keyring", format!("{dir}/osd$id/keyring")),
        ("bluestore block size", OSD_BYTES.to_string()),
    ];
    section("osd", &[&place[..], &store].concat());
    text
}
