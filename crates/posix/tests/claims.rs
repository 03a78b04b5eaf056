//! Guarantees to claim holders on reads of attributes that skip the file's lock.

mod fixture;

use fixture::{Ground, Tree, new_inode};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;
use vfs::claims::{
    Access, Caching, Effect, Holder, LeaseKind, LeaseRequest, OpenRequest, Request, Rights, Stream, Verdict,
};
use vfs::sync::Mutex;
use vfs::{
    Blocking, Caller, Disposition, Durability, Export, ExportRule, File, PendingSync, SetAttrs, Stability,
    Volume, VolumeId,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// A slow holder: each effect is announced, and delivered when the test allows it.
struct Slow {
    effects: SyncSender<Effect>,
    delivered: Mutex<Receiver<()>>,
}

impl Holder for Slow {
    fn deliver(&self, effect: Effect) {
        self.effects.send(effect).unwrap();
        self.delivered.lock().recv_timeout(PATIENCE).unwrap();
    }
}

fn caller() -> Caller {
    let own = new_inode(0);
    Caller::new(own.uid, own.gid, [])
}

fn lease(volume: &Volume, file: &File, holder: Arc<dyn Holder>) {
    let claims = volume.claims();
    let request = OpenRequest {
        holder: claims.attach(holder),
        stream: Stream::default(),
        access: Access { rights: Rights::READ, deny: Rights::NONE },
        truncates: false,
        is_mandatory: false,
        is_advisory: false,
        lease: Some(LeaseRequest {
            kind: LeaseKind::Shared { client: 7, key: 1 },
            want: Caching::READ,
            answers_within: None,
            epoch: 0,
        }),
        reclaims: false,
        waits: false,
    };
    let (verdict, effects) = claims.apply(volume.now(), &file.key(), &Request::Open(request));
    assert!(matches!(verdict, Verdict::Granted(granted) if granted.caching == Caching::READ), "{verdict:?}");
    assert!(effects.is_empty(), "{effects:?}");
}

#[test]
fn new_lease_waits_for_write_under_way() {
    let Some(tree) = Tree::new(Ground::Tmpfs) else { return };
    let store = Arc::clone(&tree.open().store);
    let volume = Arc::new(Volume::new(VolumeId(1), "v", store, Durability::Sync, 1));
    let top = Arc::new(Export::new("/v", Arc::clone(&volume), vec![ExportRule::everybody()])).root();
    let (how, set) = (Disposition::CreateNew, SetAttrs { mode: Some(0o644), ..SetAttrs::default() });
    let file = top.create(&caller(), b"file", how, &set, &mut PendingSync::default()).unwrap().file;
    let (effects, received) = sync_channel(1);
    let (go_on, delivery) = channel();
    lease(&volume, &file, Arc::new(Slow { effects, delivered: Mutex::new(delivery) }));

    let writes = file.clone();
    let writer = thread::spawn(move || {
        let caller = caller();
        let opened = writes.authorize_write(&caller).unwrap();
        opened.write(0, b"0123456789", Stability::Unstable, &mut PendingSync::default()).map(drop)
    });
    let recall = received.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(recall, Effect::Recall { to: Caching::NONE, acknowledge: false, .. }), "{recall:?}");
    assert_eq!(file.attrs(Blocking::Allowed).unwrap().size, 0, "attributes wait for nobody");

    let (passed, passes) = channel();
    let passing = file.clone();
    let passer = thread::spawn(move || passed.send(passing.pass_changes()).unwrap());
    // The write holds the file's lock until then. A longer wait proves no more.
    assert_eq!(passes.recv_timeout(Duration::from_millis(200)), Err(RecvTimeoutError::Timeout));
    go_on.send(()).unwrap();
    assert_eq!(passes.recv_timeout(PATIENCE).unwrap().map(|attrs| attrs.size), Ok(10));
    passer.join().unwrap();
    assert_eq!(writer.join().unwrap(), Ok(()));
}
