//! Steps a process through its operations: the literal call, the literal reply, and the next step.

use nfs_wire::v3::{
    AccessOk, CommitOk, CreateOk, Fattr, FileHandle, FileType, GetattrOk, LookupOk, NfsTime, ReadOk,
    RemoveFail, RemoveOk, Reply, SetattrOk, SpecData, Status, WccData, WriteOk,
};
use wire_client::call::Rejection;
use wire_client::nfs3::call::decode;
use xdr::{Encode, Reader};

use super::*;
use crate::eda::mix::{BACKEND, FRONTEND, LARGE_FILE, Role};
use crate::pattern::Payload;

const NOW: u64 = 5_000_000;
const CACHED: Settings = Settings::cached(Version::V3);
const UNCACHED: Settings = Settings { attribute_cache: false, ..CACHED };

/// Files have handles 0, 1, …, directories 100, 101, …, the scratch directory 99.
fn process(role: &'static Role, settings: Settings) -> Process {
    let handle = |number: u8| Handle::from(FileHandle(&[number]));
    let directories = (100..).take(role.directories).map(handle).collect();
    let files = (0..20).map(handle).collect();
    let population = Population::new(role, 5000, directories, handle(99), files);
    Process::new(settings, Schedule::new(role, 1, 0), population)
}

/// Uses file `draw`; half a millisecond late.
fn begin(process: &mut Process, operation: Operation, draw: u64) -> Event {
    let (due, bytes) = (NOW - 500_000, operation.bytes(draw));
    process.next = Planned { due, operation, bytes, commits: false, draw };
    process.begin(NOW)
}

fn answer(process: &mut Process, reply: &impl Encode) -> Event {
    answer_at(process, &reply.to_bytes(), NOW + 1_000_000).unwrap()
}

fn answer_at(process: &mut Process, reply: &[u8], now: u64) -> Result<Event, Error> {
    match decode(process.call().kind(), Reader::new(reply)) {
        Ok(result) => process.complete(result, now),
        Err(Rejection::Refused(status)) => Ok(process.failed(status, "refused".to_owned())),
        Err(Rejection::Fatal(error)) => Err(error.into()),
        Err(Rejection::Later) => unreachable!("NFSv3 has no delay here"),
    }
}

fn good<O>(ok: O) -> Reply<O, ()> {
    Reply::Ok(ok)
}

fn refused(status: Status) -> Reply<(), RemoveFail> {
    Reply::Err(status, RemoveFail::default())
}

fn done(operation: Operation, bytes: u32, calls: u32) -> Event {
    Event::Completed(Completed { operation, service: 1_000_000, response: 1_500_000, bytes, calls })
}

fn attributes() -> GetattrOk {
    let time = NfsTime::default();
    let obj_attributes = Fattr {
        ftype: FileType::Regular,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: SMALL_FILE,
        used: SMALL_FILE,
        rdev: SpecData::default(),
        fsid: 1,
        fileid: 3,
        atime: time,
        mtime: time,
        ctime: time,
    };
    GetattrOk { obj_attributes }
}

fn data(length: u32, position: FileOffset) -> Vec<u8> {
    let mut payload = Payload::new(usize::try_from(length).unwrap(), UNIT, 1);
    payload.stamp(position, 0);
    payload.bytes().to_vec()
}

fn read_reply(data: &[u8], eof: bool) -> Reply<ReadOk<'_>, ()> {
    let count = u32::try_from(data.len()).unwrap();
    good(ReadOk { file_attributes: None, count, eof, data })
}

fn written(count: u32) -> Reply<WriteOk, ()> {
    let (file_wcc, committed) = (WccData::default(), StableHow::Unstable);
    good(WriteOk { file_wcc, count, committed, verf: [7; 8] })
}

const SET: Reply<SetattrOk, ()> = Reply::Ok(SetattrOk { obj_wcc: WccData { before: None, after: None } });
const REMOVED: Reply<RemoveOk, ()> = Reply::Ok(RemoveOk { dir_wcc: WccData { before: None, after: None } });

fn created(obj: Option<FileHandle<'_>>) -> Reply<CreateOk<'_>, ()> {
    good(CreateOk { obj, obj_attributes: None, dir_wcc: WccData::default() })
}

fn in_directory(directory: &'static [u8], name: &'static [u8]) -> DirOpArgs<'static> {
    DirOpArgs { dir: FileHandle(directory), name }
}

