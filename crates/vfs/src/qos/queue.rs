//! A volume's demands that wait, client by client.

use super::bucket::regained;
use super::clients::{CLIENTS_MIN, ClientMeters};
use super::fair_queue::{FairQueue, FlowState};
use super::meter::{Meter, MixMeter};
use super::{Class, Client, Demand, Nanos, Throttled, Transferred, VolumeLimits};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv6Addr;

/// A demand that waits, and its waiter.
#[derive(Debug)]
pub struct Waiting<W> {
    pub demand: Demand,
    pub client: Client,
    pub since: Nanos,
    /// A number that grows with each demand: among the demands of a client, the older one goes first.
    pub number: u64,
    pub waiter: W,
}

/// A volume's limits and queue.
#[derive(Debug)]
pub(super) struct Queue<W> {
    meter: Meter,
    mix: Option<MixMeter>,
    per_client: ClientMeters,
    clients: BTreeMap<Client, Line<W>>,
    flows: FairQueue<Client>,
    entries: [usize; Class::COUNT],
    debts: usize,
    /// Demands of which a part is paid, by their clients and numbers. Some may have passed.
    partly_paid: [Vec<(Client, u64)>; Class::COUNT],
    /// The number of clients from which idle ones are removed.
    clients_max: usize,
    throttled: Throttled,
}

/// A client's demands.
#[derive(Debug)]
struct Line<W> {
    flow: FlowState,
    demands: [VecDeque<Entry<W>>; Class::COUNT],
}

/// A demand that is not paid yet.
#[derive(Debug)]
struct Entry<W> {
    demand: Demand,
    paid: Demand,
    since: Nanos,
    number: u64,
    /// Whether its client had no other demand on arrival.
    is_only: bool,
    /// `None` if the demand has passed before it was paid: then it is a debt.
    waiter: Option<W>,
}

impl<W> Entry<W> {
    fn owed(&self) -> Demand {
        self.demand.without(self.paid)
    }
}

impl<W> Queue<W> {
    pub(super) fn new(limits: &VolumeLimits, now: Nanos) -> Self {
        let mut queue = Self {
            meter: Meter::default(),
            mix: None,
            per_client: ClientMeters::default(),
            clients: BTreeMap::new(),
            flows: FairQueue::default(),
            entries: [0; Class::COUNT],
            debts: 0,
            partly_paid: Default::default(),
            clients_max: CLIENTS_MIN,
            throttled: Throttled::default(),
        };
        queue.set_limits(limits, now);
        queue
    }

    pub(super) fn set_limits(&mut self, limits: &VolumeLimits, now: Nanos) {
        self.meter.set_limits(&limits.all, now);
        self.mix = limits.mix.as_ref().map(|mix| MixMeter::new(mix.clone(), now));
        self.per_client.set_limits(&limits.per_client, now);
        self.wake_all();
    }

    /// Rechecks all flows that wait for a client's limit.
    pub(super) fn wake_all(&mut self) {
        self.clients.iter_mut().for_each(|(&client, line)| line.wake(client, &mut self.flows));
    }

    pub(super) fn waiting(&self) -> usize {
        self.entries.iter().sum::<usize>() - self.debts
    }

