//! Snapshots of volumes with undo stores, against whole copies of the tree from the time of each.

#[path = "../fixture/mod.rs"]
mod fixture;
mod kills;
mod model;
mod moments;
mod power;
mod rig;
mod sparse;
mod steps;
mod streams;
mod suite;

use fixture::{DIR, MODE};
use std::path::Path;

/// Run by other tests in a process of its own, which they kill. The mode is what it does, and for what.
#[test]
#[ignore = "run by other tests in a process of its own"]
fn inner() {
    let (Some(dir), Ok(mode)) = (std::env::var_os(DIR), std::env::var(MODE)) else { return };
    let data = Path::new(&dir);
    match mode.split_once(' ') {
        Some(("kills", seed)) => {
            kills::change_for_ever(data, &data.join("copies"), seed.parse().unwrap(), &mut |_| ());
        }
        Some(("cuts", round)) => power::change_until_cut(data, round),
        Some(("step", verb)) => steps::take(data, verb),
        _ => panic!("no such mode: {mode}"),
    }
}
