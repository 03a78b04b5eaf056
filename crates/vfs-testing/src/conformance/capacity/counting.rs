//! Charges against a capacity, refusals, and releases.

use super::rig::{
    BLOCK_BYTES, Case, Charging, End, FILE_BYTES, Fixture, ID, MIB, append_until_full, overhead,
};
use crate::UncheckedNode;
use crate::conformance::expect::{attrs, contents, eq, holds, names, refused, untouched};
use crate::conformance::oracle::Random;
use crate::conformance::rig::{Outcome, name};
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Backend, Blocking, Capacity, FileType, FsError, FsResult, Name, NewInode, NodeRef, SetAttrs, SetXattr,
    Special, Usage, Wait, XattrName,
};

pub(super) const CASES: &[Case] = &[
    Case { name: "counting/a_full_volume_refuses_growth_alone", run: a_full_volume_refuses_growth_alone },
    Case { name: "counting/a_refused_write_leaves_the_file", run: a_refused_write_leaves_the_file },
    Case { name: "counting/the_state_shows_capacity_and_use", run: the_state_shows_capacity_and_use },
    Case { name: "counting/a_file_with_two_names_counts_once", run: a_file_with_two_names_counts_once },
    Case { name: "counting/cutting_gives_back", run: cutting_gives_back },
    Case { name: "counting/holes_count_as_declared", run: holes_count_as_declared },
    Case { name: "counting/what_a_rename_replaces_is_given_back", run: what_a_rename_replaces_is_given_back },
    Case { name: "counting/what_comes_from_a_pipe_counts", run: what_comes_from_a_pipe_counts },
    Case { name: "counting/writers_meet_exactly_at_the_limit", run: writers_meet_exactly_at_the_limit },
    Case { name: "counting/capacity_moves_below_use_and_up", run: capacity_moves_below_use_and_up },
    Case { name: "counting/every_object_is_a_file", run: every_object_is_a_file },
    Case {
        name: "counting/a_taken_name_is_taken_on_a_full_volume",
        run: a_taken_name_is_taken_on_a_full_volume,
    },
    Case { name: "counting/writers_race_with_removal", run: writers_race_with_removal },
    Case {
        name: "counting/file_written_while_it_is_made_counts_once",
        run: file_written_while_it_is_made_counts_once,
    },
    Case { name: "counting/a_reserved_write_is_done_whole", run: a_reserved_write_is_done_whole },
    Case { name: "counting/what_was_reserved_is_given_back", run: what_was_reserved_is_given_back },
    Case { name: "counting/a_size_beyond_all_is_not_made", run: a_size_beyond_all_is_not_made },
    Case { name: "counting/changes_wait_for_the_count", run: changes_wait_for_the_count },
    Case { name: "counting/objects_take_what_is_published", run: objects_take_what_is_published },
    Case {
        name: "counting/volume_without_contents_is_full_at_some_time",
        run: volume_without_contents_is_full_at_some_time,
    },
    Case { name: "counting/a_recount_finds_what_was_counted", run: a_recount_finds_what_was_counted },
];

const THREADS: usize = 4;

fn a_full_volume_refuses_growth_alone(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let root = volume.root();
    let file = fixture.file(&root, "file")?;
    let second = fixture.file(&root, "second")?;
    let blocks = append_until_full(&file)?;
    if fixture.is_exact() {
        eq("blocks", blocks, (8 * MIB - fixture.overhead()?) / BLOCK_BYTES)?;
    }
    holds("nearly all could be used", blocks * BLOCK_BYTES > 7 * MIB)?;
    holds("no more than all", fixture.usage()?.bytes <= 8 * MIB)?;
    file.sync(vfs::SyncScope::All)?;
    file.write(0, &[9; 65_536], KEEP_SET_ID)?;
    file.write(blocks * BLOCK_BYTES - 1, &[9], KEEP_SET_ID)?;
    if fixture.is_exact() {
        refused("a new byte", second.write(0, &[1], KEEP_SET_ID), &[FsError::NoSpace])?;
    }
    root.remove_unchecked(name("file"))?;
    if fixture.is_exact() {
        fixture.check_usage("a file without a name, though somebody holds it", 0, 2)?;
    }
    drop(file);
    second.write(0, &[1; 65_536], KEEP_SET_ID)?;
    fixture.check_usage("the rest", 65_536, 2)
}

