//! Several gateways in front of one CephFS: what happens to clients when one of them dies, freezes or is drained.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::cluster::Cluster;
use super::network::{CLIENTS, Machine};
use crate::ledger::{Ledger, Report, Share};
use crate::managed;
use crate::process::{self, Process};
use crate::random::{Random, seed_from_clock};
use crate::samba::USER;
use crate::server::{Endpoint, PLIMSOLL_EXPORT};

pub(super) const GATEWAYS: [&str; 3] = ["gw1", "gw2", "gw3"];
pub(super) const ENDPOINTS: [&str; 2] = ["blue", "red"];
const NFS_PORT: u16 = 2049;
const SMB_PORT: u16 = 445;
/// Only a cluster that does not recover takes this long.
const RECOVERY_MAX: Duration = Duration::from_secs(120);
const WORKERS: u32 = 8;

/// A gateway with its files in a directory.
struct Gateway {
    name: &'static str,
    machine: Machine,
    dir: PathBuf,
    process: Option<Process>,
}

pub(super) struct Setup<'s> {
    binary: &'s Path,
    ceph: &'s Cluster,
    gateways: Vec<Gateway>,
}

/// The time in which no NFSv3 call was answered.
struct Stall {
    longest: Duration,
}

pub(super) fn run(binary: &Path, ceph: &Cluster, work: &Path, rounds: u32) -> anyhow::Result<()> {
    let work = work.join("gateways");
    process::empty_dir(&work)?;
    let mut setup = Setup::start(binary, ceph, &work, "")?;
    let seed = seed_from_clock();
    eprintln!("ceph: {rounds} failures of gateways, seed {seed}");
    let mut random = Random::new(seed);
    let endpoint = setup.endpoint(0);
    let share = Share::at((endpoint.address.ip(), SMB_PORT).into(), work.join("smb.log"))?;
    let (mut ledgers, mut report) = (Vec::new(), Report::default());
    for round in 0..rounds {
        let log = work.join(format!("ledger-{round}.log"));
        let load = Ledger::start(&endpoint, Some(&share), round, WORKERS, random.next(), &log)?;
        load.run_for(Duration::from_millis(500 + random.below(1500) as u64), &report.missing(Some(&share)))?;
        let failed = setup.serving(ENDPOINTS[0])?;
        let stall = setup.stall_while(&endpoint, |setup| setup.kill(failed))?;
        ledgers.push(load.finish()?);
        let found = Ledger::verify_all(&ledgers, &endpoint)?;
        eprintln!(
            "ceph: {} killed, clients waited {} ms: {found}",
            GATEWAYS[failed],
            stall.longest.as_millis()
        );
        report.merge(found);
        report.require_clean(&work)?;
        setup.gateways[failed].start(binary)?;
    }
    let stall = setup.drain(&endpoint)?;
    eprintln!("ceph: a gateway was drained, clients waited {} ms", stall.longest.as_millis());
    setup.stop()
}

