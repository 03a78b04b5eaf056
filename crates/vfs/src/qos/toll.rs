//! The price of one call at a gate, and its payment.

use super::{Client, Demand, Gate, Moved, QueueResult, Waiter};
use std::fmt;
use std::sync::Arc;

/// The price of a call, to be paid before it is done.
#[derive(Clone)]
pub struct Toll(Box<Account>);

/// A paid toll. Dropping it settles the account: bytes that were not moved, because a file ends, a permission is missing or a
/// connection breaks, are refunded, each to the limit that was charged; bytes beyond the demand are charged.
pub struct Charge(Box<Account>);

/// The account of a call. It has memory of its own, so that calls without one have little to carry.
#[derive(Clone)]
struct Account {
    gate: Arc<Gate>,
    client: Client,
    demand: Demand,
    moved: Moved,
    has_waited: bool,
}

impl Toll {
    /// The price of a demand of `client` at `gate`.
    pub fn new(gate: &Arc<Gate>, client: Client, demand: Demand) -> Self {
        let (gate, client, moved) = (Arc::clone(gate), client.to_canonical(), Moved::default());
        Self(Box::new(Account { gate, client, demand, moved, has_waited: false }))
    }

    /// The demand that it is for.
    pub fn demand(&self) -> Demand {
        self.0.demand
    }

    /// Pays, if that is possible at once. If not, the call has to [`Toll::wait`].
    pub fn pay(self) -> Result<Charge, Self> {
        if self.0.gate.admit(self.0.client, self.0.demand) { Ok(Charge(self.0)) } else { Err(self) }
    }

    /// Queues `waiter` until this is paid. It has been paid when [`Waiter::pass`] is called, or at once after [`QueueResult::Passed`].
    pub fn wait(&self, waiter: Box<dyn Waiter>) -> QueueResult {
        self.0.gate.wait(self.0.client, self.0.demand, waiter)
    }

    /// The payment of a toll that has waited.
    pub fn paid(mut self) -> Charge {
        self.0.has_waited = true;
        Charge(self.0)
    }
}

impl fmt::Debug for Toll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toll")
            .field("client", &self.0.client)
            .field("demand", &self.0.demand)
            .finish_non_exhaustive()
    }
}

impl Charge {
    /// Counts bytes that were moved.
    pub fn spend(&mut self, moved: Moved) {
        self.0.moved = self.0.moved.and(moved);
    }

    /// Counts all bytes of the demand as moved.
    pub fn spend_all(&mut self) {
        self.0.moved = self.0.demand.moved();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let Account { gate, client, demand, moved, has_waited } = &*self.0;
        gate.settle(*client, *demand, *moved, *has_waited);
    }
}
