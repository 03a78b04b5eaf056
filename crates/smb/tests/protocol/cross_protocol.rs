//! Claims of other protocols on the same files.

use crate::rig::{BOB, Client, Offer, Opening, Rig, SHARE, query, wait_until};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{BasicInformation, SizeInformation};
use smb_wire::create::{CreateAction, CreateDisposition, CreateResponse, ShareAccess};
use smb_wire::header::{Command, Flags};
use smb_wire::info::InfoType;
use smb_wire::session::Empty;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, FileTime, NtStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use vfs::claims::{
    Access, Caching, Effect, Grace, Holder, HolderId, LeaseKey, LeaseKind, LeaseRequest, OpenId, OpenRequest,
    RecordId, Request, Rights, Stream, Verdict,
};
use vfs::qos::Nanos;
use vfs::{Blocking, Caller, ExportRule, File};

/// A holder of another protocol that counts its recalls.
#[derive(Default)]
struct Neighbor(AtomicUsize);

impl Holder for Neighbor {
    fn deliver(&self, _: Effect) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Neighbor {
    fn new(rig: &Rig) -> (Arc<Self>, HolderId) {
        let neighbor = Arc::new(Self::default());
        let id = rig.volume.claims().attach(Arc::clone(&neighbor) as _);
        (neighbor, id)
    }
}

/// The file of this name, below all protocols.
pub(crate) fn find(rig: &Rig, name: &[u8]) -> File {
    let root = rig.namespace.load().exports()[0].root();
    let dir = root.open_dir(&Caller::new(0, 0, []), Blocking::Allowed).unwrap();
    dir.lookup(name, Blocking::Allowed).unwrap().file
}

fn hold(file: &File, holder: HolderId, access: Access, lease: Option<LeaseRequest>) -> Verdict {
    file.claim(&Request::Open(OpenRequest {
        holder,
        stream: Stream::default(),
        access,
        truncates: false,
        is_mandatory: false,
        is_advisory: false,
        lease,
        reclaims: false,
        waits: false,
    }))
}

fn granted(verdict: &Verdict) -> OpenId {
    let Verdict::Granted(granted) = verdict else { panic!("{verdict:?}") };
    granted.open.unwrap()
}

#[test]
fn share_modes_span_protocols() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"data");
    let (file, (_, holder)) = (find(&rig, b"file"), Neighbor::new(&rig));
    let denies_write = Access { rights: Rights::READ, deny: Rights::WRITE };
    let open = granted(&hold(&file, holder, denies_write, None));
    client.create("file", Opening::default()).assert_refused(NtStatus::SHARING_VIOLATION);
    file.claim(&Request::Close(open));
    let alone = Opening { share: ShareAccess::empty(), ..Opening::default() };
    let mine = client.open("file", alone);
    let reads = Access { rights: Rights::READ, deny: Rights::NONE };
    assert!(matches!(hold(&file, holder, reads, None), Verdict::Refused(_)));
    client.close(mine);
    granted(&hold(&file, holder, reads, None));
}

/// Runs a test with a delegation for writing. An open of the file waits for its recall; other requests do not.
fn with_a_delegation(test: impl FnOnce(&Rig, &mut Client, &dyn Fn())) {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"data");
    delegated(&rig, |give_back| test(&rig, &mut client, give_back));
}

/// Runs a test with a delegation of an existing file.
fn delegated(rig: &Rig, test: impl FnOnce(&dyn Fn())) {
    let (file, (neighbor, holder)) = (find(rig, b"file"), Neighbor::new(rig));
    let want = Caching::READ | Caching::WRITE;
    let lease = LeaseRequest { kind: LeaseKind::Delegation, want, answers_within: None, epoch: 0 };
    let access = Access { rights: Rights::READ | Rights::WRITE, deny: Rights::NONE };
    let open = granted(&hold(&file, holder, access, Some(lease)));
    let give_back = || {
        wait_until(|| neighbor.0.load(Ordering::SeqCst) > 0);
        let (key, keeps) = (LeaseKey::Delegation(holder), Caching::NONE);
        file.claim(&Request::Acknowledge { key, stream: Stream::default(), keeps });
        file.claim(&Request::Close(open));
    };
    test(&give_back);
}

