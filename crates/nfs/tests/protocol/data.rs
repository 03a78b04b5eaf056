//! READ, WRITE, COMMIT, READLINK.

use crate::support::{ALICE, Auth, BOB, INSTANCE, Object, ROOT, World, decode, trusting};
use nfs::limits::TRANSFER_BYTES_MAX;
use nfs_wire::v3::{
    CommitArgs, CommitFail, CommitOk, CommitReply, Procedure, ReadArgs, ReadFail, ReadOk, ReadReply,
    ReadlinkArgs, ReadlinkFail, ReadlinkOk, ReadlinkReply, Reply, StableHow, Status, WriteArgs, WriteFail,
    WriteOk, WriteReply,
};
use vfs::{Backend, Durability, ExportRule, QuotaKind, QuotaLimits, QuotaRule, QuotaTarget, Special};
use vfs_testing::{UncheckedNode, memfs};

fn read(w: &mut World, auth: Auth, file: &Object, offset: u64, count: u32) -> Vec<u8> {
    w.ask(auth, Procedure::READ, &ReadArgs { file: file.fh(), offset, count })
}

#[test]
fn read_returns_existing_data_and_the_end_of_file() {
    let mut w = World::new();
    let data = b"0123456789";
    let file = w.file(&w.root(), "file", 0o644, data);
    let size = 10;
    for (offset, count, length, eof) in [
        (0, 10, 10, true),
        (0, 11, 10, true),
        (0, 9, 9, false),
        (3, 4, 4, false),
        (6, 4, 4, true),
        (9, 1, 1, true),
        (9, 100, 1, true),
        (size, 1, 0, true),
        (size, 0, 0, true),
        (0, 0, 0, false),
        (size - 1, 0, 0, false),
        (size + 1, 5, 0, true),
        (u64::MAX, 5, 0, true),
        (u64::MAX, u32::MAX, 0, true),
    ] {
        let attributes = file.post();
        let reply = read(&mut w, BOB, &file, offset, count);
        let from = usize::try_from(offset.min(size)).unwrap();
        let expected = ReadOk {
            file_attributes: attributes,
            count: u32::try_from(length).unwrap(),
            eof,
            data: &data[from..from + length],
        };
        assert_eq!(decode::<ReadReply<'_>>(&reply), Reply::Ok(expected), "{count} at {offset}");
    }
}

#[test]
fn read_of_an_empty_file_is_at_its_end() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"");
    for count in [0, 1, u32::MAX] {
        let ok = ReadOk { file_attributes: file.post(), count: 0, eof: true, data: b"" };
        assert_eq!(decode::<ReadReply<'_>>(&read(&mut w, BOB, &file, 0, count)), Reply::Ok(ok));
    }
}

#[test]
fn read_is_cut_at_the_largest_transfer() {
    let mut w = World::new();
    let most = usize::try_from(TRANSFER_BYTES_MAX).unwrap();
    let data: Vec<u8> = (0..=250).cycle().take(most + 3).collect();
    let file = w.file(&w.root(), "file", 0o644, &data);
    let attributes = file.post();
    let reply = read(&mut w, BOB, &file, 1, u32::MAX);
    let ok =
        ReadOk { file_attributes: attributes, count: TRANSFER_BYTES_MAX, eof: false, data: &data[1..=most] };
    assert_eq!(decode::<ReadReply<'_>>(&reply), Reply::Ok(ok));
}

#[test]
fn read_attributes_are_not_newer_than_the_data() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"data");
    w.clock.advance_ms(90_000_000);
    let before = file.post();
    let reply = read(&mut w, BOB, &file, 0, 4);
    let Reply::Ok(ok) = decode::<ReadReply<'_>>(&reply) else { panic!() };
    assert_eq!(ok.file_attributes, before);
    assert_ne!(file.post(), before, "the access time moved");
}

