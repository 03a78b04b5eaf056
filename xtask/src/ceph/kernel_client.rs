//! The Linux kernel's clients of NFS and SMB, in a guest, while an endpoint moves between gateways.
//!
//! The guest is a machine of the test network, so its kernel has its own ARP table, and gets the resets of connections.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::cluster::Cluster;
use super::gateways::{ENDPOINTS, GATEWAYS, Setup};
use super::network::{self, CLIENTS};
use crate::debian::Suite;
use crate::guest::client::{self, Client};
use crate::guest::image::Image;
use crate::guest::machine::Guest;
use crate::process;
use crate::samba::USER;

const SCRIPT: &str = include_str!("../../guest/failover.sh");
const PROGRAM: &str = "xtask/guest/failover.pl";
const TAP: &str = "tap0";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 90);
const VOLUME: &str = "kernel";
/// Each mount, with another one that tries to get its locks, and the longest wait of its clients. Mounts of different
/// versions are different clients.
const MOUNTS: [Mount; 5] = [
    Mount { name: "3", other: "4.2", stall_max: Duration::from_secs(6) },
    Mount { name: "4.0", other: "3", stall_max: Duration::from_secs(8) },
    Mount { name: "4.1", other: "3", stall_max: Duration::from_secs(8) },
    Mount { name: "4.2", other: "4.0", stall_max: Duration::from_secs(8) },
    Mount { name: "cifs", other: "4.1", stall_max: Duration::from_secs(8) },
];
/// An emulated machine beside other tests needs so many times longer.
const SLOWNESS: u32 = 3;
/// Records of each mount after which it works again. One that was sent before can still be acknowledged later.
const PROGRESS: usize = 8;
/// A shorter grace period than by default, in which a check of locks waits.
const BRIEF_NFS: &str = "lease = 10\ngrace_period = 15\n";

