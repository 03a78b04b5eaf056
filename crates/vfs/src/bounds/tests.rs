use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::thread;

fn party(host: u32) -> Party {
    Party::of(Networks::default().of(Ipv4Addr::from_bits(0x0a00_0000 + host).into()))
}

/// Takes slots of this weight until it is refused.
fn fill(bounds: &Arc<Bounds>, party: &Party, weight: usize) -> (Vec<Slot>, Full) {
    let mut slots = Vec::new();
    loop {
        match bounds.take(party, weight) {
            Ok(slot) => slots.push(slot),
            Err(full) => return (slots, full),
        }
    }
}

#[test]
fn a_network_is_an_ipv4_address_or_an_ipv6_prefix() {
    let of = |text: &str| Networks::default().of(text.parse().unwrap());
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    assert_eq!(of("2001:db8:0:7::1"), of("2001:db8:0:7:ffff::2"));
    assert_ne!(of("2001:db8:0:7::1"), of("2001:db8:0:8::1"));
    assert_eq!(of("2001:db8:0:7::1").to_string(), "2001:db8:0:7::");
    let by = |bits, text: &str| Networks::from_prefix(bits).unwrap().of(text.parse().unwrap());
    assert_eq!(by(48, "2001:db8:0:7::1"), by(48, "2001:db8:0:8::1"));
    assert_ne!(by(128, "2001:db8::1"), by(128, "2001:db8::2"));
    assert_eq!(by(1, "2001:db8::1"), by(1, "2002:db8::1"));
    assert_eq!((Networks::from_prefix(0), Networks::from_prefix(129)), (None, None));
}

#[test]
fn one_network_gets_half_and_the_next_a_quarter() {
    let bounds = Bounds::new(8000, 0);
    let (first, full) = fill(&bounds, &party(1), 1);
    assert_eq!((first.len(), full), (3500, Full::Network));
    let (second, full) = fill(&bounds, &party(2), 1);
    assert_eq!((second.len(), full), (1750, Full::Network));
    assert_eq!((bounds.used(), bounds.used_by(&party(1)), bounds.used_by(&party(2))), (5250, 3500, 1750));
    drop(first);
    assert_eq!(bounds.used_by(&party(1)), 0);
    assert_eq!(fill(&bounds, &party(2), 1).0.len(), 1750, "what is free again is shared anew");
}

#[test]
fn one_principal_leaves_room_for_others_of_its_network() {
    let bounds = Bounds::new(8000, 0);
    let (first, full) = fill(&bounds, &party(1).user(7), 1);
    assert_eq!(full, Full::Principal);
    assert!(first.len() > 8000 / 8, "{}", first.len());
    let (second, _) = fill(&bounds, &party(1).user(8), 1);
    assert!(second.len() > first.len() / 4, "{}", second.len());
    let elsewhere = fill(&bounds, &party(2).user(7), 1).0;
    assert!(elsewhere.len() > second.len() / 2, "the same number elsewhere is somebody else");
    let forged: usize = (100..4000)
        .map(|uid| fill(&bounds, &party(1).user(uid), 1).0)
        .map(|slots| slots.len())
        .max()
        .unwrap();
    assert!(forged < first.len());
}

#[test]
fn forged_principals_get_no_more_than_their_network() {
    let bounds = Bounds::new(8000, 0);
    let slots: Vec<Slot> = (0..9000).filter_map(|uid| bounds.take(&party(1).user(uid), 1).ok()).collect();
    assert_eq!(slots.len(), 3500);
    assert_eq!(bounds.take(&party(1).user(1 << 20), 1).unwrap_err(), Full::Network);
}

#[test]
fn strangers_share_a_small_part_and_take_nothing_from_others() {
    let bounds = Bounds::new(1000, 64);
    let strangers = (0..1000).map(|host| party(host).admitted(false));
    let held: Vec<Slot> = strangers.filter_map(|stranger| bounds.take(&stranger, 1).ok()).collect();
    assert_eq!(held.len(), 64);
    assert_eq!(bounds.take(&party(2000).admitted(false), 1).unwrap_err(), Full::Strangers);
    assert_eq!(fill(&bounds, &party(1), 1).0.len(), 437);
    assert_eq!(fill(&Bounds::new(1000, 64), &party(1).admitted(false), 1).0.len(), 28);
}

#[test]
fn the_bound_for_all_holds_and_what_is_dropped_is_free() {
    let bounds = Bounds::new(100, 0);
    let mut slots: Vec<Slot> = (0..100).map(|host| bounds.take(&party(host), 1).unwrap()).collect();
    assert_eq!(bounds.take(&party(500), 1).unwrap_err(), Full::All);
    slots.pop();
    assert!(bounds.take(&party(500), 1).is_ok());
    slots.clear();
    assert_eq!(bounds.used(), 0);
    assert!(bounds.shards.iter().all(|shard| shard.lock().is_empty()), "nothing stays of those that left");
}

#[test]
fn a_heavy_first_entry_fits_where_all_has_room() {
    let bounds = Bounds::new(100, 10);
    let heavy = bounds.take(&party(1), 60).unwrap();
    assert_eq!(bounds.take(&party(1), 1).unwrap_err(), Full::Network);
    assert_eq!(bounds.take(&party(2), 50).unwrap_err(), Full::All);
    drop(heavy);
    assert!(bounds.take(&party(2), 50).is_ok());
    assert_eq!(bounds.take(&party(2).admitted(false), 11).unwrap_err(), Full::Strangers);
}

