//! Service levels as pure arithmetic: what a level, a capacity and settings promise, and where each number comes from.
//!
//! A [`Pool`] and a [`Volume`] go in, [`Limits`] come out, or a [`Refusal`] that names the allowed range and its source.
//! [`Level`] is the catalog: Azure NetApp Files (`anf/…`), Google Cloud NetApp Volumes (`gcnv/…`), Filestore
//! (`filestore/…`) and our own (`plimsoll/…`). A [`Shape`] is a published envelope as a curve over the read fraction; a
//! volume that is [shaped](Shaping) to one meets the same mixed ceiling as in the cloud.
//!
//! ```
//! use envelope::{Bytes, BytesPerSecond, Level, Pool, Volume};
//!
//! let pool = Pool::new(Level::AnfPremium, Bytes::tib(4));
//! let limits = pool.volume_limits(&Volume::new(Bytes::tib(2)))?;
//! assert_eq!(limits.total.combined, Some(BytesPerSecond::mib(128)));
//! # Ok::<(), envelope::Refusal>(())
//! ```
//!
//! No I/O, no clock, no randomness, no floating point: equal arguments give equal results on every machine.
//!
//! Where the sources disagree, the default is one of them and the others are a [`Profile`] of their own.
//!
//! Layers, top down: `advise`, `page`, `provision`, `anf`, `filestore`, `gcnv`, `published`, `shape`.

#![warn(unreachable_pub)]

mod advise;
mod anf;
mod client;
mod filestore;
mod gcnv;
mod level;
mod levels;
mod limits;
mod own;
mod page;
mod profile;
mod profiles;
mod provision;
mod published;
mod range;
mod refusal;
mod settings;
mod shape;
mod source;
mod text;
mod units;

pub use advise::{
    Access, Advice, Band, Bound, CAPACITY_HEADROOM_SOURCE, CAPACITY_HEADROOM_WHY, Catalog, Choice,
    Constraint, Cost, Demand, DemandRate, EDA_BYTES, EDA_READ_THOUSANDTHS, Evidence, LatencyCheck, Machine,
    Measured, MeasuredPoint, MixCeilings, Mount, Plan, PlanOption, PlanYear, PlannedPool, PlannedVolume,
    PoolRaise, Price, Prices, Raise, RaiseStep, Recommendation, SkippedLevel, Stream, Utilization, Workload,
    WorkloadKind, Year, advise, mib, mib_within, plan, size, size_to_buy, size_within,
};
pub use client::{Check, CheckOptions, CheckState, ClientFacts, ClientMount, Interface};
pub use level::{Counts, Level, LevelInfo, NameRule, Owner, Protocol, Provider, Qos, Settable};
pub use limits::{Ceilings, Limits, Origin, PLAIN_WRITE_COST_THOUSANDTHS};
pub use page::{Page, Part};
pub use profile::{Profile, ProfileInfo, Target};
pub use published::{Conflict, Direction, Figure, Headline, Mix, Published, TextFigure, Unit};
pub use range::{Bands, Range};
pub use refusal::Refusal;
pub use settings::{Declared, Pool, PoolSettings, ProvisionedIops, Resize, Totals, Volume, VolumeSettings};
pub use shape::{ErrorBand, Metric, Pattern, Point, Shape, Shaping};
pub use source::Source;
pub use units::{
    Bytes, BytesPerSecond, Iops, SizeForPeople, grouped, parse_count, parse_duration, parse_size,
};
