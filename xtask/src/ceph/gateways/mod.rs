//! Several gateways in front of one CephFS: what happens to clients when one of them dies, freezes, loses Ceph or is
//! drained, and when Ceph itself has a fault.

mod capture;
mod deaths;
mod earlier_clients;
mod gateway;
mod limits;
mod patient;
mod probe;
pub(super) mod scale;
mod setup;
mod silence;
mod storage_faults;
mod strangers;
pub(super) mod upgrade;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;

use super::cluster::Cluster;
pub(super) use setup::{ENDPOINTS, GATEWAYS, Setup};

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// A gateway dies under load.
    Kill,
    /// A gateway is drained.
    Drain,
    /// A gateway dies, the others take its endpoint, and clients of another endpoint go on.
    Takers,
    /// An endpoint moves and its gateway dies while its clients use up a limit.
    Limits,
    /// A second process has the name of a gateway, and a client the handles of another endpoint.
    Strangers,
    /// One process of an endpoint dies.
    Process,
    /// A gateway freezes and goes on.
    Frozen,
    /// A gateway does not reach Ceph for 8 seconds.
    Cut,
    /// A gateway does not reach Ceph for 40 seconds.
    LongCut,
    /// All gateways die at once.
    Restart,
    /// The clock of a gateway is off by an hour.
    Clock,
    /// Ceph ends the session of an endpoint.
    Evict,
    /// Ceph excludes the clients of an endpoint.
    Blocklist,
    /// The OSD is full.
    Full,
    /// The metadata server dies. The last case: the other one serves from then on.
    Mds,
}

impl Case {
    fn is_brief(self) -> bool {
        matches!(
            self,
            Self::Kill
                | Self::Drain
                | Self::Takers
                | Self::Limits
                | Self::Strangers
                | Self::Process
                | Self::Frozen
                | Self::Cut
        )
    }

    fn run(self, setup: &mut Setup<'_>, is_brief: bool) -> anyhow::Result<()> {
        match self {
            Self::Kill => deaths::kill_under_load(setup, if is_brief { 2 } else { 50 }),
            Self::Drain => deaths::drain(setup),
            Self::Takers => deaths::kill_beside_another(setup, if is_brief { 2 } else { 10 }),
            Self::Limits => limits::hold(setup),
            Self::Strangers => strangers::refuse(setup),
            Self::Process => deaths::kill_process(setup),
            Self::Frozen => silence::freeze(setup),
            Self::Cut => silence::cut(setup, Duration::from_secs(8)),
            Self::LongCut => silence::cut(setup, Duration::from_secs(40)),
            Self::Restart => deaths::restart_all(setup),
            Self::Clock => deaths::clock_off(setup),
            Self::Evict => storage_faults::evict(setup),
            Self::Blocklist => storage_faults::blocklist(setup),
            Self::Full => storage_faults::full(setup),
            Self::Mds => storage_faults::kill_mds(setup),
        }
    }
}

/// Runs these cases; all if there are none, or all short ones if `is_brief`.
pub(super) fn run(
    binary: &Path,
    ceph: &mut Cluster,
    work: &Path,
    only: &[Case],
    is_brief: bool,
) -> anyhow::Result<()> {
    let mut setup = Setup::start(binary, ceph, &work.join("gateways"), "")?;
    setup.is_timed = !is_brief;
    for &case in Case::value_variants() {
        let is_chosen = if only.is_empty() { case.is_brief() || !is_brief } else { only.contains(&case) };
        if is_chosen {
            let begun = Instant::now();
            case.run(&mut setup, is_brief).with_context(|| format!("case {case:?}"))?;
            eprintln!("ceph: case {case:?} took {} s", begun.elapsed().as_secs());
        }
    }
    setup.stop()
}
