//! The holder's side of a lease.

use crate::Entropy;
use crate::error::{Error, Result};
use crate::key::ClusterKey;
use crate::lease::{Lease, LeaseHolder, Times};
use crate::record::{self, EPOCH, LEASE, Name, STATE};
use crate::store::{Change, SharedStore};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// An endpoint that this process serves, as long as the lease lasts.
pub struct Holding<S> {
    store: S,
    key: ClusterKey,
    object: String,
    epoch: Vec<u8>,
    lease: Lease,
    /// The stored bytes of the lease.
    stored: Vec<u8>,
    times: Times,
    answers_until: Duration,
}

/// The end of a lease.
#[derive(Debug)]
pub enum RenewError {
    /// Another gateway has the endpoint.
    Lost,
    /// The store failed; the lease may go on if a later renewal succeeds in time.
    Store(Error),
}

impl<S: SharedStore> Holding<S> {
    /// Takes the lease of `endpoint` if it is still the one with the bytes `seen`, which the caller found free or silent for
    /// the time of a lease. Returns `None` if another gateway was faster. `now` is a time before the call.
    pub fn take(
        store: S,
        key: &ClusterKey,
        endpoint: &Name,
        seen: &[u8],
        holder: LeaseHolder,
        times: Times,
        now: Duration,
    ) -> Result<Option<Self>> {
        let object = record::object(endpoint);
        let found: Lease = record::decode(key, &object, LEASE, seen)?;
        let lease = found.taken_by(holder);
        let stored = record::encode(key, &object, LEASE, &lease)?;
        let epoch = epoch_bytes(lease.epoch);
        let change =
            Change::default().when(LEASE, Some(seen)).set(LEASE, stored.clone()).set(EPOCH, epoch.clone());
        let is_taken = store.change(&object, &change)?;
        let answers_until = now + times.answer;
        let holding = || Self { store, key: key.clone(), object, epoch, lease, stored, times, answers_until };
        Ok(is_taken.then(holding))
    }

    /// Continues a lease that the gateway's supervisor took for this process.
    pub fn resume(
        store: S,
        key: &ClusterKey,
        endpoint: &Name,
        holder: &LeaseHolder,
        times: Times,
    ) -> Result<Option<Self>> {
        let object = record::object(endpoint);
        let pairs = store.load(&object, LEASE)?;
        let stored = pairs
            .get(LEASE)
            .cloned()
            .ok_or_else(|| Error::refused(format!("there is no endpoint {endpoint}")))?;
        let lease: Lease = record::decode(key, &object, LEASE, &stored)?;
        if lease.holder.as_ref() != Some(holder) {
            return Ok(None);
        }
        let epoch = epoch_bytes(lease.epoch);
        // Nothing may be answered before the first renewal.
        Ok(Some(Self {
            store,
            key: key.clone(),
            object,
            epoch,
            lease,
            stored,
            times,
            answers_until: Duration::ZERO,
        }))
    }

    pub fn epoch(&self) -> u64 {
        self.lease.epoch
    }

    /// The time from which no answer may leave this process.
    pub fn answers_until(&self) -> Duration {
        self.answers_until
    }

    /// Renews the lease. `now` is a time before the call.
    pub fn renew(&mut self, now: Duration) -> std::result::Result<(), RenewError> {
        self.replace(self.lease.renewed())?;
        self.answers_until = now + self.times.answer;
        Ok(())
    }

    /// Ends the lease, so that another gateway can take it at once. All else must have ended before.
    pub fn release(mut self) -> std::result::Result<(), RenewError> {
        self.replace(self.lease.released())
    }

    fn replace(&mut self, lease: Lease) -> std::result::Result<(), RenewError> {
        let stored = record::encode(&self.key, &self.object, LEASE, &lease).map_err(RenewError::Store)?;
        let change = Change::default().when(LEASE, Some(&self.stored)).set(LEASE, stored.clone());
        match self.store.change(&self.object, &change) {
            Ok(true) => {}
            // An earlier renewal may have been applied although it failed.
            Ok(false) if self.is_still_ours()? => return self.replace(lease),
            Ok(false) => return Err(RenewError::Lost),
            Err(error) => return Err(RenewError::Store(error.into())),
        }
        (self.lease, self.stored) = (lease, stored);
        Ok(())
    }

    /// Reads the lease again. Whether it is of this epoch.
    fn is_still_ours(&mut self) -> std::result::Result<bool, RenewError> {
        let pairs = self.store.load(&self.object, LEASE).map_err(|error| RenewError::Store(error.into()))?;
        let Some(stored) = pairs.get(LEASE) else { return Ok(false) };
        let lease: Lease =
            record::decode(&self.key, &self.object, LEASE, stored).map_err(RenewError::Store)?;
        let is_ours =
            lease.epoch == self.lease.epoch && lease.holder == self.lease.holder && *stored != self.stored;
        if is_ours {
            self.stored.clone_from(stored);
        }
        Ok(is_ours)
    }

    /// Returns the part of the holding that changes state, for other threads.
    pub fn state(&self) -> State<S>
    where
        S: Clone,
    {
        State {
            store: self.store.clone(),
            key: self.key.clone(),
            object: self.object.clone(),
            epoch: self.epoch.clone(),
            number: self.lease.epoch,
        }
    }
}

/// The state of an endpoint, which only the current holder can change.
pub struct State<S> {
    store: S,
    key: ClusterKey,
    object: String,
    epoch: Vec<u8>,
    number: u64,
}

impl<S: SharedStore> State<S> {
    /// The state of the endpoint, as earlier holders left it.
    pub fn load(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let pairs = self.store.load(&self.object, STATE)?;
        let open = |pair: (String, Vec<u8>)| {
            let (key, sealed) = pair;
            let secret = self.key.open(&self.place(&key), &sealed);
            let secret = secret.ok_or_else(|| Error::Unreadable(format!("\"{}\"", self.place(&key))))?;
            Ok((key[STATE.len()..].to_owned(), secret))
        };
        pairs.into_iter().map(open).collect()
    }

    /// Sets and removes values atomically, encrypted. `false` if another gateway has taken the endpoint.
    pub fn change<'c>(
        &self,
        sets: impl IntoIterator<Item = (&'c str, &'c [u8])>,
        removals: impl IntoIterator<Item = &'c str>,
        entropy: Entropy<'_>,
    ) -> Result<bool> {
        // The epoch in the same object fences: a holder whose lease was taken changes nothing, however late it comes.
        let mut change = Change::default().when(EPOCH, Some(&self.epoch));
        for (key, value) in sets {
            let key = format!("{STATE}{key}");
            let sealed = self.key.seal(&self.place(&key), self.number, value, entropy);
            change = change.set(key, sealed);
        }
        for key in removals {
            change = change.remove(format!("{STATE}{key}"));
        }
        Ok(self.store.change(&self.object, &change)?)
    }

    fn place(&self, key: &str) -> String {
        format!("{} {key}", self.object)
    }
}

fn epoch_bytes(epoch: u64) -> Vec<u8> {
    epoch.to_string().into_bytes()
}

impl fmt::Display for RenewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("another gateway has taken the endpoint"),
            Self::Store(error) => error.fmt(f),
        }
    }
}
