use crate::handle::Handle;
use crate::testing::{Desk, export, rule, words};
use nfs_wire::mount::{
    self as wire, DirPath, ExportNode, FhStatus, GroupNode, MountBody, MountOk, MountReply, Procedure, Status,
};
use nfs_wire::rpc::{Accepted, AuthFlavor, Versions};
use std::sync::Arc;
use vfs::{Blocking, Caller, Export, ExportRule, File, PendingSync, SetAttrs, Special};
use xdr::{Encode, List};

const ALICE: (u32, u32) = (1000, 100);
const BOB: (u32, u32) = (1001, 101);

/// `/e` for all clients, `/e/inner` below it, `/lan` for some clients, `/nobody` for none.
fn desk() -> Desk {
    let exports = [
        export("/e", 1, vec![rule(&[])]),
        export("/e/inner", 2, vec![rule(&[])]),
        export("/lan", 3, vec![rule(&["10.1.0.0/16", "192.168.1.7"]), rule(&["fd00::/8", "10.1.0.0/16"])]),
        export("/nobody", 4, vec![]),
        export("/refused", 5, vec![ExportRule { no_access: true, ..ExportRule::everybody() }]),
    ];
    let desk = Desk::new(exports, vec![]);
    let top = desk_export(&desk, 0).root();
    let docs = make_dir(&top, b"docs", 0o755, ALICE);
    make_dir(&docs, b"deep", 0o700, ALICE);
    let private = make_dir(&top, b"private", 0o700, ALICE);
    make_dir(&private, b"inside", 0o777, ALICE);
    make_dir(&top, b"\xff\xfe", 0o755, ALICE);
    make_special(&top, b"link", Special::Symlink(b"docs"));
    make_special(&top, b"fifo", Special::Fifo);
    desk
}

fn desk_export(desk: &Desk, place: usize) -> Arc<Export> {
    Arc::clone(&desk.service.namespace.load().exports()[place])
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

fn ask(desk: &Desk, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    desk.ask(wire::PROGRAM, wire::VERSION, procedure.0, args).unwrap()
}

fn mnt(desk: &Desk, path: &[u8]) -> Vec<u8> {
    ask(desk, Procedure::MNT, &DirPath(path))
}

fn mounted(handle: &Handle) -> Vec<u8> {
    let ok = MountOk { fhandle: handle.bytes(), auth_flavors: vec![AuthFlavor::SYS] };
    MountReply::Ok(ok).to_bytes()
}

fn refused(status: Status) -> Vec<u8> {
    words(&[status.0])
}

/// The handle of a directory in the volume of the export at `place`.
fn handle(desk: &Desk, place: usize, names: &[&[u8]]) -> Handle {
    let (export, root) = (desk_export(desk, place), Caller::new(0, 0, []));
    let below = |dir: File, name: &&[u8]| {
        dir.open_dir(&root, Blocking::Allowed).unwrap().lookup(name, Blocking::Allowed).unwrap().file
    };
    let file = names.iter().fold(export.root(), below);
    desk.service.signer.sign(export.id, &file.key())
}

#[test]
fn mnt_gives_the_root_and_directories_below() {
    let desk = desk();
    let root = handle(&desk, 0, &[]);
    let reply = [words(&[0, u32::try_from(root.bytes().len()).unwrap()]), root.bytes().to_vec()].concat();
    assert!(mnt(&desk, b"/e").starts_with(&reply));
    assert_eq!(mnt(&desk, b"/e"), mounted(&root));
    assert_eq!(mnt(&desk, b"/e/"), mounted(&root));
    assert_eq!(mnt(&desk, b"/e/docs"), mounted(&handle(&desk, 0, &[b"docs"])));
    assert_eq!(mnt(&desk, b"//e/./docs//deep/"), mounted(&handle(&desk, 0, &[b"docs", b"deep"])));
    assert_eq!(mnt(&desk, b"/e/\xff\xfe"), mounted(&handle(&desk, 0, &[b"\xff\xfe"])), "names are bytes");
    assert_eq!(mnt(&desk, b"/e/inner"), mounted(&handle(&desk, 1, &[])), "the longest export path wins");
    assert_eq!(mnt(&desk, b"/e/docs/../inner"), mounted(&handle(&desk, 1, &[])));
}

#[test]
fn mnt_says_exactly_why_not() {
    let desk = desk();
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
        assert_eq!(mnt(&desk, path), refused(*status), "{}", path.escape_ascii());
    }
    let too_long = vec![b'/'; nfs_wire::v3::PATH_MAX as usize + 1];
    let garbage = desk.ask(wire::PROGRAM, wire::VERSION, Procedure::MNT.0, &DirPath(&too_long));
    assert_eq!(garbage, Err(Accepted::GarbageArgs));
    assert_eq!(ask(&desk, Procedure::DUMP, &()), words(&[0]), "what is refused is not in the table");
}

