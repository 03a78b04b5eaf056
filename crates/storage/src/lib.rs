//! Parts that storage backends share. Nothing here touches a file: a backend passes in its own.
//!
//! Layers, top down: `recount`, `limit`, `charging`, `owners`, `ledger`, `usage_record`, `table`, `node_budget`, `trash`,
//! `unflushed`, `volume_name`, `group_flush`, `change_counter`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod change_counter;
mod charging;
mod group_flush;
mod ledger;
mod limit;
mod node_budget;
mod owners;
mod recount;
mod table;
mod trash;
mod unflushed;
mod usage_record;
mod volume_name;

pub use change_counter::{CounterOffset, offset_of};
pub use charging::{
    Counts, EntriesBytes, EntriesCharge, NewEntryCharge, PendingCounts, Released, ResizeCharge,
    SpaceReservations, XattrCharge,
};
pub use group_flush::GroupFlush;
pub use ledger::{Ledger, PendingChange, UsageStore};
pub use limit::{CountQueue, Limit, Space};
pub use node_budget::NodeBudget;
pub use owners::{
    LiveFiles, OwnerIds, OwnerLedger, OwnerMove, OwnerStore, PendingOwnerChange, Tally, add_to_tally,
    merge_tally,
};
pub use recount::{Recounter, Walk};
pub use table::{Recency, Table, TableNode};
pub use trash::{Trash, TrashDir};
pub use unflushed::Unflushed;
pub use usage_record::{USAGE_RECORD_BYTES_MAX, UsageRecord};
pub use volume_name::{volume_name, volume_of};
