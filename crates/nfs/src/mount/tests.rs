use crate::handle::Handle;
use crate::testing::{NOW, TestEnv, export, rule, words};
use nfs_wire::mount::{
    self as wire, DirPath, ExportNode, FhStatus, GroupNode, MountBody, MountOk, MountReply, Procedure, Status,
};
use nfs_wire::rpc::{Accepted, AuthFlavor, Versions};
use std::sync::Arc;
use vfs::{
    Backend, Blocking, Caller, Durability, Export, ExportRule, File, PendingSync, SetAttrs, Snapshot,
    SnapshotDirectory, Special, Time, ViewId, Volume, VolumeId,
};
use vfs_testing::MemFs;
use xdr::{Encode, List};

const ALICE: (u32, u32) = (1000, 100);
const BOB: (u32, u32) = (1001, 101);

/// `/e` for all clients, `/e/inner` below it, `/lan` for some clients, `/nobody` for none.
fn env() -> TestEnv {
    let exports = [
        export("/e", 1, vec![rule(&[])]),
        export("/e/inner", 2, vec![rule(&[])]),
        export("/lan", 3, vec![rule(&["10.1.0.0/16", "192.168.1.7"]), rule(&["fd00::/8", "10.1.0.0/16"])]),
        export("/nobody", 4, vec![]),
        export("/refused", 5, vec![ExportRule { no_access: true, ..ExportRule::everybody() }]),
    ];
    let env = TestEnv::new(exports, vec![]);
    let top = export_of(&env, 0).root();
    let docs = make_dir(&top, b"docs", 0o755, ALICE);
    make_dir(&docs, b"deep", 0o700, ALICE);
    let private = make_dir(&top, b"private", 0o700, ALICE);
    make_dir(&private, b"inside", 0o777, ALICE);
    make_dir(&top, b"\xff\xfe", 0o755, ALICE);
    make_special(&top, b"link", Special::Symlink(b"docs"));
    make_special(&top, b"fifo", Special::Fifo);
    env
}

fn export_of(env: &TestEnv, place: usize) -> Arc<Export> {
    Arc::clone(&env.service.namespace.load().exports()[place])
}

fn make_dir(dir: &File, name: &[u8], mode: u32, owner: (u32, u32)) -> File {
    let (root, set) = (Caller::new(0, 0, []), SetAttrs { mode: Some(mode), ..SetAttrs::default() });
    let made = dir.make_dir(&root, name, &set, &mut PendingSync::default()).unwrap();
    let owner = SetAttrs { uid: Some(owner.0), gid: Some(owner.1), ..SetAttrs::default() };
    made.file.set_attrs(&root, &owner, None, &mut PendingSync::default()).unwrap();
    made.file
}

fn make_special(dir: &File, name: &[u8], special: Special<'_>) {
    let root = Caller::new(0, 0, []);
    dir.make_special(&root, name, special, &SetAttrs::default(), &mut PendingSync::default()).unwrap();
}

fn ask(env: &TestEnv, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    env.ask(wire::PROGRAM, wire::VERSION, procedure.0, args).unwrap()
}

fn mnt(env: &TestEnv, path: &[u8]) -> Vec<u8> {
    ask(env, Procedure::MNT, &DirPath(path))
}

fn mounted(handle: &Handle) -> Vec<u8> {
    let ok = MountOk { fhandle: handle.bytes(), auth_flavors: vec![AuthFlavor::SYS] };
    MountReply::Ok(ok).to_bytes()
}

fn refused(status: Status) -> Vec<u8> {
    words(&[status.0])
}

fn handle(env: &TestEnv, place: usize, names: &[&[u8]]) -> Handle {
    let (export, root) = (export_of(env, place), Caller::new(0, 0, []));
    let below = |dir: File, name: &&[u8]| {
        dir.open_dir(&root, Blocking::Allowed).unwrap().lookup(name, Blocking::Allowed).unwrap().file
    };
    let file = names.iter().fold(export.root(), below);
    env.service.signer.sign(export.id, &file.key())
}

#[test]
fn mnt_gives_the_root_and_directories_below() {
    let env = env();
    let root = handle(&env, 0, &[]);
    let reply = [words(&[0, u32::try_from(root.bytes().len()).unwrap()]), root.bytes().to_vec()].concat();
    assert!(mnt(&env, b"/e").starts_with(&reply));
    assert_eq!(mnt(&env, b"/e"), mounted(&root));
    assert_eq!(mnt(&env, b"/e/"), mounted(&root));
    assert_eq!(mnt(&env, b"/e/docs"), mounted(&handle(&env, 0, &[b"docs"])));
    assert_eq!(mnt(&env, b"//e/./docs//deep/"), mounted(&handle(&env, 0, &[b"docs", b"deep"])));
    assert_eq!(mnt(&env, b"/e/\xff\xfe"), mounted(&handle(&env, 0, &[b"\xff\xfe"])), "names are bytes");
    assert_eq!(mnt(&env, b"/e/inner"), mounted(&handle(&env, 1, &[])), "the longest export path wins");
    assert_eq!(mnt(&env, b"/e/docs/../inner"), mounted(&handle(&env, 1, &[])));
}