#[test]
fn attributes_are_asked_for_once_in_ten_minutes() {
    let mut process = process(&FRONTEND, CACHED);
    assert_eq!(begin(&mut process, Operation::Stat, 3), Event::Call);
    assert_eq!(process.call(), Call::Getattr(GetattrArgs { object: FileHandle(&[3]) }));
    assert_eq!(answer(&mut process, &good(attributes())), done(Operation::Stat, 0, 1));
    let absorbed = |operation| {
        Event::Completed(Completed { operation, service: 0, response: 500_000, bytes: 0, calls: 0 })
    };
    assert_eq!(begin(&mut process, Operation::Stat, 3), absorbed(Operation::Stat));
    assert_eq!(begin(&mut process, Operation::Stat, 4), Event::Call);
    assert_eq!(answer(&mut process, &good(attributes())), done(Operation::Stat, 0, 1));

    assert_eq!(begin(&mut process, Operation::Access, 3), Event::Call, "permissions are not attributes");
    let Call::Access(AccessArgs { object: FileHandle(&[3]), .. }) = process.call() else { panic!() };
    let granted = good(AccessOk { obj_attributes: None, access: Access::READ });
    assert_eq!(answer(&mut process, &granted), done(Operation::Access, 0, 1));
    assert_eq!(begin(&mut process, Operation::Access, 3), absorbed(Operation::Access));
    begin(&mut process, Operation::Chmod, 3);
    answer(&mut process, &SET);
    assert_eq!(begin(&mut process, Operation::Access, 3), Event::Call, "the mode changed");
    answer(&mut process, &granted);

    let later = NOW + 1_000_000 + ATTRIBUTES_KNOWN_NS;
    process.next = Planned { due: later, operation: Operation::Stat, bytes: 0, commits: false, draw: 3 };
    assert_eq!(process.begin(later), Event::Call);
}

#[test]
fn without_a_cache_names_and_attributes_are_asked_for_each_time() {
    let mut process = process(&FRONTEND, UNCACHED);
    for _ in 0..2 {
        assert_eq!(begin(&mut process, Operation::Stat, 13), Event::Call);
        assert_eq!(process.call(), Call::Lookup(LookupArgs { what: in_directory(&[103], b"f01") }));
        let found = LookupOk { object: FileHandle(&[13]), obj_attributes: None, dir_attributes: None };
        assert_eq!(answer(&mut process, &good(found)), Event::Call);
        assert_eq!(process.call(), Call::Getattr(GetattrArgs { object: FileHandle(&[13]) }));
        assert_eq!(answer(&mut process, &good(attributes())), done(Operation::Stat, 0, 2));
    }
    begin(&mut process, Operation::ReadFile, 3);
    assert_eq!(process.call(), Call::Getattr(GetattrArgs { object: FileHandle(&[3]) }));
    assert_eq!(answer(&mut process, &good(attributes())), Event::Call);
    assert_eq!(process.call(), Call::Read(ReadArgs { file: FileHandle(&[3]), offset: 0, count: 16 << 10 }));
    begin(&mut process, Operation::Access, 3);
    answer(&mut process, &good(AccessOk { obj_attributes: None, access: Access::READ }));
    assert_eq!(begin(&mut process, Operation::Access, 3), Event::Call);
}

