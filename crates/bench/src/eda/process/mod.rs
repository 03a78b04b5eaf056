//! One process: a state machine that takes the time and the results of calls, and returns the next call.
//!
//! | operation | calls over NFSv3 |
//! |---|---|
//! | stat | none while the attributes are known, else GETATTR; without a cache LOOKUP, GETATTR |
//! | access | none while attributes and permissions are known, else ACCESS |
//! | random-write, sequential-write | WRITE, and COMMIT where the schedule says so |
//! | write-file | SETATTR (size 0) unless the file is empty, WRITE, and COMMIT as above |
//! | random-read, read-file, sequential-read | READ |
//! | create | CREATE |
//! | mkdir | MKDIR |
//! | unlink, unlink-full | REMOVE |
//! | chmod | SETATTR (mode) |
//!
//! An operation longer than the transfer takes several READs or WRITEs in turn. Gathered sequential operations take
//! fewer, as with a client's page cache: a READ prefetches for the next operations, and a WRITE takes the data of the
//! last ones, so that many operations need no call. Without an attribute cache, write-file and read-file begin with
//! GETATTR, as opening a file does (close-to-open). With a cache, the client behaves as if mounted with
//! `nocto,actimeo=600`: attributes from any reply stay valid for ten minutes.
//!
//! Over NFSv4 data moves in open files: an operation on a small file begins with OPEN and ends with CLOSE, and create
//! ends with CLOSE; a stream opens its file with the first operation on it and closes it with the last. OPEN returns
//! attributes and permissions, with and without a cache. SMB behaves the same, without LOOKUP: calls on a name open
//! it.

use nfs_wire::v3::{
    Access, AccessArgs, CommitArgs, CreateArgs, CreateHow, DirOpArgs, GetattrArgs, LookupArgs, MkdirArgs,
    ReadArgs, RemoveArgs, Sattr, SetattrArgs, StableHow, WriteVerf,
};
use wire_client::call::{Call, CallResult, OpenHead, OpenId, WriteHead};
use wire_client::{Handle, Version};

use super::mix::{Operation, SMALL_FILE};
use super::numbers::name;
use super::opens::{OPEN_SLOTS, OpenFile, Opens, access_of, open_slot_of};
use super::population::{Content, Cursor, Name, Population, choose};
use super::schedule::{Planned, Schedule};
use crate::driver::fault::{Fault, counted};
use crate::error::Error;
use crate::pattern::{self, FileOffset};

/// Lifetime of cached attributes, in nanoseconds (`actimeo=600`).
pub(super) const ATTRIBUTES_KNOWN_NS: u64 = 600_000_000_000;
/// Each unit of this many bytes names its place.
pub(super) const UNIT: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub version: Version,
    /// A multiple of 4 KiB.
    pub read_max: u32,
    /// A multiple of 4 KiB.
    pub write_max: u32,
    pub stable: StableHow,
    pub attribute_cache: bool,
    /// Sequential operations are gathered into calls of this many bytes, a multiple of 4 KiB. `None`: each
    /// operation has its own calls.
    pub gather: Option<u32>,
}

#[cfg(test)]
impl Settings {
    /// Caches attributes and makes long calls.
    pub(super) const fn cached(version: Version) -> Self {
        let (read_max, write_max) = (1 << 20, 1 << 20);
        let (stable, attribute_cache, gather) = (StableHow::Unstable, true, None);
        Self { version, read_max, write_max, stable, attribute_cache, gather }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The caller must send [`Process::call`].
    Call,
    Completed(Completed),
    /// The operation failed. The process continues with the next one.
    Failed {
        operation: &'static str,
        what: String,
        detail: String,
    },
    /// A directory was removed, or a file closed, outside of any operation.
    CleanedUp,
}

/// Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completed {
    pub operation: Operation,
    /// From the first call to the last reply.
    pub service: u64,
    /// From the due time to the last reply.
    pub response: u64,
    pub bytes: u32,
    /// 0 if the client knew the answer.
    pub calls: u32,
}

