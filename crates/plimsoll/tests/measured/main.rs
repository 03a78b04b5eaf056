//! Measurements of a service by its clients: each test has the machine for itself.

mod advice;
#[path = "../manage/asked.rs"]
mod asked;
#[path = "../manage/counters.rs"]
mod counters;
mod example;
mod load;
#[path = "../manage/mount.rs"]
mod mount;
#[path = "../manage/rig.rs"]
mod rig;
#[path = "../../../bench/tests/support/tries.rs"]
mod tries;