#[test]
fn read_errors_are_as_specified() {
    let mut w = World::new();
    let root = w.root();
    let closed = w.file(&root, "closed", 0o200, b"x");
    let dir = w.dir(&root, "dir", 0o777);
    let fifo = w.special(&root, "fifo", Special::Fifo);
    let link = w.special(&root, "link", Special::Symlink(b"file"));
    let gone = w.file(&root, "gone", 0o777, b"x");
    root.node.remove_unchecked(vfs::Name::new(b"gone").unwrap()).unwrap();
    for (object, status) in
        [(&closed, Status::ACCES), (&dir, Status::ISDIR), (&fifo, Status::INVAL), (&link, Status::INVAL)]
    {
        let reply = read(&mut w, BOB, object, 0, 1);
        let fail = ReadFail { file_attributes: object.post() };
        assert_eq!(decode::<ReadReply<'_>>(&reply), Reply::Err(status, fail));
    }
    let reply = read(&mut w, BOB, &gone, 0, 1);
    assert_eq!(
        decode::<ReadReply<'_>>(&reply),
        Reply::Err(Status::STALE, ReadFail { file_attributes: None })
    );
}

#[test]
fn owners_and_callers_with_execute_rights_may_read() {
    let mut w = World::new();
    let root = w.root();
    let file = w.file(&root, "file", 0o000, b"x");
    let runs = w.file(&root, "runs", 0o001, b"x");
    for (auth, object) in [(ALICE, &file), (ROOT, &file), (BOB, &runs)] {
        let ok = ReadOk { file_attributes: object.post(), count: 1, eof: true, data: b"x" };
        assert_eq!(decode::<ReadReply<'_>>(&read(&mut w, auth, object, 0, 1)), Reply::Ok(ok), "{auth:?}");
    }
}

fn write_args<'a>(file: &'a Object, offset: u64, data: &'a [u8], stable: StableHow) -> WriteArgs<'a> {
    WriteArgs { file: file.fh(), offset, count: u32::try_from(data.len()).unwrap(), stable, data }
}

fn write(w: &mut World, auth: Auth, args: &WriteArgs<'_>) -> WriteReply {
    w.clock.advance_ms(1500);
    decode(&w.ask(auth, Procedure::WRITE, args))
}

#[test]
fn write_flushes_as_its_stability_requires() {
    for (durability, stable, added) in [
        (Durability::Sync, StableHow::Unstable, 0),
        (Durability::Sync, StableHow::DataSync, 1),
        (Durability::Sync, StableHow::FileSync, 1),
        (Durability::Relaxed, StableHow::Unstable, 0),
        (Durability::Relaxed, StableHow::DataSync, 0),
        (Durability::Relaxed, StableHow::FileSync, 0),
    ] {
        let mut w = World::with(trusting(), durability, memfs::Options::default());
        let file = w.file(&w.root(), "file", 0o644, b"hello");
        w.fs.root().sync(vfs::SyncScope::All).unwrap();
        let before = file.attrs();
        let reply = write(&mut w, ALICE, &write_args(&file, 3, b"p me", stable));
        let ok = WriteOk {
            file_wcc: file.wcc(&before),
            count: 4,
            committed: stable,
            verf: INSTANCE.to_be_bytes(),
        };
        assert_eq!(reply, Reply::Ok(ok));
        assert_eq!(file.contents(), b"help me");
        assert_eq!(w.pending.added(), added, "{durability:?} {stable:?}");
        w.pending.sync_all().unwrap();
        let crashed =
            w.fs.crash().root().lookup(vfs::Name::new(b"file").unwrap(), vfs::Blocking::Allowed).unwrap();
        let data = crashed.node.read_vec(0, 16, vfs::Blocking::Allowed).unwrap();
        let survives = if added == 1 { &b"help me"[..] } else { b"" };
        assert_eq!(data, survives, "{durability:?} {stable:?}");
        if added == 1 {
            let kept_times = crashed.attrs.modified == file.attrs().modified;
            assert_eq!(kept_times, stable == StableHow::FileSync, "attributes are durable with FILE_SYNC");
        }
    }
}

#[test]
fn write_whose_count_is_not_the_length_of_its_data_is_refused() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"hello");
    for count in [0, 2, 4, u32::MAX] {
        let args = WriteArgs { count, ..write_args(&file, 0, b"abc", StableHow::FileSync) };
        let reply = write(&mut w, ALICE, &args);
        assert_eq!(reply, Reply::Err(Status::INVAL, WriteFail { file_wcc: file.wcc_failed() }));
    }
    assert_eq!(file.contents(), b"hello");
}

