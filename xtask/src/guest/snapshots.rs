//! Drives `xtask/guest/snapshots.sh`: managed volumes on the host, whose snapshots come and go on the guest's request, and
//! the kernel's clients of NFS and SMB in the guest. The data of one service is on XFS, that of the other on Btrfs, so that
//! the clients read both kinds of snapshots.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::form::Form;
use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS, Running};
use super::shared::Machine;
use crate::debian::Suite;
use crate::loop_fs::{FsKind, LoopFs};
use crate::managed::{Managed, smb_password};
use crate::process;
use crate::samba::USER;

const SCRIPT: &str = include_str!("../../guest/snapshots.sh");
/// Each file system, and the versions of NFS over which it is tried.
const PLACES: [(FsKind, &[&str]); 2] = [(FsKind::Xfs, &["3", "4.2"]), (FsKind::Btrfs, &["4.2"])];
const BRIEF_PLACES: [(FsKind, &[&str]); 2] = [(FsKind::Xfs, &["3"]), (FsKind::Btrfs, &["4.2"])];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 1800)]
    timeout_s: u64,
}

/// A service whose data are on a file system of its own.
struct Place {
    kind: FsKind,
    versions: &'static [&'static str],
    service: Managed,
    _mounted: LoopFs,
}

impl Place {
    fn new(
        kind: FsKind,
        versions: &'static [&'static str],
        binary: &Path,
        work: &Path,
    ) -> anyhow::Result<Self> {
        let mounted = LoopFs::mount(kind, work)?;
        let service = Managed::start_with_smb_and(binary, work, &[], &[])?;
        let (id, password) = (USER.id.to_string(), smb_password(work)?);
        service.manage_with(&["user", "create", USER.name, "--uid", &id, "--password-file", &password])?;
        service.manage("pool create p --level plimsoll/unlimited --size 4GiB")?;
        for (name, shown) in [("work", "reachable"), ("listed", "listed")] {
            service.manage(&format!(
                "volume create {name} --pool p --size 1GiB --mode 0777 --owner {id}:{id} --allow 127.0.0.0/8 \
                 --squash none --protocols nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb --snapshot-directory {shown}"
            ))?;
        }
        Ok(Self { kind, versions, service, _mounted: mounted })
    }

    /// The place as the script reads it.
    fn parameter(&self) -> String {
        let Managed { port, smb_port, .. } = self.service;
        format!("{}:{port}:{smb_port}:{}", self.kind.name(), self.versions.join(","))
    }

    /// Makes and deletes snapshots as the script asks.
    fn serve(&self, running: &mut Running) -> anyhow::Result<()> {
        for _ in self.versions {
            for volume in ["work", "listed"] {
                self.create(running, volume)?;
                running.wait_mark(&format!("delete {} {volume}", self.kind.name()))?;
                let name = self.only_snapshot(volume)?;
                self.service.manage(&format!("snapshot delete {volume} {name} --yes"))?;
            }
        }
        self.create(running, "work")
    }

    fn create(&self, running: &mut Running, volume: &str) -> anyhow::Result<()> {
        running.wait_mark(&format!("create {} {volume}", self.kind.name()))?;
        self.service.manage(&format!("snapshot create {volume}")).map(drop)
    }

    fn only_snapshot(&self, volume: &str) -> anyhow::Result<String> {
        let listed = self.service.manage(&format!("snapshot list {volume} --json"))?;
        let snapshots: serde_json::Value = serde_json::from_str(&listed)?;
        let name = snapshots["items"][0]["name"].as_str();
        name.map(String::from).ok_or_else(|| anyhow::anyhow!("the volume has no snapshot: {snapshots}"))
    }
}

pub(super) fn run(args: &Args, machine: &mut Machine<'_>, form: Form) -> anyhow::Result<()> {
    let places = form.choose(PLACES, BRIEF_PLACES);
    // A run that stops half-way but reports success would pass with fewer checks.
    let checks_min = form.choose(95, 68);
    let image = Image::build(Suite::Bookworm)?;
    let work = process::target_dir().join("guest").join("snapshots");
    let home = |kind: FsKind| work.join(kind.name()).join("data");
    for (kind, _) in places {
        LoopFs::clear(&home(kind))?;
    }
    process::empty_dir(&work)?;
    let binary = process::binary(args.binary.as_deref());
    let places = places.map(|(kind, versions)| Place::new(kind, versions, &binary, &home(kind)));
    let places: Vec<Place> = places.into_iter().collect::<anyhow::Result<_>>()?;
    let guest = Guest::new(&image)
        .set("HOST", HOST_ADDRESS)
        .set("NAME", USER.name)
        .set("PASSWORD", USER.password)
        .set("PLACES", places.iter().map(Place::parameter).collect::<Vec<_>>().join(" "));
    let mut running = machine.start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?;
    places.iter().try_for_each(|place| place.serve(&mut running))?;
    running.finish()?.require_checks(checks_min)?;
    for Place { service, _mounted, .. } in places {
        service.stop()?;
    }
    process::empty_dir(&work)
}
