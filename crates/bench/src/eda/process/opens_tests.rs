//! Steps a process through its operations over NFSv4, and checks its open files.

use super::*;
use crate::eda::mix::{BACKEND, FRONTEND, LARGE_FILE};
use crate::eda::population::Population;
use crate::pattern::Payload;
use nfs_wire::v3::FileHandle;
use nfs_wire::v4::{ShareAccess, Stateid};

const SETTINGS: Settings = Settings::cached(Version::V41);
const VERF: WriteVerf = [7; 8];

/// Files have handles 0, 1, …
struct Stepped {
    process: Process,
    /// The seqid of the last stateid.
    opened: u32,
    /// NFSv4 operations, each with the seqid of its stateid.
    calls: Vec<(String, u32)>,
    refused: Vec<usize>,
}

impl Stepped {
    fn new(is_frontend: bool, settings: Settings) -> Self {
        let role = if is_frontend { &FRONTEND } else { &BACKEND };
        let handle = |number: u8| Handle::from(FileHandle(&[number]));
        let directories = (100..).take(role.directories).map(handle).collect();
        let population = Population::new(role, 5000, directories, handle(99), (0..20).map(handle).collect());
        let process = Process::new(settings, Schedule::new(role, 1, 0), population);
        Self { process, opened: 0, calls: Vec::new(), refused: Vec::new() }
    }

    /// Uses file `draw`. Returns the calls.
    fn does(&mut self, operation: Operation, draw: u64, commits: bool) -> Vec<(String, u32)> {
        self.calls.clear();
        self.process.next = Planned { due: 0, operation, bytes: operation.bytes(draw), commits, draw };
        let mut event = self.process.begin(0);
        while event == Event::Call {
            event = self.answer();
        }
        let calls = u32::try_from(self.calls.len()).unwrap();
        match event {
            Event::Completed(done) => assert_eq!((done.operation, done.calls), (operation, calls)),
            other => assert!(matches!(other, Event::Failed { .. }), "{other:?}"),
        }
        self.calls.clone()
    }

    fn releases(&mut self, is_ending: bool) -> Vec<(String, u32)> {
        self.calls.clear();
        while self.process.release(is_ending) {
            assert_eq!(self.answer(), Event::CleanedUp);
        }
        self.calls.clone()
    }

    fn answer(&mut self) -> Event {
        let process = &mut self.process;
        let name = name(&process.call(), Version::V41).replace("OP_", "");
        let refused = self.refused.contains(&self.calls.len());
        self.calls.push((name, OpenId::stateid(process.open_id()).seqid));
        if refused {
            return process.failed("NFS4ERR_IO".to_owned(), "refused".to_owned());
        }
        let made = FileHandle(&[200]);
        let data = |count| {
            let mut payload = Payload::new(usize::try_from(count).unwrap(), UNIT, 1);
            payload.stamp(process.position(), 0);
            payload.bytes().to_vec()
        };
        let read = if let Call::Read(ReadArgs { count, .. }) = process.call() { data(count) } else { vec![] };
        let mut open = |file| {
            self.opened += 1;
            CallResult::Opened(OpenId::Nfs4(Stateid { seqid: self.opened, other: [1; 12] }), file)
        };
        let result = match process.call() {
            Call::Open(_) => open(None),
            Call::Create(_) => open(Some(made)),
            Call::Read(ReadArgs { count, .. }) => CallResult::Read { count, data: &read, eof: false },
            Call::Write(WriteHead { count, stable, .. }) => {
                CallResult::Written { count, committed: stable, verf: VERF }
            }
            Call::Commit(_) => CallResult::Committed(VERF),
            _ => CallResult::Done,
        };
        process.complete(result, 0).unwrap()
    }
}

fn calls(all: &[(&str, u32)]) -> Vec<(String, u32)> {
    all.iter().map(|(name, under)| ((*name).to_owned(), *under)).collect()
}

#[test]
fn operation_on_a_small_file_opens_and_closes_it() {
    for attribute_cache in [true, false] {
        let mut stepped = Stepped::new(true, Settings { attribute_cache, ..SETTINGS });
        let read = stepped.does(Operation::ReadFile, 3, false);
        assert_eq!(read, calls(&[("OPEN", 0), ("READ", 1), ("CLOSE", 1)]));
        let written = stepped.does(Operation::WriteFile, 3, true);
        let wanted = [("OPEN", 0), ("SETATTR", 2), ("WRITE", 2), ("COMMIT", 2), ("CLOSE", 2)];
        assert_eq!(written, calls(&wanted));
        let written = stepped.does(Operation::RandomWrite, 4, false);
        assert_eq!(written, calls(&[("OPEN", 0), ("WRITE", 3), ("CLOSE", 3)]));
        // The mode of a file needs no open one.
        assert_eq!(stepped.does(Operation::Chmod, 3, false), calls(&[("SETATTR", 0)]));
        assert!(stepped.releases(true).is_empty());
    }
}

#[test]
fn file_is_opened_with_the_access_of_its_operation() {
    for (operation, access) in
        [(Operation::RandomRead, ShareAccess::READ), (Operation::RandomWrite, ShareAccess::WRITE)]
    {
        let mut stepped = Stepped::new(true, SETTINGS);
        stepped.process.next =
            Planned { due: 0, operation, bytes: operation.bytes(3), commits: false, draw: 3 };
        assert_eq!(stepped.process.begin(0), Event::Call);
        let head = OpenHead { file: FileHandle(&[3]), access, owner: 0 };
        assert_eq!(stepped.process.call(), Call::Open(head));
        stepped.answer();
        stepped.answer();
        assert_eq!(stepped.process.call(), Call::Close(FileHandle(&[3])));
    }
}

