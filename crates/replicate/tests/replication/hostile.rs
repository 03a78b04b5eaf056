//! Sides that have the right key and lie: every message can be altered, left out, repeated or cut off.

use crate::everything::fill_tree;
use crate::rig::{Destination, Source, assert_same, request, sync, with_means};
use crate::volume::noise;
use replicate::replication::{Origin, Point, Purpose, Request, serve};
use replicate::{Error, Result};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SILENCE: Duration = Duration::from_millis(150);
const HELLO: u8 = 1;
const BEGIN: u8 = 2;
const TOTALS: u8 = 5;
const RECORD: u8 = 6;
const DATA: u8 = 7;
const DONE: u8 = 10;

/// Alters the payload with this number in its direction. The result is what arrives.
type Alter<'a> = dyn Fn(usize, Vec<u8>) -> Vec<Vec<u8>> + Sync + 'a;

fn read_frame(link: &mut UnixStream) -> Option<Vec<u8>> {
    let mut len = [0; 4];
    link.read_exact(&mut len).ok()?;
    let mut frame = vec![0; usize::try_from(u32::from_be_bytes(len)).unwrap() + 16];
    link.read_exact(&mut frame).ok()?;
    frame.truncate(frame.len() - 16);
    Some(frame)
}

fn write_frame(link: &mut UnixStream, number: u64, payload: &[u8]) -> Option<()> {
    let hash = blake3::hash(&[&number.to_be_bytes()[..], payload].concat());
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    link.write_all(&[&len[..], payload, &hash.as_bytes()[..16]].concat()).ok()
}

/// Passes frames on, altered, with hashes that fit.
fn pass(mut from: UnixStream, mut to: UnixStream, alter: &Alter<'_>) -> usize {
    let (mut number, mut sent) = (0, 0);
    'frames: while let Some(payload) = read_frame(&mut from) {
        for payload in alter(number, payload) {
            if write_frame(&mut to, sent, &payload).is_none() {
                break 'frames;
            }
            sent += 1;
        }
        number += 1;
    }
    _ = to.shutdown(std::net::Shutdown::Write);
    _ = from.shutdown(std::net::Shutdown::Read);
    number
}

struct Lied {
    received: Result<(Point, u64)>,
    served: Result<()>,
    /// Messages of the source.
    messages: usize,
}

/// A transfer whose messages are altered: those of the source by `down`, those of the destination by `up`.
fn lie(source: &Source, destination: &Destination, down: &Alter<'_>, up: &Alter<'_>) -> Lied {
    let (mut ours, our_wire) = UnixStream::pair().unwrap();
    let (their_wire, mut theirs) = UnixStream::pair().unwrap();
    // As a connection between services, but sooner: two sides that wait for each other end.
    for link in [&ours, &theirs] {
        link.set_read_timeout(Some(SILENCE)).unwrap();
    }
    let scratch = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let find = |asked: &Request, _: Purpose| {
                (*asked == request()).then_some(()).ok_or(Error::Refused("another volume".to_owned()))?;
                Ok(Box::new(source) as Box<dyn Origin + '_>)
            };
            let served = with_means(&scratch, |means| serve(&mut ours, &find, means));
            drop(ours);
            served.map(drop)
        });
        let (from, to) = (our_wire.try_clone().unwrap(), their_wire.try_clone().unwrap());
        let downward = scope.spawn(move || pass(from, to, down));
        let upward = scope.spawn(move || pass(their_wire, our_wire, up));
        let received = destination.receive(&mut theirs);
        drop(theirs);
        let (served, messages) = (served.join().unwrap(), downward.join().unwrap());
        upward.join().unwrap();
        Lied { received, served, messages }
    })
}

fn honest(_: usize, payload: Vec<u8>) -> Vec<Vec<u8>> {
    vec![payload]
}

/// A generator of SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ mixed >> 31) % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }
}

