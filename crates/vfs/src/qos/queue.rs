//! A volume's demands that wait, client by client.

use super::meter::{Meter, MixMeter};
use super::turns::{Standing, Turns};
use super::{Client, Demand, Kind, Limits, Nanos, Throttled, VolumeLimits};
use std::collections::{HashMap, VecDeque};

/// A demand that waits, and what shall be told when it may pass.
#[derive(Debug)]
pub struct Waiting<W> {
    /// What is wanted.
    pub demand: Demand,
    /// Who wants it.
    pub client: Client,
    /// Since when it waits.
    pub since: Nanos,
    /// A number that grows with each demand: among the demands of a client, the older one goes first.
    pub number: u64,
    /// What to tell.
    pub waiter: W,
}

/// A volume's limits and queue.
#[derive(Debug)]
pub struct Queue<W> {
    meter: Meter,
    mix: Option<MixMeter>,
    per_client: Limits,
    clients: HashMap<Client, Line<W>>,
    turns: Turns<Client>,
    waiting: [usize; Kind::COUNT],
    /// With more clients than this, those are forgotten that have nothing here.
    clients_max: usize,
    throttled: Throttled,
}

/// A client's demands.
#[derive(Debug)]
struct Line<W> {
    meter: Meter,
    standing: Standing,
    demands: [VecDeque<Waiting<W>>; Kind::COUNT],
}

/// Clients that are remembered at least.
const CLIENTS_MIN: usize = 64;

impl<W> Queue<W> {
    /// An empty queue.
    pub fn new(limits: &VolumeLimits, now: Nanos) -> Self {
        let mut queue = Self {
            meter: Meter::default(),
            mix: None,
            per_client: Limits::NONE,
            clients: HashMap::new(),
            turns: Turns::default(),
            waiting: [0; Kind::COUNT],
            clients_max: CLIENTS_MIN,
            throttled: Throttled::default(),
        };
        queue.set_limits(limits, now);
        queue
    }

    /// Other limits from now on.
    pub fn set_limits(&mut self, limits: &VolumeLimits, now: Nanos) {
        self.meter.set_limits(&limits.all, now);
        self.mix = limits.mix.as_ref().map(|mix| MixMeter::new(mix.clone(), now));
        self.per_client = limits.per_client;
        for (&client, line) in &mut self.clients {
            line.meter.set_limits(&self.per_client, now);
            for kind in Kind::ALL {
                if !line.demands[kind.index()].is_empty() {
                    self.turns.line_up(client, &mut line.standing, kind);
                }
            }
        }
    }