#[test]
fn mnt_says_exactly_why_not() {
    let env = env();
    let long = |length: usize| [b"/e/".as_slice(), &vec![b'x'; length]].concat();
    let cases: &[(&[u8], Status)] = &[
        (b"/", Status::NOENT),
        (b"", Status::NOENT),
        (b"e", Status::NOENT),
        (b"/ex", Status::NOENT),
        (b"/e\xff", Status::NOENT),
        (b"/e/..", Status::NOENT),
        (b"/e/absent", Status::NOENT),
        (b"/e/fifo", Status::NOTDIR),
        (b"/e/fifo/x", Status::NOTDIR),
        (b"/e/link", Status::NOTDIR),
        (b"/e/link/deep", Status::NOTDIR),
        (b"/e/a\0b", Status::INVAL),
        (&long(255), Status::NOENT),
        (&long(256), Status::NAMETOOLONG),
        (&b"/e".repeat(513), Status::NAMETOOLONG),
        (b"/nobody", Status::ACCES),
        (b"/refused", Status::ACCES),
    ];
    for (path, status) in cases {
        assert_eq!(mnt(&env, path), refused(*status), "{}", path.escape_ascii());
    }
    let too_long = vec![b'/'; nfs_wire::v3::PATH_MAX as usize + 1];
    let garbage = env.ask(wire::PROGRAM, wire::VERSION, Procedure::MNT.0, &DirPath(&too_long));
    assert_eq!(garbage, Err(Accepted::GarbageArgs));
    assert_eq!(ask(&env, Procedure::DUMP, &()), words(&[0]), "what is refused is not in the table");
}

#[test]
fn mnt_admits_whom_the_rules_admit() {
    let mut env = env();
    let lan = mounted(&handle(&env, 2, &[]));
    for (peer, admitted) in [
        ("10.1.255.1:1", true),
        ("[::ffff:10.1.0.3]:1", true),
        ("192.168.1.7:1", true),
        ("[fd00::1]:1", true),
        ("10.2.0.1:1", false),
        ("192.168.1.8:1", false),
        ("[fe80::1]:1", false),
    ] {
        env.peer = peer.parse().unwrap();
        let expected = if admitted { lan.clone() } else { refused(Status::ACCES) };
        assert_eq!(mnt(&env, b"/lan"), expected, "{peer}");
        if !admitted {
            assert_eq!(
                mnt(&env, b"/lan/absent"),
                refused(Status::ACCES),
                "nor may {peer} find out what is there"
            );
        }
    }
}

#[test]
fn mnt_walks_as_the_caller() {
    let mut env = env();
    let (private, inside) = (handle(&env, 0, &[b"private"]), handle(&env, 0, &[b"private", b"inside"]));
    for user in [ALICE, BOB, (0, 0)] {
        env.user = user;
        assert_eq!(
            mnt(&env, b"/e/private"),
            mounted(&private),
            "the last directory need not be open to {user:?}"
        );
    }
    env.user = ALICE;
    assert_eq!(mnt(&env, b"/e/private/inside"), mounted(&inside));
    env.user = BOB;
    assert_eq!(mnt(&env, b"/e/private/inside"), refused(Status::ACCES));
    assert_eq!(
        mnt(&env, b"/e/private/absent"),
        refused(Status::ACCES),
        "what he may not see he may not probe"
    );
}

