//! The list of snapshots of an undo store, in a file that is replaced in one step.
//!
//! ```text
//! plimsoll undo 1
//! born SECONDS NANOS              no file of the volume was born later
//! snapshot VIEW SECONDS NANOS STATE    STATE: creating, ready, deleted
//! reverting VIEW                  the files are being brought back to a snapshot
//! ```
//!
//! A deleted snapshot stays in the list until its records are with an earlier snapshot. If it is the latest, changes go
//! on under its label: they would otherwise be preserved under an earlier label, although a record of it comes first.

use crate::error::refused;
use rustix::fs::{Mode, OFlags, fsync, openat, renameat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::MutexGuard;
use vfs::sync::Mutex;
use vfs::{FsError, FsResult, Time, ViewId};

const FILE: &str = "state";
const DRAFT: &str = "state.new";
const TITLE: &str = "plimsoll undo 1";
/// The bound of births is this far ahead of the births themselves, so that it is seldom written.
const AHEAD_SECONDS: i64 = 3600;

/// The latest snapshot, for which a change preserves what it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) view: ViewId,
    /// No file that exists in the snapshot was born later. Files that were born later need no records.
    pub(crate) born_until: Time,
}

impl Label {
    pub(crate) fn has(&self, born: Option<Time>) -> bool {
        born.is_none_or(|born| born <= self.born_until)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// No file was born later.
    born: Time,
    snapshots: BTreeMap<ViewId, Entry>,
    /// The files are being brought back to this snapshot.
    reverting: Option<ViewId>,
    /// The birth of the youngest file that this process has seen.
    youngest: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    born_until: Time,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Creating,
    Ready,
    Deleted,
}

impl Phase {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Creating, "creating"), (Self::Ready, "ready"), (Self::Deleted, "deleted")];

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, other)| *other == word).map(|(phase, _)| phase)
    }

    fn word(self) -> &'static str {
        Self::ALL.into_iter().find(|(phase, _)| *phase == self).map_or("", |(_, word)| word)
    }
}

