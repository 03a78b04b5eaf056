//! The state of an endpoint in the store of its cluster.

use super::lease_keeper::end_now;
use super::store::RadosStore;
use crate::state;
use cluster::State;
use stable::{Replica, ReplicaChange, ReplicaPairs};
use std::collections::BTreeMap;
use std::io;

/// State that only the holder of the lease can change.
pub(crate) struct EndpointState(State<RadosStore>);

impl EndpointState {
    pub(crate) fn new(state: State<RadosStore>) -> Self {
        Self(state)
    }

    pub(crate) fn load(&self) -> cluster::Result<ReplicaPairs> {
        self.0.load()
    }
}

impl Replica for EndpointState {
    fn apply(&self, changes: &[ReplicaChange<'_>]) -> io::Result<()> {
        // The store removes keys before it sets others, so only the last change of each key may reach it.
        let last: BTreeMap<&str, Option<&[u8]>> = changes
            .iter()
            .map(|change| match *change {
                ReplicaChange::Set { key, value } => (key, Some(value)),
                ReplicaChange::Remove { key } => (key, None),
            })
            .collect();
        let sets = last.iter().filter_map(|(&key, &value)| Some((key, value?)));
        let removals = last.iter().filter(|(_, value)| value.is_none()).map(|(&key, _)| key);
        match self.0.change(sets, removals, &state::must_random) {
            Ok(true) => Ok(()),
            Ok(false) => end_now("another gateway has taken the endpoint"),
            // Whether it was applied is unknown. The next process finds out.
            Err(error) if error.is_final() => end_now(&error.to_string()),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }
}
