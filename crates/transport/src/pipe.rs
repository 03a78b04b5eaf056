//! File to socket without a copy: pages travel through a pipe.
//!
//! The pages are taken from the file before the reply's length is written, so that the length matches even if the file
//! changes meanwhile. A page in a pipe stays this file's page even if the file is truncated: the kernel gives it to no
//! other file while the pipe refers to it.

use crate::limits::PIPES_MAX;
use crate::reply_deadline::ReplyDeadline;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs::sync::Mutex;

pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    len: usize,
    capacity: usize,
}

/// The preferred capacities. 1 MiB that does not begin on a page boundary touches 257 pages, and capacities are powers
/// of two. An unprivileged process may have 1 MiB; then such a read returns one page less.
const SIZES: [usize; 2] = [2 << 20, 1 << 20];
/// Pipes that each thread retains for the next use.
const SPARE_MAX: usize = 32;

static OPEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(PIPES_MAX);

/// Empty pipes that were released on another thread than the one that fills them.
static SHARED_SPARE: Mutex<Vec<Pipe>> = Mutex::new(Vec::new());

thread_local! {
    static SPARE: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

pub fn limit_pipes(most: usize) {
    MOST.store(most.min(PIPES_MAX), Ordering::Relaxed);
}

impl Pipe {
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

    /// Splices up to `len` bytes of `file` at `offset`; fewer at the end of the file or when the pipe is full.
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

    /// Splices up to `len` bytes from a socket. Returns their number; zero at the end of the stream. Would block if
    /// there are none, or if the pipe is full.
    pub fn fill_from_socket(&mut self, socket: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
        let moved = splice(socket, None, &self.write, None, len, SpliceFlags::NONBLOCK)?;
        self.len += moved;
        Ok(moved)
    }

    pub fn reader(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Releases the pipe after another reader has emptied it, for the thread that fills the next one.
    pub fn mark_emptied(mut self) {
        self.len = 0;
        let mut spare = SHARED_SPARE.lock();
        if spare.len() < SPARE_MAX {
            spare.push(self);
        }
    }

    pub fn read_into(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.reserve(self.len);
        while self.len > 0 {
            // Appends to spare capacity, so that no memory is filled with zeros first.
            let count = rustix::io::read(&self.read, rustix::buffer::spare_capacity(bytes))?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.len = self.len.saturating_sub(count);
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Splices bytes to `socket` until the pipe is empty or the socket would block. With `more` the kernel may hold the
    /// last ones back, to send them with the next.
    pub(crate) fn drain_to(
        &mut self,
        socket: BorrowedFd<'_>,
        more: bool,
        deadline: ReplyDeadline,
    ) -> io::Result<()> {
        let mut flags = SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, more);
        while self.len > 0 {
            deadline.check()?;
            match splice(&self.read, None, socket, None, self.len, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(moved) => self.len -= moved,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Retains an empty pipe for the next use on this thread.
    pub fn recycle(self) {
        if self.is_empty() {
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