impl State {
    /// Reads the list. A snapshot that the last process had begun to make counts as deleted.
    pub(super) fn read(dir: BorrowedFd<'_>) -> FsResult<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(dir, FILE, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(Self::default()),
            Err(errno) => return Err(refused(errno)),
        };
        let mut text = String::new();
        std::fs::File::from(file).read_to_string(&mut text).map_err(|_| FsError::Io)?;
        let mut state = Self::parse(&text).ok_or(FsError::Io)?;
        for entry in state.snapshots.values_mut().filter(|entry| entry.phase == Phase::Creating) {
            entry.phase = Phase::Deleted;
        }
        Ok(state)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        lines.next().filter(|title| *title == TITLE)?;
        let mut state = Self::default();
        for line in lines {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["born", seconds, nanos] => state.born = time(seconds, nanos)?,
                ["snapshot", view, seconds, nanos, word] => {
                    let entry = Entry { born_until: time(seconds, nanos)?, phase: Phase::of(word)? };
                    state.snapshots.insert(ViewId(view.parse().ok()?), entry);
                }
                ["reverting", view] => state.reverting = Some(ViewId(view.parse().ok()?)),
                _ => return None,
            }
        }
        Some(state)
    }

    fn text(&self) -> String {
        let mut text = format!("{TITLE}\nborn {} {}\n", self.born.seconds, self.born.nanos);
        for (view, Entry { born_until: Time { seconds, nanos }, phase }) in &self.snapshots {
            let _ = writeln!(text, "snapshot {} {seconds} {nanos} {}", view.0, phase.word());
        }
        if let Some(view) = self.reverting {
            let _ = writeln!(text, "reverting {}", view.0);
        }
        text
    }

    fn write(&self, dir: BorrowedFd<'_>) -> FsResult<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let draft = openat(dir, DRAFT, flags, Mode::RUSR | Mode::WUSR).map_err(refused)?;
        let mut draft = std::fs::File::from(draft);
        let written = draft.write_all(self.text().as_bytes()).and_then(|()| draft.sync_all());
        written.map_err(|error| Errno::from_io_error(&error).map_or(FsError::Io, refused))?;
        renameat(dir, DRAFT, dir, FILE).and_then(|()| fsync(dir)).map_err(refused)
    }

    /// The label of changes; `None` if no snapshot needs them.
    pub(super) fn latest(&self) -> Option<Label> {
        self.label_of(*self.snapshots.last_key_value()?.0)
    }

    /// The label of changes if `view` was published last; `None` if no snapshot up to it needs them.
    pub(super) fn label_of(&self, view: ViewId) -> Option<Label> {
        let mut needing =
            self.snapshots.range(..=view).rev().filter(|(_, entry)| entry.phase != Phase::Deleted);
        needing.next().map(|(_, entry)| Label { view, born_until: entry.born_until })
    }

    pub(super) fn find(&self, view: ViewId) -> Option<Label> {
        let entry = self.snapshots.get(&view).filter(|entry| entry.phase == Phase::Ready)?;
        Some(Label { view, born_until: entry.born_until })
    }

    pub(super) fn reverting(&self) -> Option<ViewId> {
        self.reverting
    }

    pub(super) fn set_reverting(&mut self, view: Option<ViewId>) {
        self.reverting = view;
    }

    pub(super) fn ready(&self) -> Vec<ViewId> {
        self.in_phase(Phase::Ready)
    }

    pub(super) fn deleted(&self) -> Vec<ViewId> {
        self.in_phase(Phase::Deleted)
    }

    fn in_phase(&self, phase: Phase) -> Vec<ViewId> {
        self.snapshots.iter().filter(|(_, entry)| entry.phase == phase).map(|(view, _)| *view).collect()
    }

    /// [`FsError::Exists`] if the number is in use, [`FsError::Invalid`] unless it is above all others.
    pub(super) fn begin(&mut self, view: ViewId) -> FsResult<()> {
        if self.snapshots.contains_key(&view) {
            return Err(FsError::Exists);
        }
        let is_next = self.snapshots.last_key_value().is_none_or(|(last, _)| *last < view);
        if !is_next || view == ViewId::LIVE || view > ViewId::MAX {
            return Err(FsError::Invalid);
        }
        // Until the changes under way have ended, every file may be in the snapshot.
        let born_until = Time { seconds: i64::MAX, nanos: 0 };
        self.snapshots.insert(view, Entry { born_until, phase: Phase::Creating });
        Ok(())
    }

    /// The birth of the youngest file that a snapshot can have, when the changes under way at its beginning have ended.
    /// `now` is a time after that, which counts if this process has seen no birth.
    pub(super) fn youngest(&self, now: Time) -> Time {
        self.youngest.unwrap_or_else(|| self.born.max(now))
    }

    pub(super) fn commit(&mut self, view: ViewId, born_until: Time) {
        self.snapshots.insert(view, Entry { born_until, phase: Phase::Ready });
    }

    pub(super) fn mark_deleted(&mut self, view: ViewId) {
        if let Some(entry) = self.snapshots.get_mut(&view) {
            entry.phase = Phase::Deleted;
        }
    }

    /// Removes deleted snapshots whose records are gone.
    pub(super) fn forget(&mut self, views: &[ViewId]) {
        self.snapshots.retain(|view, _| !views.contains(view));
    }

    /// Sets the exact bound of births, for the next process.
    pub(super) fn seal(&mut self) {
        self.born = self.youngest.unwrap_or(self.born);
    }

    /// Notes a birth. Returns whether it is past the bound, which must be raised then.
    pub(super) fn note_birth(&mut self, born: Time) -> bool {
        if self.youngest.is_none_or(|youngest| youngest < born) {
            self.youngest = Some(born.max(self.youngest.unwrap_or(self.born)));
        }
        born > self.born
    }

    pub(super) fn raise_bound(&mut self, born: Time) {
        if born > self.born {
            self.born = Time { seconds: born.seconds.saturating_add(AHEAD_SECONDS), ..born };
        }
    }
}

/// The list in memory and in its file. Changes of files read it, and never wait for the disk.
pub(super) struct StateFile {
    /// Held by a change of the list, until it is durable.
    changing: Mutex<()>,
    state: Mutex<State>,
}