    /// Whether no demand waits and none is in debt.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries == [0; Class::COUNT]
    }

    pub(super) fn throttled(&self) -> Throttled {
        self.throttled
    }

    /// The time at which the limits of the volume itself let a demand of this class pass.
    #[inline]
    pub(super) fn due(&self, class: Class) -> Nanos {
        let due = self.meter.due(class);
        self.mix.as_ref().map_or(due, |mix| due.max(mix.due(class)))
    }

    /// Admits a demand that has no waiter, if it may pass now.
    #[inline]
    pub(super) fn admit(&mut self, client: Client, demand: Demand, now: Nanos) -> bool {
        let class = demand.class();
        if !self.may(client, class, now) {
            return false;
        }
        self.take(client, demand, now);
        true
    }

    /// Whether a demand of this class may pass now, with an empty queue.
    #[inline]
    pub(super) fn may(&self, client: Client, class: Class, now: Nanos) -> bool {
        self.is_empty() && self.due(class) <= now && self.per_client.due(client, class) <= now
    }

    /// Makes a demand wait; without a waiter, it has passed and is a debt.
    pub(super) fn push(
        &mut self,
        client: Client,
        demand: Demand,
        number: u64,
        waiter: Option<W>,
        since: Nanos,
    ) {
        let class = demand.class();
        let line = line(&mut self.clients, &mut self.clients_max, client);
        self.debts += usize::from(waiter.is_none());
        let (paid, is_only) = (Demand::NOTHING, line.len() == 0);
        let entry = Entry { demand, paid, since, number, is_only, waiter };
        line.demands[class.index()].push_back(entry);
        self.flows.enqueue(client, &mut line.flow, class);
        self.entries[class.index()] += 1;
    }

    pub(super) fn waiting_of(&self, client: Client) -> usize {
        self.clients.get(&client).map_or(0, Line::len)
    }

    /// Demands of all clients of its network that wait.
    pub(super) fn waiting_beside(&self, client: Client) -> usize {
        let network = match client {
            Client::V4(_) => client..=client,
            Client::V6(address) => {
                let [first, last] =
                    [0, u64::MAX].map(|host| address.to_bits() >> 64 << 64 | u128::from(host));
                Ipv6Addr::from_bits(first).into()..=Ipv6Addr::from_bits(last).into()
            }
        };
        self.clients.range(network).map(|(_, line)| line.len()).sum()
    }

    /// Whether the next demand may pass before it is paid: none is in debt, and either no other waits here or its
    /// client asks for one thing at a time.
    pub(super) fn may_owe(&self, next: Next) -> bool {
        let Some(line) = self.clients.get(&next.client).filter(|_| self.debts == 0) else { return false };
        let is_only = line.demands[next.class.index()].front().is_some_and(|first| first.is_only);
        is_only || self.entries.iter().sum::<usize>() == line.len()
    }

    /// Returns the next demand of this class. If client limits, here or in the pool, allow none now: the time to try
    /// again. Abandoned waiters go to `gone` and take no turn.
    pub(super) fn next(
        &mut self,
        class: Class,
        now: Nanos,
        of_pool: (&ClientMeters, &Meter),
        gone: &mut Abandoned<'_, W>,
    ) -> Result<Next, Option<Nanos>> {
        while let Some((client, class)) = self.flows.wake(now) {
            if let Some(line) = self.clients.get_mut(&client) {
                self.flows.enqueue(client, &mut line.flow, class);
            }
        }
        while let Some((served, client)) = self.flows.first(class) {
            let Some(line) = self.clients.get_mut(&client) else { break };
            let demands = &mut line.demands[class.index()];
            let is_gone = |entry: &mut Entry<W>| entry.waiter.as_ref().is_some_and(gone.is_gone);
            while let Some(entry) = demands.pop_front_if(is_gone) {
                gone.found.extend(entry.waiter);
                self.entries[class.index()] -= 1;
            }
            let Some(first) = demands.front() else {
                self.flows.leave(client, &mut line.flow, class);
                continue;
            };
            let due = self.per_client.due(client, class).max(of_pool.0.due(client, class));
            if due <= now {
                let (number, owed) = (first.number, first.owed());
                let turns = |queue: &Self, owed| queue.turns(owed).max(of_pool.1.turns(owed));
                let wanted = turns(self, owed);
                let partly_paid =
                    (wanted > 1).then(|| self.partly_paid(class, now, of_pool.0, gone, &turns)).flatten();
                let client = partly_paid
                    .filter(|partly_paid| partly_paid.turns <= wanted)
                    .map_or(client, |partly_paid| partly_paid.client);
                return Ok(Next { served, number, client, class });
            }
            self.flows.sleep(client, &mut line.flow, class, due);
        }
        Err(self.flows.next_wake())
    }

    /// Returns the partly paid demand to continue: the one with the fewest turns left, then the oldest. Otherwise the
    /// demands of many clients would be paid side by side, and pass all at once.
    pub(super) fn partly_paid(
        &mut self,
        class: Class,
        now: Nanos,
        of_pool: &ClientMeters,
        gone: &Abandoned<'_, W>,
        turns: &dyn Fn(&Self, Demand) -> u32,
    ) -> Option<PartlyPaid> {
        let mut partly_paid = std::mem::take(&mut self.partly_paid[class.index()]);
        let mut first: Option<PartlyPaid> = None;
        partly_paid.retain(|&(client, number)| {
            let front = self.clients.get(&client).and_then(|line| line.demands[class.index()].front());
            let is_waited_for = |entry: &&Entry<W>| {
                entry.number == number && entry.waiter.as_ref().is_some_and(|waiter| !(gone.is_gone)(waiter))
            };
            let Some(entry) = front.filter(is_waited_for) else { return false };
            if self.per_client.due(client, class).max(of_pool.due(client, class)) <= now {
                let turns = turns(self, entry.owed());
                if first.is_none_or(|first| (turns, number) < (first.turns, first.number)) {
                    first = Some(PartlyPaid { turns, number, client });
                }
            }
            true
        });
        self.partly_paid[class.index()] = partly_paid;
        first
    }

    pub(super) fn pay(&mut self, next: Next, part: Demand, now: Nanos, cost: Nanos) {
        let Some(line) = self.clients.get_mut(&next.client) else { return };
        let Some(first) = line.demands[next.class.index()].front_mut() else { return };
        let is_new = first.paid == Demand::NOTHING;
        first.paid = first.paid.and(part);
        let begins = is_new && first.paid != first.demand && first.waiter.is_some();
        let number = first.number;
        self.flows.charge(next.client, &mut line.flow, cost);
        self.take(next.client, part, now);
        if begins {
            self.partly_paid[next.class.index()].push((next.client, number));
        }
    }

    /// Passes the next demand, which becomes a debt. Returns its number and waiter.
    pub(super) fn pass(&mut self, next: Next, now: Nanos) -> Option<(u64, W)> {
        let line = self.clients.get_mut(&next.client)?;
        let first = line.demands[next.class.index()].front_mut()?;
        let waiter = first.waiter.take()?;
        self.debts += 1;
        let waited = now.saturating_sub(first.since);
        if waited > Nanos(0) {
            self.throttled.count(next.class.kind(), waited);
        }
        Some((first.number, waiter))
    }

    /// Removes the next demand, which has passed and is paid. True if no demand of its class remains.
    pub(super) fn pop(&mut self, next: Next) -> bool {
        let Some(line) = self.clients.get_mut(&next.client) else { return false };
        let demands = &mut line.demands[next.class.index()];
        if demands.pop_front().is_none() {
            return false;
        }
        if demands.is_empty() {
            self.flows.leave(next.client, &mut line.flow, next.class);
        }
        self.debts -= 1;
        let entries = &mut self.entries[next.class.index()];
        *entries -= 1;
        *entries == 0
    }

    /// Reduces the debts of a client by the unused part of a demand; returns the rest of the demand.
    pub(super) fn forgive(&mut self, client: Client, demand: Demand, moved: Transferred) -> Demand {
        let mut remaining = demand;
        if self.debts == 0 {
            return remaining;
        }
        let line = self.clients.get_mut(&client);
        for debt in line.into_iter().flat_map(|line| &mut line.demands).filter_map(VecDeque::front_mut) {
            if debt.waiter.is_none() {
                let owed = debt.owed();
                let read = remaining.read_bytes.saturating_sub(moved.read).min(owed.read_bytes);
                let written = remaining.write_bytes.saturating_sub(moved.written).min(owed.write_bytes);
                let unused = Demand { read_bytes: read, write_bytes: written, ..Demand::NOTHING };
                (debt.demand, remaining) = (debt.demand.without(unused), remaining.without(unused));
            }
        }
        remaining
    }

    pub(super) fn takes(&self, demand: Demand) -> Nanos {
        let takes = self.meter.takes(demand);
        self.mix.as_ref().map_or(takes, |mix| takes.max(mix.takes(demand)))
    }

    #[inline]
    pub(super) fn turns(&self, demand: Demand) -> u32 {
        let turns = self.meter.turns(demand);
        self.mix.as_ref().map_or(turns, |mix| turns.max(mix.turns(demand)))
    }

    /// The next demand, and the part of it that is paid.
    pub(super) fn front(&self, next: Next) -> Option<(Demand, Demand)> {
        let first = self.clients.get(&next.client)?.demands[next.class.index()].front()?;
        Some((first.demand, first.paid))
    }

    /// Refunds the unused bytes of a demand that has passed. For a demand that has waited for its turn, also refunds
    /// the cost, as far as other demands can use its time now. Otherwise a client that asks for much and moves nothing
    /// would take every turn.
    pub(super) fn refund_unused(
        &mut self,
        client: Client,
        demand: Demand,
        moved: Transferred,
        has_waited: bool,
        now: Nanos,
    ) {
        let unused = self.takes(demand).saturating_sub(self.takes(demand.moving(moved)));
        let before = self.due(demand.class());
        self.meter.refund_unused(demand, moved, now);
        if let Some(mix) = &mut self.mix {
            mix.refund_unused(demand, moved, now);
        }
        self.per_client.refund_unused(client, demand, moved, now);
        let regained = regained(before, self.due(demand.class()), now);
        if let Some(line) = self.clients.get_mut(&client) {
            if has_waited {
                self.flows.uncharge(client, &mut line.flow, unused.min(regained));
            }
            line.wake(client, &mut self.flows);
        }
    }

    /// All waiters in order of arrival.
    pub(super) fn drain(&mut self) -> Vec<Waiting<W>> {
        let lines = std::mem::take(&mut self.clients).into_iter();
        let entries =
            lines.flat_map(|(of, line)| line.demands.into_iter().flatten().map(move |entry| (of, entry)));
        let waiting = entries.filter_map(|(client, Entry { demand, since, number, waiter, .. })| {
            waiter.map(|waiter| Waiting { demand, client, since, number, waiter })
        });
        let mut all: Vec<_> = waiting.collect();
        all.sort_by_key(|waiting| waiting.number);
        (self.flows, self.entries, self.debts) = (FairQueue::default(), [0; Class::COUNT], 0);
        self.partly_paid = Default::default();
        all
    }

    fn take(&mut self, client: Client, demand: Demand, now: Nanos) {
        self.per_client.take(client, demand, now);
        self.meter.take(demand, now);
        if let Some(mix) = &mut self.mix {
            mix.take(demand, now);
        }
    }
}

