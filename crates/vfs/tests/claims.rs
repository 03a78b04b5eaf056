//! Operations on files against the claims of others: callers without state meet share modes, ranges and leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfs::claims::{
    Access as Open, Caching, Conflict, Durable, Effect, Grace, Granted, Holder, HolderId, LeaseKey,
    LeaseKind, LeaseRequest, Link, LockOwner, LockRequest, OpenId, OpenRequest, Queueing, RecordId, Request,
    Requester, RevokedClaim, Rights, Span, Stream, Verdict,
};
use vfs::qos::Nanos;
use vfs::sync::Mutex;
use vfs::{
    Blocking, Caller, Durability, Export, ExportRule, File, FsError, FsResult, OpenFile, PendingSync,
    SetAttrs, Stability, Time, Volume, VolumeId, Wait,
};
use vfs_testing::MemFs;

const ALLOWED: Blocking = Blocking::Allowed;

/// A client of a protocol with state, which records its effects.
#[derive(Default)]
struct Client(Mutex<Vec<Effect>>);

impl Holder for Client {
    fn deliver(&self, effect: Effect) {
        self.0.lock().push(effect);
    }
}

struct World {
    volume: Arc<Volume>,
    top: File,
    file: File,
    client: Arc<Client>,
    holder: HolderId,
    pending: PendingSync,
}

fn root() -> Caller {
    Caller::new(0, 0, [])
}

fn nobody() -> Caller {
    Caller::new(9999, 9999, [])
}

impl World {
    fn new() -> Self {
        let fs = MemFs::new(Arc::new(Time::default));
        let volume = Arc::new(Volume::new(VolumeId(1), "v", Arc::new(fs), Durability::Sync, 1));
        let top = Arc::new(Export::new("/v", Arc::clone(&volume), vec![ExportRule::everybody()])).root();
        let mut pending = PendingSync::default();
        let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
        let how = vfs::Disposition::CreateNew;
        let file = top.create(&root(), b"file", how, &set, &mut pending).unwrap().file;
        let write = file.authorize_write(&root()).unwrap().into_owned();
        write.write(0, b"0123456789", Stability::Unstable, &mut pending).unwrap();
        let client = Arc::new(Client::default());
        let holder = volume.claims().attach(Arc::clone(&client) as Arc<dyn Holder>);
        Self { volume, top, file, client, holder, pending }
    }

    fn apply(&self, file: &File, request: &Request) -> Verdict {
        let (verdict, effects) = self.volume.claims().apply(self.volume.now(), &file.key(), request);
        assert!(self.volume.claims().deliver_effects(effects).is_empty());
        verdict
    }

