//! Gateways in front of one CephFS: which of them serves which endpoint, and until when.
//!
//! A *gateway* is a machine. An *endpoint* is a service with an address, pools and volumes of its own, which one gateway at
//! a time serves. Gateways know each other only through a [`SharedStore`]; time and randomness are arguments.
//!
//! Layers, top down: `membership`, `holding`, `placement`, `invitation`, `record`, `lease`, `key`, `store`, `error`.
#![forbid(unsafe_code)]

mod error;
mod holding;
mod invitation;
mod key;
mod lease;
mod membership;
mod placement;
mod record;
mod store;

pub use error::{Error, Result};
pub use holding::{Holding, RenewError, State};
pub use invitation::Invitation;
pub use key::{ClusterKey, KEY_BYTES};
pub use lease::{Lease, LeaseHolder, Times, Watch};
pub use membership::{Cluster, EndpointState, GatewayState, Observer, View};
pub use placement::{Placement, Step, Wish};
pub use record::{EndpointRecord, Formats, GatewayRecord, Name};
pub use store::{Change, SharedStore};

/// Fills a buffer with unpredictable random bytes.
pub type Entropy<'e> = &'e dyn Fn(&mut [u8]);