impl StateFile {
    pub(super) fn new(state: State) -> Self {
        Self { changing: Mutex::default(), state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// [`StateFile::try_change`] by a change that cannot be refused.
    pub(super) fn change(&self, dir: BorrowedFd<'_>, change: impl FnOnce(&mut State)) -> FsResult<()> {
        self.try_change(dir, |state| {
            change(state);
            Ok(())
        })
    }

    /// Changes the list, durably, or leaves it as it is. Until then, others find it as it was.
    pub(super) fn try_change(
        &self,
        dir: BorrowedFd<'_>,
        change: impl FnOnce(&mut State) -> FsResult<()>,
    ) -> FsResult<()> {
        let _changing = self.changing.lock();
        let before = self.lock().clone();
        let mut changed = before.clone();
        change(&mut changed)?;
        if changed == before {
            return Ok(());
        }
        changed.write(dir)?;
        let mut state = self.lock();
        // Births may have been noted meanwhile.
        let youngest = state.youngest.max(changed.youngest);
        *state = State { youngest, ..changed };
        Ok(())
    }
}

fn time(seconds: &str, nanos: &str) -> Option<Time> {
    Some(Time {
        seconds: seconds.parse().ok()?,
        nanos: nanos.parse().ok().filter(|nanos| *nanos < 1_000_000_000)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, OwnedFd};

    fn at(seconds: i64) -> Time {
        Time { seconds, nanos: 7 }
    }

    fn reread(dir: &OwnedFd) -> StateFile {
        StateFile::new(State::read(dir.as_fd()).unwrap())
    }

    #[test]
    fn state_survives_and_incomplete_snapshots_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let dir = crate::volumes::tree::open_root(dir.path()).unwrap();
        let file = reread(&dir);
        let begin = |view| file.try_change(dir.as_fd(), |state| state.begin(ViewId(view)));
        assert_eq!(*file.lock(), State::default());
        begin(3).unwrap();
        let seen = file.lock().clone();
        assert_eq!((seen.ready(), seen.latest().map(|label| label.view)), (vec![], Some(ViewId(3))));
        file.change(dir.as_fd(), |state| state.commit(ViewId(3), at(10))).unwrap();
        begin(5).unwrap();
        assert_eq!(begin(5), Err(FsError::Exists));
        assert_eq!(begin(4), Err(FsError::Invalid));
        let again = reread(&dir);
        let seen = again.lock().clone();
        assert_eq!((seen.ready(), seen.deleted()), (vec![ViewId(3)], vec![ViewId(5)]));
        // Changes stay under the latest label, for the earlier snapshot.
        assert_eq!(again.lock().latest(), Some(Label { view: ViewId(5), born_until: at(10) }));
        again.change(dir.as_fd(), |state| state.mark_deleted(ViewId(3))).unwrap();
        assert_eq!(again.lock().latest(), None);
        again.change(dir.as_fd(), |state| state.forget(&[ViewId(3), ViewId(5)])).unwrap();
        assert_eq!(reread(&dir).lock().deleted(), []);
    }

    #[test]
    fn files_born_under_a_clock_ahead_are_in_the_next_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let dir = crate::volumes::tree::open_root(dir.path()).unwrap();
        let file = reread(&dir);
        assert_eq!(file.lock().youngest(at(100)), at(100));
        assert!(file.lock().note_birth(at(9000)));
        file.change(dir.as_fd(), |state| state.raise_bound(at(9000))).unwrap();
        assert!(!file.lock().note_birth(at(50)));
        assert_eq!(file.lock().youngest(at(100)), at(9000));
        // The next process knows a bound alone, or the birth itself after an orderly end.
        let bound = reread(&dir).lock().youngest(at(200));
        assert_eq!(bound, Time { seconds: 9000 + AHEAD_SECONDS, nanos: 7 });
        file.change(dir.as_fd(), |state| state.seal()).unwrap();
        assert_eq!(reread(&dir).lock().youngest(at(200)), at(9000));
    }

    #[test]
    fn list_is_read_and_births_are_noted_while_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let dir = crate::volumes::tree::open_root(dir.path()).unwrap();
        let file = reread(&dir);
        let beside = |state: &mut State| {
            // Another thread, at a moment when the change is not durable yet.
            assert_eq!(file.lock().latest(), None);
            assert!(file.lock().note_birth(at(7)));
            state.begin(ViewId(1))
        };
        file.try_change(dir.as_fd(), beside).unwrap();
        assert_eq!(file.lock().youngest(at(1)), at(7));
        assert_eq!(file.lock().latest().map(|label| label.view), Some(ViewId(1)));
    }
}
