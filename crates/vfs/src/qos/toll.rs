//! The price of one call at a gate, and its payment.

use super::{Client, Demand, Gate, Moved, Wait, Waiter};
use std::fmt;
use std::sync::Arc;

/// The price of a call, to be paid before it is done.
#[derive(Clone)]
pub struct Toll {
    gate: Arc<Gate>,
    client: Client,
    demand: Demand,
}

/// A paid toll. Dropping it settles the account: bytes that were not moved, because a file ends, a permission is missing or a
/// connection breaks, are refunded, each to the limit that was charged; bytes beyond the demand are charged.
pub struct Charge {
    toll: Toll,
    moved: Moved,
    has_waited: bool,
}

impl Toll {
    /// The price of a demand of `client` at `gate`.
    pub fn new(gate: &Arc<Gate>, client: Client, demand: Demand) -> Self {
        Self { gate: Arc::clone(gate), client: client.to_canonical(), demand }
    }

    /// The demand that it is for.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Pays, if that is possible at once. If not, the call has to [`Toll::wait`].
    pub fn pay(self) -> Result<Charge, Self> {
        if self.gate.admit(self.client, self.demand) { Ok(self.charge(false)) } else { Err(self) }
    }

    /// Queues `waiter` until this is paid. It has been paid when [`Waiter::pass`] is called, or at once after [`Wait::Passed`].
    pub fn wait(&self, waiter: Box<dyn Waiter>) -> Wait {
        self.gate.wait(self.client, self.demand, waiter)
    }

    /// The payment of a toll that has waited.
    pub fn paid(self) -> Charge {
        self.charge(true)
    }

    fn charge(self, has_waited: bool) -> Charge {
        Charge { toll: self, moved: Moved::default(), has_waited }
    }
}

impl fmt::Debug for Toll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toll")
            .field("client", &self.client)
            .field("demand", &self.demand)
            .finish_non_exhaustive()
    }
}

impl Charge {
    /// Counts bytes that were moved.
    pub fn spend(&mut self, moved: Moved) {
        self.moved = self.moved.and(moved);
    }

    /// Counts all bytes of the demand as moved.
    pub fn spend_all(&mut self) {
        self.moved = self.toll.demand.moved();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.toll.gate.settle(self.toll.client, self.toll.demand, self.moved, self.has_waited);
    }
}