/// Every size query waits for remote writes, even through an open for attributes alone.
#[test]
fn size_query_waits_for_write_delegation() {
    with_a_delegation(|_, client, give_back| {
        let wire = crate::rig::name("file");
        let access = AccessMask::READ_ATTRIBUTES;
        let looking = Opening { access, ..Opening::by(CreateDisposition::OPEN) };
        let create = client.request(Command::CREATE, &looking.request(&wire));
        client.send_protected(create);
        assert_eq!(client.reply().status(), NtStatus::PENDING);
        give_back();
        assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    });
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"data");
    let access = AccessMask::READ_ATTRIBUTES;
    let opened = client.open("file", Opening { access, ..Opening::by(CreateDisposition::OPEN) });
    delegated(&rig, |give_back| {
        for class in [FileClass::ACCESS, FileClass::MODE] {
            assert_eq!(client.query(opened, class, 100).status(), NtStatus::SUCCESS, "of no concern");
        }
        let asked = query(InfoType::FILE, opened, FileClass::NETWORK_OPEN.0, 100);
        let asked = client.request(Command::QUERY_INFO, &asked);
        client.send_protected(asked);
        give_back();
        assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    });
}

/// A stream shares the times of its file, so setting them recalls the file's delegation.
#[test]
fn setting_stream_times_recalls_file_delegation() {
    type Act = fn(&mut Client, FileId) -> NtStatus;
    let acts: [Act; 4] = [
        |client, stream| client.write(stream, 0, b"x").status(),
        |client, stream| client.set(stream, FileClass::END_OF_FILE, &SizeInformation { size: 5 }),
        |client, stream| {
            let last_write_time = FileTime(0x01bf_53eb_256d_4000);
            let times = BasicInformation { last_write_time, ..BasicInformation::default() };
            client.set(stream, FileClass::BASIC, &times)
        },
        |client, _| client.create("file:new", Opening::default()).status(),
    ];
    for act in acts {
        let rig = Rig::new();
        let mut client = rig.alice();
        client.put("file", b"data");
        let stream = client.open("file:s", Opening::default());
        delegated(&rig, |give_back| {
            std::thread::scope(|scope| {
                let acting = scope.spawn(|| act(&mut client, stream));
                give_back();
                assert_eq!(acting.join().unwrap(), NtStatus::SUCCESS);
            });
        });
    }
}

