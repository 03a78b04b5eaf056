//! File to socket without a copy: pages travel through a pipe.
//!
//! The pages are taken from the file before the reply's length is written, so what the length says is what the pipe
//! holds, whatever happens to the file meanwhile. A page in a pipe stays this file's page even if the file is cut: it
//! cannot be given to another file while the pipe refers to it.

use crate::limits::PIPES_MAX;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs::sync::Mutex;

/// A pipe holding bytes on their way to a socket.
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    len: usize,
    capacity: usize,
}

/// What a pipe is made to hold: 1 MiB that does not begin on a page boundary touches 257 pages, and sizes are powers of
/// two. An ordinary user may have 1 MiB; then such a read is answered with a page less.
const SIZES: [usize; 2] = [2 << 20, 1 << 20];
/// Pipes kept by each thread for the next use.
const SPARE_MAX: usize = 32;

/// Pipes in the process.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// How many there may be.
static MOST: AtomicUsize = AtomicUsize::new(PIPES_MAX);

/// Empty pipes that came back on another thread than the one that fills them.
static SHARED_SPARE: Mutex<Vec<Pipe>> = Mutex::new(Vec::new());

thread_local! {
    static SPARE: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

/// Lets the process have no more pipes than this many.
pub fn limit_pipes(most: usize) {
    MOST.store(most.min(PIPES_MAX), Ordering::Relaxed);
}

impl Pipe {
    /// An empty pipe, perhaps one used before.
    pub fn acquire() -> io::Result<Self> {
        match SPARE.with_borrow_mut(Vec::pop) {
            Some(pipe) => Ok(pipe),
            None => SHARED_SPARE.lock().pop().map_or_else(Self::open, Ok),
        }
    }

    fn open() -> io::Result<Self> {
        if OPEN.fetch_add(1, Ordering::Relaxed) >= MOST.load(Ordering::Relaxed) {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Self::open_counted().inspect_err(|_| {
            OPEN.fetch_sub(1, Ordering::Relaxed);
        })
    }

    fn open_counted() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let sized = SIZES.into_iter().find(|&size| fcntl_setpipe_size(&write, size).is_ok());
        Ok(Self { read, write, len: 0, capacity: sized.unwrap_or(64 << 10) })
    }

    /// Takes pages of `file` at `offset`, up to `len` bytes; fewer at the end of the file or when the pipe is full.
    pub fn fill(&mut self, file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<usize> {
        debug_assert_eq!(self.len, 0, "a pipe carries one read");
        let mut at = offset;
        while self.len < len.min(self.capacity) {
            match splice(file, Some(&mut at), &self.write, None, len - self.len, SpliceFlags::NONBLOCK) {
                Ok(0) => break,
                Ok(moved) => self.len += moved,
                Err(rustix::io::Errno::AGAIN) if self.len > 0 => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.len)
    }

    /// Takes up to `len` bytes from a socket: how many; zero at the end of the stream. Would block if there are none, or
    /// if the pipe is full.
    pub fn fill_from_socket(&mut self, socket: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
        let moved = splice(socket, None, &self.write, None, len, SpliceFlags::NONBLOCK)?;
        self.len += moved;
        Ok(moved)
    }

    /// The end to read from.
    pub fn reader(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Says that somebody else has read all that was in the pipe, and keeps it for the thread that fills the next.
    pub fn mark_emptied(mut self) {
        self.len = 0;
        let mut spare = SHARED_SPARE.lock();
        if spare.len() < SPARE_MAX {
            spare.push(self);
        }
    }

    /// Moves all that is in the pipe into memory.
    pub fn read_into(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.reserve(self.len);
        while self.len > 0 {
            // Appends what it reads, so that nothing is filled with zeros before.
            let count = rustix::io::read(&self.read, rustix::buffer::spare_capacity(bytes))?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.len = self.len.saturating_sub(count);
        }
        Ok(())
    }

    /// Bytes in the pipe.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Moves bytes to `socket` until the pipe is empty or the socket would block. With `more` the last of them may be
    /// held back to go with what is sent next.
    pub fn drain_to(&mut self, socket: BorrowedFd<'_>, more: bool) -> io::Result<()> {
        let mut flags = SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, more);
        while self.len > 0 {
            match splice(&self.read, None, socket, None, self.len, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(moved) => self.len -= moved,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Keeps an empty pipe for the next use on this thread.
    pub fn recycle(self) {
        if self.len == 0 {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_MAX {
                    spare.push(self);
                }
            });
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}