/// Alters one message at random.
fn alter(random: &mut Random, mut payload: Vec<u8>) -> Vec<Vec<u8>> {
    let at = random.below(payload.len());
    match random.below(8) {
        0 => payload[at] ^= 1 << random.below(8),
        1 => payload[at] = 0xff,
        2 => payload.truncate(at),
        3 => payload.extend_from_slice(&[0xff; 9]),
        4 => return vec![],
        5 => return vec![payload.clone(), payload],
        6 => payload.splice(at..at, [0xff; 8]).for_each(drop),
        _ => payload[0] = u8::try_from(random.below(16)).unwrap(),
    }
    vec![payload]
}

/// A source with a tree of every kind of file, one point of which the destination has.
fn changed(destination: &Destination) -> Source {
    let source = Source::new();
    fill_tree(&source.volume.root(), &|| source.volume.advance(3));
    sync(&source, destination);
    source.volume.advance(10);
    source.volume.put("innocent", &noise(1, 70_000));
    source.volume.put("third", &noise(2, 9_000));
    source
}

#[test]
fn a_source_that_lies_shows_no_client_half_a_point_and_breaks_nothing_for_good() {
    let mut random = Random(7);
    let messages = {
        let destination = Destination::new();
        let source = changed(&destination);
        lie(&source, &destination, &honest, &honest).messages
    };
    let mut accepted = 0;
    for round in 0..80 {
        let destination = Destination::new();
        let source = changed(&destination);
        let before = destination.describe(1);
        let target = random.below(messages);
        let seed = AtomicUsize::new(random.below(1 << 30));
        let down = |number: usize, payload: Vec<u8>| match number == target {
            true => alter(&mut Random(seed.load(Ordering::SeqCst) as u64), payload),
            false => vec![payload],
        };
        let Lied { received, .. } = lie(&source, &destination, &down, &honest);
        accepted += usize::from(received.is_ok());
        assert_same(&before, &destination.describe(1));
        // What was taken is a point of its own; the honest source goes on from one that both have.
        let last = destination.last().unwrap();
        assert!(received.is_ok() || last == 1, "round {round}: {received:?}");
        destination.go_back(Some(1));
        sync(&source, &destination);
    }
    assert!((1..70).contains(&accepted), "{accepted}");
}

#[test]
fn a_destination_that_lies_costs_the_source_nothing_but_its_own_points() {
    let mut random = Random(11);
    for _ in 0..60 {
        let destination = Destination::new();
        let source = changed(&destination);
        let files = source.describe(1);
        let target = random.below(2);
        let seed = AtomicUsize::new(random.below(1 << 30));
        let up = |number: usize, payload: Vec<u8>| match number == target {
            true => alter(&mut Random(seed.load(Ordering::SeqCst) as u64), payload),
            false => vec![payload],
        };
        let Lied { served, .. } = lie(&source, &destination, &honest, &up);
        let points = source.points.lock().len();
        assert!(points <= 3, "{points} points after {served:?}");
        if source.points.lock().iter().any(|point| point.number == 1) {
            assert_same(&files, &source.describe(1));
        }
    }
}

#[test]
fn names_that_leave_the_volume_are_refused() {
    for name in ["../evil-12", "a/evil-123", "..........", ".\0evil-123", ".plimsoll-"] {
        let destination = Destination::new();
        let source = changed(&destination);
        source.volume.put("evil-12345", b"data");
        let own: &[u8] = b"evil-12345";
        let replaced = AtomicUsize::new(0);
        let down = |_: usize, mut payload: Vec<u8>| {
            if payload[0] == RECORD
                && let Some(at) = payload.windows(own.len()).position(|part| part == own)
            {
                payload[at..at + own.len()].copy_from_slice(name.as_bytes());
                replaced.fetch_add(1, Ordering::SeqCst);
            }
            vec![payload]
        };
        let Lied { received, .. } = lie(&source, &destination, &down, &honest);
        assert_eq!(replaced.load(Ordering::SeqCst), 1, "{name}");
        let is_taken = received.is_ok();
        // Ten dots and the beginning of the service's name are names like others.
        assert_eq!(is_taken, !name.contains('/') && !name.contains('\0'), "{name}: {received:?}");
        assert_eq!(destination.last(), Some(if is_taken { 2 } else { 1 }), "{name}");
    }
}

