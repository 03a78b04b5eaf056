//! Opens from before a restart.

use super::*;
use std::sync::Arc;

fn link() -> Link {
    Link { parent: key(9), name: Box::from(&b"name"[..]), listing: None }
}

fn alone() -> Access {
    Access { rights: Rights::READ | Rights::WRITE, deny: Rights::READ | Rights::WRITE }
}

/// An open that waits for its client for a minute.
fn restoring(holder: u64, access: Access) -> RestoreRequest {
    RestoreRequest {
        holder: HolderId(holder),
        stream: Stream::default(),
        access,
        durable: Durable { until: Nanos(60 * SECOND), is_persistent: true },
        ranges: Vec::new(),
        delete_on_close: None,
        deletion: None,
    }
}

impl Rig {
    fn restore(&mut self, request: RestoreRequest) -> OpenId {
        self.granted(&Request::Restore(request)).open.unwrap()
    }

    fn recache(&mut self, open: OpenId, key: u128, want: &str) -> Granted {
        self.granted(&Request::Recache { open, lease: shared(key, want).unwrap() })
    }
}

#[test]
fn restored_claim_lasts_until_its_deadline() {
    let mut rig = Rig::new();
    let span = Span::clamped(0, 9);
    let open = rig.restore(RestoreRequest { ranges: vec![(span, true)], ..restoring(1, alone()) });
    assert_eq!(rig.refused(&Request::Open(opening(2, read_write()))), Conflict::Absent);
    assert_eq!(rig.table.ranges_with(&key(1), open), [(span, true)]);
    let back = rig.granted(&Request::Reconnect { open, holder: HolderId(3) });
    assert_eq!(back.open, Some(open));
    assert_eq!(rig.refused(&Request::Open(opening(2, read_write()))), Conflict::Share);
    let owner = LockOwner { holder: HolderId(3), owner: open.0 };
    let unlock =
        Request::Unlock { owner, stream: Stream::default(), span, enforced: true, is_exclusive: None };
    rig.granted(&unlock);
    assert_eq!(rig.refused(&unlock), Conflict::NotHeld);
    rig.granted(&Request::Close(open));
    assert!(rig.table.is_empty());
    let open = rig.restore(restoring(1, alone()));
    rig.pass(60);
    assert_eq!(rig.refused(&Request::Reconnect { open, holder: HolderId(3) }), Conflict::NotHeld);
    assert!(rig.table.is_empty());
}

#[test]
fn connected_holder_conflicts_with_a_restored_claim() {
    let mut rig = Rig::new();
    rig.restore(restoring(1, Access { rights: Rights::READ, deny: Rights::WRITE }));
    rig.open(opening(2, Access { rights: Rights::READ, deny: Rights::WRITE }));
    assert_eq!(rig.refused(&Request::Open(opening(3, read_write()))), Conflict::Share);
}

#[test]
fn no_cache_comes_back_beside_another_that_it_breaks() {
    let mut rig = Rig::new();
    let [first, second] = [1, 2].map(|holder| rig.restore(restoring(holder, read_write())));
    assert_eq!(rig.recache(first, 7, "RWH").caching, caching("RH"));
    assert_eq!(rig.recache(second, 8, "RWH").caching, caching("RH"));
    let mut rig = Rig::new();
    let open = rig.restore(restoring(1, read_write()));
    assert_eq!(rig.recache(open, 7, "RWH").caching, caching("RWH"));
    assert_eq!(
        rig.refused(&Request::Recache { open: OpenId(99), lease: shared(7, "R").unwrap() }),
        Conflict::NotHeld
    );
}

#[test]
fn disconnected_holder_receives_the_break_on_reconnect() {
    let mut rig = Rig::new();
    let open = rig.restore(restoring(1, read_write()));
    rig.recache(open, 7, "RWH");
    let ticket = rig.waits(&Request::Open(opening(2, read_write())));
    rig.take();
    let back = rig.granted(&Request::Reconnect { open, holder: HolderId(3) });
    assert!(back.is_breaking && back.caching == caching("RWH"));
    assert_eq!(rig.recalls(), [(HolderId(3), caching("RWH"), caching("RH"), true)]);
    rig.acknowledge(shared_key(7), caching("RH"));
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    // Who does not come is not waited for longer than others, and keeps its open.
    let mut rig = Rig::new();
    let open = rig.restore(restoring(1, read_write()));
    rig.recache(open, 7, "RWH");
    let ticket = rig.waits(&Request::Open(opening(2, read_write())));
    rig.take();
    rig.pass(36);
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    assert_eq!(rig.granted(&Request::Reconnect { open, holder: HolderId(3) }).caching, Caching::NONE);
}

#[test]
fn restored_delete_on_close_removes_the_file() {
    let mut rig = Rig::new();
    let removed = Effect::Remove { file: key(1), stream: Stream::default(), link: link() };
    let open = rig.restore(RestoreRequest { deletion: Some(link()), ..restoring(1, read_write()) });
    assert_eq!(rig.refused(&Request::Open(opening(2, read_write()))), Conflict::DeletePending);
    rig.granted(&Request::Close(open));
    assert_eq!(rig.take(), std::slice::from_ref(&removed));
    rig.removed(0);
    rig.restore(RestoreRequest { delete_on_close: Some(link()), ..restoring(1, read_write()) });
    let other = rig.open(OpenRequest { is_mandatory: true, ..opening(2, read_write()) });
    rig.granted(&Request::Close(other));
    rig.take();
    rig.pass(60);
    assert!(rig.take().contains(&removed), "it goes with the open that nobody came back for");
}

#[test]
fn restore_succeeds_without_grace() {
    for grace in [Grace::default(), Grace::new(Nanos(9 * SECOND), [RecordId(1)])] {
        let claims = Claims::new(Timeouts::default(), grace);
        let holder = claims.attach(Arc::new(Deaf));
        let request = Request::Restore(restoring(holder.0, alone()));
        assert!(matches!(claims.request(Nanos(SECOND), &key(1), &request), Verdict::Granted(_)));
    }
}

struct Deaf;

impl Holder for Deaf {
    fn deliver(&self, _: Effect) {}
}