impl<'s> Setup<'s> {
    /// Starts gateways and endpoints with a volume each. `nfs` has more settings of NFS. The pool and the directory of
    /// the CephFS are named after the last part of `work`.
    pub(super) fn start(binary: &'s Path, ceph: &'s Cluster, work: &Path, nfs: &str) -> anyhow::Result<Self> {
        let pool = name_of(work)?;
        ceph.ceph(&["osd", "pool", "create", pool, "8"])?;
        ceph.ceph(&["osd", "pool", "application", "enable", pool, "plimsoll"])?;
        let gateway = |(name, number): (&'static str, u8)| Gateway::new(name, number, ceph, work, nfs);
        let gateways: Vec<_> = GATEWAYS.into_iter().zip(11..).map(gateway).collect::<anyhow::Result<_>>()?;
        let mut setup = Self { binary, ceph, gateways };
        let first = &setup.gateways[0];
        first.cluster(binary, &["init"], "")?;
        for gateway in &setup.gateways[1..] {
            let invitation = first.cluster(binary, &["invite"], "")?;
            gateway.cluster(binary, &["join"], &invitation)?;
        }
        for (name, address) in ENDPOINTS.iter().zip(51..) {
            first.cluster(
                binary,
                &["endpoint", "create", name, "--address", &format!("10.77.0.{address}/24")],
                "",
            )?;
        }
        for gateway in &mut setup.gateways {
            gateway.start(binary)?;
        }
        for (number, name) in ENDPOINTS.iter().enumerate() {
            setup.make_volume(name, work)?;
            setup.endpoint(number).wait_until_ready(RECOVERY_MAX)?;
        }
        Ok(setup)
    }

    fn endpoint(&self, number: usize) -> Endpoint {
        let last = 51 + u8::try_from(number).unwrap_or_default();
        let address = SocketAddr::from((Ipv4Addr::new(10, 77, 0, last), NFS_PORT));
        Endpoint { address, mount_port: NFS_PORT, export: PLIMSOLL_EXPORT.to_owned() }
    }

    fn make_volume(&self, endpoint: &str, work: &Path) -> anyhow::Result<()> {
        let (password, id) = (managed::smb_password(work)?, USER.id.to_string());
        let user = ["user", "create", USER.name, "--uid", &id, "--gid", &id, "--password-file", &password];
        let name = PLIMSOLL_EXPORT.trim_start_matches('/');
        let volume = format!(
            "volume create {name} --pool p1 --size 50GiB --allow {CLIENTS} --squash none --protocols nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb \
             --owner {id}:{id}"
        );
        self.manage(
            endpoint,
            &"pool create p1 --level plimsoll/unlimited --size 100GiB".split(' ').collect::<Vec<_>>(),
        )?;
        self.manage(endpoint, &volume.split(' ').collect::<Vec<_>>())?;
        self.manage(endpoint, &user)
    }

    /// Runs a management command at the gateway that serves an endpoint, as soon as one does.
    pub(super) fn manage(&self, endpoint: &str, words: &[&str]) -> anyhow::Result<()> {
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

    /// The status of the cluster, as a gateway that runs sees it.
    fn status(&self) -> anyhow::Result<Value> {
        let running =
            self.gateways.iter().find(|gateway| gateway.process.is_some()).context("no gateway runs")?;
        Ok(serde_json::from_str(&running.cluster(self.binary, &["status", "--json"], "")?)?)
    }

    /// The number of the gateway that serves an endpoint. Waits until one does.
    pub(super) fn serving(&self, endpoint: &str) -> anyhow::Result<usize> {
        let deadline = Instant::now() + RECOVERY_MAX;
        loop {
            let status = self.status()?;
            let found =
                status["endpoints"].as_array().into_iter().flatten().find(|found| found["name"] == endpoint);
            let found = found.with_context(|| format!("no endpoint {endpoint}"))?;
            let gateway = GATEWAYS.iter().position(|name| found["gateway"] == **name);
            match gateway.filter(|_| found["state"] == "served") {
                Some(gateway) => return Ok(gateway),
                None => ensure!(Instant::now() < deadline, "nobody serves {endpoint}: {status}"),
            }
        }
    }

    pub(super) fn kill(&mut self, gateway: usize) -> anyhow::Result<()> {
        self.gateways[gateway].kill()
    }

    /// Takes a gateway off the network and kills it.
    pub(super) fn cut_power(&mut self, gateway: usize) -> anyhow::Result<()> {
        self.gateways[gateway].machine.set_connected(false)?;
        self.kill(gateway)
    }

    /// Starts a killed gateway again.
    pub(super) fn restart(&mut self, gateway: usize) -> anyhow::Result<()> {
        self.gateways[gateway].machine.set_connected(true)?;
        self.gateways[gateway].start(self.binary)
    }

    /// Moves the first endpoint from this gateway to the next one, and waits until that serves it.
    pub(super) fn move_away(&self, from: usize) -> anyhow::Result<()> {
        let to = (from + 1) % GATEWAYS.len();
        let words = ["endpoint", "move", ENDPOINTS[0], GATEWAYS[to]];
        self.gateways[from].cluster(self.binary, &words, "")?;
        let deadline = Instant::now() + RECOVERY_MAX;
        while self.serving(ENDPOINTS[0])? != to {
            ensure!(Instant::now() < deadline, "{} does not serve what moved to it", GATEWAYS[to]);
        }
        Ok(())
    }

    /// Runs `failure` while NFSv3 calls arrive at the endpoint. Returns when they are answered again.
    fn stall_while(
        &mut self,
        endpoint: &Endpoint,
        failure: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<Stall> {
        let has_failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let probing = scope.spawn(|| probe(endpoint.address, &has_failed));
            std::thread::sleep(Duration::from_millis(300));
            let failed = failure(self);
            has_failed.store(true, Ordering::SeqCst);
            let longest = probing.join().map_err(|_| anyhow::anyhow!("the probe panicked"))??;
            failed.map(|()| Stall { longest })
        })
    }

    fn drain(&mut self, endpoint: &Endpoint) -> anyhow::Result<Stall> {
        let from = self.serving(ENDPOINTS[0])?;
        let stall = self.stall_while(endpoint, |setup| {
            let gateway = &setup.gateways[from];
            gateway.cluster(setup.binary, &["drain", gateway.name], "")?;
            let deadline = Instant::now() + RECOVERY_MAX;
            while setup.serving(ENDPOINTS[0])? == from {
                ensure!(Instant::now() < deadline, "a drained gateway still serves");
            }
            Ok(())
        })?;
        self.gateways[from].cluster(self.binary, &["resume", GATEWAYS[from]], "")?;
        Ok(stall)
    }

    pub(super) fn stop(self) -> anyhow::Result<()> {
        for gateway in self.gateways {
            if let Some(process) = gateway.process {
                let status = process.terminate(RECOVERY_MAX)?;
                ensure!(status.success(), "{} ended with {status} on SIGTERM", gateway.name);
            }
        }
        let _ceph = self.ceph;
        Ok(())
    }
}

impl Gateway {
    fn new(name: &'static str, number: u8, ceph: &Cluster, work: &Path, nfs: &str) -> anyhow::Result<Self> {
        let pool = name_of(work)?;
        let dir = work.join(name);
        fs::create_dir(&dir)?;
        let conf = ceph.conf();
        let text = format!(
            "storage = \"cephfs\"\n\
             [nfs]\nlisten = \"0.0.0.0:{NFS_PORT}\"\n{nfs}\
             [smb]\nlisten = \"0.0.0.0:{SMB_PORT}\"\n\
             [ceph]\nconf = {:?}\nuser = \"admin\"\ndirectory = \"/{pool}\"\n\
             [cluster]\npool = \"{pool}\"\ngateway = \"{name}\"\ninterface = \"eth0\"\n",
            process::text(&conf)?
        );
        let config = dir.join("plimsoll.toml");
        fs::write(&config, text)?;
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
        Ok(Self { name, machine: Machine::new(number)?, dir, process: None })
    }

