//! The files that a load reads and writes.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path as Directory, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::plan::{self, Access};
use crate::Error;
use crate::engine::Job;
use crate::fio::{Running, Tool};
use crate::scenario::Cache;
use crate::units::show_size;

/// Where files are while they are made: what has its name is whole.
const UNFINISHED: &str = "unfinished";
/// Bytes of a sample.
const SAMPLE: usize = 4096;
/// How often is looked whether the files are there.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes what is missing of the job's files in a directory, and reads all of them if they are meant to be in memory.
pub(super) fn lay_out(
    directory: &Directory,
    job: &Job,
    tool: &Tool,
    access: Access,
    progress: &mut dyn FnMut(f64),
) -> Result<(), Error> {
    let unfinished = directory.join(UNFINISHED);
    remove(&unfinished)?;
    let files = plan::files(job);
    let missing: Vec<String> =
        files.iter().filter(|file| !is_whole(&directory.join(file), job.file_size)).cloned().collect();
    if !missing.is_empty() {
        fs::create_dir_all(&unfinished).map_err(Error::io(format!("make {}", unfinished.display())))?;
        for file in &missing {
            remove(&directory.join(file))?;
        }
        check_room(directory, &missing, job.file_size)?;
        let text = plan::layout(&missing, job.file_size, job.seed, access);
        let paths: Vec<PathBuf> = missing.iter().map(|file| unfinished.join(file)).collect();
        let done = || {
            let lengths = paths.iter().map(|path| allocated(path).min(job.file_size));
            lengths.sum::<u64>() as f64 / (job.file_size as f64 * paths.len() as f64)
        };
        finish(tool.start(&text, &unfinished, tool.scratch()?)?, "make the files", &mut || progress(done()))?;
        for (from, file) in paths.iter().zip(&missing) {
            let renamed = fs::rename(from, directory.join(file));
            renamed.map_err(Error::io(format!("rename {}", from.display())))?;
        }
        remove(&unfinished)?;
    }
    if job.cache == Cache::Warm {
        let text = plan::warming(&files, job.file_size, access);
        finish(tool.start(&text, directory, tool.scratch()?)?, "read the files once", &mut || ())?;
    }
    progress(1.0);
    Ok(())
}

/// Whether a file can be opened past the page cache.
pub(super) fn takes_direct(directory: &Directory) -> Result<bool, Error> {
    let path = directory.join("direct");
    File::create(&path).map_err(Error::io(format!("make {}", path.display())))?;
    let opened = rustix::fs::open(&path, OFlags::RDWR | OFlags::DIRECT, Mode::empty());
    remove(&path)?;
    Ok(opened.is_ok())
}

/// Removes a file or a directory with all in it, if it is there.
pub(super) fn remove(path: &Directory) -> Result<(), Error> {
    let kind = fs::symlink_metadata(path);
    let removed =
        kind.and_then(|kind| if kind.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) });
    match removed {
        Err(wrong) if wrong.kind() != ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", path.display()))(wrong))
        }
        _ => Ok(()),
    }
}

/// Bytes that are free for us where a directory is.
pub(super) fn free_bytes(directory: &Directory) -> Result<u64, Error> {
    let all = rustix::fs::statvfs(directory).map_err(std::io::Error::from);
    let all = all.map_err(Error::io(format!("ask how much is free in {}", directory.display())))?;
    Ok(all.f_bavail.saturating_mul(all.f_frsize))
}

/// Bytes of the files of earlier runs; 0 if there are none.
pub(super) fn held_bytes(directory: &Directory) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.metadata().ok()).filter(Metadata::is_file).map(|found| found.len()).sum()
}

/// Whether a file of an earlier run can be used again: long enough, and with data in samples of it.
fn is_whole(path: &Directory, size: u64) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let has_data = |at: u64| {
        let mut sample = [0; SAMPLE];
        file.read_at(&mut sample, at).is_ok_and(|read| sample[..read].iter().any(|byte| *byte != 0))
    };
    let last = size.saturating_sub(u64::try_from(SAMPLE).unwrap_or(0));
    file.metadata().is_ok_and(|found| found.is_file() && found.len() >= size)
        && [0, last / 3, last / 2, last].into_iter().all(has_data)
}

fn check_room(directory: &Directory, missing: &[String], size: u64) -> Result<(), Error> {
    let (wanted, free) = (size.saturating_mul(missing.len() as u64), free_bytes(directory)?);
    if wanted > free {
        return Err(Error::Plan(format!(
            "{} files of {} are to be made in {}, and only {} MiB are free; take a smaller working set",
            missing.len(),
            show_size(size),
            directory.display(),
            free >> 20
        )));
    }
    Ok(())
}

/// Bytes of a file that have a place, which grows while it is written.
fn allocated(path: &Directory) -> u64 {
    fs::metadata(path).map_or(0, |found| found.blocks() * 512)
}

/// Waits for a fio whose figures do not matter, but whose success does.
fn finish(mut running: Running, doing: &str, look: &mut dyn FnMut()) -> Result<(), Error> {
    while !running.is_over()? {
        thread::sleep(PAUSE);
        look();
    }
    match running.finish()?.failure() {
        Some(failure) => Err(Error::Plan(format!("fio could not {doing}: {failure}"))),
        None => Ok(()),
    }
}
