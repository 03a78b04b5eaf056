//! Squashing of callers that claim ids which the kernel reads as "unchanged".
//!
//! The tests run as root and check the served directory, where a fault would leave files of root.

use bench::Target;
use nfs_wire::v3::{
    CreateArgs, CreateFail, CreateHow, CreateOk, DirOpArgs, LinkArgs, LinkFail, LinkOk, LookupArgs,
    LookupFail, LookupOk, MkdirArgs, MknodArgs, MknodData, PROGRAM, Procedure, RenameArgs, RenameFail,
    RenameOk, Reply, Sattr, SetattrArgs, SetattrFail, SetattrOk, Status, SymlinkArgs, SymlinkData, VERSION,
};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command, Stdio};
use wire_client::{Client, Connection, Handle, Identity};
use xdr::{Decode, Encode};

/// The id that POSIX calls read as "leave it unchanged".
const UNCHANGED: u32 = u32::MAX;
const NOBODY: u32 = 65534;

/// A running `plimsoll export` of one directory, which everybody may change.
struct Server {
    child: Child,
    target: Target,
    dir: tempfile::TempDir,
}

impl Server {
    fn start(squash: &str) -> Self {
        assert!(rustix::process::geteuid().is_root(), "only root leaves files of root");
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        fs::create_dir(&files).unwrap();
        fs::set_permissions(&files, fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.arg("export").arg(&files).arg("--state").arg(dir.path().join("state"));
        command.args(["--squash", squash, "--no-portmap", "--mount-port", "0", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut hint = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut hint).unwrap();
        let port = hint.split("port=").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        Self { child, target: format!("nfs://127.0.0.1:{port}/files").parse().unwrap(), dir }
    }

    fn user(&self, uid: u32, gid: u32) -> User {
        let identity = Identity::new(uid, gid);
        let root = Client::mount(&self.target, &identity).unwrap().root();
        let connection = Connection::open(self.target.address().unwrap(), identity).unwrap();
        User { connection, root }
    }

    /// Owner, group and mode of a file, as the kernel has them.
    fn owner(&self, name: &str) -> (u32, u32, u32) {
        let found = fs::symlink_metadata(self.dir.path().join("files").join(name)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir.path().join("files")).unwrap();
        names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Has ended already where it fell over.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct User {
    connection: Connection,
    root: Handle,
}

impl User {
    fn ask<O: for<'a> Decode<'a>, F: for<'a> Decode<'a>>(
        &mut self,
        procedure: Procedure,
        arguments: &impl Encode,
    ) -> Result<(), Status> {
        let mut results = self.connection.call(PROGRAM, VERSION, procedure.0, arguments).unwrap();
        match Reply::<O, F>::decode(&mut results).unwrap() {
            Reply::Ok(_) => Ok(()),
            Reply::Err(status, _) => Err(status),
        }
    }

    fn make(&mut self, procedure: Procedure, arguments: &impl Encode) -> Result<(), Status> {
        let mut results = self.connection.call(PROGRAM, VERSION, procedure.0, arguments).unwrap();
        match Reply::<CreateOk<'_>, CreateFail>::decode(&mut results).unwrap() {
            Reply::Ok(_) => Ok(()),
            Reply::Err(status, _) => Err(status),
        }
    }

    fn lookup(&mut self, name: &str) -> Handle {
        let root = self.root.clone();
        let arguments = LookupArgs { what: DirOpArgs { dir: root.wire(), name: name.as_bytes() } };
        let mut results = self.connection.call(PROGRAM, VERSION, Procedure::LOOKUP.0, &arguments).unwrap();
        match Reply::<LookupOk<'_>, LookupFail>::decode(&mut results).unwrap() {
            Reply::Ok(ok) => ok.object.into(),
            Reply::Err(status, _) => panic!("{name}: {status:?}"),
        }
    }

    /// One of each kind that needs no privilege, named with `prefix`.
    fn make_each(&mut self, prefix: &str, set: Sattr) -> Vec<(String, Result<(), Status>)> {
        let root = self.root.clone();
        let names: Vec<String> = (0..7).map(|number| format!("{prefix}-{number}")).collect();
        let at = |number: usize| DirOpArgs { dir: root.wire(), name: names[number].as_bytes() };
        let symlink = SymlinkData { symlink_attributes: set, symlink_data: b"target" };
        let create = |place, how| CreateArgs { place, how };
        let done = [
            self.make(Procedure::CREATE, &create(at(0), CreateHow::Unchecked(set))),
            self.make(Procedure::CREATE, &create(at(1), CreateHow::Guarded(set))),
            self.make(Procedure::CREATE, &create(at(2), CreateHow::Exclusive([7; 8]))),
            self.make(Procedure::MKDIR, &MkdirArgs { place: at(3), attributes: set }),
            self.make(Procedure::SYMLINK, &SymlinkArgs { place: at(4), symlink }),
            self.make(Procedure::MKNOD, &MknodArgs { place: at(5), what: MknodData::Fifo(set) }),
            self.make(Procedure::MKNOD, &MknodArgs { place: at(6), what: MknodData::Socket(set) }),
        ];
        names.into_iter().zip(done).collect()
    }

    fn set(&mut self, name: &str, new_attributes: Sattr) -> Result<(), Status> {
        let object = self.lookup(name);
        let arguments = SetattrArgs { object: object.wire(), new_attributes, guard: None };
        self.ask::<SetattrOk, SetattrFail>(Procedure::SETATTR, &arguments)
    }
}

fn owner(uid: Option<u32>, gid: Option<u32>) -> Sattr {
    Sattr { uid, gid, ..Sattr::default() }
}

#[test]
fn callers_without_an_id_create_files_of_nobody() {
    for squash in ["root", "none", "all"] {
        let server = Server::start(squash);
        for (uid, gid, kept) in [
            (UNCHANGED, UNCHANGED, (NOBODY, NOBODY)),
            (UNCHANGED, 100, (NOBODY, NOBODY)),
            (100, UNCHANGED, (100, NOBODY)),
        ] {
            let expected = if squash == "all" { (NOBODY, NOBODY) } else { kept };
            let made = server.user(uid, gid).make_each(&format!("{uid}-{gid}"), Sattr::default());
            for (name, done) in made {
                assert_eq!(done, Ok(()), "{name}, {squash} squashed");
                let (uid, gid, _) = server.owner(&name);
                assert_eq!((uid, gid), expected, "{name}, {squash} squashed");
            }
        }
    }
}

#[test]
fn nothing_is_given_to_an_id_that_means_unchanged() {
    let server = Server::start("none");
    for (number, set) in
        [owner(Some(UNCHANGED), None), owner(None, Some(UNCHANGED)), owner(Some(100), Some(UNCHANGED))]
            .into_iter()
            .enumerate()
    {
        for (uid, gid) in [(100, 100), (0, 0)] {
            let mut user = server.user(uid, gid);
            for (name, done) in user.make_each(&format!("{uid}-{number}"), set) {
                if name.ends_with("-2") {
                    // An exclusive CREATE has no attributes.
                    assert_eq!((done, server.owner(&name)), (Ok(()), (uid, gid, 0o600)));
                } else {
                    assert_eq!(done, Err(Status::INVAL), "{name}");
                    assert!(!server.names().contains(&name), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_group_that_means_unchanged_keeps_no_set_group_id() {
    let server = Server::start("root");
    let mut user = server.user(100, 100);
    for (name, done) in user.make_each("file", Sattr { mode: Some(0o755), ..Sattr::default() }) {
        done.unwrap();
        // As an administrator leaves it: of the user, in a group that the user is not in.
        std::os::unix::fs::lchown(server.dir.path().join("files").join(&name), Some(100), Some(0)).unwrap();
        let before = server.owner(&name);
        for set in [
            owner(None, Some(UNCHANGED)),
            owner(Some(UNCHANGED), None),
            Sattr { mode: Some(0o2755), ..owner(None, Some(UNCHANGED)) },
            Sattr { mode: Some(0o6755), ..owner(Some(UNCHANGED), Some(100)) },
        ] {
            assert_eq!(user.set(&name, set), Err(Status::INVAL), "{name} {set:?}");
            assert_eq!(server.owner(&name), before, "{name} {set:?}");
        }
        if name.ends_with("-4") {
            continue;
        }
        let set = Sattr { mode: Some(0o2755), ..Sattr::default() };
        assert_eq!(user.set(&name, set), Ok(()), "{name}");
        assert_eq!(server.owner(&name), (100, 0, 0o755), "{name}: no set-group-id for a group of others");
    }
}

#[test]
fn moving_and_linking_change_no_owner() {
    let server = Server::start("root");
    let mut user = server.user(UNCHANGED, UNCHANGED);
    for (name, done) in user.make_each("a", Sattr::default()) {
        done.unwrap();
        let (object, root) = (user.lookup(&name), user.root.clone());
        let at = |name: &'static [u8]| DirOpArgs { dir: root.wire(), name };
        if !name.ends_with("-3") {
            let link = LinkArgs { file: object.wire(), link: at(b"linked") };
            assert_eq!(user.ask::<LinkOk, LinkFail>(Procedure::LINK, &link), Ok(()), "{name}");
            assert_eq!(server.owner("linked").0, NOBODY, "{name}");
        }
        let from = DirOpArgs { dir: root.wire(), name: name.as_bytes() };
        let rename = RenameArgs { from, to: at(b"moved") };
        assert_eq!(user.ask::<RenameOk, RenameFail>(Procedure::RENAME, &rename), Ok(()), "{name}");
        assert_eq!((server.owner("moved").0, server.owner("moved").1), (NOBODY, NOBODY), "{name}");
        let files = server.dir.path().join("files");
        if fs::remove_file(files.join("moved")).is_err() {
            fs::remove_dir(files.join("moved")).unwrap();
        }
        let _ = fs::remove_file(files.join("linked"));
    }
}
