//! A pool's volumes and what waits in them: who may pass, and when. Pure: time is an argument, and what may pass is a
//! return value.

use super::meter::Meter;
use super::queue::{Next, Queue, Waiting};
use super::turns::{Standing, Turns};
use super::{Client, Demand, Kind, Limits, Nanos, Throttled, VolumeLimits};

/// Demands that may wait in a volume: those of all connections that a process serves at one time, and what clients left
/// behind who went away, is bounded by it.
const WAITING_MAX: usize = 1 << 16;

/// Lets demands pass within the limits of a pool, its volumes and their clients. `W` is what a demand leaves behind to be
/// told that it may pass.
///
/// Whoever has been served least goes first: among the volumes of the pool where the pool's limit binds, among the
/// clients of a volume where the volume's limit binds. So what one leaves is shared by the others, and comes back as soon
/// as it is asked for.
#[derive(Debug)]
pub struct Scheduler<W> {
    meter: Meter,
    /// A removed volume leaves its place empty: numbers are not given again.
    volumes: Vec<Option<Member<W>>>,
    turns: Turns<usize>,
    numbers: u64,
}

#[derive(Debug)]
struct Member<W> {
    queue: Queue<W>,
    standing: Standing,
}

/// What may pass, and when there is more to do.
#[derive(Debug)]
pub struct Release<W> {
    /// What may pass now, in order, with its number.
    pub passed: Vec<(u64, W)>,
    /// When to come again.
    pub next: Option<Nanos>,
}

impl<W> Scheduler<W> {
    /// A pool without volumes.
    pub fn new(limits: &Limits, now: Nanos) -> Self {
        Self { meter: Meter::new(limits, now), volumes: Vec::new(), turns: Turns::default(), numbers: 0 }
    }

    /// Other limits of the pool from now on.
    pub fn set_limits(&mut self, limits: &Limits, now: Nanos) {
        self.meter.set_limits(limits, now);
    }

    /// A further volume: its number in this pool.
    pub fn add(&mut self, limits: &VolumeLimits, now: Nanos) -> usize {
        self.volumes.push(Some(Member { queue: Queue::new(limits, now), standing: Standing::default() }));
        self.volumes.len() - 1
    }

    /// Other limits of a volume from now on.
    pub fn set_volume_limits(&mut self, volume: usize, limits: &VolumeLimits, now: Nanos) {
        let Some(member) = self.volumes.get_mut(volume).and_then(Option::as_mut) else { return };
        member.queue.set_limits(limits, now);
        for kind in Kind::ALL {
            if !member.standing.is_absent(kind) {
                self.turns.line_up(volume, &mut member.standing, kind);
            }
        }
    }

    /// Removes a volume; what waited in it comes back, in the order it came.
    pub fn remove(&mut self, volume: usize) -> Vec<Waiting<W>> {
        let Some(mut member) = self.volumes.get_mut(volume).and_then(Option::take) else { return Vec::new() };
        for kind in Kind::ALL {
            self.turns.leave(volume, &mut member.standing, kind);
        }
        member.queue.drain()
    }

    /// Lets a demand pass if it may pass now and takes nobody's turn; else it has to [`Scheduler::wait`].
    #[inline]
    pub fn admit(&mut self, volume: usize, client: Client, demand: Demand, now: Nanos) -> bool {
        if self.turns.has_ready() || self.meter.due(demand.kind) > now {
            return false;
        }
        let Some(member) = self.volumes.get_mut(volume).and_then(Option::as_mut) else { return true };
        let may = member.queue.admit(client, demand, now);
        if may {
            self.meter.take(demand, now);
        }
        may
    }