fn a_refused_write_leaves_the_file(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(4 * MIB, 100)?;
    let file = fixture.file(&volume.root(), "file")?;
    file.write(0, &[1; 5000], KEEP_SET_ID)?;
    let before = attrs(&file)?;
    let large = vec![2; 5 << 20];
    for offset in [5000, 4 * MIB, 1 << 39] {
        refused("a large write", file.write(offset, &large, KEEP_SET_ID), &[FsError::NoSpace])?;
        eq("size", attrs(&file)?.size, before.size)?;
    }
    if fixture.is_exact() {
        refused("a write over its end", file.write(4000, &large, KEEP_SET_ID), &[FsError::NoSpace])?;
        untouched("a refused write", &file, &before)?;
        eq("contents", contents(&file)?, vec![1; 5000])?;
    }
    fixture.check_usage("usage", 2 * BLOCK_BYTES, 2)?;
    file.write(5000, &large[..1 << 20], KEEP_SET_ID)?;
    Ok(())
}

fn the_state_shows_capacity_and_use(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let file = fixture.file(&volume.root(), "file")?;
    file.write(0, &vec![1; 2 << 20], KEEP_SET_ID)?;
    let (stat, usage) = (volume.stat()?, fixture.usage()?);
    eq("totals", (stat.bytes_total, stat.files_total), (8 * MIB, 100))?;
    if fixture.is_exact() {
        eq("usage", usage, Usage { bytes: 2 * MIB + FILE_BYTES, files: 2 })?;
    }
    let free = (8 * MIB - usage.bytes, 100 - usage.files);
    eq("free", (stat.bytes_free, stat.files_free), free)?;
    holds(
        "no more is available than free",
        stat.bytes_available <= free.0 && stat.files_available <= free.1,
    )?;
    let room = fixture.provisioner.room()?;
    holds("the room underneath is larger", room.bytes_total > 8 * MIB)
}

fn a_file_with_two_names_counts_once(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let root = volume.root();
    let file = fixture.file(&root, "a")?;
    file.write(0, &vec![1; 1 << 20], KEEP_SET_ID)?;
    root.link_unchecked(name("b"), &file)?;
    fixture.check_usage("with two names", MIB, 2)?;
    root.remove_unchecked(name("a"))?;
    fixture.check_usage("with the other", MIB, 2)?;
    root.rename_unchecked(name("b"), &root, name("c"))?;
    root.link_unchecked(name("d"), &file)?;
    root.rename_unchecked(name("c"), &root, name("d"))?;
    fixture.check_usage("after a rename to itself", MIB, 2)?;
    drop(file);
    root.remove_unchecked(name("c"))?;
    root.remove_unchecked(name("d"))?;
    fixture.check_usage("with none", 0, 1)
}

fn size(size: u64) -> SetAttrs {
    SetAttrs { size: Some(size), ..SetAttrs::default() }
}

fn cutting_gives_back(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let file = fixture.file(&volume.root(), "file")?;
    append_until_full(&file)?;
    file.set_attrs(&size(MIB + 1))?;
    fixture.check_usage("after a cut", MIB + BLOCK_BYTES, 2)?;
    file.write(MIB + 1, &vec![1; 3 << 20], KEEP_SET_ID)?;
    fixture.check_usage("after a write", 4 * MIB + BLOCK_BYTES, 2)?;
    file.set_attrs(&size(0))?;
    fixture.check_usage("of nothing", 0, 2)
}

