//! Three gateways and two endpoints with a volume each, and what tests ask of all of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::gateway::Gateway;
use super::probe::Probe;
use crate::ceph::cluster::Cluster;
use crate::ceph::network::CLIENTS;
use crate::managed;
use crate::process;
use crate::samba::USER;
use crate::server::{Endpoint, PLIMSOLL_EXPORT};

pub(in crate::ceph) const GATEWAYS: [&str; 3] = ["gw1", "gw2", "gw3"];
pub(in crate::ceph) const ENDPOINTS: [&str; 2] = ["blue", "red"];
pub(super) const NFS_PORT: u16 = 2049;
pub(super) const SMB_PORT: u16 = 445;
/// Only a cluster that does not recover takes this long.
pub(super) const RECOVERY_MAX: Duration = Duration::from_secs(120);

/// A fault elsewhere may delay the answers of an endpoint by this much.
pub(super) const UNDISTURBED_MAX: Duration = Duration::from_millis(1500);

pub(in crate::ceph) struct Setup<'s> {
    pub(super) binary: &'s Path,
    pub(super) ceph: &'s mut Cluster,
    pub(super) work: PathBuf,
    pub(super) gateways: Vec<Gateway>,
    /// Whether times count. They do not where other work runs beside.
    pub(super) is_timed: bool,
}

impl<'s> Setup<'s> {
    /// Starts gateways and endpoints. `nfs` has more settings of NFS. The pool and the directory of the CephFS are named
    /// after the last part of `work`.
    pub(in crate::ceph) fn start(
        binary: &'s Path,
        ceph: &'s mut Cluster,
        work: &Path,
        nfs: &str,
    ) -> anyhow::Result<Self> {
        process::empty_dir(work)?;
        let pool = name_of(work)?;
        ceph.ceph(&["osd", "pool", "create", pool, "8"])?;
        ceph.ceph(&["osd", "pool", "application", "enable", pool, "plimsoll"])?;
        let mut gateways = Vec::new();
        for (name, number) in GATEWAYS.into_iter().zip(11..) {
            gateways.push(Gateway::new(name, number, ceph, work, nfs)?);
        }
        let mut setup = Self { binary, ceph, work: work.to_owned(), gateways, is_timed: true };
        let first = &setup.gateways[0];
        first.cluster(binary, &["init"], "")?;
        for gateway in &setup.gateways[1..] {
            let invitation = first.cluster(binary, &["invite"], "")?;
            gateway.cluster(binary, &["join"], &invitation)?;
        }
        for (number, name) in ENDPOINTS.iter().enumerate() {
            let address = format!("{}/24", address(number));
            first.cluster(binary, &["endpoint", "create", name, "--address", &address], "")?;
        }
        for gateway in &mut setup.gateways {
            gateway.start(binary)?;
        }
        for (number, name) in ENDPOINTS.iter().enumerate() {
            setup.make_volume(name)?;
            setup.endpoint(number).wait_until_ready(RECOVERY_MAX)?;
        }
        Ok(setup)
    }

    pub(super) fn is_in_time(&self, time: Duration, max: Duration) -> bool {
        !self.is_timed || time <= max
    }

    pub(super) fn endpoint(&self, number: usize) -> Endpoint {
        let address = SocketAddr::from((address(number), NFS_PORT));
        Endpoint { address, mount_port: NFS_PORT, export: PLIMSOLL_EXPORT.to_owned() }
    }

    fn make_volume(&self, endpoint: &str) -> anyhow::Result<()> {
        let (password, id) = (managed::smb_password(&self.work)?, USER.id.to_string());
        let user = ["user", "create", USER.name, "--uid", &id, "--gid", &id, "--password-file", &password];
        let name = PLIMSOLL_EXPORT.trim_start_matches('/');
        let volume = format!(
            "volume create {name} --pool p1 --size 50GiB --allow {CLIENTS} --squash none \
             --protocols nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb --owner {id}:{id}"
        );
        let pool = "pool create p1 --level plimsoll/unlimited --size 100GiB";
        self.manage(endpoint, &pool.split(' ').collect::<Vec<_>>())?;
        self.manage(endpoint, &volume.split(' ').collect::<Vec<_>>())?;
        self.manage(endpoint, &user)
    }

