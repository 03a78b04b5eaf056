//! A disk whose volatile write cache is lost in a power cut: a small NBD server over a plain file.
//!
//! Killing QEMU alone does not model a power cut: unflushed data of the guest would survive in the host's page cache.
//! Here a write stays in memory until the guest flushes or asks for FUA. At the cut a seeded coin decides for each
//! unflushed 4 KiB block whether it survives, as a disk may write its cache in any order. 4 KiB blocks are atomic, as
//! on the disk with 4 KiB sectors that the guest sees.
//!
//! The protocol is the part of NBD's fixed newstyle handshake and simple replies that QEMU uses.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Context;

use crate::random::Random;

const BLOCK: usize = 4096;
const REQUEST_MAX: usize = 32 << 20;

const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054; // "IHAVEOPT"
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_ABORT: u32 = 2;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 0x8000_0001;
const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;
/// HAS_FLAGS, SEND_FLUSH, SEND_FUA.
const TRANSMISSION_FLAGS: u16 = 1 | 4 | 8;
const COMMAND_FUA: u16 = 1;
const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;
const COMMAND_DISCONNECT: u16 = 2;
const COMMAND_FLUSH: u16 = 3;
const EINVAL: u32 = 22;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    Honest,
    /// Flushes are acknowledged and ignored, and the cut loses all unflushed data: the test must find the loss.
    Ignored,
}

pub(crate) struct Disk {
    pub(crate) socket: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
pub(crate) struct Loss {
    /// Flushes since the disk was switched on.
    pub(crate) flushes: u64,
    /// Unflushed blocks that reached the disk nevertheless.
    pub(crate) survived: usize,
    pub(crate) lost: usize,
}

struct State {
    file: File,
    size: u64,
    flush: Flush,
    volatile: BTreeMap<u64, Box<[u8]>>,
    flushes: u64,
    powered: bool,
}

impl Disk {
    /// Switches a disk on: serves the file, whose length is a multiple of 4 KiB, to one machine at a time.
    pub(crate) fn power_on(path: &Path, flush: Flush) -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // A Unix socket's path may have 107 bytes, which a target directory can exceed.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let socket = std::env::temp_dir().join(format!("xtask-disk-{}-{number}", std::process::id()));
        let file = File::options().read(true).write(true).open(path)?;
        let size = file.metadata()?.len();
        let listener = UnixListener::bind(&socket).context("cannot listen for the guest's disk")?;
        let (volatile, flushes, powered) = (BTreeMap::new(), 0, true);
        let state = Arc::new(Mutex::new(State { file, size, flush, volatile, flushes, powered }));
        let served = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if !lock(&served).powered {
                    return;
                }
                // Both the machine's end and a power cut close the stream; QEMU reports any other error.
                drop(serve(stream, &served));
            }
        });
        Ok(Self { socket, state })
    }

    /// Later requests get no answer. Chance decides for each unflushed block whether it survives.
    pub(crate) fn cut(&self, random: &mut Random) -> io::Result<Loss> {
        let mut state = lock(&self.state);
        state.powered = false;
        let mut loss = Loss { flushes: state.flushes, survived: 0, lost: 0 };
        for (block, data) in std::mem::take(&mut state.volatile) {
            // On a disk that ignores flushes, a surviving block could hide the loss that the test must find.
            if state.flush == Flush::Honest && random.one_in(2) {
                state.file.write_all_at(&data, block * BLOCK as u64)?;
                loss.survived += 1;
            } else {
                loss.lost += 1;
            }
        }
        Ok(loss)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        lock(&self.state).powered = false;
        // Wakes the accepting thread, which then sees that the power is off.
        drop(UnixStream::connect(&self.socket));
        drop(fs::remove_file(&self.socket));
    }
}

