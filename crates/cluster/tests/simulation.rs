//! Gateways in virtual time, with lost answers, cuts, freezes, crashes, upgrades and clocks of different speed: no two of
//! them answer for one endpoint at a time, no holder of an earlier epoch changes anything, nothing acknowledged is lost, and
//! no gateway meets records that its program does not read.

mod support;

use cluster::{
    Cluster, ClusterKey, EndpointRecord, Formats, GatewayState, Holding, LeaseHolder, Name, Observer, State,
    Step, Times, View,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;
use support::{Memory, entropy};

const LEASE: Duration = Duration::from_secs(3);
const POLL_MS: u64 = 250;
const TROUBLE_MS: u64 = 15_000;
/// Enough for several attempts: one request in ten takes longer than a lease allows.
const RECOVERY_MS: u64 = 60_000;
const GATEWAYS: usize = 3;
const ENDPOINTS: usize = 2;

/// Xorshift: the trace depends on the seed alone.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request reaches the store.
    Poll {
        gateway: usize,
        run: u32,
    },
    Take {
        gateway: usize,
        run: u32,
        endpoint: usize,
        seen: Vec<u8>,
        sent_ms: u64,
    },
    Renew {
        gateway: usize,
        run: u32,
        endpoint: usize,
    },
    Write {
        gateway: usize,
        run: u32,
        endpoint: usize,
    },
    Raise {
        gateway: usize,
        run: u32,
    },
    Trouble,
}

/// An endpoint as one gateway serves it.
struct Served {
    holding: Holding<Memory>,
    state: State<Memory>,
    /// In real time, not by the clock of the gateway.
    answers_until_ms: u64,
}

struct Gateway {
    name: Name,
    /// Thousandths of real time at which its clock runs.
    rate: u64,
    /// Rises with each crash.
    run: u32,
    /// The version of its program, which reads the format of this number and the one before.
    version: u32,
    /// With the formats of its program.
    cluster: Cluster<Memory>,
    /// Whether this run has written its record.
    is_known: bool,
    own: GatewayState,
    /// The view after which it raises the format.
    raising: Option<View>,
    observer: Observer,
    served: BTreeMap<usize, Served>,
    /// Until this time nothing runs at the gateway, or nothing that it sends arrives.
    stopped_until_ms: u64,
    is_dead: bool,
}

impl Gateway {
    /// The clock of the gateway at this real time.
    fn clock(&self, real_ms: u64) -> Duration {
        Duration::from_millis(real_ms * self.rate / 1000)
    }

    /// The real time at which the clock shows this, rounded up.
    fn real_ms(&self, clock: Duration) -> u64 {
        u64::try_from(clock.as_millis()).unwrap() * 1000 / self.rate + 2
    }
}

struct World {
    seed: u64,
    random: Random,
    store: Memory,
    cluster: Cluster<Memory>,
    gateways: Vec<Gateway>,
    endpoints: Vec<Name>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    events_made: u64,
    now_ms: u64,
    /// Acknowledged writes of each endpoint.
    acknowledged: Vec<BTreeSet<String>>,
    takeovers: u32,
    refused_writes: u32,
    raises: u32,
}

/// The formats of a program of this version.
fn formats(version: u32) -> Formats {
    Formats { oldest: (version - 1).max(1), newest: version }
}

fn open(store: &Memory, of: &Cluster<Memory>, version: u32) -> cluster::Result<Cluster<Memory>> {
    Cluster::open_as(formats(version), store.clone(), ClusterKey::new(*of.key().as_bytes()))
}

