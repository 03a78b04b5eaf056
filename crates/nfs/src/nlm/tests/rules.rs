//! Rules of exports: the locks that they allow, and for how long.

use super::*;
use vfs::Namespace;

impl LockTest {
    fn serve(&self, rules: Vec<ExportRule>) {
        let export = Export::new("/v", Arc::clone(&self.volume), rules);
        self.env.service.namespace.store(Arc::new(Namespace::new([export])));
    }

    fn deny(&self, mode: ShareMode) -> Status {
        self.share(Procedure::SHARE, mode, ShareAccess::READ)
    }
}

const ALL: &[&str] = &["10.1.0.0/16"];

fn to_read() -> ExportRule {
    ExportRule { read_only: true, ..rule(ALL) }
}

#[test]
fn share_that_denies_under_a_read_only_rule_is_refused() {
    let mut test = LockTest::new();
    test.serve(vec![to_read()]);
    test.at(ANN);
    for mode in [ShareMode::DENY_READ, ShareMode::DENY_WRITE, ShareMode::DENY_BOTH] {
        assert!(test.deny(mode) != Status::GRANTED, "{mode:?}");
    }
    assert_eq!(test.deny(ShareMode::DENY_NONE), Status::GRANTED);
    test.serve(vec![rule(ALL)]);
    // Another user, who may read.
    test.env.user = (1001, 101);
    assert!(test.deny(ShareMode::DENY_READ) != Status::GRANTED);
    assert!(test.deny(ShareMode::DENY_BOTH) != Status::GRANTED);
    test.env.user = (1000, 100);
    assert_eq!(test.at(BEN).deny(ShareMode::DENY_BOTH), Status::DENIED, "Ann reads");
}

#[test]
fn locks_and_shares_end_with_the_rule_that_admits_them() {
    for rules in
        [vec![], vec![to_read()], vec![ExportRule { no_access: true, ..rule(&["10.1.0.9"]) }, rule(ALL)]]
    {
        let mut test = LockTest::new();
        test.at(ANN);
        assert_eq!(test.lock(bytes(0, 10)), Status::GRANTED);
        assert_eq!(test.deny(ShareMode::DENY_WRITE), Status::GRANTED);
        test.at(BEN);
        assert_eq!(test.lock(LockSpec { exclusive: false, ..bytes(20, 10) }), Status::GRANTED);
        test.at(ANN);
        assert_eq!(test.lock(LockSpec { block: true, ..bytes(20, 10) }), Status::BLOCKED);
        let before = test.env.service.namespace.load_full();
        test.serve(vec![rule(ALL)]);
        test.env.service.tick(Default::default);
        assert_eq!(test.at(BEN).lock(bytes(0, 10)), Status::DENIED, "nothing has changed for Ann");
        test.serve(rules.clone());
        test.env.service.tick(Default::default);
        test.env.service.namespace.store(before);
        test.at(BEN);
        assert_eq!(test.lock(bytes(0, 10)), Status::GRANTED, "{rules:?}");
        assert_eq!(test.share(Procedure::SHARE, ShareMode::DENY_NONE, ShareAccess::WRITE), Status::GRANTED);
        test.unlock(WHOLE);
        test.share(Procedure::UNSHARE, ShareMode::DENY_NONE, ShareAccess::WRITE);
        test.assert_known_only();
    }
}

#[test]
fn lock_that_is_waited_for_in_vain_leaves_nothing() {
    let mut test = LockTest::new();
    assert_eq!(test.at(ANN).lock(bytes(0, 9)), Status::GRANTED);
    assert_eq!(test.at(BEN).lock(LockSpec { block: true, ..bytes(0, 9) }), Status::BLOCKED);
    let later = (crate::limits::LOCK_WAIT_S + 1) * 1_000_000_000;
    test.clock.store(later, Ordering::SeqCst);
    test.volume.expire_claims(Nanos(later)).unwrap();
    test.locks().0.process_events();
    assert_eq!(test.at(ANN).unlock(WHOLE), Status::GRANTED);
    test.assert_known_only();
}

#[test]
fn lock_to_read_stays_where_the_rule_still_lets_read() {
    let mut test = LockTest::new();
    test.at(ANN);
    assert_eq!(test.lock(LockSpec { exclusive: false, ..WHOLE }), Status::GRANTED);
    test.serve(vec![to_read()]);
    test.env.service.tick(Default::default);
    test.serve(vec![rule(ALL)]);
    assert_eq!(test.at(BEN).lock(WHOLE), Status::DENIED);
}

#[test]
fn volume_that_closes_makes_clients_wait_and_ends_their_locks() {
    let mut test = LockTest::new();
    test.at(ANN);
    assert_eq!(test.lock(bytes(0, 10)), Status::GRANTED);
    assert_eq!(test.deny(ShareMode::DENY_WRITE), Status::GRANTED);
    let placeholder = Export::new("/v", Arc::new(placeholder(&test.volume)), vec![rule(ALL)]);
    test.env.service.namespace.store(Arc::new(Namespace::new([placeholder])));
    assert_eq!(test.lock(bytes(20, 10)), Status::DENIED_GRACE_PERIOD, "the client repeats it");
    test.env.service.tick(Default::default);
    assert!(test.volume.claims().is_empty());
    test.serve(vec![rule(ALL)]);
    assert_eq!(test.at(BEN).lock(bytes(0, 10)), Status::GRANTED);
}

fn placeholder(volume: &Volume) -> Volume {
    Volume::placeholder(volume.id(), volume.name(), volume.durability(), 1)
}