impl State {
    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, offset)?;
        for (index, chunk) in data.chunks_exact_mut(BLOCK).enumerate() {
            if let Some(block) = self.volatile.get(&(offset / BLOCK as u64 + index as u64)) {
                chunk.copy_from_slice(block);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8], durable: bool) -> io::Result<()> {
        for (index, chunk) in data.chunks_exact(BLOCK).enumerate() {
            let block = offset / BLOCK as u64 + index as u64;
            if durable && self.flush == Flush::Honest {
                // A later flush must not overwrite this block with older data.
                self.volatile.remove(&block);
                self.file.write_all_at(chunk, block * BLOCK as u64)?;
            } else {
                self.volatile.insert(block, chunk.into());
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes += 1;
        if self.flush == Flush::Honest {
            for (block, data) in std::mem::take(&mut self.volatile) {
                self.file.write_all_at(&data, block * BLOCK as u64)?;
            }
        }
        Ok(())
    }

    fn holds(&self, request: &Request) -> bool {
        let block = BLOCK as u64;
        request.offset.is_multiple_of(block)
            && u64::from(request.length).is_multiple_of(block)
            && request.offset.checked_add(request.length.into()).is_some_and(|end| end <= self.size)
    }
}

struct Request {
    flags: u16,
    command: u16,
    cookie: [u8; 8],
    offset: u64,
    length: u32,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no thread panics while it holds the disk")
}

fn serve(mut stream: UnixStream, state: &Mutex<State>) -> io::Result<()> {
    handshake(&mut stream, lock(state).size)?;
    loop {
        let request = read_request(&mut stream)?;
        let length = usize::try_from(request.length).map_err(io::Error::other)?;
        if length > REQUEST_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut data = Vec::new();
        if request.command == COMMAND_WRITE {
            data = vec![0; length];
            stream.read_exact(&mut data)?;
        }
        if request.command == COMMAND_DISCONNECT {
            return Ok(());
        }
        let Some(error) = answer(&mut lock(state), &request, &mut data)? else {
            // A disk without power gives no answer: a closed connection would be an I/O error that the guest could
            // report.
            return io::copy(&mut stream, &mut io::sink()).map(drop);
        };
        let mut reply = Vec::with_capacity(16 + data.len());
        reply.extend(REPLY_MAGIC.to_be_bytes());
        reply.extend(error.to_be_bytes());
        reply.extend(request.cookie);
        if request.command == COMMAND_READ && error == 0 {
            reply.extend(&data);
        }
        stream.write_all(&reply)?;
    }
}

/// Returns `None` once the power is off.
fn answer(state: &mut State, request: &Request, data: &mut Vec<u8>) -> io::Result<Option<u32>> {
    if !state.powered {
        return Ok(None);
    }
    let fua = request.flags & COMMAND_FUA != 0;
    match request.command {
        COMMAND_FLUSH => state.flush()?,
        COMMAND_READ if state.holds(request) => {
            data.resize(usize::try_from(request.length).map_err(io::Error::other)?, 0);
            state.read(request.offset, data)?;
        }
        COMMAND_WRITE if state.holds(request) => state.write(request.offset, data, fua)?,
        _ => return Ok(Some(EINVAL)),
    }
    Ok(Some(0))
}

fn handshake(stream: &mut UnixStream, size: u64) -> io::Result<()> {
    stream.write_all(b"NBDMAGIC")?;
    stream.write_all(&OPTION_MAGIC.to_be_bytes())?;
    // FIXED_NEWSTYLE | NO_ZEROES
    stream.write_all(&3u16.to_be_bytes())?;
    let mut client_flags = [0; 4];
    stream.read_exact(&mut client_flags)?;
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header)?;
        let option = be32(&header[8..12]);
        let length = usize::try_from(be32(&header[12..16])).map_err(io::Error::other)?;
        if header[..8] != OPTION_MAGIC.to_be_bytes() || length > 64 << 10 {
            return Err(ErrorKind::InvalidData.into());
        }
        stream.read_exact(&mut vec![0; length])?;
        match option {
            OPTION_GO | OPTION_INFO => {
                let export =
                    [&INFO_EXPORT.to_be_bytes()[..], &size.to_be_bytes(), &TRANSMISSION_FLAGS.to_be_bytes()];
                reply_option(stream, option, REPLY_INFO, &export.concat())?;
                let block = u32::try_from(BLOCK).map_err(io::Error::other)?.to_be_bytes();
                let most = u32::try_from(REQUEST_MAX).map_err(io::Error::other)?.to_be_bytes();
                let sizes = [&INFO_BLOCK_SIZE.to_be_bytes()[..], &block, &block, &most].concat();
                reply_option(stream, option, REPLY_INFO, &sizes)?;
                reply_option(stream, option, REPLY_ACK, &[])?;
                if option == OPTION_GO {
                    return Ok(());
                }
            }
            OPTION_ABORT => return Err(ErrorKind::ConnectionAborted.into()),
            _ => reply_option(stream, option, REPLY_UNSUPPORTED, &[])?,
        }
    }
}

