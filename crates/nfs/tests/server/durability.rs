//! Acknowledged changes are durable; changes that cannot be made durable are not acknowledged.

use crate::support::client::{Running, system_clock};
use crate::support::gate::Gate;
use crate::support::object::{name, new_inode};
use crate::support::{ALICE, INSTANCE, VOLUME, decode};
use nfs_wire::v3::{
    CommitArgs, CommitReply, CreateArgs, CreateFail, CreateHow, CreateReply, DirOpArgs, FileHandle,
    Procedure, Reply, Sattr, StableHow, Status, WriteArgs, WriteFail, WriteReply,
};
use std::sync::atomic::Ordering;
use vfs::{Backend, Blocking, SetAttrs};
use vfs_testing::{MemFs, UncheckedNode};

#[test]
fn an_acknowledged_operation_survives_a_power_cut() {
    let fs = MemFs::new(system_clock());
    fs.root().set_attrs(&SetAttrs { mode: Some(0o777), ..SetAttrs::default() }).unwrap();
    let running = Running::new(std::sync::Arc::new(fs.clone()));
    let root = running.handle(VOLUME, &fs.root().key());
    let mut client = running.connect();
    for number in 0..50 {
        let text = format!("file-{number}");
        let place = DirOpArgs { dir: FileHandle(&root), name: text.as_bytes() };
        let how = CreateHow::Guarded(Sattr { mode: Some(0o644), ..Sattr::default() });
        let results = client.ask(number, ALICE, Procedure::CREATE, &CreateArgs { place, how });
        let Reply::Ok(ok) = decode::<CreateReply<'_>>(&results) else { panic!() };
        let file = ok.obj.unwrap();
        let write = WriteArgs { file, offset: 0, count: 4, stable: StableHow::DataSync, data: b"data" };
        let results = client.ask(1000 + number, ALICE, Procedure::WRITE, &write);
        assert!(matches!(decode::<WriteReply>(&results), Reply::Ok(_)));
        let found = fs.crash().root().lookup(name(&text), Blocking::Allowed).expect("made and acknowledged");
        let data = found.node.read_vec(0, 8, Blocking::Allowed);
        assert_eq!(data.as_deref(), Ok(&b"data"[..]), "written and acknowledged");
    }
}

#[test]
fn a_failed_flush_is_an_error_also_when_repeated_and_changes_the_verifier() {
    let fs = MemFs::new(system_clock());
    fs.root().set_attrs(&SetAttrs { mode: Some(0o777), ..SetAttrs::default() }).unwrap();
    let file = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap().found.node;
    let (gate, control) = Gate::new(fs.clone());
    let running = Running::new(gate);
    let [root, file] = [fs.root().key(), file.key()].map(|key| running.handle(VOLUME, &key));
    let mut client = running.connect();
    let write = |stable| WriteArgs { file: FileHandle(&file), offset: 0, count: 1, stable, data: b"x" };
    let verifier = |results: &[u8]| match decode::<WriteReply>(results) {
        Reply::Ok(ok) => ok.verf,
        Reply::Err(status, _) => panic!("{status:?}"),
    };
    let first = verifier(&client.ask(1, ALICE, Procedure::WRITE, &write(StableHow::Unstable)));
    assert_eq!(first, INSTANCE.to_be_bytes());

    control.sync_fails.store(true, Ordering::SeqCst);
    let how = CreateHow::Guarded(Sattr::default());
    let create = CreateArgs { place: DirOpArgs { dir: FileHandle(&root), name: b"new" }, how };
    let refused = client.ask(2, ALICE, Procedure::CREATE, &create);
    assert_eq!(decode::<CreateReply<'_>>(&refused), Reply::Err(Status::IO, CreateFail::default()));
    for (xid, stable) in [(3, StableHow::DataSync), (4, StableHow::FileSync)] {
        let results = client.ask(xid, ALICE, Procedure::WRITE, &write(stable));
        assert_eq!(decode::<WriteReply>(&results), Reply::Err(Status::IO, WriteFail::default()));
    }
    let commit = CommitArgs { file: FileHandle(&file), offset: 0, count: 0 };
    let results = client.ask(5, ALICE, Procedure::COMMIT, &commit);
    assert!(matches!(decode::<CommitReply>(&results), Reply::Err(Status::IO, _)));
    let unstable = client.ask(6, ALICE, Procedure::WRITE, &write(StableHow::Unstable));
    assert_ne!(verifier(&unstable), first, "the client must send its unstable data again");

    control.sync_fails.store(false, Ordering::SeqCst);
    assert_eq!(client.ask(2, ALICE, Procedure::CREATE, &create), refused, "a repetition hears the same");
    let results = client.ask(7, ALICE, Procedure::COMMIT, &commit);
    let Reply::Ok(ok) = decode::<CommitReply>(&results) else { panic!() };
    assert_eq!(ok.verf, verifier(&unstable));
}