struct Mount {
    name: &'static str,
    other: &'static str,
    stall_max: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disruption {
    /// The gateway leaves the network and ends: clients get no reset of their connections.
    PowerCut,
    /// The processes of the gateway end, and its kernel resets the connections.
    Kill,
    /// Like [`Self::Kill`], before the grace period of the clients has ended.
    KillAgain,
    Move,
}

const BRIEF: &[Disruption] = &[Disruption::PowerCut, Disruption::KillAgain, Disruption::Move];
const FULL: &[Disruption] = &[
    Disruption::PowerCut,
    Disruption::KillAgain,
    Disruption::Move,
    Disruption::Kill,
    Disruption::Move,
    Disruption::PowerCut,
    Disruption::Kill,
    Disruption::KillAgain,
];

pub(super) fn run(binary: &Path, ceph: &mut Cluster, work: &Path, is_brief: bool) -> anyhow::Result<()> {
    let work = work.join("kernel");
    process::empty_dir(&work)?;
    network::make_tap(TAP)?;
    let control = TcpListener::bind((CLIENTS, 0))?;
    let image = Image::build(Suite::Bookworm)?;
    let guest = Guest::new(&image).tap(TAP).file("failover.pl", &process::workspace().join(PROGRAM));
    let guest = guest
        .set("HOST", CLIENTS)
        .set("CONTROL", control.local_addr()?.port())
        .set("NAME", "kernel")
        .set("OWN", format!("{ADDRESS}/24"));
    let guest = guest.set("SHARE", VOLUME).set("LOGIN", USER.name).set("PASSWORD", USER.password);
    let guest = guest.set("SERVER", "10.77.0.51");
    let running = guest.start(SCRIPT, Duration::from_secs(1200))?;
    let mut setup = Setup::start(binary, ceph, &work, if is_brief { BRIEF_NFS } else { "" })?;
    setup.manage(ENDPOINTS[0], &volume().iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut scene = Scene { client: client::accept(&control)?, setup: &mut setup, is_brief };
    let result = scene.run();
    // The guest ends when the host sends no more commands; its log helps to explain a failure.
    drop(scene);
    let outcome = running.finish();
    result?;
    outcome?.require_success()?;
    setup.stop()
}

fn volume() -> Vec<String> {
    let id = USER.id;
    let line = format!(
        "volume create {VOLUME} --pool p1 --size 10GiB --allow {ADDRESS} --squash none \
         --protocols nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb --owner {id}:{id} --smb continuously-available=on"
    );
    line.split_whitespace().map(String::from).collect()
}

struct Scene<'s, 'b> {
    client: Client,
    setup: &'s mut Setup<'b>,
    is_brief: bool,
}

impl Scene<'_, '_> {
    fn run(&mut self) -> anyhow::Result<()> {
        for mount in &MOUNTS {
            self.client.run(&format!("attach {}", mount.name))?;
            self.client.run(&format!("begin {}", mount.name))?;
        }
        self.require_locks().context("before any failure")?;
        let disruptions = if self.is_brief { BRIEF } else { FULL };
        for (number, &disruption) in disruptions.iter().enumerate() {
            self.disrupt(disruption).with_context(|| format!("{disruption:?}, number {number}"))?;
            if disruptions.get(number + 1) != Some(&Disruption::KillAgain) {
                self.require_locks().with_context(|| format!("after {disruption:?}, number {number}"))?;
            }
        }
        self.client.run("touch /tmp/stop")?;
        for mount in &MOUNTS {
            let name = mount.name;
            self.client.run(&format!("ended {name}"))?;
            let retried = self.client.run(&format!("retried {name}"))?;
            let records = self.client.run(&format!("verify {name}"))?;
            eprintln!("ceph: {name}: {} records are there, {} retries", number(&records)?, number(&retried)?);
        }
        self.client.run("nothing_lost").map(drop)
    }

    /// Moves the endpoint to another gateway, and waits until all clients work again.
    fn disrupt(&mut self, disruption: Disruption) -> anyhow::Result<()> {
        let before = self.client_time()?;
        let from = self.setup.serving(ENDPOINTS[0])?;
        match disruption {
            Disruption::PowerCut => self.setup.cut_power(from)?,
            Disruption::Kill | Disruption::KillAgain => self.setup.kill(from)?,
            Disruption::Move => self.setup.move_away(from)?,
        }
        let after = self.client_time()?;
        let names = MOUNTS.map(|mount| mount.name).join(" ");
        self.client.run(&format!("progress {PROGRESS} {after} {names}"))?;
        if disruption != Disruption::Move {
            self.setup.restart(from)?;
        }
        let stalls =
            MOUNTS.iter().map(|mount| self.stall(mount, before)).collect::<anyhow::Result<Vec<_>>>()?;
        let listed: Vec<String> = MOUNTS
            .iter()
            .zip(&stalls)
            .map(|(mount, stall)| format!("{} {} ms", mount.name, stall.as_millis()))
            .collect();
        eprintln!(
            "ceph: {disruption:?} at {}, the kernel's clients waited: {}",
            GATEWAYS[from],
            listed.join(", ")
        );
        for (mount, stall) in MOUNTS.iter().zip(stalls) {
            let most = mount.stall_max * SLOWNESS;
            ensure!(self.is_brief || stall <= most, "{} waited {} ms", mount.name, stall.as_millis());
        }
        Ok(())
    }

    fn stall(&mut self, mount: &Mount, since: u64) -> anyhow::Result<Duration> {
        let longest = self.client.run(&format!("stall {} {since}", mount.name))?;
        Ok(Duration::from_millis(number(&longest)?))
    }

    fn client_time(&mut self) -> anyhow::Result<u64> {
        number(&self.client.run("now")?)
    }

    fn require_locks(&mut self) -> anyhow::Result<()> {
        for Mount { name, other, .. } in &MOUNTS {
            self.client.run(&format!("exclusive {name} {other}"))?;
        }
        Ok(())
    }
}

/// The number that a command printed as its only line.
fn number(said: &str) -> anyhow::Result<u64> {
    let digits = said.trim_end_matches('|');
    digits.parse().with_context(|| format!("not a number: {said}"))
}