impl World {
    fn new(seed: u64) -> Self {
        let store = Memory::default();
        let names: Vec<Name> = ["a", "b", "c"].iter().map(|name| name.parse().unwrap()).collect();
        let init = Cluster::init_as(formats(1), store.clone(), &names[0], LEASE, &entropy).unwrap();
        // For the administrator, and for the checks.
        let every = Formats { oldest: 1, newest: u32::MAX };
        let cluster =
            Cluster::open_as(every, store.clone(), ClusterKey::new(*init.key().as_bytes())).unwrap();
        for name in &names[1..] {
            let invitation = cluster.invite(0, 1000, &entropy).unwrap();
            Cluster::join(store.clone(), &invitation, name, 0).unwrap();
        }
        let endpoints: Vec<Name> = ["x", "y"].iter().map(|name| name.parse().unwrap()).collect();
        for (last, name) in (1..).zip(&endpoints) {
            let record =
                EndpointRecord { address: [10, 0, 0, last].into(), prefix: 24, gateway: None, created_ms: 0 };
            cluster.create_endpoint(name, &record).unwrap();
        }
        let view = cluster.view().unwrap();
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let gateway = |name: &Name| {
            let version = if random.one_in(4) { 1 } else { 2 };
            Gateway {
                name: name.clone(),
                rate: 950 + random.below(101),
                run: 0,
                version,
                cluster: open(&store, &init, version).unwrap(),
                is_known: false,
                own: view.gateways[name].clone(),
                raising: None,
                observer: Observer::default(),
                served: BTreeMap::new(),
                stopped_until_ms: 0,
                is_dead: false,
            }
        };
        let gateways = names.iter().map(gateway).collect();
        let mut world = Self {
            seed,
            random,
            store,
            cluster,
            gateways,
            acknowledged: vec![BTreeSet::new(); endpoints.len()],
            endpoints,
            events: BinaryHeap::new(),
            events_made: 0,
            now_ms: 0,
            takeovers: 0,
            refused_writes: 0,
            raises: 0,
        };
        (0..GATEWAYS).for_each(|gateway| world.after(1, Event::Poll { gateway, run: 0 }));
        world.after(500, Event::Trouble);
        world
    }

    fn after(&mut self, delay_ms: u64, event: Event) {
        self.events_made += 1;
        let jitter = self.random.below(20);
        self.events.push(Reverse((self.now_ms + delay_ms + jitter, self.events_made, event)));
    }

