//! The process of an endpoint: a whole service whose state is in the store of the cluster.

use super::arrival::AddressArrival;
use super::lease_keeper::{LeaseKeeper, end_now};
use super::membership;
use super::network::EndpointAddress;
use super::replica::EndpointState;
use super::settings;
use crate::config::Config;
use crate::host::Moving;
use crate::number::whole;
use crate::serve;
use crate::state;
use anyhow::{Context, bail};
use api::EndpointPlacement;
use cluster::{Holding, LeaseHolder, Name};
use rustix::process::{Signal, set_parent_process_death_signal};
use stable::ReplicaPairs;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The format of the state of an endpoint that this program writes: the tables of the store, and all files beside it
/// that move. It rises when a program of the version before could not serve the state.
pub(super) const STATE_FORMAT: u32 = 1;

/// The identity of the process, which its gateway gives it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EndpointArgs {
    /// The endpoint to serve.
    #[arg(long, hide = true, requires = "run")]
    pub(crate) endpoint: Option<Name>,
    /// The run of the gateway that has its lease.
    #[arg(long, hide = true, requires = "endpoint", value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) run: Option<u64>,
}

/// Serves an endpoint until SIGTERM or the end of its lease.
pub(crate) fn run(config: &Config, endpoint: &Name, run: u64) -> anyhow::Result<ExitCode> {
    end_with_gateway()?;
    let member = membership::open(config)?;
    let view = member.cluster.view()?;
    let found = view.endpoints.get(endpoint).with_context(|| format!("there is no endpoint {endpoint}"))?;
    let holder = LeaseHolder { gateway: member.own.to_string(), instance: run };
    let (store, key) = (member.cluster.store().clone(), member.cluster.key());
    let holding = Holding::resume(store, key, endpoint, &holder, view.times)?;
    let holding = holding.context("another gateway has the endpoint")?;
    // Before the state changes: from then on, gateways with an earlier program leave the endpoint to others.
    member.cluster.require_state_format(endpoint, STATE_FORMAT)?;
    let state = Arc::new(EndpointState::new(holding.state()));
    let address = EndpointAddress { ip: found.record.address, prefix: found.record.prefix };
    let interface = config.cluster.interface.clone();
    let mut arrival = None;
    let keeper = LeaseKeeper::start(holding, view.times, |deadline| {
        let made = AddressArrival::new(interface.as_deref(), address, deadline, Arc::clone(&state))?;
        let made = arrival.insert(Arc::new(made));
        let renewed = Arc::clone(made);
        Ok(Box::new(move || renewed.renew()))
    })?;
    let arrival = arrival.context("no way for clients")?;
    let moving = Moving {
        placement: EndpointPlacement { endpoint: endpoint.to_string(), gateway: member.own.to_string() },
        scope: view.id.clone(),
        state: Arc::clone(&state) as _,
        stored: ReplicaPairs::new(),
        deadline: keeper.deadline,
        arrival: Arc::clone(&arrival) as _,
    };
    let config = settings::of_endpoint(config, endpoint, found.record.address);
    let served = serve(&config, moving, &state, &arrival);
    keeper.release();
    // Destructors of a start that failed half-way could wait for the cluster.
    served.map(|()| ExitCode::SUCCESS).map_err(|error| end_now(&format!("{error:#}")))
}

/// Restores the state, and serves until SIGTERM.
fn serve(
    config: &Config,
    moving: Moving,
    state: &EndpointState,
    arrival: &AddressArrival,
) -> anyhow::Result<()> {
    let stored = state.load().context("cannot read the state of the endpoint")?;
    arrival.set_earlier(&stored);
    make_empty(&config.data)?;
    stable::restore(&config.data, &stored).context("cannot restore the state of the endpoint")?;
    serve::serve_until_told(config, Some(Moving { stored, ..moving }))
}

/// Has the kernel end this process in good order when its gateway dies.
fn end_with_gateway() -> anyhow::Result<()> {
    let parent = std::os::unix::process::parent_id();
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if std::os::unix::process::parent_id() != parent {
        bail!("the gateway of this endpoint has ended");
    }
    Ok(())
}

/// Makes the directory, without what an earlier process left in it.
fn make_empty(dir: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => state::make_dir(dir),
    }
}

#[cfg(test)]
mod tests {
    use super::STATE_FORMAT;

    /// A gateway with the version before cannot serve an endpoint whose store has later tables.
    #[test]
    fn state_format_rises_with_the_tables_of_the_store() {
        assert_eq!(
            (STATE_FORMAT, control::STORE_VERSION),
            (1, 15),
            "raise both formats, and the numbers here"
        );
    }
}
