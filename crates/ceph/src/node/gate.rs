//! Holds changes back while a snapshot is made.

use std::cell::RefCell;
use std::marker::PhantomData;
use vfs::sync::{Condvar, Mutex};

thread_local! {
    /// The gates that this thread has passed, by address, each with the number of its changes.
    static PASSED: RefCell<Vec<(usize, u32)>> = const { RefCell::new(Vec::new()) };
}

/// The gate that every change of a volume's files passes.
#[derive(Default)]
pub(crate) struct ChangeGate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    under_way: usize,
    is_closed: bool,
}

/// A change under way. It stays on its thread.
pub(super) struct Passed<'g> {
    gate: &'g ChangeGate,
    _thread: PhantomData<*const ()>,
}

/// No change is under way, and none begins until the drop.
pub(crate) struct Closed<'g>(&'g ChangeGate);

impl ChangeGate {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Begins a change. One within another change of the same thread does not wait.
    pub(super) fn pass(&self) -> Passed<'_> {
        let is_within = PASSED.with_borrow_mut(|passed| {
            let found = passed.iter_mut().find(|(gate, _)| *gate == self.address());
            found.map(|(_, count)| *count += 1).is_some()
        });
        if !is_within {
            let mut state = self.state.lock();
            while state.is_closed {
                state = self.changed.wait(state);
            }
            state.under_way += 1;
            drop(state);
            PASSED.with_borrow_mut(|passed| passed.push((self.address(), 1)));
        }
        Passed { gate: self, _thread: PhantomData }
    }

    /// Waits for the changes under way, and lets none begin.
    pub(crate) fn close(&self) -> Closed<'_> {
        let mut state = self.state.lock();
        while state.is_closed {
            state = self.changed.wait(state);
        }
        state.is_closed = true;
        while state.under_way > 0 {
            state = self.changed.wait(state);
        }
        Closed(self)
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        let is_last = PASSED.with_borrow_mut(|passed| {
            let Some(place) = passed.iter().position(|(gate, _)| *gate == self.gate.address()) else {
                return false;
            };
            passed[place].1 -= 1;
            let is_last = passed[place].1 == 0;
            if is_last {
                passed.swap_remove(place);
            }
            is_last
        });
        if is_last {
            let mut state = self.gate.state.lock();
            state.under_way -= 1;
            if state.is_closed && state.under_way == 0 {
                self.gate.changed.notify_all();
            }
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn changes_wait_while_the_gate_is_closed() {
        let (gate, has_changed) = (ChangeGate::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let closed = gate.close();
            scope.spawn(|| {
                let _passed = gate.pass();
                has_changed.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(!has_changed.load(Ordering::SeqCst));
            drop(closed);
        });
        assert!(has_changed.load(Ordering::SeqCst));
    }

    #[test]
    fn change_within_a_change_passes_a_gate_that_closes() {
        let (gate, is_closing) = (ChangeGate::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let outer = gate.pass();
            scope.spawn(|| {
                is_closing.store(true, Ordering::SeqCst);
                drop(gate.close());
            });
            while !is_closing.load(Ordering::SeqCst) || !gate.state.lock().is_closed {
                std::thread::yield_now();
            }
            let inner = gate.pass();
            // In the other order than usual, as after a rename.
            drop(outer);
            assert_eq!(gate.state.lock().under_way, 1);
            drop(inner);
        });
        assert_eq!(gate.state.lock().under_way, 0);
        assert!(!gate.state.lock().is_closed);
    }
}
