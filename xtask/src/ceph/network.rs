//! A network of several machines: a network namespace for each, at one bridge.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::process::{self, Process};

const BRIDGE: &str = "bridge";
/// Address of the clients.
pub(super) const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the Ceph cluster.
pub(super) const CEPH: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const START_MAX: Duration = Duration::from_secs(20);

/// Makes the bridge in the namespace of this process, with the addresses of clients and of Ceph.
pub(super) fn make_bridge() -> anyhow::Result<()> {
    ip(&["link", "add", BRIDGE, "type", "bridge"])?;
    for address in [CLIENTS, CEPH] {
        ip(&["address", "add", &format!("{address}/24"), "dev", BRIDGE])?;
    }
    ip(&["link", "set", BRIDGE, "up"])
}

/// Makes an interface at the bridge for a virtual machine.
pub(super) fn make_tap(name: &str) -> anyhow::Result<()> {
    ip(&["tuntap", "add", "dev", name, "mode", "tap"])?;
    ip(&["link", "set", name, "master", BRIDGE, "up"])
}

/// A machine of the network. Its namespace lasts as long as its first process.
pub(super) struct Machine {
    /// The interface at the bridge.
    outer: String,
    first: Process,
}

impl Machine {
    /// Makes a machine with the interface `eth0` and this last byte of its address.
    pub(super) fn new(number: u8) -> anyhow::Result<Self> {
        let argv = ["unshare", "--net", "sleep", "infinity"].map(String::from);
        let outer = format!("veth{number}");
        let machine =
            Self { outer: outer.clone(), first: Process::start(&argv, Stdio::null(), Stdio::null())? };
        machine.wait_for_namespace()?;
        let pid = machine.first.id().to_string();
        ip(&["link", "add", &outer, "type", "veth", "peer", "name", "eth0", "netns", &pid])?;
        ip(&["link", "set", &outer, "master", BRIDGE, "up"])?;
        machine.ip(&["link", "set", "lo", "up"])?;
        machine.ip(&["link", "set", "eth0", "up"])?;
        machine.ip(&["address", "add", &format!("10.77.0.{number}/24"), "dev", "eth0"])?;
        Ok(machine)
    }

    /// The words before a command that is to run on the machine.
    pub(super) fn prefix(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net={}", self.namespace().display())]
    }

    /// Sets whether the machine is connected to the network.
    pub(super) fn set_connected(&self, is_connected: bool) -> anyhow::Result<()> {
        ip(&["link", "set", &self.outer, if is_connected { "up" } else { "down" }])
    }

    /// Sets whether the machine reaches the Ceph cluster.
    pub(super) fn set_cut_from_ceph(&self, is_cut: bool) -> anyhow::Result<()> {
        let verb = if is_cut { "add" } else { "delete" };
        self.ip(&["route", verb, "blackhole", &format!("{CEPH}/32")])
    }

    /// Whether an interface of the machine has the address.
    pub(super) fn has_address(&self, address: Ipv4Addr) -> anyhow::Result<bool> {
        let [program, namespace] = self.prefix();
        let address = format!("{address}/32");
        let words = [&namespace, "ip", "-o", "address", "show", "to", &address];
        Ok(!process::output(Path::new("/"), &program, &words)?.is_empty())
    }

    fn ip(&self, words: &[&str]) -> anyhow::Result<()> {
        let [program, namespace] = self.prefix();
        run(Command::new(program).arg(namespace).arg("ip").args(words))
    }

    fn namespace(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.first.id()))
    }

    fn wait_for_namespace(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_MAX;
        let own = fs::read_link("/proc/self/ns/net")?;
        let differs = |path: &Path| fs::read_link(path).is_ok_and(|other| other != own);
        while !differs(&self.namespace()) {
            ensure!(Instant::now() < deadline, "no network namespace after {} s", START_MAX.as_secs());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The kernel removes it a while after the namespace, too late for another machine of this number.
        drop(ip(&["link", "delete", &self.outer]));
    }
}

fn ip(words: &[&str]) -> anyhow::Result<()> {
    run(Command::new("ip").args(words))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