    /// Runs to this time.
    fn run_to(&mut self, end_ms: u64) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > end_ms {
                self.events.push(Reverse((at, 0, event)));
                break;
            }
            self.now_ms = at;
            self.step(event);
        }
        self.now_ms = end_ms;
    }

    fn step(&mut self, event: Event) {
        let (gateway, run) = match &event {
            Event::Trouble => return self.trouble(),
            Event::Poll { gateway, run }
            | Event::Take { gateway, run, .. }
            | Event::Renew { gateway, run, .. }
            | Event::Write { gateway, run, .. }
            | Event::Raise { gateway, run } => (*gateway, *run),
        };
        let at = &self.gateways[gateway];
        if at.is_dead || at.run != run {
            return;
        }
        if at.stopped_until_ms > self.now_ms {
            // What was sent before a freeze or a cut may still arrive, now or after it.
            if !self.random.one_in(4) {
                let rest = self.gateways[gateway].stopped_until_ms - self.now_ms;
                return self.after(rest, event);
            }
        }
        match event {
            Event::Poll { .. } => self.poll(gateway),
            Event::Take { endpoint, seen, sent_ms, .. } => self.take(gateway, endpoint, &seen, sent_ms),
            Event::Renew { endpoint, .. } => self.renew(gateway, endpoint),
            Event::Write { endpoint, .. } => self.write(gateway, endpoint),
            Event::Raise { .. } => self.raise(gateway),
            Event::Trouble => {}
        }
    }

    fn poll(&mut self, gateway: usize) {
        let at = &mut self.gateways[gateway];
        let seen = at.cluster.view();
        let record = cluster::GatewayRecord {
            instance: u64::from(at.run) + 1,
            has_stopped: false,
            format: at.version,
            state_format: at.version,
            ..at.own.record.clone()
        };
        let beaten = seen.and_then(|view| Ok((view, at.cluster.beat(&at.name, &at.own, record)?)));
        let (view, own) = match beaten {
            Ok(beaten) => beaten,
            Err(error) => {
                // The format may rise until a new run of an earlier program has written its record, and not later.
                assert!(!at.is_known, "seed {}: gateway {gateway} is shut out: {error}", self.seed);
                at.is_dead = true;
                return;
            }
        };
        (at.own, at.is_known) = (own, true);
        // A raise that is on its way goes on with the view that it has.
        let may_rise = view.format < at.version && at.raising.is_none();
        if may_rise {
            at.raising = Some(at.cluster.view().unwrap());
        }
        let now = at.clock(self.now_ms);
        let placement = at.observer.placement(&view, &at.name, &BTreeSet::new(), now);
        let (run, steps) = (at.run, placement.steps(&at.name.clone()));
        for step in steps {
            let Step::Take(name) = step else { continue };
            let endpoint = self.endpoints.iter().position(|other| *other == name).unwrap();
            let (seen, sent_ms) = (view.endpoints[&name].stored.clone(), self.now_ms);
            let delay = self.delay();
            self.after(delay, Event::Take { gateway, run, endpoint, seen, sent_ms });
        }
        self.after(POLL_MS, Event::Poll { gateway, run });
        if may_rise {
            // Often late enough for another gateway to go back to an earlier program meanwhile.
            let delay = if self.random.one_in(2) { self.random.below(4_000) } else { 5 };
            self.after(delay, Event::Raise { gateway, run });
        }
    }

    /// Raises the format after a view that may be old by now.
    fn raise(&mut self, gateway: usize) {
        let at = &mut self.gateways[gateway];
        let Some(view) = at.raising.take() else { return };
        if at.cluster.raise_format(&view).unwrap() {
            self.raises += 1;
            let format = self.cluster.view().unwrap().format;
            assert!(format > view.format, "seed {}", self.seed);
            for (number, other) in self.gateways.iter().enumerate().filter(|(_, other)| other.is_known) {
                let reads = formats(other.version);
                let is_read = (reads.oldest..=reads.newest).contains(&format);
                assert!(is_read, "seed {}: gateway {number} does not read the format {format}", self.seed);
            }
        }
    }

    fn take(&mut self, gateway: usize, endpoint: usize, seen: &[u8], sent_ms: u64) {
        let at = &self.gateways[gateway];
        let holder = LeaseHolder { gateway: at.name.to_string(), instance: u64::from(at.run) + 1 };
        let now = at.clock(sent_ms);
        let name = &self.endpoints[endpoint];
        let taken = Holding::take(
            self.store.clone(),
            self.cluster.key(),
            name,
            seen,
            holder,
            Times::of_lease(LEASE),
            now,
        )
        .unwrap();
        let Some(holding) = taken else { return };
        self.takeovers += 1;
        let (seed, version) = (self.seed, at.version);
        let needed = self.cluster.require_state_format(name, version);
        assert!(
            needed.is_ok(),
            "seed {seed}: a gateway has taken an endpoint with a later state: {needed:?}"
        );
        for (number, other) in self.gateways.iter().enumerate() {
            let until = other.served.get(&endpoint).map_or(0, |served| served.answers_until_ms);
            assert!(
                number == gateway || until <= self.now_ms,
                "seed {}: at {} ms gateway {number} answers until {until} ms for an endpoint that {gateway} has taken",
                self.seed,
                self.now_ms
            );
        }
        let found: BTreeSet<String> = holding.state().load().unwrap().into_keys().collect();
        let lost: Vec<&String> = self.acknowledged[endpoint].difference(&found).collect();
        assert!(lost.is_empty(), "seed {}: lost {lost:?}", self.seed);
        let at = &mut self.gateways[gateway];
        let answers_until_ms = at.real_ms(holding.answers_until());
        let (state, run) = (holding.state(), at.run);
        at.served.insert(endpoint, Served { holding, state, answers_until_ms });
        self.after(500, Event::Renew { gateway, run, endpoint });
        self.after(50, Event::Write { gateway, run, endpoint });
    }

    fn renew(&mut self, gateway: usize, endpoint: usize) {
        let (now_ms, sent_before) = (self.now_ms, self.random.below(300));
        let answer_is_lost = self.random.one_in(10);
        let at = &mut self.gateways[gateway];
        let sent = at.clock(now_ms.saturating_sub(sent_before));
        let Some(served) = at.served.get_mut(&endpoint) else { return };
        let renewed = served.holding.renew(sent);
        let until = served.holding.answers_until();
        if renewed.is_err() || served.answers_until_ms <= now_ms {
            at.served.remove(&endpoint);
            return;
        }
        if !answer_is_lost {
            let until_ms = at.real_ms(until);
            at.served.get_mut(&endpoint).unwrap().answers_until_ms = until_ms;
        }
        let run = at.run;
        self.after(500, Event::Renew { gateway, run, endpoint });
    }

    fn write(&mut self, gateway: usize, endpoint: usize) {
        let key = format!("w/{}", self.random.next());
        let at = &self.gateways[gateway];
        let run = at.run;
        let Some(served) = at.served.get(&endpoint) else { return };
        let is_done = served.state.change([(key.as_str(), &b"1"[..])], [], &entropy).unwrap();
        if is_done {
            let newer = self.gateways.iter().filter_map(|other| other.served.get(&endpoint));
            let newest = newer.map(|served| served.holding.epoch()).max();
            assert_eq!(newest, Some(served.holding.epoch()), "seed {}: an earlier holder wrote", self.seed);
            self.acknowledged[endpoint].insert(key);
        } else {
            self.refused_writes += 1;
        }
        self.after(300, Event::Write { gateway, run, endpoint });
    }

    fn trouble(&mut self) {
        let gateway = usize::try_from(self.random.below(GATEWAYS as u64)).unwrap();
        let now_ms = self.now_ms;
        let length = self.random.below(6_000);
        let kind = self.random.below(4);
        match kind {
            0 => {
                let dead = self.gateways.iter().filter(|gateway| gateway.is_dead).count();
                if dead + 1 < GATEWAYS {
                    self.gateways[gateway].is_dead = true;
                }
            }
            1 => {
                // An upgrade, or now and then the way back from one.
                let version = self.cluster.view().unwrap().format + u32::from(!self.random.one_in(3));
                self.restart(gateway, version);
            }
            _ => self.gateways[gateway].stopped_until_ms = now_ms + length,
        }
        let pause = 500 + self.random.below(3_000);
        self.after(pause, Event::Trouble);
    }

    /// A crash, and a new run of the gateway with a program of this version. An unsuitable program does not start.
    fn restart(&mut self, gateway: usize, version: u32) {
        let opened = open(&self.store, &self.cluster, version);
        let at = &mut self.gateways[gateway];
        // Until the next run writes its record, the cluster counts on the version of the last one.
        let Ok(cluster) = opened else {
            (at.is_dead, at.is_known) = (true, false);
            at.served.clear();
            return;
        };
        (at.cluster, at.version, at.is_known, at.raising) = (cluster, version, false, None);
        at.run += 1;
        at.is_dead = false;
        at.stopped_until_ms = 0;
        at.observer = Observer::default();
        at.served.clear();
        at.own = self.cluster.view().unwrap().gateways[&at.name].clone();
        let run = at.run;
        self.after(10, Event::Poll { gateway, run });
    }

    /// Ends all trouble. Every endpoint is served after a while.
    fn recover(&mut self) {
        self.events.retain(|Reverse((_, _, event))| *event != Event::Trouble);
        let version = self.cluster.view().unwrap().format + 1;
        for gateway in 0..GATEWAYS {
            self.restart(gateway, version);
        }
        let end_ms = self.now_ms + RECOVERY_MS;
        while (0..ENDPOINTS).any(|endpoint| self.serving(endpoint) != 1)
            || self.cluster.view().unwrap().format != version
        {
            assert!(
                self.now_ms < end_ms,
                "seed {}: an endpoint is not served by one gateway, or the format does not rise to {version}",
                self.seed
            );
            self.run_to(self.now_ms + 500);
        }
    }

    /// Gateways that may answer for an endpoint now.
    fn serving(&self, endpoint: usize) -> usize {
        let served = self.gateways.iter().filter_map(|gateway| gateway.served.get(&endpoint));
        served.filter(|served| served.answers_until_ms > self.now_ms).count()
    }

    fn delay(&mut self) -> u64 {
        if self.random.one_in(10) { self.random.below(4_000) } else { 5 }
    }
}