#[test]
fn opening_a_file_tells_of_its_attributes_and_permissions() {
    let mut stepped = Stepped::new(true, SETTINGS);
    assert_eq!(stepped.does(Operation::Access, 3, false).len(), 1);
    stepped.does(Operation::ReadFile, 4, false);
    assert!(stepped.does(Operation::Access, 4, false).is_empty());
    assert!(stepped.does(Operation::Stat, 4, false).is_empty());
    let mut stepped = Stepped::new(true, Settings { attribute_cache: false, ..SETTINGS });
    stepped.does(Operation::ReadFile, 4, false);
    assert_eq!(stepped.does(Operation::Stat, 4, false), calls(&[("LOOKUP", 0), ("GETATTR", 0)]));
}

#[test]
fn created_file_is_open_until_closed() {
    let mut stepped = Stepped::new(true, SETTINGS);
    stepped.process.next =
        Planned { due: 0, operation: Operation::Create, bytes: 0, commits: false, draw: 0 };
    stepped.process.begin(0);
    stepped.answer();
    // Its own handle, not that of its directory.
    assert_eq!(stepped.process.call(), Call::Close(FileHandle(&[200])));
    stepped.answer();
    // A file that was removed is made again, and needs no LOOKUP for its handle.
    stepped.does(Operation::UnlinkFull, 12, false);
    assert_eq!(stepped.does(Operation::Create, 0, false), calls(&[("OPEN", 0), ("CLOSE", 2)]));
    let filled = stepped.does(Operation::WriteFile, 0, false);
    assert_eq!(filled, calls(&[("OPEN", 0), ("WRITE", 3), ("CLOSE", 3)]));
    assert!(stepped.releases(true).is_empty());
}

#[test]
fn stream_holds_its_file_open_from_end_to_end() {
    for gather in [None, Some(1 << 20)] {
        let mut stepped = Stepped::new(false, Settings { gather, ..SETTINGS });
        for (operation, transfer, under) in
            [(Operation::SequentialRead, "READ", 1), (Operation::SequentialWrite, "WRITE", 2)]
        {
            let operations = usize::try_from(LARGE_FILE.div_ceil(operation.bytes(0).into())).unwrap();
            let all: Vec<_> = (0..operations).map(|_| stepped.does(operation, 3, false)).collect();
            assert_eq!(all[0][0], ("OPEN".to_owned(), 0));
            assert_eq!(all[operations - 1].last(), Some(&("CLOSE".to_owned(), under)));
            let flat: Vec<_> = all.concat();
            assert!(flat[1..flat.len() - 1].iter().all(|(name, seqid)| name == transfer && *seqid == under));
            let transfers =
                gather.map_or(operations, |gather| usize::try_from(LARGE_FILE / u64::from(gather)).unwrap());
            assert_eq!(flat.len(), transfers + 2, "{operation:?}");
        }
        assert!(stepped.releases(true).is_empty());
    }
}

#[test]
fn streams_that_the_end_cuts_are_closed_and_opened_again() {
    let mut stepped = Stepped::new(false, SETTINGS);
    stepped.does(Operation::SequentialRead, 3, false);
    stepped.does(Operation::SequentialWrite, 3, false);
    // Of the same file, by two owners.
    assert!(stepped.releases(false).is_empty(), "the load goes on");
    assert_eq!(stepped.releases(true), calls(&[("CLOSE", 1), ("CLOSE", 2)]));
    let again = stepped.does(Operation::SequentialRead, 7, false);
    assert_eq!(again, calls(&[("OPEN", 0), ("READ", 3)]));
    assert_eq!(stepped.process.population.reading.file, 3, "it goes on where it was");
    let close = |process: &Process| process.opens.get(1).is_some();
    assert!(close(&stepped.process));
    // A CLOSE that the server puts off is not waited for.
    assert!(stepped.process.release(true));
    stepped.process.abandon_call();
    assert!(!close(&stepped.process) && !stepped.process.release(true));
}

#[test]
fn failure_in_small_file_is_followed_by_close() {
    let mut stepped = Stepped::new(true, SETTINGS);
    stepped.refused = vec![1];
    assert_eq!(stepped.does(Operation::ReadFile, 3, false), calls(&[("OPEN", 0), ("READ", 1)]));
    stepped.refused.clear();
    assert_eq!(stepped.releases(false), calls(&[("CLOSE", 1)]));
    // Where OPEN is refused there is nothing to close, and what CLOSE is refused for is not tried again.
    stepped.refused = vec![0];
    stepped.does(Operation::ReadFile, 3, false);
    assert!(stepped.releases(false).is_empty());
    stepped.refused = vec![2];
    assert_eq!(stepped.does(Operation::ReadFile, 3, false).len(), 3);
    assert!(stepped.releases(true).is_empty());
    // A stream goes on in the file that it has.
    let mut stepped = Stepped::new(false, SETTINGS);
    stepped.refused = vec![1];
    stepped.does(Operation::SequentialRead, 3, false);
    stepped.refused.clear();
    assert!(stepped.releases(false).is_empty());
    assert_eq!(stepped.does(Operation::SequentialRead, 3, false), calls(&[("READ", 1)]));
}
