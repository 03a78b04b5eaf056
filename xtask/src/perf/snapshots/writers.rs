//! Eight clients that change random files without pause, and the times of their calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::times::Times;
use crate::ledger::client::{Client, Failure, Handle, How, MountResult, Stable};
use crate::managed::Managed;
use crate::random::Random;
use crate::server::Endpoint;

const WRITERS: usize = 8;
const FILES_PER_DIR: usize = 1000;
/// A rest between two calls, so that waiting for a processor does not hide other waits.
const REST: Duration = Duration::from_millis(2);
/// Enough for a directory for each.
pub(super) const FILES_MIN: usize = WRITERS * FILES_PER_DIR;

struct Writer {
    client: Client,
    random: Random,
    files: Vec<Handle>,
}

pub(super) struct Writers(Vec<Writer>);

impl Writers {
    /// Makes the files, of 4 KiB each.
    pub(super) fn make(service: &Managed, volume: &str, files: usize) -> anyhow::Result<Self> {
        let endpoint = Endpoint::loopback(service.port, &format!("/{volume}"));
        let each = |number: usize| -> anyhow::Result<Writer> {
            let MountResult { mut client, root } = Client::mount(&endpoint)?;
            let mut made = Vec::new();
            for at in (number..files.div_ceil(FILES_PER_DIR)).step_by(WRITERS) {
                let count = (files - at * FILES_PER_DIR).min(FILES_PER_DIR);
                let dir = client.make_directory(&root, &format!("dir-{at}"), 0o755)?;
                for file in 0..count {
                    let file = client.create(&dir, &format!("file-{file}"), How::Unchecked(0o644))?;
                    client.write(&file, 0, &[1; 4096], Stable::Unstable)?;
                    made.push(file);
                }
            }
            Ok(Writer { client, random: Random::new(number as u64), files: made })
        };
        thread::scope(|scope| {
            let each = &each;
            let made: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || each(number))).collect();
            let made =
                made.into_iter().map(|one| one.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?);
            made.collect::<anyhow::Result<Vec<_>>>().map(Self)
        })
    }

    /// Runs all of them until `run` has ended. Returns its result and the times of all calls.
    pub(super) fn beside<T>(
        &mut self,
        run: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, Times)> {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let is_done = &is_done;
            let running: Vec<_> =
                self.0.iter_mut().map(|writer| scope.spawn(move || writer.change(is_done))).collect();
            let ended = run();
            is_done.store(true, Ordering::Relaxed);
            let mut times = Times::default();
            for one in running {
                let joined = one.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?;
                times.extend(joined.context("a writer failed")?);
            }
            Ok((ended?, times))
        })
    }

    /// Overwrites `count` files, the ones after `from`.
    pub(super) fn overwrite(&mut self, from: usize, count: usize) -> anyhow::Result<()> {
        let share = count / WRITERS;
        thread::scope(|scope| {
            let each = |writer: &mut Writer| -> Result<(), Failure> {
                for at in from / WRITERS..from / WRITERS + share {
                    let file = writer.files[at % writer.files.len()].clone();
                    writer.client.write(&file, 0, &[3; 4096], Stable::Unstable)?;
                }
                Ok(())
            };
            let running: Vec<_> = self.0.iter_mut().map(|writer| scope.spawn(move || each(writer))).collect();
            for one in running {
                one.join().map_err(|_| anyhow::anyhow!("a writer panicked"))??;
            }
            Ok(())
        })
    }
}

impl Writer {
    fn change(&mut self, is_done: &AtomicBool) -> Result<Times, Failure> {
        let mut times = Times::default();
        while !is_done.load(Ordering::Relaxed) {
            let file = &self.files[self.random.below(self.files.len())];
            times.take(|| self.client.write(file, 0, &[2; 4096], Stable::Unstable))?;
            thread::sleep(REST);
        }
        Ok(times)
    }
}
