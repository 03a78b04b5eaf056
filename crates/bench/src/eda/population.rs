//! The files of a process, and their state.
//!
//! A frontend's create (2 %) balances unlink and unlink-full (1 % each). It recreates a missing file, which the next
//! write-file fills, or else creates a further empty file, which unlink removes later. So the number of files stays the
//! same. Only directories would accumulate; an idle process removes the oldest ones
//! ([`super::process::Process::remove_surplus`]).

use std::collections::VecDeque;

use super::mix::Role;
use wire_client::Handle;

/// Empty files at the start, for unlink.
pub(super) const SPARE: u32 = 4;
/// Directories that mkdir may leave behind.
const DIRECTORIES_KEPT: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Full,
    Empty,
    Missing,
}

#[derive(Clone, Debug)]
pub(super) struct File {
    /// Outdated if the file was removed.
    pub handle: Handle,
    pub content: Content,
    /// When cached attributes expire, in nanoseconds after the beginning.
    pub known_until: u64,
    /// Whether the client knows the permissions. Valid only while the attributes are known.
    pub access_known: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub file: usize,
    /// At zero, the next operation chooses another file.
    pub offset: u64,
    /// The gathered calls have moved data up to this byte.
    pub moved: u64,
}

impl Cursor {
    /// The READ that makes `count` more bytes available, in calls of `gather` bytes. Returns offset and
    /// length.
    pub(super) fn ahead(&self, count: u32, gather: u32, file_bytes: u64) -> (u64, u32) {
        let missing = (self.offset + u64::from(count)).saturating_sub(self.moved);
        let bytes = missing.next_multiple_of(u64::from(gather)).min(file_bytes - self.moved);
        (self.moved, u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// The WRITE that is due after `count` more bytes. Whole calls only, except at the file's end or before a
    /// COMMIT.
    pub(super) fn behind(&self, count: u32, gather: u32, file_bytes: u64, commits: bool) -> (u64, u32) {
        let end = self.offset + u64::from(count);
        let waiting = end.saturating_sub(self.moved);
        let is_flushed = commits || end == file_bytes;
        let bytes = if is_flushed { waiting } else { waiting - waiting % u64::from(gather) };
        (self.moved, u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// Wraps at the end of the file.
    pub(super) fn pass(&mut self, count: u32, file_bytes: u64) {
        self.offset = (self.offset + u64::from(count)) % file_bytes;
        if self.offset == 0 {
            self.moved = 0;
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Population {
    pub role: &'static Role,
    /// The number of the first file in its data ([`crate::pattern`]).
    pub number: u32,
    /// File `i` is in directory `i` modulo their number.
    pub directories: Vec<Handle>,
    pub scratch: Handle,
    pub files: Vec<File>,
    pub missing: VecDeque<usize>,
    pub empty: VecDeque<usize>,
    pub spare: VecDeque<u32>,
    pub made: VecDeque<u32>,
    pub serial: u32,
    pub reading: Cursor,
    pub writing: Cursor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    bytes: [u8; 12],
    start: usize,
}

impl Population {
    /// The state after the layout: all files full, and [`SPARE`] empty ones.
    pub(super) fn new(
        role: &'static Role,
        number: u32,
        directories: Vec<Handle>,
        scratch: Handle,
        files: Vec<Handle>,
    ) -> Self {
        let full = |handle| File { handle, content: Content::Full, known_until: 0, access_known: false };
        Self {
            role,
            number,
            directories,
            scratch,
            files: files.into_iter().map(full).collect(),
            missing: VecDeque::new(),
            empty: VecDeque::new(),
            spare: (0..SPARE).collect(),
            made: VecDeque::new(),
            serial: SPARE,
            reading: Cursor::default(),
            writing: Cursor::default(),
        }
    }

    #[inline]
    pub(super) fn any_full(&self, draw: u64) -> usize {
        let first = choose(draw, self.files.len());
        let (before, from) = self.files.split_at(first);
        let is_full = |file: &File| file.content == Content::Full;
        let found = from.iter().chain(before).position(is_full);
        found.map_or(first, |after| (first + after) % self.files.len())
    }

    pub(super) fn next_serial(&mut self) -> u32 {
        self.serial += 1;
        self.serial - 1
    }

    /// The oldest directory, if more than [`DIRECTORIES_KEPT`] exist.
    pub(super) fn surplus(&self) -> Option<u32> {
        self.made.front().copied().filter(|_| self.made.len() > DIRECTORIES_KEPT)
    }

    pub(super) fn name_of(&self, file: usize) -> Name {
        Name::new(b'f', u32::try_from(file / self.role.directories).unwrap_or(u32::MAX))
    }

    pub(super) fn directory_of(&self, file: usize) -> &Handle {
        &self.directories[file % self.role.directories]
    }
}

impl Name {
    pub(super) fn new(letter: u8, number: u32) -> Self {
        let mut name = Self { bytes: [b'0'; 12], start: 12 };
        let mut rest = number;
        while rest > 0 || name.start > 10 {
            name.start -= 1;
            name.bytes[name.start] += u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        name.start -= 1;
        name.bytes[name.start] = letter;
        name
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(super) fn text(&self) -> &str {
        str::from_utf8(self.bytes()).unwrap_or_default()
    }
}

/// Uniform in `draw`, below `count`.
#[inline]
pub(super) fn choose(draw: u64, count: usize) -> usize {
    usize::try_from(draw % count.max(1) as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::mix::FRONTEND;
    use super::*;
    use nfs_wire::v3::FileHandle;

    #[test]
    fn names_have_two_digits_or_more() {
        let names = [(b'f', 0), (b'f', 7), (b'n', 99), (b'd', 100), (b'n', u32::MAX)];
        let texts = names.map(|(letter, number)| Name::new(letter, number).text().to_owned());
        assert_eq!(texts, ["f00", "f07", "n99", "d100", "n4294967295"]);
    }

    #[test]
    fn only_files_with_data_are_chosen() {
        let handle = Handle::from(FileHandle(&[1]));
        let files = vec![handle.clone(); 20];
        let mut population = Population::new(&FRONTEND, 0, vec![handle.clone(); 10], handle, files);
        population.files[3].content = Content::Missing;
        population.files[4].content = Content::Empty;
        population.files[19].content = Content::Missing;
        assert_eq!([2, 3, 4, 19, 39].map(|draw| population.any_full(draw)), [2, 5, 5, 0, 0]);
        assert_eq!(population.name_of(19).text(), "f01");
        (0..8).for_each(|made| population.made.push_back(made));
        assert_eq!(population.surplus(), None);
        population.made.push_back(8);
        assert_eq!(population.surplus(), Some(0));
    }
}
