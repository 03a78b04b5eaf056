//! Meters of clients, for a volume or for all volumes of a pool together.

use super::meter::Meter;
use super::{Class, Client, Demand, Limits, Nanos, Transferred};
use std::collections::HashMap;

/// A meter for each client, all with the same limits.
#[derive(Debug, Default)]
pub(super) struct ClientMeters {
    limits: Limits,
    is_limited: bool,
    meters: HashMap<Client, Meter>,
    /// The number of meters from which idle ones are removed.
    meters_max: usize,
}

/// Clients that are remembered at least.
pub(super) const CLIENTS_MIN: usize = 64;

impl ClientMeters {
    pub(super) fn set_limits(&mut self, limits: &Limits, now: Nanos) {
        (self.limits, self.is_limited) = (*limits, !limits.is_none());
        if self.is_limited {
            self.meters.values_mut().for_each(|meter| meter.set_limits(limits, now));
        } else {
            self.meters = HashMap::new();
        }
    }

    /// The time at which a client's demand of this class may pass.
    #[inline]
    pub(super) fn due(&self, client: Client, class: Class) -> Nanos {
        if !self.is_limited {
            return Nanos(0);
        }
        self.meters.get(&client).map_or(Nanos(0), |meter| meter.due(class))
    }

    #[inline]
    pub(super) fn take(&mut self, client: Client, demand: Demand, now: Nanos) {
        if !self.is_limited {
            return;
        }
        if self.meters.len() >= self.meters_max {
            self.meters.retain(|_, meter| Class::ALL.iter().any(|&class| meter.due(class) > now));
            self.meters_max = (2 * self.meters.len()).max(CLIENTS_MIN);
        }
        let limits = &self.limits;
        self.meters.entry(client).or_insert_with(|| Meter::new(limits, now)).take(demand, now);
    }

    pub(super) fn refund_unused(&mut self, client: Client, demand: Demand, moved: Transferred, now: Nanos) {
        if let Some(meter) = self.meters.get_mut(&client) {
            meter.refund_unused(demand, moved, now);
        }
    }
}
