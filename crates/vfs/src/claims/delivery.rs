//! Delivery of effects by a loop, also where a delivery produces further effects.
//!
//! A holder that receives an effect may request another claim or release one, with effects for further holders. The
//! loop that runs on this thread already delivers them, after the earlier ones. So a queue that clients make long does
//! not deepen the stack.

use super::{Effect, Holder};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

type Due = VecDeque<(Arc<dyn Holder>, Effect)>;

thread_local! {
    static DELIVERY: RefCell<Delivery> = const { RefCell::new(Delivery { due: Due::new(), is_running: false }) };
}

struct Delivery {
    due: Due,
    /// Whether a caller further up the stack delivers.
    is_running: bool,
}

/// Marks that this call delivers on its thread.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        // Effects that a panic has left are delivered with the next ones.
        _ = DELIVERY.try_with(|delivery| delivery.borrow_mut().is_running = false);
    }
}

/// Delivers effects to their holders, in order; at once, unless this is called by a holder that takes an effect.
pub(super) fn deliver(mut effects: Due) {
    if effects.is_empty() {
        return;
    }
    let begin = |delivery: &RefCell<Delivery>| {
        let mut delivery = delivery.borrow_mut();
        delivery.due.append(&mut effects);
        !std::mem::replace(&mut delivery.is_running, true)
    };
    match DELIVERY.try_with(begin) {
        Ok(false) => return,
        Ok(true) => {}
        // The thread is ending.
        Err(_) => return effects.into_iter().for_each(|(holder, effect)| holder.deliver(effect)),
    }
    let _running = Running;
    while let Ok(Some((holder, effect))) = DELIVERY.try_with(|delivery| delivery.borrow_mut().due.pop_front())
    {
        holder.deliver(effect);
    }
}
