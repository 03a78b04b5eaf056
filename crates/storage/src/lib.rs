//! Parts that storage backends share. Nothing here touches a file: a backend passes in its own.
//!
//! Layers, top down: `ledger`, `usage_record`, `table`, `node_budget`, `group_flush`, `change_counter`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod change_counter;
mod group_flush;
mod ledger;
mod node_budget;
mod table;
mod usage_record;

pub use change_counter::{CounterOffset, offset_of};
pub use group_flush::GroupFlush;
pub use ledger::{Ledger, PendingChange, UsageStore};
pub use node_budget::NodeBudget;
pub use table::{Recency, Table, TableNode};
pub use usage_record::{USAGE_RECORD_BYTES, UsageRecord};