/// Runs the traces of these seeds, and counts takeovers, refused writes and rises of the format.
fn run(seeds: std::ops::Range<u64>) -> [u64; 3] {
    let [mut takeovers, mut refused, mut raises] = [0; 3];
    for seed in seeds {
        let mut world = World::new(seed);
        world.run_to(TROUBLE_MS);
        world.recover();
        takeovers += u64::from(world.takeovers);
        refused += u64::from(world.refused_writes);
        raises += u64::from(world.raises);
    }
    [takeovers, refused, raises]
}

#[test]
fn one_gateway_answers_for_an_endpoint_at_a_time() {
    let count = if std::env::var_os("PLIMSOLL_TESTS_LONG").is_some() { 100_000 } else { 300 };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let mut sums = [0; 3];
    std::thread::scope(|scope| {
        let share =
            |number| scope.spawn(move || run(count * number / threads..count * (number + 1) / threads));
        let running: Vec<_> = (0..threads).map(share).collect();
        for thread in running {
            let found = thread.join().unwrap();
            sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
        }
    });
    let [takeovers, refused, raises] = sums;
    println!(
        "{count} traces, {takeovers} takeovers, {refused} writes of earlier holders refused, {raises} new formats"
    );
    // A simulation without takeovers, late writers or rises under trouble would show nothing.
    assert!(takeovers > 3 * count && refused > count / 20 && raises > count * 5 / 4);
}
