//! The scheduler of a pool's volumes. Pure: time is an argument, and the demands that may pass are return values.

use super::bucket::regained;
use super::clients::ClientMeters;
use super::fair_queue::{FairQueue, FlowState};
use super::meter::Meter;
use super::queue::{Abandoned, Next, Queue, Waiting};
use super::{Class, Client, Demand, Nanos, PoolLimits, Throttled, Transferred, VolumeLimits};

/// Demands that may wait in a volume.
const WAITING_MAX: usize = 1 << 16;
/// Demands of one client among them, so that none fills the queue for the others.
const CLIENT_WAITING_MAX: usize = 1 << 13;
/// From this length of the queue on, only networks with fewer than [`NEWCOMER_WAITING_MAX`] demands may add more.
const RESERVED_FROM: usize = WAITING_MAX / 4 * 3;
/// See [`RESERVED_FROM`].
const NEWCOMER_WAITING_MAX: usize = 16;
const SLOT_BITS: u32 = usize::BITS / 2;

/// Admits demands within the limits of a pool, its volumes and their clients. `W` is the waiter of a deferred demand.
///
/// The flow with the least service goes first: among the volumes of the pool where the pool's limit binds, among the
/// clients of a volume where the volume's limit binds. So the others share the unused part of a flow, and the flow gets
/// it back as soon as it asks.
#[derive(Debug)]
pub struct Scheduler<W> {
    meter: Meter,
    per_client: ClientMeters,
    slots: Vec<Slot<W>>,
    free: Vec<usize>,
    flows: FairQueue<usize>,
    numbers: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The demand passes and is paid.
    Passed,
    /// The demand passes and is paid turn by turn from now on. Call [`Scheduler::release`] next.
    Owing,
    /// The demand must wait.
    Refused,
}

#[derive(Debug)]
struct Slot<W> {
    member: Option<Member<W>>,
    /// The number of the volume that has it, or will have it next.
    number: usize,
}

#[derive(Debug)]
struct Member<W> {
    queue: Queue<W>,
    flow: FlowState,
}

#[derive(Debug)]
pub struct Release<W> {
    /// The waiters of demands that may pass now, in order, with their numbers.
    pub passed: Vec<(u64, W)>,
    pub abandoned: Vec<W>,
    /// The time of the next call of [`Scheduler::release`].
    pub next: Option<Nanos>,
}

impl<W> Scheduler<W> {
    pub fn new(limits: &PoolLimits, now: Nanos) -> Self {
        let mut scheduler = Self {
            meter: Meter::default(),
            per_client: ClientMeters::default(),
            slots: Vec::new(),
            free: Vec::new(),
            flows: FairQueue::default(),
            numbers: 0,
        };
        scheduler.set_limits(limits, now);
        scheduler
    }

    pub fn set_limits(&mut self, limits: &PoolLimits, now: Nanos) {
        self.meter.set_limits(&limits.all, now);
        self.per_client.set_limits(&limits.per_client, now);
        for slot in &mut self.slots {
            let Some(member) = &mut slot.member else { continue };
            member.queue.wake_all();
            enqueue_again(&mut self.flows, slot.number, member);
        }
    }

    /// Adds a volume; returns its number, unique in this pool.
    pub fn add(&mut self, limits: &VolumeLimits, now: Nanos) -> usize {
        let member = Member { queue: Queue::new(limits, now), flow: FlowState::default() };
        if let Some(slot) = self.free.pop().and_then(|free| self.slots.get_mut(free)) {
            slot.member = Some(member);
            return slot.number;
        }
        let number = self.slots.len();
        self.slots.push(Slot { member: Some(member), number });
        number
    }

    pub fn set_volume_limits(&mut self, volume: usize, limits: &VolumeLimits, now: Nanos) {
        let Some(member) = member(&mut self.slots, volume) else { return };
        member.queue.set_limits(limits, now);
        enqueue_again(&mut self.flows, volume, member);
    }

