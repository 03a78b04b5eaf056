//! The right to serve an endpoint, for a short time.
//!
//! The holder renews its lease in the shared store. Others measure with their own clocks how long the stored lease stays the
//! same: no two clocks need to agree about the time of day, only about the length of a second.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The times of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// After this without a renewal, another gateway may take the endpoint.
    pub lease: Duration,
    /// After this since the last confirmed renewal was sent, the holder answers no more.
    pub answer: Duration,
    /// The time between two renewals.
    pub renewal: Duration,
}

impl Times {
    /// Derives all times from the length of a lease: the holder stops one sixth earlier, and renews six times in it.
    pub fn of_lease(lease: Duration) -> Self {
        Self { lease, answer: lease / 6 * 5, renewal: lease / 6 }
    }
}

/// The record of who serves an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Rises with each new holder.
    pub epoch: u64,
    /// Rises with each renewal.
    pub beat: u64,
    /// `None` if the last holder has ended in good order.
    pub holder: Option<LeaseHolder>,
}

/// A run of the service at a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    pub gateway: String,
    /// Differs for each run of the gateway.
    pub instance: u64,
}

impl Lease {
    /// The lease of an endpoint that nobody has served yet. Epochs begin with the time of its creation: a process of an
    /// earlier endpoint of the same name must not have the epoch of a later one.
    pub(crate) fn first(created_ms: u64) -> Self {
        Self { epoch: created_ms, beat: 0, holder: None }
    }

    pub(crate) fn taken_by(&self, holder: LeaseHolder) -> Self {
        Self { epoch: self.epoch + 1, beat: 0, holder: Some(holder) }
    }

    pub(crate) fn renewed(&self) -> Self {
        Self { beat: self.beat + 1, ..self.clone() }
    }

    pub(crate) fn released(&self) -> Self {
        Self { beat: self.beat + 1, holder: None, ..self.clone() }
    }
}

/// An observer's view of something that its owner renews: since when it has been the same.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    seen: Option<(Vec<u8>, Duration)>,
}

impl Watch {
    /// Notes the stored bytes. `now` must be a time after they were read: a time before it could lie before a renewal that
    /// the bytes already show, and an observer would take over too early.
    pub fn observe(&mut self, now: Duration, bytes: &[u8]) {
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != bytes) {
            self.seen = Some((bytes.to_vec(), now));
        }
    }

    /// Returns how long the bytes have been the same.
    pub fn unchanged(&self, now: Duration) -> Duration {
        self.seen.as_ref().map_or(Duration::ZERO, |(_, since)| now.saturating_sub(*since))
    }

    /// Whether the owner has not renewed for this time.
    pub fn is_silent(&self, now: Duration, time: Duration) -> bool {
        self.seen.is_some() && self.unchanged(now) >= time
    }
}