fn holes_count_as_declared(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(4 * MIB, 100)?;
    let file = fixture.file(&volume.root(), "file")?;
    file.set_attrs(&size(3 * MIB))?;
    let holes = if fixture.charging == Charging::Sizes { 3 * MIB } else { 0 };
    fixture.check_usage("a hole", holes, 2)?;
    file.write(MIB, &[1; 4096], KEEP_SET_ID)?;
    let written = if fixture.charging == Charging::Sizes { holes } else { BLOCK_BYTES };
    fixture.check_usage("a block in a hole", written, 2)?;
    match fixture.charging {
        Charging::Sizes => {
            let before = attrs(&file)?;
            refused("a larger hole", file.set_attrs(&size(5 * MIB)), &[FsError::NoSpace])?;
            refused("a write past one", file.write(5 * MIB, b"x", KEEP_SET_ID), &[FsError::NoSpace])?;
            untouched("a refusal", &file, &before)?;
        }
        Charging::Blocks | Charging::Kernel => {
            file.set_attrs(&size(5 * MIB))?;
            file.write(50 * MIB, b"x", KEEP_SET_ID)?;
        }
    }
    Ok(())
}

fn what_a_rename_replaces_is_given_back(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let root = volume.root();
    for (text, bytes) in [("a", 1 << 20), ("b", 2 << 20)] {
        fixture.file(&root, text)?.write(0, &vec![1; bytes], KEEP_SET_ID)?;
    }
    root.rename_unchecked(name("a"), &root, name("b"))?;
    fixture.check_usage("after a file took another's name", MIB, 2)?;
    root.rename_unchecked(name("b"), &root, name("b"))?;
    let new_dir = NewInode { mode: 0o755, ..fixture.new_inode() };
    root.make_dir_unchecked(name("y"), &new_dir)?;
    fixture.file(&root.make_dir_unchecked(name("x"), &new_dir)?.found.node, "in")?;
    root.rename_unchecked(name("x"), &root, name("y"))?;
    root.rename_unchecked(name("y"), &root, name("y"))?;
    fixture.check_usage("after a directory took another's", MIB, 4)?;
    root.remove_unchecked(name("b"))?;
    let y = root.lookup(name("y"), Blocking::Allowed)?.node;
    y.remove_unchecked(name("in"))?;
    drop(y);
    root.remove_dir_unchecked(name("y"))?;
    fixture.check_usage("in the end", 0, 1)
}

fn what_comes_from_a_pipe_counts(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(4 * MIB, 100)?;
    let file = fixture.file(&volume.root(), "file")?;
    let send = |offset, len: usize| -> Outcome<Result<_, FsError>> {
        let (source, mut sink) = std::io::pipe().map_err(|_| FsError::Resource)?;
        sink.write_all(&vec![5; len]).map_err(|_| FsError::Io)?;
        Ok(file.write_from_pipe(offset, source.as_fd(), len, KEEP_SET_ID))
    };
    send(0, 50_000)??;
    fixture.check_usage("after one", 13 * BLOCK_BYTES, 2)?;
    append_until_full(&file)?;
    let before = attrs(&file)?;
    refused("more", send(before.size, 60_000)?, &[FsError::NoSpace])?;
    eq("size", attrs(&file)?.size, before.size)?;
    send(100, 60_000)??;
    holds("no more than all", fixture.usage()?.bytes <= 4 * MIB)
}