#[test]
fn mnt_admits_whom_the_rules_admit() {
    let mut desk = desk();
    let lan = mounted(&handle(&desk, 2, &[]));
    for (peer, admitted) in [
        ("10.1.255.1:1", true),
        ("[::ffff:10.1.0.3]:1", true),
        ("192.168.1.7:1", true),
        ("[fd00::1]:1", true),
        ("10.2.0.1:1", false),
        ("192.168.1.8:1", false),
        ("[fe80::1]:1", false),
    ] {
        desk.peer = peer.parse().unwrap();
        let expected = if admitted { lan.clone() } else { refused(Status::ACCES) };
        assert_eq!(mnt(&desk, b"/lan"), expected, "{peer}");
        if !admitted {
            assert_eq!(
                mnt(&desk, b"/lan/absent"),
                refused(Status::ACCES),
                "nor may {peer} find out what is there"
            );
        }
    }
}

#[test]
fn mnt_walks_as_the_caller() {
    let mut desk = desk();
    let (private, inside) = (handle(&desk, 0, &[b"private"]), handle(&desk, 0, &[b"private", b"inside"]));
    for user in [ALICE, BOB, (0, 0)] {
        desk.user = user;
        assert_eq!(
            mnt(&desk, b"/e/private"),
            mounted(&private),
            "the last directory need not be open to {user:?}"
        );
    }
    desk.user = ALICE;
    assert_eq!(mnt(&desk, b"/e/private/inside"), mounted(&inside));
    desk.user = BOB;
    assert_eq!(mnt(&desk, b"/e/private/inside"), refused(Status::ACCES));
    assert_eq!(
        mnt(&desk, b"/e/private/absent"),
        refused(Status::ACCES),
        "what he may not see he may not probe"
    );
}

#[test]
fn mnt_squashes_root() {
    let rules = vec![ExportRule::everybody()];
    let desk = Desk::new([export("/e", 1, rules)], vec![]);
    let top = desk_export(&desk, 0).root();
    let private = make_dir(&top, b"private", 0o700, ALICE);
    make_dir(&private, b"inside", 0o777, ALICE);
    assert_eq!(mnt(&desk, b"/e/private"), mounted(&handle(&desk, 0, &[b"private"])));
    assert_eq!(mnt(&desk, b"/e/private/inside"), refused(Status::ACCES));
}

#[test]
fn dump_lists_what_is_mounted() {
    let mut desk = desk();
    let dump = |desk: &Desk| ask(desk, Procedure::DUMP, &());
    let line = |hostname: &'static [u8], directory: &'static [u8]| MountBody { hostname, directory };
    mnt(&desk, b"/e/");
    mnt(&desk, b"/e/docs");
    mnt(&desk, b"/e");
    desk.peer = "[::ffff:10.1.0.10]:9".parse().unwrap();
    mnt(&desk, b"/e");
    let (docs, e) = (line(b"10.1.0.9", b"/e/docs"), line(b"10.1.0.9", b"/e"));
    let others = line(b"10.1.0.10", b"/e");
    assert_eq!(dump(&desk), List(vec![docs, e, others]).to_bytes());

    assert_eq!(ask(&desk, Procedure::UMNT, &DirPath(b"/e/docs")), [], "not his: no error, no effect");
    assert_eq!(dump(&desk), List(vec![docs, e, others]).to_bytes());
    assert_eq!(ask(&desk, Procedure::UMNT, &DirPath(b"//e/.")), []);
    assert_eq!(dump(&desk), List(vec![docs, e]).to_bytes());
    assert_eq!(ask(&desk, Procedure::UMNTALL, &()), []);
    assert_eq!(dump(&desk), List(vec![docs, e]).to_bytes());
    desk.peer = "10.1.0.9:1".parse().unwrap();
    assert_eq!(ask(&desk, Procedure::UMNTALL, &()), []);
    assert_eq!(dump(&desk), words(&[0]));
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
    assert_eq!(ask(&desk(), Procedure::EXPORT, &()), expected.to_bytes());
    let open = vec![rule(&["10.0.0.0/8"]), rule(&[])];
    let desk = Desk::new([export("/e", 1, open)], vec![]);
    assert_eq!(
        ask(&desk, Procedure::EXPORT, &()),
        List(vec![ExportNode { dir: b"/e", groups: List(vec![]) }]).to_bytes(),
        "one rule for everybody is enough"
    );
}

