//! The identities of a load's clients.

use super::plan::Plan;
use crate::admission;
use crate::error::Error;
use wire_client::{Client, Identity};

/// The client that creates and checks files. Its machine name differs from those of the load's clients.
pub(super) fn setup_client(plan: &Plan) -> Result<Client, Error> {
    let machine = "plimsoll-bench".to_owned();
    admission::mount(&plan.target, &Identity { machine, ..identity(plan, 0) })
}

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