    fn open(&self, file: &File, access: Open, lease: Option<LeaseRequest>) -> OpenId {
        let request = OpenRequest {
            holder: self.holder,
            stream: Stream::default(),
            access,
            truncates: false,
            is_mandatory: false,
            is_advisory: false,
            lease,
            reclaims: false,
            waits: false,
        };
        match self.apply(file, &Request::Open(request)) {
            Verdict::Granted(granted) => granted.open.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// A lease of these rights, and its key.
    fn lease(&self, file: &File, want: Caching) -> (OpenId, LeaseKey) {
        let kind = LeaseKind::Shared { client: 7, key: 1 };
        let access = Open { rights: Rights::READ, deny: Rights::NONE };
        let open = self.open(file, access, Some(LeaseRequest { kind, want, answers_within: None, epoch: 0 }));
        (open, LeaseKey::Shared { client: 7, key: 1 })
    }

    fn read(&self, by: Requester) -> FsResult<usize> {
        let caller = root();
        let (opened, _) = self.file.authorize_read(&caller, ALLOWED)?;
        opened.with_claim(by).read(0, 10, &mut Vec::new(), ALLOWED)
    }

    fn write(&mut self, caller: &Caller, offset: u64, by: Requester) -> FsResult<()> {
        let opened = self.file.authorize_write(caller)?.with_claim(by);
        opened.write(offset, b"ab", Stability::Unstable, &mut self.pending).map(drop)
    }

    fn recalls(&self) -> Vec<(Caching, Caching)> {
        let effects = std::mem::take(&mut *self.client.0.lock());
        let recall = |effect| match effect {
            Effect::Recall { from, to, .. } => (from, to),
            other => panic!("{other:?}"),
        };
        effects.into_iter().map(recall).collect()
    }

    fn give_up(&self, file: &File, key: LeaseKey, keeps: Caching) {
        let request = Request::Acknowledge { key, stream: Stream::default(), keeps };
        assert!(matches!(self.apply(file, &request), Verdict::Granted(_)));
    }
}

#[test]
fn share_modes_bind_those_who_open_nothing() {
    let mut w = World::new();
    assert_eq!(w.write(&root(), 0, Requester::Anonymous), Ok(()));
    let access = Open { rights: Rights::READ | Rights::WRITE, deny: Rights::WRITE };
    let open = w.open(&w.file, access, None);
    assert_eq!(w.read(Requester::Anonymous), Ok(10));
    assert_eq!(w.write(&root(), 0, Requester::Anonymous), Err(FsError::Locked));
    assert_eq!(w.write(&root(), 0, Requester::Open(open)), Ok(()), "not in its own way");
    let opened = w.file.authorize_write(&root()).unwrap().into_owned();
    assert_eq!(opened.reserve(0, 10).err(), Some(FsError::Locked));
    assert_eq!(
        opened.deallocate(0, 2, Stability::Unstable, &mut w.pending).err(),
        Some(FsError::Locked),
        "holes are writes"
    );
    let set = |size, mode| SetAttrs { size, mode, ..SetAttrs::default() };
    let mut setattr = |set: &SetAttrs| w.file.set_attrs(&root(), set, None, &mut w.pending).map(drop);
    assert_eq!(setattr(&set(Some(3), None)), Err(FsError::Locked), "a new size is a write");
    assert_eq!(setattr(&set(None, Some(0o600))), Ok(()));
    let create =
        w.top.create(&root(), b"file", vfs::Disposition::OpenOrCreate, &set(Some(0), None), &mut w.pending);
    assert_eq!(create.err(), Some(FsError::Locked), "so is the creation that truncates");
    assert!(matches!(w.apply(&w.file.clone(), &Request::Close(open)), Verdict::Granted(_)));
    assert_eq!(w.write(&root(), 0, Requester::Anonymous), Ok(()));
    assert_eq!(w.read(Requester::Anonymous), Ok(10), "nothing was lost meanwhile");
}

#[test]
fn ranges_that_are_enforced_bind_everybody_s_bytes_and_no_others() {
    let mut w = World::new();
    let open = w.open(&w.file, Open { rights: Rights::READ, deny: Rights::NONE }, None);
    let lock = LockRequest {
        owner: LockOwner { holder: w.holder, owner: 1 },
        open: Some(open),
        stream: Stream::default(),
        span: Span::new(4, 4).unwrap(),
        is_exclusive: true,
        is_enforced: true,
        reclaims: false,
        queueing: Queueing::Never,
    };
    assert!(matches!(w.apply(&w.file, &Request::Lock(lock)), Verdict::Granted(_)));
    assert_eq!(w.read(Requester::Anonymous), Err(FsError::Locked));
    assert_eq!(w.write(&root(), 6, Requester::Anonymous), Err(FsError::Locked));
    assert_eq!(w.write(&root(), 8, Requester::Anonymous), Ok(()));
    assert_eq!(w.read(Requester::Open(open)), Ok(10));
}

#[test]
fn caches_are_recalled_before_data_is_read_or_changed() {
    let mut w = World::new();
    let all = Caching::READ | Caching::WRITE | Caching::HANDLE;
    let (_, key) = w.lease(&w.file, all);
    assert_eq!(w.write(&nobody(), 0, Requester::Anonymous), Err(FsError::Access));
    assert_eq!(w.recalls(), [], "who may not write disturbs nobody");
    assert_eq!(
        w.read(Requester::Anonymous),
        Err(FsError::Wait(Wait::Recall)),
        "what is read may not be written yet"
    );
    assert_eq!(w.recalls(), [(all, Caching::READ | Caching::HANDLE)]);
    assert_eq!(w.read(Requester::Anonymous), Err(FsError::Wait(Wait::Recall)), "until it is acknowledged");
    assert_eq!(w.recalls(), []);
    w.give_up(&w.file, key, Caching::READ | Caching::HANDLE);
    assert_eq!(w.read(Requester::Anonymous), Ok(10));
    assert_eq!(
        w.write(&root(), 0, Requester::Anonymous),
        Err(FsError::Wait(Wait::Recall)),
        "a handle is given up by an answer"
    );
    assert_eq!(w.recalls(), [(Caching::READ | Caching::HANDLE, Caching::NONE)]);
    w.give_up(&w.file, key, Caching::NONE);
    assert_eq!(w.write(&root(), 0, Requester::Anonymous), Ok(()));
    let (_, key) = w.lease(&w.file, Caching::READ);
    assert_eq!(
        w.write(&root(), 0, Requester::Anonymous),
        Ok(()),
        "who only reads is told, and not waited for"
    );
    assert_eq!(w.recalls(), [(Caching::READ, Caching::NONE)]);
    assert_eq!(key, LeaseKey::Shared { client: 7, key: 1 });
}

#[test]
fn a_copy_that_is_refused_disturbs_nobody() {
    let mut w = World::new();
    let all = Caching::READ | Caching::WRITE;
    w.lease(&w.file, all);
    let caller = root();
    let how = vfs::Disposition::CreateNew;
    let other = w.top.create(&caller, b"other", how, &SetAttrs::default(), &mut w.pending).unwrap().file;
    let (source, _) = w.file.authorize_read(&caller, ALLOWED).unwrap();
    let (target, _) = other.open(&caller, vfs::acl::access::Access::READ, ALLOWED).unwrap();
    let span = vfs::Span { source: 0, target: 0, len: 10 };
    let mut copy = |target: &OpenFile<'_>| {
        source.copy_to(target, &span, Stability::Unstable, &mut w.pending).map(|(bytes, _)| bytes)
    };
    assert_eq!(copy(&target), Err(FsError::Access));
    let writable = other.authorize_write(&caller).unwrap();
    let recalls = w.client.0.lock().len();
    assert_eq!((recalls, copy(&writable)), (0, Err(FsError::Wait(Wait::Recall))));
    assert_eq!(w.recalls(), [(all, Caching::READ)]);
}

#[test]
fn a_name_goes_when_nobody_keeps_its_file_open_for_later() {
    let mut w = World::new();
    let all = Caching::READ | Caching::HANDLE;
    let (open, key) = w.lease(&w.file, all);
    assert_eq!(w.top.remove(&nobody(), b"file", &mut w.pending).err(), Some(FsError::Access));
    assert_eq!(w.recalls(), [], "who may not remove disturbs nobody");
    let remove = |w: &mut World| w.top.remove(&root(), b"file", &mut w.pending).map(drop);
    assert_eq!(remove(&mut w), Err(FsError::Wait(Wait::Recall)));
    assert_eq!(w.recalls(), [(all, Caching::READ)]);
    let rename = w.top.rename(&root(), b"file", &w.top, b"other", &mut w.pending).map(drop);
    assert_eq!(rename, Err(FsError::Wait(Wait::Recall)));
    let link = w.top.link(&root(), &w.file, b"other", &mut w.pending).map(drop);
    assert_eq!(link, Err(FsError::Wait(Wait::Recall)));
    w.give_up(&w.file, key, Caching::READ);
    assert_eq!(remove(&mut w), Ok(()));
    assert!(matches!(w.apply(&w.file.clone(), &Request::Close(open)), Verdict::Granted(_)));
    assert_eq!(w.top.remove(&root(), b"file", &mut w.pending).err(), Some(FsError::NotFound));
}

#[test]
fn a_listing_that_is_kept_ends_when_names_change() {
    let mut w = World::new();
    let (.., key) = w.lease(&w.top, Caching::READ);
    let set = SetAttrs::default();
    let how = vfs::Disposition::CreateNew;
    assert!(w.top.create(&root(), b"new", how, &set, &mut w.pending).is_ok());
    assert_eq!(w.recalls(), [(Caching::READ, Caching::NONE)]);
    assert!(w.top.make_dir(&root(), b"dir", &set, &mut w.pending).is_ok(), "nobody is waited for");
    assert_eq!(w.recalls(), []);
    assert_eq!(key, LeaseKey::Shared { client: 7, key: 1 });
}

#[test]
fn passing_the_changes_of_a_file_changes_nothing_of_it() {
    let w = World::new();
    let before = w.file.attrs(ALLOWED).unwrap();
    let after = w.file.pass_changes().unwrap();
    assert_eq!((after.size, after.changed, after.mode), (before.size, before.changed, before.mode));
    assert!(w.top.pass_changes().is_ok(), "a directory as well");
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn unanswered_recall_is_enforced_without_another_request() {
    let w = World::new();
    assert_eq!(w.volume.expire_claims(Nanos(u64::MAX)), Ok(()), "of what was never held");
    let all = Caching::READ | Caching::WRITE | Caching::HANDLE;
    let (_, key) = w.lease(&w.file, all);
    assert_eq!(w.read(Requester::Anonymous), Err(FsError::Wait(Wait::Recall)));
    assert_eq!(w.recalls(), [(all, Caching::READ | Caching::HANDLE)]);
    assert_eq!(w.volume.expire_claims(Nanos(35 * SECOND - 1)), Ok(()));
    assert_eq!(w.client.0.lock().len(), 0, "there is time left");
    assert_eq!(w.volume.expire_claims(Nanos(35 * SECOND)), Ok(()));
    let told = std::mem::take(&mut *w.client.0.lock());
    assert!(
        matches!(&told[..], [Effect::Revoked { what: RevokedClaim::Lease(lost), .. }] if *lost == key),
        "{told:?}"
    );
    assert_eq!(w.read(Requester::Anonymous), Ok(10));
    assert_eq!(w.volume.claims().next_deadline(), None);
}

#[test]
fn a_file_goes_with_an_open_whose_time_is_over_and_nothing_that_has_its_name_by_then() {
    for is_replaced in [false, true] {
        let mut w = World::new();
        let access = Open { rights: Rights::DELETE, deny: Rights::NONE };
        let open = w.open(&w.file, access, None);
        let link = Some(Link { parent: w.top.key(), name: (*b"file").into(), listing: None });
        let requests = [
            Request::SetDelete { open, link, waits: false },
            Request::Disconnect { open, durable: Durable { until: Nanos(SECOND), is_persistent: true } },
        ];
        for request in requests {
            assert!(matches!(w.apply(&w.file, &request), Verdict::Granted(_)), "{request:?}");
        }
        if is_replaced {
            w.top.rename(&root(), b"file", &w.top, b"moved", &mut w.pending).unwrap();
            let how = vfs::Disposition::CreateNew;
            w.top.create(&root(), b"file", how, &SetAttrs::default(), &mut w.pending).unwrap();
        }
        let has_name = |w: &World| {
            let (caller, name) = (root(), b"file");
            w.top.open_dir(&caller, ALLOWED).unwrap().lookup(name, ALLOWED).is_ok()
        };
        assert!(has_name(&w));
        assert_eq!(w.volume.expire_claims(Nanos(SECOND)), Ok(()));
        assert_eq!(has_name(&w), is_replaced);
    }
}

#[test]
fn nobody_opens_a_file_that_is_about_to_go() {
    let w = World::new();
    let access = Open { rights: Rights::DELETE, deny: Rights::NONE };
    let request = OpenRequest {
        holder: w.holder,
        stream: Stream::default(),
        access,
        truncates: false,
        is_mandatory: false,
        is_advisory: false,
        lease: None,
        reclaims: false,
        waits: false,
    };
    let link = Link { parent: w.top.key(), name: (*b"file").into(), listing: None };
    let opened = w.file.claim(&Request::Open(request.clone()));
    let Verdict::Granted(Granted { open: Some(open), .. }) = opened else { panic!("{opened:?}") };
    for request in [Request::DeleteOnClose { open, link }, Request::Close(open)] {
        assert!(matches!(w.file.claim(&request), Verdict::Granted(_)), "{request:?}");
    }
    // It was closed, and nobody has come to remove it yet.
    let again = w.file.claim(&Request::Open(request));
    assert_eq!(again, Verdict::Refused(Conflict::DeletePending));
    assert_eq!(w.volume.expire_claims(w.volume.now()), Ok(()));
    assert!(w.volume.claims().is_empty());
    assert!(w.top.open_dir(&root(), ALLOWED).unwrap().lookup(b"file", ALLOWED).is_err());
}

/// The write would be acknowledged, and lost with the close of another open.
#[test]
fn a_file_that_others_delete_by_closing_it_is_changed_through_opens_alone() {
    let link = |w: &World| Link { parent: w.top.key(), name: (*b"file").into(), listing: None };
    let marks: [fn(OpenId, Link) -> Request; 2] = [
        |open, link| Request::DeleteOnClose { open, link },
        |open, link| Request::SetDelete { open, link: Some(link), waits: false },
    ];
    for mark in marks {
        let mut w = World::new();
        let open = w.open(&w.file, Open { rights: Rights::DELETE, deny: Rights::NONE }, None);
        let before = w.file.authorize_write(&root()).unwrap().into_owned();
        assert!(matches!(w.file.claim(&mark(open, link(&w))), Verdict::Granted(_)));
        let pending = Err(FsError::DeletePending);
        assert_eq!(w.write(&root(), 0, Requester::Anonymous), pending);
        let written = before.write(0, b"ab", Stability::Unstable, &mut w.pending).map(drop);
        assert_eq!(written, pending, "also by who has looked at it before");
        let size = |size| SetAttrs { size, ..SetAttrs::default() };
        let mode = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
        for set in [size(Some(3)), mode] {
            assert_eq!(w.file.set_attrs(&root(), &set, None, &mut w.pending).map(drop), pending);
        }
        let once = vfs::Disposition::CreateOnce(vfs::ExclusiveKey::new([1; 8]));
        for (how, set) in [
            (vfs::Disposition::OpenOrCreate, size(None)),
            (vfs::Disposition::OpenOrCreate, size(Some(0))),
            (once, size(None)),
        ] {
            assert_eq!(
                w.top.create(&root(), b"file", how, &set, &mut w.pending).map(drop),
                pending,
                "{how:?}"
            );
        }
        let how = vfs::Disposition::CreateNew;
        let new = w.top.create(&root(), b"file", how, &size(None), &mut w.pending);
        assert_eq!(new.map(drop), Err(FsError::Exists));
        // Those who share the deletion, and reading, go on.
        assert_eq!(w.read(Requester::Anonymous), Ok(10));
        assert_eq!(w.write(&root(), 0, Requester::Open(open)), Ok(()));
        assert_eq!(w.write(&root(), 0, Requester::Holder(w.holder)), Ok(()));
        // Another name keeps what it is given to, and what replaces the file stays.
        w.top.link(&root(), &w.file, b"kept", &mut w.pending).unwrap();
        w.file.claim(&Request::Close(open));
        assert_eq!(w.volume.remove_closed(&w.file.key()), Ok(()));
        let dir = w.top.open_dir(&root(), ALLOWED).unwrap();
        assert!(dir.lookup(b"file", ALLOWED).is_err() && dir.lookup(b"kept", ALLOWED).is_ok());
        assert_eq!(w.write(&root(), 0, Requester::Anonymous), Ok(()), "nobody deletes it any more");
    }
}

#[test]
fn a_deletion_that_is_withdrawn_binds_nobody() {
    let mut w = World::new();
    let open = w.open(&w.file, Open { rights: Rights::DELETE, deny: Rights::NONE }, None);
    let link = Link { parent: w.top.key(), name: (*b"file").into(), listing: None };
    for (link, written) in [(Some(link), Err(FsError::DeletePending)), (None, Ok(()))] {
        w.file.claim(&Request::SetDelete { open, link, waits: false });
        assert_eq!(w.write(&root(), 0, Requester::Anonymous), written);
    }
}

/// Data that is written through an open would be lost when others close the file. Clients with mandatory ranges know that.
#[test]
fn file_pending_delete_is_opened_for_writing_by_mandatory_lockers_only() {
    let w = World::new();
    let open = w.open(&w.file, Open { rights: Rights::DELETE, deny: Rights::NONE }, None);
    let link = Link { parent: w.top.key(), name: (*b"file").into(), listing: None };
    w.file.claim(&Request::DeleteOnClose { open, link });
    let opened = |rights, is_mandatory| {
        let request = OpenRequest {
            holder: w.holder,
            stream: Stream::default(),
            access: Open { rights, deny: Rights::NONE },
            truncates: false,
            is_mandatory,
            is_advisory: false,
            lease: None,
            reclaims: false,
            waits: false,
        };
        matches!(w.file.claim(&Request::Open(request)), Verdict::Granted(_))
    };
    assert!(!opened(Rights::WRITE, false) && !opened(Rights::READ | Rights::WRITE, false));
    assert!(opened(Rights::READ, false) && opened(Rights::WRITE, true));
}

#[test]
fn close_of_a_deleted_file_waits_for_the_removing_thread() {
    let mut w = World::new();
    let claims = w.volume.claims();
    let open = w.open(&w.file, Open { rights: Rights::DELETE, deny: Rights::NONE }, None);
    assert_eq!(w.volume.remove_closed(&w.file.key()), Ok(()), "it is not to go");
    let link = Link { parent: w.top.key(), name: (*b"file").into(), listing: None };
    assert!(matches!(w.file.claim(&Request::DeleteOnClose { open, link }), Verdict::Granted(_)));
    assert!(claims.has_deletions());
    assert_eq!(w.volume.remove_closed(&w.file.key()), Ok(()), "it is open");
    // Another thread has taken the name, and is on its way.
    let (closed, effects) = claims.apply(w.volume.now(), &w.file.key(), &Request::Close(open));
    assert!(matches!((closed, &effects[..]), (Verdict::Granted(_), [Effect::Remove { .. }])));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            assert_eq!(w.volume.remove_closed(&w.file.key()), Ok(()));
            is_over.load(Ordering::SeqCst)
        });
        std::thread::sleep(Duration::from_millis(50));
        w.top.remove(&root(), b"file", &mut w.pending).unwrap();
        is_over.store(true, Ordering::SeqCst);
        claims.removed(w.volume.now(), &w.file.key(), Stream::default());
        assert!(waiting.join().unwrap(), "it has not waited");
    });
    assert!(!claims.has_deletions() && claims.is_empty());
}