#[test]
fn file_is_truncated_written_and_committed() {
    let mut process = process(&FRONTEND, CACHED);
    begin(&mut process, Operation::WriteFile, 7);
    process.planned.commits = true;
    let new_attributes = Sattr { size: Some(0), ..Sattr::default() };
    let file = FileHandle(&[7]);
    assert_eq!(process.call(), Call::Setattr(SetattrArgs { object: file, new_attributes, guard: None }));
    assert_eq!(process.payload(), None);
    assert_eq!(answer(&mut process, &SET), Event::Call);
    let head = WriteHead { file, offset: 0, count: 16 << 10, stable: StableHow::Unstable };
    assert_eq!(process.call(), Call::Write(head));
    assert_eq!(process.payload(), Some((FileOffset { file: 5007, offset: 0 }, 16 << 10)));
    assert_eq!(answer(&mut process, &written(16 << 10)), Event::Call);
    assert_eq!(process.call(), Call::Commit(CommitArgs { file, offset: 0, count: 0 }));
    let committed = |verf| good(CommitOk { file_wcc: WccData::default(), verf });
    assert_eq!(answer(&mut process, &committed([7; 8])), done(Operation::WriteFile, 16 << 10, 3));
    assert_eq!((process.restarts, process.population().empty.len()), (0, 0));

    // Bits for file 7 of 20, the larger size, and the last of three places.
    begin(&mut process, Operation::RandomWrite, 11 | 1 << 63 | 3 << 32);
    process.planned.commits = true;
    let head = WriteHead { file, offset: 8 << 10, count: 8 << 10, stable: StableHow::Unstable };
    assert_eq!(process.call(), Call::Write(head));
    answer(&mut process, &written(8 << 10));
    assert_eq!(answer(&mut process, &committed([8; 8])), done(Operation::RandomWrite, 8 << 10, 2));
    assert_eq!(process.restarts, 1, "another verifier");
}

#[test]
fn removed_file_is_made_and_filled_again() {
    let mut process = process(&FRONTEND, CACHED);
    begin(&mut process, Operation::UnlinkFull, 12);
    assert_eq!(process.call(), Call::Remove(RemoveArgs { object: in_directory(&[102], b"f01") }));
    assert_eq!(answer(&mut process, &REMOVED), done(Operation::UnlinkFull, 0, 1));
    begin(&mut process, Operation::Chmod, 12);
    let Call::Setattr(SetattrArgs { object: FileHandle(&[13]), .. }) = process.call() else { panic!() };
    answer(&mut process, &SET);

    begin(&mut process, Operation::Create, 0);
    let place = in_directory(&[102], b"f01");
    let how = CreateHow::Unchecked(Sattr { mode: Some(0o644), ..Sattr::default() });
    assert_eq!(process.call(), Call::Create(CreateArgs { place, how }));
    assert_eq!(answer(&mut process, &created(None)), Event::Call, "a reply need not have the handle");
    assert_eq!(process.call(), Call::Lookup(LookupArgs { what: place }));
    let found = LookupOk { object: FileHandle(&[55]), obj_attributes: None, dir_attributes: None };
    assert_eq!(answer(&mut process, &good(found)), done(Operation::Create, 0, 2));

    begin(&mut process, Operation::WriteFile, 0);
    let head = WriteHead { file: FileHandle(&[55]), offset: 0, count: 16 << 10, stable: StableHow::Unstable };
    assert_eq!(process.call(), Call::Write(head), "it is empty, and there is nothing to truncate");
    assert_eq!(answer(&mut process, &written(16 << 10)), done(Operation::WriteFile, 16 << 10, 1));
    let files = process.population();
    assert!(files.missing.is_empty() && files.empty.is_empty());
    assert!(files.files.iter().all(|file| file.content == Content::Full));
}

#[test]
fn empty_files_and_directories_come_and_go() {
    let mut process = process(&FRONTEND, CACHED);
    begin(&mut process, Operation::Create, 0);
    let Call::Create(CreateArgs { place, .. }) = process.call() else { panic!() };
    assert_eq!(place, in_directory(&[99], b"n04"));
    assert_eq!(answer(&mut process, &created(None)), done(Operation::Create, 0, 1));
    for name in [b"n00", b"n01", b"n02", b"n03", b"n04"] {
        begin(&mut process, Operation::Unlink, 0);
        assert_eq!(process.call(), Call::Remove(RemoveArgs { object: in_directory(&[99], name) }));
        assert_eq!(answer(&mut process, &REMOVED), done(Operation::Unlink, 0, 1));
    }
    let Event::Failed { operation: "unlink", what, .. } = begin(&mut process, Operation::Unlink, 0) else {
        panic!()
    };
    assert_eq!(what, "nothing to remove");

    for _ in 0..9 {
        assert!(!process.remove_surplus());
        begin(&mut process, Operation::Mkdir, 0);
        let Call::Mkdir(_) = process.call() else { panic!() };
        assert_eq!(answer(&mut process, &created(None)), done(Operation::Mkdir, 0, 1));
    }
    assert!(process.remove_surplus());
    assert_eq!(process.call(), Call::Rmdir(RemoveArgs { object: in_directory(&[99], b"d05") }));
    assert_eq!(answer(&mut process, &REMOVED), Event::CleanedUp);
    assert!(!process.remove_surplus());
}

