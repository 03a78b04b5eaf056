//! What the limiter costs a call: `cargo bench -p vfs`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::time::Instant;
use vfs::qos::{Arbiter, Decision, Demand, Gate, Limits, Nanos, Pacer, Scheduler, VolumeLimits};

const CALLS: u32 = 2_000_000;
const DEMAND: Demand = Demand::read(4096);

fn client(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

fn report(what: &str, calls: u32, start: Instant) {
    println!("{what:<60} {:>7.1} ns", start.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
}

fn admit(what: &str, gate: &Gate) {
    let start = Instant::now();
    for call in 0..CALLS {
        assert!(gate.admit(client(call % 16), black_box(DEMAND)));
    }
    report(what, CALLS, start);
}

fn main() {
    let rate = NonZeroU64::new(u64::MAX >> 24);
    let plenty = Limits { bytes: rate, ops: rate, ..Limits::NONE };
    let pacer = Pacer::still();
    let volume = |per_client| VolumeLimits { all: plenty, per_client, mix: None };
    admit("admitted, unlimited", &Gate::open());
    admit("admitted, volume limited", &Arbiter::new(&Limits::NONE.into(), &pacer).gate(volume(Limits::NONE)));
    admit(
        "admitted, volume and pool limited",
        &Arbiter::new(&plenty.into(), &pacer).gate(volume(Limits::NONE)),
    );
    admit(
        "admitted, pool, volume and client limited",
        &Arbiter::new(&plenty.into(), &pacer).gate(volume(plenty)),
    );
    for clients in [1, 16, 1000] {
        waits(clients);
    }
}

/// Calls that wait and pass, with 64 waiting at any time.
fn waits(clients: u32) {
    let mut now = Nanos(1_000_000_000);
    let mut scheduler = Scheduler::new(&Limits::NONE.into(), now);
    let all = Limits { bytes: NonZeroU64::new(4096 * 1_000_000), ..Limits::NONE };
    let volume = scheduler.add(&VolumeLimits { all, ..VolumeLimits::default() }, now);
    let wait = |scheduler: &mut Scheduler<u32>, now, call: u32| {
        if scheduler.admit(volume, client(call % clients), DEMAND, now) == Decision::Refused {
            assert!(scheduler.wait(volume, client(call % clients), DEMAND, call, now).is_ok());
        }
    };
    let start = Instant::now();
    let mut calls = 0;
    while calls < CALLS {
        for _ in 0..64 {
            wait(&mut scheduler, now, calls);
            calls += 1;
        }
        now.0 += 64_000;
        black_box(scheduler.release(now, &|_| false));
    }
    report(&format!("waited and passed, {clients} clients"), CALLS, start);
}