#[test]
fn an_empty_write_succeeds_and_changes_nothing() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"hello");
    let before = file.attrs();
    let reply = write(&mut w, ALICE, &write_args(&file, 900, b"", StableHow::Unstable));
    let ok = WriteOk {
        file_wcc: file.wcc(&before),
        count: 0,
        committed: StableHow::Unstable,
        verf: INSTANCE.to_be_bytes(),
    };
    assert_eq!(reply, Reply::Ok(ok));
    assert_eq!(file.attrs(), before);
    let reply = write(&mut w, BOB, &write_args(&file, 0, b"", StableHow::Unstable));
    assert_eq!(reply, Reply::Err(Status::ACCES, WriteFail { file_wcc: file.wcc_failed() }));
}

#[test]
fn write_past_the_end_leaves_a_hole() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"ab");
    let before = file.attrs();
    let reply = write(&mut w, ALICE, &write_args(&file, 5, b"cd", StableHow::Unstable));
    let Reply::Ok(ok) = reply else { panic!("{reply:?}") };
    assert_eq!((ok.file_wcc, ok.count), (file.wcc(&before), 2));
    assert_eq!(file.contents(), b"ab\0\0\0cd");
}

#[test]
fn write_clears_set_id_bits_unless_root_writes() {
    let mut w = World::new();
    let root = w.root();
    for (auth, name, left) in [(ALICE, "hers", 0o755), (BOB, "bobs", 0o777), (ROOT, "roots", 0o6755)] {
        let mode = if name == "bobs" { 0o6777 } else { 0o6755 };
        let file = w.file(&root, name, mode, b"");
        let before = file.attrs();
        let reply = write(&mut w, auth, &write_args(&file, 0, b"x", StableHow::Unstable));
        let Reply::Ok(ok) = reply else { panic!("{reply:?}") };
        assert_eq!(ok.file_wcc, file.wcc(&before), "the mode after the bits went");
        assert_eq!(file.attrs().mode, left, "{auth:?}");
    }
}

#[test]
fn write_errors_are_as_specified() {
    // The three objects take 7 KiB.
    let mut options = memfs::Options { bytes_total: 8192 + 7168, ..memfs::Options::default() };
    options.limits.file_bytes_max = 1 << 40;
    let mut w = World::with(trusting(), Durability::Sync, options);
    let root = w.root();
    let file = w.file(&root, "file", 0o644, b"x");
    let dir = w.dir(&root, "dir", 0o777);
    let fifo = w.special(&root, "fifo", Special::Fifo);
    for (auth, object, offset, status) in [
        (BOB, &file, 0, Status::ACCES),
        (ALICE, &dir, 0, Status::ISDIR),
        (ALICE, &fifo, 0, Status::INVAL),
        (ALICE, &file, 1 << 40, Status::FBIG),
        (ALICE, &file, (1 << 40) - 1, Status::FBIG),
        (ALICE, &file, u64::MAX - 1, Status::FBIG),
        (ALICE, &file, u64::MAX, Status::FBIG),
        (ALICE, &file, 4095, Status::OK),
        (ALICE, &file, 8191, Status::NOSPC),
        (ALICE, &file, (1 << 40) - 2, Status::NOSPC),
    ] {
        let before = object.attrs();
        let reply = write(&mut w, auth, &write_args(object, offset, b"ab", StableHow::FileSync));
        match reply {
            Reply::Ok(ok) => {
                assert_eq!((Status::OK, object.wcc(&before)), (status, ok.file_wcc), "at {offset}")
            }
            Reply::Err(got, fail) => {
                assert_eq!((got, fail), (status, WriteFail { file_wcc: object.wcc_failed() }), "at {offset}");
                assert_eq!(object.attrs(), before);
            }
        }
    }
    assert_eq!(w.pending.added(), 1, "of the one that succeeded");
    root.node.remove_unchecked(vfs::Name::new(b"file").unwrap()).unwrap();
    let reply = write(&mut w, ALICE, &write_args(&file, 0, b"a", StableHow::FileSync));
    assert_eq!(reply, Reply::Err(Status::STALE, WriteFail::default()));
}

