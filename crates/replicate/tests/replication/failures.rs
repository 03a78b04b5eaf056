//! The failures that a replication must survive.

use crate::everything::fill_tree;
use crate::rig::{Destination, Source, assert_same, check, sync, transfer};
use crate::volume::{name, noise};
use replicate::Error;
use vfs::backend::KEEP_SET_ID;
use vfs::{FsError, Provisioner};
use vfs_testing::UncheckedNode;

/// A source with a point that the destination has, and changes since.
fn changed_source(destination: &Destination) -> Source {
    let source = Source::new();
    let root = source.volume.root();
    fill_tree(&root, &|| source.volume.advance(3));
    sync(&source, destination);
    source.volume.advance(10);
    for file in 0..20 {
        source.volume.put(&format!("new-{file}"), &noise(file, 40_000));
    }
    root.rename_unchecked(name(b"dir"), &root, name(b"moved")).unwrap();
    root.remove_unchecked(name(b"third")).unwrap();
    root.remove_unchecked(name(b"sparse")).unwrap();
    source
}

#[test]
fn link_cut_at_any_byte_leaves_a_whole_point_and_goes_on() {
    for is_first in [true, false] {
        let whole = {
            let destination = Destination::new();
            let source = if is_first { Source::new() } else { changed_source(&destination) };
            if is_first {
                fill_tree(&source.volume.root(), &|| source.volume.advance(3));
            }
            transfer(&source, &destination, None).passed
        };
        let destination = Destination::safe_after(100_000);
        let source = if is_first { Source::new() } else { changed_source(&destination) };
        if is_first {
            fill_tree(&source.volume.root(), &|| source.volume.advance(3));
        }
        let mut cuts = 0;
        // Each transfer goes on where an earlier one was cut; a new one begins after it ends.
        for number in 0_u64.. {
            let cut = number * 7_919 % (whole / 3);
            match transfer(&source, &destination, Some(usize::try_from(cut).unwrap())).received {
                Ok((point, _)) => check(&source, &destination, point.number),
                Err(Error::Link(_)) => cuts += 1,
                Err(error) => panic!("{error}"),
            }
            if let Some(last) = destination.last() {
                assert_same(&source.describe(last), &destination.describe(last));
            }
            source.volume.put("churn", &noise(number, 30_000));
            if cuts == 50 {
                break;
            }
        }
        sync(&source, &destination);
    }
}

#[test]
fn destination_killed_at_any_byte_goes_on_from_what_is_durable() {
    let mut destination = Destination::safe_after(50_000);
    let source = changed_source(&destination);
    let mut cuts = 0;
    for number in 0.. {
        let outcome = transfer(&source, &destination, Some(number * 7_919 % 400_000));
        cuts += u32::from(outcome.received.is_err());
        destination = destination.crash();
        let last = destination.last().unwrap();
        assert_same(&source.describe(last), &destination.describe(last));
        source.volume.put("churn", &noise(number as u64, 30_000));
        source.volume.put(&format!("more-{}", number % 9), &noise(number as u64, 50_000));
        if cuts == 50 {
            break;
        }
    }
    sync(&source, &destination);
}

#[test]
fn source_whose_clock_is_set_back_sends_every_change() {
    let destination = Destination::new();
    let source = changed_source(&destination);
    for (number, back) in [1, 60, 3_600, 100_000].into_iter().enumerate() {
        source.volume.advance(-back);
        // As large as before.
        source.volume.put("new-1", &noise(100 + number as u64, 40_000));
        source.volume.put(&format!("late-{number}"), b"data");
        sync(&source, &destination);
        source.volume.root().remove_unchecked(name(format!("late-{number}").as_bytes())).unwrap();
        sync(&source, &destination);
    }
    assert_eq!(destination.last(), Some(9));
}