fn writers_meet_exactly_at_the_limit(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(16 * MIB, 100)?;
    let root = volume.root();
    let files: Vec<NodeRef> =
        (0..THREADS).map(|n| fixture.file(&root, &n.to_string())).collect::<Result<_, _>>()?;
    let blocks: Vec<Outcome<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = files.iter().map(|file| scope.spawn(move || append_until_full(file))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let blocks: u64 = blocks.into_iter().sum::<Outcome<u64>>()?;
    holds("no more than all", fixture.usage()?.bytes <= 16 * MIB)?;
    if fixture.is_exact() {
        let room = 16 * MIB - THREADS as u64 * FILE_BYTES;
        eq("blocks written", blocks, room / BLOCK_BYTES)?;
        return fixture.check_usage("all", blocks * BLOCK_BYTES, 1 + THREADS as u64);
    }
    holds("nearly all", blocks * BLOCK_BYTES > 14 * MIB)
}

fn capacity_moves_below_use_and_up(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let root = volume.root();
    let file = fixture.file(&root, "file")?;
    file.write(0, &vec![1; 4 << 20], KEEP_SET_ID)?;
    file.sync(vfs::SyncScope::All)?;
    fixture.provisioner.set_capacity(ID, Capacity { bytes: 2 * MIB, files: 1 })?;
    let stat = volume.stat()?;
    eq("totals", (stat.bytes_total, stat.files_total), (2 * MIB, 1))?;
    eq("free", (stat.bytes_free, stat.files_free), (0, 0))?;
    refused("growth", file.write(4 * MIB, &[1; 4096], KEEP_SET_ID), &[FsError::NoSpace])?;
    refused("a new file", fixture.file(&root, "new"), &[FsError::NoSpace])?;
    eq("what is there stays", contents(&file)?.len(), 4 << 20)?;
    file.write(MIB, &[2; 4096], KEEP_SET_ID)?;
    fixture.provisioner.set_capacity(ID, Capacity { bytes: 8 * MIB, files: 3 })?;
    file.write(4 * MIB, &[1; 4096], KEEP_SET_ID)?;
    fixture.file(&root, "new")?;
    eq("files left", volume.stat()?.files_free, 0)
}

fn every_object_is_a_file(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 6)?;
    let (root, new_inode) = (volume.root(), fixture.new_inode());
    let file = fixture.file(&root, "file")?;
    root.make_dir_unchecked(name("dir"), &new_inode)?;
    root.make_special_unchecked(name("link"), Special::Symlink(b"target"), &new_inode)?;
    root.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?;
    root.make_special_unchecked(name("socket"), Special::Socket, &new_inode)?;
    fixture.check_usage("five and the root", 0, 6)?;
    let full = &[FsError::NoSpace];
    refused("a file", fixture.file(&root, "more"), full)?;
    refused("a directory", root.make_dir_unchecked(name("more"), &new_inode), full)?;
    refused("a link", root.make_special_unchecked(name("more"), Special::Symlink(b"t"), &new_inode), full)?;
    root.link_unchecked(name("second name"), &file)?;
    root.remove_unchecked(name("link"))?;
    root.remove_dir_unchecked(name("dir"))?;
    fixture.check_usage("two less", 0, 4)?;
    root.make_dir_unchecked(name("more"), &new_inode)?;
    refused("the same name", root.make_dir_unchecked(name("more"), &new_inode), &[FsError::Exists])?;
    fixture.file(&root, "last")?;
    refused("one more", fixture.file(&root, "one more"), full)
}

fn a_taken_name_is_taken_on_a_full_volume(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 2)?;
    let root = volume.root();
    fixture.file(&root, "file")?;
    refused("a taken name", fixture.file(&root, "file"), &[FsError::Exists])?;
    refused("a free one", fixture.file(&root, "other"), &[FsError::NoSpace])?;
    refused("nothing to remove", root.remove_unchecked(name("other")), &[FsError::NotFound])?;
    fixture.check_usage("usage", 0, 2)
}