#[test]
fn a_file_that_is_moved_goes_by_its_new_name() {
    let mut w = World::new();
    let dir = w.top.make_dir(&root(), b"dir", &SetAttrs::default(), &mut w.pending).unwrap().file;
    let open = w.open(&w.file, Open { rights: Rights::DELETE, deny: Rights::NONE }, None);
    let link = Link { parent: w.top.key(), name: (*b"file").into(), listing: None };
    assert!(matches!(w.file.claim(&Request::DeleteOnClose { open, link }), Verdict::Granted(_)));
    w.top.link(&root(), &w.file, b"second", &mut w.pending).unwrap();
    w.top.rename(&root(), b"file", &w.top, b"second", &mut w.pending).unwrap();
    w.top.rename(&root(), b"file", &dir, b"moved", &mut w.pending).unwrap();
    assert!(matches!(w.file.claim(&Request::Close(open)), Verdict::Granted(_)));
    assert_eq!(w.volume.remove_closed(&w.file.key()), Ok(()));
    let has = |dir: &File, name| dir.open_dir(&root(), ALLOWED).unwrap().lookup(name, ALLOWED).is_ok();
    assert!(!has(&dir, b"moved") && has(&w.top, b"second"), "two names of one file both stay");
}

#[test]
fn a_directory_that_is_not_empty_after_all_can_be_opened_again() {
    let mut w = World::new();
    let pending = &mut w.pending;
    let dir = w.top.make_dir(&root(), b"dir", &SetAttrs::default(), pending).unwrap().file;
    dir.create(&root(), b"in it", vfs::Disposition::CreateNew, &SetAttrs::default(), pending).unwrap();
    let open = w.open(&dir, Open { rights: Rights::DELETE, deny: Rights::NONE }, None);
    let link = Some(Link { parent: w.top.key(), name: (*b"dir").into(), listing: None });
    for request in [Request::SetDelete { open, link, waits: false }, Request::Close(open)] {
        assert!(matches!(dir.claim(&request), Verdict::Granted(_)), "{request:?}");
    }
    assert_eq!(w.volume.expire_claims(w.volume.now()), Err(FsError::NotEmpty));
    w.open(&dir, Open { rights: Rights::READ, deny: Rights::NONE }, None);
}