#[test]
fn streams_go_on_to_the_end_of_a_file_and_into_another() {
    let settings = Settings { read_max: 32 << 10, ..CACHED };
    let mut process = process(&BACKEND, settings);
    let mut offset = 0;
    while offset < LARGE_FILE {
        begin(&mut process, Operation::SequentialWrite, 3);
        let count = u32::try_from((LARGE_FILE - offset).min(36 << 10)).unwrap();
        let head = WriteHead { file: FileHandle(&[3]), offset, count, stable: StableHow::Unstable };
        assert_eq!(process.call(), Call::Write(head));
        assert_eq!(answer(&mut process, &written(count)), done(Operation::SequentialWrite, count, 1));
        offset += u64::from(count);
    }
    begin(&mut process, Operation::SequentialWrite, 4);
    assert_eq!(process.payload(), Some((FileOffset { file: 5004, offset: 0 }, 36 << 10)));
    answer(&mut process, &written(36 << 10));

    begin(&mut process, Operation::SequentialRead, 5);
    for (offset, count) in [(0, 32 << 10), (32 << 10, 12 << 10)] {
        assert_eq!(process.call(), Call::Read(ReadArgs { file: FileHandle(&[5]), offset, count }));
        let event = answer(&mut process, &read_reply(&data(count, FileOffset { file: 5005, offset }), false));
        let last = offset > 0;
        assert_eq!(event, if last { done(Operation::SequentialRead, 44 << 10, 2) } else { Event::Call });
    }
    begin(&mut process, Operation::SequentialRead, 6);
    let Call::Read(ReadArgs { file: FileHandle(&[5]), offset: 45_056, .. }) = process.call() else {
        panic!()
    };
}

/// Runs to the end of a file. Returns offset and bytes of each call.
fn stream(operation: Operation, gather: u32, commits: bool) -> Vec<(u64, u32)> {
    let mut process = process(&BACKEND, Settings { gather: Some(gather), ..CACHED });
    let (mut calls, mut moved) = (Vec::new(), 0);
    while moved < LARGE_FILE {
        let bytes = operation.bytes(0);
        process.next = Planned { due: NOW, operation, bytes, commits, draw: 3 };
        let mut event = process.begin(NOW);
        while event == Event::Call {
            event = match process.call() {
                Call::Read(ReadArgs { offset, count, .. }) => {
                    calls.push((offset, count));
                    let data = data(count, FileOffset { file: 5003, offset });
                    answer(&mut process, &read_reply(&data, false))
                }
                Call::Write(WriteHead { offset, count, .. }) => {
                    calls.push((offset, count));
                    answer(&mut process, &written(count))
                }
                Call::Commit(_) => {
                    answer(&mut process, &good(CommitOk { file_wcc: WccData::default(), verf: [7; 8] }))
                }
                other => panic!("{other:?}"),
            };
        }
        let Event::Completed(done) = event else { panic!("{event:?}") };
        moved += u64::from(done.bytes);
    }
    assert_eq!(moved, LARGE_FILE, "the operations are as large as without");
    calls
}

#[test]
fn sequential_operations_are_gathered_into_larger_calls() {
    for operation in [Operation::SequentialRead, Operation::SequentialWrite] {
        for gather in [64 << 10, 256 << 10, 1 << 20] {
            let whole = (0..LARGE_FILE).step_by(gather as usize).map(|offset| (offset, gather));
            assert_eq!(stream(operation, gather, false), whole.collect::<Vec<_>>(), "{operation:?}");
        }
    }
    let committed = stream(Operation::SequentialWrite, 1 << 20, true);
    assert_eq!(committed[..2], [(0, 36 << 10), (36 << 10, 36 << 10)], "what is committed does not wait");
}