#[derive(Clone, Copy, Debug)]
enum Object {
    File(usize),
    Spare(u32),
    Directory(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Lookup,
    Getattr,
    Access,
    Truncate,
    Chmod,
    Read,
    Write,
    Commit,
    Create,
    /// LOOKUP after CREATE, whose reply may lack the handle.
    LookupCreated,
    Mkdir,
    Remove,
    Rmdir,
    Open,
    Close,
    /// Outside of any operation.
    CloseIdle,
}

#[derive(Debug)]
pub(super) struct Process {
    settings: Settings,
    schedule: Schedule,
    population: Population,
    next: Planned,
    planned: Planned,
    step: Step,
    object: Object,
    name: Name,
    opens: Opens,
    /// The slot of the file that is closing.
    closing: usize,
    sent: u64,
    offset: u64,
    length: u32,
    moved: u32,
    /// Bytes of the operation. Gathered calls have other lengths.
    bytes: u32,
    calls: u32,
    verf: Option<WriteVerf>,
    /// Changes of the server's verifier. After such a restart, uncommitted data may be lost.
    pub restarts: u64,
}

impl Process {
    pub(super) fn new(settings: Settings, mut schedule: Schedule, population: Population) -> Self {
        let next = schedule.next_planned();
        Self {
            settings,
            schedule,
            population,
            next,
            planned: next,
            step: Step::Getattr,
            object: Object::File(0),
            name: Name::new(b'f', 0),
            opens: Opens::default(),
            closing: 0,
            sent: 0,
            offset: 0,
            length: 0,
            moved: 0,
            bytes: 0,
            calls: 0,
            verf: None,
            restarts: 0,
        }
    }

    /// Restarts without cached attributes.
    pub(super) fn restart(&mut self, schedule: Schedule) {
        self.schedule = schedule;
        self.next = self.schedule.next_planned();
        self.population.files.iter_mut().for_each(|file| file.known_until = 0);
    }

    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.next.due
    }

    pub(super) fn version(&self) -> Version {
        self.settings.version
    }

    pub(super) fn population(&self) -> &Population {
        &self.population
    }

    /// Begins the next operation, even if it is late. No call may be in flight.
    pub(super) fn begin(&mut self, now: u64) -> Event {
        self.planned = std::mem::replace(&mut self.next, self.schedule.next_planned());
        (self.sent, self.moved, self.calls) = (now, 0, 0);
        let Some(object) = self.choose_object() else {
            return self.failed("nothing to remove".to_owned(), "no empty file is left".to_owned());
        };
        self.object = object;
        self.name = match object {
            Object::File(file) => self.population.name_of(file),
            Object::Spare(serial) => Name::new(b'n', serial),
            Object::Directory(serial) => Name::new(b'd', serial),
        };
        match self.first_step(now) {
            Some(step) => self.issue(step),
            None => self.complete_operation(now),
        }
    }

    /// Begins to close an idle file: one of a failed operation, or a stream's file at the end of the load. No
    /// call may be in flight. Returns false if no such file is open.
    pub(super) fn release(&mut self, is_ending: bool) -> bool {
        let Some(place) = self.opens.first(if is_ending { OPEN_SLOTS } else { 1 }) else { return false };
        self.closing = place;
        self.issue(Step::CloseIdle);
        true
    }

    /// Drops a deferred call that will not be repeated.
    pub(super) fn abandon_call(&mut self) {
        if matches!(self.step, Step::Close | Step::CloseIdle) {
            self.opens.clear(self.closing);
        }
    }

    /// Begins to remove a surplus directory. No call may be in flight. Returns false if there is none.
    pub(super) fn remove_surplus(&mut self) -> bool {
        let Some(serial) = self.population.surplus() else { return false };
        (self.object, self.name) = (Object::Directory(serial), Name::new(b'd', serial));
        self.issue(Step::Rmdir);
        true
    }