    /// Runs a management command at the gateway that serves an endpoint, as soon as one does.
    pub(in crate::ceph) fn manage(&self, endpoint: &str, words: &[&str]) -> anyhow::Result<()> {
        let deadline = Instant::now() + RECOVERY_MAX;
        loop {
            let serving = self.serving(endpoint)?;
            let data = self.gateways[serving].dir.join("data/endpoints").join(endpoint);
            let done = Command::new(self.binary).args(words).env("PLIMSOLL_DATA", &data).output()?;
            if done.status.success() {
                return Ok(());
            }
            let said = String::from_utf8_lossy(&done.stderr);
            ensure!(Instant::now() < deadline, "plimsoll {}: {said}", words.join(" "));
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Runs `plimsoll cluster` at a gateway that runs, and that is not this one.
    pub(super) fn command(&self, except: Option<usize>, words: &[&str]) -> anyhow::Result<String> {
        let mut others = self.gateways.iter().enumerate().filter(|other| Some(other.0) != except);
        let running = others.find(|other| other.1.process.is_some()).context("no gateway runs")?.1;
        running.cluster(self.binary, words, "")
    }

    fn status(&self, except: Option<usize>) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.command(except, &["status", "--json"])?)?)
    }

    /// The number of the gateway that serves an endpoint. Waits until one does.
    pub(in crate::ceph) fn serving(&self, endpoint: &str) -> anyhow::Result<usize> {
        self.serving_except(endpoint, None)
    }

    /// Like [`Self::serving`]; this gateway cannot be asked, and does not count.
    pub(super) fn serving_except(&self, endpoint: &str, except: Option<usize>) -> anyhow::Result<usize> {
        let deadline = Instant::now() + RECOVERY_MAX;
        loop {
            let status = self.status(except)?;
            let found = named(&status["endpoints"], endpoint)?;
            let gateway = GATEWAYS.iter().position(|name| found["gateway"] == **name);
            match gateway.filter(|gateway| found["state"] == "served" && Some(*gateway) != except) {
                Some(gateway) => return Ok(gateway),
                None => ensure!(Instant::now() < deadline, "nobody serves {endpoint}: {status}"),
            }
        }
    }

    /// Whether the program of a gateway reads the state of an endpoint.
    pub(super) fn can_serve(&self, gateway: usize, endpoint: &str) -> anyhow::Result<bool> {
        let status = self.status(None)?;
        let format = |list: &str, name| {
            named(&status[list], name)?["state_format"].as_u64().context("no format of the state")
        };
        Ok(format("endpoints", endpoint)? <= format("gateways", GATEWAYS[gateway])?)
    }

    /// Waits until `plimsoll cluster status` shows the gateway as ready. Returns how long after `since` that was; the
    /// command itself takes more than a second.
    pub(super) fn wait_until_ready(&self, gateway: usize, since: Instant) -> anyhow::Result<Duration> {
        loop {
            let status = self.status(Some(gateway))?;
            let waited = since.elapsed();
            if named(&status["gateways"], GATEWAYS[gateway])?["state"] == "ready" {
                return Ok(waited);
            }
            ensure!(waited < RECOVERY_MAX, "{} is not ready: {status}", GATEWAYS[gateway]);
        }
    }

    /// Waits until all gateways are ready and both endpoints answer.
    pub(super) fn settle(&self) -> anyhow::Result<()> {
        for gateway in 0..GATEWAYS.len() {
            self.wait_until_ready(gateway, Instant::now())?;
        }
        (0..ENDPOINTS.len()).try_for_each(|number| self.endpoint(number).wait_until_ready(RECOVERY_MAX))
    }

    /// Moves an endpoint to a gateway, where it stays as long as that gateway lives.
    pub(super) fn place(&self, number: usize, gateway: usize) -> anyhow::Result<()> {
        let name = ENDPOINTS[number];
        self.command(None, &["endpoint", "move", name, GATEWAYS[gateway]])?;
        let deadline = Instant::now() + RECOVERY_MAX;
        while self.serving(name)? != gateway {
            ensure!(Instant::now() < deadline, "{name} does not move to {}", GATEWAYS[gateway]);
        }
        self.command(None, &["endpoint", "move", name, "any"])?;
        self.endpoint(number).wait_until_ready(RECOVERY_MAX)
    }

    /// Has both endpoints at different gateways. Returns their numbers.
    pub(super) fn place_apart(&self) -> anyhow::Result<[usize; 2]> {
        self.settle()?;
        let [blue, red] = [self.serving(ENDPOINTS[0])?, self.serving(ENDPOINTS[1])?];
        if blue != red {
            return Ok([blue, red]);
        }
        let other = (blue + 1) % GATEWAYS.len();
        self.place(1, other)?;
        Ok([blue, other])
    }

    /// Has both endpoints at one gateway. Returns its number.
    pub(super) fn place_together(&self) -> anyhow::Result<usize> {
        self.settle()?;
        let [blue, red] = [self.serving(ENDPOINTS[0])?, self.serving(ENDPOINTS[1])?];
        if blue != red {
            self.place(1, blue)?;
        }
        Ok(blue)
    }

    pub(in crate::ceph) fn kill(&mut self, gateway: usize) -> anyhow::Result<()> {
        self.gateways[gateway].kill()
    }

    /// Takes a gateway off the network and kills it.
    pub(in crate::ceph) fn cut_power(&mut self, gateway: usize) -> anyhow::Result<()> {
        self.gateways[gateway].machine.set_connected(false)?;
        self.kill(gateway)
    }

    /// Starts a killed gateway again.
    pub(in crate::ceph) fn restart(&mut self, gateway: usize) -> anyhow::Result<()> {
        self.gateways[gateway].machine.set_connected(true)?;
        self.gateways[gateway].start(self.binary)
    }

    /// Moves the first endpoint from this gateway to the next one, and waits until that serves it.
    pub(in crate::ceph) fn move_away(&self, from: usize) -> anyhow::Result<()> {
        let to = (from + 1) % GATEWAYS.len();
        self.gateways[from].cluster(self.binary, &["endpoint", "move", ENDPOINTS[0], GATEWAYS[to]], "")?;
        let deadline = Instant::now() + RECOVERY_MAX;
        while self.serving(ENDPOINTS[0])? != to {
            ensure!(Instant::now() < deadline, "{} does not serve what moved to it", GATEWAYS[to]);
        }
        Ok(())
    }

    /// The gateways that have the address of an endpoint at an interface.
    pub(super) fn gateways_with_address(&self, number: usize) -> anyhow::Result<Vec<usize>> {
        let mut found = Vec::new();
        for (gateway, with) in self.gateways.iter().enumerate() {
            if with.machine.has_address(address(number))? {
                found.push(gateway);
            }
        }
        Ok(found)
    }

    /// Runs `failure` while NFSv3 calls arrive at the endpoint. Returns the longest time without an answer, when
    /// calls are answered again.
    pub(super) fn stall_while(
        &mut self,
        number: usize,
        failure: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<Duration> {
        let probe = Probe::start(self.endpoint(number).address)?;
        failure(self)?;
        probe.wait_for_answer_after(Instant::now())?;
        probe.finish()
    }

    pub(in crate::ceph) fn stop(self) -> anyhow::Result<()> {
        for gateway in self.gateways {
            if let Some(process) = gateway.process {
                let status = process.terminate(RECOVERY_MAX)?;
                ensure!(status.success(), "{} ended with {status} on SIGTERM", gateway.name);
            }
        }
        Ok(())
    }
}

/// The name of the pool and the directory of gateways with these files.
pub(super) fn name_of(work: &Path) -> anyhow::Result<&str> {
    work.file_name().and_then(|name| name.to_str()).context("a directory without a name")
}

/// The address of an endpoint.
pub(super) fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 51 + u8::try_from(number).unwrap_or_default())
}

fn named<'v>(list: &'v Value, name: &str) -> anyhow::Result<&'v Value> {
    let found = list.as_array().into_iter().flatten().find(|found| found["name"] == name);
    found.with_context(|| format!("no {name} in {list}"))
}