#[test]
fn bad_replies_fail_the_operation_or_end_the_run() {
    let mut process = process(&FRONTEND, CACHED);
    let failure = |event| match event {
        Event::Failed { operation, what, detail } => (operation, what, detail),
        other => panic!("{other:?}"),
    };
    begin(&mut process, Operation::UnlinkFull, 2);
    let (operation, what, detail) = failure(answer(&mut process, &refused(Status::ACCES)));
    assert_eq!((operation, what.as_str()), ("unlink-full", "NFS3ERR_ACCES"));
    assert_eq!(detail, "NFSPROC3_REMOVE f00: refused");
    assert_eq!(process.population().files[2].content, Content::Full);

    begin(&mut process, Operation::ReadFile, 2);
    let position = FileOffset { file: 5002, offset: 0 };
    let (_, what, _) = failure(answer(&mut process, &read_reply(&data(8 << 10, position), true)));
    assert_eq!(what, "short");
    begin(&mut process, Operation::RandomWrite, 2);
    assert_eq!(failure(answer(&mut process, &written(100))).1, "short");
    process.settings.stable = StableHow::FileSync;
    begin(&mut process, Operation::RandomWrite, 2);
    assert_eq!(failure(answer(&mut process, &written(4 << 10))).1, "too weak");

    // What fails behind the truncation leaves an empty file, which the next write-file fills.
    begin(&mut process, Operation::WriteFile, 2);
    answer(&mut process, &SET);
    failure(answer(&mut process, &refused(Status::NOSPC)));
    begin(&mut process, Operation::WriteFile, 9);
    let Call::Write(WriteHead { file: FileHandle(&[2]), .. }) = process.call() else { panic!() };

    let mut ends = |data: &[u8]| {
        begin(&mut process, Operation::ReadFile, 3);
        answer_at(&mut process, &read_reply(data, true).to_bytes(), NOW).unwrap_err().to_string()
    };
    let wrong = ends(&data(16 << 10, position));
    assert!(wrong.contains("holds data of file 5002"), "{wrong}");
    assert!(ends(&data(32 << 10, position)).contains("count 32768"));
}

fn reply_to(process: &Process) -> Vec<u8> {
    match process.call() {
        Call::Getattr(_) => good(attributes()).to_bytes(),
        Call::Access(_) => good(AccessOk { obj_attributes: None, access: Access::READ }).to_bytes(),
        Call::Setattr(_) => SET.to_bytes(),
        Call::Read(ReadArgs { count, .. }) => read_reply(&data(count, process.position()), false).to_bytes(),
        Call::Write(WriteHead { count, .. }) => written(count).to_bytes(),
        Call::Create(_) | Call::Mkdir(_) => created(Some(FileHandle(&[77]))).to_bytes(),
        Call::Remove(_) | Call::Rmdir(_) => REMOVED.to_bytes(),
        Call::Commit(_) => good(CommitOk { file_wcc: WccData::default(), verf: [7; 8] }).to_bytes(),
        Call::Lookup(_) | Call::Open(_) | Call::Close(_) => panic!("names are known, and nothing is open"),
    }
}

/// Runs the next operation `late` after its due time, and removes surplus directories. Returns a description.
fn step(process: &mut Process, late: u64) -> (u64, Operation, Vec<u8>, String) {
    let now = process.due() + late;
    let mut event = process.begin(now);
    let directory = process.operand().dir.0.to_vec();
    let what = (process.planned.due, process.planned.operation, directory, process.name.text().to_owned());
    while event == Event::Call {
        let reply = reply_to(process);
        event = answer_at(process, &reply, now).unwrap();
        if matches!(event, Event::Completed(_)) && late == 0 && process.remove_surplus() {
            event = Event::Call;
        }
    }
    assert!(matches!(event, Event::Completed(_) | Event::CleanedUp), "{event:?}");
    what
}

#[test]
fn population_stays_as_it_is() {
    let mut process = process(&FRONTEND, CACHED);
    let mut most = 0;
    for _ in 0..20_000 {
        step(&mut process, 0);
        let files = process.population();
        assert!(files.missing.len() + files.empty.len() <= 4, "{files:?}");
        assert!((1..=10).contains(&files.spare.len()) && files.made.len() <= 9, "{files:?}");
        most = most.max(files.spare.len());
    }
    assert!(most > 4);
}

#[test]
fn operations_are_independent_of_lateness() {
    for role in [&FRONTEND, &BACKEND] {
        let done = |late| {
            let mut process = process(role, CACHED);
            (0..3000).map(|_| step(&mut process, late)).collect::<Vec<_>>()
        };
        assert_eq!(done(0), done(700_000_000));
    }
}