    /// Makes a demand wait: its number. Without such a volume, `waiter` comes back. To be followed by
    /// [`Scheduler::release`].
    pub fn wait(
        &mut self,
        volume: usize,
        client: Client,
        demand: Demand,
        waiter: W,
        now: Nanos,
    ) -> Result<u64, W> {
        let Some(member) = self.volumes.get_mut(volume).and_then(Option::as_mut) else { return Err(waiter) };
        self.numbers += 1;
        member.queue.push(Waiting { demand, client, since: now, number: self.numbers, waiter }, now);
        self.turns.line_up(volume, &mut member.standing, demand.kind);
        Ok(self.numbers)
    }

    /// Lets pass what may pass by now.
    pub fn release(&mut self, now: Nanos) -> Release<W> {
        while let Some((volume, kind)) = self.turns.wake(now) {
            if let Some(Some(member)) = self.volumes.get_mut(volume) {
                self.turns.line_up(volume, &mut member.standing, kind);
            }
        }
        let mut passed = Vec::new();
        while let Some(volume) = self.first(now) {
            passed.extend(self.serve(volume, now));
        }
        let blocked = Kind::ALL.into_iter().filter(|&kind| self.turns.first(kind).is_some());
        let next = blocked.map(|kind| self.meter.due(kind)).chain(self.turns.next_wake()).min();
        Release { passed, next }
    }

    /// The volume that has been served least of those with something that the pool lets pass.
    fn first(&self, now: Nanos) -> Option<usize> {
        let kinds = Kind::ALL.into_iter().filter(|&kind| self.meter.due(kind) <= now);
        kinds.filter_map(|kind| self.turns.first(kind)).min().map(|(_, volume)| volume)
    }

    /// Gives a volume a turn: what passes, or nothing if its limits let nothing pass, and then it sleeps.
    fn serve(&mut self, volume: usize, now: Nanos) -> Option<(u64, W)> {
        let member = self.volumes.get_mut(volume)?.as_mut()?;
        let mut best: Option<(Next, Kind)> = None;
        for kind in Kind::ALL {
            if !member.standing.is_ready(kind) || self.meter.due(kind) > now {
                continue;
            }
            let due = member.queue.due(kind);
            let next = if due > now { Err(Some(due)) } else { member.queue.next(kind, now) };
            match next {
                Ok(next) => {
                    let first =
                        |(best, _): &(Next, Kind)| (best.served, best.number) <= (next.served, next.number);
                    if !best.as_ref().is_some_and(first) {
                        best = Some((next, kind));
                    }
                }
                Err(Some(until)) => self.turns.sleep(volume, &mut member.standing, kind, until),
                Err(None) => self.turns.leave(volume, &mut member.standing, kind),
            }
        }
        let (next, kind) = best?;
        let demand = member.queue.front(next)?;
        let shared = self.meter.takes(demand);
        let (popped, is_last) = member.queue.pop(next, now, shared.max(member.queue.takes(demand)))?;
        if is_last {
            self.turns.leave(volume, &mut member.standing, kind);
        }
        self.turns.charge(volume, &mut member.standing, shared);
        self.meter.take(popped.demand, now);
        Some((popped.number, popped.waiter))
    }

    /// Takes back bytes that passed and were not used.
    pub fn give_back(&mut self, volume: usize, client: Client, kind: Kind, bytes: u32) {
        self.meter.give_back(kind, bytes);
        if let Some(Some(member)) = self.volumes.get_mut(volume) {
            member.queue.give_back(client, kind, bytes);
        }
    }

    /// Whether so much waits in a volume that nothing more should.
    pub fn is_full(&self, volume: usize) -> bool {
        let member = self.volumes.get(volume).and_then(Option::as_ref);
        member.is_some_and(|member| member.queue.waiting() >= WAITING_MAX)
    }

    /// What has waited in a volume so far, and how many demands do now.
    pub fn throttled(&self, volume: usize) -> (Throttled, usize) {
        let member = self.volumes.get(volume).and_then(Option::as_ref);
        member.map_or_else(Default::default, |member| (member.queue.throttled(), member.queue.waiting()))
    }
}
