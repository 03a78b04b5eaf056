//! The files that a load reads and writes.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::thread;
use std::time::Duration;

use report::scenario::Cache;
use report::units::show_size;
use rustix::fs::{FileType, OFlags};

use super::plan::{self, Access};
use crate::error::Error;
use crate::fio::{Running, Tool};
use crate::job::{Job, LayoutProgress};
use crate::private_dir::{PrivateDir, remove_empty};

/// The directory for incomplete files. A complete file moves to its final name.
const UNFINISHED: &str = "unfinished";
/// Tests whether the page cache can be bypassed.
const PROBE: &str = "plimsoll-direct";
const SAMPLE: usize = 4096;
const POLL: Duration = Duration::from_millis(100);

pub(super) fn lay_out(
    directory: &PrivateDir,
    job: &Job,
    tool: &Tool,
    access: Access,
    progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
) -> Result<(), Error> {
    remove_unfinished(directory)?;
    let files = plan::files(job);
    let mut missing = Vec::new();
    for file in &files {
        if !directory.file(file)?.is_some_and(|found| is_whole(&found, job.file_size)) {
            missing.push(file.clone());
        }
    }
    if !missing.is_empty() {
        make(directory, &missing, job, tool, access, progress)?;
    }
    if job.cache == Cache::Warm {
        let text = plan::warming(&files, job.file_size, access);
        finish(tool.start(&text, directory, tool.scratch()?)?, "read the files once", &mut || {
            progress(LayoutProgress::share(1.0))
        })?;
    }
    progress(LayoutProgress::share(1.0))
}

/// Writes under temporary names, and renames complete files.
fn make(
    directory: &PrivateDir,
    missing: &[String],
    job: &Job,
    tool: &Tool,
    access: Access,
    progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
) -> Result<(), Error> {
    missing.iter().try_for_each(|file| directory.remove(file))?;
    check_room(directory, missing, job.file_size)?;
    let unfinished = PrivateDir::make(directory.fd(), directory.path(), UNFINISHED)?;
    // fio does not rewrite existing files, so these have new names.
    missing.iter().try_for_each(|file| unfinished.create(file).map(drop))?;
    let text = plan::layout(missing, job.file_size, job.seed, access);
    let done = || {
        let lengths = missing.iter().map(|file| allocated(&unfinished, file).min(job.file_size));
        let lengths: Vec<u64> = lengths.collect();
        let written: u64 = lengths.iter().sum();
        LayoutProgress {
            done: written as f64 / (job.file_size as f64 * missing.len() as f64),
            whole: lengths.iter().filter(|length| **length == job.file_size).count() as u64,
            files: missing.len() as u64,
            written,
        }
    };
    let filled =
        finish(tool.start(&text, &unfinished, tool.scratch()?)?, "make the files", &mut || progress(done()));
    if let Err(Error::Stopped) = filled {
        // The next run would remove them too, but their space would be in use until then.
        remove_unfinished(directory)?;
    }
    filled?;
    missing.iter().try_for_each(|file| unfinished.move_to(file, directory))?;
    remove_unfinished(directory)
}

/// Whether the file system accepts `O_DIRECT`.
pub(super) fn takes_direct(directory: &PrivateDir) -> Result<bool, Error> {
    // An interrupted run may have left the file.
    directory.remove(PROBE)?;
    directory.create(PROBE)?;
    let opened = directory.open_with(PROBE, OFlags::RDWR | OFlags::DIRECT);
    directory.remove(PROBE)?;
    Ok(opened.is_ok())
}

/// Removes only files of layouts. Returns whether the directory is empty.
pub(super) fn remove_files(directory: &PrivateDir) -> Result<bool, Error> {
    remove_unfinished(directory)?;
    directory.remove(PROBE)?;
    let names = directory.names()?;
    let (ours, others): (Vec<_>, Vec<_>) =
        names.iter().filter_map(|name| name.to_str()).partition(|name| plan::is_file(name));
    ours.iter().try_for_each(|file| directory.remove(file))?;
    Ok(others.is_empty())
}

fn remove_unfinished(directory: &PrivateDir) -> Result<(), Error> {
    let Some(unfinished) = PrivateDir::existing(directory.fd(), directory.path(), UNFINISHED)? else {
        return Ok(());
    };
    for name in unfinished.names()?.iter().filter_map(|name| name.to_str()).filter(|name| plan::is_file(name))
    {
        unfinished.remove(name)?;
    }
    if remove_empty(directory.fd(), directory.path(), UNFINISHED)? {
        return Ok(());
    }
    let path = unfinished.path().display();
    Err(Error::Plan(format!("{path} has something in it that is not of the benchmark: move it elsewhere")))
}

/// Includes files of earlier runs.
pub(super) fn held_bytes(directory: &PrivateDir) -> Result<u64, Error> {
    let names = directory.names()?;
    let found = names.iter().filter_map(|name| directory.stat(name.to_str()?));
    let files = found.filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    Ok(files.map(|stat| u64::try_from(stat.st_size).unwrap_or(0)).sum())
}

/// Whether a file of an earlier run is usable: long enough, and with data in samples.
fn is_whole(file: &File, size: u64) -> bool {
    let has_data = |at: u64| {
        let mut sample = [0; SAMPLE];
        file.read_at(&mut sample, at).is_ok_and(|read| sample[..read].iter().any(|byte| *byte != 0))
    };
    let last = size.saturating_sub(u64::try_from(SAMPLE).unwrap_or(0));
    file.metadata().is_ok_and(|found| found.size() >= size)
        && [0, last / 3, last / 2, last].into_iter().all(has_data)
}

fn check_room(directory: &PrivateDir, missing: &[String], size: u64) -> Result<(), Error> {
    let (wanted, free) = (size.saturating_mul(missing.len() as u64), directory.free_bytes()?);
    if wanted > free {
        return Err(Error::Plan(format!(
            "{} files of {} are to be made in {}, and only {} MiB are free; take a smaller working set",
            missing.len(),
            show_size(size),
            directory.path().display(),
            free >> 20
        )));
    }
    Ok(())
}

/// Allocated bytes, which grow while fio writes the file.
fn allocated(directory: &PrivateDir, file: &str) -> u64 {
    directory.stat(file).map_or(0, |found| u64::try_from(found.st_blocks).unwrap_or(0) * 512)
}

/// Waits for a fio whose figures do not matter. Fails if fio fails. An error of `look` ends fio.
fn finish(
    mut running: Running,
    doing: &str,
    look: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    while !running.is_over()? {
        thread::sleep(POLL);
        // fio works in threads, so that its end, when `running` is dropped, ends them all.
        look()?;
    }
    match running.finish()?.failure() {
        Some(failure) => Err(Error::Plan(format!("fio could not {doing}: {failure}"))),
        None => Ok(()),
    }
}