#[test]
fn a_slot_grows_within_bounds_and_is_set_past_them() {
    let bounds = Bounds::new(160, 0);
    let mut slot = bounds.take(&party(1).user(7), 10).unwrap();
    assert_eq!(slot.grow(70), Err(Full::Network));
    assert_eq!((slot.weight(), bounds.used()), (10, 10));
    slot.grow(15).unwrap();
    slot.set(300);
    assert_eq!((bounds.used(), bounds.used_by(&party(1))), (300, 300));
    assert_eq!(bounds.take(&party(2), 1).unwrap_err(), Full::All);
    slot.set(3);
    let forced = bounds.force(&party(1).user(8), 400);
    assert_eq!((bounds.used(), forced.weight(), forced.party().principal), (403, 400, Some(8)));
    drop((slot, forced));
    assert_eq!(bounds.used(), 0);
}

#[test]
fn threads_together_stay_within_the_bounds_and_return_all() {
    let bounds = Bounds::new(1000, 100);
    thread::scope(|scope| {
        for host in 0..8 {
            let bounds = &bounds;
            scope.spawn(move || {
                for round in 0..200 {
                    let party = party(host % 3).user(host).admitted(host != 7);
                    let slots = fill(bounds, &party, 1 + round % 7).0;
                    assert!(bounds.used() <= 1100);
                    drop(slots);
                }
            });
        }
    });
    assert_eq!(bounds.used(), 0);
    assert!(bounds.shards.iter().all(|shard| shard.lock().is_empty()));
}

#[test]
fn the_oldest_entry_gives_way_of_those_that_the_bound_is_for() {
    let mut oldest = Oldest::default();
    assert!(oldest.is_empty());
    let parties = [party(1).user(1), party(1).user(2), party(2).user(1), party(2).user(1).admitted(false)];
    let ages: Vec<u64> = (0..).zip(&parties).map(|(key, party)| oldest.add(party, key)).collect();
    let first = |oldest: &Oldest<usize>, at: usize, full| oldest.first(&parties[at], full).copied();
    assert_eq!(first(&oldest, 1, Full::Principal), Some(1));
    assert_eq!(first(&oldest, 1, Full::Network), Some(0));
    assert_eq!(first(&oldest, 2, Full::Network), Some(2));
    assert_eq!(first(&oldest, 2, Full::All), Some(0));
    assert_eq!(first(&oldest, 3, Full::Strangers), Some(3), "strangers take no place of others");
    oldest.remove(&parties[0], ages[0]);
    assert_eq!(first(&oldest, 0, Full::All), Some(1));
    assert_eq!(first(&oldest, 0, Full::Principal), None);
    assert_eq!(oldest.len(), 3);
}

#[test]
fn a_network_is_large_that_holds_more_than_a_newcomer_finds() {
    let bounds = Bounds::new(8 * 33, 0);
    let first = bounds.take(&party(1), 1).unwrap();
    assert!(!bounds.is_large(&party(1)));
    let second = bounds.take(&party(1), 1).unwrap();
    assert!(bounds.is_large(&party(1)) && !bounds.is_large(&party(2)));
    drop((first, second));
}

/// A step of clients that take as much as they can.
#[derive(Clone, Debug)]
enum Step {
    Take { host: u32, uid: u32, count: usize },
    Drop { at: usize, count: usize },
    Stranger { host: u32, count: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..GREEDY_HOSTS, 0..50_u32, 1..4000_usize).prop_map(|(host, uid, count)| Step::Take { host, uid, count }),
        1 => (0..100_000_usize, 1..3000_usize).prop_map(|(at, count)| Step::Drop { at, count }),
        1 => (0..1000_u32, 1..2000_usize).prop_map(|(host, count)| Step::Stranger { host, count }),
    ]
}

const GREEDY_HOSTS: u32 = 16;
const ALL: usize = 16_384;
/// The share of a newcomer beside this many greedy hosts: each of these leaves 31 of 32 parts of the reserve.
const NEWCOMER: usize = 35;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn greedy_clients_never_keep_a_newcomer_from_its_reserve(steps in prop::collection::vec(step(), 1..200)) {
        let bounds = Bounds::new(ALL, ALL / 32);
        let mut held: Vec<Slot> = Vec::new();
        for step in steps {
            match step {
                Step::Take { host, uid, count } => {
                    let party = party(host).user(uid);
                    held.extend((0..count).map_while(|_| bounds.take(&party, 1).ok()));
                }
                Step::Stranger { host, count } => {
                    let party = party(host).admitted(false);
                    held.extend((0..count).map_while(|_| bounds.take(&party, 1).ok()));
                }
                Step::Drop { at, count } if !held.is_empty() => {
                    let at = at % held.len();
                    held.drain(at..(at + count).min(held.len()));
                }
                Step::Drop { .. } => {}
            }
            let (newcomer, _) = fill(&bounds, &party(5000).user(1), 1);
            prop_assert!(newcomer.len() >= NEWCOMER, "{} beside {}", newcomer.len(), bounds.used());
            prop_assert!(bounds.used() <= ALL + ALL / 32);
        }
        drop(held);
        prop_assert_eq!(bounds.used(), 0);
    }
}
