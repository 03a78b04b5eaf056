//! The bounds of watches, and the tables behind them.

use super::*;

const NAMES: ChangeMask = ChangeMask(ChangeMask::FILE_NAMES.0 | ChangeMask::DIR_NAMES.0);

fn dir() -> FileKey {
    FileKey::new(b"dir").unwrap()
}

fn filter_of(user: u32, bytes_max: usize) -> WatchFilter {
    WatchFilter { caller: Caller::new(0, 0, []), user, what: NAMES, is_tree: false, bytes_max }
}

fn watch(watches: &Arc<Watches>, filter: WatchFilter) -> Watch {
    watches.add(dir(), filter, Box::new(|| {})).unwrap()
}

fn note(watches: &Watches, action: Action, name: &str, what: ChangeMask) {
    watches.push(&dir(), &[], &[], &[(action, name.as_bytes())], what);
}

fn make(watches: &Watches, name: &str) {
    note(watches, Action::Added, name, ChangeMask::FILE_NAMES);
}

fn lines(watch: &Watch) -> Vec<String> {
    let Some(WatchEvents::Changes(changes)) = watch.take() else { return Vec::new() };
    let line =
        |change: ChangeRecord| format!("{:?} {}", change.action, String::from_utf8(change.path).unwrap());
    changes.into_iter().map(line).collect()
}

fn watches_of(watches: &Arc<Watches>, user: u32) -> Vec<Watch> {
    let watch = || watches.add(dir(), filter_of(user, usize::MAX), Box::new(|| {}));
    std::iter::repeat_with(watch).take(WATCHES_MAX).map_while(Result::ok).collect()
}

#[test]
fn changes_of_a_watch_are_bounded_and_repetitions_are_dropped() {
    let watches = Arc::new(Watches::default());
    let small = watch(
        &watches,
        WatchFilter { what: NAMES | ChangeMask::SIZE, ..filter_of(0, 2 * (CHANGE_BYTES + 1)) },
    );
    let none = watch(&watches, filter_of(0, 0));
    for _ in 0..100 {
        note(&watches, Action::Modified, "f", ChangeMask::SIZE);
    }
    assert_eq!(lines(&small), ["Modified f"]);
    make(&watches, "a");
    make(&watches, "b");
    assert_eq!(lines(&small), ["Added a", "Added b"]);
    for name in ["c", "d", "e", "f"] {
        make(&watches, name);
    }
    assert_eq!((small.take(), small.take()), (Some(WatchEvents::Overflow), None));
    assert_eq!(none.take(), Some(WatchEvents::Overflow));
    make(&watches, "g");
    assert_eq!(lines(&small), ["Added g"]);
    make(&watches, "h");
    assert_eq!(watches.bytes.load(Ordering::SeqCst), CHANGE_BYTES + 1);
    drop((small, none));
    assert_eq!((watches.bytes.load(Ordering::SeqCst), watches.is_any()), (0, false));
    let table = watches.table.lock();
    assert!(table.watched.is_empty() && table.names.is_empty() && table.trees.is_empty());
}

#[test]
fn watches_and_their_changes_are_bounded_for_a_volume() {
    let watches = Arc::new(Watches::default());
    let all: Vec<Watch> = (0..4).flat_map(|user| watches_of(&watches, user)).collect();
    assert_eq!(all.len(), WATCHES_MAX);
    let refused = watches.add(dir(), filter_of(4, 1), Box::new(|| {}));
    assert!(matches!(refused, Err(FsError::Wait(Wait::Recall))));
    for number in 0..20 {
        make(&watches, &format!("{number:0100}"));
    }
    assert!(watches.bytes.load(Ordering::SeqCst) <= RETAINED_BYTES_MAX);
    let kinds = all.iter().map(|watch| matches!(watch.take(), Some(WatchEvents::Overflow)));
    assert!(kinds.filter(|is_too_much| *is_too_much).count() > 0);
    assert_eq!(watches.bytes.load(Ordering::SeqCst), 0);
    drop(all);
    assert!(watches.table.lock().users.is_empty());
    assert!(watches.add(dir(), filter_of(0, 1), Box::new(|| {})).is_ok());
}

#[test]
fn one_user_leaves_watches_and_bytes_to_others() {
    let watches = Arc::new(Watches::default());
    let mut greedy = watches_of(&watches, 1000);
    assert_eq!(greedy.len(), WATCHES_OF_USER_MAX);
    let modest = watch(&watches, filter_of(1001, usize::MAX));
    let mut made = 0;
    while !greedy.iter().any(|watch| watch.watched.buffer.lock().is_too_much) {
        make(&watches, &format!("{made:0250}"));
        made += 1;
    }
    assert_eq!(made, RETAINED_BYTES_OF_USER_MAX / WATCHES_OF_USER_MAX / (CHANGE_BYTES + 250) + 1);
    assert!(watches.bytes.load(Ordering::SeqCst) < RETAINED_BYTES_MAX / 2);
    assert_eq!(lines(&modest).len(), made);
    greedy.pop();
    assert_eq!(watches_of(&watches, 1000).len(), 1);
}

#[test]
fn a_callback_may_watch_and_stop() {
    let watches = Arc::new(Watches::default());
    let others = Arc::new(Mutex::new(vec![watch(&watches, filter_of(0, 1000))]));
    let (table, kept) = (Arc::clone(&watches), Arc::clone(&others));
    let on_events = move || *kept.lock() = vec![watch(&table, filter_of(0, 1000))];
    let own = watches.add(dir(), filter_of(0, 1000), Box::new(on_events)).unwrap();
    make(&watches, "first");
    make(&watches, "second");
    assert_eq!(lines(&own), ["Added first", "Added second"]);
    assert_eq!(watches.table.lock().watched.values().map(|here| here.len()).sum::<usize>(), 2);
}