#[test]
fn sizes_and_counts_that_disagree_are_refused_or_of_no_use() {
    let destination = Destination::new();
    let source = changed(&destination);
    // Far more is announced than comes: nothing is allocated for it.
    let down = |_: usize, payload: Vec<u8>| match payload[0] {
        TOTALS => vec![[&[TOTALS][..], &[0xff; 9], &[1], &[0xff; 9], &[1]].concat()],
        _ => vec![payload],
    };
    _ = lie(&source, &destination, &down, &honest);
    destination.go_back(Some(1));
    // Data before any record, and data for a file that has none.
    let down = |number: usize, payload: Vec<u8>| match number {
        1 => vec![[&[DATA, 0, 0][..], b"data"].concat(), payload],
        _ => vec![payload],
    };
    let Lied { received, .. } = lie(&source, &destination, &down, &honest);
    assert!(matches!(received, Err(Error::Peer("data without a file"))), "{received:?}");
    destination.go_back(Some(1));
    sync(&source, &destination);
}

#[test]
fn old_points_that_are_played_again_are_refused() {
    let destination = Destination::new();
    let source = changed(&destination);
    let begin = std::sync::Mutex::new(Vec::new());
    let record = |number: usize, payload: Vec<u8>| {
        if number == 0 {
            begin.lock().unwrap().clone_from(&payload);
        }
        vec![payload]
    };
    assert!(lie(&source, &destination, &record, &honest).received.is_ok());
    source.volume.put("more", b"data");
    // The greeting of the transfer before, which ends with a point that the destination has.
    let again = |number: usize, payload: Vec<u8>| match number {
        0 => vec![begin.lock().unwrap().clone()],
        _ => vec![payload],
    };
    let Lied { received, .. } = lie(&source, &destination, &again, &honest);
    assert!(matches!(received, Err(Error::Peer("its point does not follow the last one"))), "{received:?}");
    sync(&source, &destination);
}

#[test]
fn records_that_no_volume_can_have_do_not_fill_the_disk() {
    let mut destination = Destination::new();
    let source = changed(&destination);
    for file in 0..300 {
        source.volume.put(&format!("file-{file}"), b"data");
    }
    destination.log_bytes = Some(20_000);
    for _ in 0..3 {
        let Lied { received, .. } = lie(&source, &destination, &honest, &honest);
        let refused = Error::Peer("its records are more than the destination can have").to_string();
        assert_eq!(received.unwrap_err().to_string(), refused);
        assert_eq!(destination.last(), Some(1));
    }
    destination.log_bytes = None;
    sync(&source, &destination);
}

#[test]
fn numbers_of_points_are_bounded() {
    let destination = Destination::new();
    let source = changed(&destination);
    // An integer of nine bytes or more, in place of the number 2.
    let down = |_: usize, mut payload: Vec<u8>| {
        if payload[0] == BEGIN {
            assert_eq!(payload[1], 2);
            payload.splice(1..2, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).for_each(drop);
        }
        vec![payload]
    };
    let Lied { received, .. } = lie(&source, &destination, &down, &honest);
    assert!(matches!(received, Err(Error::Peer("the number of its point is too large"))), "{received:?}");
    sync(&source, &destination);
}

#[test]
fn a_confirmation_of_another_point_is_none() {
    let destination = Destination::new();
    let source = changed(&destination);
    let up = |_: usize, payload: Vec<u8>| match payload[0] {
        DONE => vec![vec![DONE, 9]],
        _ => vec![payload],
    };
    let Lied { served, received, .. } = lie(&source, &destination, &honest, &up);
    assert!(received.is_ok());
    assert!(matches!(served, Err(Error::Peer("it does not confirm the point"))), "{served:?}");
    sync(&source, &destination);
}

#[test]
fn another_version_is_refused_in_words() {
    let destination = Destination::new();
    let source = changed(&destination);
    let up = |_: usize, mut payload: Vec<u8>| {
        if payload[0] == HELLO {
            payload[1] = 2;
        }
        vec![payload]
    };
    let Lied { received, served, .. } = lie(&source, &destination, &honest, &up);
    let Err(Error::Refused(reason)) = received else { panic!("{received:?}") };
    assert!(reason.contains("speaks version 1") && reason.contains("version 2"), "{reason}");
    assert!(served.is_err());
}
