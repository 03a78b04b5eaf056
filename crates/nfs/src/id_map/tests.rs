//! Lookups, and their cache.

use super::*;
use std::sync::mpsc::{Receiver, channel};
use vfs::Wait;
use vfs::sync::Mutex;

/// Users 1 and above have names, and a few groups. Lookups of 7 fail.
#[derive(Default)]
struct Host {
    lookups: Arc<AtomicUsize>,
    /// Each lookup blocks until it receives a message.
    waits: Option<Mutex<Receiver<()>>>,
}

impl Host {
    fn answer<T>(&self, answer: T) -> io::Result<T> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        if let Some(waits) = &self.waits {
            waits.lock().recv().unwrap();
        }
        Ok(answer)
    }
}

impl HostIds for Host {
    fn name(&self, kind: IdKind, id: u32) -> io::Result<Option<String>> {
        match id {
            0 => self.answer(None),
            7 => Err(io::Error::other("no directory")),
            9 => self.answer(Some("a@b".into())),
            _ => self.answer(Some(format!("{}{id}", if kind == IdKind::User { 'u' } else { 'g' }))),
        }
    }

    fn id(&self, kind: IdKind, name: &str) -> io::Result<Option<u32>> {
        if name == "u7" {
            return Err(io::Error::other("no directory"));
        }
        let prefix = if kind == IdKind::User { 'u' } else { 'g' };
        self.answer(name.strip_prefix(prefix).and_then(|id| id.parse().ok()))
    }
}

fn names() -> (IdNames, Arc<AtomicUsize>) {
    let host = Host::default();
    let lookups = Arc::clone(&host.lookups);
    (IdNames::new("example.org", Box::new(host)).unwrap(), lookups)
}

fn name(names: &IdNames, id: u32, now: u64) -> FsResult<Option<String>> {
    let name = names.name(IdKind::User, id, now, Blocking::Allowed)?;
    Ok(name.map(|name| name.to_string()))
}

#[test]
fn names_are_those_of_the_host_with_the_domain() {
    let (names, _) = names();
    assert_eq!(name(&names, 5, 0), Ok(Some("u5@example.org".into())));
    let group = names.name(IdKind::Group, 5, 0, Blocking::Allowed).unwrap();
    assert_eq!(group.as_deref(), Some("g5@example.org"));
    for id in [0, 7, 9] {
        assert_eq!(name(&names, id, 0), Ok(None), "{id} has none that could be sent");
    }
    let id = |kind, text| names.id(kind, text, 0, Blocking::Allowed);
    assert_eq!(id(IdKind::User, "u5@EXAMPLE.org"), Ok(Some(5)));
    assert_eq!(id(IdKind::Group, "g5@example.org"), Ok(Some(5)));
    for text in [
        "u5",
        "u5@",
        "u5@elsewhere.org",
        "@example.org",
        "u5@x@example.org",
        "g5@example.org",
        "u4294967295@example.org",
    ] {
        assert_eq!(id(IdKind::User, text), Ok(None), "{text}");
    }
    assert_eq!(id(IdKind::User, "u7@example.org"), Err(FsError::Wait(Wait::Recall)), "nobody knows");
}

#[test]
fn lookups_are_cached_for_a_while() {
    let (names, lookups) = names();
    let asks = |now| {
        let before = lookups.load(Ordering::Relaxed);
        name(&names, 5, now).unwrap();
        name(&names, 0, now).unwrap();
        names.id(IdKind::User, "u5@example.org", now, Blocking::Allowed).unwrap();
        lookups.load(Ordering::Relaxed) - before
    };
    assert_eq!([asks(0), asks(0), asks(59), asks(60), asks(599), asks(600)], [3, 0, 0, 1, 1, 2]);
}

#[test]
fn non_blocking_calls_do_no_lookup() {
    let (names, lookups) = names();
    let at_once = |now| names.name(IdKind::User, 5, now, Blocking::Never);
    assert_eq!(at_once(0), Err(FsError::Wait(Wait::Storage)));
    assert_eq!(
        names.id(IdKind::User, "u5@example.org", 0, Blocking::Never),
        Err(FsError::Wait(Wait::Storage))
    );
    assert_eq!(lookups.load(Ordering::Relaxed), 0);
    name(&names, 5, 0).unwrap();
    assert_eq!(at_once(0).unwrap().as_deref(), Some("u5@example.org"));
    assert_eq!(at_once(600), Err(FsError::Wait(Wait::Storage)));
}

#[test]
fn a_directory_that_does_not_answer_holds_few_threads() {
    let (go, waits) = channel();
    let lookups = Arc::new(AtomicUsize::new(0));
    let host = Host { lookups: Arc::clone(&lookups), waits: Some(Mutex::new(waits)) };
    let names = IdNames::new("example.org", Box::new(host)).unwrap();
    std::thread::scope(|scope| {
        for id in 100..100 + u32::try_from(LOOKUPS_MAX).unwrap() {
            scope.spawn({
                let names = &names;
                move || name(names, id, 0).unwrap()
            });
        }
        while lookups.load(Ordering::Relaxed) < LOOKUPS_MAX {
            std::thread::yield_now();
        }
        assert_eq!(name(&names, 5, 0), Ok(None), "it goes on with the number");
        assert_eq!(
            names.id(IdKind::User, "u5@example.org", 0, Blocking::Allowed),
            Err(FsError::Wait(Wait::Recall))
        );
        (0..LOOKUPS_MAX).for_each(|_| go.send(()).unwrap());
    });
    go.send(()).unwrap();
    assert_eq!(name(&names, 5, 0), Ok(Some("u5@example.org".into())), "and is not remembered");
}

#[test]
fn cached_names_are_bounded() {
    let (names, _) = names();
    for id in 0..u32::try_from(2 * REMEMBERED_MAX).unwrap() {
        names.users.names.remember(id, None, 0, FOUND_S);
        names.users.ids.remember(id.to_string().into(), None, 0, FOUND_S);
        assert!(names.users.names.0.read().len() <= REMEMBERED_MAX);
        assert!(names.users.ids.0.read().len() <= REMEMBERED_MAX);
    }
}

#[test]
fn a_domain_is_a_name_of_letters() {
    let is_good = |domain: &str| IdNames::new(domain, Box::new(Host::default())).is_ok();
    assert!(is_good("defaultv4iddomain.com") && is_good("a_b-1.Org"));
    for domain in ["", "a b", "a@b", "ä.org", "a\n", &"a".repeat(256)] {
        assert!(!is_good(domain), "{domain:?}");
    }
}

#[test]
fn failures_are_logged_now_and_then() {
    let (names, _) = names();
    let logged = (0..25).filter(|&now| (0..100).any(|_| names.should_log(now))).collect::<Vec<u64>>();
    assert_eq!(logged, [0, 10, 20]);
    assert!(!names.should_log(20));
}
