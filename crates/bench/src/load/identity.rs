//! As whom a load calls.

use super::plan::Plan;
use crate::error::Error;
use wire_client::{Client, Identity};

/// Who makes and checks files: another machine than any that makes the load.
pub(super) fn setup_client(plan: &Plan) -> Result<Client, Error> {
    let machine = "plimsoll-bench".to_owned();
    Ok(Client::mount(&plan.target, &Identity { machine, ..identity(plan, 0) })?)
}

/// As whom the client of this index calls.
pub(super) fn identity(plan: &Plan, index: usize) -> Identity {
    Identity {
        uid: plan.uid,
        gid: plan.gid,
        machine: format!("plimsoll-bench-{index}"),
        source: plan.sources.get(index % plan.sources.len().max(1)).copied(),
        privileged_port: plan.privileged_port,
        nt_hash: plan.nt_hash,
    }
}
