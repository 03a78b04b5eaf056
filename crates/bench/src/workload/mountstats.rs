//! The kernel's counters of an NFS mount: since it was mounted, or since they were read before.

use super::traffic::observed;
use super::{Counters, Observed, Pick};
use crate::mountstats::{Mount, protocol};
use crate::report::table::separated;

/// What is to be said of counters of a mount.
pub(super) const ONE_CLIENT: &str = "It is the load of this client alone: add that of the others.";

pub(super) fn read(text: &str, pick: &Pick) -> Result<Observed, String> {
    let mounts: Vec<Mount> = Mount::all(text).into_iter().filter(Mount::is_nfs).collect();
    let at = place(mounts.iter().map(|mount| mount.at.as_str()).collect(), pick.mount.as_deref())?;
    let mount = Mount::find(text, at).ok_or("it has no such mount")?;
    let (before, note) = match &pick.since {
        None => {
            let note = "It is the average since the file system was mounted, and no peak: --since takes an earlier text of \
                        the same mount, and nfsiostat tells of intervals.";
            (Counters { us: Some(0), ..Counters::default() }, note)
        }
        Some(text) => {
            (earlier(text, &mount)?, "It is the average between the two texts: peaks within are not seen.")
        }
    };
    let interval = counters(&mount)?.since(&before)?;
    let source = format!("mountstats of {at} over {} s", separated(interval.seconds, 0));
    let mut observed = observed(source, &[interval], pick.pattern)?;
    observed.notes.insert(0, note.to_owned());
    observed.notes.push(ONE_CLIENT.to_owned());
    observed.clients = Some(1);
    observed.connections = Some(mount.transports).filter(|count| *count > 0);
    observed.protocol = protocol(&mount.kind, &mount.options);
    if observed.protocol.is_none() {
        observed
            .notes
            .push(format!("No level is known to serve what this mount speaks ({}).", mount.options));
    }
    Ok(observed)
}

/// The counters of the same mount in an earlier text.
fn earlier(text: &str, mount: &Mount) -> Result<Counters, String> {
    let before = Mount::find(text, &mount.at)
        .ok_or_else(|| format!("the earlier text has no NFS mount at {}", mount.at))?;
    if before.source != mount.source {
        let (at, was, is) = (&mount.at, &before.source, &mount.source);
        return Err(format!("{at} was a mount of {was} in the earlier text, and is one of {is} now"));
    }
    counters(&before).map_err(|wrong| format!("the earlier text: {wrong}"))
}

/// The place that was picked, or the only one.
pub(super) fn place<'m>(mut places: Vec<&'m str>, wanted: Option<&str>) -> Result<&'m str, String> {
    places.sort_unstable();
    places.dedup();
    let list = places.join(", ");
    match (places.as_slice(), wanted) {
        ([], _) => Err("it has no NFS mount".to_owned()),
        (_, Some(wanted)) => places
            .iter()
            .copied()
            .find(|place| place.trim_end_matches('/') == wanted.trim_end_matches('/'))
            .ok_or_else(|| format!("it has no NFS mount at {wanted}; allowed: {list}")),
        ([only], None) => Ok(only),
        _ => Err(format!("it has several NFS mounts; say which with --mount: {list}")),
    }
}

/// Its counters; its age is their time.
fn counters(mount: &Mount) -> Result<Counters, String> {
    let missing = |what: &str| {
        let allowed = "allowed: the mount's whole section of /proc/self/mountstats";
        format!("the line {what}: of {} is missing or cut off; {allowed}", mount.at)
    };
    let age_s = mount.age_s.ok_or_else(|| missing("age"))?;
    let bytes = mount.bytes.ok_or_else(|| missing("bytes"))?;
    if let Some(none) = ["READ", "WRITE"].iter().find(|name| !mount.calls.contains_key(**name)) {
        return Err(missing(none));
    }
    let mut counters = Counters {
        at_s: age_s as f64,
        read_bytes: bytes.from_server,
        written_bytes: bytes.to_server,
        ..Counters::default()
    };
    let mut ms = 0;
    for (name, calls) in &mount.calls {
        let count = match name.as_str() {
            "READ" | "READ_PLUS" => &mut counters.reads,
            "WRITE" => &mut counters.writes,
            _ => &mut counters.others,
        };
        *count += calls.count;
        if matches!(name.as_str(), "READ" | "READ_PLUS" | "WRITE") {
            ms += calls.ms;
        }
    }
    counters.us = Some(ms * 1000);
    Ok(counters)
}