#[test]
fn write_past_a_quota_is_dquot() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"x");
    let target = QuotaTarget { kind: QuotaKind::User, id: Some(file.attrs().uid) };
    let limits = QuotaLimits { bytes: Some(8192), ..QuotaLimits::default() };
    w.fs.quotas().unwrap().set_rules(&[QuotaRule { target, limits }]).unwrap();
    for (offset, status) in [(8190, Status::OK), (8191, Status::DQUOT), (0, Status::OK)] {
        let before = file.attrs();
        match write(&mut w, ALICE, &write_args(&file, offset, b"ab", StableHow::FileSync)) {
            Reply::Ok(_) => assert_eq!(Status::OK, status, "at {offset}"),
            Reply::Err(got, fail) => {
                assert_eq!((got, fail), (status, WriteFail { file_wcc: file.wcc_failed() }), "at {offset}");
                assert_eq!(file.attrs(), before);
            }
        }
    }
}

fn commit(w: &mut World, auth: Auth, file: &Object, offset: u64, count: u32) -> CommitReply {
    decode(&w.ask(auth, Procedure::COMMIT, &CommitArgs { file: file.fh(), offset, count }))
}

#[test]
fn commit_flushes_and_carries_the_verifier_of_the_writes() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"hello");
    for (offset, count) in [(0, 0), (3, 2), (u64::MAX, u32::MAX)] {
        let before = file.attrs();
        let reply = commit(&mut w, ALICE, &file, offset, count);
        let ok = CommitOk { file_wcc: file.wcc(&before), verf: INSTANCE.to_be_bytes() };
        assert_eq!(reply, Reply::Ok(ok));
        assert_eq!(w.pending.added(), 0, "it has flushed: nothing is left to do before the reply");
    }
}

#[test]
fn commit_errors_are_as_specified() {
    let mut w = World::new();
    let root = w.root();
    let file = w.file(&root, "file", 0o644, b"");
    let dir = w.dir(&root, "dir", 0o777);
    for (auth, object, status) in [(BOB, &file, Status::ACCES), (ALICE, &dir, Status::ISDIR)] {
        let fail = CommitFail { file_wcc: object.wcc_failed() };
        assert_eq!(commit(&mut w, auth, object, 0, 0), Reply::Err(status, fail));
    }
    root.node.remove_unchecked(vfs::Name::new(b"file").unwrap()).unwrap();
    assert_eq!(commit(&mut w, ALICE, &file, 0, 0), Reply::Err(Status::STALE, CommitFail::default()));
    assert_eq!(w.pending.added(), 0);
}

#[test]
fn data_is_not_changed_through_a_read_only_export() {
    let mut w = World::with_rule(ExportRule { read_only: true, ..trusting() });
    let file = w.file(&w.root(), "file", 0o666, b"hello");
    let reply = write(&mut w, ALICE, &write_args(&file, 0, b"x", StableHow::FileSync));
    assert_eq!(reply, Reply::Err(Status::ROFS, WriteFail { file_wcc: file.wcc_failed() }));
    let reply = commit(&mut w, ALICE, &file, 0, 0);
    assert_eq!(reply, Reply::Err(Status::ROFS, CommitFail { file_wcc: file.wcc_failed() }));
    assert_eq!(file.contents(), b"hello");
}

#[test]
fn readlink_returns_the_target_unchanged() {
    let mut w = World::new();
    let root = w.root();
    let long = vec![b'x'; vfs::model::name::LINK_BYTES_MAX];
    for (name, target) in [("a", &b"../../etc/passwd"[..]), ("b", b"/"), ("c", b"\xff\xfe odd"), ("d", &long)]
    {
        let link = w.special(&root, name, Special::Symlink(target));
        let attributes = link.post();
        let reply = w.ask(BOB, Procedure::READLINK, &ReadlinkArgs { symlink: link.fh() });
        let ok = ReadlinkOk { symlink_attributes: attributes, data: target };
        assert_eq!(decode::<ReadlinkReply<'_>>(&reply), Reply::Ok(ok));
    }
}

#[test]
fn readlink_of_anything_else_is_invalid() {
    let mut w = World::new();
    let root = w.root();
    let file = w.file(&root, "file", 0o777, b"");
    let fifo = w.special(&root, "fifo", Special::Fifo);
    for object in [&file, &root, &fifo] {
        let reply = w.ask(BOB, Procedure::READLINK, &ReadlinkArgs { symlink: object.fh() });
        let fail = ReadlinkFail { symlink_attributes: object.post() };
        assert_eq!(decode::<ReadlinkReply<'_>>(&reply), Reply::Err(Status::INVAL, fail));
    }
}