    pub(super) fn call(&self) -> Call<'_> {
        let (object, what) = (self.handle().wire(), self.operand());
        match self.step {
            Step::Lookup | Step::LookupCreated => Call::Lookup(LookupArgs { what }),
            Step::Getattr => Call::Getattr(GetattrArgs { object }),
            Step::Access => {
                let access = Access::READ | Access::MODIFY | Access::EXTEND | Access::EXECUTE;
                Call::Access(AccessArgs { object, access })
            }
            Step::Truncate | Step::Chmod => {
                let new_attributes = match self.step {
                    Step::Truncate => Sattr { size: Some(0), ..Sattr::default() },
                    _ => Sattr { mode: Some(self.mode()), ..Sattr::default() },
                };
                Call::Setattr(SetattrArgs { object, new_attributes, guard: None })
            }
            Step::Read => {
                let (offset, count) = self.extent();
                Call::Read(ReadArgs { file: object, offset, count })
            }
            Step::Write => {
                let (offset, count) = self.extent();
                Call::Write(WriteHead { file: object, offset, count, stable: self.settings.stable })
            }
            Step::Commit => Call::Commit(CommitArgs { file: object, offset: 0, count: 0 }),
            Step::Create => {
                let how = CreateHow::Unchecked(Sattr { mode: Some(0o644), ..Sattr::default() });
                Call::Create(CreateArgs { place: what, how })
            }
            Step::Mkdir => {
                let attributes = Sattr { mode: Some(0o755), ..Sattr::default() };
                Call::Mkdir(MkdirArgs { place: what, attributes })
            }
            Step::Remove => Call::Remove(RemoveArgs { object: what }),
            Step::Rmdir => Call::Rmdir(RemoveArgs { object: what }),
            Step::Open => {
                let Planned { operation, .. } = self.planned;
                let access = access_of(operation, self.settings.version).unwrap_or_default();
                let owner = u8::try_from(open_slot_of(operation)).unwrap_or(0);
                Call::Open(OpenHead { file: object, access, owner })
            }
            Step::Close | Step::CloseIdle => {
                Call::Close(self.opens.get(self.closing).map_or(object, |open| open.file.wire()))
            }
        }
    }

    pub(super) fn open_id(&self) -> Option<OpenId> {
        let place = match self.step {
            Step::Close | Step::CloseIdle => self.closing,
            _ => open_slot_of(self.planned.operation),
        };
        self.opens.get(place).map(|open| open.id)
    }

    pub(super) fn payload(&self) -> Option<(FileOffset, u32)> {
        let (_, count) = self.extent();
        (self.step == Step::Write).then(|| (self.position(), count))
    }

    /// Handles the result of the call in flight.
    ///
    /// # Errors
    /// The result violates the protocol, or contains data of another place.
    pub(super) fn complete(&mut self, result: CallResult<'_>, now: u64) -> Result<Event, Error> {
        match self.check(result) {
            Ok(()) => {
                self.apply(result, now);
                Ok(match self.following() {
                    Some(step) => self.issue(step),
                    None if matches!(self.step, Step::Rmdir | Step::CloseIdle) => Event::CleanedUp,
                    None => self.complete_operation(now),
                })
            }
            Err(Fault::Counted { what, detail }) => Ok(self.failed(what, detail)),
            Err(Fault::Fatal(wrong)) => Err(wrong),
        }
    }

    /// Fails the operation, whose call was not executed.
    pub(super) fn failed(&mut self, what: String, detail: String) -> Event {
        let detail = format!("{} {}: {detail}", name(&self.call(), self.settings.version), self.name.text());
        let mut operation = self.planned.operation.name();
        // Neither removal nor close is repeated.
        match self.step {
            Step::Rmdir => {
                operation = "rmdir";
                self.population.made.pop_front();
            }
            Step::CloseIdle => {
                operation = "close";
                self.opens.clear(self.closing);
            }
            Step::Close => self.opens.clear(self.closing),
            _ => {}
        }
        Event::Failed { operation, what, detail }
    }

    fn issue(&mut self, step: Step) -> Event {
        self.step = step;
        if step == Step::Close {
            self.closing = open_slot_of(self.planned.operation);
        }
        self.calls += 1;
        Event::Call
    }

    fn complete_operation(&mut self, now: u64) -> Event {
        let (bytes, file_bytes) = (self.bytes, self.population.role.file_bytes);
        if let Some(cursor) = self.stream() {
            cursor.pass(bytes, file_bytes);
        }
        Event::Completed(Completed {
            operation: self.planned.operation,
            service: now - self.sent,
            response: now.saturating_sub(self.planned.due),
            bytes: self.bytes,
            calls: self.calls,
        })
    }

    /// Sets the extent of the operation too. `None` if no such object exists.
    fn choose_object(&mut self) -> Option<Object> {
        let Planned { operation, bytes, draw, .. } = self.planned;
        let files = &mut self.population;
        (self.offset, self.length, self.bytes) = (0, bytes, bytes);
        Some(match operation {
            Operation::Create => match files.missing.front() {
                Some(file) => Object::File(*file),
                None => Object::Spare(files.next_serial()),
            },
            Operation::Mkdir => Object::Directory(files.next_serial()),
            Operation::Unlink => Object::Spare(*files.spare.front()?),
            Operation::WriteFile => {
                Object::File(files.empty.front().copied().unwrap_or_else(|| files.any_full(draw)))
            }
            Operation::SequentialRead | Operation::SequentialWrite => {
                let count = files.files.len();
                let reads = operation == Operation::SequentialRead;
                let cursor = if reads { &mut files.reading } else { &mut files.writing };
                if cursor.offset == 0 {
                    cursor.file = choose(draw, count);
                }
                let whole = files.role.file_bytes;
                let rest = u32::try_from(whole - cursor.offset).unwrap_or(u32::MAX);
                self.bytes = bytes.min(rest);
                (self.offset, self.length) = match self.settings.gather {
                    None => (cursor.offset, self.bytes),
                    Some(gather) if reads => cursor.ahead(self.bytes, gather, whole),
                    Some(gather) => cursor.behind(self.bytes, gather, whole, self.planned.commits),
                };
                Object::File(cursor.file)
            }
            Operation::RandomWrite | Operation::RandomRead => {
                let places = (SMALL_FILE - u64::from(bytes)) / UNIT as u64 + 1;
                self.offset = (draw >> 32) % places * UNIT as u64;
                Object::File(files.any_full(draw))
            }
            Operation::Stat
            | Operation::Access
            | Operation::ReadFile
            | Operation::UnlinkFull
            | Operation::Chmod => Object::File(files.any_full(draw)),
        })
    }

    /// `None` if the client knows the answer.
    fn first_step(&self, now: u64) -> Option<Step> {
        let Settings { version, attribute_cache: cached, .. } = self.settings;
        let operation = self.planned.operation;
        let file = self.file();
        let is_fresh = cached && file.is_some_and(|file| now < file.known_until);
        if access_of(operation, version).is_some() && self.opens.get(open_slot_of(operation)).is_none() {
            return Some(Step::Open);
        }
        match operation {
            Operation::Stat if is_fresh => None,
            Operation::Access if is_fresh && file.is_some_and(|file| file.access_known) => None,
            // SMB opens the file by its path, so it needs no LOOKUP.
            Operation::Stat if !cached && !version.is_smb() => Some(Step::Lookup),
            Operation::ReadFile | Operation::WriteFile if !cached => Some(Step::Getattr),
            Operation::Stat => Some(Step::Getattr),
            Operation::Access => Some(Step::Access),
            Operation::WriteFile
            | Operation::RandomRead
            | Operation::ReadFile
            | Operation::SequentialRead
            | Operation::RandomWrite
            | Operation::SequentialWrite => self.transfer().or_else(|| self.closing()),
            Operation::Create => Some(Step::Create),
            Operation::Mkdir => Some(Step::Mkdir),
            Operation::Unlink | Operation::UnlinkFull => Some(Step::Remove),
            Operation::Chmod => Some(Step::Chmod),
        }
    }

    /// The first step of a data operation after OPEN. `None` if gathering leaves nothing to send.
    fn transfer(&self) -> Option<Step> {
        match self.planned.operation {
            Operation::WriteFile => Some(self.filling()),
            _ if self.length == 0 => None,
            Operation::RandomWrite | Operation::SequentialWrite => Some(Step::Write),
            _ => Some(Step::Read),
        }
    }

    /// `None` ends the operation.
    fn following(&self) -> Option<Step> {
        let next = match self.step {
            Step::Rmdir | Step::CloseIdle => return None,
            Step::Lookup => Some(Step::Getattr),
            Step::Getattr if self.planned.operation == Operation::Stat => None,
            Step::Getattr | Step::Open => self.transfer(),
            Step::Truncate => Some(Step::Write),
            Step::Read | Step::Write if self.moved < self.length => Some(self.step),
            Step::Write if self.planned.commits => Some(Step::Commit),
            // An empty file in the scratch directory is used by name only.
            Step::Create if self.file().is_some_and(|file| file.content == Content::Missing) => {
                Some(Step::LookupCreated)
            }
            Step::Access
            | Step::Chmod
            | Step::Read
            | Step::Write
            | Step::Commit
            | Step::Create
            | Step::LookupCreated
            | Step::Mkdir
            | Step::Remove
            | Step::Close => None,
        };
        next.or_else(|| self.closing())
    }

    /// A stream's file stays open until its end.
    fn closing(&self) -> Option<Step> {
        let place = open_slot_of(self.planned.operation);
        let ends = self
            .cursor()
            .is_none_or(|cursor| cursor.offset + u64::from(self.bytes) == self.population.role.file_bytes);
        (self.opens.get(place).is_some() && ends).then_some(Step::Close)
    }

    fn filling(&self) -> Step {
        match self.file() {
            Some(file) if file.content == Content::Full => Step::Truncate,
            _ => Step::Write,
        }
    }

    fn check(&mut self, result: CallResult<'_>) -> Result<(), Fault> {
        match result {
            CallResult::Read { count, data, eof } => self.check_read(count, data, eof),
            CallResult::Written { count, committed, verf } => {
                self.check_write(count, committed)?;
                self.note_verifier(verf);
                Ok(())
            }
            CallResult::Committed(verf) => {
                self.note_verifier(verf);
                Ok(())
            }
            CallResult::Done | CallResult::Found(_) | CallResult::Opened(..) | CallResult::Listed(_) => {
                Ok(())
            }
        }
    }

    fn check_read(&self, count: u32, data: &[u8], eof: bool) -> Result<(), Fault> {
        let (offset, wanted) = self.extent();
        if count as usize != data.len() || count > wanted {
            let sent = data.len();
            let wrong = format!("READ of {wanted} bytes: count {count}, {sent} bytes sent");
            return Err(Fault::Fatal(Error::Protocol(wrong)));
        }
        let end = offset + u64::from(count);
        if count != wanted || eof && end < self.population.role.file_bytes {
            let detail = format!("{count} of {wanted} bytes at {offset}, end of file: {eof}");
            return Err(counted("short".to_owned(), detail));
        }
        // Verifies one unit of each READ, which costs half a microsecond a call.
        pattern::verify(&data[..UNIT], UNIT, self.position(), None)
            .map_err(|wrong| Fault::Fatal(Error::Mismatch(wrong)))
    }

    fn check_write(&self, count: u32, committed: StableHow) -> Result<(), Fault> {
        let (offset, wanted) = self.extent();
        if count != wanted {
            return Err(counted("short".to_owned(), format!("{count} of {wanted} bytes at {offset}")));
        }
        if committed < self.settings.stable {
            let detail = format!("{committed:?} for {:?}", self.settings.stable);
            return Err(counted("too weak".to_owned(), detail));
        }
        Ok(())
    }

    fn note_verifier(&mut self, verf: WriteVerf) {
        if *self.verf.get_or_insert(verf) != verf {
            self.verf = Some(verf);
            self.restarts += 1;
        }
    }

    fn apply(&mut self, result: CallResult<'_>, now: u64) {
        if matches!(self.step, Step::Close | Step::CloseIdle) {
            return self.opens.clear(self.closing);
        }
        let found = match result {
            CallResult::Found(handle) | CallResult::Opened(_, handle) => handle.map(Handle::from),
            _ => None,
        };
        if let CallResult::Opened(id, _) = result {
            let file = found.clone().unwrap_or_else(|| self.handle().clone());
            self.opens.set(open_slot_of(self.planned.operation), OpenFile { file, id });
        }
        if let Object::File(file) = self.object {
            self.settle_file(file, found, now);
        }
        let (_, count) = self.extent();
        if matches!(self.step, Step::Read | Step::Write) {
            self.moved += count;
            if let Some(cursor) = self.stream() {
                cursor.moved += u64::from(count);
            }
        }
        let files = &mut self.population;
        match (self.step, self.object) {
            (Step::Create, Object::Spare(serial)) => files.spare.push_back(serial),
            (Step::Remove, Object::Spare(_)) => drop(files.spare.pop_front()),
            (Step::Mkdir, Object::Directory(serial)) => files.made.push_back(serial),
            (Step::Rmdir, Object::Directory(_)) => drop(files.made.pop_front()),
            _ => {}
        }
    }

    fn settle_file(&mut self, index: usize, found: Option<Handle>, now: u64) {
        let whole = self.moved + self.extent().1 == self.length;
        let files = &mut self.population;
        let file = &mut files.files[index];
        file.known_until = now + ATTRIBUTES_KNOWN_NS;
        match self.step {
            Step::Access | Step::Open => file.access_known = true,
            // A new mode changes the permissions.
            Step::Chmod => file.access_known = false,
            Step::Truncate => {
                file.content = Content::Empty;
                // The front, because the last WRITE of this operation removes the front entry.
                files.empty.push_front(index);
            }
            Step::Write if whole && self.planned.operation == Operation::WriteFile => {
                file.content = Content::Full;
                files.empty.pop_front();
            }
            Step::Remove => {
                (file.content, file.known_until, file.access_known) = (Content::Missing, 0, false);
                files.missing.push_back(index);
            }
            Step::Create | Step::LookupCreated => {
                if let Some(handle) = found {
                    (file.handle, file.content) = (handle, Content::Empty);
                    files.missing.pop_front();
                    files.empty.push_back(index);
                }
            }
            Step::Lookup
            | Step::Getattr
            | Step::Read
            | Step::Write
            | Step::Commit
            | Step::Mkdir
            | Step::Rmdir
            | Step::Close
            | Step::CloseIdle => {}
        }
    }

    /// `None` unless the operation is sequential.
    fn cursor(&self) -> Option<Cursor> {
        match self.planned.operation {
            Operation::SequentialRead => Some(self.population.reading),
            Operation::SequentialWrite => Some(self.population.writing),
            _ => None,
        }
    }

    fn stream(&mut self) -> Option<&mut Cursor> {
        match self.planned.operation {
            Operation::SequentialRead => Some(&mut self.population.reading),
            Operation::SequentialWrite => Some(&mut self.population.writing),
            _ => None,
        }
    }

    fn file(&self) -> Option<&super::population::File> {
        match self.object {
            Object::File(file) => Some(&self.population.files[file]),
            Object::Spare(_) | Object::Directory(_) => None,
        }
    }

    /// Objects in the scratch directory are used by name only.
    fn handle(&self) -> &Handle {
        self.file().map_or(&self.population.scratch, |file| &file.handle)
    }

    fn operand(&self) -> DirOpArgs<'_> {
        let dir = match self.object {
            Object::File(file) => self.population.directory_of(file),
            Object::Spare(_) | Object::Directory(_) => &self.population.scratch,
        };
        DirOpArgs { dir: dir.wire(), name: self.name.bytes() }
    }

    fn extent(&self) -> (u64, u32) {
        let max = if self.step == Step::Read { self.settings.read_max } else { self.settings.write_max };
        let max = self.settings.gather.map_or(max, |gather| max.min(gather));
        (self.offset + u64::from(self.moved), (self.length - self.moved).min(max))
    }

    fn position(&self) -> FileOffset {
        let Object::File(file) = self.object else { return FileOffset { file: 0, offset: 0 } };
        let file = self.population.number + u32::try_from(file).unwrap_or(0);
        FileOffset { file, offset: self.offset + u64::from(self.moved) }
    }

    fn mode(&self) -> u32 {
        if self.planned.draw >> 63 == 0 { 0o644 } else { 0o600 }
    }
}

#[cfg(test)]
mod opens_tests;
#[cfg(test)]
mod tests;
