//! Bodies made of what management and storage have, and back.
//!
//! Both sides are other crates' types, so the conversions are traits of this crate.

mod backup;
mod bounds;
mod operation;
mod peer;
mod policy;
mod pool;
mod quota;
mod replication;
mod rule;
mod settings;
mod share;
mod snapshot;
mod stats;
mod token;
mod user;
mod vault;
mod volume;
mod warning;
mod words;

pub(crate) use pool::pool_change;
pub use share::smb_settings;
pub(crate) use stats::counted;
pub(crate) use user::user_change;
pub(crate) use volume::{to_rules, volume_change};
pub(crate) use words::protocols_of;

use control::Error;

/// A value that replies show.
pub trait ToBody {
    type Body;

    fn to_body(&self) -> Self::Body;
}

/// A value that is made of the body `B` of a request.
pub trait FromBody<B>: Sized {
    fn from_body(body: B) -> Result<Self, Error>;
}

/// Names a version of an object, not of an earlier object with the same name.
pub(crate) fn version_text(version: u64, created_ms: u64) -> String {
    format!("{version}-{created_ms:x}")
}

/// A word of a body, and the value it stands for.
pub trait ToValue {
    type Value;

    fn to_value(self) -> Self::Value;
}
