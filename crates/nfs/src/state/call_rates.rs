//! Rates of calls that no volume's limits count, per client.

use crate::limits::{CLIENT_COMMITS_PER_S, CLIENT_MOUNTS_PER_S, CLIENT_QUOTAS_PER_S, CLIENT_RECORDS_PER_S};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use vfs::qos::{Admission, Demand, Gate, Limits, Pacer};

pub struct CallRates {
    pub commits: Arc<Gate>,
    pub mounts: Arc<Gate>,
    /// Calls that record a client of NFSv4 for a restart.
    pub records: Arc<Gate>,
    /// Questions for remote quotas.
    pub quotas: Arc<Gate>,
}

impl CallRates {
    pub fn new(pacer: &Arc<Pacer>) -> Self {
        let gate = |per_s| Gate::per_client(Limits { ops: NonZeroU64::new(per_s), ..Limits::NONE }, pacer);
        let [commits, mounts, records, quotas] =
            [CLIENT_COMMITS_PER_S, CLIENT_MOUNTS_PER_S, CLIENT_RECORDS_PER_S, CLIENT_QUOTAS_PER_S].map(gate);
        Self { commits, mounts, records, quotas }
    }

    pub fn unbounded() -> Self {
        Self { commits: Gate::open(), mounts: Gate::open(), records: Gate::open(), quotas: Gate::open() }
    }
}

pub(crate) fn admission(gate: &Arc<Gate>, client: IpAddr) -> Admission {
    Admission::new(gate, client, Demand::OTHER)
}