/// After a restart, clients may reclaim their state during the grace period.
#[test]
fn open_waits_for_grace_period() {
    let grace = Grace::new(Nanos(1), [RecordId(1)]);
    let rig = Rig::with(ExportRule::everybody(), |volume| volume.with_grace(grace.clone()));
    let mut client = rig.alice();
    let wire = crate::rig::name("file");
    let create = client.request(Command::CREATE, &Opening::by(CreateDisposition::CREATE).request(&wire));
    client.send_protected(create);
    assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
    std::thread::sleep(Duration::from_millis(50));
    let root = rig.namespace.load().exports()[0].root();
    let caller = Caller::new(0, 0, []);
    let dir = root.open_dir(&caller, Blocking::Allowed).unwrap();
    assert!(dir.lookup(b"file", Blocking::Allowed).is_err());
    grace.complete(RecordId(1));
    let reply = client.reply();
    assert_eq!(reply.body::<CreateResponse<'_>>().create_action, CreateAction::CREATED);
}

#[test]
fn open_waits_for_delegation_recall() {
    with_a_delegation(|rig, client, give_back| {
        let wire = crate::rig::name("file");
        let opening = Opening::by(CreateDisposition::OPEN);
        let create = client.request(Command::CREATE, &opening.request(&wire));
        client.send_protected(create);
        let interim = client.reply();
        assert_eq!(interim.status(), NtStatus::PENDING);
        // Its connection and other connections continue.
        assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
        rig.alice().put("other", b"meanwhile");
        give_back();
        let reply = client.reply();
        assert_eq!((reply.header.command, reply.status()), (Command::CREATE, NtStatus::SUCCESS));
        assert_eq!(reply.header.async_id(), interim.header.async_id());
    });
}

#[test]
fn client_lost_while_waiting_leaves_no_open() {
    with_a_delegation(|rig, client, give_back| {
        let mut gone = rig.alice();
        let wire = crate::rig::name("file");
        let alone = Opening { share: ShareAccess::empty(), ..Opening::by(CreateDisposition::OPEN) };
        let create = gone.request(Command::CREATE, &alone.request(&wire));
        gone.send_protected(create);
        assert_eq!(gone.reply().status(), NtStatus::PENDING);
        assert_eq!(gone.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
        drop(gone);
        give_back();
        wait_until(|| rig.connections() == 1);
        wait_until(|| client.action("file", alone).is_ok());
    });
}

/// The reply to an earlier change in the compound is sent as soon as that is durable.
#[test]
fn open_after_change_waits_alone() {
    with_a_delegation(|_, client, give_back| {
        let (made, held) = (crate::rig::name("made"), crate::rig::name("file"));
        let make = client.request(Command::CREATE, &Opening::default().request(&made));
        let open = client.request(Command::CREATE, &Opening::by(CreateDisposition::OPEN).request(&held));
        let statuses: Vec<_> = client.chain(vec![make, open]).iter().map(crate::rig::Reply::status).collect();
        assert_eq!(statuses, [NtStatus::SUCCESS, NtStatus::PENDING]);
        give_back();
        assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    });
}

/// Later commands of the compound wait with it and are answered with it.
#[test]
fn command_after_waiting_open_finds_its_file() {
    with_a_delegation(|_, client, give_back| {
        let held = crate::rig::name("file");
        let open = client.request(Command::CREATE, &Opening::by(CreateDisposition::OPEN).request(&held));
        let header = client.header(Command::READ, 1);
        let related = smb_wire::header::Header { flags: Flags::RELATED_OPERATIONS, ..header };
        let read = crate::rig::message(&related, &crate::rig::read(smb_wire::FileId::PREVIOUS, 0, 4));
        let interim = client.chain(vec![open, read]);
        assert_eq!(interim.iter().map(crate::rig::Reply::status).collect::<Vec<_>>(), [NtStatus::PENDING]);
        give_back();
        let replies = client.replies();
        assert_eq!(replies[0].header.async_id(), interim[0].header.async_id());
        assert_eq!(replies[1].body::<smb_wire::file::ReadResponse<&[u8]>>().data, b"data");
    });
}

/// The limit spans sessions and tree connects.
#[test]
fn opens_per_user_and_file_are_limited() {
    let rig = Rig::new();
    let root = rig.namespace.load().exports()[0].root();
    let of_alice = |_| rig.volume.claims().attach_for(Arc::new(Neighbor::default()), 1000);
    let holders: Vec<HolderId> = (0..4).map(of_alice).collect();
    let access = Access { rights: Rights::READ, deny: Rights::NONE };
    let mut turn = holders.iter().cycle();
    let opens = || hold(&root, *turn.next().unwrap(), access, None);
    assert_eq!(
        std::iter::repeat_with(opens).take_while(|it| matches!(it, Verdict::Granted(_))).count(),
        8192
    );
    let opening = Opening { access: AccessMask::GENERIC_READ, ..Opening::by(CreateDisposition::OPEN) };
    rig.alice().create("", opening).assert_refused(NtStatus::INSUFFICIENT_RESOURCES);
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    bob.open("", opening);
}
