//! The kernel's counters of an NFS mount, since the mount or since an earlier reading.

use report::document::table::separated;

use super::counters::Counters;
use super::observed::{Observed, Pick};
use super::traffic::observed;
use crate::mountstats::{Mount, protocol};

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

fn earlier(text: &str, mount: &Mount) -> Result<Counters, String> {
    let before = Mount::find(text, &mount.at)
        .ok_or_else(|| format!("the earlier text has no NFS mount at {}", mount.at))?;
    if before.source != mount.source {
        let (at, was, is) = (&mount.at, &before.source, &mount.source);
        return Err(format!("{at} was a mount of {was} in the earlier text, and is one of {is} now"));
    }
    counters(&before).map_err(|wrong| format!("the earlier text: {wrong}"))
}

/// The wanted mount, or the only one.
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
    let mut ms = 0u64;
    for (name, calls) in &mount.calls {
        let (count, moves_data) = match name.as_str() {
            "READ" | "READ_PLUS" => (&mut counters.reads, true),
            "WRITE" => (&mut counters.writes, true),
            _ => (&mut counters.others, false),
        };
        *count = count.saturating_add(calls.count);
        ms = ms.saturating_add(if moves_data { calls.ms } else { 0 });
    }
    counters.us = Some(ms.saturating_mul(1000));
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use crate::error::Error;
    use envelope::{Access, Bytes, BytesPerSecond, Protocol, Stream};

    /// Two NFS mounts as Linux 6.1 prints them, and others. `/mnt/a b` has moved this many MiB in calls of
    /// 256 KiB and 8 KiB; `/home` nothing.
    fn text(age: u64, read_mib: u64, written_mib: u64, lookups: u64) -> String {
        let (read, written) = (read_mib << 20, written_mib << 20);
        let (reads, writes) = (read_mib * 4, written_mib * 128);
        let (sent, received, read_ms, write_ms) =
            (written + writes * 168, read + reads * 128, reads * 2, writes);
        format!(
            "device proc mounted on /proc with fstype proc\n\
             no device mounted on /x with fstype autofs\n\
             device 10.0.0.7:/data mounted on /mnt/a\\040b with fstype nfs statvers=1.1\n\
             \topts:\trw,vers=3,rsize=262144,wsize=262144,namlen=255,hard,nconnect=2,proto=tcp,timeo=600,sec=sys\n\
             \tage:\t{age}\n\
             \tcaps:\tcaps=0x3fef,wtmult=4096,dtsize=262144,bsize=0,namlen=255\n\
             \tsec:\tflavor=1,pseudoflavor=1\n\
             \tevents:\t31 5000 0 12 40 9 7000 20 0 33 0 18 6 2 40 3 0 40 0 0 9 0 0 0 0 0 0 \n\
             \tbytes:\t9 9 9 9 {read} {written} 9 9 \n\
             \tRPC iostats version: 1.1  p/v: 100003/3 (nfs)\n\
             \txprt:\ttcp 700 1 1 0 0 1000 1000 0 2000 0 2 0 0\n\
             \txprt:\ttcp 701 1 1 0 0 1000 1000 0 2000 0 2 0 0\n\
             \tper-op statistics\n\
             \t        NULL: 1 1 0 44 24 0 0 0 0\n\
             \t      LOOKUP: {lookups} {lookups} 0 0 0 0 9999 99999 0\n\
             \t        READ: {reads} {reads} 0 {reads} {received} 3 4 {read_ms} 0\n\
             \t       WRITE: {writes} {writes} 0 {sent} {writes} 3 4 {write_ms} 0\n\
             \n\
             device 10.0.0.8:/home mounted on /home with fstype nfs4 statvers=1.1\n\
             \topts:\trw,vers=4.0,proto=tcp\n\
             \tage:\t{age}\n\
             \tbytes:\t0 0 0 0 0 0 0 0 \n\
             \txprt:\ttcp 0 0 1 0 0 9 9 0 0 0 2 0 0\n\
             \t        READ: 0 0 0 0 0 0 0 0 0\n\
             \t       WRITE: 0 0 0 0 0 0 0 0 0\n\
             \t        NULL: 50 50 0 0 0 0 0 0 0\n"
        )
    }

    fn at(mount: &str) -> Pick {
        Pick { mount: Some(mount.to_owned()), ..Pick::default() }
    }

    fn since(earlier: String) -> Pick {
        Pick { since: Some(earlier), ..at("/mnt/a b") }
    }

    fn refused(text: &str, pick: &Pick) -> String {
        match read("it", text, pick).unwrap_err() {
            Error::Plan(wrong) => wrong,
            other => panic!("{other}"),
        }
    }

    fn stream(access: Access, block: u64, read_thousandths: u32, rate: u64) -> Stream {
        Stream { access, block: Bytes(block), read_thousandths, rate: BytesPerSecond(rate) }
    }

    #[test]
    fn counters_since_the_mount_are_an_average() {
        let found = read("it", &text(1024, 2048, 256, 5), &at("/mnt/a b/")).unwrap();
        let wanted = [
            stream(Access::Sequential, 256 << 10, 1000, 2 << 20),
            stream(Access::Random, 8 << 10, 0, 256 << 10),
        ];
        assert_eq!(found.streams, wanted);
        assert_eq!(found.source, "mountstats of /mnt/a b over 1,024 s");
        assert_eq!((found.clients, found.connections, found.average_percent), (Some(1), Some(2), None));
        assert_eq!(found.protocol, Some(Protocol::NfsV3));
        // 8,192 reads of 2 ms and 32,768 writes of 1 ms.
        assert_eq!(found.latency_us, Some(1200));
        assert!(
            found.notes[0].contains("no peak") && found.notes[1].contains("--pattern"),
            "{:?}",
            found.notes
        );
        assert_eq!(found.notes.len(), 3);
    }

    #[test]
    fn two_texts_have_the_load_between_them() {
        let found = read("it", &text(1034, 2148, 256, 9005), &since(text(1024, 2048, 256, 5))).unwrap();
        assert_eq!(found.streams, [stream(Access::Sequential, 256 << 10, 1000, 10 << 20)]);
        assert_eq!(
            (found.latency_us, found.source.as_str()),
            (Some(2000), "mountstats of /mnt/a b over 10 s")
        );
        assert!(
            found.notes.iter().any(|note| note.starts_with("900 operations/s are neither")),
            "{:?}",
            found.notes
        );
        let random = Pick { pattern: Some(Access::Random), ..since(text(1024, 2048, 256, 5)) };
        let found = read("it", &text(1034, 2148, 256, 5), &random).unwrap();
        assert_eq!(found.streams, [stream(Access::Random, 256 << 10, 1000, 10 << 20)]);
        assert!(found.notes.iter().all(|note| !note.contains("guessed")));
        // The mix of EDA counts what is neither.
        let eda = Pick { pattern: Some(Access::Eda), ..random };
        let found = read("it", &text(1034, 2148, 256, 9605), &eda).unwrap();
        assert_eq!(found.streams, [Stream::eda(envelope::Iops(1000))]);
    }

    #[test]
    fn counters_that_decrease_or_stop_are_refused() {
        let (before, after) = (text(1024, 2048, 256, 5), text(1034, 2148, 256, 5));
        assert!(refused(&before, &since(after.clone())).contains("-10 s passed"));
        assert!(refused(&before, &since(before.clone())).contains("it: 0 s passed"));
        assert!(refused(&text(2000, 10, 256, 5), &since(before.clone())).contains("went backwards"));
        let same = refused(&text(1034, 2048, 256, 905), &since(before.clone()));
        assert!(same.contains("nothing was read or written, and its 90 other"), "{same}");
        let moved = before.replace("10.0.0.7", "10.0.0.9");
        assert!(refused(&after, &since(moved)).contains("was a mount of 10.0.0.9:/data"));
        assert!(
            refused(&after, &since(String::new())).contains("the earlier text has no NFS mount at /mnt/a b")
        );
        assert!(refused(&text(0, 1, 1, 1), &at("/mnt/a b")).contains("0 s passed"));
    }

    #[test]
    fn mount_is_picked_and_must_be_whole() {
        let text = text(1024, 2048, 256, 5);
        assert!(refused(&text, &Pick::default()).ends_with("say which with --mount: /home, /mnt/a b"));
        assert!(refused(&text, &at("/mnt")).ends_with("no NFS mount at /mnt; allowed: /home, /mnt/a b"));
        assert!(refused(&text, &at("/home")).contains("nothing was read or written"));
        assert!(refused(text.lines().next().unwrap(), &Pick::default()).ends_with("it has no NFS mount"));
        for (end, missing) in
            [("\tage:", "age"), ("\tbytes:", "bytes"), ("  READ:", "READ"), ("WRITE: 32768 32", "WRITE")]
        {
            let cut = &text[..text.find(end).unwrap() + end.len()];
            let wrong = refused(cut, &Pick::default());
            assert!(wrong.contains(&format!("the line {missing}: of /mnt/a b")), "{wrong}");
        }
    }

    #[test]
    fn protocol_without_level_is_reported() {
        let used = text(1024, 2048, 256, 5).replace(",vers=3,", ",vers=4.0,");
        let found = read("it", &used, &at("/mnt/a b")).unwrap();
        assert!(found.protocol.is_none() && found.notes[3].contains("vers=4.0"), "{:?}", found.notes);
        let newer = used.replace("fstype nfs ", "fstype nfs4 ").replace(",vers=4.0,", ",vers=4.2,");
        assert_eq!(read("it", &newer, &at("/mnt/a b")).unwrap().protocol, Some(Protocol::NfsV42));
    }
}
