//! What one call owes at a gate, and what it has paid.

use super::{Client, Demand, Gate, Wait, Waiter};
use std::sync::Arc;

/// What a call must pay before it is done.
#[derive(Clone)]
pub struct Toll {
    gate: Arc<Gate>,
    client: Client,
    demand: Demand,
}

/// What a call has paid. What it does not use by the end, because a file ends, a permission is missing or a connection
/// breaks, is refunded when this is dropped.
pub struct Charge {
    toll: Toll,
    used: u32,
}

impl Toll {
    /// What `client` owes at `gate` for this demand.
    pub fn new(gate: &Arc<Gate>, client: Client, demand: Demand) -> Self {
        Self { gate: Arc::clone(gate), client: client.to_canonical(), demand }
    }

    /// What is asked for.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Pays, if that is possible at once. If not, the call has to [`Toll::wait`].
    pub fn pay(self) -> Result<Charge, Self> {
        if self.gate.admit(self.client, self.demand) { Ok(self.paid()) } else { Err(self) }
    }

    /// Queues `waiter` until this is paid. It has been paid when the waiter is told, or at once after [`Wait::Passed`].
    pub fn wait(&self, waiter: Box<dyn Waiter>) -> Wait {
        self.gate.wait(self.client, self.demand, waiter)
    }

    /// What was paid by waiting.
    pub fn paid(self) -> Charge {
        Charge { toll: self, used: 0 }
    }
}

impl Charge {
    /// Counts bytes that were delivered.
    pub fn spend(&mut self, bytes: u32) {
        self.used = self.used.saturating_add(bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.toll.gate.refund(self.toll.client, self.toll.demand, self.used);
    }
}