fn writers_race_with_removal(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(64 * MIB, 1000)?;
    let root = volume.root();
    for round in 0..30 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let file = fixture.file(&root, &a)?;
        root.link_unchecked(name(&b), &file)?;
        let write = || -> Outcome {
            for block in 0..20 {
                match file.write(block * BLOCK_BYTES, &[1; 4096], KEEP_SET_ID) {
                    Ok(_) => {}
                    Err(FsError::Stale) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads = [
                scope.spawn(write),
                scope.spawn(|| Ok(root.remove_unchecked(name(&a)).map(drop)?)),
                scope.spawn(|| Ok(root.remove_unchecked(name(&b)).map(drop)?)),
            ];
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
    }
    fixture.check_usage("nothing is left", 0, 1)
}

/// One thread's share of a random load: files of its own, and names in a directory that all use.
fn load(new_inode: &NewInode, root: &NodeRef, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let mut pick = |bound: usize| random.below(bound);
    let new_dir = NewInode { mode: 0o755, ..*new_inode };
    for _ in 0..600 {
        let names = [pick(8), pick(8)].map(|number| format!("n{number}"));
        let [first, second] = [name(&names[0]), name(&names[1])];
        let data = vec![3; pick(30_000)];
        // Half of the names lie in a directory, as long as there is one of this name.
        let below = root.lookup(name("n0"), Blocking::Allowed).map(|found| found.node);
        let dir = below.ok().filter(|dir| pick(2) == 0 && is_dir(dir)).unwrap_or_else(|| Arc::clone(root));
        let found = dir.lookup(first, Blocking::Allowed).map(|found| found.node);
        let done = match (pick(14), found) {
            (0 | 1, _) => dir.create_unchecked(first, new_inode).map(drop),
            (2, Ok(file)) => dir.link_unchecked(second, &file).map(drop),
            (3, Ok(node)) if is_dir(&node) => dir.remove_dir_unchecked(first).map(drop),
            (3, Ok(_)) => dir.remove_unchecked(first).map(drop),
            (4, Ok(_)) => dir.rename_unchecked(first, &dir, second).map(drop),
            (5, Ok(_)) => dir.rename_unchecked(first, root, second).map(drop),
            (6, Ok(file)) => file.set_attrs(&size(pick(60_000) as u64)).map(drop),
            (7, _) => {
                let target = vec![b'x'; 1 + pick(120)];
                dir.make_special_unchecked(first, Special::Symlink(&target), new_inode).map(drop)
            }
            (8, _) => dir.make_dir_unchecked(first, &new_dir).map(drop),
            (9 | 10, Ok(node)) => set_xattr(&node, &names[1], &data[..data.len().min(pick(3000))]),
            (11, Ok(node)) => remove_xattr(&node, &names[1]),
            (_, Ok(file)) => file.write(pick(100_000) as u64, &data, KEEP_SET_ID).map(drop),
            (_, Err(_)) => Ok(()),
        };
        match done {
            // Lost a race, or asked for what cannot be.
            Ok(()) | Err(FsError::NotFound | FsError::Exists | FsError::Stale | FsError::Invalid) => {}
            Err(FsError::IsDirectory | FsError::NotDirectory | FsError::NotEmpty | FsError::NotOwner) => {}
            Err(FsError::NotSupported | FsError::NoSpace) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_dir(node: &NodeRef) -> bool {
    attrs(node).is_ok_and(|attrs| attrs.file_type == FileType::Directory)
}

fn set_xattr(node: &NodeRef, text: &str, value: &[u8]) -> FsResult<()> {
    let carried = node.xattrs().ok_or(FsError::NotSupported)?;
    carried.set(xattr(text), value, SetXattr::Either, &|_| Ok(())).map(drop)
}

fn remove_xattr(node: &NodeRef, text: &str) -> FsResult<()> {
    node.xattrs().ok_or(FsError::NotSupported)?.remove(xattr(text), &|_| Ok(())).map(drop)
}

fn xattr(text: &str) -> XattrName<'_> {
    XattrName::new(text.as_bytes()).expect("a name")
}

/// Checks the charge of each kind of object against the published figures.
fn objects_take_what_is_published(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let (root, new_inode) = (volume.root(), fixture.new_inode());
    let used = || fixture.usage().map(|usage| usage.bytes);
    if !fixture.is_exact() {
        return Ok(());
    }
    eq("a new volume", used()?, 0)?;
    let mut last = 0;
    let mut takes = |what: &str, bytes: i64| -> Outcome {
        let (before, now) = (last, used()?);
        last = now;
        eq(what, now.cast_signed() - before.cast_signed(), bytes)
    };
    let file = fixture.file(&root, "file")?;
    takes("an empty file", 1024)?;
    file.write(0, b"x", KEEP_SET_ID)?;
    takes("a byte", 4096)?;
    root.link_unchecked(name("second"), &file)?;
    takes("a second name", 512)?;
    root.rename_unchecked(name("second"), &root, name("third"))?;
    takes("another name", 0)?;
    root.make_special_unchecked(name("short"), Special::Symlink(&[b'x'; 59]), &new_inode)?;
    takes("a short link", 1024)?;
    root.make_special_unchecked(name("long"), Special::Symlink(&[b'x'; 60]), &new_inode)?;
    takes("a long link", 1024 + 4096)?;
    root.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?;
    takes("a FIFO", 1024)?;
    let dir = root.make_dir_unchecked(name("dir"), &NewInode { mode: 0o755, ..new_inode })?.found.node;
    takes("a directory", 1024 + 4096)?;
    if file.xattrs().is_some() {
        for (node, of) in [(&file, "a file"), (&dir, "a directory")] {
            set_xattr(node, "a", &[1; 4])?;
            takes(&format!("a small attribute of {of}"), 0)?;
            set_xattr(node, "a", &[1; 200])?;
            takes(&format!("a larger attribute of {of}"), 4096)?;
            set_xattr(node, "b", &[1; 1500])?;
            takes(&format!("a second attribute of {of}"), 4096)?;
            set_xattr(node, "b", &[1; 2500])?;
            takes(&format!("a longer value of {of}"), 0)?;
            set_xattr(node, "a", &[1; 1500])?;
            takes(&format!("two long values of {of}"), 4096)?;
            remove_xattr(node, "a")?;
            takes(&format!("a removed attribute of {of}"), -4096)?;
        }
    }
    let carried = if file.xattrs().is_some() { 8192 } else { 0 };
    drop((file, dir));
    root.remove_dir_unchecked(name("dir"))?;
    takes("a removed directory", -1024 - 4096 - carried)?;
    root.remove_unchecked(name("long"))?;
    takes("a removed link", -1024 - 4096)?;
    root.remove_unchecked(name("file"))?;
    takes("a name of two", -512)?;
    root.rename_unchecked(name("short"), &root, name("third"))?;
    takes("a replaced file", -1024 - 4096 - carried)
}

/// Every object is charged: a volume without contents fills up too, and removal frees all of it.
fn volume_without_contents_is_full_at_some_time(fixture: Fixture) -> Outcome {
    if !fixture.is_exact() {
        return Ok(());
    }
    let volume = fixture.volume(MIB / 4, 1 << 40)?;
    let (root, new_inode) = (volume.root(), fixture.new_inode());
    let file = fixture.file(&root, "file")?;
    let full = |what: &str, add: &dyn Fn(&str) -> FsResult<()>| -> Outcome<u64> {
        for number in 0.. {
            holds(format!("a volume is full of {what} at some time"), number < 2000)?;
            // Long names, which are those that take most.
            match add(&format!("{number:0>200}")) {
                Ok(()) => {}
                Err(FsError::NoSpace) => return Ok(number),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    };
    let again = |what: &str| -> Outcome {
        for listed in names(&root)? {
            let found = root.lookup(Name::new(&listed).expect("a name"), Blocking::Allowed)?;
            match found.attrs.file_type {
                _ if listed == b"file" => continue,
                FileType::Directory => root.remove_dir_unchecked(Name::new(&listed).expect("a name"))?,
                _ => root.remove_unchecked(Name::new(&listed).expect("a name"))?,
            };
        }
        fixture.check_usage(what, 0, 2)
    };
    let files = full("files", &|text| fixture.file(&root, text).map(drop))?;
    again("no files")?;
    let links = full("names", &|text| root.link_unchecked(name(text), &file).map(drop))?;
    again("no names")?;
    let target = [b't'; 200];
    let symlinks = full("symbolic links", &|text| {
        root.make_special_unchecked(name(text), Special::Symlink(&target), &new_inode).map(drop)
    })?;
    again("no links")?;
    let dirs = full("directories", &|text| root.make_dir_unchecked(name(text), &new_inode).map(drop))?;
    again("no directories")?;
    holds("a name takes less than a file", links > files && files > symlinks && symlinks >= dirs)?;
    if file.xattrs().is_some() {
        // Not all of them are the file's own: a file keeps 64 KiB at most.
        full("attributes", &|text| {
            let file = fixture.file(&root, text)?;
            set_xattr(&file, "a", &[7; 3000])
        })?;
        again("no attributes")?;
    }
    Ok(())
}

/// Walks over the files with the backend's own operations and returns their usage: exact for charging by size.
fn walk(volume: &Arc<dyn Backend>, charging: Charging) -> Outcome<Usage> {
    let mut found = std::collections::HashMap::new();
    let root = volume.root();
    found.insert(attrs(&root)?.file_id, 0);
    let mut waiting = vec![Arc::clone(&root)];
    while let Some(dir) = waiting.pop() {
        for listed in names(&dir)? {
            let of = dir.lookup(Name::new(&listed).expect("a name"), Blocking::Allowed)?;
            let bytes = match (of.attrs.file_type, charging) {
                (FileType::Regular, Charging::Sizes) => of.attrs.size.div_ceil(BLOCK_BYTES) * BLOCK_BYTES,
                (FileType::Regular, Charging::Blocks | Charging::Kernel) => of.attrs.used,
                _ => 0,
            };
            found.insert(of.attrs.file_id, bytes);
            if of.attrs.file_type == FileType::Directory {
                waiting.push(of.node);
            }
        }
    }
    let bytes = found.values().sum::<u64>() + overhead(&root)?;
    Ok(Usage { bytes, files: found.len() as u64 })
}

fn file_written_while_it_is_made_counts_once(fixture: Fixture) -> Outcome {
    const ROUNDS: usize = 2000;
    let volume = fixture.volume(8 * MIB, 100)?;
    let (root, new_inode, done) = (volume.root(), fixture.new_inode(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // It may be gone again.
                    let found = root.lookup(name("new"), Blocking::Allowed);
                    let _written = found.and_then(|found| found.node.write(0, &[1; 20_000], KEEP_SET_ID));
                }
            });
        }
        let mut rounds = (0..ROUNDS).map(|_| {
            root.create_unchecked(name("new"), &new_inode)?;
            root.remove_unchecked(name("new"))
        });
        let made = rounds.try_for_each(|round| round.map(drop));
        done.store(true, Ordering::Relaxed);
        made
    })?;
    fixture.check_usage("nothing is left", 0, 1)
}

fn a_reserved_write_is_done_whole(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let root = volume.root();
    let (file, other) = (fixture.file(&root, "file")?, fixture.file(&root, "other")?);
    let mib = vec![1; 1 << 20];
    refused("more than all", file.reserve(0, 9 << 20, KEEP_SET_ID), &[FsError::NoSpace])?;
    eq("size", attrs(&file)?.size, 0)?;
    fixture.check_usage("after a refusal", 0, 3)?;
    file.reserve(0, 6 << 20, KEEP_SET_ID)?;
    eq("size of what is only reserved", attrs(&file)?.size, 0)?;
    append_until_full(&other)?;
    // In no order, and one of them twice.
    for part in [2, 0, 5, 1, 1, 4, 3] {
        file.write(part * MIB, &mib, KEEP_SET_ID)?;
    }
    file.release(0, 6 << 20);
    eq("contents", contents(&file)?, vec![1; 6 << 20])?;
    holds("no more than all", fixture.usage()?.bytes <= 8 * MIB)?;
    if fixture.is_exact() {
        fixture.check_usage("both", 8 * MIB - BLOCK_BYTES, 3)?;
        // What is there needs nothing, and one byte more than there is room for is refused.
        file.reserve(0, 6 << 20, KEEP_SET_ID)?;
        file.release(0, 6 << 20);
        refused("a byte", file.reserve(0, (6 << 20) + 1, KEEP_SET_ID), &[FsError::NoSpace])?;
    }
    Ok(())
}

fn what_was_reserved_is_given_back(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let root = volume.root();
    let file = fixture.file(&root, "file")?;
    for _ in 0..10 {
        // Two that lie over each other, and a cut and a removal under way.
        file.reserve(0, 3 << 20, KEEP_SET_ID)?;
        file.reserve(MIB, 3 << 20, KEEP_SET_ID)?;
        file.write(0, &[1; 5000], KEEP_SET_ID)?;
        file.release(MIB, 3 << 20);
        file.set_attrs(&size(0))?;
        file.release(0, 3 << 20);
    }
    fixture.check_usage("after cuts", 0, 2)?;
    file.reserve(0, 3 << 20, KEEP_SET_ID)?;
    file.write(0, &[1; 5000], KEEP_SET_ID)?;
    file.release(0, 3 << 20);
    fixture.check_usage("after a short one", 2 * BLOCK_BYTES, 2)?;
    file.reserve(0, 3 << 20, KEEP_SET_ID)?;
    root.remove_unchecked(name("file"))?;
    file.release(0, 3 << 20);
    drop(file);
    fixture.check_usage("after a removal", 0, 1)?;
    append_until_full(&fixture.file(&root, "next")?)?;
    refused("of a directory", root.reserve(0, 10, KEEP_SET_ID), &[FsError::IsDirectory])
}

fn a_size_beyond_all_is_not_made(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(4 * MIB, 100)?;
    let root = volume.root();
    for size in [5 * MIB, 1 << 40] {
        match root.create_unchecked(name("big"), &NewInode { size, ..fixture.new_inode() }) {
            // Holes need no room here.
            Ok(_) => drop(root.remove_unchecked(name("big"))?),
            Err(FsError::NoSpace) => {
                refused(
                    "what was not made",
                    root.lookup(name("big"), Blocking::Allowed),
                    &[FsError::NotFound],
                )?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    fixture.check_usage("nothing is left", 0, 1)?;
    root.create_unchecked(name("sized"), &NewInode { size: 3 * MIB, ..fixture.new_inode() })?;
    let charged = if fixture.charging == Charging::Sizes { 3 * MIB } else { 0 };
    fixture.check_usage("a file that was created as a hole", charged, 2)
}

fn changes_wait_for_the_count(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    fixture.file(&volume.root(), "file")?.write(0, &[1; 10_000], KEEP_SET_ID)?;
    volume.sync()?;
    let fixture = fixture.after(volume, End::Killed);
    let volume = fixture.provisioner.open(ID)?;
    let root = volume.root();
    let file = root.lookup(name("file"), Blocking::Allowed)?.node;
    eq("what is read at once", contents(&file)?, vec![1; 10_000])?;
    // Whether it was counted by now is not known: then it is done, else it is refused and does nothing.
    let late = |what: &str, outcome: Result<(), FsError>| match outcome {
        Ok(()) | Err(FsError::Wait(Wait::Recall)) => Ok(outcome.is_ok()),
        Err(error) => Err(crate::conformance::Failure::new(format!("{what}: got {error:?}"))),
    };
    let made = late("a new file", fixture.file(&root, "new").map(drop))?;
    let grown = late("a write", file.write(10_000, &[2; 10_000], KEEP_SET_ID).map(drop))?;
    let moved = late("a new name", root.rename_unchecked(name("file"), &root, name("other")).map(drop))?;
    fixture.counted()?;
    eq("made", root.lookup(name("new"), Blocking::Allowed).is_ok(), made)?;
    eq("grown", attrs(&file)?.size, if grown { 20_000 } else { 10_000 })?;
    eq("moved", root.lookup(name("other"), Blocking::Allowed).is_ok(), moved)?;
    fixture.check_usage("usage", if grown { 5 } else { 3 } * BLOCK_BYTES, 2 + u64::from(made))?;
    fixture.file(&root, "last")?.write(0, &[1; 4096], KEEP_SET_ID)?;
    Ok(())
}

fn a_recount_finds_what_was_counted(fixture: Fixture) -> Outcome {
    let mut fixture = fixture;
    for (round, end) in [End::Killed, End::Orderly, End::Killed].into_iter().enumerate() {
        let volume = fixture.volume(MIB / 2, 20)?;
        let root = volume.root();
        let new_inode = fixture.new_inode();
        std::thread::scope(|scope| {
            let (new_inode, root) = (&new_inode, &root);
            let spawn = |seed| scope.spawn(move || load(new_inode, root, seed));
            let threads: Vec<_> = (0..THREADS).map(|n| spawn((round * THREADS + n) as u64)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        drop(root);
        let counted = fixture.usage()?;
        holds("no more than all", counted.bytes <= MIB / 2 && counted.files <= 20)?;
        holds("the load left something", counted.files > 1)?;
        if fixture.is_exact() {
            eq(
                format!("a walk, with {}", overhead(&volume.root())?),
                walk(&volume, fixture.charging)?,
                counted,
            )?;
        }
        volume.sync()?;
        fixture = fixture.after(volume, end);
        let volume = fixture.provisioner.open(ID)?;
        fixture.counted()?;
        if fixture.is_exact() {
            eq(format!("after an end that was {end:?}"), fixture.usage()?, counted)?;
        }
        drop(volume);
    }
    Ok(())
}
