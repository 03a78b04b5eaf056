//! Receive buffers: few, large, shared by all connections, returned when their calls are done.

use crate::limits::{BUFFER_BYTES, BUFFERS_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::sync::Mutex;

/// A receive buffer. The bytes before `start` are processed; those up to `filled` are received.
pub(crate) struct Buffer {
    data: Option<Box<[u8]>>,
    pool: Arc<BufferPool>,
    pub(crate) start: usize,
    pub(crate) filled: usize,
}

pub(crate) struct BufferPool {
    state: Mutex<State>,
    /// Whether `on_available` has to be called when a buffer returns.
    is_awaited: AtomicBool,
    on_available: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    spare: Vec<Box<[u8]>>,
    in_use: usize,
}

const SPARE_MAX: usize = 16;

impl BufferPool {
    /// A pool that calls `on_return` when a buffer returns after a request found none.
    pub(crate) fn new(on_return: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let state = Mutex::new(State::default());
        Arc::new(Self { state, is_awaited: AtomicBool::new(false), on_available: Box::new(on_return) })
    }

    /// Returns an empty buffer. `None` if too many are in use; the pool then calls `on_available`
    /// later.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Buffer> {
        let mut state = self.state.lock();
        if state.in_use >= BUFFERS_MAX {
            self.is_awaited.store(true, Ordering::SeqCst);
            return None;
        }
        state.in_use += 1;
        let data = state.spare.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice());
        Some(Buffer { data: Some(data), pool: Arc::clone(self), start: 0, filled: 0 })
    }

    /// An empty buffer, without a limit: for bytes that were received already and must be processed now.
    pub(crate) fn take_always(self: &Arc<Self>) -> Buffer {
        let data = {
            let mut state = self.state.lock();
            state.in_use += 1;
            state.spare.pop()
        };
        let data = data.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice());
        Buffer { data: Some(data), pool: Arc::clone(self), start: 0, filled: 0 }
    }

    /// Whether a connection may keep its buffer between two batches of calls.
    pub(crate) fn is_plentiful(&self) -> bool {
        self.state.lock().in_use < BUFFERS_MAX / 2
    }

    fn put_back(&self, data: Box<[u8]>) {
        {
            let mut state = self.state.lock();
            state.in_use -= 1;
            if state.spare.len() < SPARE_MAX {
                state.spare.push(data);
            }
        }
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            (self.on_available)();
        }
    }
}

impl Buffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.all()[self.start..self.filled]
    }

    pub(crate) fn all(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    pub(crate) fn room(&mut self) -> &mut [u8] {
        let filled = self.filled;
        &mut self.data.as_deref_mut().unwrap_or_default()[filled..]
    }

    pub(crate) fn is_done(&self) -> bool {
        self.start == self.filled
    }

    pub(crate) fn compact(&mut self) {
        let (start, filled) = (self.start, self.filled);
        if start > 0 {
            self.data.as_deref_mut().unwrap_or_default().copy_within(start..filled, 0);
            (self.start, self.filled) = (0, filled - start);
        }
    }

    pub(crate) fn put(&mut self, rest: &[u8]) {
        self.room()[..rest.len()].copy_from_slice(rest);
        self.filled += rest.len();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(data) = self.data.take() {
            self.pool.put_back(data);
        }
    }
}