impl<W> Line<W> {
    fn len(&self) -> usize {
        self.demands.iter().map(VecDeque::len).sum()
    }

    fn wake(&mut self, client: Client, flows: &mut FairQueue<Client>) {
        for class in Class::ALL {
            if !self.demands[class.index()].is_empty() {
                flows.enqueue(client, &mut self.flow, class);
            }
        }
    }
}

/// Returns a client's line. Beyond a limit, idle lines are removed.
fn line<'c, W>(
    clients: &'c mut BTreeMap<Client, Line<W>>,
    clients_max: &mut usize,
    client: Client,
) -> &'c mut Line<W> {
    if clients.len() >= *clients_max {
        clients.retain(|_, line| line.len() > 0);
        *clients_max = (2 * clients.len()).max(CLIENTS_MIN);
    }
    clients.entry(client).or_insert_with(|| Line { flow: FlowState::default(), demands: Default::default() })
}

pub(super) struct Abandoned<'g, W> {
    pub is_gone: &'g dyn Fn(&W) -> bool,
    /// The abandoned waiters. Drop them where no lock is held.
    pub found: Vec<W>,
}

/// A demand that is paid in part.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartlyPaid {
    pub(super) turns: u32,
    number: u64,
    client: Client,
}

/// The next demand among those of its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// The service that its client has received.
    pub served: u64,
    pub number: u64,
    pub(super) client: Client,
    class: Class,
}

impl PartlyPaid {
    /// Makes this demand the next one of its volume.
    pub(super) fn next(self, class: Class) -> Next {
        let Self { number, client, .. } = self;
        Next { served: 0, number, client, class }
    }
}
