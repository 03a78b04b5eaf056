//! A random sequence of operations, done by the backend and by a plain model of a tree: both must always agree.

mod capabilities;
mod snapshots;

use super::expect::{attrs, contents, eq, holds, list};
use super::rig::{Failure, Fixture, Lack, Outcome, family, name};
use crate::UncheckedNode;
use std::collections::BTreeMap;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Attrs, Blocking, FileKey, FileType, FsError, FsResult, NewInode, NodeRef, SetAttrs, Special, SyncScope,
};

pub use snapshots::soak_with_snapshots;

family!("oracle": random_operations_agree_with_a_model);

fn random_operations_agree_with_a_model(fixture: &Fixture) -> Outcome {
    (1..=5).try_for_each(|seed| soak(fixture, seed, 1200))
}

/// Runs `steps` random operations; the same `seed` gives the same ones. A failure names the seed and the step.
pub fn soak(fixture: &Fixture, seed: u64, steps: usize) -> Outcome {
    let mut oracle = Oracle::new(fixture, seed)?;
    for step in 0..steps {
        let outcome = oracle.step().and_then(|()| if step % 100 == 99 { oracle.walk() } else { Ok(()) });
        outcome.map_err(|failure| failure.during(format!("seed {seed}, step {step}")))?;
    }
    oracle.walk().map_err(|failure| failure.during(format!("seed {seed}, at the end")))
}

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`, which is small and not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high % bound as u64).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

#[derive(Clone)]
struct File {
    node: NodeRef,
    key: FileKey,
    body: Body,
    mode: u32,
    owners: (u32, u32),
    links: u32,
    xattrs: BTreeMap<&'static str, Vec<u8>>,
}

#[derive(Clone)]
enum Body {
    Data(Vec<u8>),
    Dir { parent: usize, entries: BTreeMap<&'static str, usize> },
    Link(Vec<u8>),
    Fifo,
}

/// The model's result of an operation; the backend may choose among several refusals.
type Verdict<T = ()> = Result<T, &'static [FsError]>;

struct Oracle<'f> {
    fixture: &'f Fixture,
    random: Random,
    /// Every file, deleted ones (without links) included. The first is the top directory.
    files: Vec<File>,
}

const NAMES: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "a longer name", "\u{e4}"];
const MODES: &[u32] = &[0o644, 0o755, 0o700, 0o4711, 0o2770, 0o1777];

impl<'f> Oracle<'f> {
    fn new(fixture: &'f Fixture, seed: u64) -> Outcome<Self> {
        let node = fixture.dir()?;
        let Attrs { mode, uid, gid, .. } = attrs(&node)?;
        let body = Body::Dir { parent: 0, entries: BTreeMap::new() };
        let top =
            File { key: node.key(), node, body, mode, owners: (uid, gid), links: 1, xattrs: BTreeMap::new() };
        Ok(Self { fixture, random: Random::new(seed), files: vec![top] })
    }

    fn step(&mut self) -> Outcome {
        match self.random.below(100) {
            0..14 => self.make(FileType::Regular),
            14..22 => self.make(FileType::Directory),
            22..26 => self.make(FileType::Symlink),
            26..28 => self.make(FileType::Fifo),
            28..36 => self.link(),
            36..44 => self.remove(false),
            44..49 => self.remove(true),
            49..68 => self.rename(),
            68..75 => self.write(),
            75..79 => self.resize(),
            79..82 => self.change_range(),
            82..84 => self.copy_range(),
            84..87 => self.change_xattr(),
            87..90 => self.set_mode(),
            90..94 => self.lookup(),
            94..97 => self.find_key(),
            _ => self.sync(),
        }
    }

    fn entries(&self, dir: usize) -> Verdict<&BTreeMap<&'static str, usize>> {
        match &self.files[dir] {
            File { links: 0, .. } => Err(&[FsError::Stale, FsError::NotFound]),
            File { body: Body::Dir { entries, .. }, .. } => Ok(entries),
            _ => Err(&[FsError::NotDirectory]),
        }
    }

    fn entries_mut(&mut self, dir: usize) -> &mut BTreeMap<&'static str, usize> {
        match &mut self.files[dir].body {
            Body::Dir { entries, .. } => entries,
            Body::Data(_) | Body::Link(_) | Body::Fifo => {
                unreachable!("the verdict was that this is a directory")
            }
        }
    }

    fn is_dir(&self, file: usize) -> bool {
        matches!(self.files[file].body, Body::Dir { .. })
    }

    /// Chooses a file: mostly a live one that fits, sometimes any.
    fn choose(&mut self, fits: impl Fn(&Body) -> bool) -> usize {
        if self.random.below(20) == 0 {
            return self.random.below(self.files.len());
        }
        let fit = |&file: &usize| fits(&self.files[file].body) && self.files[file].links > 0;
        let all: Vec<usize> = (0..self.files.len()).filter(fit).collect();
        if all.is_empty() { 0 } else { *self.random.pick(&all) }
    }

    fn choose_dir(&mut self) -> usize {
        self.choose(|body| matches!(body, Body::Dir { .. }))
    }

    fn choose_name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len())]
    }

    fn make(&mut self, file_type: FileType) -> Outcome {
        let (dir, text, mode) = (self.choose_dir(), self.choose_name(), *self.random.pick(MODES));
        let node = self.files[dir].node.clone();
        let new_inode = NewInode { mode, ..self.fixture.new_inode() };
        let verdict = self.free(dir, text);
        let (made, body) = match file_type {
            FileType::Directory => (
                node.make_dir_unchecked(name(text), &new_inode),
                Body::Dir { parent: dir, entries: BTreeMap::new() },
            ),
            FileType::Symlink => {
                let target = format!("../{text}").into_bytes();
                (
                    node.make_special_unchecked(name(text), Special::Symlink(&target), &new_inode),
                    Body::Link(target),
                )
            }
            FileType::Fifo => {
                (node.make_special_unchecked(name(text), Special::Fifo, &new_inode), Body::Fifo)
            }
            _ => (node.create_unchecked(name(text), &new_inode), Body::Data(Vec::new())),
        };
        if let Some(made) = agree(&format!("make {file_type:?} {text} in {dir}"), made, verdict)? {
            let attrs = made.found.attrs;
            let plain = matches!(body, Body::Data(_) | Body::Dir { .. });
            let owned = plain || self.fixture.can(Lack::SpecialOwners);
            let owners = if owned { (new_inode.uid, new_inode.gid) } else { (attrs.uid, attrs.gid) };
            // The mode of a symbolic link is the backend's affair.
            let mode = if matches!(body, Body::Link(_)) { attrs.mode } else { mode };
            let node = made.found.node;
            self.files.push(File {
                key: node.key(),
                node,
                body,
                mode,
                owners,
                links: 1,
                xattrs: BTreeMap::new(),
            });
            self.check_attrs(self.files.len() - 1, &attrs)?;
            let new = self.files.len() - 1;
            self.entries_mut(dir).insert(text, new);
        }
        Ok(())
    }

    fn free(&self, dir: usize, text: &str) -> Verdict {
        match self.entries(dir)?.contains_key(text) {
            true => Err(&[FsError::Exists]),
            false => Ok(()),
        }
    }

    fn link(&mut self) -> Outcome {
        let (dir, text) = (self.choose_dir(), self.choose_name());
        let target = self.choose(|body| !matches!(body, Body::Dir { .. }));
        let verdict = match self.free(dir, text) {
            // Which of several reasons comes first is not promised.
            _ if self.files[target].links == 0 => Err(ANY_REFUSAL),
            Err(_) if self.is_dir(target) => Err(ANY_REFUSAL),
            Ok(()) if self.is_dir(target) => Err(&[FsError::NotOwner, FsError::IsDirectory][..]),
            verdict => verdict,
        };
        let made = self.files[dir].node.link_unchecked(name(text), &self.files[target].node);
        if let Some(made) = agree(&format!("link {text} in {dir} to {target}"), made, verdict)? {
            self.files[target].links += 1;
            self.entries_mut(dir).insert(text, target);
            eq("links", made.found.attrs.links, self.files[target].links)?;
        }
        Ok(())
    }

    fn remove(&mut self, directory: bool) -> Outcome {
        let (dir, text) = (self.choose_dir(), self.choose_name());
        let verdict = self.removable(dir, text, directory);
        let node = &self.files[dir].node;
        let done =
            if directory { node.remove_dir_unchecked(name(text)) } else { node.remove_unchecked(name(text)) };
        if agree(&format!("remove {text} in {dir}, as a directory: {directory}"), done, verdict)?.is_some()
            && let Some(gone) = self.entries_mut(dir).remove(text)
        {
            self.files[gone].links -= 1;
        }
        Ok(())
    }

    fn removable(&self, dir: usize, text: &str, directory: bool) -> Verdict {
        let file = *self.entries(dir)?.get(text).ok_or(&[FsError::NotFound][..])?;
        match (self.entries(file), directory) {
            (Ok(_), false) => Err(&[FsError::IsDirectory]),
            (Err(_), true) => Err(&[FsError::NotDirectory]),
            (Ok(entries), true) if !entries.is_empty() => Err(&[FsError::NotEmpty]),
            _ => Ok(()),
        }
    }

    fn rename(&mut self) -> Outcome {
        let (dir, from, to_dir, to) =
            (self.choose_dir(), self.choose_name(), self.choose_dir(), self.choose_name());
        let verdict = self.movable(dir, from, to_dir, to);
        let done = self.files[dir].node.rename_unchecked(name(from), &self.files[to_dir].node, name(to));
        if agree(&format!("rename {from} in {dir} to {to} in {to_dir}"), done, verdict)?.is_none() {
            return Ok(());
        }
        let (file, old) = (self.entries_mut(dir)[from], self.entries_mut(to_dir).get(to).copied());
        if old == Some(file) {
            return Ok(());
        }
        self.entries_mut(dir).remove(from);
        self.entries_mut(to_dir).insert(to, file);
        if let Some(old) = old {
            self.files[old].links -= 1;
        }
        if let Body::Dir { parent, .. } = &mut self.files[file].body {
            *parent = to_dir;
        }
        Ok(())
    }

    fn movable(&self, dir: usize, from: &str, to_dir: usize, to: &str) -> Verdict {
        let (entries, to_entries) = match (self.entries(dir), self.entries(to_dir)) {
            (Ok(entries), Ok(to_entries)) => (entries, to_entries),
            _ => return Err(&[FsError::Stale, FsError::NotFound, FsError::NotDirectory]),
        };
        let file = *entries.get(from).ok_or(&[FsError::NotFound][..])?;
        let Some(&old) = to_entries.get(to) else {
            return if self.is_within(to_dir, file) { Err(&[FsError::Invalid]) } else { Ok(()) };
        };
        if old == file {
            return Ok(());
        }
        if self.is_within(to_dir, file) {
            return Err(&[FsError::Invalid]);
        }
        if self.is_within(dir, old) {
            return Err(&[FsError::NotEmpty, FsError::IsDirectory]);
        }
        match (self.entries(file), self.entries(old)) {
            (Ok(_), Err(_)) => Err(&[FsError::NotDirectory]),
            (Err(_), Ok(_)) => Err(&[FsError::IsDirectory]),
            (Ok(_), Ok(entries)) if !entries.is_empty() => Err(&[FsError::NotEmpty]),
            _ => Ok(()),
        }
    }

    fn is_within(&self, mut dir: usize, ancestor: usize) -> bool {
        loop {
            match self.files[dir].body {
                _ if dir == ancestor => return true,
                Body::Dir { parent, .. } if dir != 0 => dir = parent,
                _ => return false,
            }
        }
    }

    fn write(&mut self) -> Outcome {
        let file = self.choose(|body| matches!(body, Body::Data(_)));
        let [offset, count] = [self.random.below(20_000), 1 + self.random.below(5000)];
        let byte = u8::try_from(self.random.below(256)).unwrap_or(0);
        if self.files[file].links == 0 {
            return Ok(());
        }
        let done = self.files[file].node.write(offset as u64, &vec![byte; count], KEEP_SET_ID);
        let Body::Data(data) = &mut self.files[file].body else {
            let wanted = if self.is_dir(file) { &[FsError::IsDirectory] } else { &[FsError::Invalid] };
            return agree("write to what is no file", done, Err(wanted)).map(drop);
        };
        data.resize(data.len().max(offset + count), 0);
        data[offset..offset + count].fill(byte);
        let size = data.len() as u64;
        let after = agree(&format!("write {count} at {offset} to {file}"), done, Ok(()))?;
        if let Some(change) = after {
            eq("size", change.after.size, size)?;
            // What a write does to set-id bits is the mode's own case; here it is whatever the backend says.
            self.files[file].mode = change.after.mode;
        }
        Ok(())
    }

    fn resize(&mut self) -> Outcome {
        let file = self.choose(|body| matches!(body, Body::Data(_)));
        let size = self.random.below(25_000);
        if self.files[file].links == 0 {
            return Ok(());
        }
        let set = SetAttrs { size: Some(size as u64), ..SetAttrs::default() };
        let done = self.files[file].node.set_attrs(&set);
        let Body::Data(data) = &mut self.files[file].body else {
            let wanted = if self.is_dir(file) { &[FsError::IsDirectory] } else { &[FsError::Invalid] };
            return agree("size of what is no file", done, Err(wanted)).map(drop);
        };
        data.resize(size, 0);
        if let Some(change) = agree(&format!("size {size} of {file}"), done, Ok(()))? {
            self.files[file].mode = change.after.mode;
        }
        Ok(())
    }

    fn set_mode(&mut self) -> Outcome {
        let file = self.choose(|body| !matches!(body, Body::Link(_)));
        let mode = *self.random.pick(MODES);
        if matches!(self.files[file], File { links: 0, .. } | File { body: Body::Link(_), .. }) {
            return Ok(());
        }
        let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
        agree(&format!("mode {mode:o} of {file}"), self.files[file].node.set_attrs(&set), Ok(()))?;
        self.files[file].mode = mode;
        Ok(())
    }

    fn lookup(&mut self) -> Outcome {
        let (dir, text) = (self.choose_dir(), self.choose_name());
        let verdict =
            self.entries(dir).and_then(|entries| entries.get(text).ok_or(&[FsError::NotFound][..])).copied();
        let found = self.files[dir].node.lookup(name(text), Blocking::Allowed);
        let file = verdict.as_ref().ok().copied();
        if let (Some(found), Some(file)) =
            (agree(&format!("{text} in {dir}"), found, verdict.map(drop))?, file)
        {
            eq("key", found.node.key(), self.files[file].key)?;
            self.check_attrs(file, &found.attrs)?;
        }
        Ok(())
    }

    /// Asks for any file there ever was by its key.
    fn find_key(&mut self) -> Outcome {
        let file = self.random.below(self.files.len());
        let verdict: Verdict = if self.files[file].links == 0 { Err(&[FsError::Stale]) } else { Ok(()) };
        let found = self.fixture.backend.node(&self.files[file].key, Blocking::Allowed);
        agree(&format!("key of {file}"), found, verdict)?;
        agree(&format!("attributes of {file}"), self.files[file].node.attrs(Blocking::Allowed), verdict)
            .map(drop)
    }

    fn sync(&mut self) -> Outcome {
        let file = self.choose(|_| true);
        if self.files[file].links > 0 {
            self.files[file].node.sync(SyncScope::All)?;
        }
        Ok(())
    }

    fn check_attrs(&self, file: usize, got: &Attrs) -> Outcome {
        let File { body, mode, owners, links, .. } = &self.files[file];
        let (file_type, size) = match body {
            Body::Data(data) => (FileType::Regular, data.len() as u64),
            Body::Dir { .. } => (FileType::Directory, got.size),
            Body::Link(target) => (FileType::Symlink, target.len() as u64),
            Body::Fifo => (FileType::Fifo, 0),
        };
        let links = match body {
            Body::Dir { .. } if !self.fixture.can(Lack::DirectoryLinks) => got.links,
            Body::Dir { entries, .. } => {
                let subdirs = entries.values().filter(|&&child| self.is_dir(child)).count();
                2 + u32::try_from(subdirs).unwrap_or(0)
            }
            Body::Data(_) | Body::Link(_) | Body::Fifo => *links,
        };
        let got = (got.file_type, got.mode, (got.uid, got.gid), got.links, got.size);
        eq(format!("attributes of {file}"), got, (file_type, *mode, *owners, links, size))
    }

    /// Compares the whole tree, from the top.
    fn walk(&self) -> Outcome {
        let mut waiting = vec![0];
        let mut seen = 0;
        while let Some(dir) = waiting.pop() {
            let node = &self.files[dir].node;
            self.check_attrs(dir, &attrs(node)?)?;
            let Ok(entries) = self.entries(dir) else {
                return Err(Failure::new("a dead directory in the tree"));
            };
            let mut listed: BTreeMap<Vec<u8>, _> = BTreeMap::new();
            for entry in list(node, 0, true, 5)? {
                holds("a name is listed once", listed.insert(entry.name, entry.object).is_none())?;
            }
            listed.retain(|name, _| name != b"." && name != b"..");
            let want: Vec<&[u8]> = entries.keys().map(|text| text.as_bytes()).collect();
            eq(format!("names in {dir}"), listed.keys().map(Vec::as_slice).collect::<Vec<_>>(), want)?;
            for (&text, &child) in entries {
                let File { node: child_node, key: child_key, body, .. } = &self.files[child];
                let Some(Some((key, attrs))) = listed.get(text.as_bytes()) else {
                    return Err(Failure::new(format!("{text} in {dir} has no key and attributes")));
                };
                eq(format!("key of {text} in {dir}"), key, child_key)?;
                eq("the key of a node stays", child_node.key(), *child_key)?;
                self.check_attrs(child, attrs)?;
                self.check_xattrs(child)?;
                match body {
                    Body::Data(data) => {
                        holds(format!("contents of {child}"), contents(child_node)? == *data)?
                    }
                    Body::Link(target) => eq("target", &child_node.read_link()?, target)?,
                    Body::Fifo => {}
                    Body::Dir { .. } => {
                        eq("parent", child_node.parent()?.node.key(), node.key())?;
                        waiting.push(child);
                    }
                }
                seen += 1;
            }
        }
        let alive = self.files.iter().map(|file| file.links).sum::<u32>() - 1;
        eq("names in the tree", seen, alive)
    }
}

/// Refusals that a call with several faults may choose from.
const ANY_REFUSAL: &[FsError] = &[
    FsError::Stale,
    FsError::NotFound,
    FsError::Exists,
    FsError::NotDirectory,
    FsError::IsDirectory,
    FsError::NotOwner,
];

/// The backend did as the model says. Returns what it returned if both succeeded.
fn agree<T>(what: &str, got: FsResult<T>, want: Verdict) -> Outcome<Option<T>> {
    match (got, want) {
        (Ok(value), Ok(())) => Ok(Some(value)),
        (Err(error), Err(wanted)) if wanted.contains(&error) => Ok(None),
        (got, want) => {
            let got = got.map(drop);
            Err(Failure::new(format!("{what}: got {got:?}, the model says {want:?}")))
        }
    }
}