#[test]
fn a_volume_that_was_there_before_a_restart_takes_only_old_claims_for_a_while() {
    let fs = MemFs::new(Arc::new(Time::default));
    let volume =
        |grace| Volume::new(VolumeId(1), "v", Arc::new(fs.clone()), Durability::Sync, 1).with_grace(grace);
    let grace = Grace::new(Nanos(45 * SECOND), [RecordId(1)]);
    let before = volume(grace.clone());
    assert!(before.claims().is_in_grace());
    assert_eq!(before.expire_claims(Nanos(45 * SECOND - 1)), Ok(()));
    assert!(before.claims().is_in_grace());
    assert_eq!(before.expire_claims(Nanos(45 * SECOND)), Ok(()));
    assert!(!before.claims().is_in_grace());
    assert!(!volume(grace).claims().is_in_grace(), "it was that of all volumes");
}

#[test]
fn shared_lock_needs_read_and_exclusive_lock_needs_write() {
    let w = World::new();
    let lock = |caller: &Caller, is_exclusive| w.file.authorize_lock(caller, is_exclusive, ALLOWED);
    assert_eq!([lock(&root(), true), lock(&root(), false)], [Ok(()), Ok(())]);
    assert_eq!([lock(&nobody(), true), lock(&nobody(), false)], [Err(FsError::Access), Ok(())]);
    let mut read_only = root();
    read_only.read_only = true;
    assert_eq!([lock(&read_only, true), lock(&read_only, false)], [Err(FsError::ReadOnly), Ok(())]);
    assert_eq!(w.top.authorize_lock(&root(), false, ALLOWED), Err(FsError::IsDirectory));
}