    /// Demands that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.iter().sum()
    }

    /// What has waited so far.
    pub fn throttled(&self) -> Throttled {
        self.throttled
    }

    /// When the volume as a whole lets a demand of this kind pass.
    #[inline]
    pub fn due(&self, kind: Kind) -> Nanos {
        let due = self.meter.due(kind);
        self.mix.as_ref().map_or(due, |mix| due.max(mix.due(kind)))
    }

    /// Lets a demand pass for which nobody waits, if it may pass now.
    #[inline]
    pub fn admit(&mut self, client: Client, demand: Demand, now: Nanos) -> bool {
        if self.waiting != [0; Kind::COUNT] || self.due(demand.kind) > now {
            return false;
        }
        if !self.per_client.is_none() {
            let meter = &mut self.line(client, now).meter;
            if meter.due(demand.kind) > now {
                return false;
            }
            meter.take(demand, now);
        }
        self.take(demand, now);
        true
    }

    /// Makes a demand wait.
    pub fn push(&mut self, waiting: Waiting<W>, now: Nanos) {
        let (client, kind) = (waiting.client, waiting.demand.kind);
        self.line(client, now);
        let Some(line) = self.clients.get_mut(&client) else { return };
        line.demands[kind.index()].push_back(waiting);
        self.turns.line_up(client, &mut line.standing, kind);
        self.waiting[kind.index()] += 1;
    }

    /// The demand of this kind whose turn it is. If none may pass now because of its client's limits: when to look again.
    pub fn next(&mut self, kind: Kind, now: Nanos) -> Result<Next, Option<Nanos>> {
        while let Some((client, kind)) = self.turns.wake(now) {
            if let Some(line) = self.clients.get_mut(&client) {
                self.turns.line_up(client, &mut line.standing, kind);
            }
        }
        while let Some((served, client)) = self.turns.first(kind) {
            let Some(line) = self.clients.get_mut(&client) else { break };
            let due = line.meter.due(kind);
            if due <= now {
                let number = line.demands[kind.index()].front().map_or(0, |first| first.number);
                return Ok(Next { served, number, client, kind });
            }
            self.turns.sleep(client, &mut line.standing, kind, due);
        }
        Err(self.turns.next_wake())
    }

    /// Lets the demand pass that was next, at a cost in shares. True with it: no more of its kind waits here.
    pub fn pop(&mut self, next: Next, now: Nanos, cost: Nanos) -> Option<(Waiting<W>, bool)> {
        let line = self.clients.get_mut(&next.client)?;
        let demands = &mut line.demands[next.kind.index()];
        let popped = demands.pop_front()?;
        if demands.is_empty() {
            self.turns.leave(next.client, &mut line.standing, next.kind);
        }
        self.turns.charge(next.client, &mut line.standing, cost);
        line.meter.take(popped.demand, now);
        self.take(popped.demand, now);
        let waiting = &mut self.waiting[next.kind.index()];
        *waiting -= 1;
        let is_last = *waiting == 0;
        self.throttled.count(next.kind, now.saturating_sub(popped.since));
        Some((popped, is_last))
    }

    /// How long a demand takes of what this volume has.
    pub fn takes(&self, demand: Demand) -> Nanos {
        let takes = self.meter.takes(demand);
        self.mix.as_ref().map_or(takes, |mix| takes.max(mix.takes(demand)))
    }

    /// The demand that is next.
    pub fn front(&self, next: Next) -> Option<Demand> {
        Some(self.clients.get(&next.client)?.demands[next.kind.index()].front()?.demand)
    }

    /// Takes back bytes that passed and were not used.
    pub fn give_back(&mut self, client: Client, kind: Kind, bytes: u32) {
        self.meter.give_back(kind, bytes);
        if let Some(mix) = &mut self.mix {
            mix.give_back(kind, bytes);
        }
        if let Some(line) = self.clients.get_mut(&client) {
            line.meter.give_back(kind, bytes);
        }
    }

    /// Everything that waits, in the order it came.
    pub fn drain(&mut self) -> Vec<Waiting<W>> {
        let lines = self.clients.drain().flat_map(|(_, line)| line.demands);
        let mut all: Vec<_> = lines.flatten().collect();
        all.sort_by_key(|waiting| waiting.number);
        (self.turns, self.waiting) = (Turns::default(), [0; Kind::COUNT]);
        all
    }

    fn take(&mut self, demand: Demand, now: Nanos) {
        self.meter.take(demand, now);
        if let Some(mix) = &mut self.mix {
            mix.take(demand, now);
        }
    }

    fn line(&mut self, client: Client, now: Nanos) -> &mut Line<W> {
        if self.clients.len() >= self.clients_max {
            let rests = |line: &Line<W>| {
                line.demands.iter().all(VecDeque::is_empty)
                    && Kind::ALL.iter().all(|&kind| line.meter.due(kind) <= now)
            };
            self.clients.retain(|_, line| !rests(line));
            self.clients_max = (2 * self.clients.len()).max(CLIENTS_MIN);
        }
        self.clients.entry(client).or_insert_with(|| Line {
            meter: Meter::new(&self.per_client, now),
            standing: Standing::default(),
            demands: Default::default(),
        })
    }
}

/// A demand whose turn it is among those of its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// What its client has been served.
    pub served: u64,
    /// Its number.
    pub number: u64,
    client: Client,
    kind: Kind,
}