#[test]
fn source_that_has_lost_the_unfinished_point_sends_a_new_one() {
    let destination = Destination::new();
    let source = changed_source(&destination);
    assert!(transfer(&source, &destination, Some(200_000)).received.is_err());
    source.lose(2);
    let outcome = transfer(&source, &destination, None);
    assert!(matches!(outcome.received, Err(Error::GoBack(Some(1)))), "{:?}", outcome.received);
    destination.go_back(Some(1));
    assert_eq!(sync(&source, &destination), 4);
}

#[test]
fn unfinished_first_point_that_is_lost_begins_anew() {
    let (source, destination) = (Source::new(), Destination::new());
    source.volume.put("file", &noise(1, 500_000));
    assert!(transfer(&source, &destination, Some(200_000)).received.is_err());
    source.lose(1);
    let outcome = transfer(&source, &destination, None);
    assert!(matches!(outcome.received, Err(Error::GoBack(None))), "{:?}", outcome.received);
    sync(&source, &destination);
}

#[test]
fn older_common_point_is_used_when_the_last_one_is_lost() {
    let destination = Destination::new();
    let source = changed_source(&destination);
    sync(&source, &destination);
    source.volume.put("late", b"data");
    source.lose(2);
    let outcome = transfer(&source, &destination, None);
    assert!(matches!(outcome.received, Err(Error::GoBack(Some(1)))), "{:?}", outcome.received);
    sync(&source, &destination);
}

#[test]
fn without_a_common_point_only_a_full_copy_is_possible() {
    let destination = Destination::new();
    let source = changed_source(&destination);
    sync(&source, &destination);
    source.lose(1);
    source.lose(2);
    let outcome = transfer(&source, &destination, None);
    assert!(matches!(outcome.received, Err(Error::NoCommonPoint(_))), "{:?}", outcome.received);
    assert!(outcome.served.is_err());
    destination.go_back(None);
    sync(&source, &destination);
}

#[test]
fn source_of_an_earlier_time_is_refused() {
    let destination = Destination::new();
    let source = changed_source(&destination);
    for _ in 0..3 {
        sync(&source, &destination);
    }
    // The machine of the source was restored: it has none of the points, and counts from the beginning.
    let restored = Source::new();
    restored.volume.put("file", b"data");
    let outcome = transfer(&restored, &destination, None);
    assert!(matches!(outcome.received, Err(Error::NoCommonPoint(_))), "{:?}", outcome.received);
}

#[test]
fn full_destination_keeps_its_point_and_goes_on_with_more_room() {
    let destination = Destination::new();
    let source = changed_source(&destination);
    destination.set_room(destination.provisioner.usage(vfs::VolumeId(1)).unwrap().bytes + 100_000);
    for _ in 0..3 {
        let outcome = transfer(&source, &destination, None);
        assert!(matches!(outcome.received, Err(Error::File(_, FsError::NoSpace))), "{:?}", outcome.received);
        assert_same(&source.describe(1), &destination.describe(1));
    }
    destination.set_room(1 << 41);
    assert_eq!(sync(&source, &destination), 2);
}

#[test]
fn both_sides_written_are_never_merged() {
    let destination = Destination::new();
    let source = changed_source(&destination);
    // The destination was broken off and written.
    let file = destination.backend().root().create_unchecked(name(b"own"), &crate::volume::plain()).unwrap();
    file.found.node.write(0, b"own data", KEEP_SET_ID).unwrap();
    drop(file);
    destination.go_back(destination.last());
    sync(&source, &destination);
}

#[test]
fn lost_confirmation_is_made_up_for() {
    let destination = Destination::new();
    let source = changed_source(&destination);
    let probe = transfer(&source, &destination, None);
    source.volume.put("more", &noise(9, 10));
    // All but the last bytes: the point has arrived, and its confirmation has not.
    let outcome = transfer(&source, &destination, Some(usize::try_from(probe.passed).unwrap()));
    drop(outcome);
    sync(&source, &destination);
    assert_eq!(source.points.lock().len(), 2);
}