#[test]
fn a_caller_known_as_a_holder_recalls_the_delegations_of_others_alone() {
    let mut w = World::new();
    let access = Open { rights: Rights::READ, deny: Rights::NONE };
    let want = Caching::READ | Caching::HANDLE;
    let delegation = LeaseRequest { kind: LeaseKind::Delegation, want, answers_within: None, epoch: 0 };
    w.open(&w.file.clone(), access, Some(delegation));
    let key = LeaseKey::Delegation(w.holder);
    let mut own = root();
    own.by = Requester::Holder(w.holder);
    let mode = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
    type Change = fn(&mut World, &Caller, &SetAttrs) -> FsResult<()>;
    let changes: [(&str, Change); 5] = [
        ("SETATTR", |w, caller, set| w.file.set_attrs(caller, set, None, &mut w.pending).map(drop)),
        ("an attribute", |w, caller, _| {
            let how = vfs::SetXattr::Either;
            w.file.set_xattr(caller, b"name", b"value", how, &mut w.pending).map(drop)
        }),
        ("WRITE", |w, caller, _| {
            let opened = w.file.authorize_write(caller)?;
            opened.write(0, b"x", Stability::Unstable, &mut w.pending).map(drop)
        }),
        ("LINK", |w, caller, _| {
            w.top.link(caller, &w.file, b"link", &mut w.pending)?;
            w.top.remove(caller, b"link", &mut w.pending).map(drop)
        }),
        ("RENAME", |w, caller, _| {
            w.top.rename(caller, b"file", &w.top, b"other", &mut w.pending)?;
            w.top.rename(caller, b"other", &w.top, b"file", &mut w.pending).map(drop)
        }),
    ];
    for (what, change) in changes {
        assert_eq!(change(&mut w, &own, &mode), Ok(()), "{what}");
        assert_eq!(w.recalls(), [], "{what}");
    }
    for (what, change) in changes {
        assert_eq!(change(&mut w, &root(), &mode), Err(FsError::Wait(Wait::Recall)), "{what}");
        assert_eq!(w.recalls(), [(want, Caching::NONE)], "{what}");
        w.give_up(&w.file.clone(), key, Caching::NONE);
        w.open(&w.file.clone(), access, Some(delegation));
    }
}
