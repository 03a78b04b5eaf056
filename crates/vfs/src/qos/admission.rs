//! The admission of one call at a gate, and its permit.

use super::{Client, Demand, Gate, QueueResult, Transferred, Waiter};
use std::fmt;
use std::sync::Arc;

/// The demand of a call at a gate, before the call runs.
#[derive(Clone)]
pub struct Admission(Box<Request>);

/// A permit for an admitted call. Dropping it corrects the charge: unused bytes are refunded to the limits that were charged, for
/// example when a file ends, access is denied or a connection breaks; bytes beyond the demand are charged.
pub struct Permit(Box<Request>);

/// The demand and use of a call. Boxed, so that calls without limits carry only a pointer.
#[derive(Clone)]
struct Request {
    gate: Arc<Gate>,
    client: Client,
    demand: Demand,
    moved: Transferred,
    has_waited: bool,
}

impl Admission {
    pub fn new(gate: &Arc<Gate>, client: Client, demand: Demand) -> Self {
        let (gate, client, moved) = (Arc::clone(gate), client.to_canonical(), Transferred::default());
        Self(Box::new(Request { gate, client, demand, moved, has_waited: false }))
    }

    pub fn demand(&self) -> Demand {
        self.0.demand
    }

    /// Admits the call if the limits allow it now. Otherwise the call must [`Admission::wait`].
    pub fn try_acquire(self) -> Result<Permit, Self> {
        if self.0.gate.admit(self.0.client, self.0.demand) { Ok(Permit(self.0)) } else { Err(self) }
    }

    /// Queues `waiter` until the call is admitted: when [`Waiter::pass`] is called, or immediately after [`QueueResult::Passed`].
    pub fn wait(&self, waiter: Box<dyn Waiter>) -> QueueResult {
        self.0.gate.wait(self.0.client, self.0.demand, waiter)
    }

    /// The permit of a request that has waited.
    pub fn into_permit(mut self) -> Permit {
        self.0.has_waited = true;
        Permit(self.0)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("client", &self.0.client)
            .field("demand", &self.0.demand)
            .finish_non_exhaustive()
    }
}

impl Permit {
    pub fn record(&mut self, moved: Transferred) {
        self.0.moved = self.0.moved.and(moved);
    }

    pub fn record_all(&mut self) {
        self.0.moved = self.0.demand.transferred();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Request { gate, client, demand, moved, has_waited } = &*self.0;
        gate.refund_unused(*client, *demand, *moved, *has_waited);
    }
}
