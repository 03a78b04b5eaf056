//! A request while it runs: its context, its result, its waits and the paths it walks.

pub(crate) mod context;
pub(crate) mod copying;
pub(crate) mod export_access;
pub(crate) mod limit_wait;
pub(crate) mod outcome;
pub(crate) mod path_lookup;
pub(crate) mod payload;
pub(crate) mod wait;