    fn argv(&self, binary: &Path, words: &[&str]) -> anyhow::Result<Vec<String>> {
        let (config, data) = (self.dir.join("plimsoll.toml"), self.dir.join("data"));
        let files = ["--config", process::text(&config)?, "--data", process::text(&data)?].map(String::from);
        let mut argv = self.machine.prefix().to_vec();
        argv.push(process::text(binary)?.to_owned());
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        argv.extend(files);
        Ok(argv)
    }

    fn start(&mut self, binary: &Path) -> anyhow::Result<()> {
        let log = process::append_to(&self.dir.join("plimsoll.log"))?;
        let argv = self.argv(binary, &["serve"])?;
        self.process = Some(Process::start(&argv, log.try_clone()?.into(), log.into())?);
        Ok(())
    }

    /// Runs `plimsoll cluster` and returns its output.
    fn cluster(&self, binary: &Path, words: &[&str], input: &str) -> anyhow::Result<String> {
        let argv = self.argv(binary, &[&["cluster"], words].concat())?;
        let mut command = Command::new(&argv[0]);
        let command =
            command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
        let done = child.wait_with_output()?;
        if !done.status.success() {
            bail!("plimsoll cluster {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr));
        }
        Ok(String::from_utf8(done.stdout)?)
    }

    /// Kills the gateway and its endpoints at once, as a power cut does.
    fn kill(&mut self) -> anyhow::Result<()> {
        let mut gateway = self.process.take().context("the gateway does not run")?;
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", gateway.id()))?;
        // The gateway is stopped first, so that it starts no other process meanwhile.
        signal("STOP", &gateway.id().to_string())?;
        children.split_whitespace().try_for_each(|child| signal("KILL", child))?;
        gateway.end();
        Ok(())
    }
}

fn name_of(work: &Path) -> anyhow::Result<&str> {
    work.file_name().and_then(|name| name.to_str()).context("a directory without a name")
}

fn signal(name: &str, pid: &str) -> anyhow::Result<()> {
    // A process may have ended by itself.
    Command::new("kill").args([&format!("-{name}"), pid]).status()?;
    Ok(())
}

/// Calls NFSv3's procedure 0 again and again, each time over a new connection, until it is answered after a failure.
/// Returns the longest time without an answer.
fn probe(address: SocketAddr, has_failed: &AtomicBool) -> anyhow::Result<Duration> {
    let (start, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
    loop {
        let was_failed = has_failed.load(Ordering::SeqCst);
        if call_null(address).is_ok() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
            if was_failed {
                return Ok(longest);
            }
        }
        ensure!(
            start.elapsed() < RECOVERY_MAX,
            "no answer from {address} for {} s",
            last.elapsed().as_secs()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn call_null(address: SocketAddr) -> std::io::Result<()> {
    const TIMEOUT: Duration = Duration::from_millis(250);
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // One fragment; transaction 1, a call, RPC version 2, NFS version 3, procedure 0, no credential, no verifier.
    let words: [u32; 11] = [0x8000_0028, 1, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    let call: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    stream.write_all(&call)?;
    let mut reply = [0; 28];
    stream.read_exact(&mut reply)
}