#[test]
fn version_1_lists_but_does_not_mount() {
    let desk = desk();
    let ask_1 =
        |procedure: Procedure, args: &[u8]| desk.ask(wire::PROGRAM, wire::VERSION_1, procedure.0, &Raw(args));
    let path = DirPath(b"/e").to_bytes();
    mnt(&desk, b"/e/docs");
    mnt(&desk, b"/e");
    assert_eq!(ask_1(Procedure::NULL, &[]), Ok(vec![]));
    assert_eq!(ask_1(Procedure::MNT, &path), Ok(FhStatus::Err(95).to_bytes()));
    assert_eq!(ask_1(Procedure::EXPORT, &[]), Ok(ask(&desk, Procedure::EXPORT, &())));
    assert_eq!(ask_1(Procedure::UMNT, &path), Ok(vec![]));
    let left = List(vec![MountBody { hostname: b"10.1.0.9", directory: b"/e/docs" }]).to_bytes();
    assert_eq!(ask_1(Procedure::DUMP, &[]), Ok(left));
    assert_eq!(ask_1(Procedure::MNT, &[]), Err(Accepted::GarbageArgs));
    let versions = Versions { low: 1, high: 3 };
    assert_eq!(desk.ask(wire::PROGRAM, 2, 0, &()), Err(Accepted::ProgMismatch(versions)));
}

#[test]
fn unknown_procedures_are_unavailable() {
    let desk = desk();
    assert_eq!(ask(&desk, Procedure::NULL, &()), []);
    for version in [wire::VERSION_1, wire::VERSION] {
        assert_eq!(desk.ask(wire::PROGRAM, version, 6, &()), Err(Accepted::ProcUnavail));
    }
    assert_eq!(desk.ask(wire::PROGRAM, wire::VERSION, Procedure::UMNT.0, &()), Err(Accepted::GarbageArgs));
}

/// Arguments that are encoded already.
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
    let mut desk = Desk::new(exports, vec![]);
    let own: Vec<Vec<u8>> =
        [&b"/e"[..], b"/e/inner", b"/plain"].into_iter().map(|path| mnt(&desk, path)).collect();
    assert!(own.iter().all(|reply| reply.starts_with(&words(&[0]))), "the service's own address has all");
    let (node, nobody) =
        (|dir: &'static [u8]| ExportNode { dir, groups: List(vec![]) }, GroupNode(b"192.168.1.7/32"));
    let dump = |directory: &'static [u8]| MountBody { hostname: b"10.1.0.9", directory };
    desk.endpoint = Some("10.1.0.2");
    assert_eq!(mnt(&desk, b"/e"), own[0], "the same handle");
    assert_eq!(mnt(&desk, b"/lan"), refused(Status::ACCES), "its rules hold at its endpoints too");
    for hidden in [&b"/e/inner"[..], b"/plain", b"/absent", b"/e/inner/absent", b"/plain/absent"] {
        assert_eq!(mnt(&desk, hidden), refused(Status::NOENT), "{hidden:?}");
    }
    let lan = ExportNode { dir: b"/lan", groups: List(vec![nobody]) };
    assert_eq!(ask(&desk, Procedure::EXPORT, &()), List(vec![node(b"/e"), lan]).to_bytes());
    assert_eq!(ask(&desk, Procedure::DUMP, &()), List(vec![dump(b"/e")]).to_bytes());
    desk.endpoint = Some("10.1.0.3");
    assert_eq!(mnt(&desk, b"/e/inner"), own[1]);
    assert_eq!(mnt(&desk, b"/e"), refused(Status::NOENT));
    assert_eq!(ask(&desk, Procedure::EXPORT, &()), List(vec![node(b"/e/inner")]).to_bytes());
    desk.endpoint = Some("10.1.0.4");
    assert_eq!(ask(&desk, Procedure::EXPORT, &()), words(&[0]), "an address that no volume has any more");
    assert_eq!(ask(&desk, Procedure::DUMP, &()), words(&[0]));
}