fn reply_option(stream: &mut UnixStream, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let length = u32::try_from(data.len()).map_err(io::Error::other)?;
    let header = [&OPTION_REPLY_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes()];
    stream.write_all(&[&header.concat(), &length.to_be_bytes()[..], data].concat())
}

fn read_request(stream: &mut UnixStream) -> io::Result<Request> {
    let mut header = [0; 28];
    stream.read_exact(&mut header)?;
    if be32(&header[..4]) != REQUEST_MAGIC {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut cookie = [0; 8];
    cookie.copy_from_slice(&header[8..16]);
    Ok(Request {
        flags: u16::from_be_bytes([header[4], header[5]]),
        command: u16::from_be_bytes([header[6], header[7]]),
        cookie,
        offset: u64::from(be32(&header[16..20])) << 32 | u64::from(be32(&header[20..24])),
        length: be32(&header[24..28]),
    })
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(flush: Flush) -> State {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("xtask-disk-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        fs::remove_file(path).unwrap();
        file.set_len(1 << 20).unwrap();
        State { file, size: 1 << 20, flush, volatile: BTreeMap::new(), flushes: 0, powered: true }
    }

    fn on_disk(state: &State, block: u64) -> u8 {
        let mut data = [0; BLOCK];
        state.file.read_exact_at(&mut data, block * BLOCK as u64).unwrap();
        data[BLOCK - 1]
    }

    #[test]
    fn a_write_is_read_back_but_not_durable_until_flushed() {
        let mut state = state(Flush::Honest);
        state.write(8192, &[7; 2 * BLOCK], false).unwrap();
        let mut data = [0; 4 * BLOCK];
        state.read(4096, &mut data).unwrap();
        assert_eq!([data[0], data[BLOCK], data[2 * BLOCK], data[3 * BLOCK]], [0, 7, 7, 0]);
        assert_eq!(on_disk(&state, 2), 0);
        state.flush().unwrap();
        assert_eq!((on_disk(&state, 2), on_disk(&state, 3)), (7, 7));
    }

    #[test]
    fn a_forced_write_bypasses_the_cache_and_replaces_cached_data() {
        let mut state = state(Flush::Honest);
        state.write(0, &[1; 2 * BLOCK], false).unwrap();
        state.write(0, &[2; BLOCK], true).unwrap();
        assert_eq!((on_disk(&state, 0), on_disk(&state, 1)), (2, 0));
        state.flush().unwrap();
        assert_eq!((on_disk(&state, 0), on_disk(&state, 1)), (2, 1));
    }

    #[test]
    fn a_lying_disk_loses_everything_unflushed() {
        let mut state = state(Flush::Ignored);
        state.write(0, &[1; BLOCK], true).unwrap();
        state.flush().unwrap();
        assert_eq!(on_disk(&state, 0), 0);
    }

    #[test]
    fn a_cut_loses_some_blocks_and_preserves_others() {
        let state = state(Flush::Honest);
        let disk = Disk { socket: PathBuf::from("/nonexistent/socket"), state: Arc::new(Mutex::new(state)) };
        lock(&disk.state).write(0, &[9; 64 * BLOCK], false).unwrap();
        let loss = disk.cut(&mut Random::new(1)).unwrap();
        assert_eq!(loss.survived + loss.lost, 64);
        assert!(loss.survived > 0 && loss.lost > 0, "{loss:?}");
        let intact = (0..64).filter(|&block| on_disk(&lock(&disk.state), block) == 9).count();
        assert_eq!(intact, loss.survived);
    }

    #[test]
    fn requests_past_the_end_or_unaligned_are_refused() {
        let mut state = state(Flush::Honest);
        for (offset, length) in [(0, 512), (512, 4096), (1 << 20, 4096), (u64::MAX - 4095, 4096)] {
            let request = Request { flags: 0, command: COMMAND_READ, cookie: [0; 8], offset, length };
            assert_eq!(answer(&mut state, &request, &mut Vec::new()).unwrap(), Some(EINVAL));
        }
    }
}