#[test]
fn snapshots_are_mounted_by_path_and_not_listed_as_exports() {
    let fs = MemFs::new(Arc::new(|| NOW));
    let volume = Arc::new(Volume::new(VolumeId(1), "v", Arc::new(fs.clone()), Durability::Sync, 1));
    let mut env = TestEnv::new([Export::new("/e", Arc::clone(&volume), vec![rule(&[])])], vec![]);
    let docs = make_dir(&export_of(&env, 0).root(), b"docs", 0o755, ALICE);
    make_dir(&make_dir(&docs, b"private", 0o700, ALICE), b"inside", 0o777, ALICE);
    let exports = ask(&env, Procedure::EXPORT, &());
    fs.snapshots().unwrap().create(ViewId(1)).unwrap();
    let created = Time { seconds: NOW.seconds + 1, nanos: 0 };
    volume.set_snapshots(vec![Snapshot { view: ViewId(1), name: "one".to_owned(), created }]);
    let snapshot: &[&[u8]] = &[b".snapshot", b"one", b"docs"];
    assert_eq!(mnt(&env, b"/e/.snapshot/one/docs"), mounted(&handle(&env, 0, snapshot)));
    for path in ["/e/.snapshot", "/e/.snapshot/one", "/e/docs/.snapshot/one", "/e/docs/.snapshot/one/private"]
    {
        let names: Vec<&[u8]> = path.split('/').skip(2).map(str::as_bytes).collect();
        assert_eq!(mnt(&env, path.as_bytes()), mounted(&handle(&env, 0, &names)), "{path}");
    }
    for missing in ["/e/.snapshot/two", "/e/.snapshot/one/.snapshot", "/e/.snapshot/one/absent"] {
        assert_eq!(mnt(&env, missing.as_bytes()), refused(Status::NOENT), "{missing}");
    }
    env.user = BOB;
    for closed in ["/e/.snapshot/one/docs/private/inside", "/e/docs/private/.snapshot/one"] {
        assert_eq!(mnt(&env, closed.as_bytes()), refused(Status::ACCES), "{closed}");
    }
    assert_eq!(ask(&env, Procedure::EXPORT, &()), exports);
    volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    assert_eq!(mnt(&env, b"/e/.snapshot/one"), refused(Status::NOENT));
}

#[test]
fn mnt_squashes_root() {
    let rules = vec![ExportRule::everybody()];
    let env = TestEnv::new([export("/e", 1, rules)], vec![]);
    let top = export_of(&env, 0).root();
    let private = make_dir(&top, b"private", 0o700, ALICE);
    make_dir(&private, b"inside", 0o777, ALICE);
    assert_eq!(mnt(&env, b"/e/private"), mounted(&handle(&env, 0, &[b"private"])));
    assert_eq!(mnt(&env, b"/e/private/inside"), refused(Status::ACCES));
}

#[test]
fn dump_lists_what_is_mounted() {
    let mut env = env();
    let dump = |env: &TestEnv| ask(env, Procedure::DUMP, &());
    let line = |hostname: &'static [u8], directory: &'static [u8]| MountBody { hostname, directory };
    mnt(&env, b"/e/");
    mnt(&env, b"/e/docs");
    mnt(&env, b"/e");
    env.peer = "[::ffff:10.1.0.10]:9".parse().unwrap();
    mnt(&env, b"/e");
    let (docs, e) = (line(b"10.1.0.9", b"/e/docs"), line(b"10.1.0.9", b"/e"));
    let others = line(b"10.1.0.10", b"/e");
    assert_eq!(dump(&env), List(vec![docs, e, others]).to_bytes());

    assert_eq!(ask(&env, Procedure::UMNT, &DirPath(b"/e/docs")), [], "not his: no error, no effect");
    assert_eq!(dump(&env), List(vec![docs, e, others]).to_bytes());
    assert_eq!(ask(&env, Procedure::UMNT, &DirPath(b"//e/.")), []);
    assert_eq!(dump(&env), List(vec![docs, e]).to_bytes());
    assert_eq!(ask(&env, Procedure::UMNTALL, &()), []);
    assert_eq!(dump(&env), List(vec![docs, e]).to_bytes());
    env.peer = "10.1.0.9:1".parse().unwrap();
    assert_eq!(ask(&env, Procedure::UMNTALL, &()), []);
    assert_eq!(dump(&env), words(&[0]));
}

#[test]
fn export_lists_paths_and_who_may_mount_them() {
    let group = |range: &'static str| GroupNode(range.as_bytes());
    let lan = ["10.1.0.0/16", "192.168.1.7/32", "fd00::/8"].map(group);
    let expected = List(vec![
        ExportNode { dir: b"/e", groups: List(vec![]) },
        ExportNode { dir: b"/e/inner", groups: List(vec![]) },
        ExportNode { dir: b"/lan", groups: List(lan.to_vec()) },
    ]);
    assert_eq!(ask(&env(), Procedure::EXPORT, &()), expected.to_bytes());
    let open = vec![rule(&["10.0.0.0/8"]), rule(&[])];
    let env = TestEnv::new([export("/e", 1, open)], vec![]);
    assert_eq!(
        ask(&env, Procedure::EXPORT, &()),
        List(vec![ExportNode { dir: b"/e", groups: List(vec![]) }]).to_bytes(),
        "one rule for everybody is enough"
    );
}