    /// Removes a volume; returns its waiters in order of arrival.
    pub fn remove(&mut self, volume: usize) -> Vec<Waiting<W>> {
        let index = slot_of(volume);
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.number == volume) else {
            return Vec::new();
        };
        let Some(mut member) = slot.member.take() else { return Vec::new() };
        slot.number = volume.wrapping_add(1 << SLOT_BITS);
        self.free.push(index);
        for class in Class::ALL {
            self.flows.leave(volume, &mut member.flow, class);
        }
        member.queue.drain()
    }

    /// Admits a demand that may pass now without taking another's turn; otherwise it must [`Scheduler::wait`].
    #[inline]
    pub fn admit(&mut self, volume: usize, client: Client, demand: Demand, now: Nanos) -> Decision {
        let class = demand.class();
        if self.flows.has_ready() || self.meter.due(class) > now || self.per_client.due(client, class) > now {
            return Decision::Refused;
        }
        let Some(member) = member(&mut self.slots, volume) else { return Decision::Passed };
        if !demand.is_indivisible() && self.meter.turns(demand).max(member.queue.turns(demand)) > 1 {
            return self.owe(volume, client, demand, now);
        }
        if !member.queue.admit(client, demand, now) {
            return Decision::Refused;
        }
        self.meter.take(demand, now);
        self.per_client.take(client, demand, now);
        Decision::Passed
    }

    /// Admits a demand of several turns, unless another demand waits for these turns.
    #[cold]
    fn owe(&mut self, volume: usize, client: Client, demand: Demand, now: Nanos) -> Decision {
        let Some(member) = member(&mut self.slots, volume) else { return Decision::Passed };
        let is_alone = self.meter.turns(demand) == 1 || self.flows.has_none_but(volume);
        if !is_alone || !member.queue.may(client, demand.class(), now) {
            return Decision::Refused;
        }
        self.numbers += 1;
        member.queue.push(client, demand, self.numbers, None, now);
        self.flows.enqueue(volume, &mut member.flow, demand.class());
        Decision::Owing
    }

    /// Queues a demand; returns its number. Returns `waiter` if there is no such volume.
    /// Call [`Scheduler::release`] next.
    pub fn wait(
        &mut self,
        volume: usize,
        client: Client,
        demand: Demand,
        waiter: W,
        now: Nanos,
    ) -> Result<u64, W> {
        let Some(member) = member(&mut self.slots, volume) else { return Err(waiter) };
        self.numbers += 1;
        member.queue.push(client, demand, self.numbers, Some(waiter), now);
        self.flows.enqueue(volume, &mut member.flow, demand.class());
        Ok(self.numbers)
    }

    /// Releases the demands that may pass by now. A waiter that `is_gone` reports as abandoned takes nothing.
    pub fn release(&mut self, now: Nanos, is_gone: &dyn Fn(&W) -> bool) -> Release<W> {
        while let Some((volume, class)) = self.flows.wake(now) {
            if let Some(member) = member(&mut self.slots, volume) {
                self.flows.enqueue(volume, &mut member.flow, class);
            }
        }
        let mut abandoned = Abandoned { is_gone, found: Vec::new() };
        let mut passed = Vec::new();
        while let Some(volume) = self.first(now) {
            passed.extend(self.serve(volume, now, &mut abandoned));
        }
        let blocked = Class::ALL.into_iter().filter(|&class| self.flows.first(class).is_some());
        let next = blocked.map(|class| self.meter.due(class)).chain(self.flows.next_wake()).min();
        Release { passed, abandoned: abandoned.found, next }
    }

    /// Returns the volume with the least service among those with a demand that the pool's limit allows.
    fn first(&self, now: Nanos) -> Option<usize> {
        let classes = Class::ALL.into_iter().filter(|&class| self.meter.due(class) <= now);
        classes.filter_map(|class| self.flows.first(class)).min().map(|(_, volume)| volume)
    }

    /// Gives a volume a turn, which pays for a part of a demand. Returns the demand that passes.
    /// The volume sleeps if its limits allow nothing.
    fn serve(&mut self, volume: usize, now: Nanos, gone: &mut Abandoned<'_, W>) -> Option<(u64, W)> {
        let member = member(&mut self.slots, volume)?;
        let mut best: Option<(Next, Class)> = None;
        for class in Class::ALL {
            if !member.flow.is_ready(class) || self.meter.due(class) > now {
                continue;
            }
            let due = member.queue.due(class);
            let next = if due > now {
                Err(Some(due))
            } else {
                member.queue.next(class, now, (&self.per_client, &self.meter), gone)
            };
            match next {
                Ok(next) => {
                    let first =
                        |(best, _): &(Next, Class)| (best.served, best.number) <= (next.served, next.number);
                    if !best.as_ref().is_some_and(first) {
                        best = Some((next, class));
                    }
                }
                Err(Some(until)) => self.flows.sleep(volume, &mut member.flow, class, until),
                Err(None) => self.flows.leave(volume, &mut member.flow, class),
            }
        }
        let (next, class) = best?;
        let (volume, next) = self.continue_begun(volume, next, class, now, gone);
        self.pay(volume, next, class, now)
    }

    /// Pays a part of the next demand. The demand passes when all of it is paid, or when it may owe the rest.
    fn pay(&mut self, volume: usize, next: Next, class: Class, now: Nanos) -> Option<(u64, W)> {
        let member = member(&mut self.slots, volume)?;
        let (demand, paid) = member.queue.front(next)?;
        let owed = demand.without(paid);
        let turns = |demand| self.meter.turns(demand).max(member.queue.turns(demand));
        let part = demand.next_part(paid, turns(owed), turns(demand));
        let shared = self.meter.takes(part);
        member.queue.pay(next, part, now, shared.max(member.queue.takes(part)));
        self.flows.charge(volume, &mut member.flow, shared);
        self.meter.take(part, now);
        self.per_client.take(next.client, part, now);
        let is_paid = part == owed;
        let may_owe =
            || member.queue.may_owe(next) && (self.meter.turns(owed) == 1 || self.flows.has_none_but(volume));
        let passed = if is_paid || may_owe() { member.queue.pass(next, now) } else { None };
        if is_paid && member.queue.pop(next) {
            self.flows.leave(volume, &mut member.flow, class);
        }
        passed
    }

    /// The demand to serve instead of one that takes several turns of the pool:
    /// the partly paid demand of another volume with the fewest turns left, if that needs no more turns.
    fn continue_begun(
        &mut self,
        volume: usize,
        next: Next,
        class: Class,
        now: Nanos,
        gone: &Abandoned<'_, W>,
    ) -> (usize, Next) {
        let Self { meter, per_client, slots, .. } = self;
        let first = member(slots, volume).and_then(|member| member.queue.front(next));
        let wanted = first.map_or(0, |(demand, paid)| meter.turns(demand.without(paid)));
        if wanted <= 1 {
            return (volume, next);
        }
        let partly_paid = slots.iter_mut().filter(|slot| slot.number != volume).filter_map(|slot| {
            let member = slot.member.as_mut()?;
            let may_pay = member.flow.is_ready(class) && member.queue.due(class) <= now;
            let partly_paid = may_pay.then(|| {
                member.queue.partly_paid(class, now, per_client, gone, &|_, owed| meter.turns(owed))
            });
            partly_paid
                .flatten()
                .filter(|partly_paid| partly_paid.turns <= wanted)
                .map(|partly_paid| (partly_paid, slot.number))
        });
        match partly_paid.min_by_key(|(partly_paid, _)| partly_paid.turns) {
            Some((partly_paid, volume)) => (volume, partly_paid.next(class)),
            None => (volume, next),
        }
    }

    /// Corrects the bytes of a demand that has passed, perhaps after it has waited for its turn. To be followed by
    /// [`Scheduler::release`] where something waits.
    pub fn refund_unused(
        &mut self,
        volume: usize,
        client: Client,
        demand: Demand,
        moved: Transferred,
        has_waited: bool,
        now: Nanos,
    ) {
        let demand = match member(&mut self.slots, volume) {
            Some(member) => member.queue.forgive(client, demand, moved),
            None => demand,
        };
        let unused = self.meter.takes(demand).saturating_sub(self.meter.takes(demand.moving(moved)));
        let before = self.meter.due(demand.class());
        self.meter.refund_unused(demand, moved, now);
        let regained = regained(before, self.meter.due(demand.class()), now);
        self.per_client.refund_unused(client, demand, moved, now);
        if let Some(member) = member(&mut self.slots, volume) {
            member.queue.refund_unused(client, demand, moved, has_waited, now);
            if has_waited {
                self.flows.uncharge(volume, &mut member.flow, unused.min(regained));
            }
            enqueue_again(&mut self.flows, volume, member);
        }
    }

    /// Whether a volume's queue is full for this client: by its own demands or by all.
    pub fn is_full(&self, volume: usize, client: Client) -> bool {
        self.queue(volume).is_some_and(|queue| {
            let (all, own) = (queue.waiting(), queue.waiting_of(client));
            all >= WAITING_MAX
                || own >= CLIENT_WAITING_MAX
                || all >= RESERVED_FROM && queue.waiting_beside(client) >= NEWCOMER_WAITING_MAX
        })
    }

    /// Returns the totals of throttling of a volume, and the number of demands that wait now.
    pub fn throttled(&self, volume: usize) -> (Throttled, usize) {
        self.queue(volume).map_or_else(Default::default, |queue| (queue.throttled(), queue.waiting()))
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    fn queue(&self, volume: usize) -> Option<&Queue<W>> {
        let slot = self.slots.get(slot_of(volume)).filter(|slot| slot.number == volume)?;
        slot.member.as_ref().map(|member| &member.queue)
    }
}

fn slot_of(volume: usize) -> usize {
    volume & ((1 << SLOT_BITS) - 1)
}

#[inline]
fn member<W>(slots: &mut [Slot<W>], volume: usize) -> Option<&mut Member<W>> {
    let slot = slots.get_mut(slot_of(volume)).filter(|slot| slot.number == volume)?;
    slot.member.as_mut()
}

/// Queues a volume again after a change of its limits.
fn enqueue_again<W>(flows: &mut FairQueue<usize>, volume: usize, member: &mut Member<W>) {
    for class in Class::ALL {
        if !member.flow.is_absent(class) {
            flows.enqueue(volume, &mut member.flow, class);
        }
    }
}
