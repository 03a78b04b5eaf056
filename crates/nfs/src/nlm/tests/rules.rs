//! Rules of exports: the locks that they allow, and for how long.

use super::*;
use vfs::Namespace;

impl Office {
    /// Serves the volume by these rules from now on.
    fn serve(&self, rules: Vec<ExportRule>) {
        let export = Export::new("/v", Arc::clone(&self.volume), rules);
        self.desk.service.namespace.store(Arc::new(Namespace::new([export])));
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
    let mut office = Office::new();
    office.serve(vec![to_read()]);
    office.at(ANN);
    for mode in [ShareMode::DENY_READ, ShareMode::DENY_WRITE, ShareMode::DENY_BOTH] {
        assert!(office.deny(mode) != Status::GRANTED, "{mode:?}");
    }
    assert_eq!(office.deny(ShareMode::DENY_NONE), Status::GRANTED);
    office.serve(vec![rule(ALL)]);
    // Another user, who may read.
    office.desk.user = (1001, 101);
    assert!(office.deny(ShareMode::DENY_READ) != Status::GRANTED);
    assert!(office.deny(ShareMode::DENY_BOTH) != Status::GRANTED);
    office.desk.user = (1000, 100);
    assert_eq!(office.at(BEN).deny(ShareMode::DENY_BOTH), Status::DENIED, "Ann reads");
}

#[test]
fn locks_and_shares_end_with_the_rule_that_admits_them() {
    for rules in
        [vec![], vec![to_read()], vec![ExportRule { no_access: true, ..rule(&["10.1.0.9"]) }, rule(ALL)]]
    {
        let mut office = Office::new();
        office.at(ANN);
        assert_eq!(office.lock(bytes(0, 10)), Status::GRANTED);
        assert_eq!(office.deny(ShareMode::DENY_WRITE), Status::GRANTED);
        office.at(BEN);
        assert_eq!(office.lock(Want { exclusive: false, ..bytes(20, 10) }), Status::GRANTED);
        office.at(ANN);
        assert_eq!(office.lock(Want { block: true, ..bytes(20, 10) }), Status::BLOCKED);
        let before = office.desk.service.namespace.load_full();
        office.serve(vec![rule(ALL)]);
        office.desk.service.tick(Default::default);
        assert_eq!(office.at(BEN).lock(bytes(0, 10)), Status::DENIED, "nothing has changed for Ann");
        office.serve(rules.clone());
        office.desk.service.tick(Default::default);
        office.desk.service.namespace.store(before);
        office.at(BEN);
        assert_eq!(office.lock(bytes(0, 10)), Status::GRANTED, "{rules:?}");
        assert_eq!(office.share(Procedure::SHARE, ShareMode::DENY_NONE, ShareAccess::WRITE), Status::GRANTED);
        office.unlock(WHOLE);
        office.share(Procedure::UNSHARE, ShareMode::DENY_NONE, ShareAccess::WRITE);
        office.assert_known_only();
    }
}

#[test]
fn lock_that_is_waited_for_in_vain_leaves_nothing() {
    let mut office = Office::new();
    assert_eq!(office.at(ANN).lock(bytes(0, 9)), Status::GRANTED);
    assert_eq!(office.at(BEN).lock(Want { block: true, ..bytes(0, 9) }), Status::BLOCKED);
    let later = (crate::limits::LOCK_WAIT_S + 1) * 1_000_000_000;
    office.clock.store(later, Ordering::SeqCst);
    office.volume.expire_claims(Nanos(later)).unwrap();
    office.locks().0.process_events();
    assert_eq!(office.at(ANN).unlock(WHOLE), Status::GRANTED);
    office.assert_known_only();
}

#[test]
fn lock_to_read_stays_where_the_rule_still_lets_read() {
    let mut office = Office::new();
    office.at(ANN);
    assert_eq!(office.lock(Want { exclusive: false, ..WHOLE }), Status::GRANTED);
    office.serve(vec![to_read()]);
    office.desk.service.tick(Default::default);
    office.serve(vec![rule(ALL)]);
    assert_eq!(office.at(BEN).lock(WHOLE), Status::DENIED);
}