#[test]
fn version_1_lists_but_does_not_mount() {
    let env = env();
    let ask_1 =
        |procedure: Procedure, args: &[u8]| env.ask(wire::PROGRAM, wire::VERSION_1, procedure.0, &Raw(args));
    let path = DirPath(b"/e").to_bytes();
    mnt(&env, b"/e/docs");
    mnt(&env, b"/e");
    assert_eq!(ask_1(Procedure::NULL, &[]), Ok(vec![]));
    assert_eq!(ask_1(Procedure::MNT, &path), Ok(FhStatus::Err(95).to_bytes()));
    assert_eq!(ask_1(Procedure::EXPORT, &[]), Ok(ask(&env, Procedure::EXPORT, &())));
    assert_eq!(ask_1(Procedure::UMNT, &path), Ok(vec![]));
    let remaining = List(vec![MountBody { hostname: b"10.1.0.9", directory: b"/e/docs" }]).to_bytes();
    assert_eq!(ask_1(Procedure::DUMP, &[]), Ok(remaining));
    assert_eq!(ask_1(Procedure::MNT, &[]), Err(Accepted::GarbageArgs));
    let versions = Versions { low: 1, high: 3 };
    assert_eq!(env.ask(wire::PROGRAM, 2, 0, &()), Err(Accepted::ProgMismatch(versions)));
}

#[test]
fn unknown_procedures_are_unavailable() {
    let env = env();
    assert_eq!(ask(&env, Procedure::NULL, &()), []);
    for version in [wire::VERSION_1, wire::VERSION] {
        assert_eq!(env.ask(wire::PROGRAM, version, 6, &()), Err(Accepted::ProcUnavail));
    }
    assert_eq!(env.ask(wire::PROGRAM, wire::VERSION, Procedure::UMNT.0, &()), Err(Accepted::GarbageArgs));
}

struct Raw<'a>(&'a [u8]);

impl Encode for Raw<'_> {
    fn encode(&self, w: &mut xdr::Writer<'_>) {
        w.fixed(self.0);
    }
}

#[test]
fn an_endpoint_shows_what_names_it_and_nothing_else() {
    let at = |path, id, rules, endpoint: &str| export(path, id, rules).at(vec![endpoint.parse().unwrap()]);
    let exports = [
        at("/e", 1, vec![rule(&[])], "10.1.0.2"),
        at("/e/inner", 2, vec![rule(&[])], "10.1.0.3"),
        at("/lan", 3, vec![rule(&["192.168.1.7"])], "10.1.0.2"),
        export("/plain", 4, vec![rule(&[])]),
    ];
    let mut env = TestEnv::new(exports, vec![]);
    let own: Vec<Vec<u8>> =
        [&b"/e"[..], b"/e/inner", b"/plain"].into_iter().map(|path| mnt(&env, path)).collect();
    assert!(own.iter().all(|reply| reply.starts_with(&words(&[0]))), "the service's own address has all");
    let (node, nobody) =
        (|dir: &'static [u8]| ExportNode { dir, groups: List(vec![]) }, GroupNode(b"192.168.1.7/32"));
    let dump = |directory: &'static [u8]| MountBody { hostname: b"10.1.0.9", directory };
    env.endpoint = Some("10.1.0.2");
    assert_eq!(mnt(&env, b"/e"), own[0], "the same handle");
    assert_eq!(mnt(&env, b"/lan"), refused(Status::ACCES), "its rules hold at its endpoints too");
    for hidden in [&b"/e/inner"[..], b"/plain", b"/absent", b"/e/inner/absent", b"/plain/absent"] {
        assert_eq!(mnt(&env, hidden), refused(Status::NOENT), "{hidden:?}");
    }
    let lan = ExportNode { dir: b"/lan", groups: List(vec![nobody]) };
    assert_eq!(ask(&env, Procedure::EXPORT, &()), List(vec![node(b"/e"), lan]).to_bytes());
    assert_eq!(ask(&env, Procedure::DUMP, &()), List(vec![dump(b"/e")]).to_bytes());
    env.endpoint = Some("10.1.0.3");
    assert_eq!(mnt(&env, b"/e/inner"), own[1]);
    assert_eq!(mnt(&env, b"/e"), refused(Status::NOENT));
    assert_eq!(ask(&env, Procedure::EXPORT, &()), List(vec![node(b"/e/inner")]).to_bytes());
    env.endpoint = Some("10.1.0.4");
    assert_eq!(ask(&env, Procedure::EXPORT, &()), words(&[0]), "an address that no volume has any more");
    assert_eq!(ask(&env, Procedure::DUMP, &()), words(&[0]));
}
